"""TFRecord files: framing, indexes, gzip; the writers' figures."""

from __future__ import annotations

import gzip
import io
import os
import random
import re
import struct
from pathlib import Path
from typing import Any

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipeline.core.errors import DamagedRecordError
from beam_pipeline.core.records import example_view, sharding, tfrecord
from beam_pipeline.core.records.record_format import EncodedSample
from tests.core.records.fixtures import Memory, record_of
from tests.rows import in_rows, raised

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
    return (
        tfrecord.frame_header(len(data))
        + data
        + tfrecord.frame_footer(tfrecord.crc32c_extend(0, data))
    )


def framed_all(*records: bytes) -> bytes:
    return b"".join(map(framed, records))


def read(content: bytes) -> list[bytes]:
    return list(tfrecord.read_records(io.BytesIO(content), "data/x.tfrecord"))


def test_a_framed_record_has_these_bytes() -> None:
    """Length, its masked checksum, data and its masked checksum are the golden bytes."""
    assert framed(b"beam-tfrecord") == GOLDEN
    assert framed(b"") == GOLDEN_EMPTY
    assert read(GOLDEN + GOLDEN_EMPTY) == [b"beam-tfrecord", b""]


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
        records = tfrecord.read_records(io.BytesIO(content[:cut]), "data/x.tfrecord")
        assert [next(records) for _ in range(whole)] == THREE_RECORDS[:whole]
        with pytest.raises(DamagedRecordError, match=re.escape(message)):
            next(records)


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_a_flip_in_any_byte_is_noticed(flip: int) -> None:
    """Whichever byte is changed, the error names path, record and offset."""
    content = framed_all(*THREE_RECORDS)
    for offset in range(len(content)):
        damaged = bytearray(content)
        damaged[offset] ^= flip
        number, start = max(one for one in enumerate((0, 21, 37)) if one[1] <= offset)
        part = "length" if offset - start < 12 else "data"
        assert str(raised(DamagedRecordError, read, bytes(damaged))) == (
            f"data/x.tfrecord: record {number} at byte {start}: "
            f"the checksum of the record's {part} is wrong"
        )


@pytest.mark.parametrize("length", [1 << 62, 1 << 63, (1 << 64) - 1])
def test_a_length_beyond_the_end_of_the_file_is_damage_however_large(
    tmp_path: Path, length: int
) -> None:
    """A length with a right checksum that no file can hold is a damaged record as well."""
    packed = struct.pack("<Q", length)
    header = packed + struct.pack("<I", tfrecord.mask_crc(google_crc32c.value(packed)))
    assert tfrecord.frame_header(length) == header
    (tmp_path / "x").write_bytes(header + b"a few bytes")
    with (tmp_path / "x").open("rb") as file:
        error = raised(DamagedRecordError, lambda: list(tfrecord.read_records(file, "x")))
    assert f"record 0 at byte 0: it claims {length} bytes" in str(error)


class _Asking(io.BytesIO):
    """Lists how many bytes each read asks for."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.asked: list[int | None] = []

    def read(self, size: int | None = -1, /) -> bytes:
        self.asked.append(size)
        return super().read(size)


def test_no_more_is_asked_for_than_came_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long record is read whole, and a length that is a lie takes no memory."""
    monkeypatch.setattr(tfrecord, "_FIRST_BYTES", 4)
    record = b"0123456789" * 3
    file = _Asking(framed(record))
    assert list(tfrecord.read_records(file, "x")) == [record]
    assert file.asked == [12, 4, 4, 8, 14, 4, 12]
    file = _Asking(tfrecord.frame_header(tfrecord.MAX_RECORD_BYTES) + b"01234567")
    error = raised(DamagedRecordError, lambda: list(tfrecord.read_records(file, "x")))
    assert str(error).endswith("the file ends inside the record (8 of 2147483652 bytes)")
    assert file.asked == [12, 4, 4, 8, 4]


PLAIN, GZIP = tfrecord.TFRecordFormat(), tfrecord.TFRecordFormat("gzip")


@in_rows
def test_files_have_these_names(compression: str, method: str, parts: Any, name: str) -> None:
    """Shards are named as by TFDS; the name of an index or a receipt never matches a shard's."""
    assert getattr(tfrecord.TFRecordFormat(compression), method)(*parts) == name


PART = st.binary(max_size=300)
SAMPLES = st.lists(st.builds(EncodedSample, PART, PART, PART), max_size=6)


@pytest.mark.parametrize("chosen", [PLAIN, GZIP])
@given(samples=SAMPLES)
def test_a_shard_is_framed_records_one_after_another(
    chosen: tfrecord.TFRecordFormat, samples: list[EncodedSample]
) -> None:
    """The sink gets the frames of the joined parts, compressed or not; the figures are those of its bytes."""
    noise = random.Random(len(samples)).randbytes(200_000)  # more than the compressor holds back
    samples = [*samples, EncodedSample(b"", noise, b"")]
    sink = Memory()
    writer = chosen.writer(sink)
    for sample in samples:
        writer.write(sample)
    writer.finish()
    plain = gzip.decompress(sink.data) if chosen is GZIP else sink.data
    assert plain == framed_all(*(sample.record for sample in samples))
    if chosen is GZIP:
        assert sink.data[:9] == b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00"  # no time, no name
    assert (writer.bytes, writer.crc32c) == (len(sink.data), google_crc32c.value(sink.data))


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


@pytest.mark.parametrize(
    ("chosen", "indexable", "tfds_name", "compression"),
    [(PLAIN, True, "tfrecord", ""), (GZIP, False, "", "GZIP")],
)
def test_what_readers_can_do(
    chosen: tfrecord.TFRecordFormat, indexable: bool, tfds_name: str, compression: str
) -> None:
    """None can jump into a compressed file, and TFDS reads no compressed ones; TensorFlow reads both."""
    assert (chosen.indexable, chosen.tfds_name) == (indexable, tfds_name)
    assert chosen.tf_data == ("TFRecordDataset", {"compression_type": compression})


def _sizes(data: bytes) -> list[int]:
    return list(tfrecord.TFRecordFormat().sizes(io.BytesIO(data), "shard"))


def test_a_line_of_an_index_is_a_records_offset_and_its_size_with_framing() -> None:
    """Records of 3, 0 and 5 bytes take 19, 16 and 21, one behind the other."""
    sizes = _sizes(framed_all(b"abc", b"", b"defgh"))
    assert sizes == [19, 16, 21]
    assert tfrecord.index_file(sizes) == b"0 19\n19 16\n35 21\n"
    assert tfrecord.parse_index(tfrecord.index_file(sizes), "i") == [19, 16, 21]
    assert tfrecord.index_file(_sizes(b"")) == b"" == bytes(tfrecord.parse_index(b"", "i"))


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
    assert len(list(tfrecord.TFRecordFormat().sizes(file, "shard"))) == 2
    assert file.count == 24


def test_damaged_data_does_not_matter() -> None:
    """A flipped bit of the data is not looked at: the index is still right."""
    data = bytearray(framed_all(b"abc", b"de"))
    data[13] ^= 1
    assert _sizes(bytes(data)) == [19, 18]


@in_rows
def test_damage_is_placed(data: bytes, message: str) -> None:
    """What is wrong, in which record, and where it begins, whether data are read or not."""
    for read in (tfrecord.read_records, tfrecord.TFRecordFormat().sizes):
        error = raised(DamagedRecordError, lambda read=read: list(read(io.BytesIO(data), "shard")))
        assert str(error) == message


@in_rows
def test_sizes_that_do_not_fit_the_shard_are_an_error(sizes: list[int], error: str) -> None:
    """Another number of records, or more bytes than the file has; offsets are sums of sizes."""
    assert tfrecord.record_offsets([19, 16, 21], "s", examples=3, size=56) == [0, 19, 35, 56]
    assert tfrecord.record_offsets([], "s", examples=0, size=0) == [0]
    call = (DamagedRecordError, tfrecord.record_offsets, sizes, "s")
    assert str(raised(*call, examples=3, size=56)) == error


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


# --- a whole shard, with its figures --------------------------------------------------------------

SPEC = sharding.ShardSpec("train", 3, 8, "birds-train.tfrecord-00003-of-00008")


def shard(*class_ids: int, compression: str = "none") -> bytes:
    """A shard of one small example a class."""
    content = b"".join(framed(record_of({"image/class/label": [i]})) for i in class_ids)
    return gzip.compress(content, mtime=0) if compression == "gzip" else content


def read_all(
    content: bytes, compression: str = "none", class_key: str = "image/class/label"
) -> tuple[list[Any], sharding.ShardInfo]:
    """The examples of a shard, and its figures, which must come last and once."""
    *examples, info = example_view.read_shard(
        io.BytesIO(content), "data/x", SPEC, tfrecord.TFRecordFormat(compression), class_key
    )
    assert isinstance(info, sharding.ShardInfo)
    assert not any(isinstance(example, sharding.ShardInfo) for example in examples)
    return examples, info


@pytest.mark.parametrize("compression", ["none", "gzip"])
@given(class_ids=st.lists(st.integers(0, 5), max_size=9))
def test_a_shard_gives_its_examples_and_then_its_figures(
    compression: str, class_ids: list[int]
) -> None:
    """Figures are those of the file as it is stored, compressed or not."""
    content = shard(*class_ids, compression=compression)
    examples, info = read_all(content, compression)
    assert [list(example["image/class/label"].values) for example in examples] == [
        [class_id] for class_id in class_ids
    ]
    assert info == sharding.ShardInfo(
        "train",
        3,
        SPEC.file_name,
        len(class_ids),
        len(content),
        google_crc32c.value(content),
        tuple((i, class_ids.count(i)) for i in sorted(set(class_ids))),
    )


def test_classes_are_counted_where_they_are_written() -> None:
    """The key may be another, and one example may have several; without a key none are counted."""
    boxes = {"image/object/class/label": [3, 1, 3], "image/class/label": [7]}
    content = framed(record_of(boxes)) * 2
    assert read_all(content, class_key="image/object/class/label")[1].classes == ((1, 2), (3, 4))
    assert read_all(content, class_key="")[1].classes == ()
    other = framed(record_of({"id": [5]}))
    assert read_all(other + content, class_key="id")[1].classes == ((5, 1),)
    assert read_all(other)[1].classes == ()


def test_a_shard_larger_than_the_buffer_is_measured_whole() -> None:
    """Bytes are counted once each, however they are read ahead."""
    content = framed(record_of({"image/encoded": [bytes(700_000)]})) * 5
    _, info = read_all(content)
    assert (info.examples, info.bytes) == (5, len(content))
    assert info.crc32c == google_crc32c.value(content)


def test_a_record_that_is_no_example_is_damage() -> None:
    """Framing and checksums are right, the payload is not: path and number are named."""
    not_utf8 = record_of({"xy": [1]}).replace(b"xy", b"\xff\xfe")
    for record in (b"\xff\xff\xff", b"\x12\x01x", not_utf8):
        content = shard(1, 2) + framed(record) + shard(3)
        with pytest.raises(
            DamagedRecordError, match=r"^data/x: record 2 is not a tf.train.Example: "
        ):
            read_all(content)


def test_a_gzip_shard_cut_or_flipped_at_any_byte_is_noticed() -> None:
    """The reader raises nothing but DamagedRecordError, or the figures differ."""
    content = shard(*range(20), compression="gzip")
    _, whole = read_all(content, "gzip")
    damaged = [content[:offset] for offset in range(len(content))]
    for offset in range(len(content)):
        for mask in (0x01, 0x10, 0xFF):
            flipped = bytearray(content)
            flipped[offset] ^= mask
            damaged.append(bytes(flipped))
    for one in damaged:
        try:
            _, info = read_all(one, "gzip")
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
        DamagedRecordError, match=r"^data/x: the gzip stream is broken after \d+ records: "
    ):
        read_all(content[:-12], "gzip")


def test_a_plain_shard_is_no_gzip() -> None:
    """What the manifest calls compressed and is not, is damaged from its first record on."""
    with pytest.raises(
        DamagedRecordError,
        match=r"^data/x: the gzip stream is broken after 0 records: Not a gzipped",
    ):
        read_all(shard(1, 2), "gzip")
