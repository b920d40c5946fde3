"""Runs ways in interleaved rounds, so that drifts in the machine's speed affect all of them alike."""

from __future__ import annotations

import os
import shutil
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import inputs
import measure
import outputs
from inputs import Images
from measure import Figures
from ways import Way


@dataclass(frozen=True)
class Settings:
    """Settings of all runs.

    Attributes:
      output: folder that each run writes; removed after it.
      rounds: number of rounds that count; one more comes first, in which the output is checked and
        memory is measured.
      shards: number of files to write, if a way has such a setting.
      workers: number of CPUs that all processes of a run may use.
      cold: drop the images from the page cache before each run.
      limit_s: seconds after which a run is stopped.
      memory_share: share of the free memory above which a run is stopped.
    """

    output: str
    rounds: int
    shards: int
    workers: int
    cold: bool
    limit_s: float
    memory_share: float = 0.8

    def __str__(self) -> str:
        cpus = "1 CPU" if self.workers == 1 else f"{self.workers} CPUs"
        rounds = "1 round" if self.rounds == 1 else f"{self.rounds} rounds"
        parts = [rounds, f"{self.shards} shards", cpus]
        parts.append(f"{'cold' if self.cold else 'warm'} page cache")
        return ", ".join([*parts, f"output on {measure.file_system(os.path.dirname(self.output))}"])


@dataclass
class Job:
    """A way, the images that it converts, and its figures in each round.

    Attributes:
      memory: peak MB of all processes, measured in a run of its own.
      start_ups: seconds for `few` images in each round, which are the start and the end alone.
      shards: number of files that it wrote.
      fault: why it was stopped; empty if it was not.
    """

    way: Way
    images: Images
    few: Images | None = None
    runs: list[Figures] = field(default_factory=list)
    start_ups: list[float] = field(default_factory=list)
    memory: float = 0.0
    shards: int = 0
    fault: str = ""

    def median(self, figure: str) -> float:
        """Returns the median of a figure over the rounds."""
        return float(statistics.median(getattr(run, figure) for run in self.runs))


def interleave(jobs: Sequence[Job], settings: Settings, after: Callable[[int], None]) -> None:
    """Runs all jobs once per round, in turn, and fills in their results.

    Args:
      jobs: the jobs to run; one that fails is skipped from then on.
      settings: settings of all runs.
      after: called with the round's number after each round; 0 is the one that does not count.
    """
    cpus = sorted(os.sched_getaffinity(0))[: settings.workers]
    if not settings.cold:
        for images in {job.images.folder: job.images for job in jobs}.values():
            inputs.warm(images)
    for number in range(settings.rounds + 1):
        for job in jobs:
            if not job.fault:
                _run(job, settings, cpus, checked=number == 0)
        after(number)


def _run(job: Job, settings: Settings, cpus: Sequence[int], *, checked: bool) -> None:
    try:
        if job.few and not checked:
            job.start_ups.append(_measure(job, job.few, settings, cpus).wall)
        figures = _measure(job, job.images, settings, cpus, checked=checked)
        if checked:
            job.memory = figures.memory
        else:
            job.runs.append(figures)
    except (measure.RunError, ValueError) as error:
        job.fault = str(error)
        job.runs.clear()
        print(f"{job.way.name}: {error}", flush=True)


def _measure(
    job: Job, images: Images, settings: Settings, cpus: Sequence[int], *, checked: bool = False
) -> Figures:
    if settings.cold:
        inputs.cool(images)
    else:
        os.sync()  # so that no run pays for pages that the run before left to write
    command = job.way.command(images.folder, settings.output, settings.shards, settings.workers)
    limit_bytes = settings.memory_share * measure.available_bytes() if checked else 0
    try:
        figures = measure.run(command, cpus=cpus, limit_s=settings.limit_s, limit_bytes=limit_bytes)
        if checked:
            job.shards = outputs.check(images, settings.output, job.way.read)
        return figures
    finally:
        shutil.rmtree(settings.output, ignore_errors=True)
