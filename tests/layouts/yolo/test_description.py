"""data.yaml and files that name classes."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam_pipeline.core.errors import UsageError
from beam_pipeline.layouts.yolo_data_set import (
    Description,
    read_class_file,
    read_description,
)

ROBOFLOW = """train: ../train/images
val: ../valid/images
test: ../test/images

nc: 2
names: ['yes', 'no']

roboflow:
  workspace: me
"""


def described(tmp_path: Path, text: str) -> Description | None:
    path = tmp_path / "data.yaml"
    path.write_text(text, encoding="utf-8")
    return read_description(str(path))


def test_roboflow(tmp_path: Path) -> None:
    """Names as a list, and no path."""
    assert described(tmp_path, ROBOFLOW) == Description(
        str(tmp_path / "data.yaml"),
        str(tmp_path),
        {
            "train": ["../train/images"],
            "validation": ["../valid/images"],
            "test": ["../test/images"],
        },
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
    assert described(tmp_path, text) == Description(
        str(tmp_path / "data.yaml"),
        str(tmp_path / "coco"),
        {"train": ["images/a", "images/b"], "validation": ["val.txt"]},
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
    assert read_class_file(str(tmp_path / "obj.names")) == {0: "cat", 1: "dog"}


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
