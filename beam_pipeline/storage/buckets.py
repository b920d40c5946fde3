"""Buckets as file systems: everything that does not depend on the service.

A driver, a subclass, makes the requests of one client library: `google.py`; and `obstore_driver.py`, for
Azure and `s3.py`.
Retries, uploads, comparisons with what another job wrote, and reading in chunks are the same for all, here.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import io
import logging
import math
import mmap
import os
import random
import tempfile
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, BinaryIO, ClassVar, NamedTuple, TypeVar

from google_crc32c import Checksum

from beam_pipeline.core.dataset.manifest import crc32c_text
from beam_pipeline.core.errors import AnotherJobError, BucketError
from beam_pipeline.core.text import terminal_line
from beam_pipeline.storage import base, pace

RETRY_SECONDS = 300.0
"""Seconds to retry one request; of one that the service refuses because of their number, as long as none succeeds."""

_LONGER = 12  # times as long, at most, if others succeed

FIRST_DELAY = 0.2  # seconds
LONGEST_DELAY = 32.0
TRANSIENT_STATUS = frozenset({408, 429, 500, 502, 503, 504})
REFUSED_STATUS = frozenset({429, 503})
"""Answers to more requests than the service takes now."""

READ_BYTES = 8 << 20  # 8 MiB per request of a file that is read in order
ONE_REQUEST_BYTES = 8 << 20  # 8 MiB; what is larger is collected in a temporary file
PAGE_SIZE = 1000  # names that a listing request returns
_AT_ONCE = 16  # requests about many objects
_QUIET_SECONDS = 10.0  # of retries that are not worth a warning
_WARNING_SECONDS = 60.0  # between two warnings of a process

Span = tuple[int, int] | None
"""The first byte of a part of an object and the byte after it; None for the whole object."""

_logger = logging.getLogger(__name__)
_T = TypeVar("_T")


class TakenError(Exception):
    """An object that should be new exists, or one has another version than was asked for."""


class Place(NamedTuple):
    """Attributes: bucket (for some services with the account), name (may be empty, or a prefix)."""

    bucket: str
    name: str


def place_of(uri: str) -> Place:
    """Returns bucket and name of a URI.

    >>> place_of("s3://pets/cat/1.jpg")
    Place(bucket='pets', name='cat/1.jpg')
    """
    bucket, _, name = uri.partition("://")[2].partition("/")
    return Place(bucket, name)


def bucket_uri(uri: str) -> str:
    """Returns the URI of an object's bucket."""
    return f"{uri.partition('://')[0]}://{place_of(uri).bucket}"


class Permissions(NamedTuple):
    """The permissions of a service, as its documentation names them; `replace` for an object that exists."""

    list: str
    get: str
    create: str
    delete: str
    replace: str = ""

    def to_write(self, *, new: bool) -> str:
        """Returns the permission to write an object."""
        return self.create if new else self.replace or self.create


class Waiting:
    """Warns that a request has been failing for a while, once a minute in a process."""

    warned: ClassVar[float] = -math.inf

    def __init__(self, service: str) -> None:
        self._service = service
        self._began = 0.0

    def add(self, error: str, limit: float) -> None:
        """Takes the text of a transient error, and the seconds to retry at most."""
        now = time.monotonic()
        # Not with the request: a long upload may have gone well so far.
        self._began = self._began or now
        waited = now - self._began
        if waited >= _QUIET_SECONDS and now >= Waiting.warned + _WARNING_SECONDS:
            Waiting.warned = now
            text = "%s has given no good answer for %.0f s, the last: %s; retrying for up to %.0f s"
            _logger.warning(text, self._service, waited, terminal_line(error), limit)


class BucketFiles(base.FileSystem):
    """Objects of a service. A subclass makes the requests of one client library: a driver.

    An object appears, complete, when its upload ends, so no temporary name and no rename is needed.

    Every request may come from any thread. A driver makes those of `get`, `put` and `delete_together` once;
    here they are repeated after transient errors. It repeats others itself, by `retried`. Unless documented
    otherwise, 403 and 404 are a BucketError that names the bucket and the permission, and other
    permanent errors an OSError with the URI. Names are literal, without wildcards or escapes.

    Attributes:
      title: the service's name.
      container: its word for a bucket.
      permissions: the names of its permissions.
      deletes: objects that one request deletes.
      proves_conditions: True if an upload of a new object is certain to leave an existing one alone.
    """

    title: ClassVar[str]
    container: ClassVar[str] = "bucket"
    permissions: ClassVar[Permissions]
    deletes: ClassVar[int] = 1
    lists_ranges = True
    proves_conditions: ClassVar[bool] = False

    # What a driver does.

    @abstractmethod
    def permanent(self, error: Exception, uri: str) -> Exception | None:
        """Returns the error to raise for one of the library; None if the request may succeed later.

        Returns: FileNotFoundError for 404, PermissionError for 403, CredentialsError, TakenError,
          another OSError (errno `ERANGE` for a range after the end of an object), or the error
          itself if it is not of the library.
        """

    @abstractmethod
    def is_refusal(self, error: Exception) -> bool:
        """True if the service answers that there are too many requests."""

    @abstractmethod
    def text(self, error: Exception) -> str:
        """Returns an error of the library in one line."""

    @abstractmethod
    def get(self, uri: str, span: Span = None, version: str = "") -> tuple[bytes, str]:
        """Reads an object, or the bytes from a start to before an end.

        Args:
          uri: the object.
          span: (start, end), not empty; fewer bytes come if the object ends before.
          version: what an earlier call returned; the object must still be the same.

        Returns: the bytes and the version.

        Raises:
          FileNotFoundError: the object does not exist.
          PermissionError: it may not be read.
          TakenError: the object was replaced.
        """

    @abstractmethod
    def put(self, uri: str, data: bytes | mmap.mmap, crc32c: str, *, new: bool) -> None:
        """Writes an object, which is visible at the end and never before.

        Args:
          uri: the object.
          data: its bytes; a mapped file if they are more than `ONE_REQUEST_BYTES`.
          crc32c: of the data.
          new: no object may have its name.

        Raises:
          TakenError: it should be new, and exists.
        """

    @abstractmethod
    def copy(self, source: str, uri: str, *, new: bool) -> bool:
        """Copies an object within the service; returns False where the service cannot.

        Raises:
          TakenError: the copy should be new, and an object of its name exists.
        """

    @abstractmethod
    def delete_together(self, uris: Sequence[str]) -> None:
        """Deletes up to `deletes` objects of one bucket; missing ones are ignored."""

    def find_all(self, folder: str, names: Iterable[str]) -> dict[str, base.FoundFile]:
        """Describes the objects among these names in a folder that exist."""
        uris = {f"{folder}/{name}": name for name in names}
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return {uris[at.name]: at for at in pool.map(self.describe, uris) if at}

    # What all have in common.

    def retried(
        self, request: Callable[[], _T], uri: str, permission: str = "", *, missing: bool = True
    ) -> _T:
        """Makes a request, and repeats it after transient errors, with growing delays.

        Requests at once are bounded as `pace` describes. One that is refused because of their number is
        repeated as long as others succeed.

        Args:
          request: makes the request from its beginning each time it is called.
          uri: the object or folder that it is about, for errors.
          permission: needed for it. Then 403 is an error that names bucket and permission.
          missing: and so is 404.

        Raises:
          BucketError: the bucket does not exist, or the permission is missing.
          TimeoutError: it failed for `RETRY_SECONDS`; a runner may try the bundle again.
          Exception: another error that `permanent` returned.
        """
        try:
            return self._repeated(request, uri)
        except FileNotFoundError as error:
            if not (permission and missing):
                raise
            raise BucketError(
                f"{self.container} {bucket_uri(uri)} does not exist: {uri}: {error.strerror}"
            ) from error
        except PermissionError as error:
            if not permission:
                raise
            raise BucketError(
                f"{uri}: permission {permission} on {self.container} {bucket_uri(uri)} is missing: "
                f"{error.strerror}"
            ) from error

    def _repeated(self, request: Callable[[], _T], uri: str) -> _T:
        began, delay, waiting = time.monotonic(), FIRST_DELAY, Waiting(self.title)
        own = pace.paces[bucket_uri(uri)]
        this_round, answered = own.enter(), False
        try:
            while True:
                try:
                    result = request()
                    answered = True
                    return result
                except Exception as error:
                    permanent = self.permanent(error, uri)
                    if permanent is error:
                        raise
                    if permanent is not None:
                        raise permanent from error
                    text, now, refused = self.text(error), time.monotonic(), self.is_refusal(error)
                    limit = RETRY_SECONDS * (_LONGER if refused else 1)
                    since = max(began, own.answered) if refused else began
                    if now - since + delay > RETRY_SECONDS or now - began > limit:
                        raise self.timeout(now - began, text, uri) from error
                    waiting.add(text, limit)
                if refused:
                    own.refuse(this_round)
                with pace.meter.wait(refused=refused):
                    spread = delay * random.uniform(0.5, 1)  # noqa: S311 -- so that clients spread
                    this_round = own.sleep(spread)
                delay = min(2 * delay, LONGEST_DELAY)
        finally:
            own.leave(answered=answered)

    def timeout(self, seconds: float, text: str, uri: str) -> TimeoutError:
        """Returns the error of a request that was retried in vain."""
        message = f"{self.title} gave no good answer for {seconds:.0f} s; the last: {text}"
        return TimeoutError(errno.ETIMEDOUT, message, uri)

    def read(self, uri: str, size: int = 0, offset: int = -1) -> bytes:
        if offset >= 0 and size <= 0:
            return b""
        return self.fetch(uri, None if offset < 0 else (offset, offset + size))[0]

    def fetch(self, uri: str, span: Span = None, version: str = "") -> tuple[bytes, str]:
        """Reads as `get`, and again after transient errors; a PermissionError names the permission."""
        try:
            return self.retried(lambda: self.get(uri, span, version), uri)
        except PermissionError as error:
            message = f"permission {self.permissions.get} is missing: {error.strerror}"
            raise PermissionError(errno.EACCES, message, uri) from error

    def open_input(self, uri: str) -> BinaryIO:
        reader = io.BufferedReader(_Reader(self, uri), READ_BYTES)
        reader.peek(1)  # so that a missing object is an error here
        return reader

    def holds(self, uri: str, size: int, crc32c: int) -> bool:
        stored = self.describe(uri)
        return stored is not None and self._has(uri, stored, size, crc32c_text(crc32c))

    def _has(self, uri: str, stored: base.FoundFile, size: int, crc32c: str) -> bool:
        """Compares an object; it is read if another program wrote it without a checksum."""
        if stored.size != size:
            return False
        return (stored.crc32c or self._checksum(uri)) == crc32c

    def _checksum(self, uri: str) -> str:
        with self.open_input(uri) as file:
            return crc32c_text(base.checksum_of(file))

    def altered(self, folder: str, expected: Mapping[str, tuple[int, str]]) -> list[str]:
        stored = self.find_all(folder, expected) if expected else {}
        return sorted(
            name
            for name, (size, crc32c) in expected.items()
            if name not in stored or not self._has(f"{folder}/{name}", stored[name], size, crc32c)
        )

    def list_files(self, folder: str) -> Iterator[base.FoundFile]:
        return self.list_range(folder + "/")

    def check_readable(self, folder: str) -> None:
        self.first_name(folder + "/")

    def prepare_folder(self, folder: str, probe: str) -> None:
        """Creates an empty object, which must fail the second time, and deletes it again."""
        with self.open_output(probe, "", new=True):
            pass
        again = functools.partial(self.put, probe, b"", crc32c_text(0), new=True)
        try:
            if not self.proves_conditions:
                with contextlib.suppress(TakenError):
                    self.retried(again, probe, self.permissions.create)
                    raise BucketError(
                        f"{bucket_uri(folder)}: the service replaces an object in spite of the "
                        "condition If-None-Match, so another job's shards would not be safe; "
                        "write to another service, or to a local folder"
                    )
        finally:
            self.delete([probe])

    @contextlib.contextmanager
    def open_output(self, uri: str, temporary: str, *, new: bool = False) -> Iterator[Collected]:
        """Implements the protocol.

        The object is collected first: so a request can be repeated from its beginning, and have the
        condition that no object has its name. If one exists, as when a retried bundle finds the shard
        that it wrote before, it must contain the same bytes.

        Raises at the end of the block:
          AnotherJobError: a new object's name is taken by other bytes.
          BucketError: the bucket does not exist, or a permission is missing.
          OSError: the object cannot be written now, or is too large.
        """
        permission = self.permissions.to_write(new=new)
        with tempfile.SpooledTemporaryFile(ONE_REQUEST_BYTES, prefix="beam-tfrecord-") as spool:
            collected = Collected(spool, uri)
            yield collected
            data, crc32c = collected.content()
            try:
                self.retried(lambda: self.put(uri, data, crc32c, new=new), uri, permission)
            except TakenError:
                self.accept(uri, collected.size, crc32c)

    def copy_from(self, source: str, uri: str, temporary: str, *, new: bool = False) -> bool:
        stored = self.find(source)
        try:
            return self.copy(source, uri, new=new)
        except TakenError:
            self.accept(uri, stored.size, stored.crc32c or self._checksum(source))
            return True

    def accept(self, uri: str, size: int, crc32c: str) -> None:
        """Accepts an object that exists in place of a new one if it contains the same bytes.

        Raises:
          AnotherJobError: it contains others.
        """
        try:
            stored = self.find(uri)
            if self._has(uri, stored, size, crc32c):
                return
        except FileNotFoundError as error:
            message = "an object was in its place and is gone again"
            raise OSError(errno.EAGAIN, message, uri) from error
        raise AnotherJobError(
            f"another job is writing to this folder: {uri} is there already with "
            f"{stored.size} bytes, CRC-32C {stored.crc32c or 'unknown'}; this job has {size} bytes, "
            f"CRC-32C {crc32c}. Nothing of it was changed; wait for the other "
            "job or choose another --output"
        )

    def delete(self, uris: Sequence[str]) -> None:
        def delete_part(part: Sequence[str]) -> None:
            with contextlib.suppress(FileNotFoundError):  # or an earlier attempt deleted it
                request = functools.partial(self.delete_together, part)
                self.retried(request, part[0], self.permissions.delete, missing=False)

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            starts = range(0, len(uris), self.deletes)
            requests = [pool.submit(delete_part, uris[at : at + self.deletes]) for at in starts]
        # Unlike with `pool.map`, all are made, whatever the first one raises.
        for request in requests:
            request.result()


class Collected:
    """The bytes of an object: up to 8 MiB in memory, more in a temporary file.

    Attributes:
      size: how many they are.
    """

    def __init__(self, spool: tempfile.SpooledTemporaryFile[bytes], uri: str) -> None:
        self._spool = spool
        self._uri = uri
        self._checksum = Checksum()
        self.size = 0

    def write(self, *buffers: bytes) -> None:
        """Adds buffers to the object."""
        data = b"".join(buffers)
        self.size += len(data)
        self._checksum.update(data)
        with self._spooling():
            self._spool.write(data)

    def content(self) -> tuple[bytes | mmap.mmap, str]:
        """Returns the bytes, and their CRC-32C as a manifest has it."""
        crc32c = crc32c_text(int.from_bytes(self._checksum.digest(), "big"))
        if self.size > ONE_REQUEST_BYTES:
            with self._spooling():
                self._spool.flush()
            # Never closed, because a client's threads may still use it after an error.
            return mmap.mmap(self._spool.fileno(), 0, access=mmap.ACCESS_READ), crc32c
        self._spool.seek(0)
        return self._spool.read(), crc32c

    @contextlib.contextmanager
    def _spooling(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = f"a temporary file cannot be written: {error}; TMPDIR names another folder"
            raise OSError(error.errno, reason, self._uri) from error


class _Reader(io.RawIOBase):
    """An object that is read in parts of one version, each by a request."""

    def __init__(self, files: BucketFiles, uri: str) -> None:
        self._files = files
        self._uri = uri
        self._version = ""  # of the first part
        self._size: int | None = None  # unknown until the end is reached
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if whence == os.SEEK_CUR:
            offset += self._position
        elif whence == os.SEEK_END:
            if self._size is None:
                self._size = self._files.find(self._uri).size
            offset += self._size
        if offset < 0:
            raise OSError(errno.EINVAL, f"seek to {offset}", self._uri)
        self._position = offset
        return offset

    def readinto(self, buffer: Any) -> int:
        start, length, data = self._position, min(len(buffer), READ_BYTES), b""
        if self._size is not None and start >= self._size:
            return 0
        try:
            data, version = self._files.fetch(self._uri, (start, start + length), self._version)
            self._version = self._version or version
        except (FileNotFoundError, TakenError) as error:
            if not self._version:
                raise
            message = f"replaced or deleted while it was read: {error}"
            raise OSError(errno.ESTALE, message, self._uri) from error
        except OSError as error:
            if error.errno != errno.ERANGE:  # the object ends before the position
                raise
        if len(data) < length:
            self._size = start + len(data)
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def readall(self) -> bytes:
        parts = []
        while part := self.read(READ_BYTES):
            parts.append(part)
        return b"".join(parts)
