"""A small data set as COCO's archives unpack, and one as Roboflow exports it, both to the byte."""

from __future__ import annotations

import io
import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from PIL import Image

from tests.pictures import with_boxes, write_files

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

TRAIN_OBJECTS = (
    (1768, 558840, 18, (21.5, 30.13, 60.25, 80.5), 2913.1057499999998),
    (1773, 34, 67, (0.27, 61.79, 159.73, 57.92), 6123.65555),
    (1774, 34, 1, (97.42, 10.01, 40.33, 88.76), 1917.4301),
    (900100000071, 71, 3, (3.0, 40.0, 120.0, 42.0), 3120.0),
    (1802, 71, 1, (12.5, 20.0, 25.25, 70.5), 1003.75),
)
VAL_OBJECTS = ((2001, 139, 18, (40.02, 22.44, 61.5, 50.06), 1604.25), (2002, 285, 1, (0.0, 0.0, 117.0, 128.0), 9001.5))  # fmt: skip
"""(annotation id, image id, category id, bbox, area); ids from 900100000000 on are crowds."""

FIRST_CROWD = 900100000000


def make_coco(folder: str) -> None:
    """Writes coco/ and panoptic/ as of COCO 2017, and export/ as of Roboflow."""
    coco = f"{folder}/coco"
    for split, images, objects in (
        ("train2017", TRAIN, TRAIN_OBJECTS),
        ("val2017", VAL, VAL_OBJECTS),
    ):
        annotations = [annotation(*one) for one in objects]
        entries = [image_entry(split, name, *what) for name, what in images.items()]
        write_files(
            coco,
            {
                **{
                    f"{split}/{name}": photo(size, [a for a in annotations if a["image_id"] == i])
                    for name, (i, size) in images.items()
                },
                f"annotations/instances_{split}.json": instances(entries, annotations),
                f"annotations/captions_{split}.json": captions(entries),
                f"annotations/person_keypoints_{split}.json": keypoints(entries, annotations),
            },
        )
    make_export(folder)
    make_panoptic(folder)
    make_inat(folder)
    make_traps(folder)


SPECIES = (
    (0, "Lumbricus terrestris", "00000_Animalia_Annelida_Clitellata", "Animalia"),
    (1, "Vulpes vulpes", "00001_Animalia_Chordata_Mammalia", "Mammals"),
    (2, "Bellis perennis", "00002_Plantae_Tracheophyta_Magnoliopsida", "Plants"),
)
"""(category id, name, folder, supercategory); their names are not in the order of their ids."""


def make_inat(folder: str) -> None:
    """Writes inat/ as iNaturalist 2021 unpacks, with its train_mini.json and val.json."""
    categories = [
        {"id": i, "name": name, "supercategory": group, "image_dir_name": directory}
        for i, name, directory, group in SPECIES
    ]
    about = {"width": 40, "height": 30, "license": 0, "date": "2015-07-05 09:15:57+00:00"}
    nowhere = {"latitude": math.nan, "longitude": math.nan, "location_uncertainty": None}
    for split, most in (("train_mini", 4), ("val", 2)):
        images, annotations = [], []
        files: dict[str, bytes | str] = {}
        for category, number in itertools.product(range(len(SPECIES)), range(most)):
            image_id = 100 * category + number
            name = f"{split}/{SPECIES[category][2]}/{image_id:08x}-5f0e.jpg"
            place = {"latitude": 43.5 + number, "longitude": -89.25, "location_uncertainty": 77}
            entry = {"id": image_id, "file_name": name, **about}
            images.append({**entry, **(nowhere if number == 1 else place)})
            annotations.append({"id": image_id, "image_id": image_id, "category_id": category})
            files[name] = coloured((40, 30), category, 10 * most + number)
        lists = {"images": images, "categories": categories, "annotations": annotations}
        files[f"{split}.json"] = dumped({"info": INFO, **lists, "licenses": LICENSES})
        write_files(f"{folder}/inat", files)


TRAP_CATEGORIES = [
    {"id": 0, "name": "empty"},
    {"id": 10, "name": "mule_deer"},
    {"id": 3, "name": "red_fox"},
]
TRAP_IMAGES = 24


def make_traps(folder: str) -> None:
    """Writes traps/ as a set of camera traps: four places, sequences of three, some deer in twos."""
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    files: dict[str, bytes | str] = {}
    for number in range(TRAP_IMAGES):
        place, sequence, frame = number // 6, number // 3, number % 3
        image_id, category = f"p{place}_{number:04d}", (0, 10, 3)[sequence % 3]
        name = f"p{place}/2019/{number:04d}.JPG"
        entry = {"id": image_id, "file_name": name, "width": 40, "height": 30, "corrupt": False}
        when = {"datetime": f"2019-05-01 12:00:{frame:02d}", "location": f"p{place}"}
        images.append({**entry, **when, "seq_id": f"s{sequence}", "frame_num": frame})
        annotations += [
            {"id": f"{image_id}-{animal}", "image_id": image_id, "category_id": category}
            for animal in range(2 if category == 10 else 1)
        ]
        files[f"images/{name}"] = coloured((40, 30), category, number)
    content = {"images": images, "categories": TRAP_CATEGORIES, "annotations": annotations}
    files["traps.json"] = json.dumps({"info": {"version": "1.0"}, **content}, indent=1)
    write_files(f"{folder}/traps", files)


def coloured(size: tuple[int, int], category: int, number: int) -> bytes:
    """A JPEG whose colour tells the category, different for each number up to 50."""
    return with_boxes(size, (category * 37 % 256, category * 101 % 256, number * 5), ())


def make_panoptic(folder: str) -> None:
    """Writes panoptic/ with images, their JSON and PNGs of two segments each."""
    person, sky = (70000, 1), (9, 187)
    entries, annotations = [], []
    files: dict[str, bytes | str] = {}
    for number in range(4):
        name, mask = f"{number:012d}", Image.new("RGB", (20, 10), (9, 0, 0))
        mask.paste((112, 17, 1), (number, 2, 8, 8))  # 112 + 256 * 17 + 65536 = 70000
        out = io.BytesIO()
        mask.save(out, "PNG")
        files[f"train2017/{name}.jpg"] = photo((20, 10))
        files[f"annotations/panoptic_train2017/{name}.png"] = out.getvalue()
        entries.append({"id": number, "file_name": f"{name}.jpg", "width": 20, "height": 10})
        boxes = {person: [number, 2, 8 - number, 6], sky: [0, 0, 20, 10]}
        infos = [
            {"id": i, "category_id": c, "iscrowd": 0, "bbox": box, "area": box[2] * box[3]}
            for (i, c), box in boxes.items()
        ]
        annotations.append({"image_id": number, "file_name": f"{name}.png", "segments_info": infos})
    categories = [
        {"id": 1, "name": "person", "supercategory": "person", "isthing": 1},
        {"id": 187, "name": "sky-other-merged", "supercategory": "sky", "isthing": 0},
    ]
    content = {"images": entries, "annotations": annotations, "categories": categories}
    files["annotations/panoptic_train2017.json"] = dumped(content)
    write_files(f"{folder}/panoptic", files)


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


def captions(images: Iterable[Mapping[str, Any]]) -> str:
    """The text of a captions_*.json, which has no categories."""
    images = list(images)
    texts = [
        {"image_id": image["id"], "id": 37 + number, "caption": "A dog sits beside a small table."}
        for number, image in enumerate(images)
    ]
    return dumped({"info": INFO, "images": images, "licenses": LICENSES, "annotations": texts})


def keypoints(images: Iterable[Mapping[str, Any]], annotations: Iterable[dict[str, Any]]) -> str:
    """The text of a person_keypoints_*.json: the persons, each with 17 points."""
    points = [coordinate for point in range(17) for coordinate in (40 + point, 30 + point, 2)]
    persons = [
        {**person, "num_keypoints": 17, "keypoints": points}
        for person in annotations
        if person["category_id"] == 1
    ]
    category = {**CATEGORIES[0], "keypoints": ["nose"] * 17, "skeleton": [[16, 14], [14, 12]]}
    return instances(images, persons, [category])


def photo(size: tuple[int, int], annotations: Iterable[Mapping[str, Any]] = ()) -> bytes:
    """A JPEG with a rectangle for each object."""
    boxes = []
    for annotation in annotations:
        x, y, width, height = annotation["bbox"]
        colour = tuple(annotation["category_id"] * step % 256 for step in (37, 101, 59))
        boxes.append(((x, y, x + width, y + height), colour))
    return with_boxes(size, (60, 70, 80), boxes)


EXPORTED = {
    "train": ("0001_jpg.rf.3f2c9e0b7a1d4c58a6e94b1d20c7f835", [("cat", [12, 20.5, 40, 60.25])]),
    "valid": ("0001_jpg.rf.93b1e7d0c2a84f6f8a7b5c3e1d90f642", [("rabbit", [5, 5, 90.5, 70])]),
    "test": ("0002_jpg.rf.c05d1ea74b3f4e0d9c2b8a6f71e3d594", []),
}
"""Folder -> (name of its image, objects); Roboflow's ids begin at 0, with a class for all."""

EXPORT_CATEGORIES = [
    {"id": 0, "name": "pets", "supercategory": "none"},
    {"id": 1, "name": "cat", "supercategory": "pets"},
    {"id": 2, "name": "rabbit", "supercategory": "pets"},
]


def make_export(folder: str) -> None:
    """Writes export/ with train, valid and test, each with images and their JSON."""
    ids = {category["name"]: category["id"] for category in EXPORT_CATEGORIES}
    for split, (name, objects) in EXPORTED.items():
        common = {"image_id": 0, "segmentation": [], "iscrowd": 0}
        annotations = [
            {"id": i, "category_id": ids[kind], "bbox": box, "area": box[2] * box[3], **common}
            for i, (kind, box) in enumerate(objects)
        ]
        entry = {"id": 0, "license": 1, "file_name": f"{name}.jpg", "height": 100, "width": 100}
        content = {
            "info": {"year": "2024", "description": "Exported from roboflow.com"},
            "licenses": [{"id": 1, "name": "CC BY 4.0"}],
            "categories": EXPORT_CATEGORIES,
            "images": [entry],
            "annotations": annotations,
        }
        files = {
            f"{split}/{name}.jpg": photo((100, 100), annotations),
            f"{split}/_annotations.coco.json": json.dumps(content, separators=(",", ":")),
            "README.roboflow.txt": "not read",
        }
        write_files(f"{folder}/export", files)


# --- parts to spoil ------------------------------------------------------------------------------

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
