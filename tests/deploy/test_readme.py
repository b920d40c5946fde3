"""The commands of deploy/README.md run as they stand, and name files that are there."""

from __future__ import annotations

import posixpath
import re
import subprocess
from pathlib import Path

from tests.deploy.tools import DEPLOY, NIGHTS, Programs
from tests.harness import REPOSITORY

README = (DEPLOY / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"```bash\n(.*?)```", README, re.DOTALL)


def test_every_command_of_the_readme_runs(tmp_path: Path) -> None:
    """From the top folder, with programs that write down what they were asked for."""
    programs = Programs(tmp_path, "docker", "gcloud", "kubectl", "terraform")
    for command in COMMANDS:
        done = subprocess.run(
            ["bash", "-ec", command],
            cwd=REPOSITORY,
            env=programs.environment,
            capture_output=True,
            text=True,
            check=False,
        )
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
