"""Local folders, listed without opening a file."""

from __future__ import annotations

import os
import stat
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from beam_pipeline.transforms.core.dead_letters import DeadLetter, Reason, Stage, image_dead_letter
from beam_pipeline.transforms.core.errors import ListingError
from beam_pipeline.transforms.core.listing.filters import ImageRoot, Listed, ListingFilter
from beam_pipeline.transforms.core.references import ImageRef
from beam_pipeline.transforms.core.text import is_utf8, is_utf8_everywhere, printable

_Identity = tuple[int, int]  # of the device and the folder on it

_MOST_REPEATS = 2_000  # far more than the links within links of any real data set


def list_local_root(root: ImageRoot, batch_size: int) -> Iterator[Listed]:
    """Lists a local root in batches, with sizes from `stat`.

    Links to folders are followed, but not in circles. A folder may be reached by several links; its
    images then have several keys. If folders all link to each other, the number of paths grows with
    the factorial of their number, so the number of times that links within links lead to a folder
    is limited.

    Raises:
      ListingError: a folder below the root cannot be read, or links multiply the folders.
    """
    rules = ListingFilter(root)
    images: list[ImageRef] = []
    dead_letters: list[DeadLetter] = []
    prefix = len(root.uri.rstrip("/")) + 1
    links = _Links()
    folders = [_Folder(root.uri, frozenset({_identity(root.uri)}))]
    while folders:
        folder = folders.pop()
        for entry in _scan(folder.path):
            key = entry.path[prefix:]
            if _is_folder(entry):
                if not rules.can_hold(key):
                    continue
                identity = _identity(entry.path)
                if rules.enters(entry.name) and identity not in folder.above:
                    found = folder.below(entry, identity)
                    if found.links > max(1, folder.links):
                        links.check(found, identity)
                    folders.append(found)
            elif rules.lists(key, entry.path):
                reference = _reference(key, entry)
                if isinstance(reference, ImageRef):
                    images.append(reference)
                else:
                    dead_letters.append(reference)
            if len(images) >= batch_size:
                yield Listed(images, [], Counter())
                images = []
    yield Listed(images, dead_letters, rules.ignored, rules.label_files)


class _Folder(NamedTuple):
    """A folder to list.

    Attributes:
      path: its path.
      above: itself and the folders above it.
      links: how many of these are links.
    """

    path: str
    above: frozenset[_Identity]
    links: int = 0

    def below(self, entry: os.DirEntry[str], identity: _Identity) -> _Folder:
        """Returns a subfolder."""
        return _Folder(entry.path, self.above | {identity}, self.links + entry.is_symlink())


class _Links:
    """Counts how often links within links lead to a folder."""

    def __init__(self) -> None:
        self._first: dict[_Identity, str] = {}
        self._repeats = 0

    def check(self, folder: _Folder, identity: _Identity) -> None:
        """Counts a folder that is a link within a link. Raises ListingError."""
        first = self._first.setdefault(identity, folder.path)
        self._repeats += first != folder.path
        if self._repeats > _MOST_REPEATS:
            links = [path for path in _with_parents(folder.path) if os.path.islink(path)]
            raise ListingError(
                f"links between folders lead to the same folders more than {_MOST_REPEATS} times, such as "
                f"to {printable(os.path.realpath(folder.path))} by way of "
                f"{', '.join(printable(link) for link in links[-3:])}; remove links that lead back, or "
                "name the folders themselves in --images"
            )


def _with_parents(path: str) -> Iterator[str]:
    """Yields the folders above a path, the outermost first, and the path."""
    end = path.find("/", 1)
    while end >= 0:
        yield path[:end]
        end = path.find("/", end + 1)
    yield path


def _scan(folder: str) -> Sequence[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError as error:
        raise _listing_error(folder, error) from error


def _identity(folder: str) -> _Identity:
    try:
        status = os.stat(folder)
    except OSError as error:
        raise _listing_error(folder, error) from error
    return status.st_dev, status.st_ino


def _listing_error(folder: str, error: OSError) -> ListingError:
    return ListingError(
        f"{printable(folder)} cannot be listed ({error.strerror}), so its images would be missed; "
        "make it readable or move it out of the images' folder"
    )


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _reference(key: str, entry: os.DirEntry[str]) -> ImageRef | DeadLetter:
    if not key.isascii() and not is_utf8_everywhere():
        raise ListingError(
            f"{printable(entry.path)}: a name that is not ASCII, where Python decodes names as "
            f"{sys.getfilesystemencoding()}, not as UTF-8; set PYTHONUTF8=1 before Python starts"
        )
    if not is_utf8(entry.path):
        return image_dead_letter(
            stage=Stage.LIST,
            key=printable(key),
            uri=printable(entry.path),
            reason=Reason.NAME_NOT_UTF8,
            message="the name is not valid UTF-8; rename the file",
        )
    try:
        status = entry.stat()
    except OSError:  # a dangling link: reading it reports the reason
        return ImageRef(key, entry.path, 0)
    if not stat.S_ISREG(status.st_mode):
        return image_dead_letter(
            stage=Stage.LIST,
            key=key,
            uri=entry.path,
            reason=Reason.NOT_A_FILE,
            message="a socket, pipe or device, not a file",
        )
    return ImageRef(key, entry.path, status.st_size, status.st_mtime_ns)
