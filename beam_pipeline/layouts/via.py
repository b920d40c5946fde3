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
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby, islice
from typing import Any, BinaryIO, ClassVar

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.json_file import JsonFile, JsonFileError
from beam_pipeline.core.labels.box_columns import ONLY_CLASS
from beam_pipeline.core.text import excerpt, quoted
from beam_pipeline.layouts import entries
from beam_pipeline.layouts.entries import Labelled, LabelledObject, members
from beam_pipeline.layouts.heads import allow_long_cells
from beam_pipeline.layouts.image_records import RecordFormat, RecordLayout
from beam_pipeline.layouts.label_files import BadLabelError, opened
from beam_pipeline.layouts.layout import Source, SourceOptions
from beam_pipeline.layouts.object_shapes import ellipse, objects_of
from beam_pipeline.layouts.paths import label_files

_CSV = ".csv"
_NOT_IMAGES = ("_via_settings", "_via_attributes", "_via_data_format_version", "_via_image_id_list")
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
        rb'(?:\{\s*"(?:_via_|[^"]*"\s*:\s*\{\s*"(?:filename|fileref)"\s*:)'
        rb'|#?"?filename"?,\s*"?file_size"?,\s*"?file_attributes)'
    )
    extensions: ClassVar[tuple[str, ...]] = (".json", _CSV)
    attribute: str = ""

    def entries(self, file: BinaryIO, uri: str) -> Iterator[tuple[int, Any]]:
        return _rows(file, uri) if uri.lower().endswith(_CSV) else _members(file, uri)

    def image_name(self, entry: Any) -> str:
        return entries.text_at(entry, "filename")

    def labelled(self, entry: Any) -> Labelled:
        regions, count = _regions(entry), entry.get(_COUNT)
        if count is not None and count != str(len(regions)):
            rows = f"the image has {len(regions)} rows one after the other"
            raise BadLabelError(f"{_COUNT} is {excerpt(count)}, but {rows}")
        objects, left_out = objects_of(regions, self._object, "region")
        return Labelled(objects, _attributes(members(entry, _FILE)), left_out=left_out)

    def _object(self, region: Any) -> LabelledObject | str:
        shape = entries.mapping_at(region, "shape_attributes")
        kind = str(shape.get("name"))
        if kind in _LEFT_OUT:
            return _LEFT_OUT[kind]
        attributes = entries.one_or_all(_attributes(members(region, _REGION)))
        label = entries.text_at(attributes, self.attribute) if self.attribute else ONLY_CLASS
        attributes.pop(self.attribute, None)
        if kind == "rect":
            return entries.boxed(label, _numbers(shape, "x", "y", "width", "height"), attributes)
        if kind in ("circle", "ellipse"):
            round_shape = {"rx": shape.get("r"), "ry": shape.get("r"), "theta": 0, **shape}
            *sides, angle = _numbers(round_shape, "cx", "cy", "rx", "ry", "theta")
            return ellipse(label, sides, angle, attributes)
        if kind != "polygon":
            raise BadLabelError(f"{excerpt(shape)}: expected the shape of a rect or polygon")
        xs, ys = (entries.numbers(shape.get(f"all_points_{axis}"), "numbers") for axis in "xy")
        if len(xs) != len(ys):
            raise BadLabelError(f"a polygon of {len(xs)} x and {len(ys)} y")
        points = [value for point in zip(xs, ys, strict=True) for value in point]
        return entries.outlined(label, points, attributes)


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
        there: set[str] = set()
        for uri in label_files(options.labels or self._paths(options)):
            with opened(uri) as file:
                for _, entry in islice(self.format.entries(file, uri), _LOOKED_AT):
                    regions = entry.get("regions") if isinstance(entry, dict) else ()
                    for region in regions.values() if isinstance(regions, dict) else regions or ():
                        there.update(_attributes(members(region, _REGION)))
        usual = [name for name in there if name.lower() in _USUAL]
        names = usual if len(usual) == 1 else sorted(there)
        if options.label_column in there:
            names, options = [options.label_column], replace(options, label_column="")
        if len(names) > 1:
            reason = "which attribute is the class of a region? Give --label_column, one of"
            raise UsageError(f"{reason} {quoted(names)}")
        self.format = replace(self.format, attribute="".join(names))
        return super().open(options)


def _members(file: BinaryIO, uri: str) -> Iterator[tuple[int, Any]]:
    document = JsonFile(file)
    try:
        for key, value in document.items(("_via_img_metadata",)):
            if key not in _NOT_IMAGES:
                yield document.line, value
    except JsonFileError as error:
        raise entries.broken(uri, error) from error


def _rows(file: BinaryIO, uri: str) -> Iterator[tuple[int, Any]]:
    """Yields the image of each run of rows with one file name, as in VIA's JSON."""
    allow_long_cells()
    rows = csv.DictReader(line.decode("utf-8-sig").removeprefix("#") for line in file)
    numbered = ((rows.line_num, row) for row in rows)
    try:
        for name, of_image in groupby(numbered, lambda pair: pair[1].get("filename")):
            (line, first), *further = of_image
            regions = [
                {"shape_attributes": _parsed(row.get(_SHAPE)), _REGION: _parsed(row.get(_REGION))}
                for row in (first, *(row for _, row in further))
                if row.get(_COUNT) != "0"
            ]
            about = {_FILE: _parsed(first.get(_FILE)), _COUNT: first.get(_COUNT)}
            yield line, {"filename": name, "regions": regions, **about}
    except (UnicodeDecodeError, csv.Error) as error:
        raise entries.broken(uri, f"after line {rows.line_num}: {error}") from error


def _parsed(cell: Any) -> Any:
    """A cell's JSON; other cells stay as they are."""
    try:
        return json.loads(cell)
    except (TypeError, ValueError, RecursionError):
        return cell


def _regions(entry: Any) -> list[Any]:
    regions = entry.get("regions")
    return [*regions.values()] if isinstance(regions, dict) else entries.list_at(entry, "regions")


def _attributes(given: Any) -> dict[str, list[Any]]:
    """Name -> values of the attributes that are not empty; a list of checkboxes has those that are set."""
    values = {
        name: [key for key, is_set in value.items() if is_set]
        if isinstance(value, dict)
        else [value] * (value not in ("", None))
        for name, value in (given.items() if isinstance(given, dict) else ())
    }
    return {name: each for name, each in values.items() if each}


def _numbers(shape: Any, *names: str) -> tuple[float, ...]:
    given = [members(shape, name) for name in names]
    return entries.numbers(given, f"numbers as {', '.join(names)}", len(names))
