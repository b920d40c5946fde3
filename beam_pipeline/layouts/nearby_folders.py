"""Names in local folders, and the beginnings of tables, for the search around the images.

The search is bounded: thousands of names per folder, tens of folders, no images.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from beam_pipeline.core.errors import ConversionError
from beam_pipeline.core.labels.cells import text_of
from beam_pipeline.core.labels.table_rows import head_rows
from beam_pipeline.core.labels.tables import ColumnChoices, inspect_tables
from beam_pipeline.core.listing.folders import SPLIT_NAMES
from beam_pipeline.core.uris import is_remote
from beam_pipeline.layouts.heads import first_line
from beam_pipeline.layouts.layout import SourceOptions
from beam_pipeline.layouts.tree import names_in
from beam_pipeline.storage import files

MOST_FOLDERS = 50  # subfolders searched in one folder

IMAGE_FOLDERS = frozenset(
    ["images", "image", "imgs", "img", "image_2", "image_3", "jpegimages", "pngimages", "jpgs"]
)
"""Usual names of folders that hold all images of a data set, in lower case."""

MASK_FOLDERS = frozenset(["masks", "segmentationclass", "segmentationobject"])
"""Usual names of folders of images whose pixels are labels."""

LABEL_FOLDERS = MASK_FOLDERS | {"labels", "label", "label_2", "annotations", "annotation", "xmls"}
"""Usual names of folders of label files or masks."""

TABLES = frozenset([".csv", ".tsv", ".jsonl", ".ndjson", ".parquet"])
"""Extensions of tables."""

TEXTS = (".txt", ".caption")
"""Extensions of texts beside images: captions, or labels of YOLO and KITTI."""

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_OTHER_TABLES = re.compile(r"submission|\Adead_letters[.-]", re.IGNORECASE)
"""Names of tables that are no labels: answers to fill in, as on Kaggle, and reports of a conversion."""

_COCO_MEMBERS = re.compile(rb'"(?:images|annotations|categories)"\s*:\s*\[')
_FEW_FOLDERS = 10
_ROWS = 20  # rows of a table whose images are looked up
_ENOUGH_NAMES = 3  # names without extension, such as numbers, that are also names of images
_USUAL_ENDINGS = (".jpg", ".jpeg", ".png", ".JPG", ".JPEG", ".PNG")


@dataclass(frozen=True)
class Folder:
    """The names in a folder, as far as they were read.

    Attributes:
      path: the folder, without a slash at its end.
      images: file names of images, sorted.
      files: other file names, sorted.
      folders: paths of folders, sorted.
    """

    path: str
    images: Sequence[str]
    files: Sequence[str]
    folders: Sequence[str]

    def of_kind(self, extensions: frozenset[str]) -> list[str]:
        """Returns the paths of the other files with one of these extensions, given in lower case."""
        return [f"{self.path}/{name}" for name in self.files if extension(name) in extensions]

    @property
    def tables(self) -> list[str]:
        """The paths of tables that may hold labels: no submission, no dead letters."""
        return [
            path
            for path in self.of_kind(TABLES)
            if not _OTHER_TABLES.search(posixpath.basename(path))
        ]

    @property
    def is_written(self) -> bool:
        """True if it holds TFRecords; then JSON files in it are not labels."""
        return any(".tfrecord" in name for name in self.files)


def only_folder(options: SourceOptions) -> str:
    """Returns the only path of --images if it is a local folder and no labels are given, else empty."""
    if options.labels or len(options.images) != 1 or not options.images[0].strip():
        return ""
    root = files.canonical(options.images[0])
    return root if not is_remote(root) and os.path.isdir(root) else ""


def look(folder: str) -> Folder:
    """Reads the names in a folder, without hidden ones; none if it cannot be read."""
    return Folder(folder.rstrip("/"), *names_in(folder))


def tree(here: Folder) -> list[Folder]:
    """Reads a folder and its subfolders, two levels down, without folders of TFRecords."""
    below = [look(folder) for folder in here.folders[:MOST_FOLDERS]]
    lowest = [look(folder) for found in below for folder in found.folders[:_FEW_FOLDERS]]
    return [found for found in (here, *below, *lowest[:MOST_FOLDERS]) if not found.is_written]


def folders_with_images(here: Folder) -> list[str]:
    """Returns the paths of the folders that hold images, up to three levels below a folder."""
    return [folder for folder in here.folders[:MOST_FOLDERS] if _holds_images(folder, 3)]


def _holds_images(folder: str, levels: int) -> bool:
    found = look(folder)
    if found.images:
        return True
    return levels > 1 and any(
        _holds_images(below, levels - 1) for below in found.folders[:MOST_FOLDERS]
    )


def is_split(folder: str) -> bool:
    """True if a folder has the name of a split."""
    return posixpath.basename(folder).lower() in SPLIT_NAMES


def extension(name: str) -> str:
    """Returns a file name's extension in lower case, with its dot."""
    return posixpath.splitext(name)[1].lower()


def beginning(path: str) -> bytes:
    """Reads the first bytes of a file; none if it cannot be read."""
    found = first_line(path)
    return found.data if found else b""


def is_coco(path: str) -> bool:
    """True if a file begins as an object with COCO's members; a list is of another tool."""
    data = beginning(path)
    return data.lstrip(b"\xef\xbb\xbf \r\n\t").startswith(b"{") and bool(_COCO_MEMBERS.search(data))


class TableLook(NamedTuple):
    """The beginning of a table.

    Attributes:
      path: the file.
      columns: its header; empty if it cannot be read as a table.
      images: the names of images in its first rows.
    """

    path: str
    columns: Sequence[str]
    images: Sequence[str]

    @property
    def may_label(self) -> bool:
        """False for a mere list of images, as `test.csv` often is."""
        return len(self.columns) != 1


def is_of_colours(table: TableLook) -> bool:
    """True for a table of classes and their colours in masks, as CamVid's `class_dict.csv`."""
    columns = {name.lower() for name in table.columns}
    return {"r", "g", "b"} <= columns or {"red", "green", "blue"} <= columns


def look_at_table(path: str) -> TableLook:
    """Reads the header and first rows of a table."""
    found = first_line(path)
    if found is None:
        return TableLook(path, (), ())
    try:
        _, (table,) = inspect_tables([found], ColumnChoices(label_needed=False))
        names = [text_of(cell) for cell in head_rows(found, table).cells(table.key_column)[:_ROWS]]
    except ConversionError:
        return TableLook(path, (), ())
    return TableLook(path, table.header, names)


def names_images(table: TableLook, images: str, above: str) -> bool:
    """True if most of a table's first rows name files in a folder.

    Names without extension count only if there are several: a single row that begins with 1 may
    match `1.jpg` by chance.

    Args:
      table: the table.
      images: the folder; names may be relative to it.
      above: the folder itself or one above it; names may be relative to it, too.
    """
    exact = without_extension = 0
    for name in table.images:
        paths = [path for path in (f"{images}/{name}", f"{above}/{name}") if _is_in(path, images)]
        if any(map(os.path.isfile, paths)):
            exact += 1
        elif any(os.path.isfile(path + ending) for path in paths for ending in _USUAL_ENDINGS):
            without_extension += 1
    return _are_most(exact, without_extension, len(table.images))


def names_images_of(table: TableLook, here: Folder) -> bool:
    """True if most of a table's first rows name images of a folder or of those below it, by file name.

    The rows may name images of several folders, or folders of another machine.
    """
    folders = [
        (found.path, {os.path.splitext(name)[1] for name in found.images}) for found in tree(here)
    ]
    names = [posixpath.basename(name.replace("\\", "/")) for name in table.images]
    exact = without_extension = 0
    for name in filter(None, names):
        if any(os.path.isfile(f"{folder}/{name}") for folder, endings in folders if endings):
            exact += 1
        elif any(
            os.path.isfile(f"{folder}/{name}{end}") for folder, ends in folders for end in ends
        ):
            without_extension += 1
    return _are_most(exact, without_extension, len(names))


def _are_most(exact: int, without_extension: int, rows: int) -> bool:
    found = exact + (without_extension if without_extension >= _ENOUGH_NAMES else 0)
    return 2 * found > rows


def _is_in(path: str, folder: str) -> bool:
    return path.startswith(f"{folder}/")


def is_of_numbers(line: str) -> bool:
    """True if most words of a line are numbers, as in labels of YOLO, KITTI and DOTA.

    >>> is_of_numbers("Car 0.00 0 1.85 387.63 181.54"), is_of_numbers("3"), is_of_numbers("3 cats")
    (True, True, False)
    """
    words = line.replace(",", " ").split()
    return 2 * sum(map(bool, map(_NUMBER.fullmatch, words))) > len(words)
