"""Objects in Google Cloud Storage opened for reading and seeking."""

from __future__ import annotations

import errno
import io
import os
from typing import Any

from beam_pipeline.transforms.storage.google_objects import blob_of, download, find

CHUNK_BYTES = 8 << 20  # 8 MiB a request


def open_input(uri: str) -> io.BufferedReader:
    """Opens an object for reading and seeking, with requests of `CHUNK_BYTES`.

    After the first read, the rest is read from the same generation.

    Raises:
      OSError: the object is missing or cannot be read.
    """
    return io.BufferedReader(_Reader(uri), 256 << 10)


class _Reader(io.RawIOBase):
    """An object that is read in chunks, one of which is held in memory."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._blob = blob_of(uri)
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
                self._size = find(self._uri).size
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
        buffer = bytearray(CHUNK_BYTES)
        while length := self.readinto(buffer):
            parts.append(bytes(memoryview(buffer)[:length]))
        return b"".join(parts)

    def _load(self) -> None:
        """Fetches the chunk that begins at the position."""
        from google.api_core.exceptions import RequestRangeNotSatisfiable

        start, end = self._position, self._position + CHUNK_BYTES - 1
        try:
            data = download(self._uri, self._blob, start=start, end=end)
        except OSError as error:
            if not isinstance(error.__cause__, RequestRangeNotSatisfiable):
                raise
            data = b""
        if len(data) < CHUNK_BYTES:
            self._size = start + len(data)
        self._chunk, self._chunk_start = data, start
