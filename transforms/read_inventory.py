"""Reads inventories, listings made elsewhere, into the batches of references that listing would give."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import TaggedOutput

from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.transforms.batches import ImageBatch
from beam_pipeline.transforms.cut_files import CutFiles
from beam_pipeline.transforms.run_elsewhere import RunElsewhere
from beam_pipeline.work.file_parts import FilePart
from beam_pipeline.work.inventory_task import GroupTask, InventoryTask, cut_of
from beam_pipeline.work.outcome import DEAD_LETTERS, TALLY, Outcome
from beam_pipeline.work.spill import spill_parts, unspill_all

_MANY_GROUPS = 256  # more than these, and inventories are large


class _ReadPart(RunElsewhere):
    """Reads a part of an inventory elsewhere; a large one that cannot be cut here, bit by bit."""

    def __init__(self, roots: tuple[ImageRoot, ...], groups: int) -> None:
        self._roots = roots
        self._groups = groups

    def process(self, part: FilePart) -> Iterator[tuple[int, bytes] | TaggedOutput]:
        task = InventoryTask(part, self._roots, self._groups)
        if part.read_at_once:
            yield from self.run(task, part.size)
            return
        tally = Tally()
        yield from spill_parts(task.read(tally))
        yield TaggedOutput(TALLY, tally)

    def outputs(self, outcome: Outcome) -> Iterator[Any]:
        yield from super().outputs(replace(outcome, main=spill_parts(outcome.main)))


class _ListGroup(RunElsewhere):
    """Yields the files of one group, each once."""

    def __init__(self, roots: tuple[ImageRoot, ...]) -> None:
        self._roots = roots

    def process(self, group: tuple[int, Iterable[bytes]]) -> Iterator[ImageBatch | TaggedOutput]:
        parts = unspill_all(group[1])
        yield from self.run(GroupTask(parts, self._roots), sum(map(len, parts)))


@dataclass(kw_only=True)
class ReadInventory(beam.PTransform):
    """Takes the images of every root from inventories instead of listing the roots.

    Attributes:
      files: URIs of the inventories.
      roots: folders of images; files elsewhere are skipped.
      groups: in how many groups rows are compared, so that each file is listed once.

    Returns (tagged): as `ListImages`.
    """

    files: tuple[str, ...]
    roots: tuple[ImageRoot, ...]
    groups: int = 256

    def expand(self, pipeline: beam.Pipeline) -> dict[str, beam.PCollection]:
        rows = (
            pipeline
            | "Inventories" >> beam.Create(self.files)
            | "CutFiles" >> CutFiles(cut_by=cut_of, spread=self.groups > _MANY_GROUPS)
            | "ReadFile"
            >> beam.ParDo(_ReadPart(self.roots, self.groups))
            .with_output_types(tuple[int, bytes])
            .with_outputs(TALLY, main="rows")
        )
        listed = (
            rows["rows"]
            | "GroupByKey" >> beam.GroupByKey()
            | "ListGroup"
            >> beam.ParDo(_ListGroup(self.roots))
            .with_output_types(ImageBatch)
            .with_outputs(DEAD_LETTERS, TALLY, main="images")
        )
        return {
            "images": listed["images"],
            DEAD_LETTERS: listed[DEAD_LETTERS],
            TALLY: (rows[TALLY], listed[TALLY]) | "AllTallies" >> beam.Flatten(),
        }
