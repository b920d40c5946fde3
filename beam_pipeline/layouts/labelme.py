"""LabelMe: a JSON file for each image, beside it or in a folder of its own.

    {"version": "5.5.0", "flags": {"night": true},
     "shapes": [{"label": "car", "points": [[1.5, 2.0], [30.0, 40.0]], "group_id": null, "description": "",
                 "shape_type": "rectangle", "flags": {"occluded": false}, "mask": null}],
     "imagePath": "1.jpg", "imageData": null, "imageHeight": 480, "imageWidth": 640}

Points are in pixels. A circle has its centre and a point on it, and a mask has the first and the last pixel of a PNG
in base64. The file is for the image of its own name; `imagePath` is often out of date, and `imageData`, a copy of
the image, is not read. Source: https://github.com/wkentaro/labelme, label_file.py and utils/shape.py
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from beam_pipeline.core.references import Size
from beam_pipeline.core.text import excerpt
from beam_pipeline.layouts.entries import (
    Labelled,
    LabelledObject,
    list_at,
    members,
    numbers,
    outlined,
    size_of,
    text_at,
)
from beam_pipeline.layouts.label_files import BadLabelError
from beam_pipeline.layouts.object_shapes import UNREAD, decoded, ellipse, png_runs, png_size
from beam_pipeline.layouts.record_folders import ImageFileFormat, ImageFileLayout

_LEFT_OUT = {"point": "point", "points": "point set", "line": "line", "linestrip": "line"}
_OUTLINES = ("polygon", "oriented_rectangle", "rotation")  # the last is X-AnyLabeling's


@dataclass(frozen=True)
class LabelMeFormat(ImageFileFormat):
    """The shapes of an image."""

    title: ClassVar[str] = "LabelMe's JSON"
    head: ClassVar[re.Pattern[bytes]] = re.compile(
        rb'(?:\xef\xbb\xbf)?\s*\{(?=(?s:.*)"(?:version|flags|imagePath|imageHeight)"\s*:)'
        rb'(?s:.*)"shapes"\s*:\s*\['
    )

    def labelled(self, entry: Any) -> Labelled:
        if not isinstance(members(entry, "shapes"), list):
            raise BadLabelError(f"{excerpt(entry)}: expected an object with a list of shapes")
        size = size_of(entry.get("imageWidth"), entry.get("imageHeight"))
        objects, left_out = [], []
        for number, shape in enumerate(entry["shapes"], 1):
            kind = str(members(shape, "shape_type") or "polygon")
            if kind in _LEFT_OUT:
                left_out.append(_LEFT_OUT[kind])
                continue
            try:
                objects.append(self._object(shape, kind, size))
            except BadLabelError as error:
                raise BadLabelError(f"shape {number}: {error}") from error
        flags = [name for name, is_set in _flags(entry).items() if is_set]
        return Labelled(objects, {"flags": flags} if flags else {}, size, left_out=left_out)

    def _object(self, shape: Any, kind: str, size: Size | None) -> LabelledObject:
        label = text_at(shape, "label")
        points = [numbers(point, "x and y", 2) for point in list_at(shape, "points")]
        flat = [value for point in points for value in point]
        attributes: dict[str, Any] = {
            name: shape[name]
            for name in ("group_id", "description")
            if shape.get(name) not in (None, "")
        }
        attributes |= {name: int(bool(is_set)) for name, is_set in _flags(shape).items()}
        if kind in _OUTLINES:
            return outlined(label, flat, attributes)
        if len(points) < 2:
            raise BadLabelError(f"a {kind} of the points {excerpt(points)}, expected two")
        (x, y), (to_x, to_y) = points[:2]
        if kind == "circle":
            radius = math.hypot(to_x - x, to_y - y)
            return ellipse(label, (x, y, radius, radius), 0, attributes)
        box = (min(flat[::2]), min(flat[1::2]), max(flat[::2]), max(flat[1::2]))
        if kind == "rectangle":
            return LabelledObject(label, box, (), attributes)
        if kind == "mask":
            data = decoded(shape.get("mask"))
            width, height = png_size(data)
            box = (box[0], box[1], box[0] + width, box[1] + height)
            corner = (int(box[0]), int(box[1]))
            runs = png_runs(data, corner, size) if self.masks else UNREAD
            return LabelledObject(label, box, runs, attributes)
        raise BadLabelError(f"shape_type is {excerpt(kind)}, which LabelMe does not have")


class LabelMe(ImageFileLayout):
    """A JSON file of LabelMe for each image."""

    name = "labelme"
    format = LabelMeFormat()


def _flags(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    flags = entry.get("flags")
    return flags if isinstance(flags, dict) else {}
