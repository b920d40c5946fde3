"""The file system class of each scheme, imported when a URI first needs it."""

from __future__ import annotations

import functools
import importlib

from beam_pipeline.core.uris import scheme_of
from beam_pipeline.storage.base import FileSystem
from beam_pipeline.storage.local import LocalFiles

_LOCAL = LocalFiles()

_CLASSES = {
    "abfs": "azure.AzureFiles",
    "abfss": "azure.AzureFiles",
    "az": "azure.AzureFiles",
    "gs": "google.GoogleStorage",
    "s3": "s3.S3Files",
    "tar": "archive_members.ArchiveMembers",
    "zip": "archive_members.ArchiveMembers",
}
"""Scheme -> module of this package and class. Other schemes are left to Beam's file systems."""

_OTHERS = "beam_filesystems.BeamFileSystem"


def file_system(uri: str) -> FileSystem:
    """Returns the file system of a URI or of a local path."""
    if uri.startswith("/"):  # called for every image of a local job
        return _LOCAL
    scheme = scheme_of(uri)
    return _remote(scheme) if scheme else _LOCAL


@functools.cache
def _remote(scheme: str) -> FileSystem:
    module, _, name = _CLASSES.get(scheme, _OTHERS).partition(".")
    found: FileSystem = getattr(importlib.import_module(f"{__package__}.{module}"), name)()
    return found
