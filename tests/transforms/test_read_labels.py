"""Reading label files in a job: rows, dead letters and counts of named files and of folders."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import apache_beam as beam
import pytest

from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import LabelTableError, Refusal
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.core.references import ImageRef, LabelRow
from beam_pipeline.layouts.layout import FileLabels, ListedLabels
from beam_pipeline.transforms.labels import ReadLabelFiles
from beam_pipeline.work import labels as label_work
from beam_pipeline.work.outcome import DEAD_LETTERS, TALLY
from tests.pictures import write_files
from tests.transforms.outputs import assert_items, assert_total, counted


def row(uri: str, line: int, name: str) -> LabelRow:
    return LabelRow(name, ("cat",), "", uri, line)


def bad(uri: str, line: int) -> DeadLetter:
    return DeadLetter("labels", "", "", "bad_row", "a question mark", uri, line)


class Reader:
    """A line names an image; `?` is a bad row, `!` the end of what can be read."""

    def read(self, file: BinaryIO, uri: str) -> Iterator[LabelRow | DeadLetter]:
        for line, text in enumerate(file.read().decode().split(), 1):
            if text == "!":
                raise LabelTableError(f"{uri} has an exclamation mark")
            yield bad(uri, line) if text == "?" else row(uri, line, text)


def assert_read(
    labels: FileLabels, rows: list[LabelRow], dead_letters: list[DeadLetter], tally: Tally
) -> None:
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        found: Any = pipeline | ReadLabelFiles(labels=labels, raises=False)
        assert_items(found["rows"], rows, "rows")
        assert_items(found[DEAD_LETTERS], dead_letters, "dead letters")
        assert_total(found[TALLY], tally)


def test_what_cannot_be_read_is_raised_where_nothing_collects_it(tmp_path: Path) -> None:
    """A pipeline that looks at rows alone does not take a broken file for an empty one."""
    write_files(str(tmp_path), {"a": b"1 !"})
    with (
        pytest.raises(LabelTableError, match="a has an exclamation mark"),
        beam.Pipeline(runner="FnApiRunner") as pipeline,
    ):
        _ = pipeline | ReadLabelFiles(labels=FileLabels(Reader(), files=(f"{tmp_path}/a",)))


@pytest.mark.parametrize("batch_size", [1, 2, 4096])
def test_every_row_of_named_files_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch_size: int
) -> None:
    """A bad row is a dead letter, and a row that has no image."""
    monkeypatch.setattr(label_work, "BATCH_SIZE", batch_size)
    write_files(str(tmp_path), {"a": "1 2 ? 4", "b": "", "c": "5"})
    a, b, c = (f"{tmp_path}/{name}" for name in "abc")
    assert_read(
        FileLabels(Reader(), files=(a, b, c)),
        [row(a, 1, "1"), row(a, 2, "2"), row(a, 4, "4"), row(c, 1, "5")],
        [bad(a, 3)],
        Tally(label_rows=5, orphan_rows=1, **counted(bad(a, 3))),
    )


def test_a_broken_file_refuses_the_run(tmp_path: Path) -> None:
    """The reason travels with the counts; the other files are read."""
    write_files(str(tmp_path), {"a": "1 !", "b": "2"})
    a, b = (f"{tmp_path}/{name}" for name in "ab")
    assert_read(
        FileLabels(Reader(), files=(a, b)),
        [row(a, 1, "1"), row(b, 1, "2")],
        [],
        Tally(label_rows=2, refusals=[Refusal("LabelTableError", f"{a} has an exclamation mark")]),
    )


def test_a_file_that_is_gone_is_a_dead_letter(tmp_path: Path) -> None:
    """It names the file; its images are reported without labels."""
    gone = f"{tmp_path}/gone"
    dead_letter = DeadLetter(
        "labels", gone, "", "bad_row", "cannot be read: No such file or directory", gone
    )
    assert_read(
        FileLabels(Reader(), files=(gone,)),
        [],
        [dead_letter],
        Tally(label_rows=1, orphan_rows=1, **counted(dead_letter)),
    )


def test_folders_are_listed_in_the_job(tmp_path: Path) -> None:
    """Files of the pattern are read; what is no file is a dead letter; other files do not count."""
    write_files(
        str(tmp_path), {"a/1.txt": "1", "a/deep/2.txt": "2 ?", "b/3.csv": "3", "c/4.txt": ""}
    )
    os.mkfifo(tmp_path / "c" / "pipe.txt")
    folders = tuple(ImageRoot(f"{tmp_path}/{name}", ("**/*.txt",)) for name in "abc")
    one, two = f"{tmp_path}/a/1.txt", f"{tmp_path}/a/deep/2.txt"
    pipe = DeadLetter(
        stage="list",
        key="pipe.txt",
        uri=f"{tmp_path}/c/pipe.txt",
        reason="not_a_file",
        message="a socket, pipe or device, not a file",
    )
    assert_read(
        FileLabels(Reader(), folders=folders),
        [row(one, 1, "1"), row(two, 1, "2")],
        [bad(two, 2), pipe],
        Tally(
            label_rows=4,
            orphan_rows=2,
            **counted(bad(two, 2), pipe),
        ),
    )


def test_a_folder_that_cannot_be_listed_refuses_the_run(tmp_path: Path) -> None:
    """Its images would be unlabelled, and nobody would know why."""
    folder = f"{tmp_path}/gone"
    said = (
        f"{folder} cannot be listed (No such file or directory), so its images would be missed; "
        "make it readable or move it out of the images' folder"
    )
    assert_read(
        FileLabels(Reader(), folders=(ImageRoot(folder),)),
        [],
        [],
        Tally(refusals=[Refusal("ListingError", said)]),
    )


class Masks:
    """A file is the mask of the image of its name."""

    def row(self, file: ImageRef) -> LabelRow:
        return LabelRow(file.key[:-4], ((file.uri, file.size, 0),), "", file.uri, 0)


def test_listed_files_are_rows(tmp_path: Path) -> None:
    """None is opened; a pipe is a row without an image, and other files do not count."""
    write_files(str(tmp_path), {"a.png": "xx", "b/c.png": "", "notes.txt": ""})
    os.mkfifo(tmp_path / "d.png")
    pipe = DeadLetter(
        stage="list",
        key="d.png",
        uri=f"{tmp_path}/d.png",
        reason="not_a_file",
        message="a socket, pipe or device, not a file",
    )
    rows = [
        LabelRow(key[:-4], ((f"{tmp_path}/{key}", size, 0),), "", f"{tmp_path}/{key}", 0)
        for key, size in (("a.png", 2), ("b/c.png", 0))
    ]
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        labels = ListedLabels(Masks(), (ImageRoot(str(tmp_path)),))
        found: Any = pipeline | ReadLabelFiles(labels=labels)
        assert_items(found["rows"], rows, "rows")
        assert_items(found[DEAD_LETTERS], [pipe], "dead letters")
        assert_total(found[TALLY], Tally(label_rows=3, orphan_rows=1, **counted(pipe)))
