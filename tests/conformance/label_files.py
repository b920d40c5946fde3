"""Files of labels that are no tables, each read by its layout's reader: rows, problems and dead letters, word for word."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from beam_pipeline.core import errors, references
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.labels.schema import ColumnKind, further_column, label_column
from beam_pipeline.layouts import coco_tasks, kitti, label_files, voc, yolo
from beam_pipeline.layouts.automl import SETS, Automl
from beam_pipeline.layouts.coco_file import CocoReader
from beam_pipeline.layouts.image_records import RecordColumns, RecordReader
from tests.layouts.data_sets import CAR, DONT_CARE
from tests.layouts.make_coco import entry, instances, one, with_changes
from tests.layouts.make_voc import BOX, CAT, labelimg_xml


class Reader(Protocol):
    """What a layout reads its files with."""

    def read(self, file: Any, uri: str, /) -> Iterator[references.LabelRow | DeadLetter]:
        """Yields rows and dead letters."""


@dataclass(frozen=True)
class LabelFile:
    """A file and its reader."""

    reader: Reader
    content: str | bytes
    uri: str = "/d/a.txt"

    def outcome(self) -> dict[str, Any]:
        """Its rows, or the error."""
        data = self.content.encode() if isinstance(self.content, str) else self.content
        try:
            rows = [*map(_row, self.reader.read(io.BytesIO(data), self.uri))]
        except errors.ConversionError as error:
            return {"file": repr(data)[1:120], "error": str(error)}
        return {"file": repr(data)[1:120], "rows": rows}


def _row(row: references.LabelRow | DeadLetter) -> str:
    if isinstance(row, DeadLetter):
        return f"{row.line} {row.key} {row.reason}: {row.message}"
    facts = (row.split, row.size and f"{row.size[0]} x {row.size[1]}", row.problem)
    return " | ".join([f"{row.line} {row.name} {row.values}", *filter(None, facts)])


def _files(kind: str, reader: Reader, contents: Mapping[str, str | bytes]) -> dict[str, LabelFile]:
    return {f"{kind}, {name}": LabelFile(reader, text) for name, text in contents.items()}


def _numbered(contents: Iterable[str | bytes]) -> dict[str, str | bytes]:
    return {f"{number:02}": content for number, content in enumerate(contents, 1)}


def _of_an_image(lines: Any) -> Reader:
    return label_files.LabelFileReader(lines, (label_files.Place("/d", bare=True),))


# --- Pascal VOC

_ENTITIES = (f'<!ENTITY {chr(i + 1)} "{f"&{chr(i)};" * 10}">\n' for i in range(97, 106))
_TWO_WORDS = CAT.replace(">cat<", ">Kätzchen &amp; &#x732b;<")
_TERSE = (
    "<annotation><object><name>cat</name><bndbox><xmin>1</xmin><ymin>2</ymin><xmax>3</xmax>"
    "<ymax>4</ymax></bndbox></object></annotation>"
)
_ODD = (
    '<?xml version="1.0" encoding="utf-8"?><annotation verified="yes"><source><annotation>x'
    "</annotation><object>no</object></source><object><bndbox><ymax> 4 </ymax><xmax>3.0</xmax>"
    "<ymin>2</ymin><xmin>1</xmin></bndbox><name>\n cat </name><pose/><truncated></truncated>"
    "<part><name>ear</name><bndbox><xmin>9</xmin></bndbox></part></object></annotation>"
)
VOC: Mapping[str, str | bytes] = {
    "sound": CAT,
    "a bomb": '<?xml version="1.0"?>\n<!DOCTYPE annotation [\n<!ENTITY a "boom">\n'
    f"{''.join(_ENTITIES)}]>\n<annotation><filename>&j;</filename></annotation>\n",
    "an entity of a file": f'<!DOCTYPE annotation [<!ENTITY x SYSTEM "file:///etc/passwd">]>\n{CAT}',
    "a DTD": f'\n<!DOCTYPE annotation SYSTEM "http://localhost:1/voc.dtd">\n{CAT}',
    "cut": CAT[:60],
    "mismatched": CAT.replace("</name>", "</nam>"),
    "empty": "",
    "an undefined entity": CAT.replace(">cat<", ">&cat;<"),
    "Latin-1": CAT.replace(">cat<", ">ch\xeane<").encode("latin-1"),
    "GB 2312": f'<?xml version="1.0" encoding="gb2312"?>\n{CAT}',
    "another root": "<annotations/>\n",
    "no name": CAT.replace("<name>cat</name>", "<name/>"),
    "two names": CAT.replace("<name>cat</name>", "<name>cat</name><name>dog</name>"),
    "a polygon": CAT.replace("bndbox>", "polygon>"),
    "two boxes": CAT.replace("\t</object>", "\t\t<bndbox/>\n\t</object>"),
    "the second object": labelimg_xml(
        "a.jpg", (100, 50), [("cat", BOX), ("dog", ("1", "2", "x", "4"))]
    ),
    "no ymin": CAT.replace("\t\t\t<ymin>20</ymin>\n", ""),
    **{f"the side {side}": CAT.replace(">30<", f">{side}<") for side in ("nan", "-inf", "1e39")},
    "no flag": CAT.replace("<difficult>0", "<difficult>no"),
    **{f"terse in {code}": _TERSE.encode(code) for code in ("utf-8", "utf-8-sig")},
    **{f"odd in {code}": _ODD.encode(code) for code in ("utf-8", "utf-8-sig")},
    "UTF-16": _TWO_WORDS.encode("utf-16"),
}

# --- KITTI

_BAD_CARS = (
    *(
        CAR.rpartition(" ")[0],
        f"{CAR} 0.97",
        CAR.replace("10.00", "ten"),
        CAR.replace("14.20", "nan"),
    ),
    *(CAR.replace("40.00", "inf"), CAR.replace("1.33", "1e39"), CAR.replace("40.00", "4_0")),
    *(CAR.replace(" 0 ", " 0.5 "), DONT_CARE.format("1 2 3 x")),
)
KITTI: Mapping[str, str | bytes] = {
    "sound": f"{DONT_CARE.format('1 2 3 4')}\n{CAR}\n",
    "lower case": DONT_CARE.format("1 2 3 4").lower(),
    **_numbered(f"{CAR}\n\n{line}" for line in _BAD_CARS),
    "Latin-1": f"{CAR}\n\n".encode() + CAR.replace("Car", "V\xe9lo").encode("latin-1"),
    "UTF-16": f"{CAR}\n".encode("utf-16"),
    "a number in Latin-1": f"{CAR}\n\n".encode() + CAR.encode().replace(b"20.00", b"\xb2"),
    "two cars": f"{CAR}\n{CAR}\n",
    "Windows": f"{CAR}\r\n{CAR}\r\n",
    "blanks behind": f"{CAR}   \n{CAR}",
    "a byte order mark": f"\ufeff{CAR}\n{CAR}\n",
    "old Macs": f"{CAR}\r{CAR}\r",
    "tabs": f"{CAR}\n{CAR}\n".replace(" ", "\t"),
    "blanks before": f"  {CAR}\n{CAR}\n",
}

# --- YOLO

NAMED = {0: "cat", 1: "dog", 5: "owl"}
YOLO: Sequence[tuple[yolo.LineFormat, Sequence[str | bytes]]] = (
    (
        yolo.LineFormat(names=NAMED),
        (b"\xef\xbb\xbf5 0.5 0.5 0.25 0.5\r\n\r\n0.0 0.25 0.125 0.5 0.25\n", "\n2 0 0 1 1"),
    ),
    (
        yolo.LineFormat(),
        (
            *("7 0.5 0.5 1 1", "", "\n \n", b"\xef\xbb\xbf"),
            *("\n0 0.1 0.2 0.3", "\n0 0.1 0.2 0.3 0.4 0.9", "\n0 0.1 0.2 0.3 0.4 0.1 0.2"),
            *("\n0 0 0 1 0 1 1 0 1", "\ncat 0 0 1 1", "\n-1 0 0 1 1", "\n0.5 0 0 1 1"),
            *(b"\n0 0 0 1 x\xff", "\n0 0 0 1 nan", "\n0 0 0 1 1e999"),
        ),
    ),
    *(
        (yolo.LineFormat("segment", NAMED, masks=masks), ("1 0.1 0.5 0.3 0.25 0.2 0.75\n0 0.5 0.5 0.5 0.5\n", "\n0 0 0 1 0 1 1 0"))
        for masks in (False, True)
    ),
    (
        yolo.LineFormat("pose", NAMED, 2, 3),
        ("0 0.5 0.5 1 1 0.1 0.2 2 0 0 0\n0 0.5 0.5 0.5 0.5 0.3 0.4 1 0.5 0.6 2.000\n", ""),
    ),
    (yolo.LineFormat("pose", NAMED, 2, 2), ("0 0.5 0.5 1 1 0.1 0.2 -1 -1",)),
    (yolo.LineFormat("pose", None, 17, 3), ("\n0 0 0 1 1",)),
    (yolo.LineFormat("obb", NAMED), ("0 0.5 0.1 0.9 0.5 0.5 0.9 0.1 0.5", "\n0 0 0 1 1")),
)  # fmt: skip

# --- COCO

_INSTANCES = CocoReader(coco_tasks.Instances(), {"/d/a.txt": "test"}, {"/d/a.txt": "/coco/val2017"})
_BAD_BOXES = ([1, 2, 3], [1, 2, "3", 4], [1, 2, 3, None], [1, 2, 3, float("nan")], [1, 2, 3, True])
_BAD_BOXES = (*_BAD_BOXES, [1, 2, 3, 10**400], None, ...)
CHANGES: Sequence[Mapping[str, Any]] = (
    *({"bbox": box} for box in _BAD_BOXES),
    *({"category_id": category} for category in (2, "18", ..., 2**63)),
    *({"area": area} for area in ("much", float("inf"), float("nan"))),
    *({"iscrowd": crowd} for crowd in (2, [])),
)
_IMAGES = [entry(), entry("b.jpg", 285)]
_THREE = [one(image_id=285, id=1), one(id=2), one(image_id=285, id=3, category_id=90)]
COCO: Mapping[str, str | bytes] = {
    **{
        f"with the changed {' '.join(change)} {number}": with_changes(
            images=_IMAGES, annotations=[one(), one(**change, id=8), one(image_id=285, id=9)]
        )
        for number, change in enumerate(CHANGES)
    },
    "objects of three images": instances([*_IMAGES, entry("c.jpg", 1)], _THREE),
    "no annotations": instances([entry()], []),
    "no images": with_changes(images=...),
    "neither images nor annotations": with_changes(annotations=..., images=...),
    "an object of images": with_changes(images={"1": "a.jpg"}),
    "annotations that are null": with_changes(annotations=None),
    "segments": with_changes(annotations=[{"id": 1, "image_id": 139, "segments_info": []}]),
    "no boxes": with_changes(annotations=[{"id": 1, "image_id": 139, "category_id": 1}]),
    "two lists": '{"images": [], "annotations": [], "categories": [{"id": 1, "name": "a"}], "images": []}',
}


def _captions(*captions: tuple[Any, Any]) -> str:
    images = [
        {"id": 5, "file_name": "a.jpg", "width": 9, "height": 7},
        {"id": 6, "file_name": "b.jpg"},
    ]
    annotations = [{"image_id": i, "id": 1, "caption": text} for i, text in captions]
    return json.dumps({"images": images, "annotations": annotations})


CAPTIONS = {
    "two": _captions((5, "One."), (5, "Two, grün.")),
    "faults": _captions((5, 3), (5, "One."), (True, "x"), (9, "x")),
    "no annotations": '{"images": []}',
}
_OF_IMAGES = [{"id": 0, "name": "empty"}, {"id": 10, "name": "deer"}, {"id": 3, "name": "fox"}]


def _classes(images: str, *annotations: tuple[int, Any], **fields: Any) -> str:
    entries = [{"id": i, "file_name": f"{name}.jpg"} for i, name in enumerate(images.split(), 1)]
    found = [{"id": f"{i}-{c}", "image_id": i, "category_id": c} for i, c in annotations]
    lists = {"annotations": found, "categories": _OF_IMAGES}
    return json.dumps({"images": [{**entries[0], **fields}, *entries[1:]], **lists})


_SEVERAL = _classes("a b", (1, 10), (1, 0), (1, 10), (1, 3), (2, 3))
_TWO_OF_ONE_ID = _classes("a b c d e", (1, 99), (2, "fox"), (3, 0), (4, 0)).replace(
    '"id": 5', '"id": 4'
)
_KEPT = coco_tasks.Classes((further_column("location", ColumnKind.BYTES),), all_images=True)

# --- AutoML


def _automl(*, boxes: bool = False, several: bool = False) -> Reader:
    label = None if boxes else replace(label_column("label", ColumnKind.CLASS), repeated=several)
    return RecordReader(Automl(boxes=boxes), RecordColumns(label, pixels=False))


_WORDS = [*SETS, "train", "Validation", "unassigned"]
AUTOML_CLASSES = {
    "sets": "".join(f"{word},gs://b/{i}.jpg, daisy \n" for i, word in enumerate(_WORDS)),
    "no sets": "gs://b/a,daisy\nfolder/b.jpg,rose\n",
    "not as the beginning": "TRAIN,gs://b/a.jpg,,\nTRAIN,gs://b/b.jpg,x,y\nTRAIN,gs://b/c.jpg,x,.1,.2,,,.3,.4\n",
    "another set": "HOLDOUT,gs://b/a.jpg,cat\n",
    "no image": "cat,dog\nTRAIN\nTRAIN,,cat\na\nTRAIN,gs://b/a.jpg,cat\n",
    "an open quote": 'TRAIN,gs://b/a.jpg,cat\nTRAIN,"gs://b/b.jpg,cat\n',
}
_CELLS = (
    *("car,0.1,0.2,,,0.5,0.6,,", "bus,0.1,0.2,,,0.5,0.6", "car,0.1,0.2,0.5,0.6"),
    *("car,0.5,0.6,,,0.1,0.2,,", "car,0.1,0.2,0.5,0.2,0.5,0.6,0.1,0.6"),
    *("car,0.5,0.6,0.1,0.6,0.1,0.2,0.5,0.2", "car,0.1,0.4,0.3,0.2,0.5,0.4,0.3,0.6"),
    *(
        "",
        ",,,,,,,,,",
        "car",
        ",0.1,0.2,,,0.5,0.6,,",
        "car,0.1,x,,,0.5,0.6,,",
        "car,0.1,,,,0.5,0.6,,",
    ),
    *("car,0.1,nan,,,0.5,0.6,,", "car,0.1,1e999,,,0.5,0.6,,", "car,0.1,0_1,,,0.5,0.6,,"),
    *("car,0.1,0.2", "car,0,0,1,0,1,1", "car,0,0,1,0,1,1,0,1,9"),
)
AUTOML_BOXES = {"all": "\n" + "".join(f"TRAIN,gs://b/a.jpg,{cells}\n" for cells in _CELLS)}

ROWS = {
    **_files("VOC", _of_an_image(voc.VocFormat()), VOC),
    **_files("KITTI", _of_an_image(kitti.KittiFormat()), KITTI),
    **{
        f"YOLO {number}, {key}": file
        for number, (lines, contents) in enumerate(YOLO)
        for key, file in _files("", _of_an_image(lines), _numbered(contents)).items()
    },
    **_files("COCO", _INSTANCES, COCO),
    **_files("COCO's captions", CocoReader(coco_tasks.Captions(), {"/d/a.txt": "test"}), CAPTIONS),
    **_files(
        "COCO's classes",
        CocoReader(coco_tasks.Classes(all_images=False)),
        {
            "one": _classes("b 7 c", (2, 10), (1, 3), (2, 10), width=40, height=30),
            "several": _SEVERAL,
            "faults": _TWO_OF_ONE_ID,
        },
    ),
    **_files("COCO's classes", CocoReader(_KEPT), {"kept": _classes("1 2", (2, 0), location=5)}),
    **_files(
        "COCO's classes",
        CocoReader(coco_tasks.Classes(all_images=False, several=True)),
        {"several, as lists": _SEVERAL},
    ),
    **_files("AutoML's classes", _automl(), AUTOML_CLASSES),
    **_files("AutoML's boxes", _automl(boxes=True), AUTOML_BOXES),
}
