"""Objects opened for reading and seeking, in an emulated bucket."""

from __future__ import annotations

import errno
import io
import os

import pytest

from beam_pipeline.storage import (
    files,
    google_client,
)
from tests.gcs.cloud import Cloud
from tests.gcs.content import random_bytes

pytestmark = pytest.mark.gcs


def test_a_file_is_read_in_order_and_by_jumping(cloud: Cloud, small_chunks: int) -> None:
    """It reads as the same bytes in memory do, a request a chunk."""
    content = random_bytes(3 * small_chunks + 5)
    cloud.put("long", content)
    uri, memory = f"{cloud.uri}/long", io.BytesIO(content)
    with files.open_input(uri) as file:
        cloud.proxy.take_log()
        assert file.read(10) == memory.read(10)
        assert cloud.proxy.take_log() == []
        for offset, whence in ((-7, os.SEEK_END), (small_chunks - 3, 0), (9, os.SEEK_CUR)):
            assert file.seek(offset, whence) == memory.seek(offset, whence)
            assert file.read(6) == memory.read(6)
        assert file.seek(2 * small_chunks) == memory.seek(2 * small_chunks)
        assert file.read() == memory.read()
        assert file.read() == b""
    cloud.proxy.take_log()
    with files.open_input(uri) as file:
        assert file.read() == content
    assert len(cloud.proxy.take_log()) == 4


def test_a_file_that_fills_its_last_chunk_ends_there(cloud: Cloud, small_chunks: int) -> None:
    """The end is found by asking once more."""
    cloud.put("even", random_bytes(small_chunks))
    with files.open_input(f"{cloud.uri}/even") as file:
        assert file.read() == random_bytes(small_chunks)
    cloud.put("empty", b"")
    with files.open_input(f"{cloud.uri}/empty") as file:
        assert file.read() == b""


@pytest.mark.promise("object_replaced")
def test_all_chunks_are_of_one_generation(cloud: Cloud, small_chunks: int) -> None:
    """An object that is replaced while it is read is an error, never a mixture."""
    cloud.put("long", random_bytes(3 * small_chunks))
    with files.open_input(f"{cloud.uri}/long") as file:
        assert file.read(small_chunks) == random_bytes(3 * small_chunks)[:small_chunks]
        cloud.put("long", bytes(3 * small_chunks))
        with pytest.raises(OSError, match="replaced or deleted while it was read: 404") as caught:
            file.read()
        assert caught.value.errno == errno.ESTALE
        assert caught.value.filename == f"{cloud.uri}/long"


def test_a_proxy_is_used_as_by_the_client(
    cloud: Cloud, small_chunks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a proxy, Google's client reads: whole objects, parts, and the same errors."""
    content = random_bytes(2 * small_chunks + 5)
    cloud.put("a #1.bin", content)
    uri = f"{cloud.uri}/a #1.bin"
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://storage.invalid")
    monkeypatch.setenv("HTTP_PROXY", cloud.proxy.url)
    google_client._forget_session()
    try:
        assert files.read_image(uri, len(content)) == content
        assert files.read_image(uri, 4, 3) == content[3:7]
        with files.open_input(uri) as file:
            assert file.read() == content
        with pytest.raises(FileNotFoundError):
            files.read_image(f"{cloud.uri}/none", 1)
    finally:
        google_client._forget_session()
