"""Rows of a Parquet file, a batch at a time; memory is bounded by the file's row groups."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from beam_pipeline.transforms.core.errors import LabelTableError
from beam_pipeline.transforms.core.text import is_utf8

_ROWS_AT_ONCE = 4096


def read_parquet(file: BinaryIO, uri: str) -> Iterator[tuple[int, Mapping[str, Any], str]]:
    """Yields (number, fields by column, problem or empty) of every row.

    Values are of JSON's types: numbers, texts, true and false, None, lists and dicts. A missing
    number (NaN, as pandas writes it) becomes None, a date or a decimal becomes its text.

    Raises:
      LabelTableError: the file is not Parquet, or damaged.
    """
    import pyarrow  # takes a third of a second to import, and few jobs need it
    from pyarrow import parquet

    try:
        number = 0
        for batch in parquet.ParquetFile(file).iter_batches(batch_size=_ROWS_AT_ONCE):
            for fields in batch.to_pylist():
                number += 1
                try:
                    yield number, {name: _value(value) for name, value in fields.items()}, ""
                except UnicodeDecodeError:
                    names = [name for name, value in fields.items() if not _is_text(value)]
                    yield number, {}, f"bytes that are not UTF-8 text in {', '.join(names)}"
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise LabelTableError(
            f"{uri} is not a Parquet file, or is damaged or cut short ({error}); write it again"
        ) from error


def _value(value: Any) -> Any:
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if value is None or isinstance(value, (str, int)):  # bool is an int
        return value
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, dict):
        return {str(name): _value(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_value(item) for item in value]
    return str(value)


def _is_text(value: Any) -> bool:
    return not isinstance(value, bytes) or is_utf8(value.decode(errors="surrogateescape"))
