"""Names in folders, on this machine or in a bucket, in which layouts search for the shapes they know.

Several layouts search the same folders, and some contain a million images. Within `remembered`, each
folder is read only once. In a bucket, names are listed, and where one subfolder has many,
the listing continues after it.
"""

from __future__ import annotations

import functools
import itertools
import os
import posixpath
import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeVar

from beam_pipeline.core.listing.filters import IMAGE_EXTENSIONS, MACOS_FOLDER
from beam_pipeline.core.uris import is_remote
from beam_pipeline.storage import files
from beam_pipeline.storage.files import file_system

_Value = TypeVar("_Value")

IMAGE_FOLDERS = frozenset(
    [
        *("images", "image", "imgs", "img", "image_2", "image_3"),
        *("jpegimages", "pngimages", "jpgs", "leftimg8bit"),
    ]
)
"""Usual names of folders of images, in lower case."""

LABEL_FOLDERS = frozenset(
    [
        *("masks", "segmentationclass", "segmentationobject", "gtfine"),
        *("labels", "label", "label_2", "annotations", "annotation", "xmls"),
    ]
)
"""Usual names of folders of label files or masks, in lower case."""

MOST_IMAGES = 2000
MOST_FOLDERS = 50
"""Subfolders that are searched in one folder."""

_FEW_FOLDERS = 10  # in a folder in a folder
_PAGE = 1000  # names of a request to a bucket
_MOST_PAGES = 100  # requests while names are remembered
_HIDDEN = re.compile(rf"(?:^|/)(?:\.|{MACOS_FOLDER}/)")
_WHOLE, _ASKED = object(), object()  # keys of what is remembered
_HEAD_BYTES = 64 << 10


class Folder(NamedTuple):
    """The names in a folder, without hidden ones.

    Attributes:
      path: the folder, without a slash at its end.
      images: file names of images, sorted; only some if there are thousands.
      files: other file names, sorted.
      folders: URIs of folders, sorted.
    """

    path: str
    images: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()

    def of_kind(self, *extensions: str) -> list[str]:
        """Returns the URIs of the other files with one of these extensions, given in lower case."""
        folder = self.path.rstrip("/")
        return [f"{folder}/{name}" for name in self.files if name.lower().endswith(extensions)]


_remembered: ContextVar[dict[Hashable, Any] | None] = ContextVar("remembered", default=None)


@contextmanager
def remembered() -> Iterator[None]:
    """Caches the names of each folder while the block runs."""
    token = _remembered.set({})
    try:
        yield
    finally:
        _remembered.reset(token)


def once(key: Hashable, read: Callable[[], _Value]) -> _Value:
    """Returns what was read under a key while `remembered` is in force, else reads it now."""
    known = _remembered.get()
    if known is None:
        return read()
    if key not in known:
        known[key] = read()
    value: _Value = known[key]
    return value


def remember(root: str, names: Sequence[str]) -> Folder:
    """Remembers the files in an archive as if it were a folder, while `remembered` is in force; returns it."""
    folders = _by_folder(root, sorted({name for name in names if not _HIDDEN.search(name)}))
    if (known := _remembered.get()) is not None:
        known.update(folders)
    return folders[root]


def names_in(folder: str) -> Folder:
    """Returns the names in a folder; none if it does not exist or cannot be read."""
    path = folder.rstrip("/") or "/"
    return once(path, functools.partial(_remote if is_remote(path) else _local, path))


def subfolders(folder: str) -> list[str]:
    """Returns the sorted URIs of the folders in a folder; none if it cannot be read."""
    return list(names_in(folder).folders)


def walk(root: str, most: int) -> Iterator[Folder]:
    """Yields the first folders of a tree, each before those in it."""
    waiting = [root.rstrip("/") or "/"]
    while waiting and (most := most - 1) >= 0:
        folder = names_in(waiting.pop())
        waiting += reversed(folder.folders)
        yield folder


def tree(here: Folder) -> list[Folder]:
    """Reads a folder and its subfolders, three levels down, without folders of TFRecords."""
    every, level = [here], [here]
    for most in (MOST_FOLDERS, _FEW_FOLDERS, _FEW_FOLDERS):
        paths = [path for folder in level for path in folder.folders[:most]]
        level = [*map(names_in, paths[:MOST_FOLDERS])]
        every += level
    return [each for each in every if not any(".tfrecord" in name for name in each.files)]


def folders_with_images(here: Folder, levels: int = 3) -> list[str]:
    """Returns the paths of the folders that contain images, up to some levels below a folder."""
    return [
        folder.path
        for folder in map(names_in, here.folders[:MOST_FOLDERS])
        if folder.images or (levels > 1 and folders_with_images(folder, levels - 1))
    ]


def has_folder(uri: str) -> bool:
    """True if there is a folder of this name. In a bucket, the folder around it is listed."""
    return uri in names_in(posixpath.dirname(uri)).folders if is_remote(uri) else os.path.isdir(uri)


def has_file(uri: str) -> bool:
    """True if there is a file of this name, which is not an image."""
    if not is_remote(uri):
        return os.path.isfile(uri)
    folder, name = posixpath.split(uri)
    if name in names_in(folder).files:
        return True
    with suppress(Exception):  # a folder that is known in part
        return (
            not _is_whole(folder) and _may_ask() and once((_ASKED, uri), lambda: files.exists(uri))
        )
    return False


def homes(name: str, uri: str, places: Sequence[str]) -> list[str]:
    """Returns the folders that contain one of a name: that around a URI of this name, else those in the first place.

    Args:
      name: the name.
      uri: a folder of this name, or one above.
      places: paths below `uri` to try one after the other; of `x/*`, all folders in x.
    """
    if posixpath.basename(uri) == name:
        return [posixpath.dirname(uri)]
    for place in places:
        folder = posixpath.join(uri, place.removesuffix("*")).rstrip("/")
        candidates = subfolders(folder) if place.endswith("*") else [folder]
        if there := [inner for inner in candidates if has_folder(f"{inner}/{name}")]:
            return there
    return []


def files_of(folder: str, suffix: str) -> list[str]:
    """Returns the sorted URIs of the files in a folder with a suffix, in any case; packages with layouts call it.

    Args:
      folder: the folder; one that does not exist or cannot be read counts as empty.
      suffix: an extension in lower case that is not an image's.
    """
    return names_in(folder).of_kind(suffix)


def stems_of(folder: str, suffix: str) -> list[str]:
    """Returns the sorted names of all files with a suffix in a folder, without it. Raises OSError."""
    names = (name for name in files.list_folder(folder) if "/" not in name and name[:1] != ".")
    return [name[: -len(suffix)] for name in names if name.lower().endswith(suffix)]


def beginning(uri: str, size: int = _HEAD_BYTES) -> bytes:
    """Returns the first bytes of a file; none if it cannot be read."""
    try:
        with files.open_input(uri) as file:
            return file.read(size)
    except Exception:  # reported by the job
        return b""


def image_names(folder: str) -> Iterator[str]:
    """Yields the names of all images in a folder, in no order; in a bucket, of the first ones."""
    if is_remote(folder):
        yield from names_in(folder).images
        return
    with suppress(OSError), os.scandir(folder) as entries:
        yield from (entry.name for entry in entries if _is_image(entry.name))


def _is_image(name: str) -> bool:
    """True if a file's extension is an image's; folders contain a million, so this is no `splitext`."""
    dot = name.rfind(".")
    return dot > 0 and name[dot:].lower() in IMAGE_EXTENSIONS


def _local(folder: str) -> Folder:
    images: list[str] = []
    other_files: list[str] = []
    folders: list[str] = []
    # What cannot be read is reported by the listing of the images.
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            name = entry.name
            if name.startswith(".") or name == MACOS_FOLDER:
                continue
            if entry.is_dir():
                folders.append(entry.path)
            elif not _is_image(name):
                other_files.append(name)
            elif len(images) < MOST_IMAGES:
                images.append(name)
    return Folder(folder, tuple(sorted(images)), tuple(sorted(other_files)), tuple(sorted(folders)))


def _remote(folder: str) -> Folder:
    state = _remembered.get()
    if _is_whole(folder) or not _may_ask():
        return Folder(folder)
    names: set[str] = set()
    whole = False
    with suppress(Exception):  # reported by the listing of the images
        for page, whole in _pages(folder):  # noqa: B007, after the last one
            names.update(page)
    folders = _by_folder(folder, sorted(names))
    if whole and state is not None:
        state.update(folders)
        state.setdefault(_WHOLE, []).append(folder)
    return folders[folder]


def _is_whole(folder: str) -> bool:
    """True if all names in a folder of a bucket are known, because a folder around it was listed whole."""
    state = _remembered.get() or {}
    return any(f"{folder}/".startswith(f"{root}/") for root in state.get(_WHOLE, ()))


def _may_ask() -> bool:
    """True if another request may be made; counts it."""
    state = _remembered.get()
    if state is not None:
        state[_ASKED] = state.get(_ASKED, 0) + 1
    return state is None or state[_ASKED] <= _MOST_PAGES


def _pages(folder: str) -> Iterator[tuple[Sequence[str], bool]]:
    """Yields (names, whether all others were yielded) below a folder in a bucket, some of each subfolder."""
    system = file_system(folder)
    start, skipped = "", False
    while True:
        if system.lists_ranges:
            listed = system.list_range(f"{folder}/", start)
        else:
            listed = system.list_files(folder)
        page = [file.name for file in itertools.islice(listed, _PAGE)]
        last = len(page) < _PAGE
        names = [name for name in page if name and not _HIDDEN.search(name) and name[-1] != "/"]
        yield names, last and not skipped
        if last or not system.lists_ranges or not _may_ask():
            return
        first, slash, _ = page[-1].partition("/")
        start = f"{first}0" if slash else page[-1]  # "0" follows "/"
        skipped = skipped or bool(slash)


def _by_folder(root: str, names: Sequence[str]) -> dict[str, Folder]:
    """Folder -> the names in it, for a folder and those below it."""
    inside: dict[str, tuple[list[str], dict[str, None]]] = {root: ([], {})}
    for name in names:
        folder = root
        *above, last = name.split("/")
        for part in above:
            inside[folder][1][f"{folder}/{part}"] = None
            folder = f"{folder}/{part}"
            inside.setdefault(folder, ([], {}))
        inside[folder][0].append(last)
    return {
        folder: Folder(
            folder,
            tuple(list(filter(_is_image, every))[:MOST_IMAGES]),
            tuple(itertools.filterfalse(_is_image, every)),
            tuple(folders),
        )
        for folder, (every, folders) in inside.items()
    }
