"""Conversions from Python, of files, tables in memory and samples, and the data set that comes of them."""

from __future__ import annotations

import json
import math
import os
import resource
import shutil
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

import beam_pipeline
from beam_pipeline.cli import main
from beam_pipeline.conversion import convert, convert_samples
from beam_pipeline.core import errors
from beam_pipeline.core.dataset.manifest import FeatureEntry
from beam_pipeline.core.records.tfrecord import TFRecordFormat
from beam_pipeline.dataset import Dataset, Shard, open_to_read
from tests.core.dataset.fixtures import manifest_with
from tests.harness import convert as command
from tests.harness import (
    digests,
    documented,
    manifest_of,
    python,
    read_all_by,
    read_shard,
    shard_names,
)
from tests.pictures import write_files, write_pictures

# --- conversion ------------------------------------------------------------------------------------

ROWS = [
    {"filename": f"{i}.jpg", "label": "cat" if i % 3 else "dog", "age": i + 0.5, "note": None}
    for i in range(12)
]
OPTIONS = {"num_shards": {"train": 2, "test": 1}, "splits": {"train": 0.75, "test": 0.25}}


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("conversion")
    write_pictures(str(folder / "photos"), [f"{i}.jpg" for i in range(12)])
    lines = [
        "filename,label,age,note",
        *(f"{r['filename']},{r['label']},{r['age']}," for r in ROWS),
    ]
    (folder / "labels.csv").write_text("\n".join(lines) + "\n")
    return folder


class NaTType:
    """A missing time, as pandas has it."""


class _Frame:
    """Has what is used of a pandas data frame: columns, and rows as dicts of objects of any library."""

    columns = ("filename", "label", "age", "note")

    def to_dict(self, orient: str) -> list[dict[str, object]]:
        assert orient == "records"
        missing = (math.nan, NaTType())
        cells = [
            {
                "filename": Path(row["filename"]),
                "age": np.float32(row["age"]),
                "note": missing[i % 2],
            }
            for i, row in enumerate(ROWS)
        ]
        return [{**row, **more} for row, more in zip(ROWS, cells, strict=True)]


class _PolarsFrame:
    def to_dicts(self) -> list[dict[str, object]]:
        return [dict(row) for row in ROWS]


@pytest.mark.parametrize(
    "table",
    [
        pytest.param(_Frame(), id="pandas"),
        pytest.param(_PolarsFrame(), id="polars", marks=pytest.mark.slow),
        pytest.param(pa.Table.from_pylist(ROWS), id="pyarrow", marks=pytest.mark.slow),
        pytest.param(ROWS, id="dicts", marks=pytest.mark.slow),
    ],
)
def test_a_table_in_memory_gives_the_bytes_of_its_file(
    table: object, photos: Path, tmp_path: Path
) -> None:
    """Whatever the library: the shards are those of the same table as a CSV file."""
    argv = ("--images", f"{photos}/photos", "--labels", f"{photos}/labels.csv", "--name", "d")
    more = ("--splits=train=0.75,test=0.25", "--num_shards=train=2,test=1", "--columns=note:skip")
    assert command(*argv, *more, "--output", str(tmp_path / "a")) == 0
    dataset = convert(
        photos / "photos",
        labels=table,
        output=tmp_path / "b",
        name="d",
        columns={"note": "skip"},
        writers=0,
        progress=False,
        **OPTIONS,
    )
    assert digests(tmp_path / "a") == digests(tmp_path / "b")
    shown = (tmp_path / "b/report.html").read_text()
    assert "--labels &#x27;&lt;a table in memory&gt;&#x27;" in shown
    assert sum(dataset.splits.values()) == 12


def test_cells_are_those_of_json(photos: Path, tmp_path: Path) -> None:
    """Dates as texts, arrays as lists; a folder may be one of several, and options may be paths, or whole as 1e6 is."""
    row = {
        "filename": "0.jpg",
        "label": "cat",
        "day": date(2026, 1, 2),
        "tags": np.array(["a", "b"]),
    }
    (tmp_path / "classes.txt").write_text("cat\ndog\n")
    convert(
        [photos / "photos"],
        labels=[
            {**row, "box": {"left": (1, 2)}},
            {**row, "filename": "1.jpg", "label": "dog", "box": {}},
        ],
        label_column="label",
        columns={"box": "json"},
        classes=tmp_path / "classes.txt",
        output=tmp_path / "out",
        yes=True,
        max_bad_fraction=1,
        max_pixels=1e6,
        writers=0.0,
        progress=False,
    )
    example = read_all_by(tmp_path / "out", "image/source_id")["0.jpg"]
    labels = {key: value for key, value in example.items() if not key.startswith("image/")}
    assert labels == {
        "label/day": [b"2026-01-02"],
        "label/tags": [b"a", b"b"],
        "label/box": [b'{"left":[1,2]}'],
    }


def test_the_data_set_knows_what_it_holds(photos: Path, tmp_path: Path) -> None:
    """Path, splits, classes, dead letters and the manifest; the same when it is opened again."""
    (tmp_path / "photos").mkdir()
    for name in ("0.jpg", "1.jpg"):
        (tmp_path / "photos" / name).write_bytes((photos / "photos" / name).read_bytes())
    (tmp_path / "photos/2.jpg").write_bytes(b"no image")
    dataset = convert(
        str(tmp_path / "photos"),
        labels=ROWS[:3],
        output=str(tmp_path / "out"),
        max_bad_fraction=1,
        writers=0,
        progress=False,
    )
    assert dataset.path == str(tmp_path / "out")
    assert dataset.splits == {"train": 2}
    assert dataset.classes == {0: "cat", 1: "dog"}
    assert [(d["key"], d["reason"]) for d in dataset.dead_letters] == [("2.jpg", "not_an_image")]
    assert dataset.manifest.counts.examples == 2
    assert beam_pipeline.Dataset.open(tmp_path / "out") == dataset
    assert "train" in repr(dataset)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"shardsize": 1}, "convert() has no argument 'shardsize'; did you mean shard_size?"),
        ({"compression": "zip"}, "compression is 'zip', expected none or gzip for tfrecord"),
        ({"overwrite": "yes"}, "overwrite=True is 'yes', expected True or False"),
        ({"splits": {"train": 0.5}}, "splits: 'train=0.5': the shares add up to 0.5, not to 1"),
        ({"resume": True, "overwrite": True}, "resume=True keeps what overwrite=True removes"),
        ({"num_shards": 0}, "num_shards: '0' is not a number of shards; expected 1 to 1000000"),
        ({"seed": 1.5, "layout": None}, "seed: invalid literal for int() with base 10: '1.5'"),
        ({"beam_options": ["--rnner=X"]}, "Apache Beam does not know --rnner=X"),
        ({"labels": {5}}, "labels is 5, expected PATH"),
        ({"labels": [["a.csv"]]}, "labels is ['a.csv'], expected PATH"),
        ({"labels": 5}, "labels is 5, expected PATH"),
        ({"labels": [{"filename": object()}]}, "labels contains a object, expected texts"),
        ({"labels": ROWS, "beam_options": ["--runner=FlinkRunner"]}, "labels is a table in this"),
        (
            {"labels": [{"filename": "0.jpg", "a": "x", "b": "y"}]},
            "labels: which of the columns a, b is the label? ",
        ),
        ({"images": [{"x": 1}]}, "convert_samples"),
    ],
)
def test_a_wrong_argument_is_named_as_an_argument(
    photos: Path, tmp_path: Path, arguments: dict[str, Any], message: str
) -> None:
    """Found before anything is written; a table in memory is not called by the file that stands for it."""
    given = {"images": photos / "photos", "labels": photos / "labels.csv", **arguments}
    with pytest.raises(errors.ConversionError) as raised:
        convert(output=tmp_path / "out", **given)
    assert message in str(raised.value)
    assert not (tmp_path / "out").exists()


def test_a_question_is_raised_and_yes_answers_it(photos: Path, tmp_path: Path) -> None:
    """As the command asks it, in the words of arguments."""
    rows = [{"filename": row["filename"], "label": "cat"} for row in ROWS]
    arguments = {"labels": rows, "output": str(tmp_path / "out"), "writers": 0, "progress": False}
    with pytest.raises(errors.QuestionError) as raised:
        convert(str(photos / "photos"), **arguments)
    assert "yes=True" in str(raised.value)
    assert "--yes" not in str(raised.value)
    dataset = convert(str(photos / "photos"), **arguments, yes=True)
    assert dataset.splits == {"train": 12}


def test_a_suggestion_is_a_call_that_works(photos: Path, tmp_path: Path) -> None:
    """It names the table in memory as the caller's argument, not the file that stands for it."""
    lists = ["cat;dog", "cat", "dog"]
    labels = [{"filename": row["filename"], "label": lists[i % 3]} for i, row in enumerate(ROWS)]
    arguments = {"output": str(tmp_path / "out"), "num_shards": 2, "splits": {"train": 1}}
    with pytest.raises(errors.QuestionError) as raised:
        convert(str(photos / "photos"), labels=labels, **arguments, writers=0, progress=False)
    call = str(raised.value).splitlines()[2].strip()
    assert call == (
        f"beam_pipeline.convert(images='{photos}/photos', labels=labels, list_column={{'label': ';'}}, "
        f"splits='train=1.0', num_shards=2, output='{tmp_path}/out', writers=0)"
    )
    assert str(raised.value).endswith("\nCorrect the call, or accept the guess with yes=True.")
    data_set = eval(call, {"beam_pipeline": beam_pipeline, "labels": labels})
    assert data_set.classes == {0: "cat", 1: "dog"}


@pytest.mark.slow
def test_nothing_is_printed_but_progress(photos: Path, tmp_path: Path) -> None:
    """No warnings of Beam's or other libraries', in a process of its own with warnings on."""
    code = (
        "import beam_pipeline\n"
        f"d = beam_pipeline.convert({str(photos / 'photos')!r}, labels={str(photos / 'labels.csv')!r},"
        f" output={str(tmp_path / 'out')!r}, writers=0, progress=False)\n"
        "import sys; assert 'tensorflow' not in sys.modules; print(d.classes)"
    )
    done = python("-c", code, check=True, timeout=120)
    assert done.stdout == "{0: 'cat', 1: 'dog'}\n"
    assert done.stderr == ""


@pytest.mark.slow
def test_the_code_of_the_page_runs(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """docs/python.md, block after block."""
    blocks = documented("docs/python.md", "python")
    assert len(blocks) == 3
    shutil.copytree(photos / "photos", tmp_path / "photos")
    shutil.copy(photos / "labels.csv", tmp_path / "labels.csv")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec("\n".join(blocks), names)
    assert names["dataset"].splits == {"train": 12}


# --- samples ---------------------------------------------------------------------------------------

PIXELS = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)


def cars(count: int = 20) -> Iterator[dict[str, Any]]:
    """Samples as one keeps them in a list of dicts."""
    for i in range(count):
        yield {
            "name": f"car{i}",
            "image": PIXELS + i,
            "image/class/label": i % 2,
            "score": i / 4,
            "tags": ["red", "fast"][: i % 3],
            "nothing": None,
        }


def test_each_sample_becomes_an_example_of_its_values(tmp_path: Path) -> None:
    """Every value is found again, by the kind of its type; uint8 arrays as bytes, None not at all."""
    names = ["slow", "quick"]
    manifest = convert_samples(
        cars(), output=str(tmp_path / "out"), class_names=names
    ).manifest.content
    examples = read_all_by(tmp_path / "out", "name")
    assert sorted(examples) == sorted(f"car{i}" for i in range(20))
    for i in range(20):
        tags = [b"red", b"fast"][: i % 3]
        expected = {
            "name": [f"car{i}".encode()],
            "image": [(PIXELS + i).tobytes()],
            "image/class/label": [i % 2],
            "score": [i / 4],
            "tags": tags,
        }
        found = examples[f"car{i}"]
        assert {"tags": [], **found} == expected
    image = tf.io.decode_raw(examples["car3"]["image"][0], tf.uint8)
    np.testing.assert_array_equal(tf.reshape(image, [2, 2, 3]).numpy(), PIXELS + 3)
    assert manifest == manifest_of(tmp_path / "out")
    kinds = {"image": "bytes", "image/class/label": "int64", "name": "bytes", "score": "float"}
    assert manifest["features"] == {
        **{key: {"kind": kind, "optional": False, "shape": []} for key, kind in kinds.items()},
        "tags": {"kind": "bytes", "optional": True, "shape": [None]},
    }
    assert manifest["classes"] == [
        {"id": 0, "name": "slow", "examples": 10, "splits": {"train": 10}},
        {"id": 1, "name": "quick", "examples": 10, "splits": {"train": 10}},
    ]
    assert sorted(os.listdir(tmp_path / "out")) == [
        *(
            "README.md",
            "croissant.json",
            "dataset_info.json",
            "dead_letters.jsonl",
            "features.json",
        ),
        *("image.class.label.labels.txt", "labels.txt", "manifest.json"),
        *("out-train.tfrecord-00000-of-00001", "report.html", "schema.pbtxt"),
    ]
    assert main(["verify", str(tmp_path / "out")]) == 0


def test_the_same_samples_give_the_same_bytes(tmp_path: Path) -> None:
    """With any number of writer processes, from a list, a generator or a function."""
    options: dict[str, Any] = {"name": "cars", "num_shards": 3, "key": "name", "seed": 7}
    convert_samples(cars, output=str(tmp_path / "a"), writers=0, **options)
    convert_samples(cars(), output=str(tmp_path / "b"), writers=3, **options)
    convert_samples(list(cars())[::-1], output=str(tmp_path / "c"), **options)
    assert digests(tmp_path / "a") == digests(tmp_path / "b")
    shards = shard_names(tmp_path / "a")
    assert len(shards) == 3
    for name in shards:  # the key decides the place, not the order in which samples came
        assert _names(tmp_path / "a", name) == _names(tmp_path / "c", name)


def _names(folder: Path, shard: str) -> list[bytes]:
    return [example["name"][0] for example in read_shard(folder, shard)]


def test_a_function_or_shares_say_the_split(tmp_path: Path) -> None:
    """Each sample is in the split that was asked for."""
    convert_samples(
        cars,
        output=str(tmp_path / "a"),
        name="cars",
        split=lambda sample: "test" if sample["score"] < 1 else "train",
    )
    test = _names(tmp_path / "a", "cars-test.tfrecord-00000-of-00001")
    assert sorted(test) == [b"car0", b"car1", b"car2", b"car3"]
    sizes = convert_samples(
        cars, output=str(tmp_path / "b"), splits={"train": 0.5, "validation": 0.5}
    ).splits
    assert sum(sizes.values()) == 20
    assert min(sizes.values()) > 3


ONE = {"x": 1}


@pytest.mark.parametrize(
    ("samples", "options", "message"),
    [
        ([ONE, {"x": {}}], {}, "sample 1: feature 'x': a dict is not a feature; expected bytes, str, bool, int"),
        ([ONE, {"x": object()}], {}, "sample 1: feature 'x': a object is not a feature"),
        ([ONE, {"x": np.zeros(2, complex)}], {}, "sample 1: feature 'x': an array of complex128 is not a feature"),
        ([ONE, {"x": [1, "a"]}], {}, "sample 1: feature 'x': a list of bytes and int64 values"),
        ([ONE, {"x": [[1]]}], {}, "sample 1: feature 'x': a list is not a feature"),
        ([ONE, {"x": 2**63}], {}, "sample 1: feature 'x': 9223372036854775808 does not fit an int64"),
        ([ONE, {"x": 1e39}], {}, "sample 1: feature 'x': 1e+39 does not fit a float32"),
        ([ONE, {"x": 0.5}], {}, "sample 1: feature 'x': float here, int64 in an earlier sample; float(...)"),
        ([ONE, {"x": "a"}], {}, "sample 1: feature 'x': bytes here, int64 in an earlier sample"),
        ([ONE, {1: 1}], {}, "sample 1: 1 cannot name a feature"),
        ([ONE, 5], {}, "sample 1: a int, expected a dict of features"),
        ([ONE, {**ONE, "image/class/label": "cat"}], {}, "'image/class/label' is 'cat', expected an integer"),
        ([{"\ud800": 1}], {}, "UTF-8"),
        ([{"x": "\ud800"}], {}, "sample 0: "),
        ([{"name": "\ud800"}], {"key": "name"}, "its key"),
        ([ONE], {"class_names": ["a", "\ud800"]}, "expected texts of UTF-8"),
        ([ONE], {"class_names": ["a", ""]}, "expected texts of UTF-8"),
        ([ONE], {"class_names": ["a", 1]}, "expected texts of UTF-8"),
        ([], {}, "not one sample"),
        ([ONE], {"num_shards": 2.5}, "num_shards: '2.5' is not a number of shards"),
        ([ONE], {"writers": -1}, "writers is -1, expected 0 to 1000"),
        (cars, {"key": "missing"}, "sample 0: its key (missing) is None"),
        ([{"fold": "a"}], {"split": "fold"}, "'fold', which is a feature; expected another name, or for the feature's value a function: split=lambda sample: sample['fold']"),
        (cars, {"key": "image/class/label"}, "sample 2: its key '0' is an earlier sample's"),
        (cars, {"class_names": ["only"]}, "is 1, expected 0 to 0, as there are 1"),
    ],
)  # fmt: skip
def test_samples_are_checked(
    tmp_path: Path, samples: Any, options: dict[str, Any], message: str
) -> None:
    """The error names the sample, the feature or the argument; nothing is left in the output folder."""
    with pytest.raises((errors.SampleError, errors.UsageError)) as raised:
        convert_samples(samples, output=str(tmp_path / "out"), **options)
    assert message in str(raised.value)
    assert not (tmp_path / "out").exists() or os.listdir(tmp_path / "out") == []


def test_an_error_of_the_generator_is_the_persons_own(tmp_path: Path) -> None:
    """It comes out as it is, and nothing is left behind."""

    def broken() -> Iterator[dict[str, Any]]:
        yield {"x": 1}
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        convert_samples(broken, output=str(tmp_path / "out"))
    assert os.listdir(tmp_path / "out") == []


def test_what_a_failed_job_left_can_be_overwritten(tmp_path: Path) -> None:
    """Its shards are there, and its notes tell whose they are; files of 4 kB leave no room for the report."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_000, limits[1]))
    try:
        with pytest.raises(errors.OutputError, match=r"files beside the shards .* File too large"):
            convert_samples([ONE], output=tmp_path / "out", writers=0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "out-train.tfrecord-00000-of-00001" in os.listdir(tmp_path / "out")
    with pytest.raises(errors.OutputNotEmptyError, match="overwrite=True to replace"):
        convert_samples([ONE], output=tmp_path / "out")
    convert_samples([ONE], output=tmp_path / "out", overwrite=True)
    convert_samples([ONE], output=tmp_path / "new", name="out")
    assert digests(tmp_path / "out") == digests(tmp_path / "new")


def test_a_data_set_is_replaced_only_when_asked(tmp_path: Path) -> None:
    """As on the command line."""
    convert_samples(cars, output=str(tmp_path / "out"))
    before = digests(tmp_path / "out")
    with pytest.raises(errors.OutputNotEmptyError):
        convert_samples(cars, output=str(tmp_path / "out"))
    assert digests(tmp_path / "out") == before
    convert_samples(cars, output=str(tmp_path / "out"), overwrite=True)
    assert digests(tmp_path / "out") == before


# --- dataset --------------------------------------------------------------------------------------


MANIFEST = json.loads("""{"format": "beam-tfrecord", "format_version": 1, "name": "a", "seed": 0,
 "counts": {"examples": 3}, "dead_letters": {},
 "options": {"compression": "gzip", "columns": [], "features": {"h": "image/height"}, "image_encoding": "raw"},
 "features": {
  "h": {"kind": "int64", "optional": false, "shape": []},
  "image/width": {"kind": "int64", "optional": false},
  "boxes": {"kind": "float", "optional": true, "shape": [null]},
  "points": {"kind": "float", "optional": false, "shape": [4]}},
 "splits": {
  "test": {"examples": 0, "bytes": 0, "shards": []},
  "train": {"examples": 3, "bytes": 30, "shards": [
   {"path": "a-0", "examples": 1, "bytes": 10}, {"path": "a-1", "examples": 2, "bytes": 20}]}},
 "classes": [{"id": 1, "name": "cat"}, {"id": 5, "name": "dog"}]}""")


def test_a_data_set_is_what_its_manifest_says(tmp_path: Path) -> None:
    """Features with shapes, of which none is one value; shards of a split in order; renamed features, several only all
    together; how shards and images are stored."""
    dataset = Dataset.open(_written(tmp_path / "d"))
    assert dataset.features == {
        "h": FeatureEntry("int64", False, ()),
        "image/width": FeatureEntry("int64", False, ()),
        "boxes": FeatureEntry("float", True, (None,)),
        "points": FeatureEntry("float", False, (4,)),
    }
    assert [key for key, feature in dataset.features.items() if feature.ragged] == ["boxes"]
    shards = [Shard(f"{tmp_path}/d/a-0", 1, 10), Shard(f"{tmp_path}/d/a-1", 2, 20)]
    assert [dataset.shards(split) for split in ("train", "test")] == [shards, []]
    with pytest.raises(errors.UsageError, match="has no split 'dev'; it has test, train"):
        dataset.shards("dev")
    for key, expected in (("height", "h"), ("width", "image/width"), ("channels", None)):
        assert dataset.key_of(f"image/{key}") == expected
    assert dataset.keys_of(["image/height", "image/width"]) == ("h", "image/width")
    assert dataset.keys_of(["image/height", "image/channels"]) is None
    assert (dataset.manifest.record_format, dataset.manifest.bare_pixels) == (
        TFRecordFormat("gzip"),
        True,
    )


@pytest.mark.parametrize("beam_options", ["--runner=FlinkRunner", ["--runner=FlinkRunner"]])
def test_a_table_in_memory_is_for_engines_of_this_process(beam_options: Sequence[str]) -> None:
    """However the option that names another one is given."""
    table = [{"image": "a.jpg", "label": "cat"}]
    with pytest.raises(errors.UsageError, match="labels is a table in this process, which an"):
        beam_pipeline.convert("in", labels=table, output="out", beam_options=beam_options)


def test_names_from_data_are_escaped_in_a_notebook() -> None:
    """A class called `<script>` is shown, not run."""
    manifest = manifest_with(classes=[{"id": 0, "name": "<script>"}])
    shown = Dataset("/data", manifest)._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown


def _written(folder: Path, **changed: object) -> str:
    """A folder with a manifest and nothing else."""
    write_files(str(folder), {"manifest.json": json.dumps({**MANIFEST, **changed})})
    return str(folder)


def _second(folder: Path, **changed: object) -> str:
    """A data set of four shards in the split train and one in validation."""
    shards = [{"path": f"b-{i}", "examples": 1, "bytes": 9} for i in range(4)]
    splits = {
        "train": {"examples": 4, "bytes": 36, "shards": shards},
        "validation": {"examples": 1, "bytes": 9, "shards": shards[:1]},
    }
    return _written(folder, splits=splits, **changed)


def test_data_sets_are_read_as_one_with_their_shards_in_proportion(tmp_path: Path) -> None:
    """Each shard of the first is followed by two of the second; a split of one alone is there, too."""
    both = open_to_read([_written(tmp_path / "1"), _second(tmp_path / "2")])
    assert both.splits == {"test": 0, "train": 7, "validation": 1}
    names = [Path(shard.uri).name for shard in both.shards("train")]
    assert names == ["b-0", "a-0", "b-1", "b-2", "a-1", "b-3"]
    assert [Path(shard.uri).name for shard in both.shards("validation")] == ["b-0"]
    assert both.shards("test") == []
    assert both.classes == {1: "cat", 5: "dog"}
    with pytest.raises(errors.UsageError, match="has no split 'other'"):
        both.shards("other")
    with pytest.raises(errors.UsageError, match="no data set is named"):
        open_to_read([])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"classes": [{"id": 2, "name": "cat"}]},
            "classes.cat was 1, is 2; classes.dog was 5, is null",
        ),
        ({"features": {}}, "h is in"),
        (
            {
                "features": {
                    "h": {"kind": "bytes", "optional": False, "shape": [], "content": "json"}
                }
            },
            "h was int64, is bytes of json",
        ),
        ({"options": {**MANIFEST["options"], "compression": "none"}}, "format was"),  # type: ignore[dict-item]
    ],
)
def test_data_sets_that_differ_are_not_read_as_one(
    tmp_path: Path, changed: dict[str, object], message: str
) -> None:
    """The error names the two folders and what differs."""
    first, second = _written(tmp_path / "1"), _second(tmp_path / "2", **changed)
    with pytest.raises(errors.UsageError) as error:
        open_to_read([first, second])
    assert str(error.value).startswith(f"{first} and {second} cannot be read as one: ")
    assert message in str(error.value)
