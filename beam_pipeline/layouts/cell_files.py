"""The files that cells of tables name: where they are, and what they were when they were found.

A cell's path is relative to the folder or archive of its image, else to the folder of the table, else to another
path of --images; or it is absolute. For the image `/data/left/1.png`, listed below `/data`, and `/tables/pairs.csv`:

    right/1.png    /data/right/1.png, or else /tables/right/1.png

No other files can be named, so that a table from a stranger cannot ask for `/home/me/.ssh/id_rsa`.
"""

from __future__ import annotations

import functools
import posixpath
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from beam_pipeline.core.archives import member_uri, parse_member_uri
from beam_pipeline.core.dead_letters import DeadLetter, Reason, Stage, image_dead_letter
from beam_pipeline.core.errors import ListingError, UsageError
from beam_pipeline.core.labels.file_cells import HEAD_BYTES
from beam_pipeline.core.labels.schema import Column, cell_files
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.core.records.shard_writer import TRANSIENT_ERRORS
from beam_pipeline.core.references import FileValue, SampleRef
from beam_pipeline.core.uris import is_remote
from beam_pipeline.storage import files
from beam_pipeline.storage.archives import archive_entries
from beam_pipeline.storage.read_ahead import REMOTE_READS

_ARCHIVES = 4  # whose members are remembered


@dataclass(frozen=True)
class CellFiles:
    """Finds the files of samples.

    Attributes:
      columns: of the samples' labels.
      roots: the folders and archives of images.
    """

    columns: Sequence[Column]
    roots: Sequence[ImageRoot] = ()

    def locate(self, samples: Sequence[SampleRef]) -> tuple[list[SampleRef], list[DeadLetter]]:
        """Puts a `FileValue` for each path among the labels, and makes dead letters where a file is missing."""
        remote = any(is_remote(sample.uri) for sample in samples)
        with ThreadPoolExecutor(REMOTE_READS if remote else 1) as threads:
            located = [*(threads.map if remote else map)(self._located, samples)]
        return (
            [sample for sample in located if isinstance(sample, SampleRef)],
            [letter for letter in located if isinstance(letter, DeadLetter)],
        )

    def _located(self, sample: SampleRef) -> SampleRef | DeadLetter:
        labels: list[Any] = list(sample.labels)
        places = self._places(sample)
        for index in cell_files(self.columns):
            value: Any = labels[index]
            try:
                if isinstance(value, str):
                    labels[index] = _find(value, places)
                elif value and all(isinstance(name, str) for name in value):  # not found before
                    labels[index] = tuple(_find(name, places) for name in value)
            except _NotFoundError as error:
                message = f"column {self.columns[index].name!r}: {error}"
                return image_dead_letter(
                    Stage.JOIN, sample.key, sample.uri, error.reason, message, error.uri
                )
        return sample._replace(labels=tuple(labels))

    def _places(self, sample: SampleRef) -> Sequence[ImageRoot]:
        """The folders and archives that a sample's files may be in, the likeliest first."""
        folder = sample.uri.removesuffix(f"/{sample.key}")
        if sample.uri.startswith(("tar://", "zip://")):
            folder, _ = parse_member_uri(sample.uri)
        own = [root for root in self.roots if root.uri == folder] or (
            [ImageRoot(folder)] if folder != sample.uri else []
        )
        table = [ImageRoot(posixpath.dirname(sample.origin))] if sample.origin else []
        return [*own, *table, *(root for root in self.roots if root not in own)]


def file_heads(
    roots_of: Callable[[], Iterable[ImageRoot]], tables: Sequence[str]
) -> Callable[[str], bytes | None]:
    """A function from the path in a cell to the first bytes of its file; None if there is none.

    Args:
      roots_of: gives the folders and archives of images.
      tables: the label files.
    """

    @functools.cache
    def places() -> Sequence[ImageRoot]:
        try:
            roots = roots_of()
        except UsageError:  # which the layout reports
            roots = ()
        folders = dict.fromkeys(map(posixpath.dirname, tables))
        return [*roots, *map(ImageRoot, folders)]

    def head_of(name: str) -> bytes | None:
        try:
            uri, size, _ = _find(name, places())[:3]
            if uri.startswith(("tar://", "zip://")):
                return files.read_image(uri, size)[:HEAD_BYTES]
            return files.read_part(uri, min(size, HEAD_BYTES), 0)
        except (_NotFoundError, ListingError, OSError, ValueError):
            return None

    return head_of


class _NotFoundError(Exception):
    """No file that may be read has a name; the message tells what was looked for.

    Args:
      uri: the likeliest place.
    """

    def __init__(self, reason: Reason, message: str, uri: str = "") -> None:
        super().__init__(message)
        self.reason, self.uri = reason, uri


def _find(name: str, places: Sequence[ImageRoot]) -> FileValue:
    """The first file of a name. Raises _NotFoundError, and OSError if the machine is at fault."""
    uris: dict[str, None] = {}
    for place in places:
        for path in dict.fromkeys((name, name.replace("\\", "/"))):
            if place.archive:
                if path in (members := _members(place)):
                    return members[path]
                continue
            uri = _below(place.uri, path.removeprefix("file://"))
            if any(uri.startswith(f"{folder.uri.rstrip('/')}/") for folder in places):
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
    if not uris and not all(place.archive for place in places):
        raise _NotFoundError(
            Reason.BAD_LABEL_VALUE,
            f"{name!r} is neither below a path of --images nor beside its table; files elsewhere are not read",
        )
    looked = " or ".join(uris) or "the archive"
    raise _NotFoundError(Reason.MISSING_FILE, f"there is no file {looked}", next(iter(uris), ""))


def _below(folder: str, name: str) -> str:
    """A path in a folder, or an absolute one, without `..`."""
    path = name if is_remote(name) or posixpath.isabs(name) else files.join(folder, name)
    scheme, mark, rest = path.rpartition("://")
    return f"{scheme}{mark}{posixpath.normpath(rest)}" if "/." in path or not mark else path


@functools.lru_cache(_ARCHIVES)
def _members(root: ImageRoot) -> dict[str, FileValue]:
    """The members of an archive by their paths in it, below its top folder, and as keys. Raises ListingError."""
    archive = root.archive
    assert archive
    members: dict[str, FileValue] = {}
    for entry, version in archive_entries(root):
        if entry.member and not entry.problem:
            value = (member_uri(root.uri, entry.member), entry.size, version)
            path = entry.name
            for name in (path, path.removeprefix(archive.top), archive.key(path)):
                members.setdefault(name, value)
    return members


def named_files(
    names_of: Iterable[tuple[Sequence[Any], str]], columns: Sequence[int]
) -> Iterator[str]:
    """The names under which files of cells may be listed as images, each once.

    Args:
      names_of: (values, label file) of each row.
      columns: the indices of the values that are paths.
    """
    names: dict[str, None] = {}
    for values, file in names_of:
        for index in columns:
            value = values[index]
            for name in (value,) if isinstance(value, str) else value or ():
                path = name.replace("\\", "/").removeprefix("file://")
                names[path] = names[_below(posixpath.dirname(file), path)] = None
    return iter(names)
