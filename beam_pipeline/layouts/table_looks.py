"""The beginnings of tables near images, and whether their rows name these."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

from beam_pipeline.core.errors import ConversionError
from beam_pipeline.core.labels.cells import text_of
from beam_pipeline.core.labels.schema import ColumnChoices
from beam_pipeline.core.labels.table_rows import head_rows, is_image_name
from beam_pipeline.core.labels.tables import inspect_tables
from beam_pipeline.layouts.heads import first_line
from beam_pipeline.layouts.tree import Folder, names_in

MOST_FOLDERS = 50
"""Subfolders that are searched in one folder."""

ENOUGH_NAMES = 3
"""Names without extension, such as numbers, that are also names of images, but not by chance."""

_TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
_NO_LABELS = re.compile(r"submission|\Adead_letters[.-]", re.IGNORECASE)
"""Names of tables that are not labels: answers to fill in, as on Kaggle, and reports of a conversion."""

_FEW_FOLDERS = 10  # in a folder in a folder
_ROWS = 20  # of a table whose images are looked up
_USUAL_ENDINGS = (".jpg", ".jpeg", ".png", ".JPG", ".JPEG", ".PNG")


def tables_in(folder: Folder) -> list[str]:
    """The paths of tables that may contain labels: no submission, no dead letters."""
    paths = folder.of_kind(*_TABLES)
    return [path for path in paths if not _NO_LABELS.search(posixpath.basename(path))]


def tree(here: Folder) -> list[Folder]:
    """Reads a folder and its subfolders, two levels down, without folders of TFRecords."""
    below = [names_in(folder) for folder in here.folders[:MOST_FOLDERS]]
    lowest = [names_in(path) for folder in below for path in folder.folders[:_FEW_FOLDERS]]
    return [
        folder
        for folder in (here, *below, *lowest[:MOST_FOLDERS])
        if not any(".tfrecord" in name for name in folder.files)
    ]


def folders_with_images(here: Folder, levels: int = 3) -> list[str]:
    """Returns the paths of the folders that contain images, up to some levels below a folder."""
    below = map(names_in, here.folders[:MOST_FOLDERS])
    return [
        folder.path
        for folder in below
        if folder.images or (levels > 1 and folders_with_images(folder, levels - 1))
    ]


class TableLook(NamedTuple):
    """The beginning of a table.

    Attributes:
      path: the file.
      columns: its header; empty if it cannot be read as a table.
      images: the names of images in its first rows.
      values: of each column, in its first rows.
    """

    path: str
    columns: Sequence[str]
    images: Sequence[str]
    values: Sequence[Sequence[str]] = ()

    @property
    def is_of_colours(self) -> bool:
        """True for classes and their colours in masks, such as `class_dict.csv` of CamVid."""
        names = {name.lower() for name in self.columns}
        return {"r", "g", "b"} <= names or {"red", "green", "blue"} <= names

    def is_of_classes(self, folders: Collection[str]) -> bool:
        """True for a table of the classes of folders, or of the values of pixels: a row for each, not for an image."""
        if any(name.strip().lower() == "pixel value" for name in self.columns):
            return True
        names = {name.replace("_", " ") for name in folders}
        return not any(map(is_image_name, self.images)) and any(
            len({*values}) == len(values) > 1 and {v.replace("_", " ") for v in values} <= names
            for values in self.values
        )

    def names_images_in(self, folder: str, *, by_file_name: bool = False) -> bool:
        """True if most of the first rows name files in a folder.

        Names without extension count only if there are several: a single row that begins with 1 may
        match `1.jpg` by chance.

        Args:
          folder: the folder; names may be relative to it or to the table's.
          by_file_name: True if names may be file names in any folder below, such as paths from another machine.
        """
        anywhere = [below.path for below in tree(names_in(folder))] if by_file_name else []
        exact = without_extension = 0
        for name in self.images:
            base = posixpath.basename(name.replace("\\", "/"))
            paths = [f"{folder}/{name}", f"{posixpath.dirname(self.path)}/{name}"]
            places = [f"{place}/{base}" for place in anywhere if base]
            if sum(map(os.path.isfile, places)) < 2:  # several are ambiguous
                paths += places
            paths = [path for path in paths if path.startswith(f"{folder}/")]
            if any(map(os.path.isfile, paths)):
                exact += 1
            elif any(os.path.isfile(path + ending) for path in paths for ending in _USUAL_ENDINGS):
                without_extension += 1
        if without_extension < ENOUGH_NAMES:
            without_extension = 0
        return 2 * (exact + without_extension) > len(self.images)


def look_at_tables(paths: Sequence[str]) -> list[TableLook]:
    """Reads the headers and first rows of some tables; mere lists of images come only if all are."""
    looks = []
    for path in paths[:MOST_FOLDERS]:
        looks.append(TableLook(path, (), ()))
        head = first_line(path)
        try:
            if head:
                _, (table,) = inspect_tables([head], ColumnChoices(label_needed=False))
                rows = head_rows(head, table)
                values = {name: [*map(text_of, rows.cells(name)[:_ROWS])] for name in rows.columns}
                images = values[table.key_column]
                looks[-1] = TableLook(path, table.header, images, [*values.values()])
        except ConversionError:
            continue
    return [table for table in looks if len(table.columns) != 1] or looks
