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

import math
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote, urlsplit

from beam_pipeline.core.listing.filters import IMAGE_EXTENSIONS
from beam_pipeline.core.references import Size
from beam_pipeline.core.text import excerpt
from beam_pipeline.layouts.image_records import (
    Labelled,
    LabelledObject,
    RecordFormat,
    RecordLayout,
    agreed,
    list_at,
    members,
    numbers,
    outlined,
    size_of,
    text_at,
)
from beam_pipeline.layouts.label_files import BadLabelError
from beam_pipeline.layouts.layout import SourceOptions
from beam_pipeline.layouts.tree import walk
from beam_pipeline.storage import files

_UPLOADED = re.compile(r"(?:.*/)?[0-9a-f]{8}-(.+)")
"""Names of uploaded images, which get a prefix."""

_FOLDERS = 50  # that are searched for such names
_PLACES = frozenset(
    ["x", "y", "width", "height", "points", "rle", "radiusX", "vertices", "sequence"]
)
_KINDS = {
    "rle": "brush mask",
    "radiusX": "ellipse",
    "vertices": "vector",
    "sequence": "track in a video",
}


@dataclass(frozen=True)
class LabelStudioFormat(RecordFormat):
    """Tasks.

    Attributes:
      without_prefix: True if images have the names that they had before their upload.
    """

    title: ClassVar[str] = "Label Studio's JSON"
    head: ClassVar[re.Pattern[bytes]] = re.compile(
        rb'(?:\xef\xbb\xbf)?\s*\[\s*\{(?s:.*?)"(?:annotations|completions)"\s*:\s*\[(?s:.*?)'
        rb'"(?:completed_by|was_cancelled|from_name|drafts|data)"\s*:'
    )
    pixels: ClassVar[bool] = False
    without_prefix: bool = False

    def of_files(self, uris: Sequence[str], options: SourceOptions) -> RecordFormat:
        folders = (
            folder for path in options.images for folder in walk(files.canonical(path), _FOLDERS)
        )
        names = (name for folder in folders for name in folder.images)
        return replace(self, without_prefix=not any(map(_UPLOADED.fullmatch, names)))

    def image_name(self, entry: Any) -> str:
        data = members(entry, "data")
        texts = {key: url for key, url in data.items() if _is_image(url)} if data else {}
        key = "image" if "image" in texts else next(iter(texts), "image")
        name = _path(text_at(entry, "data", key))
        uploaded = _UPLOADED.fullmatch(name) if self.without_prefix else None
        return uploaded[1] if uploaded and "/upload/" in f"/{name}" else name

    def labelled(self, entry: Any) -> Labelled:
        annotations = list_at(entry, "annotations") or list_at(entry, "completions")
        given = [each for each in annotations if not members(each, "was_cancelled")]
        chosen = [each for each in given if members(each, "ground_truth")] or given
        if chosen:
            return agreed([_opinion(each) for each in chosen], "annotations")
        predicted = "annotated by a model only" if list_at(entry, "predictions") else ""
        return Labelled(
            unlabelled="skipped" if annotations else predicted or "without an annotation"
        )


class LabelStudio(RecordLayout):
    """Tasks of Label Studio, exported as JSON."""

    name = "label_studio"
    format = LabelStudioFormat()


def _is_image(url: Any) -> bool:
    return isinstance(url, str) and posixpath.splitext(_path(url))[1].lower() in IMAGE_EXTENSIONS


def _path(url: str) -> str:
    """The path of an image in a URL of Label Studio or another server; a bucket's URL as it is."""
    scheme, _, path, query, _ = urlsplit(url)
    if scheme not in ("", "http", "https"):
        return url
    local = parse_qs(query).get("d", []) if path.endswith("/local-files/") else []
    return local[0] if local else unquote(path) if path.startswith("/data/") or scheme else url


def _opinion(annotation: Any) -> Labelled:
    """What an annotation states."""
    regions: dict[Any, list[Any]] = {}
    for number, result in enumerate(list_at(annotation, "result")):
        key = members(result, "id")
        regions.setdefault(key if isinstance(key, str) else number, []).append(result)
    objects: list[LabelledObject] = []
    fields: dict[str, list[Any]] = {}
    left_out: list[str] = []
    size = None
    for results in regions.values():
        places: dict[str, Any] = {}
        labels: list[Any] = []
        values: dict[str, list[Any]] = {}
        for result in results:
            value = members(result, "value")
            if not isinstance(value, dict):  # a relation of two regions
                continue
            places |= {key: value[key] for key in value.keys() & {*_PLACES, "rotation"}}
            for name, item in _payload(result, value):
                (labels if name == "" else values.setdefault(name, [])).extend(item)
            size = size or size_of(result.get("original_width"), result.get("original_height"))
            if result.get("image_rotation"):
                raise BadLabelError(
                    f"labelled on an image turned by {excerpt(result['image_rotation'])} degrees; "
                    "turn the image file instead"
                )
        if places.keys() & _PLACES:
            kind = next((kind for key, kind in _KINDS.items() if key in places), "")
            kind = kind or ("" if "points" in places or "height" in places else "key point")
            if kind:
                left_out.append(kind)
            else:
                objects.append(_region(places, labels, values, size))
        else:
            for name, items in values.items():
                fields.setdefault(name, []).extend(items)
    return Labelled(objects, fields, size, left_out=left_out)


def _payload(result: Any, value: Mapping[str, Any]) -> Iterator[tuple[str, list[Any]]]:
    """Yields (name, values) that a result gives; the name of an object's class is empty."""
    kind = text_at(result, "type")
    content = value.get("text" if kind == "textarea" else kind)
    if content is not None:
        name = "" if kind.endswith("labels") else text_at(result, "from_name")
        items = content if isinstance(content, list) else [content]
        yield (
            name,
            [" / ".join(map(str, item)) if isinstance(item, list) else item for item in items],
        )


def _region(
    places: Mapping[str, Any],
    labels: Sequence[Any],
    values: Mapping[str, Sequence[Any]],
    size: Size | None,
) -> LabelledObject:
    """The object of a rectangle or polygon."""
    if len(labels) != 1:
        raise BadLabelError(f"a region has the labels {excerpt(list(labels))}, expected one")
    label = text_at({"label": labels[0]}, "label")
    attributes = {name: items[0] if len(items) == 1 else items for name, items in values.items()}
    if "points" in places:
        points = [numbers(point, "x and y in per cent", 2) for point in list_at(places, "points")]
        return outlined(label, [value / 100 for point in points for value in point], attributes)
    sides = [places.get(key) for key in ("x", "y", "width", "height")]
    x, y, width, height = (side / 100 for side in numbers(sides, "x, y, width and height", 4))
    (turned,) = numbers([places.get("rotation") or 0], "a rotation in degrees")
    if not turned:
        return LabelledObject(label, (x, y, x + width, y + height), (), attributes)
    if size is None:
        raise BadLabelError("a turned rectangle without original_width and original_height")
    ratio, angle = size[0] / size[1], math.radians(turned)
    (along, across), (up, down) = (
        (width * math.cos(angle), width * math.sin(angle) * ratio),
        (-height * math.sin(angle) / ratio, height * math.cos(angle)),
    )
    corners = (x, y, x + along, y + across, x + along + up, y + across + down, x + up, y + down)
    return outlined(label, corners, {**attributes, "rotation": turned})
