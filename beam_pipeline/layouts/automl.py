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
from beam_pipeline.core.labels.cells import parse_number
from beam_pipeline.core.labels.schema import Column, ColumnKind, label_column, object_columns
from beam_pipeline.core.labels.table_files import TableHead, csv_records, encoding_of
from beam_pipeline.core.listing.filters import IMAGE_EXTENSIONS
from beam_pipeline.core.records.example_source import LabelledImages
from beam_pipeline.core.references import Box, LabelRow, LabelValue
from beam_pipeline.core.text import shown
from beam_pipeline.core.uris import is_remote
from beam_pipeline.layouts.heads import allow_long_cells, first_line, head
from beam_pipeline.layouts.label_files import BadLabelError
from beam_pipeline.layouts.layout import FileLabels, Source, SourceOptions
from beam_pipeline.layouts.local_copy import LocalCopy, find_copies
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


@dataclass(frozen=True)
class AutomlReader:
    """Reads a CSV file.

    Attributes:
      rows: the format of all rows.
      encodings: (URI, encoding) of each file.
      copies: maps the rows' names to images on this machine.
    """

    rows: AutomlFormat
    encodings: tuple[tuple[str, str], ...]
    copies: LocalCopy

    def read(self, file: BinaryIO, uri: str) -> Iterator[LabelRow | DeadLetter]:
        """Yields every row of a file."""
        allow_long_cells()
        rows = read_automl(file, uri, dict(self.encodings)[uri], self.rows)
        return self.copies.rename(rows)


class Automl:
    """Rows hold set, image and class, or set, image, class and box."""

    name = "automl"
    option_names = frozenset({"label_base", "label_order", "class_ids"})

    def recognise(self, options: SourceOptions) -> str:
        """Recognises label files whose first line is a row with a set and an image."""
        try:
            uris = label_files(options.labels)
        except UsageError:
            return ""
        heads = [first_line(uri) for uri in uris if not is_remote(uri)]
        if not heads or len(heads) < len(uris):
            return ""
        recognised = [found.uri for found in heads if found and is_automl(found)]
        return f"no header in {recognised[0]}, {_REASON}" if recognised else ""

    def open(self, options: SourceOptions) -> Source:
        """Reads the beginnings of all files.

        Raises:
          UsageError: a path does not exist, or a file is not of this kind.
        """
        if not options.labels:
            raise UsageError("--layout automl needs --labels")
        return automl_source(options, [head(uri) for uri in label_files(options.labels)])


_REASON = "its first line is a set and an image, as AutoML has it"


def automl_source(
    options: SourceOptions, heads: Sequence[TableHead], notes: Sequence[str] = ()
) -> Source:
    """Builds the source from the beginnings of the label files.

    Raises:
      UsageError: a path does not exist, or a file is not of this kind.
    """
    rows = inspect_automl(heads)
    roots = image_roots(options.images, frozenset(found.uri for found in heads))
    names = (name for found in heads for name in automl_names(found))
    copies = find_copies(names, roots, [found.uri for found in heads])
    return Source(
        layout=Automl.name,
        roots=roots,
        labels=FileLabels(
            AutomlReader(
                rows, tuple((found.uri, encoding_of(found.data)) for found in heads), copies
            ),
            tuple(found.uri for found in heads),
            merge_rows=rows.boxes,
        ),
        examples=LabelledImages(rows.columns),
        numbering=options.numbering(_FIRST_DETECTION_ID if rows.boxes else 0),
        notes=(*notes, *copies.notes),
    )


def automl_note(heads: Sequence[TableHead]) -> str:
    """Returns a sentence on why tables are AutoML's; empty if they are not."""
    recognised = [found.uri for found in heads if is_automl(found)]
    return f"{recognised[0]} has no header: {_REASON}" if recognised else ""


# --- rows ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AutomlFormat:
    """The format of the rows of all files.

    Attributes:
      boxes: True if a row is an object with its box, False if it is an image with its classes.
      several: True if an image may have several classes, or none.
    """

    boxes: bool
    several: bool

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that a row's values belong to."""
        if self.boxes:
            return object_columns(pixels=False)
        return (replace(label_column("label", ColumnKind.CLASS), repeated=self.several),)


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
    """True if a file begins with a row of AutoML's: a set and an image, or an image's URI."""
    for _, cells, problem in _records(table):
        first, second = (*(cell.strip() for cell in cells), "", "")[:2]
        in_a_set = first.upper() in SETS and _is_image(second)
        return not problem and (in_a_set or is_remote(first))
    return False


def inspect_automl(heads: Sequence[TableHead]) -> AutomlFormat:
    """Infers the format of the rows from the beginnings of all files.

    Raises:
      LabelTableError: a file begins with something else.
    """
    boxes = several = False
    for beginning in heads:
        rows = 0
        for line, cells, problem in _records(beginning):
            try:
                row = _row(cells)
            except BadLabelError as error:
                if not rows:
                    raise LabelTableError(
                        f"{beginning.uri}, line {line}: {problem or error}; expected rows such as "
                        f"{_EXAMPLE}, and no header"
                    ) from error
                continue
            rows += 1
            boxes = boxes or _has_coordinates(row.rest)
            several = several or len(set(filter(None, row.rest))) > 1
        if not rows:
            raise LabelTableError(
                f"{beginning.uri}: the file is empty; expected rows such as {_EXAMPLE}"
            )
    return AutomlFormat(boxes, several and not boxes)


def automl_names(table: TableHead) -> Iterator[str]:
    """Yields the names of images in the first rows of a file."""
    for _, cells, problem in _records(table):
        try:
            if not problem:
                yield _row(cells).name
        except BadLabelError:
            continue


def read_automl(
    file: BinaryIO, uri: str, encoding: str, rows: AutomlFormat
) -> Iterator[LabelRow | DeadLetter]:
    """Reads a file from its beginning; skips empty lines.

    Raises:
      LabelTableError: an unclosed quote spans other rows.
    """
    for line, cells, problem in csv_records(file, encoding, ",", uri):
        try:
            if problem:
                raise BadLabelError(problem)
            row = _row(cells)
        except BadLabelError as error:
            yield row_dead_letter(Stage.LABELS, "", Reason.BAD_ROW, str(error), uri, line)
            continue
        values: tuple[LabelValue, ...] = ((), ()) if rows.boxes else (None,)
        try:
            if row.split not in SETS.values():
                raise BadLabelError(
                    f"{row.split!r} names no set; expected TRAIN, VALIDATION, TEST or UNASSIGNED"
                )
            values = _object(row.rest, line) if rows.boxes else (_classes(row.rest, rows.several),)
        except BadLabelError as error:
            problem = str(error)
        yield LabelRow(row.name, values, split=row.split, file=uri, line=line, problem=problem)


def _records(table: TableHead) -> Iterator[tuple[int, list[str], str]]:
    return csv_records(io.BytesIO(table.data), encoding_of(table.data), ",")


def _row(cells: Sequence[str]) -> _Row:
    """Splits a row into its parts; a first cell that is not a known set is used as the split's name."""
    cells = [cell.strip() for cell in cells]
    while cells and not cells[-1]:
        cells.pop()
    if cells and _is_image(cells[0]):
        return _Row("", cells[0], cells[1:])
    word, name = (*cells, "", "")[:2]
    known = word.upper() in SETS
    if not name or not (known or _is_image(name)):
        raise BadLabelError(f"names no image: {shown(','.join(cells))}")
    return _Row(SETS[word.upper()] if known else word, name, cells[2:])


def _is_image(text: str) -> bool:
    return is_remote(text) or posixpath.splitext(text)[1].lower() in IMAGE_EXTENSIONS


def _has_coordinates(rest: Sequence[str]) -> bool:
    """True if the label is followed by two or four vertices, not by further labels."""
    cells = [cell for cell in rest[1:] if cell]
    if len(cells) not in (_COORDINATES // 2, _COORDINATES):
        return False
    try:
        numbers = [_coordinate(cell) for cell in cells]
    except BadLabelError:
        return False
    return all(-_AROUND_THE_IMAGE <= number <= 1 + _AROUND_THE_IMAGE for number in numbers)


def _object(rest: Sequence[str], line: int) -> tuple[LabelValue, ...]:
    """Returns the row's box and its class, or neither."""
    if not rest:
        return (), ()
    label, *coordinates = rest
    box = _box(coordinates, line)
    if box is None:
        raise BadLabelError(
            f"the label {label!r} has no box, where other rows of the file have one"
        )
    if not label:
        raise BadLabelError("a box without a label")
    return (box,), (label,)


def _box(cells: Sequence[str], line: int) -> Box | None:
    if len(cells) > _COORDINATES:
        raise BadLabelError(f"{len(cells)} cells after the label, expected {_COORDINATES}")
    padded = [*cells, *[""] * (_COORDINATES - len(cells))]
    pairs = [(x, y) for x, y in zip(padded[::2], padded[1::2], strict=True) if x or y]
    vertices = [(_coordinate(x), _coordinate(y)) for x, y in pairs]
    if not vertices:
        return None
    if len(vertices) not in (2, 4):
        raise BadLabelError(f"{len(vertices)} vertices of a box, expected 2 or 4: {shown(cells)}")
    if len(vertices) == 2:
        return (*vertices[0], *vertices[1], line)  # as written, so that an inverted box is detected
    across, down = zip(*vertices, strict=True)
    return min(across), min(down), max(across), max(down), line


def _coordinate(cell: str) -> float:
    try:
        return parse_number(cell, ColumnKind.FLOAT)
    except ValueError as error:
        raise BadLabelError(f"{cell!r} is not a coordinate, a fraction of the image") from error


def _classes(rest: Sequence[str], several: bool) -> LabelValue:
    if _has_coordinates(rest):
        raise BadLabelError(
            "a box, in a file whose beginning has none; expected labels alone, or boxes from the "
            "file's first rows on"
        )
    labels = tuple(dict.fromkeys(filter(None, rest)))
    if several:
        return labels
    if not labels:
        raise BadLabelError("no label")
    if len(labels) > 1:
        raise BadLabelError(
            f"{len(labels)} labels ({', '.join(labels)}), in a file whose beginning has one a row; "
            "move the row to its beginning if images may have several"
        )
    return labels[0]
