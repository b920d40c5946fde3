"""`inspect` in a bucket: data sets of ours, other files, and what it writes there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from beam_pipeline.cli import main
from tests.buckets.services import Store
from tests.harness import NONE_BAD, convert
from tests.pictures import write_pictures

pytestmark = pytest.mark.buckets


@pytest.fixture
def data_set(tmp_path: Path, cloud: Store) -> str:
    """Eight images of two classes, converted here and copied to the bucket."""
    write_pictures(f"{tmp_path}/photos", [f"{'ab'[i % 2]}/{i}.png" for i in range(8)])
    out = tmp_path / "out"
    argv = ("--images", f"{tmp_path}/photos", "--output", str(out), "--name", "x", NONE_BAD)
    assert convert(*argv, "--num_shards", "2") == 0
    cloud.put_folder(out, "out")
    return f"{cloud.uri}/out"


@pytest.mark.parametrize("cloud", ["gs"], indirect=True)
def test_a_data_set_in_a_bucket(
    data_set: str, tmp_path: Path, cloud: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    """It prints what the same data set does here."""
    capsys.readouterr()
    assert main(["inspect", data_set]) == 0
    there = capsys.readouterr().out
    assert main(["inspect", str(tmp_path / "out")]) == 0
    assert there.replace(data_set, str(tmp_path / "out")) == capsys.readouterr().out
    assert main(["inspect", f"{data_set}/*.tfrecord-*", "--where", "image/class/text=b"]) == 0
    assert "4 of 8 examples found" in capsys.readouterr().out
    assert main(["inspect", f"{cloud.uri}/nothing"]) == 2
    assert f"{cloud.uri}/nothing: no such file or folder" in capsys.readouterr().err


@pytest.mark.parametrize("cloud", ["gs"], indirect=True)
def test_a_key_costs_few_requests(
    data_set: str, cloud: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    """The manifest, the receipt and the shard of the sample are asked for, and no other shard."""
    capsys.readouterr()
    cloud.proxy.take_log()
    assert main(["inspect", data_set, "--key", "a/4.png"]) == 0
    place = capsys.readouterr().out.splitlines()[0]
    shards = {path for _, path, *_ in cloud.proxy.take_log() if "tfrecord-" in path}
    assert len(shards) == 1
    assert (
        place
        == f"a/4.png, {shards.pop().rpartition('/')[2].rpartition('%2F')[2]}, record "
        + (place.rpartition(" ")[2])
    )
    assert main(["inspect", data_set, "--key", "a/5.png"]) == 1


@pytest.mark.parametrize("cloud", ["gs"], indirect=True)
def test_examples_are_written_to_a_bucket(
    data_set: str, tmp_path: Path, cloud: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    """Images and their list; a folder that holds files is refused."""
    to = f"{cloud.uri}/picked"
    assert main(["inspect", data_set, "--class", "a", "--num", "3", "--to", to]) == 0
    lines = [json.loads(line) for line in cloud.get("picked/examples.jsonl").splitlines()]
    assert len(lines) == 3
    assert set(cloud.names("picked/")) == {
        "picked/examples.jsonl",
        *(f"picked/{line['features']['image/encoded']['file']}" for line in lines),
    }
    for line in lines:
        name = line["features"]["image/encoded"]["file"]
        assert cloud.get(f"picked/{name}") == (tmp_path / "photos" / line["key"]).read_bytes()
    assert main(["inspect", data_set, "--to", to]) == 2
    assert "is not empty" in capsys.readouterr().err
