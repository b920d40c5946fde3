"""Descriptions of a YOLO data set: `data.yaml`, and files that name the classes, one per line.

Source: https://docs.ultralytics.com/datasets/detect/#ultralytics-yolo-format
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.listing.folders import SPLIT_NAMES
from beam_pipeline.core.text import is_utf8, shown
from beam_pipeline.core.uris import is_remote
from beam_pipeline.storage import files

YAML_SUFFIXES = (".yaml", ".yml")
CLASS_FILES = ("classes.txt", "obj.names", "_darknet.labels")
"""Files with one class name per line, as written by LabelImg, Darknet, and Roboflow for Darknet."""

_SPLITS = ("train", "val", "valid", "validation", "test")
_LARGEST = 1 << 20  # bytes of a description
_MOST_DIGITS = 18  # of a class number, which an int64 holds


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
