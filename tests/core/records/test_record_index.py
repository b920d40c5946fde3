"""The index of a shard: where its records stand."""

from __future__ import annotations

import io

import pytest

from beam_pipeline.core.errors import DamagedRecordError
from beam_pipeline.core.records.record_index import (
    RecordSpan,
    index_file,
    parse_index,
    record_spans,
)
from beam_pipeline.core.records.tfrecord import crc32c_extend, frame_footer, frame_header


def _shard(*records: bytes) -> bytes:
    return b"".join(
        frame_header(len(data)) + data + frame_footer(crc32c_extend(0, data)) for data in records
    )


def _spans(data: bytes) -> list[RecordSpan]:
    return list(record_spans(io.BytesIO(data), "shard"))


def test_a_record_is_its_offset_and_its_size_with_framing() -> None:
    """Records of 3, 0 and 5 bytes take 19, 16 and 21, one behind the other."""
    spans = _spans(_shard(b"abc", b"", b"defgh"))
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
    file = _Counting(_shard(b"x" * 10_000, b"y" * 20_000))
    assert len(list(record_spans(file, "shard"))) == 2
    assert file.count == 24


def test_damaged_data_does_not_matter() -> None:
    """A flipped bit of the data is not looked at: the index is still right."""
    data = bytearray(_shard(b"abc", b"de"))
    data[13] ^= 1
    assert _spans(bytes(data)) == [(0, 19), (19, 18)]


SHARD = _shard(b"abc", b"defgh")


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
