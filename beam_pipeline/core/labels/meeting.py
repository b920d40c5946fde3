"""Where images and the rows that may mean them meet: in one bucket, by the names that they share.

All names of an image share the part of its file name before the first dot, so that is what decides. If
every image is called `rgb.png`, all meet in one bucket. Large tables therefore meet by folder, too,
where rows give one:

| image, below `photos` | row | meet by |
|---|---|---|
| `0001/rgb.png` | `0001/rgb`, `photos/0001/rgb.png`, `/data/photos/0001/rgb.png` | `0001`, `rgb` |
| `rgb.png` | `photos/rgb.png` | `rgb`, as `photos` is no folder below a root |
| `0001/depth.png` | `depth.png` | `depth`, as a row gives no folder |

The last needs to be known before: `BareNames` are those that any row gives without a folder. An image
of such a name meets its rows by the name alone.
"""

from __future__ import annotations

import unicodedata
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from beam_pipeline.core.packing import Columns

MOST_BARE = 1000
"""So many names without folders, and all images meet by their names alone."""


def normalized(name: str) -> str:
    """A name with its characters composed, as systems differ in that."""
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def bucket_of(name: str, buckets: int) -> int:
    """The bucket of an image's key or a row's name: by its file name up to the first dot."""
    file_name = normalized(name).replace("\\", "/").rpartition("/")[2]
    return zlib.crc32(file_name.partition(".")[0].encode()) % buckets


@dataclass(frozen=True)
class NameDivision:
    """Divides images and rows by `bucket_of`; their first column is the key or the name.

    Attributes:
      parts: the number of buckets.
    """

    parts: int

    def numbers(self, columns: Columns) -> Sequence[int]:
        """The bucket of each image or row."""
        names, parts = columns[0], self.parts
        if not _are_plain(names):
            return [bucket_of(name, parts) for name in names]
        return [
            zlib.crc32(name[name.rfind("/") + 1 :].partition(".")[0].encode()) % parts
            for name in names
        ]


def _are_plain(names: Sequence[str]) -> bool:
    """True if names are written in one way only: in ASCII, and with no separator but `/`."""
    text = "\n".join(names)
    return text.isascii() and "\\" not in text


@dataclass(frozen=True)
class BareNames:
    """File names, up to the first dot, that rows give without a folder.

    Attributes:
      names: the names.
      too_many: there are more than `MOST_BARE`; which, is not kept.
    """

    names: frozenset[str] = field(default_factory=frozenset)
    too_many: bool = False

    @classmethod
    def sum_of(cls, parts: Iterable[BareNames]) -> BareNames:
        """The names of all parts."""
        names: set[str] = set()
        for part in parts:
            names |= part.names
            if part.too_many or len(names) > MOST_BARE:
                return cls(too_many=True)
        return cls(frozenset(names))


@dataclass(frozen=True)
class ByFolder:
    """Buckets by folder and name.

    Attributes:
      roots: the last folder of every root, up to its first dot: the key of an image does not have it.
    """

    roots: frozenset[str]

    @classmethod
    def below(cls, roots: Iterable[str]) -> ByFolder:
        """Buckets for the images below some roots."""
        return cls(frozenset(map(_folder, roots)))

    def bare_names(self, names: Iterable[str]) -> BareNames:
        """Those of rows' names that give no folder below a root."""
        names, found = list(names), set[str]()
        if _are_plain(names):
            paths = {name[: name.rfind("/") + 1] for name in names}
            if all(self._split(path)[0] for path in paths):
                return BareNames()
        for name in names:
            folder, file_name = self._split(name)
            if not folder:
                found.add(file_name)
                if len(found) > MOST_BARE:
                    return BareNames(too_many=True)
        return BareNames(frozenset(found))

    def bucket_of(self, name: str, buckets: int, bare: BareNames) -> int:
        """The bucket of an image's key or a row's name."""
        if bare.too_many:
            return bucket_of(name, buckets)
        folder, file_name = self._split(name)
        if file_name in bare.names:
            folder = ""
        return zlib.crc32(f"{folder}/{file_name}".encode()) % buckets

    def buckets_of(self, names: Sequence[str], buckets: int, bare: BareNames) -> Sequence[int]:
        """The bucket of each image's key or row's name."""
        if bare.too_many:
            return NameDivision(buckets).numbers([names])
        if not _are_plain(names):
            return [self.bucket_of(name, buckets, bare) for name in names]
        folders: dict[str, str] = {}  # the part of a path that names a folder below a root
        numbers = []
        for name in names:
            end = name.rfind("/") + 1
            path, file_name = name[:end], name[end:].partition(".")[0]
            folder = folders.get(path)
            if folder is None:
                folder = folders[path] = self._split(path)[0] + "/"
            if file_name in bare.names:
                folder = "/"
            numbers.append(zlib.crc32((folder + file_name).encode()) % buckets)
        return numbers

    def _split(self, name: str) -> tuple[str, str]:
        """The last folder of a name, empty for that of a root, and the file name to the first dot."""
        path, _, file_name = normalized(name).replace("\\", "/").rpartition("/")
        folder = _folder(path)
        return "" if folder in self.roots else folder, file_name.partition(".")[0]


@dataclass(frozen=True)
class FolderDivision:
    """Divides images and rows by `ByFolder`; their first column is the key or the name.

    Attributes:
      parts: the number of buckets.
      by_folder: tells the bucket of a name.
      bare: the names that rows give without a folder.
    """

    parts: int
    by_folder: ByFolder
    bare: BareNames

    def numbers(self, columns: Columns) -> Sequence[int]:
        """The bucket of each image or row."""
        return self.by_folder.buckets_of(columns[0], self.parts, self.bare)


def _folder(path: str) -> str:
    """The last name in a path up to its first dot; empty for `..`, too, and then a name is bare."""
    return normalized(path).rpartition("/")[2].partition(".")[0]
