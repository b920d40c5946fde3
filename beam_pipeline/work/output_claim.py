"""The claim of an output folder: of all jobs on one machine, one at a time writes to it.

A claim is a lock (`flock`) on the folder itself. It leaves no file, and the system releases it
when the job ends, however it ends, so a claim never has to be broken. The writer processes of a job
share the claim: the folder is free when the last of them has gone.

What a claim does not see: jobs on other machines, and folders of a file system that locks no folders,
such as NFS. There, and in buckets, two jobs at once clash later, at a shard that both write: see
`ShardTask`. In a bucket, `DatasetFinisher` also compares the shards with what the job wrote, before
and after it writes the manifest.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Iterator

from beam_pipeline.core.errors import AnotherJobError, OutputError
from beam_pipeline.core.uris import is_remote
from beam_pipeline.work.job import Resource

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
    if is_remote(folder):
        yield
        return
    if make:
        _make(folder)
    claim = _claim(folder)
    try:
        with _CLAIM.given(claim):
            yield
    finally:
        os.close(claim)


def _make(folder: str) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"the output folder {folder} cannot be made: {error.strerror}"
            f"{'' if error.filename in (None, folder) else f' ({error.filename})'}. "
            "Choose another --output"
        ) from error


def _claim(folder: str) -> int:
    """Returns the descriptor with the lock."""
    end = time.monotonic() + _PATIENCE_S
    while True:
        claim = _open(folder)
        try:
            if _lock(claim):
                return claim
        except BaseException:
            os.close(claim)
            raise
        os.close(claim)
        if time.monotonic() > end:
            raise AnotherJobError(
                f"another job is writing to {folder}. Nothing of it was touched; wait for the other "
                "job or choose another folder"
            )
        time.sleep(0.05)


def _open(folder: str) -> int:
    try:
        claim = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise OutputError(
            f"the output folder {folder} cannot be opened: {error.strerror}"
        ) from error
    if os.access(folder, os.W_OK | os.X_OK):
        return claim
    os.close(claim)
    raise OutputError(
        f"the output folder {folder} cannot be written to: it is read-only or belongs to someone "
        "else. Change its permissions or choose another folder"
    )


def _lock(claim: int) -> bool:
    """Tries to lock; returns False if another process has the lock."""
    try:
        fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise OutputError(f"the output folder cannot be locked: {error.strerror}") from error
    return True
