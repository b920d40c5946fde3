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
        yield from _objects(bucket, prefix, start, end)


def first_object(bucket: str, prefix: str, start: str = "", end: str = "") -> str | None:
    """The name of the first object that `list_objects` gives, in one request; None if there is none.

    Raises:
      OSError: the bucket cannot be listed.
    """
    with _os_errors(f"gs://{bucket}/{prefix}"):
        found = next(_objects(bucket, prefix, start, end, max_results=1), None)
    return None if found is None else found.name


def _objects(
    bucket: str, prefix: str, start: str, end: str, **options: Any
) -> Iterator[RemoteFile]:
    pages = _client().list_blobs(
        bucket,
        prefix=prefix or None,
        start_offset=start or None,
        end_offset=end or None,
        fields="items(name,size,generation),nextPageToken",
        **options,
    )
    pages.item_to_value = _remote_file
    return iter(pages)


def _remote_file(_: Any, item: dict[str, str]) -> RemoteFile:
    """An object as it is in the answer; the client's `Blob`s take a third of a listing's time."""
    return RemoteFile(item["name"], int(item.get("size", 0)), int(item.get("generation", 0)))


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
