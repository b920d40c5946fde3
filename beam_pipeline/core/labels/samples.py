"""Samples from images and their label rows: merged rows, samples of rows and objects, images without labels, filters.

With `--sample row` or `--crop_boxes`, an image has several samples. They are made where images meet their labels,
before the shuffle, so that all that follows deals with samples as ever: each has a key, a split and a place in a
shard, a reference of some hundred bytes.

    a.jpg   rows in lines 2, 7 and 9   ->   a.jpg#0  a.jpg#1  a.jpg#2
            with --row_id question     ->   a.jpg#q4 a.jpg#q9 a.jpg#q5
    no image: a row of talks.jsonl     ->   talks.jsonl:6f1a..., a digest; with --row_id talks.jsonl:q8

With `--unlabelled keep`, images without labels are written together with labelled ones, their label features left
out. Readers cannot tell an absent list from an empty one, so each example also has the feature `image/labelled`: 1 if
it was labelled, else 0. With `--unlabelled empty`, they are images without objects.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from itertools import chain, compress
from typing import Any, Protocol

from beam_pipeline.core.dead_letters import DeadLetter, Reason, Stage, image_dead_letter
from beam_pipeline.core.labels.boxes import without_boxes
from beam_pipeline.core.labels.schema import Column, ColumnKind, class_column, label_column
from beam_pipeline.core.packing import LabelBatch
from beam_pipeline.core.references import (
    DEFAULT_SPLIT,
    ROW_MARK,
    ImageRef,
    LabelRow,
    LabelValue,
    SampleRef,
    Size,
    row_key,
)


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
      level: how deep the folders are that rows name, whose images they all are of; None if rows name images.
    """

    repeated: tuple[bool, ...] = ()
    unnamed: UnnamedImages | None = None
    complete: str = ""
    by_folder: bool = False
    unique: tuple[bool, ...] = ()
    samples: RowSamples | None = None
    imageless: RowSamples | None = None
    level: int | None = None

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
        repeated = self.repeated or (False,) * len(first.values)
        single = [not many for many in repeated]
        stated = [(row.split, *compress(row.values, single)) for row in rows]
        different = next((i for i, values in enumerate(stated) if values != stated[0]), 0)
        if different:
            return first, rows[different]
        if not any(repeated):
            return first
        values: list[Any] = [*first.values]
        for index, many in enumerate(repeated):
            if many:
                lists: list[Any] = [row.values[index] or () for row in rows]
                items = chain.from_iterable(lists)
                unique = self.unique and self.unique[index]
                values[index] = tuple(dict.fromkeys(items) if unique else items)
        if all(row.file == first.file for row in rows):
            return first._replace(values=tuple(values))
        return first._replace(values=tuple(map(_without_lines, values)), file="", line=0)

    def _completed(self, rows: Sequence[LabelRow]) -> LabelRow | tuple[LabelRow, LabelRow]:
        merged = rows[0]
        for row in rows[1:]:
            pairs = list(zip(merged.values, row.values, strict=True))
            if any(None not in pair and pair[0] != pair[1] for pair in pairs):
                return merged, row
            if merged.split and row.split and merged.split != row.split:
                return merged, row
            values = tuple(b if a is None else a for a, b in pairs)
            merged = merged._replace(values=values, split=merged.split or row.split)
        return merged


def _without_lines(value: Any) -> Any:
    """A value as it is, boxes without the lines they came from."""
    if not isinstance(value, tuple):
        return value
    return tuple((*item[:4], 0) if isinstance(item, tuple) else item for item in value)


AGREE = RowMerger()

SAMPLES = ("image", "row")
"""The values of --sample; the first is the default."""

ROWS_OF = ("image", "folder")
"""The values of --rows_of; the first is the default."""

NO_IMAGE = ("drop", "keep")
"""The values of --no_image; the first is the default."""


_NO_IMAGE_MARK = "\0"  # begins the name of a row that names no image, which no file's name contains
_DIGEST_BYTES = 8


def labelled(
    image: ImageRef,
    split: str,
    labels: tuple[LabelValue, ...],
    origin: str = "",
    claimed_size: Size | None = None,
) -> SampleRef:
    """An image with its labels."""
    return SampleRef(
        *(image.key, image.uri, image.size, split, labels),
        origin=origin,
        version=image.version,
        claimed_size=claimed_size,
        digest=image.digest,
    )


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
            if fault:
                stage = Stage.LABELS if reason is Reason.BAD_LABEL_VALUE else Stage.JOIN
                yield image_dead_letter(stage, key, image.uri, reason, fault, row.file, row.line)
                continue
            size = row.size if row.size and min(row.size) > 0 else None
            yield labelled(image._replace(key=key), row.split or split, row.values, row.file, size)

    def with_names(self, rows: LabelBatch) -> LabelBatch:
        """Rows with a name for those without an image: their id or digest, by which equal ones meet."""
        if all(row.name for row in rows):
            return rows
        return LabelBatch(
            row if row.name else row._replace(name=f"{_NO_IMAGE_MARK}{self._token(row)}")
            for row in rows
        )

    @staticmethod
    def only(image: ImageRef) -> ImageRef:
        """An image without rows, called as the sample of its only row would be."""
        return image._replace(key=row_key(image.key, 0))

    @staticmethod
    def has_named(name: str) -> bool:
        """True for the name that `with_names` gives a row without an image."""
        return name.startswith(_NO_IMAGE_MARK)

    def without_images(self, rows: Iterable[LabelRow]) -> Iterator[SampleRef | DeadLetter]:
        """Yields the sample or dead letter of each row without an image; those of equal names are all given."""
        by_name: dict[str, list[LabelRow]] = defaultdict(list)
        for row in sorted(
            rows, key=lambda row: (row.line, row.split, repr(row.values), row.problem)
        ):
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


UNLABELLED_CHOICES = ("auto", "drop", "keep", "empty")

_MARK = Column("labelled", ColumnKind.INT64, "image/labelled", required=True)
_LABELS = (  # features that are *the* label
    *("image/class", "image/label", "image/object/"),
    *("image/segmentation/", "image/panoptic"),
)


@dataclass(frozen=True)
class WithoutObjects:
    """Makes rows without objects for images that no row names.

    Attributes:
      values: of such a row.
    """

    values: tuple[LabelValue, ...]

    def row(self, image: ImageRef) -> LabelRow:
        return LabelRow(image.key, self.values, split="", file="", line=0)

    def unread(self, uri: str, problem: str) -> DeadLetter:
        return image_dead_letter(Stage.LABELS, uri, "", Reason.BAD_ROW, problem, uri)


@dataclass(frozen=True)
class KeepUnlabelled:
    """Makes samples of images without labels, and marks all samples as labelled or not.

    Attributes:
      columns: the label columns, followed by the mark; none but the mark is required.
    """

    columns: tuple[Column, ...]

    @classmethod
    def of(cls, columns: Sequence[Column]) -> KeepUnlabelled:
        """Builds the object for samples with these label columns."""
        return cls((*(replace(column, required=False) for column in columns), _MARK))

    @property
    def label_columns(self) -> tuple[Column, ...]:
        """The columns without the mark."""
        return self.columns[:-1]

    def sample(self, image: ImageRef, split: str) -> SampleRef:
        """Makes the sample of an image without labels."""
        return labelled(image, split, (*(None for _ in self.label_columns), 0))

    def marked(self, sample: SampleRef) -> SampleRef:
        """Marks the sample of a row. One with an empty label is unlabelled but keeps its other columns."""
        labelled = self._label is None or sample.labels[self._label] is not None
        return sample._replace(labels=(*sample.labels, int(labelled)))

    @cached_property
    def _label(self) -> int | None:
        """Index of the label column; None if there are only further columns."""
        indices = (i for i, c in enumerate(self.label_columns) if c.feature.startswith(_LABELS))
        return next(indices, None)


def is_unlabelled(sample: SampleRef) -> bool:
    """True if a marked sample lacks a label."""
    return sample.labels[-1] == 0
