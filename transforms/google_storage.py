"""Google Cloud Storage by its own client, which is imported when a bucket is first asked."""

from __future__ import annotations

import contextlib
import errno
import functools
from collections.abc import Iterator
from typing import Any, NamedTuple


class RemoteFile(NamedTuple):
    """A listed object. Attributes: name, in its bucket; size, bytes; version, its generation."""

    name: str
    size: int
    version: int


def list_objects(bucket: str, prefix: str, start: str = "", end: str = "") -> Iterator[RemoteFile]:
    """Lists objects in the order of their names' UTF-8 bytes, a page a request.

    Args:
      bucket: name of the bucket.
      prefix: what their names begin with.
      start: the first name that may be listed; empty for no limit.
      end: the first name behind those; empty for no limit.

    Raises:
      OSError: the bucket cannot be listed.
    """
    with _os_errors(f"gs://{bucket}/{prefix}"):
        for blob in _blobs(bucket, prefix, start, end, "name,size,generation"):
            yield RemoteFile(blob.name, blob.size or 0, blob.generation or 0)


def first_object(bucket: str, prefix: str, start: str = "", end: str = "") -> str | None:
    """The name of the first object that `list_objects` gives, in one request; None if there is none.

    Raises:
      OSError: the bucket cannot be listed.
    """
    with _os_errors(f"gs://{bucket}/{prefix}"):
        for blob in _blobs(bucket, prefix, start, end, "name", max_results=1):
            name: str = blob.name
            return name
    return None


def _blobs(
    bucket: str, prefix: str, start: str, end: str, fields: str, **options: Any
) -> Iterator[Any]:
    return iter(
        _client().list_blobs(
            bucket,
            prefix=prefix or None,
            start_offset=start or None,
            end_offset=end or None,
            fields=f"items({fields}),nextPageToken",
            **options,
        )
    )


@functools.cache
def _client() -> Any:
    try:
        from google.cloud import storage
    except ImportError as error:
        raise OSError(
            errno.ENOTSUP, "google-cloud-storage is not installed: pip install 'beam-tfrecord[gcp]'"
        ) from error
    return storage.Client()


@contextlib.contextmanager
def _os_errors(uri: str) -> Iterator[None]:
    """Raises what the client raises, in a block, as OSError."""
    try:
        yield
    except Exception as error:  # of the client, of what authenticates it and of what it sends with
        if isinstance(error, OSError) and error.errno == errno.ENOTSUP:
            raise
        raise OSError(errno.EIO, f"{type(error).__name__}: {error}", uri) from error
