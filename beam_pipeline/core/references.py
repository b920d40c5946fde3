"""References: the small records that cross the shuffle instead of images.

A reference has a few hundred bytes at most. They travel in batches, packed by columns (`packing`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

Box = tuple[float, float, float, float, int]
"""xmin, ymin, xmax, ymax, and its line in the label file, or 0 without lines."""

Size = tuple[int, int]
"""Width and height of an image in pixels, as given in its label file."""

DEFAULT_SPLIT = "train"
SPLIT_NAME = re.compile(r"\w+")

Scalar = str | int | float

FileValue = tuple[str, int, int] | tuple[str, int, int, tuple[tuple[int, ...], ...]]
"""A further file of a sample, not opened before its shard is written: its URI, its bytes as listed,
its version as in `ImageRef` and, optionally, the description of its pixels in the labels."""


class NamedFile(NamedTuple):
    """A `FileValue` by the names of its parts."""

    uri: str
    size: int
    version: int
    segments: tuple[tuple[int, ...], ...] = ()


LabelValue = (
    Scalar | None | tuple[Scalar, ...] | tuple[Box, ...] | FileValue | tuple[FileValue, ...]
)
"""A typed value of one label column; None for an empty cell, a tuple for a list feature."""


class ImageRef(NamedTuple):
    """A listed image, never opened.

    Attributes:
      key: path relative to its root, with `/`; identifies the sample everywhere.
      uri: the image file.
      size: bytes, as listed.
      version: changes with the file: its modification time in nanoseconds, or its generation in a
        bucket; 0 if unknown. A member of an archive has the archive's.
      aliases: of a member of an archive, the path that states its class and split, and more paths by
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
        """The path whose folders give class and split."""
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
      uri: the file that contains the image.
      size: bytes, as listed.
      split: "train", "validation", ...
      labels: one value per column of the schema, in the schema's order.
      offset: the image's position in a file of several images, in bytes; -1 if the file is the
        image.
      origin: the label file; empty without one, or with several.
      version: the file's, like in its `ImageRef`.
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


ROW_MARK = "#"
"""Between an image's key and its row or object in the keys of `--sample row` and `--crop_boxes`."""


def row_key(image: str, row: object) -> str:
    """The key of a row, or an object, of an image: `a.jpg#0`."""
    return f"{image}{ROW_MARK}{str(row).replace(ROW_MARK, '%23').replace('/', '%2F')}"


def image_of(key: str) -> str:
    """The image's key in that of its row; a key of no image's row as it is."""
    image, mark, _ = key.rpartition(ROW_MARK)
    return image if mark else key


def files_of(ref: SampleRef, columns: Iterable[int]) -> list[tuple[int, str, int]]:
    """(index of the label, uri, size) of each further file of a sample, in order.

    Args:
      ref: the sample.
      columns: the indices of the labels that are files.
    """
    return [(index, *file[:2]) for index in columns for file in named_files(ref.labels[index])]


def named_files(value: Any) -> Sequence[FileValue]:
    """The files of a label: none, one, or those of a list."""
    if not value:
        return ()
    files: Sequence[FileValue] = (value,) if isinstance(value[0], str) else value
    return files


def bytes_of(ref: SampleRef, columns: Collection[int]) -> int:
    """The bytes of a sample's image and further files, as listed."""
    if not columns:  # as nearly always
        return ref.size
    return ref.size + sum(size for _, _, size in files_of(ref, columns))
