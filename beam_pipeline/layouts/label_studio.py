"""Label Studio's JSON: a list of tasks, each with its image and the annotations of one or more people.

    [{"id": 1,
      "annotations": [{"completed_by": 2, "was_cancelled": false, "ground_truth": false, "result": [
        {"id": "a", "type": "rectanglelabels", "from_name": "label", "to_name": "image",
         "original_width": 600, "original_height": 400, "image_rotation": 0,
         "value": {"x": 25.0, "y": 50.0, "width": 10.0, "height": 20.0, "rotation": 0,
                   "rectanglelabels": ["car"]}}]}],
      "predictions": [], "data": {"image": "/data/upload/1/1a2b3c4d-street.jpg"}}]

Coordinates are per cent of the image. A rectangle is turned clockwise around its first corner. Results of one
id describe one region; those without a place in the image describe the whole of it. Source:
https://labelstud.io/guide/task_format and https://labelstud.io/guide/export
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote

from beam_pipeline.core.references import Size
from beam_pipeline.core.text import excerpt, quoted
from beam_pipeline.layouts import entries
from beam_pipeline.layouts.entries import Labelled, LabelledObject
from beam_pipeline.layouts.image_records import RecordFormat, RecordLayout
from beam_pipeline.layouts.label_files import BadLabelError
from beam_pipeline.layouts.layout import SourceOptions
from beam_pipeline.layouts.tree import walk
from beam_pipeline.storage import files

_UPLOADED = re.compile(r"(?:.*/)?[0-9a-f]{8}-(.+)")
"""Names of uploaded images, which get a prefix."""

_FOLDERS = 50  # that are searched for such names
_LEFT_OUT = {"rle": "brush mask", "radiusX": "ellipse", "vertices": "vector", "sequence": "track"}
"""Members of a result's value -> the kind of an object without a box."""

_PLACE = frozenset(["x", "y", "width", "height", "points", *_LEFT_OUT])
_TAKEN = _PLACE | {"rotation"}
_CLASS = ""


@dataclass(frozen=True)
class LabelStudioFormat(RecordFormat):
    """Tasks.

    Attributes:
      without_prefix: True if images have the names that they had before their upload.
    """

    title: ClassVar[str] = "Label Studio's JSON"
    head: ClassVar[re.Pattern[bytes]] = re.compile(
        rb'\[\s*\{(?s:.*?)"(?:annotations|completions)"\s*:\s*\[(?s:.*?)'
        rb'"(?:completed_by|was_cancelled|from_name|drafts|data)"\s*:'
    )
    pixels: ClassVar[bool] = False
    without_prefix: bool = False

    def of_files(self, uris: Sequence[str], options: SourceOptions) -> RecordFormat:
        roots = map(files.canonical, options.images)
        names = (name for root in roots for here in walk(root, _FOLDERS) for name in here.images)
        return replace(self, without_prefix=not any(map(_UPLOADED.fullmatch, names)))

    def image_name(self, entry: Any) -> str:
        data = entries.mapping_at(entry, "data")
        urls = [data.get("image"), *data.values()]
        name = entries.image_path((_path(url) for url in urls if isinstance(url, str)), data)
        uploaded = _UPLOADED.fullmatch(name) if "/upload/" in name else None
        return uploaded[1] if uploaded and self.without_prefix else name

    def labelled(self, entry: Any) -> Labelled:
        annotations = entries.list_at(entry, "annotations") or entries.list_at(entry, "completions")
        given = [each for each in annotations if not entries.members(each, "was_cancelled")]
        chosen = [each for each in given if entries.members(each, "ground_truth")] or given
        if chosen:
            return entries.agreed([_opinion(each) for each in chosen], "annotations")
        predicted = "annotated by a model only" if entries.members(entry, "predictions") else ""
        reason = "skipped" if annotations else predicted or "without an annotation"
        return Labelled(unlabelled=reason)


class LabelStudio(RecordLayout):
    """Tasks of Label Studio, exported as JSON."""

    name = "label_studio"
    format = LabelStudioFormat()


def _path(url: str) -> str:
    """The path of an image on Label Studio's own server; any other name is unchanged."""
    path, _, query = url.partition("?")
    local = parse_qs(query).get("d", []) if path.endswith("/local-files/") else []
    return local[0] if local else unquote(path) if path.startswith("/data/") else url


def _opinion(annotation: Any) -> Labelled:
    """What an annotation states."""
    regions: dict[Any, list[Any]] = {}
    for number, result in enumerate(entries.list_at(annotation, "result")):
        key = entries.members(result, "id")
        regions.setdefault(key if isinstance(key, str) else number, []).append(result)
    objects: list[LabelledObject] = []
    fields: dict[str, list[Any]] = {}
    left_out: list[str] = []
    pictures: set[str] = set()
    size = None
    for results in regions.values():
        place: dict[str, Any] = {}
        values: dict[str, list[Any]] = {}
        for result in results:
            value = entries.mapping_at(result, "value")
            place |= {key: value[key] for key in value.keys() & _TAKEN}
            _add_values(values, result, value)
            sides = (result.get(f"original_{side}") for side in ("width", "height"))
            size = size or entries.size_of(*sides)
            pictures |= {str(result.get("to_name"))} if place.keys() & _PLACE else set()
            if result.get("image_rotation"):
                turned = excerpt(result["image_rotation"])
                raise BadLabelError(
                    f"labelled on an image turned by {turned}; turn the file instead"
                )
        if not place.keys() & _PLACE:
            for name, items in values.items():
                fields.setdefault(name, []).extend(items)
        elif "points" in place or "height" in place:
            objects.append(_region(place, values, size))
        else:
            kinds = (kind for key, kind in _LEFT_OUT.items() if key in place)
            left_out.append(next(kinds, "key point"))
    if len(pictures) > 1:
        raise BadLabelError(f"regions of several images, {quoted(sorted(pictures))}, in one task")
    return Labelled(objects, fields, size, left_out=left_out)


def _add_values(
    values: dict[str, list[Any]], result: Mapping[str, Any], value: Mapping[str, Any]
) -> None:
    """Adds the classes of a result's region, or values of the question that it answers."""
    kind = entries.text_at(result, "type")
    content = value.get("text" if kind == "textarea" else kind)
    if content is not None:
        name = _CLASS if kind.endswith("labels") else entries.text_at(result, "from_name")
        items = content if isinstance(content, list) else [content]
        texts = ["/".join(map(str, item)) if isinstance(item, list) else item for item in items]
        values.setdefault(name, []).extend(texts)


def _region(
    place: Mapping[str, Any], values: dict[str, list[Any]], size: Size | None
) -> LabelledObject:
    """The object of a polygon or rectangle."""
    classes = values.pop(_CLASS, [])
    if len(classes) != 1:
        raise BadLabelError(f"a region with the labels {excerpt(classes)}, expected one")
    label, attributes = entries.text_at({"label": classes[0]}, "label"), entries.one_or_all(values)
    if "points" in place:
        points = [side / 100 for side in entries.points_at(place, "points")]
        return entries.outlined(label, points, attributes)
    sides = [place.get(key) for key in ("x", "y", "width", "height")]
    box = [side / 100 for side in entries.numbers(sides, "x, y, width and height", 4)]
    (turned,) = entries.numbers([place.get("rotation") or 0], "a rotation in degrees")
    if not turned:
        return entries.boxed(label, box, attributes)
    if size is None:
        raise BadLabelError("a turned rectangle without original_width and original_height")
    pixels = [side * size[number % 2] for number, side in enumerate(box)]
    corners = entries.corners_of(pixels, turned, (pixels[0], pixels[1]))
    points = [side / size[number % 2] for number, side in enumerate(corners)]
    return entries.outlined(label, points, {**attributes, "rotation": turned})
