"""The label of a table: errors where no column can be told to be it, and questions where one hardly is."""

from __future__ import annotations

import itertools
import posixpath
import re
import shlex
import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from beam_pipeline.core import errors, questions, text
from beam_pipeline.core.labels import schema
from beam_pipeline.core.labels.cells import MOST, filled, is_number, text_of, texts_of
from beam_pipeline.core.listing.folders import FOLDER, are_splits

_SPLIT_NUMBER = re.compile(r".*\d.*|true|false", re.IGNORECASE)
_SHOWN_NAMES = 8
_MOST_FLAGS = 100  # names that still fit into a command
_FLAGS = tuple(map(frozenset, (("0", "1"), ("-1", "1"), ("0.0", "1.0"), ("False", "True"))))
_WHOLE = re.compile(r"\d+\.0*")
_VERDICT = re.compile("accept(?:ed)?|(reject(?:ed)?|ignored?|skip(?:ped)?)", re.IGNORECASE)
_CONFIDENCE = re.compile(r"1(?:\.0)?|(0(?:\.0)?)")
_EXACT, _LARGEST = 1 << 24, 1e38
_ENOUGH_CELLS = 10
_LOOKED_AT = 1000  # numbers
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
        if name in roles and (is_file or kind == schema.JSON_KIND):
            nested = "contain objects or lists of lists; write a text or a number in each cell"
            yield f"{column} {roles[name]}, so it cannot {f'be of the type {kind} (--columns)' if is_file else nested}"
        if kind == schema.JSON_KIND and name in choices.list_column:
            yield f"{column} is text of JSON (--columns), so it is not split (--list_column)"
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
    texts = {name: {*texts_of(filled(values.get(name, ())))} for name in names}
    flags = [name for name in names if any(texts[name] <= flags for flags in _FLAGS if texts[name])]
    give = "Give"
    if 1 < len(flags) <= _MOST_FLAGS:
        give = f"If 1 means that an image has a column's class: --one_hot {shlex.quote(','.join(flags))}. Otherwise, give"
    return errors.LabelTableError(
        f"{where}: which of the columns {text.enumerated(names, _SHOWN_NAMES)} is the label? {give} --label_column NAME, "
        "or --label_column none to keep all of them as features label/<column>"
    )


def single_column(where: str, keys: Sequence[str]) -> errors.LabelTableError:
    """The error for a table with nothing besides the column that names the images."""
    only = f": the only one is {text.excerpt(keys[0])}" if keys else ""
    return errors.LabelTableError(
        f"{where}: no column besides the key, so there are no labels{only}. Expected a first line such as "
        "filename,label, with a comma, semicolon, tab or | between its names, then a line for each image"
    )


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
    """Asks about a label that is called like a split, or has values like splits, as a partition with 0, 1 and 2 has.

    Args:
      label: the column, which the user did not name.
      cells: its values in the first rows.
      uris: the files.
    """
    called = " ".join([label, *map(posixpath.basename, uris)]).lower()
    values = {*map(text_of, cells)} - {""}
    numbers = label if all(map(_SPLIT_NUMBER.fullmatch, values)) else ""
    if are_splits(numbers, values) or ("partition" in called and values <= {"0", "1", "2"}):
        yield questions.Question(
            "partition",
            f"The column {label!r} of {', '.join(uris)} would be the label, but its name or values are usual for splits: "
            "numbers up to 2 are training, validation and testing. "
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


def verdict_questions(values: Mapping[str, Sequence[Any]]) -> Iterator[questions.Question]:
    """Asks about a column that takes labels of rows back, as Prodigy's `answer` and Open Images' `Confidence` do.

    Args:
      values: column -> its values in the first rows, of those that the user said nothing of.
    """
    for name, cells in values.items():
        is_confidence = name.lower() == "confidence"
        pattern, kind = (_CONFIDENCE, "float") if is_confidence else (_VERDICT, "str")
        texts = {*texts_of(cells)} - {""}
        matches = [*itertools.takewhile(bool, map(pattern.fullmatch, texts))]
        against = {match[1] for match in matches if match and match[1]}
        if against and len(matches) == len(texts):
            yield questions.Question(
                "verdicts",
                f"The labels of all rows would count, although the column {name!r} seems to take some of them back: it "
                f"contains {text.enumerated([*map(repr, sorted(against))], _SHOWN)}.",
                "Remove these rows. To keep them, with the column as a feature:",
                {"columns": {name: kind}},
            )


def rounding_questions(
    columns: Sequence[schema.Column], values: Mapping[str, Sequence[Any]]
) -> Iterator[questions.Question]:
    """Asks about large numbers that would be rounded as floats of 32 bits, such as ids and times.

    Args:
      columns: the further ones whose kinds the user did not give.
      values: column -> its values in the first rows.
    """
    for column in columns:
        if column.kind is schema.ColumnKind.FLOAT and not column.repeated:
            numbers = texts_of(filled(values.get(column.name, ())[:_LOOKED_AT]))
            large = [number for number in numbers if _is_rounded(number)]
            if len(large) > MOST * len(numbers):
                yield questions.Question(
                    "rounded",
                    f"The numbers in the column {column.name!r}, such as {large[0]}, would be rounded to 24 bits, as floats "
                    "are.",
                    f"--columns {shlex.quote(f'{column.name}:float')} accepts that. To keep them as texts:",
                    {"columns": {column.name: "str"}},
                )


def _is_rounded(text: str) -> bool:
    number = float(text) if is_number(text) else 0.0
    in_range = _EXACT < abs(number) < _LARGEST
    return in_range and struct.unpack("f", struct.pack("f", number))[0] != number


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
