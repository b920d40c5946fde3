"""Folders with a label file for each image."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.labels.schema import ColumnKind, label_column, object_column
from beam_pipeline.core.references import ImageRef, LabelRow
from beam_pipeline.layouts import label_files
from tests.pictures import write_files


@pytest.fixture
def folder(working_folder: Path) -> Path:
    """The working directory: two folders of label files and one of other files."""
    names = ("a/1.txt", "a/2.TXT", "a/.3.txt", "a/4.csv", "b/deep/5.txt", "c/6.csv")
    write_files(str(working_folder), dict.fromkeys(names, "x"))
    return working_folder


def test_a_path_is_shown_as_it_would_be_typed(folder: Path) -> None:
    """Relative where the person typed a relative one."""
    assert label_files.typed_path(f"{folder}/a/b", "a") == "a/b"
    assert label_files.typed_path(f"{folder}/a/b", f"{folder}/a") == f"{folder}/a/b"
    assert label_files.typed_path(f"{folder}/a/b", "~/a") == f"{folder}/a/b"
    assert label_files.typed_path("gs://bucket/a", "a") == "gs://bucket/a"


def test_names_without_folder_and_extension(tmp_path: Path) -> None:
    """However they are written; a list that is not there is empty."""
    path = tmp_path / "train.txt"
    path.write_bytes(b"\xef\xbb\xbf000001\r\n\r\n JPEGImages/000002.jpg\na.b\nx\\\\c.xml\n")
    lists = label_files.read_split_lists([str(tmp_path)], ("train", "val"))
    assert lists.names == {str(path): ["000001", "000002", "a.b", "c"]}


def test_a_name_in_two_lists(tmp_path: Path) -> None:
    """Is refused, unless the second list is that of all of training."""
    write_files(str(tmp_path), {"train.txt": "a\n", "trainval.txt": "a\nb\nc\n", "val.txt": "b\n"})
    folder = str(tmp_path)
    lists = label_files.read_split_lists([folder, "", folder], ("train", "val", "test", "trainval"))
    assert lists.splits == {"a": "train", "b": "validation", "c": "train"}
    assert list(lists.names) == [f"{folder}/{name}.txt" for name in ("train", "val", "trainval")]
    (tmp_path / "val.txt").write_text("b\na\n")
    with pytest.raises(UsageError, match=r"/val\.txt names a for validation, but"):
        label_files.read_split_lists([folder], ("train", "val"))


class _Read(list[str]):
    """A list that counts how often it is gone through."""

    times = 0

    def __iter__(self) -> Iterator[str]:
        self.times += 1
        return super().__iter__()


def test_lists_of_thousands_of_names_are_compared_in_one_pass(tmp_path: Path) -> None:
    """Not in one for each name, which takes minutes for 100,000."""
    (tmp_path / "train.txt").write_text("".join(f"{i}\n" for i in range(100)))
    names = _Read(map(str, range(1, 102)))
    notes = label_files.read_split_lists([str(tmp_path)], ("train",)).notes(names, "label files")
    assert [note.partition(" ")[0] for note in notes] == ["1"]
    assert names.times < 5


def _check(fields: list[str], line: int) -> None:
    if fields == ["bad"]:
        raise label_files.BadLabelError("a bad line")


class OneWord(label_files.LabelFormat):
    """A file holds a class; a line `bad` is a fault."""

    columns = (label_column("class", ColumnKind.CLASS), object_column("x", ColumnKind.FLOAT))
    most_bytes = 9

    def parse(self, data: bytes, uri: str) -> label_files.ImageLabels:
        label_files.rows_of_lines(data, _check)
        return label_files.ImageLabels((data.decode(), ()), (4, 3))

    def skips(self, name: str) -> bool:
        return name == "README.txt"


def test_a_file_is_the_row_of_its_image() -> None:
    """With its split; a fault has its line, and files that are no labels have no rows."""
    places = (
        label_files.Place("/l"),
        label_files.Place("/l/in", "/i"),
        label_files.Place("/l/bare", bare=True),
    )
    splits = label_files.Splits({"/i/a": "test", "x/a": "val"}, (("/i", "train"),))
    reader = pickle.loads(
        pickle.dumps(label_files.LabelFileReader(OneWord(), places, splits, frozenset({"/l/s"})))
    )

    def row(data: bytes, uri: str) -> LabelRow | None:
        return next(reader.read(io.BytesIO(data), uri), None)

    assert row(b"cat", "/l/x/a.txt") == LabelRow(
        "x/a", ("cat", ()), "val", "/l/x/a.txt", 0, "", (4, 3)
    )
    found = [
        row(b"", uri) for uri in ("/l/in/a.txt", "/l/in/b.c.txt", "/l/bare/x/a.txt", "/m/a.txt")
    ]
    assert [(r.name, r.split) for r in found if r] == [
        ("/i/a", "test"),
        ("/i/b.c", "train"),
        ("a", "unlisted"),
        ("/m/a", "unlisted"),
    ]
    bad = LabelRow("a", (None, ()), "unlisted", "/l/a.txt", 3, "a bad line")
    assert row(b"x\n\nbad", "/l/a.txt") == bad
    huge = io.BytesIO(b"0123456789" * 9)
    problem = "the file has more than 9 bytes"
    assert [*reader.read(huge, "/l/a.txt")] == [bad._replace(line=0, problem=problem)]
    assert huge.tell() == 10, "the rest is not read"
    assert row(b"x", "/l/s") is row(b"x", "/l/README.txt") is None
    image = ImageRef("b.c.jpg", "/i/b.c.jpg", 3)
    assert reader.row(image) == LabelRow("b.c.jpg", (None, ()), "train", "", 0)
    assert reader.unread("/l/a.txt", "gone") == bad._replace(line=0, problem="gone")


def test_splits_by_folder_and_by_list() -> None:
    """A list counts first, then the innermost folder; with lists, other images are in none."""
    splits = label_files.Splits({"/d/x/1": "validation"}, (("/d", "train"), ("/d/x", "test")))
    assert [splits.of(image) for image in ("/d/x/1", "/d/x/2", "/d/3", "/e/4")] == [
        "validation",
        "test",
        "train",
        "unlisted",
    ]
    assert label_files.Splits().of("/d/1") == ""
