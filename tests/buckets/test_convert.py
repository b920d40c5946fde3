"""Whole jobs from bucket to bucket, in processes of their own, against the emulator."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.buckets.proxy import Fault
from tests.buckets.services import Store
from tests.harness import (
    ALL_BAD,
    NONE_BAD,
    PATIENCE_S,
    REPOSITORY,
    convert,
    convert_in_process_of_its_own,
    digests,
    job,
    reasons_of,
    wait_until,
)
from tests.pictures import write_files, write_pictures

pytestmark = pytest.mark.buckets

NAMES = [f"{'ab'[i % 2]}/{i}.{'jpg' if i % 3 else 'png'}" for i in range(40)]
ODD_NAMES = [
    "cat/[1]*?.jpg",
    "cat/#1.jpg",
    "cat/50%.jpg",
    "cat/%2F.jpg",
    "größe и/猫.jpg",
    "größe и/e\u0301.jpg",
    "größe и/\u00e9.jpg",
    "dog 1/a b.jpg",
]


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Class folders on this machine."""
    write_pictures(str(tmp_path / "photos"), NAMES)
    return tmp_path / "photos"


def _local(tmp_path: Path, *argv: str) -> dict[str, str]:
    """Digests of what the same conversion writes here."""
    assert convert(*argv, "--output", str(tmp_path / "local"), "--name", "x") == 0
    return _of_shards(tmp_path / "local")


def _of_shards(folder: Path) -> dict[str, str]:
    return {name: digest for name, digest in digests(folder).items() if "manifest" not in name}


def _run(cloud: Store, *argv: str, **options: object) -> subprocess.CompletedProcess[str]:
    output = ("--output", f"{cloud.uri}/out", "--name", "x")
    return convert_in_process_of_its_own(*argv, *output, **options)


def _written(cloud: Store, tmp_path: Path) -> dict[str, str]:
    return _of_shards(cloud.get_folder("out", tmp_path / "fetched"))


def _images_read(cloud: Store) -> Counter[str]:
    """name -> how often its content was asked for."""
    names = cloud.reads(cloud.proxy.take_log())
    return Counter(name for name in names if name.endswith((".jpg", ".png")))


def test_class_folders_from_bucket_to_bucket(cloud: Store, photos: Path, tmp_path: Path) -> None:
    """The same files as from the same local folder, each image read by one GET and nothing else."""
    cloud.put_folder(photos, "photos")
    shards = ("--num_shards", "3", NONE_BAD)
    expected = _local(tmp_path, "--images", str(photos), *shards)
    done = _run(cloud, "--images", f"{cloud.uri}/photos", *shards)
    assert done.returncode == 0, done.stderr
    log = cloud.proxy.take_log()
    assert _written(cloud, tmp_path) == expected
    assert not [name for name in cloud.names() if ".incomplete" in name]

    of_images = [request for request in log if cloud.name_of(request).startswith("photos/")]
    assert Counter(cloud.reads(of_images)) == {f"photos/{name}": 1 for name in NAMES}
    assert len(of_images) == len(NAMES)
    assert not [request for request in log if cloud.is_about_bucket(request)]


def test_a_table_in_the_bucket(cloud: Store, photos: Path, tmp_path: Path) -> None:
    """A CSV beside the images labels them, here as there; verify and index understand the result."""
    table = "filename,label\n" + "".join(f"{name},l{i % 5}\n" for i, name in enumerate(NAMES))
    write_files(str(tmp_path), {"labels.csv": table})
    cloud.put_folder(photos, "photos")
    cloud.put("labels.csv", table.encode())
    options = ("--num_shards", "2", "--compression", "gzip", NONE_BAD)
    labels = str(tmp_path / "labels.csv")
    expected = _local(tmp_path, "--images", str(photos), "--labels", labels, *options)
    argv = ("--images", f"{cloud.uri}/photos", "--labels", f"{cloud.uri}/labels.csv")
    done = _run(cloud, *argv, *options)
    assert done.returncode == 0, done.stderr
    assert _written(cloud, tmp_path) == expected

    verified = _command("verify", f"{cloud.uri}/out")
    assert (verified.returncode, verified.stderr) == (0, "")
    assert verified.stdout == f"{cloud.uri}/out: 2 shards, 40 examples, all well\n"


def _command(*argv: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "beam_pipeline", *argv]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("cloud", ["gs"], indirect=True)
def test_the_readme_command(cloud: Store, photos: Path, tmp_path: Path) -> None:
    """The README's command for buckets, here rather than on Dataflow, with a bucket that is there."""
    text = Path(REPOSITORY, "README.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^beam-tfrecord (.*gs://.*) --runner=\w+$", text, re.MULTILINE)
    cloud.put_folder(photos, "photos")
    done = _command(*command.replace("gs://my-bucket", cloud.uri).split())
    assert done.returncode == 0, done.stderr
    assert "\nWrote 40 examples, " in done.stdout
    assert "tfrecords/manifest.json" in cloud.names()


def test_verify_and_index(cloud: Store, photos: Path, tmp_path: Path) -> None:
    """An index in the bucket is the one that is written here; a byte that changed is found."""
    output = tmp_path / "local"
    assert convert("--images", str(photos), "--output", str(output), NONE_BAD) == 0
    cloud.put_folder(output, "out")
    assert _command("index", f"{cloud.uri}/out").returncode == 0
    assert _command("index", str(output)).returncode == 0
    assert _of_shards(cloud.get_folder("out", tmp_path / "fetched")) == _of_shards(output)

    (shard,) = (name for name in cloud.names("out") if ".tfrecord-" in name)
    content = bytearray(cloud.get(shard))
    content[100] ^= 1
    cloud.put(shard, bytes(content))
    verified = _command("verify", f"{cloud.uri}/out")
    assert verified.returncode == 1
    assert f"{cloud.uri}/{shard}" in verified.stderr


def test_names_of_any_characters(cloud: Store, tmp_path: Path) -> None:
    """Wildcards, percent signs, spaces and accents are parts of names."""
    write_pictures(str(tmp_path / "photos"), ODD_NAMES)
    cloud.put_folder(tmp_path / "photos", "photos")
    expected = _local(tmp_path, "--images", str(tmp_path / "photos"), NONE_BAD)
    done = _run(cloud, "--images", f"{cloud.uri}/photos", NONE_BAD)
    assert done.returncode == 0, done.stderr
    assert _written(cloud, tmp_path) == expected


@pytest.mark.promise("bucket_retries")
@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=503, probability=0.05),
        Fault(status=429, probability=0.05),
        Fault(cut=True, probability=0.05),
        Fault(delay=0.5, probability=0.05),
    ],
    ids=["503", "429", "cut", "late"],
)
def test_one_request_in_twenty_fails(
    cloud: Store, photos: Path, tmp_path: Path, fault: Fault
) -> None:
    """Whatever it was for: the same bytes, nothing left out."""
    cloud.put_folder(photos, "photos")
    argv = ("--num_shards", "8", NONE_BAD)
    expected = _local(tmp_path, "--images", str(photos), *argv)
    cloud.proxy.spoil(fault)
    done = _run(cloud, "--images", f"{cloud.uri}/photos", *argv)
    assert done.returncode == 0, done.stderr
    assert sum(request.spoilt for request in cloud.proxy.take_log()) >= 2
    assert _written(cloud, tmp_path) == expected


@pytest.mark.promise("bucket_retries")
def test_each_verb_fails_now_and_then(cloud: Store, photos: Path, tmp_path: Path) -> None:
    """The first two requests of each kind that a job makes are refused or unheard."""
    cloud.put_folder(photos, "photos")
    expected = _local(tmp_path, "--images", str(photos), NONE_BAD)
    faults = [Fault(*kind, status=503, times=1) for kind in cloud.kinds]
    faults += [Fault(*kind, cut=True, times=1) for kind in cloud.kinds]
    cloud.proxy.spoil(*faults)
    done = _run(cloud, "--images", f"{cloud.uri}/photos", NONE_BAD)
    assert done.returncode == 0, done.stderr
    assert [fault.times for fault in faults] == [0] * 8
    assert _written(cloud, tmp_path) == expected


@pytest.mark.promise("object_gone")
def test_an_object_that_is_gone_or_may_not_be_read(
    cloud: Store, photos: Path, tmp_path: Path
) -> None:
    """Is a dead letter that says which; the rest is written."""
    cloud.put_folder(photos, "photos")
    cloud.proxy.spoil(
        Fault("GET", r"/photos/a/0\.png(\?|\Z)", status=403, message="you have no access"),
        Fault("GET", r"/photos/b/1\.jpg(\?|\Z)", status=404, message="No such object"),
    )
    done = _run(cloud, "--images", f"{cloud.uri}/photos", ALL_BAD)
    assert done.returncode == 0, done.stderr
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
def test_an_input_bucket_that_cannot_be_listed(cloud: Store, tmp_path: Path) -> None:
    """Is an error before the job, which names the bucket, or the permission."""
    out = ("--output", str(tmp_path / "out"))
    done = convert_in_process_of_its_own(
        "--images", f"{cloud.scheme}://no-such-bucket/photos", *out
    )
    assert done.returncode == 1
    missing = f"{cloud.container} {cloud.scheme}://no-such-bucket"
    assert f"error: {missing} does not exist" in done.stderr
    cloud.proxy.spoil(Fault(*cloud.kinds.list, status=403, message="who are you?"))
    done = convert_in_process_of_its_own("--images", f"{cloud.uri}/photos", *out)
    assert done.returncode == 1
    denied = f"permission {cloud.permissions['list']} on {cloud.container} {cloud.uri} is missing"
    assert denied in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.promise("bucket_denied")
@pytest.mark.parametrize("verb", ["create", "delete"])
def test_an_output_bucket_that_cannot_be_written(cloud: Store, photos: Path, verb: str) -> None:
    """Is an error before the job as well, and no image has been read."""
    kind = {"create": cloud.kinds.write, "delete": cloud.kinds.delete}[verb]
    cloud.put_folder(photos, "photos")
    cloud.proxy.spoil(Fault(*kind, status=403, message="not you"))
    done = _run(cloud, "--images", f"{cloud.uri}/photos")
    assert done.returncode == 1
    denied = f"permission {cloud.permissions[verb]} on {cloud.container} {cloud.uri} is missing"
    assert denied in done.stderr
    assert "Traceback" not in done.stderr
    assert not _images_read(cloud)


def test_an_output_bucket_that_is_not_there(cloud: Store, photos: Path) -> None:
    """Is named before the job."""
    done = convert_in_process_of_its_own(
        "--images", str(photos), "--output", f"{cloud.scheme}://no-such-bucket/out"
    )
    assert done.returncode == 1
    missing = f"{cloud.container} {cloud.scheme}://no-such-bucket"
    assert f"error: {missing} does not exist" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.promise("bucket_two_jobs")
def test_a_shard_of_another_job_is_not_touched(cloud: Store, photos: Path, tmp_path: Path) -> None:
    """A shard that turns up in the folder while the job runs stays, and the job fails and says why."""
    cloud.put_folder(photos, "photos")
    shard = "out/x-train.tfrecord-00000-of-00001"
    argv = ("--images", f"{cloud.uri}/photos", NONE_BAD)
    output = ("--output", f"{cloud.uri}/out", "--name", "x")
    # Between the look at the empty folder and the first image: the other job.
    cloud.proxy.spoil(Fault(*cloud.kinds.read, delay=3, times=1))
    with job(*argv, *output) as running:
        wait_until(lambda: "out/.incomplete/plan.json" in cloud.names(), running)
        cloud.put(shard, b"another job's")
        _, stderr = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 1
    assert f"another job is writing to this folder: {cloud.uri}/{shard}" in stderr
    assert cloud.get(shard) == b"another job's"
    assert "out/manifest.json" not in cloud.names()


def test_overwrite_replaces_an_earlier_data_set(cloud: Store, photos: Path, tmp_path: Path) -> None:
    """Without it the folder is not touched; with it nothing of the earlier run is left."""
    cloud.put_folder(photos, "photos")
    cloud.put("out/notes.txt", b"mine")
    argv = ("--images", f"{cloud.uri}/photos", NONE_BAD)
    assert _run(cloud, *argv, "--num_shards", "5").returncode == 2
    assert cloud.names("out") == ["out/notes.txt"]
    assert _run(cloud, *argv, "--num_shards", "5", "--overwrite").returncode == 0
    done = _run(cloud, *argv, "--num_shards", "2")
    assert done.returncode == 2
    assert "is not empty" in done.stderr
    assert _run(cloud, *argv, "--num_shards", "2", "--overwrite").returncode == 0
    assert [name for name in cloud.names("out") if "tfrecord" in name] == [
        "out/x-train.tfrecord-00000-of-00002",
        "out/x-train.tfrecord-00001-of-00002",
    ]
    assert cloud.get("out/notes.txt") == b"mine"


def test_a_job_killed_half_way_leaves_no_shard(cloud: Store, photos: Path) -> None:
    """What of a shard was sent is nowhere to be seen, and no manifest either."""
    cloud.put_folder(photos, "photos")
    cloud.proxy.spoil(Fault(*cloud.kinds.read, delay=60, skip=20))
    argv = ("--images", f"{cloud.uri}/photos", "--output", f"{cloud.uri}/out")
    with job(*argv, stderr=subprocess.DEVNULL) as running:
        wait_until(lambda: sum(_images_read(cloud).values()), running)
    cloud.proxy.spoil()
    assert [name for name in cloud.names("out") if ".incomplete" not in name] == []


def _without_credentials(tmp_path: Path, **variables: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if "GOOGLE" not in name}
    kept.pop("STORAGE_EMULATOR_HOST", None)
    return {**kept, "CLOUDSDK_CONFIG": str(tmp_path), **variables}


@pytest.mark.parametrize("cloud", ["gs"], indirect=True)
@pytest.mark.promise("no_credentials")
def test_no_credentials(cloud: Store, tmp_path: Path) -> None:
    """Are missed at once, by all commands, with what to do about it."""
    environment = _without_credentials(tmp_path)
    for argv in (
        ["convert", "--images", "gs://b/photos", "--output", str(tmp_path / "out")],
        ["convert", "--images", str(tmp_path), "--output", "gs://b/out"],
        ["verify", "gs://b/out"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "beam_pipeline", *argv],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 2
        assert "gs://: no credentials found on this machine" in done.stderr
        assert "gcloud auth application-default login" in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("cloud", ["gs"], indirect=True)
@pytest.mark.parametrize("content", [None, "{not JSON", '{"type": "service_account"}', "{}"])
def test_a_credentials_file_that_is_no_use(
    cloud: Store, tmp_path: Path, content: str | None
) -> None:
    """One that is missing or broken is named."""
    path = tmp_path / "key.json"
    if content is not None:
        path.write_text(content)
    done = convert_in_process_of_its_own(
        *("--images", "gs://b/photos", "--output", str(tmp_path / "out")),
        env=_without_credentials(tmp_path, GOOGLE_APPLICATION_CREDENTIALS=str(path)),
        timeout=60,
    )
    assert done.returncode == 2
    assert "gs://: credentials cannot be used" in done.stderr
    assert str(path) in done.stderr
    assert "Traceback" not in done.stderr


def test_the_library_is_not_installed(tmp_path: Path) -> None:
    """The command that installs it is named; local files do without it."""
    write_pictures(str(tmp_path / "photos"), ["a/1.jpg"])
    script = (
        "import sys\n"
        "sys.modules['google.cloud.storage'] = None\n"
        "from beam_pipeline.cli import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )

    def run(images: str) -> subprocess.CompletedProcess[str]:
        argv = ["convert", "--images", images, "--output", str(tmp_path / "out")]
        return subprocess.run(
            [sys.executable, "-c", script, *argv], capture_output=True, text=True, check=False
        )

    done = run("gs://b/photos")
    assert done.returncode == 2
    assert "pip install '.[gcp]' in the checkout" in done.stderr
    assert run(str(tmp_path / "photos")).returncode == 0
