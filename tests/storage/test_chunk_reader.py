"""Objects read in chunks: the bytes of a file, with few requests."""

from __future__ import annotations

import errno
import io
import os

import pytest

from beam_pipeline.storage.chunk_reader import open_chunks

CONTENT = bytes(range(256)) * 5
CHUNK = 500


def _open(requests: list[tuple[int, int]]) -> io.BufferedReader:
    def read(start: int, end: int) -> bytes:
        requests.append((start, end))
        return CONTENT[start:end]

    return open_chunks("s3://pets/a", read, lambda: len(CONTENT), CHUNK)


def test_all_is_read_chunk_by_chunk() -> None:
    """The short last chunk is the end; there is no request after it."""
    requests: list[tuple[int, int]] = []
    with _open(requests) as file:
        assert file.read() == CONTENT
    assert requests == [(0, 500), (500, 1000), (1000, 1500)]


def test_seeking() -> None:
    """From the beginning, from here, and from the end, which the size tells."""
    with _open([]) as file:
        assert file.seek(700) == 700
        assert file.read(3) == CONTENT[700:703]
        assert file.seek(-2, os.SEEK_CUR) == 701
        assert file.read(1) == CONTENT[701:702]
        assert file.seek(-5, os.SEEK_END) == 1275
        assert file.read() == CONTENT[-5:]
        with pytest.raises(OSError, match="seek to -1") as caught:
            file.seek(-1)
        assert caught.value.errno == errno.EINVAL


def test_an_error_of_the_first_chunk_is_raised_at_once() -> None:
    """As when a file is opened that is not there."""

    def read(start: int, end: int) -> bytes:
        raise FileNotFoundError(errno.ENOENT, "404", "s3://pets/a")

    with pytest.raises(FileNotFoundError):
        open_chunks("s3://pets/a", read, lambda: 0, CHUNK)
