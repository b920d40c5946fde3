"""Dead letters of a data set as one list."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam_pipeline.work.dead_letter_files import read_dead_letters, shown_uri
from tests.core.dataset.manifests import manifest_with

ONE_FILE, PARTS = manifest_with(), manifest_with(dead_letter_parts=2)


def test_one_file_or_parts_are_one_list(tmp_path: Path) -> None:
    """The parts follow one another; a missing one is an error, not a shorter list."""
    (tmp_path / "dead_letters.jsonl").write_text('{"key": "a"}\n{"key": "b"}\n')
    assert [letter["key"] for letter in read_dead_letters(str(tmp_path), ONE_FILE)] == ["a", "b"]
    (tmp_path / "dead_letters-00000-of-00002.jsonl").write_text('{"key": "c"}\n')
    with pytest.raises(FileNotFoundError):
        list(read_dead_letters(str(tmp_path), PARTS))
    (tmp_path / "dead_letters-00001-of-00002.jsonl").write_text('{"key": "a"}\n')
    assert [letter["key"] for letter in read_dead_letters(str(tmp_path), PARTS)] == ["c", "a"]


def test_people_are_shown_one_name() -> None:
    """A pattern stands for the parts."""
    assert shown_uri("/out", ONE_FILE) == "/out/dead_letters.jsonl"
    assert shown_uri("/out", PARTS) == "/out/dead_letters-*-of-00002.jsonl"
