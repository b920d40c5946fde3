"""Cuts large Parquet files by row groups, and reads some of a file's row groups.

The footer of a file says how many rows and bytes each row group has, so nothing else is read to cut it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

from beam_pipeline.core.listing.cuts import RowGroupRange


def cut_row_groups(file: BinaryIO, part_bytes: int) -> list[RowGroupRange]:
    """The ranges of a file; none if it has no rows, is no Parquet file or is damaged.

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
    except pyarrow.ArrowException:  # reading says so
        return []
    ranges, found = [], RowGroupRange(0, 0, 1, 0, 0)
    for index in range(metadata.num_row_groups):
        found = _with_group(found, metadata.row_group(index))
        if found.size >= part_bytes:
            ranges.append(found)
            found = RowGroupRange(found.end, found.end, found.first + found.rows, 0, 0)
    return [*ranges, found] if found.rows else ranges


def numbered_batches(
    opened: Any,
    groups: RowGroupRange | None,
    *,
    rows_at_once: int,
    columns: Sequence[str] | None = None,
) -> Iterator[tuple[int, Any]]:
    """Yields (number of the first row, record batch) of a file; memory is bounded by its row groups.

    Args:
      opened: a `pyarrow.parquet.ParquetFile`.
      groups: the row groups to read; None for all.
      rows_at_once: the most rows of a batch.
      columns: the columns to read; None for all.

    Raises:
      OSError: the file has other row groups than when it was cut.
      pyarrow.ArrowException: it is damaged.
    """
    number, chosen = 1, None
    if groups:
        if groups != _as_cut(opened.metadata, groups):
            raise OSError("it has changed since its footer was read")
        number, chosen = groups.first, range(groups.begin, groups.end)
    for batch in opened.iter_batches(
        rows_at_once, row_groups=chosen, columns=columns, use_threads=False
    ):
        yield number, batch
        number += len(batch)


def _as_cut(metadata: Any, groups: RowGroupRange) -> RowGroupRange | None:
    """The same range as a footer has it now; None if there are fewer row groups."""
    if groups.end > metadata.num_row_groups:
        return None
    first = 1 + sum(metadata.row_group(index).num_rows for index in range(groups.begin))
    found = RowGroupRange(groups.begin, groups.begin, first, 0, 0)
    for index in range(groups.begin, groups.end):
        found = _with_group(found, metadata.row_group(index))
    return found


def _with_group(groups: RowGroupRange, group: Any) -> RowGroupRange:
    return groups._replace(
        end=groups.end + 1,
        rows=groups.rows + group.num_rows,
        size=groups.size + group.total_byte_size,
    )
