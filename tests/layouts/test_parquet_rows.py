"""Parquet files: which are found, which splits they say, and what their rows become."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import ContainerError, UsageError
from beam_pipeline.core.references import SampleRef
from beam_pipeline.layouts.layout import ContainerLabels, SourceOptions
from beam_pipeline.layouts.parquet import Parquet
from beam_pipeline.layouts.parquet_rows import (
    first_parquet,
    name_classes,
    parquet_files,
    splits_of,
)
from beam_pipeline.storage import files
from tests.harness import ALL_BAD, convert, dead_letters_of, read_all
from tests.layouts.make_parquet import FEATURES, IMAGE, image_of, pets, write_parquet
from tests.pictures import picture, write_files, write_pictures


def items_of(*images: str, **options: Any) -> list[SampleRef | DeadLetter]:
    """What the reader yields for all files, unpacked to `unpacked`."""
    labels = Parquet().open(SourceOptions(images=images, **options)).labels
    assert isinstance(labels, ContainerLabels)
    folder = os.path.abspath("unpacked")
    return [item for uri in labels.files for item in labels.reader.read(uri, folder)]


def content_of(ref: SampleRef) -> bytes:
    return files.read_image(ref.uri, ref.size, ref.offset)


def test_references_name_unpacked_images(working_folder: Path) -> None:
    """Each has its bytes, values, split, and the file that it came from."""
    write_parquet("hf/val-0.parquet", pets(range(5)), FEATURES, row_group_size=2)
    uri = os.path.abspath("hf/val-0.parquet")
    refs = [item for item in items_of("hf") if isinstance(item, SampleRef)]
    assert [content_of(ref) for ref in refs] == [picture(i, size=(32, 32)) for i in range(5)]
    assert [ref.key for ref in refs] == [f"val-0.parquet/0000{i}" for i in range(5)]
    assert refs[2].labels == ("cat", "a cat in the garden", "pet2.jpg")
    assert refs[3].labels == ("dog", "a dog in the garden", "val-0.parquet/00003")
    assert {(ref.split, ref.origin, ref.version) for ref in refs} == {
        ("validation", uri, os.stat(uri).st_mtime_ns)
    }
    assert items_of("hf") == refs


def test_nothing_is_unpacked_for_a_plan(working_folder: Path) -> None:
    """References say what they would; no file is written."""
    write_parquet("x.parquet", pets(range(5)), FEATURES)
    labels: Any = Parquet().open(SourceOptions(images=("x.parquet",))).labels
    found = [*labels.reader.read(labels.files[0], "")]
    assert os.listdir(".") == ["x.parquet"]
    assert [ref._replace(uri="") for ref in found] == [
        item._replace(uri="") for item in items_of("x.parquet")
    ]


def test_no_room_to_unpack(working_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run stops before it fills the disk."""
    write_parquet("x.parquet", pets(range(5)), FEATURES)
    monkeypatch.setattr(files, "free_bytes", lambda folder: 1000)
    with pytest.raises(ContainerError, match=r"would be unpacked to about [0-9,]+ bytes, and the"):
        items_of("x.parquet")


@pytest.mark.parametrize(
    ("row", "reason", "message"),
    [
        ({"image": None}, "missing_image", "column 'image' is empty"),
        ({"image": image_of(None)}, "missing_image", "column 'image' is empty"),
        (
            {"image": image_of(None, "a.jpg")},
            "missing_image",
            "column 'image' does not contain bytes, only the path 'a.jpg'; write the file again with the "
            "images in it",
        ),
        ({"image": image_of(b"")}, "empty_file", "the image in column 'image' is without bytes"),
        ({"label": None}, "bad_label_value", "column 'label': is empty"),
        (
            {"label": -1},
            "bad_label_value",
            "column 'label': -1, which is not a class; expected 0 to 1",
        ),
        ({"label": 2}, "bad_label_value", "column 'label': 2; expected 0 to 1"),
    ],
)
def test_what_is_wrong_with_a_row(
    row: dict[str, Any], reason: str, message: str, working_folder: Path
) -> None:
    """It is a dead letter with file and row, and the other rows are samples."""
    good = pets(range(3))
    write_parquet("x.parquet", [*good[:2], {**good[2], **row}, good[2]], FEATURES)
    uri = os.path.abspath("x.parquet")
    items = items_of("x.parquet")
    assert [item.key for item in items if isinstance(item, SampleRef)] == [
        "x.parquet/00000",
        "x.parquet/00001",
        "x.parquet/00003",
    ]
    assert items[3:] == [DeadLetter("labels", "x.parquet/00002", uri, reason, message, uri, 3)]


def test_bytes_that_are_no_image(working_folder: Path) -> None:
    """The dead letter names the Parquet file, not what was unpacked for the job."""
    good = pets(range(2))
    write_parquet("x.parquet", [*good, {**good[0], "image": image_of(b"text")}], FEATURES)
    assert convert("--images", "x.parquet", "--output", "out", ALL_BAD) == 0
    assert len(read_all("out")) == 2
    (letter,) = dead_letters_of("out")
    assert (letter["key"], letter["uri"], letter["reason"]) == (
        "x.parquet/00002",
        os.path.abspath("x.parquet"),
        "not_an_image",
    )


def test_many_rows_come_in_their_order(working_folder: Path) -> None:
    """Also where references are packed to save memory."""
    count = 9000
    rows = [{"image": b"\xff\xd8\xff%025d" % i, "label": i % 3} for i in range(count)]
    write_parquet("x.parquet", rows, row_group_size=700)
    refs = [item for item in items_of("x.parquet") if isinstance(item, SampleRef)]
    assert [ref.key for ref in refs] == [f"x.parquet/{i:05d}" for i in range(count)]
    assert content_of(refs[8999]) == b"\xff\xd8\xff%025d" % 8999


OTHER_NAMES = {**FEATURES, "label": {"names": ["dog", "cat"], "_type": "ClassLabel"}}


@pytest.mark.parametrize(
    ("rows", "features", "message"),
    [
        ([{"label": 1, "caption": "a"}], {}, "has not the columns of"),
        ([{"image": image_of(picture(1)), "label": 1}], FEATURES, "caption is missing"),
        (pets(range(2)), OTHER_NAMES, "has other names of the classes in label than"),
    ],
)
def test_files_differ(
    rows: Sequence[dict[str, Any]], features: dict[str, Any], message: str, working_folder: Path
) -> None:
    """The job stops and names both."""
    for name in ("a", "c"):
        write_parquet(f"{name}.parquet", pets(range(2)), FEATURES)
    types = {"image": IMAGE} if "image" in rows[0] else {"image": pa.string()}
    write_parquet("b.parquet", rows, features, types)
    with pytest.raises(ContainerError) as caught:
        items_of("a.parquet", "b.parquet", "c.parquet")
    assert message in str(caught.value)
    assert os.path.abspath("b.parquet") in str(caught.value)


def test_a_damaged_file(working_folder: Path) -> None:
    """The job stops; nothing of it is left among the unpacked files."""
    for name in ("a", "c"):
        write_parquet(f"{name}.parquet", pets(range(2)), FEATURES)
    content = Path("a.parquet").read_bytes()
    Path("b.parquet").write_bytes(content[: len(content) // 2])
    with pytest.raises(ContainerError, match=r"b\.parquet is not a Parquet file, or is damaged"):
        items_of("a.parquet", "b.parquet", "c.parquet")
    assert len([name for name in os.listdir("unpacked") if name.endswith(".images")]) == 1


def test_names_replace_ids() -> None:
    """In columns, in lists, and in objects of both forms."""
    classes = {"label": ("a", "b"), "tags": ("p", "q"), "objects.category": ("x", "y")}
    for objects, expected in (
        ({"category": [1, 0]}, {"category": ["y", "x"]}),
        ([{"category": 1}], [{"category": "y"}]),
        (None, None),
    ):
        fields = {"label": 1, "tags": [0, 1], "objects": objects}
        assert name_classes(fields, classes, "") == ""
        assert fields == {"label": "b", "tags": ["p", "q"], "objects": expected}
    assert name_classes({"objects": {"category": [7]}}, classes, "") == (
        "column 'objects.category': 7; expected 0 to 1"
    )


# --- names of files -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("data/train-00000-of-00001.parquet", "train"),
        ("data/train-00000-of-00005-0a1b2c3d4e5f6789.parquet", "train"),
        ("data/validation-00000-of-00001.parquet", "validation"),
        ("data/val.parquet", "validation"),
        ("dev-00000-of-00001.parquet", "validation"),
        ("default/train/0000.parquet", "train"),
        ("default/partial-train/0000.parquet", "train"),
        ("default/test/0000.parquet", "test"),
        ("test/train-00000-of-00001.parquet", "train"),
        ("pets.parquet", ""),
        ("train_test.parquet", ""),
        ("support-00000-of-00001.parquet", ""),
    ],
)
def test_names_say_splits(name: str, split: str) -> None:
    """The file's own name first, then the folders from the inside out."""
    assert splits_of([name]) == {name: split}


def test_other_splits_count_beside_usual_ones() -> None:
    """Hugging Face allows any name; alone, it may be the data set's."""
    names = ["extra-00000-of-00002.parquet", "train-00000-of-00001.parquet"]
    assert splits_of(names) == {names[0]: "extra", names[1]: "train"}


def test_files_below_a_folder(working_folder: Path) -> None:
    """All of them, without hidden ones, in the order of their names."""
    paths = ["b.parquet", "a/x.PARQUET", "a/x.csv", ".cache/y.parquet", "a/.z.parquet"]
    write_files("hf", dict.fromkeys(paths, b""))
    assert [file.name for file in parquet_files(["hf"])] == ["a/x.PARQUET", "b.parquet"]
    assert [file.name for file in parquet_files(["hf/*/x*", "hf/b.parquet"])] == [
        "a/x.PARQUET",
        "b.parquet",
    ]


def test_two_files_of_one_name(working_folder: Path) -> None:
    """Keys would not tell their images apart; one file named twice is one."""
    write_files(".", {"train/0.parquet": b"", "test/0.parquet": b""})
    with pytest.raises(UsageError, match=r"would both be called 0\.parquet"):
        parquet_files(["train", "test"])
    assert len(parquet_files(["train", "train/0.parquet"])) == 1
    for path in ("none", "none.parquet", "none*.parquet", "train/x*", " "):
        with pytest.raises(UsageError, match="--images"):
            parquet_files([path])
    assert [file.name for file in parquet_files(["."])] == ["test/0.parquet", "train/0.parquet"]


def test_the_first_file(working_folder: Path) -> None:
    """None if there are images in its folder, or none in a folder of few levels."""
    write_files(".", {"hf/default/train/0000.parquet": b"", "hf/README.md": b""})
    first = first_parquet("hf")
    assert first is not None
    assert first.name == "default/train/0000.parquet"
    write_pictures("hf/default", ["a.jpg"])
    assert first_parquet("hf") is None
    assert first_parquet("none") is None
    assert first_parquet("none*.parquet") is None
