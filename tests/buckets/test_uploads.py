"""Objects written to every service: each appears whole, and replaces no other job's."""

from __future__ import annotations

import errno
import gc
import tempfile

import pytest
from google_crc32c import value

from beam_pipeline.core.errors import AnotherJobError
from beam_pipeline.storage import files
from tests.buckets.proxy import Fault
from tests.buckets.services import MEBI, Store, random_bytes, write_a

pytestmark = pytest.mark.buckets
only_google = pytest.mark.parametrize("cloud", ["gs"], indirect=True)
no_google = pytest.mark.parametrize("cloud", ["s3", "az"], indirect=True)
sizes = pytest.mark.parametrize("size", [100, 3 * MEBI])


@pytest.mark.parametrize("size", [0, MEBI // 4, MEBI // 4 + 1, 3 * MEBI])
def test_what_is_written_is_there(cloud: Store, small_chunks: int, size: int) -> None:
    """With one request or as a stream, in buffers of any size, new or over an older one."""
    uri, content = f"{cloud.uri}/out/a", random_bytes(size)
    with files.open_output(uri, new=True) as sink:
        for start in range(0, size, 100_000):
            sink.write(content[start : start + 7], content[start + 7 : start + 100_000])
        assert cloud.names() == []
    assert cloud.get("out/a") == content
    files.write_bytes(uri, b"newer" + content)
    assert cloud.get("out/a") == b"newer" + content
    assert cloud.names() == ["out/a"]


def test_a_small_file_is_one_request(cloud: Store) -> None:
    """Name, precondition and content go together."""
    write_a(cloud, random_bytes(MEBI))
    (request,) = cloud.proxy.take_log()
    assert request.method == cloud.kinds.write[0]
    if cloud.scheme == "gs":
        assert request.query["uploadType"] == "multipart"
        assert request.query["ifGenerationMatch"] == "0"


@sizes
def test_nothing_is_visible_of_a_file_that_failed(
    cloud: Store, small_chunks: int, size: int
) -> None:
    """An error in the `with` block leaves no object, not even when Python closes what it collects."""
    with pytest.raises(ZeroDivisionError):
        write_a(cloud, random_bytes(size), lambda: 1 // 0)
    gc.collect()
    assert cloud.names() == []
    assert cloud.proxy.take_log() == []


@sizes
def test_a_new_file_never_replaces_other_bytes(cloud: Store, small_chunks: int, size: int) -> None:
    """Its own bytes are as good as writing them; others stay, also those of the same length."""
    content = random_bytes(size)
    write_a(cloud, content)
    write_a(cloud, content)
    for different in (random_bytes(size, seed=1), random_bytes(size + 1)):
        with pytest.raises(AnotherJobError, match=f"another job.*{cloud.uri}/a is there already"):
            write_a(cloud, different)
    assert cloud.get("a") == content


def test_a_file_that_another_program_wrote_is_compared_by_its_bytes(cloud: Store) -> None:
    """It may have no checksum."""
    content = random_bytes(100_000)
    cloud.put("a", content)
    write_a(cloud, content)
    cloud.put("a", bytes(len(content)))
    with pytest.raises(AnotherJobError):
        write_a(cloud, content)


def test_a_file_that_appears_while_another_is_sent(cloud: Store, small_chunks: int) -> None:
    """The one that ends first stays; the precondition counts at the end."""
    with pytest.raises(AnotherJobError, match="another job"):
        write_a(cloud, random_bytes(MEBI), lambda: cloud.put("a", b"theirs"))
    assert cloud.get("a") == b"theirs"


@sizes
@pytest.mark.parametrize("fault", [{"status": 503, "times": 2}, {"cut": True, "times": 1}])
def test_an_upload_is_retried(
    cloud: Store, small_chunks: int, size: int, fault: dict[str, int]
) -> None:
    """Also if it had succeeded and only the answer was lost."""
    cloud.proxy.spoil(Fault("PUT|POST", **fault))
    write_a(cloud, random_bytes(size))
    assert cloud.get("a") == random_bytes(size)
    assert any(request.spoilt for request in cloud.proxy.take_log())


UPLOAD_FAULTS = {
    "chunk refused": Fault("PUT", status=503, times=1, skip=1),
    "first chunk refused": Fault("PUT", status=429, times=1),
    "chunk unheard": Fault("PUT", cut=True, times=1, skip=1),
    "end refused": Fault("PUT", status=500, times=2, skip=6),
    "end unheard": Fault("PUT", cut=True, times=1, skip=6),
    "chunk half arrived": Fault("PUT", cut=True, kept=1 << 18, times=1, skip=1),
    "forgotten": Fault("PUT", status=410, times=1, skip=1),
    "chunk kept in part": Fault("PUT", kept=1 << 18, times=1, skip=1),
    "end kept in part": Fault("PUT", kept=1000, times=1, skip=6),
    "quota": Fault("PUT", status=403, reason="userRateLimitExceeded", times=1, skip=1),
}


@only_google
@pytest.mark.parametrize("fault", UPLOAD_FAULTS.values(), ids=UPLOAD_FAULTS)
def test_an_upload_in_chunks_continues_or_begins_again(
    cloud: Store, small_chunks: int, fault: Fault
) -> None:
    """A request that is refused, kept in part, or whose answer is lost, loses no byte and doubles none."""
    content = random_bytes(3 * MEBI + 100_000)
    cloud.proxy.spoil(Fault(**vars(fault)))
    write_a(cloud, content)
    assert cloud.get("a") == content
    assert any(request.spoilt for request in cloud.proxy.take_log())


@only_google
def test_a_small_upload_whose_answer_was_lost(cloud: Store) -> None:
    """The second attempt finds the bytes of the first and is content."""
    cloud.proxy.spoil(Fault("POST", cut=True, times=1))
    write_a(cloud, b"content")
    assert [request.status for request in cloud.proxy.take_log()] == [200, 412, 200]
    assert cloud.get("a") == b"content"


def test_a_temporary_file_that_cannot_be_written(
    cloud: Store, small_chunks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Distinguished from the object, with what to do about it."""
    monkeypatch.setattr(tempfile, "tempdir", "/nonexistent")
    with pytest.raises(FileNotFoundError, match=r"a temporary file cannot be written: .*; TMPDIR"):
        write_a(cloud, random_bytes(MEBI))
    assert cloud.names() == []


@no_google
def test_too_much_for_one_request(
    cloud: Store, small_chunks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error before anything is sent."""
    monkeypatch.setattr("beam_pipeline.storage.obstore_driver.MOST_BYTES", 500_000)
    with pytest.raises(OSError, match="more than 500,000 bytes") as caught:
        write_a(cloud, random_bytes(MEBI))
    assert caught.value.errno == errno.EFBIG
    assert cloud.names() == []


def test_the_service_copies(cloud: Store) -> None:
    """No byte passes this machine; a name that is taken by other bytes is kept."""
    content, uri = random_bytes(MEBI), f"{cloud.uri}/sets"
    files.write_bytes(f"{uri}/1", content)
    cloud.proxy.take_log()
    crc = value(content)
    for _ in range(2):
        assert files.copy(f"{uri}/1", f"{uri}/2", crc, new=True)
    log = cloud.proxy.take_log()
    assert cloud.reads(log) == []
    assert sum(cloud.is_copy(request) and request.status == 200 for request in log) <= 2
    assert any(map(cloud.is_copy, log))
    assert cloud.get("sets/2") == content
    assert files.holds(f"{uri}/2", len(content), crc)
    cloud.put("sets/2", content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(AnotherJobError, match="another job is writing to this folder"):
        files.copy(f"{uri}/1", f"{uri}/2", crc, new=True)
    assert files.copy(f"{uri}/1", f"{uri}/2", crc)
    assert cloud.get("sets/2") == content
    with pytest.raises(FileNotFoundError):
        files.copy(f"{uri}/none", f"{uri}/3", crc)


def test_a_copy_is_retried(cloud: Store) -> None:
    """After transient errors."""
    files.write_bytes(f"{cloud.uri}/a", b"content")
    cloud.proxy.spoil(Fault("POST|PUT", status=503, times=2))
    assert files.copy(f"{cloud.uri}/a", f"{cloud.uri}/b", 0, new=True)
    assert cloud.get("b") == b"content"
