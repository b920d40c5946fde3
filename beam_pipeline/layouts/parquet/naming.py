"""The Parquet files that --images names: found, and what their names say of keys and splits.

Hugging Face names them `data/train-00000-of-00005.parquet`, with or without a hash at the end, or
`default/train/0000.parquet`.
"""

from __future__ import annotations

import glob
import os
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.listing.folders import named_split
from beam_pipeline.core.listing.globs import has_glob, split_pattern
from beam_pipeline.core.questions import Question
from beam_pipeline.core.text import enumerated
from beam_pipeline.core.uris import is_remote
from beam_pipeline.layouts.shared.heads import PARQUET_ENDING
from beam_pipeline.layouts.shared.paths import remote_matches
from beam_pipeline.layouts.tree import names_in
from beam_pipeline.storage import files

_PARTS = re.compile(r"(\w+)-[0-9]{5}-of-[0-9]{5}(-[0-9a-f]+)?")
_LEVELS, _MOST_FOLDERS = 4, 50  # of folders that are searched for the first file
_SHOWN = 2


class FoundParquet(NamedTuple):
    """A Parquet file.

    Attributes:
      uri: the file.
      name: its path below the folder that was named, or its file name; it begins its images' keys.
    """

    uri: str
    name: str


def first_parquet(path: str) -> FoundParquet | None:
    """The first Parquet file that a path names; None if it names none, or images beside it.

    A folder in a bucket is not listed for this.
    """
    uri = files.canonical(path)
    if _is_parquet(uri):
        if is_remote(uri) and not has_glob(uri):
            return FoundParquet(uri, posixpath.basename(uri))
        try:
            return next(iter(_found(path)), None)
        except UsageError:  # the layout that is finally chosen reports it
            return None
    if is_remote(uri) or not os.path.isdir(uri):
        return None
    found = _first_in(uri, _LEVELS)
    return FoundParquet(found, _below(uri, found)) if found else None


def parquet_files(paths: Sequence[str]) -> tuple[FoundParquet, ...]:
    """All Parquet files that paths, folders and globs name, in the order of their names.

    Raises:
      UsageError: a path names none, or two files have the same name.
    """
    by_name: dict[str, FoundParquet] = {}
    for path in paths:
        if not path.strip():
            raise UsageError("--images: an empty path")
        for found in _found(path):
            other = by_name.setdefault(found.name, found)
            if other.uri != found.uri:
                raise UsageError(
                    f"--images: {other.uri} and {found.uri} would both be called {found.name} in the "
                    "keys of their images; name a folder above both"
                )
    return tuple(by_name[name] for name in sorted(by_name))


def _found(path: str) -> list[FoundParquet]:
    uri = files.canonical(path)
    folder = uri
    if not is_remote(uri) and os.path.isdir(uri):
        matches = [*_local_files(uri)]
    elif is_remote(uri) and not has_glob(uri):
        if _is_parquet(uri):
            return [FoundParquet(uri, posixpath.basename(uri))]
        names = (found.name for found in files.list_files(uri))
        matches = [files.join(uri, name) for name in names if _is_visible(name)]
    elif is_remote(uri):
        folder, matches = split_pattern(uri)[0], remote_matches(uri)
    elif os.path.lexists(uri):
        return [FoundParquet(uri, posixpath.basename(uri))]
    elif has_glob(uri):
        folder = split_pattern(uri)[0]
        matches = [found for found in glob.glob(uri, recursive=True) if os.path.isfile(found)]
    else:
        raise UsageError(f"--images {path}: no such file or folder")
    found = [FoundParquet(match, _below(folder, match)) for match in matches if _is_parquet(match)]
    if not found:
        raise UsageError(f"--images {path}: no Parquet files there, whose names end in .parquet")
    return found


def _local_files(folder: str) -> Iterator[str]:
    for above, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if not name.startswith("."):
                yield posixpath.join(above, name)


def _first_in(folder: str, levels: int) -> str | None:
    """The first Parquet file in a folder or below; None if there are images, or no such files."""
    here = names_in(folder)
    if here.images:
        return None
    for name in here.files:
        if _is_parquet(name):
            return posixpath.join(folder, name)
    for below in here.folders[:_MOST_FOLDERS] if levels > 1 else ():
        found = _first_in(below, levels - 1)
        if found or names_in(below).images:
            return found
    return None


def _is_parquet(name: str) -> bool:
    return name.lower().endswith(PARQUET_ENDING)


def _is_visible(name: str) -> bool:
    return not any(part.startswith(".") for part in name.split("/"))


def _below(folder: str, uri: str) -> str:
    return uri[len(folder.rstrip("/")) + 1 :]


def splits_of(names: Sequence[str]) -> Mapping[str, str]:
    """Returns name -> split of files, as far as their names, or else the folders in them, say one.

    If one of them does, `support` is a split, too, in `support-00000-of-00001.parquet`.

    >>> splits_of(["data/val-00000-of-00001-0a1b.parquet", "default/train/0000.parquet", "x.parquet"])
    {'data/val-00000-of-00001-0a1b.parquet': 'validation', 'default/train/0000.parquet': 'train'}
    """
    said = {name: split for name in names if (split := _split_of(name))}
    for name in names if said else ():
        parts = _PARTS.fullmatch(posixpath.basename(name)[: -len(PARQUET_ENDING)])
        if parts and name not in said:
            said[name] = parts[1]
    return said


def _split_of(name: str) -> str:
    for part in reversed(name[: -len(PARQUET_ENDING)].split("/")):
        found = named_split(part)
        if found:
            return found
    return ""


def split_notes(splits: Mapping[str, str]) -> Iterator[str]:
    """A note for the user on the splits that files' names say."""
    by_split: dict[str, list[str]] = {}
    for name, split in splits.items():
        by_split.setdefault(split, []).append(name)
    if by_split:
        said = (
            f"{split} ({enumerated(names, _SHOWN)})" for split, names in sorted(by_split.items())
        )
        yield f"the names of the files say their splits: {', '.join(said)}; --splits overrides them"


def split_questions(names: Sequence[str], splits: Mapping[str, str]) -> Iterator[Question]:
    """A question if only some of the files' names say a split."""
    others = [name for name in names if name not in splits]
    if splits and others:
        yield Question(
            "splits_of_files",
            f"{enumerated([*splits], _SHOWN)} name a split, and {enumerated(others, _SHOWN)} none, so "
            "these would be in train. Rename the files, or name those of one split and say --splits "
            "train=1.",
        )
