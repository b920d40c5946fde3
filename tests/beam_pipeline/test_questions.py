"""Questions that stop a conversion: what is asked, the command that answers it, and docs/questions.md."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from beam_pipeline.cli import main
from beam_pipeline.core.images.png import grey_png
from tests.harness import (
    REPOSITORY,
    convert,
    convert_asking,
    manifest_of,
    read_all,
    reasons_of,
)
from tests.layouts.make_voc import labelimg_xml
from tests.pictures import write_files, write_pictures

PAGE = Path(REPOSITORY, "docs/questions.md").read_text(encoding="utf-8")

KITTI = "Car 0.00 0 1.62 1.00 1.00 5.00 6.00 1.52 1.63 3.88 -4.36 1.71 14.20 1.33\n"


def voc(name: str) -> str:
    """An annotation of one object."""
    return labelimg_xml(name, (9, 7), [("cat", ("1", "1", "5", "6"))])


def coco(names: list[str]) -> str:
    """A file of instances, an object an image."""
    return json.dumps(
        {
            "info": {},
            "images": [
                {"id": i, "file_name": name, "width": 9, "height": 7}
                for i, name in enumerate(names)
            ],
            "annotations": [
                {"id": i + 1, "image_id": i, "category_id": 1, "bbox": [1, 1, 4, 4], "area": 16}
                for i in range(len(names))
            ],
            "categories": [{"id": 1, "name": "cat"}],
        }
    )


def table(rows: Mapping[str, str], column: str = "label") -> str:
    """A CSV with a row an image."""
    return f"filename,{column}\n" + "".join(f'{name},"{value}"\n' for name, value in rows.items())


NAMES = [f"{i}.jpg" for i in range(12)]


def _single_class() -> None:
    write_pictures("photos/pets", NAMES)


def _names_as_classes() -> None:
    write_pictures("photos", NAMES)
    write_files(".", {"names.csv": table({name: f"photo {name}" for name in NAMES}, "name")})


def _decimal_commas() -> None:
    write_pictures("photos", NAMES)
    write_files(".", {"sizes.csv": table({name: f"{i},5" for i, name in enumerate(NAMES)})})


def _mostly_decimals() -> None:
    values = ["0.5", "0.7", "1.2", *["big"] * 9]
    write_pictures("photos", NAMES)
    write_files(".", {"sizes.csv": table(dict(zip(NAMES, values, strict=True)))})


def _quantities() -> None:
    ages = {name: str(20 + number % 10) for number, name in enumerate(NAMES)}
    write_pictures("photos", NAMES)
    write_files(".", {"people.csv": table(ages).replace("label", "age", 1)})


def _lists() -> None:
    values = ["cat", "dog", "cat,dog"] * 4
    write_pictures("photos", NAMES)
    write_files(".", {"tags.csv": table(dict(zip(NAMES, values, strict=True)))})


def _same_below() -> None:
    folders = [
        f"{kind}/{leaf}" for kind in ("color", "gray") for leaf in ("apple", "grape", "kiwi")
    ]
    write_pictures("leaves", [f"{folders[i % 6]}/{name}" for i, name in enumerate(NAMES)])


def _dates() -> None:
    days = ("2002/07/19/big", "2002/08/11/big", "2003/01/02/big")
    write_pictures("photos", [f"{days[i % 3]}/{name}" for i, name in enumerate(NAMES)])


def _classes_below_dates() -> None:
    folders = ("2021-05-03/fox", "2021-05-04/fox", "2021-05-04/owl", "2021-06-01/elk")
    write_pictures("camera", [f"{folders[i % 4]}/{name}" for i, name in enumerate(NAMES)])


def _spellings() -> None:
    write_pictures("photos/train", [f"cat/{name}" for name in NAMES[:6]])
    write_pictures("photos/test", [f"Cat/{name}" for name in NAMES[6:]])


def _split_tables() -> None:
    write_pictures("photos", NAMES)
    rows = {name: ("cat", "dog")[i % 2] for i, name in enumerate(NAMES)}
    parts = {"train.csv": NAMES[:9], "test.csv": NAMES[9:]}
    write_files(".", {file: table({n: rows[n] for n in names}) for file, names in parts.items()})


def _splits_in_paths() -> None:
    for split in ("train", "valid"):
        write_pictures(f"pets/a/archive/{split}", [f"cat/{split}.jpg", f"dog/{split}.jpg"])


def _split_roots() -> None:
    for split in ("train", "val"):
        write_pictures(f"pets/{split}", [f"cat/{split}.jpg", f"dog/{split}.jpg"])


def _split_column() -> None:
    write_pictures("photos", NAMES)
    parts = ["train", "train", "val"] * 4
    rows = [f"{n},{('cat', 'dog')[i % 2]},{parts[i]}" for i, n in enumerate(NAMES)]
    write_files(".", {"labels.csv": "\n".join(["filename,label,set", *rows, ""])})


def _splits_in_names() -> None:
    for split in ("test_set", "training_set"):
        write_pictures(f"pets/{split}", [f"cat/{split}.jpg", f"dog/{split}.jpg"])


def _spaced_lists() -> None:
    values = ["scab", "rust", "scab rust"] * 4
    write_pictures("photos", NAMES)
    write_files(".", {"leaves.csv": table(dict(zip(NAMES, values, strict=True)))})


def _bracketed_lists() -> None:
    values = ["['cat', 'dog']", "['cat']", "['cat', 'owl']"] * 4
    write_pictures("photos", NAMES)
    write_files(".", {"pets.csv": table(dict(zip(NAMES, values, strict=True)))})


def _flags() -> None:
    values = ["[1, 0, 0]", "[0, 1, 0]", "[0, 0, 1]"] * 4
    write_pictures("photos", NAMES)
    write_files(".", {"vectors.csv": table(dict(zip(NAMES, values, strict=True)))})


def _missing() -> None:
    values = ["cat", "dog", "nan"] * 4
    write_pictures("photos", NAMES)
    write_files(".", {"frame.csv": table(dict(zip(NAMES, values, strict=True)))})


def _whole_numbers() -> None:
    write_pictures("photos", NAMES)
    write_files(".", {"ids.csv": table({name: f"{i % 3}.0" for i, name in enumerate(NAMES)})})


def _table() -> None:
    write_pictures("photos", NAMES)
    rows = {name: ("cat", "dog")[i % 2] for i, name in enumerate(NAMES)}
    write_files(".", {"photos/labels.csv": table(rows)})


def _table_above() -> None:
    write_pictures("photos", NAMES)
    rows = {name: ("cat", "dog")[i % 2] for i, name in enumerate(NAMES)}
    write_files(".", {"train.csv": table(rows), "other.csv": "a,b\n1,2\n"})


def _json() -> None:
    write_pictures("photos/a", NAMES)
    write_pictures("photos/b", NAMES)
    write_files(".", {"photos/labels.json": '{"0.jpg": "cat"}'})


def _coco() -> None:
    for split in ("train2017", "val2017"):
        names = [f"{split}_{name}" for name in NAMES]
        write_pictures(f"coco/{split}", names)
        write_files(".", {f"coco/annotations/instances_{split}.json": coco(names)})
        write_files(".", {f"coco/annotations/captions_{split}.json": coco(names)})


def _coco_part() -> None:
    names = [f"images/train/{name}" for name in NAMES]
    write_pictures("set", names)
    write_files(".", {"set/annotations/instances_all.json": coco(names)})
    write_pictures("set/images/more", ["x.jpg"])


def _voc_in_folders() -> None:
    for name in ("first", "second"):
        names = [f"{name}_{i}.jpg" for i in range(3)]
        write_pictures(f"sets/{name}", names)
        annotations = {f"{one[:-4]}.xml": voc(one) for one in names}
        write_files(f"sets/{name}", annotations)


def _voc_deeper() -> None:
    names = [f"{i}.jpg" for i in range(3)]
    write_pictures("photos/a/b", names)
    write_pictures("photos/c", ["9.jpg"])
    write_files("photos/a/b", {f"{one[:-4]}.xml": voc(one) for one in names})
    write_files("photos/c", {"9.xml": voc("9.jpg")})


def _xml() -> None:
    write_pictures("photos/a", NAMES)
    write_pictures("photos/b", NAMES)
    write_files(".", {"photos/catalogue.xml": "<catalogue/>"})


def _kitti() -> None:
    write_pictures("left", NAMES)
    write_files("labels", {f"{name[:-4]}.txt": KITTI for name in NAMES})


def _yolo() -> None:
    write_pictures("cars", NAMES)
    write_files("labels", {f"{name[:-4]}.txt": "0 0.5 0.5 0.25 0.5\n" for name in NAMES})


def _captions() -> None:
    write_pictures("photos", NAMES)
    write_files("photos", {f"{name[:-4]}.txt": "\na cat on a mat\n" for name in NAMES[:8]})


def _masks() -> None:
    write_pictures("data/images", NAMES)
    stems = [*(name[:-4] for name in NAMES), "more", "others"]
    write_files("data/masks", {f"{stem}.png": grey_png(bytes(63), 9, 7) for stem in stems})


def _masks_among() -> None:
    write_pictures("scans", [f"{('benign', 'malignant')[i % 2]}/{i}.png" for i in range(6)])
    masks = {f"{('benign', 'malignant')[i % 2]}/{i}_mask.png" for i in range(6)}
    write_files("scans", dict.fromkeys(masks, grey_png(bytes(63), 9, 7)))


def _images() -> None:
    write_pictures("data/images", NAMES)


def _splits_only() -> None:
    write_pictures("photos/train", NAMES)
    write_pictures("photos/val", NAMES[:3])


def _splits_below() -> None:
    for name in ("cat", "dog"):
        write_pictures(f"photos/{name}/test", NAMES[:2])
        write_pictures(f"photos/{name}/train", NAMES)


class Case(NamedTuple):
    """Attributes: make, writes the files; argv, of the command; reason and advice, what is asked;
    answer, the options that the printed command adds or gives instead, or empty.
    """

    make: Callable[[], None]
    argv: str
    reason: str
    answer: str = ""


CASES = {
    "single_class": Case(
        _single_class,
        "--images photos",
        "There is a single class, 'pets', by folder names, so all 12 images have the same label.",
    ),
    "names_as_classes": Case(
        _names_as_classes,
        "--images photos --labels names.csv",
        "12 of 12 classes by the column 'name' have a single image ('photo 0.jpg', 'photo 1.jpg', "
        "'photo 10.jpg', and 9 more), as names or captions of the images would.",
        "--images photos --labels names.csv --label_column none",
    ),
    "decimal_commas": Case(
        _decimal_commas,
        "--images photos --labels sizes.csv",
        "12 of 12 classes by the column 'label' are numbers with decimals ('0,5', '1,5', '10,5', and "
        "9 more), which look like a number to predict, not like classes.",
    ),
    "mostly_decimals": Case(
        _mostly_decimals,
        "--images photos --labels sizes.csv --max_bad_fraction 1.0",
        "3 of 4 classes by the column 'label' are numbers with decimals ('0.5', '0.7', '1.2'), which "
        "look like a number to predict, not like classes.",
        "--images photos --labels sizes.csv --max_bad_fraction 1.0 --columns label:float",
    ),
    "quantities": Case(
        _quantities,
        "--images photos --labels people.csv",
        "All 10 classes by the column 'age' are integers, from 20 to 29, and its name is that of a "
        "number to predict, not of classes.",
        "--images photos --labels people.csv --columns age:float",
    ),
    "lists": Case(
        _lists,
        "--images photos --labels tags.csv",
        "1 of 3 classes by the column 'label' look like lists of classes, separated by ',' "
        "('cat,dog'); each would be a class of its own.",
        "--images photos --labels tags.csv --list_column label=,",
    ),
    "spaced_lists": Case(
        _spaced_lists,
        "--images photos --labels leaves.csv",
        "1 of 3 classes by the column 'label' look like lists of classes, separated by ' ' "
        "('scab rust'); each would be a class of its own.",
        "--images photos --labels leaves.csv --list_column 'label= '",
    ),
    "bracketed_lists": Case(
        _bracketed_lists,
        "--images photos --labels pets.csv",
        "3 classes by the column 'label' look like lists in brackets or parts of them "
        "(\"['cat', 'dog']\", \"['cat', 'owl']\", \"['cat']\"), each of which would be a class of its own.",
        "--images photos --labels pets.csv --list_column 'label=[]'",
    ),
    "flags": Case(
        _flags,
        "--images photos --labels vectors.csv",
        "All 3 classes by the column 'label' are rows of 0 and 1 ('[0, 0, 1]', '[0, 1, 0]', '[1, 0, 0]'), "
        "as a value for each class in one cell.",
    ),
    "missing": Case(
        _missing,
        "--images photos --labels frame.csv",
        "'nan' is one of 3 classes by the column 'label', with 4 images, but this is how programs write a "
        "missing value.",
    ),
    "whole_numbers": Case(
        _whole_numbers,
        "--images photos --labels ids.csv",
        "The column 'label' of",
    ),
    "splits_in_names": Case(
        _splits_in_names,
        "--images pets",
        "The folders 'test_set', 'training_set' have a split in their names, and would be classes or "
        "parts of them; so a class would be another one in each split.",
        "--images pets --label_from '(?P<split>test|training)_set/(?P<label>.+)/[^/]+'",
    ),
    "same_below": Case(
        _same_below,
        "--images leaves",
        "The 6 classes by folder names are 3 names below several folders ('color', 'gray'), so a name "
        "such as 'apple' would be several classes.",
        "--images leaves --label_from "
        "'(?:(?P<split>train|val|test)/)?(?P<group>[^/]+)/(?P<label>.+)/[^/]+'",
    ),
    "dates": Case(
        _dates,
        "--images photos",
        "3 of 3 classes by folder names hold a date ('2002/07/19/big', '2002/08/11/big', "
        "'2003/01/02/big'), so the day that an image was taken would be its class.",
        "--images photos --label_from '(?:(?P<split>train|val|test)/)?(?P<date>.+)/[^/]+'",
    ),
    "classes_below_dates": Case(
        _classes_below_dates,
        "--images camera",
        "4 of 4 classes by folder names hold a date ('2021-05-03/fox', '2021-05-04/fox', "
        "'2021-05-04/owl', and 1 more), so the day that an image was taken would be its class.",
        "--images camera --label_from "
        "'(?:(?P<split>train|val|test)/)?(?P<date>.+)/(?P<label>[^/]+)/[^/]+'",
    ),
    "spellings": Case(
        _spellings,
        "--images photos",
        "1 class by folder names is spelled in several ways, such as 'Cat' and 'cat', each of which "
        "would be a class of its own.",
    ),
    "split_tables": Case(
        _split_tables,
        "--images photos --labels train.csv test.csv",
        "All samples would be in the split train, those of 'test.csv' too, although such names are "
        "usual for other splits.",
        "--images photos --labels train.csv test.csv --splits label_files",
    ),
    "split_roots": Case(
        _split_roots,
        "--images pets/train pets/val",
        "All samples would be in the split train, although 'pets/train', 'pets/val' in --images have "
        "names of splits; only folders below a path of --images are splits.",
        "--images pets",
    ),
    "split_column": Case(
        _split_column,
        "--images photos --labels labels.csv",
        "All samples would be in the split train, although the column 'set' holds names of splits.",
    ),
    "splits_in_paths": Case(
        _splits_in_paths,
        "--images pets",
        "All 4 classes by folder names have a split in their paths ('a/archive/train/cat', "
        "'a/archive/train/dog', 'a/archive/valid/cat', and 1 more), so a class would be another one in "
        "each split.",
        "--images pets/a/archive",
    ),
    "table": Case(
        _table,
        "--images photos --seed 3",
        "photos/labels.csv would be ignored, but looks like a table of labels with the columns "
        "filename, label.",
        "--images photos --labels photos/labels.csv --seed 3",
    ),
    "table_above": Case(
        _table_above,
        "--images photos",
        "train.csv would be ignored, but looks like a table of labels with the columns filename, "
        "label.",
        "--images photos --labels train.csv",
    ),
    "json": Case(_json, "--images photos", "photos/labels.json would be ignored."),
    "coco": Case(
        _coco,
        "--images coco/train2017",
        "coco/annotations/instances_train2017.json would be ignored, but looks like a file of "
        "COCO's.",
        "--images coco/train2017 --labels coco/annotations/instances_train2017.json --layout coco",
    ),
    "coco_part": Case(
        _coco_part,
        "--images set/images/train",
        "set/images/train is part of a data set of the layout coco in a folder above: "
        "annotations/instances_all.json in set.",
        "--images set --layout coco",
    ),
    "voc_in_folders": Case(
        _voc_in_folders,
        "--images sets",
        "2 folders in sets look like data sets of the layout voc, not like classes: .xml files "
        "beside images in sets/first.",
        "--images sets/first sets/second --layout voc",
    ),
    "voc_deeper": Case(
        _voc_deeper,
        "--images photos",
        "1 folder in photos looks like a data set of the layout voc, not like a class: .xml "
        "files beside images in photos/c.",
        "--images photos/c --layout voc",
    ),
    "xml": Case(
        _xml,
        "--images photos",
        "photos/catalogue.xml would be ignored; the only XML that is read is Pascal VOC's.",
    ),
    "kitti": Case(
        _kitti,
        "--images left",
        "12 text files with names of images, such as labels/0.txt, would be ignored, but look "
        "like KITTI's labels.",
        "--images left --labels labels --layout kitti",
    ),
    "yolo": Case(
        _yolo,
        "--images cars",
        "12 text files with names of images, such as labels/0.txt, would be ignored, but look "
        "like YOLO's labels: a class number and a box or outline per line.",
        "--images cars --labels labels --layout yolo",
    ),
    "captions": Case(
        _captions,
        "--images photos --max_bad_fraction 0.5",
        "8 text files with names of images, such as photos/0.txt, would be ignored; the first "
        "says 'a cat on a mat'.",
        "--images photos --layout caption_files --max_bad_fraction 0.5",
    ),
    "masks": Case(
        _masks,
        "--images data --max_bad_fraction 0.5",
        "images/, masks/ in data would become classes, but such names are usual for images and a "
        "mask for each.",
        "--images data/images --masks data/masks --max_bad_fraction 0.5",
    ),
    "masks_among": Case(
        _masks_among,
        "--images scans",
        "6 files with names of masks, such as scans/benign/0_mask.png, would be images like those beside "
        "them.",
        "--images scans --masks 'scans/**/*_mask.png'",
    ),
    "images": Case(
        _images,
        "--images data",
        "images/ in data would become a class, but such names are usual for a data set's images and "
        "label files.",
    ),
    "splits_only": Case(
        _splits_only,
        "--images photos",
        "The only class folders in photos have names of splits: train/, val/.",
    ),
    "splits_below": Case(
        _splits_below,
        "--images photos",
        "Folders of splits are below the class folders (photos/cat/test, photos/dog/test), so each "
        "class would become several.",
    ),
}


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def asked_of(stderr: str) -> tuple[str, str]:
    """(question, command or empty) of an error that asks one."""
    lines = stderr[stderr.index("beam-tfrecord: error: ") :].strip().splitlines()
    assert lines.pop(0) == (
        "beam-tfrecord: error: stopped before any image was read, as a guess about the labels is not "
        "safe:"
    )
    assert lines[-1] == "Correct the command, or go on as it is with --yes."
    question, *commands = lines[:-1]
    assert len(commands) <= 1
    return question.removeprefix("- "), "".join(commands).strip()


FAST = ("single_class", "table", "yolo")
"""The cases that the default tests run, of each kind one."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in CASES],
)
def test_a_question_stops_the_run_and_its_command_answers_it(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, nothing left in the output folder; the printed command runs as it stands."""
    case = CASES[name]
    case.make()
    argv = shlex.split(case.argv)
    assert convert_asking(*argv, "--output", "out") == 2
    question, command = asked_of(capsys.readouterr().err)
    assert question.startswith(case.reason)
    assert not os.path.exists("out") or os.listdir("out") == []
    if not case.answer:
        assert command == ""
        return
    program, verb, *answer = shlex.split(command)
    assert (program, verb) == ("beam-tfrecord", "convert")
    wanted = shlex.split(case.answer)
    typed = [token for token in answer if token not in ("--output", "out", "--writers", "0")]
    assert typed == wanted
    assert convert_asking(*answer) == 0
    assert "questions" not in manifest_of("out")
    assert len(read_all("out")) > 0


@pytest.mark.parametrize("name", CASES)
def test_the_page_quotes_each_question(name: str) -> None:
    """docs/questions.md has the reason word by word, and the options that answer it."""
    case = CASES[name]
    words = " ".join(re.sub(r"\n> ?", " ", PAGE).split())
    assert case.reason in words
    if case.answer:
        assert f"beam-tfrecord convert {case.answer} --output out" in words


def test_yes_goes_on_and_the_manifest_says_what_was_asked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The reason alone, not the advice; the summary says it, too. A second run finds nothing new."""
    _single_class()
    reason = CASES["single_class"].reason
    argv = ["--images", "photos", "--output", "out"]
    assert convert_asking(*argv) == 2
    assert convert(*argv) == 0
    assert manifest_of("out")["questions"] == [reason]
    assert f"  accepted with --yes: {reason}" in capsys.readouterr().out.splitlines()
    assert main(["verify", "out"]) == 0
    assert convert_asking(*argv, "--resume", "--writers=0") == 2
    assert convert(*argv, "--resume") == 0
    assert "out is up to date" in capsys.readouterr().out


@pytest.mark.slow
def test_masks_among_images_can_be_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    """By the option that the question names, if folders are the classes."""
    _masks_among()
    assert convert_asking("--images", "scans", "--output", "out") == 2
    option = shlex.split(capsys.readouterr().err)
    pattern = option[option.index("--label_from") + 1]
    argv = ("--images", "scans", "--label_from", pattern, "--output", "out")
    assert convert_asking(*argv) == 0
    assert [c["name"] for c in manifest_of("out")["classes"]] == ["benign", "malignant"]
    assert manifest_of("out")["counts"]["examples"] == 6
    assert set(reasons_of("out").values()) == {"unlabelled"}


def test_both_kinds_of_questions_are_recorded() -> None:
    """Those before the job, and those that the counts of classes raise."""
    _images()
    assert convert("--images", "data", "--output", "out") == 0
    assert manifest_of("out")["questions"] == [
        CASES["images"].reason,
        "There is a single class, 'images', by folder names, so all 12 images have the same label.",
    ]


@pytest.mark.slow
def test_yes_without_a_question_changes_nothing() -> None:
    """The manifest is the same, byte for byte."""
    write_pictures("photos", ["cat/1.jpg", "dog/2.jpg"])
    assert convert_asking("--images", "photos", "--output", "one", "--name", "d") == 0
    assert convert("--images", "photos", "--output", "two", "--name", "d") == 0
    assert Path("one/manifest.json").read_bytes() == Path("two/manifest.json").read_bytes()


def test_a_plan_asks_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    """After what would be written, where the counts raise the question."""
    _single_class()
    assert main(["plan", "--images", "photos", "--output", "out"]) == 2
    printed = capsys.readouterr()
    question, command = asked_of(printed.err)
    assert question.startswith(CASES["single_class"].reason)
    assert "  1 class: 0 pets (12)" in printed.out.splitlines()
    assert command == ""
    assert main(["plan", "--images", "photos", "--output", "out", "--yes"]) == 0


def test_a_named_layout_is_not_questioned() -> None:
    """--layout class_folders says that folders are classes, whatever they are called."""
    _masks()
    assert convert_asking("--images", "data", "--layout", "class_folders", "--output", "out") == 0
    assert [c["name"] for c in manifest_of("out")["classes"]] == ["images", "masks"]


@pytest.mark.parametrize(
    ("typed", "images", "labels", "layout"),
    [
        ("demo", "demo/images", "demo/labels.csv", "table"),
        pytest.param("wrapped", "wrapped/data", "", "class_folders", marks=pytest.mark.slow),
        pytest.param("boxes", "boxes/set", "", "voc", marks=pytest.mark.slow),
    ],
)
def test_a_folder_that_is_certain_is_taken(
    typed: str, images: str, labels: str, layout: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A note says what was taken; the data set is that of the right command."""
    rows = {name: ("cat", "dog")[i % 2] for i, name in enumerate(NAMES)}
    write_pictures("demo/images", NAMES)
    write_files(".", {"demo/labels.csv": table(rows), "demo/notes.csv": "a,b\nx,y\n"})
    for split in ("train", "val"):
        write_pictures("wrapped/data", [f"{split}/cat/{split}.jpg", f"{split}/dog/{split}.jpg"])
    write_pictures("boxes/set", NAMES)
    write_files("boxes/set", {f"{name[:-4]}.xml": voc(name) for name in NAMES})
    assert convert_asking("--images", typed, "--output", "one", "--name", "d") == 0
    said = f"--images {images}{f' --labels {labels}' if labels else ''}"
    assert (
        f"Note: {said} was taken for --images {typed}; --layout class_folders takes the names of its "
        "folders as classes"
    ) in capsys.readouterr().out.splitlines()
    corrected = ["--images", images, *(["--labels", labels] if labels else []), "--layout", layout]
    assert convert_asking(*corrected, "--output", "two", "--name", "d") == 0
    assert Path("one/manifest.json").read_bytes() == Path("two/manifest.json").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("option", [("--class_ids", "keep"), ("--columns", "age:str")])
def test_an_option_says_that_integers_are_classes(
    option: tuple[str, str],
) -> None:
    """Then a column such as `age` is not questioned."""
    _quantities()
    argv = ("--images", "photos", "--labels", "people.csv", *option, "--output", "out")
    assert convert_asking(*argv) == 0
    labels = [features["image/class/text"] for features in read_all("out").values()]
    assert sorted(labels) == sorted([b"%d" % (20 + number % 10)] for number in range(12))


def test_a_few_images_are_not_asked_about() -> None:
    """Four of one class may well be a try-out."""
    write_pictures("photos/pets", NAMES[:4])
    assert convert_asking("--images", "photos", "--output", "out") == 0


@pytest.mark.parametrize("images", [["a", "b"], ["a/*/*.jpg", "b/*/*.jpg"]])
def test_the_listing_finds_label_files_where_nobody_looked(
    images: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """In several folders and globs; the command names the file, and --yes is recorded."""
    write_pictures("a/cat", NAMES[:6])
    write_pictures("b/dog", NAMES[6:])
    write_files(".", {"a/labels.csv": table(dict.fromkeys(NAMES, "pet"))})
    argv = ["--images", *images, "--output", "out"]
    assert convert_asking(*argv) == 2
    question, command = asked_of(capsys.readouterr().err)
    reason = "1 .csv file (labels.csv) would be ignored, and looks like a table of labels."
    assert question.startswith(reason)
    assert os.listdir("out") == []
    assert shlex.split(command)[-2:] == ["--labels", os.path.abspath("a/labels.csv")]
    assert convert(*argv) == 0
    assert manifest_of("out")["questions"] == [reason]
    assert " ".join(re.sub(r"\n> ?", " ", PAGE).split()).count(reason) == 1
