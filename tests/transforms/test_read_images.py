"""`ReadImages` and `ReadAllImages`: lists of images in a pipeline of one's own."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import FixedWindows, TimestampedValue

from beam_pipeline.core.errors import UsageError
from beam_pipeline.transforms import ImageFile, ReadAllImages, ReadImages
from tests.pictures import write_files
from tests.transforms.buckets import Serve, photos


def keys(images: Any) -> Any:
    """The keys of images."""
    return images | f"Keys of {images.producer.full_label}" >> beam.Map(lambda image: image.key)


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
    with beam.Pipeline(FnApiRunner()) as pipeline:
        images = pipeline | ReadImages(f"{folders}/a")
        assert images.element_type == ImageFile
        small = images | beam.Filter(lambda image: image.key != "deep/2.png")
        assert_that(
            small | beam.Map(lambda image: (*image[:4], image.reason)),
            equal_to(
                [
                    ("1.jpg", f"{folders}/a/1.jpg", 3, version, ""),
                    ("pipe.jpg", f"{folders}/a/pipe.jpg", 0, 0, "not_a_file"),
                ]
            ),
        )


@pytest.mark.parametrize(
    ("images", "patterns", "expected"),
    [
        ("a", (), ["1.jpg", "deep/2.png"]),
        ("a", "**/*.raw", ["3.raw"]),
        (["a", "b/*.jpg"], ["*.jpg"], ["1.jpg", "4.jpg"]),
        ("c.zip", (), ["c.zip/inner/5.jpg"]),
    ],
)
def test_paths_and_patterns(folders: str, images: Any, patterns: Any, expected: Any) -> None:
    """As the command takes them; the same paths as elements give the same images."""
    several = [images] if isinstance(images, str) else images
    paths = [f"{folders}/{path}" for path in several]
    with beam.Pipeline(FnApiRunner()) as pipeline:
        assert_that(keys(pipeline | ReadImages(paths, patterns)), equal_to(expected))
        listed = pipeline | beam.Create(paths) | ReadAllImages(patterns)
        assert_that(keys(listed), equal_to(expected), label="All")


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
            keys(listed) | of_window | "Sorted" >> beam.Map(together),
            equal_to([["4.jpg", *names], ["5.jpg"]]),
        )


def test_paths_are_looked_at_when_the_transform_is_applied(tmp_path: Path) -> None:
    """Or when the pipeline runs, where they are elements."""
    gone = f"{tmp_path}/gone"
    reading = ReadImages(gone)
    with pytest.raises(UsageError, match=f"^images {gone}: no such file or folder$"):
        _ = beam.Pipeline() | reading
    with (
        pytest.raises(Exception, match=f"images {gone}: no such file or folder"),
        beam.Pipeline(FnApiRunner()) as pipeline,
    ):
        _ = pipeline | beam.Create([gone]) | ReadAllImages()
