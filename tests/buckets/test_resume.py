"""Stopped and started, and repaired, in a bucket: against the emulator."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from beam_pipeline.core.dataset.receipts import receipt_name
from tests.buckets.services import Store
from tests.harness import convert_in_process_of_its_own, job, wait_until
from tests.layouts.make_cifar10 import cifar10_binary
from tests.pictures import write_pictures

pytestmark = pytest.mark.buckets

NAMES = [f"{'ab'[i % 2]}/{i}.jpg" for i in range(120)]
SHARDS = 12
KILLS = 4
FIRST, SECOND = (f"x-train.tfrecord-{i:05d}-of-{SHARDS:05d}" for i in range(2))


@pytest.fixture
def argv(cloud: Store, tmp_path: Path) -> list[str]:
    """Arguments that convert class folders in the bucket to another folder of it."""
    write_pictures(str(tmp_path / "photos"), NAMES)
    cloud.put_folder(tmp_path / "photos", "photos")
    argv = ["--images", f"{cloud.uri}/photos", "--output", f"{cloud.uri}/out", "--name", "x"]
    return [*argv, "--num_shards", str(SHARDS), "--resume"]


def contents(cloud: Store) -> dict[str, bytes]:
    return {name: cloud.get(name) for name in cloud.names("out/")}


def read(cloud: Store) -> list[str]:
    """Images whose content was asked for."""
    return [name for name in cloud.reads(cloud.proxy.take_log()) if name.startswith("photos/")]


@pytest.mark.promise("bucket_killed")
def test_killed_jobs_go_on_and_end_in_the_same_objects(cloud: Store, argv: list[str]) -> None:
    """After SIGKILL, what has a receipt is not written again, and nothing is left over."""
    assert convert_in_process_of_its_own(*argv).returncode == 0
    whole = contents(cloud)
    cloud.delete("out/")
    kept: set[str] = set()
    for _ in range(KILLS):
        with job(*argv, "--writers", "1", stderr=subprocess.DEVNULL) as running:
            wait_until(lambda: len(_receipts(cloud)) >= len(kept) + 2, running)  # noqa: B023
        time.sleep(0.3)  # the writer process sees that its launcher is gone
        assert kept <= _receipts(cloud)
        kept = _receipts(cloud)
        assert "out/manifest.json" not in cloud.names("out/")
    cloud.proxy.take_log()
    assert convert_in_process_of_its_own(*argv).returncode == 0
    assert 0 < len(read(cloud)) < len(NAMES)
    assert contents(cloud) == whole


def _receipts(cloud: Store) -> set[str]:
    return set(cloud.names("out/.receipts/"))


def test_a_complete_data_set_is_up_to_date(cloud: Store, argv: list[str]) -> None:
    """No image is read and no shard written; another version of an object is a change."""
    assert convert_in_process_of_its_own(*argv).returncode == 0
    before = contents(cloud)
    cloud.proxy.take_log()
    done = convert_in_process_of_its_own(*argv)
    assert done.stdout.splitlines()[-1].startswith(f"{cloud.uri}/out is up to date")
    assert read(cloud) == []
    assert contents(cloud) == before

    cloud.touch("photos/a/0.jpg")
    done = convert_in_process_of_its_own(*argv)
    assert done.returncode == 1
    assert "its samples have changed: 1 changed (a/0.jpg)." in done.stderr
    assert contents(cloud) == before


def test_repair_writes_what_is_damaged_or_gone(cloud: Store, argv: list[str]) -> None:
    """The same objects as before, and only those."""
    assert convert_in_process_of_its_own(*argv).returncode == 0
    before = contents(cloud)
    cloud.put(f"out/{FIRST}", before[f"out/{FIRST}"][:-1] + b"x")
    cloud.delete(f"out/{SECOND}")
    cloud.proxy.take_log()
    command = [sys.executable, "-m", "beam_pipeline", "repair", f"{cloud.uri}/out"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f"{cloud.uri}/out: 10 shards were sound, 2 rewritten"
    assert 0 < len(read(cloud)) < len(NAMES) / 2
    assert contents(cloud) == before
    assert f"out/{receipt_name(FIRST)}" in before


def test_a_file_of_many_images_that_was_replaced_is_a_change(cloud: Store, tmp_path: Path) -> None:
    """CIFAR's batches have the size that they always have; their version tells."""
    batches = {f"cifar/{name}": content for name, content in cifar10_binary().items()}
    for name, content in batches.items():
        cloud.put(name, content)
    argv = [
        "--images",
        f"{cloud.uri}/cifar",
        "--layout",
        "cifar10",
        "--output",
        f"{cloud.uri}/out",
        "--name",
        "x",
        "--resume",
    ]
    done = convert_in_process_of_its_own(*argv)
    assert done.returncode == 0, done.stderr
    done = convert_in_process_of_its_own(*argv)
    assert done.stdout.splitlines()[-1].startswith(f"{cloud.uri}/out is up to date")
    (name,) = [name for name in batches if "test_batch" in name]
    cloud.touch(name)
    done = convert_in_process_of_its_own(*argv)
    assert done.returncode == 1
    assert "its samples have changed: 12 changed (test_batch/00000, " in done.stderr
