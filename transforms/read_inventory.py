"""Reads inventories, listings made elsewhere, into the batches of references that listing would give."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import apache_beam as beam

from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.transforms.batches import ImageBatch
from beam_pipeline.transforms.cut_files import CutFiles
from beam_pipeline.transforms.in_workers import InWorkers, Step, task_or_outcome
from beam_pipeline.work.file_parts import FilePart
from beam_pipeline.work.inventory_task import GroupTask, InventoryTask, cut_of
from beam_pipeline.work.outcome import DEAD_LETTERS, TALLY, Outcome
from beam_pipeline.work.spill import spill_parts, unspill_all

_MANY_GROUPS = 256  # more than these, and inventories are large


@dataclass(frozen=True)
class _ReadingInventory:
    """Reads a part of an inventory; a large one that cannot be cut here, bit by bit."""

    roots: tuple[ImageRoot, ...]
    groups: int

    def __call__(self, part: FilePart) -> Iterator[Step]:
        task = InventoryTask(part, self.roots, self.groups)
        if part.read_at_once:
            yield task_or_outcome(task, part.size)
            return
        tally = Tally()
        yield Outcome(task.read(tally))
        yield Outcome(tally=tally)


class _Read(InWorkers):
    """Keeps what the engine moves in a file where the job has one."""

    def _outputs(self, outcome: Outcome) -> Iterator[Any]:
        yield from super()._outputs(replace(outcome, main=spill_parts(outcome.main)))


def _list_group(group: tuple[int, Iterable[bytes]], roots: tuple[ImageRoot, ...]) -> Iterator[Step]:
    """The files of one group, each once."""
    parts = unspill_all(group[1])
    yield task_or_outcome(GroupTask(parts, roots), sum(map(len, parts)))


@dataclass(kw_only=True)
class ReadInventory(beam.PTransform):
    """Takes the images of every root from inventories instead of listing the roots.

    Attributes:
      files: URIs of the inventories.
      roots: folders of images; files elsewhere are skipped.
      groups: in how many groups rows are compared, so that each file is listed once.
      raises: raise what cannot be read; False where `PlanShards` collects it from the tallies.

    Returns (tagged): as `ListImages`.
    """

    files: tuple[str, ...]
    roots: tuple[ImageRoot, ...]
    groups: int = 256
    raises: bool = True

    def expand(self, pipeline: beam.Pipeline) -> dict[str, beam.PCollection]:
        rows = (
            pipeline
            | "Inventories" >> beam.Create(self.files)
            | "CutFiles" >> CutFiles(cut_by=cut_of, spread=self.groups > _MANY_GROUPS)
            | "ReadFile"
            >> beam.ParDo(_Read(_ReadingInventory(self.roots, self.groups), raises=self.raises))
            .with_output_types(tuple[int, bytes])
            .with_outputs(TALLY, main="rows")
        )
        listed = (
            rows["rows"]
            | "GroupByKey" >> beam.GroupByKey()
            | "ListGroup"
            >> beam.ParDo(InWorkers(partial(_list_group, roots=self.roots), raises=self.raises))
            .with_output_types(ImageBatch)
            .with_outputs(DEAD_LETTERS, TALLY, main="images")
        )
        return {
            "images": listed["images"],
            DEAD_LETTERS: listed[DEAD_LETTERS],
            TALLY: (rows[TALLY], listed[TALLY]) | "AllTallies" >> beam.Flatten(),
        }
