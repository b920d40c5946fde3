"""Lists of names without a header, as public data sets have them."""

from __future__ import annotations

import pytest

from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.core.labels.name_lists import (
    NAMED_LABELS_HEADER,
    NAMES_HEADER,
    header_of_names,
    split_line,
)
from beam_pipeline.core.labels.schema import CLASS_FOLDER_COLUMNS
from tests.core.labels.fixtures import inspect, read, said

PAGE = "docs/datasets/official_lists.md"


@pytest.mark.parametrize(
    "lines",
    [
        ["apple_pie/1005649", "apple_pie/1011328"],
        ["banded/banded_0002.jpg", "banded/banded_0004.jpg"],
        ["/a/abbey/sun_aakbdcgfpksytcwj.jpg"],
        ["kitchen/int 474.jpg", "a kitchen/x, y.jpg"],
        ["2008_000008", "2008_000015"],
        ["1025794", "1340192"],
        ["1.jpg", "2.jpg"],
    ],
)
def test_names_alone_are_a_list(lines: list[str]) -> None:
    """With or without folder and extension; a name with one may have spaces."""
    assert header_of_names(lines, "l.txt") == NAMES_HEADER
    assert [split_line(line, 1) for line in lines] == [[line] for line in lines]


@pytest.mark.parametrize(
    "lines",
    [
        ["0787226 Boeing 707-320", "1481091 Boeing 737-200"],
        ["2008_000001 -1", "2008_000002  1", "2008_000003 -1"],
        ["a/b 3"],
        ["a/b 1", "a/c 2", "a/d 2"],
    ],
)
def test_names_with_labels_are_a_list(lines: list[str]) -> None:
    """The first space ends the name."""
    assert header_of_names(lines, "l.txt") == NAMED_LABELS_HEADER
    assert [split_line(line, 2) for line in lines] == [line.split(maxsplit=1) for line in lines]


@pytest.mark.parametrize(
    "lines",
    [
        [],
        ["filename"],
        ["apple_pie", "baklava"],
        ["filename,label", "a.jpg,cat"],
        ["a.jpg b.jpg"],
        ["a.jpg,cat"],
        ["a.jpg\tcat"],
        ["Abyssinian_100 1 1 1", "Abyssinian_101 1 1 1"],
        ["file name", "a b"],
        ["0787226 Boeing 707-320", "Airbus"],
        ["'a b.jpg'"],
    ],
)
def test_other_lines_are_no_list(lines: list[str]) -> None:
    """They have a header, separators, several numbers, or words that may name columns."""
    assert header_of_names(lines, "l.txt") == ()


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            ["1 001.Albatross/a.jpg", "2 001.Albatross/b.jpg"],
            "l.txt: the lines begin with 1, 2, 3, ... ('1 001.Albatross/a.jpg'), which are ids and no names "
            "of images. If several files share the ids, as those of CUB-200-2011 do, join them into one "
            f"table first; {PAGE} has the commands",
        ),
        (
            ["n01/n01_26 1", "n01/n01_27 2"],
            "l.txt: the numbers after the names count the lines ('n01/n01_26 1', 'n01/n01_27 2'), so they "
            "are no labels. To take the names alone, in another folder: cut -d' ' -f1 l.txt > l.txt",
        ),
        (
            ["202599", "5_o_Clock_Shadow Young"],
            "l.txt: the first line is a number (202599), as a count of the others, where column names or "
            f"an image's name are expected. {PAGE} has commands that write a table of such a file, as "
            "CelebA has it",
        ),
        (
            ["490", "361", "490"],
            "l.txt: the lines are numbers, some of them several times, and name no image. If they are the "
            "labels of the images in the order of their names, as those of ImageNet's validation set are, "
            f"write a table of both; {PAGE} has the command",
        ),
    ],
)
def test_ids_counts_and_labels_are_no_names(lines: list[str], message: str) -> None:
    """The message says what they look like, and what to do."""
    with pytest.raises(LabelTableError) as caught:
        header_of_names(lines, "l.txt")
    assert str(caught.value) == message


def test_a_list_is_a_table_with_the_folders_as_classes() -> None:
    """The first line is a row; commas and quotes are part of a name."""
    content = 'b/1\n\n  b/2 \nb/3, "x"\n'
    schema, table = inspect(content, "train.txt", may_be_lists=True)
    assert (table.header, table.has_header, table.key_column) == (NAMES_HEADER, False, "filename")
    assert schema.class_by_folder
    assert [column.feature for column in schema.columns] == [CLASS_FOLDER_COLUMNS[0].feature]
    assert said(content, "train.txt", may_be_lists=True) == [
        (1, "b/1", (None,)),
        (3, "b/2", (None,)),
        (4, 'b/3, "x"', (None,)),
    ]
    assert schema.notes == (
        "train.txt has no header, and is read as a list of images without labels",
    )


def test_a_line_of_a_list_with_labels_may_lack_one() -> None:
    """Among those that the beginning of the file does not show, as here one beyond it."""
    lines = [f"{number}7 Boeing {number % 3}" for number in range(1000)]
    *rows, last = read("\n".join([*lines, "10007"]), "l.txt")
    assert len(rows) == 1000
    assert isinstance(last, DeadLetter)
    assert (last.reason, last.line) == ("bad_row", 1001)
    assert last.message == "names no image and its label: '10007'"


@pytest.mark.parametrize(
    ("content", "columns"),
    [
        ("filename\na.jpg\n", ["folder"]),
        ("image_id,split\na,train\n", ["folder"]),
        ("filename,patient\na.jpg,7\n", ["folder", "patient", "patient"]),
    ],
)
def test_a_table_without_a_label_column_is_a_list(content: str, columns: list[str]) -> None:
    """It may have the split and the group of each image."""
    group = "patient" if "patient" in content else ""
    schema, _ = inspect(content, may_be_lists=True, group=group)
    assert schema.class_by_folder
    assert [column.name for column in schema.columns] == columns


@pytest.mark.parametrize("content", ["cat\ndog\n", "Abyssinian_1 1 1\nAbyssinian_2 1 1\n"])
def test_an_unknown_column_alone_is_no_list(content: str) -> None:
    """It may hold classes; nor may a layout with a table of its own have lists."""
    with pytest.raises(LabelTableError, match="no column besides the key"):
        inspect(content, "l.txt", may_be_lists=True)
    with pytest.raises(LabelTableError, match="no column besides the key"):
        inspect("a/1\na/2\n", "l.txt")


@pytest.mark.parametrize(
    ("content", "uri", "label"),
    [
        ("1.jpg 0\n2.jpg 2\n", "list_eval_partition.txt", "label"),
        ("image_id,partition\n1.jpg,0\n2.jpg,1\n", "l.csv", "partition"),
    ],
)
def test_a_partition_is_asked_about(content: str, uri: str, label: str) -> None:
    """Unless the user named its column, or it holds other values."""
    (question,) = inspect(content, uri)[0].questions
    assert question.startswith(f"The column {label!r} of {uri} would be the label, but numbers")
    assert not inspect(content, uri, label=label)[0].questions
    assert not inspect(content.replace("2.jpg", "3.jpg").replace("0", "7"), uri)[0].questions
