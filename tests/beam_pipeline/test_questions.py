"""Questions that stop a conversion: what is asked, the command that answers it, and docs/questions.md."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path

import pytest

from tests.conformance.groups import GROUPS
from tests.harness import REPOSITORY, run
from tests.rows import in_rows

ASKED = json.loads(Path(REPOSITORY, "tests/conformance/expected/asked.json").read_bytes())
ROWS = GROUPS["questions"]
PAGE = Path(REPOSITORY, "docs/questions.md").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "row"  # with no other test's label files in the folder above
    folder.mkdir()
    monkeypatch.chdir(folder)


def asked_of(stderr: str) -> tuple[str, ...]:
    """(question, command or empty, further advice and command...) of an error that asks one."""
    lines = stderr[stderr.index("beam-tfrecord: error: ") :].strip().splitlines()
    assert lines.pop(0) == (
        "beam-tfrecord: error: stopped before any image was read, as a guess about the labels is not "
        "safe:"
    )
    assert lines[-1] == "Correct the command, or accept the guess with --yes."
    question, command, *others = [*map(str.strip, lines[:-1]), *[""] * (len(lines) < 3)]
    assert not any(line.startswith("- ") for line in others)
    return question.removeprefix("- "), command, *others


@pytest.mark.parametrize("name", ASKED)
def test_each_question_is_asked_in_these_words(name: str) -> None:
    """The question, and the command that answers it, as expected/asked.json records them."""
    row = ROWS[name]
    row.prepared()
    question, *commands = asked_of(
        run("plan", *shlex.split(row.argv), "--output", "out", code=2).err
    )
    assert [question.replace(f"{os.getcwd()}/", ""), *commands] == ASKED[name]


def test_the_page_quotes_questions_as_they_are_asked() -> None:
    """Each quotation of docs/questions.md begins a question, and the command below it answers that one."""
    quoted = re.findall(r"((?:^> .*\n)+)\n    (beam-tfrecord .*)\n", PAGE, re.MULTILINE)
    assert len(quoted) == PAGE.count("\n\n> ") > 4
    for lines, command in quoted:
        question = " ".join(re.sub(r"^> ", "", lines, flags=re.MULTILINE).split())
        assert [c for text, c, *_ in ASKED.values() if text.startswith(question)] == [command]


@in_rows
def test_a_note_says_which_folder_was_taken(row: str, note: str) -> None:
    """And how to keep the one that was given."""
    ROWS[row].prepared()
    printed = run("plan", *shlex.split(ROWS[row].argv), "--output", "out")
    how = "--layout class_folders takes the names of its folders as classes"
    assert f"Note: {note}; {how}" in printed.out.splitlines()
