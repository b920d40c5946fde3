"""Groups and strata in whole conversions: the same bytes everywhere, exact numbers, clear errors."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tests.harness import (
    ALL_BAD,
    NONE_BAD,
    assert_the_same_bytes_everywhere,
    convert,
    dead_letters_of,
    manifest_of,
    read_all,
    split_of_each,
)
from tests.pictures import write_files, write_pictures

PATIENTS = {f"{i:03d}.jpg": f"P{i * i % 23}" for i in range(120)}
KINDS = {name: "malignant" if i % 5 == 0 else "benign" for i, name in enumerate(PATIENTS)}
SHARES = ("--splits", "train=0.6,validation=0.2,test=0.2")
TABLE = ("--images", "photos", "--labels", "labels.csv", NONE_BAD, *SHARES)


@pytest.fixture
def patients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: photos/ of twelve patients, and labels.csv."""
    write_pictures(str(tmp_path / "photos"), PATIENTS)
    rows = "".join(f"{name},{KINDS[name]},{patient}\n" for name, patient in PATIENTS.items())
    write_files(str(tmp_path), {"labels.csv": f"filename,diagnosis,patient\n{rows}"})
    monkeypatch.chdir(tmp_path)
    return tmp_path


def splits_by_patient(folder: str) -> dict[str, set[str]]:
    found = defaultdict(set)
    for name, split in split_of_each(folder).items():
        found[PATIENTS[name]].add(split)
    return dict(found)


@pytest.mark.slow
def test_a_patient_is_in_one_split(patients: Path) -> None:
    """Everywhere in the same; the column is a feature as well, and the manifest names it."""
    assert_the_same_bytes_everywhere(*TABLE, "--split_by", "patient", "--name", "x")
    assert all(len(splits) == 1 for splits in splits_by_patient("one").values())
    manifest = manifest_of("one")
    assert manifest["options"]["split_by"] == "patient"
    assert "stratify" not in manifest["options"]
    assert all(split["examples"] for split in manifest["splits"].values())
    assert {name: e["label/patient"] for name, e in read_all("one").items()} == {
        name: [patient.encode()] for name, patient in PATIENTS.items()
    }


def test_a_column_that_is_left_out_groups_all_the_same(patients: Path) -> None:
    """The splits are those of the column that is written, and no feature tells of it."""
    skipped = ("--columns", "patient:skip", "--split_by", "patient")
    assert convert(*TABLE, "--split_by", "patient", "--output", "written") == 0
    assert convert(*TABLE, *skipped, "--output", "skipped") == 0
    assert split_of_each("skipped") == split_of_each("written")
    manifest = manifest_of("skipped")
    assert "label/patient" not in manifest["features"]
    assert [column["name"] for column in manifest["options"]["columns"]] == ["diagnosis"]
    assert manifest["options"]["split_by"] == "patient"


@pytest.mark.slow
def test_each_class_is_divided_exactly(patients: Path) -> None:
    """96 and 24 images, by 0.6, 0.2 and 0.2: less than one image from the shares, everywhere."""
    label = ("--label_column", "diagnosis")
    assert_the_same_bytes_everywhere(*TABLE, *label, "--stratify", "--name", "x")
    found = Counter((KINDS[name], split) for name, split in split_of_each("one").items())
    for kind, total in Counter(KINDS.values()).items():
        for split, share in (("train", 0.6), ("validation", 0.2), ("test", 0.2)):
            assert abs(found[kind, split] - total * share) < 1
    assert manifest_of("one")["options"]["stratify"] is True


def test_a_row_without_a_patient_is_a_dead_letter(patients: Path) -> None:
    """With its line, as it could belong to either side."""
    with (patients / "labels.csv").open() as file:
        text = file.read().replace("003.jpg,benign,P9", "003.jpg,benign, ")
    (patients / "labels.csv").write_text(text)
    assert convert(*TABLE[:4], ALL_BAD, *SHARES, "--split_by", "patient", "--output", "out") == 0
    (dead_letter,) = dead_letters_of("out")
    assert dead_letter["reason"] == "bad_label_value"
    assert (dead_letter["key"], dead_letter["line"]) == ("003.jpg", 5)
    assert dead_letter["message"] == "column 'patient': is empty"


def test_folders_stay_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a table that says the labels, and with any other layout."""
    names = [f"video{v}/{i}.jpg" for v in range(30) for i in range(3)]
    write_pictures(str(tmp_path / "frames"), names)
    rows = "".join(f"{name},{i % 2}\n" for i, name in enumerate(names))
    write_files(str(tmp_path), {"labels.csv": f"frame,label\n{rows}"})
    monkeypatch.chdir(tmp_path)
    argv = ("--images", "frames", "--labels", "labels.csv", *SHARES, "--split_by", "folder")
    assert convert(*argv, "--output", "out") == 0
    found = defaultdict(set)
    for name, split in split_of_each("out").items():
        found[name.partition("/")[0]].add(split)
    assert len(found) == 30
    assert all(len(splits) == 1 for splits in found.values())


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (
            ["--labels", "labels.csv", *SHARES, "--split_by", "doctor"],
            "no column 'doctor' (--split_by); found filename, diagnosis, patient",
        ),
        (
            [*SHARES, "--split_by", "patient"],
            "--split_by patient: the layout class_folders has no column 'patient'; expected one of "
            "folder",
        ),
        (
            ["--labels", "labels.csv", "--label_column", "none", *SHARES, "--stratify"],
            "--stratify divides each class, and a column of classes is missing",
        ),
        (
            ["--labels", "labels.csv", *SHARES, "--split_by", "patient", "--unlabelled", "keep"],
            "an image without a label has no patient, so it could be on either side",
        ),
        (
            ["--labels", "labels.csv", "--stratify"],
            "--stratify needs --splits with the split sizes",
        ),
        (
            ["--labels", "labels.csv", "--splits", "a=0.999,b=0.001", "--split_by", "patient"],
            "--splits: not one of 120 samples fell into b; there are too few groups",
        ),
        (
            [
                "--labels",
                "labels.csv",
                "--label_column",
                "diagnosis",
                "--stratify",
                "--splits",
                "a=0.999,b=0.001",
            ],
            "--splits: not one of 120 samples fell into b",
        ),
    ],
)
def test_what_cannot_be_divided(
    patients: Path, capsys: pytest.CaptureFixture[str], argv: list[str], message: str
) -> None:
    """One error each, which says what to do."""
    assert convert("--images", "photos", *argv, "--output", "out") != 0
    assert message in capsys.readouterr().err
