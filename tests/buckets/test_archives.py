"""Archives in a bucket: their members are read by ranges, and give what local ones give."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.archives import make_tar, make_zip
from tests.buckets.services import Store
from tests.harness import ALL_BAD, NONE_BAD, convert, digests, reasons_of
from tests.pictures import picture

pytestmark = pytest.mark.buckets

CLASSES = {f"{'ab'[i % 2]}/{i}.jpg": picture(i) for i in range(12)}
SAMPLES = {
    name: content
    for i in range(6)
    for name, content in ((f"{i:03d}.jpg", picture(i)), (f"{i:03d}.cls", str(i % 3).encode()))
}


@pytest.fixture
def archives(tmp_path: Path, cloud: Store) -> Path:
    """The same archives on this machine, in in/, and in the bucket."""
    folder = tmp_path / "in"
    make_zip(folder / "photos.zip", CLASSES)
    make_tar(folder / "photos.tar", CLASSES)
    make_tar(folder / "set" / "s-train-0.tar", SAMPLES)
    make_tar(folder / "set" / "s-val-0.tar", SAMPLES)
    cloud.put_folder(folder, "in")
    return folder


def _shards(folder: Path) -> dict[str, str]:
    return {name: digest for name, digest in digests(folder).items() if ".tfrecord" in name}


@pytest.mark.parametrize(
    "names", [["photos.zip"], ["photos.tar"], ["set/s-*-0.tar"], ["set/s-{train,val}-0.tar"]]
)
def test_archives_in_a_bucket_give_the_bytes_of_local_ones(
    names: list[str], archives: Path, tmp_path: Path, cloud: Store
) -> None:
    """Found by name, glob or braces; the classes of folders, and those beside the images."""
    local = [str(archives / name) for name in names]
    remote = [f"{cloud.uri}/in/{name}" for name in names]
    assert (
        convert("--images", *local, "--output", str(tmp_path / "here"), "--name=x", NONE_BAD) == 0
    )
    assert (
        convert("--images", *remote, "--output", str(tmp_path / "there"), "--name=x", NONE_BAD) == 0
    )
    assert _shards(tmp_path / "there") == _shards(tmp_path / "here") != {}


@pytest.mark.parametrize("cloud", ["gs"], indirect=True)
def test_a_replaced_archive_is_noticed(archives: Path, tmp_path: Path, cloud: Store) -> None:
    """By its generation where a run is resumed."""
    argv = ["--images", f"{cloud.uri}/in/photos.zip", "--output", str(tmp_path / "out")]
    assert convert(*argv) == 0
    cloud.put("in/photos.zip", (archives / "photos.zip").read_bytes())
    assert convert(*argv, "--resume") == 1


def test_a_missing_archive_is_named(
    archives: Path, tmp_path: Path, cloud: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a range of names, each has to be there."""
    images = f"{cloud.uri}/in/set/s-{{train,val,test}}-0.tar"
    assert convert("--images", images, "--output", str(tmp_path / "out"), ALL_BAD) != 0
    assert f"{cloud.uri}/in/set/s-test-0.tar cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize("cloud", ["gs"], indirect=True)
def test_the_dead_letters_are_those_of_a_local_archive(tmp_path: Path, cloud: Store) -> None:
    """An image that is none, in an archive in a bucket."""
    make_zip(tmp_path / "in" / "a.zip", {**CLASSES, "a/bad.jpg": b"no image"})
    cloud.put_folder(tmp_path / "in", "in")
    argv = ["--images", f"{cloud.uri}/in/a.zip", "--output", str(tmp_path / "out"), ALL_BAD]
    assert convert(*argv) == 0
    assert reasons_of(tmp_path / "out") == {"a.zip/a/bad.jpg": "not_an_image"}
    letter = json.loads((tmp_path / "out" / "dead_letters.jsonl").read_text())
    assert letter["uri"].startswith(f"zip://{cloud.uri}/in/a.zip#at=")
