"""KITTI's object detection set, and sets with the same structure: `image_2/` beside `label_2/`."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.labels.classes import ClassNumbering
from beam_pipeline.core.labels.folders import SPLIT_NAMES
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.core.records.example_source import LabelledImages
from beam_pipeline.core.references import LabelRow
from beam_pipeline.core.text import counted
from beam_pipeline.core.uris import is_remote
from beam_pipeline.layouts.kitti.labels import COLUMNS, OBJECT_TYPES, parse_labels
from beam_pipeline.layouts.layout import FileLabels, Source, SourceOptions
from beam_pipeline.layouts.shared.label_folders import label_folders, shown
from beam_pipeline.layouts.shared.local_names import file_names
from beam_pipeline.layouts.shared.paths import image_roots
from beam_pipeline.layouts.shared.split_lists import (
    UNLISTED,
    check_not_listed_twice,
    read_list,
)
from beam_pipeline.storage import files

_IMAGES, _LABELS, _TRAINING = "image_2", "label_2", "training"
_TXT = ".txt"
_LABEL_FILES = f"*{_TXT}"
_LISTS = "ImageSets"
_LISTED = ("train", "val")
_HEAD_BYTES = 4096
_LOOKED_AT = 10  # label files to search for one that is not empty


@dataclass(frozen=True)
class KittiReader:
    """Reads a label file: one image and all of its objects.

    Attributes:
      splits: name of an image, without extension -> its split according to the lists; empty if
        there are no lists.
    """

    splits: Mapping[str, str] = field(default_factory=dict)

    def read(self, file: BinaryIO, uri: str) -> Iterator[LabelRow | DeadLetter]:
        """Yields the one row of a file."""
        row = parse_labels(file.read(), uri)
        if self.splits:
            row = row._replace(split=self.splits.get(row.name, UNLISTED))
        yield row


class Kitti:
    """Each image has a label file with its objects, their boxes and their position in space."""

    name = "kitti"
    option_names = frozenset({"label_base", "label_order"})

    def recognise(self, options: SourceOptions) -> str:
        """Recognises the folders' names, or label files of 15 columns in the folder of --labels."""
        if options.labels:
            return _recognise_labels(options)
        found = [_training_folder(path) for path in options.images]
        for folder in found:
            if not folder or not (is_remote(folder) or os.path.isdir(f"{folder}/{_LABELS}")):
                return ""
        where = ", ".join(map(shown, found, options.images))
        return f"{_IMAGES}/ beside {_LABELS}/ in {where}"

    def open(self, options: SourceOptions) -> Source:
        """Finds the folder of the images and that of their labels.

        Raises:
          UsageError: one of the two is missing, or there are no label files.
        """
        images = [_image_folder(path, required=not options.labels) for path in options.images]
        if options.labels:
            typed = [_label_folder(path) for path in options.labels]
        else:
            typed = [f"{posixpath.dirname(folder)}/{_LABELS}" for folder in images]
            for folder in typed:
                if not is_remote(folder) and not os.path.isdir(folder):
                    raise UsageError(
                        f"--layout kitti: no {_LABELS}/ beside {posixpath.dirname(folder)}/"
                        f"{_IMAGES}; put KITTI's label files there, or name their folder with "
                        "--labels"
                    )
        folders = label_folders(typed, _LABEL_FILES, f"label files of KITTI ({_LABEL_FILES})")
        splits, notes = _listed_splits(images, folders)
        base = options.numbering(base=1).base
        return Source(
            layout=self.name,
            roots=image_roots(images),
            labels=FileLabels(KittiReader(splits), folders=folders),
            examples=LabelledImages(COLUMNS),
            numbering=ClassNumbering(
                base,
                options.label_order,
                known=tuple(zip(OBJECT_TYPES, range(base, base + len(OBJECT_TYPES)), strict=True)),
            ),
            notes=notes,
        )


def _training_folder(path: str) -> str:
    """Returns the URI of the folder that holds image_2/; empty if there is none.

    For a remote path, only the name is considered.
    """
    if not path.strip():
        return ""
    uri = files.canonical(path)
    if posixpath.basename(uri) == _IMAGES:
        return posixpath.dirname(uri)
    if is_remote(uri):
        return ""
    return next(
        (folder for folder in (uri, f"{uri}/{_TRAINING}") if os.path.isdir(f"{folder}/{_IMAGES}")),
        "",
    )


def _image_folder(path: str, *, required: bool) -> str:
    """Returns the folder of images for a path of --images; the path itself if it has no image_2/.

    Raises:
      UsageError: it has none, although one is required.
    """
    folder = _training_folder(path)
    uri = files.canonical(path)
    if is_remote(uri) and not folder and path.strip():
        if posixpath.basename(uri) == _TRAINING:
            folder = uri
        elif required:
            folder = f"{uri}/{_TRAINING}"
    if folder:
        return f"{folder}/{_IMAGES}"
    if required:
        raise UsageError(
            f"--images {path}: no folder {_IMAGES}/ or {_TRAINING}/{_IMAGES}/ in it; --layout kitti "
            f"expects {_IMAGES}/ beside {_LABELS}/, or the folder of label files with --labels"
        )
    return path


def _listed_splits(
    images: Sequence[str], folders: Sequence[ImageRoot]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Reads (name of an image -> split, notes) from ImageSets/train.txt and val.txt beside training/.

    test.txt lists testing/, whose images have no labels and share their names with those in
    training/.

    Raises:
      UsageError: a name is in both lists.
    """
    splits: dict[str, str] = {}
    notes = []
    for lists in dict.fromkeys(_list_folder(folder) for folder in images):
        for name in _LISTED:
            uri = f"{lists}/{name}.txt"
            listed = read_list(uri) if lists else []
            check_not_listed_twice(uri, listed, SPLIT_NAMES[name], splits)
            splits.update(dict.fromkeys(listed, SPLIT_NAMES[name]))
            if listed:
                notes.append(f"{counted(len(listed), 'image')} of {name} by {uri}")
    if splits and not any(is_remote(folder.uri) for folder in folders):
        names = [name for folder in folders for name in file_names(folder.uri, _TXT)]
        unlisted = sum(name[: -len(_TXT)] not in splits for name in names)
        if unlisted:
            notes.append(
                f"{unlisted} of {len(names)} label files are in no list of {_LISTS}/, so their images "
                f"go to a split {UNLISTED!r} unless --splits is given"
            )
    return splits, tuple(notes)


def _list_folder(images: str) -> str:
    """Returns the folder of lists that belongs to a folder image_2/; empty for any other folder."""
    uri = files.canonical(images)
    if posixpath.basename(uri) != _IMAGES:
        return ""
    training = posixpath.dirname(uri)
    return f"{posixpath.dirname(training)}/{_LISTS}"


def _label_folder(path: str) -> str:
    """Returns the folder of label files for a path of --labels; the path itself if it has none."""
    uri = files.canonical(path)
    if not path.strip() or is_remote(uri):
        return path
    below = (f"{uri}/{_LABELS}", f"{uri}/{_TRAINING}/{_LABELS}")
    return next((folder for folder in below if os.path.isdir(folder)), path)


def _recognise_labels(options: SourceOptions) -> str:
    folders = [_label_folder(path) for path in options.labels]
    if not all(map(_is_label_folder, folders)):
        return ""
    where = ", ".join(map(shown, map(files.canonical, folders), options.labels))
    return f"label files of KITTI in {where}"


def _is_label_folder(path: str) -> bool:
    """True if a folder is called label_2/, or its files have KITTI's columns."""
    if not path.strip():
        return False
    uri = files.canonical(path)
    if posixpath.basename(uri) == _LABELS and (is_remote(uri) or os.path.isdir(uri)):
        return True
    return not is_remote(uri) and _holds_labels(uri)


def _holds_labels(folder: str) -> bool:
    """True if the first label file that is not empty begins with a line of KITTI's."""
    for name in file_names(folder, ".txt")[:_LOOKED_AT]:
        try:
            with open(f"{folder}/{name}", "rb") as file:
                lines = [line for line in file.read(_HEAD_BYTES).splitlines() if line.strip()]
        except OSError:
            return False
        if lines:
            return not parse_labels(lines[0], name).problem
    return False
