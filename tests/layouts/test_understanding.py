"""The lines that say what was understood."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from beam_pipeline.layouts.layout import SourceOptions
from beam_pipeline.layouts.opening import open_source
from beam_pipeline.layouts.understanding import understanding
from tests.pictures import write_files, write_pictures


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_pictures("p", ["cat/1.jpg"])


def lines_of(*labels: str, layout: str = "auto", **options: str) -> list[str]:
    source, why = open_source(layout, SourceOptions(("p",), labels, **options))  # type: ignore[arg-type]
    return list(understanding(source, why))


def test_class_folders_have_no_table() -> None:
    """The layout, why, and where the label comes from."""
    assert lines_of() == [
        "Layout class_folders: no --labels and no other layout's files",
        "  label: classes, each image's folder",
    ]
    assert lines_of(layout="class_folders")[0] == "Layout class_folders: as --layout says"


def test_names_of_images_say_labels() -> None:
    """The folder has nothing to do with them."""
    assert lines_of(label_from=r"(?P<label>.+)\.jpg") == [
        "Layout file_names: --label_from is given",
        "  label: classes, from each image's name",
    ]


@pytest.mark.parametrize(
    ("table", "lines"),
    [
        (
            "file\tlabel\tage\tnote\n1.jpg\tcat\t2\tx\n",
            [
                "  l.csv: table in UTF-8, separator tab; the column 'file' names the images",
                "  label: classes, from the column 'label'; also age (integers), note (texts)",
            ],
        ),
        (
            "id;score\n1;0.5\n",
            [
                "  l.csv: table in UTF-8, separator ';'; the column 'id' names the images",
                "  label: numbers, from the column 'score'",
            ],
        ),
        (
            "id,text\n1,hello\n",
            [
                "  l.csv: table in UTF-8, separator ','; the column 'id' names the images",
                "  label: none; also text (texts)",
            ],
        ),
    ],
)
def test_a_table_says_how_it_is_read(table: str, lines: list[str]) -> None:
    """Encoding, separator, key column, label column and its kind, and all others."""
    write_files(".", {"l.csv": table})
    assert lines_of("l.csv") == ["Layout table: label files are given", *lines]


def test_the_column_of_split_by_is_named_once() -> None:
    """It is a feature as any other column."""
    write_files(".", {"l.csv": "file,label,patient\n1.jpg,cat,p7\n"})
    label = "  label: classes, from the column 'label'; also patient (texts)"
    assert lines_of("l.csv", split_by="patient")[-1] == label


def test_tables_that_are_read_alike_share_a_line() -> None:
    """Others have one of their own."""
    row = {"file_name": "1.jpg", "tags": ["a", "b"]}
    write_files(".", {f"{name}.jsonl": json.dumps(row) + "\n" for name in "abcd"})
    write_files(".", {"e.csv": "file_name,tags\n1.jpg,a\n"})
    assert lines_of("a.jsonl", "b.jsonl", "c.jsonl", "d.jsonl", "e.csv", label_column="tags") == [
        "Layout table: label files are given",
        "  a.jsonl, b.jsonl, c.jsonl, and 1 more: JSON Lines in UTF-8; the column 'file_name' names "
        "the images",
        "  e.csv: table in UTF-8, separator ','; the column 'file_name' names the images",
        "  label: lists of classes, from the column 'tags'",
    ]


def test_a_parquet_table_has_no_encoding() -> None:
    """Its key column is named as a text's is."""
    rows = pyarrow.table({"file_name": ["1.jpg", "2.jpg"], "label": ["cat", "dog"]})
    parquet.write_table(rows, "l.parquet")
    assert (
        lines_of("l.parquet")[1] == "  l.parquet: Parquet; the column 'file_name' names the images"
    )


def test_objects_are_boxes() -> None:
    """Beside what else a row says."""
    row = {"file_name": "1.jpg", "objects": {"bbox": [[1, 1, 2, 2]], "categories": ["cat"]}, "n": 1}
    write_files("p", {"metadata.jsonl": json.dumps(row) + "\n"})
    assert lines_of()[1:] == [
        "  metadata.jsonl: JSON Lines in UTF-8; the column 'file_name' names the images",
        "  label: boxes of objects with their classes; also n (integers)",
    ]
