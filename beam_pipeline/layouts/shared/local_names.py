"""Names in local folders, in which layouts search for files that they recognise.

Several layouts search the same folders, some of which hold a million images. Within `remembered`,
each folder is read only once.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeVar

from beam_pipeline.core.listing.filters import IMAGE_EXTENSIONS

_Found = TypeVar("_Found")

_MOST_IMAGES = 2000
_IMAGES = IMAGE_EXTENSIONS - {""}


class LocalNames(NamedTuple):
    """The names in a folder, without hidden ones.

    Attributes:
      images: file names of images, sorted; only some if there are thousands.
      files: other file names, sorted.
      folders: paths of folders, sorted.
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


def names_in(folder: str) -> LocalNames:
    """Returns the names in a local folder; none if it does not exist or cannot be read."""
    path = folder.rstrip("/") or "/"
    return once(path, functools.partial(_read, path))


def once(key: Hashable, read: Callable[[], _Found]) -> _Found:
    """Returns what was read under a key while `remembered` is in force, else reads it now."""
    known = _remembered.get()
    if known is None:
        return read()
    if key not in known:
        known[key] = read()
    found: _Found = known[key]
    return found


def image_names(folder: str) -> Iterator[str]:
    """Yields the name of every image in a local folder, in no order; none if it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if _is_image(entry.name):
                    yield entry.name
    except OSError:
        pass


def file_names(folder: str, suffix: str) -> list[str]:
    """Returns the sorted names of the files in a local folder with a suffix, in any case.

    Args:
      folder: the folder; one that does not exist or cannot be read counts as empty.
      suffix: an extension in lower case that is not an image's.
    """
    return [name for name in names_in(folder).files if name.lower().endswith(suffix)]


def subfolders(folder: str) -> list[str]:
    """Returns the sorted paths of the folders in a local folder; none if it cannot be read."""
    return list(names_in(folder).folders)


def _is_image(name: str) -> bool:
    """True if a file's extension is an image's; folders hold a million, so this is no `splitext`."""
    dot = name.rfind(".")
    return dot > 0 and name[dot:].lower() in _IMAGES


def _read(folder: str) -> LocalNames:
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
