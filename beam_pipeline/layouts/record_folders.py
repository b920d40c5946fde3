"""Label files, one per image, as labelling tools save them: those of a `RecordFormat` without a list."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, BinaryIO, NamedTuple

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.labels.schema import Column
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.core.text import some
from beam_pipeline.core.uris import is_remote
from beam_pipeline.layouts.image_records import (
    RecordColumns,
    RecordFormat,
    RecordLayout,
)
from beam_pipeline.layouts.label_files import (
    BadLabelError,
    ImageLabels,
    LabelFileReader,
    LabelFormat,
    Place,
    label_folders,
    typed_path,
)
from beam_pipeline.layouts.layout import FileLabels, Source, SourceOptions
from beam_pipeline.layouts.paths import image_roots
from beam_pipeline.layouts.tree import names_in, walk
from beam_pipeline.storage import files

_LOOKED_AT, _LOOKED_AT_REMOTE = 100, 10  # label files, before the job starts
_FOLDERS = 20  # that are searched for one
_FIRST = 3  # files of each
_JSON = ".json"
_LABEL_FILES = f"**/*{_JSON}"


class ImageFileFormat(RecordFormat):
    """A kind of files of JSON, of which each is about one image."""

    def entries(self, file: BinaryIO, uri: str) -> Iterator[tuple[int, Any]]:
        """Yields the file; None if it is not JSON."""
        try:
            yield 0, json.load(file)
        except (ValueError, RecursionError):
            yield 0, None


@dataclass(frozen=True)
class FileRows(LabelFormat):
    """The files of a format, as rows with these columns."""

    format: RecordFormat
    row: RecordColumns

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.row.columns

    def parse(self, data: bytes, uri: str) -> ImageLabels | None:
        try:
            entry = json.loads(data)
        except (ValueError, RecursionError) as error:
            problem = f"not JSON, as {self.format.title} is: {error}"
            raise BadLabelError(problem, getattr(error, "lineno", 0)) from error
        labelled = self.format.labelled(entry)
        if self.row.is_unlabelled(labelled):
            return None
        return ImageLabels(self.row.values(labelled, 0), labelled.size, labelled.split)


class Places(NamedTuple):
    """Where images and label files are.

    Attributes:
      images: the folders to list for images.
      labels: the folders to list for label files.
      pairs: which images the files of a folder are for.
    """

    images: tuple[ImageRoot, ...]
    labels: tuple[ImageRoot, ...]
    pairs: tuple[Place, ...]


class ImageFileLayout(RecordLayout):
    """A layout whose label files are each about one image."""

    format: ImageFileFormat

    def recognise(self, options: SourceOptions) -> str:
        """Recognises the beginning of a file in each path of --labels, or else of --images."""
        paths = options.labels or options.images
        folders = [(path, self.first_folder(path)) for path in paths]
        if not all(folder for _, folder in folders):
            return ""
        return f"{self.format.title} in {some([typed_path(uri, path) for path, uri in folders])}"

    def first_folder(self, path: str) -> str:
        """The first folder in a typed path with a label file of the format, or empty."""
        if not path.strip():
            return ""
        for folder in walk(files.canonical(path), _FOLDERS):
            for uri in folder.of_kind(_JSON)[:_FIRST]:
                if self._is_one(uri):
                    return folder.path
        return ""

    def open(self, options: SourceOptions) -> Source:
        """Looks at the first label files.

        Raises:
          UsageError: there are none, they label nothing, or an option does not fit them.
        """
        images, labels, pairs = self.places(options)
        source = self.source(options, [*_sample(pairs)], images)
        assert isinstance(source.labels, FileLabels)
        reader: Any = source.labels.reader
        by_file = LabelFileReader(FileRows(reader.format, reader.columns), pairs)
        return replace(source, labels=FileLabels(by_file, folders=labels))

    def places(self, options: SourceOptions) -> Places:
        """Finds images and label files. Raises UsageError."""
        if options.labels:
            labels = label_folders(options.labels, _LABEL_FILES, f"files of {self.format.title}")
            return Places(image_roots(options.images), labels, tuple(Place(f.uri) for f in labels))
        images, folders = [], []
        for path in options.images:
            first, root = self.first_folder(path), files.canonical(path)
            if not first:
                raise UsageError(
                    f"--images {path}: no file of {self.format.title} in its folders; name their folder with --labels"
                )
            beside = first == root or bool(names_in(first).images)
            folders.append(root if beside else _below(root, first))
            images.append(path if beside else _only_images(root, folders[-1]))
        roots = tuple(ImageRoot(uri, (_LABEL_FILES,)) for uri in dict.fromkeys(folders))
        return Places(image_roots(images), roots, tuple(Place(root.uri) for root in roots))


def _sample(pairs: Sequence[Place]) -> Iterator[str]:
    """Yields the URIs of the first label files of each folder."""
    for pair in pairs:
        most = _LOOKED_AT_REMOTE if is_remote(pair.labels) else _LOOKED_AT
        uris = (uri for folder in walk(pair.labels, _FOLDERS) for uri in folder.of_kind(_JSON))
        yield from islice(uris, most)


def _below(root: str, folder: str) -> str:
    """The folder in a root that contains another one, or is it."""
    return f"{root}/{folder[len(root) + 1 :].partition('/')[0]}"


def _only_images(root: str, labels: str) -> str:
    """The only folder beside the labels with images in it or below; the root if that is not clear."""
    beside = [folder for folder in names_in(root).folders if folder != labels]
    with_images = [f for f in beside if any(below.images for below in walk(f, _FOLDERS))]
    is_clear = len(with_images) == 1 and not names_in(root).images
    return with_images[0] if is_clear else root
