"""Parts of label files, which several workers read at once, and their rows.

Nothing here imports Beam, so that a process that does nothing else starts in a tenth of a second.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO, NamedTuple

from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.dead_letters import DeadLetter, Reason, Stage, row_dead_letter
from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.core.failures import Refusal
from beam_pipeline.core.labels.join import UnnamedImages
from beam_pipeline.core.listing.cuts import LineRange, RowGroupRange
from beam_pipeline.core.listing.line_blocks import LineBlock, scan_block
from beam_pipeline.core.packed_batches import BATCH_SIZE, DeadLetterBatch, LabelBatch
from beam_pipeline.core.references import LabelRow
from beam_pipeline.core.uris import is_remote
from beam_pipeline.layouts.layout import LabelReader, PartReader
from beam_pipeline.storage import files
from beam_pipeline.storage.read_ahead import REMOTE_READS
from beam_pipeline.work.outcome import Outcome

PART_BYTES = 8 << 20  # 8 MiB, some 200,000 rows


class FilePart(NamedTuple):
    """A part of a file, or a whole one.

    Attributes:
      uri: the file.
      range: the part; None for the whole file, of an unknown size.
    """

    uri: str
    range: LineRange | RowGroupRange | None = None

    @property
    def size(self) -> int:
        """Its bytes; 0 if they are not known."""
        return self.range.size if self.range else 0

    @property
    def read_at_once(self) -> bool:
        """True if its rows are few enough to be in memory at once."""
        return self.range is not None and self.range.read_at_once


def read_lines(uri: str, lines: LineRange) -> bytes:
    """Reads some lines of a file, the end of which is known. Raises OSError."""
    data = files.read_part(uri, lines.size, lines.begin)
    if len(data) < lines.size:
        raise OSError(f"{uri} has become shorter while it was read")
    return data


@dataclass(frozen=True)
class ScanTask:
    """A part of a file that is looked at before it is read.

    Attributes:
      uri: the file.
      start, size: the part, in bytes.
      of: the bytes of the file.
      delimiter: what stands between cells, as `scan_block` has it.
    """

    uri: str
    start: int
    size: int
    of: int
    delimiter: str

    doing = "cutting a label file"

    def run(self) -> LineBlock:
        """Looks at the part. Raises OSError."""

        def read(offset: int, size: int) -> bytes:
            return files.read_part(self.uri, size, offset)

        return scan_block(
            read, start=self.start, size=self.size, of=self.of, delimiter=self.delimiter
        )


def scan_tasks(uri: str, size: int, delimiter: str, part_bytes: int) -> list[ScanTask]:
    """The tasks that look at a file; none if it is small, or its first line may not be the header.

    Raises:
      OSError: it cannot be read.
    """
    make = partial(ScanTask, uri, of=size, delimiter=delimiter, size=part_bytes)
    if size < 2 * part_bytes or not _begins_with_text(uri):
        return []
    return [make(start=start) for start in range(0, size, part_bytes)]


def _begins_with_text(uri: str) -> bool:
    """True if the first line is a record; in a file with empty lines before the header it is not."""
    first = files.read_part(uri, 1 << 16, 0).partition(b"\n")[0]
    return any(byte.isalnum() and byte.isascii() for byte in map(chr, first))


def line_ranges(blocks: Iterable[LineBlock]) -> Iterator[LineRange]:
    """Yields the ranges of a file; from the first block that is not regular on, all is one range.

    Args:
      blocks: as they were found, in order.
    """
    end, line = 0, 1
    for block in blocks:
        if not block.regular:
            yield LineRange(end, -1, line)
            return
        if block.lines:
            yield LineRange(block.begin, block.end, line, regular=True)
        end, line = block.end, line + block.lines


_NAME = LabelRow._fields.index("name")

_Found = LabelRow | DeadLetter | LabelBatch


@dataclass(frozen=True)
class RowsTask:
    """Files, or parts of files, with labels.

    Attributes:
      parts: the files.
      reader: reads them.
      unnamed: makes the rows of files that cannot be read; None for dead letters.
    """

    parts: Sequence[FilePart]
    reader: LabelReader
    unnamed: UnnamedImages | None = None

    def run(self) -> Outcome:
        """Reads the rows."""
        tally, dead_letters = Tally(), DeadLetterBatch()
        batches = [rows.kept_packed() for rows in self.read(tally, dead_letters)]
        return self.outcome(batches, tally, dead_letters)

    def outcome(
        self, batches: Sequence[LabelBatch], tally: Tally, dead_letters: DeadLetterBatch
    ) -> Outcome:
        """The outcome of rows that were read."""
        tally.orphan_rows = len(dead_letters)
        tally.add_dead_letters(dead_letters)
        return Outcome(batches, tally, dead_letters)

    def read(self, tally: Tally, dead_letters: DeadLetterBatch) -> Iterator[LabelBatch]:
        """Yields the rows in batches, counts them, and adds those that are broken to dead letters."""
        rows = LabelBatch()
        for found in self._read(tally):
            if isinstance(found, LabelBatch):
                tally.label_rows += len(found)
                if rows:
                    yield rows
                    rows = LabelBatch()
                yield found
                continue
            tally.label_rows += 1
            if isinstance(found, DeadLetter):
                dead_letters.append(found)
            else:
                rows.append(found)
            if len(rows) >= BATCH_SIZE:
                yield rows
                rows = LabelBatch()
        if rows:
            yield rows

    def _read(self, tally: Tally) -> Iterator[_Found]:
        several = len(self.parts) > 1 and is_remote(self.parts[0].uri)
        for rows in self._read_at_once() if several else map(self._read_part, self.parts):
            try:
                yield from rows
            except LabelTableError as error:
                tally.refusals.append(Refusal.from_error(error))

    def _read_at_once(self) -> Iterator[Iterator[_Found]]:
        """Yields the rows of each file in turn; reads small files of a bucket in threads."""

        def read(part: FilePart) -> list[_Found]:
            return list(self._read_part(part))

        def rows_of(future: Future[list[_Found]]) -> Iterator[_Found]:
            yield from future.result()

        threads = ThreadPoolExecutor(REMOTE_READS, thread_name_prefix="labels")
        try:
            yield from map(rows_of, [threads.submit(read, part) for part in self.parts])
        finally:
            threads.shutdown(cancel_futures=True)

    def _read_part(self, part: FilePart) -> Iterator[_Found]:
        reader, lines = self.reader, part.range
        try:
            file = _opened(part)
        except OSError as error:
            yield self._unread(part.uri, f"cannot be read: {error.strerror or error}")
            return
        with file:
            if lines is None or not isinstance(reader, PartReader):
                yield from reader.read(file, part.uri)
            else:
                yield from reader.read_part(file, part.uri, lines)

    def _unread(self, uri: str, what: str) -> LabelRow | DeadLetter:
        if self.unnamed:
            return self.unnamed.unread(uri, what)
        return row_dead_letter(
            stage=Stage.LABELS, key=uri, reason=Reason.BAD_ROW, message=what, file=uri, line=0
        )


def _opened(part: FilePart) -> BinaryIO:
    """The lines of a part; or the file, at the part's first line. Raises OSError."""
    lines = part.range
    if isinstance(lines, LineRange) and lines.read_at_once:
        return io.BytesIO(read_lines(part.uri, lines))
    file = files.open_input(part.uri)
    file.seek(lines.begin if isinstance(lines, LineRange) else 0)
    return file
