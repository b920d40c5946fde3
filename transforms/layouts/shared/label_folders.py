"""Folders with a label file for each image, as the person typed them."""

from __future__ import annotations

import os
from collections.abc import Sequence

from beam_pipeline.transforms.core.errors import UsageError
from beam_pipeline.transforms.core.listing.filters import ImageRoot
from beam_pipeline.transforms.core.uris import is_remote
from beam_pipeline.transforms.storage import files
from beam_pipeline.transforms.storage.local_listing import list_local_root


def label_folders(paths: Sequence[str], pattern: str, what: str) -> tuple[ImageRoot, ...]:
    """The folders of label files that --labels names, sorted, each once.

    Args:
      paths: as typed.
      pattern: which of a folder's files are label files.
      what: what these are, for messages.

    Raises:
      UsageError: one is not there, is a file, or holds no label files.
    """
    found: set[str] = set()
    for path in paths:
        if not path.strip():
            raise UsageError("--labels: an empty path")
        uri = files.canonical(path)
        if not is_remote(uri) and not os.path.isdir(uri):
            problem = "is a file" if os.path.lexists(uri) else "does not exist"
            raise UsageError(f"--labels {path} {problem}; expected a folder of {what}")
        found.add(uri)
    folders = tuple(ImageRoot(uri, (pattern,)) for uri in sorted(found))
    for folder in folders:
        if not is_remote(folder.uri) and not holds_files(folder):
            raise UsageError(f"no {what} in {folder.uri}; expected one for each image, of its name")
    return folders


def holds_files(root: ImageRoot) -> bool:
    """Whether a local folder holds one file of its patterns. Raises ListingError."""
    return any(listed.images for listed in list_local_root(root, 1))


def shown(uri: str, typed: str) -> str:
    """A local path as the person would write it: relative if what they typed is."""
    if is_remote(uri) or os.path.isabs(os.path.expanduser(typed)):
        return uri
    return os.path.relpath(uri)
