"""Entries of a manifest that may be anybody's."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipeline.core.dataset.manifest import check_manifest
from beam_pipeline.core.errors import ConversionError

SOUND: dict[str, Any] = {
    "name": "pets",
    "seed": -(1 << 70),
    "options": {
        "compression": "gzip",
        "columns": [{"name": "label", "kind": "class", "feature": "image/class/label"}],
        "record_format": "tfrecord",
        "features": None,
        "image_encoding": None,
    },
    "features": {"image/encoded": {"kind": "bytes", "optional": False, "shape": [None, 3]}},
    "splits": {
        "train": {
            "examples": 1,
            "bytes": 9,
            "shards": [{"path": "a", "examples": 1, "bytes": 9, "crc32c": "AAAAAA=="}],
        }
    },
    "classes": [{"id": 0, "name": "cat", "examples": 1, "splits": {"train": 1}}],
    "counts": {"examples": 1, "listed_images": 1, "ignored_files": {".txt": 1}},
    "images": {"formats": {"png": 1}, "width": [8, 8], "height": [4, 4]},
    "dead_letters": {"unreadable": 0},
}
MAY_BE_MISSING = {"images"}
NEEDED_BY_READERS = {"options", "features", "splits", "classes"}
MISSING = object()


def changed(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """SOUND with another value at a path, or without any."""
    manifest = copy.deepcopy(SOUND)
    parent: Any = manifest
    for key in path[:-1]:
        parent = parent[key]
    if value is MISSING:
        del parent[path[-1]]
    else:
        parent[path[-1]] = value
    return manifest


def message_of(manifest: Any) -> str:
    with pytest.raises(ConversionError) as caught:
        check_manifest(manifest, "m.json")
    return str(caught.value).removeprefix("m.json is no manifest of beam-tfrecord: ")


def test_a_sound_manifest_passes() -> None:
    """With entries of later versions, too, and whatever the seed is."""
    check_manifest(SOUND, "m.json")
    check_manifest({**SOUND, "new": [1]}, "m.json")
    for entry in MAY_BE_MISSING:
        check_manifest(changed((entry,), MISSING), "m.json")
    check_manifest(changed(("splits", "train", "new"), 1), "m.json")


SHARD = ("splits", "train", "shards", 0)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("name",), 5, "name is 5, expected a text"),
        (("name",), "\ud800", "name is '\\ud800', expected a text"),
        (("seed",), True, "seed is True, expected a whole number"),
        (("seed",), 1.5, "seed is 1.5, expected a whole number"),
        (
            ("splits", "train", "examples"),
            "2",
            "splits.train.examples is '2', expected a whole number",
        ),
        (
            ("splits", "train", "bytes"),
            -1,
            "splits.train.bytes is -1, expected a whole number from 0 on",
        ),
        (
            ("counts", "examples"),
            1 << 63,
            "counts.examples is 9223372036854775808, expected a whole number of 64 bits",
        ),
        (("splits",), [], "splits is [], expected an object"),
        (("splits", "train", "shards"), {}, "splits.train.shards is {}, expected a list"),
        (
            (*SHARD, "path"),
            "",
            "splits.train.shards[0].path is '', expected the name of a file",
        ),
        (
            (*SHARD, "crc32c"),
            "AAA=",
            "splits.train.shards[0].crc32c is 'AAA=', expected the base64 of four bytes",
        ),
        (
            (*SHARD, "crc32c"),
            7,
            "splits.train.shards[0].crc32c is 7, expected the base64 of four bytes",
        ),
        (
            ("features", "image/encoded", "kind"),
            "text",
            "features.image/encoded.kind is 'text', expected one of bytes, float, int64",
        ),
        (
            ("features", "image/encoded", "optional"),
            0,
            "features.image/encoded.optional is 0, expected true or false",
        ),
        (
            ("features", "image/encoded", "shape"),
            [-1],
            "features.image/encoded.shape[0] is -1, expected a whole number from 0 on",
        ),
        (
            ("images", "width"),
            [8],
            "images.width is [8], expected the least and the greatest number",
        ),
        (("images", "height", 1), -1, "images.height[1] is -1, expected a whole number from 0 on"),
        (("options", "features"), [], "options.features is [], expected an object"),
        (("counts",), MISSING, "it has no entry 'counts'"),
        (("options", "compression"), MISSING, "options has no entry 'compression'"),
        (("classes", 0, "examples"), MISSING, "classes[0] has no entry 'examples'"),
        ((*SHARD, "bytes"), MISSING, "splits.train.shards[0] has no entry 'bytes'"),
    ],
)
def test_an_entry_of_another_type_is_named(path: tuple[Any, ...], value: Any, message: str) -> None:
    """The message says where it is, what stands there and what is expected."""
    assert message_of(changed(path, value)) == message


@pytest.mark.parametrize("entry", sorted(set(SOUND) - MAY_BE_MISSING))
def test_readers_need_only_some_entries(entry: str) -> None:
    """Every entry counts if all are checked; a reader gets by without those that it does not use."""
    manifest = changed((entry,), MISSING)
    assert message_of(manifest) == f"it has no entry {entry!r}"
    if entry in NEEDED_BY_READERS:
        with pytest.raises(ConversionError, match=f"it has no entry '{entry}'"):
            check_manifest(manifest, "m.json", whole=False)
    else:
        check_manifest(manifest, "m.json", whole=False)


def test_readers_need_no_checksums() -> None:
    """Only `verify` compares them."""
    check_manifest(changed((*SHARD, "crc32c"), MISSING), "m.json", whole=False)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@given(st.sampled_from(sorted(SOUND)), JSON)
def test_any_json_passes_or_is_an_error_for_people(entry: str, value: Any) -> None:
    """Never another exception."""
    with contextlib.suppress(ConversionError):
        check_manifest({**SOUND, entry: value}, "m.json")
