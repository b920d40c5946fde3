"""VGG Image Annotator (VIA) 1 and 2: a project or exported annotations in JSON, or a CSV with a row for each region.

    {"_via_img_metadata": {"1.jpg58841": {"filename": "1.jpg", "size": 58841, "file_attributes": {"place": "yard"},
      "regions": [{"shape_attributes": {"name": "rect", "x": 1, "y": 2, "width": 29, "height": 38},
                   "region_attributes": {"name": "car", "colour": {"red": true}}}]}}, ...}

    filename,file_size,file_attributes,region_count,region_id,region_shape_attributes,region_attributes
    1.jpg,58841,"{""place"":""yard""}",1,0,"{""name"":""rect"",""x"":1,...}","{""name"":""car""}"

Exported JSON has only the object inside of `_via_img_metadata`; in VIA 1, `regions` is an object. Points are in pixels;
`theta` is in radians. The person who labels names the attributes, so that the class may be in any of them. Source:
https://gitlab.com/vgg/via
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, BinaryIO, ClassVar

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.json_file import JsonFile, JsonFileError
from beam_pipeline.core.labels.box_columns import ONLY_CLASS
from beam_pipeline.core.text import excerpt, quoted
from beam_pipeline.layouts.entries import (
    Labelled,
    LabelledObject,
    boxed,
    broken,
    members,
    numbers,
    one_or_all,
    outlined,
    text_at,
)
from beam_pipeline.layouts.heads import allow_long_cells
from beam_pipeline.layouts.image_records import RecordFormat, RecordLayout
from beam_pipeline.layouts.label_files import BadLabelError, opened
from beam_pipeline.layouts.layout import Source, SourceOptions
from beam_pipeline.layouts.object_shapes import ellipse
from beam_pipeline.layouts.paths import label_files

_CSV, _IMAGES = ".csv", "_via_img_metadata"
_OF_A_PROJECT = frozenset(
    ["_via_settings", "_via_attributes", "_via_data_format_version", "_via_image_id_list"]
)
_FILE, _COUNT = "file_attributes", "region_count"
_SHAPE, _REGION = "region_shape_attributes", "region_attributes"
_LOOKED_AT = 10_000  # images, before the job starts
_USUAL = ("class", "label", "category", "name", "type", "object")
_LEFT_OUT = {"point": "point", "polyline": "line"}


@dataclass(frozen=True)
class ViaFormat(RecordFormat):
    """Images with their regions.

    Attributes:
      attribute: the attribute of regions that is their class; empty if they have none.
    """

    title: ClassVar[str] = "VIA's annotations"
    head: ClassVar[re.Pattern[bytes]] = re.compile(
        rb'(?:\xef\xbb\xbf)?\s*(?:\{\s*"(?:_via_|[^"]*"\s*:\s*\{\s*"(?:filename|fileref)"\s*:)'
        rb'|#?"?filename"?,\s*"?file_size"?,\s*"?file_attributes)'
    )
    extensions: ClassVar[tuple[str, ...]] = (".json", _CSV)
    attribute: str = ""

    def entries(self, file: BinaryIO, uri: str) -> Iterator[tuple[int, Any]]:
        return _rows(file, uri) if uri.lower().endswith(_CSV) else _members(file, uri)

    def image_name(self, entry: Any) -> str:
        return text_at(entry, "filename")

    def labelled(self, entry: Any) -> Labelled:
        objects, left_out = [], []
        regions, count = _regions(entry), entry.get(_COUNT)
        if not isinstance(entry.get("regions"), (list, dict)):
            raise BadLabelError(f"regions are {excerpt(entry.get('regions'))}, expected a list")
        if count is not None and count != str(len(regions)):
            raise BadLabelError(
                f"{_COUNT} is {excerpt(count)}, but the image has {len(regions)} rows one after the other"
            )
        for number, region in enumerate(regions):
            shape = members(region, "shape_attributes")
            kind = str(members(shape, "name"))
            try:
                if kind in _LEFT_OUT:
                    left_out.append(_LEFT_OUT[kind])
                else:
                    objects.append(self._object(shape, members(region, _REGION)))
            except BadLabelError as error:
                raise BadLabelError(f"region {number}: {error}") from error
        return Labelled(objects, _attributes(members(entry, _FILE)), left_out=left_out)

    def _object(self, shape: Any, given: Any) -> LabelledObject:
        attributes = one_or_all(_attributes(given))
        label = text_at(attributes, self.attribute) if self.attribute else ONLY_CLASS
        attributes.pop(self.attribute, None)
        kind = members(shape, "name")
        if kind == "rect":
            return boxed(label, _numbers(shape, "x", "y", "width", "height"), attributes)
        if kind == "circle":
            x, y, radius = _numbers(shape, "cx", "cy", "r")
            return ellipse(label, (x, y, radius, radius), 0, attributes)
        if kind == "ellipse":
            (angle,) = _numbers({"theta": 0, **shape}, "theta")
            return ellipse(label, _numbers(shape, "cx", "cy", "rx", "ry"), angle, attributes)
        if kind == "polygon":
            xs, ys = (
                numbers(shape.get(f"all_points_{axis}"), "a list of numbers") for axis in "xy"
            )
            if len(xs) != len(ys):
                raise BadLabelError(f"a polygon of {len(xs)} x and {len(ys)} y")
            points = [value for point in zip(xs, ys, strict=True) for value in point]
            return outlined(label, points, attributes)
        raise BadLabelError(f"{excerpt(shape)}: expected the shape_attributes of a rect or polygon")


class Via(RecordLayout):
    """Projects and annotations of the VGG Image Annotator."""

    name = "via"
    format = ViaFormat()

    def _paths(self, options: SourceOptions) -> list[str]:
        """See `RecordLayout`. A CSV beside a JSON file contains the same."""
        paths = super()._paths(options)
        json_files = [path for path in paths if not path.lower().endswith(_CSV)]
        return paths if options.labels else json_files or paths

    def open(self, options: SourceOptions) -> Source:
        """Finds the attribute of regions that is their class; --label_column may name it."""
        counts: Counter[str] = Counter()
        for uri in label_files(options.labels or self._paths(options)):
            with opened(uri) as file:
                for _, entry in islice(self.format.entries(file, uri), _LOOKED_AT):
                    for region in _regions(entry):
                        counts.update(_attributes(members(region, _REGION)).keys())
        usual = [name for name in counts if name.lower() in _USUAL]
        names = usual if len(usual) == 1 else sorted(counts)
        if options.label_column in counts:
            names, options = [options.label_column], replace(options, label_column="")
        if len(names) > 1:
            raise UsageError(
                f"which attribute is the class of a region? Give --label_column, one of {quoted(names)}"
            )
        self.format = replace(self.format, attribute="".join(names))
        return super().open(options)


def _members(file: BinaryIO, uri: str) -> Iterator[tuple[int, Any]]:
    document = JsonFile(file)
    try:
        for key, value in document.items((_IMAGES,)):
            if key not in _OF_A_PROJECT:
                yield document.line, value
    except JsonFileError as error:
        raise broken(uri, error) from error


def _rows(file: BinaryIO, uri: str) -> Iterator[tuple[int, Any]]:
    """Yields the image of each run of rows of one file name, as in VIA's JSON."""
    allow_long_cells()
    rows = csv.DictReader(line.decode("utf-8-sig") for line in file)
    image: dict[str, Any] = {}
    line = start = 2
    try:
        for row in rows:
            name = row.get("filename") or row.get("#filename")
            if image and name != image["filename"]:
                yield start, image
                image = {}
            if not image:
                file_attributes = _parsed(row.get(_FILE))
                start = line
                image = {"filename": name, _FILE: file_attributes, _COUNT: row.get(_COUNT)}
                image["regions"] = []
            if row.get(_COUNT) != "0":
                region = {"shape_attributes": _parsed(row.get(_SHAPE))}
                image["regions"].append({**region, _REGION: _parsed(row.get(_REGION))})
            line = rows.line_num + 1
    except (UnicodeDecodeError, csv.Error) as error:
        raise broken(uri, f"line {line}: {error}") from error
    if image:
        yield start, image


def _parsed(cell: Any) -> Any:
    """A cell's JSON; other cells stay as they are."""
    try:
        return json.loads(cell)
    except (TypeError, ValueError, RecursionError):
        return cell


def _regions(entry: Any) -> list[Any]:
    regions = members(entry, "regions")
    if isinstance(regions, dict):
        regions = list(regions.values())
    return regions if isinstance(regions, list) else []


def _attributes(given: Any) -> dict[str, list[Any]]:
    """Name -> values of the attributes that are not empty; a list of checkboxes has those that are set."""
    items = given.items() if isinstance(given, Mapping) else ()
    values = {
        name: [key for key, is_set in value.items() if is_set]
        if isinstance(value, dict)
        else [value]
        for name, value in items
        if value not in ("", None)
    }
    return {name: each for name, each in values.items() if each}


def _numbers(shape: Any, *names: str) -> tuple[float, ...]:
    given = [members(shape, name) for name in names]
    return numbers(given, f"numbers as {', '.join(names)}", len(names))
