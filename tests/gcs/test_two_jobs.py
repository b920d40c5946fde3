"""Two jobs with other images write to one folder of a bucket, in all combinations of options."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from google_crc32c import value

from beam_pipeline.transforms.core.dataset.manifest import crc32c_text
from tests.gcs.conftest import Cloud
from tests.harness import PATIENCE_S, convert, job
from tests.pictures import write_pictures

pytestmark = pytest.mark.gcs

OPTIONS = ("", "--overwrite", "--resume")
SHARDS = 8


@pytest.mark.promise("bucket_two_jobs")
@pytest.mark.parametrize("first", OPTIONS)
@pytest.mark.parametrize("second", OPTIONS)
def test_of_two_jobs_at_most_one_wins(
    cloud: Cloud, tmp_path: Path, first: str, second: str
) -> None:
    """A manifest lists what lies there, shards of one job; who lost says so."""
    whole = []
    for side in "ab":
        write_pictures(f"{tmp_path}/{side}", [f"x/{side}{i:03d}.jpg" for i in range(60)])
        cloud.put_folder(tmp_path / side, side)
        argv = ["--images", f"{tmp_path}/{side}", "--name", "d", "--num_shards", str(SHARDS)]
        assert convert(*argv, "--output", f"{tmp_path}/whole_{side}") == 0
        shards = (tmp_path / f"whole_{side}").glob("*.tfrecord-*")
        whole.append({path.name: path.read_bytes() for path in shards})
    common = ["--name", "d", "--num_shards", str(SHARDS), "--output", f"{cloud.uri}/out"]
    jobs = [
        [*common, "--images", f"{cloud.uri}/{side}", *filter(None, [option])]
        for side, option in (("a", first), ("b", second))
    ]
    with job(*jobs[0], "--writers", "0") as one, job(*jobs[1], "--writers", "0") as two:
        errors = [process.communicate(timeout=PATIENCE_S)[1] for process in (one, two)]
    codes = [one.returncode, two.returncode]
    for code, error in zip(codes, errors, strict=True):
        assert "Traceback" not in error
        assert code == 0 or "beam-tfrecord: error: " in error.splitlines()[-1], error
    names = cloud.names("out/")
    if 0 in codes:
        assert "out/manifest.json" in names
    if "out/manifest.json" not in names:
        return
    found = {n.removeprefix("out/"): cloud.get(n) for n in names if ".tfrecord-" in n}
    assert found in whole, (codes, errors)
    manifest = json.loads(cloud.get("out/manifest.json"))
    listed = {shard["path"]: shard["crc32c"] for shard in manifest["splits"]["train"]["shards"]}
    assert listed == {name: crc32c_text(value(content)) for name, content in found.items()}
