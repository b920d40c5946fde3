"""TFRecord files: framing, indexes, gzip; the writers' figures."""

from __future__ import annotations

import gzip
import io
import os
import random
import re
import struct
import zlib
from typing import Any

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipeline.core.errors import DamagedRecordError
from beam_pipeline.core.records.record_format import EncodedSample
from beam_pipeline.core.records.tfrecord import (
    RecordSpan,
    TFRecordFormat,
    crc32c_extend,
    frame_footer,
    frame_header,
    index_file,
    mask_crc,
    parse_index,
    read_records,
    record_offsets,
    record_spans,
)
from tests.core.records.fixtures import Memory

RECORDS = st.lists(st.binary(max_size=300), max_size=8)
THREE_RECORDS = [b"first", b"", b"the third record"]

# As tf.io.TFRecordWriter of TensorFlow 2.21 writes them.
GOLDEN = bytes.fromhex(
    "0d 00 00 00 00 00 00 00  3c 37 b8 34"
    "62 65 61 6d 2d 74 66 72 65 63 6f 72 64"  # beam-tfrecord
    "f8 cc 71 70"
)
GOLDEN_EMPTY = bytes.fromhex("00 00 00 00 00 00 00 00  29 03 98 07  d8 ea 82 a2")


def framed(data: bytes) -> bytes:
    return frame_header(len(data)) + data + frame_footer(crc32c_extend(0, data))


def framed_all(*records: bytes) -> bytes:
    return b"".join(map(framed, records))


def read(content: bytes) -> list[bytes]:
    return list(read_records(io.BytesIO(content), "data/x.tfrecord"))


def test_a_framed_record_has_these_bytes() -> None:
    """Length, its masked checksum, data and its masked checksum are the golden bytes."""
    assert framed(b"beam-tfrecord") == GOLDEN
    assert framed(b"") == GOLDEN_EMPTY
    assert read(GOLDEN + GOLDEN_EMPTY) == [b"beam-tfrecord", b""]


def test_the_mask_is_a_rotation_and_a_constant() -> None:
    """The checksum is rotated right by 15 bits and the constant added, in 32 bits."""
    assert mask_crc(0) == 0xA282EAD8
    assert mask_crc(1) == 0xA284EAD8
    assert mask_crc(0x8000) == 0xA282EAD9
    assert mask_crc(0xFFFFFFFF) == 0xA282EAD7


@given(head=st.binary(max_size=99), tail=st.binary(max_size=99))
def test_a_checksum_can_be_continued(head: bytes, tail: bytes) -> None:
    """The checksum of two chunks, one after another, is that of both together."""
    assert crc32c_extend(crc32c_extend(0, head), tail) == google_crc32c.value(head + tail)


@given(records=RECORDS)
def test_the_framing_is_the_one_of_tensorflows_writer(
    tf: Any, tmp_path_factory: pytest.TempPathFactory, records: list[bytes]
) -> None:
    """A file of any records is, byte for byte, the one that TensorFlow writes."""
    path = os.path.join(tmp_path_factory.getbasetemp(), "written-by-tensorflow.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for record in records:
            writer.write(record)
    with open(path, "rb") as file:
        written = file.read()
    assert framed_all(*records) == written


@given(records=RECORDS)
def test_records_come_back_as_they_were_written(records: list[bytes]) -> None:
    """Any records, framed and read, are the same records in the same order."""
    assert read(framed_all(*records)) == records


def test_records_before_the_damage_are_still_given() -> None:
    """The error comes at the broken record, not before the sound ones in front of it."""
    content = framed(b"sound") + framed(b"broken")[:-1]
    records = read_records(io.BytesIO(content), "x")
    assert next(records) == b"sound"
    with pytest.raises(DamagedRecordError):
        next(records)


def test_a_file_cut_at_any_byte_is_noticed() -> None:
    """A cut inside a record names path, record and offset; one between two gives fewer records."""
    content = framed_all(*THREE_RECORDS)
    starts = [0, 21, 37, 69]
    assert len(content) == starts[-1]
    for cut in range(len(content)):
        whole = [i for i, start in enumerate(starts) if start <= cut][-1]
        if cut in starts:
            assert read(content[:cut]) == THREE_RECORDS[:whole]
            continue
        message = f"data/x.tfrecord: record {whole} at byte {starts[whole]}: the file ends inside"
        with pytest.raises(DamagedRecordError, match=re.escape(message)):
            read(content[:cut])


def test_a_cut_says_how_much_is_there() -> None:
    """The message counts the bytes that are there and those that should be."""
    content = framed(b"0123456789")
    with pytest.raises(
        DamagedRecordError, match=r"ends inside the record's header \(11 of 12 bytes\)"
    ):
        read(content[:11])
    with pytest.raises(DamagedRecordError, match=r"ends inside the record \(13 of 14 bytes\)"):
        read(content[:-1])


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_a_flip_in_any_byte_is_noticed(flip: int) -> None:
    """Whichever byte is changed, the error names path, record and offset."""
    content = framed_all(*THREE_RECORDS)
    starts = [0, 21, 37]
    for offset in range(len(content)):
        damaged = bytearray(content)
        damaged[offset] ^= flip
        number = [i for i, start in enumerate(starts) if start <= offset][-1]
        start = starts[number]
        part = "length" if offset - start < 12 else "data"
        expected = (
            f"data/x.tfrecord: record {number} at byte {start}: "
            f"the checksum of the record's {part} is wrong"
        )
        with pytest.raises(DamagedRecordError, match=f"^{re.escape(expected)}$"):
            read(bytes(damaged))


@pytest.mark.parametrize("length", [1 << 62, 1 << 63, (1 << 64) - 1])
def test_a_length_beyond_the_end_of_the_file_is_damage_however_large(
    tmp_path_factory: pytest.TempPathFactory, length: int
) -> None:
    """A length with a right checksum that no file can hold is a damaged record as well."""
    packed = struct.pack("<Q", length)
    header = packed + struct.pack("<I", mask_crc(google_crc32c.value(packed)))
    assert frame_header(length) == header
    path = os.path.join(tmp_path_factory.mktemp("records"), "x.tfrecord")
    with open(path, "wb") as file:
        file.write(header + b"a few bytes")
    with (
        open(path, "rb") as file,
        pytest.raises(DamagedRecordError, match=f"record 0 at byte 0: it claims {length} bytes"),
    ):
        list(read_records(file, path))


PLAIN, GZIP = TFRecordFormat(), TFRecordFormat("gzip")


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
def test_the_name_of_an_index_is_no_name_of_aframed_all(shard: str, index: str) -> None:
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


def _spans(data: bytes) -> list[RecordSpan]:
    return list(record_spans(io.BytesIO(data), "shard"))


def test_a_record_is_its_offset_and_its_size_with_framing() -> None:
    """Records of 3, 0 and 5 bytes take 19, 16 and 21, one behind the other."""
    spans = _spans(framed_all(b"abc", b"", b"defgh"))
    assert spans == [(0, 19), (19, 16), (35, 21)]
    assert index_file(spans) == b"0 19\n19 16\n35 21\n"


def test_a_shard_without_records_has_an_empty_index() -> None:
    """No record, no line."""
    assert index_file(_spans(b"")) == b""


class _Counting(io.BytesIO):
    """Counts the bytes that are read."""

    count = 0

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self.count += len(data)
        return data


def test_only_headers_are_read() -> None:
    """Twelve bytes a record, however long it is."""
    file = _Counting(framed_all(b"x" * 10_000, b"y" * 20_000))
    assert len(list(record_spans(file, "shard"))) == 2
    assert file.count == 24


def test_damaged_data_does_not_matter() -> None:
    """A flipped bit of the data is not looked at: the index is still right."""
    data = bytearray(framed_all(b"abc", b"de"))
    data[13] ^= 1
    assert _spans(bytes(data)) == [(0, 19), (19, 18)]


SHARD = framed_all(b"abc", b"defgh")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            SHARD[:20],
            "shard: record 1 at byte 19: the file ends inside the record's header (1 of 12 bytes)",
        ),
        (
            SHARD[:-1],
            "shard: record 1 at byte 19: the file ends inside the record (8 of 9 bytes)",
        ),
        (
            SHARD[:31],
            "shard: record 1 at byte 19: the file ends inside the record (0 of 9 bytes)",
        ),
        (
            SHARD[:19] + b"\x06" + SHARD[20:],
            "shard: record 1 at byte 19: the checksum of the record's length is wrong",
        ),
        (
            SHARD[:8] + b"\0" + SHARD[9:],
            "shard: record 0 at byte 0: the checksum of the record's length is wrong",
        ),
    ],
    ids=["cut header", "cut record", "cut behind the header", "length", "checksum"],
)
def test_damage_is_placed(data: bytes, message: str) -> None:
    """What is wrong, in which record, and where it begins."""
    with pytest.raises(DamagedRecordError) as caught:
        _spans(data)
    assert str(caught.value) == message


def test_a_length_that_is_nonsense_is_an_error_and_no_memory() -> None:
    """A length of petabytes with a right checksum ends behind the file."""
    with pytest.raises(DamagedRecordError, match=r"ends inside the record \(0 of 1125899906842628"):
        _spans(frame_header(1 << 50))


def test_an_index_is_read_back() -> None:
    """The sizes of the records, in order."""
    assert parse_index(b"0 19\n19 16\n35 21\n", "i") == [19, 16, 21]
    assert parse_index(b"", "i") == []


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"0 19\n20 16\n", 2),
        (b"1 19\n", 1),
        (b"0 -19\n", 1),
        (b"0 19", 1),
        (b"0 19 \n", 1),
        (b"\n", 1),
        (b"0 99999999999999999999\n", 1),
        (b"\xff 1\n", 1),
    ],
)
def test_an_index_with_gaps_or_other_text_is_an_error(data: bytes, line: int) -> None:
    """Names the file and the line."""
    with pytest.raises(DamagedRecordError, match=f"^i: line {line}: expected the offset"):
        parse_index(data, "i")


def test_offsets_are_sums_of_sizes() -> None:
    """Records of 19, 16 and 21 bytes; none at all."""
    assert record_offsets([19, 16, 21], "s", examples=3, size=56) == [0, 19, 35, 56]
    assert record_offsets([], "s", examples=0, size=0) == [0]


@pytest.mark.parametrize(
    ("sizes", "error"),
    [
        ([19, 16], "s: 2 records are indexed, the manifest lists 3"),
        ([19, 16, 22], "s: its indexed records take 57 bytes, the file has 56"),
        ([19, -16, 21], "s: its indexed records take 24 bytes, the file has 56"),
    ],
)
def test_sizes_that_do_not_fit_the_shard_are_an_error(sizes: list[int], error: str) -> None:
    """Another number of records, or more bytes than the file has."""
    with pytest.raises(DamagedRecordError, match=f"^{error}$"):
        record_offsets(sizes, "s", examples=3, size=56)


def test_an_image_reaches_the_sink_without_a_copy() -> None:
    """It is a buffer of its own among those that are written."""
    written: list[bytes] = []

    class Collected:
        def write(self, *buffers: bytes) -> None:
            written.extend(buffers)

    image = b"image" * 100
    PLAIN.writer(Collected()).write(EncodedSample(b"before", image, b"after"))
    assert b"".join(written) == framed(b"before" + image + b"after")
    assert written[1] is image
