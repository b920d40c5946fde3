from __future__ import annotations

import gzip
import io
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import google_crc32c
import pytest

from beam_pipeline.core.dataset.manifest import ShardEntry, crc32c_text
from beam_pipeline.core.dataset.verification import class_key_of, verify_classes, verify_shard
from beam_pipeline.core.records import sharding, wire
from beam_pipeline.core.records.tfrecord import crc32c_extend, frame_footer, frame_header
from tests.core.dataset.fixtures import manifest_with
from tests.core.records.fixtures import record_of, with_kinds
from tests.rows import in_rows

SOUND = {"image/class/label": [1], "image/encoded": [b"pixels"], "label/weight": [0.5]}
FEATURES = {
    "image/class/label": {"kind": "int64", "optional": False, "shape": []},
    "image/encoded": {"kind": "bytes", "optional": False, "shape": []},
    "label/note": {"kind": "bytes", "optional": True, "shape": []},
    "label/weight": {"kind": "float", "optional": True, "shape": []},
}
COLUMNS = [
    {"name": "weight", "kind": "float", "feature": "label/weight", "repeated": False},
    {"name": "animal", "kind": "class", "feature": "image/class", "repeated": False},
]


def framed(data: bytes) -> bytes:
    return frame_header(len(data)) + data + frame_footer(crc32c_extend(0, data))


def shard(*examples: dict[str, Any]) -> bytes:
    return b"".join(framed(record_of(example)) for example in examples)


def verify(
    content: bytes,
    described: bytes,
    examples: int,
    compression: str = "none",
    *,
    features: Mapping[str, Any] = FEATURES,
    renames: Mapping[str, str] = MappingProxyType({}),
) -> list[str | sharding.ShardInfo]:
    """What is said of a shard whose entry in the manifest describes those bytes."""
    crc = crc32c_text(google_crc32c.value(described))
    entry = ShardEntry("x-train.tfrecord-00000-of-00001", examples, len(described), crc)
    manifest = manifest_with(
        options={"compression": compression, "columns": COLUMNS, "features": {**renames}},
        features={**features},
    )
    faults, info = verify_shard(io.BytesIO(content), "out/x", entry, manifest, "train")
    return [*faults, info] if info else [*faults]


def info_of(content: bytes, *classes: tuple[int, int], examples: int) -> sharding.ShardInfo:
    crc = google_crc32c.value(content)
    name = "x-train.tfrecord-00000-of-00001"
    return sharding.ShardInfo("train", 0, name, examples, len(content), crc, classes)


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_a_sound_shard_has_no_faults(compression: str) -> None:
    """Nothing is said but its figures; what is optional may be missing."""
    content = shard(SOUND, SOUND, {key: SOUND[key] for key in sorted(SOUND)[:2]})
    if compression == "gzip":
        content = gzip.compress(content)
    assert verify(content, content, 3, compression) == [info_of(content, (1, 3), examples=3)]


def test_a_shard_of_nothing_is_sound() -> None:
    """A split may have got no sample."""
    assert verify(b"", b"", 0) == [info_of(b"", examples=0)]


TWO = shard(SOUND, SOUND)
HALF = len(TWO) // 2
GZIP = gzip.compress(TWO, mtime=0)


@pytest.mark.parametrize(
    ("content", "described", "compression", "fault"),
    [
        (
            *(TWO[:-10] + bytes([TWO[-10] ^ 1]) + TWO[-9:], TWO, "none"),
            f"record 1 at byte {HALF}: the checksum of the record's data is wrong",
        ),
        (
            *(TWO[:-3], TWO, "none"),
            f"record 1 at byte {HALF}: the file ends inside the record ({HALF - 15} of {HALF - 12} bytes)",
        ),
        (
            *(GZIP[:-4], GZIP, "gzip"),
            "the gzip stream is broken after 2 records: Compressed file ended before the end-of-stream "
            "marker was reached",
        ),
    ],
    ids=["a changed byte", "a cut", "a broken stream"],
)
def test_damage_is_found_with_its_record(
    content: bytes, described: bytes, compression: str, fault: str
) -> None:
    """The first damaged record is named, and nothing is said of figures that cannot be had."""
    assert verify(content, described, 2, compression) == [f"out/x: {fault}"]


def test_a_shard_that_lacks_whole_records_is_found_by_its_figures() -> None:
    """Its framing is sound, so all three figures are said, and what it has is counted."""
    content = shard(SOUND, SOUND, SOUND)
    cut = content[: len(content) // 3]
    assert verify(cut, content, 3) == [
        "out/x: examples is 1, the manifest lists 3",
        f"out/x: bytes is {len(cut)}, the manifest lists {len(content)}",
        f"out/x: crc32c is {crc32c_text(google_crc32c.value(cut))}, "
        f"the manifest lists {crc32c_text(google_crc32c.value(content))}",
        info_of(cut, (1, 1), examples=1),
    ]


@pytest.mark.parametrize(
    ("content", "described", "compression"),
    [
        (shard(SOUND | {"image/encoded": [b"PIXELS"]}), shard(SOUND), "none"),
        (gzip.compress(shard(SOUND), mtime=1), gzip.compress(shard(SOUND), mtime=0), "gzip"),
    ],
    ids=["another file of the same size", "compressed again"],
)
def test_a_sound_shard_in_the_place_of_another_is_found_by_its_checksum(
    content: bytes, described: bytes, compression: str
) -> None:
    """The bytes of the file are not those that were written."""
    assert verify(content, described, 1, compression) == [
        f"out/x: crc32c is {crc32c_text(google_crc32c.value(content))}, "
        f"the manifest lists {crc32c_text(google_crc32c.value(described))}",
        info_of(content, (1, 1), examples=1),
    ]


def test_a_record_that_is_no_example_is_found() -> None:
    """The payload is looked at, not the framing alone."""
    content = shard(SOUND) + framed(b"no example")
    (fault,) = verify(content, content, 2)
    assert isinstance(fault, str)
    assert fault.startswith("out/x: record 1 is not a tf.train.Example: ")


def test_a_feature_that_is_missing_or_of_another_kind_is_found() -> None:
    """Each fault is counted over the shard, and the figures are still given."""
    content = shard(
        SOUND,
        SOUND | {"image/class/label": [b"cat"]},
        SOUND | {"image/class/label": [b"cat"], "label/weight": [1]},
        {"label/weight": [0.5]},
    )
    *faults, info = verify(content, content, 4)
    assert faults == [
        "out/x: feature image/class/label is bytes, the manifest lists int64 in 2 examples",
        "out/x: feature image/class/label is missing in 1 example",
        "out/x: feature image/encoded is missing in 1 example",
        "out/x: feature label/weight is int64, the manifest lists float in 1 example",
    ]
    assert info == info_of(content, (1, 1), examples=4)


def test_a_feature_that_the_manifest_does_not_have_is_found() -> None:
    """A reader that follows the manifest would not know of it."""
    content = shard(SOUND, SOUND | {"label/age": [3]}, SOUND | {"label/age": [3], "x": [b""]})
    *faults, info = verify(content, content, 3)
    assert faults == [
        "out/x: feature label/age is not in the manifest in 2 examples",
        "out/x: feature x is not in the manifest in 1 example",
    ]
    assert info == info_of(content, (1, 3), examples=3)


@in_rows
def test_a_feature_of_another_number_of_values_is_found(
    shape: list[int | None], expected: int | None
) -> None:
    """One value where one is said, as many as the shape has, or any number of them."""
    features = {**FEATURES, "label/weight": {"kind": "float", "optional": True, "shape": shape}}
    for count in range(5):
        example = {
            **with_kinds({"image/class/label": [1], "image/encoded": [b"pixels"]}),
            "label/weight": ("float", [0.5] * count),
        }
        content = framed(wire.encode_example(example))
        *faults, info = verify(content, content, 1, features=features)
        assert isinstance(info, sharding.ShardInfo)
        assert faults == (
            []
            if count == expected or expected is None
            else [
                f"out/x: feature label/weight has {count} values, the manifest lists {expected} "
                "in 1 example"
            ]
        )


def test_classes_are_counted_under_the_key_that_they_were_given() -> None:
    """A renamed label is the label; under its old key there may be another feature."""
    renames = {"id": "image/class/label", "image/class/label": "label/age"}
    content = shard({"id": [4], "image/class/label": [77]})
    features = {key: {"kind": "int64", "optional": False, "shape": []} for key in renames}
    found = verify(content, content, 1, features=features, renames=renames)
    assert found == [info_of(content, (4, 1), examples=1)]


@in_rows
def test_the_key_of_the_class_ids_comes_from_the_options(
    options: Mapping[str, Any], key: str
) -> None:
    """A renamed label is the label, and a class without a key has none."""
    assert class_key_of(manifest_with(options={"compression": "none", **options})) == key


# --- classes ------------------------------------------------------------------------------------


@in_rows
def test_classes_are_as_many_as_the_manifest_says(
    classes: list[dict[str, Any]], shards: list[tuple[str, dict[int, int]]], faults: list[str]
) -> None:
    """In all and in each split; those that only one of them has are faults."""
    counted = [
        sharding.ShardInfo(split, 0, "x", 0, 0, 0, tuple(numbers.items()))
        for split, numbers in shards
    ]
    assert list(verify_classes(manifest_with(classes=classes), counted)) == faults
