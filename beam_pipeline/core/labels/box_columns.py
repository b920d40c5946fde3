"""Boxes in the columns of a table, one row per object.

    filename,width,height,class,xmin,ymin,xmax,ymax
    a.jpg,640,480,cat,20,30,200,150
    a.jpg,640,480,dog,300,90,420,310
    b.jpg,640,480,,,,,

is the form of TensorFlow's own examples; b.jpg has no object. Columns are recognised by their names,
in any case and with or without `_`, `-`, `.`, spaces and the prefix `bbox`. Source:
https://github.com/datitran/raccoon_dataset/blob/master/xml_to_csv.py
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from beam_pipeline.core.labels.cells import (
    BadCellError,
    infer_kind,
    is_empty,
    parse_cell,
    parse_number,
    text_of,
)
from beam_pipeline.core.labels.numbers import is_integer
from beam_pipeline.core.labels.schema import (
    Column,
    ColumnKind,
    object_column,
    object_columns,
)
from beam_pipeline.core.references import Box, LabelValue, Size
from beam_pipeline.core.text import shown

_CLASS_NAMES = ("classid", "categoryid", "labelid", "labelname", "objectclass", "name")
"""Names of the class column besides the usual label names, the likelier ones first."""

ONLY_CLASS = "object"
"""The class of boxes in a table without a column of classes."""

_CORNERS = (
    ("xmin", "ymin", "xmax", "ymax"),
    ("x1", "y1", "x2", "y2"),
    ("x0", "y0", "x1", "y1"),
    ("left", "top", "right", "bottom"),
    ("minx", "miny", "maxx", "maxy"),
)
_CENTRES = (
    *(("xcenter", "ycenter"), ("xcentre", "ycentre"), ("centerx", "centery")),
    *(("cx", "cy"), ("xc", "yc")),
)
_CORNER = (("x", "y"), ("left", "top"), ("xmin", "ymin"), ("x1", "y1"))
_LENGTHS = (("w", "h"), ("width", "height"))
"""Names of a box's sides; beside `w` and `h`, `width` and `height` are the image's."""

_PREFIX = re.compile(r"\A(?:bbox|box|bndbox)(?=.)")

CORNERS, CORNER_AND_SIZE, CENTRE_AND_SIZE = "corners", "corner and size", "centre and size"

_CORNER_FORMS = tuple((CORNERS, names) for names in _CORNERS)
_SIZED_FORMS = (
    *((CENTRE_AND_SIZE, (*at, *size)) for at in _CENTRES for size in _LENGTHS),
    *((CORNER_AND_SIZE, (*at, *size)) for at in _CORNER for size in _LENGTHS),
)
"""(form, names of its four columns), as in `_CORNER_FORMS`, the likelier ones first."""

_IMAGE_SIZES = (
    *(("width", "height"), ("imagewidth", "imageheight"), ("imgwidth", "imgheight")),
    *(("imagew", "imageh"), ("imgw", "imgh")),
)

_NUMERIC_SHARE = 0.9  # of a column's values must be numbers; the rest are then faults
_LARGEST_FRACTION = 1.5  # a box may extend slightly beyond its image
_ROUNDED = 1.0  # pixel by which the sides of a box may be off, as ends may count or not
_ROUNDED_FRACTION = 1e-3

_Numbers = tuple[float, float, float, float]

_TO_CORNERS: Mapping[str, Callable[[float, float, float, float], _Numbers]] = {
    CORNERS: lambda a, b, c, d: (a, b, c, d),
    CORNER_AND_SIZE: lambda x, y, w, h: (x, y, x + w, y + h),
    CENTRE_AND_SIZE: lambda x, y, w, h: (x - w / 2, y - h / 2, x + w / 2, y + h / 2),
}


@dataclass(frozen=True)
class BoxColumns:
    """The columns of a row's box and of its object.

    Attributes:
      names: the four columns of the box.
      form: their meaning: `CORNERS`, `CORNER_AND_SIZE` or `CENTRE_AND_SIZE`.
      pixels: True if they are in pixels, False if in fractions of the image.
      label: the column of the class; empty if all objects are of one class.
      integer_classes: True if classes are integers, which are then used as ids.
      columns: the boxes, their classes, and each further column under its own name.
      size: the two columns that claim the image's width and height; or none.
      mixed: True if some rows look like pixels and others like fractions.
    """

    names: tuple[str, ...]
    form: str
    pixels: bool
    label: str
    integer_classes: bool
    columns: tuple[Column, ...]
    size: tuple[str, ...] = ()
    mixed: bool = False

    @property
    def note(self) -> str:
        """A sentence on how the boxes are read."""
        unit = "pixels" if self.pixels else "fractions of the image"
        classes = f"classes from {self.label}" if self.label else f"all of the class {ONLY_CLASS}"
        size = f", the image's size from {', '.join(self.size)}" if self.size else ""
        return (
            f"rows are objects: {self.form} of a box in {unit} from {', '.join(self.names)}, "
            f"{classes}{size}; --columns {self.names[0]}:float keeps them as plain columns"
        )

    @property
    def question(self) -> str:
        """The unsafe assumption about the boxes; empty if there is none."""
        if not self.mixed:
            return ""
        return (
            f"some boxes look like pixels and others like fractions of the image "
            f"({', '.join(self.names)}); all are read as pixels. Write them in one unit"
        )


def find_boxes(names: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """(form, its four columns) of a table with columns of these names; ("", ()) if it has no boxes."""
    prefixed = [name for name in names if _PREFIX.match(_bare(name))]
    for columns, forms in (
        (names, _CORNER_FORMS),
        (prefixed, _SIZED_FORMS),  # beside which `width` and `height` are the image's
        ((*prefixed, *names), _SIZED_FORMS),
    ):
        known = _by_plain_name(columns)
        for form, plain in forms:
            if all(name in known for name in plain):
                return form, tuple(known[name] for name in plain)
    return "", ()


def class_name_column(names: Sequence[str]) -> str:
    """Finds a column with a usual name for classes of objects, other than the usual label names."""
    known = _by_plain_name(names)
    return next((known[name] for name in _CLASS_NAMES if name in known), "")


def find_size(names: Sequence[str]) -> tuple[str, ...]:
    """The two columns that are called as an image's width and height are; none if there are none.

    Where two pairs are, that called `width` and `height` may be the box's.
    """
    known = _by_plain_name(names, of_boxes=False)
    return _pair(known, reversed(_IMAGE_SIZES))


def claimed_size(fields: Mapping[str, Any], names: Sequence[str]) -> Size | None:
    """The size of an image as its row says it; None unless both sides are whole numbers above 0.

    Args:
      fields: the row.
      names: the columns of width and height, or none.
    """
    try:
        sides = [parse_number(text_of(fields.get(name)), ColumnKind.FLOAT) for name in names]
    except ValueError:
        return None
    if not sides or not all(side > 0 and side.is_integer() for side in sides):
        return None
    width, height = map(int, sides)
    return width, height


def inspect_boxes(
    values: Mapping[str, Sequence[Any]],
    rows: Sequence[Mapping[str, Any]],
    label: str,
    kinds: Mapping[str, ColumnKind | None],
) -> BoxColumns | None:
    """Decides how rows with boxes are read; None if the columns hold no numbers.

    Args:
      values: column -> its cells at the beginnings of the files, for all columns that may be used.
      rows: the rows of the files' beginnings.
      label: the column of classes, or empty.
      kinds: column -> its kind, or None to leave it out, for the columns given by the user.
    """
    form, names = find_boxes([name for name in values if name != label])
    if not form:
        return None
    for name in names:
        if infer_kind(values[name], _NUMERIC_SHARE) is ColumnKind.BYTES and not all(
            map(is_empty, values[name])
        ):
            return None
    known = _by_plain_name([name for name in values if name not in names])
    no_features = (*names, *_pair(known, _IMAGE_SIZES), label)
    left_out = {name for name, kind in kinds.items() if kind is None}
    size = find_size([name for name in values if name not in {*names, *left_out}])
    pixels, mixed = _unit(rows, names)
    if size and _is_of_boxes(rows, size, names, form, pixels=pixels):
        size = ()
    columns = list(object_columns(pixels=pixels))
    for name in values:
        kind = kinds.get(name, _object_kind(rows, names, name))
        if name not in no_features and kind:
            columns.append(object_column(name, kind))
    classes = [value for value in values.get(label, ()) if not is_empty(value)]
    return BoxColumns(
        names=names,
        form=form,
        pixels=pixels,
        label=label,
        integer_classes=bool(classes) and all(map(_is_class_id, classes)),
        columns=tuple(columns),
        size=size,
        mixed=mixed,
    )


def parse_box(fields: Mapping[str, Any], boxes: BoxColumns, line: int) -> tuple[LabelValue, ...]:
    """Returns the object of a row, or none, as one list for each of `BoxColumns.columns`.

    Args:
      fields: the row.
      boxes: how it is read.
      line: the row's line, which is stored with the box.

    Raises:
      BadCellError: the box is not four numbers, or the object has no class.
    """
    cells = [fields.get(name) for name in boxes.names]
    if all(map(is_empty, cells)):
        return tuple(() for _ in boxes.columns)
    numbers = [_number(name, cell) for name, cell in zip(boxes.names, cells, strict=True)]
    corners = _TO_CORNERS[boxes.form](*numbers)
    box: Box = (*corners, line)
    values: list[Any] = [(box,), (_class_of(fields, boxes),)]
    for column in boxes.columns[2:]:
        values.append((_further(fields.get(column.name), column),))
    return tuple(values)


def _by_plain_name(names: Sequence[str], *, of_boxes: bool = True) -> dict[str, str]:
    """Returns name without case and marks -> the first column of that name.

    Args:
      names: the columns.
      of_boxes: True to remove the prefix `bbox`, too.
    """
    plain: dict[str, str] = {}
    for name in names:
        bare = _bare(name)
        plain.setdefault(_PREFIX.sub("", bare, count=1) if of_boxes else bare, name)
    return plain


def _bare(name: str) -> str:
    return re.sub(r"[\s_.\-]", "", name.lower())


def _pair(known: Mapping[str, str], pairs: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """The columns of the first of the pairs of names that is there."""
    found = (pair for pair in pairs if set(pair) <= known.keys())
    return tuple(known[side] for side in next(found, ()))


def _is_of_boxes(
    rows: Sequence[Mapping[str, Any]],
    size: Sequence[str],
    names: Sequence[str],
    form: str,
    *,
    pixels: bool,
) -> bool:
    """Returns True if width and height are the sides of the boxes, too short for an image."""
    rounded = _ROUNDED if pixels else _ROUNDED_FRACTION
    outside = False
    for row in rows:
        try:
            numbers, sides = (
                [parse_number(text_of(row.get(name)), ColumnKind.FLOAT) for name in columns]
                for columns in (names, size)
            )
        except ValueError:
            continue
        a, b, c, d = numbers
        xmin, ymin, xmax, ymax = _TO_CORNERS[form](a, b, c, d)
        width, height = sides
        if abs(xmax - xmin - width) > rounded or abs(ymax - ymin - height) > rounded:
            return False
        outside = outside or xmax > width + rounded or ymax > height + rounded
    return outside


def _unit(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> tuple[bool, bool]:
    """Returns (boxes are in pixels, rows disagree), judged by the range of the values.

    Values beyond the range of fractions mean pixels. In a box of fractions no value exceeds one,
    and at least one is not a whole number.
    """
    pixels = fractions = small = 0
    for row in rows:
        try:
            numbers = [parse_number(text_of(row.get(name)), ColumnKind.FLOAT) for name in names]
        except ValueError:
            continue
        if max(map(abs, numbers)) > _LARGEST_FRACTION:
            pixels += 1
        elif all(number.is_integer() for number in numbers):
            small += 1
        else:
            fractions += 1
    if pixels:
        return True, bool(fractions)
    return not (fractions or small), False


def _object_kind(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str], name: str
) -> ColumnKind | None:
    """Infers the kind of a further column; integers with gaps become floats, whose gaps are NaN."""
    cells = [
        row.get(name) for row in rows if not all(is_empty(row.get(corner)) for corner in names)
    ]
    if any(isinstance(cell, (list, dict)) for cell in cells):
        return None
    kind = infer_kind(cells, _NUMERIC_SHARE)
    if kind is ColumnKind.INT64 and any(map(is_empty, cells)):
        return ColumnKind.FLOAT
    return kind


def _is_class_id(value: Any) -> bool:
    return is_integer(value) or (
        isinstance(value, str) and re.fullmatch(r"0|[1-9][0-9]{0,17}", value) is not None
    )


def _number(name: str, cell: Any) -> float:
    try:
        return parse_number(text_of(cell), ColumnKind.FLOAT)
    except ValueError as error:
        found = "is empty, where the other sides are not" if is_empty(cell) else shown(cell)
        raise BadCellError(
            f"column {name!r}: {found}"
            + ("" if is_empty(cell) else " is not a number, the side of a box")
        ) from error


def _class_of(fields: Mapping[str, Any], boxes: BoxColumns) -> str:
    if not boxes.label:
        return ONLY_CLASS
    name = text_of(fields.get(boxes.label))
    if not name:
        raise BadCellError(f"column {boxes.label!r}: a box without a class")
    if boxes.integer_classes and not _is_class_id(name):
        raise BadCellError(
            f"column {boxes.label!r}: {shown(name)} is not an integer, as the others are"
        )
    return name


def _further(cell: Any, column: Column) -> Any:
    """Returns a value of an object; a missing text is empty, a missing float NaN."""
    if is_empty(cell) and column.kind is ColumnKind.FLOAT:
        return math.nan
    if column.kind is ColumnKind.BYTES and not text_of(cell):
        return ""
    single = Column(column.name, column.kind, column.feature, required=True)
    try:
        return parse_cell(cell, single)
    except BadCellError as error:
        raise BadCellError(f"column {column.name!r}: {error}") from error
