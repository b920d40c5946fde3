"""YOLO's label files, line by line, and data sets from folders to examples."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.layouts import layout, opening, yolo, yolo_data_set
from tests import harness
from tests.layouts.make_boxes import YOLO_LABELS, YOLO_NAMES, make_yolo
from tests.pictures import picture, write_files

LINE = "0 0.5 0.5 0.5 0.5\n"


@pytest.fixture
def coco6(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with coco6/ in it, which is the working directory."""
    make_yolo(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def source_of(*images: str, **options: Any) -> layout.Source:
    return opening.open_source("auto", layout.SourceOptions(images, **options))[0]


def expected_objects(lines: tuple[str, ...]) -> dict[str, Any]:
    """What an example of these label lines must hold."""
    rows = [[float(number) for number in line.split()] for line in lines]
    return {
        "bbox/xmin": harness.float32(row[1] - row[3] / 2 for row in rows),
        "bbox/ymin": harness.float32(row[2] - row[4] / 2 for row in rows),
        "bbox/xmax": harness.float32(row[1] + row[3] / 2 for row in rows),
        "bbox/ymax": harness.float32(row[2] + row[4] / 2 for row in rows),
        "class/label": [int(row[0]) for row in rows],
        "class/text": [YOLO_NAMES[int(row[0])].encode() for row in rows],
    }


def objects_of(features: dict[str, Any]) -> dict[str, Any]:
    prefix = "image/object/"
    return {k.removeprefix(prefix): v for k, v in features.items() if k.startswith(prefix)}


@pytest.mark.parametrize("path", ["coco6", "coco6/data.yaml"])
def test_a_data_set_becomes_examples(
    coco6: Path, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Boxes, classes with their ids, and splits; images without lines or label file have no objects."""
    assert harness.convert("--images", path, "--output", "out", harness.NONE_BAD) == 0
    examples = harness.read_all("out")
    assert sorted(examples) == [f"{name}.jpg" for name in sorted(YOLO_LABELS)]
    for name, lines in YOLO_LABELS.items():
        features = examples[f"{name}.jpg"]
        assert objects_of(features) == expected_objects(lines or ())
        assert features["image/encoded"] == [(coco6 / f"coco6/images/{name}.jpg").read_bytes()]
    splits = {"train": "train", "val": "validation"}
    assert harness.split_of_each("out") == {
        f"{n}.jpg": splits[n.partition("/")[0]] for n in YOLO_LABELS
    }
    assert harness.manifest_of("out")["options"]["layout"] == "yolo"
    assert [(c["id"], c["name"]) for c in harness.manifest_of("out")["classes"]] == list(
        enumerate(YOLO_NAMES)
    )
    out = capsys.readouterr().out
    assert "Layout yolo: data.yaml" in out
    assert (
        "Note: 1 of 6 images lack a label file and count as images without objects, as in "
        "Ultralytics; --unlabelled drop leaves them out\n"
    ) in out


def test_one_split_has_the_names_of_all(coco6: Path) -> None:
    """data.yaml lies two folders higher."""
    source = source_of("coco6/images/train")
    assert source.numbering.known == tuple((name, i) for i, name in enumerate(YOLO_NAMES))
    assert [root.uri for root in source.roots] == [f"{coco6}/coco6/images/train"]


def test_bad_label_files_are_dead_letters_of_their_images(folder: Path) -> None:
    """With file and line; no image with a label file that is bad, or that may be its own, is empty."""
    good, ambiguous = picture(1), picture(2)
    write_files(
        "set",
        {
            **{f"images/{name}.jpg": good for name in ("bad", "box", "empty", "good", "none")},
            "images/two.jpg": ambiguous,
            "images/two.png": ambiguous,
            "labels/good.txt": LINE,
            "labels/bad.txt": f"{LINE}0 0.5 0.5 0.5\n",
            "labels/box.txt": "0 0.5 0.5 1.5 0.5\n",
            "labels/empty.txt": "",
            "labels/two.txt": LINE,
            "labels/gone.txt": LINE,
        },
    )
    assert harness.convert("--images", "set", "--output", "out", harness.ALL_BAD) == 0
    assert sorted(harness.read_all("out")) == ["empty.jpg", "good.jpg", "none.jpg"]
    labels = f"{folder}/set/labels"
    assert harness.sources_of("out") == {
        "bad.jpg": ("bad_label_value", f"{labels}/bad.txt", 2),
        "box.jpg": ("bad_box", f"{labels}/box.txt", 1),
        "two.jpg": ("unlabelled", "", 0),
        "two.png": ("unlabelled", "", 0),
        f"{folder}/set/images/two": ("ambiguous_key", f"{labels}/two.txt", 0),
        f"{folder}/set/images/gone": ("missing_image", f"{labels}/gone.txt", 0),
    }


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_label_file_that_may_not_be_read(coco6: Path) -> None:
    """Its image is a dead letter, and not one without objects."""
    path = "coco6/labels/train/000000000025.txt"
    os.chmod(path, 0)
    assert harness.convert("--images", "coco6", "--output", "out", harness.ALL_BAD) == 0
    assert harness.reasons_of("out") == {"train/000000000025.jpg": "bad_label_value"}


def test_a_split_without_labels_is_a_question(folder: Path) -> None:
    """Nobody knows whether its images are empty or unlabelled."""
    write_files("set", {f"images/{n}.jpg": picture(1) for n in ("train/a", "test/b")})
    write_files("set", {"labels/train/a.txt": LINE})
    write_files("set", {"data.yaml": "train: images/train\ntest: images/test\nnames: [a]\n"})
    (question,) = source_of("set").questions
    assert question.reason.startswith(
        f"none of the 1 images in {folder}/set/images/test has a label file"
    )


OUTLINES = "1 0.25 0.25 0.75 0.25 0.75 0.75 0.25 0.75\n0 0.5 0.5 1 0.5 1 1\n"


@pytest.mark.slow
def test_four_points_are_a_question(folder: Path) -> None:
    """Which --yolo_task answers; the corners of a turned box are a feature of their own."""
    write_files("set", {"images/a.jpg": picture(1), "labels/a.txt": OUTLINES.partition("\n")[0]})
    (question,) = source_of("set").questions
    assert question.reason == (
        "all lines looked at have 9 columns: boxes that are turned (obb) or outlines of four points "
        "(segment); give --yolo_task obb or --yolo_task segment"
    )
    assert source_of("set", yolo_task="segment").questions == ()
    assert (
        harness.convert(
            "--images", "set", "--yolo_task", "obb", "--output", "out", harness.NONE_BAD
        )
        == 0
    )
    features = harness.read_all("out")["a.jpg"]
    assert features["image/object/corner/x"] == [0.25, 0.75, 0.75, 0.25]
    assert features["image/object/corner/y"] == [0.25, 0.25, 0.75, 0.75]
    assert features["image/object/bbox/ymax"] == [0.75]


# --- lines -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lengths", "task"),
    [
        ([], "detect"),
        ([5, 5], "detect"),
        ([9, 9], "obb or segment"),
        ([7, 9], "segment"),
        ([5, 21], "segment"),
        ([56, 56], "pose"),
    ],
)
def test_the_task_shows_in_the_number_of_columns(lengths: list[int], task: str) -> None:
    """Nine in every line may be either of two."""
    assert yolo.guess_task(lengths) == task


@pytest.mark.parametrize(
    ("data", "lengths"),
    [
        (b"", []),
        (b"0 0.5 0.5 1 1\n\n1 0 0 0 0 1 1\n", [5, 7]),
        (b"1 2 3 4\n", None),
        (b"Car 0.00 0 1.62 10.00\n", None),
        (b"5\n", None),
        (b"0 312 170 468 262\n", None),
        (b"a photo of a cat and a dog\n", None),
    ],
)
def test_other_text_files_are_told_apart(data: bytes, lengths: list[int] | None) -> None:
    """A line of YOLO's is a class and fractions."""
    assert yolo.line_lengths(data) == lengths


# --- the data set --------------------------------------------------------------------------------

BOX_LINE = "0 0.5 0.5 1 1\n"


def found_in(folder: Path, files: dict[str, bytes | str], path: str = "") -> yolo_data_set.DataSet:
    write_files(str(folder), files)
    found = yolo_data_set.DataSet()
    found.add(f"{folder}/{path}")
    return found


def test_lists_of_darknet(tmp_path: Path) -> None:
    """Paths in them begin with folders of another machine."""
    found = found_in(
        tmp_path,
        {
            "obj.names": "cat\ndog\n",
            "obj_train_data/a.jpg": b"x",
            "obj_train_data/a.txt": BOX_LINE,
            "obj_train_data/b.jpg": b"x",
            "train.txt": "data/obj_train_data/a.jpg\n",
            "test.txt": "data/obj_train_data/b.jpg\ndata/obj_train_data/c.jpg\n",
        },
    )
    folder = f"{tmp_path}/obj_train_data"
    assert found.pairs == [yolo_data_set.FolderPair(folder, folder)]
    assert found.listed == {f"{folder}/a": "train", f"{folder}/b": "test"}
    assert found.names == {0: "cat", 1: "dog"}
    assert found.notes == [
        f"1 of 2 images in {tmp_path}/test.txt, such as 'data/obj_train_data/c.jpg', are not there"
    ]


def test_list_files_of_data_yaml(tmp_path: Path) -> None:
    """Their images' folders are taken; a path from the list's folder begins with ./."""
    found = found_in(
        tmp_path,
        {
            "data.yaml": "train: lists/a.txt\nval: lists/b.txt\nnames: [cat]\n",
            "lists/a.txt": "./../images/x/1.jpg\nimages/x/2.jpg\n",
            "lists/b.txt": f"{tmp_path}/images/y/1.jpg\n",
            **{f"images/{name}.jpg": b"x" for name in ("x/1", "x/2", "x/3", "y/1")},
            **{f"labels/{name}.txt": BOX_LINE for name in ("x/1", "x/2", "x/3", "y/1")},
        },
    )
    images, labels = f"{tmp_path}/images", f"{tmp_path}/labels"
    assert found.pairs == [
        yolo_data_set.FolderPair(f"{images}/x", f"{labels}/x"),
        yolo_data_set.FolderPair(f"{images}/y", f"{labels}/y"),
    ]
    assert found.listed == {
        f"{images}/x/1": "train",
        f"{images}/x/2": "train",
        f"{images}/y/1": "validation",
    }


TWO_SPLITS = "train: images\nval: images\nnames: [a]\n"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"train.txt": "images/a.jpg\n", "val.txt": "./images/a.jpg\n"},
            r"val\.txt names \./images/a.jpg, which another list gives to train; an image can be in one "
            "split only, so take it out of one of the lists",
        ),
        ({"train.txt": "b.jpg\n"}, r"none of its 1 images exists, such as 'b\.jpg'"),
        ({"labels/a.txt": None}, "no data set of YOLO; expected images/ beside labels/"),
        ({"data.yaml": TWO_SPLITS}, "/images as train and as validation; an image can be in"),
    ],
)
def test_folders_and_lists_that_cannot_be_used(
    tmp_path: Path, files: dict[str, str | None], message: str
) -> None:
    """The message says what was looked for, and what to do."""
    whole: dict[str, Any] = {"images/a.jpg": b"x", "labels/a.txt": BOX_LINE, **files}
    with pytest.raises(UsageError, match=message):
        found_in(tmp_path, {name: text for name, text in whole.items() if text is not None})


def test_two_descriptions(tmp_path: Path) -> None:
    """Neither is taken, unless one has the usual name."""
    text = "train: images\nnames: [a]\n"
    files: dict[str, bytes | str] = {"images/a.jpg": b"x", "labels/a.txt": BOX_LINE}
    with pytest.raises(
        UsageError, match="each describe a data set; name one of them with --images"
    ):
        found_in(tmp_path, {**files, "a.yaml": text, "b.yml": text})
    found = found_in(tmp_path, {"data.yaml": text})
    assert found.pairs == [
        yolo_data_set.FolderPair(f"{tmp_path}/images", f"{tmp_path}/labels", split="train")
    ]


def test_class_files_that_disagree_with_data_yaml(tmp_path: Path) -> None:
    """What describes the data set counts; a file of names beside it is no label file."""
    found = found_in(
        tmp_path,
        {
            "data.yaml": "train: images\nnames: [a]\n",
            "images/a.jpg": b"x",
            "labels/a.txt": BOX_LINE,
            "labels/classes.txt": "b\n",
        },
    )
    assert found.names == {0: "a"}
    assert found.skipped == {f"{tmp_path}/labels/classes.txt"}


def test_roots_hold_all_folders_once(tmp_path: Path) -> None:
    """A root above them with these folders in it; folders far apart are roots of their own."""
    assert yolo_data_set.roots_of(["/d/images"]) == (ImageRoot("/d/images"),)
    assert yolo_data_set.roots_of(["/d/images/a", "/d/images"]) == (ImageRoot("/d/images"),)
    assert yolo_data_set.roots_of(["/d/train/images", "/d/valid/images"]) == (
        ImageRoot("/d", within=("train/images/", "valid/images/")),
    )
    assert yolo_data_set.roots_of(["gs://b/d/images/x", "gs://b/d/images/y"]) == (
        ImageRoot("gs://b/d/images", within=("x/", "y/")),
    )
    assert yolo_data_set.topmost(["/a/b", "/a", "/ab", "/a"]) == ["/a", "/ab"]
    far = [str(tmp_path / name) for name in ("x/1/2/3/images", "y/1/2/3/images")]
    for folder in far:
        Path(folder).mkdir(parents=True)
    assert [root.uri for root in yolo_data_set.roots_of(far)] == far


def test_label_folders_must_be_there(tmp_path: Path) -> None:
    """One at least."""
    (tmp_path / "labels").mkdir()
    there, missing = f"{tmp_path}/labels", f"{tmp_path}/test/labels"
    roots = yolo_data_set.label_roots(
        [yolo_data_set.FolderPair("a", there), yolo_data_set.FolderPair("b", missing)]
    )
    assert roots == (ImageRoot(there, ("**/*.txt",)),)
    with pytest.raises(UsageError, match=r"no folder of label files: .*/test/labels is missing"):
        yolo_data_set.label_roots([yolo_data_set.FolderPair("b", missing)])


# --- data.yaml ---------------------------------------------------------------------------------------

ROBOFLOW = """train: ../train/images
val: ../valid/images
test: ../test/images

nc: 2
names: ['yes', 'no']

roboflow:
  workspace: me
"""


def described(tmp_path: Path, text: str) -> yolo_data_set.Description | None:
    path = tmp_path / "data.yaml"
    path.write_text(text, encoding="utf-8")
    return yolo_data_set.read_description(str(path))


def test_a_description_of_roboflow(tmp_path: Path) -> None:
    """Names as a list, and no path."""
    assert described(tmp_path, ROBOFLOW) == yolo_data_set.Description(
        str(tmp_path / "data.yaml"),
        str(tmp_path),
        [
            ("train", "../train/images"),
            ("validation", "../valid/images"),
            ("test", "../test/images"),
        ],
        {0: "yes", 1: "no"},
    )


def test_ultralytics(tmp_path: Path) -> None:
    """Names as a mapping, several folders for a split, key points, and a path from here."""
    (tmp_path / "coco").mkdir()
    text = """path: coco
train: [images/a, images/b]
val: val.txt
test:  # none
kpt_shape: [17, 3]
names: {0: person, 3: no, 1: 5}
"""
    assert described(tmp_path, text) == yolo_data_set.Description(
        str(tmp_path / "data.yaml"),
        str(tmp_path / "coco"),
        [("train", "images/a"), ("train", "images/b"), ("validation", "val.txt")],
        {0: "person", 1: "5", 3: "no"},
        (17, 3),
    )


def test_words_stay_words(tmp_path: Path) -> None:
    """YAML would make of yes a truth value and of 1_0 a number."""
    found = described(tmp_path, "train: a\nnames: [yes, null, 1_0, 0x1F]\n")
    assert found is not None
    assert found.names == {0: "yes", 1: "null", 2: "1_0", 3: "0x1F"}


def test_a_path_of_another_machine(tmp_path: Path) -> None:
    """The file's own folder takes its place, and a note says so."""
    found = described(tmp_path, "path: /home/bob/x\ntrain: a\nnames: [a]\n")
    assert found is not None
    assert found.folder == str(tmp_path)
    assert found.notes == (
        f"{found.uri}: its path /home/bob/x does not exist; its folders are looked up in {tmp_path}",
    )


def test_a_file_of_names(tmp_path: Path) -> None:
    """A name a line, as LabelImg and Darknet write them; the last lines may be empty."""
    (tmp_path / "obj.names").write_bytes(b"\xef\xbb\xbfcat\r\ndog \r\n\r\n")
    assert yolo_data_set.read_class_file(str(tmp_path / "obj.names")) == {0: "cat", 1: "dog"}


@pytest.mark.parametrize(
    "text", ["", "a: 1", "[1]", "x", "names: [a]", "train: x", "train:\nnc: 1"]
)
def test_other_yaml_is_not_described(tmp_path: Path, text: str) -> None:
    """It takes names, or their number, and a split."""
    assert described(tmp_path, text) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("train: [", "is not YAML: while parsing"),
        ("\xff\xfe".encode("latin-1").decode("latin-1") + ": !!python/object:x {}", ""),
        ("train: {a: b}\nnames: [a]", "train is {'a': 'b'}; expected a folder or a list file"),
        ("train: a\nnames: {x: a}", "names has the key 'x'; expected class numbers"),
        ("train: a\nnames: [a, a]", "classes 0 and 1 are both called 'a'; rename one of them"),
        ("train: a\nnames: [a, '']", "class 1 has the name ''; expected a text"),
        ("train: a\nnames: [a, [b]]", "class 1 has the name ['b']; expected a text"),
        ("train: a\nnames: x.names", "names is 'x.names'; expected the classes, as in [cat, dog]"),
        ("train: a\nnames: {0: a, 1: 'b'}\nval: [{}]", "val is [{}]; expected a folder"),
        ('train: a\nnames: ["\\ud800"]', "class 0 has the name '\\ud800'; expected a text"),
        ("train: a\nnames: {9999999999999999999: a}", "names has the key '9999999999999999999'"),
        (f"train: a\nnames: {{{'9' * 999}: a}}", "names has the key '9999999"),
        ("train: a\nnames: [a]\nkpt_shape: [17]", "kpt_shape is ['17']; expected [number of key"),
        ("train: a\nnames: [a]\nkpt_shape: [0, 3]", "kpt_shape is ['0', '3']; expected [number"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, message: str) -> None:
    """File, key and value."""
    if not message:
        assert described(tmp_path, text) is None  # tags make no objects
        return
    with pytest.raises(UsageError) as caught:
        described(tmp_path, text)
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path))


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
