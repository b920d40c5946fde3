"""Runs that are refused, and guesses that are questions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from beam_pipeline.core.dataset import plausibility
from beam_pipeline.core.dataset.plan import accounting_error, all_filtered, too_many_bad
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.dead_letters import DeadLetter, Reason
from beam_pipeline.core.errors import QuestionError, Refusal
from beam_pipeline.core.listing.filters import LabelFile, LabelFiles
from beam_pipeline.core.questions import Question, question_error
from beam_pipeline.core.records import sharding, tfrecord
from beam_pipeline.options import ConvertOptions
from beam_pipeline.options.source import InputOptions
from tests.core.dataset.fixtures import dead_letter, plan_of, shard
from tests.rows import in_rows

SHARDS = sharding.ShardPlan("x", (("train", 2),), tfrecord.TFRecordFormat())
NAMES = ("x-train.tfrecord-00000-of-00002", "x-train.tfrecord-00001-of-00002")
REPORT = "No manifest is written. This is a fault of the program or the runner; please report it"


def balance(tally: Tally, shards: Sequence[sharding.ShardInfo]) -> Refusal | None:
    return accounting_error(SHARDS, tally, shards, tally.dead)


def test_a_run_whose_filters_leave_nothing_is_refused() -> None:
    """An empty data set is never meant; one example is enough, and other dead letters are not filters."""
    tally = Tally(listed=5)
    tally.add_dead_letters([dead_letter(Reason.UNREADABLE, "a")])
    assert all_filtered(tally, []) is None
    tally.add_dead_letters([dead_letter(Reason.FILTERED_MAX_PIXELS, key) for key in "bcd"])
    tally.add_dead_letters([dead_letter(Reason.FILTERED_MIN_SIDE, "e")])
    assert all_filtered(tally, []) == Refusal(
        "NothingLeftError",
        "no image is left: of 5 listed images, the filters leave out 1 by --min_side, 3 by "
        "--max_pixels. dead_letters.jsonl lists them with their sizes; choose other limits",
    )
    info = sharding.ShardInfo("train", 0, "x", examples=1, bytes=1, crc32c=0, classes=())
    assert all_filtered(tally, [info]) is None


def test_a_name_that_the_pattern_does_not_match_is_said() -> None:
    """With --label_from there are neither rows nor folders to look at."""
    tally = Tally(listed=1)
    message = "its name 'a.jpg' does not match --label_from x"
    tally.add_dead_letters([DeadLetter("join", "a.jpg", "/a.jpg", "unlabelled", message)])
    refusal = plan_of(tally).refusal
    assert refusal is not None
    assert f"1 unlabelled (such as 'a.jpg'; of the first: {message}). " in refusal.message


@pytest.mark.promise("too_many_bad")
def test_too_many_bad_samples_are_refused() -> None:
    """The message counts each reason, shows keys of it and says what to do."""
    tally = Tally(
        listed=100,
        samples=Counter({"train": 90}),
        dead=Counter({"unlabelled": 50, "unreadable": 4, "bad_row": 2}),
        shown={"unreadable": ["a.jpg", "b.jpg"], "bad_row": [""], "unlabelled": ["x"]},
    )
    expected = Refusal(
        "TooManyBadSamplesError",
        "6 bad samples among 100 listed images, 0.05 of them allowed: 2 bad_row, "
        "4 unreadable (such as 'a.jpg', 'b.jpg'). "
        "dead_letters.jsonl lists them; fix them or raise --max_bad_fraction",
    )
    assert too_many_bad(tally, 0.05) == expected
    assert plan_of(tally, max_bad_fraction=0.05).refusal == expected
    assert too_many_bad(tally, 0.06) is None
    assert plan_of(tally, max_bad_fraction=0.06).refusal is None


@pytest.mark.promise("miscounted")
@pytest.mark.parametrize("examples", [6, 7, 8])
def test_a_sample_lost_or_doubled_is_found(examples: int) -> None:
    """Listed images and rows without one are examples and dead letters; the message has all figures."""
    tally = Tally(listed=10, orphan_rows=2, dead=Counter({"unreadable": 3, "missing_image": 2}))
    refusal = Refusal(
        "LostSamplesError",
        f"10 listed images + 2 label rows without an image are not {examples} examples + 5 dead "
        f"letters: samples were lost or doubled. {REPORT}",
    )
    shards = [shard(NAMES[1], examples - 3), shard(NAMES[0], 3)]
    assert balance(tally, shards) == (None if examples == 7 else refusal)


@pytest.mark.promise("miscounted")
def test_a_dead_letter_that_is_not_listed_is_found() -> None:
    """The lines of each reason are as many as were counted, not only those of all."""
    tally = Tally(listed=8, dead=Counter({"unreadable": 3, "empty_file": 2}))
    listed, shards = Counter({"unreadable": 2, "empty_file": 3}), [shard(name, 0) for name in NAMES]
    refusal = accounting_error(SHARDS, tally, [shards[0], shard(NAMES[1], 3)], listed)
    assert refusal == Refusal(
        "LostSamplesError",
        "dead_letters.jsonl lists {'unreadable': 2, 'empty_file': 3}, but counted were "
        f"{{'unreadable': 3, 'empty_file': 2}}. {REPORT}",
    )


@pytest.mark.promise("miscounted")
@in_rows
def test_a_shard_missing_doubled_or_unknown_is_found(names: Sequence[str]) -> None:
    """Every shard of the plan must have been written once."""
    refusal = balance(Tally(), [shard(name, 0) for name in names])
    assert refusal is not None
    assert refusal.error == "LostSamplesError"
    assert refusal.message.startswith(f"2 shards were planned, {len(names)} were written: ")
    assert refusal.message.endswith(REPORT)


FOLDERS = plausibility.LabelChecks("folder names")


@pytest.mark.parametrize("confirmed", [False, True])
def test_splits_in_the_classes_of_a_column_are_asked_about_whatever_is_said_of_it(
    confirmed: bool,
) -> None:
    checks = plausibility.LabelChecks("the column 'label'", "label", confirmed=confirmed)
    classes = {"cat/train": 9, "dog/train": 9, "cat/val": 9}

    assert [q.id for q in plausibility.class_questions(classes, checks)] == ["folders_in_classes"]


def test_a_line_break_in_a_name_makes_no_line() -> None:
    """Nor does another control character reach a terminal."""
    options = ConvertOptions(InputOptions(images=("a\nb",)))
    asked = Question("x", "Class 'a\nb'.", "\x1b[2J", {"labels": ("c",)})
    assert str(question_error([asked], options)).splitlines()[1:-1] == [
        r"- Class 'a\nb'. \x1b[2J",
        r"    beam-tfrecord convert --images 'a\nb' --labels c",
    ]


def test_the_error_lists_questions_and_commands() -> None:
    """A line each, and how to go on."""
    questions = [
        Question("one", "One.", "Do this."),
        Question("two", "Two.", answer={"columns": {"b": "str"}}),
    ]
    options = ConvertOptions(InputOptions(images=("p",)))
    options = replace(options, labels=replace(options.labels, columns={"a": "int"}))
    error = question_error(questions, options)
    assert isinstance(error, QuestionError)
    assert error.ids == ("one", "two")
    assert str(error).splitlines() == [
        "stopped before any image was read, as a guess about the labels is not safe:",
        "- One. Do this.",
        "- Two.",
        "    beam-tfrecord convert --images p --columns a:int,b:str",
        "Correct the command, or accept the guess with --yes.",
    ]


@in_rows
def test_names_of_splits_are_asked_about(
    checks: dict[str, Any], splits: set[str], asked: tuple[str, Any] | None
) -> None:
    """Of roots, columns and label files, where all samples would be for training."""
    questions = plausibility.split_questions(splits, replace(FOLDERS, **checks))
    assert [(question.id, question.answer) for question in questions] == ([asked] if asked else [])


@in_rows
def test_label_files_are_asked_about(
    keys: list[str], archive: bool, images: int, unseen: bool, asked: list[tuple[str, Any]]
) -> None:
    """A question an extension; a single file has a command."""
    passed_over = LabelFiles()
    for key in keys:
        passed_over.see(LabelFile(key, f"gs://b/{key}", archive))
    checks = replace(FOLDERS, unseen=unseen)
    questions = list(plausibility.label_file_questions(passed_over, images, checks))
    assert [(question.reason, question.answer) for question in questions] == asked
    assert {question.id for question in questions} <= {"label_files_ignored"}
    advice = f"{plausibility.ADVICE} Take the labels out of the archive first."
    assert not archive or {question.advice for question in questions} <= {advice}
