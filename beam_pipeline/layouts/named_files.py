r"""The files that rows name: images by outdated paths, and the files of cells.

Rows may name images in a bucket, on another machine, or from a folder above. Those on this machine are found by the
longest *tail* that a row's name and a file below a root have in common. For the root `photos` with the file
`photos/cat/1.jpg`:

| a row names | tail | beginning |
|---|---|---|
| `gs://bucket/pets/cat/1.jpg` | `cat/1.jpg` | `gs://bucket/pets/` |
| `/home/bob/photos/cat/1.jpg` | `cat/1.jpg` | `/home/bob/photos/` |
| `C:\data\cat\1.jpg` | `cat/1.jpg` | `C:/data/` |
| `photos/cat/1.jpg` | `cat/1.jpg` | `photos/` |

The beginnings that the first rows have before their tails are removed from all rows; no row is
guessed individually.

A cell's path is relative to the folder or archive of its image, else to the folder of the table, else to another
path of --images; or it is absolute. For the image `/data/left/1.png`, listed below `/data`, and `/tables/pairs.csv`:

    right/1.png    /data/right/1.png, or else /tables/right/1.png

No other files can be named, so that a table from a stranger cannot ask for `/home/me/.ssh/id_rsa`.
"""

from __future__ import annotations

import functools
import itertools
import os
import posixpath
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from beam_pipeline.core import archives
from beam_pipeline.core.dead_letters import DeadLetter, Reason, Stage, image_dead_letter
from beam_pipeline.core.errors import ConversionError
from beam_pipeline.core.labels import further_columns, matching, schema
from beam_pipeline.core.listing.filters import IMAGE_EXTENSIONS, ImageRoot
from beam_pipeline.core.records.shard_writer import TRANSIENT_ERRORS
from beam_pipeline.core.references import FileValue, LabelRow, SampleRef, image_of
from beam_pipeline.core.uris import is_remote
from beam_pipeline.layouts.paths import first_entries, path_in
from beam_pipeline.layouts.tree import once, walk
from beam_pipeline.storage import files, listing, read_ahead

_ARCHIVES = 4  # whose members are remembered
_MEMBERS = ("tar://", "zip://")
_NOT_FOUND = 1000  # missing images after which the search ends
_LOOKED_UP = 1000  # rows whose paths are looked up on this machine
_MOST_BEGINNINGS = 8
_MOST_FOLDERS, _MOST_REMOTE = 64, 8  # that are looked at; more are hardly classes
ADDED_EXTENSIONS = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".JPG", ".JPEG", ".PNG")
_URIS, _PATHS = "URIs", "paths"
_is_absolute = re.compile(r"/|[A-Za-z]:/").match


@dataclass(frozen=True)
class LocalCopy:
    """Maps outdated names of images in rows to the images on this machine.

    Attributes:
      beginnings: the beginnings of URIs or paths to remove, with `/`; the rest is a path below a
        root.
      by_file_name: "URIs" or "paths" if images that are named so are matched by bare file name only; else empty.
    """

    beginnings: tuple[str, ...] = ()
    by_file_name: str = ""

    def rename(self, rows: Iterator[LabelRow | DeadLetter]) -> Iterator[LabelRow | DeadLetter]:
        """Yields the rows with the names of the images on this machine."""
        if self == LocalCopy():
            return rows
        return (r._replace(name=self.name(r.name)) if isinstance(r, LabelRow) else r for r in rows)

    def name(self, name: str) -> str:
        """Returns the name of the image on this machine; a name without such a beginning is unchanged."""
        path = _with_slashes(name)
        for beginning in self.beginnings:
            if path.startswith(beginning):
                return path[len(beginning) :]
        cut = self.by_file_name == (_URIS if is_remote(name) else _PATHS)
        return path.rpartition("/")[2] if cut else name

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user on the removed beginnings."""
        if self.by_file_name:
            return (
                f"rows name images by {self.by_file_name} of another place, whose folders are not those in "
                "--images; rows and images are matched by their bare file names",
            )
        taken = "taken are their copies of the same path in --images"
        return tuple(f"rows name images in {folder}; {taken}" for folder in self.beginnings)


def find_copies(
    names: Iterable[str], roots: Sequence[ImageRoot], label_files: Sequence[str] = ()
) -> LocalCopy:
    """Searches the roots, if these are on this machine, for the files that rows name elsewhere.

    Paths change only if the result is unambiguous. It is ambiguous if two of them would name one image, if a path that
    already names a file would change, or if one beginning is inside another.

    Args:
      names: the names of images in the first rows of the label files. The first name decides
        whether URIs or paths are searched for.
      roots: the folders that are listed.
      label_files: URIs; paths relative to their folders are not outdated.
    """
    folders = [root.uri for root in roots]
    if any(map(is_remote, folders)):
        return LocalCopy()
    names = [*names]
    if names and is_remote(names[0]):
        return _copies_of_uris(names, folders)
    beside = [posixpath.dirname(uri) for uri in label_files if not is_remote(uri)]
    written = {_with_slashes(name): name for name in names}
    paths = [path for path in written if "/" in path]
    if not paths or any(map(is_remote, names)):
        return LocalCopy()
    standing: list[str] = []
    beginnings: dict[str, None] = {}
    tails_are_names = True
    for path in paths[:_LOOKED_UP]:
        if _stands(path, folders, beside) or _stands(written[path], folders, ()):
            standing.append(path)
        elif beginning := _beginning(path, folders):
            beginnings[beginning] = None
            tails_are_names = tails_are_names and "/" not in path[len(beginning) :]
    copies, by_file_name = LocalCopy(tuple(beginnings)), LocalCopy(by_file_name=_PATHS)
    nested = any(a != b and a.startswith(b) for a in beginnings for b in beginnings)
    changed = any(path.startswith(copies.beginnings) for path in standing)
    few = 0 < len(beginnings) <= _MOST_BEGINNINGS
    if few and not (nested or changed) and len({*map(copies.name, paths)}) == len(paths):
        return copies
    any_folder = tails_are_names if beginnings else all(map(_is_absolute, paths))
    different = len({*map(by_file_name.name, paths)}) == len(paths)
    return by_file_name if any_folder and not standing and different else LocalCopy()


def _copies_of_uris(names: Sequence[str], roots: Sequence[str]) -> LocalCopy:
    """Finds copies of objects; a name that is not a URI ends the search."""
    beginnings: tuple[str, ...] = ()
    missing = 0
    for name in itertools.takewhile(is_remote, names):
        if missing < _NOT_FOUND and not name.startswith(beginnings):
            beginning = _beginning(name, roots)
            missing += not beginning
            beginnings += (beginning,) if beginning else ()
    # a folder that was copied as a whole contains the copies of its subfolders
    copied = tuple(b for b in beginnings if not any(b.startswith(o) and b != o for o in beginnings))
    return LocalCopy(copied, _URIS if missing and not copied else "")


def _stands(path: str, roots: Sequence[str], beside: Sequence[str]) -> bool:
    """True if an unchanged path names a listed file: below a root, or from a label file's folder."""
    below = tuple(f"{root.rstrip('/')}/" for root in roots)
    candidates = (path_in(folder, path) for folder in (*roots, *beside))
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
    return any(os.path.isfile(path + extension) for extension in ADDED_EXTENSIONS)


def _with_slashes(name: str) -> str:
    """Returns a name with `/` for the backslashes of Windows, unless it is a URI."""
    return name if "\\" not in name or is_remote(name) else name.replace("\\", "/")


# --- folders --------------------------------------------------------------------------------------


def folders_by_name(roots: Sequence[ImageRoot]) -> dict[str, tuple[str, ...]]:
    """Name of an image, with and without extension -> the folders that it is in; none where there are too many."""
    folders: dict[str, tuple[str, ...]] = {}
    with suppress(ConversionError):  # which the job reports
        for root, entry in first_entries([root for root in roots if root.archive]):
            assert root.archive
            *path, name = root.archive.aliases(entry.name)[0].split("/")
            folders |= dict.fromkeys((name, posixpath.splitext(name)[0]), tuple(path))
    for root in (root for root in roots if not root.archive):
        most = _MOST_REMOTE if is_remote(root.uri) else _MOST_FOLDERS
        seen = list(walk(root.uri, most + 1))
        if len(seen) > most:
            return {}
        for folder in seen:
            above = tuple(filter(None, folder.path[len(root.uri.rstrip("/")) :].split("/")))
            folders |= {posixpath.splitext(name)[0]: above for name in folder.images}
            folders |= dict.fromkeys(folder.images, above)
    return folders


def are_names(
    texts: Iterable[str], images: Collection[str], share: Callable[[Iterable[bool]], bool]
) -> bool:
    """True if all texts are names of images, or any is."""
    paths = (text.strip().replace("\\", "/") for text in texts)
    return share(posixpath.basename(path) in images for path in paths)


def folder_level(names: Sequence[str], roots: Sequence[ImageRoot]) -> int | None:
    """How deep the folders are that most names are of, each of one alone among the first; None without any."""
    rows = {tuple(matching.folder_steps(name)) for name in names if name.strip()}
    paths = once((folder_level, tuple(roots)), lambda: dict(_first_folders(roots)))
    counts = Counter[int]()
    for level in range(1, max(paths.values(), default=0) + 1):
        ends = {path[: len(path) - deep + level] for path, deep in paths.items() if deep >= level}
        tails = Counter(path[start:] for path in ends for start in range(len(path)))
        counts[level] = sum(tails[row] == 1 for row in rows)
    ((level, count),) = counts.most_common(1) or [(0, 0)]
    return level if count else None


def _first_folders(roots: Sequence[ImageRoot]) -> Iterator[tuple[Sequence[str], int]]:
    """Yields the steps to the first folders with images, and how many of them are below a root."""
    with suppress(ConversionError):  # which the job reports
        for root, entry in first_entries([root for root in roots if root.archive]):
            assert root.archive
            steps = matching.folder_steps(root.archive.key(entry.name))[:-1]
            yield tuple(steps), len(steps)
    for root in (root for root in roots if not root.archive):
        above = len(matching.folder_steps(root.uri))
        for folder in walk(root.uri, _MOST_REMOTE if is_remote(root.uri) else _MOST_FOLDERS):
            steps = matching.folder_steps(folder.path)
            if folder.images:
                yield tuple(steps), len(steps) - above


# --- files of cells -------------------------------------------------------------------------------


@dataclass(frozen=True)
class CellFiles:
    """Finds the files of samples.

    Attributes:
      columns: of the samples' labels.
      roots: the folders and archives of images.
    """

    columns: Sequence[schema.Column]
    roots: Sequence[ImageRoot] = ()

    def locate(self, samples: Sequence[SampleRef]) -> tuple[list[SampleRef], list[DeadLetter]]:
        """Puts a `FileValue` for each path among the labels, and makes dead letters where a file is missing."""
        locate = functools.partial(self._located, roots=_opened(self.roots))
        if samples and is_remote(samples[0].uri) and not samples[0].uri.startswith(_MEMBERS):
            with ThreadPoolExecutor(read_ahead.REMOTE_READS) as threads:
                located = [*threads.map(locate, samples)]
        else:
            located = [*map(locate, samples)]
        missing = [each for each in located if isinstance(each, DeadLetter)]
        return [each for each in located if isinstance(each, SampleRef)], missing

    def _located(self, sample: SampleRef, roots: _Places) -> SampleRef | DeadLetter:
        labels: list[Any] = list(sample.labels)
        places = _places_of(sample, roots)
        for index in schema.cell_files(self.columns):
            value: Any = labels[index]
            try:
                if isinstance(value, str):
                    labels[index] = _find(value, places)
                elif value and all(isinstance(name, str) for name in value):
                    labels[index] = tuple(_find(name, places) for name in value)
            except _NotFoundError as error:
                reason, message, uri = error.args
                message = f"column {self.columns[index].name!r}: {message}"
                file = uri or sample.origin
                return image_dead_letter(Stage.JOIN, sample.key, sample.uri, reason, message, file)
        return sample._replace(labels=tuple(labels))


def file_heads(
    roots_of: Callable[[], Sequence[ImageRoot]], tables: Sequence[str]
) -> Callable[[str], bytes | None]:
    """A function from the path in a cell to the first bytes of its file; None if there is none.

    Args:
      roots_of: gives the folders and archives of images.
      tables: the label files.
    """

    @functools.cache
    def places() -> _Places:
        folders = dict.fromkeys(map(posixpath.dirname, tables))
        return _opened([*roots_of(), *map(ImageRoot, folders)])

    def head_of(name: str) -> bytes | None:
        try:
            uri, size, _ = _find(name, places())[:3]
            if uri.startswith(_MEMBERS):
                return files.read_image(uri, size)[: further_columns.HEAD_BYTES]
            return files.read_part(uri, min(size, further_columns.HEAD_BYTES), 0)
        except (_NotFoundError, ConversionError, OSError):  # the layout reports what is wrong
            return None

    return head_of


def named_files(
    names_of: Iterable[tuple[Sequence[Any], str]], columns: Sequence[int]
) -> Iterable[str]:
    """The names under which files of cells may be listed as images, each once.

    Args:
      names_of: (values, label file) of each row.
      columns: the indices of the values that are paths.
    """
    names: dict[str, None] = {}
    for values, file in names_of:
        for value in (values[index] for index in columns):
            for name in (value,) if isinstance(value, str) else value or ():
                if isinstance(name, str):
                    path = name.replace("\\", "/").removeprefix("file://")
                    names[path] = names[path_in(posixpath.dirname(file), path)] = None
    return names


_Members = Mapping[str, FileValue]
_Places = Sequence[tuple[ImageRoot, _Members]]
"""Folders, and archives with their members, that files may be in."""


class _NotFoundError(Exception):
    """No file that may be read has a name: reason, message, and the likeliest place or nothing."""


def _opened(roots: Iterable[ImageRoot]) -> _Places:
    return [(r, _members(r, files.version_of(r.uri)) if r.archive else {}) for r in roots]


@functools.lru_cache(_ARCHIVES)
def _members(root: ImageRoot, _version: int) -> _Members:
    """The members of an archive by their paths in it. Raises ListingError."""
    return {
        entry.name: (archives.member_uri(root.uri, entry.member), entry.size, version)
        for entry, version in listing.archive_entries(root)
        if entry.member and not entry.problem
    }


def _places_of(sample: SampleRef, roots: _Places) -> _Places:
    """The folders and archives that a sample's files may be in, the likeliest first."""
    folder = sample.uri.removesuffix(f"/{sample.key}").removesuffix(f"/{image_of(sample.key)}")
    if sample.uri.startswith(_MEMBERS):
        folder, _ = archives.parse_member_uri(sample.uri)
    own = [place for place in roots if place[0].uri == folder]
    if folder and not own:  # empty without an image
        own = [(ImageRoot(folder), {})]
    table: _Places = [(ImageRoot(posixpath.dirname(sample.origin)), {})] if sample.origin else []
    return [*own, *table, *(place for place in roots if place not in own)]


def _find(name: str, places: _Places) -> FileValue:
    """The first file of a name. Raises _NotFoundError, and OSError if the machine is at fault."""
    uris: dict[str, None] = {}
    folders = tuple(f"{root.uri.rstrip('/')}/" for root, _ in places)
    for root, members in places:
        for path in dict.fromkeys((name, name.replace("\\", "/"))):
            if root.archive:
                own = path.removeprefix(root.archive.key(""))
                if member := members.get(own) or members.get(root.archive.top + path):
                    return member
            elif (uri := path_in(root.uri, path.removeprefix("file://"))).startswith(folders):
                uris[uri] = None
    for uri in uris:
        try:
            described = files.describe(uri)
        except OSError as error:
            if error.errno in TRANSIENT_ERRORS:
                raise
            fault = f"{name!r} cannot be read: {error.strerror or error}"
            raise _NotFoundError(Reason.UNREADABLE, fault, uri) from error
        if described:
            return uri, described.size, described.version
    if uris or all(root.archive for root, _ in places):
        fault = f"there is no file {' or '.join(uris) or f'{name!r} in the archive'}"
        raise _NotFoundError(Reason.MISSING_FILE, fault, next(iter(uris), ""))
    fault = f"{name!r} is neither below a path of --images nor beside its table; files elsewhere are not read"
    raise _NotFoundError(Reason.BAD_LABEL_VALUE, fault, "")
