"""Entries of files that list many images: what they state, and how it is taken from JSON.

A value that is missing or of another kind is a fault of its entry, so these functions raise BadLabelError.
"""

from __future__ import annotations

import base64
import io
import json
import math
import posixpath
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import unquote
from xml.parsers import expat

from beam_pipeline.core import errors, json_file, references
from beam_pipeline.core.listing.filters import IMAGE_EXTENSIONS
from beam_pipeline.core.text import counted, excerpt, is_utf8
from beam_pipeline.core.typed_json import is_finite
from beam_pipeline.layouts.label_files import BadLabelError

MOST_PIXELS = 1 << 28
"""Of an image with masks."""

_FIRST_BYTES, _PIECE = 64, 1 << 16
_RUNS = re.compile(rb"\x00+|\x01+")
_CIRCLE_POINTS = 64  # of an outline; for a circle of 1,000 pixels it is off by half a pixel
_URL = re.compile(r"https?://[^/?#]*(/[^?#]+)", re.IGNORECASE)
_NOTHING: Mapping[str, Any] = MappingProxyType({})

Corners = tuple[float, float, float, float]
"""xmin, ymin, xmax, ymax"""

Shape = tuple[Corners, "Sequence[float] | Bitmap"]
"""The box and the outline of a `LabelledObject`."""


class Bitmap(NamedTuple):
    """The pixels of a part of an image.

    Attributes:
      left, top, width, height: the part.
      pixels: 0 or 1 for each of its pixels, row by row.
    """

    left: int
    top: int
    width: int
    height: int
    pixels: bytes

    def run_lengths(self, size: references.Size | None) -> dict[str, Any]:
        """The pixels in an image of this size, as in COCO. Raises BadLabelError if they are outside of it."""
        if not size or size[0] * size[1] > MOST_PIXELS:
            raise BadLabelError("a mask without the size of its image, or of a too large one")
        left, top, width, height, pixels = self
        if min(left, top) < 0 or left + width > size[0] or top + height > size[1]:
            place = f"{width} x {height} pixels at {left}, {top}"
            raise BadLabelError(f"a mask of {place}, outside of the image of {size[0]} x {size[1]}")
        columns = bytes(size[1] - height).join(pixels[x::width] for x in range(width))
        before = left * size[1] + top
        whole = bytes(before) + columns + bytes(size[0] * size[1] - before - len(columns))
        counts = [0] * (whole[:1] == b"\1") + [len(run) for run in _RUNS.findall(whole)]
        return {"size": [size[1], size[0]], "counts": counts}


class LabelledObject(NamedTuple):
    """An object in an image.

    Attributes:
      label: its class.
      box: the upright box around it.
      outline: x, y of each point of its outline, or its pixels; empty if the box is all that is known.
      attributes: further values, by name.
    """

    label: str
    box: Corners
    outline: Sequence[float] | Bitmap = ()
    attributes: Mapping[str, Any] = _NOTHING


class Labelled(NamedTuple):
    """What an entry states of its image.

    Attributes:
      objects: the objects.
      left_out: the kind of each object without a box, such as `key point`.
      fields: values of the whole image, such as its classes, by name.
      size: width and height of the image that was labelled.
      split: its split; empty if the entry gives none.
      unlabelled: why the image counts as unlabelled, such as `skipped`; empty if it is labelled.
    """

    objects: Sequence[LabelledObject] = ()
    left_out: Sequence[str] = ()
    fields: Mapping[str, Sequence[Any]] = _NOTHING
    size: references.Size | None = None
    split: str = ""
    unlabelled: str = ""


def objects_of(
    shapes: Iterable[Any], read: Callable[[Any], LabelledObject | str], noun: str
) -> tuple[list[LabelledObject], list[str]]:
    """The objects of the shapes in an image, and the kinds of shapes without a box: the first two of `Labelled`.

    Args:
      shapes: as the label file has them.
      read: the object of a shape, or the kind of a shape without a box.
      noun: a shape, for messages.

    Raises:
      BadLabelError: names the number of a faulty shape.
    """
    objects, left_out = [], []
    for number, shape in enumerate(shapes, 1):
        try:
            parsed = read(shape)
        except BadLabelError as error:
            raise BadLabelError(f"{noun} {number}: {error}") from error
        if isinstance(parsed, str):
            left_out.append(parsed)
        else:
            objects.append(parsed)
    return objects, left_out


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
    document = json_file.JsonFile(file)
    missing = True
    with unbroken(uri):
        lists = document.members((member,)) if member else [("", document.elements())]
        for _, value in lists:
            missing = not isinstance(value, Iterator)
            for element in () if missing else value:
                yield document.line, element
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


def broken(uri: str, problem: object) -> errors.LabelTableError:
    """The error of a file that cannot be read as a whole."""
    return errors.LabelTableError(f"{uri} is broken: {problem}; export it again")


@contextmanager
def unbroken(uri: str) -> Iterator[None]:
    """Turns faults of a whole file into LabelTableError."""
    try:
        yield
    except BadLabelError as error:
        raise broken(uri, f"line {error.line}: {error}" if error.line else error) from error
    except json_file.JsonFileError as error:
        raise broken(uri, error) from error


@dataclass
class Element:
    """An element of XML, from a line of the file."""

    tag: str
    line: int
    values: Mapping[str, str]
    inside: list[Element] = field(default_factory=list)
    text: str = ""

    def all(self, *tags: str) -> list[Element]:
        """The elements in it with one of these tags."""
        return [element for element in self.inside if element.tag in tags]


def xml_elements(file: BinaryIO, root: str) -> Iterator[Element]:
    """Yields the elements in the root, each when it is complete.

    Raises:
      BadLabelError: it is not XML, its root is another one, or it has a document type.
    """
    parser, path, complete = expat.ParserCreate(), list[Element](), list[Element]()

    def start(tag: str, values: dict[str, str]) -> None:
        element = Element(tag, parser.CurrentLineNumber, values)
        if not path and tag != root:
            raise BadLabelError(f"the root element is <{tag}>, expected <{root}>", element.line)
        if len(path) > 1:
            path[-1].inside.append(element)
        path.append(element)

    def end(_: str) -> None:
        element = path.pop()
        if len(path) == 1:
            complete.append(element)

    def characters(text: str) -> None:
        if len(path) > 1:
            path[-1].text += text

    def refuse(*_: object) -> None:
        problem = "a document type (<!DOCTYPE>) may fill the memory or read other files; remove it"
        raise BadLabelError(problem, parser.CurrentLineNumber)

    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = characters, refuse
    piece = b"?"
    while piece:
        piece = file.read(_PIECE)
        try:
            parser.Parse(piece, not piece)
        except BadLabelError:
            raise
        except expat.ExpatError as error:
            problem = f"not well-formed XML: {expat.ErrorString(error.code)}"
            raise BadLabelError(problem, error.lineno) from error
        except (ValueError, LookupError) as error:  # mostly unknown encodings
            problem = f"XML that cannot be read: {error}; save it as UTF-8"
            raise BadLabelError(problem, parser.CurrentLineNumber) from error
        yield from complete
        complete.clear()


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


def _kind_at(entry: Any, keys: Sequence[str], kind: Callable[[], Any], noun: str) -> Any:
    value = members(entry, *keys)
    if value is not None and not isinstance(value, type(kind())):
        raise BadLabelError(f"{'.'.join(keys)} is {excerpt(value)}, expected {noun}")
    return value or kind()


def list_at(entry: Any, *keys: str) -> list[Any]:
    """A list inside an entry; empty for none."""
    value: list[Any] = _kind_at(entry, keys, list, "a list")
    return value


def mapping_at(entry: Any, *keys: str) -> dict[str, Any]:
    """An object of JSON inside an entry; empty for none."""
    value: dict[str, Any] = _kind_at(entry, keys, dict, "an object")
    return value


def numbers(values: Any, expected: str, count: int = 0) -> tuple[float, ...]:
    """Finite numbers in a list, of this count or any."""
    is_list = isinstance(values, (list, tuple)) and all(map(is_finite, values))
    if not is_list or (count and len(values) != count):
        raise BadLabelError(f"{excerpt(values)}: expected {expected}")
    return tuple(map(float, values))


def numbers_at(entry: Any, *keys: str) -> tuple[float, ...]:
    """Finite numbers inside an entry, one for each key."""
    given = [members(entry, key) for key in keys]
    return numbers(given, f"numbers as {', '.join(keys)}", len(keys))


def points_at(entry: Any, *keys: str) -> list[float]:
    """x, y, x, y, ... of a list of points inside an entry."""
    return [side for point in list_at(entry, *keys) for side in numbers(point, "x and y", 2)]


def size_of(width: Any, height: Any) -> references.Size | None:
    """The size of an image; None unless both sides are numbers of pixels from 1 on."""
    if not is_finite(width) or not is_finite(height) or min(width, height) < 1:
        return None
    return int(width), int(height)


def image_path(values: Iterable[Any], given: Any) -> str:
    """The first of some texts that is a path or URL of an image, else the first text.

    Of the URL of a server it is the path; other names, such as those of objects in a bucket, are unchanged.

    Args:
      values: some may be texts.
      given: where they are from, for the message.
    """
    texts = [value for value in values if isinstance(value, str) and value.strip()]
    paths = [unquote(url[1]) if (url := _URL.match(text)) else text for text in texts]
    images = [path for path in paths if posixpath.splitext(path)[1].lower() in IMAGE_EXTENSIONS]
    return text_at({"image": next(iter(images or paths), given)}, "image")


def one_or_all(values: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """The values of attributes, those without another as they are, the rest as lists."""
    return {name: given[0] if len(given) == 1 else given for name, given in values.items()}


# --- shapes --------------------------------------------------------------------------------------


def boxed(box: Sequence[float]) -> Shape:
    """The shape of a box x, y, width, height."""
    x, y, width, height = box
    return (x, y, x + width, y + height), ()


def outlined(points: Sequence[float]) -> Shape:
    """The shape of an outline x, y, x, y, ... of three points or more."""
    if len(points) < 6 or len(points) % 2:
        number = counted(len(points) // 2, "point")
        raise BadLabelError(f"an outline of {number}, expected 3 or more")
    xs, ys = points[::2], points[1::2]
    return (min(xs), min(ys), max(xs), max(ys)), points


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
    corners = ((x, y), (x + width, y), (x + width, y + height), (x, y + height))
    offsets = [(corner_x - pivot_x, corner_y - pivot_y) for corner_x, corner_y in corners]
    return _turned(offsets, (pivot_x, pivot_y), math.radians(degrees))


def _turned(
    offsets: Iterable[tuple[float, float]], pivot: tuple[float, float], angle: float
) -> list[float]:
    """x, y, x, y, ... of points around a pivot, turned clockwise."""
    (x, y), cos, sin = pivot, math.cos(angle), math.sin(angle)
    pairs = ((x + a * cos - b * sin, y + a * sin + b * cos) for a, b in offsets)
    return [side for pair in pairs for side in pair]


def ellipse(sides: Sequence[float], angle: float) -> Shape:
    """The shape of an ellipse that is turned clockwise around its centre.

    Args:
      sides: x and y of the centre, half of its width and height before it is turned.
      angle: in radians.
    """
    x, y, width, height = sides
    if width <= 0 or height <= 0:
        raise BadLabelError(f"an ellipse whose half axes are {width:g} and {height:g}")
    steps = [2 * math.pi * i / _CIRCLE_POINTS for i in range(_CIRCLE_POINTS)]
    offsets = [(width * math.cos(step), height * math.sin(step)) for step in steps]
    cos, sin = math.cos(angle), math.sin(angle)
    across, up = math.hypot(width * cos, height * sin), math.hypot(width * sin, height * cos)
    box = (x - across, y - up, x + across, y + up)
    return box, _turned(offsets, (x, y), angle)


def drawn(bitmap: Bitmap) -> Shape:
    """The shape of the pixels in a part of an image."""
    left, top, width, height, _ = bitmap
    return (left, top, left + width, top + height), bitmap


def png_bitmap(text: Any, corner: Sequence[float], *, compressed: bool = False) -> Bitmap:
    """The pixels of a PNG in base64; its alpha channel counts if it has one.

    Args:
      text: the PNG.
      corner: x and y of its upper left corner in the image.
      compressed: True if zlib has compressed it.
    """
    import numpy as np  # few jobs have masks
    from PIL import Image

    try:
        data = base64.b64decode(text, validate=True)
        data = zlib.decompressobj().decompress(data, MOST_PIXELS) if compressed else data
        with Image.open(io.BytesIO(data), formats=("PNG",)) as image:
            band = np.asarray(image.getchannel("A") if "A" in image.getbands() else image)
        if band.ndim != 2:
            raise ValueError(f"{image.mode} is not one channel")
        height, width = band.shape
        return Bitmap(int(corner[0]), int(corner[1]), width, height, (band != 0).tobytes())
    except (
        *(TypeError, ValueError, OSError, SyntaxError, zlib.error),
        *(Image.DecompressionBombError, Image.DecompressionBombWarning),
    ) as error:
        raise BadLabelError(f"a mask that is not a PNG in base64: {error}") from error


def common_part(a: Corners, b: Corners) -> float:
    """The area that two boxes have in common, as a part of what they cover together."""
    sides = [min(a[i + 2], b[i + 2]) - max(a[i], b[i]) for i in (0, 1)]
    common = math.prod(max(side, 0) for side in sides)
    covered = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)) - common
    return common / covered if covered > 0 else float(a == b)


def agreed(
    given: Iterable[tuple[Any, Any]], read: Callable[[Any], Labelled], noun: str, annotator: str
) -> Labelled:
    """What several people state of an image, if it is the same; the order of objects may differ.

    Args:
      given: (person, labels) of each, of one at least. JSON names a person by an e-mail address, by an id, or by an
        object with both.
      read: what labels state.
      noun: the labels, for messages.
      annotator: one of the names of the person who alone counts; empty for all.
    """

    def content(labelled: Labelled) -> Any:
        fields = sorted(map(repr, labelled.fields.items()))
        return sorted(map(repr, labelled.objects)), fields, sorted(labelled.left_out)

    people, opinions = set[str](), []
    for person, labels in given:
        keys = (members(person, "email"), members(person, "id"), person)
        names = [str(name) for name in keys if name and isinstance(name, (int, str))]
        people.update(names[:1])
        if annotator in ("", *names):
            opinions.append(read(labels))
    named = ", ".join(sorted(people))
    if not opinions:
        return Labelled(unlabelled=f"labelled by {named or 'nobody named'} only")
    if any(content(opinion) != content(opinions[0]) for opinion in opinions[1:]):
        may_choose = len(people) > 1 and not annotator
        choice = f", or name a person with --annotator: {named}" if may_choose else ""
        raise BadLabelError(f"{len(opinions)} {noun} that differ; keep one of them{choice}")
    return opinions[0]
