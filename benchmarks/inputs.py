"""The images to convert, and how to put them into the page cache or drop them from it."""

from __future__ import annotations

import ctypes
import mmap
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

LOOKED_AT = 100  # number of files whose pages are counted
KINDS = {".jpg": "JPEG", ".jpeg": "JPEG"}  # format names that differ from the extension
_PAGE_BYTES = mmap.PAGESIZE


def size_text(count: float) -> str:
    """Formats a number of bytes: 2.4 kB, 110 kB, 1.1 GB."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6)):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count / 1e3:.3g} kB"


class Image(NamedTuple):
    """A file and the number of its class: the index of its folder among the sorted ones."""

    path: str
    label: int


@dataclass(frozen=True)
class Images:
    """Class folders of images."""

    folder: str
    files: list[Image]
    bytes: int

    @property
    def title(self) -> str:
        """Describes the images: number, kind and mean size."""
        endings = {os.path.splitext(file.path)[1].lower() for file in self.files}
        kinds = sorted({KINDS.get(ending, ending[1:].upper()) for ending in endings})
        mean = size_text(self.bytes / len(self.files))
        return f"{len(self.files):,} {' and '.join(f'{kind}s' for kind in kinds)} of {mean}"


def list_images(folder: str) -> Images:
    """Lists the files of the class folders in a folder.

    Raises:
      ValueError: something else is in the place of a class folder or an image.
    """
    files = []
    size = 0
    for label, name in enumerate(sorted(os.listdir(folder))):
        for entry in os.scandir(os.path.join(folder, name)):
            if not entry.is_file():
                raise ValueError(f"{entry.path}: found a folder, expected an image: CLASS/IMAGE")
            files.append(Image(entry.path, label))
            size += entry.stat().st_size
    if not files:
        raise ValueError(f"{folder}: no class folders with images")
    return Images(folder, sorted(files), size)


def few_of(images: Images, count: int, folder: str) -> Images:
    """Copies the first images to a new folder."""
    for image in images.files[:count]:
        target = os.path.join(folder, os.path.basename(os.path.dirname(image.path)))
        os.makedirs(target, exist_ok=True)
        shutil.copy(image.path, target)
    return list_images(folder)


def warm(images: Images) -> None:
    """Reads every file into the page cache."""
    for file in images.files:
        with open(file.path, "rb") as stream:
            stream.read()


def cool(images: Images) -> None:
    """Drops every file from the page cache.

    Raises:
      ValueError: the files are still in memory, for example because they are on tmpfs.
    """
    os.sync()  # pages that are not on disk yet would stay
    for file in images.files:
        descriptor = os.open(file.path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)
    step = max(1, len(images.files) // LOOKED_AT)
    held = share_held(file.path for file in images.files[::step])
    if held > 0.05:
        raise ValueError(
            f"{images.folder}: the page cache still holds {held:.0%} of the images; "
            "put them on a disk, tmpfs cannot be cold"
        )


def share_held(paths: Iterable[str]) -> float:
    """Returns the share of the files' pages in the page cache, 0 to 1."""
    libc = ctypes.CDLL(None, use_errno=True)
    held = total = 0
    for path in paths:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as view:
            pages = -(-len(view) // _PAGE_BYTES)
            states = (ctypes.c_ubyte * pages)()
            first = ctypes.c_char.from_buffer(view)
            failed = libc.mincore(
                ctypes.c_void_p(ctypes.addressof(first)), ctypes.c_size_t(len(view)), states
            )
            del first  # else the view cannot be closed
            if failed:
                raise OSError(ctypes.get_errno(), "mincore", path)
            held += sum(state & 1 for state in states)
            total += pages
    return held / total
