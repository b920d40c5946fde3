"""Which images are listed: inventories made elsewhere, and images of the same bytes."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterable
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from beam_pipeline.core.listing.inventory import read_inventory
from tests import harness, pictures
from tests.layouts.bucket import Bucket

PICTURES = ["cat/a.jpg", "cat/b.png", "dog/größe 1.webp", 'dog/say "hi", ok.jpg', "dog/d"]
OTHERS = [
    *("dog/notes.txt", "cat/.hidden.jpg", "labels.csv", "cat/list.csv"),
    *(".git/a.jpg", ".git/deep/b.jpg", "cat/__MACOSX/c.jpg"),
]

Row = tuple[str, int]


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of class folders with images, and of files that are passed over."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "photos"
    pictures.write_pictures(str(folder), PICTURES)
    pictures.write_files(str(folder), dict.fromkeys(OTHERS, b"x"))
    return folder


def rows_of(folder: object) -> list[Row]:
    """(path, bytes) of every file below a folder."""
    paths = [os.path.join(f, name) for f, _, names in os.walk(str(folder)) for name in names]
    return [(path, os.path.getsize(path)) for path in sorted(paths)]


def write_csv(path: str, rows: Iterable[Row]) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("uri", "size"), *rows])


def test_an_inventory_in_a_bucket_of_images_there(photos: Path) -> None:
    """Both are read by their URIs; names stay as they are."""
    root = f"{Bucket.scheme()}://{photos}"
    rows = [(f"{Bucket.scheme()}://{path}", size) for path, size in rows_of(photos)]
    write_csv("i.csv", rows)
    uris, sizes = zip(*rows, strict=True)
    table = pyarrow.table({"uri": uris, "size": sizes})
    parquet.write_table(table, "i.parquet", row_group_size=2)
    argv = ("--images", root, "--name", "d", "--writers", "0", harness.NONE_BAD)
    assert harness.convert(*argv, "--output", "listed") == 0
    for kind in ("csv", "parquet"):
        inventory = f"{Bucket.scheme()}://{photos.parent}/i.{kind}"
        assert harness.convert(*argv, "--inventory", inventory, "--output", kind) == 0
        assert harness.digests(kind) == harness.digests("listed")


def test_the_page_says_how_to_make_an_inventory_with_gcloud(tmp_path: Path) -> None:
    """The command turns what `gcloud storage ls -l` prints into a file with every name as it is."""
    page = Path(harness.REPOSITORY, "docs/buckets.md").read_text(encoding="utf-8")
    (command,) = (c for c in re.findall(r"```bash\n(.*?)```", page, re.DOTALL) if " ls -l " in c)
    (tmp_path / "printed").write_text(
        "    276224  2024-03-01T10:00:00Z  gs://pets/photos/a.jpg\n"
        '         0  2024-03-01T10:00:00Z  gs://pets/photos/say "hi",  ok .jpg\n'
        "12345678901  2024-03-01T10:00:00Z  gs://pets/photos/größe.jpg\n"
        "TOTAL: 3 objects, 12345955125 bytes (11.5GiB)\n"
    )
    harness.run_shell(f"gcloud() {{ cat printed; }}; {command}", tmp_path)
    with open(tmp_path / "photos.csv.gz", "rb") as file:
        (rows,) = read_inventory(file, "photos.csv.gz")
    assert list(zip(rows.uris, rows.sizes, strict=True)) == [
        ("gs://pets/photos/a.jpg", 276224),
        ('gs://pets/photos/say "hi",  ok .jpg', 0),
        ("gs://pets/photos/größe.jpg", 12345678901),
    ]


# --- duplicates -----------------------------------------------------------------------------------
