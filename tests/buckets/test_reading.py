"""Data sets in a bucket, as readers and `inspect` read them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from beam_pipeline import RandomAccess
from beam_pipeline.cli import main
from beam_pipeline.core.errors import DamagedRecordError
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


@pytest.mark.parametrize("cloud", ["s3", "az"], indirect=True)
def test_load(cloud: Store, tmp_path: Path) -> None:
    """The samples of the local data set, in its order."""
    pytest.importorskip("tensorflow")
    import beam_pipeline

    local = tmp_path / "local"
    write_pictures(str(tmp_path / "photos"), [f"{'ab'[i % 2]}/{i}.jpg" for i in range(20)])
    argv = ("--images", str(tmp_path / "photos"), "--name", "x", "--num_shards", "2", NONE_BAD)
    assert convert(*argv, "--output", str(local)) == 0
    cloud.put_folder(local, "out")

    def samples(folder: str, shuffle: bool) -> list[tuple[bytes, int]]:
        data = beam_pipeline.load(folder, shuffle=shuffle, seed=3)
        return [(image.numpy().tobytes(), int(label)) for image, label in data]

    for shuffle in (False, True):
        assert samples(f"{cloud.uri}/out", shuffle) == samples(str(local), shuffle)


PNGS = [f"{'ab'[i % 2]}/{i}.png" for i in range(23)]


@pytest.mark.parametrize("cloud", ["gs"], indirect=True)
def test_records_of_a_bucket_are_those_of_a_folder(
    cloud: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One by one and many at once; from receipts and, where they are missing, from the shards.

    No request asks for more than a record, until the receipts are missing.
    """
    write_pictures(f"{tmp_path}/photos", PNGS)
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
    assert record.getMessage().startswith(f"{cloud.uri}/out lacks receipts")

    shard = cloud.names("out/d-train.tfrecord-")[0]
    cloud.put(shard, cloud.get(shard)[:100])
    with pytest.raises(DamagedRecordError, match=f"{shard}: record 1 at byte"):
        there[1]
