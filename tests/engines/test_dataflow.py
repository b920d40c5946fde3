"""Jobs on Dataflow: what is submitted, what the person sees, and that what is staged runs where only Beam is."""

from __future__ import annotations

import importlib
import json
import logging
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from apache_beam.options.pipeline_options import PipelineOptions

import beam_pipeline
from beam_pipeline import cli, launch, terminal
from beam_pipeline.core.errors import Refusal
from beam_pipeline.engines import dataflow
from beam_pipeline.work.output_folder import note_refusal
from tests.buckets.services import GoogleStore as Cloud
from tests.engines.fake_dataflow import PROJECT, REGION, FakeDataflow, Step
from tests.harness import PATIENCE_S, REPOSITORY, convert, job, process, run_convert, wait_until
from tests.pictures import write_pictures
from tests.rows import in_rows

pytestmark = pytest.mark.dataflow

JOB_NAME = "0" * 32
FIRST_ID = "2026-01-01_00_00_00-0"
URL = f"https://console.cloud.google.com/dataflow/jobs/{REGION}/{FIRST_ID}?project={PROJECT}"
WHEEL = f"beam_tfrecord-{beam_pipeline.__version__}-py3-none-any.whl"
NAMES = [f"{'ab'[i % 2]}/{i}.jpg" for i in range(20)]


@pytest.fixture
def service(
    cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FakeDataflow]:
    """The service, credentials that it knows, and nothing else of Google's in the environment."""
    try:
        importlib.import_module("apache_beam.runners.dataflow.internal.apiclient")
    except ImportError:
        pytest.skip("needs apache-beam[gcp]: pip install '.[gcp,gcs]'")
    service = FakeDataflow()
    service.write_credentials(tmp_path / "key.json")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "key.json"))
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("HTTPS_PROXY", "http://localhost:9")  # nobody else is to be asked anything
    for name in ("CLOUDSDK_COMPUTE_REGION", "GOOGLE_CLOUD_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("beam_pipeline.storage.google._session", None)
    yield service
    service.stop()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beam and we look at a job every few seconds; here fifty times as often."""
    from apache_beam.runners.dataflow import dataflow_runner

    from beam_pipeline.engines import dataflow

    clock = types.SimpleNamespace(time=time.time, sleep=lambda seconds: time.sleep(seconds / 50))
    monkeypatch.setattr(dataflow_runner, "time", clock)
    monkeypatch.setattr(dataflow, "ROUND_MS", 1)
    monkeypatch.setattr(terminal, "_LINE_INTERVAL", 0.0)


@pytest.fixture
def argv(cloud: Cloud, service: FakeDataflow, tmp_path: Path) -> list[str]:
    """A conversion from bucket to bucket, by the service."""
    write_pictures(str(tmp_path / "photos"), NAMES)
    cloud.put_folder(tmp_path / "photos", "photos")
    argv = ["--images", f"{cloud.uri}/photos", "--output", f"{cloud.uri}/sets/pets"]
    return [*argv, "--runner=DataflowRunner", f"--dataflow_endpoint={service.url}"]


IN_REGION = (f"--region={REGION}",)


def staged(cloud: Cloud, service: FakeDataflow) -> dict[str, bytes]:
    """File -> content of what the last job staged, from where its pipeline says that workers fetch it."""
    from apache_beam.portability.api import beam_runner_api_pb2

    options = service.jobs[-1].body["environment"]["sdkPipelineOptions"]["options"]
    contents = {"pipeline.pb": _fetched(cloud, options["pipelineUrl"])}
    pipeline = beam_runner_api_pb2.Pipeline.FromString(contents["pipeline.pb"])
    for environment in pipeline.components.environments.values():
        for dependency in environment.dependencies:
            url = beam_runner_api_pb2.ArtifactUrlPayload.FromString(dependency.type_payload).url
            role = beam_runner_api_pb2.ArtifactStagingToRolePayload
            name = role.FromString(dependency.role_payload).staged_name
            contents[name] = _fetched(cloud, url)
    return contents


def _fetched(cloud: Cloud, url: str) -> bytes:
    assert url.startswith(f"{cloud.uri}/")
    return cloud.get(url.removeprefix(f"{cloud.uri}/"))


def submitted(service: FakeDataflow, path: str) -> Any:
    """What is at a place of the last job; None if there is nothing."""
    job = service.jobs[-1]
    environment = job.body["environment"]
    (pool,) = environment["workerPools"]
    options = environment["sdkPipelineOptions"]["options"]
    found: Any = {**job._asdict(), **job.body, "pool": pool, "options": options}
    for name in path.split("."):
        found = found.get(name) if found else None
    return found


@in_rows
def test_what_is_submitted(
    cloud: Cloud,
    service: FakeDataflow,
    argv: list[str],
    monkeypatch: pytest.MonkeyPatch,
    options: str,
    places: dict[str, str],
) -> None:
    """Project, region, workers and folders, with nothing named but the runner and a region, or with all options."""
    monkeypatch.setenv("CLOUDSDK_COMPUTE_REGION", REGION)
    given = options.replace("BUCKET", cloud.uri).split()
    captured = run_convert(*argv, *given, "--no_wait")
    for path, pattern in places.items():
        found = str(submitted(service, path))
        pattern = pattern.replace("BUCKET", cloud.uri)
        assert found == pattern or re.fullmatch(pattern, found), (path, found)
    assert "sets/pets/.incomplete" not in "".join(cloud.names("sets"))
    job, url = captured.out.splitlines()[-2:]
    assert (job, given or url) == (f"Job {FIRST_ID}", given or URL)
    assert service.looks == 0


@in_rows
def test_the_package_is_staged_once(
    cloud: Cloud, service: FakeDataflow, argv: list[str], tmp_path: Path, options: str, names: str
) -> None:
    """Where the person sees to it, nothing is added."""
    dataflow.build_package(str(tmp_path))
    setup = "import setuptools\nsetuptools.setup(name='mine', version='1')\n"
    (tmp_path / "setup.py").write_text(setup)
    given = options.replace("HERE", str(tmp_path)).replace("WHEEL", WHEEL).split()
    assert convert(*argv, *IN_REGION, *given, "--no_wait") == 0
    contents = staged(cloud, service)
    where = submitted(service, "options.staging_location").replace("gs:/", "storage.googleapis.com")
    packages = submitted(service, "pool.packages")
    assert {p["name"]: p["location"] for p in packages} == {
        name: f"{where}/{name}" for name in contents if name != "pipeline.pb"
    }
    always = {"pipeline.pb", "submission_environment_dependencies.txt"}
    assert contents.keys() - always == set(names.replace("WHEEL", WHEEL).split())
    assert contents.get("extra_packages.txt", f"{WHEEL}\n".encode()) == f"{WHEEL}\n".encode()


@in_rows
def test_workers_by_the_size_of_an_inventory(
    cloud: Cloud,
    service: FakeDataflow,
    argv: list[str],
    monkeypatch: pytest.MonkeyPatch,
    options: str,
    workers: list[int | None],
) -> None:
    """Options that are given stay as they are."""
    inventory = f"{cloud.uri}/inventory.csv"
    cloud.put("inventory.csv", f"uri,size\n{cloud.uri}/photos/0.jpg,900\n".encode())
    monkeypatch.setattr("beam_pipeline.inputs.files.size_of", {inventory: 5 * 10**9}.__getitem__)
    given = (f"--inventory={inventory}", *options.split())
    assert convert(*argv, *IN_REGION, *given, "--no_wait") == 0
    most = submitted(service, "pool.autoscalingSettings.maxNumWorkers")
    assert [submitted(service, "pool.numWorkers"), most] == workers


def test_states_and_counts_are_shown(
    cloud: Cloud, service: FakeDataflow, argv: list[str], quick: None, tmp_path: Path
) -> None:
    """What was committed, and samples of unfinished shards, at most those planned; then what came of it."""
    assert convert(*argv[:4], "--writers=0") == 0  # what the job would write
    before = cloud.get_folder("sets/pets", tmp_path / "before")
    planned = {"images_listed": 20, "samples_planned": 20, "bytes_planned": 20_000}
    service.script = (
        Step("RUNNING"),
        Step("RUNNING", {"images_listed": 12}),
        Step("RUNNING", planned, (("BASIC", "workers have started"),)),
        Step("RUNNING", {**planned, "samples_done": 8, "bytes_done": 8_000}),
        Step("DONE", {**planned, "samples_done": 20, "bytes_done": 20_000}),
    )
    logger = logging.getLogger("apache_beam.runners.dataflow.dataflow_runner")
    state = (logger.level, logger.propagate, list(logger.handlers))
    captured = run_convert(*argv, *IN_REGION, "--resume")
    assert (logger.level, logger.propagate, list(logger.handlers)) == state  # is Beam's log
    shown = _shown(captured.err)
    assert shown[:3] == ["Dataflow: running", "12 images listed", "20 samples, 20.0 kB to write"]
    assert shown[3].startswith("9 of 20 samples, 8.0 kB of 20.0 kB, ")
    assert shown[4].startswith("20 of 20 samples, 20.0 kB of 20.0 kB, ")
    assert len(shown) == 5
    assert f"Job {FIRST_ID}\n{URL}\n" in captured.out
    assert captured.out.splitlines()[-1].startswith(f"{cloud.uri}/sets/pets is up to date")
    after = cloud.get_folder("sets/pets", tmp_path / "after")
    assert _contents(after) == _contents(before)


def _shown(err: str) -> list[str]:
    return [line for line in err.splitlines() if "Retrying" not in line]


def _contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.promise("dataflow_fails")
@in_rows
def test_a_job_that_does_not_end_well_says_why(
    service: FakeDataflow, argv: list[str], quick: None, script: list[Any], said: str
) -> None:
    """What the service says, the error of each try as one line; exit code 1."""
    service.script = tuple(
        Step(state, *more[:1], *(tuple(map(tuple, messages)) for messages in more[1:]))
        for state, *more in script
    )
    lines = said.replace("ID", FIRST_ID).replace("URL", URL).splitlines()
    assert _shown(run_convert(*argv, *IN_REGION, code=1).err)[-len(lines) :] == lines


@pytest.mark.promise("dataflow_fails")
def test_the_reason_that_a_worker_noted_comes_first(
    cloud: Cloud,
    service: FakeDataflow,
    argv: list[str],
    quick: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As on this machine: one error, without the engine's."""
    look = service._look

    def look_and_note(job: Any) -> dict[str, Any]:
        refusal = Refusal("TooManyBadSamplesError", "4 bad samples")
        note_refusal(f"{cloud.uri}/sets/pets", refusal, JOB_NAME)
        return look(job)

    monkeypatch.setattr(service, "_look", look_and_note)
    monkeypatch.setattr(launch, "new_job", lambda: JOB_NAME)
    service.script = (Step("FAILED", {}, (("ERROR", "Traceback\nTooManyBadSamplesError: 4"),)),)
    last = run_convert(*argv, *IN_REGION, code=1).err.splitlines()[-1]
    assert last == "beam-tfrecord: error: 4 bad samples"


@pytest.mark.promise("dataflow_fails")
def test_a_job_that_the_service_refuses(service: FakeDataflow, argv: list[str]) -> None:
    """Its words, once, and no traceback; a schedule may try again later where it is only busy."""
    service.refusal = (429, "RESOURCE_EXHAUSTED", "Quota exceeded")
    busy = run_convert(*argv, *IN_REGION, code=cli.EXIT_OUTAGE)
    assert "Quota exceeded" in busy.err
    service.refusal = (403, "PERMISSION_DENIED", "Dataflow API has not been used in project 7")
    err = run_convert(*argv, *IN_REGION, code=1).err
    assert err.count("Dataflow API has not been used in project 7") == 1
    assert "beam-tfrecord: error: the job could not be submitted to Dataflow: " in err
    advice = "Check --project, --region and --temp_location; that the account"
    assert err.splitlines()[-1].startswith(advice)
    assert "403" in err
    assert "Traceback" not in err


def test_one_job_at_a_time_writes_a_folder(service: FakeDataflow, argv: list[str]) -> None:
    """The job's name is that of its output, and Dataflow runs one job of a name."""
    service.script = (Step("RUNNING"),)
    assert convert(*argv, *IN_REGION, "--no_wait") == 0
    printed = run_convert(*argv, *IN_REGION, "--no_wait", code=1)
    assert len(service.jobs) == 1
    name = service.jobs[0].body["name"]
    assert f"There is already active job named {name}" in printed.err


@in_rows
def test_what_cannot_be_is_said_before_anything_is_done(
    cloud: Cloud, service: FakeDataflow, argv: list[str], options: str, message: str
) -> None:
    """Exit code 2; nothing was submitted or written."""
    out = f"{cloud.uri}/sets/pets"
    printed = run_convert(*argv, *options.replace("OUT", out).split(), code=2)
    assert message.replace("OUT", out) in printed.err.splitlines()[-1]
    assert service.jobs == []
    assert_unwritten(cloud)


def assert_unwritten(cloud: Cloud) -> None:
    assert [name for name in cloud.names() if not name.startswith("photos/")] == []


def test_a_template(cloud: Cloud, service: FakeDataflow, argv: list[str]) -> None:
    """The job is written where it was asked for, as a Flex Template's launcher asks, and not submitted."""
    where = f"--template_location={cloud.uri}/templates/pets"
    printed = run_convert(*argv, *IN_REGION, where)
    job = json.loads(cloud.get("templates/pets"))
    assert re.fullmatch(r"beam-tfrecord-pets-[0-9a-f]{8}", job["name"])
    (pool,) = job["environment"]["workerPools"]
    assert WHEEL in {package["name"] for package in pool["packages"]}
    out = printed.out
    assert out.splitlines()[-1] == f"Wrote the job to {cloud.uri}/templates/pets"
    assert service.jobs == []


def test_beams_part_for_google_is_not_installed(
    service: FakeDataflow, argv: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command that installs it is named."""
    from apache_beam.runners.dataflow import internal

    monkeypatch.delattr(internal, "apiclient", raising=False)
    monkeypatch.setitem(sys.modules, f"{internal.__name__}.apiclient", None)
    error = run_convert(*argv, *IN_REGION, code=2).err
    assert "--runner=DataflowRunner needs Beam's Google Cloud extra" in error
    assert "pip install '.[gcp]' in the checkout" in error


def test_options_that_beam_refuses(cloud: Cloud, service: FakeDataflow, argv: list[str]) -> None:
    """Are told as what they are, before anything is done. Beam looks at them only for the real service."""
    error = run_convert(*argv[:-1], *IN_REGION, "--job_name=Not_A_Name", code=2).err
    assert "beam-tfrecord: error: --runner=DataflowRunner: Pipeline has validations errors" in error
    assert "Invalid job_name (Not_A_Name)" in error
    assert_unwritten(cloud)


def test_paths_of_this_machine_are_all_named(
    service: FakeDataflow, argv: list[str], tmp_path: Path
) -> None:
    """Workers do not see them."""
    table = "filename,label\n" + "".join(f"{name},{name[0]}\n" for name in NAMES)
    (tmp_path / "labels.csv").write_text(table)
    images, labels, output = (str(tmp_path / name) for name in ("photos", "labels.csv", "out"))
    paths = ["--images", images, "--labels", labels, "--output", output]
    error = run_convert(*paths, *argv[4:], *IN_REGION, code=2).err.splitlines()[-1]
    assert f"its workers cannot see paths of this machine: {images}, {labels}, {output}." in error
    assert not os.path.exists(output)


@pytest.mark.promise("dataflow_ctrl_c")
def test_ctrl_c_leaves_the_job_to_the_service(
    cloud: Cloud, service: FakeDataflow, argv: list[str]
) -> None:
    """Exit code 130; the person is told how to find it and how to end it."""
    service.script = (Step("RUNNING"),)
    with job(*argv, *IN_REGION, stdout=subprocess.PIPE) as running:
        wait_until(lambda: service.looks >= 2, running)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 130
    assert out.splitlines()[-1] == URL
    assert err.splitlines()[-1] == (
        f"beam-tfrecord: interrupted; job {FIRST_ID} continues on Dataflow. See {URL} or end it: "
        f"gcloud dataflow jobs cancel {FIRST_ID} --region={REGION} --project={PROJECT}"
    )


def test_the_commands_of_the_docs_run(
    cloud: Cloud, service: FakeDataflow, argv: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As they stand, but for the bucket's name and the service's address; each ends without waiting."""
    monkeypatch.setenv("CLOUDSDK_COMPUTE_REGION", REGION)
    pages = [Path(REPOSITORY, page) for page in ("README.md", "docs/dataflow.md")]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    commands = re.findall(r"^beam-tfrecord convert (?:.*\\\n)*.*$", text, re.MULTILINE)
    commands = [command for command in commands if "DataflowRunner" in command]
    assert len(commands) >= 5
    cloud.put("labels.csv", b"filename,label\n" + b"".join(f"{n},x\n".encode() for n in NAMES))
    for number, command in enumerate(commands):
        said = command.replace("\\\n", " ").replace("gs://my-bucket", cloud.uri)
        options = shlex.split(said, comments=True)[2:]
        options[options.index("--output") + 1] += f"-{number}"
        extra = {f"--dataflow_endpoint={service.url}", "--no_wait"} - set(options)
        assert convert(*options, *extra) == 0, command
    assert len(service.jobs) == len(commands)


@pytest.fixture(scope="module")
def clean_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter that has Beam for Google Cloud and nothing else, as a worker has."""
    from apache_beam.version import __version__ as beam_version

    folder = tmp_path_factory.mktemp("clean")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = str(folder / "bin/python")
    _install(python, f"apache-beam[gcp]=={beam_version}")
    return python


_WORLD = dict(os.environ)
"""Before a test has shut itself off."""


def _install(python: str, package: str) -> None:
    """Installs a package by uv, which takes seconds, or by pip, which takes minutes."""
    beside = os.path.dirname(sys.executable)
    uv = shutil.which("uv", path=os.pathsep.join([beside, _WORLD.get("PATH", "")]))
    if uv:
        _run([uv, "pip", "install", "--quiet", "--python", python, package])
    else:
        _pip(python, package)


def _pip(python: str, *argv: str) -> None:
    _run([python, "-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *argv])


def _run(command: list[str]) -> None:
    done = process(*command, cwd="/", env=_WORLD)
    assert done.returncode == 0, done.stderr


def _run_staged(python: str, contents: dict[str, bytes], folder: Path) -> dict[str, int]:
    """Installs what was staged as a worker's container does, runs the pipeline, returns its counters."""
    folder.mkdir()
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    for name in contents["extra_packages.txt"].decode().splitlines():
        _pip(python, "--upgrade", "--force-reinstall", "--no-deps", str(folder / name))
        _pip(python, str(folder / name))
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    script = os.path.join(REPOSITORY, "tests/engines/run_staged.py")
    done = process(
        python, "-I", script, str(folder / "pipeline.pb"), cwd="/", env=kept, timeout=180
    )
    assert done.returncode == 0, done.stderr[-5000:]
    counters: dict[str, int] = json.loads(done.stdout)
    return counters


def _data_sets(folder: Path) -> dict[str, list[str]]:
    """Options of data sets that were made below a folder: every kind of input that needs a module of its own."""
    from tests.layouts import data_sets, make_cifar10

    make_cifar10.make_cifar10(str(folder))
    data_sets.make("voc", str(folder))
    write_pictures(str(folder / "photos"), [name.rpartition("/")[2] for name in NAMES])
    (folder / "photos/7.jpg").write_bytes(b"no image")
    rows = [f"{i}.jpg,{i % 3},{i / 4}" for i in range(20)] + ["gone.jpg,1,1.5"]
    (folder / "labels.csv").write_text("\n".join(["filename,label,score", *rows]) + "\n")
    return {
        "table": ["--images", "photos", "--labels", "labels.csv"],
        "cifar": ["--images", "cifar-10-python.tar.gz", "--num_shards", "2"],
        "voc": ["--images", "VOCdevkit/VOC2012"],
    }


@pytest.mark.timeout(900)  # pip installs Beam, and the machine may be busy
def test_what_is_staged_runs_where_only_beam_is(
    clean_python: str, cloud: Cloud, service: FakeDataflow, tmp_path: Path
) -> None:
    """The staged pipeline and package in a clean environment write the bytes that a local run does."""
    data = tmp_path / "data"
    data.mkdir()
    options = _data_sets(data)
    cloud.put_folder(data, "data")
    for name, paths in options.items():
        more = ["--name", "d", "--max_bad_fraction", "1", "--splits", "train=0.7,test=0.3"]
        here = [str(data / path) if (data / path).exists() else path for path in paths]
        assert convert(*here, *more, "--output", str(tmp_path / f"{name}-here")) == 0
        there = [f"{cloud.uri}/data/{path}" if (data / path).exists() else path for path in paths]
        engine = ["--runner=DataflowRunner", f"--dataflow_endpoint={service.url}", *IN_REGION]
        assert convert(*there, *more, *engine, "--output", f"{cloud.uri}/{name}", "--no_wait") == 0
        contents = staged(cloud, service)
        counters = _run_staged(clean_python, contents, tmp_path / f"{name}-staged")
        written = _contents(cloud.get_folder(name, tmp_path / f"{name}-there"))
        expected = _contents(tmp_path / f"{name}-here")
        assert _shards(written) == _shards(expected), name
        assert len(_shards(written)) >= 2
        counts = json.loads(written["manifest.json"])["counts"]
        assert counts == json.loads(expected["manifest.json"])["counts"]
        _check_counters(counters, counts)
    _check_that_an_installation_can_submit(clean_python, contents[WHEEL], tmp_path)
    manifest = json.loads(Path(tmp_path, "table-here/manifest.json").read_bytes())
    assert manifest["dead_letters"] == {"missing_image": 1, "not_an_image": 1}


def _check_that_an_installation_can_submit(python: str, wheel: bytes, folder: Path) -> None:
    """What was installed from a wheel makes the same wheel of itself."""
    code = (
        f"from beam_pipeline.engines.dataflow import build_package; build_package({str(folder)!r})"
    )
    subprocess.run([python, "-I", "-c", code], cwd="/", check=True)
    assert (folder / WHEEL).read_bytes() == wheel


def _shards(contents: dict[str, bytes]) -> dict[str, bytes]:
    return {name: data for name, data in contents.items() if ".tfrecord-" in name}


def _check_counters(counters: dict[str, int], counts: dict[str, Any]) -> None:
    """The counters that were shown while the job ran agree with its manifest."""
    assert counters["images_listed"] == counts["listed_images"]
    assert counters["examples_written"] == counts["examples"]
    assert counters["dead_letters"] == counts["dead_letters"]
    assert counters["samples_planned"] == counters["samples_done"]
    assert counters["bytes_planned"] == counters["bytes_done"]


def test_private_workers_cannot_fetch_packages() -> None:
    """Said before the job is submitted, unless their image holds the packages."""
    options = ["--no_use_public_ips", "--sdk_container_image=i", "--sdk_location=container"]
    for argv in ([], ["--use_public_ips"], options):
        assert not dataflow.private_addresses_note(PipelineOptions(argv))
    for argv in (options[:1], options[:2]):
        assert dataflow.private_addresses_note(PipelineOptions(argv))
