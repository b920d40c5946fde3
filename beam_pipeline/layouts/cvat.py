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
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle
from typing import Any, BinaryIO, ClassVar
from xml.parsers import expat

from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.core.labels.cells import parse_number
from beam_pipeline.core.labels.schema import ColumnKind
from beam_pipeline.core.listing.folders import SPLIT_NAMES
from beam_pipeline.core.references import SPLIT_NAME, Size
from beam_pipeline.core.text import excerpt
from beam_pipeline.layouts import entries
from beam_pipeline.layouts.entries import Labelled, LabelledObject
from beam_pipeline.layouts.image_records import RecordFormat, RecordLayout
from beam_pipeline.layouts.label_files import BadLabelError
from beam_pipeline.layouts.object_shapes import MOST_PIXELS, cut_out, ellipse, objects_of

_PIECE = 1 << 16
_ROOT, _ATTRIBUTE = "annotations", "attribute"
_LEFT_OUT = {"points": "point", "polyline": "line", "cuboid": "cuboid", "skeleton": "skeleton"}


@dataclass
class _Element:
    """An element of XML, from a line of the file."""

    tag: str
    line: int
    values: dict[str, str]
    inside: list[_Element] = field(default_factory=list)
    text: str = ""

    @property
    def attributes(self) -> dict[str, str]:
        """The values of the elements `attribute` in it."""
        inside = [each for each in self.inside if each.tag == _ATTRIBUTE]
        return {each.values.get("name", ""): each.text.strip() for each in inside}


@dataclass(frozen=True)
class CvatFormat(RecordFormat):
    """Images with their shapes."""

    title: ClassVar[str] = "CVAT's XML"
    head: ClassVar[re.Pattern[bytes]] = re.compile(
        rb"(?:<\?xml[^>]*>\s*)?<annotations>\s*<version>"
    )
    extensions: ClassVar[tuple[str, ...]] = (".xml",)

    def entries(self, file: BinaryIO, uri: str) -> Iterator[tuple[int, Any]]:
        subset = ""
        for element in _elements(file, uri):
            if element.tag == "track":
                raise LabelTableError(
                    f'{uri} contains the tracks of "CVAT for video"; export it as "CVAT for images 1.1"'
                )
            for about in element.inside if element.tag == "meta" else ():  # a task, job or project
                subset = next((each.text for each in about.inside if each.tag == "subset"), subset)
            if element.tag == "image":
                element.values = {"subset": subset.strip(), **element.values}
                yield element.line, element

    def image_name(self, entry: Any) -> str:
        return entries.text_at(entry.values, "name")

    def labelled(self, entry: Any) -> Labelled:
        fields: dict[str, list[Any]] = {}
        for tag in (each for each in entry.inside if each.tag == "tag"):
            values = {"tag": entries.text_at(tag.values, "label"), **tag.attributes}
            for name, value in values.items():
                fields.setdefault(name, []).append(value)
        size = entries.size_of(*_numbers(entry, "width", "height"))
        shapes = (each for each in entry.inside if each.tag != "tag")
        objects, left_out = objects_of(
            shapes, partial(_object, size=size, masks=self.masks), "shape"
        )
        subset = entry.values["subset"]
        is_split = SPLIT_NAME.fullmatch(subset) and subset.lower() != "default"
        split = SPLIT_NAMES.get(subset.lower(), subset if is_split else "")
        return Labelled(objects, fields, size, split, left_out)


class Cvat(RecordLayout):
    """Images and shapes that CVAT exports as "CVAT for images 1.1"."""

    name = "cvat"
    format = CvatFormat()


def _object(shape: _Element, *, size: Size | None, masks: bool) -> LabelledObject | str:
    values = shape.values
    if shape.tag in _LEFT_OUT:
        return _LEFT_OUT[shape.tag]
    label = entries.text_at(values, "label")
    attributes = {key: values[key] for key in ("occluded",) if key in values} | shape.attributes
    angle = _numbers(shape, "rotation")[0] if "rotation" in values else 0
    if shape.tag == "box":
        xmin, ymin, xmax, ymax = _numbers(shape, "xtl", "ytl", "xbr", "ybr")
        corners = entries.corners_of((xmin, ymin, xmax - xmin, ymax - ymin), angle)
        is_turned = entries.outlined(label, corners, attributes)
        upright = LabelledObject(label, (xmin, ymin, xmax, ymax), (), attributes)
        return is_turned if angle else upright
    if shape.tag == "ellipse":
        sides = _numbers(shape, "cx", "cy", "rx", "ry")
        return ellipse(label, sides, math.radians(angle), attributes)
    if shape.tag == "mask":
        left, top, width, height = map(int, _numbers(shape, "left", "top", "width", "height"))
        runs = [int(run) for run in _parsed(values.get("rle", "").split(","), "rle")]
        if min(runs) < 0 or sum(runs) != width * height or width * height > MOST_PIXELS:
            raise BadLabelError(f"the rle of a mask does not add up to {width} x {height} pixels")
        bits = (bit * run for bit, run in zip(cycle((b"\0", b"\1")), runs, strict=False))
        return cut_out(
            label, (left, top), ((width, height), b"".join(bits)), size, attributes, masks=masks
        )
    if shape.tag == "polygon":
        texts = entries.text_at(values, "points").replace(";", ",").split(",")
        return entries.outlined(label, _parsed(texts, "points"), attributes)
    raise BadLabelError(f"<{shape.tag}> is not a shape of CVAT")


def _numbers(element: _Element, *names: str) -> tuple[float, ...]:
    return _parsed([element.values.get(name, "") for name in names], ", ".join(names))


def _parsed(texts: Iterable[str], names: str) -> tuple[float, ...]:
    try:
        return tuple(parse_number(text.strip(), ColumnKind.FLOAT) for text in texts)
    except ValueError as error:
        raise BadLabelError(f"{excerpt(texts)}: expected numbers as {names}") from error


def _elements(file: BinaryIO, uri: str) -> Iterator[_Element]:
    """Yields the elements in the root, each when it is complete. Raises LabelTableError."""
    parser, path, complete = expat.ParserCreate(), list[_Element](), list[_Element]()

    def start(tag: str, values: dict[str, str]) -> None:
        element = _Element(tag, parser.CurrentLineNumber, values)
        if not path and tag != _ROOT:
            raise entries.broken(uri, f"the root element is <{tag}>, expected <{_ROOT}>")
        if len(path) > 1:
            path[-1].inside.append(element)
        path.append(element)

    def end(_: str) -> None:
        element = path.pop()
        if len(path) == 1:
            complete.append(element)

    def characters(text: str) -> None:
        if len(path) > 2:
            path[-1].text += text

    def refuse(*_: object) -> None:
        raise entries.broken(uri, "a document type (<!DOCTYPE>), which may fill the memory")

    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = characters, refuse
    piece = b"?"
    while piece:
        piece = file.read(_PIECE)
        try:
            parser.Parse(piece, not piece)
        except (expat.ExpatError, ValueError, LookupError) as error:  # also unknown encodings
            raise entries.broken(uri, f"not well-formed XML: {error}") from error
        yield from complete
        complete.clear()
