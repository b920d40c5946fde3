"""Resolves typed paths to folders and archives to list, and files to read."""

from __future__ import annotations

import glob
import itertools
import os
import posixpath
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from beam_pipeline.core import questions, text
from beam_pipeline.core.archives import KINDS, ZIP, Entry, archive_kind
from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.listing.filters import IMAGE_EXTENSIONS, Archive, ImageRoot, top_folder
from beam_pipeline.core.listing.globs import expand_braces, glob_regex, has_glob, split_pattern
from beam_pipeline.core.references import DEFAULT_SPLIT
from beam_pipeline.core.uris import is_remote, scheme_of
from beam_pipeline.layouts.tree import names_in, once
from beam_pipeline.storage import files, listing


def image_roots(
    paths: Sequence[str], label_uris: frozenset[str] = frozenset(), option: str = "--images"
) -> tuple[ImageRoot, ...]:
    """Returns the folders and archives to list: one root per folder, with all of its patterns, or archive.

    Args:
      paths: as typed.
      label_uris: files that are never listed.
      option: the option with the paths, for messages.

    Raises:
      UsageError: a path does not exist, or one root is inside another.
    """
    patterns: dict[str, set[str]] = defaultdict(set)
    archives, remaining = archive_roots(paths)
    for path in remaining:
        root, pattern = root_and_pattern(path, option)
        patterns[root].add(pattern)
    for inner, outer in itertools.permutations(patterns, 2):
        if inner.startswith(outer.rstrip("/") + "/"):
            raise UsageError(
                f"{option}: {inner} is inside {outer}, so its images could be listed twice; "
                "name only one of the two, or patterns below the same folder"
            )
    folders = (
        ImageRoot(root, () if "" in globs else tuple(sorted(globs)), label_uris)
        for root, globs in sorted(patterns.items())
    )
    return (*folders, *archives)


def root_and_pattern(path: str, option: str) -> tuple[str, str]:
    """Returns (folder, pattern below it); the pattern is empty for all images of the folder."""
    uri = files.canonical(path)
    folder = uri.removesuffix("/**") or "/"
    if is_remote(uri):
        is_file = not has_glob(uri) and posixpath.splitext(uri)[1].lower() in IMAGE_EXTENSIONS
        is_folder = not has_glob(folder) and not is_file
    else:
        is_folder, is_file = os.path.isdir(folder), os.path.lexists(uri)
    if is_folder:
        return folder, ""
    if is_file:
        return posixpath.dirname(uri), glob.escape(posixpath.basename(uri))
    if not has_glob(uri):
        raise UsageError(f"{option} {path}: no such file or folder")
    root, pattern = split_pattern(uri)
    if not is_remote(root) and not os.path.isdir(root):
        raise UsageError(f"{option} {path}: no folder {root}")
    return root, pattern


def path_in(folder: str, path: str) -> str:
    """A path in a folder, or an absolute one, without `..`."""
    uri = path if is_remote(path) or posixpath.isabs(path) else files.join(folder, path)
    scheme, mark, below = uri.rpartition("://")
    return f"{scheme}{mark}{posixpath.normpath(below)}" if "/." in uri or not mark else uri


def label_files(paths: Sequence[str], option: str = "--labels") -> list[str]:
    """Returns the URIs of the files in an option's paths and globs, sorted, without repetitions.

    Raises:
      UsageError: a path or glob names no file.
    """
    uris: set[str] = set()
    for path in paths:
        matches = _matches(files.canonical(path))
        if not matches:
            raise UsageError(f"{option} {path}: no such file")
        if folders := [uri for uri in matches if not is_remote(uri) and os.path.isdir(uri)]:
            raise UsageError(f"{option} {path}: {folders[0]} is a folder; expected a CSV file")
        uris.update(matches)
    return sorted(uris)


def matching_files(uri: str) -> list[str]:
    """The URIs of the files that a path or glob names, without folders on this machine. Raises OSError."""
    return [match for match in _matches(uri) if is_remote(match) or os.path.isfile(match)]


def _matches(uri: str) -> list[str]:
    """The URIs of the files that a path or glob names; a bucket is asked for globs only. Raises OSError."""
    if not is_remote(uri):
        return [uri] if os.path.lexists(uri) else glob.glob(uri, recursive=True)
    if not has_glob(uri):
        return [uri]
    root, pattern = split_pattern(uri)
    matcher = glob_regex(pattern)
    names = (file.name for file in files.list_files(root))
    return [files.join(root, name) for name in names if matcher.fullmatch(name)]


# --- archives -------------------------------------------------------------------------------------


LOOKED_AT = 20_000  # members of local archives, whose headers take a third of a second
_LOOKED_AT_REMOTE = 200  # members of a tar in a bucket, whose contents are read as well
_FEW_ARCHIVES = 2
_EXAMPLES = 2


def expanded(paths: Sequence[str]) -> tuple[str, ...]:
    """Paths with their brace patterns expanded; a path that exists literally is not a pattern.

    Raises:
      UsageError: a pattern represents too many paths.
    """
    names: list[str] = []
    for path in paths:
        exists = not is_remote(path) and os.path.lexists(files.canonical(path))
        names += [path] if exists else expand_braces(path)
    return tuple(names)


def archive_roots(paths: Sequence[str]) -> tuple[tuple[ImageRoot, ...], tuple[str, ...]]:
    """The archives among some paths, each a root, and the other paths.

    A key begins with the archive's file name, or with its path below the folders before a wildcard.
    Where all names have a split's word in them, as `train-01.tar` and `val-01.tar`, the members of
    each archive have that split.

    Raises:
      UsageError: an archive does not exist, is compressed as a whole, or is called as another is.
    """
    named = {path: _archives(path) for path in paths}
    name_of = {uri: name for archives in named.values() for uri, name in archives.items()}
    by_name: dict[str, str] = {}
    for uri, name in sorted(name_of.items()):
        if by_name.setdefault(name, uri) != uri:
            raise UsageError(
                f"--images: {by_name[name]} and {uri} have the same name, which begins the keys of their "
                "images; rename one, or name both by a glob below a folder above them"
            )
    members = [Archive(archive_kind(uri), name) for uri, name in sorted(name_of.items())]
    if len(members) > 1 and all(len(archive.said_splits) == 1 for archive in members):
        members = [archive._replace(split=min(archive.said_splits)) for archive in members]
    roots = zip(sorted(name_of), members, strict=True)
    remaining = tuple(path for path, archives in named.items() if not archives)
    return tuple(ImageRoot(uri, archive=member) for uri, member in roots), remaining


def _archives(path: str) -> dict[str, str]:
    """URI -> name of the archives that a path or glob names, or that are all that a folder contains; else empty."""
    uri = files.canonical(path)
    if scheme_of(uri) in KINDS:
        raise UsageError(f"--images {path}: name the archive itself, not a member of it")
    if not is_remote(uri) and os.path.isdir(uri):
        names = names_in(uri)
        extension_of = {name: posixpath.splitext(name)[1].lower() for name in names.files}
        if names.images or names.folders or "" in extension_of.values():
            return {}
        return {files.join(uri, name): name for name, e in extension_of.items() if e[1:] in KINDS}
    if not archive_kind(uri):
        return {}
    matches = matching_files(uri)
    if not matches:
        raise UsageError(f"--images {path}: no such archive{'s' if has_glob(uri) else ''}")
    folder = posixpath.dirname(uri) if matches == [uri] else split_pattern(uri)[0]
    return {match: match[len(folder.rstrip("/")) + 1 :] for match in matches}


def archive_notes(roots: Sequence[ImageRoot]) -> Iterator[str]:
    """Notes for the user on how archives are understood, a sentence each."""
    archives = [root.archive for root in roots if root.archive]
    yield from split_notes({archive.name: archive.split for archive in archives}, "archives")
    if tops := [archive.top for archive in archives if archive.top]:
        yield f"everything is in {tops[0]}, which is part of no class"


def archive_questions(roots: Sequence[ImageRoot]) -> Iterator[questions.Question]:
    """Questions about the archives' names, if only some of them contain a split."""
    archives = [root.archive for root in roots if root.archive]
    splits = {a.name: "".join(a.said_splits) if len(a.said_splits) == 1 else "" for a in archives}
    in_names = {split for archive in archives for split in archive.said_splits}
    yield from split_questions(splits, "archives", in_names)


def split_notes(splits: Mapping[str, str], noun: str) -> Iterator[str]:
    """A note for the user on the splits in the names of files: name -> split, or empty."""
    by_split: dict[str, list[str]] = defaultdict(list)
    for name, split in splits.items():
        by_split[split].append(name)
    each = [f"{s} ({text.enumerated(by_split[s], _EXAMPLES)})" for s in sorted(by_split) if s]
    if each:
        yield f"the names of the {noun} contain their splits: {', '.join(each)}; --splits overrides them"


def split_questions(
    splits: Mapping[str, str], noun: str, in_names: Iterable[str] = ()
) -> Iterator[questions.Question]:
    """A question if only some of the names of files contain one split, and any contains another than train.

    Args:
      splits: name -> split, or empty.
      noun: the files.
      in_names: all splits in names, also those beside another in the same name.
    """
    named = text.enumerated([name for name, split in splits.items() if split], _EXAMPLES)
    unnamed = text.enumerated([name for name, split in splits.items() if not split], _EXAMPLES)
    if unnamed and len(splits) > 1 and {*splits.values(), *in_names} - {"", DEFAULT_SPLIT}:
        reason = f"None names a single split: {unnamed}."
        if named:
            reason = f"{named} name a split, and {unnamed} no single one."
        advice = f"Rename them, or name the {noun} of one split and give --splits train=1."
        yield questions.Question(f"splits_of_{noun}", reason, advice)


def first_entries(roots: Sequence[ImageRoot]) -> Sequence[tuple[ImageRoot, Entry]]:
    """(archive, file in it) of the beginnings of archives: all of them if they are few and local.

    Raises:
      ListingError: an archive cannot be read.
    """
    return once((first_entries, tuple(roots)), lambda: [*_first_entries(roots)])


def _first_entries(roots: Sequence[ImageRoot]) -> Iterator[tuple[ImageRoot, Entry]]:
    left = LOOKED_AT
    for number, root in enumerate(dict.fromkeys((*roots[:1], *roots[-1:], *roots))):
        assert root.archive
        remote = is_remote(root.uri)
        if left <= 0 or (remote and number >= _FEW_ARCHIVES):
            return
        most = _LOOKED_AT_REMOTE if remote and root.archive.kind != ZIP else left
        for entry, _ in itertools.islice(listing.archive_entries(root), most):
            left -= 1
            yield root, entry


def opened_for_folders(
    roots: Sequence[ImageRoot],
) -> tuple[tuple[ImageRoot, ...], tuple[questions.Question, ...]]:
    """The roots, whose archives know the folder around all others in all of them, which does not name a class.

    Returns: the roots, and a question if an archive has another such folder than all together.

    Raises:
      ListingError: an archive cannot be read.
    """
    archives = [root for root in roots if root.archive]
    filters = {root.uri: listing.MemberFilter(root) for root in archives}
    images: dict[str, list[str]] = {root.uri: [] for root in archives}
    for root, entry in first_entries(archives):
        if not entry.problem and filters[root.uri].lists(entry):
            images[root.uri].append(entry.name)
    top = top_folder([*itertools.chain(*images.values())])
    asked = (
        questions.question(
            "different_tops",
            f"Everything in {uri} is in {own}, but not everything in the other archives, so its classes would begin with {own}.",
            "If the last folder is the class:",
            layout="file_names",
            label_from="(?:.*/)?(?P<label>[^/]+)/[^/]+",
        )
        for uri, names in images.items()
        if all(images.values()) and (own := top_folder(names)) != top
    )
    opened = (
        replace(root, archive=root.archive._replace(top=top)) if root.archive else root
        for root in roots
    )
    return tuple(opened), tuple(itertools.islice(asked, 1))
