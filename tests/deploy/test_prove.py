"""prove.sh: the same set on Dataflow and here, compared; nothing stays behind, and nothing else goes."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from beam_pipeline.core.dataset.estimate import Machines, Prices, Work
from beam_pipeline.core.errors import UsageError
from tests.deploy.tools import DATAFLOW, load_script
from tests.engines import test_dataflow
from tests.engines.fake_dataflow import PROJECT, REGION, FakeDataflow, Received, Step
from tests.engines.test_dataflow import staged
from tests.gcs.cloud import Cloud
from tests.gcs.proxy import Fault
from tests.harness import REPOSITORY, wait_until
from tests.pictures import write_pictures

PROVE = load_script(DATAFLOW / "prove.py")
SCRIPT = DATAFLOW / "prove.sh"
service = test_dataflow.service
ARGV = ("my-project", "us-east1", "my-bucket")
JOB = {"createTime": "2026-01-01T00:00:00Z", "currentStateTime": "2026-01-01T00:05:12.500000001Z"}


def test_usage_has_the_units_of_the_metrics() -> None:
    """Seconds of vCPUs, MB seconds of memory, GB of shuffle."""
    metrics = {
        "TotalVcpuTime": 7200.0,
        "TotalMemoryUsage": 16 * 1024 * 1800.0,
        "TotalShuffleDataProcessed": 0.002,
        "BillableShuffleDataProcessed": 0.0005,
    }
    assert PROVE.usage_of(JOB, metrics) == PROVE.Usage(312.5, 2.0, 8.0, 2e6, 5e5)
    begun = {**JOB, "startTime": "2026-01-01T00:05:00.5Z"}
    assert PROVE.usage_of(begun, {}) == PROVE.Usage(12.0, None, None, None, None)


def test_the_cost_is_of_what_was_measured() -> None:
    """vCPUs, memory and billed shuffle; without one of them there is none."""
    prices = Prices(vcpu_hour=0.5, memory_gb_hour=0.25, shuffle_gb=2.0)
    usage = PROVE.Usage(60.0, 2.0, 8.0, 4e9, 1e9)
    assert PROVE.cost_of(usage, prices) == 5.0
    assert PROVE.cost_of(PROVE.Usage(60.0, 2.0, 8.0, None, None), prices) is None


def test_the_table() -> None:
    """Each figure of the job beside that of the plan."""
    machines = Machines(workers=2, vcpus=4, memory_gb=16.0)
    work = Work(samples=0, image_bytes=0, reference_bytes=1000, listed=0, joined=False, shards=1)
    plan = PROVE.planned_usage(work, machines, Prices())
    found = PROVE.Usage(312.6, 0.3474, None, 2_000_000.0, 1e6)
    assert list(PROVE.table(found, plan, Prices())) == [
        "                          Dataflow          plan",
        "  job time                   313 s         180 s",
        "  vCPU hours                 0.347         0.400",
        "  memory, GB hours    not reported         1.600",
        "  shuffled                  2.0 MB        1.0 kB",
        "  cost, computed      not reported    0.0281 USD",
    ]


@pytest.mark.parametrize(
    ("file", "region", "named", "lines"),
    [
        ("", "us-central1", "us-central1, 2025", 1),
        ("", "europe-west4", "us-central1, 2025", 2),
        ("mine.json", "europe-west4", "mine.json", 1),
    ],
)
def test_prices_are_named(file: str, region: str, named: str, lines: int) -> None:
    """With their region and year, or their file; a region that they are not of is told."""
    told = list(PROVE.price_lines(Prices(), file, region))
    assert f"the prices of {named}. " in told[0]
    assert len(told) == lines


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--labels", "a.csv"], "--labels are those of --images"),
        (["--workers", "0"], "--samples and --workers must be at least 1"),
        (["--", "--output", "gs://b/c"], "--output is chosen by the proof itself"),
        (["--", "--num-workers=3"], "--num_workers is chosen by the proof itself"),
        (["--", "--worker_machine_type=x"], "--worker_machine_type is chosen by the proof"),
    ],
)
def test_options_that_cannot_be(argv: list[str], message: str) -> None:
    """They are refused before anything is made."""
    with pytest.raises(UsageError, match=message):
        PROVE.parse([*ARGV, *argv])


def test_options_behind_two_dashes() -> None:
    """Go to both conversions as they stand."""
    further = ["--splits", "train=0.9,test=0.1", "--no_use_public_ips"]
    arguments = PROVE.parse([*ARGV, "--workers", "2", "--", *further])
    assert (arguments.workers, arguments.convert) == (2, further)
    assert arguments.dataflow_endpoint == PROVE.ENDPOINT


def test_metrics_that_come_late_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until they are there, and no longer change."""
    monkeypatch.setattr(PROVE, "METRICS_EVERY_S", 0.0)
    answers: Iterator[dict[str, float]] = iter(
        [{}, {}, {"TotalVcpuTime": 1.0}, {"TotalVcpuTime": 2.0}, {"TotalVcpuTime": 2.0}]
    )

    class Late:
        def metrics(self, _: str) -> dict[str, float]:
            return next(answers)

    assert PROVE.final_metrics(Late(), "id") == {"TotalVcpuTime": 2.0}
    assert list(answers) == []


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
    return [PROJECT, REGION, cloud.bucket, "--", f"--dataflow_endpoint={service.url}"]


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
    done = _prove(*argv[:3], "--samples", "50", *argv[3:])
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert any(line.startswith("The same bytes here and on Dataflow: 9 files, ") for line in lines)
    (at,) = (i for i, line in enumerate(lines) if line.startswith("  job time"))
    assert lines[at].split()[:4] == ["job", "time", "312", "s"]
    assert lines[at + 1].split()[:3] == ["vCPU", "hours", "0.347"]
    assert lines[at + 2].split()[:4] == ["memory,", "GB", "hours", "1.389"]
    assert lines[at + 3].split()[:3] == ["shuffled", "2.0", "MB"]
    assert lines[at + 4].split()[:4] == ["cost,", "computed", "0.0244", "USD"]
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
    command = _command(*argv[:3], "--samples", "5", *argv[3:])
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


@pytest.fixture
def inner(
    cloud: Cloud,
    service: FakeDataflow,
    quick: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., int]:
    """The inner process in this one, and then what the outer one does about it."""
    monkeypatch.setattr(PROVE, "METRICS_EVERY_S", 0.01)
    monkeypatch.setattr(PROVE, "CANCEL_EVERY_S", 0.01)
    (tmp_path / "here").mkdir()
    made = PROVE.Made(
        "beam-tfrecord-proof-0", f"{cloud.uri}/beam-tfrecord-proof-0", str(tmp_path / "here")
    )

    def run(arguments: argparse.Namespace) -> int:
        code: int = PROVE.prove(arguments, made)
        endpoint = PROVE.Service(PROJECT, REGION, service.url)
        PROVE.clean_up(made, endpoint)
        return code

    return run


quick = test_dataflow.quick


@pytest.mark.dataflow
def test_bytes_that_differ(
    cloud: Cloud,
    service: FakeDataflow,
    argv: list[str],
    inner: Callable[..., int],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each file is named, the rest is told all the same, and the exit code is 1."""
    write_pictures(str(tmp_path / "photos"), [f"{'ab'[i % 2]}/{i}.jpg" for i in range(8)])
    run = _runs(cloud, service, tmp_path / "staged")

    def spoil(job: Received) -> None:
        run(job)
        folder = "beam-tfrecord-proof-0/tfrecords"
        shard = f"{folder}/proof-train.tfrecord-00001-of-00002"
        data = cloud.get(shard)
        cloud.put(shard, data[:-1] + bytes([data[-1] ^ 1]))
        cloud.delete(f"{folder}/labels.txt")

    service.runs = spoil
    photos = ["--images", str(tmp_path / "photos")]
    assert inner(PROVE.parse([*argv[:3], *photos, *argv[3:], "--num_shards=2"])) == 1
    captured = capsys.readouterr()
    size = len("a\nb\n")
    told = [line for line in captured.err.splitlines() if " differs: " in line]
    assert told[0] == f"labels.txt differs: {size} bytes here, missing on Dataflow"
    assert told[1].startswith("proof-train.tfrecord-00001-of-00002 differs: ")
    assert len(told) == 2
    assert "vCPU hours" in captured.out
    assert _left(cloud) == set()


@pytest.mark.dataflow
def test_a_job_that_fails(
    cloud: Cloud,
    service: FakeDataflow,
    argv: list[str],
    inner: Callable[..., int],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its reason is told, images of a bucket stay where they are, the rest goes."""
    write_pictures(str(tmp_path / "photos"), ["a/1.jpg", "b/2.jpg"])
    cloud.put_folder(tmp_path / "photos", "mine")
    service.script = (Step("RUNNING"), Step("FAILED", {}, (("ERROR", "no quota"),)))
    assert inner(PROVE.parse([*argv[:3], "--images", f"{cloud.uri}/mine", *argv[3:]])) == 1
    assert "ended as FAILED, and says:\nno quota\n" in capsys.readouterr().err
    assert _left(cloud) == {"mine/a/1.jpg", "mine/b/2.jpg"}


@pytest.mark.dataflow
def test_what_cannot_be_removed_is_told(
    cloud: Cloud, service: FakeDataflow, argv: list[str]
) -> None:
    """With the commands that remove it; exit code 1."""
    service.refusal = (403, "PERMISSION_DENIED", "not you")
    cloud.proxy.spoil(Fault("DELETE", "shape_0003", status=403))
    done = _prove(*argv[:3], "--samples", "5", *argv[3:])
    assert done.returncode == 1
    assert "not you" in done.stderr
    *_, head, jobs, cancel, remove = done.stderr.splitlines()
    assert head == "Remove by hand what is left:"
    where = f"--region={REGION} --project={PROJECT}"
    assert jobs.startswith(f"  gcloud dataflow jobs list {where} --status=active --filter=name=")
    assert cancel == f"  gcloud dataflow jobs cancel JOB_ID {where}"
    folder = remove.removeprefix("  gcloud storage rm -r ")
    assert [f"gs://{cloud.bucket}/{name}" for name in _left(cloud)] == [
        f"{folder}/images/shape_0003.png"
    ]
