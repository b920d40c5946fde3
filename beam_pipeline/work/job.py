r"""The job that a thread works for, and what it has in the process that launched it.

A job has writer processes, a listener of its progress, the claim of its output folder and a file for
references. Several jobs may run in one process, in threads of their own, and an engine works for each in
further threads. So a `DoFn` or a coder keeps the job that made it, and the threads that it runs
in enter that job:

    with reported_to(listener):   # a job that has a listener
        dofn = MyDoFn()           # keeps current_job()
    ...
    enter(dofn.job)               # in a thread of the engine
    report_progress(counts)       # the listener gets them

A pickled job is its id: on other machines, and when it has ended, it has nothing.

**Progress** goes from writer processes, by their connections, and from threads of the engine to the listener.
On other machines, workers count what they report in the counters of `outcome.py`.

**A claim** is a lock (`flock`) on the output folder itself. It leaves no file, and the system releases it
when the job ends, however it ends, so a claim never has to be broken. The writer processes of a job
share the claim: the folder is free when the last of them has gone. It does not see jobs on other machines, and
file systems that lock no folders, such as NFS. There, and in buckets, two jobs at once clash later, at a shard that
both write: see `ShardTask`. In a bucket, `finish` also compares the shards with what the job wrote.

**The file for references** holds what an engine of this process moves. Such an engine contains all of it in
memory, and up to six copies where it groups. It never looks into packed references, so what it moves may
as well be their place:

    b"\xff\xff\xff\xff" + offset, 8 bytes + length, 4 bytes

No packed references begin like that, and no encoded batch, which begins with the number of its items.
The first 16 MiB of a job stay in memory, so most jobs write no file; so does the rest if the file
cannot be written or its disk is nearly full. The file is nameless: it is gone when the process ends.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, Generic, NamedTuple, TypeVar

from beam_pipeline.core import errors, uris

_T = TypeVar("_T")


class Job:
    """A job in the process that launched it."""

    def __init__(self, job_id: str, resources: Mapping[Resource[Any], Any]) -> None:
        self.id = job_id
        self.resources = resources

    def __reduce__(self) -> tuple[Any, ...]:
        return _job_of, (self.id,)


_NO_JOB = Job("", {})
_running: dict[str, Job] = {}
_current: ContextVar[Job] = ContextVar("job", default=_NO_JOB)


def _job_of(job_id: str) -> Job:
    return _running.get(job_id, _NO_JOB)


def current_job() -> Job:
    """The job that this thread works for."""
    return _current.get()


class Resource(Generic[_T]):
    """A kind of thing that a job may have."""

    def get(self) -> _T | None:
        """That of the current job; None if it has none."""
        return _current.get().resources.get(self)

    @contextlib.contextmanager
    def given(self, value: _T) -> Iterator[None]:
        """While the block runs, this thread works for a job that has this and what its job had."""
        job = Job(os.urandom(16).hex(), {**_current.get().resources, self: value})
        _running[job.id] = job
        token = _current.set(job)
        try:
            yield
        finally:
            _current.reset(token)
            del _running[job.id]


# --- progress -------------------------------------------------------------------------------------


class Counts(NamedTuple):
    """What was done since the last report, or the totals of the job.

    Attributes:
      listed: images that were listed.
      samples: samples that were written or left out.
      image_bytes: the bytes of their images.
      is_total: True for the samples and bytes of the whole job.
    """

    listed: int = 0
    samples: int = 0
    image_bytes: int = 0
    is_total: bool = False


Listener = Callable[[Counts], object]
"""Takes counts; may be called by several threads at once."""

_LISTENER = Resource[Listener]()
reported_to = _LISTENER.given
"""While the block runs, counts of the job go to a listener."""


def enter(job: Job, listener: Listener | None = None) -> None:
    """Makes this thread, which is an engine's, work for a job until it enters another one.

    Args:
      job: the job.
      listener: gets its counts if nobody else does, also after the job is entered again without one.
    """
    if listener and _LISTENER not in job.resources:
        _current.set(Job(job.id, {**job.resources, _LISTENER: listener}))
    elif job.id != _current.get().id:
        _current.set(job)


def report_progress(counts: Counts) -> None:
    """Reports counts to the listener of the job, if it has one."""
    if listener := _LISTENER.get():
        listener(counts)


# --- the claim of an output folder ----------------------------------------------------------------

_PATIENCE_S = 1.0
"""Seconds to wait for a claim: the writer processes of a killed job end sooner."""

_NO_LOCKS = frozenset({errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP})

_CLAIM = Resource[int]()


def held_claims() -> tuple[int, ...]:
    """The file descriptor of this job's claim, to be passed on to processes that write for it."""
    claim = _CLAIM.get()
    return () if claim is None else (claim,)


@contextlib.contextmanager
def claimed(folder: str, *, make: bool = False) -> Iterator[None]:
    """Holds the claim of an output folder while the block runs; does nothing for a remote folder.

    Args:
      folder: the output folder.
      make: make the folder and its parents if they are missing.

    Raises:
      OutputError: another job contains the claim, or the folder cannot be made or written to.
    """
    if uris.is_remote(folder):
        yield
        return
    try:
        if make:
            os.makedirs(folder, exist_ok=True)
        claim = _locked(folder)
    except OSError as error:
        where = f" ({error.filename})" if error.filename not in (None, folder) else ""
        raise errors.OutputError(
            f"the output folder {folder} cannot be made or written to: {error.strerror}{where}. "
            "Change its permissions or choose another --output"
        ) from error
    try:
        with _CLAIM.given(claim):
            yield
    finally:
        os.close(claim)


def _locked(folder: str) -> int:
    """The descriptor of a folder, with the lock where its file system has locks."""
    claim = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not os.access(folder, os.W_OK | os.X_OK):
            read_only = os.fstatvfs(claim).f_flag & os.ST_RDONLY
            code = errno.EROFS if read_only else errno.EACCES
            raise OSError(code, os.strerror(code))
        end = time.monotonic() + _PATIENCE_S
        while not _locks(claim):
            if time.monotonic() > end:
                raise errors.AnotherJobError(
                    f"another job is writing to {folder}. Nothing of it was touched; wait for the other "
                    "job or choose another folder"
                )
            time.sleep(0.05)
        return claim
    except BaseException:
        os.close(claim)
        raise


def _locks(claim: int) -> bool:
    """Locks a folder, unless its file system has no locks; False if another job has locked it."""
    try:
        fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return True


# --- the file for references ----------------------------------------------------------------------

HELD_BYTES = 16 << 20
"""Bytes of a job that the engine contains itself."""
LEAST_FREE_BYTES = 1 << 30
"""Bytes that are left free on the disk."""

_MARK = b"\xff\xff\xff\xff"
_PLACE = struct.Struct("<4sQI")
_LEAST_BYTES = 4 * _PLACE.size  # smaller ones are not worth a place
_CHECK_BYTES = 64 << 20  # written between looks at the free space


class _SpillFile:
    """The file of a job."""

    def __init__(self) -> None:
        self._held = HELD_BYTES
        self._end = self._checked = 0
        self._descriptor = -1
        self._lock = threading.Lock()

    def write(self, data: bytes) -> int | None:
        """Adds data; returns its offset, or None if it has to stay in memory."""
        with self._lock, contextlib.suppress(OSError):
            if self._held <= 0:
                return self._written(data)
            self._held -= len(data)
        return None

    def _written(self, data: bytes) -> int | None:
        if self._descriptor < 0:
            with tempfile.TemporaryFile() as file:
                self._descriptor = os.dup(file.fileno())
        if self._end >= self._checked:
            disk = os.fstatvfs(self._descriptor)
            if disk.f_bavail * disk.f_frsize < LEAST_FREE_BYTES + _CHECK_BYTES:
                return None
            self._checked = self._end + _CHECK_BYTES
        offset, written = self._end, 0
        while written < len(data):
            written += os.pwrite(self._descriptor, memoryview(data)[written:], offset + written)
        self._end = offset + len(data)
        return offset

    def read(self, offset: int, length: int) -> bytes:
        """The data at an offset. Raises OSError."""
        data = os.pread(self._descriptor, length, offset)
        if len(data) < length:
            raise OSError("the temporary file of references was cut short")
        return data

    def close(self) -> None:
        """Gives the disk space back."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


_FILE = Resource[_SpillFile]()


@contextlib.contextmanager
def spill_file() -> Iterator[None]:
    """While the block runs, the job may write to a file. All of it has to run in this process."""
    with contextlib.closing(_SpillFile()) as file, _FILE.given(file):
        yield


def spill(data: bytes) -> bytes:
    """Returns the place of data in the file of this job, or the data itself.

    Args:
      data: packed references, or an encoded batch.
    """
    file = _FILE.get()
    if file is None or len(data) < _LEAST_BYTES:
        return data
    offset = file.write(data)
    return data if offset is None else _PLACE.pack(_MARK, offset, len(data))


def unspill(data: bytes) -> bytes:
    """Returns the data that `spill` took. Raises OSError if the file cannot be read."""
    if not data.startswith(_MARK):
        return data
    file = _FILE.get()
    assert file is not None, "references in the file of another job"
    _, offset, length = _PLACE.unpack(data)
    return file.read(offset, length)


def unspill_all(parts: Iterable[bytes]) -> list[bytes]:
    """Returns the packed references that `spill` took. Raises OSError if the file cannot be read."""
    return list(map(unspill, parts))
