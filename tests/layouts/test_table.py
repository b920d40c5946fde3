"""Tables with lists in their cells, several classes an image, and names of images in a bucket."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from beam_pipeline.core import errors, packing, references
from beam_pipeline.core.dead_letters import DeadLetter, Reason
from beam_pipeline.core.labels.table_rows import TableHead
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.layouts import heads, named_files, opening, table
from beam_pipeline.layouts.layout import FileLabels, SourceOptions
from beam_pipeline.layouts.named_files import LocalCopy, find_copies
from tests.harness import (
    ALL_BAD,
    NONE_BAD,
    convert,
    convert_asking,
    dead_letters_of,
    float32,
    read_all,
)
from tests.layouts.make_parquet import FEATURES, pets, write_parquet
from tests.pictures import picture, write_files, write_pictures

# --- tables as people have them -------------------------------------------------------------------

QUOTE = '"'


PICTURES = [f"{number:02d}.jpg" for number in range(12)]


@pytest.fixture
def pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with photos/, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    write_pictures("photos", PICTURES)
    return tmp_path


def converted(table: str, *argv: str, none_bad: str = NONE_BAD) -> dict[str, dict[str, Any]]:
    """Key -> the features that come from the labels, of a conversion of photos/ with a table."""
    assert convert("--images", "photos", "--labels", table, none_bad, "--output", "out", *argv) == 0
    prefixes = ("image/class/", "image/label", "image/object/", "label/")
    return {
        key: {name: value for name, value in features.items() if name.startswith(prefixes)}
        for key, features in read_all("out").items()
    }


def turned_picture() -> bytes:
    """An image stored as 9 x 7 pixels, which a viewer shows as 7 x 9."""
    exif, out = Image.Exif(), io.BytesIO()
    exif[0x0112] = 6  # a quarter turn clockwise
    Image.new("RGB", (9, 7), (40, 80, 120)).save(out, "PNG", exif=exif)
    return out.getvalue()


def test_a_table_claims_sizes_beside_boxes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An image of another size is left out, and so is one of which rows claim two; 0 claims nothing.

    Of a turned image, the size says whether boxes were measured on the picture as shown.
    """
    monkeypatch.chdir(tmp_path)
    images = {f"p/{name}.png": picture(1, file_format="PNG") for name in ("same", "none", "other")}
    images |= {f"p/{name}.png": picture(1, file_format="PNG") for name in ("swapped", "two")}
    images |= {f"p/{name}.png": turned_picture() for name in ("shown", "stored")}
    rows = [
        *("same.png,9,7,cat,1,2,3,4", "same.png,,,dog,3,2,5,4", "none.png,0,0,cat,1,2,3,4"),
        *("other.png,18,14,cat,1,2,3,4", "swapped.png,7,9,cat,1,2,3,4"),
        *("two.png,9,7,cat,1,2,3,4", "two.png,7,9,dog,1,2,3,4"),
        *("shown.png,7,9,cat,1,2,3,4", "stored.png,9,7,cat,1,2,3,4"),
    ]
    header = "filename,width,height,class,xmin,ymin,xmax,ymax"
    write_files(".", {**images, "l.csv": "\n".join([header, *rows, ""])})
    argv = ("--images", "p", "--labels", "l.csv", "--output", "out", "--writers=0", ALL_BAD)
    assert convert(*argv) == 0
    found = read_all("out")
    sides = [f"image/object/bbox/{side}" for side in ("xmin", "ymin", "xmax", "ymax")]
    boxes = {name: [example[side][0] for side in sides] for name, example in found.items()}
    upright = float32([1 / 9, 2 / 7, 3 / 9, 4 / 7])
    assert boxes == {
        "same.png": upright,
        "none.png": upright,
        "shown.png": float32([1 / 7, 2 / 9, 3 / 7, 4 / 9]),
        "stored.png": float32([3 / 7, 1 / 9, 5 / 7, 3 / 9]),
    }
    letters = {letter["key"]: letter for letter in dead_letters_of("out")}
    assert {key: (letter["reason"], letter.get("line", 0)) for key, letter in letters.items()} == {
        "other.png": ("size_mismatch", 0),
        "swapped.png": ("size_mismatch", 0),
        "two.png": ("conflicting_labels", 8),
    }
    assert letters["other.png"]["file"] == f"{tmp_path}/l.csv"
    assert letters["two.png"]["message"] == (
        f"{tmp_path}/l.csv, line 7 claims an image of 9 x 7 pixels, {tmp_path}/l.csv, line 8 one of "
        "7 x 9; correct the wrong one"
    )


def test_a_table_of_excel_in_german_is_read(
    pictures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Windows-1252, semicolons and decimal commas, each in a note."""
    rows = [f"{name};{'Vögel' if i % 2 else 'Käfer'};{i},5" for i, name in enumerate(PICTURES)]
    write_files(".", {"l.csv": "\r\n".join(["Datei;label;Größe", *rows, ""]).encode("cp1252")})
    found = converted("l.csv")
    assert found["03.jpg"] == {
        "image/class/label": [1],
        "image/class/text": ["Vögel".encode()],
        "label/Größe": [3.5],
    }
    out = capsys.readouterr().out
    assert "Note: l.csv is not UTF-8 and is read as Windows-1252, with words such as 'Größe'" in out
    assert "Note: l.csv: numbers with a decimal comma in Größe are read as with a point" in out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("closed", "message"),
    [
        (
            None,
            "l.csv, lines 2 to 14: not CSV: unexpected end of data; look for a quote that is not ",
        ),
        (
            3,
            "l.csv, line 2: 'cat\\n01.jpg,cat\\n02.jpg,cat\\n03.jpg,cat' in column 'label' has 4 lines",
        ),
    ],
)
def test_a_stray_quote_ends_the_run(
    pictures: Path, closed: int | None, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2 with file and line; no data set without the samples that it swallowed."""
    rows = [
        f"{name},{QUOTE * (i == 0)}cat{QUOTE * (i == closed)}\n" for i, name in enumerate(PICTURES)
    ]
    write_files(".", {"l.csv": "filename,label\n" + "".join(rows) + "x.jpg,dog\n"})
    assert convert("--images", "photos", "--labels", "l.csv", ALL_BAD, "--output", "out") == 2
    assert message in capsys.readouterr().err
    assert not os.path.exists("out/manifest.json")


@pytest.mark.slow
def test_most_images_without_a_label_stop_the_run(
    pictures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2 and the way out, which ends well."""
    write_files(".", {"l.csv": "filename,label\n" + "".join(f"{n},a\n" for n in PICTURES[:5])})
    argv = ("--images", "photos", "--labels", "l.csv")
    assert convert_asking(*argv, "--output", "out") == 2
    assert "7 of 12 images lack a label, such as '05.jpg', '06.jpg', '07.jpg'. A data" in (
        capsys.readouterr().err
    )
    assert convert_asking(*argv, "--output", "other", "--yes") == 0
    assert len(read_all("other")) == 5


# --- lists of images without labels ---------------------------------------------------------------

LISTED = ("b/1.jpg", "b/2.png", "c/d/3.jpg", "c/d/4.jpg", "b/5.jpg", "c/d/6.jpg")


@pytest.fixture
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with data/images/ and lists of two splits, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    write_pictures("data/images", LISTED)
    write_files(".", {"train.txt": "b/1\nb/2\n/c/d/3.jpg\n", "TestList.txt": "c/d/4\n5.jpg\n"})
    return tmp_path


def test_a_list_of_two_splits_refuses_what_both_name(
    listed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is written; both places are said."""
    write_files(".", {"TestList.txt": "c/d/4\nb/2\n"})
    argv = ["--images", "data/images", "--labels", "train.txt", "TestList.txt"]
    assert convert(*argv, "--splits", "label_files", "--output", "out", NONE_BAD) == 1
    said = capsys.readouterr().err
    assert "1 conflicting_labels" in said
    assert re.search(r"TestList.txt, line 2 says the split test, .*train.txt, line 2 says", said)


@pytest.mark.slow
def test_listed_images_in_no_class_folder_are_an_error(
    listed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says that folders were to be the classes; nothing is written."""
    write_pictures("flat", ["1.jpg", "2.jpg"])
    write_files(".", {"train.txt": "1\n2\n"})
    assert convert("--images", "flat", "--labels", "train.txt", "--output", "out") == 1
    said = capsys.readouterr().err
    assert "none of 2 images has labels that can be used, in 2 label rows (2 unlabelled)" in said
    assert "is in a list without labels, and is in no class folder" in said


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
        (["gs://b/gone.jpg", "gs://b/flowers/rose/1.jpg"], ("gs://b/",)),
        (["gs://b/2021/flowers/rose/1.jpg", "s3://c/deep/2.jpg"], ("gs://b/2021/", "s3://c/deep/")),
        (["gs://b/gone/2.jpg", "gs://b/flowers/rose/1.jpg"], ("gs://b/",)),  # not gs://b/gone/
        (["gs://b/1.jpg", "gs://b/x/3.jpg"], BY_NAME),  # not one at its path
        ([*GONE[1:], "gs://b/2.jpg"], ("gs://b/",)),
        ([*GONE, "gs://b/2.jpg"], BY_NAME),  # the search is given up
        (["a.jpg", "gs://b/2.jpg"], ()),
        ([], ()),
        (["/home/bob/flowers/rose/1.jpg", "/home/bob/2.jpg"], ("/home/bob/",)),
        (["C:\\data\\2.jpg", "C:\\data\\flowers\\tulip\\1.jpg"], ("C:/data/",)),
        (["images/2.jpg", "images/flowers/rose/1.jpg", "images/gone.jpg"], ("images/",)),
        (["../old/2.jpg"], ("../old/",)),
        (["images/2", "images/flowers/rose/1"], ("images/",)),
        (["//server/share/2.jpg"], ("//server/share/",)),
        (
            ["5.jpg", "/home/bob/2.jpg", "D:\\pics\\flowers\\rose\\1.jpg"],
            ("/home/bob/", "D:/pics/"),
        ),
        (["flowers/rose/1.jpg", "flowers/tulip/1.jpg"], ()),  # as they are
        (["flowers/2.jpg", "flowers/rose/1.jpg"], ()),  # the second is there as it stands
        (["train/2.jpg", "test/2.jpg"], ()),  # two paths, one image
        (["x/2.jpg", "x/flowers/2.jpg", "x/y/flowers/rose/1.jpg"], ()),  # a place in another
        (["gone/8.jpg", "gone/9.jpg"], ()),  # a relative path is not matched by its file name
        (["/old/a/8.jpg", "/old/b/8.jpg"], ()),  # file names that do not tell images apart
        (["2.jpg", "5.jpg"], ()),
        (["x/2.jpg", "gs://b/2.jpg"], ()),
        ([""], ()),
        (["y\\3.jpg"], ()),  # a backslash may be part of a name
        (MANY, PATHS_BY_NAME),
        ([*MANY, "x0.jpg", "x/x0.jpg"], ()),
        (["/old/x/8_deep.jpg", "/old/y/9_deep.jpg"], PATHS_BY_NAME),
    ],
)
def test_outdated_paths(root: ImageRoot, names: list[str], copies: LocalCopy | tuple[str]) -> None:
    """What stands before the longest tail that is there is removed from all; nothing ambiguous is."""
    write_files(root.uri, {"y\\3.jpg": "x", **{f"x{number}.jpg": "x" for number in range(20)}})
    expected = LocalCopy(copies) if isinstance(copies, tuple) else copies
    assert find_copies(names, [root]) == expected


def test_where_nothing_is_outdated(root: ImageRoot) -> None:
    """Images in a bucket, paths from the label file's folder, and whole paths of listed files."""
    images, folder = root.uri, root.uri.rpartition("/")[2]
    label_file = f"{images.rpartition('/')[0]}/labels.csv"
    assert find_copies(["gs://b/2.jpg"], [root, ImageRoot("gs://b")]) == LocalCopy()
    assert find_copies([f"{folder}/2.jpg"], [root], [label_file]) == LocalCopy()
    assert find_copies([f"{folder}/2.jpg"], [root]) == LocalCopy((f"{folder}/",))
    assert find_copies([f"{images}/2.jpg"], [root]) == LocalCopy()
    rows = iter([references.LabelRow("gs://b/2.jpg", (), "", "f", 1)])
    assert LocalCopy().rename(rows) is rows


def test_names_of_copies() -> None:
    """Without their beginnings or folders; a note says which."""
    copies = LocalCopy(("gs://b/", "C:/data/"))
    names = ["gs://b/gone/9.jpg", "C:\\data\\x\\9.jpg", "gs://c/1.jpg", "a.jpg"]
    assert [*map(copies.name, names)] == ["gone/9.jpg", "x/9.jpg", "gs://c/1.jpg", "a.jpg"]
    assert copies.notes == tuple(
        f"rows name images in {place}; taken are their copies of the same path in --images"
        for place in ("gs://b/", "C:/data/")
    )
    assert [*map(BY_NAME.name, ("gs://b/x/1.jpg", "x/1.jpg"))] == ["1.jpg", "x/1.jpg"]
    assert [*map(PATHS_BY_NAME.name, ("a\\b\\7.jpg", "gs://b/7.jpg"))] == ["7.jpg", "gs://b/7.jpg"]
    for copies, kind in ((BY_NAME, "URIs"), (PATHS_BY_NAME, "paths")):
        assert copies.notes == (
            f"rows name images by {kind} of another place, whose folders are not those in --images; rows "
            "and images are matched by their bare file names",
        )


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


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    """An error where its columns are needed, nothing where it is only looked at."""
    assert heads.first_line(f"{tmp_path}/gone.csv") is None
    with pytest.raises(errors.LabelTableError, match=r"gone\.csv cannot be read: No such file"):
        heads.head(f"{tmp_path}/gone.csv")


NO_IMAGE = b"\x00\xff"


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
            [{"name": "a", "raw": NO_IMAGE}, {"name": "b", "raw": NO_IMAGE}],
            None,
            "{uri}: no row can be used; row 1 has bytes that are not UTF-8 text in raw",
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


def test_faulty_rows_beside_good_ones(tmp_path: Path) -> None:
    """The good ones are the head; the others become dead letters when the file is read."""
    uri = f"{tmp_path}/x.parquet"
    write_parquet(uri, [{"name": b"a"}, {"name": NO_IMAGE}])
    assert heads.head(uri) == TableHead(uri, b"", True, ({"name": "a"},))


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
