"""Ultralytics' NDJSON: a line for the data set, then a line for each image.

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

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, BinaryIO, ClassVar

from beam_pipeline.core.listing.folders import SPLIT_NAMES
from beam_pipeline.core.references import SPLIT_NAME
from beam_pipeline.core.text import excerpt
from beam_pipeline.layouts import entries
from beam_pipeline.layouts.entries import Labelled, LabelledObject
from beam_pipeline.layouts.image_records import NumberedFormat, RecordLayout
from beam_pipeline.layouts.label_files import BadLabelError, opened

_BOX = 5  # numbers
_OBJECTS = {"boxes": (_BOX, _BOX), "segments": (7, 0), "pose": (_BOX, 0), "obb": (9, 9)}
"""Member of annotations -> the least and the most numbers of an object; 0 for any."""


@dataclass(frozen=True)
class UltralyticsFormat(NumberedFormat):
    """Lines of images."""

    title: ClassVar[str] = "Ultralytics' NDJSON"
    head: ClassVar[re.Pattern[bytes]] = re.compile(
        rb'\{[^\n]*"type"\s*:\s*"dataset"[^\n]*"class_names"\s*:'
    )
    extensions: ClassVar[tuple[str, ...]] = (".ndjson",)
    pixels: ClassVar[bool] = False

    def class_names(self, uri: str) -> dict[int, str]:
        with opened(uri) as file:
            _, header = next(entries.json_lines(file), (1, None))
        try:
            names = entries.mapping_at(header, "class_names")
            return {int(i): entries.text_at(names, i) for i in names}
        except ValueError as error:
            raise entries.broken(uri, f"class_names: {error}") from error

    def entries(self, file: BinaryIO, uri: str) -> Iterator[tuple[int, Any]]:
        """Yields the lines without the first."""
        return islice(entries.json_lines(file), 1, None)

    def image_name(self, entry: Any) -> str:
        return entries.text_at(entry, "file")

    def labelled(self, entry: Any) -> Labelled:
        given = entries.mapping_at(entry, "annotations")
        lists = {kind: entries.list_at(given, kind) for kind in given}
        split = entries.text_at(entry, "split") if "split" in entry else ""
        if split and not SPLIT_NAME.fullmatch(split):
            raise BadLabelError(f"split {excerpt(split)}: expected a word, such as train or val")
        classes = [self.class_of(number) for number in lists.pop("classification", [])]
        return Labelled(
            [
                self._object(kind, annotation)
                for kind in _OBJECTS
                for annotation in lists.pop(kind, [])
            ],
            {"class": classes} if classes else {},
            entries.size_of(entry.get("width"), entry.get("height")),
            SPLIT_NAMES.get(split.lower(), split),
            [kind for kind, values in lists.items() for _ in values],
        )

    def _object(self, kind: str, annotation: Any) -> LabelledObject:
        values = entries.numbers(annotation, "a list of numbers")
        least, most = _OBJECTS[kind]
        if len(values) < least or 0 < most < len(values):
            expected = f"{least} numbers{'' if most else ' or more'}"
            raise BadLabelError(f"{kind}: {excerpt(annotation)}, expected {expected}")
        label = self.class_of(values[0])
        if kind in ("segments", "obb"):
            return entries.outlined(label, values[1:])
        x, y, width, height = values[1:_BOX]
        points = {"keypoints": list(values[_BOX:])} if kind == "pose" else {}
        return entries.boxed(label, (x - width / 2, y - height / 2, width, height), points)


class Ultralytics(RecordLayout):
    """A data set of Ultralytics' platform, exported as NDJSON."""

    name = "ultralytics"
    format = UltralyticsFormat()
