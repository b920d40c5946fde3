"""Options on inputs of golden.py and others: what is filtered, kept together, cut out, or left out as a copy."""

from __future__ import annotations

from tests.conformance import golden, samples
from tests.conformance.outcome import Row
from tests.conformance.trees import csv, images, jpeg, paths, png, tiff

SIZES = {"a": (64, 64), "b": (99, 40), "c": (40, 99), "low": (200, 39), "long": (201, 50)}
SIZES |= {"tall": (50, 201), "many": (150, 150)}
SIZED = {
    f"photos/{'ab'[i % 2]}/{n}.png": png(i, *size) for i, (n, size) in enumerate(SIZES.items())
}
FILTERS = "--min_side 40 --max_aspect 4 --max_pixels 20000 --max_image_bytes 30KB"

NAMES = paths("{000..119}.jpg")
PATIENTS = {
    **images("photos/{000..119}.jpg"),
    "labels.csv": csv(
        NAMES,
        diagnosis=["malignant", *["benign"] * 4],
        patient=[f"P{i * i % 23}" for i in range(120)],
    ),
}
DIVIDED = "--images photos --labels labels.csv --splits train=0.6,validation=0.2,test=0.2"
VIDEOS = paths("video{00..29}/{0..2}.jpg")

COPIES = {
    **images("photos/{train,test}/{cat,dog}/{0..2}.jpg"),
    "photos/train/cat/copy.jpg": jpeg(7),
    "photos/train/dog/copy.jpg": jpeg(4),
    "photos/train/ant/copy.jpg": jpeg(4),
}

STRAY = {
    "coco": {**golden.INPUTS["coco"](), "coco/train2017/none.png": png(99)},
    "kitti": {**golden.INPUTS["kitti"](), "kitti/training/image_2/none.png": png(99)},
    "voc": {**golden.INPUTS["voc"](), "voc/images/none.png": png(99)},
    "yolo": {**images("yolo/images/{0..5}.jpg"), "yolo/classes.txt": "cat\n"}
    | {f"yolo/labels/{i}.txt": "0 0.5 0.5 0.25 0.5\n" for i in range(4)},
    "photos --labels boxes.csv": samples.OF_BOXES,
}
"""Value of --images -> files, of which some images have no labels."""

FEW = images("photos/{0..5}.jpg")
BAD = {"empty.jpg": b"", "cut.jpg": jpeg(1)[:60], "text.png": "no image", "tiff.png": tiff()}
BAD |= {"png_inside.jpg": png(2), "good.jpg": jpeg(3), "notes.txt": "passed over"}
BOOKS = """filename,label,score
one.jpg,cat,1
two.jpg,cat,1
two.jpg,cat,1
three,cat,2
three.jpg,dog,2
four.jpg,,3
seven.jpg,dog,1
broken,row
five.jpg,dog,much
"""

ROWS = {
    "bad_images": Row(
        "--images photos --max_bad_fraction 1",
        {
            **{f"photos/cat/{name}": data for name, data in BAD.items()},
            "photos/dog/0.jpg": jpeg(4),
            "photos/stray.jpg": jpeg(5),
        },
    ),
    "books": Row(
        "--images photos --labels l.csv --columns score:int --max_bad_fraction 1 --yes",
        {**images("photos/{x,y}/one.jpg", "photos/{two,three,four,five,six}.jpg"), "l.csv": BOOKS},
    ),
    "unlabelled_classes": Row(
        "--images photos --labels l.csv --unlabelled keep",
        {**FEW, "l.csv": "filename,label,age\n0.jpg,cat,3\n1.jpg,dog,\n2.jpg,,5\n"},
    ),
    "unlabelled_folders": Row(
        "--images photos --unlabelled keep",
        {**FEW, **images("photos/{cat/a,cat/c,dog/d,unlabelled/b}.jpg")},
    ),
    **{
        f"unlabelled_{name.split()[0]}_{choice}": Row(
            f"--images {name} --unlabelled {choice} --max_bad_fraction 1 --yes", files
        )
        for name, files in STRAY.items()
        for choice in ("auto", "drop", "keep", "empty")
    },
    "filtered": Row(f"--images photos {FILTERS}", {**SIZED, "photos/a/big.png": b"no" * 16000}),
    "split_by_column": Row(f"{DIVIDED} --split_by patient", PATIENTS),
    "split_by_skipped_column": Row(
        f"{DIVIDED} --split_by patient --columns patient:skip", PATIENTS
    ),
    "split_by_folder": Row(
        f"{DIVIDED} --split_by folder",
        {**images("photos/video{00..29}/{0..2}.jpg"), "labels.csv": csv(VIDEOS, label="01")},
    ),
    "stratified": Row(f"{DIVIDED} --label_column diagnosis --stratify", PATIENTS),
    "classes_of_a_list": Row(
        "--images photos --classes names.txt", {**COPIES, "names.txt": "owl\ndog\ncat\n"}
    ),
    "copies": Row("--images photos --duplicates first --max_bad_fraction 0", COPIES),
    **{
        f"crops_of_{case}": Row(
            f"{golden.CASES[case]} --crop_boxes --max_bad_fraction 1 --yes",
            golden.INPUTS[case](),
            stable=False,
        )
        for case in ("coco", "kitti")
    },
}
