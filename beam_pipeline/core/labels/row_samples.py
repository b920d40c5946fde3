"""Several samples of an image: its rows (`--sample row`), or its objects (`--crop_boxes`).

Both are made where images meet their labels, before the shuffle, so that all that follows deals with
samples as ever: each has a key, a split and a place in a shard, a reference of some hundred bytes.

    a.jpg   rows in lines 2, 7 and 9   ->   a.jpg#0  a.jpg#1  a.jpg#2
            with --row_id question     ->   a.jpg#q4 a.jpg#q9 a.jpg#q5
    no image: a row of talks.jsonl     ->   talks.jsonl:6f1a..., a digest; with --row_id talks.jsonl:q8
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from beam_pipeline.core.dead_letters import DeadLetter, Reason, Stage, image_dead_letter
from beam_pipeline.core.labels.moved import without_boxes
from beam_pipeline.core.labels.schema import Column, ColumnKind, class_column, label_column
from beam_pipeline.core.packed_batches import LabelBatch
from beam_pipeline.core.references import (
    DEFAULT_SPLIT,
    ROW_MARK,
    ImageRef,
    LabelRow,
    SampleRef,
    row_key,
)

SAMPLES = ("image", "row")
"""The values of --sample; the first is the default."""

NO_IMAGE = ("drop", "keep")
"""The values of --no_image; the first is the default."""


_NO_IMAGE_MARK = "\0"  # begins the name of a row that names no image, which no file's name contains
_DIGEST_BYTES = 8


@dataclass(frozen=True)
class RowSamples:
    """Makes a sample of each row.

    Attributes:
      ids: index of the column whose values tell the rows of an image apart; None to number them.
      group: index of the column of --split_by, in which the rows of an image must agree; None without one.
      folder: of the label files, from which the keys of rows without an image count.
    """

    ids: int | None = None
    group: int | None = None
    folder: str = ""

    def of_image(
        self, image: ImageRef, rows: Sequence[LabelRow], split: str = DEFAULT_SPLIT
    ) -> Iterator[SampleRef | DeadLetter]:
        """Yields the sample or dead letter of each row of an image.

        Args:
          image: the image; without a URI, its key is the name that the rows share.
          rows: its rows, in the order of their files and lines.
          split: the split of rows that state none.
        """
        ids = [self._id(row) for row in rows]
        counts = Counter(ids)
        sound = [row for row in rows if not row.problem]
        group = self.group
        sides = {(row.split, None if group is None else row.values[group]) for row in sound}
        for number, (row_id, row) in enumerate(zip(ids, rows, strict=True)):
            reason, fault = Reason.BAD_LABEL_VALUE, row.problem
            if not fault and self.ids is not None and row_id is None:
                fault = "the column of --row_id is empty"
            elif not fault and row_id is not None and counts[row_id] > 1:
                reason = Reason.DUPLICATE_KEY
                fault = "another row has the same id (--row_id); expected one of its own"
            elif not fault and len(sides) > 1:
                reason = Reason.CONFLICTING_LABELS
                fault = (
                    "rows of this image differ in their split, or in the column of --split_by; expected the "
                    "same in all rows of an image"
                )
            key = row_key(image.key, number if row_id is None else row_id)
            if not image.uri:
                key = f"{image.key}-{number}" if number else image.key
            yield _outcome(image._replace(key=key), row, split, reason, fault)

    def with_names(self, rows: LabelBatch) -> LabelBatch:
        """Rows with a name for those without an image: their id or digest, by which equal ones meet."""
        if all(row.name for row in rows):
            return rows
        return LabelBatch(
            row if row.name else row._replace(name=f"{_NO_IMAGE_MARK}{self._token(row)}")
            for row in rows
        )

    def without_images(self, rows: Iterable[LabelRow]) -> Iterator[SampleRef | DeadLetter]:
        """Yields the sample or dead letter of each row without an image; those of equal names are all given."""
        by_name: dict[str, list[LabelRow]] = defaultdict(list)
        for row in sorted(rows, key=lambda row: (row.line, row.split, repr(row.values))):
            name = f"{row.file.removeprefix(self.folder)}:{row.name[1:]}"
            by_name[name.replace(ROW_MARK, "%23")].append(row)
        for name, of_name in sorted(by_name.items()):
            yield from self.of_image(ImageRef(name, "", 0), of_name)

    def _token(self, row: LabelRow) -> str:
        content = repr((row.problem, row.values)).encode("utf-8", "surrogatepass")
        return self._id(row) or blake2b(content, digest_size=_DIGEST_BYTES).hexdigest()

    def _id(self, row: LabelRow) -> str | None:
        value = None if self.ids is None else row.values[self.ids]
        return None if value is None else str(value)


def _outcome(
    image: ImageRef, row: LabelRow, split: str, reason: Reason, fault: str
) -> SampleRef | DeadLetter:
    """The sample of a row, or its dead letter if it has a fault; the image has the row's key."""
    if fault:
        stage = Stage.LABELS if reason is Reason.BAD_LABEL_VALUE else Stage.JOIN
        letter = image_dead_letter(stage, image.key, image.uri, reason, fault, row.file)
        return letter._replace(line=row.line)
    return SampleRef(
        *(image.key, image.uri, image.size, row.split or split, row.values),
        origin=row.file,
        version=image.version,
        claimed_size=row.size if row.size and min(row.size) > 0 else None,
        digest=image.digest,
    )


def names_no_image(name: str) -> bool:
    """True for the name that `RowSamples.with_names` gives a row without an image."""
    return name.startswith(_NO_IMAGE_MARK)


@dataclass(frozen=True)
class Crops:
    """Makes a sample of each object of an image.

    Attributes:
      columns: of the images' labels.
    """

    columns: tuple[Column, ...]

    @property
    def cropped(self) -> tuple[Column, ...]:
        """The columns of objects: the class of each is the class of its sample."""
        columns, index = list(self.columns), class_column(self.columns)
        if index is not None:
            columns[index] = label_column(columns[index].name, ColumnKind.CLASS)
        return tuple(columns)

    def of_image(self, sample: SampleRef) -> Iterator[SampleRef | DeadLetter]:
        """Yields the sample of each object; a dead letter for an image without objects."""
        first, *regions = (i for i, c in enumerate(self.columns) if c.kind is ColumnKind.BOX)
        boxes: Any = sample.labels[first] or ()
        if not boxes:
            fault = "has no objects, so there is nothing to crop"
            place = (Stage.JOIN, sample.key, sample.uri, Reason.UNLABELLED)
            yield image_dead_letter(*place, fault, sample.origin)
        classes = class_column(self.columns)
        for number in range(len(boxes)):
            chosen = [number == index for index in range(len(boxes))]
            labels: list[Any] = [*without_boxes(sample.labels, self.columns, first, chosen)]
            for index in regions:  # of the whole image
                labels[index] = ()
            if classes is not None:
                (labels[classes],) = labels[classes]
            yield sample._replace(key=row_key(sample.key, number), labels=tuple(labels))
