"""Objects that appear whole, and replace no other's."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from beam_pipeline.core.errors import AnotherJobError
from beam_pipeline.storage import files, obstore_upload
from tests.gcs.content import random_bytes
from tests.gcs.proxy import Fault
from tests.stores import Store

pytestmark = pytest.mark.s3


@pytest.fixture(params=["in memory", "in a file"])
def kept(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Content held in memory, or spooled to a file."""
    if request.param == "in a file":
        monkeypatch.setattr(obstore_upload, "MEMORY_BYTES", 1000)


CONTENT = random_bytes(100_000)


def _write(uri: str, content: bytes = CONTENT, *, new: bool = True) -> None:
    with files.open_output(uri, new=new) as sink:
        for start in range(0, len(content), 777):
            sink.write(content[start : start + 777])


def test_content_arrives(store: Store, kept: None) -> None:
    """With one request, after the block; nothing is there before."""
    with files.open_output(f"{store.uri}/a", new=True) as sink:
        sink.write(CONTENT[:50_000], CONTENT[50_000:])
        assert store.names() == []
    assert store.get("a") == CONTENT
    assert [request.method for request in store.proxy.take_log()] == ["PUT"]


def test_a_temporary_file_that_cannot_be_written(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Is told apart from the object, with what to do about it."""
    monkeypatch.setattr(obstore_upload, "MEMORY_BYTES", 1000)
    monkeypatch.setattr(obstore_upload.tempfile, "tempdir", "/nonexistent")
    with pytest.raises(FileNotFoundError, match=r"a temporary file cannot be written: .*; TMPDIR"):
        _write(f"{store.uri}/a")
    assert store.names() == []


def test_an_error_in_the_block_leaves_nothing(store: Store, kept: None) -> None:
    """Nor in the folder of temporary files."""

    def fail() -> None:
        with files.open_output(f"{store.uri}/a") as sink:
            sink.write(CONTENT)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert store.names() == []


def test_another_jobs_object_is_kept(store: Store, kept: None) -> None:
    """One with the same bytes counts as written, as when a bundle runs twice."""
    uri = f"{store.uri}/a"
    _write(uri)
    _write(uri)
    with pytest.raises(AnotherJobError, match=f"{uri} is there already with 100000 bytes"):
        _write(uri, CONTENT[:-1] + b"x")
    assert store.get("a") == CONTENT
    _write(uri, b"small", new=False)
    assert store.get("a") == b"small"


def test_an_object_that_another_program_uploaded_is_compared_by_its_bytes(store: Store) -> None:
    """It has no checksum."""
    store.put("a", CONTENT)
    _write(f"{store.uri}/a")
    store.put("a", bytes(len(CONTENT)))
    with pytest.raises(AnotherJobError):
        _write(f"{store.uri}/a")


@pytest.mark.parametrize(
    "fault", [Fault("PUT", status=503, times=2), Fault("PUT", cut=True, times=2)]
)
def test_an_upload_is_repeated(store: Store, kept: None, fault: Fault) -> None:
    """Also if it had succeeded and only the answer was lost."""
    store.proxy.spoil(fault)
    _write(f"{store.uri}/a")
    assert store.get("a") == CONTENT


def test_too_much_is_an_error(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is sent."""
    monkeypatch.setattr(obstore_upload, "MOST_BYTES", 5000)
    with pytest.raises(OSError, match="more than 5,000 bytes") as caught:
        _write(f"{store.uri}/a")
    assert caught.value.errno == errno.EFBIG
    assert store.names() == []


def test_the_service_copies(store: Store, tmp_path: Path) -> None:
    """No byte passes this machine; a name that is taken by other bytes is kept."""
    _write(f"{store.uri}/a")
    (checksum,) = {obstore_upload.Checksum(CONTENT).digest()}
    crc = int.from_bytes(checksum, "big")
    store.proxy.take_log()
    for _ in range(2):
        assert files.copy(f"{store.uri}/a", f"{store.uri}/b", crc, new=True)
    log = store.proxy.take_log()
    assert store.reads(log) == []
    assert sum(map(store.is_copy, log)) == 1
    assert store.get("b") == CONTENT
    assert files.holds(f"{store.uri}/b", len(CONTENT), crc)
    store.touch("b")
    with pytest.raises(AnotherJobError):
        files.copy(f"{store.uri}/a", f"{store.uri}/b", crc, new=True)
    assert files.copy(f"{store.uri}/a", f"{store.uri}/b", crc)
    assert store.get("b") == CONTENT
    with pytest.raises(FileNotFoundError):
        files.copy(f"{store.uri}/none", f"{store.uri}/c", crc)
