"""Cuts large files of lines into parts, so that they are read by several workers at once."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import apache_beam as beam

from beam_pipeline.transforms import writer_process
from beam_pipeline.transforms.core.listing.line_blocks import LineBlock
from beam_pipeline.transforms.file_parts import (
    PART_BYTES,
    FilePart,
    ScanTask,
    parts_of,
    scan_tasks,
)
from beam_pipeline.transforms.storage import files

Delimiter = Callable[[str], str | None]
"""Returns what stands between the cells of a file, as `LineReader.delimiter` does; may raise OSError."""


def cut_file(uri: str, delimiter: Delimiter, part_bytes: int = PART_BYTES) -> Iterator[FilePart]:
    """Yields the parts of a file; one that cannot be read or cut is one part.

    Args:
      uri: the file.
      delimiter: tells how it may be cut.
      part_bytes: the size of a part, roughly.
    """
    try:
        size, mark = files.size_of(uri), delimiter(uri)
        tasks = scan_tasks(uri, size, mark, part_bytes) if mark is not None else []
        if tasks:
            yield from parts_of(uri, _scanned(tasks))
        elif mark is not None and 0 < size < 2 * part_bytes:
            yield FilePart(uri, 0, size)
        else:
            yield FilePart(uri)
    except OSError:  # reading says why
        yield FilePart(uri)


def _scanned(tasks: Sequence[ScanTask]) -> Iterator[LineBlock]:
    running: writer_process.Tasks[LineBlock] = writer_process.Tasks(repeat=True)
    started = (result for task in tasks for result in running.submit(task))
    for result in itertools.chain(started, running.rest()):
        yield result()


class _Cut(beam.DoFn):
    def __init__(self, delimiter: Delimiter) -> None:
        self._delimiter = delimiter

    def process(self, uri: str) -> Iterator[FilePart]:
        yield from cut_file(uri, self._delimiter)


@dataclass(kw_only=True)
class CutFiles(beam.PTransform):
    """Takes URIs of files; returns their `FilePart`s.

    Attributes:
      delimiter: tells how a file may be cut.
      spread: some are large, so that their parts should go to several workers.
    """

    delimiter: Delimiter
    spread: bool

    def expand(self, uris: beam.PCollection[str]) -> beam.PCollection[FilePart]:
        parts = uris | "Cut" >> beam.ParDo(_Cut(self.delimiter)).with_output_types(FilePart)
        return parts | "Spread" >> beam.Reshuffle() if self.spread else parts
