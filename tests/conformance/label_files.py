"""Files of labels that are no tables, each read by its layout's reader: rows, problems and dead letters, word for word.

A line of rows/label_files.txt is a file: its reader, a name, and the words of which a generator of texts.py makes it.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from beam_pipeline.core import errors, references
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.labels.schema import ColumnKind, further_column, label_column
from beam_pipeline.layouts import coco_tasks, kitti, label_files, voc, yolo
from beam_pipeline.layouts.automl import Automl
from beam_pipeline.layouts.coco_file import CocoReader
from beam_pipeline.layouts.image_records import RecordColumns, RecordReader
from beam_pipeline.layouts.label_tools import Hasty
from tests.conformance import texts

_URI = "/d/a.txt"


class Reader(Protocol):
    """What a layout reads its files with."""

    def read(self, file: Any, uri: str, /) -> Iterator[references.LabelRow | DeadLetter]:
        """Yields rows and dead letters."""


@dataclass(frozen=True)
class LabelFile:
    """A file and its reader."""

    reader: Reader
    content: str | bytes

    def outcome(self) -> dict[str, Any]:
        """Its rows, or the error."""
        data = self.content.encode() if isinstance(self.content, str) else self.content
        try:
            rows = [*map(_row, self.reader.read(io.BytesIO(data), _URI))]
        except errors.ConversionError as error:
            return {"file": repr(data)[1:120], "error": str(error)}
        return {"file": repr(data)[1:120], "rows": rows}


def _row(row: references.LabelRow | DeadLetter) -> str:
    if isinstance(row, DeadLetter):
        return f"{row.line} {row.key} {row.reason}: {row.message}"
    facts = (row.split, row.size and f"{row.size[0]} x {row.size[1]}", row.problem)
    return " | ".join([f"{row.line} {row.name} {row.values}", *filter(None, facts)])


def _of_an_image(lines: Any) -> Reader:
    return label_files.LabelFileReader(lines, (label_files.Place("/d", bare=True),))


_NAMED = {0: "cat", 1: "dog", 5: "owl"}
_FIELDS = (further_column("location", ColumnKind.BYTES),)
_YOLO = (
    *(yolo.LineFormat(names=_NAMED), yolo.LineFormat()),
    *(yolo.LineFormat("segment", _NAMED, masks=masks) for masks in (False, True)),
    *(yolo.LineFormat("pose", _NAMED, 2, each) for each in (3, 2)),
    *(yolo.LineFormat("pose", None, 17, 3), yolo.LineFormat("obb", _NAMED)),
)
_CLASS = label_column("label", ColumnKind.CLASS)
READERS: Mapping[str, Reader] = {
    "VOC": _of_an_image(voc.VocFormat()),
    "KITTI": _of_an_image(kitti.KittiFormat()),
    **{f"YOLO {number}": _of_an_image(lines) for number, lines in enumerate(_YOLO)},
    "COCO": CocoReader(coco_tasks.Instances(), {_URI: "test"}, {_URI: "/coco/val2017"}),
    "COCO's captions": CocoReader(coco_tasks.Captions(), {_URI: "test"}),
    "COCO's classes": CocoReader(coco_tasks.Classes(all_images=False)),
    "COCO's classes of all images": CocoReader(coco_tasks.Classes(_FIELDS, all_images=True)),
    "COCO's lists of classes": CocoReader(coco_tasks.Classes(all_images=False, several=True)),
    "AutoML's classes": RecordReader(Automl(boxes=False), RecordColumns(_CLASS, pixels=False)),
    "Hasty's classes": RecordReader(
        Hasty(), RecordColumns(label_column("tags", ColumnKind.CLASS), pixels=True)
    ),
    "AutoML's boxes": RecordReader(Automl(boxes=True), RecordColumns(None, pixels=False)),
}

ROWS = texts.by_name(
    (f"{reader}, {name}", LabelFile(READERS[reader], texts.generated(_URI, made)))
    for reader, name, made in texts.lines_of("label_files")
)
