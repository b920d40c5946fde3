"""Classes and splits: which there are, their ids, and who is in them."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from beam_pipeline.cli import main
from tests.harness import (
    ALL_BAD,
    NONE_BAD,
    assert_the_same_bytes_everywhere,
    convert,
    convert_killed_before,
    dead_letters_of,
    manifest_of,
    read_all,
    reasons_of,
    run_convert,
    split_of_each,
)
from tests.pictures import write_files, write_pictures

# --- classes ---------------------------------------------------------------------------------------

INTEGERS = [str(i) for i in range(1, 13)]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Class folders 1 to 12, and an empty current folder."""
    monkeypatch.chdir(tmp_path)
    write_pictures("months", [f"{name}/{i}.jpg" for name in INTEGERS for i in range(2)])
    return tmp_path


def ids_of(output: str) -> dict[str, int]:
    """Class -> id of the manifest's classes."""
    return {c["name"]: c["id"] for c in manifest_of(output)["classes"]}


def written_ids(output: str) -> dict[str, int]:
    """Key -> the id in the example, as TensorFlow reads it."""
    return {key: features["image/class/label"][0] for key, features in read_all(output).items()}


# --- the order of integers ------------------------------------------------------------------------


def test_integers_are_sorted_as_numbers() -> None:
    """The manifest records the order, so that the same options find the data set up to date."""
    printed = run_convert("--images", "months", "--output", "out")
    assert ids_of("out") == {name: int(name) - 1 for name in INTEGERS}
    assert manifest_of("out")["options"]["label_order"] == "numeric"
    assert (
        "  note: class names are integers and get other ids: 1 -> 0, 2 -> 1, 3 -> 2, 4 -> 3, 5 -> 4, "
        "...; they are sorted as numbers, and --label_order code_point sorts them as text; "
        "--class_ids keep writes the integers themselves"
    ) in printed.out.splitlines()
    assert "is up to date" in run_convert("--images", "months", "--output", "out", "--resume").out


@pytest.mark.slow
def test_a_data_set_in_the_order_of_texts_is_not_resumed_in_that_of_numbers() -> None:
    """The error says which option differs; with it, the data set is up to date."""
    argv = ["--images", "months", "--output", "out"]
    assert convert(*argv, "--label_order=code_point") == 0
    before = Path("out/manifest.json").read_bytes()
    assert manifest_of("out")["options"]["label_order"] == "code_point"
    assert (
        "--resume: the earlier run sorted the classes with --label_order code_point, this one would "
        "sort them with numeric, and give them other ids. Say --label_order code_point, or convert "
        "again with --overwrite"
    ) in run_convert(*argv, "--resume", code=1).err
    assert Path("out/manifest.json").read_bytes() == before
    assert convert(*argv, "--resume", "--label_order=code_point") == 0
    assert main(["verify", "out"]) == 0


@pytest.mark.slow
def test_an_unfinished_run_in_the_order_of_texts_is_not_mixed_with_numbers(folder: Path) -> None:
    """Its note says the order, although it has no manifest."""
    argv = ["--images", "months", "--output", "out", "--num_shards=3"]
    for operation in range(5, 400, 5):
        convert_killed_before(
            operation, *argv, "--overwrite", "--label_order=code_point", folder=folder / "out"
        )
        if list(Path("out").glob("*.tfrecord-*")) and not Path("out/manifest.json").exists():
            break
    assert not Path("out/manifest.json").exists()
    assert (
        "sorted the classes with --label_order code_point"
        in run_convert(*argv, "--resume", code=1).err
    )
    assert convert(*argv, "--resume", "--label_order=code_point") == 0
    assert ids_of("out")["10"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("names", [["0", "1", "9"], ["007", "010", "100"], ["1", "10", "2", "x"]])
def test_where_both_orders_are_one_nothing_changes(names: list[str]) -> None:
    """Ten classes, leading zeros, or a class that is no integer: ids and manifest as ever."""
    write_pictures("few", [f"{name}/1.jpg" for name in names])
    argv = ["--images", "few", "--name", "d"]
    assert convert(*argv, "--output", "one") == 0
    assert convert(*argv, "--output", "two", "--label_order=code_point") == 0
    assert ids_of("one") == {name: i for i, name in enumerate(names)}
    assert Path("one/manifest.json").read_bytes() == Path("two/manifest.json").read_bytes()


# --- integers as they are -------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("table", [True, False])
def test_integers_are_kept(table: bool) -> None:
    """Those of a table as well as those of folders, with their gaps; then nothing is noted."""
    kept = [0, 2, 3, 7]
    write_pictures("photos", [f"{i}/{i}.jpg" for i in kept])
    write_files(".", {"l.csv": "file,label\n" + "".join(f"{i}.jpg,{i}\n" for i in kept)})
    labels = ["--labels", "l.csv"] if table else []
    argv = ["--images", "photos", *labels, "--output", "out", "--class_ids", "keep"]
    printed = run_convert(*argv)
    assert written_ids("out") == {f"{i}/{i}.jpg": i for i in kept}
    assert ids_of("out") == {str(i): i for i in kept}
    assert "class names are integers" not in printed.out
    assert main(["verify", "out"]) == 0


@pytest.mark.slow
def test_a_negative_class_is_no_id() -> None:
    """The error says why."""
    write_pictures("signs", ["-1/1.jpg", "1/1.jpg"])
    assert (
        "error: --class_ids keep: class '-1' is negative, and losses and metrics count ids from 0; "
        "rename it or leave the option out"
    ) in run_convert("--images", "signs", "--output", "out", "--class_ids=keep", code=2).err
    argv = ["--images", "signs", "--output", "o", "--class_ids=keep", "--label_base=1"]
    assert "--label_base means nothing with --class_ids keep" in run_convert(*argv, code=2).err


# --- the classes of an earlier data set -----------------------------------------------------------


@pytest.fixture
def training() -> None:
    """A data set of cat, dog and owl; images for testing that have no owl, and a cow."""
    write_pictures("train", ["cat/1.jpg", "dog/1.jpg", "owl/1.jpg"])
    write_pictures("test", ["dog/9.jpg", "cow/9.jpg"])
    assert convert("--images", "train", "--output", "set", "--label_base=1") == 0


@pytest.mark.slow
@pytest.mark.usefixtures("training")
@pytest.mark.parametrize("path", ["set", "set/", "set/manifest.json", "set/labels.txt"])
def test_a_test_set_has_the_ids_of_its_training_set(path: str) -> None:
    """By its folder, manifest or list, which may begin at 1; another class is left out."""
    printed = run_convert("--images", "test", "--classes", path, "--output", "out")
    assert ids_of("out") == {"cat": 1, "dog": 2, "owl": 3}
    assert written_ids("out") == {"dog/9.jpg": 2}
    (dead_letter,) = dead_letters_of("out")
    assert (dead_letter["key"], dead_letter["reason"]) == ("cow/9.jpg", "unknown_class")
    assert dead_letter["message"] == f"'cow': no class of {path}, which has cat, dog, owl"
    assert manifest_of("out")["options"]["classes"] == {"cat": 1, "dog": 2, "owl": 3}
    manifest = Path("set/manifest.json").resolve()
    assert (
        f"Note: 3 classes and their ids are those of {manifest}: 1 cat, 2 dog, 3 owl"
    ) in printed.out.splitlines()
    assert main(["verify", "out"]) == 0
    assert convert("--images", "test", "--classes", path, "--output", "out", "--resume") == 0


@pytest.mark.slow
@pytest.mark.usefixtures("training")
def test_another_class_is_an_error_if_none_is_allowed() -> None:
    """There is not a manifest, and the dead letters say which images."""
    argv = ["--images", "test", "--classes", "set", "--output", "out"]
    assert (
        "error: 1 labelled images have a class that --classes set does not name (such as "
        "'cow/9.jpg'); dead_letters.jsonl tells which"
    ) in run_convert(*argv, "--classes_only", code=1).err
    assert reasons_of("out") == {"cow/9.jpg": "unknown_class"}
    assert not Path("out/manifest.json").exists()
    write_pictures("owls", ["owl/1.jpg"])
    argv = ["--images", "owls", "--classes", "set", "--output", "owl"]
    assert convert(*argv, "--classes_only") == 0


@pytest.mark.usefixtures("training")
def test_another_list_is_not_resumed() -> None:
    """The error names the class whose id differs."""
    write_files(".", {"names.txt": "dog\ncat\n", "other.txt": "cat\ndog\n"})
    argv = ["--images", "test", "--output", "out"]
    assert convert(*argv, "--classes", "names.txt") == 0
    assert ids_of("out") == {"dog": 0, "cat": 1}
    assert (
        "options.classes.cat was 1, is 0"
        in run_convert(*argv, "--classes", "other.txt", "--resume", code=1).err
    )


def test_an_image_with_an_object_of_another_class_is_left_out() -> None:
    """As a whole: an image with some of its objects missing would teach that there are none."""
    write_pictures("photos", ["1.jpg", "2.jpg", "3.jpg"])
    rows = [["cat", "dog"], ["cat", "cow"], []]
    lines = [
        {
            "file_name": f"{i}.jpg",
            "objects": {"bbox": [[1, 1, 2, 2]] * len(names), "categories": names},
        }
        for i, names in enumerate(rows, 1)
    ]
    write_files(".", {"photos/metadata.jsonl": "\n".join(map(json.dumps, lines))})
    write_files(".", {"names.txt": "dog\ncat\n"})
    argv = ["--images", "photos", "--classes", "names.txt", "--output", "out"]
    assert convert(*argv) == 0
    assert reasons_of("out") == {"2.jpg": "unknown_class"}
    assert {key: f["image/object/class/label"] for key, f in read_all("out").items()} == {
        "1.jpg": [2, 1],
        "3.jpg": [],
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--classes=gone.txt"], "--classes gone.txt: no file "),
        (["--classes=empty"], "--classes empty: no file "),
        (["--classes=names.txt", "--class_ids=keep"], "--class_ids has no effect with --classes"),
        (["--classes_only"], "--classes_only needs --classes"),
        (
            ["--classes=other.txt"],
            "all 24 labelled images have a class that --classes other.txt does",
        ),
        (
            ["--classes=names.txt", "--labels=l.csv", "--label_column=none"],
            "--classes means nothing for these labels of the layout table: none is a class",
        ),
    ],
)
def test_classes_that_cannot_be(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each error says what is wrong with the option or its file."""
    write_files(".", {"names.txt": "1\n2\n", "other.txt": "a\nb\n", "empty/x": ""})
    write_files(".", {"l.csv": "file,label\n1/0.jpg,1\n"})
    assert convert("--images", "months", "--output", "out", *options) != 0
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_the_same_bytes_with_other_workers() -> None:
    """Classes that a list names, and others, whoever joins and writes."""
    write_files(".", {"names.txt": "3\n2\n11\n"})
    assert_the_same_bytes_everywhere("--images", "months", "--name", "d", "--classes", "names.txt")


# --- splits ----------------------------------------------------------------------------------------

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
