"""Times ways to convert the same images, side by side.

    python benchmarks/make_images.py /tmp/images --set imagenet
    python benchmarks/environments.py --into /tmp/bench-envs
    python benchmarks/compare.py --images /tmp/images --output /dev/shm/compare --environments /tmp/bench-envs

Every round runs each way twice, in turn, as a whole process with everything that it starts: on ten
images, which shows the start-up, and on all of them. A round before them does not count; in it, memory
is measured and the output of each way is read and compared with the images. The table shows medians
over the rounds, with the span, and each way's ratio to the first as the median of the rounds' own
ratios. README.md defines each figure and lists the other options.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
from collections.abc import Sequence

import measure
from inputs import cool, few_of, list_images, size_text
from rounds import Job, Settings, interleave
from ways import choose

HEAD = [
    "way",
    "wall s, median (span)",
    "of that start-up s",
    "CPU s",
    "peak MB",
    "wall, ratio to the first",
]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Formats a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def ratio_to(first: Sequence[float], these: Sequence[float]) -> str:
    """Returns the median of the rounds' own ratios; empty if there is nothing to compare with."""
    if not first:
        return ""
    return f"{statistics.median(a / b for a, b in zip(these, first, strict=True)):.2f}"


def rows(jobs: Sequence[Job]) -> list[list[str]]:
    """Makes one table row per job; the others are compared with the first job."""
    first = [run.wall for run in jobs[0].runs]
    lines = []
    for job in jobs:
        if not job.runs:
            lines.append([job.way.name, "failed" if job.fault else "checked", *[""] * 4])
            continue
        walls = [run.wall for run in job.runs]
        lines.append(
            [
                job.way.name,
                f"{statistics.median(walls):.2f} ({min(walls):.2f}-{max(walls):.2f})",
                f"{statistics.median(job.start_ups):.2f}",
                f"{job.median('cpu'):.2f}",
                f"{job.memory:.0f}",
                ratio_to(first, walls),
            ]
        )
    return lines


def report(jobs: Sequence[Job], settings: Settings, about: dict[str, object]) -> dict[str, object]:
    """Collects all settings, facts and figures, for JSON."""
    images = jobs[0].images
    return {
        "title": images.title,
        "images": {"count": len(images.files), "bytes": images.bytes},
        "input": measure.file_system(images.folder),
        "output": measure.file_system(os.path.dirname(settings.output)),
        "cache": "cold" if settings.cold else "warm",
        "workers": settings.workers,
        "shards": settings.shards,
        "machine": about,
        "ways": [
            {
                "name": job.way.name,
                "versions": measure.versions(job.way.python, job.way.packages),
                "shards": job.shards,
                "fault": job.fault,
                "memory": job.memory,
                "start_ups": job.start_ups,
                "runs": [run._asdict() for run in job.runs],
            }
            for job in jobs
        ],
    }


def save(path: str | None, content: dict[str, object]) -> None:
    """Writes JSON, if a path is given."""
    if path:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(content, file, indent=1)
            file.write("\n")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments that compare and slope share."""
    parser.add_argument(
        "--output", required=True, help="folder that may be removed, on the disk to write to"
    )
    parser.add_argument("--environments", default="", help="folder that environments.py filled")
    parser.add_argument("--rounds", type=int, default=5, help="0 only checks the output")
    parser.add_argument("--shards", type=int, default=16)
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count(), help="CPUs that a run may use"
    )
    parser.add_argument(
        "--cache", choices=["warm", "cold"], default="warm", help="page cache of the images"
    )
    parser.add_argument(
        "--limit", type=float, default=1800, help="seconds after which a run is stopped"
    )
    parser.add_argument("--ways", nargs="+", help="names; the others are compared with the first")
    parser.add_argument("--json", help="file for all figures, written after every round")


def settings_of(arguments: argparse.Namespace, parser: argparse.ArgumentParser) -> Settings:
    """Makes the settings from the arguments."""
    if os.path.exists(arguments.output):
        parser.error(f"{arguments.output} exists; name a folder that is not there yet")
    allowed = len(os.sched_getaffinity(0))
    if not 1 <= arguments.workers <= allowed:
        parser.error(f"--workers {arguments.workers}: there are 1 to {allowed} CPUs")
    return Settings(
        output=os.path.abspath(arguments.output),
        rounds=arguments.rounds,
        shards=arguments.shards,
        workers=arguments.workers,
        cold=arguments.cache == "cold",
        limit_s=arguments.limit,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--images", required=True, help="class folders of images")
    add_arguments(parser)
    arguments = parser.parse_args()
    settings = settings_of(arguments, parser)
    try:
        chosen, missing = choose(arguments.ways, arguments.environments)
        images = list_images(os.path.abspath(arguments.images))
        if settings.cold:
            cool(images)  # fails now if it cannot be done
    except ValueError as error:
        parser.error(str(error))
    about = measure.describe()
    for way in missing:
        print(f"{way.name} is left out: {way.missing}")
    on = measure.file_system(images.folder)
    print(f"{images.title}, {size_text(images.bytes)}, on {on}")
    print(f"{settings}\n{measure.sentence(about)}", flush=True)
    # no fewer than shards, or TFDS fails
    few = few_of(images, max(10, settings.shards), f"{settings.output}-few")
    jobs = [Job(way, images, few) for way in chosen]

    def after(number: int) -> None:
        print(f"round {number} of {settings.rounds}", flush=True)
        save(arguments.json, report(jobs, settings, about))

    try:
        interleave(jobs, settings, after)
    finally:
        shutil.rmtree(few.folder)
    print(
        f"\n{table(HEAD, rows(jobs))}\n{measure.sentence(about)}. Ratios differ between machines."
    )
    for job in jobs:
        if not job.fault and job.shards != settings.shards:
            print(f"{job.way.name} wrote {job.shards} files")
    if any(job.fault for job in jobs):
        sys.exit(1)


if __name__ == "__main__":
    main()
