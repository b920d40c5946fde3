"""Resolves typed paths to folders to list and files to read."""

from __future__ import annotations

import glob
import os
import posixpath
from collections.abc import Sequence

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.listing.filters import IMAGE_EXTENSIONS, ImageRoot
from beam_pipeline.core.listing.globs import glob_regex, has_glob, split_pattern
from beam_pipeline.core.uris import is_remote
from beam_pipeline.layouts.archives import archive_roots
from beam_pipeline.storage import files


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
    patterns: dict[str, list[str]] = {}
    whole: set[str] = set()
    archives, others = archive_roots(paths)
    for path in others:
        root, pattern = _root_and_pattern(path, option)
        patterns.setdefault(root, [])
        if pattern:
            patterns[root].append(pattern)
        else:
            whole.add(root)
    for inner in patterns:
        for outer in patterns:
            if inner != outer and inner.startswith(outer.rstrip("/") + "/"):
                raise UsageError(
                    f"{option}: {inner} is inside {outer}, so its images could be listed twice; "
                    "name only one of the two, or patterns below the same folder"
                )
    folders = (
        ImageRoot(root, () if root in whole else tuple(sorted(set(found))), label_uris)
        for root, found in sorted(patterns.items())
    )
    return (*folders, *archives)


def _root_and_pattern(path: str, option: str) -> tuple[str, str]:
    """Returns (folder, pattern below it); the pattern is empty for all images of the folder."""
    if not path.strip():
        raise UsageError(f"{option}: an empty path")
    uri = files.canonical(path)
    if is_remote(uri):
        uri = uri.removesuffix("/**")
        if has_glob(uri):
            return split_pattern(uri)
        if posixpath.splitext(uri)[1].lower() in IMAGE_EXTENSIONS - {""}:
            return posixpath.dirname(uri), glob.escape(posixpath.basename(uri))
        return uri, ""
    if os.path.isdir(uri):
        return uri, ""
    if os.path.lexists(uri):
        return os.path.dirname(uri), glob.escape(os.path.basename(uri))
    if not has_glob(uri):
        raise UsageError(f"{option} {path}: no such file or folder")
    root, pattern = split_pattern(uri)
    if not os.path.isdir(root):
        raise UsageError(f"{option} {path}: no folder {root}")
    return root, "" if pattern == "**" else pattern


def label_files(paths: Sequence[str], option: str = "--labels") -> list[str]:
    """Returns the URIs of the files in an option's paths and globs, sorted, without repetitions.

    Raises:
      UsageError: a path or glob names no file.
    """
    found: set[str] = set()
    for path in paths:
        uri = files.canonical(path)
        if is_remote(uri):
            matches = [uri] if not has_glob(uri) else remote_matches(uri)
        elif os.path.lexists(uri):
            matches = [uri]
        else:
            matches = glob.glob(uri, recursive=True)
        if not matches:
            raise UsageError(f"{option} {path}: no such file")
        for match in matches:
            if not is_remote(match) and os.path.isdir(match):
                raise UsageError(f"{option} {path}: {match} is a folder; expected a CSV file")
        found.update(matches)
    return sorted(found)


def remote_matches(uri: str) -> list[str]:
    """The URIs of the files that a glob in a bucket names. Raises OSError."""
    root, pattern = split_pattern(uri)
    matcher = glob_regex(pattern)
    names = (found.name for found in files.list_files(root))
    return [files.join(root, name) for name in names if matcher.fullmatch(name)]
