"""Label files, one per image, in the form that labelling tools save: a `RecordFormat` without a list."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, BinaryIO

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.labels.schema import Column
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.core.text import some
from beam_pipeline.core.uris import is_remote
from beam_pipeline.layouts.image_records import RecordColumns, RecordFormat, RecordLayout
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
from beam_pipeline.layouts.tree import IMAGE_FOLDERS, names_in, subfolders, walk
from beam_pipeline.storage import files

_LOOKED_AT, _LOOKED_AT_REMOTE = 100, 10  # label files, before the job starts
_FOLDERS = 20  # that are searched for one
_FIRST = 3  # files of each
_LABEL_FILES = "**/*.json"

Places = tuple[tuple[ImageRoot, ...], tuple[ImageRoot, ...], tuple[Place, ...]]
"""The folders to list for images, those to list for label files, and which images these are for."""


class ImageFileFormat(RecordFormat):
    """A kind of files of JSON, each about one image."""

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


class ImageFileLayout(RecordLayout):
    """A layout whose label files are each about one image."""

    format: ImageFileFormat

    def recognise(self, options: SourceOptions) -> str:
        """Recognises the beginning of a file in each path of --labels, or else of --images."""
        paths = options.labels or options.images
        folders = [typed_path(uri, path) for path in paths if (uri := self._first_folder(path))]
        return f"{self.format.title} in {some(folders)}" if len(folders) == len(paths) else ""

    def _first_folder(self, path: str) -> str:
        """The first folder in a typed path with a label file of the format, or empty."""
        for folder in walk(files.canonical(path), _FOLDERS) if path.strip() else ():
            if any(map(self._fits, folder.of_kind(".json")[:_FIRST])):
                return folder.path
        return ""

    def open(self, options: SourceOptions) -> Source:
        """Looks at the first label files.

        Raises:
          UsageError: there are none, they label nothing, or an option does not fit them.
        """
        images, labels, pairs = self.places(options)
        first: list[str] = []
        for pair in pairs:
            most = _LOOKED_AT_REMOTE if is_remote(pair.labels) else _LOOKED_AT
            below = (folder.of_kind(".json") for folder in walk(pair.labels, _FOLDERS))
            first += islice((uri for uris in below for uri in uris), most)
        source = self.source(options, first, images)
        reader: Any = getattr(source.labels, "reader", None)
        by_file = LabelFileReader(FileRows(reader.format, reader.columns), pairs)
        return replace(source, labels=FileLabels(by_file, folders=labels))

    def places(self, options: SourceOptions) -> Places:
        """Finds images and label files. Raises UsageError."""
        if options.labels:
            labels = label_folders(options.labels, _LABEL_FILES, f"files of {self.format.title}")
            return image_roots(options.images), labels, tuple(Place(f.uri) for f in labels)
        images, folders = [], {}
        for path in options.images:
            first, root = self._first_folder(path), files.canonical(path)
            if not first:
                problem = f"no file of {self.format.title} in its folders"
                raise UsageError(f"--images {path}: {problem}; name their folder with --labels")
            if first != root and not names_in(first).images:
                named = [
                    f for f in subfolders(root) if f.rpartition("/")[2].lower() in IMAGE_FOLDERS
                ]
                path = named[0] if named else path
                root = f"{root}/{first[len(root) + 1 :].partition('/')[0]}"
            images.append(path)
            folders[root] = ImageRoot(root, (_LABEL_FILES,))
        return image_roots(images), tuple(folders.values()), tuple(map(Place, folders))
