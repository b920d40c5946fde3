"""Supervisely: a project is a folder of data sets, each with images in img/ and a JSON file for each in ann/.

    project/meta.json     project/train/img/1.jpg     project/train/ann/1.jpg.json

    {"description": "", "name": "1.jpg", "size": {"width": 640, "height": 480},
     "tags": [{"name": "weather", "value": "rain"}, {"name": "night", "value": null}],
     "objects": [{"classTitle": "car", "geometryType": "polygon", "tags": [],
                  "points": {"exterior": [[1, 2], [30, 2], [30, 40]], "interior": []}},
                 {"classTitle": "car", "geometryType": "bitmap", "tags": [],
                  "bitmap": {"data": "<a PNG, compressed by zlib, in base64>", "origin": [10, 20]}}]}

Points are in pixels; the interior of a polygon is a list of holes. A data set called `train` or similar is a split.
Source: https://developer.supervisely.com/getting-started/supervisely-annotation-format
"""

from __future__ import annotations

import glob
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.core.references import Size
from beam_pipeline.core.text import excerpt
from beam_pipeline.layouts import entries
from beam_pipeline.layouts.entries import Labelled, LabelledObject
from beam_pipeline.layouts.label_files import BadLabelError, Place
from beam_pipeline.layouts.layout import SourceOptions
from beam_pipeline.layouts.object_shapes import cut_out, objects_of, pixels_of, with_holes
from beam_pipeline.layouts.record_folders import ImageFileFormat, ImageFileLayout, Places
from beam_pipeline.layouts.tree import has_folder, subfolders
from beam_pipeline.storage import files

_FIRST = 5  # folders of a project that may lack images


@dataclass(frozen=True)
class SuperviselyFormat(ImageFileFormat):
    """The objects of an image."""

    title: ClassVar[str] = "Supervisely's JSON"
    head: ClassVar[re.Pattern[bytes]] = re.compile(
        rb'\{(?=(?s:.*)"(?:size|tags|description)"\s*:)(?s:.*)"objects"\s*:\s*\['
    )

    def labelled(self, entry: Any) -> Labelled:
        objects = entries.members(entry, "objects")
        if not isinstance(objects, list):
            raise BadLabelError(f"{excerpt(entry)}: expected an object with a list of objects")
        size = entries.size_of(*(entries.members(entry, "size", s) for s in ("width", "height")))
        labelled, left_out = objects_of(
            objects, partial(_object, size=size, masks=self.masks), "object"
        )
        fields: dict[str, list[Any]] = {}
        for name, value in _tags(entry):
            fields.setdefault("tags" if value is None else name, []).append(value or name)
        return Labelled(labelled, fields, size, left_out=left_out)


class Supervisely(ImageFileLayout):
    """Projects of Supervisely."""

    name = "supervisely"
    format = SuperviselyFormat()

    def recognise(self, options: SourceOptions) -> str:
        """Recognises img/ beside ann/ with a JSON file of Supervisely in it."""
        is_project = not options.labels and all(map(_data_sets, options.images))
        return super().recognise(options) if is_project else ""

    def places(self, options: SourceOptions) -> Places:
        images, labels, pairs = [], [], []
        for path in options.images:
            data_sets = _data_sets(path)
            if options.labels or not data_sets:
                raise UsageError(
                    f"--layout {self.name} expects img/ beside ann/ in folders of --images {path}, and no --labels"
                )
            root = files.canonical(path)
            below = [glob.escape(f"{uri}/"[len(root) + 1 :]) for uri in data_sets]
            images.append(ImageRoot(root, tuple(f"{name}img/**" for name in below)))
            labels.append(ImageRoot(root, tuple(f"{name}ann/*.json" for name in below)))
            pairs += [Place(f"{uri}/ann", f"{uri}/img") for uri in data_sets]
        return tuple(images), tuple(labels), tuple(pairs)


def _data_sets(path: str) -> list[str]:
    """The folders in a path with images and label files, also nested ones; none unless the first ones have them."""
    root = files.canonical(path) if path.strip() else ""
    below = subfolders(root) if root else []
    if not any(map(_is_data_set, (root, *below[:_FIRST]))):
        return []
    data_sets = [folder for folder in (root, *below) if _is_data_set(folder)]
    nested = [_data_sets(f"{folder}/datasets") for folder in data_sets]
    return [*data_sets, *(folder for folders in nested for folder in folders)]


def _is_data_set(folder: str) -> bool:
    return all(has_folder(f"{folder}/{name}") for name in ("img", "ann"))


def _object(each: Any, *, size: Size | None, masks: bool) -> LabelledObject | str:
    kind, label = entries.text_at(each, "geometryType"), entries.text_at(each, "classTitle")
    attributes = {name: 1 if value is None else value for name, value in _tags(each)}
    if kind == "bitmap":
        origin = entries.numbers(entries.members(each, "bitmap", "origin"), "x and y", 2)
        part = pixels_of(entries.members(each, "bitmap", "data"), compressed=True)
        return cut_out(label, origin, part, size, attributes, masks=masks)
    if kind not in ("rectangle", "polygon"):
        return kind
    points = _points(entries.list_at(each, "points", "exterior"))
    if kind == "polygon":
        holes = [_points(hole) for hole in entries.list_at(each, "points", "interior")]
        outline = entries.outlined(label, points, attributes)
        return outline._replace(outline=with_holes(points, holes))
    xs, ys = sorted(entries.numbers(points, "two corners", 4)[::2]), sorted(points[1::2])
    return LabelledObject(label, (xs[0], ys[0], xs[1], ys[1]), (), attributes)


def _points(points: Any) -> Sequence[float]:
    pairs = points if isinstance(points, list) else [points]
    return [value for point in pairs for value in entries.numbers(point, "x and y", 2)]


def _tags(entry: Any) -> list[tuple[str, Any]]:
    """(name, value) of each tag; the value is None for a tag without values."""
    tags = entries.list_at(entry, "tags")
    return [(entries.text_at(tag, "name"), entries.members(tag, "value")) for tag in tags]
