"""Images of folders, archives and buckets, listed in a pipeline."""

from __future__ import annotations

import os
import zipfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import FixedWindows, TimestampedValue

from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.listing.filters import ImageRoot, LabelFile, LabelFiles
from beam_pipeline.core.references import ImageRef
from beam_pipeline.storage import listing
from beam_pipeline.storage.listing import list_root
from beam_pipeline.transforms import ImageFile, ReadAllImages, ReadImages
from beam_pipeline.transforms.listing import ListImages
from beam_pipeline.work.outcome import DEAD_LETTERS, TALLY
from tests.listing_server import SMALL, Serve, image_at, photos, together
from tests.pictures import write_files
from tests.rows import in_rows
from tests.transforms.outputs import in_order, outputs


@pytest.fixture
def folders(tmp_path: Path) -> str:
    """Two folders, and an archive."""
    write_files(
        str(tmp_path), {"a/1.jpg": "one", "a/deep/2.png": "2", "a/3.raw": "", "b/4.jpg": ""}
    )
    with zipfile.ZipFile(tmp_path / "c.zip", "w") as archive:
        archive.writestr("inner/5.jpg", "five!")
    return str(tmp_path)


def test_an_image_has_key_uri_size_and_version(folders: str) -> None:
    """A name that is no file has a reason instead."""
    os.mkfifo(f"{folders}/a/pipe.jpg")
    version = os.stat(f"{folders}/a/1.jpg").st_mtime_ns
    found = outputs(lambda pipeline: pipeline | ReadImages(f"{folders}/a"))
    assert {type(image) for image in found} == {ImageFile}
    assert [(*image[:4], image.reason) for image in found if image.key != "deep/2.png"] == [
        ("1.jpg", f"{folders}/a/1.jpg", 3, version, ""),
        ("pipe.jpg", f"{folders}/a/pipe.jpg", 0, 0, "not_a_file"),
    ]


@in_rows
def test_paths_and_patterns(
    folders: str, images: list[str], patterns: Any, expected: list[str]
) -> None:
    """As the command takes them; the same paths as elements give the same images."""
    paths = [f"{folders}/{path}" for path in images]
    found = outputs(lambda pipeline: pipeline | ReadImages(paths, patterns))
    assert [image.key for image in found] == expected
    assert outputs(lambda p: p | beam.Create(paths) | ReadAllImages(patterns)) == found


@pytest.mark.buckets
def test_a_bucket_among_the_paths(serve: Serve, folders: str) -> None:
    """Elements of all kinds, in the windows of their paths."""
    serve(photos(3))
    names = [os.path.basename(name) for name in photos(3)]

    def together(window_keys: Iterable[str]) -> list[str]:
        return sorted(os.path.basename(key) for key in window_keys)

    with beam.Pipeline(FnApiRunner()) as pipeline:
        paths = [("gs://pets/photos", 1), (f"{folders}/b", 2), (f"{folders}/c.zip", 11)]
        listed = (
            pipeline
            | beam.Create([TimestampedValue(path, at) for path, at in paths])
            | beam.WindowInto(FixedWindows(10))
            | ReadAllImages()
        )
        of_window = beam.CombineGlobally(beam.combiners.ToListCombineFn()).without_defaults()
        assert_that(
            listed | beam.Map(lambda image: image.key) | of_window | "Sorted" >> beam.Map(together),
            equal_to([["4.jpg", *names], ["5.jpg"]]),
        )


def test_paths_are_looked_at_when_the_transform_is_applied(tmp_path: Path) -> None:
    """Or when the pipeline runs, where they are elements."""
    gone = f"{tmp_path}/gone"
    reading = ReadImages(gone)
    with pytest.raises(UsageError, match=f"^images {gone}: no such file or folder$"):
        _ = beam.Pipeline() | reading
    with pytest.raises(Exception, match=f"images {gone}: no such file or folder"):
        outputs(lambda pipeline: pipeline | beam.Create([gone]) | ReadAllImages())


# --- Listing buckets, asked of a server that answers as Google Cloud Storage does


@pytest.mark.buckets
def test_a_whole_bucket_is_listed(serve: Serve) -> None:
    """Without a folder, keys are the objects' names, whatever characters they have."""
    names = ["a.jpg", "b/é e\u0301#%2F?&+.jpg", "b/\U0001f436.jpg", "b/\uff21.jpg", "c//d.jpg"]
    serve(names)
    listed = together(list_root(ImageRoot("gs://pets")))
    assert listed.images == sorted(image_at(name) for name in names)


@pytest.mark.buckets
def test_a_pattern_and_label_files_hold_in_a_bucket(serve: Serve) -> None:
    """As below any other root."""
    serve(["photos/a.raw", "photos/b.raw", "photos/.c.raw", "photos/d/e.raw", "photos/f.jpg"])
    root = ImageRoot("gs://pets/photos", ("*.raw",), frozenset({"gs://pets/photos/b.raw"}))
    assert together(list_root(root)).images == [image_at("photos/a.raw", "photos")]


def run(*roots: str) -> tuple[list[ImageRef], Tally]:
    """The images and counts of `ListImages` on Beam's engine."""
    lists = ListImages(roots=tuple(map(ImageRoot, roots)), raises=False)
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(listing, "FAN_OUT", SMALL)
        images, letters, tally = outputs(lambda p: p | lists, "images", DEAD_LETTERS, TALLY)
    assert letters == []
    return images, tally


@pytest.mark.buckets
def test_the_job_lists_buckets_in_ranges_and_folders_as_ever(serve: Serve, tmp_path: Path) -> None:
    """Roots of both kinds add up, images and counts."""
    write_files(str(tmp_path), dict.fromkeys(["x.jpg", ".git/y", "z.csv"], b"x"))
    names = [*photos(20_000), "photos/.git/a.jpg", "photos/labels.csv"]
    more = ["more/a.jpg", "more/.git/b.jpg"]
    server = serve([*names, *more])
    images, tally = run("gs://pets/photos", "gs://pets/more", str(tmp_path))
    x = f"{tmp_path}/x.jpg"
    assert images == in_order(
        [
            *(image_at(name, "photos") for name in names[:-2]),
            image_at("more/a.jpg", "more"),
            ImageRef("x.jpg", x, 1, os.stat(x).st_mtime_ns),
        ]
    )
    tables = [LabelFile("labels.csv", "gs://pets/photos/labels.csv")]
    tables.append(LabelFile("z.csv", f"{tmp_path}/z.csv"))
    label_files = LabelFiles(Counter({".csv": 2}), {".csv": tables})
    ignored = Counter({"hidden folders": 3, ".csv": 2})
    assert tally == Tally(20_002, ignored, label_files=label_files)
    assert max(server.chains()) <= 6


@pytest.mark.buckets
@pytest.mark.parametrize("answered", [0, 1, 2, 3, 20, 120])
def test_a_request_that_fails_is_a_refusal(serve: Serve, answered: int) -> None:
    """Whether for a first page, for a probe or for a page of a range: the job ends with the reason."""
    server = serve(photos(20_000))
    server.most_requests = answered
    images, tally = run("gs://pets/photos")
    assert len(images) == tally.listed < 20_000
    assert {refusal.error for refusal in tally.refusals} == {"ListingError"}
    said = (
        "gs://pets/photos cannot be listed: gs://pets/photos/: permission storage.objects.list on"
    )
    assert all(refusal.message.startswith(said) for refusal in tally.refusals)


@pytest.mark.buckets
def test_what_cannot_be_listed_travels_to_the_end_of_the_job(serve: Serve) -> None:
    """As a reason to refuse, once, beside what else was listed."""
    serve(photos(3))
    images, tally = run("gs://pets/photos", "gs://cats")
    assert len(images) == tally.listed == 3
    (refusal,) = tally.refusals
    assert refusal.error == "ListingError"
    assert refusal.message.startswith("gs://cats cannot be listed: bucket gs://cats does not exist")
