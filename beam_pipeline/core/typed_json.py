"""Reads JSON into dataclasses and named tuples, whose annotations define what is expected.

    @dataclass(frozen=True)
    class Shard:
        path: Text
        examples: Count = 0

    decode(Shard, {"path": "a", "examples": "2"})

raises UnexpectedError: `examples is '2', expected a whole number`. An entry without a default must be
there; further ones are ignored, as later versions may add some.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeGuard, Union, get_args, get_origin, get_type_hints

from beam_pipeline.core import errors, text

INT64 = range(-(1 << 63), 1 << 63)
"""The integers of an Int64List."""

_LARGEST_FLOAT32 = 3.4028235677973366e38  # from here on, rounding gives infinity


def fits_float32(value: float) -> bool:
    """True if a FloatList can contain a number; it can contain infinities and NaN."""
    return abs(value) < _LARGEST_FLOAT32 or not math.isfinite(value)


def is_integer(value: Any) -> TypeGuard[int]:
    """True if a value of JSON is an integer; `true` is not."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_finite(value: Any) -> TypeGuard[float]:
    """True if a value of JSON is a finite number that a float can contain."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return abs(value) <= sys.float_info.max  # of an integer, isfinite() may fail


class UnexpectedError(ValueError):
    """An entry that is not what is expected."""

    def __init__(self, value: Any, path: str, expected: str) -> None:
        super().__init__(f"{path or 'it'} is {text.excerpt(value)}, expected {expected}")


@dataclasses.dataclass(frozen=True)
class Expect:
    """An annotation: a value of the annotated type must pass a test.

    Attributes:
      test: tells whether it does.
      expected: describes such values.
    """

    test: Callable[[Any], bool]
    expected: str


def one_of(*values: str) -> Expect:
    """The annotation of a text that is one of several."""
    return Expect(lambda value: value in values, f"one of {', '.join(values)}")


Text = Annotated[str, Expect(text.is_utf8, "a text")]
Integer = Annotated[int, Expect(INT64.__contains__, "a whole number of 64 bits")]
Count = Annotated[Integer, Expect(lambda n: n >= 0, "a whole number from 0 on")]

_Decoder = Callable[[Any, str], Any]
_SCALARS = {
    str: "a text",
    int: "a whole number",
    float: "a finite number",
    bool: "true or false",
    list: "a list",
}


def decode(kind: Any, value: Any, path: str = "") -> Any:
    """Reads a value of JSON.

    Args:
      kind: a dataclass, a named tuple (from a list), str, int, float, bool, Mapping[str, T], tuple[T, ...],
        T | None, any of these `Annotated` with `Expect`, or Any.
      value: as the json module returns it.
      path: its place in messages.

    Raises:
      ValueError: it is of another type, or an entry is missing; names it.
    """
    return _decoder(kind)(value, path)


def parse(kind: Any, data: bytes | str, fault: str, remedy: str = "", file_format: str = "") -> Any:
    """Reads a file of JSON, as `decode` reads its value.

    Args:
      kind: as in `decode`.
      data: the content of the file.
      fault: begins the message, such as "out/x.json is damaged".
      remedy: ends it.
      file_format: as in `check_head`; empty for a file without a head.

    Raises:
      ConversionError: it is something else; names the entry.
    """
    try:
        content = json.loads(data)
        if file_format:
            check_head(content, file_format)
        return decode(kind, content)
    except (ValueError, RecursionError) as error:
        raise errors.ConversionError(f"{fault} ({error}){remedy}") from error


FORMAT_VERSION = 1


@dataclasses.dataclass(frozen=True)
class _Head:
    format: Any
    format_version: int


def check_head(content: Any, file_format: str) -> None:
    """Checks the entries `format` and `format_version` of a file that programs rely on. Raises ValueError."""
    head = decode(_Head, content)
    if head.format != file_format:
        raise UnexpectedError(head.format, "format", file_format)
    if head.format_version != FORMAT_VERSION:
        raise ValueError(
            f"it has version {head.format_version}; this program reads version {FORMAT_VERSION}"
        )


@functools.cache
def _decoder(kind: Any) -> _Decoder:
    origin, of = get_origin(kind), get_args(kind)
    if kind is Any:
        return lambda value, _: value
    if origin is Annotated:
        return functools.partial(_checked, _decoder(of[0]), of[1:])
    if origin in (Union, types.UnionType):
        inner = _decoder(of[0])
        return lambda value, path: None if value is None else inner(value, path)
    if origin is tuple and of[-1] is ...:
        inner = _decoder(of[0])
        return lambda value, path: tuple(
            inner(item, f"{path}[{number}]")
            for number, item in enumerate(_scalar(list, value, path))
        )
    if origin is Mapping:
        return functools.partial(_mapping, _decoder(of[1]))
    if kind in _SCALARS:
        return functools.partial(_scalar, kind)
    if origin is tuple:
        return functools.partial(_row, lambda *items: items, [*map(_decoder, of)], [], 0)
    hints = get_type_hints(kind, include_extras=True)
    if hasattr(kind, "_fields"):
        fields = [functools.partial(decode, hints[name]) for name in kind._fields]
        names = [f"{kind.__name__}.{name}" for name in kind._fields]
        return functools.partial(_row, kind, fields, names, len(kind._field_defaults))
    missing = dataclasses.MISSING
    needed = {
        field.name: field.default is missing and field.default_factory is missing
        for field in dataclasses.fields(kind)
    }
    inner_of = {name: _decoder(hints[name]) for name in needed}
    return functools.partial(_object, kind, inner_of, needed)


def _scalar(kind: type, value: Any, path: str) -> Any:
    if not is_finite(value) if kind is float else type(value) is not kind:
        raise UnexpectedError(value, path, _SCALARS[kind])
    return value


def _checked(inner: _Decoder, checks: Sequence[Expect], value: Any, path: str) -> Any:
    decoded = inner(value, path)
    for check in checks:
        if not check.test(decoded):
            raise UnexpectedError(value, path, check.expected)
    return decoded


def _mapping(inner: _Decoder, value: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UnexpectedError(value, path, "an object")
    for key in value:
        if not text.is_utf8(key):
            raise UnexpectedError(key, path, "names of entries that are texts")
    return {key: inner(item, f"{path}.{key}" if path else key) for key, item in value.items()}


def _row(
    make: Callable[..., Any],
    inner: Sequence[_Decoder],
    names: Sequence[str],
    defaults: int,
    value: Any,
    path: str,
) -> Any:
    """Reads a list whose items have their own types; the last may be missing."""
    items = _scalar(list, value, path)
    if not len(inner) - defaults <= len(items) <= len(inner):
        raise UnexpectedError(value, path, f"a list of {len(inner)}")
    paths = names or [f"{path}[{number}]" for number in range(len(inner))]
    return make(*(item(*of_item) for item, *of_item in zip(inner, items, paths, strict=False)))


def _object(
    kind: Any, fields: Mapping[str, _Decoder], needed: Mapping[str, bool], value: Any, path: str
) -> Any:
    entries = _mapping(_decoder(Any), value, path)
    values = {}
    for name, inner in fields.items():
        if name in entries:
            values[name] = inner(entries[name], f"{path}.{name}" if path else name)
        elif needed[name]:
            raise ValueError(f"{path or 'it'} has no entry {name!r}")
    try:
        return kind(**values)
    except ValueError as error:
        raise ValueError(f"{path or 'it'} {error}") from error
