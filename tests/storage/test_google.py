"""Files in an emulated bucket, as the rest of the program sees them."""

from __future__ import annotations

import errno

import pytest

from beam_pipeline.core.errors import BucketError
from beam_pipeline.storage import (
    files,
)
from beam_pipeline.storage.base import FoundFile
from tests.gcs.cloud import Cloud

pytestmark = pytest.mark.gcs


ODD_NAMES = [
    "plain.jpg",
    "a b/c d.jpg",
    "[1]*?.jpg",
    "#1.jpg",
    "50%.jpg",
    "%2F.jpg",
    "größe/猫 и.jpg",
    "e\u0301.jpg",  # a combining character; the composed one is another name
    "\u00e9.jpg",
    "x//y.jpg",
    "/begins with a slash.jpg",
    "a+b&c=d;e.jpg",
    "'\"\\~!.jpg",
]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_every_name_is_just_a_name(cloud: Cloud, name: str) -> None:
    """A file of any name is written, listed, found, read and deleted, and no other."""
    for other in ODD_NAMES:
        cloud.put(f"folder/{other}", other.encode())
    uri = files.join(f"{cloud.uri}/folder", name)
    assert uri == f"{cloud.uri}/folder/{name}"
    assert files.read_image(uri, len(name.encode())) == name.encode()
    with files.open_input(uri) as file:
        assert file.read() == name.encode()
    assert files.exists(uri)
    assert sorted(ODD_NAMES) == files.list_folder(f"{cloud.uri}/folder")
    files.write_bytes(uri, b"another")
    assert cloud.get(f"folder/{name}") == b"another"
    files.delete(f"{cloud.uri}/folder", [name])
    assert not files.exists(uri)
    assert files.list_folder(f"{cloud.uri}/folder") == sorted(set(ODD_NAMES) - {name})


def test_a_whole_bucket_can_be_listed(cloud: Cloud) -> None:
    """A bucket's own URI is a folder as any."""
    cloud.put("a/b.jpg", b"1")
    (found,) = files.list_files(files.canonical(cloud.uri + "/"))
    # The emulator sends all fields, also those that were not asked for.
    assert found._replace(digest=b"") == FoundFile("a/b.jpg", 1, found.version)


def test_a_file_that_is_not_there(cloud: Cloud) -> None:
    """Is an error that says so, at the opening too."""
    for read in (files.read_bytes, files.open_input):
        with pytest.raises(FileNotFoundError) as caught:
            read(f"{cloud.uri}/none")
        assert caught.value.errno == errno.ENOENT
        assert caught.value.filename == f"{cloud.uri}/none"


def test_a_bucket_that_is_not_there(cloud: Cloud) -> None:
    """Is named as such by whatever wants to list it or write to it."""
    uri = "gs://no-such-bucket/folder"
    for action in (
        lambda: files.check_readable(uri),
        lambda: files.list_folder(uri),
        lambda: files.prepare_folder(uri),
        lambda: files.write_bytes(f"{uri}/a", b""),
    ):
        with pytest.raises(BucketError, match="bucket gs://no-such-bucket does not exist"):
            action()


def test_a_folder_is_probed(cloud: Cloud) -> None:
    """A folder that can be written to holds nothing afterwards."""
    files.prepare_folder(f"{cloud.uri}/out")
    assert cloud.names() == []
    assert [request.method for request in cloud.proxy.take_log()] == ["POST", "DELETE"]
