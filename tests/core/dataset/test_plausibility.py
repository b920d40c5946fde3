"""What counts of classes make doubtful, and what they do not."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pytest

from beam_pipeline.core.dataset.plausibility import (
    NO_CHECKS,
    LabelChecks,
    Question,
    class_questions,
    label_file_questions,
    question_error,
    split_questions,
)
from beam_pipeline.core.errors import QuestionError
from beam_pipeline.core.listing.label_files import LabelFile, LabelFiles

COLUMN = LabelChecks("the column 'l'", "l", command="convert")
FOLDERS = LabelChecks("folder names", command="convert")


def asked(classes: Mapping[str, int], checks: LabelChecks = COLUMN) -> list[str]:
    """The first words of each question, up to what is counted."""
    return [question.reason for question in class_questions(classes, checks)]


IMAGENET = dict.fromkeys(
    (
        "tench, Tinca tinca",
        "goldfish, Carassius auratus",
        "great white shark, white shark",
        "hammerhead, hammerhead shark",
        "crane",
        "cock",
    ),
    50,
)


@pytest.mark.parametrize(
    "classes",
    [
        {},
        {"cat": 4},
        {"cat": 1, "dog": 1},
        {"cat": 100, "dog": 1},
        {f"person {i}": 1 + (i % 3 == 0) for i in range(100)},
        {str(i): 1 for i in range(9)},
        {"0,5": 1, "1,5": 2},
        {"0.5": 3, "0.7": 3, "a": 3, "b": 3, "c": 3, "d": 3},
        {str(i): 5 for i in range(100)},
        {"dog, small": 6, "cat": 7, "größe": 6},
        IMAGENET,
        {"AC/DC": 3, "a;": 3, ",": 3, "a": 3},
        {"golden retriever": 5, "labrador retriever": 5, "golden eagle": 5},
        {"hot dog": 5, "dog": 5, "apple pie": 5},
        {"bullet_train": 5, "test_tube": 5, "bus": 5, "cup": 5, "car": 5},
    ],
)
def test_nothing_is_asked_of_usual_classes(classes: Mapping[str, int]) -> None:
    """Few images, long tails, integers, and names with commas."""
    assert asked(classes) == asked(classes, FOLDERS) == []


@pytest.mark.parametrize(
    ("classes", "reason"),
    [
        (
            {"cat": 5},
            "There is a single class, 'cat', by the column 'l', so all 5 images have the same label.",
        ),
        (
            {str(i): 1 + (i == 3) for i in range(10)},
            "9 of 10 classes by the column 'l' have a single image ('0', '1', '2', and 6 more), as "
            "names or captions of the images would.",
        ),
        (
            {"-0,5": 1, ".25": 2, "1e-3": 9, "a": 7, "b": 7},
            "3 of 5 classes by the column 'l' are numbers with decimals ('-0,5', '.25', '1e-3'), "
            "which look like a number to predict, not like classes.",
        ),
        (
            {"a;b": 1, "b; c": 2, "c;a": 3},
            "3 of 3 classes by the column 'l' look like lists of classes, separated by ';' ('a;b', "
            "'b; c', 'c;a'); each would be a class of its own.",
        ),
        (
            {"a|b": 1, "a": 2, "b": 3, "tench, Tinca tinca": 4},
            "1 of 4 classes by the column 'l' look like lists of classes, separated by '|' ('a|b'); "
            "each would be a class of its own.",
        ),
    ],
)
def test_one_reason_says_what_was_found(classes: Mapping[str, int], reason: str) -> None:
    """The strongest alone: numbers are also lists, and have a single image each."""
    assert asked(classes) == [reason]
    assert asked(classes, FOLDERS) == [reason.replace("the column 'l'", "folder names")]
    assert asked(classes, NO_CHECKS) == []


@pytest.mark.parametrize(
    ("classes", "checks", "is_asked"),
    [
        ({str(n): 5 for n in range(20, 30)}, LabelChecks("the column 'age'", "age"), True),
        (
            {str(n): 5 for n in range(-9, 9)},
            LabelChecks("the column 'Yaw angle'", "Yaw angle"),
            True,
        ),
        ({str(n): 5 for n in range(20, 29)}, LabelChecks("the column 'age'", "age"), False),
        (
            {**{str(n): 5 for n in range(20)}, "90+": 1},
            LabelChecks("the column 'age'", "age"),
            False,
        ),
        ({str(n): 5 for n in range(20)}, LabelChecks("the column 'l'", "age group"), False),
        (
            {str(n): 5 for n in range(20)},
            LabelChecks("the column 'age'", "age", confirmed=True),
            False,
        ),
    ],
)
def test_integers_in_a_column_of_a_quantity_are_questioned(
    classes: Mapping[str, int], checks: LabelChecks, is_asked: bool
) -> None:
    """Only if there are many, and nothing says that they are classes."""
    assert [reason.partition(" by ")[0] for reason in asked(classes, checks)] == (
        [f"All {len(classes)} classes"] if is_asked else []
    )


def test_a_column_has_a_command_where_folders_have_advice() -> None:
    """An option can answer for a table."""
    lists = {"a,b": 1, "a": 2, "b": 3}
    (question,) = class_questions(lists, COLUMN)
    assert question.command == "convert --list_column l=,"
    (question,) = class_questions(lists, FOLDERS)
    assert (question.command, question.advice) == (
        "",
        "A table with --list_column says which images have which classes.",
    )
    (question,) = class_questions(lists, dataclasses.replace(COLUMN, column="a;b c"))
    assert question.command == "convert --list_column 'a;b c=,'"


@pytest.mark.parametrize(
    ("classes", "column", "lists"),
    [
        ({"16 0": 2, "7 1 2 0": 1, "5": 3}, "Target", True),
        ({"scab": 3, "rust": 3, "scab rust": 2, "healthy": 9}, "label", True),
        ({"clear primary": 2, "clear water primary": 1, "haze primary water": 3}, "tags", True),
        ({"clear primary": 2, "clear water primary": 1, "haze primary water": 3}, "label", False),
        ({"red car": 2, "red bus": 1, "blue car": 3, "blue bus": 1}, "labels", False),
        ({"10": 2, "2": 1}, "label", False),
    ],
)
def test_lists_with_spaces_are_told_from_classes_of_two_words(
    classes: Mapping[str, int], column: str, lists: bool
) -> None:
    """Only in a column: folders hold no lists."""
    found = list(class_questions(classes, dataclasses.replace(COLUMN, column=column)))
    commands = [question.command for question in found]
    assert commands == ([f"convert --list_column '{column}= '"] if lists else [])
    assert asked(classes, FOLDERS) == []


def test_a_class_and_a_box_in_one_cell_are_asked_about() -> None:
    """As in the tables of ImageNet's localization task."""
    classes = {"n01 5 6 40.5 30": 2, "n02 1 2 3 4 n01 5 6 7 8": 1, "none": 1}
    (question,) = class_questions(classes, COLUMN)
    assert question.reason == (
        "2 of 3 classes by the column 'l' look like a class and a box in one cell ('n01 5 6 40.5 30', "
        "'n02 1 2 3 4 n01 5 6 7 8')."
    )


def test_a_folder_of_images_among_class_folders_is_asked_about() -> None:
    """As that of Tiny ImageNet's validation set."""
    classes = {"images": 9, "n01/images": 4}
    assert asked(classes, FOLDERS) == [
        "'images' is one of 2 classes by folder names, with 9 images, but such a name is usual for a "
        "folder of images."
    ]
    assert asked(classes) == []
    assert asked(classes, dataclasses.replace(FOLDERS, confirmed=True)) == []


def test_paths_with_names_of_splits_are_asked_about() -> None:
    """If all samples are in one split."""
    roots = ("pets/train", "pets/val")
    checks = dataclasses.replace(FOLDERS, split_roots=roots, above_roots="convert --images pets")
    (question,) = split_questions(["train"], checks)
    assert question == Question(
        "All samples would be in the split train, although 'pets/train', 'pets/val' in --images have "
        "names of splits; only folders below a path of --images are splits.",
        "Name the folder above them:",
        "convert --images pets",
    )
    assert list(split_questions(["test", "train"], checks)) == []


def test_columns_with_names_of_splits_are_asked_about() -> None:
    """If all samples are in one split; else something has named the splits."""
    checks = dataclasses.replace(COLUMN, split_columns=("data set",))
    (question,) = split_questions(["train"], checks)
    assert question == Question(
        "All samples would be in the split train, although the column 'data set' holds names of splits.",
        "Call the column split in the table's header, or keep it as a feature with --columns "
        "'data set:str'.",
    )
    assert list(split_questions(["train", "test"], checks)) == []


def test_folders_with_splits_in_their_names_are_asked_about() -> None:
    """The command takes split and class from the paths; a flat folder has no classes to take."""
    classes = {"test_set/cat": 5, "training_set/cat": 4}
    reason = (
        "The folders 'test_set', 'training_set' have a split in their names, and would be classes or "
        "parts of them; so a class would be another one in each split."
    )
    (question,) = class_questions(classes, FOLDERS)
    pattern = "(?P<split>test|training)_set/(?P<label>.+)/[^/]+"
    assert question == Question(
        reason,
        "Rename them to train, validation and test, or:",
        f"convert --label_from '{pattern}'",
    )
    (question,) = class_questions({"test_set": 5, "training_set": 4}, FOLDERS)
    assert (question.reason, question.command) == (reason, "")
    assert asked(classes) == []
    assert asked(classes, dataclasses.replace(FOLDERS, confirmed=True)) == []


def test_folders_of_images_and_masks_of_each_sample_are_asked_about() -> None:
    """No command reads them, as several masks belong to one image."""
    classes = {"s1/0a7e/images": 1, "s1/0a7e/masks": 9, "s1/0acd/images": 1, "s1/0acd/masks": 7}
    assert list(class_questions(classes, FOLDERS)) == [
        Question(
            "All 4 classes by folder names end with '/images' or '/masks' ('s1/0a7e/images', "
            "'s1/0a7e/masks', 's1/0acd/images', and 1 more), but such names are usual for images and "
            "their masks.",
            "Several masks of an image have to be one, whose pixels are class ids: --masks names its "
            "folder.",
        )
    ]
    assert asked(classes) == []
    assert asked(classes, dataclasses.replace(FOLDERS, confirmed=True)) == []


def test_a_null_character_is_asked_about() -> None:
    """Many programs take it for the end."""
    (question,) = class_questions({"a\0b": 3, "c": 3}, COLUMN)
    assert question.reason.startswith(
        "The class 'a\\x00b' by the column 'l' contains a null character"
    )


def test_a_line_break_in_a_name_makes_no_line() -> None:
    """Nor does another control character reach a terminal."""
    error = question_error([Question("Class 'a\nb'.", "\x1b[2J", "convert 'a\nb'")])
    assert str(error).splitlines()[1:-1] == [
        r"- Class 'a\nb'. \x1b[2J",
        r"    convert 'a\nb'",
    ]


def test_the_error_lists_questions_and_commands() -> None:
    """A line each, and how to go on."""
    error = question_error([Question("One.", "Do this."), Question("Two.", command="do that")])
    assert isinstance(error, QuestionError)
    assert str(error).splitlines() == [
        "stopped before any image was read, as a guess about the labels is not safe:",
        "- One. Do this.",
        "- Two.",
        "    do that",
        "Correct the command, or go on as it is with --yes.",
    ]


def test_folders_of_images_in_the_paths_of_classes_are_asked_about() -> None:
    """Above all classes where lists name the images, and below each where folders are guessed."""
    listed = dataclasses.replace(
        FOLDERS, listed=True, folder="dtd", command="convert --images dtd --labels train.txt"
    )
    above = {"images/banded": 3, "images/dotted": 4}
    (question,) = class_questions(above, listed)
    assert question == Question(
        "All 2 classes by folder names begin with 'images/' ('images/banded', 'images/dotted'), but such a "
        "name is usual for the folder above the class folders.",
        command="convert --images dtd/images --labels train.txt",
    )
    (question,) = class_questions(above, dataclasses.replace(listed, folder=""))
    assert (question.advice, question.command) == ("Name the folder 'images' with --images.", "")
    assert not list(class_questions(above, FOLDERS))
    below = {"n1/images": 3, "n2/images": 4}
    (question,) = class_questions(below, FOLDERS)
    assert question == Question(
        "All 2 classes by folder names end with '/images' ('n1/images', 'n2/images'), but such a name is "
        "usual for a folder of images, not for a part of a class.",
        command="convert --label_from '(?:(?P<split>train|val|test)/)?(?P<label>.+)/images/[^/]+'",
    )
    (question,) = class_questions(below, listed)
    assert not question.command
    assert not list(class_questions(below, dataclasses.replace(FOLDERS, confirmed=True)))


def test_a_flat_folder_of_a_split_is_asked_about() -> None:
    """Beside class folders, as ImageNet's `val`; `train` may be a class."""
    (question,) = class_questions({"n1": 9, "n2": 9, "val": 2}, FOLDERS)
    assert question.reason == (
        "'val' would be a class of 3 by folder names, with 2 images that lie in no class folder there, but "
        "such a name is usual for a split."
    )
    assert "--labels" in question.advice
    assert not list(class_questions({"bus": 9, "train": 2}, FOLDERS))
    assert not list(
        class_questions({"n1": 9, "val": 2}, dataclasses.replace(FOLDERS, confirmed=True))
    )
    assert not list(class_questions({"n1": 9, "val": 2}, COLUMN))


def test_splits_in_the_paths_of_classes_are_asked_about() -> None:
    """The command names the folder above them, where that is known."""
    classes = {"a b/train/cat": 5, "a b/val/cat": 4}
    (question,) = class_questions(classes, FOLDERS)
    assert question == Question(
        "All 2 classes by folder names have a split in their paths ('a b/train/cat', 'a b/val/cat'), so "
        "a class would be another one in each split.",
        "Name the folder above the splits, 'a b', with --images.",
    )
    checks = dataclasses.replace(FOLDERS, folder="pets", command="convert --images pets --output o")
    (question,) = class_questions(classes, checks)
    assert question.command == "convert --images 'pets/a b' --output o"


@pytest.mark.parametrize(
    ("classes", "reason"),
    [
        (
            {"Cat": 5, "cat": 5, "dog": 9},
            "1 class by the column 'l' is spelled in several ways, such as 'Cat' and 'cat', ",
        ),
        (
            {"Cat": 5, "cat": 5, "dog": 9, "dog ": 1},
            "2 classes by the column 'l' are spelled in several ways, such as 'Cat' and 'cat', ",
        ),
    ],
)
def test_classes_in_several_spellings_are_asked_about(
    classes: Mapping[str, int], reason: str
) -> None:
    """Each would be a class of its own."""
    assert asked(classes) == [f"{reason}each of which would be a class of its own."]


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
    assert [question.command for question in questions] == ["convert --splits label_files"] * asks


UNSEEN = dataclasses.replace(FOLDERS, unseen=True)


def passed_over(*keys: str, archive: bool = False) -> LabelFiles:
    """What a listing counts of these files."""
    found = LabelFiles()
    for key in keys:
        found.see(LabelFile(key, f"gs://b/{key}", archive))
    return found


@pytest.mark.parametrize(
    ("keys", "reasons", "commands"),
    [
        (
            ["labels.csv"],
            ["1 .csv file (labels.csv) would be ignored, and looks like a table of labels."],
            ["convert --labels gs://b/labels.csv"],
        ),
        (
            ["a b.tsv", "c.json"],
            [
                "1 .json file (c.json) would be ignored.",
                "1 .tsv file (a b.tsv) would be ignored, and looks like a table of labels.",
            ],
            ["convert --labels gs://b/c.json --layout coco", "convert --labels 'gs://b/a b.tsv'"],
        ),
        (
            ["a.csv", "b.csv", "c.csv"],
            ["3 .csv files (a.csv, b.csv, and 1 more) would be ignored, and look like tables."],
            [""],
        ),
        (["a.xml"], ["1 .xml file (a.xml) would be ignored."], [""]),
        (
            [f"{i}.xml" for i in range(5)],
            [
                "5 .xml files (0.xml, 1.xml, and 3 more) would be ignored, and look like annotations."
            ],
            [""],
        ),
        (
            [f"{i}.txt" for i in range(5)],
            [
                "5 .txt files (0.txt, 1.txt, and 3 more) would be ignored, about as many as "
                "images, and may be labels of each."
            ],
            [""],
        ),
    ],
)
def test_label_files_are_asked_about(
    keys: list[str], reasons: list[str], commands: list[str]
) -> None:
    """A question an extension; a single file has a command."""
    questions = list(label_file_questions(passed_over(*keys), 10, UNSEEN))
    assert [question.reason for question in questions] == reasons
    assert [question.command for question in questions] == commands


@pytest.mark.parametrize(
    ("found", "images", "checks"),
    [
        (passed_over("a.csv"), 10, FOLDERS),
        (passed_over("a.csv"), 10, COLUMN),
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
        "1 .csv file (p.zip/a.csv) would be ignored, and looks like a table of labels.",
        "Name the file whose rows name the images with --labels. Take what says the labels out of the "
        "archive first.",
    )
