"""`beam_pipeline.convert_samples`: samples given from Python."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from beam_pipeline.cli import main
from beam_pipeline.conversion import convert_samples
from beam_pipeline.core.errors import OutputNotEmptyError, SampleError, UsageError
from tests.harness import digests, manifest_of, read_all_by, read_shard, shard_names

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
    assert manifest["features"] == {
        "image": {"kind": "bytes", "optional": False, "shape": []},
        "image/class/label": {"kind": "int64", "optional": False, "shape": []},
        "name": {"kind": "bytes", "optional": False, "shape": []},
        "score": {"kind": "float", "optional": False, "shape": []},
        "tags": {"kind": "bytes", "optional": True, "shape": [None]},
    }
    assert manifest["classes"] == [
        {"id": 0, "name": "slow", "examples": 10, "splits": {"train": 10}},
        {"id": 1, "name": "quick", "examples": 10, "splits": {"train": 10}},
    ]
    assert sorted(os.listdir(tmp_path / "out")) == [
        "README.md",
        "croissant.json",
        "dataset_info.json",
        "dead_letters.jsonl",
        "features.json",
        "image.class.label.labels.txt",
        "labels.txt",
        "manifest.json",
        "out-train.tfrecord-00000-of-00001",
        "report.html",
        "schema.pbtxt",
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


def test_samples_are_shuffled(tmp_path: Path) -> None:
    """They do not stand in the order in which they came, and another seed gives another order."""
    orders = []
    for seed in (0, 1):
        folder = tmp_path / str(seed)
        convert_samples(cars, output=str(folder), seed=seed, name="cars")
        orders.append(_names(folder, "cars-train.tfrecord-00000-of-00001"))
    first, second = orders
    assert sorted(first) == sorted(second) == sorted(f"car{i}".encode() for i in range(20))
    assert len({tuple(first), tuple(second), tuple(f"car{i}".encode() for i in range(20))}) == 3


def test_a_function_or_shares_say_the_split(tmp_path: Path) -> None:
    """Each sample is in the split that was asked for."""
    convert_samples(
        cars,
        output=str(tmp_path / "a"),
        name="cars",
        split=lambda sample: "test" if sample["score"] < 1 else "train",
    )
    assert sorted(_names(tmp_path / "a", "cars-test.tfrecord-00000-of-00001")) == [
        b"car0",
        b"car1",
        b"car2",
        b"car3",
    ]
    sizes = convert_samples(
        cars, output=str(tmp_path / "b"), splits={"train": 0.5, "validation": 0.5}
    ).splits
    assert sum(sizes.values()) == 20
    assert min(sizes.values()) > 3


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        (
            {"x": {}},
            "sample 1: feature 'x': a dict is not a feature; expected bytes, str, bool, int",
        ),
        ({"x": object()}, "sample 1: feature 'x': a object is not a feature"),
        (
            {"x": np.zeros(2, complex)},
            "sample 1: feature 'x': an array of complex128 is not a feature",
        ),
        ({"x": [1, "a"]}, "sample 1: feature 'x': a list of bytes and int64 values"),
        ({"x": [[1]]}, "sample 1: feature 'x': a list is not a feature"),
        ({"x": 2**63}, "sample 1: feature 'x': 9223372036854775808 does not fit an int64"),
        ({"x": 1e39}, "sample 1: feature 'x': 1e+39 does not fit a float32"),
        ({"x": 0.5}, "sample 1: feature 'x': float here, int64 in an earlier sample; float(...)"),
        ({"x": "a"}, "sample 1: feature 'x': bytes here, int64 in an earlier sample"),
        ({1: 1}, "sample 1: 1 cannot name a feature"),
        (5, "sample 1: a int, expected a dict of features"),
        ({"x": 1, "image/class/label": "cat"}, "'image/class/label' is 'cat', expected an integer"),
    ],
)
def test_what_no_feature_can_hold_is_an_error(tmp_path: Path, sample: Any, message: str) -> None:
    """The error names the sample, the feature and the type; nothing is left in the output folder."""
    with pytest.raises(SampleError) as raised:
        convert_samples([{"x": 1}, sample], output=str(tmp_path / "out"))
    assert message in str(raised.value)
    assert os.listdir(tmp_path / "out") == []


def test_class_ids_must_have_names(tmp_path: Path) -> None:
    """An id beyond the class names is an error, not a class without a name."""
    with pytest.raises(SampleError, match="is 1, expected 0 to 0, as there are 1"):
        convert_samples(cars, output=str(tmp_path / "out"), class_names=["only"])


def test_keys_must_be_there_and_differ(tmp_path: Path) -> None:
    """A key that is missing or used twice names the sample."""
    with pytest.raises(SampleError, match=r"sample 0: its key \(missing\) is None"):
        convert_samples(cars, output=str(tmp_path / "out"), key="missing")
    with pytest.raises(SampleError, match="sample 2: its key '0' is an earlier sample's"):
        convert_samples(cars, output=str(tmp_path / "out"), key="image/class/label")


def test_no_samples_are_an_error(tmp_path: Path) -> None:
    """An empty iterable is a mistake, not a data set."""
    with pytest.raises(UsageError, match="not one sample"):
        convert_samples([], output=str(tmp_path / "out"))


def test_an_error_of_the_generator_is_the_persons_own(tmp_path: Path) -> None:
    """It comes out as it is, and nothing is left behind."""

    def broken() -> Iterator[dict[str, Any]]:
        yield {"x": 1}
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        convert_samples(broken, output=str(tmp_path / "out"))
    assert os.listdir(tmp_path / "out") == []


def test_a_data_set_is_replaced_only_when_asked(tmp_path: Path) -> None:
    """As on the command line."""
    convert_samples(cars, output=str(tmp_path / "out"))
    before = digests(tmp_path / "out")
    with pytest.raises(OutputNotEmptyError):
        convert_samples(cars, output=str(tmp_path / "out"))
    assert digests(tmp_path / "out") == before
    convert_samples(cars, output=str(tmp_path / "out"), overwrite=True)
    assert digests(tmp_path / "out") == before


@pytest.mark.parametrize("names", [["a", "\ud800"], ["a", ""], ["a", 1]])
def test_class_names_are_texts(tmp_path: Path, names: list[Any]) -> None:
    """Which files can hold; nothing is left behind."""
    with pytest.raises(UsageError, match=r"class_names contains .*; expected texts of UTF-8"):
        convert_samples(cars(), output=str(tmp_path / "out"), class_names=names)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("sample", [{"\ud800": 1}, {"name": "\ud800"}, {"x": "\ud800"}])
def test_half_a_character_is_no_feature(tmp_path: Path, sample: dict[str, Any]) -> None:
    """Not in a feature's name, nor in its value, nor in the key."""
    with pytest.raises(SampleError, match=r"sample 0: .*(UTF-8|its key|utf-8)"):
        convert_samples([{"name": "a", **sample}], output=str(tmp_path / "out"), key="name")
    assert os.listdir(tmp_path / "out") == []
