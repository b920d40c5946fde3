"""The figures of a shard's file."""

from __future__ import annotations

from google_crc32c import value

from beam_pipeline.core.records.counted_writer import CountedWriter


class Collected:
    """A sink that keeps what it is given."""

    def __init__(self) -> None:
        self.writes: list[tuple[bytes, ...]] = []

    def write(self, *buffers: bytes) -> None:
        self.writes.append(buffers)


class Plain(CountedWriter):
    """A format that adds nothing."""

    def write(self, *buffers: bytes) -> None:
        self._put(*buffers)


def test_figures_are_those_of_all_bytes() -> None:
    """Buffers reach the sink as they are, without a copy."""
    sink, image = Collected(), b"image" * 100
    writer = Plain(sink)
    assert (writer.bytes, writer.crc32c) == (0, 0)
    writer.write(b"header", image, b"")
    writer.write(b"footer")
    assert sink.writes == [(b"header", image, b""), (b"footer",)]
    assert sink.writes[0][1] is image
    assert (writer.bytes, writer.crc32c) == (512, value(b"header" + image + b"footer"))
