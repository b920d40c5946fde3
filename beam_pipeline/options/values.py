"""Parsers for option values: each turns text from the command line into a field's value.

A parser raises `argparse.ArgumentTypeError` that shows the text found and the text expected;
argparse adds the option's name.
"""

from __future__ import annotations

import argparse
import codecs
import re
import warnings
from collections.abc import Mapping
from fractions import Fraction

from beam_pipeline.core.labels.schema import FILE_TYPES, KIND_NAMES, SKIP_KIND
from beam_pipeline.core.records.sharding import MOST_SHARDS, SplitFractions
from beam_pipeline.core.references import SPLIT_NAME

LABEL_FILES = "label_files"
"""The value of --splits that makes each label file a split."""

_UNITS = {
    "": 1,
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KIB": 1 << 10,
    "MIB": 1 << 20,
    "GIB": 1 << 30,
    "TIB": 1 << 40,
}


def parse_size(text: str) -> int:
    """Returns bytes: `200MB` is 200,000,000, `128MiB` is 134,217,728, `1000` is 1000."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", text.strip())
    unit = _UNITS.get(match[2].upper()) if match else None
    if match is None or unit is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a size; expected a number with KB, MB, GB, KiB, MiB or GiB"
        )
    size = int(Fraction(match[1]) * unit)
    if size < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is less than one byte")
    return size


def parse_side_lengths(text: str) -> str:
    """Returns the text of a width and a height: `256`, which is both, or `320x240`.

    A pair of Python, `(320, 240)`, is the same.
    """
    text = text.strip("()[] ").lower()
    match = re.fullmatch(r"([0-9]{1,5})(?:(?:x|, ?)([0-9]{1,5}))?", text)
    if match is None or not all(int(side) for side in match.groups("1")):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not an image size; expected pixels, as 256, or WIDTHxHEIGHT, as 320x240"
        )
    return match[0].replace(", ", "x")


def side_lengths(text: str) -> tuple[int, int]:
    """Width and height of what `parse_side_lengths` returned."""
    width, _, height = text.partition("x")
    return int(width), int(height or width)


def parse_truth(text: str) -> bool:
    """Returns a boolean: `true` or `false`."""
    if text.lower() not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"{text!r}; expected true or false")
    return text.lower() == "true"


def parse_splits(text: str) -> SplitFractions | str:
    """Returns exact fractions that add up to 1: `train=0.9,test=0.1` or `a=1/3,b=2/3`.

    `label_files` stays what it is: each label file is a split.
    """
    if text == LABEL_FILES:
        return text
    fractions = []
    for name, share in _pairs(text, "=", "SPLIT=FRACTION").items():
        _check_split_name(name)
        try:
            fraction = Fraction(share)
        except (ValueError, ZeroDivisionError):
            fraction = Fraction(-1)
        if not 0 < fraction <= 1:
            raise argparse.ArgumentTypeError(
                f"{share!r} is not a fraction greater than 0 and at most 1"
            )
        fractions.append((name, fraction))
    try:
        return SplitFractions(tuple(fractions))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from error


def parse_num_shards(text: str) -> int | dict[str, int]:
    """Returns one number for every split (`16`) or split -> number (`train=128,test=8`)."""
    if "=" not in text:
        return _shard_count(text.strip())
    shards = {}
    for name, value in _pairs(text, "=", "SPLIT=N").items():
        _check_split_name(name)
        shards[name] = _shard_count(value)
    return shards


def parse_features(text: str) -> dict[str, str]:
    """Returns written key -> feature or column: `image/source_id=label`."""
    return dict(_pairs(text, "=", "KEY=WHAT"))


def parse_columns(text: str) -> dict[str, str]:
    """Returns column -> type name: `name:int,score:float`."""
    columns = dict(_pairs(text, ":", "NAME:TYPE"))
    for name, kind in columns.items():
        if kind not in KIND_NAMES and kind != SKIP_KIND:
            raise argparse.ArgumentTypeError(
                f"{kind!r} (of column {name}) is not a type; "
                f"use {', '.join([*KIND_NAMES, SKIP_KIND])}"
            )
    return columns


def parse_file_columns(text: str) -> dict[str, str]:
    """Returns column -> type for columns of files: `right,thumb:copy`."""
    return parse_columns(
        ",".join(part if ":" in part else f"{part}:{FILE_TYPES[0]}" for part in text.split(","))
    )


def parse_list_column(text: str) -> dict[str, str]:
    """Returns column -> separator for one column: `tags=;`. Spaces are kept: `tags=, `.

    The separator is empty for a name alone: each row of an image has one value.
    """
    name, equals, separator = text.partition("=")
    if not name or (equals and not separator):
        raise argparse.ArgumentTypeError(
            f"{text!r}: expected COLUMN=SEPARATOR, such as 'tags=;' (in quotes, for the shell), or COLUMN "
            "for a value a row"
        )
    return {name: separator}


def parse_names(text: str) -> tuple[str, ...]:
    """Returns names without repetitions: `cat,dog,bird` or `class_*`."""
    names = tuple(dict.fromkeys(filter(None, map(str.strip, text.split(",")))))
    if not names:
        raise argparse.ArgumentTypeError(f"{text!r} lacks names; expected names such as a,b,c")
    return names


def parse_encoding(text: str) -> str:
    """Returns Python's name of a text encoding; empty for empty text."""
    if not text:
        return ""
    try:
        "".encode(text)
        name = codecs.lookup(text).name
    except (LookupError, ValueError) as error:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not an encoding; expected a name such as utf-8, cp1252 or shift_jis"
        ) from error
    return "utf-8-sig" if name == "utf-8" else name


def parse_label_from(text: str) -> str:
    """Returns the text unchanged if it is a regular expression with named groups, or empty."""
    if not text:
        return ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)
            groups = re.compile(text).groupindex
    except re.error as error:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a regular expression: {error}"
        ) from error
    except (
        FutureWarning
    ) as warning:  # another label from the same name, from one Python to the next
        raise argparse.ArgumentTypeError(
            rf"{text!r} may mean something else in a later Python: {warning}; write \[ for a bracket, and "
            r"\-, \&, \~ or \| for one of two equal marks in brackets"
        ) from warning
    if not groups:
        raise argparse.ArgumentTypeError(
            rf"{text!r} lacks a named group; expected one such as (?P<label>.+)_\d+\.jpg"
        )
    return text


def _pairs(text: str, mark: str, expected: str) -> Mapping[str, str]:
    """Splits `a=1,b=2` at the commas and each part at its last mark; names must be unique."""
    pairs: dict[str, str] = {}
    for part in text.split(","):
        name, separator, value = (piece.strip() for piece in part.rpartition(mark))
        if not separator or not name or not value:
            raise argparse.ArgumentTypeError(f"{part!r} in {text!r}: expected {expected}")
        if name in pairs:
            raise argparse.ArgumentTypeError(f"{text!r} names {name} twice")
        pairs[name] = value
    return pairs


def _check_split_name(name: str) -> None:
    if not SPLIT_NAME.fullmatch(name):
        raise argparse.ArgumentTypeError(
            f"{name!r} cannot name a split; use letters, digits and '_'"
        )


def _shard_count(value: str) -> int:
    if not value.isdecimal() or not 1 <= int(value) <= MOST_SHARDS:
        raise argparse.ArgumentTypeError(f"{value!r} is not a number of shards; expected 1 or more")
    return int(value)
