"""A YOLO data set: its images, label files, classes and splits, and the `data.yaml` that may describe them.

    data.yaml    path: ../d, train: images/train, val: images/val or val.txt, names: [cat, dog]
    images/train/a.jpg    labels/train/a.txt    classes.txt

Source: https://docs.ultralytics.com/datasets/detect/#ultralytics-yolo-format
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.listing.filters import IMAGE_EXTENSIONS, ImageRoot
from beam_pipeline.core.listing.folders import SPLIT_NAMES
from beam_pipeline.core.text import excerpt, is_utf8, some
from beam_pipeline.core.uris import is_remote
from beam_pipeline.layouts import tree
from beam_pipeline.layouts.label_files import FolderPair, files_pattern, give_split
from beam_pipeline.layouts.paths import image_roots, path_in
from beam_pipeline.storage import files

YAML_SUFFIXES = (".yaml", ".yml")
USUAL_YAML = ("data.yaml", "dataset.yaml")
CLASS_FILES = ("classes.txt", "obj.names", "_darknet.labels")
"""Files with one class name per line, as written by LabelImg, Darknet, and Roboflow for Darknet."""

_SPLITS = ("train", "val", "valid", "validation", "test")
_LARGEST = 1 << 20  # bytes of a description
_MOST_DIGITS = 18  # of a class number, which an int64 contains
_IMAGES, _LABELS, _TXT = "images", "labels", ".txt"
LABEL_FILES = files_pattern(_TXT)


class Description(NamedTuple):
    """The content of `data.yaml`.

    Attributes:
      uri: its URI.
      folder: the data set's folder, as given by `path`, or else the folder of the file.
      places: (split, folder or list file of its images, as written).
      names: class id -> name; empty if it has none.
      keypoints: (key points per object, values per key point); None if there are none.
      notes: notes for the user, one sentence each.
    """

    uri: str
    folder: str
    places: Sequence[tuple[str, str]]
    names: Mapping[int, str]
    keypoints: tuple[int, int] | None = None
    notes: tuple[str, ...] = ()


@dataclass
class DataSet:
    """The data sets in the paths of --images, taken together.

    Attributes:
      pairs: folders of images, each with the folder of its labels.
      listed: URI of an image, without extension -> the split whose list file names it.
      class_names: URI of a file that names classes -> class id -> name.
      keypoints: (key points per object, values per key point); None if there are none.
      skipped: URIs of text files that may be among label files but are not label files.
      notes: notes for the user, one sentence each.
    """

    pairs: list[FolderPair] = field(default_factory=list)
    listed: dict[str, str] = field(default_factory=dict)
    class_names: dict[str, Mapping[int, str]] = field(default_factory=dict)
    keypoints: tuple[int, int] | None = None
    skipped: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)

    def add(self, path: str) -> None:
        """Adds the data set in a path of --images.

        Raises:
          UsageError: it is not a YOLO data set, or an image is in two splits.
        """
        base = uri = files.canonical(path)
        is_yaml = uri.lower().endswith(YAML_SUFFIXES)
        description = read_description(uri) if is_yaml else description_in(uri)
        pairs = [] if is_yaml or description else folder_pairs_in(uri)
        if description:
            base, pairs = description.folder, self._described_pairs(description)
        elif pairs:
            if len(pairs) == 1 and pairs[0].images != pairs[0].labels:
                base = f"{pairs[0].images}/".rpartition(f"/{_IMAGES}/")[0]
                description = description_in(base) if base != uri else None
            for name, split in SPLIT_NAMES.items():
                if _is_list(f"{base}/{name}{_TXT}"):
                    self._read_list(f"{base}/{name}{_TXT}", split, (base,))
        if not pairs:
            raise UsageError(
                f"--images {path}: no data set of YOLO; expected {_IMAGES}/ beside {_LABELS}/, label files ({_TXT}) "
                f"beside the images, or a description such as {USUAL_YAML[0]} with names, and train, val or test. "
                "--labels names a folder of label files elsewhere"
            )
        if description:
            self.class_names[description.uri] = description.names
            shape = description.keypoints
            if shape and self.keypoints and shape != self.keypoints:
                raise UsageError(
                    f"{description.uri}: kpt_shape is {[*shape]}, in another data set of --images "
                    f"{[*self.keypoints]}; convert the two one by one"
                )
            self.keypoints = shape or self.keypoints
        self.pairs += pairs
        self.find_class_files([base], named=bool(description and description.names))

    def find_class_files(self, bases: Sequence[str], *, named: bool = False) -> None:
        """Finds further files that name classes, which must agree.

        Args:
          bases: folders to search, besides images and labels.
          named: True if a description names the classes, so that none of the files counts.

        Raises:
          UsageError: one cannot be read.
        """
        near = [*bases]
        for pair in self.pairs:
            near += [pair.labels, posixpath.dirname(pair.labels), pair.images]
        for folder in filter(None, near):
            for name in CLASS_FILES:
                uri = f"{folder}/{name}"
                if not named and uri not in self.skipped and tree.has_file(uri):
                    self.class_names[uri] = read_class_file(uri)
                self.skipped |= {uri, f"{folder}/{name.upper()}"}

    def _described_pairs(self, description: Description) -> list[FolderPair]:
        """Returns the folders in a description; adds the images in its list files.

        Raises:
          UsageError: none of them exists, or an image is in two splits.
        """
        pairs: list[FolderPair] = []
        missing = []
        splits: dict[str, str] = {}
        bases = (description.folder, posixpath.dirname(description.uri))
        self.notes += description.notes
        for split, entry in description.places:
            uri = _resolved(entry.strip(), bases)
            if not uri:
                missing.append(entry)
            elif uri.lower().endswith(_TXT):
                folders = self._read_list(uri, split, bases)
                pairs += [FolderPair(folder, _labels_of(folder)) for folder in folders]
            else:
                images = f"{uri}/{_IMAGES}" if tree.has_folder(f"{uri}/{_IMAGES}") else uri
                pairs.append(FolderPair(images, _labels_of(images), split=split))
                give_split(splits, images, split, f"{description.uri} names {images}")
        self._leave_out(missing, description.uri, description.folder, everything=not pairs)
        return sorted(set(pairs))

    def _leave_out(
        self, missing: Sequence[str], uri: str, folder: str, *, everything: bool
    ) -> None:
        """Notes what a file names that is not there. Raises UsageError if that is everything."""
        if missing and everything:
            expected = f"{folder} contains nothing that it names; correct its paths"
            raise UsageError(f"{uri} names {some(missing)}, but {expected}")
        if missing:
            self.notes.append(f"{uri} names {some(missing)}, which cannot be found")

    def _read_list(self, uri: str, split: str, bases: Sequence[str]) -> list[str]:
        """Returns the folders of the images in a list file, each once; adds the images themselves.

        Raises:
          UsageError: it cannot be read, names an image of another list, or names no existing image.
        """
        self.skipped.add(uri)
        lines = [line.strip() for line in files.read_text(uri).splitlines() if line.strip()]
        folders: dict[str, None] = {}
        missing = []
        for line in lines:
            image = _listed_image(line.replace("\\", "/"), (posixpath.dirname(uri), *bases))
            if image:
                folders[posixpath.dirname(image)] = None
                give_split(self.listed, posixpath.splitext(image)[0], split, f"{uri} names {line}")
            else:
                missing.append(line)
        self._leave_out(missing, uri, bases[0], everything=not folders)
        return list(folders)


# --- folders and list files ----------------------------------------------------------------------


def folder_pairs_in(uri: str) -> list[FolderPair]:
    """Finds the folders of images and labels for a folder, by the names of folders."""
    below = tree.subfolders(uri)
    usual = FolderPair(f"{uri}/{_IMAGES}", f"{uri}/{_LABELS}")
    if {*usual[:2]} <= {*below}:
        return [usual]
    if _labels_of(uri) != uri and tree.has_folder(_labels_of(uri)):
        return [FolderPair(uri, _labels_of(uri))]
    pairs = [
        FolderPair(f"{folder}/{_IMAGES}", f"{folder}/{_LABELS}", split=_split_of(folder))
        for folder in below
        if tree.has_folder(f"{folder}/{_IMAGES}")
    ]
    if any(tree.has_folder(pair.labels) for pair in pairs):
        return pairs
    beside = topmost(folder for folder in (uri, *below) if _holds_pair(folder))
    return [FolderPair(folder, folder, split=_split_of(folder)) for folder in beside]


def _split_of(folder: str) -> str:
    return SPLIT_NAMES.get(posixpath.basename(folder).lower(), "")


def _labels_of(images: str) -> str:
    """Returns the folder of the label files of a folder of images, by Ultralytics' rule.

    >>> _labels_of("/coco8/images/train")
    '/coco8/labels/train'
    """
    before, separator, after = f"{images}/".rpartition(f"/{_IMAGES}/")
    return f"{before}/{_LABELS}/{after}".rstrip("/") if separator else images


def _holds_pair(folder: str) -> bool:
    """True if a folder has an image and a label file of the same name."""
    files_here = tree.names_in(folder).files
    stems = {name[: -len(_TXT)] for name in files_here if name.lower().endswith(_TXT)}
    return bool(stems) and any(
        posixpath.splitext(name)[0] in stems for name in tree.image_names(folder)
    )


def topmost(folders: Iterable[str]) -> list[str]:
    """Returns the folders, sorted, without those inside others."""
    outer: list[str] = []
    for folder in sorted(set(folders), key=lambda folder: folder.count("/")):
        if not folder.startswith(tuple(f"{above}/" for above in outer)):
            outer.append(folder)
    return sorted(outer)


def roots_of(folders: Sequence[str]) -> tuple[ImageRoot, ...]:
    """Returns the folders to list: the one above all of them, so that no two images have the same key."""
    outer = topmost(folders)
    if len(outer) == 1:
        return (ImageRoot(outer[0]),)
    scheme, separator, _ = outer[0].rpartition("://")
    start = len(scheme + separator)
    above = outer[0][:start] + posixpath.commonpath([folder[start:] for folder in outer])
    if above.count("/") < min(folder.count("/") for folder in outer) - 3 or above in ("/", ""):
        return image_roots(outer)  # far apart: the folders in between are not part of the data set
    return (ImageRoot(above, within=tuple(f"{folder[len(above) + 1 :]}/" for folder in outer)),)


def label_roots(pairs: Sequence[FolderPair]) -> tuple[ImageRoot, ...]:
    """Returns the existing folders of label files. Raises UsageError if there are none."""
    labels = topmost(pair.labels for pair in pairs)
    roots = tuple(ImageRoot(folder, (LABEL_FILES,)) for folder in labels if tree.has_folder(folder))
    if not roots:
        raise UsageError(f"no folder of label files: {some(labels)} is missing")
    return roots


def _resolved(entry: str, bases: Sequence[str]) -> str:
    """Returns the URI of a folder or list file in a description; empty if it does not exist.

    Roboflow writes `../train/images` for `train/images`, and Ultralytics reads it that way.
    """
    if is_remote(entry):
        return entry.rstrip("/")
    paths = dict.fromkeys([entry, entry.removeprefix("../")])
    uris = (path_in(folder, path) for folder in bases for path in paths)
    return next((uri for uri in uris if tree.has_folder(uri) or tree.has_file(uri)), "")


def _is_list(uri: str) -> bool:
    """True if a file exists whose first line names an image."""
    line = tree.beginning(uri).lstrip().partition(b"\n")[0] if tree.has_file(uri) else b""
    extension = posixpath.splitext(line.decode("utf-8", "replace").strip())[1].lower()
    return extension in IMAGE_EXTENSIONS


def _listed_image(line: str, bases: Sequence[str]) -> str:
    """Returns the URI of an image in a list file; empty if it does not exist.

    Paths are relative to the list's folder or the data set's. Darknet's lists and other
    machines begin with folders above these, which are removed one by one.
    """
    if is_remote(line) or is_remote(bases[0]):
        return path_in(bases[-1], line)
    if line.startswith("/") and os.path.exists(line):
        return line
    parts = [part for part in line.split("/") if part not in ("", ".")]
    tails = ("/".join(parts[start:]) for start in range(len(parts)))
    paths = (f"{base}/{tail}" for tail in tails for base in bases)
    return next((posixpath.normpath(path) for path in paths if os.path.exists(path)), "")


# --- descriptions --------------------------------------------------------------------------------


def description_in(folder: str) -> Description | None:
    """Reads the description of a data set in its folder.

    Raises:
      UsageError: there are several, or the usual one is wrong.
    """
    uris = tree.names_in(folder).of_kind(*YAML_SUFFIXES)
    usual = (f"{folder}/{name}" for name in USUAL_YAML if f"{folder}/{name}" in uris)
    if first := next(filter(None, map(read_description, usual)), None):
        return first
    descriptions = list(filter(None, map(read_description, uris)))
    if len(descriptions) > 1:
        several = some([description.uri for description in descriptions])
        raise UsageError(f"{several} each describe a data set; name one of them with --images")
    return next(iter(descriptions), None)


def read_description(uri: str) -> Description | None:
    """Reads `data.yaml`; None if a file is not one.

    Raises:
      UsageError: it cannot be read, or its splits, names or key points are wrong.
    """
    import yaml  # a 20 ms import

    text = files.read_text(uri, most=_LARGEST)
    try:
        content: Any = yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506, it makes texts only
    except (yaml.YAMLError, RecursionError) as error:
        raise UsageError(f"{uri} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict) or not {"names", "nc"} & set(content):
        return None
    places = []
    for key in filter(content.get, _SPLITS):
        value = content[key]
        entries = value if isinstance(value, list) else [value]
        if not all(isinstance(entry, str) for entry in entries):
            expected = "expected a folder or a list file of images"
            raise UsageError(f"{uri}: {key} is {excerpt(value)}; {expected}")
        places += [(SPLIT_NAMES[key], entry) for entry in entries if entry.strip()]
    if not places:
        return None
    names = _class_names(content.get("names") or [], uri)
    folder, notes = _folder(content.get("path"), uri)
    return Description(uri, folder, places, names, _keypoints(content.get("kpt_shape"), uri), notes)


def read_class_file(uri: str) -> dict[int, str]:
    """Reads class id -> name from the lines of a file.

    Raises:
      UsageError: it cannot be read, or lacks a name.
    """
    text = files.read_text(uri, most=_LARGEST).rstrip()
    return _class_names([line.strip() for line in text.splitlines()], uri)


def _folder(path: Any, uri: str) -> tuple[str, tuple[str, ...]]:
    """Returns (the data set's folder, notes); the file's folder if `path` is of another machine."""
    own = posixpath.dirname(uri)
    if not isinstance(path, str) or path.strip() in ("", ".", "./"):
        return own, ()
    if is_remote(path) or is_remote(own):
        return (path.rstrip("/") if is_remote(path) else own), ()
    for folder in (files.canonical(posixpath.join(own, path)), files.canonical(path)):
        if files.exists(folder):
            return folder, ()
    return own, (f"{uri}: its path {path} does not exist; its folders are looked up in {own}",)


def _class_names(given: Any, uri: str) -> dict[int, str]:
    """Checks the names of classes, a list or by their numbers. Raises UsageError."""
    names = dict(enumerate(given)) if isinstance(given, list) else given
    if not isinstance(names, dict):
        expected = "expected the classes, as in [cat, dog]"
        raise UsageError(f"{uri}: names is {excerpt(given)}; {expected}")
    ids: dict[int, str] = {}
    for key, name in names.items():
        problem = ""
        if not str(key).isdecimal() or len(str(key)) > _MOST_DIGITS:
            problem = f"names has the key {excerpt(key)}; expected class numbers"
        elif not isinstance(name, str) or not name.strip() or not is_utf8(name):
            problem = f"class {key} has the name {excerpt(name)}; expected a text"
        if problem:
            raise UsageError(f"{uri}: {problem}")
        ids[int(key)] = name
    return dict(sorted(ids.items()))


def _keypoints(value: Any, uri: str) -> tuple[int, int] | None:
    if value is None or value == "":
        return None
    try:
        count, dimensions = map(int, value)
    except (ValueError, TypeError):
        count = dimensions = 0
    if count < 1 or dimensions not in (2, 3):
        expected = "expected [number of key points, 2 or 3]"
        raise UsageError(f"{uri}: kpt_shape is {excerpt(value)}; {expected}")
    return count, dimensions
