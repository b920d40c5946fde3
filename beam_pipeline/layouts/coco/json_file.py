r"""A large JSON object read member by member, its lists element by element, in bounded memory.

`json.load` takes gigabytes for a file of a few hundred megabytes; `ijson` parses it in pieces.

Python and pandas write NaN and Infinity, which JSON does not have, and JSON may contain half a
character, such as \ud800, which UTF-8 cannot encode. The parser would refuse the whole file, or
replace the character by a question mark, although only one image is faulty. So these words are
disguised before parsing and restored afterwards, as `json.load` would return them:

    {"area": NaN, "file_name": "\ud800.jpg"}
    {"area": 7e7777777, "file_name": "\udbff\udfffd800.jpg"}
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Collection, Iterator
from decimal import Decimal, InvalidOperation
from itertools import islice
from typing import Any, BinaryIO

import ijson

_BOM = b"\xef\xbb\xbf"
_LONGEST_TEXT = 4 << 20  # 4 MiB without a comma: the end of a text is missing
_MOST_DIGITS = 4000  # ijson 3.6 crashes where Python refuses an integer, by default of 4,301 digits
_MANY_DIGITS = re.compile(b"[0-9]{%d}" % _MOST_DIGITS)
_STRIDE = 500  # bytes; looking at every byte would take half of the time of reading a file
_DIGITS_APART = re.compile(b"[0-9]{%d}" % (_MOST_DIGITS // _STRIDE))
_DEEPEST = 100  # lists in lists
_MOST_OPEN = 4000  # levels; ijson keeps the path to each, so memory grows with the depth's square
# ValueError is for bytes that are not UTF-8, InvalidOperation for exponents beyond Decimal's
_FAULTS = (ijson.JSONError, ValueError, InvalidOperation)

_HELD_BACK = re.compile(rb"[NI\\]")  # at a piece's end: may begin one of the words below
_MENDABLE_NUMBERS = (b"NaN", b"Infinity")
_MENDABLE_TEXTS = (b"\\ud", b"\\uD")
_WORD = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a whole character
    rb"|\\u([dD][89a-fA-F][0-9a-fA-F]{2})"  # half of one
    rb'|\\.|"|NaN|Infinity',
    re.DOTALL,
)
_NUMBERS = {b"NaN": b"7e7777777", b"Infinity": b"1e7777777"}
_NAN = Decimal("7e7777777")
_HALF = b"\\udbff\\udfff%s"  # U+10FFFF, which no text holds, and the half's number
_DISGUISED = re.compile("\U0010ffff([dD][89a-fA-F][0-9a-fA-F]{2})")
_ESCAPE = re.compile(rb"\\.", re.DOTALL)

_Event = tuple[str, Any]


class JsonFileError(ValueError):
    """The file is not a JSON object, or is broken; the message gives the position."""


def json_members(file: BinaryIO, keys: Collection[str]) -> Iterator[tuple[str, Any]]:
    """Yields (key, value) of each member that has one of these keys, in the file's order.

    A value that is a list is returned as an iterator over its elements. It ends when the next
    member is requested; the remaining elements are skipped.

    Args:
      file: UTF-8, with or without a byte order mark, open at its beginning.
      keys: the keys of the members to yield.

    Raises:
      JsonFileError: the file is broken, as soon as the fault is reached.
    """
    source = _Source(file)
    events = source.events()
    if next(events)[0] != "start_map":
        raise JsonFileError("expected an object in braces")
    for event, key in events:
        if event == "end_map":
            continue  # of the whole object; the parser refuses what follows
        first = next(events)
        if key not in keys:
            _skip(first, events)
        elif first[0] == "start_array":
            elements = source.elements(events)
            yield key, elements
            deque(elements, maxlen=0)
        else:
            yield key, source.value(first, events)


def first_value(file: BinaryIO, path: str) -> list[Any]:
    """Finds the first value at a path, such as "categories", or "images.item" for an element.

    Args:
      file: as for `json_members`.
      path: a path in `ijson`'s notation.

    Returns: a list of the value, empty if the file has none.

    Raises:
      JsonFileError: the file is broken before the end of the value.
    """
    return list(islice(values_at(file, path), 1))


def values_at(file: BinaryIO, path: str) -> Iterator[Any]:
    """Yields the values at a path, as `first_value` finds them.

    Twice as fast as `json_members`, as the rest of the file is not turned into Python objects.

    Raises:
      JsonFileError: the file is broken before the end of a value that is requested.
    """
    source = _Source(file)
    try:
        yield from map(_plain, ijson.items(source, path))
    except _FAULTS as error:
        raise source.located(error) from error


class _Source:
    """A file for the parser; it records how far it has been read."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._start = self._end = 0  # of the piece read last
        self._tail = b""
        self._comma = 0  # where a piece with a comma ended; an unterminated text has none
        self._held = b""  # read, but not yet passed to the parser
        self._read = 0
        self._in_text = False
        self._open = 0  # brackets without an end so far, those in texts among them

    def read(self, size: int = -1) -> bytes:
        """Returns the next bytes, with words disguised and without a byte order mark."""
        if not size:
            return self._file.read(0)
        piece, self._held = self._held, b""
        while data := self._checked(size):
            piece += data
            comma = piece.rfind(b",") + 1  # no word holds a comma
            if not _HELD_BACK.search(piece, comma):
                break
            if comma:
                piece, self._held = piece[:comma], piece[comma:]
                break
        self._start, self._end = self._end, self._read - len(self._held)
        return self._mended(piece)

    def _checked(self, size: int) -> bytes:
        """Returns the next bytes of the file, checked for values that would crash the parser."""
        data = self._file.read(size)
        if not self._read:
            while 0 < len(data) < len(_BOM) and (more := self._file.read(size)):
                data += more
            data = data.removeprefix(_BOM) or self._file.read(size)
        self._read += len(data)
        recent = self._tail + data
        self._tail = recent[-_MOST_DIGITS:]
        if _DIGITS_APART.search(recent[::_STRIDE]) and _MANY_DIGITS.search(recent):
            self._start, self._end = self._end, self._read
            raise ijson.JSONError(f"a number of more than {_MOST_DIGITS} digits")
        self._open += data.count(b"[") + data.count(b"{") - data.count(b"]") - data.count(b"}")
        if self._open > _MOST_OPEN:
            self._start, self._end = self._end, self._read
            raise ijson.JSONError(f"more than {_MOST_OPEN} brackets without an end")
        if b"," in data:
            self._comma = self._read
        if self._read - self._comma > _LONGEST_TEXT:
            self._start, self._end = self._end, self._read
            raise ijson.JSONError("4 MiB without a comma, expected the end of a text")
        return data

    def _mended(self, piece: bytes) -> bytes:
        """Returns a piece that ends between two words, with invalid words disguised."""
        escapes = b"\\" in piece
        words = (*_MENDABLE_NUMBERS, *_MENDABLE_TEXTS) if escapes else _MENDABLE_NUMBERS
        if any(word in piece for word in words):
            return _WORD.sub(self._mended_word, piece)
        quotes = (_ESCAPE.sub(b"", piece) if escapes else piece).count(b'"')
        self._in_text ^= bool(quotes % 2)
        return piece

    def _mended_word(self, match: re.Match[bytes]) -> bytes:
        word, half = match[0], match[1]
        if word == b'"':
            self._in_text = not self._in_text
        elif half:
            return _HALF % half
        elif not self._in_text:
            return _NUMBERS.get(word, word)
        return word

    def events(self) -> Iterator[_Event]:
        """Yields the parser's events."""
        try:
            yield from ijson.basic_parse(self)
        except _FAULTS as error:
            raise self.located(error) from error

    def elements(self, events: Iterator[_Event]) -> Iterator[Any]:
        """Yields the elements of a list whose opening bracket has been read."""
        for first in events:
            if first[0] == "end_array":
                return
            yield self.value(first, events)

    def value(self, first: _Event, events: Iterator[_Event], depth: int = 0) -> Any:
        """Returns the value that begins with an event."""
        kind, value = first
        if depth > _DEEPEST:
            raise self.located(ijson.JSONError(f"nested more than {_DEEPEST} deep"))
        if kind == "start_array":
            items: list[Any] = []
            for event in events:
                if event[0] == "end_array":
                    break
                items.append(self.value(event, events, depth + 1))
            return items
        if kind == "start_map":
            fields: dict[str, Any] = {}
            for kind, key in events:
                if kind == "end_map":
                    break
                fields[key] = self.value(next(events), events, depth + 1)
            return fields
        return _plain(value)

    def located(self, error: BaseException) -> JsonFileError:
        """Returns an error with its position in the file."""
        message = error.args[0] if error.args else error
        if isinstance(error, InvalidOperation):
            message = "a number beyond all measure"
        if isinstance(message, bytes):
            message = message.decode("utf-8", "backslashreplace")
        what, _, context = str(message).partition(
            "\n"
        )  # the message goes on with the position and an arrow
        near = context.partition("(right here)")[0].strip()
        if self._start == self._end:
            where = f"at the end of the file, byte {self._end}"
        else:
            where = f"in bytes {self._start + 1} to {self._end}"
        return JsonFileError(
            f"{what[:100].rstrip('.')} {where}{f', near {near!r}' if near else ''}"
        )


def _plain(value: Any) -> Any:
    """Returns a parsed value as `json.load` would: floats, and words without their disguise."""
    if isinstance(value, str):
        return _DISGUISED.sub(_half, value) if "\U0010ffff" in value else value
    if isinstance(value, Decimal):
        number = float(value)
        return math.nan if math.isinf(number) and value == _NAN else number
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def _half(match: re.Match[str]) -> str:
    return chr(int(match[1], 16))


def _skip(first: _Event, events: Iterator[_Event]) -> None:
    depth = _STEPS.get(first[0], 0)
    while depth:
        depth += _STEPS.get(next(events)[0], 0)


_STEPS = {"start_map": 1, "start_array": 1, "end_map": -1, "end_array": -1}
