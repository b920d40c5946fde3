"""The folder `.incomplete`: notes of what a run was about to write, and why it ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam_pipeline.core.dataset.names import temporary_name
from beam_pipeline.core.dataset.plan import Plan
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.errors import ConversionError, OutputError, Refusal
from beam_pipeline.core.records.sharding import ShardPlan
from beam_pipeline.core.records.tfrecord import TFRecordFormat
from beam_pipeline.work.incomplete_folder import (
    EarlierRun,
    delete_incomplete,
    note_refusal,
    noted_refusal,
    read_note,
    read_noted_run,
    unpacking_folder,
    write_note,
)
from beam_pipeline.work.output_folder import read_earlier
from tests.pictures import write_files

PLAN = Plan(ShardPlan("pets", (("train", 2),), TFRecordFormat("gzip")), (), Tally(), None)
RUN = {"name": "pets", "seed": 5, "options": {"compression": "gzip"}, "features": {}}
TEMPORARY = temporary_name("x")  # of a file that a run was writing


@pytest.fixture
def unfinished(tmp_path: Path) -> Path:
    """The folder of a run that was killed, with a file of the user's."""
    write_note(str(tmp_path), PLAN, RUN)
    write_files(str(tmp_path), {"a": "", TEMPORARY: "", ".incomplete/unpacked/1": ""})
    return tmp_path


def names_in(folder: Path) -> list[str]:
    """Every file, hidden ones too."""
    found = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return sorted(found)


def test_a_note_says_what_an_unfinished_run_was_about_to_write(unfinished: Path) -> None:
    """It is read back as it was written; without a run there is none."""
    assert read_note(str(unfinished)) == PLAN.shard_plan
    noted = EarlierRun(PLAN.shard_plan, RUN, complete=False)
    assert read_noted_run(str(unfinished)) == read_earlier(str(unfinished)) == noted
    assert unpacking_folder(str(unfinished)) == f"{unfinished}/.incomplete/unpacked"
    delete_incomplete(str(unfinished))
    assert names_in(unfinished) == ["a"]
    assert read_note(str(unfinished)) is read_earlier(str(unfinished)) is None


@pytest.mark.parametrize("note", ["", "[]", '{"name": "pets"}', '{"name": "a", "shards": [1]}'])
def test_a_damaged_note_is_an_error_that_names_it(tmp_path: Path, note: str) -> None:
    """Nobody knows what that run wrote."""
    write_files(str(tmp_path), {".incomplete/plan.json": note})
    with pytest.raises(ConversionError, match=r"plan\.json is damaged \(.*\); remove it by hand$"):
        read_note(str(tmp_path))


@pytest.mark.parametrize("is_complete", [False, True])
def test_a_refusal_is_taken_once_by_the_launcher(tmp_path: Path, is_complete: bool) -> None:
    """It stays in the folder of a run that is not complete, for whoever looks there."""
    assert noted_refusal(str(tmp_path)) is None
    note_refusal(str(tmp_path), Refusal("OutputError", "no space"))
    if is_complete:
        write_files(str(tmp_path), {"manifest.json": ""})
    error = noted_refusal(str(tmp_path))
    assert isinstance(error, OutputError)
    assert str(error) == "no space"
    assert (noted_refusal(str(tmp_path)) is None) is is_complete


def test_a_refusal_of_another_process_keeps_the_ids_of_its_questions(tmp_path: Path) -> None:
    """The first launcher hears of it from memory, the second one reads the note."""
    note_refusal(str(tmp_path), Refusal("QuestionError", "Which?", ("dates",)))
    errors = [noted_refusal(str(tmp_path)) for _ in range(2)]
    assert [error and (str(error), tuple(error.given_ids)) for error in errors] == [
        ("Which?", ("dates",)),
        ("Which?", ("dates",)),
    ]


def test_the_refusal_of_another_job_is_not_taken(tmp_path: Path) -> None:
    """Two jobs that write to one folder note their refusals apart."""
    one, two = "1" * 32, "2" * 32
    note_refusal(str(tmp_path), Refusal("OutputError", "no space"), one)
    assert noted_refusal(str(tmp_path), two) is None
    assert noted_refusal(str(tmp_path)) is None
    assert str(noted_refusal(str(tmp_path), one)) == "no space"
    delete_incomplete(str(tmp_path))
    assert names_in(tmp_path) == []
