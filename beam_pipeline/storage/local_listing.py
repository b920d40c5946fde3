"""Local folders, listed without opening a file."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from beam_pipeline.core.dead_letters import DeadLetter, Reason, Stage, image_dead_letter
from beam_pipeline.core.errors import ListingError
from beam_pipeline.core.listing.filters import ImageRoot, Listed, ListingFilter
from beam_pipeline.core.packing import Columns, Same, items_of
from beam_pipeline.core.references import ImageRef
from beam_pipeline.core.text import is_utf8, is_utf8_everywhere, printable

_Identity = tuple[int, int]  # of the device and the folder on it

_MOST_REPEATS = 2_000  # far more than the links within links of any real data set
_FOLDER = 8  # files that take as long to list as a folder takes to open


def list_local_root(root: ImageRoot, batch_size: int) -> Iterator[Listed]:
    """Lists a local root in batches, with sizes from `stat`.

    Links to folders are followed, but not in circles. A folder may be reached by several links; its
    images then have several keys. If folders all link to each other, the number of paths grows with
    the factorial of their number, so the number of times that links within links lead to a folder
    is limited.

    Raises:
      ListingError: a folder below the root or the size of a file cannot be read, or links multiply
        the folders.
    """
    listing = LocalListing(root, [Subfolder.root(root)])
    images: list[ImageRef] = []
    dead_letters: list[DeadLetter] = []
    for files in listing.files(batch_size):
        columns, broken = listing.images(files)
        images += items_of(ImageRef, columns)
        dead_letters += broken
        while len(images) >= batch_size:
            yield Listed(images[:batch_size], [], Counter())
            del images[:batch_size]
    yield Listed(images, dead_letters, listing.rules.ignored, listing.rules.label_files)


class Folder(NamedTuple):
    """A folder that is listed.

    Attributes:
      path: its path.
      above: itself and the folders above it.
      links: how many of these are links.
    """

    path: str
    above: frozenset[_Identity] = frozenset()
    links: int = 0


class Subfolder(NamedTuple):
    """A folder to list.

    Attributes:
      parent: the folder that it is in.
      path: its path.
      is_link: it is a link.
    """

    parent: Folder
    path: str
    is_link: bool = False

    @classmethod
    def root(cls, root: ImageRoot) -> Subfolder:
        """The folder of a root."""
        return cls(Folder(""), root.uri)


class Files(NamedTuple):
    """Files of one folder, known only by name.

    Attributes:
      folder: the path of the folder.
      names: their names.
    """

    folder: str
    names: Sequence[str]


class LinkedFolder(NamedTuple):
    """Attributes: path, of a folder that links within links lead to; identity."""

    path: str
    identity: _Identity


class LocalListing:
    """Lists some folders of a local root, and what is below them.

    Attributes:
      waiting: the folders that are still to be listed.
      done: the work so far, in files; a folder counts as several.
      rules: decide which files are images, and count the others.
      links: the folders that nested links have led to.
    """

    def __init__(self, root: ImageRoot, folders: Sequence[Subfolder] = ()) -> None:
        self.waiting = list(folders)
        self.done = 0
        self.rules = ListingFilter(root)
        self.links = Links()
        self._prefix = os.path.join(root.uri.rstrip("/"), "") or "/"

    def files(self, at_once: int, until: float = float("inf")) -> Iterator[Files]:
        """Yields the files of the folders that wait, those that are not images included.

        Args:
          at_once: names yielded together, at most.
          until: work after which no other folder is opened.

        Raises:
          ListingError: a folder cannot be read, or links multiply the folders.
        """
        while self.waiting and self.done < until:
            folder = self._enter(self.waiting.pop())
            if folder is None:
                continue
            self.done += _FOLDER
            for files in self._scan(folder, at_once):
                self.done += len(files.names)
                yield files

    def _enter(self, subfolder: Subfolder) -> Folder | None:
        """A folder to list; None if it is one of the folders above itself."""
        parent, path, is_link = subfolder
        identity = _identity(path)
        if identity in parent.above:
            return None
        if is_link and parent.links:
            self.links.add(LinkedFolder(path, identity))
        return Folder(path, parent.above | {identity}, parent.links + is_link)

    def _scan(self, folder: Folder, at_once: int) -> Iterator[Files]:
        names: list[str] = []
        try:
            with os.scandir(folder.path) as entries:
                for entry in entries:
                    if _is_folder(entry):
                        key = entry.path[len(self._prefix) :]
                        if self.rules.can_hold(key) and self.rules.enters(entry.name):
                            self.waiting.append(Subfolder(folder, entry.path, entry.is_symlink()))
                        continue
                    names.append(entry.name)
                    if len(names) == at_once:
                        yield Files(folder.path, names)
                        names = []
        except OSError as error:  # of the folder, or of a link in it
            raise _listing_error(error.filename or folder.path, error) from error
        if names:
            yield Files(folder.path, names)

    def images(self, files: Files) -> tuple[Columns, list[DeadLetter]]:
        """The columns of `ImageRef` of those files that are images, and those that cannot be one.

        Raises:
          ListingError: a name cannot be decoded, or the size of a file cannot be read.
        """
        before = os.path.join(files.folder, "")
        uris = [before + name for name in files.names]
        start = len(self._prefix)
        keys = [uri[start:] for uri in uris]
        if not self.rules.lists_all(keys, self._prefix):
            lists = self.rules.lists
            chosen = [(key, uri) for key, uri in zip(keys, uris, strict=True) if lists(key, uri)]
            keys, uris = [key for key, _ in chosen], [uri for _, uri in chosen]
        dead_letters: list[DeadLetter] = []
        if not is_utf8("".join(uris)) or not is_utf8_everywhere():
            keys, uris = _decoded(keys, uris, dead_letters)
        return _with_status(keys, uris, dead_letters), dead_letters


class Links:
    """Counts how often links within links lead to a folder."""

    def __init__(self) -> None:
        self.folders: list[LinkedFolder] = []
        self._first: dict[_Identity, str] = {}
        self._repeats = 0

    def add(self, folder: LinkedFolder) -> None:
        """Counts a folder that is a link within a link. Raises ListingError."""
        self.folders.append(folder)
        path = folder.path
        self._repeats += self._first.setdefault(folder.identity, path) != path
        if self._repeats > _MOST_REPEATS:
            links = [above for above in _with_parents(path) if os.path.islink(above)]
            raise ListingError(
                f"links between folders lead to the same folders more than {_MOST_REPEATS} times, such as "
                f"to {printable(os.path.realpath(path))} by way of "
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
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        return False  # a link to itself


def _decoded(
    keys: Sequence[str], uris: Sequence[str], dead_letters: list[DeadLetter]
) -> tuple[list[str], list[str]]:
    """The keys and paths that are text; adds the others to dead letters."""
    chosen = []
    for key, uri in zip(keys, uris, strict=True):
        if not key.isascii() and not is_utf8_everywhere():
            raise ListingError(
                f"{printable(uri)}: a name that is not ASCII, where Python decodes names as "
                f"{sys.getfilesystemencoding()}, not as UTF-8; set PYTHONUTF8=1 before Python starts"
            )
        if is_utf8(uri):
            chosen.append((key, uri))
            continue
        name, path = printable(key), printable(uri)
        message = "the name is not valid UTF-8; rename the file"
        dead_letters.append(
            image_dead_letter(Stage.LIST, name, path, Reason.NAME_NOT_UTF8, message)
        )
    return [key for key, _ in chosen], [uri for _, uri in chosen]


def _with_status(
    keys: Sequence[str], uris: Sequence[str], dead_letters: list[DeadLetter]
) -> Columns:
    """The columns of images with their sizes and versions; adds what is not a file to dead letters.

    Raises:
      ListingError: the size of a file cannot be read, so that it would look as if it had changed.
    """
    rows: list[tuple[str, str, int, int]] = []
    for key, uri in zip(keys, uris, strict=True):
        try:
            status = os.stat(uri)
        except OSError as error:
            if error.errno != errno.ENOENT and not os.path.islink(uri):
                raise ListingError(
                    f"the size of {printable(uri)} cannot be read ({error.strerror}); make the file and "
                    "its folder accessible or move it out of the images' folder"
                ) from error
            rows.append((key, uri, 0, 0))  # gone, or a dangling link: reading it reports the reason
            continue
        if stat.S_ISREG(status.st_mode):
            rows.append((key, uri, status.st_size, status.st_mtime_ns))
        else:
            message = "a socket, pipe or device, not a file"
            dead_letters.append(image_dead_letter(Stage.LIST, key, uri, Reason.NOT_A_FILE, message))
    columns = map(list, zip(*rows, strict=True)) if rows else ([], [], [], [])
    return [*columns, Same((), len(rows)), Same(b"", len(rows))]
