"""Records of a data set in a bucket, by their numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam_pipeline import RandomAccess
from beam_pipeline.core.errors import DamagedRecordError
from tests.buckets.services import Store
from tests.harness import convert
from tests.pictures import write_pictures

pytestmark = pytest.mark.buckets

NAMES = [f"{'ab'[i % 2]}/{i}.png" for i in range(23)]


@pytest.mark.parametrize("cloud", ["gs"], indirect=True)
def test_records_of_a_bucket_are_those_of_a_folder(
    cloud: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One by one and many at once; from receipts and, where they are missing, from the shards.

    No request asks for more than a record, until the receipts are missing.
    """
    write_pictures(f"{tmp_path}/photos", NAMES)
    argv = ("--images", f"{tmp_path}/photos", "--num_shards", "3", "--name", "d", "--output")
    assert convert(*argv, f"{tmp_path}/out") == 0
    cloud.put_folder(tmp_path / "out", "out")
    here, there = RandomAccess(tmp_path / "out"), RandomAccess(f"{cloud.uri}/out")
    indices = [22, 0, 7, 7, -1, *range(23)]
    assert [there[i] for i in (5, -1)] == [here[i] for i in (5, -1)]
    assert there[indices] == here[indices]
    assert not caplog.records
    with pytest.raises(IndexError):
        there[[0, 23]]

    for name in cloud.names("out/.receipts/"):
        cloud.delete(name)
    bare = RandomAccess(f"{cloud.uri}/out")
    assert bare[::-1] == here[::-1]
    (record,) = caplog.records
    assert record.getMessage().startswith(f"{cloud.uri}/out has no receipts")

    shard = cloud.names("out/d-train.tfrecord-")[0]
    cloud.put(shard, cloud.get(shard)[:100])
    with pytest.raises(DamagedRecordError, match=f"{shard}: record 1 at byte"):
        there[1]
