"""How large files are cut, and the ranges into which they are cut, for several workers to read at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

_MOST_AT_ONCE = 256 << 20  # 256 MiB


@dataclass(frozen=True)
class ByLines:
    """A file of text is cut after lines.

    Attributes:
      delimiter: the separator of cells; empty if quotes mean nothing to its lines.
    """

    delimiter: str


@dataclass(frozen=True)
class ByRowGroups:
    """A Parquet file is cut between its row groups."""


Cut = ByLines | ByRowGroups


class LineRange(NamedTuple):
    """Whole lines of a file.

    Attributes:
      begin, end: their bytes; `end` is -1 for all up to the end of the file.
      first: the number of the first line.
      regular: each of their line breaks is known to end a record.
    """

    begin: int = 0
    end: int = -1
    first: int = 1
    regular: bool = False

    @property
    def size(self) -> int:
        """Their bytes; 0 if they are not known."""
        return max(0, self.end - self.begin)

    @property
    def read_at_once(self) -> bool:
        """True if they are few enough to be in memory at once."""
        return self.end >= 0


class RowGroupRange(NamedTuple):
    """Row groups of a Parquet file that follow one another.

    Attributes:
      begin, end: indices of the first row group and of the one after the last.
      first: the number of their first row, from 1.
      rows: how many rows they have.
      size: their bytes before compression, which the file records.
    """

    begin: int
    end: int
    first: int
    rows: int
    size: int

    @property
    def read_at_once(self) -> bool:
        """True if their rows are few enough to be in memory at once."""
        return self.size <= _MOST_AT_ONCE
