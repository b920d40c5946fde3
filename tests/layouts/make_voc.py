"""Two years of Pascal VOC as their archives unpack, and a folder as LabelImg leaves it."""

from __future__ import annotations

from collections.abc import Sequence

from tests.pictures import with_boxes, write_files

Box = tuple[str, str, str, str]
"""xmin, ymin, xmax, ymax as they stand in the file."""

_SIZE = """\t<size>
\t\t<width>{width}</width>
\t\t<height>{height}</height>
\t\t<depth>3</depth>
\t</size>
\t<segmented>0</segmented>
"""

_HEAD = (
    """<annotation>
\t<folder>{folder}</folder>
\t<filename>{name}.jpg</filename>
\t<source>
\t\t<database>The {folder} Database</database>
\t\t<annotation>PASCAL {folder}</annotation>
\t\t<image>flickr</image>
\t</source>
"""
    + _SIZE
)

_OBJECT = """\t<object>
\t\t<name>{name}</name>
\t\t<pose>{pose}</pose>
\t\t<truncated>{truncated}</truncated>
"""

_OBJECT_2007 = (
    _OBJECT
    + """\t\t<difficult>{difficult}</difficult>
\t\t<bndbox>
\t\t\t<xmin>{box[0]}</xmin>
\t\t\t<ymin>{box[1]}</ymin>
\t\t\t<xmax>{box[2]}</xmax>
\t\t\t<ymax>{box[3]}</ymax>
\t\t</bndbox>
\t</object>
"""
)

_OBJECT_2012 = (
    _OBJECT
    + """\t\t<occluded>0</occluded>
\t\t<bndbox>
\t\t\t<xmax>{box[2]}</xmax>
\t\t\t<xmin>{box[0]}</xmin>
\t\t\t<ymax>{box[3]}</ymax>
\t\t\t<ymin>{box[1]}</ymin>
\t\t</bndbox>
\t\t<difficult>{difficult}</difficult>
{parts}\t</object>
"""
)

_PART = """\t\t<part>
\t\t\t<name>{name}</name>
\t\t\t<bndbox>
\t\t\t\t<xmin>{box[0]}</xmin>
\t\t\t\t<ymin>{box[1]}</ymin>
\t\t\t\t<xmax>{box[2]}</xmax>
\t\t\t\t<ymax>{box[3]}</ymax>
\t\t\t</bndbox>
\t\t</part>
"""

_LABELIMG = (
    """<annotation>
\t<folder>images</folder>
\t<filename>{name}</filename>
\t<path>C:\\Users\\me\\Desktop\\images\\{name}</path>
\t<source>
\t\t<database>Unknown</database>
\t</source>
"""
    + _SIZE
    + "{objects}</annotation>\n"
)


def make_voc(folder: str) -> None:
    """Writes VOCdevkit/VOC2007, VOCdevkit/VOC2012 and labelled/ with images/ and annotations/."""
    _make_2007(f"{folder}/VOCdevkit/VOC2007")
    _make_2012(f"{folder}/VOCdevkit/VOC2012")
    images = {"IMG_0001": (("mug", ("30", "40", "91", "120")),), "IMG_0002": ()}
    for name, objects in images.items():
        write_files(
            f"{folder}/labelled",
            {
                f"images/{name}.jpg": photo((160, 120), [box for _, box in objects]),
                f"annotations/{name}.xml": labelimg_xml(f"{name}.jpg", (160, 120), objects),
            },
        )


def labelimg_xml(name: str, size: tuple[int, int], objects: Sequence[tuple[str, Box]]) -> str:
    """An annotation as LabelImg writes it: (class, box) of each object."""
    text = "".join(
        _OBJECT_2007.format(name=kind, pose="Unspecified", truncated=0, difficult=0, box=box)
        for kind, box in objects
    )
    return _LABELIMG.format(name=name, width=size[0], height=size[1], objects=text)


BOX: Box = ("10", "20", "30", "40")
CAT = labelimg_xml("a.jpg", (100, 50), [("cat", BOX)])
"""An annotation of one cat in an image of 100 x 50 pixels."""


def photo(size: tuple[int, int], boxes: Sequence[Box] = ()) -> bytes:
    """A JPEG with a rectangle for each box."""
    colours = [(230, 180 - 40 * number, 60) for number in range(len(boxes))]
    corners = [[float(side) for side in box] for box in boxes]
    return with_boxes(size, (40, 60, 80), zip(corners, colours, strict=True))


def _make_2007(year: str) -> None:
    _write(year, "000005", (500, 375), _OBJECT_2007, [
        ("chair", "Rear", 0, 0, ("250", "200", "330", "340")),
        ("chair", "Unspecified", 1, 1, ("9", "240", "75", "375"))
    ])  # fmt: skip
    _write(year, "000007", (500, 333), _OBJECT_2007, [
        ("car", "Unspecified", 1, 0, ("133", "44", "500", "327"))
    ])  # fmt: skip
    _write(year, "000009", (500, 375), _OBJECT_2007, [
        ("horse", "Right", 0, 0, ("72", "165", "281", "322")),
        ("person", "Right", 0, 0, ("155", "130", "225", "280"))
    ])  # fmt: skip
    _write(year, "000001", (353, 500), _OBJECT_2007, [
        ("dog", "Left", 1, 0, ("60", "230", "180", "365"))
    ])  # fmt: skip
    lists = {"train": ["000005"], "val": ["000007", "000009"], "test": ["000001"]}
    _write_lists(year, {**lists, "trainval": ["000005", "000007", "000009"]})
    write_files(
        year,
        {
            "ImageSets/Main/chair_train.txt": "000005  1\n",
            "ImageSets/Layout/train.txt": "000009 1\n",
            "ImageSets/Segmentation/train.txt": "000007\n",
            "SegmentationClass/000007.png": "not read",
        },
    )


def _make_2012(year: str) -> None:
    _write(year, "2008_000008", (500, 442), _OBJECT_2012, [
        ("horse", "Left", 0, 0, ("61", "92", "455", "408")),
        ("person", "Unspecified", 1, 0, ("162", "44.5", "287.9816", "171"))
    ], [("head", ("170", "50", "210", "90")), ("hand", ("260", "120", "280", "140"))])  # fmt: skip
    _write(year, "2011_003276", (500, 333), _OBJECT_2012, [
        ("car", "", 0, 0, ("1", "1", "500", "333"))
    ])  # fmt: skip
    _write_lists(
        year,
        {"train": ["2008_000008"], "val": ["2011_003276"], "trainval": ["2008_000008", "2011_003276"]}
    )  # fmt: skip


def _write(
    year: str,
    name: str,
    size: tuple[int, int],
    template: str,
    objects: Sequence[tuple[str, str, int, int, Box]],
    parts: Sequence[tuple[str, Box]] = (),
) -> None:
    """Writes an image and its annotation; the parts are the last object's."""
    text = _HEAD.format(folder=year[-7:], name=name, width=size[0], height=size[1])
    for number, (kind, pose, truncated, difficult, box) in enumerate(objects, 1):
        inside = [_PART.format(name=part, box=at) for part, at in parts] * (number == len(objects))
        text += template.format(
            name=kind,
            pose=pose,
            truncated=truncated,
            difficult=difficult,
            box=box,
            parts="".join(inside),
        )
    write_files(
        year,
        {
            f"JPEGImages/{name}.jpg": photo(size, [found[-1] for found in objects]),
            f"Annotations/{name}.xml": f"{text}</annotation>\n",
        },
    )


def _write_lists(year: str, lists: dict[str, list[str]]) -> None:
    for name, names in lists.items():
        text = "".join(f"{one}\n" for one in names)
        write_files(year, {f"ImageSets/Main/{name}.txt": text})
