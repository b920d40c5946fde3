"""A record format that is in no registry: a record a line, in base64. tf.data cannot read it."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import Any, BinaryIO, ClassVar

from beam_pipeline.core.errors import DamagedRecordError
from beam_pipeline.core.records.record_format import (
    EncodedSample,
    RecordSpan,
    RecordWriter,
    Sink,
)
from beam_pipeline.core.records.tfrecord import crc32c_extend


@dataclass(frozen=True)
class ToyFormat:
    """Files NAME-SPLIT.lines-00000-of-00016."""

    compression: str = "none"

    name: ClassVar[str] = "toy"
    compressions: ClassVar[tuple[str, ...]] = ("none",)
    file_names: ClassVar[re.Pattern[str]] = re.compile(r".*\.lines-\d{5}-of-\d{5}")

    of_examples: ClassVar[bool] = True
    indexable: ClassVar[bool] = False
    tfds_name: ClassVar[str] = ""
    tf_data: ClassVar[None] = None

    def check_installed(self) -> None:
        """Needs no package."""

    def shard_name(self, dataset: str, split: str, number: int, of: int) -> str:
        return f"{dataset}-{split}.lines-{number:05d}-of-{of:05d}"

    def index_name(self, shard: str) -> str:
        return f"{shard}.index"

    def receipt_stem(self, shard: str) -> str:
        return shard.replace(".lines-", "-")

    def writer(
        self, sink: Sink, features: Mapping[str, Any] = MappingProxyType({})
    ) -> RecordWriter:
        return _Writer(sink)

    def records(self, file: BinaryIO, path: str) -> Iterator[bytes]:
        for number, line in enumerate(file):
            try:
                yield base64.b64decode(line.removesuffix(b"\n"), validate=True)
            except ValueError as error:
                raise DamagedRecordError(f"{path}: record {number} is no base64") from error

    def records_in(self, file: BinaryIO, path: str, wanted: range) -> Iterator[bytes]:
        return islice(self.records(file, path), wanted.start, wanted.stop)

    def spans(self, file: BinaryIO, path: str) -> Iterator[RecordSpan]:
        raise NotImplementedError


class _Writer:
    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.bytes = self.crc32c = 0

    def write(self, sample: EncodedSample, key: str = "") -> None:
        line = base64.b64encode(sample.record) + b"\n"
        self.bytes += len(line)
        self.crc32c = crc32c_extend(self.crc32c, line)
        self._sink.write(line)

    def finish(self) -> None:
        """Holds nothing back."""
