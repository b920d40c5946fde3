"""Tables with lists in their cells, several classes an image, and names of images in a bucket."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from beam_pipeline.core import errors, packing, references
from beam_pipeline.core.dead_letters import DeadLetter, Reason
from beam_pipeline.core.labels.table_rows import TableHead, TableRows
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.layouts import heads, named_files, opening, table
from beam_pipeline.layouts.layout import FileLabels, SourceOptions
from beam_pipeline.layouts.named_files import LocalCopy, find_copies
from tests.harness import (
    ALL_BAD,
    convert,
    float32,
    read_all,
)
from tests.layouts.make_parquet import FEATURES, pets, write_parquet
from tests.pictures import picture, write_files, write_pictures

# --- tables as people have them -------------------------------------------------------------------


def turned_picture() -> bytes:
    """An image stored as 9 x 7 pixels, which a viewer shows as 7 x 9."""
    exif, out = Image.Exif(), io.BytesIO()
    exif[0x0112] = 6  # a quarter turn clockwise
    Image.new("RGB", (9, 7), (40, 80, 120)).save(out, "PNG", exif=exif)
    return out.getvalue()


def test_sizes_in_a_table_say_how_boxes_of_turned_images_were_measured(
    working_folder: Path,
) -> None:
    """On the picture as it is shown, or as it is stored."""
    rows = "shown.png,7,9,cat,1,2,3,4\nstored.png,9,7,cat,1,2,3,4\n"
    table = f"filename,width,height,class,xmin,ymin,xmax,ymax\n{rows}"
    images = dict.fromkeys(("p/shown.png", "p/stored.png"), turned_picture())
    write_files(".", {**images, "l.csv": table})
    assert convert("--images", "p", "--labels", "l.csv", "--output", "out", ALL_BAD) == 0
    sides = [f"image/object/bbox/{side}" for side in ("xmin", "ymin", "xmax", "ymax")]
    assert {key: [each[side][0] for side in sides] for key, each in read_all("out").items()} == {
        "shown.png": float32([1 / 7, 2 / 9, 3 / 7, 4 / 9]),
        "stored.png": float32([3 / 7, 1 / 9, 5 / 7, 3 / 9]),
    }


@pytest.fixture
def root(tmp_path: Path) -> ImageRoot:
    """A folder of images, copied from somewhere."""
    write_files(str(tmp_path), {"flowers/rose/1.jpg": "x", "flowers/tulip/1.jpg": "x", "2.jpg": ""})
    return ImageRoot(str(tmp_path))


BY_NAME, PATHS_BY_NAME = LocalCopy(by_file_name="URIs"), LocalCopy(by_file_name="paths")
MANY = [f"patient{number}/x{number}.jpg" for number in range(20)]
GONE = [f"gs://b/gone/g{number}.jpg" for number in range(1000)]


@pytest.mark.parametrize(
    ("names", "copies"),
    [
        ([*GONE[1:], "gs://b/2.jpg"], ("gs://b/",)),
        ([*GONE, "gs://b/2.jpg"], BY_NAME),  # the search is given up
        (MANY, PATHS_BY_NAME),
        ([*MANY, "x0.jpg", "x/x0.jpg"], ()),
    ],
)
def test_outdated_paths(root: ImageRoot, names: list[str], copies: LocalCopy | tuple[str]) -> None:
    """What stands before the longest tail that is there is removed from all; nothing ambiguous is."""
    write_files(root.uri, {**{f"x{number}.jpg": "x" for number in range(20)}})
    expected = LocalCopy(copies) if isinstance(copies, tuple) else copies
    assert find_copies(names, [root]) == expected


CSV_LIMIT = 128 << 10  # characters of a cell, unless somebody says otherwise


@pytest.fixture(autouse=True)
def the_limit_of_a_fresh_process() -> Iterator[None]:
    """Nobody has raised the csv module's limit yet."""
    before = csv.field_size_limit(CSV_LIMIT)
    yield
    csv.field_size_limit(before)


def rows_of(folder: Path, layout: str, text: str) -> list[references.LabelRow | DeadLetter]:
    """The rows of a file, read as on a worker that has not seen the job start."""
    path = folder / "labels.csv"
    path.write_text(text)
    options = SourceOptions((str(folder),), (str(path),))
    labels = opening.open_source(layout, options)[0].labels
    assert isinstance(labels, FileLabels)
    csv.field_size_limit(CSV_LIMIT)
    with path.open("rb") as file:
        rows: list[references.LabelRow | DeadLetter] = []
        for part in labels.reader.read(file, str(path)):
            rows += part if isinstance(part, packing.LabelBatch) else [part]
        return rows


@pytest.mark.parametrize("layout", ["table", "automl"])
def test_a_cell_may_be_long(tmp_path: Path, layout: str) -> None:
    """Python's csv refuses a cell of more than 128 Ki characters; a mask may have more."""
    mask = "1" * 200_000
    header = "filename,label\n" if layout == "table" else ""
    (row,) = rows_of(tmp_path, layout, f"{header}a.jpg,{mask}\n")
    assert isinstance(row, references.LabelRow)
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
    assert last == references.LabelRow("b.jpg", ("cat",), "", f"{tmp_path}/labels.csv", 3)


def test_a_head_says_whether_it_is_the_whole_file(tmp_path: Path) -> None:
    """4 MiB of it, or 64 KiB for its first line."""
    path = tmp_path / "labels.csv"
    path.write_bytes(b"x" * (4 << 20))
    assert heads.head(str(path)) == TableHead(str(path), b"x" * (4 << 20), True)
    assert heads.first_line(str(path)) == TableHead(str(path), b"x" * (64 << 10), False)
    path.write_bytes(b"x" * ((4 << 20) + 1))
    assert heads.head(str(path)) == TableHead(str(path), b"x" * (4 << 20), False)


@pytest.mark.parametrize(
    ("rows", "features", "message"),
    [
        (
            pets(range(2)),
            FEATURES,
            "{uri} contains the images themselves, in its column 'image', not only labels; convert it "
            "with --images {uri}, without --labels",
        ),
        (
            [{"name": "a", "jpg": picture(1)}],
            None,
            "{uri} contains the images themselves, in its column 'jpg', not only labels; convert it with "
            "--images {uri}, without --labels",
        ),
        (
            [{"name": "a", "raw": b"\x00\xff"}],
            None,
            "{uri}: the column 'raw' contains bytes; write the table without it, or with texts",
        ),
        (
            [],
            {"name": {}},
            "{uri}: the file is without rows; expected a row for each image or object",
        ),
    ],
)
def test_a_parquet_file_without_rows_of_labels(
    rows: list[Any], features: Any, message: str, tmp_path: Path
) -> None:
    """The error says which of the reasons it is; a look at the file finds nothing."""
    uri = f"{tmp_path}/x.parquet"
    write_parquet(uri, rows, features)
    with pytest.raises(errors.LabelTableError) as caught:
        heads.head(uri)
    assert str(caught.value) == message.format(uri=uri)
    assert heads.first_line(uri) is None


@pytest.mark.parametrize(("rows", "first"), [(1, 1), (30_000, 20_480)])
def test_the_beginning_of_a_parquet_table(rows: int, first: int, tmp_path: Path) -> None:
    """Its first rows, in whole batches."""
    uri = f"{tmp_path}/x.parquet"
    write_parquet(uri, [{"name": "a"}] * rows)
    beginning = TableRows([*range(1, first + 1)], {"name": ["a"] * first}, ragged=True)
    assert heads.head(uri) == TableHead(uri, b"", rows == first, beginning)


@pytest.mark.parametrize(("first", "second", "listed"), [("a/1.jpg", "b/2.jpg", 0), ("1", "2", 3)])
def test_folders_are_listed_only_for_a_question(
    first: str, second: str, listed: int, working_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names with folders and extensions ask none; in a bucket, a listing takes a request for each folder."""
    roots: list[str] = []

    def walk(root: str, _: int) -> Iterator[Any]:
        roots.append(root)
        return iter(())

    monkeypatch.setattr(named_files, "walk", walk)
    write_pictures("photos", ["a/1.jpg", "b/2.jpg"])
    Path("labels.csv").write_text(f"image,label\n{first},cat\n{second},dog\n")
    table.Table().open(SourceOptions(("photos",), ("labels.csv",)))
    assert len(roots) == listed
