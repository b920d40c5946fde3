"""The table of roles: what each level of folders, column and kind of file is used for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

import beam_pipeline
from beam_pipeline.cli import main
from beam_pipeline.core.dataset.manifest import Manifest
from beam_pipeline.layouts.layout import SourceOptions
from beam_pipeline.layouts.opening import open_source
from beam_pipeline.layouts.roles import understanding
from tests.conformance.trees import csv, images, paths
from tests.harness import manifest_of
from tests.pictures import write_files, write_pictures


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def roles_of(*labels: str, layout: str = "auto", **options: Any) -> list[str]:
    """The rows in a line each: subject, values, role."""
    source, _ = open_source(layout, SourceOptions(("p",), labels, **options))
    return [f"{row.subject} | {row.values} | {row.role}" for row in source.roles]


def test_the_layout_comes_first_then_the_table_then_notes() -> None:
    """With the reason for the layout, unless the user named it."""
    write_pictures("p", ["cat/1.jpg"])
    source, why = open_source("auto", SourceOptions(("p",)))
    assert [*understanding(source, why)] == [
        "Layout class_folders: no --labels and no other layout's files",
        "  path segment 1  class   1 folder, such as 'cat'",
        "  .jpg files      images  1 file, such as '1.jpg'",
    ]
    assert next(understanding(source, "")) == "Layout class_folders: given by --layout"


@pytest.mark.parametrize(
    ("files", "options", "rows"),
    [
        (
            images("p/{train,val}/{cat,dog}/{1..3}.jpg") | {"p/notes.txt": "x"},
            {},
            [
                "path segment 1 | 2 folders, such as 'train' | split",
                "path segment 2 | 2 folders, such as 'cat' | class",
                ".txt files | 1 file, such as 'notes.txt' | ignored",
                ".jpg files | 12 files, such as '1.jpg' | images",
            ],
        ),
        (
            images("p/{x,y}/{cat,dog}/{1..3}.jpg"),
            {"label_from": "(?P<camera>[^/]+)/(?P<label>[^/]+)/[^/]+"},
            [
                "path segment 1 | 2 folders, such as 'x' | camera",
                "path segment 2 | 2 folders, such as 'cat' | class",
                "group label | texts | class",
                "group camera | texts | feature",
                ".jpg files | 12 files, such as '1.jpg' | images",
            ],
        ),
        (
            images("p/part_{1,2}/{1..3}.jpg") | {"l.csv": csv(["1", "2"], label=["cat", "dog"])},
            {"labels": ("l.csv",)},
            [
                "path segment 1 | 2 folders, such as 'part_1' | ignored",
                "column filename | 2 integers, such as '1' | key",
                "column label | 2 texts, such as 'cat' | class",
                ".csv files | 1 table with ',' between cells, in UTF-8, such as 'l.csv' | labels",
                ".jpg files | 6 files, such as '1.jpg' | images",
            ],
        ),
    ],
    ids=["folders", "names", "table"],
)
def test_each_part_has_a_role(
    files: dict[str, Any], options: dict[str, Any], rows: list[str]
) -> None:
    """Levels of folders, columns or labels, and kinds of files."""
    write_files(".", files)
    assert roles_of(*options.pop("labels", ()), **options) == rows


@pytest.mark.parametrize(
    ("table", "options", "rows"),
    [
        (
            "file\tlabel\tage\tsplit\tid\n1.jpg\tcat\t2\ttest\t7\n2.jpg\tcat\t2.5\ttrain\t8\n",
            {"columns": {"id": "skip"}},
            [
                "column file | 2 texts, such as '1.jpg' | key",
                "column label | 1 text, such as 'cat' | class",
                "column age | 2 numbers, such as '2' | feature",
                "column split | 2 texts, such as 'test' | split",
                "column id | 2 integers, such as '7' | ignored",
                ".csv files | 1 table with tab between cells, in UTF-8, such as 'l.csv' | labels",
            ],
        ),
    ],
    ids=["kinds"],
)
def test_each_column_has_a_role(table: str, options: dict[str, Any], rows: list[str]) -> None:
    """Key, class, split, feature, box side, or ignored."""
    write_files(".", {"l.csv": table})
    write_pictures("p", ["1.jpg"])
    assert roles_of("l.csv", **options)[: len(rows)] == rows


def test_tables_that_are_read_alike_share_a_row() -> None:
    """Others have one of their own; lists are lists."""
    row = {"file_name": "1.jpg", "tags": ["a", "b"]}
    write_files(".", {f"{name}.jsonl": json.dumps(row) + "\n" for name in "ab"})
    parquet.write_table(pyarrow.table({"file_name": ["1.jpg"], "tags": [["a"]]}), "c.parquet")
    write_pictures("p", ["1.jpg"])
    assert roles_of("a.jsonl", "b.jsonl", "c.parquet", label_column="tags")[1:4] == [
        "column tags | 2 or more lists, such as \"['a', 'b']\" | class",
        ".jsonl files | 2 tables in JSON Lines, in UTF-8, such as 'a.jsonl' | labels",
        ".parquet files | 1 table in Parquet, such as 'c.parquet' | labels",
    ]


def test_a_dozen_lines_at_most() -> None:
    """Features are the first to be only counted."""
    names = [f"n{i}" for i in range(20)]
    cells = {name: ["1"] for name in names}
    write_files(".", images("p/{cat,dog}/1.jpg") | {"l.csv": csv(["1"], label=["a"], **cells)})
    source, why = open_source("auto", SourceOptions(("p",), ("l.csv",)))
    lines = [*understanding(source, why)]
    assert [line.split("  ")[1] for line in lines[1:5]] == [
        "path segment 1",
        "column filename",
        "column label",
        "column n0",
    ]
    assert lines[12] == "  and 14 more: 14 feature"
    assert len(lines) == 13


def test_manifest_and_data_set_have_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    """So does what a notebook shows; notes belong to the data set that was converted, and are printed."""
    write_files(
        ".", images("p/{cat,dog}/1.jpg") | {"p/metadata.csv": "file_name,n,m\ncat/1.jpg,2,x\n"}
    )
    data_set = beam_pipeline.convert("p", output="out", max_bad_fraction=1.0)
    assert manifest_of("out")["roles"][0] == {
        "subject": "column file_name",
        "kind": "texts",
        "distinct": 0,
        "example": "",
        "role": "key",
        "partial": False,
    }
    assert [row.role for row in data_set.roles] == [
        "key",
        "key",
        "feature",
        "feature",
        "labels",
        "images",
    ]
    assert beam_pipeline.Dataset.open("out").roles == data_set.manifest.roles
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in printed[1:6]] == [
        ["path", "segment"],
        ["column", "file_name"],
        ["column", "n"],
        ["column", "m"],
        [".csv", "files"],
    ]
    assert printed[-1].startswith("Note: no column is called label, ")
    assert "<td>column n</td><td>1 integer, such as &#x27;2&#x27;</td>" in data_set._repr_html_()
    (note,) = data_set.notes
    assert note.startswith("no column is called label, ")
    assert ">column n</" in Path("out/report.html").read_text(encoding="utf-8")
    older = {k: v for k, v in data_set.manifest.content.items() if k != "roles"}
    assert Manifest.of(older).roles == ()


@pytest.mark.parametrize("command", ["convert", "plan"])
def test_show_roles_prints_the_table_and_stops(command: str) -> None:
    """It needs no --output, and imports no Beam."""
    write_files(".", images(*paths("p/{cat,dog}/{1..2}.jpg")))
    script = (
        f"import sys; from beam_pipeline.cli import main; code = main([{command!r}, '--images', 'p', "
        "'--show_roles']); assert 'apache_beam' not in sys.modules; sys.exit(code)"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == [
        "Layout class_folders: no --labels and no other layout's files",
        "  path segment 1  class   2 folders, such as 'cat'",
        "  .jpg files      images  4 files, such as '1.jpg'",
    ]
    assert [*Path().iterdir()] == [Path("p")]
    assert main([command, "--images", "nowhere", "--show_roles"]) == 2
