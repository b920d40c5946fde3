"""Inputs whose files have had the same bytes since version 0.1.0.

A change here changes the bytes of every data set that users have, so `--resume` and checksums of theirs break.
Do not record a digest anew to make a test pass; a change of the output needs a reason and an entry in the
changelog.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from tests.conformance.outcome import Row
from tests.conformance.trees import GIF, JPEG, WEBP, bmp, png


def _class_folders() -> dict[str, bytes | str]:
    names = {f"photos/{['cat', 'dog', 'Owl'][i % 3]}/{i:02d}.bmp": bmp(i) for i in range(30)}
    others = {
        "cat/größe 1.jpg": JPEG,
        "dog/x.webp": WEBP,
        "dog/x.gif": GIF,
        "Owl/named.jpg": png(5),
    }
    bad = {"cat/empty.jpg": b"", "cat/text.png": "not an image", "stray.png": png(6)}
    return {**names, **{f"photos/{name}": data for name, data in {**others, **bad}.items()}}


def _table() -> dict[str, bytes | str]:
    rows = "".join(
        f'{i}.bmp,"{("cat", "dog, small", "größe")[i % 3]}",{i / 7:.6f},{i * i},note {i}\n'
        for i in range(20)
    )
    table = f"filename,breed,weight,age,note\n{rows}20.bmp,cat,,,\nmissing.bmp,cat,1,1,\n"
    return {"labels.csv": table, **{f"flat/{i}.bmp": bmp(i) for i in range(21)}}


def _lists() -> dict[str, bytes | str]:
    rows = "".join(
        json.dumps({"file_name": f"{i}.bmp", "tags": ["a", "b", "c"][: i % 4], "score": i + 0.25})
        + "\n"
        for i in range(12)
    )
    return {"tags.jsonl": rows, **{f"tagged/{i}.bmp": bmp(i) for i in range(12)}}


KITTI_LINES = (
    "Car 0.00 0 1.62 12.50 20.25 68.75 62.00 1.52 1.63 3.88 -4.36 1.71 14.20 1.33\n",
    "Pedestrian 0.88 2 -0.31 40.00 15.00 50.25 79.00 1.82 0.61 0.94 0.75 1.52 8.63 -0.22\n",
    "DontCare -1 -1 -10 70.00 16.00 76.00 18.50 -1 -1 -1 -1000 -1000 -1000 -10\n",
)


def _kitti() -> dict[str, bytes | str]:
    found: dict[str, bytes | str] = {}
    for i in range(8):
        found[f"kitti/training/image_2/{i:06d}.png"] = png(i)
        found[f"kitti/training/label_2/{i:06d}.txt"] = "".join(KITTI_LINES[: i % 4])
    return found


def _coco() -> dict[str, bytes | str]:
    names = ("person", "bicycle", "traffic light")
    found: dict[str, bytes | str] = {}
    for split, first in (("train2017", 1), ("val2017", 11)):
        ids = range(first, first + 6)
        annotations = [
            {
                "id": 10 * image + number,
                "image_id": image,
                "category_id": (1, 3, 10)[(image + number) % 3],
                "bbox": [1.5 * number + 0.33, 2.0, 10.25 + image, 20],
                "area": 205.125 + number,
                "iscrowd": number % 2,
                "segmentation": [[1.0, 2.0, 3.0, 2.0, 3.0, 4.0]],
            }
            for image in ids
            for number in range(image % 3)
        ]
        images = [
            {"id": i, "file_name": f"{i:012d}.png", "width": 100, "height": 80, "license": 1}
            for i in ids
        ]
        categories = [
            {"id": number, "name": name, "supercategory": "thing"}
            for number, name in zip((1, 3, 10), names, strict=True)
        ]
        whole = {"images": images, "annotations": annotations, "categories": categories}
        found[f"coco/annotations/instances_{split}.json"] = json.dumps(whole)
        found.update({f"coco/{split}/{i:012d}.png": png(i) for i in ids})
    return found


VOC = (
    "<annotation><filename>{name}</filename><size><width>100</width><height>80</height>"
    "<depth>3</depth></size>{objects}</annotation>\n"
)
VOC_OBJECT = (
    "<object><name>{name}</name><pose>Left</pose><truncated>{flag}</truncated>"
    "<difficult>{flag}</difficult><bndbox><xmin>{left}</xmin><ymin>5</ymin><xmax>60.5</xmax>"
    "<ymax>80</ymax></bndbox></object>"
)


def _voc() -> dict[str, bytes | str]:
    found: dict[str, bytes | str] = {}
    for i in range(6):
        objects = "".join(
            VOC_OBJECT.format(name=("mug", "cup")[number], flag=number, left=1 + i + number)
            for number in range(i % 3)
        )
        found[f"voc/annotations/{i}.xml"] = VOC.format(name=f"{i}.png", objects=objects)
        found[f"voc/images/{i}.png"] = png(i)
    return found


def _automl() -> dict[str, bytes | str]:
    sets = ("TRAIN", "VALIDATION", "TEST", "UNASSIGNED")
    rows = ""
    for i in range(12):
        beginning = f"{sets[i % 4]},gs://project-vcm/streets/{i}.png"
        boxes = ("car,0.1,0.25,,,0.35,0.5,,", "sign,0.75,0.1,0.9,0.1,0.9,0.7,0.75,0.7")[: i % 3]
        rows += "".join(f"{beginning},{box}\r\n" for box in boxes or (",,,,,,,,",))
    return {"streets.csv": rows, **{f"project-vcm/streets/{i}.png": png(i) for i in range(12)}}


def _imagefolder() -> dict[str, bytes | str]:
    found: dict[str, bytes | str] = {}
    for split, images in (("train", 7), ("test", 3)):
        rows = ""
        for i in range(images):
            boxes = [[4.0 + i, 6.0, 20.0, 12.5], [40.0, 10.0, 25.0, 40.0]][: i % 3]
            objects = {"bbox": boxes, "categories": [0, 2][: len(boxes)]}
            rows += json.dumps({"file_name": f"{i}.png", "objects": objects}) + "\n"
            found[f"cppe/{split}/{i}.png"] = png(i)
        found[f"cppe/{split}/metadata.jsonl"] = rows
    return found


INPUTS = {
    "photos": _class_folders,
    "flat": _table,
    "tagged": _lists,
    "kitti": _kitti,
    "coco": _coco,
    "voc": _voc,
    "project-vcm/streets": _automl,
    "cppe": _imagefolder,
}
"""Value of --images -> the files that it needs."""

CASES: Mapping[str, str] = {
    "class_folders": "--images photos --num_shards train=3,test=2 --splits train=0.75,test=0.25",
    "class_folders_seed": "--images photos --num_shards 4 --seed 7 --image_check full",
    "table": "--images flat --labels labels.csv --label_column breed --num_shards 2 --label_base 1",
    "table_gzip": "--images flat --labels labels.csv --label_column breed --compression gzip",
    "table_float": "--images flat --labels labels.csv --label_column weight --shard_size 2KB",
    "lists": "--images tagged --labels tags.jsonl --label_column tags --num_shards 2",
    "kitti": "--images kitti --splits train=0.5,validation=0.5",
    "coco": "--images coco --num_shards 2",
    "voc": "--images voc --splits train=0.5,test=0.5 --seed 3",
    "automl": "--images project-vcm/streets --labels streets.csv",
    "imagefolder": "--images cppe --num_shards train=2,test=1",
}
"""Case -> options of its conversion."""

ROWS = {
    name: Row(f"{argv} --max_bad_fraction 1 --yes", INPUTS[argv.split()[1]](), every_file=True)
    for name, argv in CASES.items()
}
