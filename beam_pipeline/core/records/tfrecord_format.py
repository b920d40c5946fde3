"""TFRecord as a record format, plain or compressed with gzip.

Shards are named NAME-SPLIT.tfrecord-00000-of-00016, as TFDS has it, with .gz where compressed. Their
index is NAME-SPLIT.tfindex-00000-of-00016: the extension is the one that `tfrecord2idx` gives, and it
stands where patterns for shards, such as `NAME-SPLIT.tfrecord-*`, do not match it.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import Any, BinaryIO, ClassVar

from beam_pipeline.core.errors import DamagedRecordError
from beam_pipeline.core.records.counted_writer import CountedWriter
from beam_pipeline.core.records.record_format import (
    EncodedSample,
    RecordSpan,
    RecordWriter,
    Sink,
    TfDataClass,
)
from beam_pipeline.core.records.record_index import record_spans
from beam_pipeline.core.records.tfrecord import (
    crc32c_extend,
    frame_footer,
    frame_header,
    read_records,
)

_GZIP = 16 + zlib.MAX_WBITS
_SHARD_MARK, _INDEX_MARK = ".tfrecord-", ".tfindex-"


@dataclass(frozen=True)
class TFRecordFormat:
    """TFRecord files.

    Attributes:
      compression: "none" or "gzip".
    """

    compression: str = "none"

    name: ClassVar[str] = "tfrecord"
    compressions: ClassVar[tuple[str, ...]] = ("none", "gzip")
    file_names: ClassVar[re.Pattern[str]] = re.compile(
        r".*\.(tfrecord|tfindex)-\d{5,}-of-\d{5,}(\.gz)?"
    )
    of_examples: ClassVar[bool] = True

    def check_installed(self) -> None:
        """Needs no package."""

    @property
    def suffix(self) -> str:
        """The end of a shard's file name."""
        return ".gz" if self.compression == "gzip" else ""

    @property
    def indexable(self) -> bool:
        """Tells whether a reader can jump to a record: not in a compressed file."""
        return self.compression == "none"

    @property
    def tfds_name(self) -> str:
        """The name that TensorFlow Datasets has for the format; it reads no compressed shards."""
        return "" if self.compression == "gzip" else self.name

    @property
    def tf_data(self) -> TfDataClass:
        """TensorFlow's own reader, which knows both compressions."""
        compression = "GZIP" if self.compression == "gzip" else ""
        return TfDataClass("TFRecordDataset", {"compression_type": compression})

    def shard_prefix(self, dataset: str, split: str) -> str:
        """The file name of a shard up to its number."""
        return f"{dataset}-{split}.tfrecord"

    def shard_name(self, dataset: str, split: str, number: int, of: int) -> str:
        """NAME-SPLIT.tfrecord-00000-of-00016, and .gz where compressed."""
        return f"{self.shard_prefix(dataset, split)}-{number:05d}-of-{of:05d}{self.suffix}"

    def index_name(self, shard: str) -> str:
        """NAME-SPLIT.tfindex-00000-of-00016 for NAME-SPLIT.tfrecord-00000-of-00016."""
        before, mark, number = shard.rpartition(_SHARD_MARK)
        return f"{before}{_INDEX_MARK}{number}" if mark else f"{shard}.tfindex"

    def receipt_stem(self, shard: str) -> str:
        """NAME-SPLIT-00000-of-00016 for NAME-SPLIT.tfrecord-00000-of-00016."""
        return shard.replace(_SHARD_MARK, "-")

    def writer(
        self, sink: Sink, features: Mapping[str, Any] = MappingProxyType({})
    ) -> RecordWriter:
        """A writer for one shard; records describe their features themselves."""
        return GzipTFRecordWriter(sink) if self.compression == "gzip" else TFRecordWriter(sink)

    def records(self, file: BinaryIO, path: str) -> Iterator[bytes]:
        """Yields the data of each record in order, checking both CRCs."""
        return _gzip_records(file, path) if self.compression == "gzip" else read_records(file, path)

    def records_in(self, file: BinaryIO, path: str, wanted: range) -> Iterator[bytes]:
        """Yields the records with these numbers; without compression, it jumps to the first."""
        if not self.indexable:
            return islice(self.records(file, path), wanted.start, wanted.stop)
        if not wanted.start:
            return islice(self.records(file, path), len(wanted))
        first = next(islice(self.spans(file, path), wanted.start, None), None)
        if first is None:
            return iter(())
        file.seek(first.offset)
        start = f"{path} from record {wanted.start} at byte {first.offset} on"
        return islice(self.records(file, start), len(wanted))

    def spans(self, file: BinaryIO, path: str) -> Iterator[RecordSpan]:
        """Yields the span of each record, reading only the headers; checks their CRCs."""
        return record_spans(file, path)


class TFRecordWriter(CountedWriter):
    """Frames records and passes them on to a sink, without copying an image."""

    def write(self, sample: EncodedSample, key: str = "") -> None:
        """Writes the next record, which has no name."""
        before, image, after, _ = sample
        crc = crc32c_extend(crc32c_extend(crc32c_extend(0, before), image), after)
        header = frame_header(len(before) + len(image) + len(after))
        self._put(header + before, image, after + frame_footer(crc))

    def finish(self) -> None:
        """Writes what is still held back; nothing may be written afterwards."""


class GzipTFRecordWriter(TFRecordWriter):
    """Compresses records on their way; the gzip header holds no time and no name."""

    def __init__(self, sink: Sink) -> None:
        super().__init__(sink)
        self._compressor = zlib.compressobj(6, zlib.DEFLATED, _GZIP)

    def _put(self, *buffers: bytes) -> None:
        """Compresses buffers; the compressed bytes may be written later."""
        super()._put(*filter(None, map(self._compressor.compress, buffers)))

    def finish(self) -> None:
        super()._put(self._compressor.flush())


def _gzip_records(file: BinaryIO, path: str) -> Iterator[bytes]:
    number = 0
    try:
        with gzip.GzipFile(fileobj=file) as stream:
            for record in read_records(stream, path):  # type: ignore[arg-type]
                yield record
                number += 1
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DamagedRecordError(
            f"{path}: the gzip stream is broken after record {number}: {error}"
        ) from error
