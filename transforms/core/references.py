"""References: what crosses the shuffle in place of images. A few hundred bytes each, at most."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple, TypeVar

Box = tuple[float, float, float, float, int]
"""xmin, ymin, xmax, ymax, and the line of the label file that says so, 0 where it has no lines."""

Scalar = str | int | float

LabelValue = Scalar | None | tuple[Scalar, ...] | tuple[Box, ...]
"""A typed value of one label column; None is a cell left empty, a tuple is a list feature's."""


class ImageRef(NamedTuple):
    """A listed image, never opened.

    Attributes:
      key: path relative to its root, with `/`; identifies the sample everywhere.
      uri: where to read it.
      size: bytes, as listed.
      version: changes when the file does: when it was changed, in nanoseconds, or its generation in
        a bucket; 0 if it is not known.
    """

    key: str
    uri: str
    size: int
    version: int = 0


class LabelRow(NamedTuple):
    """One row of a label table, its values typed by the table's schema.

    Attributes:
      name: how the row names its image, as written.
      values: one a column of the schema, in the schema's order.
      split: the split that the row asks for, or empty.
      file: the label file.
      line: the line the row starts on, from 1.
      problem: what is wrong with a value, or empty.
    """

    name: str
    values: tuple[LabelValue, ...]
    split: str
    file: str
    line: int
    problem: str = ""


class SampleRef(NamedTuple):
    """An image joined with its labels: what one example will be made of.

    Attributes:
      key: path relative to its root.
      uri: where to read the image.
      size: bytes, as listed.
      split: "train", "validation", ...
      labels: one value a column of the schema, in the schema's order.
      offset: where in the file the image begins if others lie there too, in bytes; else -1.
      origin: the label file that the labels came from; empty if there is none, or several.
      version: of the file, as its `ImageRef` has it.
    """

    key: str
    uri: str
    size: int
    split: str
    labels: tuple[LabelValue, ...]
    offset: int = -1
    origin: str = ""
    version: int = 0


_Item = TypeVar("_Item", bound=tuple[Any, ...])

_FASTEST = 1  # of zlib


def pack(items: Iterable[tuple[Any, ...]]) -> bytes:
    """Items of one kind as the deflated pickle of their columns.

    Paths that differ in a few characters shrink to a tenth, and columns are pickled in half the
    time of tuples.
    """
    columns = tuple(zip(*items, strict=True))
    return zlib.compress(pickle.dumps(columns, pickle.HIGHEST_PROTOCOL), _FASTEST)


def unpack(item: type[_Item], packed: bytes) -> Iterator[_Item]:
    """The items, of a NamedTuple's type, that `pack` took."""
    make: Any = partial(tuple.__new__, item)
    return map(make, zip(*pickle.loads(zlib.decompress(packed)), strict=True))
