"""Labelbox's exports: NDJSON or a JSON list with a data row each, and the labels of all projects.

    {"data_row": {"id": "ck1", "external_id": "a.jpg", "row_data": "https://host/a.jpg?Expires=1"},
     "media_attributes": {"width": 640, "height": 480},
     "projects": {"cl1": {"name": "cars", "labels": [{"label_kind": "Default", "annotations": {
       "objects": [{"name": "car", "annotation_kind": "ImageBoundingBox", "classifications": [],
                    "bounding_box": {"top": 20, "left": 10, "height": 30, "width": 40}}],
       "classifications": [{"name": "weather", "radio_answer": {"name": "rain"}}]}}]}}}

Coordinates are in pixels. Source: https://docs.labelbox.com/reference/export-image-annotations
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar

from beam_pipeline.layouts import entries
from beam_pipeline.layouts.entries import Labelled, LabelledObject
from beam_pipeline.layouts.image_records import RecordFormat, RecordLayout
from beam_pipeline.layouts.object_shapes import objects_of

_NAMES = ("external_id", "global_key", "row_data")
_WORD_BEGINS = re.compile(r"(?<=[a-z])(?=[A-Z])")


@dataclass(frozen=True)
class LabelboxFormat(RecordFormat):
    """Data rows."""

    title: ClassVar[str] = "Labelbox's export"
    head: ClassVar[re.Pattern[bytes]] = re.compile(rb'\[?\s*\{\s*"data_row"\s*:')
    extensions: ClassVar[tuple[str, ...]] = (".ndjson", ".json")

    def image_name(self, entry: Any) -> str:
        row = entries.members(entry, "data_row")
        return entries.image_path((entries.members(row, key) for key in _NAMES), entry)

    def labelled(self, entry: Any) -> Labelled:
        projects = entries.mapping_at(entry, "projects").values()
        labels = [label for project in projects for label in entries.list_at(project, "labels")]
        skipped = ("performance_details", "skipped")
        given = [_opinion(label) for label in labels if not entries.members(label, *skipped)]
        if not given:
            return Labelled(unlabelled="skipped" if labels else "without a label")
        media = entries.mapping_at(entry, "media_attributes")
        size = entries.size_of(media.get("width"), media.get("height"))
        return entries.agreed(given, "labels")._replace(size=size)


class Labelbox(RecordLayout):
    """Data rows of Labelbox, exported as NDJSON or JSON."""

    name = "labelbox"
    format = LabelboxFormat()


def _opinion(label: Any) -> Labelled:
    """What a label states."""
    annotations = entries.members(label, "annotations")
    objects, left_out = objects_of(entries.list_at(annotations, "objects"), _object, "object")
    return Labelled(objects, _answers(annotations), left_out=left_out)


def _object(shape: Any) -> LabelledObject | str:
    box, polygon = entries.mapping_at(shape, "bounding_box"), entries.list_at(shape, "polygon")
    if not box and not polygon:
        kind = entries.text_at(shape, "annotation_kind").removeprefix("Image")
        return _WORD_BEGINS.sub(" ", kind).lower()
    label, attributes = entries.text_at(shape, "name"), entries.one_or_all(_answers(shape))
    if polygon:
        points = [[entries.members(point, axis) for axis in "xy"] for point in polygon]
        return entries.outlined(
            label, entries.points_at({"polygon": points}, "polygon"), attributes
        )
    sides = [box.get(key) for key in ("left", "top", "width", "height")]
    return entries.boxed(label, entries.numbers(sides, "left, top, width, height", 4), attributes)


def _answers(asked: Any) -> dict[str, list[Any]]:
    """Question -> its answers, of an image or an object; nested ones as well."""
    answers: dict[str, list[Any]] = {}
    for question in entries.list_at(asked, "classifications"):
        radio, content = (entries.members(question, f"{kind}_answer") for kind in ("radio", "text"))
        options = [*entries.list_at(question, "checklist_answers"), *([radio] if radio else [])]
        values = [entries.text_at(option, "name") for option in options]
        values += [entries.text_at(content, "content")] if content else []
        answers.setdefault(entries.text_at(question, "name"), []).extend(values)
        for option in options:
            for name, nested in _answers(option).items():
                answers.setdefault(name, []).extend(nested)
    return answers
