"""Objects of each service: read, listed, written, copied and deleted."""

from __future__ import annotations

import contextlib
import errno
import gc
import io
import itertools
import os
import re
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from google_crc32c import value

from beam_pipeline.core.dataset.manifest import crc32c_text
from beam_pipeline.core.errors import AnotherJobError, BucketError, ChangedFileError, UsageError
from beam_pipeline.storage import base, buckets, files
from tests.buckets.proxy import Fault
from tests.buckets.services import MEBI, Store, random_bytes, write_a

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
    _set_page_size(monkeypatch, 3)


def _set_page_size(monkeypatch: pytest.MonkeyPatch, names: int) -> None:
    for driver in ("google", "obstore_driver"):
        with contextlib.suppress(ImportError):
            monkeypatch.setattr(f"beam_pipeline.storage.{driver}.PAGE_SIZE", names)


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
    """A bucket's own URI is a folder like any other."""
    cloud.put("a/b.jpg", b"1")
    (listed,) = files.list_files(files.canonical(cloud.uri + "/"))
    # Google's emulator sends all fields, also those that were not asked for.
    assert listed._replace(digest=b"", crc32c="") == base.FoundFile("a/b.jpg", 1, listed.version)


def test_a_whole_file_is_one_request(cloud: Store) -> None:
    """One GET, and none for its metadata; another size is a change."""
    cloud.put("a.jpg", b"content")
    assert files.read_image(f"{cloud.uri}/a.jpg", 7) == b"content"
    with pytest.raises(ChangedFileError, match=r"^7 bytes, listed with 3; "):
        files.read_image(f"{cloud.uri}/a.jpg", 3)
    log = cloud.proxy.take_log()
    assert cloud.reads(log) == ["a.jpg"] * len(log) == ["a.jpg"] * 2


def test_part_of_a_file_is_one_request(cloud: Store) -> None:
    """Ranges end with the object; one that begins after it is an error."""
    cloud.put("a", b"0123456789")
    uri = f"{cloud.uri}/a"
    assert files.read_image(uri, 4, 3) == b"3456"
    (request,) = cloud.proxy.take_log()
    assert request.status == 206
    assert files.read_image(uri, 0, 3) == b""
    assert cloud.proxy.take_log() == []
    assert files.read_part(uri, 30, 8) == b"89"
    with pytest.raises(OSError, match="ends before byte 12") as caught:
        files.read_image(uri, 4, 8)
    assert caught.value.errno == errno.EIO
    with pytest.raises(OSError, match=r"416|at 10") as caught:
        files.read_image(uri, 4, 10)
    assert caught.value.errno == errno.ERANGE


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
    cloud.proxy.take_log()
    with files.open_input(uri) as file:
        assert file.read() == content
    assert len(cloud.proxy.take_log()) == 4


@pytest.mark.parametrize("chunks", [0, 1])
def test_a_file_may_end_with_a_chunk(cloud: Store, small_chunks: int, chunks: int) -> None:
    """The end is found by one more request."""
    cloud.put("even", random_bytes(chunks * small_chunks))
    with files.open_input(f"{cloud.uri}/even") as file:
        assert file.read() == random_bytes(chunks * small_chunks)


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


def test_a_version_changes_with_the_object(cloud: Store) -> None:
    """The same from a listing and from the object itself."""
    cloud.put("photos/a", b"1")
    (listed,) = files.list_files(f"{cloud.uri}/photos")
    assert listed._replace(digest=b"", crc32c="") == base.FoundFile(
        "a", 1, files.version_of(f"{cloud.uri}/photos/a")
    )
    cloud.touch("photos/a")
    assert files.version_of(f"{cloud.uri}/photos/a") != listed.version


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


READ_FAULTS = {
    "503": Fault("GET", status=503, times=2),
    "cut": Fault("GET", cut=True, times=2),
}


@pytest.mark.parametrize("fault", READ_FAULTS.values(), ids=READ_FAULTS)
def test_reads_and_listings_are_retried(cloud: Store, fault: Fault) -> None:
    """Until they are complete."""
    content = random_bytes(50_000)
    cloud.put("a", content)
    for action in (
        lambda: files.read_bytes(f"{cloud.uri}/a") == content,
        lambda: files.list_folder(cloud.uri) == ["a"],
        lambda: files.open_input(f"{cloud.uri}/a").read() == content,
    ):
        cloud.proxy.spoil(Fault(**vars(fault)))
        assert action()
        assert any(request.spoilt for request in cloud.proxy.take_log())


@pytest.mark.parametrize("fault", [{"status": 503, "times": 2}, {"cut": True, "times": 1}])
def test_a_deletion_is_retried(cloud: Store, fault: dict[str, int]) -> None:
    """One whose answer was lost is done."""
    cloud.put("a", b"1")
    verb, path = cloud.kinds.delete
    if cloud.scheme == "az":  # one deletion is no batch
        verb, path = "DELETE|POST", ""
    cloud.proxy.spoil(Fault(verb, path, **fault))
    files.delete(cloud.uri, ["a", "not there"])
    assert cloud.names() == []


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
