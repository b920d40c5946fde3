from __future__ import annotations

import gzip
import io
from typing import Any

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipeline.core.errors import DamagedRecordError
from beam_pipeline.core.records.example_view import read_shard
from beam_pipeline.core.records.sharding import ShardInfo, ShardSpec
from beam_pipeline.core.records.tfrecord import (
    TFRecordFormat,
    crc32c_extend,
    frame_footer,
    frame_header,
)
from tests.core.records.fixtures import record_of

SPEC = ShardSpec("train", 3, 8, "birds-train.tfrecord-00003-of-00008")


def framed(data: bytes) -> bytes:
    return frame_header(len(data)) + data + frame_footer(crc32c_extend(0, data))


def shard(*class_ids: int, compression: str = "none") -> bytes:
    """A shard of one small example a class."""
    content = b"".join(framed(record_of({"image/class/label": [i]})) for i in class_ids)
    return gzip.compress(content, mtime=0) if compression == "gzip" else content


def read(
    content: bytes, compression: str = "none", class_key: str = "image/class/label"
) -> tuple[list[Any], ShardInfo]:
    """The examples of a shard, and its figures, which must come last and once."""
    *examples, info = read_shard(
        io.BytesIO(content), "data/x", SPEC, TFRecordFormat(compression), class_key
    )
    assert isinstance(info, ShardInfo)
    assert not any(isinstance(example, ShardInfo) for example in examples)
    return examples, info


@pytest.mark.parametrize("compression", ["none", "gzip"])
@given(class_ids=st.lists(st.integers(0, 5), max_size=9))
def test_a_shard_gives_its_examples_and_then_its_figures(
    compression: str, class_ids: list[int]
) -> None:
    """Figures are those of the file as it is stored, compressed or not."""
    content = shard(*class_ids, compression=compression)
    examples, info = read(content, compression)
    assert [list(example["image/class/label"].values) for example in examples] == [
        [class_id] for class_id in class_ids
    ]
    assert info == ShardInfo(
        "train",
        3,
        SPEC.file_name,
        len(class_ids),
        len(content),
        google_crc32c.value(content),
        tuple((i, class_ids.count(i)) for i in sorted(set(class_ids))),
    )


def test_examples_without_a_class_are_examples() -> None:
    """A data set may have none, and its shards count none."""
    content = framed(record_of({"image/label": [0.5]})) + framed(b"")
    examples, info = read(content)
    assert examples[0]["image/label"].values == [0.5]
    assert (info.examples, info.classes) == (2, ())


def test_classes_are_counted_where_they_are_written() -> None:
    """The key may be another, and one example may have several; without a key none are counted."""
    boxes = {"image/object/class/label": [3, 1, 3], "image/class/label": [7]}
    content = framed(record_of(boxes)) * 2
    assert read(content, class_key="image/object/class/label")[1].classes == ((1, 2), (3, 4))
    assert read(content, class_key="")[1].classes == ()
    other = framed(record_of({"id": [5]}))
    assert read(other + content, class_key="id")[1].classes == ((5, 1),)
    assert read(other)[1].classes == ()


def test_a_shard_larger_than_the_buffer_is_measured_whole() -> None:
    """Bytes are counted once each, however they are read ahead."""
    content = framed(record_of({"image/encoded": [bytes(700_000)]})) * 5
    _, info = read(content)
    assert (info.examples, info.bytes) == (5, len(content))
    assert info.crc32c == google_crc32c.value(content)


def test_a_record_that_is_no_example_is_damage() -> None:
    """Framing and checksums are right, the payload is not: path and number are named."""
    content = shard(1, 2) + framed(b"\xff\xff\xff") + shard(3)
    with pytest.raises(DamagedRecordError, match=r"^data/x: record 2 is not a tf.train.Example: "):
        read(content)


def test_a_key_that_is_not_utf8_makes_no_example() -> None:
    """TensorFlow would refuse it as well."""
    record = record_of({"xy": [1]}).replace(b"xy", b"\xff\xfe")
    with pytest.raises(DamagedRecordError, match=r"^data/x: record 0 is not a tf.train.Example: "):
        read(framed(record))


def test_a_plain_shard_cut_or_flipped_at_any_byte_is_noticed() -> None:
    """The reader raises, or the figures of the file are not those it had."""
    content = shard(1, 2, 3)
    _, whole = read(content)
    for offset in range(len(content)):
        flipped = bytearray(content)
        flipped[offset] ^= 0x10
        with pytest.raises(DamagedRecordError, match=r"^data/x: record \d at byte \d+: "):
            read(bytes(flipped))
        if offset % (len(content) // 3):
            with pytest.raises(DamagedRecordError, match=r"^data/x: record \d at byte \d+: "):
                read(content[:offset])
        else:
            assert read(content[:offset])[1].examples == offset // (len(content) // 3) < 3
    assert whole.examples == 3


def test_a_gzip_shard_cut_or_flipped_at_any_byte_is_noticed() -> None:
    """The reader raises nothing but DamagedRecordError, or the figures differ."""
    content = shard(*range(20), compression="gzip")
    _, whole = read(content, "gzip")
    damaged = [content[:offset] for offset in range(len(content))]
    for offset in range(len(content)):
        for mask in (0x01, 0x10, 0xFF):
            flipped = bytearray(content)
            flipped[offset] ^= mask
            damaged.append(bytes(flipped))
    for one in damaged:
        try:
            _, info = read(one, "gzip")
        except DamagedRecordError as error:
            message = str(error)
        else:
            message = ""
            assert info != whole
        assert not message or message.startswith("data/x: ")


def test_a_gzip_shard_that_is_cut_says_behind_which_record() -> None:
    """The last record that could be read is counted."""
    content = shard(*range(2000), compression="gzip")
    with pytest.raises(
        DamagedRecordError, match=r"^data/x: the gzip stream is broken after record \d+: "
    ):
        read(content[:-12], "gzip")


def test_a_plain_shard_is_no_gzip() -> None:
    """What the manifest calls compressed and is not, is damaged from its first record on."""
    with pytest.raises(
        DamagedRecordError,
        match=r"^data/x: the gzip stream is broken after record 0: Not a gzipped",
    ):
        read(shard(1, 2), "gzip")
