"""Images without labels in whole conversions, read back by every reader."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

import beam_pipeline
from tests.harness import (
    NONE_BAD,
    assert_the_same_bytes_everywhere,
    convert,
    dead_letters_of,
    manifest_of,
    read_all,
)
from tests.pictures import write_files, write_pictures

NAMES = [f"{i}.jpg" for i in range(6)]
KEEP = ("--unlabelled", "keep", NONE_BAD)


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with six photographs."""
    write_pictures(str(tmp_path / "photos"), NAMES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def labels_of(folder: str) -> dict[str, dict[str, Any]]:
    """Image -> the features of its labels."""
    prefixes = ("image/class/", "image/label", "label/", "image/object/")
    return {
        name: {key: value for key, value in features.items() if key.startswith(prefixes)}
        for name, features in read_all(folder).items()
    }


def loaded(folder: str) -> list[Any]:
    """The labels of the split train, as `load` gives them, in the stored order."""
    return [label for _, label in beam_pipeline.load(folder, shuffle=False)]


@pytest.mark.slow
def test_images_without_a_row_or_a_label_are_written(photos: Path) -> None:
    """Without label features, the same everywhere; the manifest counts them and has optional features."""
    write_files(".", {"labels.csv": "filename,label,age\n0.jpg,cat,3\n1.jpg,dog,\n2.jpg,,5\n"})
    argv = ("--images", "photos", "--labels", "labels.csv", *KEEP, "--name", "x")
    assert_the_same_bytes_everywhere(*argv)
    nothing = {"image/labelled": [0]}
    cat = {"image/class/label": [0], "image/class/text": [b"cat"], "image/labelled": [1]}
    dog = {"image/class/label": [1], "image/class/text": [b"dog"], "image/labelled": [1]}
    assert labels_of("one") == {
        "0.jpg": {**cat, "label/age": [3]},
        "1.jpg": dog,
        "2.jpg": {**nothing, "label/age": [5]},
        **dict.fromkeys(NAMES[3:], nothing),
    }
    manifest = manifest_of("one")
    assert manifest["options"]["unlabelled"] == "keep"
    assert manifest["counts"]["unlabelled"] == 4
    optional = {key for key, feature in manifest["features"].items() if feature["optional"]}
    assert optional == {"image/class/label", "image/class/text", "label/age"}
    assert dead_letters_of("one") == []
    assert sorted(int(label) for label in loaded("one")) == [-1, -1, -1, -1, 0, 1]


def test_a_folder_without_any_labels(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The error names the option, and with it the images are written."""
    assert convert("--images", "photos", "--output", "none") == 1
    assert "--unlabelled keep writes images without labels" in capsys.readouterr().err
    assert convert("--images", "photos", *KEEP, "--output", "out") == 0
    assert "  unlabelled: 6 samples, without label features\n" in capsys.readouterr().out
    assert labels_of("out") == {key: {"image/labelled": [0]} for key in NAMES}
    assert manifest_of("out")["classes"] == []
    assert [int(label) for label in loaded("out")] == [-1] * 6


def test_class_folders_beside_images_without_a_class(photos: Path) -> None:
    """Images beside the class folders, and those in a folder `unlabelled`."""
    write_pictures("photos", ["cat/a.jpg", "unlabelled/b.jpg"])
    assert convert("--images", "photos", *KEEP, "--output", "out") == 0
    assert [entry["name"] for entry in manifest_of("out")["classes"]] == ["cat"]
    assert {name for name, labels in labels_of("out").items() if len(labels) > 1} == {"cat/a.jpg"}
    assert manifest_of("out")["counts"]["unlabelled"] == 7


@pytest.mark.slow
def test_numbers_lists_and_objects_without_a_label(photos: Path) -> None:
    """NaN, -1 for each class, and boxes with `labelled` beside them; none is taken for a label."""
    tables = {
        "number.csv": "filename,label\n0.jpg,0.5\n1.jpg,1.5\n",
        "list.jsonl": '{"file_name": "0.jpg", "label": ["a", "b"]}\n{"file_name": "1.jpg", "label": []}\n',
        "boxes.jsonl": '{"file_name": "0.jpg", "objects": {"bbox": [[1, 1, 3, 3]], "category": ["a"]}}\n'
        '{"file_name": "1.jpg", "objects": {"bbox": [], "category": []}}\n',
    }
    write_files(".", tables)
    for table in tables:
        argv = ("--images", "photos", "--labels", table, *KEEP)
        assert convert(*argv, "--output", table.partition(".")[0]) == 0
        assert manifest_of(table.partition(".")[0])["counts"]["unlabelled"] == 4
    numbers = [float(label) for label in loaded("number")]
    assert sorted(number for number in numbers if not math.isnan(number)) == [0.5, 1.5]
    assert len(numbers) == 6
    assert sorted(label.numpy().tolist() for label in loaded("list")) == [
        *([[-1, -1]] * 4),
        [0, 0],
        [1, 1],
    ]
    found = [(int(label["labelled"]), len(label["boxes"])) for label in loaded("boxes")]
    assert sorted(found) == [(0, 0), (0, 0), (0, 0), (0, 0), (1, 0), (1, 1)]
    batch = next(iter(beam_pipeline.load("boxes", shuffle=False, batch_size=6)))
    assert batch[1]["labelled"].shape == (6,)


def test_rows_that_meet_no_image_are_no_unlabelled_images(
    photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A table that names none of the images is the wrong one, and nothing is written."""
    write_files(".", {"labels.csv": "filename,label\nx.jpg,cat\n"})
    argv = ("--images", "photos", "--labels", "labels.csv", "--unlabelled", "keep")
    assert convert(*argv, "--output", "out") == 1
    assert "none of 6 images met one of 1 label rows" in capsys.readouterr().err


@pytest.mark.slow
def test_paths_of_another_place(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    r"""A table made elsewhere, with `C:\` and folders that are not here: said in a note."""
    rows = "".join(f"C:\\data\\pets\\{name},cat\n" for name in NAMES[:5])
    write_files(".", {"labels.csv": f"filename,label\n{rows}"})
    argv = ("--images", "photos", "--labels", "labels.csv", "--name", "x")
    assert_the_same_bytes_everywhere(*argv)
    assert read_all("one").keys() == set(NAMES[:5])
    assert (
        "Note: rows name images in C:/data/pets/; taken are their copies of the same path in --images"
        in capsys.readouterr().out
    )
