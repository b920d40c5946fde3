"""Pairs without a table: partners are the files of the same names in folders, or in each scene."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.harness import NONE_BAD, convert, dead_letters_of, manifest_of, read_all
from tests.layouts.test_cell_files import csv, deep, stored
from tests.pictures import picture, write_files

PAIRS = ("--layout", "pairs")


def png(number: int) -> bytes:
    return picture(number, file_format="PNG")


Tree = dict[str, bytes | str]
KITTI: Tree = {
    f"d/{folder}/00000{i}.png": deep(i) if folder == "depth" else png(3 * i + n)
    for n, folder in enumerate(("image_2", "image_3", "depth"))
    for i in range(4)
}
SCENES: Tree = {
    f"d/{scene}/{name}": content
    for n, scene in enumerate(("Piano", "Vintage"))
    for name, content in {
        "im0.png": png(n),
        "im1.png": png(n + 5),
        "disp0GT.pfm": f"Pf {n}",
        "calib.txt": f"cam0={n}",
    }.items()
}
CHANGES: Tree = {
    f"d/{split}/{folder}/{i}.png": png(9 * i + n)
    for split, numbers in {"train": (1, 3), "test": (2, 5)}.items()
    for i in numbers
    for n, folder in enumerate(("A", "B", "label"))
}
LEFT_RIGHT: Tree = {
    f"d/s{i}/{side}.png": png(2 * i + n)
    for i in range(5)
    for n, side in enumerate(("left", "right"))
}
SETS: Mapping[str, tuple[Tree, dict[str, Mapping[str, str]]]] = {
    "kitti": (
        KITTI,
        {
            f"image_2/00000{i}.png": {part: f"{part}/00000{i}.png" for part in ("image_3", "depth")}
            for i in range(4)
        },
    ),
    "middlebury": (
        SCENES,
        {
            f"{s}/im0.png": {
                "im1": f"{s}/im1.png",
                "calib": f"{s}/calib.txt",
                "disp0GT": f"{s}/disp0GT.pfm",
            }
            for s in ("Piano", "Vintage")
        },
    ),
    "change": (
        CHANGES,
        {
            f"{s}/A/{i}.png": {"B": f"{s}/B/{i}.png", "labels": f"{s}/label/{i}.png"}
            for s, i in (("train", 1), ("train", 3), ("test", 2), ("test", 5))
        },
    ),
    "left_right": (
        LEFT_RIGHT,
        {f"s{i}/left.png": {"right": f"s{i}/right.png"} for i in range(5)},
    ),
}


@pytest.mark.parametrize("name", SETS)
def test_the_shards_are_those_of_a_table_with_file_columns(working_folder: Path, name: str) -> None:
    """The files in every sample are exactly its partners, in the split of its folder."""
    tree, samples = SETS[name]
    columns = [*next(iter(samples.values()))]
    table = csv(("image", *columns), *((key, *cells.values()) for key, cells in samples.items()))
    write_files(".", {**tree, "pairs.csv": table})
    assert convert("--images", "d", *PAIRS, "--output", "a/out", NONE_BAD) == 0
    examples = read_all("a/out")
    assert {
        key: {c: example[f"{c}/encoded"] for c in columns} for key, example in examples.items()
    } == {
        key: {
            c: [data if isinstance(data := tree[f"d/{path}"], bytes) else data.encode()]
            for c, path in cells.items()
        }
        for key, cells in samples.items()
    }
    given = ("--images", "d", "--labels", "pairs.csv", "--label_column", "none", NONE_BAD)
    types = ",".join(f"{c}:copy" if c == "labels" else c for c in columns)
    assert convert(*given, "--file_columns", types, "--output", "b/out") == 0
    shards = [{p.name: p.read_bytes() for p in Path(d, "out").glob("out-*")} for d in "ab"]
    assert shards[0] == shards[1]
    expected = {"train": 2, "test": 2} if name == "change" else {"train": len(samples)}
    splits = manifest_of("a/out")["splits"]
    assert {split: splits[split]["examples"] for split in splits} == expected


FAULTS: Mapping[str, tuple[str, bytes | None, str, str, str, str]] = {
    # path, its content or None to remove it, key, reason, file, message
    "no partner": (
        *("d/image_3/000001.png", None, "image_2/000001.png", "unlabelled", ""),
        "no partner is for this image",
    ),
    "no image": (
        *("d/image_2/000001.png", None, "image_2/000001", "missing_image"),
        *("d/image_3/000001.png", ""),
    ),
    "broken": (
        *("d/image_3/000001.png", png(1)[:40], "image_2/000001.png", "corrupt_image"),
        *("d/image_3/000001.png", "column 'image_3'"),
    ),
    "twice": (
        *("d/image_3/000001.jpg", png(1), "image_2/000001.png", "conflicting_labels", ""),
        "000001.png are both partners of this image; remove one",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_not_a_pair_is_a_dead_letter(working_folder: Path, fault: str) -> None:
    """The reason names the culprit, and the other pairs are written."""
    path, content, key, reason, file, message = FAULTS[fault]
    write_files(".", KITTI)
    if content is None:
        Path(path).unlink()
    else:
        write_files(".", {path: content})
    given = ("--images", "d", *PAIRS, "--output", "out", "--columns", "depth:skip")
    assert convert(*given, "--max_bad_fraction", "1") == 0
    assert sorted(read_all("out")) == [f"image_2/00000{i}.png" for i in (0, 2, 3)]
    (letter,) = dead_letters_of("out")
    assert (letter["key"], letter["reason"]) == (key, reason)
    assert letter.get("file", "") == (str(working_folder / file) if file else "")
    assert message in letter["message"]


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
