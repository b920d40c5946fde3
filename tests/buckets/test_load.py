"""Readers of a data set in a bucket of S3 or Azure."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.buckets.services import Store
from tests.harness import NONE_BAD, REPOSITORY, convert
from tests.pictures import write_pictures

pytestmark = [
    pytest.mark.buckets,
    pytest.mark.parametrize("cloud", ["s3", "az"], indirect=True),
]

NAMES = [f"{'ab'[i % 2]}/{i}.jpg" for i in range(20)]


@pytest.fixture
def output(store_with_photos: Store, tmp_path: Path) -> str:
    """A data set in the bucket, the same as the local one in `local`."""
    argv = ("--images", str(tmp_path / "photos"), "--name", "x", "--num_shards", "2", NONE_BAD)
    assert convert(*argv, "--output", str(tmp_path / "local")) == 0
    store_with_photos.put_folder(tmp_path / "local", "out")
    return f"{store_with_photos.uri}/out"


@pytest.fixture
def store_with_photos(cloud: Store, tmp_path: Path) -> Store:
    write_pictures(str(tmp_path / "photos"), NAMES)
    return cloud


@pytest.mark.parametrize("shuffle", [False, True])
def test_load(output: str, tmp_path: Path, shuffle: bool) -> None:
    """The samples of the local data set, in its order."""
    pytest.importorskip("tensorflow")
    import beam_pipeline

    def samples(folder: str) -> list[tuple[bytes, int]]:
        data = beam_pipeline.load(folder, shuffle=shuffle, seed=3)
        return [(image.numpy().tobytes(), int(label)) for image, label in data]

    assert samples(output) == samples(str(tmp_path / "local"))


def test_the_commands_of_the_page(cloud: Store, tmp_path: Path) -> None:
    """docs/buckets.md's, with a bucket that is there."""
    text = Path(REPOSITORY, "docs", "buckets.md").read_text(encoding="utf-8")
    word = f"{cloud.scheme}://{cloud.container}"
    (command,) = re.findall(rf"^beam-tfrecord (convert .*{word}/.*)$", text, re.MULTILINE)
    write_pictures(str(tmp_path / "photos"), NAMES)
    cloud.put_folder(tmp_path / "photos", "photos")
    argv = command.replace(word, cloud.uri).split()
    done = subprocess.run(
        [sys.executable, "-m", "beam_pipeline", *argv], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "\nWrote 20 examples, " in done.stdout
    assert "tfrecords/manifest.json" in cloud.names()


def test_records_are_not_written_by_beam(cloud: Store, tmp_path: Path) -> None:
    """Its sink knows no such bucket."""
    argv = ("--images", str(tmp_path), "--output", f"{cloud.uri}/out", "--shuffle=records")
    done = subprocess.run(
        [sys.executable, "-m", "beam_pipeline", "convert", *argv],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert f"which cannot write to {cloud.scheme}://" in done.stderr
