"""Cuts large Parquet files by row groups, and reads some of a file's row groups.

The footer of a file tells how many rows and bytes each row group has, so nothing else is read to cut it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, BinaryIO

from beam_pipeline.core.listing.cuts import RowGroupRange

_BATCH_BYTES = (
    256 << 20
)  # 256 MiB, of a batch in memory and of what may inflate from nearly nothing
_MOST_INFLATED = 1032  # times; deflate's own limit, which other methods do not have
_VALUE_BYTES = 8  # of an item of a list in memory


def cut_row_groups(file: BinaryIO, part_bytes: int) -> list[RowGroupRange]:
    """The ranges of a file; none if it lacks rows, is not a Parquet file or is damaged.

    Args:
      file: the file, seekable.
      part_bytes: the size of a range before compression, roughly; it has one row group at least.

    Raises:
      OSError: the file cannot be read.
    """
    import pyarrow  # takes a third of a second to import, and few jobs need it
    from pyarrow import parquet

    try:
        metadata = parquet.read_metadata(file)
    except pyarrow.ArrowException:  # reading reports it
        return []
    ranges, part = [], RowGroupRange(0, 0, 1, 0, 0)
    for index in range(metadata.num_row_groups):
        part = _with_group(part, metadata.row_group(index))
        if part.size >= part_bytes:
            ranges.append(part)
            part = RowGroupRange(part.end, part.end, part.first + part.rows, 0, 0)
    return [*ranges, part] if part.rows else ranges


def numbered_batches(
    opened: Any,
    groups: RowGroupRange | None,
    *,
    rows_at_once: int,
    columns: Sequence[str] | None = None,
) -> Iterator[tuple[int, Any]]:
    """Yields (number of the first row, record batch) of a file.

    Memory contains a page of each column and a batch, of 256 MiB at most or of a single row.

    Args:
      opened: a `pyarrow.parquet.ParquetFile`.
      groups: the row groups to read; None for all.
      rows_at_once: the most rows of a batch.
      columns: the columns to read; None for all.

    Raises:
      OSError: the file has other row groups than when it was cut, or is a decompression bomb.
      pyarrow.ArrowException: it is damaged.
    """
    number, chosen = 1, range(opened.metadata.num_row_groups)
    if groups:
        if groups != _as_cut(opened.metadata, groups):
            raise OSError("it has changed since its footer was read")
        number, chosen = groups.first, range(groups.begin, groups.end)
    packed, largest = _sizes(opened.metadata, chosen, columns)
    at_once = max(1, min(rows_at_once, _BATCH_BYTES // largest))
    most, size = max(_BATCH_BYTES, _MOST_INFLATED * packed), 0
    if largest > most:
        raise _bomb(packed, largest)
    for batch in opened.iter_batches(
        at_once, row_groups=chosen, columns=columns, use_threads=False
    ):
        batch = _decoded(batch)
        size += batch.nbytes
        if size > most:
            raise _bomb(packed, size)
        yield number, batch
        number += len(batch)


def _bomb(packed: int, size: int) -> OSError:
    return OSError(f"a decompression bomb: {packed:,} bytes inflate to {size:,} or more")


def _decoded(batch: Any) -> Any:
    """A batch whose columns have their values, not numbers in a dictionary."""
    import pyarrow

    if not any(map(pyarrow.types.is_dictionary, batch.schema.types)):
        return batch
    columns = [c.dictionary_decode() if hasattr(c, "indices") else c for c in batch.columns]
    return pyarrow.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _sizes(metadata: Any, groups: Iterable[int], columns: Sequence[str] | None) -> tuple[int, int]:
    """Returns the compressed bytes of columns, and how many a row's value may have in memory, by the footer.

    Each row of texts may repeat the longest entry of a dictionary, and a list contain all items of its row group.
    """
    packed, largest = 0, 1
    for group in map(metadata.row_group, groups):
        for index in range(group.num_columns):
            chunk = group.column(index)
            path = f"{chunk.path_in_schema}."
            if columns is not None and not any(path.startswith(f"{name}.") for name in columns):
                continue
            packed += chunk.total_compressed_size
            if metadata.schema.column(index).max_repetition_level:
                largest = max(largest, _VALUE_BYTES * chunk.num_values)
            elif not chunk.physical_type.endswith("BYTE_ARRAY"):
                continue
            largest = max(largest, chunk.total_uncompressed_size)
    return packed, largest


def _as_cut(metadata: Any, groups: RowGroupRange) -> RowGroupRange | None:
    """The same range as a footer has it now; None if there are fewer row groups."""
    if groups.end > metadata.num_row_groups:
        return None
    first = 1 + sum(metadata.row_group(index).num_rows for index in range(groups.begin))
    part = RowGroupRange(groups.begin, groups.begin, first, 0, 0)
    for index in range(groups.begin, groups.end):
        part = _with_group(part, metadata.row_group(index))
    return part


def _with_group(groups: RowGroupRange, group: Any) -> RowGroupRange:
    return groups._replace(
        end=groups.end + 1,
        rows=groups.rows + group.num_rows,
        size=groups.size + group.total_byte_size,
    )
