"""Services that the library obstore reads and writes."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from beam_pipeline.core.errors import BucketError, CredentialsError, UsageError
from beam_pipeline.storage.obstore_client import (
    Permissions,
    Place,
    Service,
    bucket_uri,
    place_of,
)
from beam_pipeline.storage.obstore_errors import RefusedError


class Shelf(Service):
    """A service without a server."""

    title = "Shelf"
    container = "shelf"
    extra = "shelf"
    credentials_help = "ask the librarian"
    permissions = Permissions("look", "take", "put", "burn")
    deletes = 1
    is_sorted = True

    def new_store(self, bucket: str, options: Mapping[str, Any]) -> Any:
        return bucket, options["client_options"]

    def check_credentials(self) -> None:
        pass


@pytest.mark.parametrize(
    ("uri", "place"),
    [
        ("s3://pets/cat/1.jpg", Place("pets", "cat/1.jpg")),
        ("s3://pets", Place("pets", "")),
        ("abfs://c@a.dfs.core.windows.net/x", Place("c@a.dfs.core.windows.net", "x")),
    ],
)
def test_places(uri: str, place: Place) -> None:
    """Bucket and name of a URI."""
    assert place_of(uri) == place
    assert bucket_uri(uri) == f"{uri.partition('://')[0]}://{place.bucket}"


def test_a_bucket_has_one_store_for_short_and_one_for_long_requests() -> None:
    """An upload of gigabytes may wait for its answer longer than a reader."""
    pytest.importorskip("obstore")
    shelf = Shelf()
    short, long = shelf.store("shelf://a/1"), shelf.store("shelf://a/2", patient=True)
    assert shelf.store("shelf://a/3") is short
    assert shelf.store("shelf://b/3")[0] == "b"
    assert "read_timeout" in short[1]
    assert "read_timeout" not in long[1]


@pytest.mark.parametrize("bucket", ["", "my pets", "b\xfccket", "pets?x", "pets\n"])
def test_a_name_that_no_bucket_has(bucket: str) -> None:
    """Is an error at once, as the library ends the process for some of them."""
    pytest.importorskip("obstore")
    with pytest.raises(UsageError) as caught:
        Shelf().store(f"shelf://{bucket}/a/1.jpg")
    assert str(caught.value) == (
        f"shelf://{bucket}/: no shelf of Shelf has such a name; expected letters a to z, digits, dots "
        "and hyphens"
    )


def test_a_setting_that_the_library_cannot_use() -> None:
    """Is told in one line."""
    pytest.importorskip("obstore")

    class Locked(Shelf):
        def new_store(self, bucket: str, options: Mapping[str, Any]) -> Any:
            raise ValueError("the key is bent\n\nDebug source: ...")

    with pytest.raises(UsageError) as caught:
        Locked().store("shelf://a/1")
    assert str(caught.value) == "shelf://a: settings of Shelf cannot be used: the key is bent"


def test_errors_name_bucket_and_permission() -> None:
    """And say where credentials are looked for."""
    shelf = Shelf()
    with (
        pytest.raises(BucketError, match="shelf shelf://a does not exist: shelf://a/1: gone"),
        shelf.bucket_errors("shelf://a/1", "look"),
    ):
        raise FileNotFoundError(errno.ENOENT, "gone")
    with (
        pytest.raises(BucketError, match="permission look on shelf shelf://a is missing: no"),
        shelf.bucket_errors("shelf://a/1", "look"),
    ):
        raise PermissionError(errno.EACCES, "no")

    def refused() -> None:
        raise RefusedError("who are you?")

    pytest.importorskip("obstore")
    with pytest.raises(CredentialsError, match=r"who are you\?; ask the librarian"):
        shelf.retried(refused, "shelf://a/1")


@pytest.mark.parametrize("scheme", ["s3", "az"])
def test_the_library_is_not_installed(scheme: str) -> None:
    """The command that installs it is named."""
    code = (
        "import sys\n"
        "sys.modules['obstore'] = None\n"
        "from beam_pipeline.cli import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "verify", f"{scheme}://bucket/out"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    title, extra = {"s3": ("S3", "s3"), "az": ("Azure Blob Storage", "azure")}[scheme]
    assert done.stderr == (
        f"beam-tfrecord: error: {title} needs obstore, which is not installed: "
        f"pip install '.[{extra}]' in the checkout of beam-tfrecord\n"
    )


def test_a_forked_process_is_told_to_be_spawned() -> None:
    """The library's threads are gone there, and a request would wait for them for ever."""
    pytest.importorskip("obstore")
    code = (
        "import os\n"
        "from tests.storage.test_obstore_client import Shelf\n"
        "Shelf().store('shelf://a')\n"
        "if os.fork():\n"
        "    os.wait()\n"
        "else:\n"
        "    try:\n"
        "        Shelf().store('shelf://a')\n"
        "    except Exception as error:\n"
        "        print(type(error).__name__, error, flush=True)\n"
        "    os._exit(0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=os.getcwd()
    )
    assert done.stdout.startswith("UsageError Shelf was used before this process was forked")
