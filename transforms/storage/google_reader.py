"""Objects in Google Cloud Storage opened for reading and seeking."""

from __future__ import annotations

import io

from beam_pipeline.transforms.storage.chunk_reader import open_chunks
from beam_pipeline.transforms.storage.google_objects import blob_of, download, find

CHUNK_BYTES = 8 << 20  # 8 MiB a request


def open_input(uri: str) -> io.BufferedReader:
    """Opens an object for reading and seeking, with requests of `CHUNK_BYTES`.

    After the first read, the rest is read from the same generation.

    Raises:
      OSError: the object is missing or cannot be read.
    """
    blob = blob_of(uri)

    def read(start: int, end: int) -> bytes:
        from google.api_core.exceptions import RequestRangeNotSatisfiable

        try:
            return download(uri, blob, start=start, end=end - 1)
        except OSError as error:
            if not isinstance(error.__cause__, RequestRangeNotSatisfiable):
                raise
            return b""

    return open_chunks(uri, read, lambda: find(uri).size, CHUNK_BYTES)
