"""Requests that fail, whichever they are, and a bucket that refuses most of them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
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

EVERY = bool(os.environ.get("BEAM_TFRECORD_EVERY_FAULT"))
"""Try each fault at each request; else one fault at every sixteenth request, in turns."""
PART = 16
FAULTS = (403, 404, 429, 500, 503, "cut")


def _contents(cloud: Store) -> dict[str, bytes]:
    """Name -> content of the output folder, without receipts, which name generations of images."""
    return {name: cloud.get(name) for name in cloud.names("out/") if "/." not in name}


def _faults(requests: int) -> Iterator[tuple[int, int | str]]:
    """(n, fault of the n-th request)."""
    for n in range(requests):
        if EVERY:
            yield from ((n, fault) for fault in FAULTS)
        elif n % PART == 0:
            yield n, FAULTS[n // PART % len(FAULTS)]


def _spoil(cloud: Store, n: int, fault: int | str) -> None:
    status = fault if isinstance(fault, int) else 0
    cloud.proxy.spoil(Fault(skip=n, times=1, status=status, cut=fault == "cut"))


@pytest.mark.promise("bucket_fault")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("cloud", "state"),
    [("gs", "new"), ("gs", "complete"), ("gs", "other"), ("s3", "other"), ("az", "other")],
    indirect=["cloud"],
)
def test_a_fault_at_any_request(
    cloud: Store, tmp_path: Path, state: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 0 means the right data set; else one line says why, and the next run makes the right one."""
    write_pictures(f"{tmp_path}/photos", ["a/0.jpg", "b/1.jpg", "a/2.jpg"])
    cloud.put_folder(tmp_path / "photos", "photos")
    argv = ["--images", f"{cloud.uri}/photos", "--output", f"{cloud.uri}/out", "--name", "d"]
    argv += ["--num_shards", "2", "--layout", "class_folders", NONE_BAD]
    option = {"new": [], "complete": ["--resume"], "other": ["--overwrite"]}[state]

    def put_back() -> None:
        cloud.proxy.spoil()
        cloud.delete("out/")
        if state == "complete":
            assert convert(*argv) == 0
        elif state == "other":
            assert convert(*argv, "--seed", "7") == 0
        cloud.proxy.take_log()

    assert convert(*argv) == 0
    wanted = _contents(cloud)
    put_back()
    before = _contents(cloud)
    assert convert(*argv, *option) == 0
    assert _contents(cloud) == wanted
    requests = len(cloud.proxy.take_log())
    found = []
    tried = 0
    for n, fault in _faults(requests):
        put_back()
        _spoil(cloud, n, fault)
        capsys.readouterr()
        try:
            code = convert(*argv, *option)
        except Exception as error:
            found.append(f"{fault} at {n}: a traceback: {type(error).__name__}: {str(error)[:200]}")
            continue
        error = capsys.readouterr().err
        spoilt = [r for r in cloud.proxy.take_log() if r.spoilt]
        cloud.proxy.spoil()
        at = f"{fault} at {n}, {spoilt[0][:3] if spoilt else 'no request'}"
        tried += len(spoilt)
        after = _contents(cloud)
        if code == 0:
            if after != wanted:
                found.append(f"{at}: exit code 0, and the data set is not the right one")
            continue
        if "Traceback" in error or not error.splitlines()[-1].startswith("beam-tfrecord: error: "):
            found.append(f"{at}: no error of one line: {error}")
        if "out/manifest.json" in after and after not in (before, wanted):
            found.append(f"{at}: a manifest over other files")
        if convert(*argv, *(option or ["--resume"])):
            found.append(f"{at}: afterwards: {capsys.readouterr().err}, after {error}")
        elif _contents(cloud) != wanted:
            found.append(f"{at}: afterwards another data set")
    assert not found, "\n".join(found)
    assert tried


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
