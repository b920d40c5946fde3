"""Folders of images that tell something which a table beside them does not.

The rows of a table name `1.jpg`, which is in `healthy/`, and no column agrees with that folder: it may be the
class, or the split, and would be ignored.
"""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from beam_pipeline.core.errors import ConversionError
from beam_pipeline.core.labels.cells import text_of
from beam_pipeline.core.labels.path_roles import IMAGES, MASKS, parts_of_set
from beam_pipeline.core.labels.schema import NO_LABEL_COLUMN
from beam_pipeline.core.labels.table_rows import TableRows, is_image_name
from beam_pipeline.core.labels.tables import LabelSchema
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.core.listing.folders import SPLIT_NAMES, named_split
from beam_pipeline.core.questions import Question
from beam_pipeline.core.text import enumerated
from beam_pipeline.core.uris import is_remote
from beam_pipeline.layouts.layout import SourceOptions
from beam_pipeline.layouts.paths import first_entries
from beam_pipeline.layouts.tree import walk

_MOST_FOLDERS, _MOST_REMOTE = 64, 8  # that are looked at; more are hardly classes
_EACH = 2  # images in a folder, on average
_SHOWN = 3
_FOLDERS_ARE_CLASSES: Mapping[str, Any] = {"labels": (), "layout": "class_folders"}

_Pairs = Sequence[tuple[str, int]]
"""(folder of the image, number of the row) for rows whose image was seen."""


def unused_folders(
    options: SourceOptions,
    roots: Sequence[ImageRoot],
    images: Sequence[str],
    rows: TableRows,
    schema: LabelSchema,
) -> Iterator[Question]:
    """Asks about the first level of folders that no column agrees with.

    Args:
      options: those given; --label_column confirms that folders are ignored.
      roots: the folders of images.
      images: the names of images in the first rows.
      rows: these rows.
      schema: their columns.
    """
    label = schema.label_name
    if label is None or options.label_column:
        return
    if any("/" in name or "\\" in name for name in images):
        return
    folders = _folders_by_name(roots)
    paths = [folders.get(name, ()) for name in images]
    keep = {"label_column": label or NO_LABEL_COLUMN}
    for level in range(max(map(len, paths), default=0)):
        pairs = [(path[level], row) for row, path in enumerate(paths) if len(path) > level]
        names = sorted({name for name, _ in pairs})
        if len(pairs) < _EACH * len(names) or not _tell_something(names, level):
            continue
        if any(_agrees(pairs, column) for column in map(rows.cells, rows.columns)):
            continue
        advice, answer = (
            "If they are the classes, and the table is of no use:",
            _FOLDERS_ARE_CLASSES,
        )
        if len({named_split(name) for name in names} - {""}) > 1:
            above = {"/".join(path[:level]) for path in paths if len(path) > level}
            advice, answer = "If they are splits, write them in a column called split.", {}
            if {*map(str.lower, names)} <= SPLIT_NAMES.keys() and len(above) == len(options.images):
                advice = "Splits are the first folders in --images:"
                answer = {"images": (posixpath.join(options.images[0], *above),)}
        yield Question(
            "unused_folders",
            f"The images are in the folders {enumerated([*map(repr, names)], _SHOWN)}, which no column "
            "agrees with, and which would be ignored.",
            f"{advice}{'' if answer else ' To ignore them:'}",
            answer or keep,
            (("To ignore them:", keep),) if answer else (),
        )
        return


def other_keys(
    options: SourceOptions, roots: Sequence[ImageRoot], names: Sequence[str], rows: TableRows
) -> Iterator[Question]:
    """Asks about a column whose values are names of the images, if those of the key are not.

    Args:
      options: those given; --key_column confirms the key.
      roots: the folders of images.
      names: the values of the key in the first rows.
      rows: these rows.
    """
    if options.key_column or not names or any(map(is_image_name, names)):
        return
    images = _folders_by_name(roots).keys()
    cells = {column: [*map(text_of, rows.cells(column))] for column in rows.columns}
    keys = [c for c, texts in cells.items() if all(_name(text) in images for text in texts)]
    if keys and not any(_name(name) in images for name in names):
        (advice, answer), *further = [(f"If {c!r} names it:", {"key_column": c}) for c in keys]
        reason = f"Rows would name their images as {names[0]!r}, and no image is called so."
        yield Question("other_key", reason, advice, answer, tuple(further))


def _name(path: str) -> str:
    return posixpath.basename(path.strip().replace("\\", "/"))


def _folders_by_name(roots: Sequence[ImageRoot]) -> dict[str, tuple[str, ...]]:
    """Name of an image, with and without extension -> the folders that it is in; none where there are too many."""
    folders: dict[str, tuple[str, ...]] = {}
    archives = [root for root in roots if root.archive]
    with suppress(ConversionError):  # which the job reports
        for root, entry in first_entries(archives):
            assert root.archive
            *path, name = root.archive.aliases(entry.name)[0].split("/")
            folders |= dict.fromkeys((name, posixpath.splitext(name)[0]), tuple(path))
    for root in (root for root in roots if not root.archive):
        most = _MOST_REMOTE if is_remote(root.uri) else _MOST_FOLDERS
        seen = list(walk(root.uri, most + 1))
        if len(seen) > most:
            return {}
        for folder in seen:
            above = tuple(filter(None, folder.path[len(root.uri.rstrip("/")) :].split("/")))
            folders |= {posixpath.splitext(name)[0]: above for name in folder.images}
            folders |= dict.fromkeys(folder.images, above)
    return folders


def _tell_something(names: Sequence[str], level: int) -> bool:
    """True for several folders, unless they are splits that are used, usual for images, or parts of a set."""
    lower = {name.lower() for name in names}
    used = lower <= SPLIT_NAMES.keys() and not level
    return len(names) > 1 and not (used or lower <= IMAGES | MASKS or parts_of_set(names))


def _agrees(pairs: _Pairs, cells: Sequence[Any]) -> bool:
    """True if the values of a column are the folders' names, or repeat and imply the folder."""
    folders: dict[str, set[str]] = defaultdict(set)
    for folder, row in pairs:
        folders[text_of(cells[row])].add(folder)
    if {folder.lower() for folder, _ in pairs} <= {value.lower() for value in folders}:
        return True
    return 2 * len(folders) <= len(pairs) and all(len(names) == 1 for names in folders.values())
