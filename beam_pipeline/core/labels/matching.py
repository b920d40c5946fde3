"""Joins images with the rows that may mean them: in one bucket, by the names that they share.

All names of an image share the part of its file name before the first dot, so that decides; without its
case, which may be the only difference between a row and its image. If every image
is called `rgb.png`, all are in one bucket.
"""

from __future__ import annotations

import functools
import itertools
import posixpath
import unicodedata
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from beam_pipeline.core.dead_letters import DeadLetter, Reason, Stage, row_dead_letter
from beam_pipeline.core.packing import Columns
from beam_pipeline.core.references import ImageRef, LabelRow
from beam_pipeline.core.text import counted, some
from beam_pipeline.core.uris import is_remote


def normalized(name: str) -> str:
    """A name with its characters composed, as systems differ in that."""
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def bucket_of(name: str, buckets: int) -> int:
    """The bucket of an image's key or a row's name: by its file name up to the first dot, in lower case."""
    file_name = normalized(name).replace("\\", "/").rpartition("/")[2]
    return zlib.crc32(file_name.partition(".")[0].lower().encode()) % buckets


def folder_steps(name: str) -> Sequence[str]:
    """The parts of the path of a folder, as it is or as a row writes it."""
    return normalized(name).replace("\\", "/").strip("/").removeprefix("./").split("/")


@dataclass(frozen=True)
class NameDivision:
    """Divides images and rows by `bucket_of`; their first column is the key or the name.

    Attributes:
      parts: the number of buckets.
      level: how deep the folder is that an image counts by, 0 for rows that name one; None for the image's own name.
    """

    parts: int
    level: int | None = None

    def numbers(self, columns: Columns) -> Sequence[int]:
        """The bucket of each image or row."""
        names, parts = columns[0], self.parts
        if self.level:
            names = ["/".join(name.split("/", self.level)[: self.level]) for name in names]
        elif self.level is not None:
            names = ["/".join(folder_steps(name)) for name in names]
        text = "\n".join(names)
        if not text.isascii() or "\\" in text:  # names have several forms
            return [bucket_of(name, parts) for name in names]
        return [
            zlib.crc32(name[name.rfind("/") + 1 :].partition(".")[0].lower().encode()) % parts
            for name in names
        ]


@dataclass(frozen=True)
class KeyDivision:
    """Divides files by their keys alone, which are the first column.

    Attributes:
      parts: the number of groups.
    """

    parts: int

    def numbers(self, columns: Columns) -> Sequence[int]:
        """The group of each file."""
        return [zlib.crc32(key.encode()) % self.parts for key in columns[0]]


# --- the images that a row may mean --------------------------------------------------------------

_Form = Callable[[ImageRef], Sequence[str]]
_Way = tuple[_Form, Callable[[str], str]]
"""Gives names of an image, and the part of each by which a row may name it."""


def _stem(path: str) -> str:
    return posixpath.splitext(path)[0]


def _lower_stem(path: str) -> str:
    return _stem(path).lower()


def _key(image: ImageRef) -> Sequence[str]:
    return (image.key,)


def _paths(image: ImageRef) -> Sequence[str]:
    return (image.key, image.uri)


def _file_name(image: ImageRef) -> Sequence[str]:
    return (image.key.rpartition("/")[2],)


def _alias(image: ImageRef, index: int) -> Sequence[str]:
    """A further name of a member of an archive; other images have none."""
    return image.aliases[index : index + 1]


def _exact(path: str) -> _Way:
    """The way in which a path names an image: no URI is relative, so most can only be keys."""
    return _paths if path.startswith("/") or is_remote(path) else _key, str


class ImageNames(dict[_Way, Mapping[str, Sequence[ImageRef]]]):
    """Every name that the images of a bucket answer to, by the way of naming.

    Most rows give the exact one, so the others are only made when a row asks for them.
    """

    def __init__(self, images: Sequence[ImageRef]) -> None:
        super().__init__()
        self._images = images
        aliases = range(max((len(image.aliases) for image in images), default=0))
        self._aliases = [functools.partial(_alias, index=index) for index in aliases]

    def __missing__(self, way: _Way) -> Mapping[str, Sequence[ImageRef]]:
        form, part = way
        named: dict[str, list[ImageRef]] = defaultdict(list)
        for image in self._images:
            for name in {part(normalized(name)): None for name in form(image)}:
                named[name].append(image)
        self[way] = named
        return named

    def find(self, row: LabelRow) -> Sequence[ImageRef]:
        """The images that the row names, by the first way of naming that finds any; see `join`."""
        attempts = (self[way].get(name) for way, name in self._attempts(row))
        images = next(filter(None, attempts), ())
        # of several, names may differ in Unicode's composition only
        same = [image for image in images if row.name in (image.key, image.uri)]
        return same if len(same) == 1 else images

    def _attempts(self, row: LabelRow) -> Iterator[tuple[_Way, str]]:
        """The ways of naming and the name in each."""
        names = names_of(row)
        yield from ((_exact(name), name) for name in names)
        below = _below_label_file(names[-1], row.file)
        yield _exact(below), below
        product = itertools.product
        yield from product(product(self._aliases, [str]), names)
        yield from product([(_paths, _stem)], (*names, below))
        yield from product(product(self._aliases, [_stem]), names)
        yield from product(product([_file_name], [str, _stem]), names)

    def why_missing(self, row: LabelRow) -> str:
        """Which names were looked for; for a path, also images of its file name in other folders."""
        path = names_of(row)[-1]
        file_name, lower = path.rpartition("/")[2], path.lower()
        lower_name = file_name.lower()
        names = self[_file_name, str.lower].get(lower_name)
        named = names or self[_file_name, _lower_stem].get(lower_name, ())
        keys = ((image.key, image.key.lower()) for image in named)
        twins = [key for key, low in keys if lower in (lower_name, low, _stem(low))]
        if twins:
            return f"the image {min(twins)} differs from this name in case: write one of them as the other"
        elsewhere = self[_file_name, str].get(file_name) or self[_file_name, _stem].get(file_name)
        if not elsewhere:
            return "no listed image has this name, with or without folder or extension"
        keys_there = some(sorted(image.key for image in elsewhere))
        return f"no listed image has this path, with or without extension; of the same file name there is {keys_there}"


def are_exact(names: Sequence[str]) -> bool:
    """True if names are relative paths, written in one form only, so that an equal key is what each means."""
    text = "\n" + "\n".join(names)
    return text.isascii() and not any(mark in text for mark in ("\\", "\n/", "\n./", "://"))


def names_of(row: LabelRow) -> Sequence[str]:
    """The row's name as written, and with `/` for the backslashes of Windows."""
    name = normalized(row.name).removeprefix("file://")
    return tuple(
        posixpath.normpath(form) if form.startswith("./") and _is_file_name(form) else form
        for form in dict.fromkeys((name, name.replace("\\", "/")))
    )


def _is_file_name(path: str) -> bool:
    """True if a path ends in a name; another keeps its form (see `bucket_of`)."""
    return posixpath.basename(path) not in ("", ".", "..")


def _below_label_file(name: str, label_file: str) -> str:
    """The URI that a name has if it is a path from the label file's folder."""
    folder = posixpath.dirname(label_file)
    if is_remote(name) or not _is_file_name(name):
        return name
    if is_remote(folder):
        return f"{folder}/{name}"
    return posixpath.normpath(posixpath.join(folder, name))


# --- dead letters --------------------------------------------------------------------------------


def source_of(row: LabelRow) -> str:
    """The file and line of a row; of a pipeline's, neither is known."""
    return f"{row.file}, line {row.line}" if row.line else row.file or "a row"


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
    keys, reason = sorted(image.key for image in images), Reason.AMBIGUOUS_KEY
    message = f"could mean {some(keys)}; name the path relative to the root"
    if not images:
        reason, message = Reason.MISSING_IMAGE, names.why_missing(row)
    elif len(set(keys)) == 1:
        message = (
            f"names {', '.join(sorted(image.uri for image in images))}, which is not the only image of this path "
            "below a root; rename one, or give --images a folder above both and write the path from there in the row"
        )
    return row_dead_letter(Stage.JOIN, row.name, reason, message, row.file, row.line)


def no_folder(row: LabelRow, folders: Sequence[Sequence[str]], level: int) -> DeadLetter:
    """The dead letter of a row that names no folder of images, or several, so deep below the root."""
    where = f"so called, {counted(level, 'level')} below --images, as those of the first rows are"
    reason, message = Reason.MISSING_IMAGE, f"no listed image is in a folder {where}"
    if folders:
        could = some(sorted(map("/".join, folders)))
        reason, message = Reason.AMBIGUOUS_KEY, f"could mean {could}; write more of the path"
    return row_dead_letter(Stage.JOIN, row.name, reason, message, row.file, row.line)
