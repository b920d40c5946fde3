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
from beam_pipeline.core.text import is_utf8, shown, some
from beam_pipeline.core.uris import is_remote
from beam_pipeline.layouts.paths import image_roots
from beam_pipeline.layouts.tree import (
    beginning,
    files_of,
    has_file,
    has_folder,
    image_names,
    stems_of,
    subfolders,
)
from beam_pipeline.storage import files

YAML_SUFFIXES = (".yaml", ".yml")
CLASS_FILES = ("classes.txt", "obj.names", "_darknet.labels")
"""Files with one class name per line, as written by LabelImg, Darknet, and Roboflow for Darknet."""

_SPLITS = ("train", "val", "valid", "validation", "test")
_LARGEST = 1 << 20  # bytes of a description
_MOST_DIGITS = 18  # of a class number, which an int64 holds

LABEL_FILES = "**/*.txt"
USUAL_YAML = ("data.yaml", "dataset.yaml")

_IMAGES, _LABELS, _TXT = "images", "labels", ".txt"
_PICTURES = IMAGE_EXTENSIONS - {""}


class FolderPair(NamedTuple):
    """A folder of images and the folder of their labels.

    Attributes:
      images, labels: URIs of the folders.
      split: the split of all images in it; empty if their own folders or list files give it.
    """

    images: str
    labels: str
    split: str = ""


@dataclass
class Found:
    """The findings for the paths of --images.

    Attributes:
      pairs: folders of images, each with the folder of its labels.
      listed: URI of an image, without extension -> the split whose list file names it.
      names: class id -> name; None if no file names the classes.
      names_from: URI of the file that names them.
      keypoints: (key points per object, values per key point); None if there are none.
      skipped: URIs of text files that may be among label files but are not label files.
      notes: notes for the user, one sentence each.
    """

    pairs: list[FolderPair] = field(default_factory=list)
    listed: dict[str, str] = field(default_factory=dict)
    names: dict[int, str] | None = None
    names_from: str = ""
    keypoints: tuple[int, int] | None = None
    skipped: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)

    def describe(self, description: Description) -> None:
        """Adds classes and key points of a description. Raises UsageError if another one differs."""
        if description.names is not None:
            self.name_classes(description.names, description.uri)
        self.keypoints = description.keypoints or self.keypoints

    def name_classes(self, names: Mapping[int, str], uri: str) -> None:
        """Adds the names of classes. Raises UsageError if another file has other names."""
        if self.names is not None and self.names != names:
            raise UsageError(
                f"{self.names_from} and {uri} name the classes differently; convert the two data "
                "sets on their own, or make the files agree"
            )
        self.names, self.names_from = dict(names), uri


def find(path: str, found: Found) -> None:
    """Adds the findings for a path of --images.

    Raises:
      UsageError: it is not a YOLO data set.
    """
    if not path.strip():
        raise UsageError("--images: an empty path")
    uri = files.canonical(path)
    if uri.lower().endswith(YAML_SUFFIXES):
        description = read_description(uri)
        if description is None:
            raise UsageError(
                f"--images {path} describes no data set of YOLO; expected names, and train, val or test"
            )
    else:
        description = description_in(uri)
    if description:
        pairs = _described_pairs(description, found)
        found.notes += description.notes
        found.describe(description)
        base = description.folder
    else:
        pairs = folder_pairs_in(uri)
        if not pairs:
            raise UsageError(
                f"--images {path}: no data set of YOLO; expected {_IMAGES}/ beside {_LABELS}/, label "
                f"files ({_TXT}) beside the images, or a description such as {USUAL_YAML[0]}. "
                "--labels names a folder of label files elsewhere"
            )
        base = _base(uri, pairs)
        described = description_in(base) if base != uri else None
        if described:
            found.describe(described)
        _read_lists_in(base, found)
    found.pairs += pairs
    find_class_files(found, [base])


def _base(uri: str, pairs: Sequence[FolderPair]) -> str:
    """Returns the folder of a data set that was found in a folder, or around it."""
    images, labels, _ = pairs[0]
    if len(pairs) > 1 or images == labels:
        return uri
    return f"{images}/".rpartition(f"/{_IMAGES}/")[0]


def description_in(folder: str) -> Description | None:
    """Reads the description of a data set in its folder.

    Raises:
      UsageError: there are several, or the usual one is wrong.
    """
    uris = [uri for suffix in YAML_SUFFIXES for uri in files_of(folder, suffix)]
    usual = [uri for name in USUAL_YAML for uri in uris if posixpath.basename(uri) == name]
    for uri in usual:
        description = read_description(uri)
        if description:
            return description
    others = (read_description(uri) for uri in uris if uri not in usual)
    described = [description for description in others if description]
    if len(described) > 1:
        raise UsageError(
            f"{some([description.uri for description in described])} each describe a data set; name "
            "one of them with --images"
        )
    return described[0] if described else None


def folder_pairs_in(uri: str) -> list[FolderPair]:
    """Finds the folders of images and labels for a folder, by the names of folders."""
    if has_folder(f"{uri}/{_IMAGES}") and has_folder(f"{uri}/{_LABELS}"):
        return [_pair(uri)]
    labels = _labels_of(uri)
    if labels != uri and has_folder(labels):
        return [FolderPair(uri, labels)]
    below = subfolders(uri)
    pairs = [
        _pair(folder, SPLIT_NAMES.get(posixpath.basename(folder).lower(), ""))
        for folder in below
        if has_folder(f"{folder}/{_IMAGES}")
    ]
    if any(has_folder(pair.labels) for pair in pairs):
        return pairs
    beside = [folder for folder in (uri, *below) if _labels_beside(folder)]
    return [
        FolderPair(folder, folder, SPLIT_NAMES.get(posixpath.basename(folder).lower(), ""))
        for folder in topmost(beside)
    ]


def _pair(folder: str, split: str = "") -> FolderPair:
    return FolderPair(f"{folder}/{_IMAGES}", f"{folder}/{_LABELS}", split)


def _labels_of(images: str) -> str:
    """Returns the folder of the label files of a folder of images, by Ultralytics' rule.

    >>> _labels_of("/coco8/images/train")
    '/coco8/labels/train'
    """
    before, found, behind = f"{images}/".rpartition(f"/{_IMAGES}/")
    return f"{before}/{_LABELS}/{behind}".rstrip("/") if found else images


def _labels_beside(folder: str) -> bool:
    """True if a folder has an image and a label file of the same name."""
    stems = set(stems_of(folder, _TXT))
    return bool(stems) and any(posixpath.splitext(name)[0] in stems for name in image_names(folder))


def topmost(folders: Iterable[str]) -> list[str]:
    """Returns the folders, sorted, without those inside others."""
    kept: list[str] = []
    for folder in sorted(set(folders), key=lambda folder: (folder.count("/"), folder)):
        if not any(folder.startswith(f"{outer}/") for outer in kept):
            kept.append(folder)
    return sorted(kept)


def roots_of(folders: Sequence[str]) -> tuple[ImageRoot, ...]:
    """Returns the folders to list: the one above all of them, so that no two images have the same key."""
    kept = topmost(folders)
    if len(kept) == 1:
        return (ImageRoot(kept[0]),)
    scheme, separator, _ = kept[0].rpartition("://")
    start = len(scheme + separator)
    above = kept[0][:start] + posixpath.commonpath([folder[start:] for folder in kept])
    if above.count("/") < min(folder.count("/") for folder in kept) - 3 or above in ("/", ""):
        return image_roots(kept)  # far apart: the folders in between are not part of the data set
    return (ImageRoot(above, within=tuple(f"{folder[len(above) + 1 :]}/" for folder in kept)),)


def label_roots(pairs: Sequence[FolderPair]) -> tuple[ImageRoot, ...]:
    """Returns the existing folders of label files.

    Raises:
      UsageError: there are none.
    """
    labels = topmost(pair.labels for pair in pairs)
    there = [folder for folder in labels if has_folder(folder)]
    if not there:
        raise UsageError(f"no folder of label files: {some(labels)} is missing")
    return tuple(ImageRoot(folder, (LABEL_FILES,)) for folder in there)


# --- data.yaml and list files --------------------------------------------------------------------


def _described_pairs(description: Description, found: Found) -> list[FolderPair]:
    """Returns the folders in a description; adds the images in its list files.

    Raises:
      UsageError: none of them exists, or an image is in two splits.
    """
    pairs: list[FolderPair] = []
    missing = []
    for split, entries in description.splits.items():
        for entry in entries:
            uri = _resolved(entry, description)
            if not uri:
                missing.append(entry)
            elif uri.lower().endswith(_TXT):
                listed = _read_list(uri, split, (description.folder, _own(description)), found)
                pairs += [FolderPair(folder, _labels_of(folder)) for folder in listed]
            elif has_folder(f"{uri}/{_IMAGES}"):
                pairs.append(_pair(uri, split))
            else:
                pairs.append(FolderPair(uri, _labels_of(uri), split))
    if not pairs:
        raise UsageError(
            f"{description.uri}: nothing of what it names is there: {some(missing)} in "
            f"{description.folder}; correct its path"
        )
    if missing:
        found.notes.append(
            f"{description.uri} names {some(missing)}, which does not exist and is left out"
        )
    _check_one_split(pairs, description)
    return sorted(set(pairs))


def _own(description: Description) -> str:
    return posixpath.dirname(description.uri)


def _check_one_split(pairs: Sequence[FolderPair], description: Description) -> None:
    splits: dict[str, str] = {}
    for pair in pairs:
        other = splits.setdefault(pair.images, pair.split)
        if other != pair.split and other and pair.split:
            raise UsageError(
                f"{description.uri} names {pair.images} as {other} and as {pair.split}; an image "
                "can be in one split only, so leave it out of one of them"
            )


def _resolved(entry: str, description: Description) -> str:
    """Returns the URI of a folder or list file; empty if it does not exist.

    Roboflow writes `../train/images` for `train/images`, and Ultralytics reads it that way.
    """
    entry = entry.strip()
    if is_remote(entry):
        return entry.rstrip("/")
    shorter = [entry[3:]] if entry.startswith("../") else []
    for folder in (description.folder, _own(description)):
        for path in (entry, *shorter):
            uri = _joined(folder, path)
            if has_folder(uri) or has_file(uri):
                return uri
    return ""


def _joined(folder: str, path: str) -> str:
    if is_remote(folder):
        return f"{folder}/{posixpath.normpath(path)}"
    return posixpath.normpath(posixpath.join(folder, path))


def _read_lists_in(folder: str, found: Found) -> None:
    """Reads train.txt, val.txt and similar in a data set's folder, if they name images."""
    for name in SPLIT_NAMES:
        uri = f"{folder}/{name}{_TXT}"
        if has_file(uri) and _is_list(uri):
            _read_list(uri, SPLIT_NAMES[name], (folder,), found)


def _is_list(uri: str) -> bool:
    first = beginning(uri).decode("utf-8", "replace").strip().partition("\n")[0]
    return posixpath.splitext(first.strip())[1].lower() in _PICTURES


def _read_list(uri: str, split: str, bases: Sequence[str], found: Found) -> list[str]:
    """Returns the folders of the images in a list file, each once; adds the images themselves.

    Raises:
      UsageError: it cannot be read, names an image of another list, or names no existing image.
    """
    lines = files.read_text(uri).splitlines()
    found.skipped.add(uri)
    named = [line.strip() for line in lines if line.strip()]
    folders: dict[str, None] = {}
    missing = []
    for line in named:
        image = _listed_image(line.replace("\\", "/"), (posixpath.dirname(uri), *bases), folders)
        if not image:
            missing.append(line)
            continue
        folders[posixpath.dirname(image)] = None
        stem = posixpath.splitext(image)[0]
        if found.listed.setdefault(stem, split) != split:
            raise UsageError(
                f"{uri} names {line}, which another list gives to {found.listed[stem]}; an image can "
                "be in one split only, so take it out of one of the lists"
            )
    if not folders and named:
        raise UsageError(
            f"{uri}: none of its {len(named)} images exists, such as {named[0]!r}, in "
            f"{bases[0]}; correct its paths"
        )
    if missing:
        found.notes.append(
            f"{len(missing)} of {len(named)} images in {uri}, such as {missing[0]!r}, are not there"
        )
    return list(folders)


def _listed_image(line: str, bases: Sequence[str], known: Iterable[str]) -> str:
    """Returns the URI of an image in a list file; empty if it does not exist.

    Paths are relative to the list's folder or the data set's. Darknet's lists and those of other
    machines begin with folders above these, which are removed one by one.
    """
    if is_remote(line):
        return line
    if is_remote(bases[0]):
        return _joined(bases[-1], line)
    if line.startswith("/") and os.path.exists(line):
        return line
    parts = [part for part in line.split("/") if part not in ("", ".")]
    for skipped in range(len(parts)):
        path = "/".join(parts[skipped:])
        for base in bases:
            if os.path.exists(f"{base}/{path}"):
                return posixpath.normpath(f"{base}/{path}")
    return ""


def find_class_files(found: Found, bases: Sequence[str]) -> None:
    """Finds the files that name classes; uses the first one's names if no other file names them."""
    near = [*bases]
    for pair in found.pairs:
        near += [pair.labels, posixpath.dirname(pair.labels), pair.images]
    for folder in dict.fromkeys(filter(None, near)):
        for name in CLASS_FILES:
            uri = f"{folder}/{name}"
            if uri in found.skipped or not has_file(uri):
                continue
            found.skipped.add(uri)
            if found.names is None or found.names_from == uri:
                found.name_classes(read_class_file(uri), uri)


# --- descriptions --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Description:
    """The content of `data.yaml`.

    Attributes:
      uri: its URI.
      folder: the data set's folder, as given by `path`, or else the folder of the file.
      splits: split -> folders and list files of its images, as written.
      names: class id -> name; None if it has none.
      keypoints: (key points per object, values per key point); None if there are none.
      notes: notes for the user, one sentence each.
    """

    uri: str
    folder: str
    splits: Mapping[str, Sequence[str]]
    names: Mapping[int, str] | None = None
    keypoints: tuple[int, int] | None = None
    notes: tuple[str, ...] = field(default=())


def read_description(uri: str) -> Description | None:
    """Reads `data.yaml`; None if a file is not one.

    Raises:
      UsageError: it cannot be read, or its splits, names or key points are wrong.
    """
    content = _load(uri)
    if not isinstance(content, dict) or not {"names", "nc"} & set(content):
        return None
    if not any(content.get(key) for key in _SPLITS):
        return None
    folder, notes = _folder(content.get("path"), uri)
    splits: dict[str, list[str]] = {}
    for key in _SPLITS:
        value = content.get(key)
        entries = value if isinstance(value, list) else [value] if value else []
        if not all(isinstance(entry, str) for entry in entries):
            raise UsageError(
                f"{uri}: {key} is {shown(value)}; expected a folder or a list file of images"
            )
        splits.setdefault(SPLIT_NAMES[key], []).extend(entry for entry in entries if entry.strip())
    return Description(
        uri=uri,
        folder=folder,
        splits={split: entries for split, entries in splits.items() if entries},
        names=_names(content.get("names"), uri),
        keypoints=_keypoints(content.get("kpt_shape"), uri),
        notes=notes,
    )


def read_class_file(uri: str) -> dict[int, str]:
    """Reads class id -> name from the lines of a file.

    Raises:
      UsageError: it cannot be read, or names a class twice.
    """
    lines = [line.strip() for line in files.read_text(uri, most=_LARGEST).splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    return _checked(dict(enumerate(lines)), uri)


def _load(uri: str) -> Any:
    import yaml  # a 20 ms import

    text = files.read_text(uri, most=_LARGEST)
    try:
        return yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506, it makes texts only
    except yaml.YAMLError as error:
        problem = " ".join(str(error).split())
        raise UsageError(f"{uri} is not YAML: {problem}") from error
    except RecursionError as error:
        raise UsageError(f"{uri} is not YAML that can be read: it is nested too deep") from error


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


def _names(value: Any, uri: str) -> dict[int, str] | None:
    if isinstance(value, str) and value.strip():
        if is_remote(value) or value.startswith(("/", "~")) or ".." in value.split("/"):
            raise UsageError(f"{uri}: names is {shown(value)}; expected a file below its folder")
        return read_class_file(posixpath.join(posixpath.dirname(uri), value))
    if isinstance(value, list):
        names = dict(enumerate(value))
    elif isinstance(value, dict):
        for key in value:
            if not (isinstance(key, str) and key.isdecimal() and len(key) <= _MOST_DIGITS):
                raise UsageError(f"{uri}: names has the key {shown(key)}; expected class numbers")
        names = {int(key): name for key, name in value.items()}
    else:
        return None
    return _checked(names, uri)


def _checked(names: dict[int, Any], uri: str) -> dict[int, str]:
    ids: dict[str, int] = {}
    for i, name in sorted(names.items()):
        if not isinstance(name, str) or not name.strip() or not is_utf8(name):
            raise UsageError(f"{uri}: class {i} has the name {shown(name)}; expected a text")
        other = ids.setdefault(name, i)
        if other != i:
            raise UsageError(
                f"{uri}: classes {other} and {i} are both called {shown(name)}; rename one of them"
            )
    return dict(sorted(names.items()))


def _keypoints(value: Any, uri: str) -> tuple[int, int] | None:
    if value is None or value == "":
        return None
    try:
        count, dimensions = (int(number) for number in value)
        if count < 1 or dimensions not in (2, 3):
            raise ValueError
    except (ValueError, TypeError) as error:
        raise UsageError(
            f"{uri}: kpt_shape is {shown(value)}; expected [number of key points, 2 or 3]"
        ) from error
    return count, dimensions
