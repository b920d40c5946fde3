"""Requests about objects by the library obstore: read, list, find, delete.

Names are literal: they contain no wildcards or escapes. The library has no names with an empty part
(`a//b`), a part `.` or `..`, or control characters: an object of such a name is an error, also where
it is listed.
"""

from __future__ import annotations

import errno
import hashlib
import io
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

from google_crc32c import extend

from beam_pipeline.storage.base import FoundFile
from beam_pipeline.storage.chunk_reader import open_chunks
from beam_pipeline.storage.obstore_client import Service, place_of
from beam_pipeline.storage.obstore_errors import TakenError

CHUNK_BYTES = 8 << 20  # 8 MiB a request
PAGE_SIZE = 1000  # names that a listing request returns

CHECKSUM_KEY = "crc32c"
"""Metadata of each object that this package writes: base64 of its big-endian CRC-32C."""

_AT_ONCE = 16
_LAST_CHARACTER = "\U0010ffff"
_FIRST_PRINTABLE = 0x20
_AFTER_SURROGATES = 0xE000


class Found(NamedTuple):
    """An object as the service describes it.

    Attributes:
      size: bytes.
      version: changes when the object does; see `_version`.
      crc32c: its `CHECKSUM_KEY`; empty if it has none.
    """

    size: int
    version: int
    crc32c: str


def path_of(uri: str) -> str:
    """Returns the name of an object for the library. Raises OSError if the library has no such name."""
    name = place_of(uri).name
    if not name or name[0] == "/" or name[-1] == "/":  # the library would drop the slash
        what = "the name cannot be read or written: it begins or ends with a slash, or is empty"
        raise OSError(errno.EINVAL, what, uri)
    return name


def _version(e_tag: str | None) -> int:
    """Returns 56 bits of an ETag's hash; 0 without one.

    In S3 the ETag is mostly the MD5 of the content, so an object that was uploaded again unchanged
    keeps its version.
    """
    if not e_tag:
        return 0
    text = e_tag.strip('"')  # which Azure writes around it in headers only
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=7).digest(), "big")


# Reading.


def read(service: Service, uri: str, size: int = 0, offset: int = -1) -> bytes:
    """Reads an object, or part of it, with one request; the length of the answer is checked.

    Args:
      service: the object's service.
      uri: the object.
      size: the number of bytes, for part of it.
      offset: the first byte; -1 for all bytes, whatever the size is now.

    Raises:
      OSError: the object is missing, cannot be read, or ends before `offset`.
    """
    if offset >= 0 and size <= 0:
        return b""
    return _read(service, uri, None if offset < 0 else {"range": (offset, offset + size)})


def _read(service: Service, uri: str, options: dict[str, Any] | None) -> bytes:
    obstore = service.library()
    path, store = path_of(uri), service.store(uri)

    def request() -> bytes:
        return bytes(obstore.get(store, path, options=options).bytes())

    try:
        return service.retried(request, uri)
    except PermissionError as error:
        what = f"permission {service.permissions.get} is missing: {error.strerror}"
        raise PermissionError(errno.EACCES, what, uri) from error


def open_input(service: Service, uri: str) -> io.BufferedReader:
    """Opens an object for reading and seeking, with requests of `CHUNK_BYTES`.

    After the first read, the rest is read from the same version.

    Raises:
      OSError: the object is missing, cannot be read, or was replaced while it was read.
    """
    obstore = service.library()
    path, store = path_of(uri), service.store(uri)
    version: dict[str, str] = {}

    def read(start: int, end: int) -> bytes:
        def request() -> bytes:
            answer = obstore.get(store, path, options={"range": (start, end), **version})
            e_tag = answer.meta["e_tag"]
            data = bytes(answer.bytes())
            if e_tag:
                version["if_match"] = e_tag
            return data

        try:
            return service.retried(request, uri)
        except TakenError as error:
            raise OSError(errno.ESTALE, f"replaced while it was read: {error}", uri) from error
        except OSError as error:
            if error.errno != errno.ERANGE:
                raise
            return b""

    return open_chunks(uri, read, lambda: find(service, uri).size, CHUNK_BYTES)


def crc32c_of(service: Service, uri: str) -> int:
    """Reads an object; returns its checksum. Raises OSError."""
    found = 0
    with open_input(service, uri) as file:
        while chunk := file.read(CHUNK_BYTES):
            found = extend(found, chunk)
    return found


# Listing.


def list_objects(
    service: Service, uri_prefix: str, start: str = "", end: str = ""
) -> Iterator[FoundFile]:
    """Lists the objects whose URIs begin with a prefix, sorted by name, page by page.

    Args:
      service: the service.
      uri_prefix: a prefix of URIs; with a slash at its end, the objects in a folder.
      start: the first name to list, relative to the prefix.
      end: the first name not to list, relative to the prefix; empty for no end.

    Yields: files by names relative to the prefix. Empty objects whose names end with a slash stand
      for folders and are left out.

    Raises:
      BucketError: the bucket does not exist, or may not be listed.
      OSError: the listing failed, or the service does not list by name.
    """
    prefix = place_of(uri_prefix).name
    marker: FoundFile | None = None  # an empty object, or one that stands for a folder
    last = ""
    for found in _listed(service, uri_prefix, prefix, start):
        name = found["path"][len(prefix) :]
        if service.is_sorted:
            if end and name >= end:
                break
            if name < last and not found["size"] and f"{name}/" >= last:
                continue  # the library has cut the slash at the end of its name
            if name <= last:
                raise _unsorted(uri_prefix, last, name)
            last = name
        elif end and name >= end:
            continue
        if marker is not None and not name.startswith(f"{marker.name}/"):
            yield marker
        marker = None
        file = FoundFile(name, found["size"], _version(found["e_tag"]))
        if file.size:
            yield file
        else:
            marker = file
    if marker is not None and not end.startswith(f"{marker.name}/"):  # which begins its files
        yield marker


def _unsorted(uri: str, one: str, other: str) -> OSError:
    what = f"the service lists {other!r} after {one!r}; expected names in order"
    return OSError(errno.EIO, what, uri)


def _listed(service: Service, uri: str, prefix: str, start: str) -> Iterator[dict[str, Any]]:
    """Yields objects with a prefix in their names, from a name on, page by page."""
    folder, first = prefix.rpartition("/")[0], prefix + start
    for page in _pages(service, uri, folder, first):
        for found in page:
            path = found["path"]
            if path >= first and path.startswith(prefix) and path != prefix:
                yield found
            elif service.is_sorted and path > first and not path.startswith(prefix):
                return


def _pages(service: Service, uri: str, folder: str, first: str) -> Iterator[list[dict[str, Any]]]:
    """Yields the pages of a listing; after an error, it goes on behind the last name that came."""
    obstore = service.library()
    begins_inside = service.is_sorted and first not in ("", f"{folder}/")
    offset = before(first) if begins_inside else None
    store = service.store(uri)
    last = ""
    pages: Any = None

    def page() -> Any:
        nonlocal pages
        if pages is None:
            pages = obstore.list(store, folder or None, offset=offset, chunk_size=PAGE_SIZE)
            if last and not service.is_sorted:  # it cannot begin there, so it begins anew
                return _rest_after(last, pages)
        try:
            return next(pages, None)
        except Exception:
            pages = None
            raise

    while True:
        with service.bucket_errors(uri, service.permissions.list):
            found = service.retried(page, uri)
        if found is None:
            return
        if found:
            last = found[-1]["path"]
            offset = last if service.is_sorted else None
            yield found


def _rest_after(last: str, pages: Iterator[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Goes through pages to the one with a name; returns the objects behind it there."""
    for page in pages:
        for index, found in enumerate(page):
            if found["path"] == last:
                return page[index + 1 :]
    raise OSError(errno.EIO, f"{last!r}, where the listing broke off, is gone")


def before(name: str) -> str | None:
    r"""Returns a name before a name, as near to it as the library allows; None for none.

    A service lists the names after a given one. So that the name itself is listed too, the listing
    starts after one that is smaller:

    >>> before("photos/img_3")
    'photos/img_2\U0010ffff'
    """
    while name:
        code = ord(name[-1])
        smaller = 0xD7FF if code == _AFTER_SURROGATES else code - 1
        name = name[:-1]
        found = f"{name}{chr(max(smaller, 0))}{_LAST_CHARACTER}"
        if _is_path(found):
            return found
        if _is_path(name):
            return name
    return None


def _is_path(name: str) -> bool:
    """True if the library takes a name as it is."""
    has_control = any(
        ord(character) < _FIRST_PRINTABLE or character == "\x7f" for character in name
    )
    return not has_control and all(part not in ("", ".", "..") for part in name.split("/"))


def first_object(service: Service, uri_prefix: str, start: str = "", end: str = "") -> str | None:
    """Returns the first name of a range; None if the range is empty.

    The arguments and errors are those of `list_objects`.
    """
    prefix = place_of(uri_prefix).name
    for found in _listed(service, uri_prefix, prefix, start):
        name: str = found["path"][len(prefix) :]
        return None if end and name >= end else name
    return None


def find(service: Service, uri: str) -> Found:
    """Returns an object's size, version and checksum, with one request.

    Raises:
      FileNotFoundError: no object has this name.
      BucketError: the bucket does not exist, or the object may not be read.
      OSError: the request failed.
    """
    obstore = service.library()
    path, store = path_of(uri), service.store(uri)

    def request() -> Found:
        answer = obstore.get(store, path, options={"head": True})
        meta = answer.meta
        checksum = answer.attributes.get(CHECKSUM_KEY, "")
        return Found(meta["size"], _version(meta["e_tag"]), checksum)

    try:
        return service.retried(request, uri)
    except PermissionError as error:
        raise service.not_permitted(uri, service.permissions.get, error) from error


def checksums(service: Service, uris: Sequence[str]) -> dict[str, Found]:
    """Returns URI -> object, for those that exist, with one request each. Raises as `find`."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = pool.map(partial(_find_if_there, service), uris)
        return {uri: one for uri, one in zip(uris, found, strict=True) if one is not None}


def _find_if_there(service: Service, uri: str) -> Found | None:
    try:
        return find(service, uri)
    except FileNotFoundError:
        return None


# Creating and deleting.


def create_empty(service: Service, uri: str) -> None:
    """Creates an empty object. Raises TakenError if one exists, BucketError, OSError."""
    obstore = service.library()
    store, path = service.store(uri), path_of(uri)
    with service.bucket_errors(uri, service.permissions.create):
        service.retried(lambda: obstore.put(store, path, b"", mode="create"), uri)


def delete(service: Service, uris: Sequence[str]) -> None:
    """Deletes objects; missing ones are no error. Raises BucketError, OSError."""
    by_bucket: dict[str, list[str]] = {}
    for uri in uris:
        by_bucket.setdefault(place_of(uri).bucket, []).append(uri)
    parts = [
        found[start : start + service.deletes]
        for found in by_bucket.values()
        for start in range(0, len(found), service.deletes)
    ]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for _ in pool.map(partial(_delete, service), parts):
            pass


def _delete(service: Service, uris: Sequence[str]) -> None:
    """Deletes objects of one bucket with one request."""
    obstore = service.library()
    store, paths = service.store(uris[0]), [path_of(uri) for uri in uris]
    with service.bucket_errors(uris[0], service.permissions.delete):
        try:
            service.retried(lambda: obstore.delete(store, paths), uris[0])
        except FileNotFoundError:  # or an earlier attempt deleted it
            return
