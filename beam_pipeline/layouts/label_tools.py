"""Exports of labelling tools on servers: Label Studio, Labelbox, Hasty, Datumaro, Ultralytics' platform."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, BinaryIO, ClassVar
from urllib.parse import parse_qs, unquote

from beam_pipeline.core import json_file, references
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.core.listing.folders import SPLIT_NAMES, named_split
from beam_pipeline.core.text import excerpt, quoted
from beam_pipeline.layouts import entries, image_records, layout, tree
from beam_pipeline.layouts.entries import Bitmap, Labelled, LabelledObject
from beam_pipeline.layouts.label_files import BadLabelError, opened


class Labelbox(image_records.RecordLayout):
    """NDJSON or a JSON list with a data row each, and the labels of all projects.

        {"data_row": {"id": "ck1", "external_id": "a.jpg", "row_data": "https://host/a.jpg?Expires=1"},
         "media_attributes": {"width": 640, "height": 480},
         "projects": {"cl1": {"name": "cars", "labels": [{"label_kind": "Default", "annotations": {
           "objects": [{"name": "car", "annotation_kind": "ImageBoundingBox", "classifications": [],
                        "bounding_box": {"top": 20, "left": 10, "height": 30, "width": 40}}],
           "classifications": [{"name": "weather", "radio_answer": {"name": "rain"}}]}}]}}}

    Coordinates are in pixels. Source: https://docs.labelbox.com/reference/export-image-annotations
    """

    name = "labelbox"
    title = "Labelbox's export"
    head = re.compile(rb'\[?\s*\{\s*"data_row"\s*:')
    extensions = (".ndjson", ".json")
    option_names = image_records.RecordLayout.option_names | {"annotator"}

    def image_name(self, entry: Any) -> str:
        row = entries.members(entry, "data_row")
        keys = ("external_id", "global_key", "row_data")
        return entries.image_path((entries.members(row, key) for key in keys), entry)

    def labelled(self, entry: Any) -> Labelled:
        projects = entries.mapping_at(entry, "projects").values()
        labels = [label for project in projects for label in entries.list_at(project, "labels")]
        given = [
            (entries.members(label, "label_details", "created_by"), label)
            for label in labels
            if not entries.members(label, "performance_details", "skipped")
        ]
        if not given:
            return Labelled(unlabelled="skipped" if labels else "without a label")
        media = entries.mapping_at(entry, "media_attributes")
        size = entries.size_of(media.get("width"), media.get("height"))
        return entries.agreed(given, self._opinion, "labels", self.annotator)._replace(size=size)

    def _opinion(self, label: Any) -> Labelled:
        annotations = entries.members(label, "annotations")
        shapes = entries.list_at(annotations, "objects")
        objects = entries.objects_of(shapes, self._object, "object")
        return Labelled(*objects, self._answers(annotations))

    def _object(self, shape: Any) -> LabelledObject | str:
        box, polygon = entries.mapping_at(shape, "bounding_box"), entries.list_at(shape, "polygon")
        if polygon:
            points = [side for point in polygon for side in entries.numbers_at(point, "x", "y")]
            place = entries.outlined(points)
        elif box:
            place = entries.boxed(entries.numbers_at(box, "left", "top", "width", "height"))
        else:
            return entries.text_at(shape, "annotation_kind")
        attributes = entries.one_or_all(self._answers(shape))
        return LabelledObject(entries.text_at(shape, "name"), *place, attributes)

    def _answers(self, asked: Any) -> dict[str, list[Any]]:
        """Question -> its answers, of an image or an object; nested ones as well."""
        answers: dict[str, list[Any]] = {}
        for question in entries.list_at(asked, "classifications"):
            radio = entries.members(question, "radio_answer")
            content = entries.members(question, "text_answer")
            options = [*entries.list_at(question, "checklist_answers"), *([radio] if radio else [])]
            values = [entries.text_at(option, "name") for option in options]
            values += [entries.text_at(content, "content")] if content else []
            answers.setdefault(entries.text_at(question, "name"), []).extend(values)
            for option in options:
                for name, nested in self._answers(option).items():
                    answers.setdefault(name, []).extend(nested)
        return answers


class Hasty(image_records.RecordLayout):
    """JSON, version 1.0 and 1.1: one file with all images of a project.

        {"export_format_version": "1.1", "label_classes": [{"class_name": "cat", ...}],
         "images": [{"image_name": "a.jpg", "dataset_name": "train", "width": 500, "height": 430,
                     "image_status": "DONE", "tags": ["indoor"],
                     "labels": [{"class_name": "cat", "bbox": [102, 45, 420, 404], "polygon": null,
                                 "mask": null, "z_index": 1, "attributes": {"pose": "sitting"}}]}]}

    A box is xmin, ymin, xmax, ymax in pixels. Source: https://help.hasty.ai/export-formats/hasty-json-v1.1
    """

    name = "hasty"
    title = "Hasty's JSON"
    head = re.compile(rb'\{(?s:.*?)"export_format_version"\s*:(?s:.*?)"label_classes"\s*:')
    member = "images"

    def image_name(self, entry: Any) -> str:
        return entries.text_at(entry, "image_name")

    def labelled(self, entry: Any) -> Labelled:
        labels, tags = entries.list_at(entry, "labels"), entries.list_at(entry, "tags")
        status = entries.members(entry, "image_status")
        if status == "SKIPPED" or (status == "NEW" and not labels and not tags):
            return Labelled(unlabelled="skipped" if status == "SKIPPED" else "without a label")
        size = entries.size_of(entry.get("width"), entry.get("height"))
        dataset = entries.members(entry, "dataset_name")
        split = named_split(dataset) if isinstance(dataset, str) else ""
        objects = entries.objects_of(labels, self._object, "label")
        return Labelled(*objects, {"tags": tags} if tags else {}, size, split)

    def _object(self, shape: Any) -> LabelledObject | str:
        outline, box = entries.points_at(shape, "polygon"), entries.members(shape, "bbox")
        if not box:
            return "mask"
        xmin, ymin, xmax, ymax = entries.numbers(box, "xmin, ymin, xmax, ymax", 4)
        place = (xmin, ymin, xmax, ymax), outline
        attributes = entries.mapping_at(shape, "attributes")
        return LabelledObject(entries.text_at(shape, "class_name"), *place, attributes)


class Datumaro(image_records.RecordLayout):
    """JSON, which CVAT exports as well: a file for each subset, in `annotations/`.

        {"dm_format_version": "1.0", "info": {},
         "categories": {"label": {"labels": [{"name": "cat", "parent": "", "attributes": []}]}},
         "items": [{"id": "a", "attr": {"frame": 0}, "image": {"path": "a.jpg", "size": [430, 500]},
                    "annotations": [{"id": 0, "type": "bbox", "label_id": 0, "bbox": [102, 45, 318, 359],
                                     "attributes": {"occluded": false}, "group": 0, "z_order": 0}]}]}

    A box is x, y, width, height in pixels, turned around its centre by its attribute `rotation`; a size is height
    and width. Sources: https://openvinotoolkit.github.io/datumaro/latest/docs/data-formats/datumaro_format.html
    and https://docs.cvat.ai/docs/dataset_management/formats/format-datumaro
    """

    name = "datumaro"
    title = "Datumaro's JSON"
    head = re.compile(
        rb'\{\s*(?:"dm_format_version"\s*:|(?s:.*?)"categories"\s*:\s*\{\s*'
        rb'(?:\}|"(?:label|mask|points)"\s*:\s*\{))'
    )
    member = "items"

    def class_names(self, uri: str) -> dict[int, str]:
        with opened(uri) as file, entries.unbroken(uri):
            for _, value in json_file.JsonFile(file).members(["categories"]):
                labels = entries.list_at(value, "label", "labels")
                return dict(enumerate(entries.text_at(label, "name") for label in labels))
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
        height, width = [*entries.list_at(entry, "image", "size"), None, None][:2]
        size = entries.size_of(width, height)
        return Labelled(*entries.objects_of(shapes, self._object, "object"), fields, size)

    def _object(self, annotation: Any) -> LabelledObject | str:
        kind = str(annotation["type"])
        if kind not in ("bbox", "polygon"):
            return kind.replace("_", " ")
        attributes = entries.mapping_at(annotation, "attributes")
        if kind == "polygon":
            points = entries.numbers(annotation.get("points"), "a list of x, y, ...")
            place = entries.outlined(points)
        else:
            box = entries.numbers(annotation.get("bbox"), "x, y, width, height", 4)
            (turned,) = entries.numbers([attributes.get("rotation") or 0], "a rotation in degrees")
            corners = entries.corners_of(box, turned)
            place = entries.outlined(corners) if turned else entries.boxed(box)
        return LabelledObject(self.class_of(annotation.get("label_id")), *place, attributes)


class Ultralytics(image_records.RecordLayout):
    """NDJSON of Ultralytics' platform: a line for the data set, then a line for each image.

        {"type": "dataset", "task": "detect", "name": "cars", "class_names": {"0": "person", "1": "car"}}
        {"type": "image", "file": "a.jpg", "url": "https://host/a.jpg", "width": 640, "height": 480,
         "split": "train", "annotations": {"boxes": [[0, 0.5, 0.5, 0.2, 0.3]]}}

    Coordinates are fractions of the image; of each annotation the first number is the class.

    | task | member of annotations | further numbers |
    |---|---|---|
    | detect | boxes | centre x, centre y, width, height |
    | segment | segments | x, y of three or more points of the outline |
    | pose | pose | a box as above, then its key points |
    | obb | obb | x, y of the four corners of a rotated box |
    | classify | classification | none; a list of classes |

    Source: https://docs.ultralytics.com/datasets/detect/#ultralytics-ndjson-format
    """

    name = "ultralytics"
    title = "Ultralytics' NDJSON"
    head = re.compile(rb'\{[^\n]*"type"\s*:\s*"dataset"[^\n]*"class_names"\s*:')
    extensions = (".ndjson",)
    pixels = False
    counts: ClassVar = {"boxes": (5, 5), "segments": (7, 0), "pose": (5, 0), "obb": (9, 9)}
    """Member of annotations -> the least and the most numbers of an object; 0 for any."""

    def class_names(self, uri: str) -> dict[int, str]:
        with opened(uri) as file, entries.unbroken(uri):
            _, header = next(entries.json_lines(file), (1, None))
            names = entries.mapping_at(header, "class_names")
            if not all(i.isdecimal() and len(i) < 19 for i in names):
                raise BadLabelError(f"class_names: {excerpt(names)}, expected numbers as keys")
            return {int(i): entries.text_at(names, i) for i in names}

    def entries(self, file: BinaryIO, uri: str) -> Iterator[tuple[int, Any]]:
        """Yields the lines without the first."""
        return islice(entries.json_lines(file), 1, None)

    def image_name(self, entry: Any) -> str:
        return entries.text_at(entry, "file")

    def labelled(self, entry: Any) -> Labelled:
        given = entries.mapping_at(entry, "annotations")
        lists = {kind: entries.list_at(given, kind) for kind in given}
        split = entries.text_at(entry, "split") if "split" in entry else ""
        if split and not references.SPLIT_NAME.fullmatch(split):
            raise BadLabelError(f"split {excerpt(split)}: expected a word, such as train or val")
        classes = [self.class_of(number) for number in lists.pop("classification", [])]
        size = entries.size_of(entry.get("width"), entry.get("height"))
        objects = [self._object(kind, e) for kind in self.counts for e in lists.pop(kind, [])]
        left_out = [kind for kind, values in lists.items() for _ in values]
        split = SPLIT_NAMES.get(split.lower(), split)
        return Labelled(objects, left_out, {"class": classes} if classes else {}, size, split)

    def _object(self, kind: str, annotation: Any) -> LabelledObject:
        values = entries.numbers(annotation, "a list of numbers")
        least, most = self.counts[kind]
        if len(values) < least or 0 < most < len(values):
            expected = f"{least} numbers{'' if most else ' or more'}"
            raise BadLabelError(f"{kind}: {excerpt(annotation)}, expected {expected}")
        points = {"keypoints": list(values[5:])} if kind == "pose" else {}
        if kind in ("segments", "obb"):
            place = entries.outlined(values[1:])
        else:
            x, y, width, height = values[1:5]
            place = entries.boxed((x - width / 2, y - height / 2, width, height))
        return LabelledObject(self.class_of(values[0]), *place, points)


# --- Label Studio --------------------------------------------------------------------------------

_UPLOADED = re.compile(r"(?:.*/)?[0-9a-f]{8}-(.+)")
"""Names of uploaded images, which get a prefix."""

_FOLDERS = 50  # that are searched for such names
_LEFT_OUT = {"radiusX": "ellipse", "vertices": "vector", "sequence": "track"}
"""Members of a result's value -> the kind of an object without a box."""

_PLACE = frozenset(["x", "y", "width", "height", "points", "rle", *_LEFT_OUT])
_CLASS = ""


@dataclass(frozen=True)
class LabelStudio(image_records.RecordLayout):
    """A list of tasks of JSON, each with its image and the annotations of one or more people.

        [{"id": 1,
          "annotations": [{"completed_by": 2, "was_cancelled": false, "ground_truth": false, "result": [
            {"id": "a", "type": "rectanglelabels", "from_name": "label", "to_name": "image",
             "original_width": 600, "original_height": 400, "image_rotation": 0,
             "value": {"x": 25.0, "y": 50.0, "width": 10.0, "height": 20.0, "rotation": 0,
                       "rectanglelabels": ["car"]}}]}],
          "predictions": [], "data": {"image": "/data/upload/1/1a2b3c4d-street.jpg"}}]

    Coordinates are per cent of the image. A rectangle is turned clockwise around its first corner. Results of one
    id describe one region; those without a place in the image describe the whole of it. A brush mask is RGBA,
    compressed by `rle-pack`, whose pixels are those that are not transparent. Sources:
    https://labelstud.io/guide/task_format and https://labelstud.io/guide/export

    Attributes:
      without_prefix: True if images have the names that they had before their upload.
    """

    name = "label_studio"
    title = "Label Studio's JSON"
    head = re.compile(
        rb'\[\s*\{(?s:.*?)"(?:annotations|completions)"\s*:\s*\[(?s:.*?)'
        rb'"(?:completed_by|was_cancelled|from_name|drafts|data)"\s*:'
    )
    pixels = False
    option_names = image_records.RecordLayout.option_names | {"annotator"}
    without_prefix: bool = False

    def source(
        self, options: layout.SourceOptions, uris: Sequence[str], roots: tuple[ImageRoot, ...]
    ) -> layout.Source:
        here = (folder for root in roots for folder in tree.walk(root.uri, _FOLDERS))
        is_whole = not any(map(_UPLOADED.fullmatch, (name for f in here for name in f.images)))
        form = replace(self, without_prefix=is_whole)
        return super(LabelStudio, form).source(options, uris, roots)

    def image_name(self, entry: Any) -> str:
        data = entries.mapping_at(entry, "data")
        urls = [data.get("image"), *data.values()]
        name = entries.image_path((_path(url) for url in urls if isinstance(url, str)), data)
        uploaded = _UPLOADED.fullmatch(name) if "/upload/" in name else None
        return uploaded[1] if uploaded and self.without_prefix else name

    def labelled(self, entry: Any) -> Labelled:
        annotations = entries.list_at(entry, "annotations") or entries.list_at(entry, "completions")
        given = [each for each in annotations if not entries.members(each, "was_cancelled")]
        truth = [each for each in given if entries.members(each, "ground_truth")]
        chosen = given if self.annotator else truth or given
        if chosen:
            opinions = ((entries.members(each, "completed_by"), each) for each in chosen)
            return entries.agreed(opinions, _opinion, "annotations", self.annotator)
        predicted = "annotated by a model only" if entries.members(entry, "predictions") else ""
        reason = "skipped" if annotations else predicted or "without an annotation"
        return Labelled(unlabelled=reason)


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
    fields: dict[str, list[Any]] = {}
    objects, left_out, pictures = list[LabelledObject](), list[str](), set[str]()
    size = None
    for results in regions.values():
        place: dict[str, Any] = {}
        values: dict[str, list[Any]] = {}
        for result in results:
            value = entries.mapping_at(result, "value")
            place |= {key: value[key] for key in value.keys() & (_PLACE | {"rotation"})}
            _add_values(values, result, value)
            sides = (result.get(f"original_{side}") for side in ("width", "height"))
            size = size or entries.size_of(*sides)
            pictures |= {str(result.get("to_name"))} if place.keys() & _PLACE else set()
            if result.get("image_rotation"):
                turned = f"turned by {excerpt(result['image_rotation'])}"
                raise BadLabelError(f"labelled on an image {turned}; turn the file instead")
        if not place.keys() & _PLACE:
            for name, items in values.items():
                fields.setdefault(name, []).extend(items)
        elif place.keys() & {"points", "height", "rle"}:
            objects.append(_region(place, values, size))
        else:
            kinds = (kind for key, kind in _LEFT_OUT.items() if key in place)
            left_out.append(next(kinds, "key point"))
    if len(pictures) > 1:
        raise BadLabelError(f"regions of several images, {quoted(sorted(pictures))}, in one task")
    return Labelled(objects, left_out, fields, size)


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
    place: Mapping[str, Any], values: dict[str, list[Any]], size: references.Size | None
) -> LabelledObject:
    """The object of a polygon, rectangle or brush mask."""
    classes = values.pop(_CLASS, [])
    if len(classes) != 1:
        raise BadLabelError(f"a region with the labels {excerpt(classes)}, expected one")
    label, attributes = entries.text_at({"label": classes[0]}, "label"), entries.one_or_all(values)
    if "rle" in place:
        return LabelledObject(label, *_brushed(place["rle"], size), attributes)
    if "points" in place:
        shape = entries.outlined([side / 100 for side in entries.points_at(place, "points")])
        return LabelledObject(label, *shape, attributes)
    box = [side / 100 for side in entries.numbers_at(place, "x", "y", "width", "height")]
    (turned,) = entries.numbers([place.get("rotation") or 0], "a rotation in degrees")
    if not turned:
        return LabelledObject(label, *entries.boxed(box), attributes)
    if size is None:
        raise BadLabelError("a turned rectangle without original_width and original_height")
    pixels = [side * size[number % 2] for number, side in enumerate(box)]
    corners = entries.corners_of(pixels, turned, (pixels[0], pixels[1]))
    points = [side / size[number % 2] for number, side in enumerate(corners)]
    return LabelledObject(label, *entries.outlined(points), {**attributes, "rotation": turned})


def _brushed(rle: Any, size: references.Size | None) -> entries.Shape:
    """The shape of a mask that was drawn with a brush."""
    from PIL import Image  # few jobs have masks

    if size is None or 4 * size[0] * size[1] > entries.MOST_PIXELS:
        raise BadLabelError("a mask without original_width and original_height, or a too large one")
    width, height = size
    try:
        alpha = _unpacked(bytes([*rle]), 4 * width * height)[3::4]
    except (TypeError, ValueError) as error:
        raise BadLabelError(f"the rle of a mask is not one of {width} x {height} pixels") from error
    mask = Image.frombytes("L", size, alpha)
    part = mask.getbbox()
    if part is None:
        raise BadLabelError("a mask without a pixel")
    left, top, right, bottom = part
    pixels = mask.crop(part).point(bool).tobytes()
    box = (left / width, top / height, right / width, bottom / height)
    return box, Bitmap(left, top, right - left, bottom - top, pixels)


def _unpacked(packed: bytes, length: int) -> bytes:
    """The bytes that `rle-pack` compressed. Raises ValueError.

    32 bits are their number, 5 the bits of each, and 4 x 4 the bits of four kinds of counts. Then come a flag,
    the kind of the count, and the count of either equal or different values, each less 1. Source:
    https://github.com/thi-ng/umbrella/tree/develop/packages/rle-pack
    """
    bits, at = "".join(f"{byte:08b}" for byte in packed), 0

    def take(count: int) -> int:
        nonlocal at
        at += count
        return int(bits[at - count : at], 2)

    number, word = take(32), take(5) + 1
    counts = [take(4) + 1 for _ in range(4)]
    out = bytearray()
    while len(out) < number == length:
        are_equal = take(1)
        count = take(counts[take(2)]) + 1
        out += bytes([take(word)]) * count if are_equal else bytes(take(word) for _ in range(count))
    if len(out) != length or at > len(bits):
        raise ValueError("of another length")
    return bytes(out)
