"""Cells that name files: pairs, depths, thumbnails and texts beside the image of a row."""

from __future__ import annotations

import io
import json
import shlex
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from beam_pipeline.core.labels.schema import ColumnKind, further_column
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.core.references import SampleRef
from beam_pipeline.layouts.named_files import CellFiles
from tests.harness import NONE_BAD, convert, convert_asking, dead_letters_of, manifest_of, read_all
from tests.pictures import encoded, picture, write_files

RIGHT, DEPTH, NOTE, LABEL = "right", "depth", "note", "label"
KEYS = [f"left/{i}.png" for i in range(4)]


def deep(number: int, size: tuple[int, int] = (9, 7)) -> bytes:
    """A PNG of 16 bits and one channel, of different values."""
    width, height = size
    values = np.arange(width * height, dtype=np.uint16).reshape(height, width) * 257 + number
    return encoded(Image.fromarray(values))


def csv(*rows: Sequence[str]) -> str:
    return "".join(",".join(row) + "\n" for row in rows)


def of_row(number: int) -> tuple[str, ...]:
    names = (f"left/{number}.png", f"right/{number}.png", f"depth/{number}.png")
    return (*names, f"notes/{number}.txt", ("cat", "dog")[number % 2])


TREE: Mapping[str, bytes | str] = {
    **{f"d/left/{i}.png": picture(i, file_format="PNG") for i in range(4)},
    **{f"d/right/{i}.png": picture(i + 9, file_format="PNG") for i in range(4)},
    **{f"d/depth/{i}.png": deep(i) for i in range(4)},
    **{f"d/notes/{i}.txt": f"note {i}" for i in range(4)},
    "pairs.csv": csv(("image", RIGHT, DEPTH, NOTE, LABEL), *map(of_row, range(4))),
}
OPTIONS = ("--images", "d", "--labels", "pairs.csv", "--output", "out")
FILES = ("--file_columns", "right,depth,note")


def content(path: str) -> bytes:
    data = TREE[path]
    return data if isinstance(data, bytes) else data.encode()


def stored(name: str, data: bytes, *, channels: int = 3) -> dict[str, list[Any]]:
    """The features of a picture of 9 x 7 pixels."""
    sides = {"height": [7], "width": [9], "channels": [channels]}
    values = {"encoded": [data], "format": [b"png"], **sides}
    return {f"{name}/{key}": value for key, value in values.items()}


@pytest.fixture
def tree(working_folder: Path) -> Path:
    """The working folder, with the tree in it."""
    write_files(str(working_folder), TREE)
    return working_folder


def test_the_question_has_the_command(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Paths of existing files are no features before somebody says so; the command works as printed."""
    assert convert_asking(*OPTIONS) == 2
    said = capsys.readouterr().err
    assert "cells of right, depth, note are paths of files that exist" in said
    assert "--file_columns right,depth,note" in said
    (command,) = (
        line.strip() for line in said.splitlines() if line.startswith("    beam-tfrecord")
    )
    assert "--columns right:file,depth:file,note:file" in command
    assert convert_asking(*shlex.split(command)[2:]) == 0
    assert read_all("out")[KEYS[0]]["note/encoded"] == [b"note 0"]
    options = ("--columns", "right:str,depth:skip,note:skip", "--output", "texts", *OPTIONS[:4])
    assert convert(*options, "--max_bad_fraction", "1") == 0
    assert read_all("texts")[KEYS[0]]["label/right"] == [b"right/0.png"]


@pytest.mark.parametrize("ending", ["jsonl", "parquet", "csv"])
def test_cells_with_several_files(tree: Path, ending: str) -> None:
    """A list of paths is a list of files, perhaps empty; relative paths may be beside the table."""
    views = [[f"d/right/{j}.png" for j in range(i)] for i in range(4)]
    rows = [{"image": key, "views": cell} for key, cell in zip(KEYS, views, strict=True)]
    options: tuple[str, ...] = ("--file_columns", "views")
    if ending == "parquet":
        from pyarrow import Table, parquet

        parquet.write_table(Table.from_pylist(rows), "views.parquet")
    elif ending == "csv":
        cells = [(row["image"], ";".join(row["views"])) for row in rows]
        write_files(".", {"views.csv": csv(("image", "views"), *cells)})
        options += ("--list_column", "views=;")
    else:
        write_files(".", {"views.jsonl": "".join(json.dumps(row) + "\n" for row in rows)})
    given = ("--images", "d/left", "--labels", f"views.{ending}", "--output", "out", NONE_BAD)
    for row in rows:
        row["image"] = row["image"].removeprefix("left/")  # type: ignore[union-attr]
    assert convert(*given, *options) == 0
    examples = read_all("out")
    for i in range(4):
        example = examples[f"{i}.png"]
        assert example["views/encoded"] == [content(f"d/right/{j}.png") for j in range(i)]
        assert example["views/width"] == [9] * i
        assert example["views/format"] == [b"png"] * i


def test_empty_cells_leave_the_features_out(tree: Path) -> None:
    """As for all columns but the label."""
    write_files(".", {"pairs.csv": csv(("image", RIGHT), (KEYS[0], "right/0.png"), (KEYS[1], ""))})
    given = ("--images", "d", "--labels", "pairs.csv", "--output", "out", "--max_bad_fraction", "1")
    assert convert(*given, "--file_columns", RIGHT) == 0
    examples = read_all("out")
    assert "right/encoded" in examples[KEYS[0]]
    assert not [key for key in examples[KEYS[1]] if key.startswith(RIGHT)]


def test_an_object_that_is_left_out_takes_its_file_along(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a table of objects, each has a file; that of a box without an area is not written."""
    head = ("image", "xmin", "ymin", "xmax", "ymax", "class", RIGHT)
    boxes = ((1, 1, 1, 3), (1, 1, 3, 3), (2, 2, 4, 4))
    rows = [(KEYS[0], *map(str, box), "cat", f"right/{i}.png") for i, box in enumerate(boxes)]
    write_files(".", {"pairs.csv": csv(head, *rows)})
    given = ("--images", "d", "--labels", "pairs.csv", "--output", "out", "--max_bad_fraction", "1")
    assert convert(*given, "--file_columns", RIGHT) == 0
    files = [(tree / "d" / "right" / f"{i}.png").read_bytes() for i in (1, 2)]
    assert read_all("out")[KEYS[0]]["image/object/right/encoded"] == files


def test_members_of_an_archive(tree: Path) -> None:
    """Paths in the archive name files in it, with the same bytes as from folders."""
    with zipfile.ZipFile("d.zip", "w") as archive:
        for name, data in TREE.items():
            if name.startswith("d/"):
                archive.writestr(name.removeprefix("d/"), data)
    given = ("--images", "d.zip", "--labels", "pairs.csv", "--output", "packed", NONE_BAD)
    assert convert(*given, *FILES) == 0
    assert convert(*OPTIONS, *FILES) == 0
    unpacked = read_all("out")
    for key, example in read_all("packed").items():
        same = unpacked[key.removeprefix("d.zip/")]
        files = {name for name in example if not name.startswith("image/")}
        assert {name: example[name] for name in files} == {name: same[name] for name in files}
    assert manifest_of("packed")["counts"]["dead_letters"] == 0


def test_metadata_of_hugging_face_names_files_beside_it(tree: Path) -> None:
    """Paths are relative to the file of each split."""
    tables = {
        f"h/{split}/metadata.csv": csv(
            ("file_name", "right_file"), *((f"{i}.png", f"r/{i}.png") for i in numbers)
        )
        for split, numbers in {"train": (0, 1), "test": (2, 3)}.items()
    }
    pictures = {
        f"h/{('train', 'test')[i // 2]}/{folder}{i}.png": content(f"d/{of}/{i}.png")
        for i in range(4)
        for folder, of in (("", "left"), ("r/", RIGHT))
    }
    write_files(".", {**tables, **pictures})
    given = ("--images", "h", "--output", "out", NONE_BAD)
    assert convert(*given, "--file_columns", "right_file") == 0
    examples = read_all("out")
    assert {key: example["right_file/encoded"] for key, example in examples.items()} == {
        f"{('train', 'test')[i // 2]}/{i}.png": [content(f"d/right/{i}.png")] for i in range(4)
    }


def test_a_changed_file_changes_its_sample(tree: Path) -> None:
    """--reuse writes the shard of it again, and only that; --exclude leaves out a sample by its file's path."""
    options = (*OPTIONS[:4], *FILES, "--num_shards", "4")
    assert convert(*options, "--output", "out") == 0
    write_files("d", {"right/2.png": picture(77, file_format="PNG", size=(9, 7))})
    write_files(".", {"skip.txt": "depth/1.png\n"})
    assert convert(*options, "--output", "next", "--reuse", "out", "--exclude", "skip.txt") == 0
    changes = json.loads(Path("next/changes.json").read_bytes())
    assert (changes["samples"]["removed"], changes["samples"]["relabelled"]) == (1, 1)
    examples = read_all("next")
    assert sorted(examples) == [KEYS[0], KEYS[2], KEYS[3]]
    assert examples[KEYS[2]]["right/encoded"] == [picture(77, file_format="PNG", size=(9, 7))]
    (letter,) = dead_letters_of("next")
    assert (letter["key"], letter["reason"]) == (KEYS[1], "excluded")
    assert convert(*options, "--output", "third", "--exclude", "skip.txt") == 0
    assert {p.name: p.read_bytes() for p in Path("next").glob("next-*")} == {
        p.name.replace("third", "next"): p.read_bytes() for p in Path("third").glob("third-*")
    }


def photo(number: int, size: tuple[int, int] = (12, 8)) -> Image.Image:
    """A picture of different pixels."""
    generator = np.random.default_rng(number)
    return Image.fromarray(generator.integers(0, 256, (size[1], size[0], 3), np.uint8))


def decoded(data: bytes) -> Any:
    return np.asarray(Image.open(io.BytesIO(data)))


def test_pictures_of_the_images_size_are_resized_with_it(working_folder: Path) -> None:
    """The same picture gives the same bytes; depths keep their values; copies and other sizes stay as they are."""
    picture_bytes = encoded(photo(1))
    depth, small = deep(3, (12, 8)), encoded(photo(2, (5, 4)))
    write_files(
        ".",
        {
            **dict.fromkeys(("d/a.png", "d/r.png", "d/copy.png"), picture_bytes),
            "d/depth.png": depth,
            "d/small.png": small,
            "t.csv": csv(
                ("file", "right", "depth", "copy", "small"),
                ("a.png", "r.png", "depth.png", "copy.png", "small.png"),
            ),
        },
    )
    given = ("--images", "d", "--labels", "t.csv", "--output", "out", NONE_BAD)
    options = ("--file_columns", "right,depth,copy:copy,small", "--resize", "6x4")
    assert convert(*given, *options, "--resize_mode", "crop") == 0
    (example,) = read_all("out").values()
    assert decoded(example["image/encoded"][0]).shape == (4, 6, 3)
    assert example["right/encoded"] == example["image/encoded"]
    assert (example["right/height"], example["right/width"]) == ([4], [6])
    assert decoded(example["depth/encoded"][0]).tolist() == decoded(depth)[1::2, 1::2].tolist()
    assert (example["depth/height"], example["depth/width"]) == ([4], [6])
    assert example["copy/encoded"] == [picture_bytes]
    assert (example["small/encoded"], example["small/height"]) == ([small], [4])


@pytest.mark.parametrize("orientation", ["", "keep", "refuse"])
def test_pictures_are_turned_with_their_image(working_folder: Path, orientation: str) -> None:
    """EXIF turns a picture of its own; one of the stored image's size that has none is turned as the image is."""
    exif = Image.Exif()
    exif[0x0112] = 6
    turned = encoded(photo(1), "JPEG", exif=exif, quality=95)
    stored_size, shown_size = deep(1, (12, 8)), deep(2, (8, 12))
    files = {"a.jpg": turned, "r.jpg": turned, "s.png": stored_size, "t.png": shown_size}
    table = csv(("file", "right", "stored", "shown"), ("a.jpg", "r.jpg", "s.png", "t.png"))
    write_files(".", {**{f"d/{name}": data for name, data in files.items()}, "t.csv": table})
    given = ("--images", "d", "--labels", "t.csv", "--output", "out", "--max_bad_fraction", "1")
    options = ("--orientation", orientation) if orientation else ()
    assert convert(*given, *options, "--file_columns", "right,stored,shown") == 0
    if orientation == "refuse":
        assert [letter["reason"] for letter in dead_letters_of("out")] == ["not_upright"]
        return
    (example,) = read_all("out").values()
    assert example["right/encoded"] == example["image/encoded"]
    assert example["shown/encoded"] == [shown_size]
    if orientation == "keep":
        assert (example["right/encoded"], example["stored/encoded"]) == ([turned], [stored_size])
        return
    assert decoded(example["right/encoded"][0]).shape == (12, 8, 3)
    upright = np.rot90(decoded(stored_size), -1)
    assert decoded(example["stored/encoded"][0]).tolist() == upright.tolist()


@pytest.mark.parametrize("uri", ["", "{folder}/photos/1.png"])
def test_only_files_below_the_images_or_the_table_are_found(tmp_path: Path, uri: str) -> None:
    """Not by an absolute path, nor, of a row without an image, by one from the root of the system."""
    write_files(str(tmp_path), {"secret.txt": "a", "photos/1.png": "b", "rows/near.txt": "c"})
    located = CellFiles([further_column(NOTE, ColumnKind.FILE)], [ImageRoot(f"{tmp_path}/photos")])
    for name, is_missing in (
        (f"{tmp_path}/secret.txt", True),
        (f"{tmp_path}/secret.txt".lstrip("/"), True),
        ("../secret.txt", True),
        ("near.txt", False),
    ):
        table = f"{tmp_path}/rows/rows.csv"
        sample = SampleRef("1.png", uri.format(folder=tmp_path), 1, "train", (name,), origin=table)
        samples, letters = located.locate([sample])
        assert len(letters) == is_missing, name
        assert len(samples) == (not is_missing)


# --- pairs without a table: partners are the files of the same names in folders, or in each scene ----

PAIRS = ("--layout", "pairs")


def png(number: int) -> bytes:
    return picture(number, file_format="PNG")


Tree = dict[str, bytes | str]
KITTI: Tree = {
    f"d/{folder}/00000{i}.png": deep(i) if folder == "depth" else png(3 * i + n)
    for n, folder in enumerate(("image_2", "image_3", "depth"))
    for i in range(4)
}


def test_further_parts_are_optional_and_the_image_can_be_chosen(working_folder: Path) -> None:
    """As for columns of tables, whose empty cells leave their features out."""
    write_files(".", KITTI)
    Path("d/depth/000002.png").unlink()
    assert convert("--images", "d", *PAIRS, "--key_column", "image_3", "--output", "out") == 0
    examples = read_all("out")
    assert sorted(examples) == [f"image_3/00000{i}.png" for i in range(4)]
    with_depth = {key for key, example in examples.items() if "depth/encoded" in example}
    assert with_depth == examples.keys() - {"image_3/000002.png"}
    for key, value in stored("image_2", png(6)).items():
        assert examples["image_3/000002.png"][key] == value
    assert dead_letters_of("out") == []
