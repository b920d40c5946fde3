"""A bucket that takes so many reads a second: every image is read, and the job says that it waited."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from beam_pipeline.engines.base import Engine
from beam_pipeline.storage import pace
from beam_pipeline.work.outcome import READ_MS, RETRIES, SHARD_BYTES, SHARD_MS, THROTTLED
from tests.buckets.proxy import Fault
from tests.buckets.services import Store
from tests.harness import NONE_BAD, convert
from tests.pictures import write_pictures

pytestmark = pytest.mark.buckets

IMAGES = 160


def _shards(cloud: Store, folder: str) -> Mapping[str, str]:
    names = [name for name in cloud.names(f"{folder}/") if ".tfrecord-" in name]
    return {name.partition("/")[2]: hashlib.sha256(cloud.get(name)).hexdigest() for name in names}


@pytest.mark.parametrize("cloud", ["gs", "s3"], indirect=True)
def test_a_bucket_that_refuses_most_reads(
    cloud: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same bytes, no dead letter, and Dataflow's counter of throttled seconds beside the distributions."""
    write_pictures(f"{tmp_path}/photos", [f"{'ab'[i % 2]}/{i}.jpg" for i in range(IMAGES)])
    cloud.put_folder(tmp_path / "photos", "photos")
    argv = ["--images", f"{cloud.uri}/photos", "--name", "d", "--num_shards", "4", "--writers=0"]
    assert convert(*argv, "--output", f"{cloud.uri}/usual", NONE_BAD) == 0
    cloud.proxy.take_log()
    results: list[Any] = []
    monkeypatch.setattr(Engine, "wait_for", lambda _, result: results.append(result))
    pace.take_usage()
    path, status = ("/.*alt=media", 429) if cloud.scheme == "gs" else (r"/[^?]*\Z", 503)
    cloud.proxy.spoil(Fault("GET", f"photos{path}", status=status, per_second=40))
    assert convert(*argv, "--output", f"{cloud.uri}/refused", NONE_BAD) == 0
    assert _shards(cloud, "refused") == _shards(cloud, "usual")
    refused = sum(request.spoilt for request in cloud.proxy.take_log())
    assert refused > 0
    metrics = results[0].metrics().query()
    counters = {c.key.metric.name: c.committed for c in metrics["counters"]}
    spread = {d.key.metric.name: d.committed for d in metrics["distributions"]}
    assert counters[THROTTLED] >= 1
    assert spread[READ_MS].count == IMAGES
    assert spread[RETRIES].sum == refused
    assert spread[SHARD_MS].count == spread[SHARD_BYTES].count == 4
