"""Uploads to Google Cloud Storage through the client library's public interface."""

from __future__ import annotations

import base64
import errno
import functools
from collections.abc import Callable
from types import TracebackType
from typing import Any

from google_crc32c import Checksum

from beam_pipeline.core.errors import AnotherJobError
from beam_pipeline.storage.google_client import (
    TIMEOUT,
    answer_is_transient,
    data_corruption,
    invalid_response,
    retried,
    retry_policy,
    translated_errors,
)
from beam_pipeline.storage.google_objects import (
    CREATE,
    DELETE,
    GET,
    blob_of,
    bucket_errors,
    delete_one,
    find,
)

CHUNK_BYTES = 16 << 20  # 16 MiB; a multiple of 256 KiB
ONE_REQUEST_BYTES = 8 << 20  # 8 MiB; up to this size the library sends name and content together
_HANDED_ON_BYTES = (
    1 << 20
)  # 1 MiB; buffers are joined up to this size before the library copies them
_CONTENT_TYPE = "application/octet-stream"
_LOST_STATUS = (404, 410)


@functools.cache
def _writer_class() -> Any:
    """Returns the library's writer of a resumable upload, with one change.

    Python closes an open file when it is garbage collected, and `BlobWriter.close` completes the
    upload: after a failed write, a truncated shard would appear. So `close` does nothing here, and
    `complete` completes the upload.

    The library's own remedy, `terminate`, does not work: version 3.17 sends its DELETE to the URL
    that begins uploads, not to that of the upload, and if the request fails, the writer stays open.
    An upload that is not completed is never visible, and the server discards it after a week.
    """
    from google.cloud.storage.fileio import BlobWriter

    class Writer(BlobWriter):  # type: ignore[misc, unused-ignore]
        def close(self) -> None:
            """Does nothing."""

        def complete(self) -> None:
            """Sends the rest, which makes the object visible."""
            super().close()

    return Writer


class Upload:
    """An object that appears, complete, only if its `with` block ends without error.

    Up to 8 MiB are sent with one request. More is sent by a resumable upload, in chunks, one of
    which is held in memory and resent after a transient error; the server drops bytes that it
    already has.

    A new object is created only if none of its name exists. If one exists, as when a retried bundle
    finds the shard that it wrote before, it must hold the same bytes.

    Raises on exit:
      AnotherJobError: a new object's name is taken by other bytes.
      BucketError: the bucket does not exist, or a permission is missing.
      OSError: the object cannot be written now.
    """

    def __init__(self, uri: str, *, new: bool = False) -> None:
        self._uri = uri
        self._new = new
        self._buffers: list[bytes] = []
        self._pending = 0
        self._size = 0
        self._checksum = Checksum()
        self._writer: Any = None
        self._taken = False

    def __enter__(self) -> Upload:
        self._blob = blob_of(self._uri)
        return self

    def write(self, *buffers: bytes) -> None:
        """Adds buffers to the object; they must not change afterwards."""
        self._buffers.extend(buffers)
        self._pending += sum(map(len, buffers))
        if self._pending > (ONE_REQUEST_BYTES if self._writer is None else _HANDED_ON_BYTES):
            self._send(self._take())

    def _take(self) -> bytes:
        data = b"".join(self._buffers)
        self._buffers, self._pending = [], 0
        return data

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            return
        data = self._take()
        if self._writer is None:
            self._count(data)
            self._unless_taken(lambda: retried(lambda: self._send_whole(data), self._uri))
        else:
            self._send(data)
            self._complete()
        if self._taken:
            self._compare()

    def _count(self, data: bytes) -> None:
        self._size += len(data)
        self._checksum.update(data)

    def _crc32c(self) -> str:
        """Returns the checksum in the server's notation."""
        return base64.b64encode(self._checksum.digest()).decode()

    def _precondition(self) -> dict[str, int]:
        return {"if_generation_match": 0} if self._new else {}

    def _unless_taken(self, request: Callable[[], object]) -> None:
        """Makes a request of the upload; records if the name turns out to be taken."""
        from google.api_core.exceptions import PreconditionFailed

        needed = CREATE if self._new else f"{CREATE} or {DELETE}"
        try:
            with bucket_errors(self._uri, needed):
                request()
        except PreconditionFailed:
            self._taken = True

    def _send_whole(self, data: bytes) -> None:
        self._blob.upload_from_string(
            data,
            _CONTENT_TYPE,
            checksum="crc32c",
            retry=None,
            timeout=TIMEOUT,
            **self._precondition(),
        )

    def _send(self, data: bytes) -> None:
        """Passes bytes to the resumable upload, which sends them when they fill a chunk."""
        self._count(data)
        if self._taken:
            return
        if self._writer is None:
            self._writer = _writer_class()(
                self._blob,
                chunk_size=CHUNK_BYTES,
                retry=retry_policy(answer_is_transient),
                content_type=_CONTENT_TYPE,
                checksum="crc32c",
                timeout=TIMEOUT,
                **self._precondition(),
            )
        self._unless_taken(lambda: self._resumable(lambda: self._writer.write(data)))

    def _complete(self) -> None:
        """Completes the resumable upload, and checks that the object exists."""
        if not self._taken:
            self._unless_taken(lambda: self._resumable(self._writer.complete))
        if not self._taken and not self._is_there():
            raise _lost(self._uri, "the upload ended, but the object is not as it was sent")

    def _resumable(self, request: Callable[[], object]) -> None:
        """Makes requests of the resumable upload. Raises as `translated_errors`."""
        try:
            with translated_errors(self._uri):
                self._watched(request)
        except data_corruption() as error:
            delete_one(self._uri)
            what = "the upload arrived damaged and was deleted again"
            raise _lost(self._uri, what) from error

    def _watched(self, request: Callable[[], object]) -> None:
        try:
            request()
        except ValueError as error:  # the server has stored less of a chunk than was sent
            raise _lost(self._uri, f"the upload cannot go on: {error}") from error
        except invalid_response() as error:
            answer: Any = error.response  # type: ignore[attr-defined]
            # A POST begins an upload; the answer is 404 if the bucket does not exist.
            if answer.status_code in _LOST_STATUS and answer.request.method == "PUT":
                raise _lost(self._uri, "the server has forgotten the upload") from error
            raise

    def _is_there(self) -> bool:
        try:
            found = find(self._uri)
        except FileNotFoundError:
            return False
        return (found.size, found.crc32c) == (self._size, self._crc32c())

    def _compare(self) -> None:
        """Accepts an existing object with this name if it holds the same bytes."""
        try:
            found = find(self._uri)
        except FileNotFoundError as error:
            raise _lost(self._uri, "an object was in its place and is gone again") from error
        if (found.size, found.crc32c) != (self._size, self._crc32c()):
            raise AnotherJobError(
                f"another job is writing to this folder: {self._uri} is there already with "
                f"{found.size} bytes, CRC-32C {found.crc32c}; this job has {self._size} bytes, "
                f"CRC-32C {self._crc32c()}. Nothing of it was changed; wait for the other "
                "job or choose another --output"
            )


def copy_object(source: str, uri: str, *, new: bool = False) -> None:
    """Has the service make an object of another one. A large one takes several requests.

    Args:
      source: the other object.
      uri: the object; an older one is replaced.
      new: no object of its name may exist, unless it holds the same bytes.

    Raises:
      AnotherJobError: a new object's name is taken by other bytes.
      BucketError: the bucket does not exist, or a permission is missing.
      FileNotFoundError: there is no object to copy.
      OSError: the object cannot be copied now.
    """
    from google.api_core.exceptions import PreconditionFailed

    wanted, copied = find(source), blob_of(source)
    blob = blob_of(uri)
    precondition = {"if_generation_match": 0} if new else {}
    token: str | None = None

    def request() -> str | None:
        answer = blob.rewrite(copied, token=token, retry=None, timeout=TIMEOUT, **precondition)
        next_token: str | None = answer[0]
        return next_token

    needed = f"{GET} and {CREATE}" if new else f"{GET}, {CREATE} or {DELETE}"
    try:
        with bucket_errors(uri, needed):
            while token := retried(request, uri):
                pass
    except PreconditionFailed:
        found = find(uri)
        if (found.size, found.crc32c) != (wanted.size, wanted.crc32c):
            raise AnotherJobError(
                f"another job is writing to this folder: {uri} is there already with {found.size} "
                f"bytes, CRC-32C {found.crc32c}, expected a copy of {source} with {wanted.size} "
                f"bytes, CRC-32C {wanted.crc32c}. Nothing of it was changed; wait for the other "
                "job or choose another --output"
            ) from None


def _lost(uri: str, what: str) -> OSError:
    """Returns the error of a lost upload, which a retry of the bundle must repeat."""
    return OSError(errno.EAGAIN, what, uri)
