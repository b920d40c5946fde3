"""Uploads to an emulated bucket, and faults in each of their requests."""

from __future__ import annotations

import errno
import gc

import pytest

from beam_pipeline.core.errors import OutputError
from beam_pipeline.storage import (
    files,
)
from tests.gcs.cloud import Cloud
from tests.gcs.content import MEBI, random_bytes, write_a
from tests.gcs.proxy import Fault

pytestmark = pytest.mark.gcs


@pytest.mark.parametrize(
    "size", [0, 1, MEBI // 4, MEBI // 4 + 1, MEBI // 2, MEBI // 2 + 1, 3 * MEBI]
)
def test_what_is_written_is_there(cloud: Cloud, small_chunks: int, size: int) -> None:
    """In one piece or by chunks, in buffers of any size, new or over an older one."""
    uri, content = f"{cloud.uri}/out/a", random_bytes(size)
    with files.open_output(uri, new=True) as sink:
        for start in range(0, size, 100_000):
            sink.write(content[start : start + 7], content[start + 7 : start + 100_000])
    assert cloud.get("out/a") == content
    files.write_bytes(uri, b"newer" + content)
    assert cloud.get("out/a") == b"newer" + content
    assert cloud.names() == ["out/a"]


def test_small_files_take_one_request(cloud: Cloud) -> None:
    """Name, precondition and content go together."""
    with files.open_output(f"{cloud.uri}/a", new=True) as sink:
        sink.write(random_bytes(MEBI))
    (request,) = cloud.proxy.take_log()
    assert (request.method, request.query["uploadType"]) == ("POST", "multipart")
    assert request.query["ifGenerationMatch"] == "0"


@pytest.mark.parametrize("size", [100, 3 * MEBI])
def test_nothing_is_visible_of_a_file_that_failed(
    cloud: Cloud, small_chunks: int, size: int
) -> None:
    """An error in the `with` block leaves no object, not even when Python closes what it collects."""
    with pytest.raises(ZeroDivisionError):
        write_a(cloud, random_bytes(size), lambda: 1 // 0)
    gc.collect()
    assert cloud.names() == []
    requests = cloud.proxy.take_log()
    if size > small_chunks:
        assert [request.method for request in requests] == ["POST", *["PUT"] * 6]
    else:
        assert requests == []


@pytest.mark.parametrize("size", [100, 3 * MEBI])
def test_a_new_file_may_find_its_own_bytes(cloud: Cloud, small_chunks: int, size: int) -> None:
    """What an earlier attempt wrote is as good as writing it."""
    write_a(cloud, random_bytes(size))
    write_a(cloud, random_bytes(size))
    assert cloud.get("a") == random_bytes(size)


@pytest.mark.parametrize("size", [100, 3 * MEBI])
def test_a_new_file_never_replaces_other_bytes(cloud: Cloud, small_chunks: int, size: int) -> None:
    """Bytes of another job stay, also those of the same length, and the error says whose they are."""
    write_a(cloud, random_bytes(size))
    for other in (random_bytes(size, seed=1), random_bytes(size + 1)):
        with pytest.raises(OutputError, match=f"another job.*{cloud.uri}/a is there already"):
            write_a(cloud, other)
    assert cloud.get("a") == random_bytes(size)


def test_a_file_that_appears_while_another_is_sent(cloud: Cloud, small_chunks: int) -> None:
    """The one that ends first stays; the precondition is looked at again at the end."""
    with pytest.raises(OutputError, match="another job"):
        write_a(cloud, random_bytes(MEBI), lambda: cloud.put("a", b"theirs"))
    assert cloud.get("a") == b"theirs"


UPLOAD_FAULTS = {
    "begin refused": Fault("POST", status=503, times=2),
    "begin unheard": Fault("POST", cut=True, times=1),
    "chunk refused": Fault("PUT", status=503, times=1, skip=1),
    "first chunk refused": Fault("PUT", status=429, times=1),
    "chunk unheard": Fault("PUT", cut=True, times=1, skip=1),
    "end refused": Fault("PUT", status=500, times=2, skip=6),
    "end unheard": Fault("PUT", cut=True, times=1, skip=6),
    "chunk half arrived": Fault("PUT", cut=True, kept=1 << 18, times=1, skip=1),
}


@pytest.mark.parametrize("fault", UPLOAD_FAULTS.values(), ids=UPLOAD_FAULTS)
def test_an_upload_goes_on_where_it_was(cloud: Cloud, small_chunks: int, fault: Fault) -> None:
    """A request of it that is refused, or whose answer is lost, costs no byte and doubles none."""
    cloud.proxy.spoil(fault)
    write_a(cloud, random_bytes(3 * MEBI))
    assert cloud.get("a") == random_bytes(3 * MEBI)
    assert any(request.spoilt for request in cloud.proxy.take_log())


def test_a_small_upload_whose_answer_was_lost(cloud: Cloud) -> None:
    """The second attempt finds the bytes of the first and is content."""
    cloud.proxy.spoil(Fault("POST", cut=True, times=1))
    write_a(cloud, b"content")
    assert [request.status for request in cloud.proxy.take_log()] == [200, 412, 200]
    assert cloud.get("a") == b"content"


def test_an_upload_that_the_server_forgot(cloud: Cloud, small_chunks: int) -> None:
    """The bundle, not the file, is to be tried again."""
    cloud.proxy.spoil(Fault("PUT", status=410, skip=1))
    with pytest.raises(OSError, match="forgotten") as caught:
        write_a(cloud, random_bytes(3 * MEBI))
    assert caught.value.errno == errno.EAGAIN
    assert cloud.names() == []


LOSSES = {
    "chunk kept in part": (Fault("PUT", kept=1 << 18, times=1, skip=1), "the upload cannot go on"),
    "end kept in part": (
        Fault("PUT", kept=1000, times=1, skip=6),
        "the object is not as it was sent",
    ),
    "quota": (
        Fault("PUT", status=403, reason="userRateLimitExceeded", times=1, skip=1),
        "the upload cannot go on",
    ),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_an_upload_that_cannot_go_on_is_an_error(
    cloud: Cloud, small_chunks: int, loss: str
) -> None:
    """The library cannot send part of a chunk again, and does not tell that an upload did not end."""
    fault, message = LOSSES[loss]
    cloud.proxy.spoil(Fault(**vars(fault)))
    with pytest.raises(OSError, match=message) as caught:
        write_a(cloud, random_bytes(3 * MEBI + 100_000))
    assert caught.value.errno == errno.EAGAIN
    assert cloud.names() == []


def test_a_copy_moves_no_byte(cloud: Cloud) -> None:
    """The service copies; an older object is replaced, and a new one with the same bytes accepted."""
    content = random_bytes(MEBI)
    cloud.put("sets/1/a", content)
    cloud.proxy.take_log()
    assert files.copy(f"{cloud.uri}/sets/1/a", f"{cloud.uri}/sets/2/a", 0, new=True)
    log = cloud.proxy.take_log()
    assert [request.method for request in log] == ["GET", "POST"]
    assert "/rewriteTo/" in log[1].path
    assert log[1].query["ifGenerationMatch"] == "0"
    assert cloud.get("sets/2/a") == content
    cloud.put("sets/1/a", b"newer")
    assert files.copy(f"{cloud.uri}/sets/1/a", f"{cloud.uri}/sets/2/a", 0)
    assert cloud.get("sets/2/a") == b"newer"


def test_a_copy_is_repeated_after_a_fault(cloud: Cloud) -> None:
    """And of an object that is gone, there is none."""
    cloud.put("a", b"content")
    cloud.proxy.spoil(Fault(status=503, method="POST", times=2))
    assert files.copy(f"{cloud.uri}/a", f"{cloud.uri}/b", 0, new=True)
    assert cloud.get("b") == b"content"
    with pytest.raises(FileNotFoundError):
        files.copy(f"{cloud.uri}/gone", f"{cloud.uri}/c", 0)


def test_a_copy_does_not_replace_another_jobs_object(cloud: Cloud) -> None:
    """A new object's name may be taken by the same bytes alone."""
    cloud.put("a", b"content")
    cloud.put("b", b"content")
    cloud.put("c", b"other")
    assert files.copy(f"{cloud.uri}/a", f"{cloud.uri}/b", 0, new=True)
    with pytest.raises(OutputError, match="another job is writing to this folder"):
        files.copy(f"{cloud.uri}/a", f"{cloud.uri}/c", 0, new=True)
    assert cloud.get("c") == b"other"
