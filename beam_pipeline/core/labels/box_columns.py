"""Boxes in the columns of a table, one row per object.

    filename,width,height,class,xmin,ymin,xmax,ymax
    a.jpg,640,480,cat,20,30,200,150
    a.jpg,640,480,dog,300,90,420,310
    b.jpg,640,480,,,,,

is the form of TensorFlow's own examples; b.jpg has no object. Columns are recognised by their names,
in any case and with or without `_`, `-`, `.`, brackets, spaces and the prefix `bbox`. Source:
https://github.com/datitran/raccoon_dataset/blob/master/xml_to_csv.py

The four numbers may be a list in one column whose name has `box` in it: `"[20, 30, 180, 120]"`, or without brackets.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from beam_pipeline.core import packing, questions, references, text
from beam_pipeline.core.labels import cells, further_columns, leading_columns, schema
from beam_pipeline.core.labels.table_rows import TableRows
from beam_pipeline.core.typed_json import is_integer

_CLASS_NAMES = ("classid", "categoryid", "labelid", "labelname", "objectclass", "name")
"""Names of the class column besides the usual label names, the likelier ones first."""

ONLY_CLASS = "object"
"""The class of boxes in a table without a column of classes."""

_ENDS = (
    *(("min", "max"), ("1", "2"), ("0", "1"), ("", "2"), ("start", "end"), ("tl", "br")),
    *(("topleft", "bottomright"), ("upperleft", "lowerright"), ("lefttop", "rightbottom")),
)
_CORNERS = (
    *((f"x{a}", f"y{a}", f"x{b}", f"y{b}") for a, b in _ENDS),
    ("left", "top", "right", "bottom"),
    *((f"{a}x", f"{a}y", f"{b}x", f"{b}y") for a, b in _ENDS),
    *(("colmin", "rowmin", "colmax", "rowmax"), ("mincol", "minrow", "maxcol", "maxrow")),
)
_CENTRES = (
    *(("xcenter", "ycenter"), ("xcentre", "ycentre"), ("centerx", "centery")),
    *(("cx", "cy"), ("xc", "yc")),
)
_CORNER = (("x", "y"), ("left", "top"), ("xmin", "ymin"), ("x1", "y1"))
_LENGTHS = (("w", "h"), ("width", "height"))
"""Names of a box's sides; beside `w` and `h`, `width` and `height` are the image's."""

_PREFIX = re.compile(r"\A(?:bbox|box|bndbox|roi)(?=.)")

CORNERS, CORNER_AND_SIZE, CENTRE_AND_SIZE = "corners", "corner and size", "centre and size"

_CORNER_FORMS = tuple((CORNERS, names) for names in _CORNERS)
_SIZED_FORMS = (
    *((CENTRE_AND_SIZE, (*at, *size)) for at in _CENTRES for size in _LENGTHS),
    *((CORNER_AND_SIZE, (*at, *size)) for at in _CORNER for size in _LENGTHS),
)
"""(form, names of its four columns), the likelier ones first; see `_CORNER_FORMS`."""

_IMAGE_SIZES = (
    *(("width", "height"), ("imagewidth", "imageheight"), ("imgwidth", "imgheight")),
    *(("imagew", "imageh"), ("imgw", "imgh")),
)

_ANGLES = frozenset(["angle", "theta", "rotation", "rotationangle", "boxangle", "bboxangle"])

_SIDES = 4
_PERCENT = 100
_BETWEEN_NUMBERS = re.compile(r"[\s,;]+")
_PLAIN_NUMBERS = re.compile(r"[-+.\d]*", re.ASCII)
_LONGEST_PLAIN = 38  # digits of a number that surely fits a float32
_CLASS_ID = re.compile(r"0|[1-9][0-9]{0,17}")

_Numbers = tuple[float, float, float, float]

_FORM_OF = {"xyxy": CORNERS, "xywh": CORNER_AND_SIZE}
"""Type in --columns -> form."""

_TO_CORNERS: Mapping[str, Callable[[float, float, float, float], _Numbers]] = {
    CORNERS: lambda a, b, c, d: (a, b, c, d),
    CORNER_AND_SIZE: lambda x, y, w, h: (x, y, x + w, y + h),
    CENTRE_AND_SIZE: lambda x, y, w, h: (x - w / 2, y - h / 2, x + w / 2, y + h / 2),
}


@dataclass(frozen=True, kw_only=True)
class BoxColumns(leading_columns.LeadingColumns):
    """The columns of a row's box and of its object, and each further column under its own name.

    Attributes:
      names: the four columns of the box, or the one with lists of its numbers.
      form: their meaning: `CORNERS`, `CORNER_AND_SIZE` or `CENTRE_AND_SIZE`.
    """

    names: tuple[str, ...]
    form: str

    def parse(self, rows: TableRows) -> leading_columns.Parsed:
        """Returns the object of each row, or none, as one list for each of `columns`.

        A problem is a box that is not four numbers, or an object without a class.
        """
        problems: dict[int, str] = {}
        numbers, empty = self._numbers(rows, problems)
        corners = map(_TO_CORNERS[self.form], *numbers)
        boxes = [((*box, line),) for box, line in zip(corners, rows.lines, strict=True)]
        values: list[Sequence[Any]] = [boxes]
        columns: list[tuple[str, Callable[[Any], Any]]] = [(self.class_name, self._class_of)]
        columns += [(c.name, partial(object_value, column=c)) for c in self.columns[2:]]
        for name, parse in columns:
            parsed, faults = cells.parse_cells(rows.cells(name), parse)
            values.append([(cell,) for cell in parsed])
            problems = {**faults, **problems}  # the first of a row counts
        problems = {row: message for row, message in problems.items() if row not in empty}
        blank = empty | problems.keys()
        if blank:
            values = [
                [() if row in blank else value for row, value in enumerate(column)]
                for column in values
            ]
        return values, problems

    def _numbers(
        self, rows: TableRows, problems: dict[int, str]
    ) -> tuple[Sequence[Sequence[float]], set[int]]:
        """The four numbers of each box, by side, and the rows without a box; adds problems."""
        columns, faults = _sides(rows, self.names)
        problems.update(faults)
        numbers = [_plain_floats(column) for column in columns]
        if all(len(side) == len(rows) for side in numbers):
            return numbers, set()
        every = enumerate(zip(*columns, strict=True))
        empty = {row for row, box in every if row not in problems and all(map(cells.is_empty, box))}
        for side, column in enumerate(columns):
            name = self.names[side % len(self.names)]
            values, faults = cells.parse_cells(column, partial(_number, name=name))
            numbers[side] = [0.0 if value is None else value for value in values]
            problems.update({**faults, **problems})
        return numbers, empty

    def _class_of(self, cell: Any) -> str:
        if not self.class_name:
            return ONLY_CLASS
        name = cells.text_of(cell)
        if not name:
            raise cells.BadCellError(f"column {self.class_name!r}: a box without a class")
        if self.integer_classes and not _is_class_id(name):
            raise cells.BadCellError(
                f"column {self.class_name!r}: {text.excerpt(name)} is not an integer, as the others are"
            )
        return name


def find_boxes(
    names: Sequence[str], values: Mapping[str, Sequence[Any]] | None = None
) -> tuple[str, tuple[str, ...]]:
    """(form, its columns) of a table with columns of these names; ("", ()) without boxes.

    Args:
      names: the columns.
      values: column -> its cells, of which one may contain lists of four numbers; None to go by the names alone.
    """
    prefixed = [name for name in names if _PREFIX.match(_bare(name))]
    for columns, forms in (
        (names, _CORNER_FORMS),
        (prefixed, _SIZED_FORMS),  # beside which `width` and `height` are the image's
        ((*prefixed, *names), _SIZED_FORMS),
    ):
        known = _by_plain_name(columns)
        for form, plain in forms:
            if all(name in known for name in plain) and not _is_outline(plain, known):
                return form, tuple(known[name] for name in plain)
    lists = [
        name for name in names if values and "box" in _bare(name) and _hold_boxes(values[name])
    ]
    return (CORNER_AND_SIZE, (lists[0],)) if len(lists) == 1 else ("", ())


def _is_outline(plain: Sequence[str], known: Collection[str]) -> bool:
    """True for x1, y1, x2, y2 which x3 follows: points or an outline, not a box."""
    third = plain[2]
    return third[-1].isdigit() and f"{third[:-1]}{int(third[-1]) + 1}" in known


def are_regions(sides: Sequence[str]) -> bool:
    """True for sides such as Roi.X1, of the part of an image that its class is about, or else of an object."""
    return all(_bare(name).startswith("roi") for name in sides)


def class_name_column(names: Sequence[str]) -> str:
    """Finds a column with a usual name for classes of objects, other than the usual label names."""
    known = _by_plain_name(names)
    return next((known[name] for name in _CLASS_NAMES if name in known), "")


def find_size(names: Sequence[str]) -> tuple[str, ...]:
    """The two columns that are called as an image's width and height are; none if there are none.

    Where two pairs are, that called `width` and `height` may be the box's.
    """
    return _pair(_by_plain_name(names, of_boxes=False), reversed(_IMAGE_SIZES))


def claimed_sizes(rows: TableRows, names: Sequence[str]) -> Sequence[references.Size | None]:
    """The size of the image that each row claims; None unless both sides are whole numbers above 0.

    Args:
      rows: the rows.
      names: the columns of width and height, or none.
    """
    if not names:
        return packing.Same(None, len(rows))

    def whole_side(cell: Any) -> int:
        number = _float_of(cell)
        return int(number) if number and number > 0 and number.is_integer() else 0

    width, height = (cells.by_text(rows.cells(name), whole_side) for name in names)
    sizes: dict[tuple[int, int], references.Size] = {}
    return [
        sizes.setdefault((w, h), (w, h)) if w and h else None
        for w, h in zip(width, height, strict=True)
    ]


def inspect_boxes(
    values: Mapping[str, Sequence[Any]],
    rows: TableRows,
    label: str,
    declared: Mapping[str, str],
) -> BoxColumns:
    """Decides how rows with boxes are read.

    Args:
      values: column -> its cells at the beginnings of the files, for all columns that may be used.
      rows: the rows of the files' beginnings.
      label: the column of classes, or empty.
      declared: column -> its type in --columns.
    """
    kinds = {name: schema.KIND_NAMES.get(kind) for name, kind in declared.items()}
    form, names = find_boxes([name for name in values if name != label], values)
    left_out = {name for name, kind in kinds.items() if kind is None}
    size = find_size([name for name in values if name not in {*names, *left_out}])
    sides = zip(*map(_floats, _sides(rows, names)[0]), strict=True)
    boxes = [None if None in box else box for box in sides]
    given = _FORM_OF.get(declared.get(names[0], ""))
    if given:
        form = given
    elif len(names) == 1 and all(c > a and d > b for a, b, c, d in filter(None, boxes)):
        form = CORNERS
    lengths = [length for name in size for length in _floats(rows.cells(name)) if length]
    may_be_percent = form != CORNERS and max(lengths, default=math.inf) > _PERCENT
    pixels, doubt = _unit(boxes, may_be_percent=may_be_percent)
    known = _by_plain_name([name for name in values if name not in names])
    no_features = {*names, *_pair(known, _IMAGE_SIZES), label}
    empty = [all(map(cells.is_empty, box)) for box in zip(*map(rows.cells, names), strict=True)]
    columns = list(schema.object_columns(pixels=pixels))
    for name in values:
        if name not in no_features:
            kind = kinds[name] if name in kinds else _object_kind(rows.cells(name), empty)
            columns += [schema.object_column(name, kind)] if kind else []
    classes = [value for value in values.get(label, ()) if not cells.is_empty(value)]
    unit = "pixels" if pixels else "fractions of the image"
    only = "" if label else f", all of the class {ONLY_CLASS}"
    plain = shlex.quote(f"{names[0]}:{'str' if len(names) == 1 else 'float'}")
    return BoxColumns(
        columns=tuple(columns),
        used=frozenset(values),
        class_name=label,
        integer_classes=bool(classes) and all(cells.by_text(classes, _is_class_id)),
        size=size,
        several_rows=True,
        note=f"rows are objects: {form} of a box in {unit} from {', '.join(names)}{only}; --columns {plain} keeps them as "
        f"plain columns{further_columns.note_on_object_files(columns)}",
        question=_question(names, form, values, kinds, doubt=doubt, given=bool(given)),
        names=names,
        form=form,
    )


def _question(
    names: Sequence[str],
    form: str,
    values: Mapping[str, Sequence[Any]],
    kinds: Mapping[str, schema.ColumnKind | None],
    *,
    doubt: str,
    given: bool,
) -> questions.Question | None:
    """The guess about the boxes that is not safe, or None; beside angles, a box is hardly upright."""
    if doubt:
        where = f"All boxes are read as pixels ({', '.join(names)}), although"
        return questions.Question("units_of_boxes", f"{where} {doubt}")
    lists = [] if given or len(names) > 1 else [*filter(_items_or_none, values[names[0]])]
    if lists and (form == CORNERS or not all(map(_is_bracketed, lists))):
        return leading_columns.corners_question(names[0], larger=form == CORNERS)
    for name, column in values.items():
        if _bare(name) in _ANGLES and name not in kinds and any(map(_float_of, column)):
            return questions.Question(
                "turned_boxes",
                f"boxes are read as upright, although the column {name!r} seems to contain the angle of each.",
                "Write xmin, ymin, xmax, ymax of the upright box around each. To read them as upright, with the "
                "angle as a feature:",
                {"columns": {name: "float"}},
            )
    return None


def _by_plain_name(names: Sequence[str], *, of_boxes: bool = True) -> dict[str, str]:
    """Returns name without case and marks -> the first column of that name.

    Args:
      names: the columns.
      of_boxes: True to remove the prefix `bbox` as well.
    """

    def plain(name: str) -> str:
        return _PREFIX.sub("", _bare(name), count=1) if of_boxes else _bare(name)

    return {plain(name): name for name in reversed(names)}


def _hold_boxes(column: Sequence[Any]) -> bool:
    """True if nearly all texts in a column are lists of four numbers."""
    lists = [_items_or_none(cell) for cell in column if not _is_no_box(cell)]
    boxes = [four for four in lists if four and None not in map(_float_of, four)]
    return bool(boxes) and len(boxes) >= cells.NEARLY_ALL * len(lists)


def _bare(name: str) -> str:
    return re.sub(r"[\s_.\-\[\]()]", "", name.lower())


def _pair(known: Mapping[str, str], pairs: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """The columns of the first of the pairs of names that is there."""
    present = (pair for pair in pairs if set(pair) <= known.keys())
    return tuple(known[side] for side in next(present, ()))


def _sides(
    rows: TableRows, names: Sequence[str]
) -> tuple[Sequence[Sequence[Any]], Mapping[int, str]]:
    """The cells of each side, and row -> what is wrong with its list of four, where one column has them."""
    if len(names) == _SIDES:
        return [rows.cells(name) for name in names], {}
    lists, faults = cells.parse_cells(rows.cells(names[0]), partial(_four_items, name=names[0]))
    return [[four[side] if four else "" for four in lists] for side in range(_SIDES)], faults


def _unit(boxes: Sequence[_Numbers | None], *, may_be_percent: bool) -> tuple[bool, str]:
    """Returns (boxes are in pixels, why they may not be), judged by the range of the values.

    Values beyond the range of fractions mean pixels. In a box of fractions no value exceeds one,
    and at least one is not a whole number.
    """
    pixels = fractions = small = 0
    for box in filter(None, boxes):
        if max(map(abs, box)) > further_columns.LARGEST_FRACTION:
            pixels += 1
        elif all(number.is_integer() for number in box):
            small += 1
        else:
            fractions += 1
    if fractions and pixels:
        return True, "some look like fractions of the image. Write them in one unit."
    numbers = [number for box in filter(None, boxes) for number in box]
    decimals = sum(not number.is_integer() for number in numbers)
    enough = pixels >= leading_columns.MANY_BOXES and 2 * decimals > len(numbers)
    if may_be_percent and enough and _PERCENT / 2 < max(numbers) <= _PERCENT:
        return True, (
            "no number is beyond 100 and most have decimals, as percent of the image's size, which Label Studio writes. "
            "Divide percent by 100."
        )
    return bool(pixels) or not (fractions or small), ""


def _object_kind(column: Sequence[Any], empty: Sequence[bool]) -> schema.ColumnKind | None:
    """Infers the kind of a further column; integers with gaps become floats, whose gaps are NaN.

    Args:
      column: its cells.
      empty: of each row, whether it lacks a box.
    """
    if any(empty):
        column = [cell for cell, no_box in zip(column, empty, strict=True) if not no_box]
    if not {list, dict}.isdisjoint(map(type, column)):
        return None
    kind = cells.infer_kind(column)
    if kind is schema.ColumnKind.INT64 and any(cells.by_text(column, cells.is_empty)):
        return schema.ColumnKind.FLOAT
    return kind


def _is_class_id(value: Any) -> bool:
    return is_integer(value) or (isinstance(value, str) and bool(_CLASS_ID.fullmatch(value)))


def _floats(column: Sequence[Any]) -> Sequence[float | None]:
    """The numbers in a column; None for other cells."""
    return _plain_floats(column) or cells.by_text(column, _float_of)


def _plain_floats(column: Sequence[Any]) -> Sequence[float]:
    """The numbers of a column that contains nothing but short decimal numbers; none of any other."""
    try:
        if _PLAIN_NUMBERS.fullmatch("".join(column)) and max(map(len, column)) < _LONGEST_PLAIN:
            return list(map(float, column))
    except (TypeError, ValueError):  # other values than texts, or texts such as 1-2 and none at all
        pass
    return []


def _float_of(cell: Any) -> float | None:
    try:
        return cells.parse_number(cells.text_of(cell), schema.ColumnKind.FLOAT)
    except ValueError:
        return None


def _number(cell: Any, name: str) -> float:
    """Returns the side of a box. Raises BadCellError."""
    number = _float_of(cell)
    if number is None:
        reason = f"{text.excerpt(cell)} is not a number, the side of a box"
        if cells.is_empty(cell):
            reason = "is empty, where the other sides are not"
        raise cells.BadCellError(f"column {name!r}: {reason}")
    return number


def _items_or_none(cell: Any) -> Sequence[Any] | None:
    """The four items of a list, perhaps as text, with brackets or without; None for any other cell."""
    items: Sequence[Any] = cell if isinstance(cell, list) else ()
    if isinstance(cell, str):
        items_of = cells.bracketed_items if _is_bracketed(cell) else _BETWEEN_NUMBERS.split
        with suppress(ValueError):
            items = items_of(cell.strip())
    return items if len(items) == _SIDES else None


def _is_no_box(cell: Any) -> bool:
    return cells.is_empty(cell) or cell in ([], "[]")


def _is_bracketed(cell: Any) -> bool:
    return isinstance(cell, list) or cell.strip()[:1] in "[("


def _four_items(cell: Any, name: str) -> Sequence[Any]:
    """Returns the items of a list of four, none of an empty cell. Raises BadCellError."""
    items = () if _is_no_box(cell) else _items_or_none(cell)
    if items is None:
        raise cells.BadCellError(
            f"column {name!r}: {text.excerpt(cell)} is not a list of four numbers"
        )
    return items


def object_value(cell: Any, column: schema.Column) -> Any:
    """Returns a value of an object; a missing text is empty, a missing float NaN. Raises BadCellError."""
    if cells.is_empty(cell) and column.kind is schema.ColumnKind.FLOAT:
        return math.nan
    if column.kind is schema.ColumnKind.BYTES and not cells.text_of(cell):
        return ""
    try:
        single = schema.Column(column.name, column.kind, column.feature, required=True)
        return cells.parse_cell(cell, single)
    except cells.BadCellError as error:
        raise cells.BadCellError(f"column {column.name!r}: {error}") from error
