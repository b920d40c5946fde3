"""Trees and tables as hubs of data publish them: right at the first try, or a question whose command is right."""

from __future__ import annotations

import json

from tests.conformance.outcome import row
from tests.conformance.questions import KITTI, LABELLED, NAMES, PHOTOS
from tests.conformance.trees import coco, csv, images, paths
from tests.layouts.make_voc import labelimg_xml

_SIX = paths("{0..5}.jpg")
_THIN = ("2", "1", "2", "6")


def _boxed(lines: str, empty: str, folder: str, extension: str = "txt") -> dict[str, str]:
    """A label file an image; the first has an object whose box has no area, and the second no other."""
    texts = [f"{empty}{lines}", empty, *[lines] * 4]
    return {f"{folder}/{i}.{extension}": text for i, text in enumerate(texts)}


def _voc(*boxes: tuple[str, ...]) -> str:
    return labelimg_xml("x.jpg", (16, 8), [("cat", box) for box in boxes])


def _coco() -> str:
    content = json.loads(coco(_SIX))
    for i in (0, 1):
        thin = {"id": 9 - i, "image_id": i, "category_id": 1, "bbox": [1, 1, 0, 4], "area": 0}
        content["annotations"].append(thin)
    del content["annotations"][1]
    return json.dumps(content)


_KITTI_THIN = KITTI.replace("1.00 1.00 5.00 6.00", "5.00 1.00 5.00 6.00")
_YOLO = "0 0.5 0.5 0.25 0.5\n"
_AUTOML = "TRAIN,{}.jpg,cat,0.1,0.1,,,{},0.5,,\n"

EMPTY_BOXES = {
    "coco": row("--images set", images("set/{0..5}.jpg"), {"set/_annotations.coco.json": _coco()}),
    "yolo": row(
        "--images set",
        images("set/images/{0..5}.jpg"),
        _boxed(_YOLO, _YOLO.replace("0.25", "0"), "set/labels"),
    ),
    "yolo_drop_image": row(
        "--images set --bad_boxes drop_image --max_bad_fraction 1",
        images("set/images/{0..5}.jpg"),
        _boxed(_YOLO, _YOLO.replace("0.25", "0"), "set/labels"),
    ),
    "voc": row(
        "--images set",
        images("set/{0..5}.jpg"),
        {"set/0.xml": _voc(_THIN, ("1", "1", "5", "6")), "set/1.xml": _voc(_THIN)},
        {f"set/{i}.xml": _voc(("1", "1", "5", "6")) for i in range(2, 6)},
    ),
    "kitti": row(
        "--images set",
        images("set/training/image_2/{0..5}.jpg"),
        _boxed(KITTI, _KITTI_THIN, "set/training/label_2"),
    ),
    "table": row(
        LABELLED,
        PHOTOS,
        {
            "labels.csv": csv(
                [NAMES[0], *NAMES], label=["cat"], xmin=[1], ymin=[1], xmax=[1, *[5] * 12], ymax=[6]
            )
        },
    ),
    "automl": row(
        "--images photos --labels a.csv",
        PHOTOS,
        {"a.csv": "".join(_AUTOML.format(i, 0.1 if i < 2 else 0.5) for i in range(12))},
    ),
    "clipped": row(
        f"{LABELLED} --clip_boxes",
        PHOTOS,
        {"labels.csv": csv(NAMES, label=["cat"], x1=[20, *[1] * 11], y1=[1], x2=[30], y2=[6])},
    ),
}

ROWS = {f"empty_box_{name}": row for name, row in EMPTY_BOXES.items()}
