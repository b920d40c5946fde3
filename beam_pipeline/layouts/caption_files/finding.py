"""Finds the captions of images by the names in their folders, and tells them from labels of objects."""

from __future__ import annotations

import itertools
import posixpath
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from beam_pipeline.core.listing.filters import IMAGE_EXTENSIONS
from beam_pipeline.core.uris import is_remote
from beam_pipeline.layouts.caption_files.reader import JSON, encoding_of, is_no_caption
from beam_pipeline.layouts.shared.local_names import names_in
from beam_pipeline.storage import files

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
    """The names in a folder: of images and of other files."""

    folder: str
    images: Collection[str]
    others: Sequence[str]

    def stems(self) -> frozenset[str]:
        """The images' names without extension."""
        return frozenset(_parts(name)[0] for name in self.images)


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

    def add(self, names: _Names, images: frozenset[str] | None = None) -> None:
        """Adds the captions in a folder.

        Args:
          names: those in the folder.
          images: names of the images that they may belong to, without extension; by default, those in
            the folder.
        """
        if not names.others:  # as in most folders
            return
        images = names.stems() if images is None else images
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


def look_for_captions(
    images: Sequence[str], labels: Sequence[str] = (), *, enough: int = 0
) -> Found:
    """Looks at the names in folders of images; in large ones, only at some.

    Args:
      images: URIs of folders with images.
      labels: URIs of folders with their captions; by default, captions lie beside the images.
      enough: after so many images without a single caption beside them, looks no further; 0 for never.
    """
    found = Found()
    stems = set[str]()
    for names in itertools.chain.from_iterable(map(_folders, images)):
        found.images += len(names.images)
        if names.images:
            found.folders.append(names.folder)
        if labels:
            stems |= names.stems()
            continue
        found.add(names)
        if 0 < enough <= found.images and not found.ending:
            break
    for names in itertools.chain.from_iterable(map(_folders, labels)):
        found.add(names, frozenset(stems))
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
        yield _Names(folder, here.images, here.files)


def _remote_folders(root: str) -> Iterator[_Names]:
    images, others = defaultdict[str, set[str]](set), defaultdict[str, list[str]](list)
    for listed in itertools.islice(files.list_files(root), _MOST_REMOTE_NAMES):
        folder, name = posixpath.split(files.join(root, listed.name))
        if _parts(name)[1] in _IMAGES:
            images[folder].add(name)
        else:
            others[folder].append(name)
    for folder in sorted({*images, *others}):
        yield _Names(folder, images[folder], others[folder])


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
