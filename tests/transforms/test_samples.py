"""`ReadLabels` and `JoinLabels`: labels of files and of any PCollection, joined with images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.window import FixedWindows, TimestampedValue

from beam_pipeline.core.errors import QuestionError, SampleError, UsageError
from beam_pipeline.image_transforms import Images, WriteImageShards
from beam_pipeline.transforms import BadSample, ImageFile, JoinLabels, LabelRow, ReadLabels
from beam_pipeline.transforms.samples import LabelRows
from beam_pipeline.work.label_columns import LabelColumns
from tests.harness import read_all
from tests.pictures import picture, write_files
from tests.transforms.outputs import outputs

IMAGES = [ImageFile(f"{i}.jpg", f"/photos/{i}.jpg", 10 + i, 100 + i) for i in range(4)]
KINDS = {"species": "class", "age": "int"}


def joined(
    rows: Sequence[Any], join: JoinLabels, images: Sequence[ImageFile] = IMAGES
) -> tuple[dict[str, dict[str, Any]], list[tuple[str, str]]]:
    """Key -> labels of each sample, and (key, reason) of what is left out."""

    def build(pipeline: beam.Pipeline) -> dict[str, beam.PCollection]:
        given = {"images": images, "rows": rows}
        inputs = {name: pipeline | name >> beam.Create(items) for name, items in given.items()}
        return (inputs | join)._asdict()

    samples, bad = outputs(build, "samples", "bad")
    return {s.key: dict(s.labels) for s in samples}, [(b.key, b.reason) for b in bad]


class Animal(NamedTuple):
    """A row with a schema."""

    image: str
    species: str
    age: int


@pytest.mark.parametrize(
    "row", [lambda **fields: fields, beam.Row, Animal], ids=["dict", "row", "named"]
)
def test_rows_of_any_kind(row: Any) -> None:
    """They name images as label files do; each image and row ends in a sample or is bad."""
    table = [("0.jpg", "cat", 3), ("/photos/1.jpg", "dog", 5), ("2", "cat", 1), ("2.jpg", "dog", 1)]
    table += [("gone.jpg", "dog", 1)]
    rows = [row(image=image, species=species, age=age) for image, species, age in table]
    labels, bad = joined(rows, JoinLabels(KINDS))
    assert labels == {"0.jpg": {"species": "cat", "age": 3}, "1.jpg": {"species": "dog", "age": 5}}
    assert bad == [
        *(("2.jpg", "conflicting_labels"), ("3.jpg", "unlabelled"), ("gone.jpg", "missing_image"))
    ]


def test_labels_are_of_their_kinds() -> None:
    """Values of NumPy become plain ones; others are bad, with what was expected."""
    rows = [
        {"file": "0.jpg", "species": 7, "age": np.int64(3), "at": np.array([1, 2.5]), "more": 1},
        {"file": "1.jpg", "species": "cat", "at": (3,)},
        {"file": "2.jpg", "species": "cat", "age": "old"},
        {"file": "3.jpg", "age": 4},
        {"species": "cat"},
        5,
    ]
    labels, bad = joined(rows, JoinLabels({**KINDS, "at": ["float"]}, key="file"))
    assert labels == {
        "0.jpg": {"species": "7", "age": 3, "at": (1.0, 2.5)},
        "1.jpg": {"species": "cat", "at": (3.0,)},
    }
    bad_values = [(f"{n}.jpg", "bad_label_value") for n in (2, 3)]
    assert sorted(bad) == [("", "bad_row")] * 2 + bad_values


def test_lists_of_several_rows_are_put_together() -> None:
    """A class once; boxes with the classes beside them, in the order of their values."""
    box = {"kind": "box", "feature": "image/object/bbox", "repeated": True, "pixels": True}
    rows = [
        {"image": "0.jpg", "box": [1, 2, 3, 4], "tags": ["b", "a"]},
        {"image": "0.jpg", "box": [[5, 6, 7, 8]], "tags": "a"},
        {"image": "1.jpg"},
        {"image": "2.jpg", "box": [1, 2, 3]},
    ]
    boxes = ((1.0, 2.0, 3.0, 4.0, 0), (5.0, 6.0, 7.0, 8.0, 0))
    labels = {"0.jpg": {"box": boxes, "tags": ("b", "a")}, "1.jpg": {"box": (), "tags": ()}}
    bad = [("2.jpg", "bad_label_value")]
    assert joined(rows, JoinLabels({"box": box, "tags": ["class"]}), IMAGES[:3]) == (labels, bad)


def test_without_kinds_all_fields_are_labels() -> None:
    """Of any plain values, lists as tuples; the rows of an image must agree."""
    rows = [
        {"image": "0.jpg", "a": [1, [2, "x"]], "b": None, "c": b"\x00", "set": "test"},
        {"image": "0.jpg", "set": "test", "c": b"\x00", "b": None, "a": (1, (2, "x"))},
        {"image": "1.jpg", "a": 1, "set": None},
        {"image": "1.jpg", "a": 2, "set": None},
        {"image": "2.jpg", "a": {"nested": 1}, "set": ""},
        {"image": "3.jpg", "a": 1},
    ]
    labels, bad = joined(rows, JoinLabels(split="set", unlabelled="keep"))
    whole = {"a": (1, (2, "x")), "b": None, "c": b"\x00", "labelled": 1}
    assert labels == {"0.jpg": whole}
    faults = ("conflicting_labels", "bad_label_value", "bad_label_value")
    assert bad == [(f"{i}.jpg", fault) for i, fault in enumerate(faults, 1)]


def test_rows_of_files_and_their_faults(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values have the types that the command detects; a broken row keeps its place in the file."""
    monkeypatch.chdir(tmp_path)
    table = "file,species,age\n0.jpg,cat,3\n1.jpg,dog,\n2.jpg,cat,4,5\n3.jpg,,1\n"
    write_files(".", {"labels.csv": table})
    path = f"{tmp_path}/labels.csv"
    labels = ReadLabels("labels.csv", label_column="species")

    def build(pipeline: beam.Pipeline) -> dict[str, beam.PCollection]:
        read = pipeline | labels
        inputs = {"images": pipeline | beam.Create(IMAGES), "rows": read.rows, "bad": read.bad}
        return {"rows": read.rows, "bad": (inputs | JoinLabels(labels)).bad}

    rows, bad = outputs(build, "rows", "bad")
    assert [(*row[:5], bool(row.problem)) for row in rows] == [
        ("0.jpg", {"species": "cat", "age": 3}, "", path, 2, False),
        ("1.jpg", {"species": "dog"}, "", path, 3, False),
        ("3.jpg", {"age": 1}, "", path, 5, True),
    ]
    assert sorted((b.key, b.reason, b.file, b.line) for b in bad) == [
        ("", "bad_row", path, 4),
        ("2.jpg", "unlabelled", "", 0),
        ("3.jpg", "bad_label_value", path, 5),
    ]


def test_a_guess_that_is_not_safe_is_a_question(tmp_path: Any) -> None:
    """In arguments, with the call that answers it; the constructor does not look at the file."""
    labels = ReadLabels(f"{tmp_path}/labels.csv", key_column="file")
    rows = "".join(f"{i}.jpg,{i % 2},{1 - i % 2}\n" for i in range(40))
    write_files(str(tmp_path), {"labels.csv": "file,cat,dog\n" + rows})
    with pytest.raises(QuestionError, match="accept the guess with yes=True") as raised:
        _ = labels.columns
    assert "--" not in str(raised.value)
    (call,) = (line for line in str(raised.value).splitlines() if line.startswith("    "))
    answered = eval(call, {"ReadLabels": ReadLabels})
    assert [(c.name, c.kind.value) for c in answered.columns.columns] == [("one_hot", "class")]
    assert ReadLabels(f"{tmp_path}/labels.csv", yes=True).columns == answered.columns


def test_a_missing_list_is_empty_unless_the_image_has_no_labels() -> None:
    """Then all of its labels are missing, and an encoder writes only the mark."""
    columns = LabelColumns.of_kinds({"tags": ["class"], "age": "int"})
    kept = columns.with_unlabelled()
    assert columns.checked({}) == ((), None)
    assert kept.checked({"tags": ["a"], "labelled": 1}) == (("a",), None, 1)
    assert kept.checked({"labelled": 0}) == (None, None, 0)


def test_windows_end_at_the_join() -> None:
    """Images and rows of any windows meet."""
    with beam.Pipeline(FnApiRunner()) as pipeline:
        images = (
            pipeline
            | beam.Create([TimestampedValue(image, i) for i, image in enumerate(IMAGES)])
            | beam.WindowInto(FixedWindows(1))
        )
        rows = pipeline | "R" >> beam.Create([LabelRow(f"{i}.jpg", {"a": i}) for i in range(4)])
        joined = {"images": images, "rows": rows} | JoinLabels()
        samples = joined.samples | beam.Map(lambda s: (s.key, s.size, s.version, s.labels["a"]))
        assert_that(samples, equal_to([(f"{i}.jpg", 10 + i, 100 + i, i) for i in range(4)]))
        bad = joined.bad | beam.combiners.Count.Globally()
        assert_that(bad, equal_to([0]), label="NoneBad")
        assert joined.bad.element_type == BadSample


@pytest.mark.parametrize("unlabelled", ["auto", "drop", "keep"])
def test_what_rows_are_does_not_depend_on_images_without_one(
    unlabelled: str, tmp_path: Path
) -> None:
    """Each row a sample, or all images of a folder those of a row; images without a row are another matter."""
    (tmp_path / "rows.csv").write_text("file,label\n0.jpg,a\n0.jpg,b\n1.jpg,a\n")
    (tmp_path / "folders.csv").write_text("folder,label\nx,a\ny,b\n")
    keys = ("x/1.jpg", "x/2.jpg", "y/1.jpg")
    write_files(f"{tmp_path}/photos", dict.fromkeys(keys, b"-"))
    images = [ImageFile(key, f"{tmp_path}/photos/{key}", 1) for key in keys]
    folders = {"rows_of": "folder", "key_column": "folder", "images": f"{tmp_path}/photos"}
    for table, listed, expected in (
        (
            ReadLabels(tmp_path / "rows.csv", sample="row", yes=True),
            IMAGES[:2],
            {"0.jpg#0": "a", "0.jpg#1": "b", "1.jpg#0": "a"},
        ),
        (
            ReadLabels(tmp_path / "folders.csv", yes=True, **folders),
            images,
            {"x/1.jpg": "a", "x/2.jpg": "a", "y/1.jpg": "b"},
        ),
    ):

        def build(
            pipeline: beam.Pipeline, table: ReadLabels = table, listed: Any = listed
        ) -> dict[str, beam.PCollection]:
            rows = (pipeline | table).rows
            inputs = {"images": pipeline | beam.Create(listed), "rows": rows}
            return (inputs | JoinLabels(table, unlabelled=unlabelled))._asdict()

        samples, bad = outputs(build, "samples", "bad")
        assert ({s.key: s.labels["label"] for s in samples}, bad) == (expected, [])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: JoinLabels({"a": "int32"}), r"labels\['a'\] is 'int32', expected 'class', 'int'"),
        (lambda: JoinLabels({"a": {"kind": "box"}}), r"labels\['a'\] is .*'feature'"),
        (
            lambda: JoinLabels(unlabelled="empty"),
            "unlabelled is 'empty', expected one of auto, drop, keep",
        ),
        (
            lambda: JoinLabels().expand({"images": IMAGES, "rows": LabelRows(None, None)}),
            'JoinLabels takes two PCollections, .*"rows": read.rows, "bad": read.bad',
        ),
        (
            lambda: beam.Pipeline() | beam.Create(IMAGES) | JoinLabels(),
            "^JoinLabels takes two PColl",
        ),
        (lambda: JoinLabels().expand({"image": None, "rows": None}), "^JoinLabels takes two PColl"),
        (
            lambda: ReadLabels([], layout="voc"),
            "labels is empty, expected a path or several",
        ),
        (lambda: ReadLabels("a.csv", label="x"), "ReadLabels has no argument 'label'; its options"),
        (
            lambda: ReadLabels("a.csv", columns={"x": "strng"}),
            "^columns: 'strng' .* is not a type;",
        ),
        (lambda: ReadLabels("a.csv", label_base=2), r"^label_base is 2, expected one of \(0, 1\)$"),
        (
            lambda: ReadLabels("a.csv", may_be_lists=True),
            "ReadLabels has no argument 'may_be_lists'",
        ),
        (lambda: ReadLabels("/gone.csv").columns, "^labels /gone.csv: no such file$"),
    ],
)
def test_arguments_are_checked(make: Any, message: str) -> None:
    """Before a pipeline runs."""
    with pytest.raises(UsageError, match=message):
        make()


def test_an_unbounded_collection_is_refused() -> None:
    """There is no end to join it at."""
    pipeline = beam.Pipeline()
    images = pipeline | beam.Create(IMAGES)
    with pytest.raises(ValueError, match="Rows: an unbounded PCollection has no end"):
        _ = {"images": images, "rows": pipeline | PeriodicImpulse()} | JoinLabels()


def test_rows_of_a_pipeline_name_files(tmp_path: Path) -> None:
    """A path is looked up beside the image; `WriteImageShards` takes the samples as they are."""
    contents = {name: picture(i) for i, name in enumerate(("0.jpg", "1.jpg", "r/0.jpg", "r/1.jpg"))}
    write_files(str(tmp_path), contents)
    kinds = {"right": "picture", "views": ["file"], "species": "class"}
    rows: list[dict[str, Any]] = [
        {"image": f"{i}.jpg", "right": f"r/{i}.jpg", "views": ["0.jpg", "r/1.jpg"][: 2 * i]}
        | {"species": "cat"}
        for i in range(2)
    ]
    images = [
        ImageFile(name, f"{tmp_path}/{name}", len(contents[name]), 0)
        for name in ("0.jpg", "1.jpg", "r/0.jpg")
    ]
    with beam.Pipeline(FnApiRunner()) as pipeline:
        inputs = {
            "images": pipeline | beam.Create(images),
            "rows": pipeline
            | "R" >> beam.Create([*rows, {**rows[0], "image": "2", "right": "no"}]),
        }
        joined = inputs | JoinLabels(kinds)
        assert_that(
            joined.bad | beam.Map(lambda b: (b.key, b.reason)), equal_to([("2", "missing_image")])
        )
        joined | WriteImageShards(f"{tmp_path}/out", Images(kinds), on_error="collect")
    examples = read_all(tmp_path / "out")
    assert {key: example["right/encoded"] for key, example in examples.items()} == {
        "0.jpg": [contents["r/0.jpg"]],
        "1.jpg": [contents["r/1.jpg"]],
    }
    assert examples["1.jpg"]["views/encoded"] == [contents["0.jpg"], contents["r/1.jpg"]]
    with pytest.raises(SampleError, match="expected the uri, size and version of each"):
        LabelColumns.of_kinds(kinds).checked({"right": "r/0.jpg", "species": "cat"})
    with pytest.raises(SampleError, match=r"'age' .* is none of .* same labels as JoinLabels"):
        LabelColumns.of_kinds({"species": "class"}).checked({"species": "cat", "age": 3})
