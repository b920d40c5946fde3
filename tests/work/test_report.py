"""The report of a real data set: the samples and images that it shows, and files that are not ours."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import DamagedRecordError
from beam_pipeline.core.report.contents import is_unchanged
from beam_pipeline.core.report.page import Report
from beam_pipeline.core.report.thumbnails import SIDE, Thumbnail, thumbnail
from beam_pipeline.dataset import read_manifest
from beam_pipeline.work import report
from tests import harness
from tests.pictures import picture, write_files, write_pictures

NAMES = [f"{folder}/{i}.png" for folder in ("cat", "dog") for i in range(20)]


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images of two classes, and some that are left out."""
    folder = tmp_path_factory.mktemp("photos")
    write_pictures(str(folder / "photos"), NAMES)
    write_files(
        str(folder / "photos"), {"bare.png": picture(3), "cat/broken.jpg": picture(4)[:-99]}
    )
    assert harness.convert(*argv(folder, "out")) == 0
    return folder


def argv(folder: Path, output: str, *more: str) -> list[str]:
    """The arguments of a conversion of the photos."""
    options = ["--name", "pets", "--num_shards", "3", "--max_bad_fraction", "1"]
    return ["--images", f"{folder}/photos", "--output", f"{folder}/{output}", *options, *more]


def test_the_samples_shown_are_the_first_of_their_split(photos: Path) -> None:
    """From as many shards as it takes; each has its image and its class."""
    manifest = read_manifest(str(photos / "out"))
    shown = report.read_samples(str(photos / "out"), manifest, "train", 30)
    assert len({sample.key for sample in shown}) == 30
    for sample in shown:
        assert sample.labels == (("class", sample.key.partition("/")[0]),)
        assert sample.picture == thumbnail((photos / "photos" / sample.key).read_bytes())
    assert report.read_samples(str(photos / "out"), manifest, "train", 7) == shown[:7]


def test_a_report_shows_samples_and_what_was_left_out(photos: Path) -> None:
    """With a picture where there is one; the file is known as a report."""
    page = (photos / "out/report.html").read_bytes()
    assert is_unchanged(page)
    assert page.count(b"data:image/png") == 24 + 1  # bare.png, which has no class
    for text in (
        b"bare.png",
        b"cat/broken.jpg",
        b"unlabelled",
        b"corrupt_image",
        b"Width in pixels",
    ):
        assert text in page


def test_thumbnails_that_lack_memory_beside_each_other_are_made_one_by_one(
    photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page is the same then."""

    def in_main_thread(data: bytes, mask: bytes = b"", side: int = SIDE) -> Thumbnail | None:
        if threading.current_thread() is not threading.main_thread():
            raise MemoryError
        return thumbnail(data, mask, side)

    monkeypatch.setattr(report, "thumbnail", in_main_thread)
    output = str(photos / "out")
    page = report.make_report(output, Report(manifest=read_manifest(output)))
    assert page.count(b"data:image/png") == 24


def test_a_sample_whose_picture_needs_too_much_memory_is_shown_without(
    photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its key and labels are there all the same."""

    def too_large(data: bytes, mask: bytes = b"", side: int = SIDE) -> Thumbnail | None:
        raise MemoryError

    manifest = read_manifest(str(photos / "out"))
    expected = report.read_samples(str(photos / "out"), manifest, "train", 9)
    monkeypatch.setattr(report, "thumbnail", too_large)
    shown = report.read_samples(str(photos / "out"), manifest, "train", 9)
    assert shown == [sample._replace(picture=None) for sample in expected]


def test_a_shard_that_cannot_be_read_is_an_error(photos: Path, tmp_path: Path) -> None:
    """It was written just now, so nobody else could read it either; a report would hide that."""
    folder = tmp_path / "out"
    shutil.copytree(photos / "out", folder)
    manifest = read_manifest(str(folder))
    first = folder / manifest.splits["train"].shards[0].path
    whole = first.read_bytes()
    first.write_bytes(whole[:-1])
    with pytest.raises(DamagedRecordError, match=f"{first}: record .* ends inside the record"):
        report.make_report(str(folder), Report(manifest=manifest))
    first.unlink()
    with pytest.raises(FileNotFoundError):
        report.make_report(str(folder), Report(manifest=manifest))


def test_images_that_are_gone_have_no_picture(photos: Path) -> None:
    """Nor do those that it could be harmful to open, or that --exclude names: they may have to go."""
    manifest = read_manifest(str(photos / "out"))
    letters = [
        DeadLetter("join", "a", f"{photos}/gone.png", "unlabelled", "no row"),
        DeadLetter("check", "b", f"{photos}/photos/bare.png", "decompression_bomb", "large"),
        DeadLetter("join", "c", f"{photos}/photos/bare.png", "unlabelled", "no row"),
        DeadLetter("join", "d", f"{photos}/photos/bare.png", "excluded", "left out"),
    ]
    page = report.make_report(str(photos / "out"), Report(manifest=manifest), letters)
    assert page.count(b"<img") == 24 + 1


def test_a_few_of_each_reason_are_shown() -> None:
    """The first of each, in whatever order they come."""
    letters = [
        DeadLetter("join", str(i), "", reason, "")
        for i in range(9)
        for reason in ("unlabelled", "excluded")
    ]
    shown = report.some_of_each_reason(reversed(letters))
    assert [(letter.key, letter.reason) for letter in shown] == [
        (str(i), reason) for i in range(4) for reason in ("excluded", "unlabelled")
    ]


@pytest.mark.slow
def test_a_page_of_the_users_own_is_not_overwritten(
    photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither in a new data set nor with --overwrite; a run that completes one leaves it alone."""
    assert harness.convert(*argv(photos, "mine", "--no_report")) == 0
    page = photos / "mine/report.html"
    page.write_text("mine")
    assert harness.convert(*argv(photos, "mine", "--resume")) == 0
    assert harness.convert(*argv(photos, "mine", "--overwrite")) == 2
    assert "report.html, which no manifest there lists" in capsys.readouterr().err
    assert page.read_text() == "mine"
    page.write_bytes((photos / "out/report.html").read_bytes())
    assert harness.convert(*argv(photos, "mine", "--overwrite", "--no_report")) == 0
    assert not page.exists()


@pytest.mark.slow
def test_a_data_set_without_a_report_gets_one(photos: Path) -> None:
    """By the same command with --resume, from what receipts have kept."""
    assert harness.convert(*argv(photos, "later", "--no_report")) == 0
    assert harness.convert(*argv(photos, "later", "--resume")) == 0
    expected = (photos / "out/report.html").read_bytes()
    assert (photos / "later/report.html").read_bytes() == expected
