"""Inputs whose labels can only be guessed: those whose words expected/asked.json records come first."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tests.archives import zip_bytes
from tests.conformance.outcome import Row, row
from tests.conformance.trees import Tree, csv, images, jsonl, masks, paths, png, texts, tiff
from tests.layouts.make_label_tools import annotation, rectangle, task
from tests.layouts.make_tables import HEIGHT, WIDTH
from tests.layouts.make_voc import labelimg_xml

KITTI = "Car 0.00 0 1.62 1.00 1.00 5.00 6.00 1.52 1.63 3.88 -4.36 1.71 14.20 1.33\n"
NAMES = paths("{0..11}.jpg")
PHOTOS = images("photos/{0..11}.jpg")
DRAWN = {f"set/{i}.png": png(i, WIDTH, HEIGHT) for i in range(6)}
PETS = ("cat", "dog")


def voc(*names: str) -> Tree:
    """An annotation beside each image, of one object."""
    objects = [("cat", ("1", "1", "5", "6"))]
    return {
        f"{name[:-4]}.xml": labelimg_xml(name.rpartition("/")[2], (16, 8), objects)
        for name in names
    }


def voc_beside(folder: str) -> Tree:
    """Images in a folder, and annots/ beside it."""
    annotations = voc(*paths("set/annots/{0..5}.jpg"))
    return {**images(f"set/{folder}/{{0..5}}.jpg"), **annotations}


def coco(names: Sequence[str]) -> str:
    """A file of instances, an object an image."""
    described = [
        {"id": i, "file_name": name, "width": 16, "height": 8} for i, name in enumerate(names)
    ]
    objects = [
        {"id": i + 1, "image_id": i, "category_id": 1, "bbox": [1, 1, 4, 4], "area": 16}
        for i in range(len(names))
    ]
    categories = [{"id": 1, "name": "cat"}]
    return json.dumps(
        {"info": {}, "images": described, "annotations": objects, "categories": categories}
    )


def annotated(number: int) -> dict[str, Any]:
    """A task of Label Studio; of every second, two people drew another box."""
    people = (1, 2) if number % 2 else (2,)
    boxes = [annotation(rectangle("car", 1, 1, 9 + by, 9), by) for by in people]
    return task(f"{number}.png", boxes, number)


def drawn_by(number: int) -> Any:
    """A file of Supervisely: two people drew an object, of three images the same one; the last was left empty."""
    people = (("ann", 0), ("bob", number % 2 * 9)) if number < 5 else ()
    objects = [
        {
            "classTitle": "car",
            "geometryType": "rectangle",
            "labelerLogin": login,
            "points": {"exterior": [[left, 1], [left + 5 + number % 2, 6]], "interior": []},
        }
        for login, left in people
    ]
    if number == 4:
        objects[1]["points"] = {"exterior": [[0, 1], [4, 6]], "interior": []}
    return {"size": {"width": 16, "height": 8}, "tags": [], "objects": objects}


OF_PEOPLE = {
    **images("set/img/{0..5}.jpg"),
    **{f"set/ann/{i}.jpg.json": json.dumps(drawn_by(i)) for i in range(6)},
}


def answered(number: int) -> dict[str, Any]:
    """A data row of Labelbox; to every second, two people gave another answer."""
    labels = [
        {
            "label_details": {"created_by": f"{by}@x.org"},
            "annotations": {
                "classifications": [{"name": "time", "radio_answer": {"name": answer}}]
            },
        }
        for by, answer in zip(
            ("ann", "bob")[: 1 + number % 2], PETS[number // 2 % 2 :] + PETS, strict=False
        )
    ]
    return {"data_row": {"external_id": f"{number}.png"}, "projects": {"p": {"labels": labels}}}


def column(name: str, *values: object) -> Tree:
    """Photos and labels.csv, whose only column repeats some values."""
    return {**PHOTOS, "labels.csv": csv(NAMES, **{name: values})}


def _flat() -> list[tuple[str, bytes | str]]:
    """The photos, by their file names."""
    return [(name.rpartition("/")[2], content) for name, content in PHOTOS.items()]


def folders(*patterns: str) -> Tree:
    """Four images in each folder."""
    return images(*(f"{pattern}/{{0..3}}.jpg" for pattern in patterns))


COCO_SPLITS = {split: paths(split + "_{0..11}.jpg") for split in ("train2017", "val2017")}
LABELLED = "--images photos --labels labels.csv"

DOCUMENTED = {
    "single_class": Row("--images photos", images("photos/pets/{0..11}.jpg")),
    "names_as_classes": Row(LABELLED, column("name", *(f"photo {name}" for name in NAMES))),
    "decimal_commas": Row(LABELLED, column("label", *(f"{i},5" for i in range(12)))),
    "mostly_decimals": Row(
        f"{LABELLED} --max_bad_fraction 1.0", column("label", "0.5", "0.7", "1.2", *["big"] * 9)
    ),
    "quantities": Row(LABELLED, column("age", *range(20, 30))),
    "lists": Row(LABELLED, column("label", "cat", "dog", "cat,dog")),
    "spaced_lists": Row(LABELLED, column("label", "scab", "rust", "scab rust")),
    "bracketed_lists": Row(
        LABELLED, column("label", "['cat', 'dog']", "['cat']", "['cat', 'owl']")
    ),
    "flags": Row(LABELLED, column("label", "[1, 0, 0]", "[0, 1, 0]", "[0, 0, 1]")),
    "missing": Row(LABELLED, column("label", "cat", "dog", "nan")),
    "whole_numbers": Row(LABELLED, column("label", "0.0", "1.0", "2.0")),
    "splits_in_names": Row("--images pets", folders("pets/{test,training}_set/{cat,dog}")),
    "same_below": Row("--images leaves", folders("leaves/{color,gray}/{apple,grape,kiwi}")),
    "dates": Row("--images photos", folders("photos/{2002/07/19,2002/08/11,2003/01/02}/big")),
    "classes_below_dates": Row(
        "--images camera",
        folders("camera/2021-05-0{3,4}/fox", "camera/2021-05-04/owl", "camera/2021-06-01/elk"),
    ),
    "spellings": Row("--images photos", folders("photos/train/cat", "photos/test/Cat")),
    "only_class": row(
        LABELLED,
        PHOTOS,
        {"labels.csv": csv(NAMES, xmin=[1], ymin=[1], xmax=[5], ymax=[6], species=PETS)},
    ),
    "turned_boxes": row(
        LABELLED,
        PHOTOS,
        {"labels.csv": csv(NAMES, cx=[4], cy=[3], w=[2], h=[2], angle=[0, 30], label=PETS)},
    ),
    "moved_points": row(
        f"{LABELLED} --resize 8",
        PHOTOS,
        {"labels.csv": csv(NAMES, label=PETS, nose_x=[1, 2, 3], nose_y=[4, 5, 6])},
        stable=False,
    ),
    "split_tables": row(
        "--images photos --labels train.csv test.csv",
        PHOTOS,
        {"train.csv": csv(NAMES[:9], label=PETS), "test.csv": csv(NAMES[9:], label=PETS)},
    ),
    "split_roots": Row(
        "--images pets/train pets/val",
        images("pets/train/{cat,dog}/1.jpg", "pets/val/{cat,dog}/2.jpg"),
    ),
    "split_column": row(
        LABELLED, PHOTOS, {"labels.csv": csv(NAMES, label=PETS, set=["train", "train", "val"])}
    ),
    "split_numbers": row(
        LABELLED, PHOTOS, {"labels.csv": csv(NAMES, label=PETS, split=[0, 0, 1, 2])}
    ),
    "other_key": row(
        "--images photos --labels l.jsonl --columns pic:skip,of:file",
        PHOTOS,
        {"l.jsonl": jsonl({"id": 99, "pic": n, "of": [n], "label": PETS[n > "5"]} for n in NAMES)},
    ),
    "corners_or_sizes": row(
        LABELLED, PHOTOS, {"labels.csv": csv(NAMES, label=PETS, bbox=["[1, 2, 4, 5]"])}
    ),
    "unused_folders": row(
        LABELLED,
        {f"photos/{('healthy', 'sick')[i % 2]}/{n}": c for i, (n, c) in enumerate(_flat())},
        {"labels.csv": csv(NAMES, age=["old", "young", "young"])},
    ),
    "split_flag": row(
        LABELLED, PHOTOS, {"labels.csv": csv(NAMES, label=PETS, is_valid=["True", "False"])}
    ),
    "splits_in_paths": Row("--images pets", folders("pets/a/archive/{train,valid}/{cat,dog}")),
    "table": row("--images photos --seed 3", PHOTOS, {"photos/labels.csv": csv(NAMES, label=PETS)}),
    "table_above": row(
        "--images photos", PHOTOS, {"train.csv": csv(NAMES, label=PETS), "other.csv": "a,b\n1,2\n"}
    ),
    "json": row("--images photos", folders("photos/{a,b}"), {"photos/labels.json": '{"0": "c"}'}),
    "coco": row(
        "--images coco/train2017",
        images(*(f"coco/{split}/{n}" for split in COCO_SPLITS for n in COCO_SPLITS[split])),
        {
            f"coco/annotations/{kind}_{split}.json": coco(names)
            for kind in ("captions", "instances")
            for split, names in COCO_SPLITS.items()
        },
    ),
    "coco_part": row(
        "--images set/images/train",
        images("set/images/train/{0..11}.jpg", "set/images/more/x.jpg"),
        {"set/annotations/instances_all.json": coco(paths("images/train/{0..11}.jpg"))},
    ),
    "voc_in_folders": row(
        "--images sets",
        images("sets/a/a{0..2}.jpg", "sets/b/b{0..2}.jpg"),
        voc(*paths("sets/a/a{0..2}.jpg", "sets/b/b{0..2}.jpg")),
    ),
    "voc_deeper": row(
        "--images photos",
        images("photos/a/b/{0..2}.jpg", "photos/c/9.jpg"),
        voc(*paths("photos/a/b/{0..2}.jpg", "photos/c/9.jpg")),
    ),
    "xml": row(
        "--images photos", folders("photos/{a,b}"), {"photos/catalogue.xml": "<catalogue/>"}
    ),
    "kitti": row("--images left", images("left/{0..11}.jpg"), texts(KITTI, "labels/{0..11}.txt")),
    "yolo": row(
        "--images cars",
        images("cars/{0..11}.jpg"),
        texts("0 0.5 0.5 0.25 0.5\n", "labels/{0..11}.txt"),
    ),
    "captions": row(
        "--images photos --max_bad_fraction 0.5",
        PHOTOS,
        texts("\na cat on a mat\n", "photos/{0..7}.txt"),
    ),
    "masks": row(
        "--images data --max_bad_fraction 0.5",
        images("data/images/{0..11}.jpg"),
        masks("data/masks/{0..11}.png", "data/masks/{more,others}.png"),
    ),
    "masks_among": row(
        "--images scans",
        images("scans/{benign,malignant}/{0..2}.png"),
        masks("scans/{benign,malignant}/{0..2}_mask.png", size=(100, 80)),
    ),
    "images": Row("--images data", images("data/images/{0..11}.jpg")),
    "splits_only": Row("--images photos", folders("photos/{train,val}")),
    "splits_below": Row("--images photos", folders("photos/{cat,dog}/{test,train}")),
}

FURTHER = {
    "minus_one": Row(LABELLED, column("label", -1, 0, 1, 2)),
    "minus_one_and_one": Row(LABELLED, column("label", -1, 1)),
    "pandas_index": row(
        LABELLED,
        PHOTOS,
        {
            "labels.csv": ",filename,label\n"
            + "".join(f"{i},{name},{PETS[i % 2]}\n" for i, name in enumerate(NAMES))
        },
    ),
    "table_in_one_of_several": row(
        "--images a b",
        images("a/cat/{0..5}.jpg", "b/dog/{6..11}.jpg"),
        {"a/labels.csv": csv(NAMES, label=PETS)},
    ),
    "table_beside_globs": row(
        "--images a/*/*.jpg b/*/*.jpg",
        images("a/cat/{0..5}.jpg", "b/dog/{6..11}.jpg"),
        {"a/labels.csv": csv(NAMES, label=PETS)},
    ),
    "taken_below": row(
        "--images demo",
        images("demo/images/{0..11}.jpg"),
        {"demo/labels.csv": csv(NAMES, label=PETS), "demo/notes.csv": "a,b\nx,y\n"},
    ),
    "taken_wrapped": Row("--images wrapped", folders("wrapped/data/{train,val}/{cat,dog}")),
    "taken_voc": row(
        "--images boxes", images("boxes/set/{0..3}.jpg"), voc(*paths("boxes/set/{0..3}.jpg"))
    ),
    "confirmed_folders": row(
        "--images data --layout class_folders",
        images("data/images/{0..11}.jpg"),
        masks("data/masks/{0..11}.png"),
    ),
    "confirmed_integers": Row(f"{LABELLED} --class_ids keep", column("age", *range(20, 30))),
    "confirmed_column": Row(f"{LABELLED} --columns age:str", column("age", *range(20, 30))),
    "few_images": Row("--images photos", images("photos/pets/{0..3}.jpg")),
    "boxes_in_cells": Row(LABELLED, column("label", "cat 1 2 3 4", "dog 1 1 5 5", "cat 2 2 3 3")),
    "partition": row(
        "--images photos --labels list_eval_partition.csv",
        PHOTOS,
        {"list_eval_partition.csv": csv(NAMES, partition=[0, 0, 1, 2])},
    ),
    "one_hot": row(
        LABELLED, PHOTOS, {"labels.csv": csv(NAMES, cat=[1, 0, 0], dog=[0, 1, 0], owl=[0, 0, 1])}
    ),
    "whole_classes": Row(
        "--images photos --split_by folder --splits train=0.5,test=0.5",
        folders("photos/{cat,dog,elk,fox}"),
    ),
    "bracketed_parts": Row(LABELLED, column("label", "[cat", "dog]", "[elk")),
    "tags": Row(LABELLED, column("tags", "red big", "red", "big red dog", "dog")),
    "semicolons": Row(LABELLED, column("label", "cat;dog", "dog;elk", "elk;cat")),
    "lists_of_integers": Row(LABELLED, column("label", "16 0", "0", "16 1")),
    "commas_of_one_name": Row(
        LABELLED, column("label", "tench, Tinca tinca", "goldfish, Carassius auratus")
    ),
    "scientific": Row(LABELLED, column("label", *(f"{i}e5" for i in range(11)), "x")),
    "people": Row("--images lfw", images("lfw/{a,b,c,d,e,f,g,h,i,j,k}/1.jpg")),
    "images_below": Row("--images tiny", folders("tiny/n{01,02,03}/images")),
    "images_and_masks_below": Row(
        "--images dsb", images("dsb/{0a,0b,0c}/{images,masks}/{0..1}.png")
    ),
    "split_beside_classes": Row("--images photos", folders("photos/{cat,dog,val}")),
    "images_beside_classes": Row(
        "--images photos", folders("photos/x/{cat,dog,images}", "photos/y/{cat,dog}")
    ),
    "splits_of_some": Row(
        "--images market",
        folders("market/{bounding_box_test,bounding_box_train,gt_bbox,gt_query,query}"),
    ),
    "splits_inside_names": Row("--images pets", folders("pets/images_{train,val}/{cat,dog}")),
    "splits_below_camel": Row("--images pets", folders("pets/{Train,Test}Images/{cat,dog}")),
    "dates_without_slashes": Row("--images photos", folders("photos/{20210503,20210504,20210601}")),
    "years_in_classes": Row("--images cars", folders("cars/{Acura RL Sedan 2012,BMW M3 2011}")),
    "spelled_folders": Row("--images photos", folders("photos/{sea_lion,sea lion,dog}")),
    "missing_in_folders": Row("--images photos", folders("photos/{cat,dog,nan}")),
    "numbers_as_folders": Row("--images photos", folders("photos/{0.1,0.2,0.35}")),
    "lists_as_folders": Row("--images photos", folders("photos/{cat;dog,cat,dog}")),
    "colours": row(
        "--images data",
        images("data/{x,y}/{0..3}.jpg"),
        {"data/class_dict.csv": "name,r,g,b\nsky,1,2,3\nroad,4,5,6\n"},
    ),
    "csv_in_zip": Row(
        "--images set.zip",
        {
            "set.zip": zip_bytes(
                {**images("photos/{cat,dog}/{0..3}.jpg"), "photos/labels.csv": b"a,b\n"}
            )
        },
    ),
    "xml_in_zip": Row(
        "--images set.zip",
        {
            "set.zip": zip_bytes(
                {**images("photos/{cat,dog}/{0..3}.jpg"), **{f"xml/{i}.xml": b"" for i in range(6)}}
            )
        },
    ),
    "notes_in_zip": Row(
        "--images set.zip",
        {
            "set.zip": zip_bytes(
                {**images("photos/{cat,dog}/{0..3}.jpg"), "README.txt": b"", ".x/labels.csv": b""}
            )
        },
    ),
    "images_of_a_bucket_below": Row("--images kaggle/*/*/*", folders("kaggle/images/{cat,dog}")),
    "texts_of_numbers": row(
        "--images photos", folders("photos/{a,b}"), texts("1.5 2.5\n", "photos/{a,b}/{0..3}.txt")
    ),
    "dota": row(
        "--images photos",
        folders("photos/{a,b}"),
        texts("imagesource:x\n1 2 3 4 5 6 7 8 plane 0\n", "photos/{a,b}/{0..3}.txt"),
    ),
    "submission": row(
        "--images photos",
        folders("photos/{a,b}"),
        {"photos/sample_submission.csv": csv(NAMES, label=PETS)},
    ),
    "annotators": row(
        "--images set", DRAWN, {"set/p.json": json.dumps([*map(annotated, range(6))])}
    ),
    "annotators_of_objects": Row("--images set", OF_PEOPLE),
    "annotators_of_objects_kept": Row("--images set --yes --max_bad_fraction 1", OF_PEOPLE),
    "annotators_of_classes": row(
        "--images set", DRAWN, {"set/p.ndjson": jsonl(map(answered, range(6)))}
    ),
    "own_output": row(
        "--images photos",
        folders("photos/{a,b}"),
        {"photos/out/d.tfrecord-00000-of-00001": "", "photos/out/dead_letters.jsonl": "{}"},
    ),
    "wrapper": Row("--images kaggle", folders("kaggle/pets/{cat,dog}")),
    "wrapper_twice": Row("--images a", folders("a/b/c/{cat,dog}")),
    "wrapper_in_splits": Row("--images pets", folders("pets/{train,validation}/photos/{cat,dog}")),
    "paths": Row("--images pets", folders("pets/dog/{pug,poodle}", "pets/cat/siamese")),
    "paths_of_one": Row("--images kaggle", folders("kaggle/pets/cat")),
    "paths_beside_a_copy": Row("--images cells", folders("cells/{,cells/}{ill,well}")),
    "paths_with_splits": Row(
        "--images x",
        folders("x/chest/{train,test}/{ill,well}", "x/chest/chest/{train,test}/{ill,well}"),
    ),
    "paths_of_masks": Row(
        "--images screw", folders("screw/train/good", "screw/{test,ground_truth}/{cut,bent}")
    ),
    "splits_twice": Row(
        "--images intel", folders("intel/seg_{train,test}/seg_{train,test}/{sea,ice}")
    ),
    "crossed": Row("--images cells", folders("cells/{adi,tum,nor}/{40X,100X}")),
    "images_below_some_classes": Row(
        "--images tiny", folders("tiny/train/{n01,n02}/images", "tiny/val/images")
    ),
    "numbered_points": row(
        f"{LABELLED} --label_column none",
        PHOTOS,
        {"labels.csv": csv(NAMES, x1=[1], y1=[2], x2=[3], y2=[4], x3=[5], y3=[6])},
        stable=False,
    ),
    "wrapper_below": Row("--images pets", folders("pets/{cat,dog}/raw")),
    "wrapper_confirmed": Row(
        "--images kaggle --layout class_folders", folders("kaggle/pets/{cat,dog}")
    ),
    "table_of_folder_below": row(
        "--images kaggle",
        images("kaggle/train/{0..5}.jpg", "kaggle/test/{6..11}.jpg"),
        {"kaggle/train.csv": csv(NAMES[:6], label=PETS)},
    ),
    "masks_in_tiff": row(
        "--images data",
        images("data/images/{0..5}.jpg"),
        dict.fromkeys(paths("data/masks/{0..5}.tif"), tiff()),
    ),
    "voc_in_annots": Row("--images set", voc_beside("images")),
    "voc_in_annots_of_pics": Row("--images set", voc_beside("pics")),
    "voc_beside_pics": Row("--images set/pics", voc_beside("pics")),
    "coco_backslashes": row(
        "--images set --labels set/coco.json",
        images("set/{a,b}/{0..2}.jpg"),
        {"set/coco.json": coco(paths("a\\{0..2}.jpg", ".\\b\\{0..2}.jpg"))},
    ),
    "mnist": row(
        "--images photos",
        folders("photos/{a,b}"),
        texts("\0\0\x08\3", "photos/{train,t10k}-{images-idx3,labels-idx1}-ubyte"),
    ),
}

ROWS = {**DOCUMENTED, **FURTHER}
