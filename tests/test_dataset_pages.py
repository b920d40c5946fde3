"""Every page of docs/datasets runs as it stands, from the files on disk to `model.fit`."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness import REPOSITORY, run_shell

FOLDER = Path(REPOSITORY, "docs/datasets")
PAGES = sorted(path.stem for path in FOLDER.glob("*.md") if path.stem != "README")


def _blocks(page: str) -> list[tuple[str, str]]:
    """(language, code) of every block of commands or Python on a page."""
    text = (FOLDER / f"{page}.md").read_text(encoding="utf-8")
    return re.findall(r"```(bash|python)\n(.*?)```", text, re.DOTALL)


@pytest.mark.slow  # TensorFlow's start and training take seconds for each
@pytest.mark.parametrize("page", PAGES)
def test_a_page_runs_from_disk_to_training(page: str, tmp_path: Path) -> None:
    """Commands and code run in their order, in a folder with data as the page describes it."""
    importlib.import_module(f"tests.transforms.layouts.make_{page}").make(str(tmp_path))
    script: list[str] = []
    for language, code in _blocks(page):
        if language == "bash":
            run_shell(code, tmp_path)
        else:
            script.append(code)
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(script)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES)
def test_a_page_trains_a_model(page: str) -> None:
    """Every page has Python that compiles and ends in training."""
    code = "\n".join(code for language, code in _blocks(page) if language == "python")
    compile(code, page, "exec")
    assert ".fit(" in code


def test_every_layout_has_a_page_that_the_overview_names() -> None:
    """docs/datasets/README.md links to each page."""
    overview = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"\]\((\w+)\.md\)", overview)) == PAGES
