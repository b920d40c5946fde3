"""Objects of S3 and Azure, by their requests."""

from __future__ import annotations

import errno
import itertools

import pytest
from google_crc32c import value

from beam_pipeline.core.errors import BucketError
from beam_pipeline.storage import files, obstore_objects
from beam_pipeline.storage.base import FoundFile
from beam_pipeline.storage.obstore_objects import before, path_of
from tests.gcs.proxy import Fault
from tests.s3.conftest import MinioStore
from tests.stores import Store

ODD_NAMES = [
    "a b/c d.jpg",
    "[1]*?.jpg",
    "#1.jpg",
    "50%.jpg",
    "%2F.jpg",
    "größe/猫 и.jpg",
    "a+b&c=d;e.jpg",
]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("photos/img_3", "photos/img_2\U0010ffff"),
        ("photos/0", "photos.\U0010ffff"),
        ("photos/a\0", "photos/a"),
        ("photos/img_0", "photos/img_/\U0010ffff"),
        ("photos/", "photos.\U0010ffff"),
        ("\ue000", "\ud7ff\U0010ffff"),
        ("!", " \U0010ffff"),
        ("", None),
    ],
)
def test_a_name_before_a_name(name: str, expected: str | None) -> None:
    """Smaller, as near as can be, and one that the library takes as it is."""
    found = before(name)
    assert found is None or found < name
    assert found == expected


@pytest.mark.parametrize("uri", ["s3://pets", "s3://pets/", "s3://pets//a", "s3://pets/a/"])
def test_a_name_that_the_library_would_change_is_an_error(uri: str) -> None:
    """Nothing else is read or written in its place."""
    with pytest.raises(OSError, match="the name cannot be read or written") as caught:
        path_of(uri)
    assert caught.value.errno == errno.EINVAL


@pytest.mark.s3
def test_every_name_is_just_a_name(store: Store) -> None:
    """A file of any name is written, listed, found, read and deleted, and no other."""
    for name in ODD_NAMES:
        store.put(f"folder/{name}", name.encode())
    assert sorted(ODD_NAMES) == files.list_folder(f"{store.uri}/folder")
    for name in ODD_NAMES:
        uri = f"{store.uri}/folder/{name}"
        assert files.read_image(uri, len(name.encode())) == name.encode()
        files.write_bytes(uri, b"another")
        assert store.get(f"folder/{name}") == b"another"
        files.delete(f"{store.uri}/folder", [name])
        assert not files.exists(uri)
    assert store.names() == []


@pytest.mark.s3
def test_parts_of_an_object(store: Store) -> None:
    """Ranges end with the object; what begins after it is an error."""
    store.put("a", b"0123456789")
    uri = f"{store.uri}/a"
    system = files.file_system(uri)
    assert system.read(uri, 3, 4) == b"456"
    assert system.read(uri, 30, 8) == b"89"
    assert system.read(uri, 0, 4) == b""
    with pytest.raises(OSError, match=r"at 10|416") as caught:
        system.read(uri, 3, 10)
    assert caught.value.errno == errno.ERANGE
    with files.open_input(uri) as file:
        assert file.seek(0, 2) == 10
        assert file.read() == b""
    store.put("empty", b"")
    with files.open_input(f"{store.uri}/empty") as file:
        assert file.read() == b""


@pytest.mark.s3
@pytest.mark.promise("object_replaced")
def test_an_object_replaced_while_it_is_read_is_an_error(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file is put together of two versions."""
    monkeypatch.setattr(obstore_objects, "CHUNK_BYTES", 100)
    store.put("a", b"1" * 250)
    with files.open_input(f"{store.uri}/a") as file:
        store.put("a", b"2" * 250)
        with pytest.raises(OSError, match="replaced while it was read") as caught:
            file.read()
    assert caught.value.errno == errno.ESTALE


@pytest.mark.s3
@pytest.mark.parametrize("page_size", [1000, 3])
def test_ranges_of_a_listing(
    minio_store: MinioStore, page_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each name in one range of several that adjoin; folders' own objects are left out."""
    monkeypatch.setattr(obstore_objects, "PAGE_SIZE", page_size)
    names = sorted([f"img_{i:02d}.jpg" for i in range(20)] + ["a/b.jpg", "größe.jpg", "猫/1.jpg"])
    for name in names:
        minio_store.put(f"photos/{name}", b"1")
    for folder in ("photos/", "photos/a/", "photos/img_05/"):
        minio_store.put(folder, b"")
    minio_store.put("photos2/other.jpg", b"1")
    prefix = f"{minio_store.uri}/photos/"
    system = files.file_system(prefix)
    points = ["", "a/", "img_", "img_05.jpg", "img_1", "img_19.jpg\0", "größe", "z", ""]
    points = ["", *sorted(points[1:-1]), ""]
    found = [
        found.name
        for start, end in itertools.pairwise(points)
        for found in system.list_range(prefix, start, end)
    ]
    assert found == names
    assert system.first_name(prefix, "img_07") == "img_07.jpg"
    assert system.first_name(prefix, "img_07.jpg") == "img_07.jpg"
    assert system.first_name(prefix, "img_07.jpg", "img_07.jpg") is None
    assert system.first_name(f"{minio_store.uri}/none/") is None


@pytest.mark.s3
def test_a_listing_goes_on_where_it_broke_off(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every page is refused once."""
    monkeypatch.setattr(obstore_objects, "PAGE_SIZE", 2)
    expected = [f"{i}.jpg" for i in range(7)]
    for name in expected:
        store.put(f"photos/{name}", b"1")
    store.proxy.spoil(*(Fault(*store.kinds.list, status=503, times=1, skip=n) for n in (0, 1, 2)))
    assert [found.name for found in files.list_files(f"{store.uri}/photos")] == expected


@pytest.mark.s3
def test_a_version_changes_with_the_content(store: Store) -> None:
    """The same from a listing and from the object alone."""
    store.put("photos/a", b"1")
    (found,) = files.list_files(f"{store.uri}/photos")
    assert found == FoundFile("a", 1, files.version_of(f"{store.uri}/photos/a"))
    store.touch("photos/a")
    assert files.version_of(f"{store.uri}/photos/a") != found.version


@pytest.mark.s3
def test_checksums_are_those_of_the_content(store: Store) -> None:
    """Noted by who wrote it; read where another program did."""
    uri = f"{store.uri}/out"
    files.write_bytes(f"{uri}/ours", b"123")
    store.put("out/theirs", b"123")
    for name in ("ours", "theirs"):
        assert files.holds(f"{uri}/{name}", 3, value(b"123"))
        assert not files.holds(f"{uri}/{name}", 3, value(b"124"))
        assert not files.holds(f"{uri}/{name}", 4, value(b"123"))
    assert not files.holds(f"{uri}/none", 3, value(b"123"))
    from beam_pipeline.core.dataset.manifest import crc32c_text

    right, wrong = (3, crc32c_text(value(b"123"))), (3, crc32c_text(value(b"124")))
    assert files.altered(uri, {"ours": right, "theirs": right}) == []
    assert files.altered(uri, {"theirs": wrong, "ours": wrong, "none": right}) == [
        "none",
        "ours",
        "theirs",
    ]


@pytest.mark.s3
def test_missing_objects_and_buckets(store: Store) -> None:
    """A missing object is no error to a deletion; a bucket is named."""
    files.delete(f"{store.uri}/out", [f"{i}" for i in range(3)])
    with pytest.raises(FileNotFoundError):
        files.read_bytes(f"{store.uri}/none")
    assert files.size_of(f"{store.uri}/none") == -1
    nowhere = f"{store.scheme}://no-such-bucket/a"
    for action in (files.check_readable, files.prepare_folder, files.list_folder):
        with pytest.raises(BucketError, match=f"{store.scheme}://no-such-bucket does not exist"):
            action(nowhere)
