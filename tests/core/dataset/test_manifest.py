"""Manifests, and names beside them; a manifest may be anybody's."""

from __future__ import annotations

import base64
import copy
import json
import os
import re
import struct
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipeline.core.dataset import plan, tally
from beam_pipeline.core.dataset.manifest import (
    Manifest,
    build_manifest,
    crc32c_text,
    manifest_file,
    parse_manifest,
)
from beam_pipeline.core.dataset.names import is_ours_in_incomplete, temporary_name
from beam_pipeline.core.errors import ConversionError
from beam_pipeline.core.images.header import ImageHeader
from beam_pipeline.core.records import image_statistics, tfrecord
from beam_pipeline.core.records.sharding import ShardInfo, ShardPlan
from tests.core.dataset.fixtures import manifest_with
from tests.rows import in_rows

TALLY = tally.Tally(
    listed=6,
    ignored=Counter({".txt": 2, ".csv": 1}),
    label_rows=7,
    orphan_rows=1,
    repeated_rows=1,
    samples=Counter({"train": 4, "test": 1}),
    dead=Counter({"unreadable": 1, "missing_image": 1, "bad_label_value": 1}),
)
PLAN = plan.Plan(
    ShardPlan("birds", (("test", 1), ("train", 2)), tfrecord.TFRecordFormat()),
    (("강아지", 1), ("고양이", 2)),
    tally.Tally(),
    None,
)
SHARDS = [
    ShardInfo("train", 1, "birds-train.tfrecord-00001-of-00002", 1, 200, 0x01020304, ((2, 1),)),
    ShardInfo("test", 0, "birds-test.tfrecord-00000-of-00001", 0, 0, 0, ()),
    ShardInfo(
        "train", 0, "birds-train.tfrecord-00000-of-00002", 3, 1000, 0xFFFFFFFF, ((1, 2), (2, 1))
    ),
]


def built(shards: list[ShardInfo], dead_letter_crc: int = 0, counted: str = "examples") -> bytes:
    features = {"image/encoded": {"kind": "bytes", "optional": False, "shape": []}}
    run = {"seed": 0, "options": {"splits": None}, "features": features}
    figures = {"counted": counted, "dead_letter_crc": dead_letter_crc}
    return manifest_file(
        build_manifest(PLAN, TALLY, shards, tally.Totals.of(shards), run, **figures)  # type: ignore[arg-type]
    )


def test_a_manifest_is_this_file() -> None:
    """Every byte of the manifest of a small data set, as people and programs rely on it."""
    expected = Path(__file__).with_name("birds.manifest.json").read_text(encoding="utf-8")
    assert built(SHARDS, dead_letter_crc=3 * (1 << 32) - 2).decode() == expected


def test_a_manifest_does_not_depend_on_the_order_in_which_shards_were_written() -> None:
    """Runners finish shards in any order."""
    assert built(SHARDS[::-1]) == built(sorted(SHARDS)) == built(SHARDS)


def test_a_manifest_has_the_formats_and_sizes_of_all_images() -> None:
    """It has none where some were given as finished examples."""
    gatherer = image_statistics.StatisticsGatherer()
    gatherer.add(ImageHeader("png", 30, 40, 3), 10, ())
    one = gatherer.statistics()
    for _ in range(2):
        gatherer.add(ImageHeader("jpeg", 300, 40, 3), 10, ())
    three = gatherer.statistics()
    second, empty, first = SHARDS
    manifest = json.loads(
        built([second._replace(statistics=one), empty, first._replace(statistics=three)])
    )
    assert manifest["images"] == {
        "formats": {"jpeg": 2, "png": 2},
        "width": [40, 40],
        "height": [30, 300],
    }
    assert "images" not in json.loads(built([second, empty, first._replace(statistics=three)]))


@pytest.mark.parametrize(
    ("shards", "counted", "by_split"),
    [
        (SHARDS[1:2], "examples", [(0, 0), (0, 0)]),  # all its images may have been unreadable
        (
            [SHARDS[1]._replace(examples=5, classes=((2, 5),)), *SHARDS[::2]],
            "examples",
            [(0, 2), (5, 2)],
        ),
        (SHARDS, "objects", [(0, 2), (0, 2)]),
    ],
)
def test_classes_are_counted_in_each_split(
    shards: list[ShardInfo], counted: str, by_split: list[tuple[int, int]]
) -> None:
    """Examples, or objects where examples have several; a class without any keeps its id."""
    assert json.loads(built(shards, counted=counted))["classes"] == [
        {"id": i, "name": name, counted: test + train, "splits": {"test": test, "train": train}}
        for (name, i), (test, train) in zip(PLAN.classes, by_split, strict=True)
    ]


def test_classes_that_only_other_splits_have() -> None:
    """A split that has none at all, such as one without labels, lacks none."""
    classes = [
        {"id": i, "name": name, "examples": 9, "splits": dict(zip("abc", counts, strict=True))}
        for i, (name, counts) in enumerate({"cat": (9, 0, 0), "dog": (5, 4, 0)}.items())
    ]
    splits = {name: {"examples": 0, "bytes": 0, "shards": []} for name in "abc"}
    assert manifest_with(splits=splits, classes=classes).absent_classes == {"b": ["cat"]}


@given(st.integers(0, (1 << 32) - 1))
def test_a_checksum_is_base64_of_four_bytes_big_endian(crc: int) -> None:
    """Any checksum can be had back from its text."""
    assert struct.unpack(">I", base64.b64decode(crc32c_text(crc), validate=True)) == (crc,)


@pytest.mark.parametrize("shards", [1000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_the_memory_of_a_manifest_is_that_of_its_shards(shards: int) -> None:
    """A kilobyte each, however many there are; text as a list of pieces would take more."""
    infos = [ShardInfo("train", n, f"birds-train-{n:05d}", 2, 300, n, ()) for n in range(shards)]
    tracemalloc.start()
    try:
        data = built(infos)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1000 * shards + 1_000_000
    assert len(json.loads(data)["splits"]["train"]["shards"]) == shards


# --- A manifest may be anybody's


SOUND: dict[str, Any] = {
    "format": "beam-tfrecord",
    "format_version": 1,
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
MISSING = object()
SHARD = "splits.train.shards[0]"


def changed(path: str, value: Any) -> dict[str, Any]:
    """SOUND with another value at a path such as `images.width[0]`, or without any."""
    manifest = copy.deepcopy(SOUND)
    *parents, last = [int(k) if k.isdigit() else k for k in re.findall(r"[^.\[\]]+", path)]
    parent: Any = manifest
    for key in parents:
        parent = parent[key]
    if value is MISSING:
        del parent[last]
    else:
        parent[last] = value
    return manifest


def read(content: Any) -> Manifest:
    return parse_manifest(json.dumps(content).encode(), "m.json")


def fault_of(content: Any) -> str:
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    with pytest.raises(ConversionError) as caught:
        parse_manifest(data, "m.json")
    return str(caught.value).removeprefix("m.json is not a manifest of beam-tfrecord: ")


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b"null", b"[]", b"1", b"[" * 100_000])
def test_what_is_no_manifest_is_an_error(data: bytes) -> None:
    """Whatever the file holds, the message names it."""
    with pytest.raises(ConversionError, match=r"^m\.json is not a manifest of beam-tfrecord: "):
        parse_manifest(data, "m.json")


@pytest.mark.parametrize("entry", sorted(set(SOUND) - {"images"}))
def test_every_entry_must_be_there(entry: str) -> None:
    """The message names it; data sets of finished examples have no figures of images."""
    assert fault_of(changed(entry, MISSING)) == f"it has no entry {entry!r}"


@in_rows
def test_entries_of_entries_must_be_there(path: str) -> None:
    """Such as the bytes of a shard."""
    parent, _, entry = path.rpartition(".")
    assert fault_of(changed(path, MISSING)) == f"{parent} has no entry {entry!r}"


def test_a_manifest_of_another_program_is_an_error() -> None:
    """It may have all that ours has; the message says what it calls itself."""
    assert fault_of({**SOUND, "format": "tfds"}) == ("format is 'tfds', expected beam-tfrecord")


def test_a_later_version_is_an_error() -> None:
    """The message says which one, and which is read; it need not look like this one."""
    later = {"format": "beam-tfrecord", "format_version": 2, "data": {}}
    assert fault_of(later) == "it has version 2; this program reads version 1"


@in_rows
def test_a_shard_outside_the_folder_is_an_error(path: str) -> None:
    """What follows a manifest never reads or deletes what is not a file of its folder."""
    assert fault_of(changed(f"{SHARD}.path", path)) == (
        f"splits.train.shards[0].path is {path!r}, expected the name of a file in its own folder"
    )


@in_rows
def test_a_file_name_is_a_file_of_the_folder(path: str) -> None:
    """Two dots at the beginning of a name are no folder."""
    manifest = read(changed(f"{SHARD}.path", path))
    assert [shard.path for shard in manifest.shards] == [path]


def test_a_sound_manifest_passes() -> None:
    """With entries of later versions, too, and whatever the seed is."""
    assert read(SOUND).content == SOUND
    read({**SOUND, "new": [1]})
    read(changed("images", MISSING))
    read(changed("splits.train.new", 1))


@in_rows
def test_an_entry_of_another_type_is_named(path: str, value: Any, expected: str) -> None:
    """The message says where it is, what stands there and what is expected."""
    assert fault_of(changed(path, value)) == f"{path} is {value!r}, expected {expected}"


def test_temporary_names_are_unique() -> None:
    """Two writers of one file do not mix their bytes."""
    assert temporary_name("/out/a") != temporary_name("/out/a")


def test_a_temporary_name_says_whose_it_is() -> None:
    """The file and the process that writes it; receipts are written beside the shards' folder."""
    name = temporary_name("/out/d-train.tfrecord-00000-of-00001")
    assert name.startswith("/out/.incomplete/d-train.tfrecord-00000-of-00001.")
    assert f".{os.getpid()}." in name
    assert is_ours_in_incomplete(name.removeprefix("/out/.incomplete/"))
    assert temporary_name("/out/.receipts/r.json.gz").startswith("/out/.incomplete/r.json.gz.")
    assert temporary_name("/out/.incomplete/plan.json").startswith("/out/.incomplete/plan.json.")
