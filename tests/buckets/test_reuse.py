"""A data set in a bucket that takes shards from an earlier one: against the emulator."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.buckets.services import Store
from tests.harness import convert_in_process_of_its_own
from tests.pictures import write_pictures

pytestmark = pytest.mark.buckets

NAMES = [f"{'ab'[i % 2]}/{i}.jpg" for i in range(60)]


@pytest.mark.promise("reused")
def test_unchanged_shards_are_copied_by_the_service(cloud: Store, tmp_path: Path) -> None:
    """Only the images of changed shards are read; `latest:` finds the data set of the night before."""
    write_pictures(str(tmp_path / "photos"), NAMES)
    cloud.put_folder(tmp_path / "photos", "photos")
    argv = ["--images", f"{cloud.uri}/photos", "--num_shards", "6", "--name", "x"]
    argv += ["--reuse", f"latest:{cloud.uri}/sets/"]
    done = convert_in_process_of_its_own(*argv, "--output", f"{cloud.uri}/sets/21")
    assert done.returncode == 0, done.stderr
    cloud.put("photos/a/0.jpg", cloud.get("photos/b/1.jpg"))
    cloud.proxy.take_log()
    done = convert_in_process_of_its_own(*argv, "--output", f"{cloud.uri}/sets/22")
    assert done.returncode == 0, done.stderr
    log = cloud.proxy.take_log()
    changes = json.loads(cloud.get("sets/22/changes.json"))
    assert changes["since"] == f"{cloud.uri}/sets/21"
    assert changes["samples"] == {"added": 0, "removed": 0, "changed": 1, "relabelled": 0}
    assert changes["shards"] == {"reused": 5, "written": 1}
    assert sum(map(cloud.is_copy, log)) == 5
    shards = [name for name in cloud.reads(log) if ".tfrecord-" in name]
    # The first record of one, for the hint in the summary, and 24 samples of ten a shard, for the report.
    assert len(shards) <= 1 + 3
    done = convert_in_process_of_its_own(*argv[:-2], "--output", f"{cloud.uri}/nothing")
    assert done.returncode == 0, done.stderr
    names = {name.removeprefix("nothing/") for name in cloud.names("nothing/")}
    assert {name.removeprefix("sets/22/") for name in cloud.names("sets/22/")} == {
        *names,
        "changes.json",
    }
    for name in names:
        assert cloud.get(f"sets/22/{name}") == cloud.get(f"nothing/{name}"), name
