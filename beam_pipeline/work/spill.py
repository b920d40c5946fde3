r"""Keeps packed references in a temporary file while an engine of this process moves them.

Such an engine contains all that it moves in memory, and up to six copies of it where it groups. It never
looks into packed references, so what it moves may as well be their place:

    b"\xff\xff\xff\xff" + offset, 8 bytes + length, 4 bytes

No packed references begin like that, and no encoded batch, which begins with the number of its items.
The first 16 MiB of a job stay in memory, so most jobs write no file; so does the rest if the file
cannot be written or its disk is nearly full. The file is nameless: it is gone when the process ends,
however it ends.
"""

from __future__ import annotations

import contextlib
import os
import struct
import tempfile
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from beam_pipeline.work.job import Resource

HELD_BYTES = 16 << 20
"""Bytes of a job that the engine contains itself."""
LEAST_FREE_BYTES = 1 << 30
"""Bytes that are left free on the disk."""

_MARK = b"\xff\xff\xff\xff"
_PLACE = struct.Struct("<4sQI")
_LEAST_BYTES = 4 * _PLACE.size  # smaller ones are not worth a place
_CHECK_BYTES = 64 << 20  # written between looks at the free space


@dataclass
class _File:
    """The file of a job.

    Attributes:
      held_bytes: of the job that stay in memory.
    """

    held_bytes: int
    _end: int = 0
    _checked: int = 0
    _descriptor: int = -1
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def write(self, data: bytes) -> int | None:
        """Adds data; returns its offset, or None if it has to stay in memory."""
        with self._lock:
            if self.held_bytes > 0:
                self.held_bytes -= len(data)
                return None
            try:
                return self._written(data)
            except OSError:
                return None

    def _written(self, data: bytes) -> int | None:
        if self._descriptor < 0:
            with tempfile.TemporaryFile() as file:
                self._descriptor = os.dup(file.fileno())
        if self._end >= self._checked:
            found = os.fstatvfs(self._descriptor)
            if found.f_bavail * found.f_frsize < LEAST_FREE_BYTES + _CHECK_BYTES:
                return None
            self._checked = self._end + _CHECK_BYTES
        offset, rest = self._end, memoryview(data)
        while rest:
            count = os.pwrite(self._descriptor, rest, offset + len(data) - len(rest))
            rest = rest[count:]
        self._end = offset + len(data)
        return offset

    def read(self, offset: int, length: int) -> bytes:
        """The data at an offset. Raises OSError."""
        data = os.pread(self._descriptor, length, offset)
        while len(data) < length:
            more = os.pread(self._descriptor, length - len(data), offset + len(data))
            if not more:
                raise OSError("the temporary file of references was cut short")
            data += more
        return data

    def close(self) -> None:
        """Gives the disk space back."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


_FILE = Resource[_File]()


@contextlib.contextmanager
def spill_file() -> Iterator[None]:
    """While the block runs, the job may write to a file. All of it has to run in this process."""
    with contextlib.closing(_File(HELD_BYTES)) as file, _FILE.given(file):
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


def spill_parts(parts: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """Yields (part, what `spill` returns of its packed references)."""
    return ((number, spill(packed)) for number, packed in parts)


def unspill_all(parts: Iterable[bytes]) -> list[bytes]:
    """Returns the packed references that `spill` took. Raises OSError if the file cannot be read."""
    return list(map(unspill, parts))
