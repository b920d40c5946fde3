"""Cuts large files into parts, so that they are read by several workers at once."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import apache_beam as beam

from beam_pipeline.core.listing.cuts import (
    ByLines,
    ByRowGroups,
    Cut,
    LineRange,
    RowGroupRange,
)
from beam_pipeline.core.listing.line_blocks import LineBlock
from beam_pipeline.core.listing.row_groups import cut_row_groups
from beam_pipeline.storage import files
from beam_pipeline.transforms.in_workers import InWorkers
from beam_pipeline.work import writer_process
from beam_pipeline.work.file_parts import (
    PART_BYTES,
    FilePart,
    ScanTask,
    line_ranges,
    scan_tasks,
)
from beam_pipeline.work.outcome import Outcome

CutBy = Callable[[str], Cut | None]
"""Returns how a file may be cut, None if it may not; may raise OSError."""

_PARQUET_SHARE = 4  # a row takes about a quarter of its text's bytes


def cut_file(uri: str, cut_by: CutBy, part_bytes: int) -> list[FilePart]:
    """The parts of a file; one that cannot be read or cut is one part.

    Args:
      uri: the file.
      cut_by: tells how it may be cut.
      part_bytes: the size of a part, roughly; of a Parquet file, before compression.
    """
    ranges: list[LineRange] | list[RowGroupRange] = []
    try:
        size, cut = files.size_of(uri), cut_by(uri)
        if isinstance(cut, ByLines):
            ranges = _cut_lines(uri, size, cut.delimiter, part_bytes)
        elif isinstance(cut, ByRowGroups) and size >= part_bytes // _PARQUET_SHARE:
            with files.open_input(uri) as file:
                ranges = cut_row_groups(file, part_bytes)
    except OSError:  # reading says why
        ranges = []
    return [FilePart(uri, part) for part in ranges] or [FilePart(uri)]


def _cut_lines(uri: str, size: int, delimiter: str, part_bytes: int) -> list[LineRange]:
    tasks = scan_tasks(uri, size, delimiter, part_bytes)
    if tasks:
        return list(line_ranges(_scanned(tasks)))
    return [LineRange(0, size)] if 0 < size < 2 * part_bytes else []


def _scanned(tasks: Sequence[ScanTask]) -> Iterator[LineBlock]:
    running: writer_process.Tasks[LineBlock] = writer_process.Tasks(repeat=True)
    started = (result for task in tasks for result in running.submit(task))
    for result in itertools.chain(started, running.rest()):
        yield result()


def _cut(uri: str, cut_by: CutBy) -> Iterator[Outcome]:
    yield Outcome(cut_file(uri, cut_by, PART_BYTES))


@dataclass(kw_only=True)
class CutFiles(beam.PTransform):
    """Takes URIs of files; returns their `FilePart`s.

    Attributes:
      cut_by: tells how a file may be cut.
      spread: some are large, so that their parts should go to several workers.
    """

    cut_by: CutBy
    spread: bool

    def expand(self, uris: beam.PCollection[str]) -> beam.PCollection[FilePart]:
        parts = uris | "Cut" >> beam.ParDo(
            InWorkers(partial(_cut, cut_by=self.cut_by))
        ).with_output_types(FilePart)
        return parts | "Spread" >> beam.Reshuffle() if self.spread else parts
