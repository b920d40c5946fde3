"""CVAT's XML 1.1 for images: a file with many images, each with the shapes in it.

    <annotations><version>1.1</version><meta><task><subset>Train</subset>...</task></meta>
      <image id="0" name="a/1.jpg" subset="Train" width="640" height="480">
        <box label="car" occluded="0" xtl="1.5" ytl="2" xbr="30" ybr="40" rotation="30"><attribute name="colour">red</attribute></box>
        <polygon label="car" occluded="0" points="1.5,2.0;30.0,2.0;30.0,40.0"/>
        <ellipse label="car" cx="20" cy="30" rx="5" ry="4"/>
        <mask label="car" rle="3, 2, 1" left="10" top="20" width="3" height="2"/>
        <tag label="night"/>
      </image></annotations>

Coordinates are in pixels, and rotations in degrees, clockwise. A mask has run lengths of its box, row by row, outside
first. Source: https://docs.cvat.ai/docs/manual/advanced/xml_format/
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import cycle
from typing import Any, BinaryIO, ClassVar, NamedTuple
from xml.parsers import expat

from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.core.listing.folders import SPLIT_NAMES
from beam_pipeline.core.references import SPLIT_NAME, Size
from beam_pipeline.core.text import excerpt
from beam_pipeline.layouts.entries import (
    Labelled,
    LabelledObject,
    broken,
    corners_of,
    outlined,
    size_of,
    text_at,
)
from beam_pipeline.layouts.image_records import RecordFormat, RecordLayout
from beam_pipeline.layouts.label_files import BadLabelError
from beam_pipeline.layouts.object_shapes import UNREAD, ellipse, run_lengths

_PIECE = 1 << 16
_IMAGE = ["annotations", "image"]
_SUBSETS = (["annotations", "meta", "task", "subset"], ["annotations", "meta", "job", "subset"])
_LEFT_OUT = {"points": "point", "polyline": "line", "cuboid": "cuboid", "skeleton": "skeleton"}


class _Element(NamedTuple):
    """A shape or tag of an image, with its own values and those of the elements `attribute` in it."""

    kind: str
    values: Mapping[str, str]
    attributes: dict[str, str]


@dataclass(frozen=True)
class CvatFormat(RecordFormat):
    """Images with their shapes."""

    title: ClassVar[str] = "CVAT's XML"
    head: ClassVar[re.Pattern[bytes]] = re.compile(
        rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*)?<annotations>\s*<version>"
    )
    extensions: ClassVar[tuple[str, ...]] = (".xml",)

    def entries(self, file: BinaryIO, uri: str) -> Iterator[tuple[int, Any]]:
        images = _Images(uri)
        piece = b"?"
        while piece:
            piece = file.read(_PIECE)
            try:
                images.parser.Parse(piece, not piece)
            except expat.ExpatError as error:
                problem = (
                    f"line {error.lineno} is not well-formed XML: {expat.ErrorString(error.code)}"
                )
                raise broken(uri, problem) from error
            except (ValueError, LookupError) as error:  # mostly unknown encodings
                raise broken(uri, error) from error
            yield from images.complete
            images.complete.clear()

    def image_name(self, entry: Any) -> str:
        return text_at(entry, "name")

    def labelled(self, entry: Any) -> Labelled:
        size = _size(entry)
        objects, left_out = [], []
        fields: dict[str, list[Any]] = {}
        for element in entry["elements"]:
            if element.kind == "tag":
                fields.setdefault("tag", []).append(text_at(element.values, "label"))
                for name, value in element.attributes.items():
                    fields.setdefault(name, []).append(value)
            elif element.kind in _LEFT_OUT:
                left_out.append(_LEFT_OUT[element.kind])
            else:
                objects.append(self._object(element, size))
        subset = entry.get("subset", "")
        is_split = SPLIT_NAME.fullmatch(subset) and subset.lower() != "default"
        split = SPLIT_NAMES.get(subset.lower(), subset if is_split else "")
        return Labelled(objects, fields, size, split, left_out)

    def _object(self, element: _Element, size: Size | None) -> LabelledObject:
        values = element.values
        label = text_at(values, "label")
        occluded = {"occluded": values["occluded"]} if "occluded" in values else {}
        attributes = {**occluded, **element.attributes}
        (angle,) = _numbers({"rotation": "0", **values}, "rotation")
        if element.kind == "box":
            xmin, ymin, xmax, ymax = _numbers(values, "xtl", "ytl", "xbr", "ybr")
            box = (xmin, ymin, xmax - xmin, ymax - ymin)
            if angle:
                return outlined(label, corners_of(box, angle), attributes)
            return LabelledObject(label, (xmin, ymin, xmax, ymax), (), attributes)
        if element.kind == "ellipse":
            sides = _numbers(values, "cx", "cy", "rx", "ry")
            return ellipse(label, sides, math.radians(angle), attributes)
        if element.kind == "mask":
            left, top, width, height = map(int, _numbers(values, "left", "top", "width", "height"))
            box = (left, top, left + width, top + height)
            outline = _runs(values, (left, top), (width, height), size) if self.masks else UNREAD
            return LabelledObject(label, box, outline, attributes)
        if element.kind == "polygon":
            points = [point.split(",") for point in text_at(values, "points").split(";")]
            flat = {f"{i}": text for i, text in enumerate(part for p in points for part in p)}
            return outlined(label, _numbers(flat, *flat), attributes)
        raise BadLabelError(f"<{element.kind}> is not a shape of CVAT")


class Cvat(RecordLayout):
    """Images and shapes that CVAT exports as "CVAT for images 1.1"."""

    name = "cvat"
    format = CvatFormat()


def _size(entry: Mapping[str, Any]) -> Size | None:
    try:
        return size_of(float(entry.get("width", "")), float(entry.get("height", "")))
    except ValueError:
        return None


def _numbers(values: Mapping[str, str], *names: str) -> tuple[float, ...]:
    """Finite numbers of an element. Raises BadLabelError."""
    try:
        found = tuple(float(values[name]) for name in names)
    except (KeyError, ValueError) as error:
        raise BadLabelError(f"{excerpt(values)}: expected {', '.join(names)} as numbers") from error
    if not all(map(math.isfinite, found)):
        raise BadLabelError(f"{excerpt(values)}: expected {', '.join(names)} as finite numbers")
    return found


def _runs(
    values: Mapping[str, str], corner: tuple[int, int], part: Size, size: Size | None
) -> Mapping[str, Any]:
    try:
        runs = [int(run) for run in values.get("rle", "").split(",")]
    except ValueError:
        runs = []
    if not runs or min(runs) < 0 or sum(runs) != part[0] * part[1]:
        raise BadLabelError(f"the rle of a mask does not add up to {part[0]} x {part[1]} pixels")
    pixels = b"".join(bit * run for bit, run in zip(cycle((b"\0", b"\1")), runs, strict=False))
    return run_lengths(pixels, part[0], corner, size)


class _Images:
    """Collects the images of a file.

    Attributes:
      complete: (line, image) of those that are complete and have not been taken.
    """

    def __init__(self, uri: str) -> None:
        self.complete: list[tuple[int, dict[str, Any]]] = []
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartDoctypeDeclHandler = self._refuse
        self.parser.StartElementHandler = self._start
        self.parser.CharacterDataHandler = lambda text: self._text.append(text)
        self.parser.EndElementHandler = self._end
        self._uri = uri
        self._path: list[str] = []
        self._text: list[str] = []
        self._elements: list[_Element] = []
        self._line = 0
        self._image: dict[str, Any] = {}
        self._attribute = self._subset = ""

    def _refuse(self, *_: object) -> None:
        raise LabelTableError(
            f"{self._uri}, line {self.parser.CurrentLineNumber}: a document type (<!DOCTYPE>), which CVAT "
            "does not write and may fill the memory; remove it"
        )

    def _start(self, name: str, values: dict[str, str]) -> None:
        self._path.append(name)
        self._text.clear()
        depth = len(self._path)
        if depth == 1 and name != _IMAGE[0]:
            raise LabelTableError(
                f"{self._uri}: the root element is <{name}>, expected <annotations>"
            )
        if depth == 2 and name == "track":
            raise LabelTableError(
                f'{self._uri} contains the tracks of "CVAT for video"; export it as "CVAT for images 1.1"'
            )
        if self._path == _IMAGE:
            self._line, self._elements = self.parser.CurrentLineNumber, []
            self._image = {"subset": self._subset, **values, "elements": self._elements}
        elif self._path[:2] == _IMAGE and depth == 3:
            self._elements.append(_Element(name, values, {}))
        self._attribute = values.get("name", "")

    def _end(self, name: str) -> None:
        if self._path == _IMAGE:
            self.complete.append((self._line, self._image))
        elif self._path[:2] == _IMAGE and len(self._path) == 4 and name == "attribute":
            self._elements[-1].attributes[self._attribute] = "".join(self._text).strip()
        elif self._path in _SUBSETS:
            self._subset = "".join(self._text).strip()
        self._text.clear()
        self._path.pop()
