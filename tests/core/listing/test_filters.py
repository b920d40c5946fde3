"""Which files are listed as images, which may be label files, and which are ignored."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable

import pytest

from beam_pipeline.core.listing.filters import (
    Archive,
    ImageRoot,
    LabelFile,
    LabelFiles,
    ListingFilter,
    ObjectFilter,
    kind_of,
)
from beam_pipeline.core.report.side_files import SIDE_FILES


def test_a_filter_counts_over_all_it_was_asked() -> None:
    """The counts add up over folders and files."""
    rules = ListingFilter(ImageRoot("gs://b/x", excluded=frozenset({"gs://b/x/labels"})))
    assert [rules.enters(name) for name in ("cat", ".git", "__MACOSX", "a.jpg")] == [
        True,
        False,
        False,
        True,
    ]
    listed = ["a.jpg", "a.JPG", ".a.jpg", "x/.b.png", "a.csv", "labels", "x/labels"]
    assert [rules.lists(key, f"gs://b/x/{key}") for key in listed] == [
        True,
        True,
        False,
        False,
        False,
        False,
        True,
    ]
    assert rules.ignored == {"hidden folders": 2, "hidden files": 2, ".csv": 1}


def test_an_object_is_listed_by_its_whole_name() -> None:
    """Names come without their folders: one that a slash ends stands for a folder, and none is empty."""
    names = ObjectFilter(ImageRoot("gs://b/x", excluded=frozenset({"gs://b/x/labels"})))
    keys = ["a.jpg", "cat/", "", "cat/b.png", "labels", "cat/c.csv"]
    assert [key for key in keys if names.lists(key)] == ["a.jpg", "cat/b.png"]
    assert names.prefix == "gs://b/x/"
    assert names.rules.ignored == {".csv": 1}


def test_a_hidden_folder_counts_once() -> None:
    """However many names lie below it, in any order, and whatever is hidden inside of it."""
    names = ObjectFilter(ImageRoot("gs://b"))
    keys = [".git/a.jpg", "cat/.x/a.jpg", ".git/.y/b.jpg", "cat/.x/b.jpg", "dog/.x/a.jpg"]
    assert [names.hidden_folder(key) for key in keys] == [
        ".git/",
        "cat/.x/",
        ".git/",
        "cat/.x/",
        "dog/.x/",
    ]
    assert not any(map(names.lists, keys))
    assert names.rules.ignored == {"hidden folders": 3}


def test_a_root_may_be_listed_in_some_folders_only() -> None:
    """What lies elsewhere is neither listed nor counted."""
    rules = ListingFilter(ImageRoot("/d", within=("train/images/", "b/")))
    keys = ["train/images/a.jpg", "train/images2/a.jpg", "b/x/a.jpg", "a.jpg", "a.csv", "b/a.csv"]
    assert [key for key in keys if rules.lists(key, f"/d/{key}")] == [
        "train/images/a.jpg",
        "b/x/a.jpg",
    ]
    assert rules.ignored == {".csv": 1}


def test_a_root_may_be_listed_but_for_some_files() -> None:
    """In any folder, also where all others are images; those left out are not counted."""
    rules = ListingFilter(ImageRoot("/d", but=("**/*_mask.png",)))
    keys = ["a.png", "a_mask.png", "b/a.png", "b/a_mask.png", "b/a_mask.jpg"]
    assert [key for key in keys if rules.lists(key, f"/d/{key}")] == [
        "a.png",
        "b/a.png",
        "b/a_mask.jpg",
    ]
    assert not rules.lists_all(keys, "/d/")
    assert rules.ignored == {}


def test_label_files_that_are_passed_over_are_seen() -> None:
    """Neither those of --labels nor hidden ones; those in an archive by the keys of its members."""
    excluded = frozenset({"gs://b/x/known.csv"})
    names = ObjectFilter(ImageRoot("gs://b/x", excluded=excluded))
    for key in ("known.csv", "a.csv", ".b.csv", ".git/c.csv", "cat/1.jpg", "cat/1.txt", "cat/1.db"):
        names.lists(key)
    assert names.rules.label_files.first == {
        ".csv": [LabelFile("a.csv", "gs://b/x/a.csv")],
        ".txt": [LabelFile("cat/1.txt", "gs://b/x/cat/1.txt")],
    }
    names = ObjectFilter(ImageRoot("/d/p.zip", archive=Archive("zip", "p.zip")))
    names.lists("cat/a.csv")
    assert names.rules.label_files.first == {
        ".csv": [LabelFile("p.zip/cat/a.csv", "/d/p.zip/cat/a.csv", archive=True)]
    }


def test_with_patterns_label_files_count_in_folders_on_their_way() -> None:
    """Not in other folders, nor if they match themselves; ignored files are not counted, as ever."""
    names = ObjectFilter(ImageRoot("gs://b", ("cat*/*.jpg", "odd.csv")))
    keys = [
        "a.csv",
        "odd.csv",
        "cats/1.jpg",
        "cats/1.png",
        "cats/b.csv",
        "dog/c.csv",
        "cats/x/d.csv",
    ]
    assert [key for key in keys if names.lists(key)] == ["odd.csv", "cats/1.jpg"]
    label_files = names.rules.label_files
    assert [file.key for file in label_files.first[".csv"]] == ["a.csv", "cats/b.csv"]
    assert (label_files.counts, names.rules.ignored) == ({".csv": 2}, {})


def test_a_readme_without_an_extension_is_no_image() -> None:
    """It is counted by its name; other files without an extension may be images."""
    rules = ListingFilter(ImageRoot("/photos"))
    keys = ("README", "a/License", "a/0a1b2c", "a/readme.jpg")
    assert [key for key in keys if rules.lists(key, f"/photos/{key}")] == [
        "a/0a1b2c",
        "a/readme.jpg",
    ]
    assert rules.ignored == {"README": 1, "LICENSE": 1}


def label_file(key: str) -> LabelFile:
    """A file in a bucket."""
    return LabelFile(key, f"gs://b/{key}")


def seen(*keys: str) -> LabelFiles:
    """What a listing of these files counts."""
    label_files = LabelFiles()
    for key in keys:
        label_files.see(label_file(key))
    return label_files


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("a/labels.CSV", ".csv"),
        ("1.txt", ".txt"),
        ("a.coco.json", ".json"),
        ("rows.jsonl", ".jsonl"),
        ("t.parquet", ".parquet"),
        ("a.xml", ".xml"),
        ("out/manifest.json", "manifest.json"),
        ("out/labels.txt", "labels.txt"),
        ("out/image_class_label.labels.txt", "labels.txt"),
        ("my_labels.txt", ".txt"),
        ("out/dead_letters-00001-of-00010.jsonl", "dead_letters.jsonl"),
        ("d-train.tfrecord-00000-of-00002", ".tfrecord"),
        ("csv", ""),
        ("a.csv/b", ""),
        (".csv", ""),
        ("a/.hidden.csv", ""),
        ("photo.db", ""),
        ("a.jpg", ""),
    ],
)
def test_kinds(key: str, kind: str) -> None:
    """By extension, in any case; a written data set's files by their names."""
    assert kind_of(key) == kind


def test_files_beside_shards_are_known() -> None:
    """None of them is taken for the user's labels where the data set lies among the images."""
    names = [
        "manifest.json",
        "dataset_info.json",
        "features.json",
        "croissant.json",
        "changes.json",
        "duplicates.json",
        "dead_letters.jsonl",
        "dead_letters-00000-of-00002.jsonl",
        "labels.txt",
        "label_map.pbtxt",
        "schema.pbtxt",
        "report.html",
        "image_class_label.labels.txt",
        "README.md",
    ]
    assert not [
        entry
        for entry in SIDE_FILES
        if not any(re.fullmatch(entry.pattern, name) for name in names)
    ]
    label_files = seen(*names, "d-train.tfrecord-00000-of-00002")
    assert not label_files.by_extension().counts


@pytest.mark.parametrize("order", itertools.permutations(range(3)))
def test_counts_add_up_in_any_order(order: Iterable[int]) -> None:
    """Ranges of a bucket are listed by many workers."""
    parts = (["b.csv", "d.csv"], ["a.csv", "z.xml"], ["c.csv"])
    whole = LabelFiles()
    for index in order:
        whole.add(seen(*parts[index]))
    assert whole == seen(*(key for part in parts for key in part))
