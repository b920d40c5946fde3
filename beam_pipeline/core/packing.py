r"""Packs items of one kind by columns, compressed, as references travel.

    SampleRef("a/1.jpg", "/photos/a/1.jpg", 9, "train", ("a",))
    SampleRef("a/2.jpg", "/photos/a/2.jpg", 8, "train", ("a",))

becomes one column per field, each in the shortest of the forms that it can have,

    [Text("a/1.jpg\na/2.jpg"), After("/photos/", 0), (9, 8), Same("train"), Same(("a",)),
     Same(-1), Same(""), Same(0), Same(None), Same(b"")]

which, with their number, is pickled and compressed by Zstandard, in a quarter of zlib's time. Two references take about 100
bytes; of 4,096 numbered ones, each takes about 1.

Most stages of an engine only hand batches on, so a `Batch` stays packed until somebody reads its items.
"""

from __future__ import annotations

import itertools
import pickle
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, ClassVar, Generic, TypeVar

import zstandard

from beam_pipeline.core import dead_letters, references

_Item = TypeVar("_Item", bound=tuple[Any, ...])

_LEVEL = 2  # of Zstandard
_BREAK = "\n"
# Times that a tuple has to occur, on average, for its repetitions to be cheaper than its columns.
_SHARED = 8

Columns = Sequence[Sequence[Any]]
"""A column of equal length for each field of some references."""

TEXT, AFTER, SAME, TUPLES, ANY = range(5)
_Form = tuple[int, Any]
"""How a column is written: texts joined by line breaks; a text before each item of another column;
one value for all; tuples of one length, as columns; or the values as they are."""


class _Codec(threading.local):
    """The compressor and the decompressor of this thread."""

    def __init__(self) -> None:
        self.compress = zstandard.ZstdCompressor(level=_LEVEL).compress
        self.decompress = zstandard.ZstdDecompressor().decompress


_codec = _Codec()


def pack(items: Iterable[tuple[Any, ...]]) -> bytes:
    """Packs items of one kind: the compressed pickle of their columns.

    Paths that differ in a few characters shrink to a tenth, and columns are pickled in a third of
    the time of tuples.
    """
    return pack_columns(tuple(zip(*items, strict=True)))


def unpack(item: type[_Item], packed: bytes) -> Iterator[_Item]:
    """Unpacks the items that `pack` took, as values of a NamedTuple's type."""
    return items_of(item, unpack_columns(packed))


def items_of(item: type[_Item], columns: Columns) -> Iterator[_Item]:
    """Makes values of a NamedTuple's type of their columns."""
    make: Any = partial(tuple.__new__, item)
    return map(make, zip(*columns, strict=True))


def pack_columns(columns: Columns) -> bytes:
    """Packs the columns of items; none, or empty ones, without items."""
    count = len(columns[0]) if columns else 0
    forms: list[_Form] = []
    if count:
        texts: dict[int, str] = {}
        forms = [_form(column, count, number, texts) for number, column in enumerate(columns)]
    return _codec.compress(pickle.dumps((count, forms), pickle.HIGHEST_PROTOCOL))


def unpacked_size(packed: bytes) -> int:
    """Returns the bytes of packed columns before compression, which tell better how much memory they need."""
    size: int = zstandard.frame_content_size(packed)
    return size


def unpack_columns(packed: bytes) -> Columns:
    """Unpacks columns; there are none if there were no items."""
    count, forms = pickle.loads(_codec.decompress(packed))
    columns: list[Sequence[Any]] = []
    for form in forms:
        columns.append(_column(form, count, columns))
    return columns


def join_columns(parts: Iterable[bytes]) -> Columns:
    """Unpacks several parts of items of one kind and puts their columns together."""
    return put_together([columns for columns in map(unpack_columns, parts) if columns])


def put_together(parts: Sequence[Columns]) -> Columns:
    """The columns of the items of all parts; none if there are no parts."""
    if len(parts) < 2:
        return parts[0] if parts else []
    return [_joined(column) for column in zip(*parts, strict=True)]


class Same(Sequence[Any]):
    """A column that contains one value only, which is not repeated in memory."""

    __slots__ = ("_count", "value")

    def __init__(self, value: Any, count: int) -> None:
        """Takes the value, and how often it occurs."""
        self.value = value
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Any]:
        return itertools.repeat(self.value, self._count)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return Same(self.value, len(range(self._count)[index]))
        range(self._count)[index]
        return self.value

    def count(self, value: Any) -> int:
        """How often a value occurs."""
        return self._count if value == self.value else 0


def _joined(parts: Sequence[Sequence[Any]]) -> Sequence[Any]:
    first = parts[0]
    if isinstance(first, Same) and all(
        isinstance(part, Same)
        and part.value == first.value
        and type(part.value) is type(first.value)
        for part in parts
    ):
        return Same(first.value, sum(map(len, parts)))
    return list(itertools.chain.from_iterable(parts))


def items_by_part(columns: Columns, numbers: Iterable[int]) -> Iterator[tuple[int, bytes]]:
    """Yields (part, its packed items), in the order in which parts first occur.

    Args:
      columns: of the items.
      numbers: the part of each item.
    """
    rows: dict[int, list[int]] = defaultdict(list)
    for row, number in enumerate(numbers):
        rows[number].append(row)
    for number, chosen in rows.items():
        yield number, pack_columns(chosen_rows(columns, chosen))


def chosen_rows(columns: Columns, rows: Sequence[int]) -> Columns:
    """Columns of the items in some rows, at least one."""
    if len(rows) == 1:
        return [(column[rows[0]],) for column in columns]
    pick, count = itemgetter(*rows), len(rows)
    return [
        Same(column.value, count) if isinstance(column, Same) else pick(column)
        for column in columns
    ]


def _form(column: Sequence[Any], count: int, number: int, texts: dict[int, str]) -> _Form:
    """The shortest form of a column; `texts` are the columns before it that were written as text."""
    if isinstance(column, Same):
        return SAME, column.value
    first = column[0]
    if _is_one_value(first) and column[-1] == first and column.count(first) == count:
        is_number = type(first) is int  # and may be equal to one of another type
        if not is_number or set(map(type, column)) == {int}:
            return SAME, first
    if type(first) is str:
        return _text_form(column, count, number, texts)
    if type(first) is tuple and first and set(map(type, column)) == {tuple}:
        shared = len(set(map(id, column))) * _SHARED <= count  # pickled once
        if not shared and set(map(len, column)) == {len(first)}:
            inner = ([values[index] for values in column] for index in range(len(first)))
            return TUPLES, [_form(values, count, -1, {}) for values in inner]
    return ANY, tuple(column)


def _is_one_value(value: Any) -> bool:
    """True for values that are equal only to values of the same type, and for integers."""
    if type(value) is tuple:
        return all(item is None or type(item) is str for item in value)
    return value is None or type(value) in (str, bytes, int)


def _text_form(column: Sequence[Any], count: int, number: int, texts: dict[int, str]) -> _Form:
    try:
        text = _BREAK.join(column)
    except TypeError:  # other values are among them
        return ANY, tuple(column)
    if text.count(_BREAK) != count - 1:
        return ANY, tuple(column)
    for source, earlier in texts.items():
        end = earlier.find(_BREAK)
        first = earlier if end < 0 else earlier[:end]
        before = column[0].removesuffix(first)
        if not before or len(before) + len(first) != len(column[0]):
            continue
        if text == before + earlier.replace(_BREAK, _BREAK + before):
            return AFTER, (before, source)
    if number >= 0:
        texts[number] = text
    return TEXT, text


def _column(form: _Form, count: int, columns: Columns) -> Sequence[Any]:
    kind, value = form
    if kind == TEXT:
        texts: Sequence[Any] = value.split(_BREAK)
        return texts
    if kind == AFTER:
        before, source = value
        return [before + text for text in columns[source]]
    if kind == SAME:
        return Same(value, count)
    if kind == TUPLES:
        return list(zip(*(_column(inner, count, ()) for inner in value), strict=True))
    values: Sequence[Any] = value
    return values


# --- batches ---------------------------------------------------------------------------------------

BATCH_SIZE = 4096
_COUNT_BYTES = 4

_Self = TypeVar("_Self", bound="Batch[Any]")


class Batch(Sequence[_Item], Generic[_Item]):
    """Items of one kind; equal to another sequence of the same items."""

    item: ClassVar[type[Any]]

    def __init__(self, items: Iterable[_Item] = ()) -> None:
        """Takes the items."""
        self._items: list[_Item] | None = list(items)
        self._packed = b""
        self._count = 0

    @classmethod
    def of_packed(cls: type[_Self], packed: bytes, count: int) -> _Self:
        """A batch of items that `packing.pack` took; they are unpacked when they are asked for."""
        batch = cls()
        batch._items, batch._packed, batch._count = None, packed, count
        return batch

    @classmethod
    def of_columns(cls: type[_Self], columns: Columns) -> _Self:
        """A batch of items that are given by their columns."""
        return cls.of_packed(pack_columns(columns), len(columns[0]) if columns else 0)

    @classmethod
    def decode(cls: type[_Self], encoded: bytes) -> _Self:
        """The batch that `encode` wrote."""
        count = int.from_bytes(encoded[:_COUNT_BYTES], "little")
        return cls.of_packed(encoded[_COUNT_BYTES:], count)

    def encode(self) -> bytes:
        """The number of items, and the items packed."""
        return len(self).to_bytes(_COUNT_BYTES, "little") + self.packed()

    def packed(self) -> bytes:
        """The items packed."""
        if self._items is None:
            return self._packed
        return pack(self._items)

    def kept_packed(self: _Self) -> _Self:
        """The same batch, packed into a tenth of the memory."""
        return self.of_packed(self.packed(), len(self))

    def columns(self) -> Columns:
        """The columns of the items; none without items."""
        if self._items is None:
            return unpack_columns(self._packed)
        return tuple(zip(*self._items, strict=True))

    def append(self, item: _Item) -> None:
        """Adds an item."""
        self._unpacked().append(item)

    def extend(self, items: Iterable[_Item]) -> None:
        """Adds items."""
        self._unpacked().extend(items)

    def _unpacked(self) -> list[_Item]:
        if self._items is None:
            self._items = list(unpack(self.item, self._packed))
            self._packed = b""
        return self._items

    def __iter__(self) -> Iterator[_Item]:
        if self._items is None:  # nobody keeps what is read once
            return items_of(self.item, unpack_columns(self._packed))
        return iter(self._items)

    def __len__(self) -> int:
        return self._count if self._items is None else len(self._items)

    def __getitem__(self, index: Any) -> Any:
        return self._unpacked()[index]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Batch | list):
            return NotImplemented
        return list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # items may be added

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).of_packed, (self.packed(), len(self))


class ImageBatch(Batch[references.ImageRef]):
    """Listed images."""

    item = references.ImageRef


class LabelBatch(Batch[references.LabelRow]):
    """Rows of a label table."""

    item = references.LabelRow


class SampleBatch(Batch[references.SampleRef]):
    """Images joined with their labels."""

    item = references.SampleRef


class DeadLetterBatch(Batch[dead_letters.DeadLetter]):
    """Samples left out."""

    item = dead_letters.DeadLetter
