"""What a look around a folder of images sees, where they belong, and what each part of the input is used for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import beam_pipeline
from beam_pipeline.cli import main
from beam_pipeline.core.dataset.manifest import Manifest
from beam_pipeline.layouts import opening
from beam_pipeline.layouts.layout import SourceOptions
from beam_pipeline.layouts.roles import understanding
from tests import harness
from tests.conformance.trees import csv, images, paths
from tests.pictures import write_files


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


# --- the table of roles: what each level of folders, column and kind of file is used for -------------


def test_a_dozen_lines_at_most() -> None:
    """Features are the first to be only counted."""
    names = [f"n{i}" for i in range(20)]
    cells = {name: ["1"] for name in names}
    write_files(".", images("p/{cat,dog}/1.jpg") | {"l.csv": csv(["1"], label=["a"], **cells)})
    source, why = opening.open_source("auto", SourceOptions(("p",), ("l.csv",)))
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
    assert harness.manifest_of("out")["roles"][0] == {
        "subject": "column file_name",
        "kind": "texts",
        "distinct": 0,
        "example": "",
        "role": "key",
        "partial": False,
    }
    roles = " ".join(row.role for row in data_set.roles)
    assert roles == "key key feature feature labels images"
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
