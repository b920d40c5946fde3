"""Folders with a label file for each image, as given in --labels."""

from __future__ import annotations

import os
from collections.abc import Sequence

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.core.uris import is_remote
from beam_pipeline.storage import files
from beam_pipeline.storage.local_listing import list_local_root


def label_folders(paths: Sequence[str], pattern: str, what: str) -> tuple[ImageRoot, ...]:
    """Returns the folders of label files in --labels, sorted, without repetitions.

    Args:
      paths: as typed.
      pattern: a glob of the label files in a folder.
      what: a description of these files, for messages.

    Raises:
      UsageError: a folder does not exist, is a file, or holds no label files.
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
    """True if a local folder holds a file that matches its patterns. Raises ListingError."""
    return any(listed.images for listed in list_local_root(root, 1))


def shown(uri: str, typed: str) -> str:
    """Returns a local path in the user's style: relative if the typed path is."""
    if is_remote(uri) or os.path.isabs(os.path.expanduser(typed)):
        return uri
    return os.path.relpath(uri)
