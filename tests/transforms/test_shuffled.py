"""`WriteToShuffledTFRecord`: records of any pipeline as shuffled shards."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pytest
import tensorflow as tf
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.window import FixedWindows, TimestampedValue

from beam_pipeline.cli import main
from beam_pipeline.core.errors import SampleError, TooManyBadSamplesError, UsageError
from beam_pipeline.core.records import wire
from beam_pipeline.transforms import WriteToShuffledTFRecord
from beam_pipeline.work.records import RecordReader
from tests.harness import digests, manifest_of, read_all_by, read_shard, shard_names
from tests.rows import in_rows
from tests.transforms.outputs import outputs

LARGE = 20_000  # bytes that a reference does not carry


def rows(count: int = 200) -> list[dict[str, Any]]:
    """Records of both sizes."""
    return [
        {"id": f"k{i}", "x": i, "blob": bytes([i % 256]) * (LARGE if i % 50 == 0 else 3)}
        for i in range(count)
    ]


def write(path: Any, records: Sequence[Any], runner: Any = None, **arguments: Any) -> None:
    """Writes records on one machine, in a pipeline of its own."""
    with beam.Pipeline(runner or FnApiRunner()) as pipeline:
        _ = (
            pipeline
            | beam.Create(records)
            | WriteToShuffledTFRecord(str(path), **{"name": "d", **arguments})
        )


def records_of(folder: Path, key: str) -> list[Any]:
    """A feature of all records, in their order."""
    names = shard_names(folder)
    return [example[key][0] for name in names for example in read_shard(folder, name)]


def sizes(folder: Any) -> dict[str, list[int]]:
    """Split -> examples of each shard."""
    splits = manifest_of(folder)["splits"].items()
    return {split: [shard["examples"] for shard in entry["shards"]] for split, entry in splits}


def test_every_record_is_written_once(tmp_path: Path) -> None:
    """With its values, in the split and shard of its key's hash; nothing of the job stays."""
    out = tmp_path / "out"
    write(out, rows(), key="id", num_shards=3, splits={"train": 0.5, "test": 0.5})
    examples = read_all_by(out, "id")
    assert {key: (e["x"], e["blob"]) for key, e in examples.items()} == {
        row["id"]: ([row["x"]], [row["blob"]]) for row in rows()
    }
    manifest = manifest_of(out)
    features = {"blob": "bytes", "id": "bytes", "x": "int64"}
    assert manifest["features"] == {
        name: {"kind": kind, "optional": False, "shape": []} for name, kind in features.items()
    }
    assert (manifest["counts"]["examples"], manifest["counts"]["listed_images"]) == (200, 200)
    assert sizes(out) == {"test": [39, 34, 36], "train": [24, 43, 24]}
    assert not (out / ".incomplete").exists()
    assert main(["verify", str(out)]) == 0


def test_the_bytes_do_not_depend_on_order_bundles_or_repetition(tmp_path: Path) -> None:
    """Records in another order, in bundles that run twice, give the same files."""
    records = rows()
    write(tmp_path / "a", records, key="id", num_shards=2)
    random.Random(1).shuffle(records)
    write(tmp_path / "b", records, FnApiRunner(bundle_repeat=1), key="id", num_shards=2)
    assert digests(tmp_path / "a") == digests(tmp_path / "b")


class Reading(NamedTuple):
    """A row with a schema."""

    id: str
    x: int


@pytest.mark.slow
def test_every_kind_of_record_becomes_the_same_bytes(tmp_path: Path) -> None:
    """Dicts, NamedTuples, rows, examples and serialized examples."""

    def example(row: Mapping[str, Any]) -> tf.train.Example:
        ids = tf.train.Feature(bytes_list=tf.train.BytesList(value=[row["id"].encode()]))
        numbers = tf.train.Feature(int64_list=tf.train.Int64List(value=[row["x"]]))
        return tf.train.Example(features=tf.train.Features(feature={"x": numbers, "id": ids}))

    plain = [{"id": f"k{i}", "x": i} for i in range(9)]
    kinds = {
        "dict": plain,
        "named": [Reading(**row) for row in plain],
        "row": [beam.Row(**row) for row in plain],
        "example": [example(row) for row in plain],
        "bytes": [example(row).SerializeToString(deterministic=True) for row in plain],
    }
    for kind, records in kinds.items():
        write(tmp_path / kind, records, key="id", num_shards=2)
    write(tmp_path / "called", plain, key=lambda record: record["id"], num_shards=2)
    assert digests(tmp_path / "called") == digests(tmp_path / "dict")
    assert len({tuple(digests(tmp_path / kind).items()) for kind in kinds}) == 1
    assert sorted(read_all_by(tmp_path / "row", "id")) == [f"k{i}" for i in range(9)]


@pytest.mark.parametrize("shards", [1, 3, 7])
def test_exact_sizes_differ_by_one_at_most(
    tmp_path: Path, shards: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order of the records is that of shards without exact sizes, over several ranges of hashes."""
    monkeypatch.setattr("beam_pipeline.transforms.shuffled._RANGE_SAMPLES", 40)
    arguments = {"key": "id", "splits": {"train": 0.75, "test": 0.25}}
    write(tmp_path / "out", rows(100), num_shards=shards, exact_sizes=True, **arguments)
    write(tmp_path / "one", rows(100), num_shards=1, **arguments)
    for split, examples in sizes(tmp_path / "out").items():
        total = sizes(tmp_path / "one")[split][0]
        assert sorted(examples) == sorted(
            (i + 1) * total // shards - i * total // shards for i in range(shards)
        )
    assert records_of(tmp_path / "out", "id") == records_of(tmp_path / "one", "id")
    assert manifest_of(tmp_path / "out")["options"]["exact_sizes"] is True


@pytest.mark.parametrize("exact", [False, True])
def test_records_without_keys_may_be_equal(tmp_path: Path, exact: bool) -> None:
    """All of them are written, and exact sizes stay exact."""
    records = [{"x": i // 10} for i in range(60)]
    write(tmp_path / "out", records, num_shards=4, exact_sizes=exact)
    assert sorted(records_of(tmp_path / "out", "x")) == [i // 10 for i in range(60)]
    if exact:
        assert sizes(tmp_path / "out") == {"train": [15, 15, 15, 15]}


@pytest.mark.parametrize("exact", [False, True])
def test_a_key_of_two_records(tmp_path: Path, exact: bool) -> None:
    """It fails the pipeline; or both are left out, listed and counted."""
    records = [*rows(20), {"id": "k7", "x": 0, "blob": b"other"}]
    with pytest.raises(Exception, match=r"duplicate_key.*'k7'.*give on_error=\"collect\""):
        write(tmp_path / "raise", records, key="id", exact_sizes=exact, num_shards=20)
    assert not (tmp_path / "raise/manifest.json").exists()
    out = f"{tmp_path}/out"
    write_out = WriteToShuffledTFRecord(
        out, key="id", exact_sizes=exact, num_shards=20, on_error="collect"
    )
    bad, (committed,) = outputs(
        lambda p: (p | beam.Create(records) | write_out)._asdict(), "bad", "manifest"
    )
    assert [(one.key, one.reason) for one in bad] == [("k7", "duplicate_key")] * 2
    assert (committed.examples, committed.shards, committed.bad) == (19, 20, 2)
    assert manifest_of(out)["dead_letters"] == {"duplicate_key": 2}
    assert main(["verify", out]) == 0


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"id": "k", "x": object()}, "feature 'x': a object is not a feature"),
        ({"x": 1}, "its key (id) is None, expected a text or an integer"),
        (3, "3 is not a record, expected a dict, a row, a tf.train.Example or bytes"),
        (b"\xff\xff", "the record is not a tf.train.Example"),
        ({"id": "k", "image/class/label": 5}, "feature 'image/class/label' is 5, expected 0 to 1"),
    ],
)
def test_the_message_of_a_bad_record(record: Any, message: str) -> None:
    """It says what was found and what was expected."""
    with pytest.raises(SampleError, match=re.escape(message)):
        RecordReader(key="id", class_names=["a", "b"]).read(record)


def test_a_record_that_cannot_be_written(tmp_path: Path) -> None:
    """It fails the pipeline with what was found; or it is left out and listed."""
    records = [{"id": "k", "x": object()}, {"id": "fine"}]
    message = "1 bad sample among 2 records.*feature 'x': a object is not a feature"
    with pytest.raises(TooManyBadSamplesError, match=message):
        write(tmp_path / "raise", records, key="id")
    write(tmp_path / "out", records, key="id", on_error="collect")
    assert sorted(read_all_by(tmp_path / "out", "id")) == ["fine"]
    assert manifest_of(tmp_path / "out")["dead_letters"] == {"bad_label_value": 1}


def test_records_that_disagree_on_a_feature(tmp_path: Path) -> None:
    """No shard is written: which of them is wrong does not depend on their order."""
    records = [{"id": "b", "x": 1}, {"id": "c", "x": 1.5}, {"id": "a", "x": 2}]
    message = r"feature 'x' is float in sample 'c' and int64 in sample 'a'; float\(...\) makes"
    with pytest.raises(Exception, match=message):
        write(tmp_path / "out", records, key="id")
    assert shard_names(tmp_path / "out") == []


def test_no_record_at_all(tmp_path: Path) -> None:
    """It is an error, not a data set without examples or no data set without a word."""
    with pytest.raises(Exception, match="there is not one record, so there is nothing to write"):
        write(tmp_path / "out", [])
    message = "none of 2 records can be written: feature 'x': a object is not a feature"
    with pytest.raises(Exception, match=message):
        write(tmp_path / "bad", [{"x": object()}] * 2, on_error="collect")


def test_features_that_are_given(tmp_path: Path) -> None:
    """Integers become floats where they say so; the manifest has them as they are given."""
    entry = {"kind": "float", "shape": [2], "optional": False}
    features = {"id": "bytes", "at": entry, "tags": "bytes"}
    write(tmp_path / "out", [{"id": "a", "at": [1, 2]}], key="id", features=features, num_shards=1)
    assert read_all_by(tmp_path / "out", "id") == {"a": {"id": [b"a"], "at": [1.0, 2.0]}}
    anything = {"kind": "bytes", "optional": True, "shape": [None]}
    expected = {"at": entry, "id": anything, "tags": anything}
    assert manifest_of(tmp_path / "out")["features"] == expected
    reader = RecordReader(key="id", features=expected)
    for record, message in (
        ({"id": "b"}, "feature 'at' is missing, which is not optional"),
        ({"id": "b", "at": [1, 2, 3]}, "feature 'at' has 3 values, expected 2"),
        ({"id": "b", "at": [1, 2], "more": 1}, "'more' is none of the features that were given"),
        ({"id": "b", "at": ["x", "y"]}, "feature 'at' is bytes, expected float"),
        (
            wire.encode_example({"id": ("bytes", [b"b"]), "at": ("int64", [1, 2])}),
            "a serialized record contains int64 where `features` declare float",
        ),
    ):
        with pytest.raises(SampleError, match=message):
            reader.read(record)


def test_bytes_of_any_kind(tmp_path: Path) -> None:
    """Without features, records are written as they are and not looked into."""
    records = [b"", b"\xff\xff", b"z" * LARGE, b""]
    write(tmp_path / "out", records, features={}, num_shards=1, compression="gzip")
    (name,) = shard_names(tmp_path / "out")
    read = tf.data.TFRecordDataset(str(tmp_path / "out" / name), "GZIP").as_numpy_iterator()
    assert sorted(read) == sorted(records)


def test_classes_are_counted(tmp_path: Path) -> None:
    """By the ids that records hold, with the names that were given."""
    records = [{"image/class/label": i % 2, "pixels": np.arange(4) + i} for i in range(6)]
    write(tmp_path / "out", records, class_names=["cat", "dog"], num_shards=1)
    assert [
        (c["id"], c["name"], c["examples"]) for c in manifest_of(tmp_path / "out")["classes"]
    ] == [(0, "cat", 3), (1, "dog", 3)]


@pytest.mark.slow
def test_what_a_folder_that_is_not_empty_means(tmp_path: Path) -> None:
    """It fails, is taken up where the same records were being written, or is replaced."""
    out, arguments = tmp_path / "out", {"key": "id", "num_shards": 3}
    write(out, rows(), **arguments)
    before, (first, second, third) = digests(out), shard_names(out)
    with pytest.raises(Exception, match=r'is not empty.*or use if_exists="overwrite" to replace'):
        write(out, rows(), **arguments)
    (out / second).unlink()
    remaining = {name: os.stat(out / name).st_mtime_ns for name in (first, third)}
    write(out, rows(), if_exists="resume", **arguments)
    assert digests(out) == before
    assert {name: os.stat(out / name).st_mtime_ns for name in remaining} == remaining
    changed = rows()
    changed[5]["blob"] = b"new"
    said = r'if_exists="resume": since .* its samples or options have changed: .*k5'
    with pytest.raises(Exception, match=said):
        write(out, changed, if_exists="resume", **arguments)
    write(out, changed, if_exists="overwrite", **arguments)
    assert read_all_by(out, "id")["k5"]["blob"] == [b"new"]
    (out / "manifest.json").unlink()
    with pytest.raises(Exception, match="neither a manifest nor the note"):
        write(out, rows(), if_exists="resume", **arguments)


def test_a_failed_pipeline_is_resumed(tmp_path: Path) -> None:
    """Shards that were written before a worker failed are kept; the files of the job go."""
    out = tmp_path / "out"
    out.mkdir()
    (out / "d-train.tfrecord-00002-of-00003").mkdir()  # a shard that cannot be written
    with pytest.raises(Exception, match=r"d-train\.tfrecord-00002-of-00003"):
        write(out, rows(), key="id", num_shards=3, if_exists="overwrite")
    (out / "d-train.tfrecord-00002-of-00003").rmdir()
    kept = {name: os.stat(out / name).st_mtime_ns for name in shard_names(out)}
    write(out, rows(), key="id", num_shards=3, if_exists="resume")
    assert {name: os.stat(out / name).st_mtime_ns for name in kept} == kept
    write(tmp_path / "whole", rows(), key="id", num_shards=3)
    assert digests(out) == digests(tmp_path / "whole")


def test_windows_end_at_the_write(tmp_path: Path) -> None:
    """Records of any windows are one data set; the results are in the global window."""
    timed = beam.Create([TimestampedValue(row, i) for i, row in enumerate(rows(20))])
    windows = beam.Map(lambda row: row) | beam.WindowInto(FixedWindows(3))
    write_out = WriteToShuffledTFRecord(f"{tmp_path}/out", key="id", num_shards=2)
    found = outputs(
        lambda p: (
            (p | timed | windows | write_out).shards
            | beam.Map(lambda shard: shard.examples)
            | beam.CombineGlobally(sum)
        )
    )
    assert found == [20]
    assert len(read_all_by(tmp_path / "out", "id")) == 20


def test_an_unbounded_collection_is_refused(tmp_path: Path) -> None:
    """There is no end to shuffle it at."""
    impulses = beam.Pipeline() | PeriodicImpulse()
    with pytest.raises(
        ValueError, match="an unbounded PCollection never ends, so it cannot be shuffled"
    ):
        _ = impulses | WriteToShuffledTFRecord(f"{tmp_path}/out")


def test_two_in_one_pipeline_and_in_threads(tmp_path: Path) -> None:
    """Neither takes anything of the other."""

    def run(folder: str) -> None:
        with beam.Pipeline(FnApiRunner()) as pipeline:
            records = pipeline | beam.Create(rows())
            for name in ("a", "b"):
                _ = records | name >> WriteToShuffledTFRecord(
                    f"{tmp_path}/{folder}/{name}", key="id", num_shards=2, name="d"
                )

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(run, "xy"))
    written = [digests(tmp_path / folder / name) for folder in ("x", "y") for name in ("a", "b")]
    assert all(files == written[0] for files in written)
    assert len(read_all_by(tmp_path / "x/a", "id")) == 200


@in_rows
def test_arguments_are_checked_when_they_are_given(
    tmp_path: Path, arguments: dict[str, Any], message: str
) -> None:
    """Before a pipeline runs, and without a look at the folder."""
    with pytest.raises(UsageError, match=message):
        WriteToShuffledTFRecord(f"{tmp_path}/out", **arguments)
    WriteToShuffledTFRecord(tmp_path / "out", shard_size="100MB")
    assert os.listdir(tmp_path) == []
