"""Columns of a table that together are a sample's label: its objects, or its class.

They become the first columns of the samples, whatever the table has them as:

| form | columns of the table | module |
|---|---|---|
| `ObjectLists` | a column of JSON with the lists of all objects | here |
| `BoxColumns` | a row for each object, its box in four columns or in one | `box_columns` |
| `OneHot` | a column for each class | here |
| `FolderClass` | none: rows name images, whose folders are their classes | here |

One-hot columns contain 1 for the class of the image and 0 for all others:

    image,cat,dog,bird
    a.jpg,1,0,0
    b.jpg,0,0,1

a.jpg is a cat, b.jpg a bird. Tables with 1 and -1, without any 0, are read in the same way; where there
is a 0, -1 may well mean that the class is uncertain, and is an error.

Objects in a cell of JSON are lists of boxes, classes and other values, one item per object:

    {"bbox": [[x, y, width, height], ...], "categories": [...], "area": [...]}

Boxes are in pixels from the upper left corner; `--columns objects.bbox:xyxy` makes them two corners. A list of dicts, one per object, is equivalent.
Source: https://huggingface.co/docs/datasets/image_dataset#object-detection
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from beam_pipeline.core import errors, packing, questions, references, typed_json
from beam_pipeline.core.labels import cells, schema, table_rows
from beam_pipeline.core.text import enumerated, excerpt

_ONE = frozenset(("1", "1.0", "true", "True", "TRUE"))
_ZERO = frozenset(("0", "0.0", "false", "False", "FALSE"))
_MINUS = frozenset(("-1", "-1.0"))  # in place of 0, in CelebA's attributes
_SHOWN_NAMES = 5

BOXES = "bbox"
MANY_BOXES = 10
"""Fewer may look like another form, or another unit, by chance."""

Parsed = tuple[Sequence[Sequence[Any]], Mapping[int, str]]
"""The values of each column, and row -> what is wrong with it."""


@dataclass(frozen=True, kw_only=True)
class LeadingColumns:
    """The columns that come first in a schema, and how they are read.

    Attributes:
      columns: of the schema.
      used: the columns of the table that become no further columns of the schema.
      class_name: the column of the table whose cells are names of classes, or empty.
      integer_classes: whether the classes of objects are integers, which are then their ids; None if there are
        no objects.
      size: the columns of the table that claim the image's width and height; or none.
      several_rows: True if the lists of all rows of an image are put together.
      note: a sentence on how they are read; or empty.
      question: what is not safe to assume of them; None if there is nothing.
    """

    columns: tuple[schema.Column, ...] = ()
    used: Collection[str] = ()
    class_name: str = ""
    integer_classes: bool | None = None
    size: tuple[str, ...] = ()
    several_rows: bool = False
    note: str = ""
    question: questions.Question | None = None

    def parse(self, rows: table_rows.TableRows) -> Parsed:
        """Returns the values of `columns`; a row with a problem gets empty lists."""
        return [], {}


NO_LEADING = LeadingColumns()


@dataclass(frozen=True, kw_only=True)
class FolderClass(LeadingColumns):
    """No column is a label: the class of an image is its folder, and None in every row."""

    columns: tuple[schema.Column, ...] = (
        replace(schema.label_column("folder", schema.ColumnKind.CLASS), required=False),
    )

    def parse(self, rows: table_rows.TableRows) -> Parsed:
        """No values."""
        return [packing.Same(None, len(rows))], {}


@dataclass(frozen=True, kw_only=True)
class OneHot(LeadingColumns):
    """One-hot columns, and the classes that they mean.

    Attributes:
      classes: (column, class) pairs.
      several: True if an image may have several classes, or none.
      absent: the cells of a class that the image does not have.
    """

    classes: tuple[tuple[str, str], ...]
    several: bool
    absent: frozenset[str] = _ZERO

    def parse(self, rows: table_rows.TableRows) -> Parsed:
        """Returns the class of each row, or its classes.

        A cell that is neither 1 nor 0 (or -1, where others are) is a problem, and so is a row of one class
        without exactly one 1.
        """
        classes: list[list[str]] = [[] for _ in rows.lines]
        problems: dict[int, str] = {}
        absent = "0" if self.absent == _ZERO else "-1"
        for name, text in self.classes:
            marks = rows.cells(name)
            for row, mark in enumerate(cells.by_text(marks, self._is_one)):
                if mark:
                    classes[row].append(text)
                elif mark is None:
                    message = f"{excerpt(cells.text_of(marks[row]))} is neither {absent} nor 1"
                    problems.setdefault(row, f"column {name!r}: {message}")
        for row, texts in enumerate(() if self.several else classes):
            if len(texts) != 1:
                count = f"1 for {', '.join(texts)}" if texts else "no 1"
                message = f"{count}, where the rows of the file's beginning have a single 1"
                problems.setdefault(row, f"one-hot columns: {message}")
        values = [tuple(texts) if self.several else (*texts, ())[0] for texts in classes]
        return [[() if row in problems else value for row, value in enumerate(values)]], problems

    def _is_one(self, cell: Any) -> bool | None:
        """True or False; None for any other cell."""
        text = cells.text_of(cell)
        is_absent = text in self.absent or cells.is_empty(text)
        return True if text in _ONE else False if is_absent else None


def find_one_hot(names: Sequence[str], rows: table_rows.TableRows) -> tuple[str, ...]:
    """Finds the columns that contain only 0 and 1, with one 1 in each row, in two of them at least.

    A single 1 that is always in one column, as in `region_count,region_id` of an image's only region,
    proves nothing.
    """
    ones: dict[str, Sequence[bool]] = {}
    for name in names:
        texts = cells.by_text(rows.cells(name), cells.text_of)
        if len(rows) and set(texts) <= _ONE | _ZERO:
            ones[name] = cells.by_text(texts, _ONE.__contains__)
    single = all(count == 1 for count in map(sum, zip(*ones.values(), strict=True)))
    return tuple(ones) if single and sum(map(any, ones.values())) > 1 else ()


def chosen_one_hot(
    patterns: Sequence[str], names: Sequence[str], rows: table_rows.TableRows, where: str
) -> OneHot:
    """Returns the columns named by --one_hot.

    Args:
      patterns: names, or `prefix_*` for all columns with that prefix; the class is the part for
        `*`.
      names: the columns of the table.
      rows: the first rows of the files, which show if an image may have several classes.
      where: the files, for messages.

    Raises:
      LabelTableError: the column does not exist, or only one.
    """
    classes: dict[str, str] = {}
    for pattern in patterns:
        prefix = pattern[:-1]
        matching = {pattern: pattern} if pattern in names else {}
        if not matching and pattern.endswith("*"):
            matching = {n: n[len(prefix) :] for n in names if n.startswith(prefix) and n != prefix}
        if not matching:
            raise errors.LabelTableError(
                f"{where}: no column {pattern!r} (--one_hot); found {', '.join(names)}"
            )
        classes.update(matching)
    if len(classes) < 2:
        raise errors.LabelTableError(
            f"{where}: --one_hot names the column {', '.join(classes)} alone; expected one a class"
        )
    columns = [cells.by_text(rows.cells(name), cells.text_of) for name in classes]
    distinct = {text for texts in columns for text in set(texts)}
    ones = [cells.by_text(texts, _ONE.__contains__) for texts in columns]
    several = any(count > 1 for count in map(sum, zip(*ones, strict=True)))
    named = enumerated(list(classes.values()), _SHOWN_NAMES)
    how = "images may be of several" if several else "an image is of one"
    label = schema.label_column("one_hot", schema.ColumnKind.CLASS)
    return OneHot(
        columns=(replace(label, repeated=several),),
        used=frozenset(classes),
        note=f"one-hot columns are {len(classes)} classes: {named}; {how}",
        classes=tuple(classes.items()),
        several=several,
        absent=_MINUS if distinct & _MINUS and not distinct & _ZERO else _ZERO,
    )


def one_hot_question(names: Sequence[str]) -> questions.Question:
    """Asks whether columns that the user did not name are classes."""
    return questions.Question(
        "one_hot",
        f"the columns {enumerated(names, _SHOWN_NAMES)} contain a single 1 in each row; they look like "
        "one-hot classes.",
        "--label_column none makes each a feature. To confirm the classes:",
        {"one_hot": tuple(names)},
    )


@dataclass(frozen=True, kw_only=True)
class ObjectLists(LeadingColumns):
    """The boxes of the objects in a list, their classes, and each further list under its own name.

    Attributes:
      categories: name of the list of classes.
      corners: whether boxes are two corners, not a corner and the size.
    """

    categories: str
    corners: bool

    def parse(self, rows: table_rows.TableRows) -> Parsed:
        """Returns the objects of each row, as one list for each of `columns`."""
        name, empty = schema.OBJECTS_COLUMN, ((),) * len(self.columns)
        numbered = list(zip(rows.cells(name), rows.lines, strict=True))
        values, faults = cells.parse_cells(
            numbered, lambda cell: parse_objects(cell[0], cell[1], self)
        )
        problems = {row: f"column {name!r}: {message}" for row, message in faults.items()}
        return list(zip(*(lists or empty for lists in values), strict=True)), problems


def has_objects(values: Sequence[Any]) -> bool:
    """True if the cells of a column contain objects with boxes."""
    return any(BOXES in lists for lists in map(_lists_of, values) if lists)


def inspect_objects(values: Sequence[Any], declared: Mapping[str, str]) -> ObjectLists:
    """Decides how the lists of each object are read.

    Args:
      values: the cells of the column at the beginnings of the files.
      declared: "objects.<list>" -> its type in --columns.
    """
    kinds = {name: schema.KIND_NAMES.get(kind) for name, kind in declared.items()}
    items: dict[str, list[Any]] = {}
    no_lists: dict[str, None] = {}
    lists = [item for lists in map(_lists_of, values) if lists for item in lists.items()]
    for name, cell in lists:
        if isinstance(cell, list):
            items.setdefault(name, []).extend(cell)
        elif cell is not None:
            no_lists[name] = None
    usual = schema.CATEGORY_NAMES
    categories = next((name for name in usual if name in items), usual[0])
    columns, prefix = list(schema.object_columns(pixels=True)), f"{schema.OBJECTS_COLUMN}."
    left_out = [prefix + name for name in no_lists if name not in (BOXES, categories)]
    for name in [name for name in items if name not in (*no_lists, BOXES, categories)]:
        chosen = prefix + name
        if chosen not in kinds and any(map(cells.is_nested, items[name])):
            left_out.append(chosen)
        elif kind := kinds.get(chosen, cells.infer_kind(items[name])):
            columns.append(schema.object_column(name, kind))
    left_out = [name for name in left_out if kinds.get(name, True) is not None]
    classes = items.get(categories, [])
    integers = sum(map(typed_json.is_integer, classes))
    note = f"left out, since it is not one value an object: {', '.join(left_out)}"
    name, boxes = prefix + BOXES, items.get(BOXES, [])
    corners = all(_is_box(box) and box[2] > box[0] and box[3] > box[1] for box in boxes)
    larger = corners and len(boxes) >= MANY_BOXES
    return ObjectLists(
        used=(schema.OBJECTS_COLUMN,),
        categories=categories,
        integer_classes=bool(classes) and integers >= cells.NEARLY_ALL * len(classes),
        corners=declared.get(name) == schema.LIST_FORMS[0],
        columns=tuple(columns),
        note=note if left_out else "",
        question=corners_question(name, larger=True) if larger and name not in declared else None,
    )


def corners_question(name: str, *, larger: bool) -> questions.Question:
    """Asks what the lists of four numbers of a column are; `larger` if the last two are the larger ones."""
    reason = "since the last two numbers of each are the larger ones, " * larger
    return questions.Question(
        "corners_or_sizes",
        f"the lists in {name} may be xmin, ymin, xmax, ymax, {reason}or xmin, ymin, width, height.",
        "If they are width and height, as in COCO:",
        {"columns": {name: "xywh"}},
        (("If they are a second corner:", {"columns": {name: "xyxy"}}),),
    )


def list_names(values: Sequence[Any]) -> list[str]:
    """Returns every list in the cells as "objects.<list>", its name in --columns."""
    names = dict.fromkeys(name for lists in map(_lists_of, values) for name in lists or ())
    return [f"{schema.OBJECTS_COLUMN}.{name}" for name in names]


def parse_objects(value: Any, line: int, objects: ObjectLists) -> tuple[references.LabelValue, ...]:
    """Returns the objects of a cell, one list for each of `ObjectLists.columns`, empty for an empty cell.

    Args:
      value: the cell.
      line: the row's line, which is stored with the boxes.
      objects: how it is read.

    Raises:
      BadCellError: the lists differ in length, or a value is not of its list's kind.
    """
    lists = _lists_of(value)
    if lists is None:
        raise cells.BadCellError(f"{excerpt(value)} is not an object with the lists {BOXES}, ...")
    names = [BOXES, objects.categories, *(column.name for column in objects.columns[2:])]
    parsed: list[tuple[Any, ...]] = []
    for name, column in zip(names, objects.columns, strict=True):
        items = [] if lists.get(name) is None else lists[name]
        if not isinstance(items, list):
            raise cells.BadCellError(f"{name}: {excerpt(items)} is not a list")
        single = replace(column, repeated=False)
        integers = column.kind is schema.ColumnKind.CLASS and bool(objects.integer_classes)
        values = []
        for number, item in enumerate(items, 1):
            try:
                if integers and not typed_json.is_integer(item):
                    raise cells.BadCellError(
                        f"{excerpt(item)} is not an integer, as most others are"
                    )
                is_box = column.kind is schema.ColumnKind.BOX
                value = _box(item, line, objects) if is_box else cells.parse_cell(item, single)
                values.append(value)
            except cells.BadCellError as error:
                raise cells.BadCellError(f"{name}: item {number}: {error}") from error
        parsed.append(tuple(values))
        if len(values) != len(parsed[0]):
            raise cells.BadCellError(
                f"{BOXES} has {len(parsed[0])} items, {name} has {len(values)}; expected one an object"
            )
    return tuple(parsed)


def _lists_of(value: Any) -> Mapping[str, Any] | None:
    """Returns a cell as name -> list; None if it is neither lists, nor objects, nor empty."""
    if value is None or value == "":
        return {}
    if isinstance(value, dict):
        return value
    if isinstance(value, list) and all(isinstance(item, dict) for item in value):
        names = dict.fromkeys(name for item in value for name in item)
        return {name: [item.get(name) for item in value] for name in names}
    return None


def _is_box(item: Any) -> bool:
    return isinstance(item, list) and len(item) == 4 and all(map(typed_json.is_finite, item))


def _box(item: Any, line: int, objects: ObjectLists) -> references.Box:
    if not _is_box(item):
        raise cells.BadCellError(f"{excerpt(item)} is not [x, y, width, height] in pixels")
    x, y, width, height = map(float, item)
    return (x, y, width, height, line) if objects.corners else (x, y, x + width, y + height, line)
