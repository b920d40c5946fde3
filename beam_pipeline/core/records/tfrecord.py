"""TFRecord files: their framing, written and read.

A record is, little-endian,

    uint64 length | uint32 masked CRC-32C of the length | data | uint32 masked CRC-32C of the data

and a file is records, one after another. The record of the data `abc`:

    03 00 00 00 00 00 00 00 | LENGTH_CRC | 61 62 63 | DATA_CRC

Source: tensorflow/core/lib/io/record_writer.h.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO

import google_crc32c

from beam_pipeline.core.errors import DamagedRecordError

HEADER_BYTES = 12
FOOTER_BYTES = 4
_PIECE_BYTES = 64 << 20  # 64 MiB
FRAMING_BYTES = HEADER_BYTES + FOOTER_BYTES
MAX_RECORD_BYTES = 1 << 31
"""A record that claims more is damaged or hostile: no protocol buffer is larger."""

_LENGTH = struct.Struct("<Q")
_CRC = struct.Struct("<I")

crc32c_extend = google_crc32c.extend
"""(crc, chunk) -> crc of what came before and the chunk; 0 starts. Releases the GIL."""


def mask_crc(crc: int) -> int:
    """The CRC as TFRecord stores it: rotated right by 15 bits plus a constant."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def frame_header(length: int) -> bytes:
    """The 12 bytes before a record's data of that many bytes."""
    packed = _LENGTH.pack(length)
    return packed + _CRC.pack(mask_crc(google_crc32c.value(packed)))


def frame_footer(data_crc: int) -> bytes:
    """The 4 bytes after a record's data of that (unmasked) CRC-32C."""
    return _CRC.pack(mask_crc(data_crc))


def _read_exactly(file: BinaryIO, length: int) -> bytes:
    """Reads that many bytes, or all there are; a damaged length asks for no more memory."""
    if length <= _PIECE_BYTES:
        return file.read(length)
    pieces = []
    while length and (piece := file.read(min(length, _PIECE_BYTES))):
        pieces.append(piece)
        length -= len(piece)
    return b"".join(pieces)


def read_records(file: BinaryIO, path: str, most: int = MAX_RECORD_BYTES) -> Iterator[bytes]:
    """Yields the data of each record of an (uncompressed) TFRecord stream, checking both CRCs.

    Args:
      file: the stream.
      path: its name in messages.
      most: the bytes that a record may have.

    Raises:
      DamagedRecordError: names the path, the record's number and its offset in bytes.
    """
    offset = 0
    number = 0
    while header := file.read(HEADER_BYTES):
        where = f"{path}: record {number} at byte {offset}"
        if len(header) < HEADER_BYTES:
            raise DamagedRecordError(
                f"{where}: the file ends inside the record's header "
                f"({len(header)} of {HEADER_BYTES} bytes)"
            )
        (length,) = _LENGTH.unpack_from(header)
        (length_crc,) = _CRC.unpack_from(header, _LENGTH.size)
        if mask_crc(google_crc32c.value(header[: _LENGTH.size])) != length_crc:
            raise DamagedRecordError(f"{where}: the checksum of the record's length is wrong")
        if length > most:
            known = "an example has less than 2 GiB"
            if length <= MAX_RECORD_BYTES:
                known = f"expected {most} at most"
            raise DamagedRecordError(f"{where}: it claims {length} bytes, {known}")
        data = _read_exactly(file, length)
        footer = file.read(FOOTER_BYTES)
        if len(data) < length or len(footer) < FOOTER_BYTES:
            raise DamagedRecordError(
                f"{where}: the file ends inside the record "
                f"({len(data) + len(footer)} of {length + FOOTER_BYTES} bytes)"
            )
        if mask_crc(google_crc32c.value(data)) != _CRC.unpack(footer)[0]:
            raise DamagedRecordError(f"{where}: the checksum of the record's data is wrong")
        yield data
        offset += length + FRAMING_BYTES
        number += 1
