"""Rows of a Parquet file, a batch at a time; memory is bounded by the file's row groups."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO

from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.core.listing.cuts import RowGroupRange
from beam_pipeline.core.listing.row_groups import numbered_batches
from beam_pipeline.core.text import is_utf8

_ROWS_AT_ONCE = 4096


def read_parquet(
    file: BinaryIO, uri: str, groups: RowGroupRange | None = None
) -> Iterator[tuple[int, Mapping[str, Any], str]]:
    """Yields (number, fields by column, problem or empty) of every row, or of those of some row groups.

    Values are of JSON's types: numbers, texts, true and false, None, lists and dicts. A missing
    number (NaN, as pandas writes it) becomes None, a date or a decimal becomes its text.

    Raises:
      LabelTableError: the file is not Parquet, or damaged.
    """
    with parquet_errors(uri):
        from pyarrow import parquet

        opened = parquet.ParquetFile(file)
        for first, batch in numbered_batches(opened, groups, rows_at_once=_ROWS_AT_ONCE):
            for number, fields in enumerate(batch.to_pylist(), first):
                try:
                    yield number, {name: json_value(value) for name, value in fields.items()}, ""
                except UnicodeDecodeError:
                    names = [name for name, value in fields.items() if not _is_text(value)]
                    yield number, {}, f"bytes that are not UTF-8 text in {', '.join(names)}"


@contextmanager
def parquet_errors(uri: str) -> Iterator[None]:
    """Turns errors of a block that reads a Parquet file into a LabelTableError that names it."""
    import pyarrow  # takes a third of a second to import, and few jobs need it

    try:
        yield
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise LabelTableError(
            f"{uri} is not a Parquet file, or is damaged or cut short ({error}); write it again"
        ) from error


def json_value(value: Any) -> Any:
    """Returns a value of Arrow as one of JSON, as `read_parquet` describes.

    Raises:
      UnicodeDecodeError: bytes in it are not UTF-8.
    """
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if value is None or isinstance(value, (str, int)):  # bool is an int
        return value
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, dict):
        return {str(name): json_value(item) for name, item in value.items()}
    if isinstance(value, list):
        return [json_value(item) for item in value]
    return str(value)


def _is_text(value: Any) -> bool:
    return not isinstance(value, bytes) or is_utf8(value.decode(errors="surrogateescape"))
