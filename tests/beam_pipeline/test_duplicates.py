"""Images of the same bytes: found whatever the way of converting, kept, left out or refused."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness import (
    NONE_BAD,
    assert_the_same_bytes_everywhere,
    convert,
    dead_letters_of,
    digests,
    manifest_of,
    read_all,
    run,
    run_convert,
    split_of_each,
)
from tests.pictures import picture, write_files

KEYS = [
    f"{split}/{'cat' if i % 2 else 'dog'}/{i}.jpg" for split in ("train", "test") for i in range(6)
]
COPIES = {
    "train/cat/copy.jpg": "test/cat/1.jpg",
    "train/dog/copy.jpg": "train/dog/0.jpg",
    "train/cat/other.jpg": "train/dog/0.jpg",
}
FIGURES = {
    "format": "beam-tfrecord-duplicates",
    "format_version": 1,
    "images_compared": 15,
    "images": 5,
    "groups": 2,
    "copies": 3,
    "groups_across_splits": 1,
    "groups_with_different_labels": 1,
    "examples": [
        {
            "images": 2,
            "splits": {"test": 1, "train": 1},
            "different_labels": False,
            "shown": [
                {"split": "test", "key": "test/cat/1.jpg"},
                {"split": "train", "key": "train/cat/copy.jpg"},
            ],
        },
        {
            "images": 3,
            "splits": {"train": 3},
            "different_labels": True,
            "shown": [
                {"split": "train", "key": "train/cat/other.jpg"},
                {"split": "train", "key": "train/dog/0.jpg"},
                {"split": "train", "key": "train/dog/copy.jpg"},
            ],
        },
    ],
}


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
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
def test_copies_are_counted_and_named(photos: list[str]) -> None:
    """In a file beside the manifest, and in the summary with the option that helps."""
    printed = run_convert(*photos, "--output", "out")
    assert figures_of("out") == FIGURES
    lines = printed.out.splitlines()
    first = lines.index(
        "  warning: 5 images in 2 groups of the same bytes, such as test/cat/1.jpg (test) and "
        "train/cat/copy.jpg (train)"
    )
    assert "1 group with different labels" in lines[first + 2]
    assert "--duplicates first would leave out 3 copies" in lines[first + 3]
    assert convert(*photos, "--output", "out", "--overwrite", "--exclude", "none") != 0
    write_files(".", {"keys": "\n".join(COPIES)})
    assert convert(*photos, "--output", "out", "--overwrite", "--exclude", "keys") == 0
    assert figures_of("out") is None


def test_the_figures_are_those_of_a_conversion_from_nothing(photos: list[str]) -> None:
    """Also where shards are kept or taken, since digests are in the receipts."""
    assert convert(*photos, "--output", "one") == 0
    write_files("photos", {"train/cat/new.jpg": picture(1)})
    assert convert(*photos, "--output", "two", "--reuse", "one") == 0
    assert convert(*photos, "--output", "two", "--resume", "--reuse", "one") == 0
    assert convert(*photos, "--output", "nothing") == 0
    assert figures_of("two") == figures_of("nothing")
    assert figures_of("two")["images"] == 7
    assert digests("two").items() - digests("nothing").items() == {
        ("changes.json", digests("two")["changes.json"])
    }
    assert digests("two/.receipts") == digests("nothing/.receipts")


@pytest.mark.slow
def test_shards_of_older_versions_are_taken_and_said_not_to_be_compared(photos: list[str]) -> None:
    """Their receipts have no digests; the manifest is that of a conversion from nothing."""
    assert convert(*photos, "--output", "one") == 0
    write_files(".", {"keys": "train/cat/3.jpg"})
    for path in Path("one/.receipts").iterdir():
        receipt = json.loads(gzip.decompress(path.read_bytes()))
        del receipt["digests"]
        path.write_bytes(gzip.compress(json.dumps(receipt).encode(), mtime=0))
    Path("one/duplicates.json").unlink()
    assert convert(*photos, "--output", "one", "--resume") == 0
    assert convert(*photos, "--exclude", "keys", "--output", "two", "--reuse", "one") == 0
    printed = run_convert(*photos, "--exclude", "keys", "--output", "nothing")
    assert digests("two")["manifest.json"] == digests("nothing")["manifest.json"]
    compared = figures_of("two")["images_compared"]
    assert 0 < compared < 14
    note = f"duplicates were looked for among {compared} of 14 images"
    assert note in printed.out


@pytest.mark.promise("duplicates")
def test_the_first_is_kept_and_the_copy_in_train_goes(photos: list[str]) -> None:
    """Dead letters say what is kept instead; they are not bad samples."""
    photos += ["--duplicates", "first", NONE_BAD]
    assert convert(*photos, "--output", "out") == 0
    gone = {"train/cat/copy.jpg", "train/dog/0.jpg", "train/dog/copy.jpg"}
    assert set(read_all("out")) == {*KEYS, *COPIES} - gone
    manifest = manifest_of("out")
    assert manifest["dead_letters"] == {"duplicate": 3}
    assert manifest["counts"]["joined_samples"] == manifest["counts"]["examples"] == 12
    assert manifest["options"]["duplicates"] == "first"
    messages = {letter["key"]: letter["message"] for letter in dead_letters_of("out")}
    assert messages == {
        "train/cat/copy.jpg": "the same bytes as test/cat/1.jpg in test, which is kept",
        "train/dog/0.jpg": "the same bytes as train/cat/other.jpg, which is kept; their labels differ",
        "train/dog/copy.jpg": "the same bytes as train/cat/other.jpg, which is kept; their labels "
        "differ",
    }
    assert figures_of("out") is None
    assert convert(*photos, "--output", "out", "--resume") == 0


@pytest.mark.slow
@pytest.mark.promise("same_bytes")
def test_the_same_are_left_out_everywhere(photos: list[str]) -> None:
    """In any number of processes and threads."""
    assert_the_same_bytes_everywhere(*photos, "--duplicates", "first")


@pytest.mark.slow
def test_records_are_compared_too(photos: list[str]) -> None:
    """With --shuffle=records there are no receipts."""
    assert convert(*photos, "--shuffle", "records", "--output", "out") == 0
    assert figures_of("out") == FIGURES
    first = ["--duplicates", "first", "--output", "first"]
    assert convert(*photos, "--shuffle", "records", *first) == 0
    assert len(split_of_each("first")) == 12
    assert figures_of("first") is None


@pytest.mark.slow
def test_copies_are_an_error_if_asked(photos: list[str]) -> None:
    """Before a shard is written; `plan` says the same. Without copies, nothing is recorded."""
    photos += ["--duplicates", "error"]
    error = run_convert(*photos, "--output", "out", code=1).err
    assert "--duplicates error: 5 images in 2 groups of the same bytes, such as" in error
    assert not list(Path("out").glob("*.tfrecord*"))
    assert error.splitlines()[-1] in run("plan", *photos, "--output", "out", code=1).err
    for copy in COPIES:
        Path("photos", copy).unlink()
    assert convert(*photos, "--output", "out") == 0
    assert convert(*photos[:-2], "--output", "plain") == 0
    assert digests("out") == digests("plain")


def test_a_split_and_a_class_of_copies_stay(photos: list[str]) -> None:
    """Without samples, so that ids do not depend on copies."""
    write_files("photos", {"train/ant/1.jpg": picture(0), "validation/dog/1.jpg": picture(0)})
    assert convert(*photos, "--output", "out", "--duplicates", "first") == 0
    manifest = manifest_of("out")
    names = [(entry["id"], entry["name"], entry["examples"]) for entry in manifest["classes"]]
    assert names == [(0, "ant", 0), (1, "cat", 6), (2, "dog", 6)]
    assert {split: entry["examples"] for split, entry in manifest["splits"].items()} == {
        "test": 6,
        "train": 5,
        "validation": 1,
    }
