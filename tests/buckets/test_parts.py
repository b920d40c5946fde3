"""Large Parquet files in a bucket, which several workers read."""

from __future__ import annotations

import io

import pyarrow
import pytest
from pyarrow import parquet

from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.core.packing import unpack_columns
from beam_pipeline.transforms.listing import cut_file
from beam_pipeline.work.inventory_task import InventoryTask, cut_of
from beam_pipeline.work.reading import FilePart
from tests.buckets.services import Store

pytestmark = pytest.mark.buckets


@pytest.mark.parametrize("cloud", ["gs"], indirect=True)
def test_row_groups_are_read_from_a_bucket(cloud: Store) -> None:
    """Its parts have every row of a file once."""
    file = io.BytesIO()
    columns = {"uri": [f"gs://pets/{n}.jpg" for n in range(100)], "size": [7] * 100}
    parquet.write_table(pyarrow.table(columns), file, row_group_size=30)
    cloud.put("i.parquet", file.getvalue())
    parts = cut_file(f"{cloud.uri}/i.parquet", cut_of, 10)
    assert len(parts) == 4

    def read(parts: list[FilePart]) -> list[tuple[int, bytes]]:
        tasks = [InventoryTask(part, (ImageRoot("gs://pets"),), 1) for part in parts]
        return [rows for task in tasks for rows in task.read(Tally())]

    assert len(read(parts)) == 4
    keys = [key for _, packed in read(parts) for key in unpack_columns(packed)[0]]
    assert keys == [f"{n}.jpg" for n in range(100)]
