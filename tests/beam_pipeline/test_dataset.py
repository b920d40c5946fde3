from __future__ import annotations

import json
from pathlib import Path

import pytest

import beam_pipeline
from beam_pipeline.core.dataset.manifest import FeatureEntry
from beam_pipeline.core.errors import ConversionError, UsageError
from beam_pipeline.core.records.tfrecord import TFRecordFormat
from beam_pipeline.dataset import Dataset, Shard, open_to_read
from tests.core.dataset.fixtures import manifest_with
from tests.harness import python

MANIFEST = {
    "format": "beam-tfrecord",
    "format_version": 1,
    "name": "a",
    "seed": 0,
    "counts": {"examples": 3},
    "dead_letters": {},
    "options": {
        "compression": "gzip",
        "columns": [],
        "features": {"h": "image/height"},
        "image_encoding": "raw",
    },
    "features": {
        "h": {"kind": "int64", "optional": False, "shape": []},
        "image/width": {"kind": "int64", "optional": False},
        "boxes": {"kind": "float", "optional": True, "shape": [None]},
        "points": {"kind": "float", "optional": False, "shape": [4]},
    },
    "splits": {
        "test": {"examples": 0, "bytes": 0, "shards": []},
        "train": {
            "examples": 3,
            "bytes": 30,
            "shards": [
                {"path": "a-0", "examples": 1, "bytes": 10},
                {"path": "a-1", "examples": 2, "bytes": 20},
            ],
        },
    },
    "classes": [{"id": 1, "name": "cat"}, {"id": 5, "name": "dog"}],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a manifest and nothing else."""
    (tmp_path / "manifest.json").write_text(json.dumps(MANIFEST))
    return tmp_path


def test_features_are_read_with_their_shapes(folder: Path) -> None:
    """Without a shape a feature is one value, as older manifests have it."""
    dataset = Dataset.open(folder)
    assert dataset.features == {
        "h": FeatureEntry("int64", False, ()),
        "image/width": FeatureEntry("int64", False, ()),
        "boxes": FeatureEntry("float", True, (None,)),
        "points": FeatureEntry("float", False, (4,)),
    }
    assert [key for key, feature in dataset.features.items() if feature.ragged] == ["boxes"]


def test_shards_are_those_of_a_split_in_order(folder: Path) -> None:
    """Their URIs lie in the folder; a split that is not there is refused with those that are."""
    dataset = Dataset.open(str(folder))
    assert dataset.shards("train") == [
        Shard(f"{folder}/a-0", 1, 10),
        Shard(f"{folder}/a-1", 2, 20),
    ]
    assert dataset.shards("test") == []
    with pytest.raises(UsageError, match="has no split 'dev'; it has test, train"):
        dataset.shards("dev")


def test_a_standard_feature_is_found_under_the_key_it_has(folder: Path) -> None:
    """A renamed one, one of its own name, and none; several only all together."""
    dataset = Dataset.open(folder)
    assert dataset.key_of("image/height") == "h"
    assert dataset.key_of("image/width") == "image/width"
    assert dataset.key_of("image/channels") is None
    assert dataset.keys_of(["image/height", "image/width"]) == ("h", "image/width")
    assert dataset.keys_of(["image/height", "image/channels"]) is None


def test_the_options_say_how_shards_and_images_are_stored(folder: Path) -> None:
    """Compression and bare pixels are those of the conversion."""
    dataset = Dataset.open(folder)
    assert dataset.record_format == TFRecordFormat("gzip")
    assert dataset.bare_pixels


def test_a_folder_without_a_manifest_is_no_data_set(tmp_path: Path) -> None:
    """The message names the file that is missing."""
    with pytest.raises(ConversionError, match=r"manifest\.json cannot be read"):
        Dataset.open(tmp_path)


def test_class_names_need_no_tensorflow(folder: Path) -> None:
    """Where TensorFlow cannot be imported they are read all the same."""
    script = (
        "import sys; sys.modules['tensorflow'] = sys.modules['apache_beam'] = None;"
        "from beam_pipeline import class_names; print(class_names(sys.argv[1]))"
    )
    run = python("-c", script, str(folder), check=True)
    assert run.stdout == "{1: 'cat', 5: 'dog'}\n"
    assert beam_pipeline.class_names(folder) == {1: "cat", 5: "dog"}


def test_names_from_data_are_escaped_in_a_notebook() -> None:
    """A class called `<script>` is shown, not run."""
    manifest = manifest_with(classes=[{"id": 0, "name": "<script>"}])
    shown = Dataset("/data", manifest)._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown


def _second(tmp_path: Path, **changed: object) -> str:
    """A data set of four shards in the split train and one in validation."""
    shards = [{"path": f"b-{i}", "examples": 1, "bytes": 9} for i in range(4)]
    splits = {
        "train": {"examples": 4, "bytes": 36, "shards": shards},
        "validation": {"examples": 1, "bytes": 9, "shards": shards[:1]},
    }
    (tmp_path / "second").mkdir()
    manifest = {**MANIFEST, "splits": splits, **changed}
    (tmp_path / "second/manifest.json").write_text(json.dumps(manifest))
    return str(tmp_path / "second")


def _first(tmp_path: Path) -> str:
    (tmp_path / "first").mkdir()
    (tmp_path / "first/manifest.json").write_text(json.dumps(MANIFEST))
    return str(tmp_path / "first")


def test_data_sets_are_read_as_one_with_their_shards_in_proportion(tmp_path: Path) -> None:
    """Each shard of the first is followed by two of the second; a split of one alone is there, too."""
    both = open_to_read([_first(tmp_path), _second(tmp_path)])
    assert both.splits == {"test": 0, "train": 7, "validation": 1}
    names = [Path(shard.uri).name for shard in both.shards("train")]
    assert names == ["b-0", "a-0", "b-1", "b-2", "a-1", "b-3"]
    assert [Path(shard.uri).name for shard in both.shards("validation")] == ["b-0"]
    assert both.shards("test") == []
    assert both.classes == {1: "cat", 5: "dog"}
    with pytest.raises(UsageError, match="has no split 'other'"):
        both.shards("other")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"classes": [{"id": 2, "name": "cat"}]},
            "classes.cat was 1, is 2; classes.dog was 5, is null",
        ),
        ({"features": {}}, "h is in"),
        ({"options": {**MANIFEST["options"], "compression": "none"}}, "format was"),  # type: ignore[dict-item]
    ],
)
def test_data_sets_that_differ_are_not_read_as_one(
    tmp_path: Path, changed: dict[str, object], message: str
) -> None:
    """The error names the two folders and what differs."""
    first, second = _first(tmp_path), _second(tmp_path, **changed)
    with pytest.raises(UsageError) as error:
        open_to_read([first, second])
    assert str(error.value).startswith(f"{first} and {second} cannot be read as one: ")
    assert message in str(error.value)


def test_no_data_set_cannot_be_read() -> None:
    """An empty list is a mistake."""
    with pytest.raises(UsageError, match="no data set is named"):
        open_to_read([])
