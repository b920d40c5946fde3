"""Reading inventories in a job: the batches that listing the roots would give."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest

from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.errors import Refusal
from beam_pipeline.core.listing.filters import ImageRoot, LabelFile, LabelFiles
from beam_pipeline.core.references import ImageRef
from beam_pipeline.transforms.listing import ReadInventory
from beam_pipeline.work import listing
from beam_pipeline.work.listing import OUTSIDE, REPLACED
from beam_pipeline.work.outcome import DEAD_LETTERS, TALLY
from tests.pictures import write_files
from tests.transforms.outputs import assert_items, assert_total

CATS, DOGS = ImageRoot("gs://pets/cats"), ImageRoot("gs://pets/dogs")
HEADER = "uri,size,generation,timeDeleted\n"


def image(uri: str, size: int, version: int = 0, root: str = "gs://pets/cats") -> ImageRef:
    return ImageRef(uri.removeprefix(f"{root}/"), uri, size, version)


def assert_listed(
    folder: Path, roots: tuple[ImageRoot, ...], images: list[ImageRef], tally: Tally, *rows: str
) -> None:
    """Inventories of these rows, one each, are read as these images."""
    names = [f"{number}.csv" for number in range(len(rows))]
    write_files(str(folder), dict(zip(names, rows, strict=True)))
    uris = tuple(f"{folder}/{name}" for name in names)
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        found: Any = pipeline | ReadInventory(files=uris, roots=roots, raises=False)
        assert_items(found["images"], images, "images")
        assert_items(found[DEAD_LETTERS], [], "dead letters")
        assert_total(found[TALLY], tally)


@pytest.mark.parametrize("batch_size", [1, 2, 4096])
def test_rows_below_a_root_are_its_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch_size: int
) -> None:
    """With size and generation; a row elsewhere and one of a replaced version are counted only."""
    monkeypatch.setattr(listing, "BATCH_SIZE", batch_size)
    assert_listed(
        tmp_path,
        (CATS, DOGS),
        [
            image("gs://pets/cats/1.jpg", 10, 7),
            image("gs://pets/cats/deep/2.jpg", 20),
            image("gs://pets/dogs/1.jpg", 30, 9, "gs://pets/dogs"),
        ],
        Tally(
            listed=3,
            ignored=Counter({".txt": 1, OUTSIDE: 2, REPLACED: 1}),
            label_files=LabelFiles(
                Counter({".txt": 1}), {".txt": [LabelFile("a.txt", "gs://pets/dogs/a.txt")]}
            ),
        ),
        f"{HEADER}gs://pets/cats/1.jpg,10,7,\ngs://pets/cats/deep/2.jpg,20,,\n"
        "gs://pets/cats/,0,,\ngs://pets/catsandmore/1.jpg,1,,\ngs://pets/cats/1.jpg,9,6,2024-01-01\n",
        f"{HEADER}gs://pets/dogs/1.jpg,30,9,\ngs://pets/dogs/a.txt,1,,\ngs://pets/owls/1.jpg,1,,\n",
    )


def test_a_hidden_folder_counts_once(tmp_path: Path) -> None:
    """However many of its files are listed, in however many inventories."""
    assert_listed(
        tmp_path,
        (CATS,),
        [image("gs://pets/cats/1.jpg", 10)],
        Tally(listed=1, ignored=Counter({"hidden folders": 2, "hidden files": 1})),
        f"{HEADER}gs://pets/cats/.git/1.jpg,1,,\ngs://pets/cats/.git/deep/2.jpg,1,,\n",
        f"{HEADER}gs://pets/cats/.git/3.jpg,1,,\ngs://pets/cats/a/__MACOSX/4.jpg,1,,\n"
        "gs://pets/cats/.5.jpg,1,,\ngs://pets/cats/1.jpg,10,,\n",
    )


def test_a_file_in_two_inventories_is_listed_once(tmp_path: Path) -> None:
    """In its newest version."""
    assert_listed(
        tmp_path,
        (CATS,),
        [image("gs://pets/cats/1.jpg", 10, 8)],
        Tally(listed=1),
        f"{HEADER}gs://pets/cats/1.jpg,10,7,\ngs://pets/cats/1.jpg,10,8,\n",
        f"{HEADER}gs://pets/cats/1.jpg,10,6,\n",
    )


def test_two_sizes_of_one_file_refuse_the_run(tmp_path: Path) -> None:
    """One of the inventories is out of date; the message names both rows."""
    said = (
        f"--inventory {tmp_path}/1.csv, line 3: '1.jpg' has 11 bytes, but 10 in {tmp_path}/0.csv, "
        "line 2; make the inventory again"
    )
    assert_listed(
        tmp_path,
        (CATS,),
        [image("gs://pets/cats/1.jpg", 10), image("gs://pets/cats/2.jpg", 5)],
        Tally(listed=2, refusals=[Refusal("InventoryError", said)]),
        f"{HEADER}gs://pets/cats/1.jpg,10,,\n",
        f"{HEADER}gs://pets/cats/2.jpg,5,,\ngs://pets/cats/1.jpg,11,,\n",
    )


def test_local_paths_take_the_form_of_the_roots(tmp_path: Path) -> None:
    """Those of objects stay as they are, since a slash more is another object."""
    assert_listed(
        tmp_path,
        (ImageRoot("/photos"), CATS),
        [
            image("/photos/a/1.jpg", 1, root="/photos"),
            image("/photos/b/2.jpg", 2, root="/photos"),
            ImageRef("/3.jpg", "gs://pets/cats//3.jpg", 3),
        ],
        Tally(listed=3),
        "uri,size\n/photos//a/./1.jpg,1\nfile:///photos/b/2.jpg,2\ngs://pets/cats//3.jpg,3\n",
    )


def test_patterns_and_label_files_hold_for_an_inventory(tmp_path: Path) -> None:
    """As for a listing."""
    assert_listed(
        tmp_path,
        (ImageRoot("gs://pets/cats", ("*.raw",), frozenset({"gs://pets/cats/b.raw"})),),
        [image("gs://pets/cats/a.raw", 1)],
        Tally(listed=1),
        f"{HEADER}gs://pets/cats/a.raw,1,,\ngs://pets/cats/b.raw,1,,\ngs://pets/cats/c/d.raw,1,,\n",
    )


def test_an_inventory_that_cannot_be_read_refuses_the_run(tmp_path: Path) -> None:
    """So does one that is broken; the message has its name, and the line."""
    (tmp_path / "0.csv").mkdir()
    broken = f"{tmp_path}/broken.csv"
    write_files(str(tmp_path), {"broken.csv": "uri,size\ngs://pets/cats/1.jpg,many\n"})
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        found: Any = pipeline | ReadInventory(
            files=(f"{tmp_path}/0.csv", broken), roots=(CATS,), raises=False
        )
        assert_items(found["images"], [], "images")
        said = (
            f"--inventory {tmp_path}/0.csv cannot be read: Is a directory",
            f"--inventory {broken}, line 2: the column size contains 'many', expected a whole number",
        )
        assert_total(found[TALLY], Tally(refusals=[Refusal("InventoryError", s) for s in said]))
