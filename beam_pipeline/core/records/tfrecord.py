"""TFRecord files, plain or compressed with gzip, and their indexes.

A record is, little-endian,

    uint64 length | uint32 masked CRC-32C of the length | data | uint32 masked CRC-32C of the data

and a file is records, one after another. The record of the data `abc`:

    03 00 00 00 00 00 00 00 | LENGTH_CRC | 61 62 63 | DATA_CRC

Shards are named NAME-SPLIT.tfrecord-00000-of-00016, as TFDS has it, with .gz where compressed. The index
of a shard, which lets a reader jump to any record, is NAME-SPLIT.tfindex-00000-of-00016: the extension is
the one that `tfrecord2idx` gives, and patterns for shards, such as `NAME-SPLIT.tfrecord-*`, do not match
it. It has a line for each record, `<offset> <size>`: the offset in bytes of its header, and the size of
the whole record with its framing. Records of 3, 0 and 5 bytes have the index

    0 19
    19 16
    35 21

Sources: tensorflow/core/lib/io/record_writer.h; the script `tfrecord2idx` of NVIDIA DALI, and
tfrecord/tools/tfrecord2idx.py of the Python package `tfrecord`.
"""

from __future__ import annotations

import gzip
import os
import re
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import Any, BinaryIO, ClassVar

import google_crc32c

from beam_pipeline.core import text
from beam_pipeline.core.errors import DamagedRecordError
from beam_pipeline.core.records import record_format
from beam_pipeline.core.records.record_format import EncodedSample, crc32c_extend

HEADER_BYTES = 12
FOOTER_BYTES = 4
FRAMING_BYTES = HEADER_BYTES + FOOTER_BYTES
MAX_RECORD_BYTES = 1 << 31
"""A record that claims more is damaged or hostile: no protocol buffer is larger."""

_FIRST_BYTES = 64 << 20  # 64 MiB, read at once
_LENGTH = struct.Struct("<Q")
_CRC = struct.Struct("<I")
_GZIP = 16 + zlib.MAX_WBITS
_INDEX_MARK = ".tfindex-"
_LINE = re.compile(rb"(\d{1,19}) (\d{1,19})\n")


# --- framing --------------------------------------------------------------------------------------


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


def _length_in(header: bytes, where: str) -> int:
    """The bytes of a record's data by its header. Raises DamagedRecordError."""
    if len(header) < HEADER_BYTES:
        raise DamagedRecordError(
            f"{where}: the file ends inside the record's header "
            f"({len(header)} of {HEADER_BYTES} bytes)"
        )
    length: int = _LENGTH.unpack_from(header)[0]
    if header != frame_header(length):
        raise DamagedRecordError(f"{where}: the checksum of the record's length is wrong")
    return length


def _cut_short(where: str, has: int, length: int) -> DamagedRecordError:
    return DamagedRecordError(
        f"{where}: the file ends inside the record ({has} of {length + FOOTER_BYTES} bytes)"
    )


def _read(file: BinaryIO, length: int) -> bytes:
    """Reads that many bytes, or all there are: never more at once than came before, as a length may be a lie."""
    data = file.read(min(length, _FIRST_BYTES))
    while len(data) < length and (more := file.read(min(length - len(data), len(data)))):
        data += more
    return data


def read_records(file: BinaryIO, path: str, most: int = MAX_RECORD_BYTES) -> Iterator[bytes]:
    """Yields the data of each record of an (uncompressed) TFRecord stream, checking both CRCs.

    Args:
      file: the stream.
      path: its name in messages.
      most: the bytes that a record may have.

    Raises:
      DamagedRecordError: names the path, the record's number and its offset in bytes.
    """
    offset = number = 0
    while header := file.read(HEADER_BYTES):
        where = f"{path}: record {number} at byte {offset}"
        length = _length_in(header, where)
        if length > most:
            raise DamagedRecordError(f"{where}: it claims {length} bytes, expected {most} at most")
        data = _read(file, length)
        footer = file.read(FOOTER_BYTES)
        if len(data) < length or len(footer) < FOOTER_BYTES:
            raise _cut_short(where, len(data) + len(footer), length)
        if footer != frame_footer(google_crc32c.value(data)):
            raise DamagedRecordError(f"{where}: the checksum of the record's data is wrong")
        yield data
        offset += length + FRAMING_BYTES
        number += 1


def unzipped_records(file: BinaryIO, path: str, most: int = MAX_RECORD_BYTES) -> Iterator[bytes]:
    """Yields records as `read_records`, of a file that is compressed with gzip."""
    stream: Any = gzip.GzipFile(fileobj=file)
    number = 0
    try:
        for record in read_records(stream, path, most):
            yield record
            number += 1
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DamagedRecordError(
            f"{path}: the gzip stream is broken after {text.counted(number, 'record')}: {error}"
        ) from error


# --- where records are ----------------------------------------------------------------------------


def index_file(sizes: Sequence[int]) -> bytes:
    """The content of an index file: a line for each record."""
    return "".join(map("{} {}\n".format, accumulate(sizes, initial=0), sizes)).encode()


def parse_index(data: bytes, path: str) -> list[int]:
    """The sizes of the records of an index file, which must follow one another from 0 on.

    Args:
      data: the content of the file.
      path: its name in messages.

    Raises:
      DamagedRecordError: names the path and the line.
    """
    sizes: list[int] = []
    end = 0
    for number, line in enumerate(data.splitlines(keepends=True), 1):
        fields = _LINE.fullmatch(line)
        if not fields or int(fields[1]) != end:
            raise DamagedRecordError(
                f"{path}: line {number}: expected the offset {end} and a size; write the index again: "
                "beam-tfrecord index"
            )
        sizes.append(int(fields[2]))
        end += sizes[-1]
    return sizes


def record_offsets(sizes: Sequence[int], path: str, *, examples: int, size: int) -> list[int]:
    """The offset of each record and, last, of their end.

    Sizes of 19, 16 and 21 have the offsets 0, 19, 35 and 56.

    Args:
      sizes: bytes of each record.
      path: the shard, for messages.
      examples: records of the shard as in the manifest.
      size: bytes of the shard's file.

    Raises:
      DamagedRecordError: there are more or fewer records, or they do not fit the file.
    """
    offsets = list(accumulate(sizes, initial=0))
    if len(sizes) != examples:
        raise DamagedRecordError(
            f"{path}: {len(sizes)} records are indexed, the manifest lists {examples}"
        )
    if min(sizes, default=0) < 0 or offsets[-1] > size:
        raise DamagedRecordError(
            f"{path}: its indexed records take {offsets[-1]} bytes, the file has {size}"
        )
    return offsets


# --- the format -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class TFRecordFormat(record_format.RecordFormat):
    """TFRecord files; the compression is "none" or "gzip"."""

    name: ClassVar[str] = "tfrecord"
    in_tfds: ClassVar[bool] = True
    has_sizes: ClassVar[bool] = True
    mark: ClassVar[str] = ".tfrecord-"
    compressions: ClassVar[tuple[str, ...]] = ("none", "gzip")
    file_names: ClassVar[re.Pattern[str]] = re.compile(
        r".*\.(tfrecord|tfindex)-\d{5,}-of-\d{5,}(\.gz)?"
    )

    @property
    def suffix(self) -> str:
        """The end of a shard's file name."""
        return ".gz" if self.compression == "gzip" else ""

    @property
    def tf_data(self) -> tuple[str, dict[str, str]]:
        """TensorFlow's own reader, which knows both compressions."""
        return "TFRecordDataset", {"compression_type": "GZIP" if self.compression == "gzip" else ""}

    def index_name(self, shard: str) -> str:
        """NAME-SPLIT.tfindex-00000-of-00016 for NAME-SPLIT.tfrecord-00000-of-00016."""
        before, mark, number = shard.rpartition(self.mark)
        return f"{before}{_INDEX_MARK}{number}" if mark else f"{shard}.tfindex"

    @property
    def writer_type(self) -> type[TFRecordWriter]:  # type: ignore[override]
        """The writer for the compression."""
        return GzipTFRecordWriter if self.compression == "gzip" else TFRecordWriter

    def records(self, file: BinaryIO, path: str) -> Iterator[bytes]:
        """Yields the data of each record in order, checking both CRCs."""
        if self.compression == "gzip":
            return unzipped_records(file, path)
        return read_records(file, path)

    def records_in(self, file: BinaryIO, path: str, wanted: range) -> Iterator[bytes]:
        """Yields the records with these numbers; without compression, it jumps to the first."""
        if not self.indexable or not wanted.start:
            return islice(self.records(file, path), wanted.start, wanted.stop)
        offset = sum(islice(self.sizes(file, path), wanted.start))
        file.seek(offset)
        start = f"{path} from record {wanted.start} at byte {offset} on"
        return islice(self.records(file, start), len(wanted))

    def sizes(self, file: BinaryIO, path: str) -> Iterator[int]:
        """Yields the bytes of each record, reading only the headers; checks their CRCs, not the data's."""
        end = file.seek(0, os.SEEK_END)
        offset = number = 0
        while offset < end:
            where = f"{path}: record {number} at byte {offset}"
            file.seek(offset)
            length = _length_in(file.read(HEADER_BYTES), where)
            if offset + length + FRAMING_BYTES > end:
                raise _cut_short(where, end - offset - HEADER_BYTES, length)
            yield length + FRAMING_BYTES
            offset += length + FRAMING_BYTES
            number += 1


class TFRecordWriter(record_format.RecordWriter):
    """Frames records and passes them on to a sink, without copying an image."""

    def write(self, sample: EncodedSample, key: str = "") -> None:
        """Writes the next record, which lacks a name."""
        before, image, after = sample[:3]
        crc = crc32c_extend(crc32c_extend(crc32c_extend(0, before), image), after)
        header = frame_header(len(before) + len(image) + len(after))
        self._put(header + before, image, after + frame_footer(crc))


class GzipTFRecordWriter(TFRecordWriter):
    """Compresses records on their way; the gzip header contains no time and no name."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._compressor = zlib.compressobj(6, zlib.DEFLATED, _GZIP)

    def _put(self, *buffers: bytes) -> None:
        """Compresses buffers; the compressed bytes may be written later."""
        super()._put(*filter(None, map(self._compressor.compress, buffers)))

    def finish(self) -> None:
        super()._put(self._compressor.flush())
