"""Entries of files that list many images: what they state, and how it is taken from JSON.

A value that is missing or of another kind is a fault of its entry, so these functions raise BadLabelError.
"""

from __future__ import annotations

import json
import math
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import unquote

from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.core.json_file import JsonFile, JsonFileError
from beam_pipeline.core.listing.filters import IMAGE_EXTENSIONS
from beam_pipeline.core.references import Size
from beam_pipeline.core.text import counted, excerpt, is_utf8
from beam_pipeline.core.typed_json import is_finite
from beam_pipeline.layouts.label_files import BadLabelError

_FIRST_BYTES = 64
_URL = re.compile(r"https?://[^/?#]*(/[^?#]+)", re.IGNORECASE)
_NOTHING: Mapping[str, Any] = MappingProxyType({})

Corners = tuple[float, float, float, float]
"""xmin, ymin, xmax, ymax"""


class LabelledObject(NamedTuple):
    """An object in an image.

    Attributes:
      label: its class.
      box: the upright box around it.
      outline: x, y of each point of its outline, or run lengths as in COCO; empty if the box is all that is
        known.
      attributes: further values, by name.
    """

    label: str
    box: Corners
    outline: Sequence[float] | Mapping[str, Any] = ()
    attributes: Mapping[str, Any] = _NOTHING


class Labelled(NamedTuple):
    """What an entry states of its image.

    Attributes:
      objects: the objects.
      fields: values of the whole image, such as its classes, by name.
      size: width and height of the image that was labelled.
      split: its split; empty if the entry gives none.
      left_out: the kind of each object without a box, such as `brush mask`.
      unlabelled: why the image counts as unlabelled, such as `skipped`; empty if it is labelled.
    """

    objects: Sequence[LabelledObject] = ()
    fields: Mapping[str, Sequence[Any]] = _NOTHING
    size: Size | None = None
    split: str = ""
    left_out: Sequence[str] = ()
    unlabelled: str = ""


# --- lists of entries ----------------------------------------------------------------------------


def json_entries(file: BinaryIO, uri: str, member: str = "") -> Iterator[tuple[int, Any]]:
    """Yields (line, entry) of a file; of a line that is not JSON, its bytes.

    Args:
      file: open at its beginning.
      uri: its URI.
      member: the member of the document that is the list of entries; empty if the document is the list, or
        each of its lines an entry.

    Raises:
      LabelTableError: the document is broken, or lacks the list.
    """
    first = file.read(_FIRST_BYTES).lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    file.seek(0)
    if not member and first != b"[":
        yield from json_lines(file)
        return
    document = JsonFile(file)
    try:
        lists = document.members((member,)) if member else [("", document.elements())]
        missing = True
        for _, value in lists:
            missing = not isinstance(value, Iterator)
            for element in () if missing else value:
                yield document.line, element
    except JsonFileError as error:
        raise broken(uri, error) from error
    if missing:
        raise broken(uri, f"no list of {member}")


def json_lines(file: BinaryIO) -> Iterator[tuple[int, Any]]:
    """Yields (line, value) of each line that is not empty; of one that is not JSON, its bytes."""
    for number, line in enumerate(file, 1):
        if line.strip():
            try:
                yield number, json.loads(line)
            except (ValueError, RecursionError):
                yield number, line


def broken(uri: str, problem: object) -> LabelTableError:
    """The error of a file that cannot be read as a whole."""
    return LabelTableError(f"{uri} is broken: {problem}; export it again")


# --- parts of an entry ---------------------------------------------------------------------------


def members(value: Any, *keys: str) -> Any:
    """A value inside objects of JSON, by its keys from the outside in; None if there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def text_at(entry: Any, *keys: str) -> str:
    """A text inside an entry, which is not empty."""
    value = members(entry, *keys)
    if not isinstance(value, str) or not value.strip() or not is_utf8(value):
        given = excerpt(entry if value is None else value)
        raise BadLabelError(f"{given}: expected a text as {'.'.join(keys)}")
    return value


def list_at(entry: Any, *keys: str) -> list[Any]:
    """A list inside an entry; empty for none."""
    value = members(entry, *keys)
    if value is not None and not isinstance(value, list):
        raise BadLabelError(f"{'.'.join(keys)} is {excerpt(value)}, expected a list")
    return value or []


def mapping_at(entry: Any, *keys: str) -> dict[str, Any]:
    """An object of JSON inside an entry; empty for none."""
    value = members(entry, *keys)
    if value is not None and not isinstance(value, dict):
        raise BadLabelError(f"{'.'.join(keys)} is {excerpt(value)}, expected an object")
    return value or {}


def numbers(values: Any, expected: str, count: int = 0) -> tuple[float, ...]:
    """Finite numbers in a list, of this count or any."""
    is_list = isinstance(values, (list, tuple)) and all(map(is_finite, values))
    if not is_list or (count and len(values) != count):
        raise BadLabelError(f"{excerpt(values)}: expected {expected}")
    return tuple(map(float, values))


def points_at(entry: Any, *keys: str) -> list[float]:
    """x, y, x, y, ... of a list of points inside an entry."""
    return [side for point in list_at(entry, *keys) for side in numbers(point, "x and y", 2)]


def size_of(width: Any, height: Any) -> Size | None:
    """The size of an image; None unless both sides are numbers of pixels from 1 on."""
    if not is_finite(width) or not is_finite(height) or min(width, height) < 1:
        return None
    return int(width), int(height)


def url_path(url: str) -> str:
    """The path in the URL of a server; any other name, as of an object in a bucket, is unchanged."""
    of_server = _URL.match(url)
    return unquote(of_server[1]) if of_server else url


def image_path(values: Iterable[Any], given: Any) -> str:
    """The first of some texts that is a path or URL of an image, else the first text.

    Args:
      values: some may be texts.
      given: where they are from, for the message.
    """
    paths = [url_path(value) for value in values if isinstance(value, str) and value.strip()]
    images = [path for path in paths if posixpath.splitext(path)[1].lower() in IMAGE_EXTENSIONS]
    return text_at({"image": next(iter(images or paths), given)}, "image")


def one_or_all(values: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """The values of attributes, those without another as they are, the rest as lists."""
    return {name: given[0] if len(given) == 1 else given for name, given in values.items()}


# --- shapes --------------------------------------------------------------------------------------


def boxed(
    label: str, box: Sequence[float], attributes: Mapping[str, Any] = _NOTHING
) -> LabelledObject:
    """The object of a box x, y, width, height."""
    x, y, width, height = box
    return LabelledObject(label, (x, y, x + width, y + height), (), attributes)


def outlined(
    label: str, points: Sequence[float], attributes: Mapping[str, Any] = _NOTHING
) -> LabelledObject:
    """The object of an outline x, y, x, y, ... of three points or more."""
    if len(points) < 6 or len(points) % 2:
        raise BadLabelError(
            f"an outline of {counted(len(points) // 2, 'point')}, expected 3 or more"
        )
    xs, ys = points[::2], points[1::2]
    return LabelledObject(label, (min(xs), min(ys), max(xs), max(ys)), points, attributes)


def corners_of(
    box: Sequence[float], degrees: float, pivot: tuple[float, float] | None = None
) -> list[float]:
    """The corners x, y, x, y, ... of a box x, y, width, height in pixels that is turned clockwise.

    Args:
      box: as it is before it is turned.
      degrees: by how much.
      pivot: the point around which it is turned; None for its centre.
    """
    x, y, width, height = box
    pivot_x, pivot_y = pivot or (x + width / 2, y + height / 2)
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    points = []
    for corner_x, corner_y in ((x, y), (x + width, y), (x + width, y + height), (x, y + height)):
        right, down = corner_x - pivot_x, corner_y - pivot_y
        points += [pivot_x + right * cos - down * sin, pivot_y + right * sin + down * cos]
    return points


def agreed(opinions: Sequence[Labelled], kind: str) -> Labelled:
    """What several people state of an image, if it is the same; the order of objects may differ.

    Args:
      opinions: what each states, at least one.
      kind: names the opinions in the message.
    """

    def content(labelled: Labelled) -> Any:
        fields = sorted(map(repr, labelled.fields.items()))
        return sorted(map(repr, labelled.objects)), fields, sorted(labelled.left_out)

    if any(content(opinion) != content(opinions[0]) for opinion in opinions[1:]):
        raise BadLabelError(
            f"{len(opinions)} {kind} by different people that differ; keep one of them"
        )
    return opinions[0]
