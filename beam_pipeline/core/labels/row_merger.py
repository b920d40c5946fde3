"""Makes one row of all that name the same image, or tells which two disagree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.labels.row_samples import RowSamples
from beam_pipeline.core.references import ImageRef, LabelRow, LabelValue


class UnnamedImages(Protocol):
    """Speaks for images that no row names, where that tells something of them: it is pickled."""

    def row(self, image: ImageRef) -> LabelRow:
        """The row for an image without one."""

    def unread(self, uri: str, problem: str) -> LabelRow | DeadLetter:
        """The row of a label file that cannot be read, if it is of one image, else a dead letter."""


@dataclass(frozen=True)
class RowMerger:
    """Makes one row of all that name the same image.

    Attributes:
      repeated: of each column, whether the rows' lists are put together; the other columns, and
        all where this is empty, must agree.
      unnamed: what images without a row represent; None to leave them out.
      complete: what rows are that complete each other, such as "mask": each is a file, and fills columns that
        others leave empty; empty where rows do not.
      by_folder: the first column is empty in every row: it is the class, which is the image's folder.
      unique: of each column, whether a value of several rows is in the list once.
      samples: makes a sample of each row instead; None to merge rows.
      imageless: makes samples of rows that name no image; None where there are none.
    """

    repeated: tuple[bool, ...] = ()
    unnamed: UnnamedImages | None = None
    complete: str = ""
    by_folder: bool = False
    unique: tuple[bool, ...] = ()
    samples: RowSamples | None = None
    imageless: RowSamples | None = None

    def distinct(self, rows: Sequence[LabelRow]) -> Sequence[LabelRow]:
        """The rows without those that tell again what an earlier one states."""
        seen: dict[Any, LabelRow] = {}
        for row in rows:
            values = tuple(map(_without_lines, row.values))
            seen.setdefault((row.problem, row.split, values), row)
        return list(seen.values())

    def merge(self, rows: Sequence[LabelRow]) -> LabelRow | tuple[LabelRow, LabelRow]:
        """The one row, or two that disagree.

        Args:
          rows: of one image, in the order of the label files.

        Returns: the row names no file if its lists come from several, because a box has but a line.
        """
        first = rows[0]
        if self.complete:
            return self._completed(rows)
        for row in rows[1:]:
            if row.split != first.split or self._single(row) != self._single(first):
                return first, row
        if not any(self.repeated):
            return first
        values: tuple[Any, ...] = tuple(
            _put_together(row.values[index] for row in rows) if repeated else first.values[index]
            for index, repeated in enumerate(self.repeated)
        )
        if any(self.unique):
            values = tuple(
                tuple(dict.fromkeys(value)) if unique else value
                for value, unique in zip(values, self.unique, strict=True)
            )
        if all(row.file == first.file for row in rows):
            return first._replace(values=values)
        return first._replace(values=tuple(map(_without_lines, values)), file="", line=0)

    def listed(self, rows: Sequence[tuple[LabelValue, ...]]) -> Sequence[tuple[LabelValue, ...]]:
        """The values of rows that are the only ones of their images: lists that are put together are not None."""
        if not any(self.repeated):
            return rows
        return [
            tuple(
                () if value is None and many else value
                for value, many in zip(values, self.repeated, strict=True)
            )
            if None in values
            else values
            for values in rows
        ]

    def _completed(self, rows: Sequence[LabelRow]) -> LabelRow | tuple[LabelRow, LabelRow]:
        merged = rows[0]
        for row in rows[1:]:
            for value, further in zip(merged.values, row.values, strict=True):
                if None not in (value, further) and value != further:
                    return merged, row
            if merged.split and row.split and merged.split != row.split:
                return merged, row
            values = (b if a is None else a for a, b in zip(merged.values, row.values, strict=True))
            merged = merged._replace(values=tuple(values), split=merged.split or row.split)
        return merged

    def _single(self, row: LabelRow) -> list[LabelValue]:
        repeated = self.repeated or (False,) * len(row.values)
        return [value for value, many in zip(row.values, repeated, strict=True) if not many]


def _put_together(lists: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(item for values in lists for item in values or ())


def _without_lines(value: Any) -> Any:
    """A value as it is, boxes without the lines they came from."""
    if not isinstance(value, tuple):
        return value
    return tuple((*item[:4], 0) if isinstance(item, tuple) else item for item in value)


AGREE = RowMerger()
