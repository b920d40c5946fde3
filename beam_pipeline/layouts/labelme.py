"""LabelMe: a JSON file for each image, beside it or in a separate folder.

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
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from beam_pipeline.core.references import Size
from beam_pipeline.core.text import excerpt
from beam_pipeline.layouts import entries
from beam_pipeline.layouts.entries import Labelled, LabelledObject
from beam_pipeline.layouts.label_files import BadLabelError
from beam_pipeline.layouts.object_shapes import cut_out, ellipse, objects_of, pixels_of
from beam_pipeline.layouts.record_folders import ImageFileFormat, ImageFileLayout

_LEFT_OUT = {"point": "point", "points": "point set", "line": "line", "linestrip": "line"}
_OUTLINES = ("polygon", "oriented_rectangle", "rotation")  # the last is X-AnyLabeling's
_VALUES = ("group_id", "description")


@dataclass(frozen=True)
class LabelMeFormat(ImageFileFormat):
    """The shapes of an image."""

    title: ClassVar[str] = "LabelMe's JSON"
    head: ClassVar[re.Pattern[bytes]] = re.compile(
        rb'\{(?=(?s:.*)"(?:version|flags|imagePath|imageHeight)"\s*:)'
        rb'(?s:.*)"shapes"\s*:\s*\['
    )

    def labelled(self, entry: Any) -> Labelled:
        shapes = entries.members(entry, "shapes")
        if not isinstance(shapes, list):
            raise BadLabelError(f"{excerpt(entry)}: expected an object with a list of shapes")
        size = entries.size_of(entry.get("imageWidth"), entry.get("imageHeight"))
        objects, left_out = objects_of(
            shapes, partial(_object, size=size, masks=self.masks), "shape"
        )
        flags = [name for name, is_set in entries.mapping_at(entry, "flags").items() if is_set]
        return Labelled(objects, {"flags": flags} if flags else {}, size, left_out=left_out)


class LabelMe(ImageFileLayout):
    """A JSON file of LabelMe for each image."""

    name = "labelme"
    format = LabelMeFormat()


def _object(shape: Any, *, size: Size | None, masks: bool) -> LabelledObject | str:
    kind = str(entries.members(shape, "shape_type") or "polygon")
    if kind in _LEFT_OUT:
        return _LEFT_OUT[kind]
    label = entries.text_at(shape, "label")
    points = [entries.numbers(p, "x and y", 2) for p in entries.list_at(shape, "points")]
    flat = [value for point in points for value in point]
    flags = entries.mapping_at(shape, "flags").items()
    attributes = {name: shape[name] for name in _VALUES if shape.get(name) not in (None, "")}
    attributes |= {name: int(bool(is_set)) for name, is_set in flags}
    if kind in _OUTLINES:
        return entries.outlined(label, flat, attributes)
    if len(points) < 2:
        raise BadLabelError(f"a {kind} of the points {excerpt(points)}, expected two")
    if kind == "circle":
        radius = math.dist(points[0], points[1])
        return ellipse(label, (*points[0], radius, radius), 0, attributes)
    xmin, ymin = min(flat[::2]), min(flat[1::2])
    if kind == "mask":
        return cut_out(
            label, (xmin, ymin), pixels_of(shape.get("mask")), size, attributes, masks=masks
        )
    if kind != "rectangle":
        raise BadLabelError(f"shape_type is {excerpt(kind)}, which LabelMe does not have")
    return LabelledObject(label, (xmin, ymin, max(flat[::2]), max(flat[1::2])), (), attributes)
