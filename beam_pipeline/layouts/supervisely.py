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
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.listing.filters import ImageRoot
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
from beam_pipeline.layouts.label_files import BadLabelError, Place
from beam_pipeline.layouts.layout import SourceOptions
from beam_pipeline.layouts.object_shapes import UNREAD, decoded, png_runs, png_size, with_holes
from beam_pipeline.layouts.record_folders import ImageFileFormat, ImageFileLayout, Places
from beam_pipeline.layouts.tree import has_folder, walk
from beam_pipeline.storage import files

_IMAGES, _LABELS = "img", "ann"
_FOLDERS = 200  # that are searched for data sets


@dataclass(frozen=True)
class SuperviselyFormat(ImageFileFormat):
    """The objects of an image."""

    title: ClassVar[str] = "Supervisely's JSON"
    head: ClassVar[re.Pattern[bytes]] = re.compile(
        rb'(?:\xef\xbb\xbf)?\s*\{(?=(?s:.*)"(?:size|tags|description)"\s*:)(?s:.*)"objects"\s*:\s*\['
    )

    def labelled(self, entry: Any) -> Labelled:
        if not isinstance(members(entry, "objects"), list):
            raise BadLabelError(f"{excerpt(entry)}: expected an object with a list of objects")
        size = size_of(members(entry, "size", "width"), members(entry, "size", "height"))
        objects, left_out = [], []
        for number, each in enumerate(entry["objects"], 1):
            try:
                kind = text_at(each, "geometryType")
                labelled = self._object(each, kind, size)
            except BadLabelError as error:
                raise BadLabelError(f"object {number}: {error}") from error
            if labelled:
                objects.append(labelled)
            else:
                left_out.append(kind)
        fields: dict[str, list[Any]] = {}
        for name, value in _tags(entry):
            fields.setdefault("tags" if value is None else name, []).append(value or name)
        return Labelled(objects, fields, size, left_out=left_out)

    def _object(self, each: Any, kind: str, size: Size | None) -> LabelledObject | None:
        """The object of an entry; None for a kind that has no box."""
        label = text_at(each, "classTitle")
        attributes = {name: 1 if value is None else value for name, value in _tags(each)}
        if kind == "bitmap":
            data = decoded(members(each, "bitmap", "data"), compressed=True)
            origin = numbers(members(each, "bitmap", "origin"), "x and y as bitmap.origin", 2)
            left, top = map(int, origin)
            width, height = png_size(data)
            runs = png_runs(data, (left, top), size) if self.masks else UNREAD
            return LabelledObject(label, (left, top, left + width, top + height), runs, attributes)
        if kind not in ("rectangle", "polygon"):
            return None
        points = _points(list_at(each, "points", "exterior"))
        if kind == "polygon":
            outline = outlined(label, points, attributes)
            holes = [_points(hole) for hole in list_at(each, "points", "interior")]
            return outline._replace(outline=with_holes(points, holes))
        left_x, top_y, right_x, bottom_y = numbers(points, "the two corners of a rectangle", 4)
        xs, ys = sorted((left_x, right_x)), sorted((top_y, bottom_y))
        return LabelledObject(label, (xs[0], ys[0], xs[1], ys[1]), (), attributes)


class Supervisely(ImageFileLayout):
    """Projects of Supervisely."""

    name = "supervisely"
    format = SuperviselyFormat()

    def recognise(self, options: SourceOptions) -> str:
        """Recognises img/ beside ann/ with a JSON file of Supervisely in it."""
        is_project = not options.labels and all(map(_data_sets, options.images))
        return super().recognise(options) if is_project else ""

    def places(self, options: SourceOptions) -> Places:
        if options.labels:
            raise UsageError(
                f"--layout {self.name} finds {_LABELS}/ beside {_IMAGES}/; name the project with --images and leave "
                "out --labels"
            )
        images, labels, pairs = [], [], []
        for path in options.images:
            data_sets = _data_sets(path)
            if not data_sets:
                raise UsageError(
                    f"--images {path}: no folder with {_IMAGES}/ beside {_LABELS}/ in it"
                )
            root = files.canonical(path)
            below = [glob.escape(f"{uri}/"[len(root) + 1 :]) for uri in data_sets]
            images.append(ImageRoot(root, tuple(f"{name}{_IMAGES}/**" for name in below)))
            labels.append(ImageRoot(root, tuple(f"{name}{_LABELS}/*.json" for name in below)))
            pairs += [Place(f"{uri}/{_LABELS}", f"{uri}/{_IMAGES}") for uri in data_sets]
        return Places(tuple(images), tuple(labels), tuple(pairs))


def _data_sets(path: str) -> list[str]:
    """The folders in a path with images and label files."""
    folders = walk(files.canonical(path), _FOLDERS) if path.strip() else ()
    return [
        folder.path
        for folder in folders
        if all(has_folder(f"{folder.path}/{name}") for name in (_IMAGES, _LABELS))
    ]


def _points(points: Any) -> list[float]:
    if not isinstance(points, list):
        raise BadLabelError(f"{excerpt(points)}: expected a list of points")
    return [value for point in points for value in numbers(point, "x and y", 2)]


def _tags(entry: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """(name, value) of each tag; the value is None for a tag without values."""
    return [(text_at(tag, "name"), members(tag, "value")) for tag in list_at(entry, "tags")]
