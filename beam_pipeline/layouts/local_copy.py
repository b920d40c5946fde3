r"""Rows that name images by outdated paths: in a bucket, on another machine, or from a folder above.

Images on this machine are found by the longest *tail* that a row's name and a file below a root
have in common. For the root `photos` with the file `photos/cat/1.jpg`:

| a row names | tail | beginning |
|---|---|---|
| `gs://bucket/pets/cat/1.jpg` | `cat/1.jpg` | `gs://bucket/pets/` |
| `/home/bob/photos/cat/1.jpg` | `cat/1.jpg` | `/home/bob/photos/` |
| `C:\data\cat\1.jpg` | `cat/1.jpg` | `C:/data/` |
| `photos/cat/1.jpg` | `cat/1.jpg` | `photos/` |

The beginnings that the first rows have before their tails are removed from all rows; no row is
guessed individually.
"""

from __future__ import annotations

import itertools
import os
import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.listing.filters import IMAGE_EXTENSIONS, ImageRoot
from beam_pipeline.core.references import LabelRow
from beam_pipeline.core.uris import is_remote

_NOT_FOUND = 1000  # missing images after which the search ends
_LOOKED_UP = 1000  # rows whose paths are looked up on this machine
_MOST_BEGINNINGS = 8
_ADDED_EXTENSIONS = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".JPG", ".JPEG", ".PNG")
_is_absolute = re.compile(r"/|[A-Za-z]:/").match


@dataclass(frozen=True)
class LocalCopy:
    """Maps outdated names of images in rows to the images on this machine.

    Attributes:
      beginnings: the beginnings of URIs or paths to remove, with `/`; the rest is a path below a
        root.
      by_file_name: True if images of URIs are matched by bare file name only.
      paths_by_file_name: True if images of paths are matched by bare file name only.
    """

    beginnings: tuple[str, ...] = ()
    by_file_name: bool = False
    paths_by_file_name: bool = False

    def rename(self, rows: Iterator[LabelRow | DeadLetter]) -> Iterator[LabelRow | DeadLetter]:
        """Yields the rows with the names of the images on this machine."""
        if self == LocalCopy():
            return rows
        return (
            row._replace(name=self.name(row.name)) if isinstance(row, LabelRow) else row
            for row in rows
        )

    def name(self, name: str) -> str:
        """Returns the name of the image on this machine; a name without such a beginning is unchanged."""
        path = _with_slashes(name)
        for beginning in self.beginnings:
            if path.startswith(beginning):
                return path[len(beginning) :]
        cut = self.by_file_name if is_remote(name) else self.paths_by_file_name
        return path.rpartition("/")[2] if cut else name

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user on the removed beginnings."""
        if self.by_file_name:
            return (
                "rows name images by URIs, and none of the first ones has a copy of the same path in "
                "--images; rows and images are matched by their bare file names",
            )
        if self.paths_by_file_name:
            return (
                "rows name images by paths of another place, whose folders are not those in --images; "
                "rows and images are matched by their bare file names",
            )
        return tuple(
            f"rows name images in {beginning}; taken are their copies of the same path in --images"
            for beginning in self.beginnings
        )


def find_copies(
    names: Iterable[str], roots: Sequence[ImageRoot], label_files: Sequence[str] = ()
) -> LocalCopy:
    """Searches the roots, if these are on this machine, for the files that rows name elsewhere.

    Args:
      names: the names of images in the first rows of the label files. The first name decides
        whether URIs or paths are searched for.
      roots: the folders that are listed.
      label_files: URIs; paths relative to their folders are not outdated.
    """
    if any(is_remote(root.uri) for root in roots):
        return LocalCopy()
    names = iter(names)
    first = next(names, "")
    names = itertools.chain([first], names)
    folders = [root.uri for root in roots]
    if is_remote(first):
        return _copies_of_uris(names, folders)
    beside = [posixpath.dirname(uri) for uri in label_files if not is_remote(uri)]
    return _copies_of_paths(list(names), folders, beside)


def _copies_of_uris(names: Iterable[str], roots: Sequence[str]) -> LocalCopy:
    """Finds copies of objects; a name that is not a URI ends the search."""
    beginnings: tuple[str, ...] = ()
    not_found = 0
    for name in names:
        if not is_remote(name) or not_found >= _NOT_FOUND:
            break
        if name.startswith(beginnings):
            continue
        beginning = _beginning(name, roots)
        if beginning:
            beginnings = (*beginnings, beginning)
        else:
            not_found += 1
    copied = tuple(
        beginning
        for beginning in beginnings
        if not any(beginning != other and beginning.startswith(other) for other in beginnings)
    )  # a folder that was copied as a whole contains the copies of its subfolders
    return LocalCopy(copied, by_file_name=not_found > 0 and not copied)


def _copies_of_paths(
    names: Sequence[str], roots: Sequence[str], beside: Sequence[str]
) -> LocalCopy:
    """Finds images of paths from elsewhere; changes no path unless the result is unambiguous.

    A result is ambiguous if two paths would name one image, if a path that already names a file
    would change, or if one beginning is inside another.
    """
    written = {_with_slashes(name): name for name in names}
    paths = [path for path in written if "/" in path]
    if not paths or any(map(is_remote, names)):
        return LocalCopy()
    standing: list[str] = []
    beginnings: dict[str, None] = {}
    tails_are_names = True
    for path in paths[:_LOOKED_UP]:
        if _stands(path, roots, beside) or _stands(written[path], roots, ()):
            standing.append(path)
            continue
        beginning = _beginning(path, roots)
        if beginning:
            beginnings[beginning] = None
            tails_are_names = tails_are_names and "/" not in path[len(beginning) :]
    found = LocalCopy(tuple(beginnings))
    if _is_unambiguous(found, paths, standing):
        return found
    others_possible = tails_are_names if beginnings else all(map(_is_absolute, paths))
    by_file_name = LocalCopy(paths_by_file_name=True)
    if others_possible and not standing and _all_different(map(by_file_name.name, paths)):
        return by_file_name
    return LocalCopy()


def _is_unambiguous(found: LocalCopy, paths: Sequence[str], standing: Sequence[str]) -> bool:
    """True if these beginnings, at least one but not many, may be removed from all of these paths."""
    beginnings = found.beginnings
    if not 0 < len(beginnings) <= _MOST_BEGINNINGS:
        return False
    nested = any(a != b and a.startswith(b) for a in beginnings for b in beginnings)
    changed = any(path.startswith(beginnings) for path in standing)
    return not nested and not changed and _all_different(map(found.name, paths))


def _all_different(names: Iterable[str]) -> bool:
    names = list(names)
    return len(set(names)) == len(names)


def _stands(path: str, roots: Sequence[str], beside: Sequence[str]) -> bool:
    """True if an unchanged path names a listed file: below a root, or from a label file's folder."""
    if posixpath.isabs(path):
        candidates = [posixpath.normpath(path)]
    else:
        candidates = [f"{root}/{path}" for root in roots]
        candidates += [posixpath.normpath(posixpath.join(folder, path)) for folder in beside]
    below = tuple(f"{root.rstrip('/')}/" for root in roots)
    return any(name.startswith(below) and _is_file(name) for name in candidates)


def _beginning(name: str, roots: Sequence[str]) -> str:
    """Returns the part of a URI or path before its longest tail that is a file below a root, or ""."""
    scheme, mark, path = name.rpartition("://")
    folders = path.split("/")
    for skipped in range(1, len(folders)):
        below = "/".join(folders[skipped:])
        if any(_is_file(f"{root}/{below}", exactly=bool(mark)) for root in roots):
            return f"{scheme}{mark}{'/'.join(folders[:skipped])}/"
    return ""


def _is_file(path: str, *, exactly: bool = False) -> bool:
    """True if the file exists; unless `exactly`, a path may lack the file's extension."""
    if os.path.isfile(path):
        return True
    if exactly or posixpath.splitext(path)[1].lower() in IMAGE_EXTENSIONS:
        return False
    return any(os.path.isfile(path + extension) for extension in _ADDED_EXTENSIONS)


def _with_slashes(name: str) -> str:
    """Returns a name with `/` for the backslashes of Windows, unless it is a URI."""
    return name if "\\" not in name or is_remote(name) else name.replace("\\", "/")
