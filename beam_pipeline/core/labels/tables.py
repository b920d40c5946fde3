"""CSV, TSV and JSON Lines files as people have them: looked at once, then read row by row.

`inspect_tables` looks at the beginnings of all files before the job starts and settles their
columns and types; a file that is unusable as a whole is an error there. `read_rows` then yields
every row of a file as a `LabelRow`, or as a `DeadLetter` where it cannot be told apart.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO

from beam_pipeline.core.dataset.splits import FOLDER
from beam_pipeline.core.dead_letters import DeadLetter, Reason, Stage, row_dead_letter
from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.core.labels.box_columns import (
    BoxColumns,
    claimed_size,
    class_name_column,
    find_boxes,
    find_size,
    inspect_boxes,
    parse_box,
)
from beam_pipeline.core.labels.cells import (
    BadCellError,
    infer_kind,
    is_empty,
    is_padded,
    list_items,
    parse_cell,
    sample_items,
    text_of,
)
from beam_pipeline.core.labels.folders import SPLIT_NAMES
from beam_pipeline.core.labels.object_lists import (
    OBJECTS_COLUMN,
    ObjectLists,
    has_objects,
    inspect_objects,
    list_names,
    parse_objects,
)
from beam_pipeline.core.labels.one_hot import (
    OneHot,
    chosen_one_hot,
    find_one_hot,
    parse_one_hot,
)
from beam_pipeline.core.labels.schema import (
    CLASS_FOLDER_COLUMNS,
    Column,
    ColumnKind,
    further_column,
    group_column,
    label_column,
)
from beam_pipeline.core.labels.table_files import (
    LabelTable,
    TableHead,
    columns_of,
    file_notes,
    inspect_file,
    read_fields,
    sample_rows,
    with_decimal_commas,
)
from beam_pipeline.core.labels.unclear_label import (
    check_label,
    single_column,
    unclear_label,
)
from beam_pipeline.core.listing.cuts import RowGroupRange
from beam_pipeline.core.references import LabelRow, LabelValue
from beam_pipeline.core.text import enumerated, shown

_PATH_NAMES = (
    *("filename", "file_name", "image", "image_uri", "path"),
    *("image_path", "image_name", "image_file", "file", "filepath", "file_path", "img"),
)
_PATH_ENDING = "_file_name"  # as image_file_name, in folders as Hugging Face has them
_ID_NAMES = ("id", "image_id", "uri", "url")
KEY_NAMES = (*_PATH_NAMES, *_ID_NAMES)
"""Names of the key column, the likelier ones first; compared in lower case."""

LABEL_NAMES = ["label", "class", "category", "class_name", "target", "labels", "classes"]
"""Names of the label column, the likelier ones first."""

TEXT_NAMES = ("text", "caption", "captions", "description", "prompt", "comment", "sentence")
"""Names of columns that are no label even if there is no other."""

SPLIT_COLUMN = "split"

NO_LABEL_COLUMN = "none"
"""The value of --label_column for a table without a label."""

KIND_NAMES = {
    "int": ColumnKind.INT64,
    "int64": ColumnKind.INT64,
    "float": ColumnKind.FLOAT,
    "float32": ColumnKind.FLOAT,
    "str": ColumnKind.BYTES,
    "string": ColumnKind.BYTES,
    "bytes": ColumnKind.BYTES,
}
"""Type names of --columns."""

SKIP_KIND = "skip"

_NUMERIC_SHARE = 0.9  # of a column's values, for the rest to be faults and not text
_SHOWN = 3
_WHOLE = re.compile(r"\d+\.0*")
_ENOUGH_CELLS = 10
_FEW_NUMBERS = 20  # more are hardly classes
_REGRESSION_SHARE = 0.5  # the same for the label, where a fraction all but excludes classes


@dataclass(frozen=True)
class ColumnChoices:
    """The user's options on columns, which override guesses.

    Attributes:
      key: name of the key column, or empty.
      label: name of the label column, "none" for none, or empty.
      kinds: name -> type name of `KIND_NAMES`, or "skip" to leave the column out. Of a list of
        objects, the name is "objects.<list>".
      separators: name -> what stands between the values in a cell, of columns of lists; empty if each
        row of an image has one of its values.
      one_hot: columns that hold 1 where the image is of their class, or `prefix_*`.
      encoding: of all files that are text; empty to find it out.
      label_needed: whether it is an error that no column can be told to be the label.
      group: name of the column that keeps images in one split, "folder", or empty.
      label_required: whether an empty label is a fault.
      may_be_lists: whether tables may name images without labels; their classes are then folders.
    """

    key: str = ""
    label: str = ""
    kinds: Mapping[str, str] | None = None
    separators: Mapping[str, str] = field(default_factory=dict)
    label_needed: bool = True
    group: str = ""
    label_required: bool = True
    one_hot: tuple[str, ...] = ()
    encoding: str = ""
    may_be_lists: bool = False


@dataclass(frozen=True)
class LabelSchema:
    """The columns and kinds that all files of a run share.

    Attributes:
      columns: the label columns, the label or the objects first, then as they first appear.
      split_column: name of the column with the split, or empty.
      separators: column -> what stands between the values in a cell.
      objects: how the column of objects is read; None if there is none.
      boxes: how rows with a box each are read; None if rows have none.
      one_hot: how one-hot columns are read; None if there are none.
      guessed: columns inferred to be numbers.
      several_rows: whether the lists of all rows of an image are put together.
      size: the columns that claim the image's width and height, beside objects; or none.
      notes: for the user, on how the files are read.
      questions: what is not safe to assume of them.
      split_like: columns that are not called `split`, and hold names of splits in the first rows.
      class_by_folder: True if no column is a label: the first one is the class, which is the image's
        folder, and empty in every row.
    """

    columns: tuple[Column, ...]
    split_column: str
    separators: Mapping[str, str] = field(default_factory=dict)
    objects: ObjectLists | None = None
    boxes: BoxColumns | None = None
    one_hot: OneHot | None = None
    guessed: frozenset[str] = frozenset()
    several_rows: bool = False
    size: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    split_like: tuple[str, ...] = ()
    class_by_folder: bool = False

    @property
    def has_label(self) -> bool:
        """True if there is a label or objects, not only further columns."""
        return bool(self.columns) and self.columns[0].feature.startswith("image/")

    @property
    def detection(self) -> ObjectLists | BoxColumns | None:
        """The columns of objects, in any of the forms; None if there are no objects."""
        return self.objects or self.boxes

    @property
    def table_columns(self) -> tuple[Column, ...]:
        """The columns that are one in the table, too: all but those of objects and one-hot classes."""
        leading = self.detection or self.one_hot
        return self.columns[len(leading.columns) :] if leading else self.columns


def inspect_tables(
    heads: Sequence[TableHead], choices: ColumnChoices
) -> tuple[LabelSchema, tuple[LabelTable, ...]]:
    """Settles how the files are read and what their columns are.

    Raises:
      LabelTableError: a file has no usable header, or the columns cannot be told.
    """
    sample = _Sample()
    tables = tuple(_inspect_table(head, choices, sample) for head in heads)
    schema = _Inspection(sample, choices, tables).schema()
    notes = [
        note for head, table in zip(heads, tables, strict=True) for note in file_notes(head, table)
    ]
    return replace(schema, notes=(*notes, *schema.notes)), tables


def read_rows(
    file: BinaryIO,
    table: LabelTable,
    schema: LabelSchema,
    first_line: int = 1,
    groups: RowGroupRange | None = None,
) -> Iterator[LabelRow | DeadLetter]:
    """Reads a label file, or a part of it as `read_fields` does; empty lines are passed over.

    Raises:
      LabelTableError: a quote that is not closed swallowed other rows.
    """
    named = _naming_columns(table, schema)
    rows = read_fields(file, table, strict=True, first_line=first_line, groups=groups)
    for line, fields, problem in rows:
        name = text_of(fields.get(table.key_column))
        for column in named:
            _check_one_line(fields.get(column), column, table.uri, line)
        if not problem and not name:
            problem = f"the key column {table.key_column!r} is empty"
        if problem:
            yield row_dead_letter(
                stage=Stage.LABELS,
                key=name,
                reason=Reason.BAD_ROW,
                message=problem,
                file=table.uri,
                line=line,
            )
        else:
            yield typed_row(name=name, fields=fields, table=table, schema=schema, line=line)


def _naming_columns(table: LabelTable, schema: LabelSchema) -> tuple[str, ...]:
    """The columns of a CSV file whose cells are names: of images, of classes and of splits."""
    if not table.delimiter:
        return ()
    classes = [
        schema.boxes.label if schema.boxes else column.name
        for column in schema.columns
        if column.kind is ColumnKind.CLASS and not schema.one_hot
    ]
    return tuple(name for name in (table.key_column, *classes, schema.split_column) if name)


def _check_one_line(cell: Any, column: str, uri: str, line: int) -> None:
    """Raises LabelTableError if a name has line breaks, as one that a stray quote begins."""
    if isinstance(cell, str) and ("\n" in (text := cell.strip()) or "\r" in text):
        lines = len(text.splitlines())
        raise LabelTableError(
            f"{uri}, line {line}: {shown(text)} in column {column!r} has {lines} lines, where a "
            "name has one; look for a quote that opens there and is closed too late"
        )


def path_columns(names: Sequence[str]) -> Sequence[str]:
    """The column that is called as one with paths of images is; several where it may be any of them."""
    by_lower = {name.lower(): name for name in reversed(names)}
    usual = [by_lower[name] for name in _PATH_NAMES if name in by_lower]
    return usual[:1] or [name for name in names if name.lower().endswith(_PATH_ENDING)]


@dataclass
class _Sample:
    """The content of the beginnings of all files.

    Rows are made of their columns when they are asked for, as they seldom are: a dict for each of
    100,000 rows of a file takes three times the memory of their cells.

    Attributes:
      values: column -> its cells.
    """

    values: dict[str, list[Any]] = field(default_factory=dict)
    _files: list[tuple[str, Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]]]] = field(
        default_factory=list
    )

    def add(
        self, rows: Sequence[Mapping[str, Any]], columns: Mapping[str, Sequence[Any]], key: str
    ) -> None:
        """Adds the beginning of a file.

        Args:
          rows: its rows.
          columns: their columns.
          key: the column that names the image.
        """
        columns = {name: _shared(cells) for name, cells in columns.items()}
        for name, cells in columns.items():
            self.values.setdefault(name, []).extend(cells)
        every_row_has_all = all(len(cells) == len(rows) for cells in columns.values())
        self._files.append((key, columns if every_row_has_all else rows))

    @property
    def rows(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The rows, each with the name of its image."""
        for key, found in self._files:
            for fields in _rows_of(found) if isinstance(found, Mapping) else found:
                yield text_of(fields.get(key)), fields

    @property
    def fields(self) -> list[Mapping[str, Any]]:
        """The rows alone."""
        return [fields for _, fields in self.rows]


def _shared(cells: Sequence[Any]) -> Sequence[Any]:
    """The same cells; texts that are equal are one object."""
    texts: dict[str, str] = {}
    return [texts.setdefault(cell, cell) if type(cell) is str else cell for cell in cells]


def _rows_of(columns: Mapping[str, Sequence[Any]]) -> Iterator[Mapping[str, Any]]:
    for cells in zip(*columns.values(), strict=True):
        yield dict(zip(columns, cells, strict=True))


class _Inspection:
    """Settles the columns of tables from the beginnings of their files."""

    def __init__(
        self, sample: _Sample, choices: ColumnChoices, tables: Sequence[LabelTable]
    ) -> None:
        self._sample = sample
        self._choices = choices
        self._kinds = dict(choices.kinds or {})
        self._keys = {table.key_column for table in tables}
        self._uris = [table.uri for table in tables]
        self._where = ", ".join(self._uris)

    def schema(self) -> LabelSchema:
        """The columns and how they are read. Raises LabelTableError."""
        values, choices = self._sample.values, self._choices
        names = [name for name in values if name and name not in self._keys]
        objects = _objects(values, choices)
        _check_choices(
            choices=choices, values=values, keys=self._keys, objects=objects, where=self._where
        )
        split = next(
            (name for name in names if name.lower() == SPLIT_COLUMN and name != choices.label), ""
        )
        names = [name for name in names if name not in (split, objects and objects.column)]
        split_like = () if split else self._split_like(names)
        boxes = None if objects else self._boxes(names)
        if boxes:
            return LabelSchema(
                boxes.columns,
                split,
                boxes=boxes,
                several_rows=True,
                size=boxes.size,
                notes=(boxes.note,),
                questions=tuple(filter(None, [boxes.question])),
                split_like=split_like,
            )
        one_hot, asked = (None, True) if objects else self._one_hot(names)
        names = [name for name in names if not one_hot or name not in one_hot.names]
        listed = () if objects else self._in_rows(names)
        label = ""
        by_folder = not objects and not one_hot and self._are_lists(names)
        if not objects and not one_hot and not by_folder:
            label = self._label(names, any_needed=not listed)
        leading = objects or one_hot
        columns = list(leading.columns) if leading else []
        if by_folder:
            columns = [replace(column, required=False) for column in CLASS_FOLDER_COLUMNS]
        guessed = set()
        for name in sorted(names, key=lambda name: name != label):
            if self._kinds.get(name) == SKIP_KIND:
                continue
            column = _column(name, values[name], choices, is_label=name == label)
            if name in listed:
                column = replace(column, required=True, repeated=True)
            columns.append(column)
            if name not in self._kinds and column.kind in (ColumnKind.INT64, ColumnKind.FLOAT):
                guessed.add(name)
        if choices.group and choices.group in values:
            columns.append(group_column(choices.group))
        notes = [one_hot.note] if one_hot else []
        if listed:
            notes.append(self._note_of_rows(listed))
        return LabelSchema(
            tuple(columns),
            split,
            dict(choices.separators),
            objects,
            one_hot=one_hot,
            guessed=frozenset(guessed),
            several_rows=bool(listed),
            size=find_size([column.name for column in columns]) if objects else (),
            notes=tuple(notes),
            questions=(
                *(() if asked or one_hot is None else (one_hot.question,)),
                *self._partition_questions(label),
                *self._whole_number_questions(label),
            ),
            split_like=tuple(name for name in split_like if name != label),
            class_by_folder=by_folder,
        )

    def _boxes(self, names: Sequence[str]) -> BoxColumns | None:
        """The columns of rows with a box each; None if rows have none, or options say so."""
        choices = self._choices
        _, sides = find_boxes([name for name in names if name != choices.label])
        if not sides or any(side in {**self._kinds, **choices.separators} for side in sides):
            return None
        label = "" if choices.label == NO_LABEL_COLUMN else choices.label
        others = [name for name in names if name not in sides]
        if not label and choices.label != NO_LABEL_COLUMN:
            label = _usual_label(others) or class_name_column(others)
        return inspect_boxes(
            {name: self._sample.values[name] for name in names},
            self._sample.fields,
            label,
            {name: KIND_NAMES.get(kind) for name, kind in self._kinds.items()},
        )

    def _one_hot(self, names: Sequence[str]) -> tuple[OneHot | None, bool]:
        """One-hot columns, and True if the user named them."""
        choices = self._choices
        if choices.one_hot:
            rows = self._sample.fields
            return chosen_one_hot(choices.one_hot, names, rows, self._where), True
        if choices.label or _usual_label(names) or not choices.label_needed:
            return None, True
        free = [name for name in names if name not in {**self._kinds, **choices.separators}]
        rows = self._sample.fields
        found = find_one_hot(free, rows)
        return (chosen_one_hot(found, names, rows, self._where) if found else None), False

    def _label(self, names: Sequence[str], *, any_needed: bool) -> str:
        """The label column; empty if there is none, and none is needed. Raises LabelTableError."""
        choices, where = self._choices, self._where
        if choices.label == NO_LABEL_COLUMN and NO_LABEL_COLUMN not in names:
            return ""
        skipped = {name for name, kind in self._kinds.items() if kind == SKIP_KIND}
        label = choices.label or _usual_label(names)
        if label in skipped:
            raise LabelTableError(
                f"{where}: the label column {label!r} cannot be skipped (--columns); say "
                "--label_column with the name of another column, or with none"
            )
        if label:
            if choices.label_needed and not choices.label:
                check_label(where, label, self._sample.values[label])
            return label
        names = [name for name in names if name not in skipped and name != choices.group]
        if not names:
            raise single_column(where, sorted(self._keys))
        if len(names) == 1:
            if names[0].lower() in TEXT_NAMES:
                return ""
            if choices.label_needed:
                check_label(where, names[0], self._sample.values[names[0]])
            return names[0]
        if not choices.label_needed or not any_needed:
            return ""
        raise unclear_label(where, names, self._sample.values)

    def _partition_questions(self, label: str) -> Iterator[str]:
        """Asks about a column of 0, 1 and 2 in a table of a partition, as CelebA's; that is no class."""
        texts = {text_of(cell) for cell in self._sample.values.get(label, ())} - {""}
        called = [label, *(posixpath.basename(uri) for uri in self._uris)]
        if (
            not self._choices.label
            and texts <= {"0", "1", "2"}
            and any("partition" in name.lower() for name in called if label)
        ):
            yield (
                f"The column {label!r} of {self._where} would be the label, but numbers up to 2 in a partition "
                "are usual for splits: 0 for training, 1 for validation, 2 for testing. "
                "docs/datasets/official_lists.md has a command that writes them as a column split; "
                f"--label_column {label} keeps them as classes."
            )

    def _whole_number_questions(self, label: str) -> Iterator[str]:
        """Asks about a label of few whole numbers with a decimal point, as pandas writes ids beside gaps."""
        cells = [cell for cell in self._sample.values.get(label, ()) if not is_empty(cell)]
        numbers = {text_of(cell) for cell in cells}
        if (
            label.lower() in LABEL_NAMES
            and label not in {**self._kinds, **self._choices.separators}
            and len(cells) >= _ENOUGH_CELLS
            and 1 < len(numbers) <= _FEW_NUMBERS
            and all(map(_WHOLE.fullmatch, numbers))
        ):
            found = enumerated(list(map(repr, sorted(numbers))), _SHOWN)
            yield (
                f"The column {label!r} of {self._where} would be a number to predict, but all of its first "
                f"values are whole ({found}), as pandas writes the numbers of classes if some are missing. "
                f"--columns {label}:str makes them classes, --columns {label}:float numbers."
            )

    def _are_lists(self, names: Sequence[str]) -> bool:
        """True if the tables name images, perhaps with the split or the group of each, but no label."""
        choices = self._choices
        others = [name for name in names if name != choices.group or name == FOLDER]
        known = all(self._is_known_key(name) for name in self._keys)
        return choices.may_be_lists and known and not (others or choices.label)

    def _is_known_key(self, name: str) -> bool:
        return name == self._choices.key or name.lower() in KEY_NAMES or bool(path_columns([name]))

    def _split_like(self, names: Sequence[str]) -> tuple[str, ...]:
        """The columns that hold nothing but names of splits, at least two, and were not declared."""
        found = []
        for name in names:
            texts = {text_of(cell).lower() for cell in self._sample.values[name]} - {""}
            splits = {SPLIT_NAMES.get(text, "") for text in texts}
            if len(splits) > 1 and "" not in splits and name not in self._kinds:
                found.append(name)
        return tuple(found)

    def _in_rows(self, names: Sequence[str]) -> tuple[str, ...]:
        """The columns with a value in each row of an image, as the user says, or of captions."""
        separators = self._choices.separators
        if not separators:
            return self._captions(names)
        return tuple(name for name in names if separators.get(name) == "")

    def _note_of_rows(self, listed: Sequence[str]) -> str:
        """A sentence on the columns with a value in each row of an image."""
        images = [image for image, _ in self._sample.rows]
        if len(set(images)) < len(images):
            return f"several rows name one image; each has a list of {' and of '.join(listed)}, a value a row"
        return (
            f"each of the first rows names another image, so its list of {' and of '.join(listed)} has one "
            f"value; cells with several are split with --list_column '{listed[0]}=SEPARATOR'"
        )

    def _captions(self, names: Sequence[str]) -> tuple[str, ...]:
        """The columns that differ between rows of one image, if a text is among them."""
        texts = [name for name in names if name.lower() in TEXT_NAMES]
        if not texts or self._choices.label in texts:
            return ()
        first: dict[str, Mapping[str, Any]] = {}
        differing: set[str] = set()
        for image, fields in self._sample.rows:
            before = first.setdefault(image, fields)
            if before is not fields:
                differing.update(
                    name for name in names if text_of(before.get(name)) != text_of(fields.get(name))
                )
        if not differing.intersection(texts) or self._has_lists(names):
            return ()
        label = self._choices.label or _usual_label(names)
        return tuple(name for name in names if name in differing and name != label)

    def _has_lists(self, names: Sequence[str]) -> bool:
        return any(isinstance(value, list) for name in names for value in self._sample.values[name])


def _objects(values: Mapping[str, Sequence[Any]], choices: ColumnChoices) -> ObjectLists | None:
    """The column of objects, if there is one and it is not skipped."""
    kinds = choices.kinds or {}
    cells = values.get(OBJECTS_COLUMN, ())
    if not has_objects(cells) or kinds.get(OBJECTS_COLUMN) == SKIP_KIND:
        return None
    return inspect_objects(
        OBJECTS_COLUMN, cells, {name: KIND_NAMES.get(kind) for name, kind in kinds.items()}
    )


def _column(name: str, values: Sequence[Any], choices: ColumnChoices, *, is_label: bool) -> Column:
    """A column of the kind that the user gave, or else that its values look like."""
    separator = choices.separators.get(name, "")
    repeated = bool(separator) or any(isinstance(value, list) for value in values)
    if repeated:
        values = list(sample_items(values, separator))
    chosen = (choices.kinds or {}).get(name)
    share = _REGRESSION_SHARE if is_label else _NUMERIC_SHARE
    kind = KIND_NAMES[chosen] if chosen else infer_kind(values, share)
    column = further_column(name, kind)
    if is_label:
        column = replace(label_column(name, kind), required=choices.label_required)
    return replace(column, required=True, repeated=True) if repeated else column


def typed_row(
    name: str, fields: Mapping[str, Any], table: LabelTable, schema: LabelSchema, line: int
) -> LabelRow:
    """A row of a table, its values typed; what is wrong with one is the row's problem."""
    values: list[LabelValue] = []
    problems: list[str] = []
    if schema.objects:
        try:
            values += parse_objects(fields.get(schema.objects.column), schema.objects, line)
        except BadCellError as error:
            problems.append(f"column {schema.objects.column!r}: {error}")
            values += [()] * len(schema.objects.columns)
    elif schema.boxes or schema.one_hot:
        try:
            values += _leading_values(fields, schema, line)
        except BadCellError as error:
            problems.append(str(error))
            values += [()] * (len(schema.columns) - len(schema.table_columns))
    for column in schema.table_columns:
        parsed: LabelValue = None
        try:
            parsed = column_value(fields.get(column.name), column, schema)
        except BadCellError as error:
            problems.append(f"column {column.name!r}: {error}")
        values.append(parsed)
    split = table.split
    if schema.split_column and schema.split_column in fields:
        text = text_of(fields.get(schema.split_column))
        split = split_name(text)
        if not split:
            split = text
            problems.append(f"column {schema.split_column!r}: {text!r} names no split")
    return LabelRow(
        *(name, tuple(values), split, table.uri, line),
        problem=problems[0] if problems else "",
        size=claimed_size(fields, schema.size),
    )


def column_value(cell: Any, column: Column, schema: LabelSchema) -> LabelValue:
    """A cell as a value of its column. Raises BadCellError."""
    separator = schema.separators.get(column.name, "")
    if column.name in schema.guessed:
        _check_not_padded(cell, separator, column.name)
    return parse_cell(cell, column, separator)


def split_name(text: str) -> str:
    """The split that a cell names; empty if it names none."""
    split = SPLIT_NAMES.get(text.lower(), text)
    return split if re.fullmatch(r"\w+", split) else ""


def _leading_values(
    fields: Mapping[str, Any], schema: LabelSchema, line: int
) -> tuple[LabelValue, ...]:
    """The values of a row's box, or of its one-hot columns. Raises BadCellError."""
    if schema.boxes:
        return parse_box(fields, schema.boxes, line)
    assert schema.one_hot
    return parse_one_hot(fields, schema.one_hot)


def _check_not_padded(cell: Any, separator: str, column: str) -> None:
    """Raises BadCellError if 007 stands in a column that was taken for one of numbers."""
    if isinstance(cell, str) and "0" in cell:
        for item in list_items(cell, separator):
            if is_padded(item):
                raise BadCellError(
                    f"{shown(item)} begins with a zero, so it may be a name; --columns "
                    f"{column}:str makes the column a text, {column}:int reads it as a number"
                )


# --- which column is what -----------------------------------------------------------------------


def _inspect_table(head: TableHead, choices: ColumnChoices, sample: _Sample) -> LabelTable:
    """Returns the format of a file; adds its beginning to that of all files."""
    table = inspect_file(head, choices.encoding)
    kinds = choices.kinds or {}
    texts = {name for name, kind in kinds.items() if KIND_NAMES.get(kind) is ColumnKind.BYTES}
    table = with_decimal_commas(table, head, texts | {*choices.separators})
    rows = sample_rows(head, table)
    columns = columns_of(rows, table)
    key = _key_name([*filter(None, columns)], choices, head.uri)
    sample.add(rows, columns, key)
    return replace(table, key_column=key)


def _key_name(names: Sequence[str], choices: ColumnChoices, uri: str) -> str:
    if choices.key and choices.key == choices.label:
        raise LabelTableError(f"{uri}: the column {choices.key!r} cannot be both key and label")
    if choices.key:
        if choices.key in names:
            return choices.key
        raise LabelTableError(
            f"{uri}: no column {choices.key!r} (--key_column); it has {', '.join(names)}"
        )
    candidates = [name for name in names if name != choices.label] or names
    paths = path_columns(candidates)
    if len(paths) > 1:
        raise LabelTableError(
            f"{uri}: which of the columns {', '.join(paths)} names the image? Say --key_column NAME"
        )
    by_lower = {name.lower(): name for name in reversed(candidates)}
    ids = [by_lower[name] for name in _ID_NAMES if name in by_lower]
    return [*paths, *ids, *candidates][0]


def _usual_label(names: Sequence[str]) -> str:
    """The column that is called as one with labels is, or empty."""
    by_lower = {name.lower(): name for name in reversed(names)}
    return next((by_lower[name] for name in LABEL_NAMES if name in by_lower), "")


def _check_choices(
    choices: ColumnChoices,
    values: Mapping[str, Sequence[Any]],
    keys: set[str],
    objects: ObjectLists | None,
    where: str,
) -> None:
    names = [name for name in values if name]
    if objects:
        names += list_names(objects.column, values[objects.column])
    wanted = dict.fromkeys(choices.kinds or (), "--columns")
    wanted.update(dict.fromkeys(choices.separators, "--list_column"))
    if choices.label and choices.label != NO_LABEL_COLUMN:
        wanted[choices.label] = "--label_column"
    if choices.group and choices.group != FOLDER:
        wanted[choices.group] = "--split_by"
    for name, option in wanted.items():
        if name not in names:
            raise LabelTableError(
                f"{where}: no column {name!r} ({option}); found {', '.join(names)}"
            )
    if objects and choices.label not in ("", NO_LABEL_COLUMN):
        raise LabelTableError(
            f"{where}: the column {objects.column!r} says the classes, so {choices.label!r} cannot "
            f"be the label; leave out --label_column, or say --columns {objects.column}:skip"
        )
    in_rows = [name for name, separator in choices.separators.items() if not separator]
    if in_rows and len(in_rows) < len(choices.separators):
        in_cells = next(name for name, separator in choices.separators.items() if separator)
        raise LabelTableError(
            f"{where}: --list_column {in_rows[0]} says that an image has several rows, with a value each, "
            f"so the cells of {in_cells!r} cannot hold several"
        )
    for name in choices.separators:
        if name in keys:
            raise LabelTableError(
                f"{where}: the column {name!r} names the image, so it holds no list (--list_column)"
            )
