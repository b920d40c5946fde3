"""Objects of each service: read, listed, written, copied and deleted."""

from __future__ import annotations

import errno
import gc
import io
import itertools
import os
import re
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from google_crc32c import value

from beam_pipeline.core.dataset.manifest import crc32c_text
from beam_pipeline.core.errors import AnotherJobError, BucketError, ChangedFileError, UsageError
from beam_pipeline.storage import base, buckets, files
from tests.buckets.proxy import Fault
from tests.buckets.services import MEBI, Store, random_bytes, write_a
from tests.rows import in_rows

pytestmark = pytest.mark.buckets
only_google = pytest.mark.parametrize("cloud", ["gs"], indirect=True)
sorted_stores = pytest.mark.parametrize("cloud", ["gs", "s3"], indirect=True)

ODD_NAMES = ["plain.jpg", "a b/c d.jpg", "[1]*?.jpg", "#1.jpg", "50%.jpg", "%2F.jpg"]
ODD_NAMES += ["größe/猫 и.jpg", "a+b&c=d;e.jpg"]
NAMES_OF_GOOGLE = [
    *("e\u0301.jpg", "\u00e9.jpg"),  # a combining character, and the composed one
    *("x//y.jpg", "/begins with a slash.jpg", "'\"\\~!.jpg"),
]


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Listings of three names a page."""
    monkeypatch.setattr(buckets, "PAGE_SIZE", 3)


def test_every_name_is_literal(cloud: Store) -> None:
    """A file of any name is written, listed, found, read and deleted, and no other."""
    names = ODD_NAMES + (NAMES_OF_GOOGLE if cloud.scheme == "gs" else [])
    folder = f"{cloud.uri}/folder"
    for name in names:
        cloud.put(f"folder/{name}", name.encode())
    assert files.list_folder(folder) == sorted(names)
    for name in names:
        uri = files.join(folder, name)
        assert uri == f"{folder}/{name}"
        assert files.read_image(uri, len(name.encode())) == name.encode()
        with files.open_input(uri) as file:
            assert file.read() == name.encode()
        files.write_bytes(uri, b"another")
        assert cloud.get(f"folder/{name}") == b"another"
        files.delete(folder, [name])
        assert not files.exists(uri)
        remaining = names[names.index(name) + 1 :]
        assert files.list_folder(folder) == sorted(remaining)


def test_a_whole_bucket_can_be_listed(cloud: Store) -> None:
    """A bucket's own URI is a folder like any other; a version is the same from a listing and from the object."""
    cloud.put("a/b.jpg", b"1")
    (listed,) = files.list_files(files.canonical(cloud.uri + "/"))
    version = files.version_of(f"{cloud.uri}/a/b.jpg")
    # Google's emulator sends all fields, also those that were not asked for.
    assert listed._replace(digest=b"", crc32c="") == base.FoundFile("a/b.jpg", 1, version)
    cloud.touch("a/b.jpg")
    assert files.version_of(f"{cloud.uri}/a/b.jpg") != version


def test_a_file_or_part_of_it_is_one_request(cloud: Store) -> None:
    """One GET, and none for its metadata; another size is a change. Ranges end with the object."""
    cloud.put("a", b"0123456789")
    uri = f"{cloud.uri}/a"
    assert files.read_image(uri, 10) == b"0123456789"
    assert files.read_image(uri, 4, 3) == b"3456"
    assert files.read_image(uri, 0, 3) == b""
    assert files.read_part(uri, 30, 8) == b"89"
    with pytest.raises(ChangedFileError, match=r"^10 bytes, listed with 3; "):
        files.read_image(uri, 3)
    log = cloud.proxy.take_log()
    assert cloud.reads(log) == ["a"] * len(log)
    assert [request.status for request in log] == [200, 206, 206, 200]
    for offset, message, number in ((8, "ends before byte 12", "EIO"), (10, "416|at 10", "ERANGE")):
        with pytest.raises(OSError, match=message) as caught:
            files.read_image(uri, 4, offset)
        assert caught.value.errno == getattr(errno, number)


def test_a_file_is_read_in_order_and_by_seeking(cloud: Store, small_chunks: int) -> None:
    """It reads as the same bytes in memory do, with one request a chunk."""
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
        with pytest.raises(OSError, match="seek to -1") as caught:
            file.seek(-1)
        assert caught.value.errno == errno.EINVAL
    for chunks, more in ((0, 0), (1, 0), (3, 5)):  # an end with a chunk takes one more request
        size = chunks * small_chunks + more
        cloud.put("long", content[:size])
        cloud.proxy.take_log()
        with files.open_input(uri) as file:
            assert file.read() == content[:size]
        assert len(cloud.proxy.take_log()) == chunks + 1


@pytest.mark.promise("object_replaced")
def test_an_object_replaced_while_it_is_read_is_an_error(cloud: Store, small_chunks: int) -> None:
    """All chunks are of one version, never a mixture."""
    cloud.put("long", random_bytes(3 * small_chunks))
    with files.open_input(f"{cloud.uri}/long") as file:
        assert file.read(small_chunks) == random_bytes(3 * small_chunks)[:small_chunks]
        cloud.put("long", bytes(3 * small_chunks))
        with pytest.raises(OSError, match="replaced or deleted while it was read") as caught:
            file.read()
    assert (caught.value.errno, caught.value.filename) == (errno.ESTALE, f"{cloud.uri}/long")


def test_64_threads_read_at_once(cloud: Store) -> None:
    """Each gets its own bytes."""
    for i in range(64):
        cloud.put(str(i), bytes([i]) * 1000)
    with ThreadPoolExecutor(64) as pool:
        contents = list(pool.map(lambda i: files.read_image(f"{cloud.uri}/{i}", 1000), range(64)))
    assert contents == [bytes([i]) * 1000 for i in range(64)]


@sorted_stores
@pytest.mark.parametrize("pages", ["large", "small"])
def test_ranges_of_a_listing(cloud: Store, pages: str, request: pytest.FixtureRequest) -> None:
    """Each name in one of several adjoining ranges; objects that stand for folders are left out."""
    if pages == "small":
        request.getfixturevalue("small_pages")
    names = sorted([f"img_{i:02d}.jpg" for i in range(20)] + ["a/b.jpg", "größe.jpg", "猫/1.jpg"])
    for name in names:
        cloud.put(f"photos/{name}", b"1")
    for folder in ("photos/", "photos/a/", "photos/img_05/"):
        cloud.put(folder, b"")
    cloud.put("photos2/other.jpg", b"1")
    prefix = f"{cloud.uri}/photos/"
    system = files.file_system(prefix)
    points = sorted(["a/", "img_", "img_05.jpg", "img_1", "img_19.jpg\0", "größe", "z"])
    spans = itertools.pairwise(["", *points, ""])
    assert [f.name for span in spans for f in system.list_range(prefix, *span)] == names
    assert system.first_name(prefix, "img_07") == "img_07.jpg"
    assert system.first_name(prefix, "img_07.jpg") == "img_07.jpg"
    assert system.first_name(prefix, "img_07.jpg", "img_07.jpg") is None
    assert system.first_name(f"{cloud.uri}/none/") is None


@only_google
def test_a_listing_requests_only_what_it_needs(cloud: Store, small_pages: None) -> None:
    """Names, sizes and generations, page by page."""
    for i in range(7):
        cloud.put(f"f/{i}.jpg", b"x" * i)
    listed = list(files.list_files(f"{cloud.uri}/f"))
    assert [(file.name, file.size) for file in listed] == [(f"{i}.jpg", i) for i in range(7)]
    assert all(file.version > 10**15 for file in listed)
    pages = cloud.proxy.take_log()
    assert [request.query["maxResults"] for request in pages] == ["3"] * 3
    assert {request.query["fields"] for request in pages} == {
        "items(name,size,generation),nextPageToken"
    }


def test_a_listing_continues_where_it_broke_off(cloud: Store, small_pages: None) -> None:
    """Every page is refused once."""
    expected = [f"{i}.jpg" for i in range(9)]
    for name in expected:
        cloud.put(f"photos/{name}", b"1")
    cloud.proxy.spoil(*(Fault(*cloud.kinds.list, status=503, times=1, skip=n) for n in (0, 1, 2)))
    assert [file.name for file in files.list_files(f"{cloud.uri}/photos")] == expected


@pytest.mark.parametrize("cloud", ["s3"], indirect=True)
def test_a_service_that_does_not_list_by_name_is_an_error(
    cloud: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names would be missed where ranges of a listing begin and end."""
    for name in ("a", "b"):
        cloud.put(name, b"1")
    driver = files.file_system(cloud.uri)
    pages = driver._pages  # type: ignore[attr-defined]
    monkeypatch.setattr(driver, "_pages", lambda *args: (page[::-1] for page in pages(*args)))
    with pytest.raises(OSError, match="the service lists 'a' after 'b'; expected names in order"):
        files.list_folder(cloud.uri)


def test_the_time_of_a_change_tells_which_object_is_newer(cloud: Store) -> None:
    """Versions do not: in S3 they are hashes."""
    for name in "acb":
        cloud.put(name, name.encode())
        time.sleep(1.1)  # in S3, times are whole seconds
    times = [files.changed_at(f"{cloud.uri}/{name}") for name in "acb"]
    assert times == sorted(set(times))


def test_checksums(cloud: Store) -> None:
    """Stored by the writer; computed where another program wrote the object without one."""
    uri = f"{cloud.uri}/out"
    files.write_bytes(f"{uri}/ours", b"123")
    cloud.put("out/theirs", b"123")
    for name in ("ours", "theirs"):
        assert files.holds(f"{uri}/{name}", 3, value(b"123"))
        assert not files.holds(f"{uri}/{name}", 3, value(b"124"))
        assert not files.holds(f"{uri}/{name}", 4, value(b"123"))
    assert not files.holds(f"{uri}/none", 3, value(b"123"))
    right, wrong = (3, crc32c_text(value(b"123"))), (3, crc32c_text(value(b"124")))
    assert files.altered(uri, {"ours": right, "theirs": right}) == []
    assert files.altered(uri, {}) == []
    altered = files.altered(uri, {"theirs": wrong, "ours": wrong, "none": right})
    assert altered == ["none", "ours", "theirs"]


def test_missing_objects_and_buckets(cloud: Store) -> None:
    """A missing object is no error to a deletion; a missing bucket is named by every operation."""
    files.delete(f"{cloud.uri}/out", [f"{i}" for i in range(3)])
    for read in (files.read_bytes, files.open_input):
        with pytest.raises(FileNotFoundError) as caught:
            read(f"{cloud.uri}/none")
        assert (caught.value.errno, caught.value.filename) == (errno.ENOENT, f"{cloud.uri}/none")
    assert files.size_of(f"{cloud.uri}/none") == -1
    nowhere = f"{cloud.scheme}://no-such-bucket/a"
    message = f"{cloud.container} {cloud.scheme}://no-such-bucket does not exist"
    for action in (
        files.check_readable,
        files.prepare_folder,
        files.list_folder,
        lambda uri: files.write_bytes(f"{uri}/a", b""),
    ):
        with pytest.raises(BucketError, match=message):
            action(nowhere)


PERMISSIONS = {
    "list": lambda uri: files.list_folder(uri),
    "write": lambda uri: files.prepare_folder(uri),
    "delete": lambda uri: files.delete(uri, ["a"]),
}


@pytest.mark.parametrize("kind", PERMISSIONS)
def test_a_missing_permission_is_named(cloud: Store, kind: str) -> None:
    """With the bucket and the server's words, and nothing is tried twice."""
    permission = cloud.permissions["create" if kind == "write" else kind]
    verb, path = getattr(cloud.kinds, kind)
    cloud.put("a", b"1")
    cloud.proxy.spoil(Fault(verb, path, status=403, message="who are you?"))
    expected = f"permission {re.escape(permission)} on {cloud.container} {cloud.uri} is missing: "
    with pytest.raises(BucketError, match=expected + re.escape(cloud.shown(403, "who are you?"))):
        PERMISSIONS[kind](cloud.uri)
    assert len(cloud.proxy.take_log()) == 1


def test_an_object_that_may_not_be_read(cloud: Store) -> None:
    """An error of the object, which names the permission."""
    cloud.put("a", b"1")
    cloud.proxy.spoil(Fault("GET", status=403, message="no"))
    message = f"{cloud.permissions['get']} is missing: {cloud.shown(403, 'no')}"
    with pytest.raises(PermissionError, match=re.escape(message)) as caught:
        files.read_image(f"{cloud.uri}/a", 1)
    assert caught.value.errno == errno.EACCES


SMALL, LARGE = random_bytes(50_000), random_bytes(3 * MEBI)
OPERATIONS: dict[str, Callable[[Store, str], Any]] = {
    "read": lambda _, uri: files.read_bytes(f"{uri}/a") == SMALL,
    "list": lambda _, uri: files.list_folder(uri) == ["a"],
    "open": lambda _, uri: files.open_input(f"{uri}/a").read() == SMALL,
    "delete": lambda cloud, uri: (files.delete(uri, ["a", "not there"]), cloud.names() == []),
    "write": lambda cloud, _: (write_a(cloud, SMALL, "b"), cloud.get("b") == SMALL),
    "write much": lambda cloud, _: (write_a(cloud, LARGE, "b"), cloud.get("b") == LARGE),
    "copy": lambda cloud, uri: (
        files.copy(f"{uri}/a", f"{uri}/b", value(SMALL), new=True),
        cloud.get("b") == SMALL,
    ),
}


@pytest.mark.parametrize("fault", [{"status": 503, "times": 2}, {"cut": True, "times": 1}], ids=str)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_request_is_retried(
    cloud: Store, small_chunks: int, operation: str, fault: dict[str, int]
) -> None:
    """Until it is complete, also if it had succeeded and only the answer was lost."""
    cloud.put("a", SMALL)
    cloud.proxy.spoil(Fault(**fault))
    done = OPERATIONS[operation](cloud, cloud.uri)
    assert done is True or done[-1]
    assert any(request.spoilt for request in cloud.proxy.take_log())


@pytest.mark.promise("bucket_trouble")
@pytest.mark.parametrize("fault", [{"status": 503}, {"cut": True}])
def test_trouble_that_does_not_end_fails_the_bundle(
    cloud: Store, fault: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an error of the machine, with the last answer in its message."""
    monkeypatch.setattr(buckets, "RETRY_SECONDS", 1.0)
    cloud.put("a", b"1")
    cloud.proxy.spoil(Fault(**fault, message="come back later"))
    answer = re.escape(cloud.shown(fault["status"], "come back")) if "status" in fault else ""
    with pytest.raises(
        OSError, match=f"gave no good answer for .* s; the last: {answer}"
    ) as caught:
        files.read_image(f"{cloud.uri}/a", 1)
    assert caught.value.errno == errno.ETIMEDOUT


def test_a_prepared_folder_is_empty(cloud: Store) -> None:
    """A probe is written and deleted; of most services, also that it is not replaced."""
    files.prepare_folder(f"{cloud.uri}/out")
    assert cloud.names() == []
    writes = 1 if cloud.scheme == "gs" else 2
    log = [request.method for request in cloud.proxy.take_log()]
    assert log == [cloud.kinds.write[0]] * writes + [log[-1]]
    assert log[-1] in ("DELETE", "POST")


@pytest.mark.parametrize("cloud", ["s3", "az"], indirect=True)
def test_a_service_that_replaces_new_objects_is_refused(
    cloud: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another job's shards would not be safe there."""
    driver = files.file_system(cloud.uri)
    put = type(driver).put  # type: ignore[attr-defined]

    def careless(self: object, uri: str, data: bytes, crc32c: str, **_: bool) -> None:
        put(driver, uri, data, crc32c, new=False)

    monkeypatch.setattr(type(driver), "put", careless)
    with pytest.raises(BucketError, match="in spite of the condition If-None-Match"):
        files.prepare_folder(f"{cloud.uri}/out")
    assert cloud.names() == []


@pytest.mark.parametrize("cloud", ["s3", "az"], indirect=True)
@pytest.mark.parametrize("name", ["", "/", "/a", "a/"])
def test_a_name_that_the_library_would_change_is_an_error(cloud: Store, name: str) -> None:
    """Nothing else is read or written in its place."""
    with pytest.raises(OSError, match="the name cannot be read or written") as caught:
        files.read_bytes(f"{cloud.uri}/{name}")
    assert caught.value.errno == errno.EINVAL


@pytest.mark.parametrize("scheme", ["abfs", "abfss"])
@pytest.mark.parametrize("cloud", ["az"], indirect=True)
def test_other_schemes_of_azure(cloud: Store, scheme: str) -> None:
    """They name the same blobs, with and without the account."""
    cloud.put("a/b.jpg", b"1")
    for bucket in (cloud.bucket, f"{cloud.bucket}@devstoreaccount1"):
        assert files.read_bytes(f"{scheme}://{bucket}/a/b.jpg") == b"1"
    with pytest.raises(UsageError, match=r"abfs://a b/: no container of Azure Blob Storage has"):
        files.read_bytes("abfs://a b/c")


no_google = pytest.mark.parametrize("cloud", ["s3", "az"], indirect=True)
sizes = pytest.mark.parametrize("size", [100, 3 * MEBI])


@pytest.mark.parametrize("size", [0, MEBI // 4, MEBI // 4 + 1, 3 * MEBI])
def test_what_is_written_is_there(cloud: Store, small_chunks: int, size: int) -> None:
    """With one request or as a stream, in buffers of any size, new or over an older one."""
    uri, content = f"{cloud.uri}/out/a", random_bytes(size)
    with files.open_output(uri, new=True) as sink:
        cloud.proxy.take_log()
        for start in range(0, size, 100_000):
            sink.write(content[start : start + 7], content[start + 7 : start + 100_000])
        assert cloud.names() == []
    log = cloud.proxy.take_log()
    if size <= MEBI // 4:  # name, precondition and content go together
        (request,) = log
        assert request.method == cloud.kinds.write[0]
        query = (
            {"uploadType": "multipart", "ifGenerationMatch": "0"} if cloud.scheme == "gs" else {}
        )
        assert query.items() <= dict(request.query).items()
    assert cloud.get("out/a") == content
    files.write_bytes(uri, b"newer" + content)
    assert cloud.get("out/a") == b"newer" + content
    assert cloud.names() == ["out/a"]


@sizes
def test_nothing_is_visible_of_a_file_that_failed(
    cloud: Store, small_chunks: int, size: int
) -> None:
    """An error in the `with` block leaves no object, not even when Python closes what it collects."""
    with pytest.raises(ZeroDivisionError):
        write_a(cloud, random_bytes(size), then=lambda: 1 // 0)
    gc.collect()
    assert cloud.names() == []
    assert cloud.proxy.take_log() == []


@sizes
def test_a_new_file_never_replaces_other_bytes(cloud: Store, small_chunks: int, size: int) -> None:
    """Its own bytes are as good as writing them; others stay, also those of the same length."""
    content = random_bytes(size)
    write_a(cloud, content)
    write_a(cloud, content)
    cloud.put("a", content)  # by another program, perhaps without a checksum
    write_a(cloud, content)
    for different in (random_bytes(size, seed=1), random_bytes(size + 1)):
        with pytest.raises(AnotherJobError, match=f"another job.*{cloud.uri}/a is there already"):
            write_a(cloud, different)
    assert cloud.get("a") == content


def test_a_file_that_appears_while_another_is_sent(cloud: Store, small_chunks: int) -> None:
    """The one that ends first stays; the precondition counts at the end."""
    with pytest.raises(AnotherJobError, match="another job"):
        write_a(cloud, random_bytes(MEBI), then=lambda: cloud.put("a", b"theirs"))
    assert cloud.get("a") == b"theirs"


@only_google
@in_rows
def test_an_upload_in_chunks_begins_again(
    cloud: Store, small_chunks: int, fault: dict[str, Any]
) -> None:
    """A request that is refused, kept in part, or whose answer is lost, loses no byte and doubles none."""
    content = random_bytes(3 * MEBI + 100_000)
    cloud.proxy.spoil(Fault("PUT", **{"times": 1, **fault}))
    write_a(cloud, content)
    assert cloud.get("a") == content
    assert any(request.spoilt for request in cloud.proxy.take_log())


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
