"""Finds the captions of images by the names in their folders, and tells them from labels of objects."""

from __future__ import annotations

import posixpath
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from beam_pipeline.transforms.core.listing.filters import IMAGE_EXTENSIONS
from beam_pipeline.transforms.core.uris import is_remote
from beam_pipeline.transforms.layouts.caption_files.reader import JSON, encoding_of, is_no_caption
from beam_pipeline.transforms.layouts.shared.local_names import names_in
from beam_pipeline.transforms.storage import files

ENDINGS = (".txt", ".caption")

_MOST_FOLDERS = 200
_MOST_NAMES = 100_000  # in local folders
_MOST_REMOTE_NAMES = 5_000  # five requests of a listing
_TEXTS = 50  # captions looked at
_LINES = 20  # of each
_HEAD_BYTES = 4096
_NEARLY_ALL = 0.9
_IMAGES = IMAGE_EXTENSIONS - {""}
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")


class _Names(NamedTuple):
    """Names in a folder: those of its images, without extension, and those of its other files."""

    folder: str
    images: frozenset[str]
    others: Sequence[str]


@dataclass
class Found:
    """Captions and JSON objects of images, as far as the folders were looked at.

    Attributes:
      images: how many images there are.
      folders: the folders with images.
      captions: ending -> URIs of the caption files, of those with an image.
      with_fields: URIs of the caption files with a JSON object beside them.
    """

    images: int = 0
    folders: list[str] = field(default_factory=list)
    captions: dict[str, list[str]] = field(
        default_factory=lambda: {ending: [] for ending in ENDINGS}
    )
    with_fields: list[str] = field(default_factory=list)

    def add(self, images: frozenset[str], names: _Names) -> None:
        """Adds the files of a folder that belong to some images, by their names without extension."""
        objects = {stem for stem, ending in map(_parts, names.others) if ending == JSON}
        for name in names.others:
            stem, ending = _parts(name)
            if ending in self.captions and stem in images and not is_no_caption(name):
                uri = f"{names.folder}/{name}"
                self.captions[ending].append(uri)
                if stem in objects:
                    self.with_fields.append(uri)

    @property
    def ending(self) -> str:
        """The ending of most captions; empty if there are none."""
        ending = max(ENDINGS, key=lambda ending: len(self.captions[ending]))
        return ending if self.captions[ending] else ""

    @property
    def other_ending(self) -> str:
        """The other ending, if half of the images or more have captions of that one, too; else empty."""
        (other,) = (ending for ending in ENDINGS if ending != (self.ending or ENDINGS[0]))
        return other if 2 * len(self.captions[other]) >= self.images > 0 else ""

    @property
    def cover_images(self) -> bool:
        """True if nearly every image has a caption."""
        return any(len(uris) >= _NEARLY_ALL * self.images > 0 for uris in self.captions.values())

    def are_texts(self) -> bool:
        """True if captions hold words, not the numbers of objects' labels; some of them are read."""
        uris = self.captions.get(self.ending, [])
        looked_at = uris[:: len(uris) // _TEXTS + 1]
        numbers = Counter(filter(None, map(_kind_of, looked_at)))
        return numbers[_WORDS] > 0 and numbers[_WORDS] >= _NEARLY_ALL * numbers.total()


_WORDS, _NUMBERS = "words", "numbers"


def look_for_captions(images: Sequence[str], labels: Sequence[str] = ()) -> Found:
    """Looks at the names in folders of images; in large ones, only at some.

    Args:
      images: URIs of folders with images.
      labels: URIs of folders with their captions; by default, captions lie beside the images.
    """
    found = Found()
    folders = [names for folder in images for names in _folders(folder)]
    found.folders = [names.folder for names in folders if names.images]
    found.images = sum(len(names.images) for names in folders)
    if not labels:
        for names in folders:
            found.add(names.images, names)
        return found
    everywhere = frozenset().union(*(names.images for names in folders))
    for folder in labels:
        for names in _folders(folder):
            found.add(everywhere, names)
    return found


def _folders(root: str) -> Iterator[_Names]:
    """The names in a folder and those below it, up to a number of them."""
    yield from _remote_folders(root) if is_remote(root) else _local_folders(root)


def _local_folders(root: str) -> Iterator[_Names]:
    names, waiting = 0, [root.rstrip("/") or "/"]
    for _ in range(_MOST_FOLDERS):
        if not waiting or names > _MOST_NAMES:
            return
        folder = waiting.pop()
        here = names_in(folder)
        names += len(here.images) + len(here.files)
        waiting += reversed(here.folders)
        yield _Names(folder, frozenset(_parts(name)[0] for name in here.images), here.files)


def _remote_folders(root: str) -> Iterator[_Names]:
    images, others = defaultdict[str, set[str]](set), defaultdict[str, list[str]](list)
    for listed in islice(files.list_files(root), _MOST_REMOTE_NAMES):
        folder, name = posixpath.split(files.join(root, listed.name))
        stem, ending = _parts(name)
        if ending in _IMAGES:
            images[folder].add(stem)
        else:
            others[folder].append(name)
    for folder in sorted({*images, *others}):
        yield _Names(folder, frozenset(images[folder]), others[folder])


def _parts(name: str) -> tuple[str, str]:
    """A file name without extension, and its extension in lower case."""
    stem, ending = posixpath.splitext(name)
    return stem, ending.lower()


def _kind_of(uri: str) -> str:
    """Tells whether most lines of a file are words or numbers; empty if there are none."""
    try:
        with files.open_input(uri) as file:
            data = file.read(_HEAD_BYTES)
    except OSError:
        return ""
    lines = [
        line for line in data.decode(encoding_of(data), "replace").splitlines() if line.strip()
    ]
    if not lines:
        return ""
    numbers = sum(map(is_of_numbers, lines[:_LINES]))
    return _NUMBERS if 2 * numbers > len(lines[:_LINES]) else _WORDS


def is_of_numbers(line: str) -> bool:
    """True if most words of a line are numbers, as in labels of YOLO, KITTI and DOTA.

    >>> is_of_numbers("Car 0.00 0 1.85 387.63 181.54"), is_of_numbers("3"), is_of_numbers("3 cats")
    (True, True, False)
    """
    words = line.replace(",", " ").split()
    return 2 * sum(map(bool, map(_NUMBER.fullmatch, words))) > len(words)
