"""YOLO's label files, line by line, and data sets from folders to examples."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from beam_pipeline.core.errors import UsageError
from beam_pipeline.layouts import tree, yolo_data_set
from beam_pipeline.layouts.label_files import FolderPair
from tests import harness
from tests.layouts import data_sets


@pytest.fixture
def coco6(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with coco6/ in it, which is the working directory."""
    data_sets.make("yolo", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_label_file_that_may_not_be_read(coco6: Path) -> None:
    """Its image is a dead letter, and not one without objects."""
    path = "coco6/labels/train/000000000025.txt"
    os.chmod(path, 0)
    assert harness.convert("--images", "coco6", "--output", "out", harness.ALL_BAD) == 0
    assert harness.reasons_of("out") == {"train/000000000025.jpg": "bad_label_value"}


def test_of_many_images_one_with_labels_is_enough(tmp_path: Path) -> None:
    """Whichever it is: the last one that the file system names is beyond those that layouts look at."""
    for number in range(tree.MOST_IMAGES + 100):
        (tmp_path / f"{number}.jpg").touch()
    *_, last = os.listdir(tmp_path)
    (tmp_path / last).with_suffix(".txt").write_text("0 0.5 0.5 0.5 0.5")
    folder = str(tmp_path)
    assert yolo_data_set.folder_pairs_in(folder) == [FolderPair(folder, folder)]


# --- data.yaml ---------------------------------------------------------------------------------------


def described(tmp_path: Path, text: str) -> yolo_data_set.Description | None:
    path = tmp_path / "data.yaml"
    path.write_text(text, encoding="utf-8")
    return yolo_data_set.read_description(str(path))


@pytest.mark.timeout(10)
@pytest.mark.parametrize("key", ["names", "train", "kpt_shape"])
def test_aliases_take_no_memory(tmp_path: Path, key: str) -> None:
    """A list of lists of lists that 400 bytes describe has 9^40 items; a message has a few."""
    lines = [
        "a0: &a0 [x]",
        *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 41)),
    ]
    fields = {"names": "[a]", "train": "a", "kpt_shape": "[2, 3]"} | {key: "[*a40]"}
    text = "\n".join([*lines, *(f"{name}: {value}" for name, value in fields.items())])
    with pytest.raises(UsageError) as caught:
        described(tmp_path, text)
    assert len(str(caught.value)) < 300 + len(str(tmp_path))
