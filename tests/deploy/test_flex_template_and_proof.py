"""The Flex Template: its parameters, how it launches a job; and prove.sh, which compares it with this machine."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from beam_pipeline.commands import convert
from beam_pipeline.core.errors import ConversionError, UsageError
from tests.buckets.proxy import Fault
from tests.buckets.services import GoogleStore as Cloud
from tests.deploy.tools import DATAFLOW, load_script
from tests.engines import test_dataflow
from tests.engines.fake_dataflow import PROJECT, REGION, FakeDataflow, Received, Step
from tests.engines.test_dataflow import staged
from tests.harness import REPOSITORY, program, python, wait_until
from tests.pictures import write_pictures
from tests.rows import in_rows

# --- flex template ---------------------------------------------------------------------------------

MAIN = load_script(DATAFLOW / "main.py")
MAKE_METADATA = load_script(DATAFLOW / "make_metadata.py")
METADATA = json.loads((DATAFLOW / "metadata.json").read_text(encoding="utf-8"))
PARAMETERS = {parameter["name"]: parameter for parameter in METADATA["parameters"]}

BEHIND = ["--no_wait", "--runner=DataflowRunner", "--sdk_location=container"]


def options_of_the_help() -> set[str]:
    """The options as a person sees them."""
    done = program("convert", "--help", "all", check=True)
    return set(re.findall(r"^  --(\w+)", done.stdout, re.MULTILINE))


def test_parameters_are_the_options_of_convert() -> None:
    """All that the help names, but for those that mean nothing to a template."""
    left_out = set(MAKE_METADATA.LEFT_OUT)
    assert set(PARAMETERS) == options_of_the_help() - left_out
    assert set(PARAMETERS) & left_out == set()
    assert len(PARAMETERS) == len(METADATA["parameters"]) >= 27


def test_metadata_is_what_the_options_give() -> None:
    """make_metadata.py would write the file as it is."""
    assert MAKE_METADATA.metadata() == METADATA
    done = subprocess.run([sys.executable, DATAFLOW / "make_metadata.py", "--check"], check=False)
    assert done.returncode == 0


def test_a_file_that_is_out_of_date_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """--check compares, and without it the file is mended."""
    path = tmp_path / "metadata.json"
    path.write_text(json.dumps({**METADATA, "parameters": METADATA["parameters"][1:]}))
    monkeypatch.setattr(MAKE_METADATA, "METADATA", path)
    assert MAKE_METADATA.main(["--check"]) == 1
    assert "is not that of the options" in capsys.readouterr().err
    assert MAKE_METADATA.main([]) == 0
    assert MAKE_METADATA.main(["--check"]) == 0
    assert path.read_bytes() == (DATAFLOW / "metadata.json").read_bytes()


@in_rows
def test_regexes_tell_good_values_from_bad(name: str, good: list[str], bad: list[str]) -> None:
    """Before a machine is started for them."""
    (regex,) = PARAMETERS[name]["regexes"]
    assert [value for value in good if not re.search(regex, value)] == []
    assert [value for value in bad if re.search(regex, value)] == []


@in_rows
def test_parameters_become_a_command_line(options: dict[str, list[str]]) -> None:
    """Every kind of parameter, and what was left open, among what Dataflow adds."""
    image = "eu.pkg.dev/p/r/image:1"
    assert MAIN.command_line([*options], {"BEAM_TFRECORD_IMAGE": image}) == [
        *("convert", *itertools.chain(*options.values()), "--no_wait", "--runner=DataflowRunner"),
        *(f"--sdk_container_image={image}", "--sdk_location=container"),
    ]


def test_what_dataflow_says_itself_stands() -> None:
    """The runner and the image are added only where none is named."""
    argv = ["--runner=DataflowRunner", "--sdk_container_image=other:1", "--sdk_location=other"]
    variables = {"BEAM_TFRECORD_IMAGE": "image:1"}
    assert MAIN.command_line(argv, variables) == ["convert", *argv, "--no_wait"]
    assert MAIN.command_line([], {}) == ["convert", *BEHIND]


def test_options_that_beam_has_too() -> None:
    """`--labels` is the only name that is ours and Beam's, and main.py tells them apart."""
    from beam_pipeline.launch import beam_parser

    ours = {option.flag for option in convert.options()}
    assert ours & beam_parser()._option_string_actions.keys() == {"--labels"}


@in_rows
def test_values_that_cannot_be_read(
    token: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The launcher's log says which parameter and what it expected."""
    with pytest.raises(UsageError) as found:
        MAIN.command_line([token], {})
    assert str(found.value).startswith(message)
    assert MAIN.run([token]) == 2
    assert message in capsys.readouterr().err


# --- flex launch -----------------------------------------------------------------------------------


service = test_dataflow.service
IMAGE = "europe-west4-docker.pkg.dev/my-project/beam-tfrecord/beam-tfrecord:20260131"
ACCOUNT = "beam-tfrecord-worker@my-project.iam.gserviceaccount.com"


@pytest.fixture
def mine(cloud: Cloud, tmp_path: Path) -> str:
    """A folder of a bucket with some images."""
    write_pictures(str(tmp_path / "mine"), [f"{'ab'[i % 2]}/{i}.jpg" for i in range(8)])
    cloud.put_folder(tmp_path / "mine", "mine")
    return f"{cloud.uri}/mine"


@pytest.mark.dataflow
@in_rows
def test_the_launcher_writes_the_job(
    cloud: Cloud,
    mine: str,
    service: FakeDataflow,
    monkeypatch: pytest.MonkeyPatch,
    argv: list[str],
) -> None:
    """As Dataflow calls it; the job runs in the image, and nothing is submitted from here."""
    monkeypatch.setenv("BEAM_TFRECORD_IMAGE", IMAGE)
    names = {"BUCKET/photos": mine, "BUCKET": cloud.uri, "PROJECT": PROJECT, "REGION": REGION}
    for name, value in {**names, "ACCOUNT": ACCOUNT}.items():
        argv = [token.replace(name, value) for token in argv]
    assert load_script(DATAFLOW / "main.py").run(argv) == 0
    assert service.jobs == []
    job = json.loads(cloud.get("temp/staging/template_launches/1/job_object"))
    environment = job["environment"]
    (pool,) = environment["workerPools"]
    assert (job["name"], job["labels"]) == ("pets", {"team": "pets"})
    assert environment["serviceAccountEmail"] == ACCOUNT
    assert environment["flexResourceSchedulingGoal"] == "FLEXRS_COST_OPTIMIZED"
    images = {harness["containerImage"] for harness in pool["sdkHarnessContainerImages"]}
    assert images == {IMAGE}
    assert [p["name"] for p in pool["packages"] if p["name"].endswith((".whl", ".tar.gz"))] == []


# --- prove ----------------------------------------------------------------------------------------


PROVE = load_script(DATAFLOW / "prove.py")
JOB = {"createTime": "2026-01-01T00:00:00Z", "currentStateTime": "2026-01-01T00:05:12.500000001Z"}
OTHERS = {"photos/1.jpg", "beam-tfrecord-proof/1.jpg", ".beam-tfrecord-staging/1"}


def test_the_usage_of_a_job_has_the_units_of_the_metrics() -> None:
    """Seconds of vCPUs, MB seconds of memory, GB of shuffle."""
    metrics = {"TotalVcpuTime": 7200.0, "TotalMemoryUsage": 16 * 1024 * 1800.0}
    metrics["TotalShuffleDataProcessed"] = 0.002
    assert list(PROVE.usage(JOB, metrics)) == [
        *("  job time 312 s", "  2.000000 vCPU hours", "  8.000000 GB hours of memory"),
        *("  0.002000 GB shuffled", "  no BillableShuffleDataProcessed yet"),
    ]
    begun = {**JOB, "startTime": "2026-01-01T00:05:00.5Z"}
    assert next(PROVE.usage(begun, metrics)) == "  job time 12 s"


def _prove(*argv: str, **variables: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHON": sys.executable, "PYTHONPATH": REPOSITORY, **variables}
    command = ["bash", str(DATAFLOW / "prove.sh"), *argv]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=environment, cwd="/", stdout=pipe, stderr=pipe, text=True)


def _proved(code: int, *argv: str, **variables: str) -> tuple[str, str]:
    """What prove.sh prints, which has to end with this exit code."""
    with _prove(*argv, **variables) as process:
        out, err = process.communicate(timeout=300)
    assert process.returncode == code, out + err
    assert "Traceback" not in err
    return out, err


def test_an_environment_without_the_extra(tmp_path: Path) -> None:
    """It is said at once, and how to mend it."""
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    out, err = _proved(2, "my-project", "us-east1", "my-bucket", PYTHON=str(python))
    assert out == ""
    assert err.startswith("prove.sh: error: ")
    assert "pip install '.[gcp]'" in err


@pytest.fixture
def argv(cloud: Cloud, service: FakeDataflow) -> list[str]:
    """A proof in a bucket that holds other things."""
    for name in OTHERS:
        cloud.put(name, b"x")
    service.usage = {"cpu_num_seconds": 1250.0, "mem_mb_seconds": 5_120_000.0}
    service.usage |= {"shuffle_service_actual_gb": 0.002, "shuffle_service_chargeable_gb": 0.0005}
    return [PROJECT, REGION, cloud.bucket, f"--dataflow_endpoint={service.url}"]


def _runs(cloud: Cloud, service: FakeDataflow, folder: Path) -> Callable[[Received], None]:
    """Does a job as the service would, on the engine in Beam's own package."""

    def run(_: Received) -> None:
        (folder / "pipeline.pb").write_bytes(staged(cloud, service)["pipeline.pb"])
        script = os.path.join(REPOSITORY, "tests/engines/run_staged.py")
        python(script, folder / "pipeline.pb", check=True)

    return run


def _left(cloud: Cloud) -> set[str]:
    return set(cloud.names()) - OTHERS


@pytest.mark.dataflow
def test_a_proof(cloud: Cloud, service: FakeDataflow, argv: list[str], tmp_path: Path) -> None:
    """Bytes, metrics and plan are told; afterwards the bucket is as it was."""
    service.runs = _runs(cloud, service, tmp_path)
    out, _ = _proved(0, *argv, "--samples", "50")
    lines = out.splitlines()
    assert "The same bytes here and on Dataflow, by the checksums of every shard" in lines
    at = lines.index("On Dataflow:")
    assert lines[at + 1].startswith(("  job time 312 s", "  job time 313 s"))
    assert lines[at + 2 : at + 6] == [
        *("  0.347222 vCPU hours", "  1.388889 GB hours of memory"),
        *("  0.002000 GB shuffled", "  0.000500 GB of shuffle billed"),
    ]
    (job,) = service.jobs
    (pool,) = job.body["environment"]["workerPools"]
    assert (pool["numWorkers"], pool["machineType"]) == (1, "e2-standard-4")
    assert set(cloud.names()) == OTHERS
    here = os.listdir(tempfile.gettempdir())
    assert [name for name in here if name.startswith(job.body["name"])] == []


@pytest.mark.dataflow
def test_an_interrupted_proof(cloud: Cloud, service: FakeDataflow, argv: list[str]) -> None:
    """Ctrl-C cancels the job, waits for its end, and removes what was made; exit code 130."""
    service.script = (Step("RUNNING"),)
    with _prove(*argv, "--samples", "5") as process:
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
    cloud: Cloud, mine: str, service: FakeDataflow, argv: list[str], tmp_path: Path
) -> None:
    """A shard with other bytes than its manifest records is an error, and everything is removed."""
    run = _runs(cloud, service, tmp_path)

    def spoil(job: Received) -> None:
        run(job)
        (shard,) = (name for name in cloud.names() if name.endswith("-00001-of-00002"))
        data = cloud.get(shard)
        cloud.put(shard, data[:-1] + bytes([data[-1] ^ 1]))

    service.runs = spoil
    out, err = _proved(1, *argv, "--images", mine, "--num_shards=2")
    assert "proof-train.tfrecord-00001-of-00002" in out + err
    assert "verify ended with exit code 1" in err
    assert {name.partition("/")[0] for name in _left(cloud)} == {"mine"}


def test_data_sets_that_differ(tmp_path: Path) -> None:
    """Manifests and class files are compared; the error names the parts."""
    here, there = str(tmp_path / "here"), str(tmp_path / "there")
    for folder, count in ((here, 4), (there, 5)):
        write_pictures(f"{folder}/in", [f"{'ab'[i % 2]}/{i}.jpg" for i in range(count)])
        argv = (f"--images={folder}/in", f"--output={folder}/out", "--name=proof")
        PROVE.beam_tfrecord("convert", *argv)
    PROVE.compare(f"{here}/out", f"{here}/out")
    with pytest.raises(ConversionError, match="the data sets differ in classes, counts, splits"):
        PROVE.compare(f"{here}/out", f"{there}/out")


@pytest.mark.dataflow
def test_a_job_that_fails(cloud: Cloud, mine: str, service: FakeDataflow, argv: list[str]) -> None:
    """Its reason is printed, images of a bucket stay where they are, the rest is removed."""
    service.script = (Step("RUNNING"), Step("FAILED", {}, (("ERROR", "no quota"),)))
    before = _left(cloud)
    _, err = _proved(1, *argv, "--images", mine)
    assert "ended as FAILED, with the message:\nno quota\n" in err
    assert _left(cloud) == before


@pytest.mark.dataflow
def test_what_cannot_be_removed_is_told(
    cloud: Cloud, service: FakeDataflow, argv: list[str]
) -> None:
    """With the commands that remove it; exit code 1."""
    service.refusal = (403, "PERMISSION_DENIED", "not you")
    cloud.proxy.spoil(Fault("DELETE", "shape_0003", status=403))
    _, err = _proved(1, *argv, "--samples", "5")
    assert "not you" in err
    lines = err.splitlines()
    at = lines.index("Remove by hand what is left:")
    assert lines[at + 1].startswith("  gcloud dataflow jobs list --status=active --filter=name=")
    folder = lines[at + 2].removeprefix("  gcloud storage rm -r gs://")
    left = {f"{cloud.bucket}/{name}" for name in _left(cloud)}
    assert left == {f"{folder}/images/shape_0003.png"}
