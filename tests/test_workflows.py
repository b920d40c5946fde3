"""The workflows of .github, as far as they can be checked without GitHub."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.harness import REPOSITORY

WORKFLOWS = sorted(Path(REPOSITORY, ".github", "workflows").glob("*.yml"))

WEEKLY = Path(REPOSITORY, ".github", "workflows", "weekly.yml")


def _read(path: Path) -> dict[str, Any]:
    workflow: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return workflow


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_is_sound(path: Path) -> None:
    """It may only read, every job ends, and what it runs is there."""
    workflow = _read(path)
    assert workflow["permissions"] == {"contents": "read"}
    triggers = workflow[True]  # YAML's own reading of `on`
    for schedule in triggers.get("schedule", ()):
        assert re.fullmatch(r"\d+ \d+ (\*|\d+) (\*|\d+) (\*|\d)", schedule["cron"])
    for job in workflow["jobs"].values():
        assert 0 < job["timeout-minutes"] <= 60
        steps = job["steps"]
        assert all(("uses" in step) != ("run" in step) for step in steps)
        for step in steps:
            command = step.get("run", "").split(" ")[0]
            if command.startswith(".ci/"):
                assert Path(REPOSITORY, command).stat().st_mode & 0o100


def test_every_version_of_python_is_tried() -> None:
    """Those that the package names, and the first with the lowest versions of all dependencies."""
    project = Path(REPOSITORY, "pyproject.toml").read_text(encoding="utf-8")
    named = re.findall(r"Python :: (3\.\d+)", project)
    tried = _read(WEEKLY)["jobs"]["versions"]["strategy"]["matrix"]["version"]
    assert set(named) <= set(tried)
    assert f"{named[0]}-lowest" in tried
    script = Path(REPOSITORY, ".ci", "versions").read_text(encoding="utf-8")
    assert f"wanted=({' '.join(tried)})" in script
