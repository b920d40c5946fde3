"""Hasty's JSON, version 1.0 and 1.1: one file with all images of a project.

    {"export_format_version": "1.1", "label_classes": [{"class_name": "cat", ...}],
     "images": [{"image_name": "a.jpg", "dataset_name": "train", "width": 500, "height": 430,
                 "image_status": "DONE", "tags": ["indoor"],
                 "labels": [{"class_name": "cat", "bbox": [102, 45, 420, 404], "polygon": null,
                             "mask": null, "z_index": 1, "attributes": {"pose": "sitting"}}]}]}

A box is xmin, ymin, xmax, ymax in pixels. Source: https://help.hasty.ai/export-formats/hasty-json-v1.1
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar

from beam_pipeline.core.listing.folders import named_split
from beam_pipeline.layouts import entries
from beam_pipeline.layouts.entries import Labelled, LabelledObject
from beam_pipeline.layouts.image_records import RecordFormat, RecordLayout
from beam_pipeline.layouts.object_shapes import objects_of


@dataclass(frozen=True)
class HastyFormat(RecordFormat):
    """Images of a project."""

    title: ClassVar[str] = "Hasty's JSON"
    head: ClassVar[re.Pattern[bytes]] = re.compile(
        rb'\{(?s:.*?)"export_format_version"\s*:(?s:.*?)"label_classes"\s*:'
    )
    member: ClassVar[str] = "images"

    def image_name(self, entry: Any) -> str:
        return entries.text_at(entry, "image_name")

    def labelled(self, entry: Any) -> Labelled:
        labels, tags = entries.list_at(entry, "labels"), entries.list_at(entry, "tags")
        status = entries.members(entry, "image_status")
        if status == "SKIPPED" or (status == "NEW" and not labels and not tags):
            return Labelled(unlabelled="skipped" if status == "SKIPPED" else "without a label")
        objects, left_out = objects_of(labels, _object, "label")
        size = entries.size_of(*(entry.get(side) for side in ("width", "height")))
        dataset = entries.members(entry, "dataset_name")
        split = named_split(dataset) if isinstance(dataset, str) else ""
        return Labelled(objects, {"tags": tags} if tags else {}, size, split, left_out)


class Hasty(RecordLayout):
    """A project of Hasty, exported as JSON."""

    name = "hasty"
    format = HastyFormat()


def _object(shape: Any) -> LabelledObject | str:
    label = entries.text_at(shape, "class_name")
    attributes = entries.mapping_at(shape, "attributes")
    outline = entries.points_at(shape, "polygon")
    if shape.get("bbox"):
        xmin, ymin, xmax, ymax = entries.numbers(shape["bbox"], "xmin, ymin, xmax, ymax", 4)
        return LabelledObject(label, (xmin, ymin, xmax, ymax), outline, attributes)
    return entries.outlined(label, outline, attributes) if outline else "mask without a box"
