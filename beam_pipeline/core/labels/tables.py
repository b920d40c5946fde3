"""The columns of tables: which names the image, which is the label, and what kind the others have.

`inspect_tables` looks at the beginnings of all files before the job starts and settles their
columns and types; a file that is unusable as a whole is an error there.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.core.labels import (
    box_columns,
    cells,
    further_columns,
    leading_columns,
    schema,
    table_files,
    table_rows,
    unclear_label,
)
from beam_pipeline.core.labels.box_columns import BoxColumns, find_boxes, find_size, inspect_boxes
from beam_pipeline.core.labels.roles import CLASS, KEY, SPLIT, RoleRow, column_rows, role_of
from beam_pipeline.core.labels.samples import SAMPLES
from beam_pipeline.core.labels.schema import Column, ColumnChoices, ColumnKind
from beam_pipeline.core.listing.folders import FOLDER, are_splits
from beam_pipeline.core.questions import Question
from beam_pipeline.core.text import excerpt

LABEL_NAMES = ["label", "class", "category", "class_name", "target", "labels", "classes"]
"""Names of the label column, the likelier ones first."""

TEXT_NAMES = ("text", "caption", "captions", "description", "prompt", "comment", "sentence")
"""Names of columns that are never labels, even if alone."""

SPLIT_COLUMN = "split"

_OF_CLASSES = re.compile("cls|class|categor|label|species|type")


@dataclass(frozen=True)
class LabelSchema:
    """The columns and kinds that all files of a run share.

    Attributes:
      columns: the label columns, the label or the objects first, then as they first appear.
      split_column: name of the column with the split, or empty.
      separators: column -> the separator of the values in a cell.
      leading: the columns that come first, and how they are read; none if there is only a label, or nothing.
      guessed: columns inferred to be numbers.
      several_rows: whether the lists of all rows of an image are put together.
      notes: for the user, on how the files are read.
      questions: what is not safe to assume of them.
      split_like: columns not called `split` that seem to contain it, by their values or names.
      points: the columns of points that have two in the table.
      roles: of the columns of the tables.
    """

    columns: tuple[Column, ...]
    split_column: str
    separators: Mapping[str, str] = field(default_factory=dict)
    leading: leading_columns.LeadingColumns = leading_columns.NO_LEADING
    guessed: frozenset[str] = frozenset()
    several_rows: bool = False
    notes: tuple[str, ...] = ()
    questions: tuple[Question, ...] = ()
    split_like: tuple[str, ...] = ()
    points: further_columns.Pairs = field(default_factory=dict)
    roles: tuple[RoleRow, ...] = field(default=(), compare=False)

    @property
    def has_label(self) -> bool:
        """True if there is a label or objects, not only further columns."""
        return bool(self.columns) and self.columns[0].feature.startswith("image/")

    @property
    def label_name(self) -> str | None:
        """The column of the label or of the objects' classes; empty without one, None if several columns are it."""
        if isinstance(self.leading, BoxColumns):
            return self.leading.class_name
        if self.leading != leading_columns.NO_LEADING:
            return None
        return self.columns[0].name if self.has_label else ""

    @property
    def class_by_folder(self) -> bool:
        """True if the first column is the class, which is the image's folder, and empty in every row."""
        return isinstance(self.leading, leading_columns.FolderClass)

    @property
    def objects(self) -> leading_columns.ObjectLists | None:
        """The column of lists of objects; None if it is missing."""
        return self.leading if isinstance(self.leading, leading_columns.ObjectLists) else None

    @property
    def table_columns(self) -> tuple[Column, ...]:
        """The columns that the table also has: all except the leading ones."""
        return self.columns[len(self.leading.columns) :]


def inspect_tables(
    heads: Sequence[table_rows.TableHead],
    choices: ColumnChoices,
    head_of: further_columns.FileHead = lambda _: None,
) -> tuple[LabelSchema, tuple[table_rows.LabelTable, ...]]:
    """Settles how the files are read and what their columns are.

    Args:
      heads: their beginnings.
      choices: the options on columns.
      head_of: looks at files that cells name.

    Raises:
      LabelTableError: a file lacks a usable header, or the columns cannot be told.
    """
    inspected = [table_files.inspect_table(head, choices) for head in heads]
    tables = tuple(table for table, _ in inspected)
    inspection = _Inspection([rows for _, rows in inspected], choices, tables, head_of)
    columns = inspection.label_schema()
    whole = all(head.whole and head.rows is None for head in heads)
    roles = inspection.roles(columns, whole=whole)
    questions = tuple(inspection.questions(columns))
    of_files = chain.from_iterable(map(table_files.file_notes, heads, tables))
    notes = (*of_files, *columns.notes)
    return replace(columns, notes=notes, questions=questions, roles=roles), tables


class _Inspection:
    """Settles the columns of tables from the beginnings of their files."""

    def __init__(
        self,
        files: Sequence[table_rows.TableRows],
        choices: ColumnChoices,
        tables: Sequence[table_rows.LabelTable],
        head_of: further_columns.FileHead,
    ) -> None:
        self._rows = table_rows.TableRows.together(files) if len(files) > 1 else files[0]
        self._values = {name: self._rows.cells(name) for name in self._rows.columns}
        self._files = files
        self._head_of = head_of
        declared = {*choices.columns, choices.label_column, choices.split_by}
        free = {n: c for n, c in self._values.items() if n not in declared | {*choices.list_column}}
        if leading_columns.has_objects(free.get(schema.OBJECTS_COLUMN, ())):
            del free[schema.OBJECTS_COLUMN]
        self._nested = tuple(name for name, column in free.items() if cells.are_nested(column))
        keys = [table.key_column for table in tables]
        declared |= {*keys, *self._nested}
        self._paths = tuple(further_columns.undeclared_files(self._values, declared, head_of))
        kinds = dict.fromkeys(self._nested, schema.JSON_KIND) | dict.fromkeys(self._paths, "file")
        kinds |= choices.columns
        self._choices = choices = replace(choices, columns=kinds)
        self._chosen = {**choices.columns, **choices.list_column}
        self._key_of_file, self._keys = keys, set(keys)
        self._uris = [table.uri for table in tables]
        self._where = ", ".join(self._uris)
        others = [name for name in self._values if name not in self._keys]
        pairs = further_columns.paired_columns(others)
        self._points = {name: pairs[name] for name in pairs if kinds.get(name) == schema.POINT_KIND}

    def label_schema(self) -> LabelSchema:
        """The columns and how they are read. Raises LabelTableError."""
        values, choices = self._values, self._choices
        objects: leading_columns.ObjectLists | None = None
        lists, columns = values.get(schema.OBJECTS_COLUMN, ()), list(filter(None, values))
        skipped = choices.columns.get(schema.OBJECTS_COLUMN) == schema.SKIP_KIND
        if leading_columns.has_objects(lists) and not skipped:
            objects = leading_columns.inspect_objects(lists, choices.columns)
            columns += leading_columns.list_names(lists)
        leads = schema.OBJECTS_COLUMN if objects else ""
        problems = unclear_label.choice_problems(choices, columns, self._keys, self._points, leads)
        for problem in problems:
            raise LabelTableError(f"{self._where}: {problem}")
        names = [name for name in values if name and name not in self._keys]
        declared = {choices.label_column, *choices.columns}
        split = next((n for n in names if n.lower() == SPLIT_COLUMN and n not in declared), "")
        used = {split, leads, *(name for pair in self._points.values() for name in pair)}
        names = [name for name in names if name not in used]
        undeclared = [] if split else [name for name in names if name not in choices.columns]
        split_like = [n for n in undeclared if are_splits(n, {*cells.texts_of(values[n])} - {""})]
        leading = self._leading(names, objects)
        names = [name for name in names if name not in leading.used]
        listed = () if objects else self._listed(names)
        label = ""
        if leading is leading_columns.NO_LEADING and self._are_lists(names):
            leading = leading_columns.FolderClass()
        elif leading is leading_columns.NO_LEADING:
            label = self._label(names, any_needed=not (listed or self._points))
        elif self._points and leading.several_rows:
            raise LabelTableError(
                f"{self._where}: --columns {next(iter(self._points))}:point is for a row an image, not an object"
            )
        further = [
            self._column(name, is_label=name == label, listed=name in listed)
            for name in sorted(names, key=lambda name: name != label)
            if choices.columns.get(name) != schema.SKIP_KIND
        ]
        for name, pair in self._points.items():
            further.append(further_columns.point_of_columns(name, [values[side] for side in pair]))
        notes = [
            f"each row of an image has a value of its list of {' and of '.join(listed)}; cells with several are "
            f"split with --list_column '{name}=SEPARATOR'"
            for name in listed[:1]
        ]
        numbers = {c.name for c in further if c.kind in (ColumnKind.INT64, ColumnKind.FLOAT)}
        if objects:
            leading = replace(objects, size=find_size([column.name for column in further]))
        if choices.split_by and choices.split_by in values and not isinstance(leading, BoxColumns):
            further.append(schema.group_column(choices.split_by))
        return LabelSchema(
            (*leading.columns, *further),
            split,
            dict(choices.list_column),
            leading,
            guessed=frozenset(numbers - choices.columns.keys()),
            several_rows=bool(listed) or leading.several_rows,
            notes=tuple(filter(None, [leading.note, *notes])),
            split_like=tuple(name for name in split_like if name != label),
            points=self._points,
        )

    def questions(self, columns: LabelSchema) -> Iterator[Question]:
        """What is not safe to assume of the columns."""
        choices, leading, split = self._choices, columns.leading, columns.split_column
        label = "" if isinstance(leading, BoxColumns) else columns.label_name or ""
        if leading.question:
            yield leading.question
        if isinstance(leading, BoxColumns) and not (leading.class_name or choices.label_column):
            candidates = [c.name for c in leading.columns[2:] if self._may_be_classes(c)]
            yield from [unclear_label.only_class_question(candidates)] if candidates else []
        if self._nested:
            unlabelled = choices.label_needed and not (label or choices.label_column)
            yield unclear_label.nested_question(self._nested, self._where, needs_label=unlabelled)
        if self._paths:
            yield further_columns.files_question(self._paths, self._where)
        apart = {label, leading.class_name, *self._keys, *self._chosen}
        free = {name: column for name, column in self._values.items() if name not in apart}
        yield from unclear_label.verdict_questions(free)
        labels = self._values.get(label, ())
        if label and not choices.label_column:
            yield from unclear_label.partition_questions(label, labels, self._uris)
        if label.lower() in LABEL_NAMES and label not in self._chosen:
            yield from unclear_label.whole_number_questions(label, labels, self._uris)
        further = columns.table_columns
        yield from unclear_label.width_questions(len(further), self._where)
        undeclared = [column for column in further if column.name not in self._chosen]
        yield from unclear_label.rounding_questions(undeclared, self._values)
        splits = self._values[split] if split else ()
        yield from unclear_label.split_number_questions(split, splits)

    def roles(self, columns: LabelSchema, *, whole: bool) -> tuple[RoleRow, ...]:
        """The rows of all columns in the table of roles; `whole` if these are all rows."""
        leading = columns.leading
        roles = {column.name: role_of(column) for column in columns.columns}
        roles |= {side: "point" for pair in columns.points.values() for side in pair}
        if isinstance(leading, BoxColumns):
            roles |= dict.fromkeys(leading.size, "size") | dict.fromkeys(leading.names, "box side")
        else:
            role = "objects" if isinstance(leading, leading_columns.ObjectLists) else CLASS
            roles |= dict.fromkeys(leading.used, role)
        roles |= {columns.split_column: SPLIT, leading.class_name: CLASS}
        roles.pop("", None)
        roles |= dict.fromkeys(self._keys, KEY)
        return column_rows(self._values, roles, partial=not whole)

    def _column(self, name: str, *, is_label: bool, listed: bool) -> Column:
        """A column of the kind that the user gave, or else that its values look like."""
        values = self._values[name]
        separator = self._choices.list_column.get(name, "")
        usual = schema.TEXT_KIND if name == self._choices.row_id else None
        chosen = self._choices.columns.get(name, usual)
        has_lists = list in set(map(type, values))
        repeated = bool(separator) or (has_lists and chosen != schema.JSON_KIND)
        if repeated:
            values = list(cells.sample_items(values, separator))
        share = cells.MOST if is_label else cells.NEARLY_ALL  # a fraction all but excludes classes
        kind = schema.KIND_NAMES[chosen] if chosen else cells.infer_kind(values, share)
        if kind is ColumnKind.FILE:
            kind = further_columns.kind_of_files(values, self._head_of)
        column = schema.further_column(name, kind)
        if is_label:
            required = self._choices.unlabelled != "keep"
            column = replace(schema.label_column(name, kind), required=required)
        return replace(column, required=True, repeated=True) if repeated or listed else column

    def _leading(
        self, names: Sequence[str], objects: leading_columns.ObjectLists | None
    ) -> leading_columns.LeadingColumns:
        """The objects, boxes or one-hot columns, if there are any. Raises LabelTableError."""
        leading = objects or self._boxes(names) or self._one_hot(names)
        lists = (f"{schema.OBJECTS_COLUMN}.{leading_columns.BOXES}",) if objects else ()
        sides = leading.names if isinstance(leading, BoxColumns) else lists
        for name, kind in self._choices.columns.items():
            if kind in schema.LIST_FORMS and sides != (name,):
                raise LabelTableError(
                    f"{self._where}: --columns {name}:{kind} is for the one column of lists of four numbers, "
                    "which has box in its name"
                )
        return leading

    def _boxes(self, names: Sequence[str]) -> BoxColumns | None:
        """The columns of rows with a box each; None if rows have none, or options forbid it."""
        choices, values = self._choices, self._values
        _, sides = find_boxes([name for name in names if name != choices.label_column], values)
        forms = {self._chosen.get(side, schema.LIST_FORMS[0]) for side in sides}
        of_regions = choices.label_column and box_columns.are_regions(sides)
        if not sides or of_regions or not forms.issubset(schema.LIST_FORMS):
            return None
        label = "" if choices.label_column == schema.NO_LABEL_COLUMN else choices.label_column
        numbers = {name: cells.filled(values[name]) for name in sides if len(sides) > 1}
        texts = [n for n in numbers if cells.infer_kind(numbers[n] or [0]) is ColumnKind.BYTES]
        if texts and not re.match(r"[+-]?\d", cells.text_of(numbers[texts[0]][0])):
            return None
        if texts:
            raise LabelTableError(
                f"{self._where}: the columns {', '.join(sides)} are called like sides of boxes, but {texts[0]!r} contains "
                f"texts such as {excerpt(numbers[texts[0]][0])}. Write numbers; or --columns {shlex.quote(f'{texts[0]}:str')} "
                "keeps all as plain columns"
            )
        further = [name for name in names if name not in sides]
        if not label and choices.label_column != schema.NO_LABEL_COLUMN:
            label = _usual_label(further) or box_columns.class_name_column(further)
        usable = {name: values[name] for name in names}
        return inspect_boxes(usable, self._rows, label, choices.columns)

    def _may_be_classes(self, column: Column) -> bool:
        """True for an undeclared column whose values repeat: texts, or integers under a name like cls."""
        texts = cells.texts_of(cells.filled(self._values[column.name]))
        called = _OF_CLASSES.search(column.name.lower())
        kinds = (ColumnKind.BYTES, ColumnKind.INT64) if called else (ColumnKind.BYTES,)
        undeclared = column.kind in kinds and column.name not in self._chosen
        return undeclared and 1 < len(set(texts)) <= cells.MOST * len(texts)

    def _one_hot(self, names: Sequence[str]) -> leading_columns.LeadingColumns:
        """The one-hot columns that the user named, or that there are instead of a label."""
        choices, where = self._choices, self._where
        if choices.one_hot:
            return leading_columns.chosen_one_hot(choices.one_hot, names, self._rows, where)
        if choices.label_column or _usual_label(names) or not choices.label_needed:
            return leading_columns.NO_LEADING
        free = [name for name in names if name not in self._chosen]
        classes = leading_columns.find_one_hot(free, self._rows)
        if not classes:
            return leading_columns.NO_LEADING
        one_hot = leading_columns.chosen_one_hot(classes, names, self._rows, where)
        return replace(one_hot, question=leading_columns.one_hot_question(classes))

    def _label(self, names: Sequence[str], *, any_needed: bool) -> str:
        """The label column; empty if there is none, and none is needed. Raises LabelTableError."""
        choices, where = self._choices, self._where
        if choices.label_column == schema.NO_LABEL_COLUMN and schema.NO_LABEL_COLUMN not in names:
            return ""
        types = choices.columns.items()
        skipped = {name for name, kind in types if kind == schema.SKIP_KIND}
        files = {name for name, kind in types if kind in schema.FILE_TYPES}
        structured = files | {name for name, kind in types if kind == schema.JSON_KIND}
        apart = skipped | files | {choices.split_by, choices.row_id}
        plain = [name for name in names if name not in structured and name != choices.row_id]
        label = choices.label_column or _usual_label(plain)
        if not label and (self._nested or (structured and apart.issuperset(plain))):
            return ""
        if label in skipped:
            raise LabelTableError(
                f"{where}: the label column {label!r} cannot be skipped (--columns); give "
                "--label_column with the name of another column, or with none"
            )
        if not label:
            names = [name for name in names if name not in apart]
            if not names and not (self._points or files):
                raise unclear_label.single_column(where, sorted(self._keys))
            if len(names) > 1 and choices.label_needed and any_needed:
                raise unclear_label.unclear_label(where, names, self._values)
            label = names[0] if len(names) == 1 and names[0].lower() not in TEXT_NAMES else ""
        return label

    def _are_lists(self, names: Sequence[str]) -> bool:
        """True if the tables name images, perhaps with the split or the group of each, but no label."""
        choices = self._choices
        labels = [name for name in names if name != choices.split_by or name == FOLDER]
        known = all(map(table_files.is_key_name, self._keys - {choices.key_column}))
        return choices.may_be_lists and known and not (labels or choices.label_column)

    def _listed(self, names: Sequence[str]) -> tuple[str, ...]:
        """The columns with a value in each row of an image: those given, or all that differ if a text does."""
        choices = self._choices
        if choices.list_column:
            return tuple(name for name in names if choices.list_column.get(name) == "")
        texts = [name for name in names if name.lower() in TEXT_NAMES]
        if choices.sample != SAMPLES[0] or not texts or choices.label_column in texts:
            return ()
        files = zip(self._files, self._key_of_file, strict=True)
        images = [cells.text_of(cell) for rows, key in files for cell in rows.cells(key)]
        differing = {
            name
            for name in names
            if len({*zip(images, cells.texts_of(self._values[name]), strict=True)}) > len({*images})
        }
        has_lists = any(list in set(map(type, self._values[name])) for name in names)
        if not differing.intersection(texts) or has_lists:
            return ()
        label = choices.label_column or _usual_label(names)
        return tuple(name for name in names if name in differing and name != label)


def _usual_label(names: Sequence[str]) -> str:
    """The column that is called as one with labels is, or empty."""
    return next(iter(table_files.columns_called(LABEL_NAMES, names)), "")
