"""Label files to read, as a unit of work for any worker.

Nothing here imports Beam, so that a process that does nothing else starts in a tenth of a second.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import BinaryIO

from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.dead_letters import DeadLetter, Reason, Stage, row_dead_letter
from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.core.failures import Refusal
from beam_pipeline.core.labels.join import UnnamedImages
from beam_pipeline.core.labels.meeting import BareNames, ByFolder
from beam_pipeline.core.listing.cuts import LineRange
from beam_pipeline.core.packed_batches import BATCH_SIZE, DeadLetterBatch, LabelBatch
from beam_pipeline.core.references import LabelRow
from beam_pipeline.core.uris import is_remote
from beam_pipeline.layouts.layout import LabelReader, PartReader
from beam_pipeline.storage import files
from beam_pipeline.storage.read_ahead import REMOTE_READS
from beam_pipeline.work.file_parts import FilePart, read_lines
from beam_pipeline.work.outcome import BARE_NAMES, Outcome

_NAME = LabelRow._fields.index("name")

_Found = LabelRow | DeadLetter | LabelBatch


@dataclass(frozen=True)
class RowsTask:
    """Files, or parts of files, with labels.

    Attributes:
      parts: the files.
      reader: reads them.
      unnamed: makes the rows of files that cannot be read; None for dead letters.
      by_folder: tells which rows name their images without a folder; None if that does not matter.
    """

    parts: Sequence[FilePart]
    reader: LabelReader
    unnamed: UnnamedImages | None = None
    by_folder: ByFolder | None = None

    doing = "reading labels"

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
        bare = [(BARE_NAMES, self.bare_names(batches))] if self.by_folder else []
        return Outcome(batches, tally, dead_letters, bare)

    def bare_names(self, batches: Sequence[LabelBatch]) -> BareNames:
        """The names that rows give without a folder."""
        assert self.by_folder
        names = (batch.columns()[_NAME] for batch in batches)
        return BareNames.sum_of(map(self.by_folder.bare_names, names))

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
