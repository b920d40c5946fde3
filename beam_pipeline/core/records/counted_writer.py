"""The part that the writers of all record formats share: the figures of a shard's file."""

from __future__ import annotations

from beam_pipeline.core.records.record_format import Sink
from beam_pipeline.core.records.tfrecord import crc32c_extend


class CountedWriter:
    """Passes bytes on to a sink.

    Attributes:
      bytes: the number of bytes that went to the sink.
      crc32c: CRC-32C of all of them.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.bytes = 0
        self.crc32c = 0

    def _put(self, *buffers: bytes) -> None:
        """Passes buffers on and adds them to the figures."""
        crc = self.crc32c
        for buffer in buffers:
            crc = crc32c_extend(crc, buffer)
            self.bytes += len(buffer)
        self.crc32c = crc
        self._sink.write(*buffers)
