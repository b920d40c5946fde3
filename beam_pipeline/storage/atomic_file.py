"""Local files that appear whole: written under a temporary name, then moved."""

from __future__ import annotations

import errno
import os
from types import TracebackType

_MAX_BUFFERS = 512  # below Linux's IOV_MAX of 1,024
_FLUSH_BYTES = 256 << 10  # 256 KiB
_NO_SYNC = frozenset({errno.EINVAL, errno.EBADF, errno.ENOSYS, errno.ENOTSUP})


class AtomicFile:
    """A local file that appears under its name whole or not at all.

    It is written under a temporary name and moved with `os.replace` when its `with` block ends; an
    error in the block removes it. Buffers are kept, not copied, and written together.

    After the block, the file survives a power failure: first its content is synced to the disk
    (`fsync`), then its name. So a file that is written later, such as a receipt, never exists
    without the shard that it describes.

    Args:
      path: the file.
      temporary: a unique path on the same disk, in a folder that need not exist.
    """

    def __init__(self, path: str, temporary: str) -> None:
        self._path = path
        self._temporary = temporary
        self._buffers: list[bytes] = []
        self._pending = 0
        self._file = -1

    def __enter__(self) -> AtomicFile:
        os.makedirs(os.path.dirname(self._temporary), exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._file = os.open(self._temporary, flags, 0o666)
        return self

    def write(self, *buffers: bytes) -> None:
        """Adds buffers to the file; they must not change afterwards."""
        self._buffers.extend(buffers)
        self._pending += sum(map(len, buffers))
        if self._pending >= _FLUSH_BYTES or len(self._buffers) >= _MAX_BUFFERS - 8:
            self._flush()

    def _flush(self) -> None:
        buffers: list[bytes | memoryview] = list(self._buffers)
        left = self._pending
        self._buffers.clear()
        self._pending = 0
        while left:
            written = os.writev(self._file, buffers[:_MAX_BUFFERS])
            left -= written
            if not left:
                return
            while written >= len(buffers[0]):
                written -= len(buffers.pop(0))
            buffers[0] = memoryview(buffers[0])[written:]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self._flush()
                _sync(self._file)
        except BaseException:
            os.close(self._file)
            os.unlink(self._temporary)
            raise
        os.close(self._file)
        if kind is not None:
            os.unlink(self._temporary)
            return
        try:
            os.replace(self._temporary, self._path)
        except OSError:  # such as a folder of this name
            os.unlink(self._temporary)
            raise
        sync_folder(os.path.dirname(self._path))


def sync_folder(folder: str) -> None:
    """Syncs the names in a folder to the disk, if the folder may be read."""
    try:
        file = os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:
        return
    try:
        _sync(file)
    finally:
        os.close(file)


def _sync(file: int) -> None:
    """Syncs a file to the disk, if its file system supports that."""
    try:
        os.fsync(file)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise
