"""Duplicates in a bucket: told by the listing, against the emulator."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.buckets.services import Store
from tests.harness import convert_in_process_of_its_own
from tests.pictures import write_pictures

pytestmark = pytest.mark.buckets

NAMES = [f"{split}/{'ab'[i % 2]}/{i}.jpg" for split in ("train", "test") for i in range(10)]


@pytest.mark.parametrize("cloud", ["gs"], indirect=True)
def test_the_listing_tells_which_images_are_copies(cloud: Store, tmp_path: Path) -> None:
    """`plan` reports them and reads no image; a conversion reads each that it writes once."""
    contents = write_pictures(str(tmp_path / "photos"), NAMES)
    cloud.put_folder(tmp_path / "photos", "photos")
    cloud.put("photos/train/a/copy.jpg", contents["test/a/0.jpg"])
    argv = ["--images", f"{cloud.uri}/photos", "--output", f"{cloud.uri}/set", "--name", "x"]
    cloud.proxy.take_log()
    planned = subprocess.run(
        [sys.executable, "-m", "beam_pipeline", "plan", *argv, "--yes"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "duplicates: 2 images in 1 group of the same bytes" in planned.stdout
    assert "such as test/a/0.jpg (test) and train/a/copy.jpg (train)" in planned.stdout
    assert not [r for r in cloud.proxy.take_log() if r.query.get("alt") == "media"]
    done = convert_in_process_of_its_own(*argv, "--duplicates", "first")
    assert done.returncode == 0, done.stderr
    reads = [r.path for r in cloud.proxy.take_log() if r.path.endswith(".jpg")]
    assert len(reads) == len(set(reads)) == len(NAMES)
    manifest = json.loads(cloud.get("set/manifest.json"))
    assert manifest["dead_letters"] == {"duplicate": 1}
    assert manifest["counts"]["examples"] == len(NAMES)


@pytest.mark.parametrize("cloud", ["gs"], indirect=True)
def test_images_beside_a_bucket_meet_those_in_it(cloud: Store, tmp_path: Path) -> None:
    """Those on the disk are read; where both have a copy, the first by its key stays."""
    contents = write_pictures(str(tmp_path / "more"), ["c/0.jpg", "c/1.jpg"])
    cloud.put("photos/b/copy.jpg", contents["c/1.jpg"])
    cloud.put("photos/b/other.jpg", contents["c/1.jpg"][:-2] + b"\xff\xd9\x00")
    argv = ["--images", f"{cloud.uri}/photos", "--images", f"{tmp_path}/more"]
    argv += ["--output", f"{tmp_path}/out", "--duplicates", "first", "--max_bad_fraction", "1"]
    done = convert_in_process_of_its_own(*argv)
    assert done.returncode == 0, done.stderr
    letters = [json.loads(line) for line in (tmp_path / "out/dead_letters.jsonl").open()]
    copies = [letter["key"] for letter in letters if letter["reason"] == "duplicate"]
    assert copies == ["c/1.jpg"]
