"""Classes, splits and images without a label: which there are, their ids, and who is in them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

import beam_pipeline
from beam_pipeline.cli import main
from tests import harness, pictures

# --- classes ---------------------------------------------------------------------------------------

INTEGERS = [str(i) for i in range(1, 13)]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Class folders 1 to 12, and an empty current folder."""
    monkeypatch.chdir(tmp_path)
    pictures.write_pictures("months", [f"{name}/{i}.jpg" for name in INTEGERS for i in range(2)])
    return tmp_path


def ids_of(output: str) -> dict[str, int]:
    """Class -> id of the manifest's classes."""
    return {c["name"]: c["id"] for c in harness.manifest_of(output)["classes"]}


def written_ids(output: str) -> dict[str, int]:
    """Key -> the id in the example, as TensorFlow reads it."""
    return {
        key: features["image/class/label"][0] for key, features in harness.read_all(output).items()
    }


# --- the order of integers ------------------------------------------------------------------------


def test_integers_are_sorted_as_numbers() -> None:
    """The manifest records the order, so that the same options find the data set up to date."""
    printed = harness.run_convert("--images", "months", "--output", "out")
    assert ids_of("out") == {name: int(name) - 1 for name in INTEGERS}
    assert harness.manifest_of("out")["options"]["label_order"] == "numeric"
    assert (
        "  note: class names are integers and get other ids: 1 -> 0, 2 -> 1, 3 -> 2, 4 -> 3, 5 -> 4, "
        "...; they are sorted as numbers, and --label_order code_point sorts them as text; "
        "--class_ids keep writes the integers themselves"
    ) in printed.out.splitlines()
    assert (
        "is up to date"
        in harness.run_convert("--images", "months", "--output", "out", "--resume").out
    )


@pytest.mark.slow
def test_a_data_set_in_the_order_of_texts_is_not_resumed_in_that_of_numbers() -> None:
    """The error says which option differs; with it, the data set is up to date."""
    argv = ["--images", "months", "--output", "out"]
    assert harness.convert(*argv, "--label_order=code_point") == 0
    before = Path("out/manifest.json").read_bytes()
    assert harness.manifest_of("out")["options"]["label_order"] == "code_point"
    assert (
        "--resume: the earlier run sorted the classes with --label_order code_point, this one would "
        "sort them with numeric, and give them other ids. Say --label_order code_point, or convert "
        "again with --overwrite"
    ) in harness.run_convert(*argv, "--resume", code=1).err
    assert Path("out/manifest.json").read_bytes() == before
    assert harness.convert(*argv, "--resume", "--label_order=code_point") == 0
    assert main(["verify", "out"]) == 0


# --- the classes of an earlier data set -----------------------------------------------------------


@pytest.fixture
def training() -> None:
    """A data set of cat, dog and owl; images for testing that have no owl, and a cow."""
    pictures.write_pictures("train", ["cat/1.jpg", "dog/1.jpg", "owl/1.jpg"])
    pictures.write_pictures("test", ["dog/9.jpg", "cow/9.jpg"])
    assert harness.convert("--images", "train", "--output", "set", "--label_base=1") == 0


@pytest.mark.slow
@pytest.mark.usefixtures("training")
@pytest.mark.parametrize("path", ["set", "set/", "set/manifest.json", "set/labels.txt"])
def test_a_test_set_has_the_ids_of_its_training_set(path: str) -> None:
    """By its folder, manifest or list, which may begin at 1; another class is left out."""
    printed = harness.run_convert("--images", "test", "--classes", path, "--output", "out")
    assert ids_of("out") == {"cat": 1, "dog": 2, "owl": 3}
    assert written_ids("out") == {"dog/9.jpg": 2}
    (dead_letter,) = harness.dead_letters_of("out")
    assert (dead_letter["key"], dead_letter["reason"]) == ("cow/9.jpg", "unknown_class")
    assert dead_letter["message"] == f"'cow': no class of {path}, which has cat, dog, owl"
    assert harness.manifest_of("out")["options"]["classes"] == {"cat": 1, "dog": 2, "owl": 3}
    manifest = Path("set/manifest.json").resolve()
    assert (
        f"Note: 3 classes and their ids are those of {manifest}: 1 cat, 2 dog, 3 owl"
    ) in printed.out.splitlines()
    assert main(["verify", "out"]) == 0
    assert (
        harness.convert("--images", "test", "--classes", path, "--output", "out", "--resume") == 0
    )


@pytest.mark.slow
@pytest.mark.usefixtures("training")
def test_another_class_is_an_error_if_none_is_allowed() -> None:
    """There is not a manifest, and the dead letters say which images."""
    argv = ["--images", "test", "--classes", "set", "--output", "out"]
    assert (
        "error: 1 labelled images have a class that --classes set does not name (such as "
        "'cow/9.jpg'); dead_letters.jsonl tells which"
    ) in harness.run_convert(*argv, "--classes_only", code=1).err
    assert harness.reasons_of("out") == {"cow/9.jpg": "unknown_class"}
    assert not Path("out/manifest.json").exists()
    pictures.write_pictures("owls", ["owl/1.jpg"])
    argv = ["--images", "owls", "--classes", "set", "--output", "owl"]
    assert harness.convert(*argv, "--classes_only") == 0


@pytest.mark.usefixtures("training")
def test_another_list_is_not_resumed() -> None:
    """The error names the class whose id differs."""
    pictures.write_files(".", {"names.txt": "dog\ncat\n", "other.txt": "cat\ndog\n"})
    argv = ["--images", "test", "--output", "out"]
    assert harness.convert(*argv, "--classes", "names.txt") == 0
    assert ids_of("out") == {"dog": 0, "cat": 1}
    error = harness.run_convert(*argv, "--classes", "other.txt", "--resume", code=1).err
    assert "options.classes.cat was 1, is 0" in error


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--classes=gone.txt", "--classes gone.txt: no file "),
        ("--classes=empty", "--classes empty: no file "),
        (
            "--classes=other.txt",
            "all 24 labelled images have a class that --classes other.txt does",
        ),
        (
            "--class_ids=keep --labels=signs.csv",
            "--class_ids keep: class '-1' is negative, and losses and metrics count ids from 0; rename",
        ),
        (
            "--classes=names.txt --labels=l.csv --label_column=none",
            "--classes means nothing for these labels of the layout table: none is a class",
        ),
    ],
)
def test_classes_that_cannot_be(options: str, message: str) -> None:
    """Each error says what is wrong with the option or its file."""
    pictures.write_files(".", {"names.txt": "1\n2\n", "other.txt": "a\nb\n", "empty/x": ""})
    pictures.write_files(".", {"l.csv": "file,label\n1/0.jpg,1\n"})
    pictures.write_files(".", {"signs.csv": "file,label\n1/0.jpg,1\n2/0.jpg,-1\n"})
    argv = ("--images", "months", "--output", "out", *options.split())
    assert message in harness.run_convert(*argv, code=1 if "other" in options else 2).err


# --- splits ----------------------------------------------------------------------------------------

PATIENTS = {f"{i:03d}.jpg": f"P{i * i % 23}" for i in range(120)}
KINDS = {name: "malignant" if i % 5 == 0 else "benign" for i, name in enumerate(PATIENTS)}
SHARES = "--splits train=0.6,validation=0.2,test=0.2"
UNEVEN = "--splits a=0.999,b=0.001"
NO_CLASSES = "--stratify divides each class, and a column of classes is missing"
NO_PATIENT = "an image without a label has no patient, so it could be on either side"
NONE_IN_B = "--splits: not one of 120 samples fell into b"


@pytest.fixture
def patients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: photos/ of twelve patients, and labels.csv."""
    pictures.write_pictures(str(tmp_path / "photos"), PATIENTS)
    rows = "".join(f"{name},{KINDS[name]},{patient}\n" for name, patient in PATIENTS.items())
    pictures.write_files(str(tmp_path), {"labels.csv": f"filename,diagnosis,patient\n{rows}"})
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_row_without_a_patient_is_a_dead_letter(patients: Path) -> None:
    """With its line, as it could belong to either side."""
    with (patients / "labels.csv").open() as file:
        text = file.read().replace("003.jpg,benign,P9", "003.jpg,benign, ")
    (patients / "labels.csv").write_text(text)
    argv = ("--images", "photos", "--labels", "labels.csv", harness.ALL_BAD, *SHARES.split())
    assert harness.convert(*argv, "--split_by", "patient", "--output", "out") == 0
    (dead_letter,) = harness.dead_letters_of("out")
    assert dead_letter["reason"] == "bad_label_value"
    assert (dead_letter["key"], dead_letter["line"]) == ("003.jpg", 5)
    assert dead_letter["message"] == "column 'patient': is empty"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (f"{SHARES} --split_by doctor", "no column 'doctor' (--split_by); found filename, diagno"),
        (f"{SHARES} --label_column none --stratify", NO_CLASSES),
        (f"{SHARES} --split_by patient --unlabelled keep", NO_PATIENT),
        (f"{UNEVEN} --split_by patient", f"{NONE_IN_B}; there are too few groups"),
        (f"{UNEVEN} --label_column diagnosis --stratify", NONE_IN_B),
    ],
)
def test_what_cannot_be_divided(patients: Path, options: str, message: str) -> None:
    """One error each, which says what to do."""
    argv = ("--images", "photos", "--labels", "labels.csv", "--output", "out")
    assert message in harness.run_convert(*argv, *options.split(), code=2).err


# --- unlabelled -----------------------------------------------------------------------------------


NAMES = [f"{i}.jpg" for i in range(6)]
KEEP = ("--unlabelled", "keep", harness.NONE_BAD)


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with six photographs."""
    pictures.write_pictures(str(tmp_path / "photos"), NAMES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def labels_of(folder: str) -> dict[str, dict[str, Any]]:
    """Image -> the features of its labels."""
    prefixes = ("image/class/", "image/label", "label/", "image/object/")
    return {
        name: {key: value for key, value in features.items() if key.startswith(prefixes)}
        for name, features in harness.read_all(folder).items()
    }


def loaded(folder: str) -> list[Any]:
    """The labels of the split train, as `load` gives them, in the stored order."""
    return [label for _, label in beam_pipeline.load(folder, shuffle=False)]


def test_a_folder_without_any_labels(photos: Path) -> None:
    """The error names the option, and with it the images are written."""
    error = harness.run_convert("--images", "photos", "--output", "none", code=1).err
    assert "--unlabelled keep writes images without labels" in error
    out = harness.run_convert("--images", "photos", *KEEP, "--output", "out").out
    assert "  unlabelled: 6 samples, without label features\n" in out
    assert labels_of("out") == {key: {"image/labelled": [0]} for key in NAMES}
    assert harness.manifest_of("out")["classes"] == []
    assert [int(label) for label in loaded("out")] == [-1] * 6


@pytest.mark.slow
def test_numbers_lists_and_objects_without_a_label(photos: Path) -> None:
    """NaN, -1 for each class, and boxes with `labelled` beside them; none is taken for a label."""
    tables = {
        "number.csv": "filename,label\n0.jpg,0.5\n1.jpg,1.5\n",
        "list.jsonl": '{"file_name": "0.jpg", "label": ["a", "b"]}\n{"file_name": "1.jpg", "label": []}\n',
        "boxes.jsonl": '{"file_name": "0.jpg", "objects": {"bbox": [[1, 1, 3, 3]], "category": ["a"]}}\n'
        '{"file_name": "1.jpg", "objects": {"bbox": [], "category": []}}\n',
    }
    pictures.write_files(".", tables)
    for table in tables:
        argv = ("--images", "photos", "--labels", table, *KEEP)
        assert harness.convert(*argv, "--output", table.partition(".")[0]) == 0
        assert harness.manifest_of(table.partition(".")[0])["counts"]["unlabelled"] == 4
    numbers = [float(label) for label in loaded("number")]
    assert sorted(number for number in numbers if not math.isnan(number)) == [0.5, 1.5]
    assert len(numbers) == 6
    lists = sorted(label.numpy().tolist() for label in loaded("list"))
    assert lists == [*([[-1, -1]] * 4), [0, 0], [1, 1]]
    found = [(int(label["labelled"]), len(label["boxes"])) for label in loaded("boxes")]
    assert sorted(found) == [(0, 0), (0, 0), (0, 0), (0, 0), (1, 0), (1, 1)]
    batch = next(iter(beam_pipeline.load("boxes", shuffle=False, batch_size=6)))
    assert batch[1]["labelled"].shape == (6,)
