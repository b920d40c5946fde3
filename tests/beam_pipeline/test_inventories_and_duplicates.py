"""Which images are listed: inventories made elsewhere, and images of the same bytes."""

from __future__ import annotations

import csv
import gzip
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from beam_pipeline.core.listing.inventory import read_inventory
from tests import harness
from tests.layouts import bucket, make_cifar10
from tests.pictures import picture, write_files, write_pictures

PICTURES = ["cat/a.jpg", "cat/b.png", "dog/größe 1.webp", 'dog/say "hi", ok.jpg', "dog/d"]
OTHERS = [
    *("dog/notes.txt", "cat/.hidden.jpg", "labels.csv", "cat/list.csv"),
    *(".git/a.jpg", ".git/deep/b.jpg", "cat/__MACOSX/c.jpg"),
]

Row = tuple[str, int]


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of class folders with images, and of files that are passed over."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "photos"
    write_pictures(str(folder), PICTURES)
    write_files(str(folder), dict.fromkeys(OTHERS, b"x"))
    return folder


def rows_of(folder: object) -> list[Row]:
    """(path, bytes) of every file below a folder."""
    paths = [os.path.join(f, name) for f, _, names in os.walk(str(folder)) for name in names]
    return [(path, os.path.getsize(path)) for path in sorted(paths)]


def write_csv(path: str, rows: Iterable[Row]) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("uri", "size"), *rows])


@pytest.mark.slow
def test_an_inventory_gives_the_bytes_that_listing_gives(photos: Path) -> None:
    """CSV, gzipped CSV or Parquet, one file or several, with paths as they are or relative: every
    file of the output is the same, manifest and what it counts as passed over included."""
    rows = rows_of(photos)
    write_csv("whole.csv", rows)
    Path("whole.csv.gz").write_bytes(gzip.compress(Path("whole.csv").read_bytes()))
    write_csv("half1.csv", [(os.path.relpath(path), size) for path, size in rows[::2]])
    write_csv("half2.csv", [(f"file://{path}", size) for path, size in rows[1::2]])
    names, sizes = zip(*rows, strict=True)
    parquet.write_table(pyarrow.table({"size": sizes, "uri": names}), "whole.parquet")
    argv = ("--images", "photos", "--name", "d", "--num_shards", "3", harness.NONE_BAD)
    assert harness.convert(*argv, "--output", "listed") == 0
    assert harness.manifest_of("listed")["counts"]["ignored_files"] == {
        "hidden folders": 2,
        "hidden files": 1,
        ".csv": 2,
        ".txt": 1,
    }
    given = {
        "csv": ["whole.csv"],
        "gzip": ["whole.csv.gz"],
        "halves": ["half1.csv", "half2.csv"],
        "glob": ["half?.csv"],
        "parquet": ["whole.parquet"],
        "twice": ["whole.csv", "whole.parquet", "half1.csv"],
    }
    for name, inventory in given.items():
        assert harness.convert(*argv, "--inventory", *inventory, "--output", name) == 0
        assert harness.digests(name) == harness.digests("listed")


def test_an_image_that_is_gone_is_a_dead_letter(photos: Path) -> None:
    """Nothing is asked of the folder before an image is read, and a wrong size is found then."""
    rows = [(path, size + 7 * path.endswith("a.jpg")) for path, size in rows_of(photos)]
    write_csv("i.csv", [*rows, (f"{photos}/dog/gone.jpg", 99)])
    argv = ("--images", "photos", "--inventory", "i.csv", "--name", "d")
    assert harness.convert(*argv, "--output", "out", "--max_bad_fraction=1") == 0
    reasons = {"dog/gone.jpg": "unreadable", "cat/a.jpg": "changed_since_listing"}
    assert harness.reasons_of("out") == reasons
    assert harness.manifest_of("out")["splits"]["train"]["examples"] == len(PICTURES) - 1


def test_an_inventory_in_a_bucket_of_images_there(photos: Path) -> None:
    """Both are read by their URIs; names stay as they are."""
    root = f"{bucket.Bucket.scheme()}://{photos}"
    rows = [(f"{bucket.Bucket.scheme()}://{path}", size) for path, size in rows_of(photos)]
    write_csv("i.csv", rows)
    uris, sizes = zip(*rows, strict=True)
    table = pyarrow.table({"uri": uris, "size": sizes})
    parquet.write_table(table, "i.parquet", row_group_size=2)
    argv = ("--images", root, "--name", "d", "--writers", "0", harness.NONE_BAD)
    assert harness.convert(*argv, "--output", "listed") == 0
    for kind in ("csv", "parquet"):
        inventory = f"{bucket.Bucket.scheme()}://{photos.parent}/i.{kind}"
        assert harness.convert(*argv, "--inventory", inventory, "--output", kind) == 0
        assert harness.digests(kind) == harness.digests("listed")


def test_the_page_says_how_to_make_an_inventory_with_gcloud(tmp_path: Path) -> None:
    """The command turns what `gcloud storage ls -l` prints into a file with every name as it is."""
    page = Path(harness.REPOSITORY, "docs/buckets.md").read_text(encoding="utf-8")
    (command,) = (c for c in re.findall(r"```bash\n(.*?)```", page, re.DOTALL) if " ls -l " in c)
    (tmp_path / "printed").write_text(
        "    276224  2024-03-01T10:00:00Z  gs://pets/photos/a.jpg\n"
        '         0  2024-03-01T10:00:00Z  gs://pets/photos/say "hi",  ok .jpg\n'
        "12345678901  2024-03-01T10:00:00Z  gs://pets/photos/größe.jpg\n"
        "TOTAL: 3 objects, 12345955125 bytes (11.5GiB)\n"
    )
    harness.run_shell(f"gcloud() {{ cat printed; }}; {command}", tmp_path)
    with open(tmp_path / "photos.csv.gz", "rb") as file:
        (rows,) = read_inventory(file, "photos.csv.gz")
    assert list(zip(rows.uris, rows.sizes, strict=True)) == [
        ("gs://pets/photos/a.jpg", 276224),
        ('gs://pets/photos/say "hi",  ok .jpg', 0),
        ("gs://pets/photos/größe.jpg", 12345678901),
    ]


def failing(capfd: pytest.CaptureFixture[str], *argv: str, code: int = 2) -> str:
    """The message of a conversion that ends with this code and writes nothing."""
    assert harness.convert(*argv, "--output", "out", "--overwrite", harness.NONE_BAD) == code
    assert not os.path.exists("out/manifest.json")
    return capfd.readouterr().err.splitlines()[-1]


def test_a_layout_that_lists_nothing_takes_no_inventory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The images of CIFAR lie in files of their own kind."""
    monkeypatch.chdir(tmp_path)
    write_files("cifar", make_cifar10.cifar10_python(2))
    write_csv("i.csv", [("a.jpg", 1)])
    assert failing(capfd, "--images", "cifar", "--inventory", "i.csv") == (
        "beam-tfrecord: error: --inventory means nothing for the layout cifar10: its images are in "
        "a few files, which are not listed; leave it out"
    )


# --- duplicates -----------------------------------------------------------------------------------


KEYS = [
    f"{split}/{'cat' if i % 2 else 'dog'}/{i}.jpg" for split in ("train", "test") for i in range(6)
]
COPIES = {
    "train/cat/copy.jpg": "test/cat/1.jpg",
    "train/dog/copy.jpg": "train/dog/0.jpg",
    "train/cat/other.jpg": "train/dog/0.jpg",
}
FIGURES = json.loads("""{"format": "beam-tfrecord-duplicates", "format_version": 1,
 "images_compared": 15, "images": 5, "groups": 2, "copies": 3,
 "groups_across_splits": 1, "groups_with_different_labels": 1,
 "examples": [
  {"images": 2, "splits": {"test": 1, "train": 1}, "different_labels": false, "shown": [
   {"split": "test", "key": "test/cat/1.jpg"}, {"split": "train", "key": "train/cat/copy.jpg"}]},
  {"images": 3, "splits": {"train": 3}, "different_labels": true, "shown": [
   {"split": "train", "key": "train/cat/other.jpg"}, {"split": "train", "key": "train/dog/0.jpg"},
   {"split": "train", "key": "train/dog/copy.jpg"}]}]}""")


@pytest.fixture
def copied_photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The arguments that convert twelve images and three copies of some."""
    contents = {key: picture(i) for i, key in enumerate(KEYS)}
    contents |= {copy: contents[key] for copy, key in COPIES.items()}
    monkeypatch.chdir(tmp_path)
    write_files("photos", contents)
    return ["--images", "photos", "--name", "d", "--num_shards", "2"]


def figures_of(folder: str) -> Any:
    path = Path(folder, "duplicates.json")
    return json.loads(path.read_text()) if path.exists() else None


@pytest.mark.promise("duplicates")
def test_copies_are_counted_and_named(copied_photos: list[str]) -> None:
    """In a file beside the manifest, and in the summary with the option that helps."""
    printed = harness.run_convert(*copied_photos, "--output", "out")
    assert figures_of("out") == FIGURES
    lines = printed.out.splitlines()
    first = lines.index(
        "  warning: 5 images in 2 groups of the same bytes, such as test/cat/1.jpg (test) and "
        "train/cat/copy.jpg (train)"
    )
    assert "1 group with different labels" in lines[first + 2]
    assert "--duplicates first would leave out 3 copies" in lines[first + 3]
    assert (
        harness.convert(*copied_photos, "--output", "out", "--overwrite", "--exclude", "none") != 0
    )
    write_files(".", {"keys": "\n".join(COPIES)})
    assert (
        harness.convert(*copied_photos, "--output", "out", "--overwrite", "--exclude", "keys") == 0
    )
    assert figures_of("out") is None


def test_the_figures_are_those_of_a_conversion_from_nothing(
    copied_photos: list[str],
) -> None:
    """Also where shards are kept or taken, since digests are in the receipts."""
    assert harness.convert(*copied_photos, "--output", "one") == 0
    write_files("photos", {"train/cat/new.jpg": picture(1)})
    assert harness.convert(*copied_photos, "--output", "two", "--reuse", "one") == 0
    assert harness.convert(*copied_photos, "--output", "two", "--resume", "--reuse", "one") == 0
    assert harness.convert(*copied_photos, "--output", "nothing") == 0
    assert figures_of("two") == figures_of("nothing")
    assert figures_of("two")["images"] == 7
    assert harness.digests("two").items() - harness.digests("nothing").items() == {
        ("changes.json", harness.digests("two")["changes.json"])
    }
    assert harness.digests("two/.receipts") == harness.digests("nothing/.receipts")


@pytest.mark.promise("duplicates")
def test_the_first_is_kept_and_the_copy_in_train_goes(copied_photos: list[str]) -> None:
    """Dead letters say what is kept instead; they are not bad samples."""
    copied_photos += ["--duplicates", "first", harness.NONE_BAD]
    assert harness.convert(*copied_photos, "--output", "out") == 0
    gone = {"train/cat/copy.jpg", "train/dog/0.jpg", "train/dog/copy.jpg"}
    assert set(harness.read_all("out")) == {*KEYS, *COPIES} - gone
    manifest = harness.manifest_of("out")
    assert manifest["dead_letters"] == {"duplicate": 3}
    assert manifest["counts"]["joined_samples"] == manifest["counts"]["examples"] == 12
    assert manifest["options"]["duplicates"] == "first"
    messages = {letter["key"]: letter["message"] for letter in harness.dead_letters_of("out")}
    other = "the same bytes as train/cat/other.jpg, which is kept; their labels differ"
    assert messages == {
        "train/cat/copy.jpg": "the same bytes as test/cat/1.jpg in test, which is kept",
        **dict.fromkeys(("train/dog/0.jpg", "train/dog/copy.jpg"), other),
    }
    assert figures_of("out") is None
    assert harness.convert(*copied_photos, "--output", "out", "--resume") == 0


@pytest.mark.slow
def test_records_are_compared_too(copied_photos: list[str]) -> None:
    """With --shuffle=records there are no receipts."""
    assert harness.convert(*copied_photos, "--shuffle", "records", "--output", "out") == 0
    assert figures_of("out") == FIGURES
    first = ["--duplicates", "first", "--output", "first"]
    assert harness.convert(*copied_photos, "--shuffle", "records", *first) == 0
    assert len(harness.split_of_each("first")) == 12
    assert figures_of("first") is None


@pytest.mark.slow
def test_copies_are_an_error_if_asked(copied_photos: list[str]) -> None:
    """Before a shard is written; `plan` says the same. Without copies, nothing is recorded."""
    copied_photos += ["--duplicates", "error"]
    error = harness.run_convert(*copied_photos, "--output", "out", code=1).err
    assert "--duplicates error: 5 images in 2 groups of the same bytes, such as" in error
    assert not list(Path("out").glob("*.tfrecord*"))
    assert (
        error.splitlines()[-1] in harness.run("plan", *copied_photos, "--output", "out", code=1).err
    )
    for copy in COPIES:
        Path("photos", copy).unlink()
    assert harness.convert(*copied_photos, "--output", "out") == 0
    assert harness.convert(*copied_photos[:-2], "--output", "plain") == 0
    assert harness.digests("out") == harness.digests("plain")


def test_a_split_and_a_class_of_copies_stay(copied_photos: list[str]) -> None:
    """Without samples, so that ids do not depend on copies."""
    write_files("photos", {"train/ant/1.jpg": picture(0), "validation/dog/1.jpg": picture(0)})
    assert harness.convert(*copied_photos, "--output", "out", "--duplicates", "first") == 0
    manifest = harness.manifest_of("out")
    names = [(entry["id"], entry["name"], entry["examples"]) for entry in manifest["classes"]]
    assert names == [(0, "ant", 0), (1, "cat", 6), (2, "dog", 6)]
    sizes = {split: entry["examples"] for split, entry in manifest["splits"].items()}
    assert sizes == {"test": 6, "train": 5, "validation": 1}
