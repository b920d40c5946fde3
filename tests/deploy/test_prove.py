"""prove.sh: the same set on Dataflow and here, compared; nothing stays behind, and nothing else goes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from beam_pipeline.core.errors import ConversionError
from tests.buckets.proxy import Fault
from tests.buckets.services import GoogleStore as Cloud
from tests.deploy.tools import DATAFLOW, load_script
from tests.engines import test_dataflow
from tests.engines.fake_dataflow import PROJECT, REGION, FakeDataflow, Received, Step
from tests.engines.test_dataflow import staged
from tests.harness import REPOSITORY, wait_until
from tests.pictures import write_pictures

PROVE = load_script(DATAFLOW / "prove.py")
SCRIPT = DATAFLOW / "prove.sh"
service = test_dataflow.service
ARGV = ("my-project", "us-east1", "my-bucket")
JOB = {"createTime": "2026-01-01T00:00:00Z", "currentStateTime": "2026-01-01T00:05:12.500000001Z"}


def test_the_usage_of_a_job_has_the_units_of_the_metrics() -> None:
    """Seconds of vCPUs, MB seconds of memory, GB of shuffle."""
    metrics = {
        "TotalVcpuTime": 7200.0,
        "TotalMemoryUsage": 16 * 1024 * 1800.0,
        "TotalShuffleDataProcessed": 0.002,
    }
    assert list(PROVE.usage(JOB, metrics)) == [
        "  job time 312 s",
        "  2.000000 vCPU hours",
        "  8.000000 GB hours of memory",
        "  0.002000 GB shuffled",
        "  no BillableShuffleDataProcessed yet",
    ]
    assert next(PROVE.usage({**JOB, "startTime": "2026-01-01T00:05:00.5Z"}, metrics)) == (
        "  job time 12 s"
    )


def test_an_environment_without_the_extra(tmp_path: Path) -> None:
    """It is said at once, and how to mend it."""
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    done = _prove(*ARGV, environment={"PYTHON": str(python)})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("prove.sh: error: ")
    assert "pip install '.[gcp]'" in done.stderr


def _command(*argv: str, environment: dict[str, str] | None = None) -> dict[str, Any]:
    return {
        "args": ["bash", SCRIPT, *argv],
        "env": {**os.environ, "PYTHON": sys.executable, **(environment or {})},
        "cwd": "/",
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "text": True,
    }


def _prove(*argv: str, environment: dict[str, str] | None = None) -> Any:
    return subprocess.run(**_command(*argv, environment=environment), check=False, timeout=300)


# --- against the stand-in --------------------------------------------------------------------------

OTHERS = ("photos/1.jpg", "beam-tfrecord-proof/1.jpg", ".beam-tfrecord-staging/1")


@pytest.fixture
def argv(cloud: Cloud, service: FakeDataflow, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A proof in a bucket that holds other things."""
    monkeypatch.setenv("PYTHONPATH", REPOSITORY)
    for name in OTHERS:
        cloud.put(name, b"x")
    service.usage = {"cpu_num_seconds": 1250.0, "mem_mb_seconds": 5_120_000.0}
    return [PROJECT, REGION, cloud.bucket, f"--dataflow_endpoint={service.url}"]


def _runs(cloud: Cloud, service: FakeDataflow, folder: Path) -> Callable[[Received], None]:
    """Does a job as the service would, on the engine in Beam's own package."""

    def run(_: Received) -> None:
        folder.mkdir()
        (folder / "pipeline.pb").write_bytes(staged(cloud, service)["pipeline.pb"])
        script = os.path.join(REPOSITORY, "tests/engines/run_staged.py")
        subprocess.run(
            [sys.executable, script, str(folder / "pipeline.pb")], capture_output=True, check=True
        )

    return run


def _left(cloud: Cloud) -> set[str]:
    return set(cloud.names()) - set(OTHERS)


@pytest.mark.dataflow
def test_a_proof(cloud: Cloud, service: FakeDataflow, argv: list[str], tmp_path: Path) -> None:
    """Bytes, metrics and plan are told; afterwards the bucket is as it was."""
    service.runs = _runs(cloud, service, tmp_path / "staged")
    service.usage = {
        **service.usage,
        "shuffle_service_actual_gb": 0.002,
        "shuffle_service_chargeable_gb": 0.0005,
    }
    done = _prove(*argv, "--samples", "50")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert "The same bytes here and on Dataflow, by the checksums of every shard" in lines
    at = lines.index("On Dataflow:")
    assert lines[at + 1].startswith("  job time 312 s") or lines[at + 1].startswith(
        "  job time 313 s"
    )
    assert lines[at + 2 : at + 6] == [
        "  0.347222 vCPU hours",
        "  1.388889 GB hours of memory",
        "  0.002000 GB shuffled",
        "  0.000500 GB of shuffle billed",
    ]
    (job,) = service.jobs
    (pool,) = job.body["environment"]["workerPools"]
    assert (pool["numWorkers"], pool["machineType"]) == (1, "e2-standard-4")
    assert _left(cloud) == set()
    assert set(cloud.names()) == set(OTHERS)
    assert [name for name in os.listdir("/tmp") if name.startswith(job.body["name"])] == []


@pytest.mark.dataflow
def test_an_interrupted_proof(cloud: Cloud, service: FakeDataflow, argv: list[str]) -> None:
    """Ctrl-C cancels the job, waits for its end, and removes what was made; exit code 130."""
    service.script = (Step("RUNNING"),)
    command = _command(*argv, "--samples", "5")
    with subprocess.Popen(**command) as process:
        wait_until(lambda: service.looks >= 2, process)
        assert _left(cloud)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 130, out + err
    (job,) = service.jobs
    assert service.state(job) == "CANCELLED"
    assert f"Cancelling job {job.id}" in out
    assert _left(cloud) == set()
    assert "Traceback" not in err


@pytest.mark.dataflow
def test_bytes_that_differ(
    cloud: Cloud, service: FakeDataflow, argv: list[str], tmp_path: Path
) -> None:
    """A shard with other bytes than its manifest records is an error, and everything is removed."""
    write_pictures(str(tmp_path / "photos"), [f"{'ab'[i % 2]}/{i}.jpg" for i in range(8)])
    run = _runs(cloud, service, tmp_path / "staged")

    def spoil(job: Received) -> None:
        run(job)
        (shard,) = (name for name in cloud.names() if name.endswith("-00001-of-00002"))
        data = cloud.get(shard)
        cloud.put(shard, data[:-1] + bytes([data[-1] ^ 1]))

    service.runs = spoil
    cloud.put_folder(tmp_path / "photos", "mine")
    done = _prove(*argv, "--images", f"{cloud.uri}/mine", "--num_shards=2")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "proof-train.tfrecord-00001-of-00002" in done.stdout + done.stderr
    assert "verify ended with exit code 1" in done.stderr
    assert {name.partition("/")[0] for name in _left(cloud)} == {"mine"}


def test_data_sets_that_differ(tmp_path: Path) -> None:
    """Manifests and class files are compared; the error names the parts."""
    for name, count in (("here", 4), ("there", 5)):
        write_pictures(
            str(tmp_path / name / "in"), [f"{'ab'[i % 2]}/{i}.jpg" for i in range(count)]
        )
        command = [
            "convert",
            f"--images={tmp_path / name / 'in'}",
            f"--output={tmp_path / name / 'out'}",
        ]
        PROVE.beam_tfrecord(*command, "--name=proof")
    PROVE.compare(str(tmp_path / "here/out"), str(tmp_path / "here/out"))
    with pytest.raises(ConversionError, match="the data sets differ in classes, counts, splits"):
        PROVE.compare(str(tmp_path / "here/out"), str(tmp_path / "there/out"))


@pytest.mark.dataflow
def test_a_job_that_fails(
    cloud: Cloud, service: FakeDataflow, argv: list[str], tmp_path: Path
) -> None:
    """Its reason is printed, images of a bucket stay where they are, the rest is removed."""
    write_pictures(str(tmp_path / "photos"), ["a/1.jpg", "b/2.jpg"])
    cloud.put_folder(tmp_path / "photos", "mine")
    service.script = (Step("RUNNING"), Step("FAILED", {}, (("ERROR", "no quota"),)))
    done = _prove(*argv, "--images", f"{cloud.uri}/mine")
    assert done.returncode == 1
    assert "ended as FAILED, with the message:\nno quota\n" in done.stderr
    assert _left(cloud) == {"mine/a/1.jpg", "mine/b/2.jpg"}


@pytest.mark.dataflow
def test_what_cannot_be_removed_is_told(
    cloud: Cloud, service: FakeDataflow, argv: list[str]
) -> None:
    """With the commands that remove it; exit code 1."""
    service.refusal = (403, "PERMISSION_DENIED", "not you")
    cloud.proxy.spoil(Fault("DELETE", "shape_0003", status=403))
    done = _prove(*argv, "--samples", "5")
    assert done.returncode == 1
    assert "not you" in done.stderr
    lines = done.stderr.splitlines()
    at = lines.index("Remove by hand what is left:")
    assert lines[at + 1].startswith("  gcloud dataflow jobs list --status=active --filter=name=")
    folder = lines[at + 2].removeprefix("  gcloud storage rm -r ")
    assert [f"gs://{cloud.bucket}/{name}" for name in _left(cloud)] == [
        f"{folder}/images/shape_0003.png"
    ]
