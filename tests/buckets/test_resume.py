"""Data sets in a bucket that are continued, repaired and reused."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest

from beam_pipeline.core.dataset.receipts import receipt_name
from tests.buckets.services import Run, Store
from tests.harness import convert, job, wait_until
from tests.layouts.make_cifar10 import cifar10_binary
from tests.pictures import write_pictures

pytestmark = pytest.mark.buckets

NAMES = [f"{'ab'[i % 2]}/{i}.jpg" for i in range(120)]
SHARDS = 12
KILLS = 3
FIRST, SECOND = (f"x-train.tfrecord-{i:05d}-of-{SHARDS:05d}" for i in range(2))


@pytest.fixture
def argv(cloud: Store, tmp_path: Path) -> list[str]:
    """Arguments that convert class folders in the bucket to another folder of it."""
    write_pictures(str(tmp_path / "photos"), NAMES)
    cloud.put_folder(tmp_path / "photos", "photos")
    argv = ["--images", f"{cloud.uri}/photos", "--output", f"{cloud.uri}/out", "--name", "x"]
    return [*argv, "--num_shards", str(SHARDS), "--resume"]


def contents(cloud: Store, prefix: str = "out/") -> dict[str, bytes]:
    return {name.removeprefix(prefix): cloud.get(name) for name in cloud.names(prefix)}


def read(cloud: Store) -> list[str]:
    """Images whose content was asked for."""
    return [name for name in cloud.reads(cloud.proxy.take_log()) if name.startswith("photos/")]


@pytest.mark.promise("bucket_killed")
def test_killed_jobs_go_on_and_end_in_the_same_objects(cloud: Store, argv: list[str]) -> None:
    """After SIGKILL, what has a receipt is not written again, and nothing is left over."""
    assert convert(*argv) == 0
    whole = contents(cloud)
    cloud.delete("out/")
    receipts: set[str] = set()
    for _ in range(KILLS):
        with job(*argv, "--writers", "1", stderr=subprocess.DEVNULL) as running:
            wait_until(lambda: len(_receipts(cloud)) >= len(receipts) + 2, running)  # noqa: B023
        time.sleep(0.3)  # the writer process sees that its launcher is gone
        assert receipts <= _receipts(cloud)
        receipts = _receipts(cloud)
        there = contents(cloud)
        assert "manifest.json" not in there
        shards = {name: content for name, content in there.items() if ".tfrecord-" in name}
        assert shards.items() <= whole.items()
    cloud.proxy.take_log()
    assert convert(*argv) == 0
    assert 0 < len(read(cloud)) < len(NAMES)
    assert contents(cloud) == whole


def _receipts(cloud: Store) -> set[str]:
    return set(cloud.names("out/.receipts/"))


def test_a_complete_data_set_is_up_to_date_and_repaired(
    cloud: Store, argv: list[str], run: Run
) -> None:
    """Only what is damaged or gone is written again; another version of an image is a change."""
    assert convert(*argv) == 0
    before = contents(cloud)
    cloud.proxy.take_log()
    done = run("convert", *argv, "--yes", "--writers=0")
    assert done.stdout.splitlines()[-1].startswith(f"{cloud.uri}/out is up to date")
    assert read(cloud) == []
    assert contents(cloud) == before

    cloud.put(f"out/{FIRST}", before[FIRST][:-1] + b"x")
    cloud.delete(f"out/{SECOND}")
    cloud.proxy.take_log()
    done = run("repair", f"{cloud.uri}/out")
    assert done.code == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f"{cloud.uri}/out: 10 shards were sound, 2 rewritten"
    assert 0 < len(read(cloud)) < len(NAMES) / 2
    assert contents(cloud) == before
    assert receipt_name(FIRST) in before

    cloud.touch("photos/a/0.jpg")
    done = run("convert", *argv, "--yes", "--writers=0")
    assert done.code == 1
    assert "its samples have changed: 1 changed (a/0.jpg)." in done.stderr
    assert contents(cloud) == before


@pytest.mark.parametrize("cloud", ["gs", "s3"], indirect=True)
def test_a_file_of_many_images_that_was_replaced_is_a_change(cloud: Store, run: Run) -> None:
    """CIFAR's batches have the size that they always have; their version tells."""
    batches = {f"cifar/{name}": content for name, content in cifar10_binary().items()}
    for name, content in batches.items():
        cloud.put(name, content)
    argv = ["convert", "--images", f"{cloud.uri}/cifar", "--layout", "cifar10", "--writers=0"]
    argv += ["--output", f"{cloud.uri}/out", "--name", "x", "--resume", "--yes"]
    assert run(*argv).code == 0
    assert run(*argv).stdout.splitlines()[-1].startswith(f"{cloud.uri}/out is up to date")
    (name,) = [name for name in batches if "test_batch" in name]
    cloud.touch(name)
    done = run(*argv)
    assert done.code == 1
    assert "its samples have changed: 12 changed (test_batch/00000, " in done.stderr


@pytest.mark.promise("reused")
def test_unchanged_shards_are_copied_by_the_service(cloud: Store, tmp_path: Path) -> None:
    """Only the images of changed shards are read; `latest:` finds the data set of the night before."""
    write_pictures(str(tmp_path / "photos"), NAMES[:60])
    cloud.put_folder(tmp_path / "photos", "photos")
    argv = ["--images", f"{cloud.uri}/photos", "--num_shards", "6", "--name", "x"]
    reuse = ["--reuse", f"latest:{cloud.uri}/sets/"]
    assert convert(*argv, *reuse, "--output", f"{cloud.uri}/sets/21") == 0
    cloud.put("photos/a/0.jpg", cloud.get("photos/b/1.jpg"))
    cloud.proxy.take_log()
    assert convert(*argv, *reuse, "--output", f"{cloud.uri}/sets/22") == 0
    log = cloud.proxy.take_log()
    reused = contents(cloud, "sets/22/")
    changes = json.loads(reused.pop("changes.json"))
    assert changes["since"] == f"{cloud.uri}/sets/21"
    assert cloud.get("sets/latest") == b"22\n"
    assert changes["samples"] == {"added": 0, "removed": 0, "changed": 1, "relabelled": 0}
    assert changes["shards"] == {"reused": 5, "written": 1}
    assert sum(map(cloud.is_copy, log)) == 5
    shards = [name for name in cloud.reads(log) if ".tfrecord-" in name]
    # The first record of one, for the hint in the summary, and 24 samples of ten a shard, for the report.
    assert len(shards) <= 1 + 3
    assert convert(*argv, "--output", f"{cloud.uri}/nothing") == 0
    assert contents(cloud, "nothing/") == reused
