"""A large JSON document, read value by value in bounded memory.

`json.load` takes gigabytes for a file of a few hundred megabytes. Here the standard library's scanner
runs over a buffer that slides through the file:

    file    {"images": [{"id": 1}, {"id": 2}, {"id": 3}, ...
    buffer                        [{"id": 2}, {"i]

It reads a value if the value ends well before the end of the buffer, else after more of the file has
been read. An error far from the buffer's end is an error of the file.
"""

from __future__ import annotations

import codecs
import json
import re
from collections import deque
from collections.abc import Collection, Iterator
from typing import Any, BinaryIO

_PIECE = 1 << 20  # 1 MiB
_MOST_CHARACTERS = 32 << 20  # of one value
_MARGIN = 16  # characters; no word, number's end or escape that a cut could split is longer
_NEAR = 30
_blank = re.compile(r"[ \t\r\n]*").match


class JsonFileError(ValueError):
    """The document is broken or of another form; the message gives the position."""


class JsonFile:
    """A document of JSON, whose methods raise JsonFileError as soon as a fault is reached.

    NaN, Infinity and escaped halves of characters are read as `json.load` reads them.

    Attributes:
      line: where the last value begins, from 1.

    Args:
      file: open at its beginning.
      piece: bytes to read at once.
      encoding: of the file; a byte order mark is not part of its text.
      errors: what happens to bytes that are not of the encoding, as `bytes.decode` has it.
    """

    def __init__(
        self,
        file: BinaryIO,
        piece: int = _PIECE,
        encoding: str = "utf-8-sig",
        errors: str = "strict",
    ) -> None:
        self.line = 1
        self._file = file
        self._piece = piece
        self._decoder = codecs.getincrementaldecoder(encoding)(errors)
        self._scan = json.JSONDecoder().raw_decode
        self._text = ""
        self._at = 0
        self._start = 0  # of the last value; lines are counted up to it
        self._bytes = 0
        self._ended = False

    def members(self, keys: Collection[str]) -> Iterator[tuple[str, Any]]:
        """Yields (key, value) of each member of an object that has one of these keys, in their order.

        A value that is a list is an iterator over its elements. It ends when the next member is
        requested; the remaining elements are skipped.
        """
        if self._next() != "{":
            raise self._error("expected an object in braces")
        for key in self._keys():
            if key not in keys:
                self._skip()
            elif self._next() == "[":
                elements = self.elements()
                yield key, elements
                deque(elements, maxlen=0)
            else:
                yield key, self._value()
        if self._next():
            raise self._error("expected the end of the file")

    def items(self, inside: Collection[str] = ()) -> Iterator[tuple[str, Any]]:
        """Yields (key, value) of each member of the object that begins here.

        Args:
          inside: keys of members that are objects, whose own members take their place.
        """
        for key in self._keys():
            if key in inside and self._next() == "{":
                yield from self.items()
            else:
                yield key, self._value()

    def elements(self) -> Iterator[Any]:
        """Yields the elements of the list that begins here, possibly the whole document."""
        self._take("[")
        if self._next() == "]":
            self._at += 1
            return
        while True:
            yield self._value()
            if self._take(",]") == "]":
                return

    def _keys(self) -> Iterator[str]:
        """Yields the keys of the object that begins here; the caller reads the value after each."""
        self._take("{")
        if self._next() == "}":
            self._at += 1
            return
        while True:
            if self._next() != '"':
                raise self._error("expected a key in quotes")
            key: str = self._value()
            self._take(":")
            yield key
            if self._take(",}") == "}":
                return

    def _skip(self) -> None:
        """Skips a value; a list may be larger than memory."""
        if self._next() == "[":
            deque(self.elements(), maxlen=0)
        else:
            self._value()

    @property
    def text(self) -> str:
        """The text of the last value, until the next is read."""
        return self._text[self._start : self._at]

    def _value(self) -> Any:
        self._next()
        while True:
            try:
                value, end = self._scan(self._text, self._at)
                if self._ended or end + _MARGIN <= len(self._text):
                    self._count_lines()
                    self._at = end
                    return value
            except json.JSONDecodeError as error:
                is_cut = error.pos + _MARGIN > len(self._text) or error.msg.startswith("Untermin")
                if self._ended or not is_cut:
                    problem = error.msg.removesuffix(": ").removesuffix(" at")
                    raise self._error(problem[:1].lower() + problem[1:], error.pos) from error
            except RecursionError as error:
                raise self._error("a value that is nested too deep") from error
            except ValueError as error:  # sys.get_int_max_str_digits()
                raise self._error("a number of thousands of digits") from error
            self._more()

    def _take(self, characters: str) -> str:
        first = self._next()
        if not first or first not in characters:
            raise self._error(f"expected {' or '.join(characters)}")
        self._at += 1
        return first

    def _next(self) -> str:
        """Returns the next character that is not white space, without taking it; empty at the end."""
        while True:
            blank = _blank(self._text, self._at)
            assert blank
            self._at = blank.end()
            if self._at < len(self._text) or self._ended:
                return self._text[self._at : self._at + 1]
            self._more()

    def _count_lines(self) -> None:
        self.line += self._text.count("\n", self._start, self._at)
        self._start = self._at

    def _more(self) -> None:
        """Reads as much again as is in the buffer, so that a long value is scanned only a few times."""
        self._count_lines()
        self._text, self._at, self._start = self._text[self._at :], 0, 0
        if len(self._text) > _MOST_CHARACTERS:
            raise self._error(f"a value of more than {_MOST_CHARACTERS} characters")
        wanted = len(self._text) + self._piece
        while len(self._text) < wanted and not self._ended:
            data = self._file.read(self._piece)
            self._ended = not data
            start = self._bytes - len(self._decoder.getstate()[0])
            try:
                self._text += self._decoder.decode(data, final=not data)
            except UnicodeDecodeError as error:
                where = f"at byte {start + error.start}"
                raise JsonFileError(f"not UTF-8 ({error.reason}) {where}") from error
            self._bytes += len(data)

    def _error(self, problem: str, position: int | None = None) -> JsonFileError:
        position = self._at if position is None else position
        after = self._text[position:].encode("utf-8", "surrogatepass")
        byte = self._bytes - len(self._decoder.getstate()[0]) - len(after)
        if not after and self._ended:
            return JsonFileError(f"{problem} at the end of the file, byte {byte}")
        near = self._text[max(0, position - _NEAR) : position + _NEAR]
        return JsonFileError(f"{problem} at byte {byte}, near {near!r}")
