"""Examples of any TFRecord file: its compression, and what a hostile one can claim."""

from __future__ import annotations

import gzip
import io
import tracemalloc
import zlib
from typing import Any

import pytest

from beam_pipeline.core.errors import DamagedRecordError
from beam_pipeline.core.records.example_view import MOST_FEATURES
from beam_pipeline.core.records.tfrecord import (
    crc32c_extend,
    frame_footer,
    frame_header,
)
from beam_pipeline.inspection.sources import compression_of, parsed, read_examples
from tests.core.records.fixtures import record_of

EXAMPLE: dict[str, Any] = {"b": [b"x", b"y"], "f": [0.5], "i": [3, -1], "none": []}


def framed(data: bytes) -> bytes:
    return frame_header(len(data)) + data + frame_footer(crc32c_extend(0, data))


def read(content: bytes, most: int = 1 << 20) -> list[tuple[int, dict[str, tuple[str, list[Any]]]]]:
    return [
        (size, {key: (found.kind, list(found.values)) for key, found in features.items()})
        for size, features in read_examples(io.BytesIO(content), "f", most)
    ]


@pytest.mark.parametrize(
    ("name", "compress"),
    [("none", bytes), ("gzip", gzip.compress), ("zlib", zlib.compress)],
)
def test_each_compression_is_known_by_the_first_bytes(name: str, compress: Any) -> None:
    """File names say nothing reliable about it."""
    record = record_of(EXAMPLE)
    content = compress(framed(record) + framed(record_of({"i": [4]})))
    assert compression_of(content[:12]) == name
    assert read(content) == [
        (
            len(record),
            {
                "b": ("bytes", [b"x", b"y"]),
                "f": ("float", [0.5]),
                "i": ("int64", [3, -1]),
                "none": ("bytes", []),
            },
        ),
        (14, {"i": ("int64", [4])}),
    ]


def test_an_empty_file_holds_no_example() -> None:
    """As a writer leaves it that was given nothing."""
    assert read(b"") == []


@pytest.mark.parametrize("content", [b"x", b"PK\x03\x04 a zip file", b"id,label\n1,cat\n"])
def test_other_files_are_told_apart(content: bytes) -> None:
    """The message shows how they begin."""
    with pytest.raises(DamagedRecordError, match="f is no TFRecord file, or its first record is"):
        read(content)


@pytest.mark.parametrize("compress", [bytes, gzip.compress, zlib.compress])
def test_a_file_that_is_cut_short_is_damaged(compress: Any) -> None:
    """Wherever it is cut, and in every compression."""
    content = compress(framed(record_of(EXAMPLE)))
    for end in range(13, len(content)):
        with pytest.raises(DamagedRecordError):
            read(content[:end])


def test_records_that_are_no_examples_are_named_by_their_number() -> None:
    """Text in TFRecord framing, say."""
    with pytest.raises(DamagedRecordError, match=r"f: record 1 is not a tf\.train\.Example"):
        read(framed(record_of(EXAMPLE)) + framed(b"some text"))
    with pytest.raises(DamagedRecordError, match=r"record 0 .* it has no features"):
        read(framed(b"\x1a\x02xy"))


def test_a_record_that_claims_too_much_is_not_read() -> None:
    """Neither 3 GiB nor, where less is allowed, a megabyte."""
    with pytest.raises(DamagedRecordError, match="it claims 3221225472 bytes, an example has less"):
        read(frame_header(3 << 30) + b"x" * 100, most=3 << 20)
    with pytest.raises(DamagedRecordError, match="it claims 1048577 bytes, expected 1048576 at"):
        read(frame_header((1 << 20) + 1))


@pytest.mark.promise("bombs")
@pytest.mark.parametrize("compress", [gzip.compress, zlib.compress])
def test_a_compressed_record_takes_no_more_memory_than_one_may_have(compress: Any) -> None:
    """50 MB of zeros, in 50 kB, behind the header of a record that may have 1 MiB."""
    content = compress(frame_header(1 << 20) + bytes(50_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(DamagedRecordError):
            read(content)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_a_large_record_of_many_features_is_refused() -> None:
    """Each feature of ten bytes would take a hundred in memory."""
    features = {f"f{i:0200}": [i] for i in range(MOST_FEATURES + 1)}
    with pytest.raises(DamagedRecordError, match="f: record 7 has more than 10000 features"):
        parsed(record_of(features), "f", 7)
    del features[f"f{0:0200}"]
    assert len(parsed(record_of(features), "f", 7)) == MOST_FEATURES
    with pytest.raises(DamagedRecordError, match="f: record 0 is not a "):
        parsed(b"\xff" * (2 << 20), "f", 0)
