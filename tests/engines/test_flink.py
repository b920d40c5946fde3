"""The same jobs on Apache Flink: the same bytes, inside the job server and on a cluster that loses a machine."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from beam_pipeline.engines import flink
from beam_pipeline.layouts.registry import LAYOUTS
from tests.buckets.services import GoogleStore as Cloud
from tests.engines import same_bytes
from tests.engines.flink_cluster import Cluster, cluster_of_two, job_server, job_service, wait_until
from tests.harness import REPOSITORY, convert_in_process_of_its_own, digests, shard_names
from tests.pictures import picture, write_files, write_pictures
from tests.rows import in_rows

pytestmark = pytest.mark.flink


@pytest.fixture(scope="session")
def inside() -> tuple[str, ...]:
    """Options that run a job on the Flink inside Beam's job server."""
    return job_server()


@pytest.fixture(scope="module")
def cluster(
    inside: tuple[str, ...],
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[Cluster]:
    """A cluster whose workers find the emulated bucket, if there is one."""
    folder = tmp_path_factory.mktemp("flink")
    with pytest.MonkeyPatch.context() as environment:
        if importlib.util.find_spec("gcp_storage_emulator"):
            proxy = request.getfixturevalue("google_servers")[1]
            environment.setenv("STORAGE_EMULATOR_HOST", proxy.url)
        with cluster_of_two(folder, inside) as cluster:
            yield cluster


def test_a_cluster_is_asked(cluster: Cluster) -> None:
    """Its version, TaskManagers and slots, and whether it tries again."""
    assert flink.ask_cluster(cluster.address) == flink.Cluster("1.19", 2, 2)


@pytest.fixture(scope="module")
def shared_server(cluster: Cluster) -> Iterator[tuple[str, ...]]:
    """Options that run a job on the cluster by way of a job server that all jobs share."""
    with job_service(cluster) as options:
        yield options


@pytest.mark.promise("same_bytes")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_on_one_cluster(
    cluster: Cluster,
    shared_server: tuple[str, ...],
    layout: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One job after the other on the same cluster; all files are those of the default engine."""
    monkeypatch.chdir(tmp_path)
    before = cluster.finished()
    same_bytes.assert_proof_has_same_bytes(layout, shared_server)
    assert cluster.finished() == before + 1


@pytest.mark.promise("same_bytes")
def test_a_data_set_has_the_same_bytes(
    inside: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inside the job server, with workers in the launcher's process; with a file of labels for each image."""
    monkeypatch.chdir(tmp_path)
    same_bytes.assert_proof_has_same_bytes("yolo", inside)


@pytest.mark.parametrize("script", same_bytes.SCRIPTS)
def test_a_pipeline_of_ones_own(inside: tuple[str, ...], script: str, tmp_path: Path) -> None:
    """The public transforms write the same bytes; a step after the commit runs once."""
    same_bytes.assert_example_has_same_bytes(script, inside, tmp_path)


@pytest.mark.timeout(900)  # a job has some 60 tasks there, and the machine may be busy
def test_the_page_s_command_runs(cluster: Cluster, tmp_path: Path) -> None:
    """As it stands, but for the address."""
    text = Path(REPOSITORY, "docs/flink.md").read_text(encoding="utf-8")
    (command,) = re.findall(
        r"^beam-tfrecord (convert .*--runner=FlinkRunner.*localhost.*)$", text, re.MULTILINE
    )
    write_pictures(f"{tmp_path}/photos", ["cat/1.jpg", "dog/2.jpg"])
    argv = shlex.split(command)[1:]
    assert argv.pop() == "--flink_master=localhost:8081"
    done = convert_in_process_of_its_own(*argv, *cluster.options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Wrote 2 examples" in done.stdout


def test_dead_letters_and_resume(inside: tuple[str, ...], tmp_path: Path) -> None:
    """What is left out is left out for the same reasons; a second run finds nothing to do."""
    same_bytes.assert_dead_letters_and_resume(inside, tmp_path)


@in_rows
def test_what_ends_a_job_is_one_error(
    inside: tuple[str, ...], images: str, options: str, code: int, message: str, tmp_path: Path
) -> None:
    """The reason and what to do, no trace of Java or Python, and no job server is left running."""
    write_files(f"{tmp_path}/bad", {f"a/{i}.jpg": "no image" for i in range(4)})
    write_files(str(tmp_path), {"good/b/1.jpg": picture(), "empty.jar": ""})
    argv = ("--images", images, "--output", "out", *inside, *options.split())
    done = convert_in_process_of_its_own(*argv, cwd=tmp_path)
    assert done.returncode == code
    *progress, line = done.stderr.splitlines()
    assert line.startswith(f"beam-tfrecord: error: {message}")
    assert [told for told in progress if not re.match(r"\d+ (samples?|images? listed)", told)] == []
    assert same_bytes.processes_in(tmp_path) == []
    assert code == 1 or not (tmp_path / "out").exists()


def test_a_cluster_from_bucket_to_bucket(cluster: Cluster, cloud: Cloud, tmp_path: Path) -> None:
    """The same files as from the same local folder, written here."""
    write_pictures(f"{tmp_path}/photos", [f"{'ab'[i % 2]}/{i}.jpg" for i in range(40)])
    cloud.put_folder(tmp_path / "photos", "photos")
    for images, output, options in (
        ("photos", "here", ()),
        (f"{cloud.uri}/photos", f"{cloud.uri}/out", cluster.options),
    ):
        argv = ("--images", images, "--output", output, "--name", "d", "--num_shards", "4")
        done = convert_in_process_of_its_own(*argv, *options, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    there = cloud.get_folder("out", tmp_path / "there")
    assert digests(there) == digests(tmp_path / "here")
    assert not [name for name in cloud.names() if ".incomplete" in name]


def _slow_images(folder: Path) -> list[str]:
    """Arguments of a conversion that takes some seconds, since every image is decoded."""
    (folder / "photos/a").mkdir(parents=True)
    first = folder / "photos/a/0.png"
    Image.new("RGB", (4000, 3000), "teal").save(first)
    for i in range(1, 100):
        os.link(first, folder / f"photos/a/{i}.png")
    return ["--images", "photos", "--image_check=full", "--num_shards", "16", "--name", "d"]


def _begin(argv: list[str], cluster: Cluster, folder: Path) -> subprocess.Popen[str]:
    """Begins to convert into `there`; returns when some of 16 shards are written."""
    job = _launch(argv, cluster, folder)
    wait_until(lambda: len(_receipts(folder / "there")) >= 4, "four shards", 90)
    assert len(shard_names(folder / "there")) < 14
    return job


def _launch(argv: list[str], cluster: Cluster, folder: Path) -> subprocess.Popen[str]:
    """Begins to convert into `there`."""
    argv = ["convert", *argv, *cluster.options, "--output", "there", "--yes"]
    return subprocess.Popen(
        [sys.executable, "-m", "beam_pipeline", *argv],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _receipts(folder: Path) -> list[str]:
    receipts = folder / ".receipts"
    return sorted(os.listdir(receipts)) if receipts.exists() else []


def _inodes(folder: Path) -> dict[str, int]:
    """Receipt -> what tells it from another of the same name; it is written behind its shard."""
    return {name: (folder / ".receipts" / name).stat().st_ino for name in _receipts(folder)}


@pytest.mark.promise("flink_ctrl_c")
def test_ctrl_c_cancels_the_job_on_the_cluster(cluster: Cluster, tmp_path: Path) -> None:
    """The cluster writes no more; --resume, here on the default engine, ends in the same bytes."""
    argv = _slow_images(tmp_path)
    job = _begin(argv, cluster, tmp_path)
    job.send_signal(signal.SIGINT)
    _, errors = job.communicate(timeout=60)
    assert (job.returncode, errors.splitlines()[-1]) == (
        130,
        "beam-tfrecord: interrupted. The same command with --resume continues",
    )
    wait_until(lambda: cluster.newest_job()["state"] == "CANCELED", "the job is cancelled", 30)
    wait_until(lambda: not cluster.workers(), "the workers end", 30)
    assert "manifest.json" not in os.listdir(tmp_path / "there")
    same_bytes.assert_converted_alike([*argv, "--resume"], (), tmp_path)


@pytest.mark.promise("flink_launcher")
@pytest.mark.timeout(600)
def test_a_launcher_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    """The next start names the job that goes on, and writes nothing; the command that it prints cancels it."""
    argv = _slow_images(tmp_path)
    before = cluster.ask("jobs/overview")["jobs"]
    job = _launch(argv, cluster, tmp_path)
    wait_until(
        lambda: len(cluster.ask("jobs/overview")["jobs"]) > len(before),
        "the cluster has the job",
        240,
    )
    job.kill()
    job.communicate()
    again = (*argv, *cluster.options, "--output", "there", "--resume")
    done = convert_in_process_of_its_own(*again, cwd=tmp_path)
    assert done.returncode == 1
    found = re.fullmatch(
        r"beam-tfrecord: error: job (\w+) is still running at (http\S+), and writes to (\S+)\. Wait for "
        r"its end, or cancel it: (curl .*)\. Then --resume continues from its shards",
        done.stderr.splitlines()[-1],
    )
    assert found
    job_id, url, output, command = found.groups()
    assert url == f"http://{cluster.address}/jobs/{job_id}"
    assert output == str(tmp_path / "there")
    subprocess.run(["bash", "-c", command], check=True, capture_output=True)
    wait_until(lambda: cluster.newest_job()["state"] == "CANCELED", "the job is cancelled", 60)
    assert "manifest.json" not in os.listdir(tmp_path / "there")


@pytest.mark.timeout(600)
def test_no_wait_leaves_the_job_to_the_cluster(cluster: Cluster, tmp_path: Path) -> None:
    """The last lines are its id and its page; it ends without the launcher, in the same bytes."""
    write_pictures(f"{tmp_path}/photos", [f"{'ab'[i % 2]}/{i}.jpg" for i in range(8)])
    argv = ("--images", "photos", "--name", "d", "--num_shards", "2")
    done = convert_in_process_of_its_own(
        *argv, *cluster.options, "--no_wait", "--output", "there", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    job = cluster.newest_job()
    url = f"http://{cluster.address}/jobs/{job['jid']}"
    assert done.stdout.splitlines()[-2:] == [f"Job {job['jid']}", url]
    assert job["name"].startswith("beam-tfrecord-d-")
    wait_until(lambda: cluster.newest_job()["state"] == "FINISHED", "the job ends", 240)
    assert convert_in_process_of_its_own(*argv, "--output", "here", cwd=tmp_path).returncode == 0
    assert digests(tmp_path / "there") == digests(tmp_path / "here")


@pytest.mark.promise("task_manager")
def test_a_task_manager_is_killed_while_it_writes(
    inside: tuple[str, ...], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The other does its part: the same bytes, every shard and receipt once, nothing left behind."""
    argv = _slow_images(tmp_path)
    with cluster_of_two(tmp_path_factory.mktemp("flink"), inside) as cluster:
        assert cluster.task_managers() == {"taskmanager-1", "taskmanager-2"}
        job = _begin(argv, cluster, tmp_path)
        lost = next(p["taskmanager-id"] for p in cluster.writing() if p["status"] == "RUNNING")
        cluster.kill(lost)
        written = _inodes(tmp_path / "there")
        _, errors = job.communicate(timeout=180)
        assert job.returncode == 0, errors
        assert cluster.task_managers() == {"taskmanager-1", "taskmanager-2"} - {lost}
        parts = cluster.writing()
        assert [part["status"] for part in parts] == ["FINISHED", "FINISHED"]
        assert lost not in {part["taskmanager-id"] for part in parts}
        assert max(part["attempt"] for part in parts) > 0
        wait_until(lambda: not cluster.workers(), "the workers end", 30)

    assert written.items() <= _inodes(tmp_path / "there").items()  # those were not written again
    here = convert_in_process_of_its_own(*argv, "--output", "here", cwd=tmp_path)
    assert here.returncode == 0, here.stderr
    assert digests(tmp_path / "there") == digests(tmp_path / "here")
    assert _receipts(tmp_path / "there") == _receipts(tmp_path / "here")
    assert ".incomplete" not in os.listdir(tmp_path / "there")
