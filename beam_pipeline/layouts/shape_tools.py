"""Desktop tools that draw shapes in images: CVAT, the VGG Image Annotator, LabelMe, Supervisely."""

from __future__ import annotations

import csv
import glob
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, cycle, groupby, product
from typing import Any, BinaryIO

from beam_pipeline.core import errors, json_file, references
from beam_pipeline.core.labels import cells, schema
from beam_pipeline.core.labels.box_columns import ONLY_CLASS
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.core.listing.folders import SPLIT_NAMES
from beam_pipeline.core.text import excerpt, quoted
from beam_pipeline.layouts import entries, heads, image_records, layout, tree
from beam_pipeline.layouts.entries import Bitmap, Element, Labelled, LabelledObject, members
from beam_pipeline.layouts.label_files import BadLabelError, Place
from beam_pipeline.storage import files


class Cvat(image_records.RecordLayout):
    """CVAT's XML 1.1 for images: a file with many images, each with the shapes in it.

        <annotations><version>1.1</version><meta><task><subset>Train</subset>...</task></meta>
          <image id="0" name="a/1.jpg" subset="Train" width="640" height="480">
            <box label="car" occluded="0" xtl="1.5" ytl="2" xbr="30" ybr="40" rotation="30"><attribute name="colour">red</attribute></box>
            <polygon label="car" occluded="0" points="1.5,2.0;30.0,2.0;30.0,40.0"/>
            <ellipse label="car" cx="20" cy="30" rx="5" ry="4"/>
            <mask label="car" rle="3, 2, 1" left="10" top="20" width="3" height="2"/>
            <tag label="night"/>
          </image></annotations>

    Coordinates are in pixels, and rotations in degrees, clockwise. A mask has run lengths of its box, row by row,
    outside first. Source: https://docs.cvat.ai/docs/manual/advanced/xml_format/
    """

    name = "cvat"
    title = "CVAT's XML"
    head = re.compile(rb"(?:<\?xml[^>]*>\s*)?<annotations>\s*<version>")
    extensions = (".xml",)
    left_out = {"points": "point", "polyline": "line", "cuboid": "cuboid", "skeleton": "skeleton"}  # noqa: RUF012

    def entries(self, file: BinaryIO, uri: str) -> Iterator[tuple[int, Any]]:
        subset = ""
        with entries.unbroken(uri):
            for element in entries.xml_elements(file, "annotations"):
                if element.tag == "track":
                    raise errors.LabelTableError(
                        f'{uri} contains the tracks of "CVAT for video"; export it as "CVAT for images 1.1"'
                    )
                for about in element.inside if element.tag == "meta" else ():  # task, job, project
                    subset = next((each.text for each in about.all("subset")), subset)
                if element.tag == "image":
                    element.values = {"subset": subset.strip(), **element.values}
                    yield element.line, element

    def image_name(self, entry: Any) -> str:
        return entries.text_at(entry.values, "name")

    def labelled(self, entry: Any) -> Labelled:
        fields: dict[str, list[Any]] = {}
        for tag in entry.all("tag"):
            fields.setdefault("tag", []).append(entries.text_at(tag.values, "label"))
            for name, value in _attributes_in(tag):
                fields.setdefault(name, []).append(value)
        size = entries.size_of(*_numbers_in(entry, "width", "height"))
        shapes = [each for each in entry.inside if each.tag != "tag"]
        subset = entry.values["subset"]
        is_split = references.SPLIT_NAME.fullmatch(subset) and subset.lower() != "default"
        split = SPLIT_NAMES.get(subset.lower(), subset if is_split else "")
        return Labelled(*entries.objects_of(shapes, self._object, "shape"), fields, size, split)

    def _object(self, shape: Element) -> LabelledObject | str:
        if shape.tag in self.left_out:
            return self.left_out[shape.tag]
        attributes = {key: shape.values[key] for key in ("occluded",) if key in shape.values}
        attributes.update(_attributes_in(shape))
        return LabelledObject(entries.text_at(shape.values, "label"), *_shape_of(shape), attributes)


def _shape_of(shape: Element) -> entries.Shape:
    values = shape.values
    angle = _numbers_in(shape, "rotation")[0] if "rotation" in values else 0
    if shape.tag == "box":
        xmin, ymin, xmax, ymax = _numbers_in(shape, "xtl", "ytl", "xbr", "ybr")
        corners = entries.corners_of((xmin, ymin, xmax - xmin, ymax - ymin), angle)
        return entries.outlined(corners) if angle else ((xmin, ymin, xmax, ymax), ())
    if shape.tag == "ellipse":
        return entries.ellipse(_numbers_in(shape, "cx", "cy", "rx", "ry"), math.radians(angle))
    if shape.tag == "mask":
        sides = _numbers_in(shape, "left", "top", "width", "height")
        left, top, width, height = map(int, sides)
        runs = [int(run) for run in _parsed_numbers(values.get("rle", "").split(","), "rle")]
        pixels = width * height
        if min(runs) < 0 or sum(runs) != pixels or pixels > entries.MOST_PIXELS:
            raise BadLabelError(f"the rle of a mask does not add up to {width} x {height} pixels")
        bits = (bit * run for bit, run in zip(cycle((b"\0", b"\1")), runs, strict=False))
        return entries.drawn(Bitmap(left, top, width, height, b"".join(bits)))
    if shape.tag != "polygon":
        raise BadLabelError(f"<{shape.tag}> is not a shape of CVAT")
    texts = entries.text_at(values, "points").replace(";", ",").split(",")
    return entries.outlined(_parsed_numbers(texts, "points"))


def _attributes_in(element: Element) -> Iterator[tuple[str, str]]:
    for each in element.all("attribute"):
        yield each.values.get("name", ""), each.text.strip()


def _numbers_in(element: Element, *names: str) -> tuple[float, ...]:
    return _parsed_numbers([element.values.get(name, "") for name in names], ", ".join(names))


def _parsed_numbers(texts: Iterable[str], names: str) -> tuple[float, ...]:
    try:
        return tuple(cells.parse_number(text.strip(), schema.ColumnKind.FLOAT) for text in texts)
    except ValueError as error:
        raise BadLabelError(f"{excerpt(texts)}: expected numbers as {names}") from error


# --- VIA -----------------------------------------------------------------------------------------

_CSV = ".csv"
_NOT_IMAGES = ("_via_settings", "_via_attributes", "_via_data_format_version", "_via_image_id_list")
_FILE, _COUNT = "file_attributes", "region_count"
_SHAPE, _REGION = "region_shape_attributes", "region_attributes"
_USUAL = ("class", "label", "category", "name", "type", "object")


@dataclass(frozen=True)
class Via(image_records.RecordLayout):
    """VGG Image Annotator 1 and 2: a project or exported annotations in JSON, or a CSV with a row for each region.

        {"_via_img_metadata": {"1.jpg58841": {"filename": "1.jpg", "size": 58841, "file_attributes": {"place": "yard"},
          "regions": [{"shape_attributes": {"name": "rect", "x": 1, "y": 2, "width": 29, "height": 38},
                       "region_attributes": {"name": "car", "colour": {"red": true}}}]}}, ...}

        filename,file_size,file_attributes,region_count,region_id,region_shape_attributes,region_attributes
        1.jpg,58841,"{""place"":""yard""}",1,0,"{""name"":""rect"",""x"":1,...}","{""name"":""car""}"

    Exported JSON has only the object inside of `_via_img_metadata`; in VIA 1, `regions` is an object. Points are in
    pixels; `theta` is in radians. The person who labels names the attributes, so that the class may be in any of
    them. Source: https://gitlab.com/vgg/via

    Attributes:
      attribute: the attribute of regions that is their class; empty if they have none.
    """

    name = "via"
    title = "VIA's annotations"
    head = re.compile(
        rb'(?:\{\s*"(?:_via_|[^"]*"\s*:\s*\{\s*"(?:filename|fileref)"\s*:)'
        rb'|#?"?filename"?,\s*"?file_size"?,\s*"?file_attributes)'
    )
    extensions = (".json", _CSV)
    attribute: str = ""

    def _paths(self, options: layout.SourceOptions) -> list[str]:
        """See `RecordLayout`. A CSV beside a JSON file contains the same."""
        paths = super()._paths(options)
        json_files = [path for path in paths if not path.lower().endswith(_CSV)]
        return paths if options.labels else json_files or paths

    def source(
        self, options: layout.SourceOptions, uris: Sequence[str], roots: tuple[ImageRoot, ...]
    ) -> layout.Source:
        """Finds the attribute of regions that is their class; --label_column may name it."""
        there = image_records.Survey(self, uris).attributes.keys()
        usual = [name for name in there if name.lower() in _USUAL]
        names = usual if len(usual) == 1 else sorted(there)
        if options.label_column in there:
            names, options = [options.label_column], replace(options, label_column="")
        if len(names) > 1:
            reason = "which attribute is the class of a region? Give --label_column, one of"
            raise errors.UsageError(f"{reason} {quoted(names)}")
        return super(Via, replace(self, attribute="".join(names))).source(options, uris, roots)

    def entries(self, file: BinaryIO, uri: str) -> Iterator[tuple[int, Any]]:
        if uri.lower().endswith(_CSV):
            yield from _via_rows(file, uri)
            return
        document = json_file.JsonFile(file)
        with entries.unbroken(uri):
            for key, value in document.items(("_via_img_metadata",)):
                if key not in _NOT_IMAGES:
                    yield document.line, value

    def image_name(self, entry: Any) -> str:
        return entries.text_at(entry, "filename")

    def labelled(self, entry: Any) -> Labelled:
        regions, count = _regions(entry), entry.get(_COUNT)
        if count is not None and count != str(len(regions)):
            rows = f"the image has {len(regions)} rows one after the other"
            raise BadLabelError(f"{_COUNT} is {excerpt(count)}, but {rows}")
        fields = _attributes(members(entry, _FILE))
        return Labelled(*entries.objects_of(regions, self._object, "region"), fields)

    def _object(self, region: Any) -> LabelledObject | str:
        shape = entries.mapping_at(region, "shape_attributes")
        kind = str(shape.get("name"))
        if kind in ("point", "polyline"):
            return "point" if kind == "point" else "line"
        attributes = entries.one_or_all(_attributes(members(region, _REGION)))
        label = entries.text_at(attributes, self.attribute) if self.attribute else ONLY_CLASS
        attributes.pop(self.attribute, None)
        if kind == "rect":
            place = entries.boxed(entries.numbers_at(shape, "x", "y", "width", "height"))
        elif kind in ("circle", "ellipse"):
            round_shape = {"rx": shape.get("r"), "ry": shape.get("r"), "theta": 0, **shape}
            *sides, angle = entries.numbers_at(round_shape, "cx", "cy", "rx", "ry", "theta")
            place = entries.ellipse(sides, angle)
        elif kind == "polygon":
            xs, ys = (entries.numbers(shape.get(f"all_points_{axis}"), "numbers") for axis in "xy")
            if len(xs) != len(ys):
                raise BadLabelError(f"a polygon of {len(xs)} x and {len(ys)} y")
            points = zip(xs, ys, strict=True)
            place = entries.outlined([side for point in points for side in point])
        else:
            raise BadLabelError(f"{excerpt(shape)}: expected the shape of a rect or polygon")
        return LabelledObject(label, *place, attributes)


def _regions(entry: Any) -> list[Any]:
    """The regions of an image, which VIA 1 has in an object. Raises BadLabelError."""
    regions = members(entry, "regions")
    return [*regions.values()] if isinstance(regions, dict) else entries.list_at(entry, "regions")


def _via_rows(file: BinaryIO, uri: str) -> Iterator[tuple[int, Any]]:
    """Yields the image of each run of rows with one file name, as in VIA's JSON."""
    heads.allow_long_cells()
    rows = csv.DictReader(line.decode("utf-8-sig").removeprefix("#") for line in file)
    numbered = ((rows.line_num, row) for row in rows)
    try:
        for name, of_image in groupby(numbered, lambda pair: pair[1].get("filename")):
            (line, first), *further = of_image
            regions = [
                {"shape_attributes": _json(row.get(_SHAPE)), _REGION: _json(row.get(_REGION))}
                for row in (first, *(row for _, row in further))
                if row.get(_COUNT) != "0"
            ]
            about = {_FILE: _json(first.get(_FILE)), _COUNT: first.get(_COUNT)}
            yield line, {"filename": name, "regions": regions, **about}
    except (UnicodeDecodeError, csv.Error) as error:
        raise entries.broken(uri, f"after line {rows.line_num}: {error}") from error


def _json(cell: Any) -> Any:
    """A cell's JSON; other cells stay as they are."""
    try:
        return json.loads(cell)
    except (TypeError, ValueError, RecursionError):
        return cell


def _attributes(given: Any) -> dict[str, list[Any]]:
    """Name -> values of the attributes that are not empty; a list of checkboxes has those that are set."""
    values = {
        name: [key for key, is_set in value.items() if is_set]
        if isinstance(value, dict)
        else [value] * (value not in ("", None))
        for name, value in (given.items() if isinstance(given, dict) else ())
    }
    return {name: each for name, each in values.items() if each}


# --- a file for each image -----------------------------------------------------------------------

_MOST = 0.5  # of the area of two boxes


class LabelMe(image_records.ImageFileLayout):
    """LabelMe: a JSON file for each image, beside it or in a separate folder.

        {"version": "5.5.0", "flags": {"night": true},
         "shapes": [{"label": "car", "points": [[1.5, 2.0], [30.0, 40.0]], "group_id": null, "description": "",
                     "shape_type": "rectangle", "flags": {"occluded": false}, "mask": null}],
         "imagePath": "1.jpg", "imageData": null, "imageHeight": 480, "imageWidth": 640}

    Points are in pixels. A circle has its centre and a point on it, and a mask has the first and the last pixel of a
    PNG in base64. The file is for the image of its own name; `imagePath` is often out of date, and `imageData`, a
    copy of the image, is not read. Source: https://github.com/wkentaro/labelme, label_file.py and utils/shape.py
    """

    name = "labelme"
    title = "LabelMe's JSON"
    head = re.compile(
        rb'\{(?=(?s:.*)"(?:version|flags|imagePath|imageHeight)"\s*:)'
        rb'(?s:.*)"shapes"\s*:\s*\['
    )
    left_out = {"point": "point", "points": "point set", "line": "line", "linestrip": "line"}  # noqa: RUF012

    def labelled(self, entry: Any) -> Labelled:
        shapes = members(entry, "shapes")
        if not isinstance(shapes, list):
            raise BadLabelError(f"{excerpt(entry)}: expected an object with a list of shapes")
        size = entries.size_of(entry.get("imageWidth"), entry.get("imageHeight"))
        flags = [name for name, is_set in entries.mapping_at(entry, "flags").items() if is_set]
        objects = entries.objects_of(shapes, self._object, "shape")
        return Labelled(*objects, {"flags": flags} if flags else {}, size)

    def _object(self, shape: Any) -> LabelledObject | str:
        kind = str(members(shape, "shape_type") or "polygon")
        if kind in self.left_out:
            return self.left_out[kind]
        label = entries.text_at(shape, "label")
        points = [entries.numbers(p, "x and y", 2) for p in entries.list_at(shape, "points")]
        flat = [value for point in points for value in point]
        named = ("group_id", "description")
        attributes = {name: shape[name] for name in named if shape.get(name) not in (None, "")}
        flags = entries.mapping_at(shape, "flags").items()
        attributes |= {name: int(bool(is_set)) for name, is_set in flags}
        if kind in ("polygon", "oriented_rectangle", "rotation"):  # the last is X-AnyLabeling's
            return LabelledObject(label, *entries.outlined(flat), attributes)
        if len(points) < 2:
            raise BadLabelError(f"a {kind} of the points {excerpt(points)}, expected two")
        xmin, ymin = min(flat[::2]), min(flat[1::2])
        place: entries.Shape = (xmin, ymin, max(flat[::2]), max(flat[1::2])), ()
        if kind == "circle":
            radius = math.dist(points[0], points[1])
            place = entries.ellipse((*points[0], radius, radius), 0)
        elif kind == "mask":
            place = entries.drawn(entries.png_bitmap(shape.get("mask"), (xmin, ymin)))
        elif kind != "rectangle":
            raise BadLabelError(f"shape_type is {excerpt(kind)}, which LabelMe does not have")
        return LabelledObject(label, *place, attributes)


class Supervisely(image_records.ImageFileLayout):
    """Supervisely: a project is a folder of data sets, each with images in img/ and a JSON file for each in ann/.

        project/meta.json     project/train/img/1.jpg     project/train/ann/1.jpg.json

        {"description": "", "name": "1.jpg", "size": {"width": 640, "height": 480},
         "tags": [{"name": "weather", "value": "rain"}, {"name": "night", "value": null}],
         "objects": [{"classTitle": "car", "geometryType": "polygon", "tags": [],
                      "points": {"exterior": [[1, 2], [30, 2], [30, 40]], "interior": []}},
                     {"classTitle": "car", "geometryType": "bitmap", "tags": [],
                      "bitmap": {"data": "<a PNG, compressed by zlib, in base64>", "origin": [10, 20]}}]}

    Points are in pixels; the interior of a polygon is a list of holes. A data set called `train` or similar is a
    split. Objects and tags have a `labelerLogin`: several people complete each other, unless they drew the same object
    or gave the same tag. Source: https://developer.supervisely.com/getting-started/supervisely-annotation-format
    """

    name = "supervisely"
    title = "Supervisely's JSON"
    head = re.compile(rb'\{(?=(?s:.*)"(?:size|tags|description)"\s*:)(?s:.*)"objects"\s*:\s*\[')
    option_names = image_records.RecordLayout.option_names | {"annotator"}

    def recognise(self, options: layout.SourceOptions) -> str:
        """Recognises img/ beside ann/ with a JSON file of Supervisely in it."""
        is_project = not options.labels and all(map(_data_sets, options.images))
        return super().recognise(options) if is_project else ""

    def places(self, options: layout.SourceOptions) -> image_records.Places:
        images, labels, pairs = [], [], []
        for path in options.images:
            data_sets = _data_sets(path)
            if options.labels or not data_sets:
                raise errors.UsageError(
                    f"--layout {self.name} expects img/ beside ann/ in folders of --images {path}, and no --labels"
                )
            root = files.canonical(path)
            below = [glob.escape(f"{uri}/"[len(root) + 1 :]) for uri in data_sets]
            images.append(ImageRoot(root, tuple(f"{name}img/**" for name in below)))
            labels.append(ImageRoot(root, tuple(f"{name}ann/*.json" for name in below)))
            pairs += [Place(f"{uri}/ann", f"{uri}/img") for uri in data_sets]
        return tuple(images), tuple(labels), tuple(pairs)

    def labelled(self, entry: Any) -> Labelled:
        objects = members(entry, "objects")
        if not isinstance(objects, list):
            raise BadLabelError(f"{excerpt(entry)}: expected an object with a list of objects")
        by: dict[str, dict[str, Any]] = {}
        for kind in ("objects", "tags"):
            for each in entries.list_at(entry, kind):
                name = str(members(each, "labelerLogin") or "")
                by.setdefault(name, {**entry, "objects": [], "tags": []})[kind].append(each)
        pairs = combinations([self._stated(each) for each in by.values() if len(by) > 1], 2)
        if (self.annotator and by) or any(map(_overlap, pairs)):
            return entries.agreed(by.items(), self._stated, "annotations", self.annotator)
        return self._stated(entry)

    def _stated(self, entry: Any) -> Labelled:
        size = entries.size_of(*(members(entry, "size", side) for side in ("width", "height")))
        fields: dict[str, list[Any]] = {}
        for name, value in _tags(entry):
            fields.setdefault("tags" if value is None else name, []).append(value or name)
        return Labelled(*entries.objects_of(entry["objects"], self._object, "object"), fields, size)

    def _object(self, each: Any) -> LabelledObject | str:
        kind, label = entries.text_at(each, "geometryType"), entries.text_at(each, "classTitle")
        attributes = {name: 1 if value is None else value for name, value in _tags(each)}
        is_flat = kind in ("polygon", "rectangle")
        points = entries.points_at(each, "points", "exterior") if is_flat else []
        if kind == "bitmap":
            origin = entries.numbers(members(each, "bitmap", "origin"), "x and y", 2)
            data = members(each, "bitmap", "data")
            place = entries.drawn(entries.png_bitmap(data, origin, compressed=True))
        elif kind == "polygon":
            box, _ = entries.outlined(points)
            holes = entries.list_at(each, "points", "interior")
            # joined by lines that are there twice and so enclose nothing
            outline = [*points, *points[:2]] if holes else points
            for hole in (entries.points_at({"hole": hole}, "hole") for hole in holes):
                outline += [*hole, *hole[:2], *points[:2]]
            place = box, outline
        elif kind == "rectangle":
            xs, ys = sorted(entries.numbers(points, "two corners", 4)[::2]), sorted(points[1::2])
            place = (xs[0], ys[0], xs[1], ys[1]), ()
        else:
            return kind
        return LabelledObject(label, *place, attributes)


def _overlap(people: tuple[Labelled, Labelled]) -> bool:
    """True if two people answered one question, or drew one object: most of the area of two boxes of a class is common."""
    a, b = (
        {(k, v) if k == "tags" else k for k, vs in e.fields.items() for v in vs} for e in people
    )
    return bool(a & b) or any(
        one.label == two.label and entries.common_part(one.box, two.box) > _MOST
        for one, two in product(*(each.objects for each in people))
    )


def _data_sets(path: str) -> list[str]:
    """The folders in a path with images and label files, also nested ones; none unless the first ones have them."""
    root = files.canonical(path)
    folders = (root, *tree.subfolders(root))
    if not any(map(_is_data_set, folders[:6])):
        return []
    data_sets = [*filter(_is_data_set, folders)]
    return [*data_sets, *(inner for each in data_sets for inner in _data_sets(f"{each}/datasets"))]


def _is_data_set(folder: str) -> bool:
    return all(tree.has_folder(f"{folder}/{name}") for name in ("img", "ann"))


def _tags(entry: Any) -> list[tuple[str, Any]]:
    """(name, value) of each tag; the value is None for a tag without values."""
    tags = entries.list_at(entry, "tags")
    return [(entries.text_at(tag, "name"), members(tag, "value")) for tag in tags]
