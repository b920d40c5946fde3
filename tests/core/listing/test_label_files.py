"""Label files that a listing passes over: which they are, and that counts add up in any order."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable

import pytest

from beam_pipeline.core.card.side_files import SIDE_FILES
from beam_pipeline.core.listing.label_files import LabelFile, LabelFiles, kind_of


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


def test_the_first_two_names_are_kept() -> None:
    """However many there are, in whatever order they come."""
    label_files = seen(*(f"{i:03d}.txt" for i in reversed(range(500))), "x.csv", "a.jpg")
    assert label_files.counts == {".txt": 500, ".csv": 1}
    assert label_files.first == {
        ".txt": [label_file("000.txt"), label_file("001.txt")],
        ".csv": [label_file("x.csv")],
    }


@pytest.mark.parametrize("order", itertools.permutations(range(3)))
def test_counts_add_up_in_any_order(order: Iterable[int]) -> None:
    """Ranges of a bucket are listed by many workers."""
    parts = (["b.csv", "d.csv"], ["a.csv", "z.xml"], ["c.csv"])
    whole = LabelFiles()
    for index in order:
        whole.add(seen(*parts[index]))
    assert whole == seen(*(key for part in parts for key in part))


def test_files_of_a_written_data_set_are_none() -> None:
    """If shards lie around; without any, they may well be labels."""
    written = ("o/manifest.json", "o/features.json", "o/labels.txt", "o/dead_letters.jsonl")
    beside = seen(*written, "o/d.tfrecord-00000-of-00001", "a.json").by_extension()
    assert (beside.counts, beside.first) == ({".json": 1}, {".json": [label_file("a.json")]})
    by_extension = seen(*written, "a.json").by_extension()
    assert by_extension.counts == {".json": 3, ".txt": 1, ".jsonl": 1}
    assert by_extension.first[".json"] == [label_file("a.json"), label_file("o/features.json")]
