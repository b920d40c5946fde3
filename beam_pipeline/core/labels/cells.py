"""Cells of a table: infers the kind of a column, and parses a cell as a value of its column.

A cell may contain a list as text in brackets, as pandas, JSON and databases write them:

| text | items |
|---|---|
| `["cat", "dog"]`, `['cat', 'dog']`, `[cat, dog]` | `cat`, `dog` |
| `[1, 2.5]`, `[1 2.5]` as of NumPy's arrays | `1`, `2.5` |
| `('cat', 'dog')`, `{cat,dog}` | `cat`, `dog` |
| `[]` | none |
"""

from __future__ import annotations

import ast
import contextlib
import json
import math
import operator
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, TypeVar

from beam_pipeline.core import packing, references
from beam_pipeline.core.labels.schema import CELL_FILES, KINDS, Column, ColumnKind
from beam_pipeline.core.text import excerpt, is_utf8
from beam_pipeline.core.typed_json import INT64, fits_float32

MOST, NEARLY_ALL = 0.5, 0.9
"""Shares that decide about the values of a column, or its classes; the rest are faults."""

_TEXTS = CELL_FILES | {ColumnKind.CLASS, ColumnKind.BYTES}
_NO_VALUE = frozenset(("", "na", "n/a", "nan", "null", "none"))
_INTEGER = re.compile(r"[+-]?(0|[1-9][0-9]*)")
_DIGITS = re.compile(r"[+-]?\d+")
_PADDED = re.compile(r"[+-]?0[0-9]+")
_INT64_DIGITS = 20  # with the sign
_ROUNDING = 1e-6
_NUMBER_LABEL = "image/label"  # the feature of a label to regress on
_FURTHER = "label/"  # what the features of all other columns begin with


BRACKETS = "[]"
"""What --list_column gives in place of a separator for such lists."""
LISTS = frozenset([BRACKETS, "()", "{}"])
"""How they begin and end."""

_QUOTED = r"'(?:[^'\\]|\\.)*'|" + r'"(?:[^"\\]|\\.)*"'
_WITH_COMMAS = re.compile(rf"\s*(?:({_QUOTED})\s*|([^,'\"\[\]()]+))(?:,|\Z)")
_WITH_SPACES = re.compile(rf"\s*({_QUOTED})()(?:\s+|\Z)")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = frozenset("\\'\"abfnrtvxuUN01234567\n")
_NUMBERS = re.compile(r"[-+.\d](?:[-+.\deE\s]|nan|inf)*")
_RUNS = re.compile(r"\d{1,18} [1-9]\d{0,17}(?: \d{1,18} [1-9]\d{0,17})*")
_MISSING = frozenset(["None", "null"])
_NO_LIST = "not a list in brackets"


_Value = TypeVar("_Value")


class BadCellError(ValueError):
    """A cell is not a valid value of its column; the message shows the found and expected values."""


def by_text(cells: Sequence[Any], function: Callable[[Any], _Value]) -> Sequence[_Value]:
    """The value of a function for each cell of a column; it is called once for texts that are often equal."""
    if isinstance(cells, packing.Same):
        return packing.Same(function(cells.value), len(cells)) if len(cells) else cells
    texts = set(cells) if set(map(type, cells)) == {str} else ()
    if 2 * len(texts) > len(cells) or not texts:
        return list(map(function, cells))
    value_of = {text: function(text) for text in texts}
    return [value_of[text] for text in cells]


def parse_cells(
    cells: Sequence[Any], parse: Callable[[Any], Any]
) -> tuple[Sequence[Any], dict[int, str]]:
    """The values of a column's cells, None for bad ones, and row -> what is wrong with a bad one.

    Args:
      cells: the cells.
      parse: parses one; it may raise BadCellError.
    """
    faults: list[BadCellError] = []

    def attempt(cell: Any) -> Any:
        try:
            return parse(cell)
        except BadCellError as error:
            faults.append(BadCellError(*error.args))  # which holds no frames, as `error` does
            return faults[-1]  # in place of the value

    values = by_text(cells, attempt)
    if not faults:
        return values, {}
    is_bad = [isinstance(value, BadCellError) for value in values]
    problems = {row: str(value) for row, value in enumerate(values) if is_bad[row]}
    return [None if bad else value for value, bad in zip(values, is_bad, strict=True)], problems


def infer_kind(values: Sequence[Any], share: float = NEARLY_ALL) -> ColumnKind:
    """Returns the kind that at least this share of the values have; empty values are ignored.

    Values such as `007` may be identifiers. One among ages is a fault. But if all numbers have the
    same number of digits, as US postal codes do, all of them are identifiers, and the kind is text.
    """
    counts: Counter[ColumnKind] = Counter()
    most_texts = (1 - share) * len(values) + _ROUNDING
    padded = False
    widths: set[int] = set()
    are_texts = set(map(type, values)) == {str}  # values of JSON may be equal though they differ
    counted = Counter(values).items() if are_texts else ((value, 1) for value in values)
    for value, count in counted:
        if is_empty(value):
            continue
        counts[_kind_of(value)] += count
        if counts[ColumnKind.BYTES] > most_texts:
            return ColumnKind.BYTES
        if isinstance(value, str) and _DIGITS.fullmatch(value):
            widths.add(len(value))
            padded = padded or is_padded(value)
    numbers = counts[ColumnKind.INT64] + counts[ColumnKind.FLOAT]
    if not numbers or numbers < share * counts.total() - _ROUNDING:
        return ColumnKind.BYTES
    if padded and len(widths) == 1:
        return ColumnKind.BYTES
    return ColumnKind.FLOAT if counts[ColumnKind.FLOAT] else ColumnKind.INT64


def is_padded(value: Any) -> bool:
    """True for digits after a leading zero, such as 007, which may be a name as well as a number."""
    return isinstance(value, str) and _PADDED.fullmatch(value.strip()) is not None


def _kind_of(value: Any) -> ColumnKind:
    """The apparent kind of a value; an identifier, such as 007, is a text."""
    if isinstance(value, str):
        if _DIGITS.fullmatch(value):
            short = _INTEGER.fullmatch(value) and len(value) <= _INT64_DIGITS
            return ColumnKind.INT64 if short and int(value) in INT64 else ColumnKind.BYTES
        # a number beyond float32 counts as a number, and becomes a fault of its row
        return ColumnKind.FLOAT if "_" not in value and is_number(value) else ColumnKind.BYTES
    if isinstance(value, int):
        return ColumnKind.INT64 if value in INT64 else ColumnKind.BYTES
    if isinstance(value, float):
        whole = value.is_integer() and int(value) in INT64
        return ColumnKind.INT64 if whole else ColumnKind.FLOAT
    return ColumnKind.BYTES


def is_number(value: Any) -> bool:
    """True if Python reads a value as a number."""
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def parse_cell(value: Any, column: Column, separator: str = "") -> references.LabelValue:
    """Parses a cell as a value of its column.

    Args:
      value: the cell: a text of a CSV file, or any value of JSON.
      column: its column.
      separator: the separator of the items of a list that is written as text.

    Raises:
      BadCellError: it is not a value of the column.
    """
    if column.kind is ColumnKind.JSON:
        whole = json_text(value)
        return whole if not column.repeated else () if whole is None else (whole,)
    if column.repeated:
        return _parse_list(value, column, separator)
    if isinstance(value, str) and column.kind in _TEXTS and (text := value.strip()):
        return text  # as most cells are
    text = "nested" if is_nested(value) else text_of(value)
    is_missing = not text or (column.kind is not ColumnKind.BYTES and text.lower() in _NO_VALUE)
    if is_missing and not column.required:
        return None
    try:
        if not text:
            raise ValueError("empty")
        parsed = parse_value(value, column.kind)
        return _finite(parsed) if column.required else parsed
    except (ValueError, OverflowError) as error:
        raise _bad_cell(value.strip() if isinstance(value, str) else value, column) from error


def list_items(value: Any, separator: str = "") -> Sequence[Any]:
    """Splits a cell into items: the elements of a JSON list, or the parts of a text.

    A separator at the end of a text ends the last item. Any other value is a list of one.

    Raises:
      BadCellError: `separator` is `BRACKETS`, and the text is not a list in brackets.
    """
    if isinstance(value, list):
        return value
    if isinstance(value, str) and separator == BRACKETS:
        try:
            return bracketed_items(value)
        except ValueError as error:
            raise BadCellError(f"{excerpt(value)} is {error}, such as ['a', 'b']") from error
    if isinstance(value, str) and separator:
        items = [item.strip() for item in value.split(separator)]
        return items if items[-1] else items[:-1]
    return [] if _is_blank(value) else [value]


def sample_items(values: Sequence[Any], separator: str = "") -> Iterator[Any]:
    """Yields the items of those cells that can be split, to infer their kind."""
    for value in values:
        with contextlib.suppress(BadCellError):
            yield from list_items(value, separator)


def parse_value(value: Any, kind: ColumnKind) -> references.Scalar:
    """Parses a cell as one value of a kind.

    Raises:
      ValueError: it is not of that kind.
      OverflowError: the number is too large.
    """
    if is_nested(value):
        raise ValueError(f"a nested {type(value).__name__}, expected one value")
    if isinstance(value, float) and math.isinf(value):  # 1e999 of JSON
        raise ValueError("an infinite number, which only texts may be")
    if kind in _TEXTS:
        return text_of(value)
    is_text = isinstance(value, str)
    if is_text and "_" in value:
        raise ValueError("not a number")
    if kind is ColumnKind.INT64:
        number = int(value)
        if number not in INT64 or not (is_text or number == value):
            raise ValueError("not an int64")
        return number
    real = float(value)
    overflown = is_text and math.isinf(real) and "inf" not in value.lower()
    if overflown or not fits_float32(real):
        raise ValueError("too large for a float32")
    return real


def parse_number(text: str, kind: ColumnKind) -> float:
    """Parses a text as a finite number of a kind, INT64 or FLOAT.

    Raises:
      ValueError: it is not such a number.
    """
    number = _finite(parse_value(text, kind))
    assert isinstance(number, (int, float))
    return number


def text_of(value: Any) -> str:
    """Returns a value as text, without surrounding spaces; None becomes the empty text."""
    if isinstance(value, str):
        return value.strip()
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def is_empty(value: Any) -> bool:
    """True if a cell is empty or contains a word for a missing number, such as `NA`."""
    return value is None or (isinstance(value, str) and value.strip().lower() in _NO_VALUE)


def texts_of(cells: Sequence[Any]) -> Sequence[str]:
    """Returns `text_of` each cell."""
    if set(map(type, cells)) == {str}:
        return [*map(str.strip, cells)]
    return by_text(cells, text_of)


def filled(cells: Sequence[Any]) -> Sequence[Any]:
    """Returns the cells that are not empty."""
    empty = by_text(cells, is_empty)
    return [cell for cell, is_missing in zip(cells, empty, strict=True) if not is_missing]


def are_run_lengths(texts: Collection[str]) -> bool:
    """True for masks as pairs of numbers, the first pixel of a run and its length, each run after the one before it.

    >>> are_run_lengths(["3 5 10 2", "1 4"]), are_run_lengths(["16 1", "7 1 2 3"]), are_run_lengths(["1 2"])
    (True, False, False)
    """
    return all(map(_is_runs, texts)) and any(text.count(" ") > 1 for text in texts)


def _is_runs(text: str) -> bool:
    numbers = [*map(int, text.split())] if _RUNS.fullmatch(text) else [1, 0]
    ends = map(operator.add, numbers[::2], numbers[1::2])
    return numbers[1] > 0 and all(map(operator.le, ends, numbers[2::2]))


def is_nested(value: Any) -> bool:
    """True if a value of JSON contains other values."""
    return isinstance(value, (list, dict))


def are_nested(cells: Sequence[Any]) -> bool:
    """True if most cells are objects of JSON, or lists of lists or objects, which no list feature can hold."""
    if set(map(type, cells)) <= {str}:
        return False
    nested = sum(
        isinstance(cell, dict) or (isinstance(cell, list) and any(map(is_nested, cell)))
        for cell in cells
    )
    return nested > 0 and nested > MOST * sum(cell != [] and not is_empty(cell) for cell in cells)


# --- JSON -----------------------------------------------------------------------------------------


def json_text(value: Any) -> str | None:
    """Returns a cell as JSON: without spaces, in UTF-8, keys in their order; None for an empty one.

    Args:
      value: a value of JSON, or its text.

    Raises:
      BadCellError: it is not JSON, or contains what JSON cannot.
    """
    parsed = value
    try:
        if isinstance(value, str):
            parsed = None if is_empty(value) else json.loads(value)
        if parsed is None:
            return None
        text = json.dumps(parsed, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        if not is_utf8(text):
            raise ValueError("it escapes half a character")
    except RecursionError as error:
        raise BadCellError(f"{excerpt(value)} is nested too deep") from error
    except ValueError as error:
        raise BadCellError(f"{excerpt(value)} is not JSON: {error}") from error
    return text


def _parse_list(value: Any, column: Column, separator: str) -> references.LabelValue:
    """Parses the items of a cell. Empty items are dropped among texts, but are faults among numbers,
    whose positions may carry meaning.
    """
    is_text = column.kind in _TEXTS
    is_number_label = column.feature == _NUMBER_LABEL
    items = [] if not is_text and is_empty(value) else list_items(value, separator)
    parsed: list[references.Scalar] = []
    for item in items:
        if is_text and _is_blank(item):
            continue
        try:
            if item is None:
                raise ValueError("empty")
            number = parse_value(item, column.kind)
            parsed.append(_finite(number) if is_number_label else number)
        except (ValueError, OverflowError) as error:
            raise _bad_cell(item, column, in_list=True) from error
    if is_number_label and not parsed:
        raise BadCellError("is empty")
    return tuple(dict.fromkeys(parsed)) if column.kind is ColumnKind.CLASS else tuple(parsed)


def _finite(value: references.Scalar) -> references.Scalar:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("not finite")
    return value


def _is_blank(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _bad_cell(value: Any, column: Column, *, in_list: bool = False) -> BadCellError:
    if is_empty(value):
        return BadCellError("an item is empty" if in_list else "is empty")
    item, hint, text = "the item " if in_list else "", "", str(value)
    is_real = column.kind is ColumnKind.FLOAT and is_number(value)
    if is_real and not re.search("_|inf", text.lower()):
        hint = " of a float32"
    if is_nested(value) and column.feature.startswith(_FURTHER):
        hint = f"; --columns {column.name}:json keeps such values as text, {column.name}:skip leaves them out"
    return BadCellError(f"{item}{excerpt(value)} is not {KINDS[column.kind].expected}{hint}")


# --- lists in brackets --------------------------------------------------------------------------


def bracketed_items(text: str) -> Sequence[Any]:
    """Returns the items of a list in brackets; none of an empty text.

    Raises:
      ValueError: the text is not such a list.

    >>> bracketed_items("['cat', 'sea lion']")
    ['cat', 'sea lion']
    """
    text = text.strip()
    if not text:
        return []
    if text[0] + text[-1] not in LISTS:
        raise ValueError(_NO_LIST)
    try:
        items: list[Any] = json.loads(f"[{text[1:-1]}]", parse_float=str, parse_constant=str)
    except (ValueError, RecursionError):
        items = _items_of(text[1:-1].strip())
    if "\\" in text and not is_utf8("".join(map(str, items))):  # an escape of half a character
        raise ValueError("not a list of texts in UTF-8")
    return items


def _items_of(inside: str) -> list[Any]:
    """The items between brackets: between commas, or between spaces, like NumPy arrays."""
    if _NUMBERS.fullmatch(inside):
        return inside.split()
    for item in (_WITH_COMMAS, _WITH_SPACES):
        items: list[Any] = []
        end = 0
        while end < len(inside) and (match := item.match(inside, end)):
            quoted, bare = match[1], (match[2] or "").strip()
            if not (quoted or bare):
                raise ValueError(_NO_LIST)
            items.append(_unquoted(quoted) if quoted else None if bare in _MISSING else bare)
            end = match.end()
        if end == len(inside):
            return items
    raise ValueError(_NO_LIST)


def _unquoted(quoted: str) -> Any:
    """The text that quotes contain; a backslash before a letter that it does not escape is a backslash."""
    try:
        text = _ESCAPE.sub(lambda mark: "\\" * (mark[1] not in _ESCAPED) + mark[0], quoted)
        return ast.literal_eval(text)
    except (SyntaxError, ValueError) as error:  # as in 'C:\Users', no character; Python 3.10: NUL
        raise ValueError(_NO_LIST) from error
