"""Objects of a bucket opened for reading and seeking."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable
from typing import Any

_BUFFER_BYTES = 256 << 10  # 256 KiB


def open_chunks(
    uri: str, read: Callable[[int, int], bytes], size: Callable[[], int], chunk_bytes: int
) -> io.BufferedReader:
    """Opens an object for reading and seeking, and reads its first chunk.

    Args:
      uri: the object, for errors.
      read: reads the bytes from a start to before an end, fewer or none if the object ends before.
      size: returns the bytes of the object.
      chunk_bytes: bytes of each request.

    Raises:
      OSError: the object is missing or cannot be read.
    """
    return io.BufferedReader(_Reader(uri, read, size, chunk_bytes), _BUFFER_BYTES)


class _Reader(io.RawIOBase):
    """An object that is read in chunks, one of which is held in memory."""

    def __init__(
        self, uri: str, read: Callable[[int, int], bytes], size: Callable[[], int], chunk_bytes: int
    ) -> None:
        self._uri = uri
        self._read = read
        self._find_size = size
        self._chunk_bytes = chunk_bytes
        self._size: int | None = None  # unknown until the end is reached
        self._position = 0
        self._chunk, self._chunk_start = b"", 0
        self._load()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if whence == os.SEEK_CUR:
            offset += self._position
        elif whence == os.SEEK_END:
            if self._size is None:
                self._size = self._find_size()
            offset += self._size
        if offset < 0:
            raise OSError(errno.EINVAL, f"seek to {offset}", self._uri)
        self._position = offset
        return offset

    def readinto(self, buffer: Any) -> int:
        index = self._position - self._chunk_start
        if not 0 <= index < len(self._chunk):
            if self._size is not None and self._position >= self._size:
                return 0
            self._load()
            index = 0
        part = self._chunk[index : index + len(buffer)]
        buffer[: len(part)] = part
        self._position += len(part)
        return len(part)

    def readall(self) -> bytes:
        parts = []
        buffer = bytearray(self._chunk_bytes)
        while length := self.readinto(buffer):
            parts.append(bytes(memoryview(buffer)[:length]))
        return b"".join(parts)

    def _load(self) -> None:
        """Fetches the chunk that begins at the position."""
        start = self._position
        data = self._read(start, start + self._chunk_bytes)
        if len(data) < self._chunk_bytes:
            self._size = start + len(data)
        self._chunk, self._chunk_start = data, start
