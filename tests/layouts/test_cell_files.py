"""Cells that name files: pairs, depths, thumbnails and texts beside the image of a row."""

from __future__ import annotations

import io
import json
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
from tests.harness import NONE_BAD, convert, dead_letters_of, read_all
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


def png(number: int) -> bytes:
    return picture(number, file_format="PNG")
