"""Tests for the beginnings of label files."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beam_pipeline.core.dead_letters import DeadLetter, Reason
from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.core.labels.table_files import TableHead
from beam_pipeline.core.packed_batches import LabelBatch
from beam_pipeline.core.references import LabelRow
from beam_pipeline.layouts.heads import first_line, head
from beam_pipeline.layouts.layout import FileLabels, SourceOptions
from beam_pipeline.layouts.opening import open_source
from tests.layouts.make_parquet import FEATURES, pets, write_parquet
from tests.pictures import picture

CSV_LIMIT = 128 << 10  # characters of a cell, unless somebody says otherwise


@pytest.fixture(autouse=True)
def the_limit_of_a_fresh_process() -> Iterator[None]:
    """Nobody has raised the csv module's limit yet."""
    before = csv.field_size_limit(CSV_LIMIT)
    yield
    csv.field_size_limit(before)


def rows_of(folder: Path, layout: str, text: str) -> list[LabelRow | DeadLetter]:
    """The rows of a file, read as on a worker that has not seen the job start."""
    path = folder / "labels.csv"
    path.write_text(text)
    options = SourceOptions((str(folder),), (str(path),))
    labels = open_source(layout, options)[0].labels
    assert isinstance(labels, FileLabels)
    csv.field_size_limit(CSV_LIMIT)
    with path.open("rb") as file:
        rows: list[LabelRow | DeadLetter] = []
        for part in labels.reader.read(file, str(path)):
            rows += part if isinstance(part, LabelBatch) else [part]
        return rows


@pytest.mark.parametrize("layout", ["table", "automl"])
def test_a_cell_may_be_long(tmp_path: Path, layout: str) -> None:
    """Python's csv refuses a cell of more than 128 Ki characters; a mask may have more."""
    mask = "1" * 200_000
    header = "filename,label\n" if layout == "table" else ""
    (row,) = rows_of(tmp_path, layout, f"{header}a.jpg,{mask}\n")
    assert isinstance(row, LabelRow)
    assert row.values == (mask,)


def test_a_cell_beyond_belief_is_a_dead_letter(tmp_path: Path) -> None:
    """16 Mi characters are a file in which a quote is not closed; what is behind them is read."""
    endless = "x" * ((16 << 20) + 1)
    dead_letter, last = rows_of(tmp_path, "table", f"filename,label\na.jpg,{endless}\nb.jpg,cat\n")
    assert dead_letter[3:] == (
        Reason.BAD_ROW.value,
        "line 2: not CSV: field larger than field limit (16777216); look for a quote that is not "
        "closed",
        f"{tmp_path}/labels.csv",
        2,
    )
    assert last == LabelRow("b.jpg", ("cat",), "", f"{tmp_path}/labels.csv", 3)


def test_a_head_says_whether_it_is_the_whole_file(tmp_path: Path) -> None:
    """4 MiB of it, or 64 KiB for its first line."""
    path = tmp_path / "labels.csv"
    path.write_bytes(b"x" * (4 << 20))
    assert head(str(path)) == TableHead(str(path), b"x" * (4 << 20), True)
    assert first_line(str(path)) == TableHead(str(path), b"x" * (64 << 10), False)
    path.write_bytes(b"x" * ((4 << 20) + 1))
    assert head(str(path)) == TableHead(str(path), b"x" * (4 << 20), False)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    """An error where its columns are needed, nothing where it is only looked at."""
    assert first_line(f"{tmp_path}/gone.csv") is None
    with pytest.raises(LabelTableError, match=r"gone\.csv cannot be read: No such file"):
        head(f"{tmp_path}/gone.csv")


NO_IMAGE = b"\x00\xff"


@pytest.mark.parametrize(
    ("rows", "features", "message"),
    [
        (
            pets(range(2)),
            FEATURES,
            "{uri} holds the images themselves, in its column 'image', not only labels; convert it "
            "with --images {uri}, without --labels",
        ),
        (
            [{"name": "a", "jpg": picture(1)}],
            None,
            "{uri} holds the images themselves, in its column 'jpg', not only labels; convert it with "
            "--images {uri}, without --labels",
        ),
        (
            [{"name": "a", "raw": NO_IMAGE}, {"name": "b", "raw": NO_IMAGE}],
            None,
            "{uri}: no row can be used; row 1 has bytes that are not UTF-8 text in raw",
        ),
        ([], {"name": {}}, "{uri}: the file has no rows; expected a row for each image or object"),
    ],
)
def test_a_parquet_file_without_rows_of_labels(
    rows: list[Any], features: Any, message: str, tmp_path: Path
) -> None:
    """The error says which of the reasons it is; a look at the file finds nothing."""
    uri = f"{tmp_path}/x.parquet"
    write_parquet(uri, rows, features)
    with pytest.raises(LabelTableError) as caught:
        head(uri)
    assert str(caught.value) == message.format(uri=uri)
    assert first_line(uri) == TableHead(uri, b"", "images themselves" not in message, ())


def test_faulty_rows_beside_good_ones(tmp_path: Path) -> None:
    """The good ones are the head; the others become dead letters when the file is read."""
    uri = f"{tmp_path}/x.parquet"
    write_parquet(uri, [{"name": b"a"}, {"name": NO_IMAGE}])
    assert head(uri) == TableHead(uri, b"", True, ({"name": "a"},))
