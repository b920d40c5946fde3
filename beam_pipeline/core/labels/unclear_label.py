"""The label of a table: errors where no column can be told to be it, and questions where one hardly is."""

from __future__ import annotations

import itertools
import posixpath
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from beam_pipeline.core import errors, questions, text
from beam_pipeline.core.labels import further_columns, schema
from beam_pipeline.core.labels.cells import filled, is_empty, text_of, texts_of
from beam_pipeline.core.listing.folders import FOLDER

_SHOWN_NAMES = 8
_MOST_FLAGS = 100  # names that still fit into a command
_MANY = 64  # pixels of the smallest images that people keep in tables
_PIXEL = re.compile(r"(?:pixel|px?)?_?\d+(?:[x_]\d+)?", re.IGNORECASE)
_PIXEL_LISTS = frozenset(["pixels", "pixel"])
_RUN_LENGTHS = frozenset(["encodedpixels", "rle", "rle_mask"])  # names on Kaggle
_NO_RUN_LENGTHS = (
    "It seems to contain masks as run lengths, which are not read. Write a PNG for each image, whose pixels are "
    "class ids, and name their folder with --masks (docs/datasets/segmentation.md)"
)
_FLAGS = (frozenset(["0", "1"]), frozenset(["-1", "1"]))
_WHOLE = re.compile(r"\d+\.0*")
_ENOUGH_CELLS = 10
_FEW_NUMBERS = 20  # more are hardly classes
_MOST_COLUMNS = 10_000
_SHOWN = 3


def choice_problems(
    choices: schema.ColumnChoices,
    names: Sequence[str],
    keys: Collection[str],
    points: Collection[str],
    objects: str,
) -> Iterator[str]:
    """What is wrong with options on columns that are missing, or do not fit the option.

    Args:
      choices: the options.
      names: the columns, and the lists in the column of objects.
      keys: the columns that name the images.
      points: the ones in --columns that have two columns.
      objects: the column of objects, or empty.
    """
    wanted = dict.fromkeys(choices.columns, "--columns")
    wanted.update(dict.fromkeys(choices.list_column, "--list_column"))
    if choices.label_column and choices.label_column != schema.NO_LABEL_COLUMN:
        wanted[choices.label_column] = "--label_column"
    if choices.split_by and choices.split_by != FOLDER:
        wanted[choices.split_by] = "--split_by"
    there = f"found {', '.join(names)}"
    roles = {choices.label_column: "is the label", **dict.fromkeys(keys, "names the image")}
    for name, option in wanted.items():
        if choices.columns.get(name) == schema.POINT_KIND and name not in points:
            yield f"no columns {name}_x and {name}_y (--columns {name}:point); {there}"
        if name not in names and name not in points:
            yield f"no column {name!r} ({option}); {there}"
    if objects and choices.label_column not in ("", schema.NO_LABEL_COLUMN):
        yield (
            f"the column {objects!r} contains the classes, so {choices.label_column!r} cannot be the label; leave out "
            f"--label_column, or give --columns {objects}:skip"
        )
    in_cells = [name for name, separator in choices.list_column.items() if separator]
    in_rows = [name for name in choices.list_column if name not in in_cells]
    if in_rows and in_cells:
        yield (
            f"--list_column {in_rows[0]} means that an image has several rows, each with a value, so the cells "
            f"of {in_cells[0]!r} cannot contain several"
        )
    for name, kind in choices.columns.items():
        column, is_file = f"the column {name!r}", kind in schema.FILE_TYPES
        if kind == schema.JSON_KIND and name in choices.list_column:
            yield f"{column} is text of JSON (--columns), so it is not split (--list_column)"
        if kind == schema.JSON_KIND and name in roles:
            yield f"{column} {roles[name]}, so it cannot be JSON (--columns)"
        if is_file and name in roles:
            yield f"{column} {roles[name]}, so its cells are no further files (--columns {name}:{kind})"
        if is_file and name.partition("/")[0] in ("image", "label"):
            yield (
                f"the files of {column} would be written as {name}/encoded, among the features of the image and "
                "its labels; give the column another name"
            )
    for name in choices.list_column.keys() & keys:
        yield f"the column {name!r} names the image, so it contains no list (--list_column)"


def unclear_label(
    where: str, names: Sequence[str], values: Mapping[str, Sequence[Any]]
) -> errors.LabelTableError:
    """The error that asks which column is the label.

    Args:
      where: the files.
      names: the columns that may be it, at least two.
      values: column -> its values in the first rows.
    """
    cells = {name: [c for c in values.get(name, ()) if not is_empty(c)] for name in names}
    texts = {name: set(map(text_of, column)) for name, column in cells.items() if column}
    lower = {name.lower() for name in names}
    objects = [name for name, column in cells.items() if any(map(_is_object, column))]
    flags = [name for name, column in texts.items() if any(column <= flags for flags in _FLAGS)]
    points = further_columns.paired_columns(names)
    keep = "--label_column none to keep all of them as features label/<column>"
    hint = ""
    if lower & _PIXEL_LISTS or len([*filter(_PIXEL.fullmatch, names)]) >= _MANY:
        hint = (
            "It seems to contain the pixels of images, not names of image files. Such a table is not read; "
            "beam_pipeline.convert_samples takes images from arrays in Python (docs/datasets/python.md)"
        )
    elif objects:
        skipped = ",".join(f"{name}:skip" for name in objects)
        hint = _no_objects(objects)
        if len(objects) < len(names):
            hint += f". To take the label from another: --label_column NAME --columns {skipped}"
    else:
        if 1 < len(flags) <= _MOST_FLAGS:
            hint = f"If 1 means that an image has a column's class: --one_hot {','.join(flags)}. Otherwise, give "
        elif lower & _RUN_LENGTHS:
            hint = f"{_NO_RUN_LENGTHS}. For the other columns, give "
        elif {*itertools.chain(*points.values())} == {*names}:
            columns = ",".join(f"{name}:{schema.POINT_KIND}" for name in points)
            hint = f"If they are points: --label_column none --columns {columns}. Otherwise, give "
        hint = f"{hint or 'Give '}--label_column NAME, or {keep}"
    columns = text.enumerated(names, _SHOWN_NAMES)
    return errors.LabelTableError(f"{where}: which of the columns {columns} is the label? {hint}")


def single_column(where: str, keys: Sequence[str]) -> errors.LabelTableError:
    """The error for a table with nothing besides the column that names the images."""
    only = f": the only one is {text.excerpt(keys[0])}" if keys else ""
    spaced = (
        ". Spaces separate no columns, except a name from its label; docs/datasets/official_lists.md "
        "has commands that write tables of such files"
    )
    return errors.LabelTableError(
        f"{where}: no column besides the key, so there are no labels{only}. Expected a first line such "
        "as filename,label, then a line with the name and the label of each image"
        f"{spaced if keys and ' ' in keys[0] else ''}"
    )


def check_label(where: str, label: str, cells: Sequence[Any]) -> None:
    """Checks a label column that was not named by the user.

    Raises:
      LabelTableError: its first cells are all JSON objects, or lists of them, or masks as run lengths.
    """
    values = [cell for cell in filled(cells) if cell != []]
    refused = f"{where}: the column {label!r} cannot be the label."
    if values and all(map(_is_object, values)):
        raise errors.LabelTableError(
            f"{refused} {_no_objects([label])}. To take the label from another column: --label_column NAME"
        )
    if label.lower() in _RUN_LENGTHS:
        raise errors.LabelTableError(f"{refused} {_NO_RUN_LENGTHS}")


def nested_question(names: Sequence[str], where: str, *, needs_label: bool) -> questions.Question:
    """Asks whether columns of objects are kept as text; `needs_label` if no column is the label."""
    label = {"label_column": schema.NO_LABEL_COLUMN} if needs_label else {}
    other = "If another column is the label: --label_column NAME. " if needs_label else ""
    return questions.Question(
        "nested",
        f"{where}: cells of {text.enumerated(names, _SHOWN_NAMES)} contain objects or lists of lists, which do not become "
        "features.",
        f"{other}--columns {shlex.quote(f'{names[0]}:skip')} leaves a column out. To keep them as text of JSON:",
        {"columns": dict.fromkeys(names, schema.JSON_KIND), **label},
    )


def _no_objects(names: Sequence[str]) -> str:
    return (
        f"Cells of {text.enumerated(names, _SHOWN_NAMES)} contain objects, which are not read. To keep them as "
        f"text: --columns {shlex.quote(f'{names[0]}:json')} --label_column none. Otherwise write a "
        "table with a row for each image, such as filename,label, or for each object, such as "
        "filename,label,xmin,ymin,xmax,ymax"
    )


def _is_object(cell: Any) -> bool:
    if isinstance(cell, str):
        return cell.startswith(("{", "[{"))
    return isinstance(cell, dict) or (isinstance(cell, list) and any(map(_is_object, cell)))


def only_class_question(names: Sequence[str]) -> questions.Question:
    """Asks whether texts beside boxes without a column of classes are their classes."""
    return questions.Question(
        "only_class",
        f"all boxes would be of one class, although {text.enumerated(names, _SHOWN_NAMES)} may contain classes.",
        "For classes:",
        {"label_column": names[0]},
        (("For one class:", {"label_column": schema.NO_LABEL_COLUMN}),),
    )


def partition_questions(
    label: str, cells: Sequence[Any], uris: Sequence[str]
) -> Iterator[questions.Question]:
    """Asks about a column of 0, 1 and 2 in a table of a partition (CelebA has one), which is not a class.

    Args:
      label: the column, which the user did not name.
      cells: its values in the first rows.
      uris: the files.
    """
    called = " ".join([label, *map(posixpath.basename, uris)]).lower()
    if "partition" in called and {*map(text_of, cells)} <= {"", "0", "1", "2"}:
        yield questions.Question(
            "partition",
            f"The column {label!r} of {', '.join(uris)} would be the label, but numbers up to 2 in a partition "
            "are usual for splits: 0 for training, 1 for validation, 2 for testing. "
            "docs/datasets/official_lists.md has a command that writes them as a column split.",
            "This keeps them as classes:",
            {"label_column": label},
        )


def whole_number_questions(
    label: str, cells: Sequence[Any], uris: Sequence[str]
) -> Iterator[questions.Question]:
    """Asks about a label of few whole numbers with a decimal point, as pandas writes ids beside gaps."""
    texts = texts_of(filled(cells))
    numbers = sorted(set(texts))
    few = len(texts) >= _ENOUGH_CELLS and 1 < len(numbers) <= _FEW_NUMBERS
    if few and all(map(_WHOLE.fullmatch, numbers)):
        yield questions.Question(
            "whole_numbers",
            f"The column {label!r} of {', '.join(uris)} would be a number to predict, but all of its first "
            f"values are whole ({text.enumerated(list(map(repr, numbers)), _SHOWN)}), as pandas writes the numbers "
            "of classes if some are missing.",
            f"--columns {shlex.quote(f'{label}:float')} makes them numbers. For classes:",
            {"columns": {label: "str"}},
        )


def split_number_questions(column: str, cells: Sequence[Any]) -> Iterator[questions.Question]:
    """Asks about a column of splits that contains numbers, which would be their names."""
    names = sorted({*map(text_of, cells)} - {""})
    if names and all(map(str.isdecimal, names)):
        yield questions.Question(
            "split_numbers",
            f"The splits would be called {text.enumerated([*map(repr, names)], _SHOWN)}, as in the column {column!r}.",
            "Write train, validation and test in their place. To keep the column as a feature:",
            {"columns": {column: "int64"}},
        )


def width_questions(count: int, where: str) -> Iterator[questions.Question]:
    """Asks about a table with more columns than anybody means to be features."""
    if count > _MOST_COLUMNS:
        yield questions.Question(
            "many_columns",
            f"{where}: each of {count:,} columns would be a feature of its own, which takes memory and time in "
            "every reader. Write the numbers of a row into one column, as 1;2;3, and give --list_column NAME=';'.",
        )
