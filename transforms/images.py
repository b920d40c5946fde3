"""Reads lists of images: files of folders, globs, archives and buckets, none of them opened."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import apache_beam as beam
from apache_beam import coders

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.core.packing import DeadLetterBatch, ImageBatch
from beam_pipeline.core.references import ImageRef
from beam_pipeline.layouts.paths import expanded, image_roots
from beam_pipeline.transforms.listing import IMAGES, ListImages, ListRoots
from beam_pipeline.work.outcome import DEAD_LETTERS

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


class ImageFile(NamedTuple):
    """A listed file that was not opened.

    Attributes:
      key: path relative to its folder, with `/`; identifies the image everywhere.
      uri: of the file.
      size: bytes, as listed.
      version: changes with the file; 0 if unknown.
      aliases: of a member of an archive, further paths by which label rows may name it.
      reason: why the name cannot be an image, such as `not_a_file`; empty for a usable file.
      message: explains the reason.
    """

    key: str
    uri: str
    size: int
    version: int = 0
    aliases: Sequence[str] = ()
    reason: str = ""
    message: str = ""


coders.registry.register_coder(ImageFile, coders.RowCoder)


class ReadImages(beam.PTransform):
    """Lists images at the beginning of a pipeline: PBegin -> PCollection of `ImageFile`.

    Lists the files that `beam-tfrecord convert` lists. A name that cannot be an image, such as a pipe's, is an
    element with a `reason`, for `JoinLabels` and `WriteImageShards` to report.

    Example::

        images = pipeline | ReadImages("gs://bucket/photos", patterns=["**/*_rgb.png"])
    """

    _yaml_requires_inputs = False

    def __init__(self, images: Paths, patterns: Sequence[str] = ()) -> None:
        """Takes the images.

        Args:
          images: folder, glob, file or archive, or several of them.
          patterns: globs relative to each folder; by default all files that are called as images are.

        Raises:
          UsageError: in `expand`: a path does not exist, or is inside another.
          ListingError: when the pipeline runs: a folder cannot be listed.
        """
        super().__init__()
        self._images = paths_of(images)
        self._patterns = _several(patterns)

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection[ImageFile]:
        listed = pipeline | "ListImages" >> ListImages(roots=_roots(self._images, self._patterns))
        return _files(listed[IMAGES], listed[DEAD_LETTERS])


class ReadAllImages(beam.PTransform):
    """Lists images of a PCollection of paths, each a folder, glob, file or archive: -> `ImageFile`.

    Keys are relative to their folder, so paths must not overlap.

    Example::

        images = folders | ReadAllImages()
    """

    def __init__(self, patterns: Sequence[str] = ()) -> None:
        """Takes globs relative to each folder; by default all files that are called as images are.

        Raises:
          UsageError: when the pipeline runs: a path does not exist.
          ListingError: when the pipeline runs: a folder cannot be listed.
        """
        super().__init__()
        self._patterns = _several(patterns)

    def expand(self, paths: beam.PCollection[str]) -> beam.PCollection[ImageFile]:
        roots = paths | "Roots" >> beam.FlatMap(_roots_of, self._patterns).with_output_types(
            ImageRoot
        )
        listed = roots | "ListRoots" >> ListRoots()
        return _files(listed[IMAGES], listed[DEAD_LETTERS])


def paths_of(paths: Paths) -> tuple[str, ...]:
    """One path, or several, as texts."""
    several = (paths,) if isinstance(paths, str | os.PathLike) else paths
    return tuple(os.fspath(path) for path in several)


def _several(patterns: Sequence[str]) -> tuple[str, ...]:
    return (patterns,) if isinstance(patterns, str) else tuple(patterns)


def _roots_of(path: str | os.PathLike[str], patterns: Sequence[str]) -> Sequence[ImageRoot]:
    return _roots([os.fspath(path)], patterns)


def _roots(paths: Sequence[str], patterns: Sequence[str]) -> tuple[ImageRoot, ...]:
    try:
        roots = image_roots(expanded(paths))
    except UsageError as error:
        raise UsageError(str(error).replace("--images", "images")) from error
    return tuple(
        root if root.archive or root.patterns else replace(root, patterns=tuple(patterns))
        for root in roots
    )


def _files(
    images: beam.PCollection[ImageBatch], dead_letters: beam.PCollection[DeadLetterBatch]
) -> beam.PCollection[ImageFile]:
    usable = images | "Images" >> beam.FlatMap(_usable).with_output_types(ImageFile)
    bad = dead_letters | "Unusable" >> beam.FlatMap(_unusable).with_output_types(ImageFile)
    return (usable, bad) | "AllFiles" >> beam.Flatten()


def _usable(images: Iterable[ImageRef]) -> Iterator[ImageFile]:
    for image in images:
        yield ImageFile(image.key, image.uri, image.size, image.version, image.aliases)


def _unusable(letters: DeadLetterBatch) -> Iterator[ImageFile]:
    for letter in letters:
        yield ImageFile(letter.key, letter.uri, 0, reason=letter.reason, message=letter.message)
