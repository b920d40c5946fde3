"""Names in folders, on this machine or in a bucket, in which layouts search for the shapes they know.

Several layouts search the same folders, some of which hold a million images. Within `remembered`, each
folder is read only once. A bucket has no folders: names are listed, and where one subfolder has many,
the listing goes on after it.
"""

from __future__ import annotations

import functools
import itertools
import os
import posixpath
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeVar

from beam_pipeline.core.listing.filters import IMAGE_EXTENSIONS
from beam_pipeline.core.uris import is_remote
from beam_pipeline.storage import files
from beam_pipeline.storage.files import file_system

_Value = TypeVar("_Value")

_MOST_IMAGES = 2000
_PAGE = 1000  # names of a request to a bucket
_MOST_PAGES = 20
_HEAD_BYTES = 64 << 10
_IMAGES = IMAGE_EXTENSIONS - {""}


class LocalNames(NamedTuple):
    """The names in a folder, without hidden ones.

    Attributes:
      images: file names of images, sorted; only some if there are thousands.
      files: other file names, sorted.
      folders: URIs of folders, sorted.
    """

    images: tuple[str, ...]
    files: tuple[str, ...]
    folders: tuple[str, ...]


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


def names_in(folder: str) -> LocalNames:
    """Returns the names in a folder; none if it does not exist or cannot be read."""
    path = folder.rstrip("/") or "/"
    return once(path, functools.partial(_remote if is_remote(path) else _local, path))


def subfolders(folder: str) -> list[str]:
    """Returns the sorted URIs of the folders in a folder; none if it cannot be read."""
    return list(names_in(folder).folders)


def has_folder(uri: str) -> bool:
    """True if there is a folder of this name. In a bucket, the folder around it is listed."""
    return uri in names_in(posixpath.dirname(uri)).folders if is_remote(uri) else os.path.isdir(uri)


def has_file(uri: str) -> bool:
    """True if there is a file of this name. In a bucket, the folder around it is listed."""
    if is_remote(uri):
        return posixpath.basename(uri) in names_in(posixpath.dirname(uri)).files
    return os.path.isfile(uri)


def first_folder(*uris: str) -> str:
    """Returns the first of some folders that there is; empty if there is none."""
    return next(filter(has_folder, uris), "")


def files_of(folder: str, suffix: str) -> list[str]:
    """Returns the sorted URIs of the files in a folder with a suffix, in any case.

    Args:
      folder: the folder; one that does not exist or cannot be read counts as empty.
      suffix: an extension in lower case that is not an image's.
    """
    return [
        f"{folder.rstrip('/')}/{name}"
        for name in names_in(folder).files
        if name.lower().endswith(suffix)
    ]


def stems_of(folder: str, suffix: str) -> list[str]:
    """Returns the sorted names of all of these files, without extension. Raises OSError for a bucket."""
    if is_remote(folder):
        names = [name for name in files.list_folder(folder) if "/" not in name and name[:1] != "."]
    else:
        names = list(names_in(folder).files)
    return [name[: -len(suffix)] for name in names if name.lower().endswith(suffix)]


def beginning(uri: str, size: int = _HEAD_BYTES) -> bytes:
    """Returns the first bytes of a file; none if it cannot be read."""
    try:
        with files.open_input(uri) as file:
            return file.read(size)
    except Exception:  # reported by the job
        return b""


def image_names(folder: str) -> Iterator[str]:
    """Yields the name of every image in a folder, in no order; none if it cannot be read."""
    if is_remote(folder):
        yield from names_in(folder).images
        return
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if _is_image(entry.name):
                    yield entry.name
    except OSError:
        pass


def _is_image(name: str) -> bool:
    """True if a file's extension is an image's; folders hold a million, so this is no `splitext`."""
    dot = name.rfind(".")
    return dot > 0 and name[dot:].lower() in _IMAGES


def _local(folder: str) -> LocalNames:
    images: list[str] = []
    others: list[str] = []
    folders: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                name = entry.name
                if name.startswith("."):
                    continue
                if entry.is_dir():
                    folders.append(entry.path)
                elif not _is_image(name):
                    others.append(name)
                elif len(images) < _MOST_IMAGES:
                    images.append(name)
    except OSError:
        pass  # reported by the listing of the images
    return LocalNames(tuple(sorted(images)), tuple(sorted(others)), tuple(sorted(folders)))


def _remote(folder: str) -> LocalNames:
    names: set[str] = set()
    with suppress(Exception):  # reported by the listing of the images
        for page in _pages(folder):
            names.update(page)
    folders = {f"{folder}/{name.partition('/')[0]}" for name in names if "/" in name}
    here = sorted(name for name in names if "/" not in name)
    images = [name for name in here if _is_image(name)]
    others = tuple(name for name in here if not _is_image(name))
    return LocalNames(tuple(images[:_MOST_IMAGES]), others, tuple(sorted(folders)))


def _pages(folder: str) -> Iterator[Sequence[str]]:
    """Yields names below a folder in a bucket, only some of those in each subfolder."""
    system = file_system(folder)
    start = ""
    for _ in range(_MOST_PAGES):
        if system.lists_ranges:
            listed = system.list_range(f"{folder}/", start)
        else:
            listed = system.list_files(folder)
        page = [file.name for file in itertools.islice(listed, _PAGE)]
        yield [name for name in page if name and not name.startswith(".") and name[-1] != "/"]
        if len(page) < _PAGE or not system.lists_ranges:
            return
        first, slash, _ = page[-1].partition("/")
        start = f"{first}0" if slash else page[-1]  # "0" follows "/"
