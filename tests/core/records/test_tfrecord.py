from __future__ import annotations

import io
import os
import re
import struct
from typing import Any

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipeline.core.errors import DamagedRecordError
from beam_pipeline.core.records.tfrecord import (
    FRAMING_BYTES,
    crc32c_extend,
    frame_footer,
    frame_header,
    mask_crc,
    read_records,
)

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
    assert b"".join(map(framed, records)) == written


@given(records=RECORDS)
def test_records_come_back_as_they_were_written(records: list[bytes]) -> None:
    """Any records, framed and read, are the same records in the same order."""
    assert read(b"".join(map(framed, records))) == records


def test_records_before_the_damage_are_still_given() -> None:
    """The error comes at the broken record, not before the sound ones in front of it."""
    content = framed(b"sound") + framed(b"broken")[:-1]
    records = read_records(io.BytesIO(content), "x")
    assert next(records) == b"sound"
    with pytest.raises(DamagedRecordError):
        next(records)


def test_a_file_cut_at_any_byte_is_noticed() -> None:
    """A cut inside a record names path, record and offset; one between two gives fewer records."""
    content = b"".join(map(framed, THREE_RECORDS))
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
    content = b"".join(map(framed, THREE_RECORDS))
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


def test_framing_takes_sixteen_bytes() -> None:
    """What a record costs beside its data is what index files rely on."""
    assert len(framed(b"abc")) - 3 == FRAMING_BYTES == 16
