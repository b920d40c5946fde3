"""Requests about objects: read, list, delete."""

from __future__ import annotations

import errno
import re

import pytest

from beam_pipeline.core.errors import BucketError
from beam_pipeline.core.records.shard_writer import ChangedFileError
from beam_pipeline.storage import (
    files,
    google_objects,
)
from tests.gcs.cloud import Cloud
from tests.gcs.proxy import Fault

pytestmark = pytest.mark.gcs


def test_a_whole_file_is_one_request(cloud: Cloud) -> None:
    """An object is had with one GET, and none for its metadata; another size is a change."""
    cloud.put("a.jpg", b"content")
    assert files.read_image(f"{cloud.uri}/a.jpg", 7) == b"content"
    with pytest.raises(ChangedFileError, match=r"^7 bytes, listed with 3; "):
        files.read_image(f"{cloud.uri}/a.jpg", 3)
    requests = cloud.proxy.take_log()
    assert [(r.method, r.query["alt"]) for r in requests] == [("GET", "media")] * 2


def test_some_bytes_of_a_file_are_one_request(cloud: Cloud) -> None:
    """A range is read as such, and one that the object does not have is an error."""
    cloud.put("a.bin", b"0123456789")
    uri = f"{cloud.uri}/a.bin"
    assert files.read_image(uri, 4, 3) == b"3456"
    assert files.read_image(uri, 0, 3) == b""
    (request,) = cloud.proxy.take_log()
    assert request.status == 206
    with pytest.raises(OSError, match="ends before byte 12") as caught:
        files.read_image(uri, 4, 8)
    assert caught.value.errno == errno.EIO
    with pytest.raises(OSError, match="416"):
        files.read_image(uri, 4, 10)


def test_a_listing_goes_page_by_page_and_asks_for_little(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every name once, in order, with size and generation; folders' own objects are no files."""
    monkeypatch.setattr(google_objects, "PAGE_SIZE", 3)
    for i in range(7):
        cloud.put(f"f/{i}.jpg", b"x" * i)
    cloud.put("f/sub/", b"")
    cloud.put("f/sub/a.jpg", b"12")
    cloud.put("f-beside/b.jpg", b"")
    found = list(files.list_files(f"{cloud.uri}/f"))
    assert [(file.name, file.size) for file in found] == [
        *((f"{i}.jpg", i) for i in range(7)),
        ("sub/a.jpg", 2),
    ]
    assert len({file.version for file in found}) == len(found)
    assert all(file.version > 10**15 for file in found)
    pages = cloud.proxy.take_log()
    assert [request.query["maxResults"] for request in pages] == ["3"] * 3
    assert {request.query["fields"] for request in pages} == {
        "items(name,size,generation),nextPageToken"
    }


def test_a_listing_may_begin_and_end_at_a_name(cloud: Cloud) -> None:
    """From the first name on, to before the last; both relative to the prefix."""
    for name in ("a", "b", "ba", "c", "é"):
        cloud.put(f"f/{name}", b"")

    def names(*span: str) -> list[str]:
        return [file.name for file in google_objects.list_objects(f"{cloud.uri}/f/", *span)]

    assert names() == ["a", "b", "ba", "c", "é"]
    assert names("b") == ["b", "ba", "c", "é"]
    assert names("", "b") == ["a"]
    assert names("b", "c") == ["b", "ba"]
    assert names("d", "e") == []


def test_a_deletion_is_tried_again(cloud: Cloud) -> None:
    """One that was done, but whose answer was lost, is done."""
    for fault in (Fault("DELETE", status=503, times=2), Fault("DELETE", cut=True, times=1)):
        cloud.put("a", b"")
        cloud.proxy.spoil(fault)
        files.delete(cloud.uri, ["a", "not there"])
        assert cloud.names() == []


PERMISSIONS = {
    "GET": ("storage.objects.list", lambda uri: files.list_folder(uri)),
    "POST": ("storage.objects.create", lambda uri: files.prepare_folder(uri)),
    "DELETE": ("storage.objects.delete", lambda uri: files.delete(uri, ["a"])),
}


@pytest.mark.parametrize("verb", PERMISSIONS)
def test_a_permission_that_is_missing(cloud: Cloud, verb: str) -> None:
    """Is named, with the bucket and the server's words, and nothing is tried twice."""
    permission, action = PERMISSIONS[verb]
    cloud.proxy.spoil(Fault(verb, status=403, message="who are you?"))
    expected = f"permission {re.escape(permission)} on bucket {cloud.uri} is missing: 403 who are"
    with pytest.raises(BucketError, match=expected):
        action(cloud.uri)
    assert len(cloud.proxy.take_log()) == 1


def test_an_object_that_may_not_be_read(cloud: Cloud) -> None:
    """Is an error of its own, which names the permission."""
    cloud.put("a", b"")
    cloud.proxy.spoil(Fault("GET", status=403, message="no"))
    with pytest.raises(
        PermissionError, match=r"storage\.objects\.get is missing: 403 no"
    ) as caught:
        files.read_image(f"{cloud.uri}/a", 0)
    assert caught.value.errno == errno.EACCES
