"""Objects written by the library obstore: each appears whole, with one request."""

from __future__ import annotations

import errno
import mmap
import tempfile
from types import TracebackType
from typing import IO, Any

from google_crc32c import Checksum

from beam_pipeline.core.dataset.manifest import crc32c_text
from beam_pipeline.core.errors import AnotherJobError
from beam_pipeline.storage.obstore_client import Service, bucket_uri
from beam_pipeline.storage.obstore_errors import TakenError
from beam_pipeline.storage.obstore_objects import (
    CHECKSUM_KEY,
    Found,
    crc32c_of,
    find,
    path_of,
)

MEMORY_BYTES = 8 << 20  # 8 MiB; more is kept in a temporary file until it is sent
MOST_BYTES = 5_000_000_000
"""Bytes of one upload: S3 takes 5 GiB, Azure 5,000 MiB, with a precondition."""


class Upload:
    """An object that appears, complete, only if its `with` block ends without error.

    It is sent with one request at the end, as only such a request can have the precondition that no
    object has its name. Up to 8 MiB are held in memory, more in a temporary file. The request is
    signed with the SHA-256 of the content where the service checks that. The CRC-32C goes along as
    metadata.

    A new object is created only if none of its name exists. If one exists, as when a retried bundle
    finds the shard that it wrote before, it must hold the same bytes.

    Raises on exit:
      AnotherJobError: a new object's name is taken by other bytes.
      BucketError: the bucket does not exist, or a permission is missing.
      OSError: the object cannot be written now, or is too large.
    """

    def __init__(self, service: Service, uri: str, *, new: bool = False) -> None:
        self._service = service
        self._uri = uri
        self._new = new
        self._buffers: list[bytes] = []
        self._pending = 0
        self._size = 0
        self._checksum = Checksum()
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Upload:
        self._path = path_of(self._uri)
        self._service.store(self._uri)
        return self

    def write(self, *buffers: bytes) -> None:
        """Adds buffers to the object; they must not change afterwards."""
        self._buffers.extend(buffers)
        self._pending += sum(map(len, buffers))
        if self._pending > MEMORY_BYTES:
            self._spool()

    def _take(self) -> bytes:
        data = b"".join(self._buffers)
        self._buffers, self._pending = [], 0
        self._size += len(data)
        self._checksum.update(data)
        if self._size > MOST_BYTES:
            raise OSError(
                errno.EFBIG,
                f"a file of more than {MOST_BYTES:,} bytes cannot be written to "
                f"{self._service.title}; use more shards (--num_shards)",
                self._uri,
            )
        return data

    def _spool(self) -> None:
        data = self._take()
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="beam-tfrecord-")
            self._file.write(data)
            self._file.flush()
        except OSError as error:
            what = f"a temporary file cannot be written: {error}; TMPDIR names another folder"
            raise OSError(error.errno, what, self._uri) from error

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self._send()
        finally:
            if self._file is not None:
                self._file.close()

    def _send(self) -> None:
        if self._file is None:
            self._put(self._take(), patient=False)
            return
        self._spool()
        # Not closed here, as the library's threads may hold it for a moment after an error.
        content = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        self._put(content, patient=True)

    def _put(self, content: Any, *, patient: bool) -> None:
        """Sends the content with one request, which is repeated whole after a transient error."""
        obstore = self._service.library()

        store = self._service.store(self._uri, patient=patient)
        checksum = crc32c_text(int.from_bytes(self._checksum.digest(), "big"))

        def request() -> None:
            obstore.put(
                store,
                self._path,
                content,
                mode="create" if self._new else "overwrite",
                use_multipart=False,
                attributes={CHECKSUM_KEY: checksum},
            )

        try:
            with self._service.bucket_errors(self._uri, self._service.permissions.create):
                self._service.retried(request, self._uri)
        except TakenError:
            _compare(self._service, self._uri, self._size, checksum)


def _compare(service: Service, uri: str, size: int, checksum: str) -> None:
    """Accepts an existing object with this name if it holds the same bytes."""
    try:
        found = with_checksum(service, uri, find(service, uri), size)
    except FileNotFoundError as error:
        what = "an object was in its place and is gone again"
        raise OSError(errno.EAGAIN, what, uri) from error
    if (found.size, found.crc32c) != (size, checksum):
        raise AnotherJobError(
            f"another job is writing to this folder: {uri} is there already with "
            f"{found.size} bytes, CRC-32C {found.crc32c or 'unknown'}; this job has {size} bytes, "
            f"CRC-32C {checksum}. Nothing of it was changed; wait for the other "
            "job or choose another --output"
        )


def with_checksum(service: Service, uri: str, found: Found, size: int) -> Found:
    """Returns an object with its checksum, for which one that another program uploaded is read.

    It is read only if it has the expected size. Raises OSError.
    """
    if found.crc32c or found.size != size:
        return found
    return found._replace(crc32c=crc32c_text(crc32c_of(service, uri)))


def copy_object(service: Service, source: str, uri: str, *, new: bool = False) -> bool:
    """Has the service make an object of another one in the same bucket.

    Args:
      service: the service of both.
      source: the other object.
      uri: the object; an older one is replaced.
      new: no object of its name may exist, unless it holds the same bytes.

    Returns: False, with nothing done, if they are in different buckets.

    Raises:
      AnotherJobError: a new object's name is taken by other bytes.
      BucketError: the bucket does not exist, or a permission is missing.
      FileNotFoundError: there is no object to copy.
      OSError: the object cannot be copied now.
    """
    obstore = service.library()
    if bucket_uri(source) != bucket_uri(uri):
        return False
    wanted, store = find(service, source), service.store(uri, patient=True)
    one, other = path_of(source), path_of(uri)
    permissions = f"{service.permissions.get} or {service.permissions.create}"
    try:
        if new:
            _check_free(service, uri)
        with service.bucket_errors(uri, permissions):
            service.retried(lambda: obstore.copy(store, one, other, overwrite=not new), uri)
    except TakenError:
        checksum = with_checksum(service, source, wanted, wanted.size).crc32c
        _compare(service, uri, wanted.size, checksum)
    return True


def _check_free(service: Service, uri: str) -> None:
    """Checks that no object has a name; some services ignore that condition of a copy.

    Raises:
      TakenError: an object has the name.
    """
    try:
        find(service, uri)
    except FileNotFoundError:
        return
    raise TakenError(uri)
