from __future__ import annotations

import gzip
import io
import random
import zlib

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipeline.core.errors import DamagedRecordError
from beam_pipeline.core.records.record_format import EncodedSample
from beam_pipeline.core.records.tfrecord import crc32c_extend, frame_footer, frame_header
from beam_pipeline.core.records.tfrecord_format import TFRecordFormat
from tests.core.records.fixtures import Memory

PLAIN, GZIP = TFRecordFormat(), TFRecordFormat("gzip")


def framed(data: bytes) -> bytes:
    return frame_header(len(data)) + data + frame_footer(crc32c_extend(0, data))


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (("birds", "train", 0, 1, "none"), "birds-train.tfrecord-00000-of-00001"),
        (("birds", "train", 3, 16, "none"), "birds-train.tfrecord-00003-of-00016"),
        (("birds", "test", 15, 16, "gzip"), "birds-test.tfrecord-00015-of-00016.gz"),
        (("b", "t", 99_999, 100_000, "none"), "b-t.tfrecord-99999-of-100000"),
        (("b", "t", 100_000, 100_001, "none"), "b-t.tfrecord-100000-of-100001"),
    ],
)
def test_a_file_name_is_the_one_of_tfds(
    arguments: tuple[str, str, int, int, str], name: str
) -> None:
    """NAME-SPLIT.tfrecord-INDEX-of-COUNT, five digits or as many as it takes, .gz at the end."""
    *shard, compression = arguments
    assert TFRecordFormat(str(compression)).shard_name(*shard) == name  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("shard", "index"),
    [
        ("pets-train.tfrecord-00000-of-00016", "pets-train.tfindex-00000-of-00016"),
        (
            "a.tfrecord-b-train.tfrecord-00001-of-00002",
            "a.tfrecord-b-train.tfindex-00001-of-00002",
        ),
        ("shard", "shard.tfindex"),
    ],
)
def test_the_name_of_an_index_is_no_name_of_a_shard(shard: str, index: str) -> None:
    """Only the extension changes, the last one if there are two; it is never the same name."""
    assert PLAIN.index_name(shard) == index


@pytest.mark.parametrize(
    ("shard", "stem"),
    [
        ("pets-train.tfrecord-00001-of-00003", "pets-train-00001-of-00003"),
        ("pets-train.tfrecord-00001-of-00003.gz", "pets-train-00001-of-00003.gz"),
        ("shard", "shard"),
    ],
)
def test_a_receipt_is_named_like_its_shard_without_the_mark(shard: str, stem: str) -> None:
    """So a pattern such as `*.tfrecord-*` does not match it."""
    assert PLAIN.receipt_stem(shard) == GZIP.receipt_stem(shard) == stem


PART = st.binary(max_size=300)
SAMPLES = st.lists(st.builds(EncodedSample, PART, PART, PART), max_size=6)


@given(samples=SAMPLES)
def test_a_plain_shard_is_framed_records_one_after_another(samples: list[EncodedSample]) -> None:
    """The sink gets the frames of the joined parts, and the figures are those of its bytes."""
    sink = Memory()
    writer = PLAIN.writer(sink)
    for sample in samples:
        writer.write(sample)
    writer.finish()
    assert sink.data == b"".join(framed(sample.record) for sample in samples)
    assert (writer.bytes, writer.crc32c) == (len(sink.data), google_crc32c.value(sink.data))


@given(samples=SAMPLES)
def test_a_gzip_shard_holds_the_same_compressed(samples: list[EncodedSample]) -> None:
    """Decompressed it is the plain shard; the figures are those of the compressed bytes."""
    noise = random.Random(len(samples)).randbytes(200_000)  # more than the compressor holds back
    samples = [*samples, EncodedSample(b"", noise, b"")]
    sink = Memory()
    writer = GZIP.writer(sink)
    for sample in samples:
        writer.write(sample)
    writer.finish()
    plain = b"".join(framed(sample.record) for sample in samples)
    assert gzip.decompress(sink.data) == plain
    assert (writer.bytes, writer.crc32c) == (len(sink.data), google_crc32c.value(sink.data))


def test_a_gzip_shard_has_no_time_and_no_name() -> None:
    """Its header is the same every day, so a shard's bytes are too."""
    sink = Memory()
    writer = GZIP.writer(sink)
    writer.write(EncodedSample(b"he", b"ll", b"o"))
    writer.finish()
    assert sink.data[:9] == b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00"
    assert zlib.decompress(sink.data, 16 + zlib.MAX_WBITS) == framed(b"hello")


def test_only_a_plain_shard_can_be_indexed_and_read_by_tfds() -> None:
    """No reader can jump into a compressed file, and TFDS reads no compressed ones."""
    assert (PLAIN.indexable, PLAIN.tfds_name) == (True, "tfrecord")
    assert (GZIP.indexable, GZIP.tfds_name) == (False, "")


def test_records_from_the_middle_are_read_without_those_before() -> None:
    """In a plain shard the data before the first wanted record may even be damaged."""
    content = bytearray(framed(b"first") + framed(b"second") + framed(b"third"))
    content[14] ^= 1  # in the data of the first
    assert list(PLAIN.records_in(io.BytesIO(content), "x", range(1, 3))) == [b"second", b"third"]
    with pytest.raises(DamagedRecordError, match=r"^x: record 0 at byte 0: "):
        list(PLAIN.records_in(io.BytesIO(content), "x", range(1)))


def test_a_damaged_record_in_the_middle_is_named_by_where_reading_began() -> None:
    """Numbers then count from the first record that was read."""
    content = bytearray(framed(b"first") + framed(b"second"))
    content[-1] ^= 1
    message = "^x from record 1 at byte 21 on: record 0 at byte 0: the checksum"
    with pytest.raises(DamagedRecordError, match=message):
        list(PLAIN.records_in(io.BytesIO(content), "x", range(1, 2)))


def test_tensorflow_reads_both_compressions() -> None:
    """With the arguments of its own class."""
    assert TFRecordFormat("none").tf_data == ("TFRecordDataset", {"compression_type": ""})
    assert TFRecordFormat("gzip").tf_data == ("TFRecordDataset", {"compression_type": "GZIP"})
