"""Examples of any `tf.train.Example` file as values, read in bounded memory.

A file may come from anywhere. A record may have `MOST_RECORD_BYTES`, a compressed file is inflated piece
by piece, and an example may have `MOST_FEATURES`.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple

from google.protobuf.message import DecodeError

from beam_pipeline.core.errors import DamagedRecordError
from beam_pipeline.core.records.example_proto import Example
from beam_pipeline.core.records.tfrecord import HEADER_BYTES, frame_header, read_records
from beam_pipeline.core.text import counted, shown

MOST_RECORD_BYTES = 256 << 20  # 256 MiB
MOST_FEATURES = 10_000
_NOT_COUNTED = 1 << 20  # bytes; a smaller record takes little memory whatever is in it
_PIECE_BYTES = 1 << 20  # 1 MiB
_GZIP_MAGIC = b"\x1f\x8b"
_DEFLATE = 8  # the only method of zlib


class FeatureList(NamedTuple):
    """The values of one feature of one example.

    Attributes:
      kind: "bytes", "float" or "int64"; empty for a feature without a list.
      values: what the list holds.
    """

    kind: str
    values: Sequence[Any]

    @property
    def texts(self) -> Iterator[str]:
        """The values as texts: bytes in UTF-8, numbers as Python writes them."""
        for value in self.values:
            yield value.decode(errors="replace") if isinstance(value, bytes) else str(value)


Features = Mapping[str, FeatureList]
"""Key -> values, in order of the keys."""


def compression_of(head: bytes) -> str:
    """The compression of a TFRecord file by its first bytes: "none", "gzip" or "zlib"; empty if it is none.

    An empty file is a TFRecord file without records.
    """
    header = head[:HEADER_BYTES]
    if not header or header == frame_header(int.from_bytes(header[:8], "little")):
        return "none"
    if head.startswith(_GZIP_MAGIC):
        return "gzip"
    if len(head) > 1 and head[0] & 15 == _DEFLATE and int.from_bytes(head[:2], "big") % 31 == 0:
        return "zlib"
    return ""


def read_examples(
    file: BinaryIO, path: str, most: int = MOST_RECORD_BYTES
) -> Iterator[tuple[int, Features]]:
    """Yields (bytes, features) of each example of a TFRecord file, compressed or not.

    Args:
      file: the file, open at its beginning.
      path: its name in messages.
      most: the bytes that a record may have.

    Raises:
      DamagedRecordError: it is no TFRecord file, broken, or its records are no examples; says where.
    """
    head = file.read(HEADER_BYTES)
    file.seek(0)
    compression = compression_of(head)
    if not compression:
        raise DamagedRecordError(
            f"{path} is no TFRecord file, or its first record is damaged: it begins with {shown(head)}"
        )
    stream: Any = {"none": lambda: file, "gzip": lambda: gzip.GzipFile(fileobj=file)}.get(
        compression, lambda: io.BufferedReader(_Inflated(file), _PIECE_BYTES)
    )()
    number = 0
    try:
        for record in read_records(stream, path, most):
            yield len(record), parse_features(record, path, number)
            number += 1
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DamagedRecordError(
            f"{path}: the {compression} stream is broken after {counted(number, 'record')}: {error}"
        ) from error


class _Inflated(io.RawIOBase):
    """The content of a zlib stream, of which never more than is asked for is inflated."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__()
        self._file = file
        self._inflater = zlib.decompressobj()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = b""
        while not data and not self._inflater.eof:
            piece = self._inflater.unconsumed_tail or self._file.read(_PIECE_BYTES)
            if not piece:
                raise EOFError("it ends too early")
            data = self._inflater.decompress(piece, len(buffer))
        buffer[: len(data)] = data
        return len(data)


def parse_features(record: bytes, path: str, number: int) -> Features:
    """The features of a serialized example.

    Args:
      record: the example.
      path: the file's name in messages.
      number: of the record in its file, from 0.

    Raises:
      DamagedRecordError: it is no `tf.train.Example`, or has more than `MOST_FEATURES`.
    """
    where = f"{path}: record {number}"
    try:
        if len(record) > _NOT_COUNTED:
            _check_count(record, where)
        example = Example.FromString(record)
    except (DecodeError, ValueError, IndexError) as error:
        raise DamagedRecordError(f"{where} is no tf.train.Example: {error}") from error
    found = example.features.feature
    if record and not found:
        raise DamagedRecordError(f"{where} is no tf.train.Example: it has no features")
    return {key: _feature_list(found[key]) for key in sorted(found)}


def _feature_list(feature: Any) -> FeatureList:
    kind = feature.WhichOneof("kind")
    if not kind:
        return FeatureList("", ())
    return FeatureList(kind.removesuffix("_list"), getattr(feature, kind).value)


def _check_count(record: bytes, where: str) -> None:
    """Counts the features of a large record before it is parsed: each would take 100 bytes of memory.

    Raises:
      DamagedRecordError: there are too many.
      ValueError, IndexError: the bytes are no protocol buffer.
    """
    count = 0
    for start, end in _fields(record, 0, len(record)):
        for _ in _fields(record, start, end):
            count += 1
            if count > MOST_FEATURES:
                raise DamagedRecordError(f"{where} has more than {MOST_FEATURES} features")


def _fields(data: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yields the span of each field of a message; all fields of Example and Features have a length."""
    while start < end:
        tag, start = _varint(data, start)
        if tag & 7 != 2:
            raise ValueError(f"a field of wire type {tag & 7}")
        length, start = _varint(data, start)
        if start + length > end:
            raise ValueError("a field is cut short")
        yield start, start + length
        start += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """(value, offset behind it)."""
    value = shift = 0
    while shift < 70:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
    raise ValueError("a number of more than 10 bytes")
