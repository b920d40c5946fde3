"""The documentation site: it builds without a warning, and its pages are complete."""

from __future__ import annotations

import ast
import errno
import inspect
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from beam_pipeline.commands import COMMANDS
from beam_pipeline.core.dead_letters import Reason
from tests.harness import REPOSITORY

DOCS = Path(REPOSITORY, "docs")
TROUBLESHOOTING = DOCS.joinpath("troubleshooting.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site; a link or an anchor that leads nowhere is a warning, and a warning an error."""
    pytest.importorskip("sphinx")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-q", "-W", "--keep-going"]
    done = subprocess.run(
        [*command, "-c", "docs", ".", str(folder)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.docs
def test_the_site_has_every_page(site: Path) -> None:
    """Each Markdown file of docs/ is a page, and llms.txt lists it with its first sentence."""
    index = (site / "llms.txt").read_text(encoding="utf-8")
    pages = {path.relative_to(REPOSITORY).as_posix() for path in DOCS.rglob("*.md")}
    for page in sorted(pages - {"docs/index.md"}):
        assert (site / page).with_suffix(".html").exists()
        assert re.search(rf"^- \[[^\n]+\]\({re.escape(page)}\): \S", index, re.MULTILINE), page
        if page != "docs/reference/commands.md":
            assert (site / page).read_bytes() == Path(REPOSITORY, page).read_bytes()
    assert "`--split_by" in (site / "docs/reference/commands.md").read_text(encoding="utf-8")
    assert 'url=docs/index.html"' in (site / "index.html").read_text(encoding="utf-8")


@pytest.mark.docs
def test_the_reference_has_every_command_and_the_public_api(site: Path) -> None:
    """Commands come from the parsers, functions and their arguments from the code."""
    commands = (site / "docs/reference/commands.html").read_text(encoding="utf-8")
    assert all(f'<section id="{name}">' in commands for name in COMMANDS)
    assert "--split_by" in commands
    api = (site / "docs/python.html").read_text(encoding="utf-8")
    for name in ("conversion.convert", "conversion.convert_samples", "dataset.Dataset.open",
                 "dataset.class_names", "readers.tf_data.load", "readers.tf_data.feature_spec",
                 "readers.random_access.RandomAccess"):  # fmt: skip
        assert f'id="beam_pipeline.{name}"' in api


@pytest.mark.torch
def test_the_reference_has_the_arguments_of_the_pytorch_data_set() -> None:
    """They are written there by hand, as the site is built without PyTorch."""
    pytest.importorskip("torch")
    from beam_pipeline.readers.torch_dataset import TFRecordDataset

    page = DOCS.joinpath("python.md").read_text(encoding="utf-8")
    (written,) = re.findall(r"TFRecordDataset\((.*)\)", page)
    signature = inspect.signature(TFRecordDataset)
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    assert f"({written})".replace('"', "'") == str(inspect.Signature(plain))


def test_troubleshooting_has_every_reason() -> None:
    """Each reason of a dead letter has a row, in their order."""
    rows = re.findall(
        r"^\| `(\w+)` \|", TROUBLESHOOTING.partition("## By message")[0], re.MULTILINE
    )
    assert rows == [reason.value for reason in Reason]


def test_troubleshooting_has_messages_as_they_are() -> None:
    """What is quoted as a message is in a string of the program, or in one of the system's."""
    rows = re.findall(r"^\| (`.*?) \|", TROUBLESHOOTING.partition("## By message")[2], re.MULTILINE)
    quoted = [quote for row in rows for quote in re.findall(r"`([^`]+)`", row)]
    parts = [part.strip(" ;") for quote in quoted for part in quote.split("...")]
    texts = (*strings_of_the_program(), *map(os.strerror, errno.errorcode))
    missing = [part for part in parts if part and not any(part in text for text in texts)]
    assert quoted
    assert missing == []


@cache
def strings_of_the_program() -> tuple[str, ...]:
    """Every string constant, and the constant parts of every f-string."""
    roots = (Path(REPOSITORY, "beam_pipeline"), Path(REPOSITORY, "transforms"))
    return tuple(
        node.value
        for root in roots
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
