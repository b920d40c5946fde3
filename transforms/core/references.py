"""References: the small records that cross the shuffle instead of images.

A reference has a few hundred bytes at most. They travel in batches, packed by columns:

    SampleRef("a/1.jpg", "/photos/a/1.jpg", 9, "train", ("a",))
    SampleRef("a/2.jpg", "/photos/a/2.jpg", 8, "train", ("a",))

becomes one tuple per field,

    (("a/1.jpg", "a/2.jpg"), ("/photos/a/1.jpg", "/photos/a/2.jpg"), (9, 8), ("train", "train"),
     (("a",), ("a",)), (-1, -1), ("", ""), (0, 0), (None, None), (b"", b""))

which is pickled and deflated: the bytes begin with 78 01, zlib's header for its fastest level. Two
references take about 100 bytes; of 4,096 similar ones, each takes about 10.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

Box = tuple[float, float, float, float, int]
"""xmin, ymin, xmax, ymax, and its line in the label file, or 0 if the file has no lines."""

Size = tuple[int, int]
"""Width and height of an image in pixels, as given in its label file."""

Scalar = str | int | float

FileValue = tuple[str, int, int] | tuple[str, int, int, tuple[tuple[int, ...], ...]]
"""A further file of a sample, not opened before its shard is written: its URI, its bytes as listed,
its version as in `ImageRef` and, optionally, the description of its pixels in the labels."""

LabelValue = Scalar | None | tuple[Scalar, ...] | tuple[Box, ...] | FileValue
"""A typed value of one label column; None for an empty cell, a tuple for a list feature."""


class ImageRef(NamedTuple):
    """A listed image, never opened.

    Attributes:
      key: path relative to its root, with `/`; identifies the sample everywhere.
      uri: the image file.
      size: bytes, as listed.
      version: changes with the file: its modification time in nanoseconds, or its generation in a
        bucket; 0 if unknown. A member of an archive has the archive's.
      aliases: of a member of an archive, the path that says its class and split, and more paths by
        which label rows may name it, the likelier ones first, each at its place or empty.
      digest: its MD5 as listed; empty if it is not needed or the storage has none.
    """

    key: str
    uri: str
    size: int
    version: int = 0
    aliases: tuple[str, ...] = ()
    digest: bytes = b""

    @property
    def path(self) -> str:
        """The path whose folders say class and split."""
        return self.aliases[0] if self.aliases else self.key


class LabelRow(NamedTuple):
    """One row of a label table, its values typed by the table's schema.

    Attributes:
      name: how the row names its image, as written.
      values: one per column of the schema, in the schema's order.
      split: the split in the row, or empty.
      file: the label file.
      line: the line the row starts on, from 1.
      problem: the fault in a value, or empty.
      size: the image's size, as given in the row; None if it gives none.
    """

    name: str
    values: tuple[LabelValue, ...]
    split: str
    file: str
    line: int
    problem: str = ""
    size: Size | None = None


class SampleRef(NamedTuple):
    """An image joined with its labels; it becomes one example.

    Attributes:
      key: path relative to its root.
      uri: the file that holds the image.
      size: bytes, as listed.
      split: "train", "validation", ...
      labels: one value per column of the schema, in the schema's order.
      offset: the image's position in a file of several images, in bytes; -1 if the file is the
        image.
      origin: the label file; empty if there is none, or several.
      version: that of the file, as in its `ImageRef`.
      claimed_size: the image's size in the label file; None if it gives none.
      digest: of the image's bytes, while duplicates are looked for; else empty.
    """

    key: str
    uri: str
    size: int
    split: str
    labels: tuple[LabelValue, ...]
    offset: int = -1
    origin: str = ""
    version: int = 0
    claimed_size: Size | None = None
    digest: bytes = b""


def files_of(ref: SampleRef, columns: Iterable[int]) -> list[tuple[int, str, int]]:
    """(index of the label, uri, size) of each further file of a sample, in order.

    Args:
      ref: the sample.
      columns: the indices of the labels that are files.
    """
    found = []
    for index in columns:
        file: Any = ref.labels[index]
        if file is not None:
            found.append((index, file[0], file[1]))
    return found


def bytes_of(ref: SampleRef, columns: Collection[int]) -> int:
    """The bytes of a sample's image and further files, as listed."""
    if not columns:  # as nearly always
        return ref.size
    return ref.size + sum(size for _, _, size in files_of(ref, columns))


_Item = TypeVar("_Item", bound=tuple[Any, ...])

_FASTEST = 1  # of zlib


def pack(items: Iterable[tuple[Any, ...]]) -> bytes:
    """Packs items of one kind by columns, which are pickled in half the time of tuples."""
    return pack_columns(tuple(zip(*items, strict=True)))


def unpack(item: type[_Item], packed: bytes) -> Iterator[_Item]:
    """Unpacks the items that `pack` took, as values of a NamedTuple's type."""
    make: Any = partial(tuple.__new__, item)
    return map(make, zip(*unpack_columns(packed), strict=True))


def pack_columns(columns: Sequence[Sequence[Any]]) -> bytes:
    """Packs columns, deflated: paths that differ in a few characters shrink to a tenth."""
    return zlib.compress(pickle.dumps(columns, pickle.HIGHEST_PROTOCOL), _FASTEST)


def unpack_columns(packed: bytes) -> Sequence[Sequence[Any]]:
    """Unpacks the columns that `pack_columns` took."""
    columns: Sequence[Sequence[Any]] = pickle.loads(zlib.decompress(packed))
    return columns
