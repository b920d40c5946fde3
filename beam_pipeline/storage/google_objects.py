"""Requests to Google Cloud Storage about objects: list, find, delete.

Names are literal: they contain no wildcards or escapes.
"""

from __future__ import annotations

import base64
import contextlib
import errno
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from beam_pipeline.core.errors import BucketError
from beam_pipeline.storage.base import FoundFile
from beam_pipeline.storage.google_client import TIMEOUT, client, retried

SCHEME = "gs://"
PAGE_SIZE = 1000  # the most names that a listing request returns
_DELETES_AT_ONCE = 16

LIST, GET, CREATE, DELETE = (
    f"storage.objects.{verb}" for verb in ("list", "get", "create", "delete")
)


class ListedObject(NamedTuple):
    """An object as listed; creating the library's `Blob`s would take a third of a listing's time.

    Attributes:
      name: its name in the bucket.
      size: bytes.
      generation: changes when the object does.
      crc32c: base64 of the big-endian checksum; empty if it was not requested.
      md5: base64; empty if it was not requested, or the object was composed of others.
    """

    name: str
    size: int
    generation: int
    crc32c: str
    md5: str = ""


def _as_listed_object(_: Any, item: dict[str, str]) -> ListedObject:
    return ListedObject(
        item["name"],
        int(item.get("size", 0)),
        int(item.get("generation", 0)),
        item.get("crc32c", ""),
        item.get("md5Hash", ""),
    )


def parts_of(uri: str) -> tuple[str, str]:
    """Returns (bucket, name) of a URI; the name may be empty, or a prefix."""
    bucket, _, name = uri[len(SCHEME) :].partition("/")
    return bucket, name


def blob_of(uri: str) -> Any:
    """Returns the library's `Blob` of an object, without a request. Raises as `client`."""
    bucket, name = parts_of(uri)
    return client().bucket(bucket).blob(name)


@contextlib.contextmanager
def bucket_errors(uri: str, permission: str) -> Iterator[None]:
    """Turns 404 and 403 into errors that name the bucket and the permission.

    Raises:
      BucketError: the bucket does not exist, or the permission is missing.
    """
    try:
        yield
    except FileNotFoundError as error:
        bucket, _ = parts_of(uri)
        raise BucketError(
            f"bucket gs://{bucket} does not exist: {uri}: {error.strerror}"
        ) from error
    except PermissionError as error:
        raise _not_permitted(uri, permission, error) from error


def _not_permitted(uri: str, permission: str, error: OSError) -> BucketError:
    bucket, _ = parts_of(uri)
    return BucketError(
        f"{uri}: permission {permission} on bucket gs://{bucket} is missing: {error.strerror}"
    )


# Listing.


def list_objects(
    uri_prefix: str, start: str = "", end: str = "", *, digests: bool = False
) -> Iterator[FoundFile]:
    """Lists the objects whose URIs begin with a prefix, sorted by name, page by page.

    Args:
      uri_prefix: a prefix of URIs; with a slash at its end, the objects in a folder.
      start: the first name to list, relative to the prefix.
      end: the first name not to list, relative to the prefix; empty for no end.
      digests: ask for the MD5 of each.

    Yields: files by names relative to the prefix. Empty objects whose names end with a slash stand
      for folders and are left out.

    Raises:
      BucketError: the bucket does not exist, or may not be listed.
      OSError: the listing failed.
    """
    fields = ",md5Hash" if digests else ""
    for name, blob in _listed(uri_prefix, start, end, fields):
        if name and not (name.endswith("/") and not blob.size):
            yield FoundFile(name, blob.size, blob.generation, base64.b64decode(blob.md5))


def checksums(uri_prefix: str, start: str = "", end: str = "") -> dict[str, tuple[int, str]]:
    """Lists a range of names; returns name -> (bytes, CRC-32C as `ListedObject` has it).

    The arguments and the errors are those of `list_objects`.
    """
    found = _listed(uri_prefix, start, end, fields=",crc32c")
    return {name: (blob.size, blob.crc32c) for name, blob in found}


def _listed(
    uri_prefix: str, start: str, end: str, fields: str = ""
) -> Iterator[tuple[str, ListedObject]]:
    """Yields names relative to the prefix, with the objects, page by page."""
    _, prefix = parts_of(uri_prefix)
    token = None
    while True:
        blobs, token = _page(uri_prefix, start, end, token=token, size=PAGE_SIZE, fields=fields)
        yield from ((blob.name[len(prefix) :], blob) for blob in blobs)
        if not token:
            return


def _page(
    uri_prefix: str,
    start: str = "",
    end: str = "",
    *,
    token: str | None = None,
    size: int,
    fields: str = "",
) -> tuple[list[ListedObject], str | None]:
    """Returns one page of a listing, and the token of the next."""
    bucket, prefix = parts_of(uri_prefix)

    def request() -> tuple[list[ListedObject], str | None]:
        found = client().list_blobs(
            bucket,
            prefix=prefix or None,
            start_offset=prefix + start if start else None,
            end_offset=prefix + end if end else None,
            page_token=token,
            page_size=size,
            fields=f"items(name,size,generation{fields}),nextPageToken",
            retry=None,
            timeout=TIMEOUT,
        )
        found.item_to_value = _as_listed_object
        blobs = list(next(found.pages, ()))
        return blobs, found.next_page_token

    with bucket_errors(uri_prefix, LIST):
        return retried(request, uri_prefix)


def first_object(uri_prefix: str, start: str = "", end: str = "") -> str | None:
    """Returns the first name of a range, with one request; None if the range is empty.

    The arguments are those of `list_objects`. An object that stands for a folder counts.

    Raises:
      BucketError: the bucket does not exist, or may not be listed.
      OSError: the request failed.
    """
    blobs, _ = _page(uri_prefix, start, end, size=1)
    return blobs[0].name[len(parts_of(uri_prefix)[1]) :] if blobs else None


def first_with_prefix(uri: str) -> ListedObject | None:
    """Returns the first object with a prefix; that is the object of that name, if it exists."""
    blobs, _ = _page(uri, size=1, fields=",crc32c")
    return blobs[0] if blobs else None


def find(uri: str) -> ListedObject:
    """Returns an object as listed. Raises FileNotFoundError, and as `list_objects`."""
    blob = first_with_prefix(uri)
    if blob is None or blob.name != parts_of(uri)[1]:
        raise FileNotFoundError(errno.ENOENT, "no object has this name", uri)
    return blob


def delete(uris: Sequence[str]) -> None:
    """Deletes objects; missing ones are no error. Raises BucketError, OSError."""
    with ThreadPoolExecutor(_DELETES_AT_ONCE) as pool:
        for _ in pool.map(delete_one, uris):
            pass


def delete_one(uri: str) -> None:
    """Deletes an object, if it exists. Raises BucketError, OSError."""
    blob = blob_of(uri)
    try:
        retried(lambda: blob.delete(retry=None, timeout=TIMEOUT), uri)
    except FileNotFoundError:  # or an earlier attempt deleted it
        return
    except PermissionError as error:
        raise _not_permitted(uri, DELETE, error) from error
