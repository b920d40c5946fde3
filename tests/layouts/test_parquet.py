"""Parquet files that hold the images: what is recognised, what the columns become, and questions."""

from __future__ import annotations

import collections
import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from PIL import Image

from beam_pipeline.cli import main
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import ContainerError, UsageError
from beam_pipeline.core.references import SampleRef
from beam_pipeline.layouts import opening, parquet, roles
from beam_pipeline.layouts.layout import ContainerLabels, Source, SourceOptions
from beam_pipeline.layouts.parquet_rows import first_parquet, name_classes, parquet_files, splits_of
from beam_pipeline.storage import files
from tests.harness import (
    ALL_BAD,
    NONE_BAD,
    convert,
    convert_asking,
    dead_letters_of,
    float32,
    manifest_of,
    read_all,
    split_of_each,
)
from tests.layouts.make_parquet import FEATURES, IMAGE, image_of, make_parquet, pets, write_parquet
from tests.pictures import picture, write_files, write_pictures


def source_of(*images: str, **options: Any) -> Source:
    """The source of some files, recognised by their content."""
    source, _ = opening.open_source("auto", SourceOptions(images=images, **options))
    assert source.layout == "parquet"
    return source


def columns_of(source: Source) -> dict[str, str]:
    """Feature -> kind."""
    return {column.feature: column.kind.value for column in source.columns}


def classes_of(source: Source) -> list[tuple[str, int]]:
    return list(source.numbering.number([]))


@pytest.mark.parametrize(
    ("images", "splits"),
    [
        (["hf"], {"train": 2, "test": 1}),
        (["hf/data"], {"train": 2, "test": 1}),
        (["hf/data/t*.parquet"], {"train": 2, "test": 1}),
        (["hf/data/test-00000-of-00001.parquet"], {"test": 1}),
        (["hf/data/train-*.parquet", "hf/data/test-*.parquet"], {"train": 2, "test": 1}),
    ],
)
def test_files_are_named_by_folder_glob_or_path(
    images: list[str], splits: dict[str, int], working_folder: Path
) -> None:
    """The names of files say their splits, wherever they are."""
    make_parquet(".")
    reader: Any = source_of(*images).labels
    assert collections.Counter(file.split for file in reader.reader.parquet) == splits


@pytest.mark.slow
def test_resume_reuse_and_repair(working_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Shards are kept and reused as long as the files are unchanged; none can be rewritten."""
    make_parquet(".")
    argv = ["--images", "hf", "--name", "pets", NONE_BAD]
    assert convert(*argv, "--output", "out") == 0
    assert convert(*argv, "--output", "out", "--resume") == 0
    assert "is up to date" in capsys.readouterr().out
    assert convert(*argv, "--output", "new", "--reuse", "out") == 0
    assert "0 written, 0 B" in capsys.readouterr().out
    assert read_all("new") == read_all("out")
    Path("new/pets-test.tfrecord-00000-of-00001").unlink()
    assert main(["repair", "new"]) == 1
    assert "unpacked from a file of many samples" in capsys.readouterr().err


@pytest.mark.readers
def test_what_hugging_face_writes(working_folder: Path) -> None:
    """The library's own export gives the same images, classes and splits back."""
    datasets: Any = pytest.importorskip("datasets")
    images = [Image.open(io.BytesIO(picture(i, file_format="PNG"))) for i in range(10)]
    features = datasets.Features(
        {
            "image": datasets.Image(),
            "label": datasets.ClassLabel(names=["dog", "cat"]),
            "tags": datasets.Sequence(datasets.ClassLabel(names=["p", "q"])),
        }
    )
    columns = {
        "image": images,
        "label": [i % 2 for i in range(10)],
        "tags": [[0, 1][: i % 3] for i in range(10)],
    }
    written = datasets.Dataset.from_dict(columns, features=features)
    parts = written.train_test_split(test_size=0.3, seed=1)
    Path("hf/data").mkdir(parents=True)
    for split, part in parts.items():
        part.to_parquet(f"hf/data/{split}-00000-of-00001.parquet")
    assert convert("--images", "hf", "--output", "out", NONE_BAD) == 0
    found = read_all("out")
    assert split_of_each("out").keys() == found.keys()
    for split, part in parts.items():
        for i, row in enumerate(part):
            example = found.pop(f"data/{split}-00000-of-00001.parquet/{i:05d}")
            decoded = Image.open(io.BytesIO(example["image/encoded"][0]))
            assert decoded.tobytes() == row["image"].tobytes()
            assert example["image/class/label"] == [row["label"]]
            assert example["image/class/text"] == [[b"dog", b"cat"][row["label"]]]
            assert example["label/tags"] == [[b"p", b"q"][tag] for tag in row["tags"]]
    assert found == {}


# --- columns --------------------------------------------------------------------------------------


@pytest.mark.parametrize("column", ["image", "jpg", "Photo"])
def test_a_column_of_plain_bytes(column: str, working_folder: Path) -> None:
    """It is recognised by what the bytes are, whatever its name; a fraction is a number to predict."""
    rows = [{column: picture(i), "label": i / 4, "name": f"n{i}"} for i in range(4)]
    write_parquet("x.parquet", rows)
    source = source_of("x.parquet")
    assert columns_of(source) == {"image/label": "float", "label/name": "bytes"}


def test_whole_numbers_of_a_float_column_are_no_classes(working_folder: Path) -> None:
    """The type of the column counts, not what its first values look like."""
    rows = [{"image": picture(i), "label": float(i), "score": 1.0} for i in range(4)]
    write_parquet("x.parquet", rows)
    found = columns_of(source_of("x.parquet"))
    assert found == {"image/label": "float", "label/score": "float"}


@pytest.mark.parametrize(
    ("labels", "names"),
    [(["b", "a", "b"], ["a", "b"]), ([3, 7, 3], ["3", "7"]), ([["a", "b"], [], ["a"]], ["a", "b"])],
)
@pytest.mark.slow
def test_classes_without_names_in_the_metadata(
    labels: list[Any], names: list[str], working_folder: Path
) -> None:
    """Texts and integers are classes, as in any table."""
    rows = [{"image": picture(i), "label": label} for i, label in enumerate(labels)]
    write_parquet("x.parquet", rows)
    assert convert("--images", "x.parquet", "--output", "out", NONE_BAD) == 0
    assert [entry["name"] for entry in manifest_of("out")["classes"]] == names
    found = [features["image/class/text"] for features in read_all("out").values()]
    expected = [label if isinstance(label, list) else [label] for label in labels]
    assert sorted(found) == sorted([str(item).encode() for item in row] for row in expected)


def described(**features: Any) -> dict[str, Any]:
    return {"image": {"_type": "Image"}, **features}


CLASS_LABEL = {"names": ["x", "y", "z"], "_type": "ClassLabel"}


def rows_with(**columns: Sequence[Any]) -> list[dict[str, Any]]:
    """A row for each value, with an image."""
    count = len(next(iter(columns.values())))
    images = [{"image": image_of(picture(i))} for i in range(count)]
    return [
        {**image, **{name: values[i] for name, values in columns.items()}}
        for i, image in enumerate(images)
    ]


def test_a_class_without_images_keeps_its_id(working_folder: Path) -> None:
    """The numbers are those of the metadata, from 0 or from --label_base."""
    write_parquet("x.parquet", rows_with(label=[2, 0]), described(label=CLASS_LABEL))
    assert classes_of(source_of("x.parquet")) == [("x", 0), ("y", 1), ("z", 2)]
    assert classes_of(source_of("x.parquet", label_base=1)) == [("x", 1), ("y", 2), ("z", 3)]


def test_the_only_column_with_names_of_classes_is_the_label(working_folder: Path) -> None:
    """Whatever its name is; with --columns NAME:int, the numbers stay."""
    rows = rows_with(breed=[2, 0], width=[3, 4])
    write_parquet("x.parquet", rows, described(breed=CLASS_LABEL))
    assert source_of("x.parquet").columns[0].feature == "image/class"
    source = source_of("x.parquet", columns={"breed": "int"}, label_column="breed")
    assert classes_of(source) == []


def test_further_classes_are_texts(working_folder: Path) -> None:
    """Of two columns of classes, the user says which is the label; -1 stands for nothing."""
    rows = rows_with(fine=[2, 0], coarse=[-1, 1])
    write_parquet("x.parquet", rows, described(fine=CLASS_LABEL, coarse=CLASS_LABEL))
    with pytest.raises(UsageError, match="which of the columns fine, coarse is the label"):
        source_of("x.parquet")
    argv = ["--images", "x.parquet", "--label_column", "fine", "--output", "out", NONE_BAD]
    assert convert(*argv) == 0
    found = read_all("out")
    assert found["x.parquet/00000"]["image/class/text"] == [b"z"]
    assert "label/coarse" not in found["x.parquet/00000"]
    assert found["x.parquet/00001"]["label/coarse"] == [b"y"]


OBJECTS = {
    "bbox": {"feature": {"dtype": "float32", "_type": "Value"}, "_type": "List"},
    "category": {"feature": CLASS_LABEL, "_type": "List"},
}


@pytest.mark.parametrize("as_list", [False, True])
@pytest.mark.slow
def test_objects(as_list: bool, working_folder: Path) -> None:
    """Boxes and classes as in metadata.jsonl, with the names of the classes and their own ids."""
    boxes, categories = [[0.0, 0.0, 3.0, 7.0], [3.0, 0.0, 6.0, 7.0]], [2, 0]
    cells: list[Any] = [{"bbox": boxes, "category": categories}, {"bbox": [], "category": []}]
    features: Any = OBJECTS
    if as_list:
        pairs = zip(boxes, categories, strict=True)
        cells = [[{"bbox": box, "category": category} for box, category in pairs], []]
        features = [{"bbox": [], "category": CLASS_LABEL}]
    write_parquet("x.parquet", rows_with(objects=cells), described(objects=features))
    assert convert("--images", "x.parquet", "--output", "out", NONE_BAD) == 0
    found = read_all("out")
    first = found["x.parquet/00000"]
    assert first["image/object/class/text"] == [b"z", b"x"]
    assert first["image/object/class/label"] == [2, 0]
    assert first["image/object/bbox/xmin"] == float32([0, 1 / 3])
    assert first["image/object/bbox/xmax"] == float32([1 / 3, 1])
    assert found["x.parquet/00001"]["image/object/class/label"] == []


def test_what_no_feature_can_hold_is_left_out(working_folder: Path) -> None:
    """Dicts, lists of lists and other bytes, each in a note."""
    rows = rows_with(label=["a"], size=[{"w": 1}], grid=[[[1, 2]]], raw=[b"\x00\xff"])
    write_parquet("x.parquet", rows, described(label={"dtype": "string", "_type": "Value"}))
    source = source_of("x.parquet")
    assert columns_of(source) == {"image/class": "class", "image/filename": "bytes"}
    assert "left out, since they are objects, lists of lists or bytes: size, grid, raw" in (
        source.notes
    )


def test_images_alone(working_folder: Path) -> None:
    """There is no label, which a note says."""
    write_parquet("x.parquet", [{"image": picture(i)} for i in range(3)])
    source, why = opening.open_source("auto", SourceOptions(("x.parquet",)))
    assert [*roles.understanding(source, why)][:2] == [
        "Layout parquet: x.parquet contains images in its column image",
        "  .parquet files  images and labels  1 file, such as 'x.parquet'",
    ]
    assert source.columns == ()
    assert "there is no column besides the images, so there is no label" in source.notes


# --- errors and questions -------------------------------------------------------------------------


MASKS = {"image": {"_type": "Image"}, "annotation": {"_type": "Image"}}


def rows_of_masks(first: str, second: str) -> list[dict[str, Any]]:
    return [{first: image_of(picture(i)), second: image_of(picture(i))} for i in range(2)]


def test_further_columns_of_images_are_a_question(
    working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The column called image is taken; --columns leaves the other out, or takes it instead."""
    write_parquet("x.parquet", rows_of_masks("annotation", "image"), MASKS)
    assert convert_asking("--images", "x.parquet", "--output", "out") == 2
    found = capsys.readouterr()
    assert "annotation, would be left out. " in found.err
    assert source_of("x.parquet", columns={"annotation": "skip"}).questions == ()
    reader: Any = source_of("x.parquet", columns={"image": "skip"}).labels
    assert reader.reader.image == "annotation"


LISTS = pa.list_(pa.struct([("bytes", pa.binary()), ("path", pa.string())]))


@pytest.mark.parametrize(
    ("rows", "settings", "message"),
    [
        (
            rows_of_masks("left", "right"),
            {},
            "which of the columns left, right contains the images? Leave out the others, as in --columns "
            "right:skip",
        ),
        (
            [{"images": [image_of(picture(1))]}],
            {"types": {"images": LISTS}},
            "the column 'images' contains a list of images in each row; expected one image a row",
        ),
        ([], {"features": FEATURES}, "the file is without rows; expected one for each image"),
    ],
)
def test_files_that_are_not_usable(
    rows: Sequence[Mapping[str, Any]],
    settings: Mapping[str, Any],
    message: str,
    working_folder: Path,
) -> None:
    """It is an error before anything is written, which says what to do."""
    write_parquet("x.parquet", rows, **settings)
    with pytest.raises(UsageError) as caught:
        source_of("x.parquet")
    assert message in str(caught.value)


def test_a_broken_file_is_named(working_folder: Path) -> None:
    """As is a table that holds no images, with --layout parquet."""
    write_files(".", {"hf/a.parquet": b"PAR1"})
    with pytest.raises(UsageError, match=r"a\.parquet is not a Parquet file, or is damaged"):
        source_of("hf")
    write_parquet("t/a.parquet", [{"path": "a.jpg", "label": "x"}])
    with pytest.raises(UsageError, match="does not contain images; its columns are path, label"):
        opening.open_source("parquet", SourceOptions(images=("t",)))
    with pytest.raises(UsageError, match="leave out --labels"):
        opening.open_source("parquet", SourceOptions(images=("t",), labels=("t/a.parquet",)))


def test_a_table_among_images_is_none(working_folder: Path) -> None:
    """Folders with images are as before, and so is metadata.parquet among them."""
    write_pictures("photos/cat", ["0.jpg", "1.jpg"])
    write_parquet("photos/cat/extra.parquet", pets(range(2)), FEATURES)
    layout = opening.open_source("auto", SourceOptions(images=("photos",)))[0].layout
    assert layout == "class_folders"
    write_pictures("pets", ["0.jpg"])
    write_parquet("pets/metadata.parquet", [{"file_name": "0.jpg", "label": "cat"}])
    assert opening.open_source("auto", SourceOptions(images=("pets",)))[0].layout == "imagefolder"


def test_some_names_of_files_say_a_split(working_folder: Path) -> None:
    """It is a question."""
    for name in ("val-0.parquet", "more.parquet"):
        write_parquet(f"hf/{name}", pets(range(2)), FEATURES)
    (question,) = source_of("hf").questions
    assert question.reason.startswith("val-0.parquet name a split, and more.parquet no single one.")


# --- rows ----------------------------------------------------------------------------------------


def items_of(*images: str, **options: Any) -> list[SampleRef | DeadLetter]:
    """What the reader yields for all files, unpacked to `unpacked`."""
    labels = parquet.Parquet().open(SourceOptions(images=images, **options)).labels
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
    labels: Any = parquet.Parquet().open(SourceOptions(images=("x.parquet",))).labels
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
