"""The scripts of examples/ and the code of docs/reader.md run as a reader would run them."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from beam_pipeline.cli import main
from tests.harness import ALL_BAD, REPOSITORY, convert, documented, manifest_of, python, read_all
from tests.notebook import NOTEBOOK, executed
from tests.pictures import picture, write_files


@pytest.fixture(scope="module")
def beside_the_demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with beam-tfrecord-demo, and out/sizes as README.md makes it."""
    folder = tmp_path_factory.mktemp("examples")
    demo = folder / "beam-tfrecord-demo"
    assert main(["demo", str(demo)]) == 0
    argv = ("--images", f"{demo}/images", "--labels", f"{demo}/labels.csv")
    columns = ("--label_column", "size", "--columns", "size:float")
    assert convert(*argv, *columns, "--output", f"{folder}/out/sizes") == 0
    return folder


def run_python(folder: Path, *argv: str, script: str = "") -> str:
    """Runs Python in a folder and returns what it printed."""
    env = {**os.environ, "PYTHONPATH": REPOSITORY}
    done = python(*argv, cwd=folder, env=env, input=script)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "arguments", "lines"),
    [
        ("records_to_shards.py", (), {"1000 records in 5 shards"}),
        ("convert_and_follow.py", ("photos",), {"2 examples", "('not_an_image', 1)"}),
        ("embeddings_and_own_labels.py", ("photos",), {"2 examples", "not_an_image"}),
    ],
)
def test_a_pipeline_of_ones_own(
    script: str, arguments: tuple[str, ...], lines: set[str], tmp_path: Path
) -> None:
    """It prints what follows the commit, and leaves a sound data set."""
    write_files(f"{tmp_path}/photos", {"a/1.jpg": picture(), "b/2.jpg": picture(), "b/3.jpg": "no"})
    argv = (*arguments, "out", "--runner=FnApiRunner")
    assert set(run_python(tmp_path, f"{REPOSITORY}/examples/{script}", *argv).splitlines()) == lines
    assert main(["verify", f"{tmp_path}/out"]) == 0


@pytest.mark.slow
def test_the_textbook_pipeline_writes_the_same_examples(tmp_path: Path) -> None:
    """In shards of Beam's own sink."""
    write_files(f"{tmp_path}/photos", {"a/1.jpg": picture(), "b/2.jpg": picture(), "b/3.jpg": "no"})
    script = f"{REPOSITORY}/examples/textbook.py"
    printed = run_python(tmp_path, script, "photos", "textbook", "--runner=FnApiRunner")
    assert printed == "not_an_image\n"
    assert convert("--images", f"{tmp_path}/photos", ALL_BAD, "--output", f"{tmp_path}/out") == 0
    assert read_all(tmp_path / "textbook") == read_all(tmp_path / "out")


@pytest.mark.slow
def test_the_pipelines_of_the_page_on_transforms_run(tmp_path: Path) -> None:
    """The shards that the page asks for, and a step after the commit."""
    write_files(f"{tmp_path}/photos", {"a/1.jpg": picture(), "b/2.jpg": picture()})
    joining, code = documented("docs/transforms.md", "python")
    assert run_python(tmp_path, "-", script=joining) == "2 examples\n"
    assert {e["label/age"][0] for e in read_all(tmp_path / "out/pets").values()} == {3, 5}
    assert run_python(tmp_path, "-", script=code) == "100 examples\n"
    shards = manifest_of(tmp_path / "out/readings")["splits"]
    assert {name: len(split["shards"]) for name, split in shards.items()} == {"test": 4, "train": 4}


@pytest.mark.slow
def test_the_classifier_trains(beside_the_demo: Path) -> None:
    """One epoch over the demo prints loss and accuracy of both splits."""
    script = f"{REPOSITORY}/examples/train_classifier.py"
    printed = run_python(beside_the_demo, script, "beam-tfrecord-demo/tfrecords")
    assert re.search(
        r"^\d+/\d+ .* accuracy: 0\.\d+ - loss: \d.* - val_accuracy: \d.* - val_loss: \d",
        printed,
        re.M,
    )


@pytest.mark.slow
def test_the_regression_trains(beside_the_demo: Path) -> None:
    """One epoch over the sizes prints loss and mean error."""
    script = f"{REPOSITORY}/examples/train_regression.py"
    printed = run_python(beside_the_demo, script, "out/sizes")
    assert re.search(r"^\d+/\d+ .* loss: \d.* - mae: \d", printed, re.M)


@pytest.mark.slow
def test_the_code_of_the_readers_page_runs(beside_the_demo: Path) -> None:
    """Every block of docs/reader.md, in order, in one program."""
    blocks = documented("docs/reader.md", "python")
    assert blocks
    printed = run_python(beside_the_demo, "-", script="\n".join(blocks))
    assert "(96, 96, 3) b'shape_" in printed
    assert "TensorSpec(shape=(None, 56, 56, 3), dtype=tf.float32, name=None)" in printed
    assert printed.splitlines()[-1].startswith("(64,) [b'")


@pytest.mark.docs
def test_the_notebook_runs(tmp_path: Path) -> None:
    """Every cell; the stored output has the same splits and classes, and no log of a library."""
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    stored = nbformat.read(NOTEBOOK, as_version=4)
    found = executed(str(tmp_path))
    assert [cell.source for cell in found.cells] == [cell.source for cell in stored.cells]
    before, now = (_printed(notebook) for notebook in (stored, found))
    assert "{'train': 253, 'validation': 47}" in before
    assert [line for line in now if line.startswith("{")] == [
        line for line in before if line.startswith("{")
    ]
    assert sum(line.startswith("epoch ") for line in now) == 4
    assert NOTEBOOK.stat().st_size < 100_000


def _printed(notebook: Any) -> list[str]:
    """The lines that all cells printed."""
    return [
        line
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        for line in output.get("text", "").splitlines()
    ]
