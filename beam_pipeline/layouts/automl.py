"""AutoML Vision's CSV: no header, one row per image with its classes, or per object with its box.

    TRAIN,gs://bucket/a.jpg,daisy
    TEST,gs://bucket/b.jpg,daisy,rose
    VALIDATION,gs://bucket/c.jpg,car,0.1,0.2,,,0.5,0.6,,
    UNASSIGNED,gs://bucket/d.jpg,car,0.1,0.2,0.5,0.2,0.5,0.6,0.1,0.6

A box has two vertices, x_min, y_min and x_max, y_max, or four; then it is the smallest rectangle
around them. Coordinates are fractions of the image. The set may be omitted. Source:
https://cloud.google.com/vision/automl/docs/prepare and
https://cloud.google.com/vision/automl/object-detection/docs/csv-format
"""

from __future__ import annotations

import io
import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO, NamedTuple

from beam_pipeline.core.dead_letters import DeadLetter, Reason, Stage, row_dead_letter
from beam_pipeline.core.errors import LabelTableError, UsageError
from beam_pipeline.core.labels.schema import Column, ColumnKind, label_column, object_columns
from beam_pipeline.core.labels.table_files import encoding_of
from beam_pipeline.core.labels.table_rows import TableHead, csv_records
from beam_pipeline.core.listing.filters import IMAGE_EXTENSIONS
from beam_pipeline.core.records.example_source import LabelledImages
from beam_pipeline.core.references import LabelRow, LabelValue
from beam_pipeline.core.text import counted, excerpt, quoted
from beam_pipeline.core.uris import is_remote
from beam_pipeline.layouts.heads import allow_long_cells, first_line, head
from beam_pipeline.layouts.label_files import BadLabelError, number
from beam_pipeline.layouts.layout import FileLabels, Source, SourceOptions
from beam_pipeline.layouts.named_files import LocalCopy, find_copies
from beam_pipeline.layouts.paths import image_roots, label_files

SETS = {
    "TRAIN": "train",
    "TRAINING": "train",
    "VALIDATION": "validation",
    "VALIDATE": "validation",
    "TEST": "test",
    "UNASSIGNED": "",
    "": "",
}
"""Words of the first cell, in upper case -> the split; empty if the row gives none."""

_EXAMPLE = "TRAIN,gs://bucket/a.jpg,label"
_COORDINATES = 8  # four vertices
_AROUND_THE_IMAGE = 0.5  # how far outside [0, 1] a number still looks like a coordinate
_FIRST_DETECTION_ID = 1  # 0 is the background's

REASON = "its first line is a set and an image, as AutoML has it"


class Automl:
    """Rows contain set, image and class, or set, image, class and box."""

    name = "automl"
    option_names = frozenset({"label_base", "label_order", "class_ids"})

    def recognise(self, options: SourceOptions) -> str:
        """Recognises label files whose first line is a row with a set and an image."""
        try:
            heads = [first_line(uri) for uri in label_files(options.labels)]
        except (UsageError, OSError):
            return ""
        rows = [beginning.uri for beginning in heads if beginning and is_automl(beginning)]
        return f"no header in {rows[0]}, {REASON}" if rows else ""

    def open(self, options: SourceOptions) -> Source:
        """Reads the beginnings of all files.

        Raises:
          UsageError: a path does not exist, or a file is not of this kind.
        """
        if not options.labels:
            raise UsageError("--layout automl needs --labels")
        heads = [head(uri) for uri in label_files(options.labels)]
        uris = tuple(beginning.uri for beginning in heads)
        reader, names = inspect_automl(heads)
        roots = image_roots(options.images, frozenset(uris))
        copies = find_copies(names, roots, uris)
        return Source(
            layout=self.name,
            roots=roots,
            labels=FileLabels(replace(reader, copies=copies), uris, merge_rows=reader.boxes),
            examples=LabelledImages(reader.columns),
            numbering=options.numbering(_FIRST_DETECTION_ID if reader.boxes else 0),
            notes=copies.notes,
        )


@dataclass(frozen=True)
class AutomlReader:
    """Reads files whose rows are all alike.

    Attributes:
      boxes: True if a row is an object with its box, False if it is an image with its classes.
      several: True if an image may have several classes, or none.
      encodings: (URI, encoding) of each file.
      copies: maps the rows' names to images on this machine.
    """

    boxes: bool
    several: bool
    encodings: tuple[tuple[str, str], ...] = ()
    copies: LocalCopy = LocalCopy()  # noqa: RUF009, it is frozen

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that a row's values belong to."""
        if self.boxes:
            return object_columns(pixels=False)
        return (replace(label_column("label", ColumnKind.CLASS), repeated=self.several),)

    def read(self, file: BinaryIO, uri: str) -> Iterator[LabelRow | DeadLetter]:
        """Yields every row of a file. Raises LabelTableError if an unclosed quote spans other rows."""
        allow_long_cells()
        return self.copies.rename(self._rows(file, uri))

    def _rows(self, file: BinaryIO, uri: str) -> Iterator[LabelRow | DeadLetter]:
        for line, cells, problem in csv_records(file, dict(self.encodings)[uri], ",", uri):
            try:
                row = _row(cells, problem)
            except BadLabelError as error:
                yield row_dead_letter(Stage.LABELS, "", Reason.BAD_ROW, str(error), uri, line)
                continue
            values: tuple[LabelValue, ...] = ((), ()) if self.boxes else (None,)
            try:
                if row.split not in SETS.values():
                    raise BadLabelError(
                        f"{row.split!r} names no set; expected TRAIN, VALIDATION, TEST or UNASSIGNED"
                    )
                values = _object(row.rest, line) if self.boxes else (self._classes(row.rest),)
            except BadLabelError as error:
                problem = str(error)
            yield LabelRow(row.name, values, split=row.split, file=uri, line=line, problem=problem)

    def _classes(self, rest: Sequence[str]) -> LabelValue:
        if _has_box(rest):
            raise BadLabelError("a box, in a file whose beginning has none")
        labels = tuple(dict.fromkeys(filter(None, rest)))
        if self.several:
            return labels
        if not labels:
            raise BadLabelError("no label")
        if len(labels) > 1:
            raise BadLabelError(
                f"{counted(len(labels), 'label')}: {quoted(labels)}, in a file whose beginning has one a "
                "row; move the row to its beginning if images may have several"
            )
        return labels[0]


# --- rows ----------------------------------------------------------------------------------------


class _Row(NamedTuple):
    """The parts of a row.

    Attributes:
      split: the split; empty if the row gives none.
      name: the name of the image.
      rest: the cells after the name, without empty ones at the end.
    """

    split: str
    name: str
    rest: Sequence[str]


def is_automl(table: TableHead) -> bool:
    """True if a file begins with an AutoML row: a set and an image, or an image's URI."""
    for _, cells, problem in _records(table):
        first, second = (*(cell.strip() for cell in cells), "", "")[:2]
        in_a_set = first.upper() in SETS and _is_image(second)
        return not problem and (in_a_set or is_remote(first))
    return False


def inspect_automl(heads: Sequence[TableHead]) -> tuple[AutomlReader, list[str]]:
    """Infers how rows are read from the beginnings of all files, and takes the names of images in them.

    Raises:
      LabelTableError: a file begins with something else.
    """
    rows: list[_Row] = []
    for beginning in heads:
        problem, known = ": the file is empty", len(rows)
        for line, cells, fault in _records(beginning):
            try:
                rows.append(_row(cells, fault))
            except BadLabelError as error:
                problem = f", line {line}: {error}"
                if len(rows) == known:
                    break
        if len(rows) == known:
            expected = f"expected rows such as {_EXAMPLE}, and no header"
            raise LabelTableError(f"{beginning.uri}{problem}; {expected}")
    boxes = any(_has_box(row.rest) for row in rows)
    several = any(len(set(filter(None, row.rest))) > 1 for row in rows)
    encodings = tuple((beginning.uri, encoding_of(beginning.data)) for beginning in heads)
    return AutomlReader(boxes, several and not boxes, encodings), [row.name for row in rows]


def _records(table: TableHead) -> Iterator[tuple[int, list[str], str]]:
    return csv_records(io.BytesIO(table.data), encoding_of(table.data), ",")


def _row(cells: Sequence[str], problem: str) -> _Row:
    """Splits a row into its parts; a first cell that is not a known set is used as the split's name."""
    if problem:
        raise BadLabelError(problem)
    cells = [cell.strip() for cell in cells]
    while cells and not cells[-1]:
        cells.pop()
    if cells and _is_image(cells[0]):
        return _Row("", cells[0], cells[1:])
    word, name = (*cells, "", "")[:2]
    known = word.upper() in SETS
    if not name or not (known or _is_image(name)):
        raise BadLabelError(f"names no image: {excerpt(','.join(cells))}")
    return _Row(SETS[word.upper()] if known else word, name, cells[2:])


def _is_image(text: str) -> bool:
    return is_remote(text) or posixpath.splitext(text)[1].lower() in IMAGE_EXTENSIONS


def _has_box(rest: Sequence[str]) -> bool:
    """True if the label is followed by two or four vertices, not by further labels."""
    try:
        vertices = _vertices(rest[1:])
    except BadLabelError:
        return False
    sides = [side for vertex in vertices for side in vertex]
    return bool(sides) and all(abs(side - 0.5) <= 0.5 + _AROUND_THE_IMAGE for side in sides)


def _object(rest: Sequence[str], line: int) -> tuple[LabelValue, ...]:
    """Returns the row's box and its class, or neither."""
    if not rest:
        return (), ()
    label, *coordinates = rest
    vertices = _vertices(coordinates)
    if not vertices or not label:
        raise BadLabelError(f"{excerpt(rest)}: expected a label and its box, as in other rows")
    across, down = zip(*vertices, strict=True)
    if len(vertices) == 4:  # of two, the box is as written, so that an inverted box is detected
        across, down = (min(across), max(across)), (min(down), max(down))
    return ((across[0], down[0], across[1], down[1], line),), (label,)


def _vertices(cells: Sequence[str]) -> list[tuple[float, float]]:
    """The vertices of a box: none, two or four."""
    padded = [*cells, *[""] * (_COORDINATES - len(cells))]
    pairs = [(x, y) for x, y in zip(padded[::2], padded[1::2], strict=False) if x or y]
    if len(pairs) not in (0, 2, 4) or len(cells) > _COORDINATES:
        raise BadLabelError(f"{excerpt(cells)}: expected 2 or 4 vertices of a box")
    return [(number(x, "a coordinate"), number(y, "a coordinate")) for x, y in pairs]
