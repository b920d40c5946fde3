"""Datumaro's JSON, which CVAT exports as well: a file for each subset, in `annotations/`.

    {"dm_format_version": "1.0", "info": {},
     "categories": {"label": {"labels": [{"name": "cat", "parent": "", "attributes": []}]}},
     "items": [{"id": "a", "attr": {"frame": 0}, "image": {"path": "a.jpg", "size": [430, 500]},
                "annotations": [{"id": 0, "type": "bbox", "label_id": 0, "bbox": [102, 45, 318, 359],
                                 "attributes": {"occluded": false}, "group": 0, "z_order": 0}]}]}

A box is x, y, width, height in pixels, turned around its centre by its attribute `rotation`; a size is height
and width. Sources: https://openvinotoolkit.github.io/datumaro/latest/docs/data-formats/datumaro_format.html
and https://docs.cvat.ai/docs/dataset_management/formats/format-datumaro
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar

from beam_pipeline.core.json_file import JsonFile, JsonFileError
from beam_pipeline.layouts import entries
from beam_pipeline.layouts.entries import Labelled, LabelledObject
from beam_pipeline.layouts.image_records import NumberedFormat, RecordLayout
from beam_pipeline.layouts.label_files import BadLabelError, opened
from beam_pipeline.layouts.object_shapes import objects_of


@dataclass(frozen=True)
class DatumaroFormat(NumberedFormat):
    """Items."""

    title: ClassVar[str] = "Datumaro's JSON"
    head: ClassVar[re.Pattern[bytes]] = re.compile(
        rb'\{\s*(?:"dm_format_version"\s*:|(?s:.*?)"categories"\s*:\s*\{\s*'
        rb'(?:\}|"(?:label|mask|points)"\s*:\s*\{))'
    )
    member: ClassVar[str] = "items"

    def class_names(self, uri: str) -> dict[int, str]:
        with opened(uri) as file:
            try:
                for _, value in JsonFile(file).members(["categories"]):
                    labels = entries.list_at(value, "label", "labels")
                    return dict(enumerate(entries.text_at(label, "name") for label in labels))
            except (JsonFileError, BadLabelError) as error:
                raise entries.broken(uri, error) from error
        raise entries.broken(uri, "no categories")

    def image_name(self, entry: Any) -> str:
        paths = (entries.members(entry, "image", "path"), entries.members(entry, "id"))
        return entries.text_at({"id": paths[0] or paths[1] or entry}, "id")

    def labelled(self, entry: Any) -> Labelled:
        fields = {name: [value] for name, value in entries.mapping_at(entry, "attr").items()}
        shapes = []
        for annotation in entries.list_at(entry, "annotations"):
            kind = entries.text_at(annotation, "type")
            if kind == "label":
                fields.setdefault(kind, []).append(self.class_of(annotation.get("label_id")))
            elif kind == "caption":
                fields.setdefault(kind, []).append(annotation.get(kind))
            else:
                shapes.append(annotation)
        objects, left_out = objects_of(shapes, self._object, "object")
        height, width = [*entries.list_at(entry, "image", "size"), None, None][:2]
        size = entries.size_of(width, height)
        return Labelled(objects, fields, size, left_out=left_out)

    def _object(self, annotation: Any) -> LabelledObject | str:
        kind = str(annotation["type"])
        if kind not in ("bbox", "polygon"):
            return kind.replace("_", " ")
        label = self.class_of(annotation.get("label_id"))
        attributes = entries.mapping_at(annotation, "attributes")
        if kind == "polygon":
            points = entries.numbers(annotation.get("points"), "a list of x, y, ...")
            return entries.outlined(label, points, attributes)
        box = entries.numbers(annotation.get("bbox"), "x, y, width, height", 4)
        (turned,) = entries.numbers([attributes.get("rotation") or 0], "a rotation in degrees")
        if turned:
            return entries.outlined(label, entries.corners_of(box, turned), attributes)
        return entries.boxed(label, box, attributes)


class Datumaro(RecordLayout):
    """Items of a Datumaro file."""

    name = "datumaro"
    format = DatumaroFormat()
