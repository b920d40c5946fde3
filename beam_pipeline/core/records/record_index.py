"""The index of a TFRecord shard: the offset of each record, so that a reader can jump to any of them.

A line for each record, `<offset> <size>`: the offset in bytes of its header, and the size of the
whole record with its framing. Records of 3, 0 and 5 bytes have the index

    0 19
    19 16
    35 21

Source: the script `tfrecord2idx` of NVIDIA DALI, and
tfrecord/tools/tfrecord2idx.py of the Python package `tfrecord`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from beam_pipeline.core.errors import DamagedRecordError
from beam_pipeline.core.records.record_format import RecordSpan
from beam_pipeline.core.records.tfrecord import (
    FOOTER_BYTES,
    FRAMING_BYTES,
    HEADER_BYTES,
    frame_header,
)

_LENGTH_BYTES = 8
_LINE = re.compile(rb"(\d{1,19}) (\d{1,19})\n")


def record_spans(file: BinaryIO, path: str) -> Iterator[RecordSpan]:
    """Yields the span of each record of an uncompressed TFRecord file, reading only the headers.

    The checksum of each length is checked, that of the data is not.

    Args:
      file: the shard; it must be seekable.
      path: its name in messages.

    Raises:
      DamagedRecordError: names the path, the record's number and its offset in bytes.
    """
    end = file.seek(0, os.SEEK_END)
    offset = 0
    number = 0
    while offset < end:
        where = f"{path}: record {number} at byte {offset}"
        file.seek(offset)
        header = file.read(HEADER_BYTES)
        if len(header) < HEADER_BYTES:
            raise DamagedRecordError(
                f"{where}: the file ends inside the record's header "
                f"({len(header)} of {HEADER_BYTES} bytes)"
            )
        length = int.from_bytes(header[:_LENGTH_BYTES], "little")
        if header != frame_header(length):
            raise DamagedRecordError(f"{where}: the checksum of the record's length is wrong")
        span = RecordSpan(offset, length + FRAMING_BYTES)
        if offset + span.size > end:
            raise DamagedRecordError(
                f"{where}: the file ends inside the record "
                f"({end - offset - HEADER_BYTES} of {length + FOOTER_BYTES} bytes)"
            )
        yield span
        offset += span.size
        number += 1


def index_file(spans: Iterable[RecordSpan]) -> bytes:
    """The content of an index file: a line for each record."""
    return "".join(f"{span.offset} {span.size}\n" for span in spans).encode()


def parse_index(data: bytes, path: str) -> list[int]:
    """The sizes of the records of an index file, which must lie one after another from 0 on.

    Args:
      data: the content of the file.
      path: its name in messages.

    Raises:
      DamagedRecordError: names the path and the line.
    """
    sizes: list[int] = []
    end = 0
    for number, line in enumerate(data.splitlines(keepends=True), 1):
        found = _LINE.fullmatch(line)
        if not found or int(found[1]) != end:
            raise DamagedRecordError(
                f"{path}: line {number}: expected the offset {end} and a size; write the index again: "
                "beam-tfrecord index"
            )
        sizes.append(int(found[2]))
        end += sizes[-1]
    return sizes
