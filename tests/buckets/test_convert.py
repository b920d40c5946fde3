"""Conversions from and to buckets, runs that continue others, and data sets there as readers see them."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from beam_pipeline import RandomAccess, cli
from beam_pipeline.core.dataset.receipts import receipt_name
from beam_pipeline.core.errors import DamagedRecordError
from beam_pipeline.storage import buckets
from beam_pipeline.transforms import WriteToShuffledTFRecord
from tests.buckets import proxy
from tests.buckets.services import Store
from tests.harness import (
    ALL_BAD,
    NONE_BAD,
    REPOSITORY,
    convert,
    convert_in_process_of_its_own,
    digests,
    job,
    reasons_of,
    run,
    wait_until,
)
from tests.layouts.make_cifar10 import cifar10_python
from tests.pictures import write_files, write_pictures
from tests.rows import in_rows

pytestmark = pytest.mark.buckets

NAMES = [f"{'ab'[i % 2]}/{i}.{'jpg' if i % 3 else 'png'}" for i in range(40)]
ODD_NAMES = [f"cat/{name}.jpg" for name in ("[1]*?", "#1", "50%", "%2F")] + ["dog 1/a b.jpg"]
ODD_NAMES += [f"größe и/{name}.jpg" for name in ("猫", "e\u0301", "\u00e9")]


@pytest.fixture
def photos(tmp_path: Path, cloud: Store) -> Path:
    """Class folders on this machine, and in the bucket."""
    write_pictures(str(tmp_path / "photos"), NAMES)
    cloud.put_folder(tmp_path / "photos", "photos")
    return tmp_path / "photos"


def _local(tmp_path: Path, *argv: str) -> dict[str, str]:
    """Digests of what the same conversion writes here."""
    assert convert(*argv, "--output", str(tmp_path / "local"), "--name", "x") == 0
    return _of_shards(tmp_path / "local")


def _of_shards(folder: Path) -> dict[str, str]:
    return {name: digest for name, digest in digests(folder).items() if "manifest" not in name}


def _written(cloud: Store, tmp_path: Path) -> dict[str, str]:
    return _of_shards(cloud.get_folder("out", tmp_path / "fetched"))


def _to(cloud: Store, *argv: str) -> tuple[str, ...]:
    """A conversion of the bucket's photos to another folder of it."""
    folders = ("--images", f"{cloud.uri}/photos", "--output", f"{cloud.uri}/out")
    return ("convert", *folders, "--name", "x", "--yes", "--writers=0", *argv)


def test_class_folders_from_bucket_to_bucket(cloud: Store, photos: Path, tmp_path: Path) -> None:
    """The same files as from the same local folder, whatever the names, each image read by one GET."""
    write_pictures(str(photos), ODD_NAMES)
    cloud.put_folder(photos, "photos")
    argv = ("--num_shards", "3", NONE_BAD)
    expected = _local(tmp_path, "--images", str(photos), *argv)
    cloud.proxy.take_log()
    done = convert_in_process_of_its_own(*_to(cloud, *argv, "--writers=2")[1:])
    assert done.returncode == 0, done.err
    log = cloud.proxy.take_log()
    assert _written(cloud, tmp_path) == expected
    assert not [name for name in cloud.names() if ".incomplete" in name]

    of_images = [request for request in log if cloud.name_of(request).startswith("photos/")]
    names = [*NAMES, *ODD_NAMES]
    assert Counter(cloud.reads(of_images)) == {f"photos/{name}": 1 for name in names}
    assert len(of_images) == len(names)
    assert not [request for request in log if cloud.is_about_bucket(request)]


def test_a_table_in_the_bucket(cloud: Store, photos: Path, tmp_path: Path) -> None:
    """A CSV beside the images labels them, here as there; verify understands the result."""
    table = "filename,label\n" + "".join(f"{name},l{i % 5}\n" for i, name in enumerate(NAMES))
    write_files(str(tmp_path), {"labels.csv": table})
    cloud.put("labels.csv", table.encode())
    options = ("--num_shards", "2", "--compression", "gzip", NONE_BAD)
    labels = str(tmp_path / "labels.csv")
    expected = _local(tmp_path, "--images", str(photos), "--labels", labels, *options)
    run(*_to(cloud, "--labels", f"{cloud.uri}/labels.csv", *options))
    assert _written(cloud, tmp_path) == expected
    well = f"{cloud.uri}/out: 2 shards, 40 examples, all well\n"
    assert run("verify", f"{cloud.uri}/out") == (well, "")


@pytest.mark.parametrize(
    ("cloud", "page"),
    [("gs", "README.md"), ("s3", "docs/buckets.md"), ("az", "docs/buckets.md")],
    indirect=["cloud"],
)
def test_the_commands_of_the_pages(cloud: Store, photos: Path, page: str) -> None:
    """Here rather than on Dataflow, with a bucket that is there."""
    bucket = {"gs": "gs://my-bucket", "s3": "s3://bucket", "az": "az://container"}[cloud.scheme]
    text = Path(REPOSITORY, page).read_text(encoding="utf-8")
    pattern = rf"^beam-tfrecord (convert .*{bucket}/.*?|.*{bucket}/.*(?= --runner=\w+$))(?: --runner=\w+)?$"
    command = re.findall(pattern, text, re.MULTILINE)[0]
    assert "\nWrote 40 examples, " in run(*command.replace(bucket, cloud.uri).split()).out
    assert "tfrecords/manifest.json" in cloud.names()


def test_verify_and_index(cloud: Store, photos: Path, tmp_path: Path) -> None:
    """An index in the bucket is the one that is written here; a byte that changed is found."""
    output = tmp_path / "local"
    assert convert("--images", str(photos), "--output", str(output), NONE_BAD) == 0
    cloud.put_folder(output, "out")
    run("index", f"{cloud.uri}/out")
    run("index", str(output))
    assert _written(cloud, tmp_path) == _of_shards(output)

    (shard,) = (name for name in cloud.names("out") if ".tfrecord-" in name)
    content = bytearray(cloud.get(shard))
    content[100] ^= 1
    cloud.put(shard, bytes(content))
    assert f"{cloud.uri}/{shard}" in run("verify", f"{cloud.uri}/out", code=1).err


@pytest.mark.promise("bucket_retries")
def test_one_request_in_twenty_fails_in_each_way(
    cloud: Store, photos: Path, tmp_path: Path
) -> None:
    """Whatever it was for: the same bytes, nothing left out."""
    argv = ("--num_shards", "8", NONE_BAD)
    expected = _local(tmp_path, "--images", str(photos), *argv)
    ways = ({"status": 503}, {"status": 429}, {"cut": True}, {"delay": 0.5})
    faults = [proxy.Fault(**way, probability=0.05, times=1000) for way in ways]
    cloud.proxy.spoil(*faults)
    run(*_to(cloud, *argv))
    assert all(fault.times < 1000 for fault in faults)
    cloud.proxy.spoil()
    assert _written(cloud, tmp_path) == expected


@pytest.mark.promise("object_gone")
def test_an_object_that_is_gone_or_may_not_be_read(
    cloud: Store, photos: Path, tmp_path: Path
) -> None:
    """Is a dead letter that says which; the rest is written."""
    cloud.proxy.spoil(
        proxy.Fault("GET", r"/photos/a/0\.png(\?|\Z)", status=403, message="you have no access"),
        proxy.Fault("GET", r"/photos/b/1\.jpg(\?|\Z)", status=404, message="No such object"),
    )
    run(*_to(cloud, ALL_BAD))
    fetched = cloud.get_folder("out", tmp_path / "fetched")
    assert reasons_of(fetched) == {"a/0.png": "unreadable", "b/1.jpg": "unreadable"}
    dead_letters = [json.loads(line) for line in (fetched / "dead_letters.jsonl").open()]
    assert sorted((dead_letter["key"], dead_letter["message"]) for dead_letter in dead_letters) == [
        (
            "a/0.png",
            f"permission {cloud.permissions['get']} is missing: "
            f"{cloud.shown(403, 'you have no access')}",
        ),
        ("b/1.jpg", cloud.shown(404, "No such object")),
    ]
    assert json.loads((fetched / "manifest.json").read_text())["counts"]["examples"] == 38


@pytest.mark.promise("bucket_denied")
def test_a_bucket_that_cannot_be_used(cloud: Store, photos: Path, tmp_path: Path) -> None:
    """Is an error before the job, which names the bucket, or the permission; no image has been read."""
    nowhere = f"{cloud.scheme}://no-such-bucket"
    missing = f"error: {cloud.container} {nowhere} does not exist"
    for argv in (
        ("--images", f"{nowhere}/photos", "--output", str(tmp_path / "out")),
        ("--images", str(photos), "--output", f"{nowhere}/out"),
    ):
        assert missing in run("convert", *argv, code=1).err
    assert not (tmp_path / "out").exists()
    for verb, kind in (("list", "list"), ("create", "write"), ("delete", "delete")):
        cloud.proxy.spoil(proxy.Fault(*getattr(cloud.kinds, kind), status=403, message="not you"))
        on = f"on {cloud.container} {cloud.uri} is missing"
        assert f"permission {cloud.permissions[verb]} {on}" in run(*_to(cloud), code=1).err
        assert not [name for name in cloud.reads(cloud.proxy.take_log()) if "photos/" in name]


@pytest.mark.parametrize("cloud", ["gs"], indirect=True)
@in_rows
def test_an_outage_has_its_own_exit_code(
    cloud: Store, photos: Path, fault: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A schedule may try again later, whatever is refused; the error is one line."""
    monkeypatch.setattr(buckets, "RETRY_SECONDS", 0.3)
    cloud.proxy.spoil(proxy.Fault(status=503, **fault))
    done = run(*_to(cloud, NONE_BAD), code=cli.EXIT_OUTAGE)
    assert "gave no good answer" in done.err.splitlines()[-1]


def test_overwrite_replaces_an_earlier_data_set(cloud: Store, photos: Path) -> None:
    """Without it the folder is not touched; with it nothing of the earlier run is left."""
    cloud.put("out/notes.txt", b"mine")
    five, two = (_to(cloud, NONE_BAD, "--num_shards", number) for number in "52")
    run(*five, code=2)
    assert cloud.names("out") == ["out/notes.txt"]
    run(*five, "--overwrite")
    assert "is not empty" in run(*two, code=2).err
    run(*two, "--overwrite")
    assert [name for name in cloud.names("out") if "tfrecord" in name] == [
        "out/x-train.tfrecord-00000-of-00002",
        "out/x-train.tfrecord-00001-of-00002",
    ]
    assert cloud.get("out/notes.txt") == b"mine"


def test_records_of_a_pipeline(cloud: Store, tmp_path: Path) -> None:
    """Of any size, they have the bytes that they have on disk; the job's own files are deleted."""
    records = [{"id": f"k{i}", "x": bytes([i]) * (3 if i % 4 else 20_000)} for i in range(20)]
    for folder in (f"{cloud.uri}/out", f"{tmp_path}/out"):
        with beam.Pipeline(FnApiRunner()) as pipeline:
            _ = (
                pipeline
                | beam.Create(records)
                | WriteToShuffledTFRecord(folder, key="id", num_shards=2)
            )
    assert digests(cloud.get_folder("out", tmp_path / "fetched")) == digests(tmp_path / "out")
    assert not [name for name in cloud.names() if ".incomplete" in name]


MORE_NAMES = [f"{'ab'[i % 2]}/{i}.jpg" for i in range(120)]
SHARDS = 12
KILLS = 3
FIRST, SECOND = (f"x-train.tfrecord-{i:05d}-of-{SHARDS:05d}" for i in range(2))


@pytest.fixture
def argv(cloud: Store, tmp_path: Path) -> list[str]:
    """Arguments that convert class folders in the bucket to another folder of it."""
    write_pictures(str(tmp_path / "photos"), MORE_NAMES)
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
    assert 0 < len(read(cloud)) < len(MORE_NAMES)
    assert contents(cloud) == whole


def _receipts(cloud: Store) -> set[str]:
    return set(cloud.names("out/.receipts/"))


def test_a_complete_data_set_is_up_to_date_and_repaired(cloud: Store, argv: list[str]) -> None:
    """Only what is damaged or gone is written again; another version of an image is a change."""
    assert convert(*argv) == 0
    before = contents(cloud)
    cloud.proxy.take_log()
    done = run("convert", *argv, "--yes", "--writers=0")
    assert done.out.splitlines()[-1].startswith(f"{cloud.uri}/out is up to date")
    assert read(cloud) == []
    assert contents(cloud) == before

    cloud.put(f"out/{FIRST}", before[FIRST][:-1] + b"x")
    cloud.delete(f"out/{SECOND}")
    cloud.proxy.take_log()
    done = run("repair", f"{cloud.uri}/out")
    assert done.out.splitlines()[-1] == f"{cloud.uri}/out: 10 shards were sound, 2 rewritten"
    assert 0 < len(read(cloud)) < len(MORE_NAMES) / 2
    assert contents(cloud) == before
    assert receipt_name(FIRST) in before

    cloud.touch("photos/a/0.jpg")
    done = run("convert", *argv, "--yes", "--writers=0", code=1)
    assert "its samples or options have changed: 1 changed (a/0.jpg)." in done.err
    assert contents(cloud) == before


@pytest.mark.parametrize("cloud", ["gs", "s3"], indirect=True)
def test_a_file_of_many_images_that_was_replaced_is_a_change(cloud: Store) -> None:
    """CIFAR's batches have the size that they always have; their version tells."""
    batches = {f"cifar/{name}": content for name, content in cifar10_python().items()}
    for name, content in batches.items():
        cloud.put(name, content)
    argv = ["convert", "--images", f"{cloud.uri}/cifar", "--layout", "cifar10", "--writers=0"]
    argv += ["--output", f"{cloud.uri}/out", "--name", "x", "--resume", "--yes"]
    run(*argv)
    assert run(*argv).out.splitlines()[-1].startswith(f"{cloud.uri}/out is up to date")
    (name,) = [name for name in batches if "test_batch" in name]
    content = bytearray(batches[name])
    content[len(content) // 2] ^= 1  # of a pixel
    cloud.put(name, bytes(content))
    assert (
        "its samples or options have changed: 12 changed (test_batch/00000, "
        in run(*argv, code=1).err
    )


@pytest.mark.promise("reused")
def test_unchanged_shards_are_copied_by_the_service(cloud: Store, tmp_path: Path) -> None:
    """Only the images of changed shards are read; `latest:` finds the data set of the night before."""
    write_pictures(str(tmp_path / "photos"), MORE_NAMES[:60])
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
def test_a_data_set_in_a_bucket(data_set: str, tmp_path: Path, cloud: Store) -> None:
    """It prints what the same data set does here; a key costs the manifest, its receipt and its shard, and no other."""
    here, nothing = str(tmp_path / "out"), f"{cloud.uri}/nothing"
    assert run("inspect", data_set).out.replace(data_set, here) == run("inspect", here).out
    of_b = run("inspect", f"{data_set}/*.tfrecord-*", "--where", "image/class/text=b").out
    assert "4 of 8 examples found" in of_b
    assert f"{nothing}: no TFRecords" in run("inspect", nothing, code=2).err
    cloud.proxy.take_log()
    place = run("inspect", data_set, "--key", "a/4.png").out.splitlines()[0]
    (shard,) = {path for _, path, *_ in cloud.proxy.take_log() if "tfrecord-" in path}
    assert re.fullmatch(rf"a/4\.png, {shard.rpartition('/')[2]}, record \d+", place)
    run("inspect", data_set, "--key", "a/5.png", code=1)


@pytest.mark.parametrize("cloud", ["gs"], indirect=True)
def test_examples_are_written_to_a_bucket(data_set: str, tmp_path: Path, cloud: Store) -> None:
    """Images and their list; a folder that holds files is refused."""
    to = f"{cloud.uri}/picked"
    run("inspect", data_set, "--class", "a", "--num", "3", "--to", to)
    lines = [json.loads(line) for line in cloud.get("picked/examples.jsonl").splitlines()]
    images = {line["features"]["image/encoded"]["file"]: line["key"] for line in lines}
    assert len(images) == 3
    assert set(cloud.names("picked/")) == {f"picked/{name}" for name in ("examples.jsonl", *images)}
    for name, key in images.items():
        assert cloud.get(f"picked/{name}") == (tmp_path / "photos" / key).read_bytes()
    assert "is not empty" in run("inspect", data_set, "--to", to, code=2).err


@pytest.mark.parametrize("cloud", ["s3", "az"], indirect=True)
def test_load(cloud: Store, data_set: str, tmp_path: Path) -> None:
    """The samples of the local data set, in its order."""
    pytest.importorskip("tensorflow")
    import beam_pipeline

    def samples(folder: str, shuffle: bool) -> list[tuple[bytes, int]]:
        data = beam_pipeline.load(folder, shuffle=shuffle, seed=3)
        return [(image.numpy().tobytes(), int(label)) for image, label in data]

    for shuffle in (False, True):
        assert samples(data_set, shuffle) == samples(f"{tmp_path}/out", shuffle)


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
