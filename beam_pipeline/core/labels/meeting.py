"""Joins images with the rows that may mean them: in one bucket, by the names that they share.

All names of an image share the part of its file name before the first dot, so that decides; without its
case, which may be the only difference between a row and its image. If every image
is called `rgb.png`, all are in one bucket.
"""

from __future__ import annotations

import functools
import posixpath
import re
import unicodedata
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from beam_pipeline.core.dead_letters import (
    DeadLetter,
    Reason,
    Stage,
    image_dead_letter,
    row_dead_letter,
)
from beam_pipeline.core.packing import Columns
from beam_pipeline.core.references import ImageRef, LabelRow
from beam_pipeline.core.text import some
from beam_pipeline.core.uris import is_remote

_PLAIN = re.compile(r"(?:[^/.][^/]*/)*[^/.][^/]*", re.DOTALL).fullmatch
"""Matches relative paths of visible files, which have one form only."""


def normalized(name: str) -> str:
    """A name with its characters composed, as systems differ in that."""
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def bucket_of(name: str, buckets: int) -> int:
    """The bucket of an image's key or a row's name: by its file name up to the first dot, in lower case."""
    file_name = normalized(name).replace("\\", "/").rpartition("/")[2]
    return zlib.crc32(file_name.partition(".")[0].lower().encode()) % buckets


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
        text = "\n".join(names)
        if not text.isascii() or "\\" in text:  # names have several forms
            return [bucket_of(name, parts) for name in names]
        return [
            zlib.crc32(name[name.rfind("/") + 1 :].partition(".")[0].lower().encode()) % parts
            for name in names
        ]


# --- the images that a row may mean --------------------------------------------------------------

_Named = Mapping[str, Sequence[ImageRef]]


class ImageNames:
    """Every name that the images of a bucket answer to, in order of priority: see `join`.

    Most rows give the exact one, so the others are only made when a row asks for them.
    """

    def __init__(self, images: Sequence[ImageRef]) -> None:
        self._images = images
        self._keys = _named((normalized(image.key), image) for image in images)

    @functools.cached_property
    def _paths(self) -> _Named:
        return self._by_path(str)

    @functools.cached_property
    def _stems(self) -> _Named:
        return self._by_path(_stem)

    @functools.cached_property
    def _files(self) -> _Named:
        return _named((_file_name(image), image) for image in self._images)

    @functools.cached_property
    def _file_stems(self) -> _Named:
        return _named((_stem(_file_name(image)), image) for image in self._images)

    @functools.cached_property
    def _in_archives(self) -> Sequence[_Named]:
        """Members of archives by each of their further names; none without archives."""
        members = [image for image in self._images if image.aliases]
        aliases = zip(*(map(normalized, image.aliases) for image in members), strict=True)
        return [_named(zip(names, members, strict=True)) for names in aliases]

    @functools.cached_property
    def _stems_in_archives(self) -> Sequence[_Named]:
        return [
            _named((_stem(name), image) for name, images in named.items() for image in images)
            for named in self._in_archives
        ]

    @functools.cached_property
    def _lower(self) -> _Named:
        """By file name in lower case, with the extension, and up to the dot before it."""
        names = [(_file_name(image).lower(), image) for image in self._images]
        return _named([*names, *((f"{_stem(name)}.", image) for name, image in names)])

    def _by_path(self, part: Callable[[str], str]) -> _Named:
        """The images by a part of their keys and of their URIs."""
        named: dict[str, list[ImageRef]] = defaultdict(list)
        for image in self._images:
            key, uri = part(normalized(image.key)), part(normalized(image.uri))
            named[key].append(image)
            if uri != key:
                named[uri].append(image)
        return named

    def find(self, row: LabelRow) -> Sequence[ImageRef]:
        """The images that the row names, by the first way of naming that finds any."""
        attempts = (named.get(name) for named, name in self._attempts(row))
        images = next(filter(None, attempts), ())
        if len(images) > 1:  # names that differ in Unicode's composition only
            same = [image for image in images if row.name in (image.key, image.uri)]
            return same if len(same) == 1 else images
        return images

    def _attempts(self, row: LabelRow) -> Iterator[tuple[_Named, str]]:
        """The ways of naming and the name in each; no way is made before a row asks for it."""
        names = names_of(row)
        for name in names:
            yield self._exact(name), name
        below = _below_label_file(names[-1], row.file)
        yield self._exact(below), below
        for named in self._in_archives:
            for name in names:
                yield named, name
        for name in (*names, below):
            yield self._stems, name
        for named in self._stems_in_archives:
            for name in names:
                yield named, name
        for name in names:
            yield self._files, name
        for name in names:
            yield self._file_stems, name

    def _exact(self, name: str) -> _Named:
        """The images by what may be a path: no URI is relative, so most paths can only be keys."""
        return self._paths if name.startswith("/") or is_remote(name) else self._keys

    def why_missing(self, row: LabelRow) -> str:
        """Which names were looked for; for a path, also images of its file name in other folders."""
        path = names_of(row)[-1]
        file_name, lower = path.rpartition("/")[2], path.lower()
        lower_name = file_name.lower()
        named = self._lower.get(lower_name) or self._lower.get(f"{lower_name}.") or ()
        keys = ((image.key, image.key.lower()) for image in named)
        twins = [key for key, low in keys if lower in (lower_name, low, _stem(low))]
        if twins:
            return f"the image {min(twins)} differs from this name in case: write one of them as the other"
        if "/" not in path:
            return "no listed image has this name, with or without folder or extension"
        elsewhere = self._files.get(file_name) or self._file_stems.get(file_name)
        if not elsewhere:
            return "no listed image has this path or its file name, with or without extension"
        return (
            "no listed image has this path, with or without extension; of the same file name there is "
            f"{some(sorted(image.key for image in elsewhere))}"
        )


def _named(pairs: Iterable[tuple[str, ImageRef]]) -> _Named:
    named: dict[str, list[ImageRef]] = defaultdict(list)
    for name, image in pairs:
        named[name].append(image)
    return named


def are_exact(names: Sequence[str]) -> bool:
    """True if names are relative paths, written in one form only, so that an equal key is what each means."""
    text = "\n" + "\n".join(names)
    return text.isascii() and not any(mark in text for mark in ("\\", "\n/", "\n./", "://"))


def _file_name(image: ImageRef) -> str:
    return normalized(image.key).rpartition("/")[2]


def _stem(path: str) -> str:
    return posixpath.splitext(path)[0]


def names_of(row: LabelRow) -> Sequence[str]:
    """The row's name as written, and with `/` for the backslashes of Windows."""
    name = normalized(row.name)
    if name.startswith("file://"):
        name = name[len("file://") :]
    if "\\" not in name and not name.startswith("./"):  # as nearly all are
        return (name,)
    names = (name, name.replace("\\", "/")) if "\\" in name else (name,)
    return tuple(
        posixpath.normpath(name) if name.startswith("./") and _is_file_name(name) else name
        for name in names
    )


def _is_file_name(path: str) -> bool:
    """True if a path ends in a name; another keeps its form (see `bucket_of`)."""
    return posixpath.basename(path) not in ("", ".", "..")


def _below_label_file(name: str, label_file: str) -> str:
    """The URI that a name has if it is a path from the label file's folder."""
    folder, prefix = _beside(label_file)
    if _PLAIN(name):
        return prefix + name
    if is_remote(name) or not _is_file_name(name):
        return name
    if is_remote(folder):
        return f"{folder}/{name}"
    return posixpath.normpath(posixpath.join(folder, name))


@functools.lru_cache(maxsize=64)
def _beside(label_file: str) -> tuple[str, str]:
    """The folder of a label file, and what precedes the plain name of a file there in its URI."""
    folder = posixpath.dirname(label_file)
    beside = f"{folder}/x" if is_remote(folder) else posixpath.normpath(posixpath.join(folder, "x"))
    return folder, beside[:-1]


# --- dead letters --------------------------------------------------------------------------------


def source_of(row: LabelRow) -> str:
    """The file and line of a row."""
    return f"{row.file}, line {row.line}" if row.line else row.file


def row_text(row: LabelRow) -> str:
    """The values and the split of a row, for a message."""
    if row.split and all(value is None for value in row.values):
        return f"the split {row.split}"
    values = ", ".join(map(_value_text, row.values))
    return f"{values} in {row.split}" if row.split else values


def _value_text(value: Any) -> str:
    """A value as a message shows it: of a list the first few, boxes without their lines."""
    if not isinstance(value, tuple):
        return repr(value)
    items = (repr(item[:4] if isinstance(item, tuple) else item) for item in value)
    return f"[{some([*items])}]"


def orphan(row: LabelRow, images: Sequence[ImageRef], names: ImageNames) -> DeadLetter:
    """The dead letter of a row that names no image, or several."""
    keys = sorted(image.key for image in images)
    reason, message = (
        Reason.AMBIGUOUS_KEY,
        f"could mean {some(keys)}; name the path relative to the root",
    )
    if not images:
        reason, message = Reason.MISSING_IMAGE, names.why_missing(row)
    elif len(set(keys)) == 1:
        message = (
            f"names {', '.join(sorted(image.uri for image in images))}, which is not the only image of this path "
            "below a root; rename one, or give --images a folder above both and write the path from there in the row"
        )
    return row_dead_letter(Stage.JOIN, row.name, reason, message, row.file, row.line)


def join_letter(image: ImageRef, reason: Reason, message: str) -> DeadLetter:
    """The dead letter of an image that the join leaves out."""
    return image_dead_letter(Stage.JOIN, image.key, image.uri, reason, message)
