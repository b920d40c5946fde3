"""The files that cells of tables name: where they are, and what they were when they were found.

A cell's path is relative to the folder or archive of its image, else to the folder of the table, else to another
path of --images; or it is absolute. For the image `/data/left/1.png`, listed below `/data`, and `/tables/pairs.csv`:

    right/1.png    /data/right/1.png, or else /tables/right/1.png

No other files can be named, so that a table from a stranger cannot ask for `/home/me/.ssh/id_rsa`.
"""

from __future__ import annotations

import functools
import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from beam_pipeline.core.archives import member_uri, parse_member_uri
from beam_pipeline.core.dead_letters import DeadLetter, Reason, Stage, image_dead_letter
from beam_pipeline.core.errors import ConversionError
from beam_pipeline.core.labels.further_columns import HEAD_BYTES
from beam_pipeline.core.labels.schema import Column, cell_files
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.core.records.shard_writer import TRANSIENT_ERRORS
from beam_pipeline.core.references import FileValue, SampleRef, image_of
from beam_pipeline.core.uris import is_remote
from beam_pipeline.storage import files
from beam_pipeline.storage.listing import archive_entries
from beam_pipeline.storage.read_ahead import REMOTE_READS

_ARCHIVES = 4  # whose members are remembered
_MEMBERS = ("tar://", "zip://")


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
        locate = functools.partial(self._located, roots=_opened(self.roots))
        if samples and is_remote(samples[0].uri) and not samples[0].uri.startswith(_MEMBERS):
            with ThreadPoolExecutor(REMOTE_READS) as threads:
                located = [*threads.map(locate, samples)]
        else:
            located = [*map(locate, samples)]
        return (
            [sample for sample in located if isinstance(sample, SampleRef)],
            [letter for letter in located if isinstance(letter, DeadLetter)],
        )

    def _located(self, sample: SampleRef, roots: _Places) -> SampleRef | DeadLetter:
        labels: list[Any] = list(sample.labels)
        places = _places_of(sample, roots)
        for index in cell_files(self.columns):
            value: Any = labels[index]
            try:
                if isinstance(value, str):
                    labels[index] = _find(value, places)
                elif value and all(isinstance(name, str) for name in value):
                    labels[index] = tuple(_find(name, places) for name in value)
            except _NotFoundError as error:
                reason, message, uri = error.args
                message = f"column {self.columns[index].name!r}: {message}"
                return image_dead_letter(Stage.JOIN, sample.key, sample.uri, reason, message, uri)
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
                return files.read_image(uri, size)[:HEAD_BYTES]
            return files.read_part(uri, min(size, HEAD_BYTES), 0)
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
                    names[path] = names[_below(posixpath.dirname(file), path)] = None
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
        entry.name: (member_uri(root.uri, entry.member), entry.size, version)
        for entry, version in archive_entries(root)
        if entry.member and not entry.problem
    }


def _places_of(sample: SampleRef, roots: _Places) -> _Places:
    """The folders and archives that a sample's files may be in, the likeliest first."""
    folder = sample.uri.removesuffix(f"/{sample.key}").removesuffix(f"/{image_of(sample.key)}")
    if sample.uri.startswith(_MEMBERS):
        folder, _ = parse_member_uri(sample.uri)
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
            elif (uri := _below(root.uri, path.removeprefix("file://"))).startswith(folders):
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
        looked = " or ".join(uris) or f"{name!r} in the archive"
        raise _NotFoundError(
            Reason.MISSING_FILE, f"there is no file {looked}", next(iter(uris), "")
        )
    fault = f"{name!r} is neither below a path of --images nor beside its table; files elsewhere are not read"
    raise _NotFoundError(Reason.BAD_LABEL_VALUE, fault, "")


def _below(folder: str, name: str) -> str:
    """A path in a folder, or an absolute one, without `..`."""
    path = name if is_remote(name) or posixpath.isabs(name) else files.join(folder, name)
    scheme, mark, rest = path.rpartition("://")
    return f"{scheme}{mark}{posixpath.normpath(rest)}" if "/." in path or not mark else path
