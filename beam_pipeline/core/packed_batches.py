"""Batches of references that stay packed until somebody looks at them.

Most stages of an engine only hand batches on, so a batch is unpacked where its items are read, or
never. Nothing here imports Beam: processes that do not have it make and read batches as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Generic, TypeVar, overload

from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.packing import (
    Columns,
    items_of,
    pack,
    pack_columns,
    unpack,
    unpack_columns,
)
from beam_pipeline.core.references import ImageRef, LabelRow, SampleRef

BATCH_SIZE = 4096
_COUNT_BYTES = 4

_Item = TypeVar("_Item", bound=tuple[Any, ...])
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
        return cls.of_packed(
            encoded[_COUNT_BYTES:], int.from_bytes(encoded[:_COUNT_BYTES], "little")
        )

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

    @overload
    def __getitem__(self, index: int) -> _Item: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[_Item]: ...
    def __getitem__(self, index: int | slice) -> _Item | Sequence[_Item]:
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


class ImageBatch(Batch[ImageRef]):
    """Listed images."""

    item = ImageRef


class LabelBatch(Batch[LabelRow]):
    """Rows of a label table."""

    item = LabelRow


class SampleBatch(Batch[SampleRef]):
    """Images joined with their labels."""

    item = SampleRef


class DeadLetterBatch(Batch[DeadLetter]):
    """Samples left out."""

    item = DeadLetter
