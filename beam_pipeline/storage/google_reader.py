"""Objects in Google Cloud Storage read whole, in part, or opened for reading and seeking."""

from __future__ import annotations

import errno
import io
from functools import partial

from beam_pipeline.storage.chunk_reader import open_chunks
from beam_pipeline.storage.google_client import retried
from beam_pipeline.storage.google_download import Download, download
from beam_pipeline.storage.google_objects import GET, find, parts_of

CHUNK_BYTES = 8 << 20  # 8 MiB a request


def read(uri: str, size: int = 0, offset: int = -1) -> bytes:
    """Reads an object, or part of it, with one request; a whole object's checksum is compared.

    Args:
      uri: the object.
      size: the number of bytes, for part of it.
      offset: the first byte; -1 for all bytes, whatever the size is now.

    Raises:
      OSError: the object is missing, cannot be read, or ends before `offset`.
    """
    if offset >= 0 and size <= 0:
        return b""
    return _read(uri, None if offset < 0 else (offset, offset + size)).data


def open_input(uri: str) -> io.BufferedReader:
    """Opens an object for reading and seeking, with requests of `CHUNK_BYTES`.

    After the first read, the rest is read from the same generation.

    Raises:
      OSError: the object is missing, cannot be read, or was replaced while it was read.
    """
    generation: int | None = None

    def read_chunk(start: int, end: int) -> bytes:
        from google.api_core.exceptions import RequestRangeNotSatisfiable

        nonlocal generation
        try:
            found = _read(uri, (start, end), generation)
        except FileNotFoundError as error:
            if generation is None:
                raise
            what = f"replaced or deleted while it was read: {error.strerror}"
            raise OSError(errno.ESTALE, what, uri) from error
        except OSError as error:
            if not isinstance(error.__cause__, RequestRangeNotSatisfiable):
                raise
            return b""
        generation = found.generation
        return found.data

    return open_chunks(uri, read_chunk, lambda: find(uri).size, CHUNK_BYTES)


def _read(uri: str, span: tuple[int, int] | None, generation: int | None = None) -> Download:
    """Downloads with retries, and names a missing permission."""
    bucket, name = parts_of(uri)
    try:
        return retried(partial(download, bucket, name, span, generation), uri)
    except PermissionError as error:
        what = f"permission {GET} is missing: {error.strerror}"
        raise PermissionError(errno.EACCES, what, uri) from error
