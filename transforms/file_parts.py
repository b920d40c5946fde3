"""Parts of files, which several workers read at once.

Nothing here imports Beam, so that a process that does nothing else starts in a tenth of a second.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from beam_pipeline.transforms.core.listing.line_blocks import LineBlock, scan_block
from beam_pipeline.transforms.storage import files

PART_BYTES = 8 << 20  # 8 MiB, some 200,000 rows


class FilePart(NamedTuple):
    """A part of a file, or a whole one.

    Attributes:
      uri: the file.
      begin, end: its bytes; `end` is -1 for all up to the end of the file.
      first_line: the number of its first line.
      regular: each of its line breaks is known to end a record.
    """

    uri: str
    begin: int = 0
    end: int = -1
    first_line: int = 1
    regular: bool = False

    @property
    def size(self) -> int:
        """Its bytes; 0 if they are not known."""
        return max(0, self.end - self.begin)

    def read(self) -> bytes:
        """Reads the part. Raises OSError."""
        data = files.read_part(self.uri, self.size, self.begin)
        if len(data) < self.size:
            raise OSError(f"{self.uri} has become shorter while it was read")
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


def parts_of(uri: str, blocks: Iterator[LineBlock]) -> Iterator[FilePart]:
    """Yields the parts of a file; from the first block that is not regular on, all is one part.

    Args:
      uri: the file.
      blocks: as they were found, in order.
    """
    end, line = 0, 1
    for block in blocks:
        if not block.regular:
            yield FilePart(uri, end, -1, line)
            return
        if block.lines:
            yield FilePart(uri, block.begin, block.end, line, regular=True)
        end, line = block.end, line + block.lines
