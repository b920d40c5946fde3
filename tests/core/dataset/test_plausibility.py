"""What counts of splits and of label files make doubtful, and how it is asked."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

from beam_pipeline.core.dataset.plausibility import (
    LabelChecks,
    label_file_questions,
    split_questions,
)
from beam_pipeline.core.errors import QuestionError
from beam_pipeline.core.listing.label_files import LabelFile, LabelFiles
from beam_pipeline.core.questions import Question, question_error
from beam_pipeline.options import ConvertOptions, InputOptions

FOLDERS = LabelChecks("folder names")


def test_paths_with_names_of_splits_are_asked_about() -> None:
    """If all samples are in one split."""
    roots = ("pets/train", "pets/val")
    checks = dataclasses.replace(FOLDERS, split_roots=roots, above_roots="pets")
    (question,) = split_questions(["train"], checks)
    assert (question.id, question.answer) == ("split_roots", {"images": ("pets",)})
    assert list(split_questions(["test", "train"], checks)) == []


def test_columns_with_names_of_splits_are_asked_about() -> None:
    """If all samples are in one split; else something has named the splits."""
    checks = dataclasses.replace(FOLDERS, split_columns={"data set": "str", "fold": "int64"})
    (question,) = split_questions(["train"], checks)
    assert (question.id, question.answer) == ("split_column", {"columns": {"data set": "str"}})
    assert list(split_questions(["train", "test"], checks)) == []


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
    options = dataclasses.replace(
        options, labels=dataclasses.replace(options.labels, columns={"a": "int"})
    )
    error = question_error(questions, options)
    assert isinstance(error, QuestionError)
    assert error.ids == ("one", "two")
    assert str(error).splitlines() == [
        "stopped before any image was read, as a guess about the labels is not safe:",
        "- One. Do this.",
        "- Two.",
        "    beam-tfrecord convert --images p --columns a:int,b:str",
        "Correct the command, or go on as it is with --yes.",
    ]


@pytest.mark.parametrize(
    ("files", "splits", "asks"),
    [
        ({"/l/train.csv": "train", "/l/test.csv": "test"}, {"train"}, True),
        ({"/l/test.csv": "test"}, {"train"}, True),
        ({"/l/train.csv": "train"}, {"train"}, False),
        ({"/l/test.csv": "test"}, {"test"}, False),
        ({"/l/test.csv": "test"}, {"test", "train"}, False),
        ({}, {"train"}, False),
    ],
)
def test_label_files_of_other_splits_are_asked_about(
    files: Mapping[str, str], splits: set[str], asks: bool
) -> None:
    """Where all samples would be for training."""
    questions = list(split_questions(splits, dataclasses.replace(FOLDERS, split_files=files)))
    assert [question.answer for question in questions] == [{"splits": "label_files"}] * asks


UNSEEN = dataclasses.replace(FOLDERS, unseen=True)


def passed_over(*keys: str, archive: bool = False) -> LabelFiles:
    """What a listing counts of these files."""
    found = LabelFiles()
    for key in keys:
        found.see(LabelFile(key, f"gs://b/{key}", archive))
    return found


@pytest.mark.parametrize(
    ("keys", "reasons", "answers"),
    [
        (
            ["labels.csv"],
            ["1 .csv file (labels.csv) would be ignored, and looks like a table of labels."],
            [{"labels": ("gs://b/labels.csv",)}],
        ),
        (
            ["a b.tsv", "c.json"],
            [
                "1 .json file (c.json) would be ignored.",
                "1 .tsv file (a b.tsv) would be ignored, and looks like a table of labels.",
            ],
            [{"labels": ("gs://b/c.json",), "layout": "coco"}, {"labels": ("gs://b/a b.tsv",)}],
        ),
        (
            ["a.csv", "b.csv", "c.csv"],
            ["3 .csv files (a.csv, b.csv, and 1 more) would be ignored, and look like tables."],
            [None],
        ),
        (["a.xml"], ["1 .xml file (a.xml) would be ignored."], [None]),
        (
            [f"{i}.xml" for i in range(5)],
            [
                "5 .xml files (0.xml, 1.xml, and 3 more) would be ignored, and look like annotations."
            ],
            [None],
        ),
        (
            [f"{i}.txt" for i in range(5)],
            [
                "5 .txt files (0.txt, 1.txt, and 3 more) would be ignored, about as many as "
                "images, and may be labels of each."
            ],
            [None],
        ),
    ],
)
def test_label_files_are_asked_about(
    keys: list[str], reasons: list[str], answers: list[Any]
) -> None:
    """A question an extension; a single file has a command."""
    questions = list(label_file_questions(passed_over(*keys), 10, UNSEEN))
    assert [question.reason for question in questions] == reasons
    assert [question.answer for question in questions] == answers


@pytest.mark.parametrize(
    ("found", "images", "checks"),
    [
        (passed_over("a.csv"), 10, FOLDERS),
        (passed_over("a.csv"), 0, UNSEEN),
        (passed_over(), 10, UNSEEN),
        (passed_over("README.txt"), 1, UNSEEN),
        (passed_over("1.txt", "2.txt", "3.txt", "4.txt"), 9, UNSEEN),
        (passed_over("1.xml", "2.xml", archive=True), 5, UNSEEN),
        (passed_over("out/manifest.json", "out/d.tfrecord-00000-of-00001"), 5, UNSEEN),
    ],
)
def test_nothing_is_asked_about_other_files(
    found: LabelFiles, images: int, checks: LabelChecks
) -> None:
    """Where somebody has looked, without images, and of a few texts or a written data set."""
    assert list(label_file_questions(found, images, checks)) == []


def test_a_table_in_an_archive_has_no_command() -> None:
    """--labels reads no members."""
    (question,) = label_file_questions(passed_over("p.zip/a.csv", archive=True), 10, UNSEEN)
    assert question == Question(
        "label_files_ignored",
        "1 .csv file (p.zip/a.csv) would be ignored, and looks like a table of labels.",
        "Name the file whose rows name the images with --labels. Take what says the labels out of the "
        "archive first.",
    )
