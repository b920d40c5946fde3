"""The summary at the end of a run: numbers with the right plural, long lists cut."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from beam_pipeline.core.dataset.manifest import ImageEntries
from beam_pipeline.core.text import counted, enumerated
from beam_pipeline.summary import class_lines, size_line
from tests.harness import ALL_BAD, convert, run_convert
from tests.pictures import picture, write_files, write_pictures


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [
        (0, "shard", "0 shards"),
        (1, "shard", "1 shard"),
        (2, "shard", "2 shards"),
        (1, "class/classes", "1 class"),
        (3, "class/classes", "3 classes"),
    ],
)
def test_a_noun_follows_its_number(number: int, noun: str, text: str) -> None:
    """Singular for one alone."""
    assert counted(number, noun) == text


def test_a_long_list_is_cut() -> None:
    """What is not shown is counted."""
    assert enumerated(["a", "b"], 2) == "a, b"
    assert enumerated(["a", "b", "c", "d"], 2) == "a, b, and 2 more"
    assert [*class_lines([(0, "cat", 1)])] == ["  1 class: 0 cat (1)"]
    (line,) = class_lines([(i, f"c{i}", 2) for i in range(12)], objects=True)
    assert line.startswith("  12 classes, objects of each: 0 c0 (2), 1 c1 (2), ")
    assert line.endswith("9 c9 (2), and 2 more")


def test_a_data_set_of_one(tmp_path: Path) -> None:
    """One example, one shard, one class; other files are counted as ignored."""
    write_pictures(f"{tmp_path}/photos", ["cat/1.jpg"])
    write_files(str(tmp_path), {"photos/notes.txt": "x"})
    lines = run_convert(
        "--images", f"{tmp_path}/photos", "--output", f"{tmp_path}/out"
    ).out.splitlines()
    assert lines[0] == "Layout class_folders: no --labels and no other layout's files"
    assert lines[4].startswith("Wrote 1 example, ")
    assert lines[6].startswith("  train: 1 example in 1 shard, ")
    assert lines[7:9] == [
        "  1 class: 0 cat (1)",
        "  ignored, hidden or without an image extension: 1 .txt",
    ]


def test_sizes_and_formats_of_the_images(tmp_path: Path) -> None:
    """The manifest has them as well, and --resume takes one without them for the same data set."""
    images = {
        "x/a.png": picture(file_format="PNG", size=(30, 20)),
        "x/b.png": picture(file_format="PNG", size=(40, 20)),
        "x/c.bmp": picture(file_format="BMP", size=(50, 20)),
    }
    write_files(str(tmp_path / "photos"), images)
    argv = ("--images", f"{tmp_path}/photos", "--output", f"{tmp_path}/out")
    line = "  image sizes: 30 to 50 wide, 20 high; 2 png, 1 bmp"
    assert line in run_convert(*argv).out.splitlines()
    path = tmp_path / "out/manifest.json"
    manifest = json.loads(path.read_bytes())
    assert manifest.pop("images") == {
        "formats": {"bmp": 1, "png": 2},
        "width": [30, 50],
        "height": [20, 20],
    }
    path.write_text(json.dumps(manifest))
    (shard,) = path.parent.glob("*.tfrecord*")
    shard.unlink()
    assert line not in run_convert(*argv, "--resume").out.splitlines()
    assert json.loads(path.read_bytes()) == manifest


@pytest.mark.parametrize(
    ("images", "shown"),
    [
        (
            ImageEntries({"jpeg": 9998, "png": 2}, (33, 4288), (37, 2848)),
            "33 to 4288 wide, 37 to 2848 high; 9998 jpeg, 2 png",
        ),
        (ImageEntries({"webp": 1}, (9, 9), (7, 7)), "9 wide, 7 high; 1 webp"),
    ],
)
def test_the_range_of_sizes(images: ImageEntries, shown: str) -> None:
    """One number where all are of one width or height; the commonest format comes first."""
    assert size_line(images) == f"  image sizes: {shown}"


def test_a_class_called_by_a_number_is_told_from_its_id() -> None:
    """Else one would read `0 1 (20), 1 2 (20)`."""
    for classes, names in (
        ([(0, "1", 20), (1, "2", 7)], "0 is '1' (20), 1 is '2' (7)"),
        ([(0, "3d", 1), (1, "cat", 2)], "0 is '3d' (1), 1 is 'cat' (2)"),
    ):
        assert [*class_lines(classes, chosen=True)] == [f"  2 classes: {names}"]


def test_a_run_that_may_lose_all_samples_says_that_it_did(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 0, as --max_bad_fraction 1 asks for, but no code that reads the data set."""
    write_files(str(tmp_path), {f"photos/{name}.jpg": b"text" for name in ("a/1", "b/2")})
    argv = ("--images", f"{tmp_path}/photos", "--output", f"{tmp_path}/out", ALL_BAD)
    assert convert(*argv) == 0
    out = capsys.readouterr().out
    assert "  note: no sample could be written, so the data set is empty\n" in out
    assert "Read it:" not in out


def test_of_many_classes_the_largest_and_the_smallest_are_named(tmp_path: Path) -> None:
    """Beside the first ten; and the time of the whole, without a rate where shards may have been kept."""
    names = [f"c{i:02}/{j}.bmp" for i in range(12) for j in range(3 if i == 11 else 1 + (i != 10))]
    write_pictures(f"{tmp_path}/photos", names)
    argv = ("--images", f"{tmp_path}/photos", "--output", f"{tmp_path}/out")
    lines = run_convert(*argv).out.splitlines()
    assert "  largest class: c11 (3), smallest: c10 (1)" in lines
    (time,) = (line for line in lines if line.startswith("  time: "))
    assert re.fullmatch(r"  time: [0-9.]+ s, [0-9.]+ examples/s, [0-9.]+ k?B/s", time)
    assert re.search(
        r"^  time: [0-9.]+ s$",
        run_convert(*argv[:2], "--output", f"{tmp_path}/new", "--reuse", f"{tmp_path}/out").out,
        re.MULTILINE,
    )


@pytest.mark.parametrize(
    ("size", "more", "shown"),
    [
        ((32, 24), (), "(24, 32)"),
        ((300, 20), (), "(224, 224)"),
        ((32, 24), ("--features", "h=image/height"), "(24, 32)"),
    ],
)
def test_small_images_are_read_at_their_size(
    tmp_path: Path, size: tuple[int, int], more: tuple[str, ...], shown: str
) -> None:
    """Larger ones at the usual one."""
    write_files(str(tmp_path / "photos"), {"cat/1.jpg": picture(size=size)})
    argv = ["--images", f"{tmp_path}/photos", "--output", f"{tmp_path}/out", *more]
    assert f"image_size={shown})" in run_convert(*argv).out
