"""AutoML Vision's CSV files: classes, several classes and boxes, of images in a bucket or copies."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import harness, pictures
from tests.layouts import bucket, data_sets


@pytest.fixture
def automl(working_folder: Path) -> Path:
    """A folder with CSV files and a copy of their bucket in it, which is the working directory."""
    data_sets.make("automl", str(working_folder))
    return working_folder


@pytest.mark.slow
def test_images_in_a_bucket_are_met_by_their_uris(automl: Path) -> None:
    """Labels in the bucket, too: their first line is seen when they are opened."""
    remote = f"{bucket.Bucket.scheme()}://{automl}/my-project-vcm"
    rows = Path("streets.csv").read_text().replace("gs://my-project-vcm", remote)
    pictures.write_files(str(automl), {"my-project-vcm/labels.csv": rows})
    argv = ["--images", f"{remote}/streets", "--labels", f"{remote}/labels.csv", "--name", "d"]
    assert harness.convert(*argv, "--writers=0", "--output", "remote", harness.NONE_BAD) == 0
    argv = ["--images", "my-project-vcm/streets", "--labels", "streets.csv", "--name", "d"]
    assert harness.convert(*argv, "--writers=0", "--output", "local", harness.NONE_BAD) == 0
    assert harness.digests("remote") == harness.digests("local")


@pytest.mark.slow
def test_a_uri_of_another_folder_of_a_bucket_is_no_image_of_this_one(automl: Path) -> None:
    """Though the file names are the same."""
    remote = f"{bucket.Bucket.scheme()}://{automl}"
    pictures.write_pictures(str(automl), ["mine/1.jpg"])
    pictures.write_files(
        str(automl), {"l.csv": f"TRAIN,{remote}/other/1.jpg,cat\nTRAIN,{remote}/mine/1.jpg,dog"}
    )
    argv = ["--images", f"{remote}/mine", "--labels", "l.csv", "--output", "out", harness.ALL_BAD]
    assert harness.convert(*argv, "--writers=0") == 0
    assert harness.read_all("out")["1.jpg"]["image/class/text"] == [b"dog"]
    (dead_letter,) = harness.dead_letters_of("out")
    assert (dead_letter["key"], dead_letter["reason"]) == (f"{remote}/other/1.jpg", "missing_image")
