"""--inventory: whole conversions from listings made elsewhere, beside those that list."""

from __future__ import annotations

import csv
import gzip
import os
import random
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from beam_pipeline.core.listing.inventory import read_inventory
from beam_pipeline.work.file_parts import PART_BYTES, cut_file
from beam_pipeline.work.listing import cut_of
from tests.harness import (
    NONE_BAD,
    REPOSITORY,
    convert,
    digests,
    manifest_of,
    reasons_of,
    run_shell,
)
from tests.layouts.bucket import Bucket
from tests.layouts.make_cifar10 import cifar10_python
from tests.pictures import write_files, write_pictures

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
    write_pictures(str(folder), PICTURES)
    write_files(str(folder), dict.fromkeys(OTHERS, b"x"))
    return folder


def rows_of(folder: object) -> list[Row]:
    """(path, bytes) of every file below a folder."""
    paths = [os.path.join(f, name) for f, _, names in os.walk(str(folder)) for name in names]
    return [(path, os.path.getsize(path)) for path in sorted(paths)]


def write_csv(path: str, rows: Iterable[Row]) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("uri", "size"), *rows])


def passed_over(folder: str) -> dict[str, int]:
    counts: dict[str, int] = manifest_of(folder)["counts"]["ignored_files"]
    return counts


@pytest.mark.slow
def test_an_inventory_gives_the_bytes_that_listing_gives(photos: Path) -> None:
    """CSV, gzipped CSV or Parquet, one file or several, with paths as they are or relative: every
    file of the output is the same, manifest and what it counts as passed over included."""
    rows = rows_of(photos)
    write_csv("whole.csv", rows)
    Path("whole.csv.gz").write_bytes(gzip.compress(Path("whole.csv").read_bytes()))
    write_csv("half1.csv", [(os.path.relpath(path), size) for path, size in rows[::2]])
    write_csv("half2.csv", [(f"file://{path}", size) for path, size in rows[1::2]])
    names, sizes = zip(*rows, strict=True)
    parquet.write_table(pyarrow.table({"size": sizes, "uri": names}), "whole.parquet")
    argv = ("--images", "photos", "--name", "d", "--num_shards", "3", NONE_BAD)
    assert convert(*argv, "--output", "listed") == 0
    assert passed_over("listed") == {
        "hidden folders": 2,
        "hidden files": 1,
        ".csv": 2,
        ".txt": 1,
    }
    given = {
        "csv": ["whole.csv"],
        "gzip": ["whole.csv.gz"],
        "halves": ["half1.csv", "half2.csv"],
        "glob": ["half?.csv"],
        "parquet": ["whole.parquet"],
        "twice": ["whole.csv", "whole.parquet", "half1.csv"],
    }
    for name, inventory in given.items():
        assert convert(*argv, "--inventory", *inventory, "--output", name) == 0
        assert digests(name) == digests("listed")


@pytest.mark.slow
def test_large_parquet_files_give_the_bytes_that_small_ones_give(
    photos: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """An inventory and a table, each with row groups of 9 MB that are parts of their own, whether
    workers are processes or there are none; a fault in one is reported with its row."""
    names, sizes = zip(*rows_of(photos), strict=True)
    labels = (["a", "b"] * len(names))[: len(names)]
    columns = {"uri": names, "size": sizes, "filename": names, "label": labels}
    bad = [*sizes[:5], None, *sizes[6:]]
    noise = random.Random(0)
    long = [noise.randbytes(1_500_000).hex() for _ in names]
    for name, wide in {
        "small": {**columns, "long": names},
        "large": {**columns, "long": long},
        "bad": {**columns, "size": bad, "long": long},
    }.items():
        table = pyarrow.table(wide)
        parquet.write_table(table, f"{name}.parquet", row_group_size=3, compression="none")
    assert len(cut_file(str(photos.parent / "large.parquet"), cut_of, PART_BYTES)) == -(
        -len(names) // 3
    )
    skipped = ",".join(f"{name}:skip" for name in ("uri", "size", "long"))
    argv = ("--images", "photos", "--name", "d", "--columns", skipped, "--max_bad_fraction=1")
    argv = (*argv, "--inventory", "i.parquet", "--labels", "i.parquet")
    for name, file, writers in (("a", "small", "2"), ("b", "large", "2"), ("c", "large", "0")):
        shutil.copy(f"{file}.parquet", "i.parquet")
        assert convert(*argv, "--writers", writers, "--output", name) == 0
    assert digests("b") == digests("a")
    assert digests("c") == digests("a")
    assert manifest_of("a")["splits"]["train"]["examples"] == len(PICTURES)
    assert failing(capfd, "--images", "photos", "--inventory", "bad.parquet") == (
        f"beam-tfrecord: error: --inventory {photos.parent}/bad.parquet, row 6: the column size "
        "contains None, expected a whole number"
    )


@pytest.mark.slow
def test_rules_of_roots_hold_for_an_inventory(photos: Path) -> None:
    """Patterns, several roots and tables of labels mean what they mean without one."""
    write_pictures(".", ["more/dog/e.jpg"])
    write_files(".", {"photos/labels.csv": "filename,label\na.jpg,tabby\nb.png,tabby\n"})
    write_csv("all.csv", [*rows_of(photos), *rows_of("more")])
    for name, argv in {
        "pattern": ("--images", "photos/*/*.jpg"),
        "roots": ("--images", "photos", "more"),
        "labels": ("--images", "photos/cat", "--labels", "photos/labels.csv"),
    }.items():
        given = (*argv, "--name", "d", "--max_bad_fraction=1")
        assert convert(*given, "--output", name) == 0
        assert convert(*given, "--inventory", "all.csv", "--output", f"{name}_inventory") == 0
        outside = passed_over(f"{name}_inventory").pop("outside --images", 0)
        assert outside == {"pattern": 1, "roots": 0, "labels": 8}[name]
        listed, read = digests(name), digests(f"{name}_inventory")
        counting = {"manifest.json", "report.html"}  # what was passed over
        assert {k: v for k, v in listed.items() if k not in counting} == {
            k: v for k, v in read.items() if k not in counting
        }


def test_what_lies_outside_is_counted(photos: Path) -> None:
    """Rows of other folders, with the same beginning too, and of replaced versions."""
    rows = rows_of(photos)
    names, sizes = zip(*rows, strict=True)
    outside = [f"{photos}2/a.jpg", f"{photos}", "gs://photos/a.jpg", "/photos/a.jpg"]
    deleted = ["2024-01-01T00:00:00Z", *[None] * (len(rows) + len(outside) - 1)]
    parquet.write_table(
        pyarrow.table(
            {
                "uri": [names[-1], *names[:-1], *outside],
                "size": [sizes[-1], *sizes[:-1], *[1] * len(outside)],
                "timeDeleted": deleted,
            }
        ),
        "i.parquet",
    )
    argv = ("--images", "photos", "--inventory", "i.parquet", "--output", "out")
    assert convert(*argv, NONE_BAD) == 0
    counts = manifest_of("out")["counts"]
    assert counts["ignored_files"].pop("outside --images") == len(outside)
    assert counts["ignored_files"].pop("replaced versions") == 1
    assert sum(counts["ignored_files"].values()) >= 5


def test_an_image_that_is_gone_is_a_dead_letter(photos: Path) -> None:
    """Nothing is asked of the folder before an image is read, and a wrong size is found then."""
    rows = [(path, size + 7 * path.endswith("a.jpg")) for path, size in rows_of(photos)]
    write_csv("i.csv", [*rows, (f"{photos}/dog/gone.jpg", 99)])
    argv = ("--images", "photos", "--inventory", "i.csv", "--name", "d")
    assert convert(*argv, "--output", "out", "--max_bad_fraction=1") == 0
    assert reasons_of("out") == {
        "dog/gone.jpg": "unreadable",
        "cat/a.jpg": "changed_since_listing",
    }
    assert manifest_of("out")["splits"]["train"]["examples"] == len(PICTURES) - 1


def test_an_inventory_in_a_bucket_of_images_there(photos: Path) -> None:
    """Both are read by their URIs; names stay as they are."""
    root = f"{Bucket.scheme()}://{photos}"
    rows = [(f"{Bucket.scheme()}://{path}", size) for path, size in rows_of(photos)]
    write_csv("i.csv", rows)
    argv = ("--name", "d", "--writers", "0", NONE_BAD)
    inventory = f"{Bucket.scheme()}://{photos.parent}/i.csv"
    assert convert("--images", root, "--inventory", inventory, *argv, "--output", "out") == 0
    assert convert("--images", root, *argv, "--output", "listed") == 0
    assert digests("out") == digests("listed")


def test_the_page_says_how_to_make_an_inventory_with_gcloud(tmp_path: Path) -> None:
    """The command turns what `gcloud storage ls -l` prints into a file with every name as it is."""
    page = Path(REPOSITORY, "docs/buckets.md").read_text(encoding="utf-8")
    (command,) = (c for c in re.findall(r"```bash\n(.*?)```", page, re.DOTALL) if " ls -l " in c)
    (tmp_path / "printed").write_text(
        "    276224  2024-03-01T10:00:00Z  gs://pets/photos/a.jpg\n"
        '         0  2024-03-01T10:00:00Z  gs://pets/photos/say "hi",  ok .jpg\n'
        "12345678901  2024-03-01T10:00:00Z  gs://pets/photos/größe.jpg\n"
        "TOTAL: 3 objects, 12345955125 bytes (11.5GiB)\n"
    )
    run_shell(f"gcloud() {{ cat printed; }}; {command}", tmp_path)
    with open(tmp_path / "photos.csv.gz", "rb") as file:
        (rows,) = read_inventory(file, "photos.csv.gz")
    assert list(zip(rows.uris, rows.sizes, strict=True)) == [
        ("gs://pets/photos/a.jpg", 276224),
        ('gs://pets/photos/say "hi",  ok .jpg', 0),
        ("gs://pets/photos/größe.jpg", 12345678901),
    ]


def failing(capfd: pytest.CaptureFixture[str], *argv: str, code: int = 2) -> str:
    """The message of a conversion that ends with this code and writes nothing."""
    assert convert(*argv, "--output", "out", "--overwrite", NONE_BAD) == code
    assert not os.path.exists("out/manifest.json")
    return capfd.readouterr().err.splitlines()[-1]


def test_two_sizes_of_one_file_are_an_error(
    photos: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """In one inventory or in two, with both places; the same size twice is none."""
    rows = rows_of(photos)
    write_csv("one.csv", rows)
    write_csv("two.csv", [rows[0], (f"{photos}/cat/a.jpg", 5)])
    size = os.path.getsize(f"{photos}/cat/a.jpg")
    (line,) = (line for line, (path, _) in enumerate(rows, 2) if path.endswith("cat/a.jpg"))
    here = photos.parent
    message = failing(capfd, "--images", "photos", "--inventory", "one.csv", "two.csv")
    assert message == (
        f"beam-tfrecord: error: --inventory {here}/two.csv, line 3: 'cat/a.jpg' has 5 bytes, but "
        f"{size} in {here}/one.csv, line {line}; make the inventory again"
    )


@pytest.mark.slow
def test_an_inventory_that_says_no_files_is_an_error(
    photos: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nothing is written, and the message says where and what."""
    here = photos.parent
    write_files(".", {"s3.csv": "Bucket,Key,Size\nb,a.jpg,1\n", "bad.csv": "uri,size\na.jpg,x\n"})
    start = f"beam-tfrecord: error: --inventory {here}"
    assert failing(capfd, "--images", "photos", "--inventory", "s3.csv").startswith(
        f"{start}/s3.csv: the columns are 'Bucket', 'Key', 'Size'; expected uri and size or bucket"
    )
    assert failing(capfd, "--images", "photos", "--inventory", "bad.csv") == (
        f"{start}/bad.csv, line 2: the column size contains 'x', expected a whole number"
    )
    write_csv("none.csv", [("gs://b/a.jpg", 1)])
    assert failing(capfd, "--images", "photos", "--inventory", "none.csv", code=1) == (
        "beam-tfrecord: error: no images found (passed over: 1 outside --images); check --images"
    )
    assert failing(capfd, "--images", "photos", "--inventory", "no.csv") == (
        "beam-tfrecord: error: --inventory no.csv: no such file"
    )


def test_a_layout_that_lists_nothing_takes_no_inventory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The images of CIFAR lie in files of their own kind."""
    monkeypatch.chdir(tmp_path)
    write_files("cifar", cifar10_python(2))
    write_csv("i.csv", [("a.jpg", 1)])
    assert failing(capfd, "--images", "cifar", "--inventory", "i.csv") == (
        "beam-tfrecord: error: --inventory means nothing for the layout cifar10: its images are in "
        "a few files, which are not listed; leave it out"
    )
