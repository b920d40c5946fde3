"""The sizes of records, noted while they are written, and the offsets that follow from them."""

from __future__ import annotations

import pytest

from beam_pipeline.transforms.core.errors import DamagedRecordError
from beam_pipeline.transforms.core.records.record_format import EncodedSample
from beam_pipeline.transforms.core.records.record_sizes import SizingWriter, record_offsets
from beam_pipeline.transforms.core.records.tfrecord_format import TFRecordFormat


class Memory:
    """A sink that keeps everything."""

    def __init__(self) -> None:
        self.data = b""

    def write(self, *buffers: bytes) -> None:
        """Takes the next buffers."""
        self.data += b"".join(buffers)


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_a_sizing_writer_writes_what_its_writer_would(compression: str) -> None:
    """The same bytes and figures; without compression, each record's size is 16 more than its data."""
    sinks = Memory(), Memory()
    plain, sizing = (TFRecordFormat(compression).writer(sink) for sink in sinks)
    noted = SizingWriter(sizing)
    for writer in (plain, noted):
        for sample in (b"a", b"", b"cde"), (b"", b"", b""):
            writer.write(EncodedSample(*sample))
        writer.finish()
    assert sinks[0].data == sinks[1].data
    assert (noted.bytes, noted.crc32c) == (plain.bytes, plain.crc32c)
    if compression == "none":
        assert noted.sizes == [20, 16]


def test_offsets_are_sums_of_sizes() -> None:
    """Records of 19, 16 and 21 bytes; none at all."""
    assert record_offsets([19, 16, 21], "s", examples=3, size=56) == [0, 19, 35, 56]
    assert record_offsets([], "s", examples=0, size=0) == [0]


@pytest.mark.parametrize(
    ("sizes", "error"),
    [
        ([19, 16], "s: 2 records are indexed, the manifest says 3"),
        ([19, 16, 22], "s: its indexed records take 57 bytes, the file has 56"),
        ([19, -16, 21], "s: its indexed records take 24 bytes, the file has 56"),
    ],
)
def test_sizes_that_do_not_fit_the_shard_are_an_error(sizes: list[int], error: str) -> None:
    """Another number of records, or more bytes than the file has."""
    with pytest.raises(DamagedRecordError, match=f"^{error}$"):
        record_offsets(sizes, "s", examples=3, size=56)
