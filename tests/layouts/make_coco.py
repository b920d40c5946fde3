"""A small data set as COCO's archives unpack, and one as Roboflow exports it, both to the byte."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

INFO = {"description": "COCO 2017 Dataset", "version": "1.0", "year": 2017}
LICENSES = [{"url": "http://creativecommons.org/licenses/by-nc/2.0/", "id": 1, "name": "CC BY-NC"}]
CATEGORIES = [
    {"supercategory": "person", "id": 1, "name": "person"},
    {"supercategory": "vehicle", "id": 3, "name": "car"},
    {"supercategory": "animal", "id": 18, "name": "dog"},
    {"supercategory": "furniture", "id": 67, "name": "dining table"},
    {"supercategory": "indoor", "id": 90, "name": "toothbrush"},
]
"""Five of COCO's eighty; their ids run from 1 to 90, with gaps."""

TRAIN = {
    "000000000034.jpg": (34, (160, 120)),
    "000000000071.jpg": (71, (150, 128)),
    "000000000508.jpg": (508, (160, 106)),
    "000000558840.jpg": (558840, (96, 128)),
}
VAL = {"000000000139.jpg": (139, (160, 106)), "000000000285.jpg": (285, (117, 128))}
"""File name -> (image id, (width, height)). 508 has no objects."""


FIRST_CROWD = 900100000000


def dumped(value: Any) -> str:
    """JSON with the spaces that COCO's files have."""
    return json.dumps(value, separators=(",", ": "))


def image_entry(split: str, name: str, image_id: int, size: tuple[int, int]) -> dict[str, Any]:
    return {
        "license": 1,
        "file_name": name,
        "coco_url": f"http://images.cocodataset.org/{split}/{name}",
        "height": size[1],
        "width": size[0],
        "date_captured": "2013-11-14 11:18:45",
        "flickr_url": f"http://farm9.staticflickr.com/8186/{image_id}_4e622c8349_z.jpg",
        "id": image_id,
    }


def annotation(
    object_id: int, image_id: int, category: int, box: Sequence[float], area: float
) -> dict[str, Any]:
    """An object with the outline of its box, or with runs of pixels if it is a crowd."""
    x, y, width, height = box
    right, bottom = round(x + width, 2), round(y + height, 2)
    crowd = object_id >= FIRST_CROWD
    return {
        "segmentation": {"counts": [272, 2, 4, 4, 4, 4, 2, 9, 1, 2, 18896], "size": [128, 150]}
        if crowd
        else [[x, y, right, y, right, bottom, x, bottom]],
        "area": area,
        "iscrowd": int(crowd),
        "image_id": image_id,
        "bbox": list(box),
        "category_id": category,
        "id": object_id,
    }


def instances(
    images: Iterable[Mapping[str, Any]],
    annotations: Iterable[Any],
    categories: Sequence[Mapping[str, Any]] = CATEGORIES,
) -> str:
    """The text of an instances_*.json."""
    lists = {"images": [*images], "annotations": [*annotations], "categories": [*categories]}
    return dumped({"info": INFO, "licenses": LICENSES, **lists})


NAMES = {category["id"]: str(category["name"]) for category in CATEGORIES}
"""Id -> name of each category."""


def entry(name: str = "000000000139.jpg", image_id: int = 139) -> dict[str, Any]:
    """An image's entry, with the size of the image of this name."""
    _, size = {**TRAIN, **VAL}.get(name.replace("\\", "/").rpartition("/")[2], (0, (160, 106)))
    return image_entry("val2017", name, image_id, size)


def one(**changes: Any) -> dict[str, Any]:
    """An annotation that is right but for the changes; a value `...` takes a key away."""
    fields = {**annotation(7, 139, 18, (10, 20, 30, 40), 600.5), **changes}
    return {key: value for key, value in fields.items() if value is not ...}


def with_changes(**changes: Any) -> str:
    """A file with some of its lists changed, or taken away by `...`."""
    content = {"images": [entry()], "annotations": [one()], "categories": CATEGORIES, **changes}
    return dumped({key: value for key, value in content.items() if value is not ...})
