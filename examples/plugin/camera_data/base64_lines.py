"""Base64 lines: a record format with one record per line. tf.data cannot read it; `load` can."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import BinaryIO, ClassVar

from beam_pipeline.core.errors import DamagedRecordError
from beam_pipeline.core.records.record_format import (
    EncodedSample,
    RecordFormat,
    RecordWriter,
)


class _Writer(RecordWriter):
    def write(self, sample: EncodedSample, key: str = "") -> None:
        self._put(base64.b64encode(sample.record) + b"\n")


@dataclass(frozen=True)
class Base64Lines(RecordFormat):
    """Files NAME-SPLIT.lines-00000-of-00016."""

    name: ClassVar[str] = "base64_lines"
    mark: ClassVar[str] = ".lines-"
    file_names: ClassVar[re.Pattern[str]] = re.compile(r".*\.lines-\d{5}-of-\d{5}")
    writer_type: ClassVar[type[RecordWriter]] = _Writer

    def index_name(self, shard: str) -> str:
        return f"{shard}.index"

    def records_in(self, file: BinaryIO, path: str, wanted: range) -> Iterator[bytes]:
        for number, line in islice(enumerate(file), wanted.start, wanted.stop):
            try:
                yield base64.b64decode(line.removesuffix(b"\n"), validate=True)
            except ValueError as error:
                raise DamagedRecordError(f"{path}: record {number} is not base64") from error
