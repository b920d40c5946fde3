"""Inputs whose labels can only be guessed: those whose words expected/asked.json records come first."""

from __future__ import annotations

import json
from typing import Any

from tests.archives import zip_bytes
from tests.conformance import hubs
from tests.conformance.outcome import Row, row
from tests.conformance.trees import Tree, coco, csv, images, jsonl, paths, png, texts, tiff
from tests.layouts import make_tables, make_voc
from tests.layouts.make_label_tools import annotation, rectangle, task

KITTI = "Car 0.00 0 1.62 1.00 1.00 5.00 6.00 1.52 1.63 3.88 -4.36 1.71 14.20 1.33\n"
NAMES = paths("{0..11}.jpg")
PHOTOS = images("photos/{0..11}.jpg")
DRAWN = {f"set/{i}.png": png(i, make_tables.WIDTH, make_tables.HEIGHT) for i in range(6)}
PETS = ("cat", "dog")


def voc(*names: str) -> Tree:
    """An annotation beside each image, of one object."""
    objects = [("cat", ("1", "1", "5", "6"))]
    return {
        f"{name[:-4]}.xml": make_voc.labelimg_xml(name.rpartition("/")[2], (16, 8), objects)
        for name in names
    }


def voc_beside(folder: str) -> Tree:
    """Images in a folder, and annots/ beside it."""
    annotations = voc(*paths("set/annots/{0..5}.jpg"))
    return {**images(f"set/{folder}/{{0..5}}.jpg"), **annotations}


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

DOCUMENTED_TREES = r"""
classes_below_dates  --images camera  2021-05-0{3,4}/fox/{0..3}.jpg + 2021-05-04/owl/{0..3}.jpg + 2021-06-01/elk/{0..3}.jpg
only_class  {0..11}.jpg  @/labels.csv ; filename,xmin,ymin,xmax,ymax,species ; #.jpg,1,1,5,6,<cat|dog> ; {0..11}
turned_boxes  {0..11}.jpg  @/labels.csv ; filename,cx,cy,w,h,angle,label ; #.jpg,4,3,2,2,<0|30>,<cat|dog> ; {0..11}
split_tables  {0..11}.jpg  @/train.csv ; filename,label ; #.jpg,<cat|dog> ; {0..8}  @/test.csv ; filename,label ; #.jpg,<cat|dog> ; {9..11}
split_roots  --images pets/train pets/val  train/{cat,dog}/1.jpg + val/{cat,dog}/2.jpg
split_column  {0..11}.jpg  @/labels.csv ; filename,label,set ; #.jpg,<cat|dog>,<train|train|val> ; {0..11}
split_numbers  {0..11}.jpg  @/labels.csv ; filename,label,split ; #.jpg,<cat|dog>,<0|0|1|2> ; {0..11}
corners_or_sizes  {0..11}.jpg  @/labels.csv ; filename,label,bbox ; #.jpg,<cat|dog>,"[1, 2, 4, 5]" ; {0..11}
split_flag  {0..11}.jpg  @/labels.csv ; filename,label,is_valid ; #.jpg,<cat|dog>,<True|False> ; {0..11}
table_above  {0..11}.jpg  %/train.csv ; filename,label ; #.jpg,<cat|dog> ; {0..11}  /other.csv = a,b\n1,2\n
xml  {a,b}/{0..3}.jpg  catalogue.xml = <catalogue/>
yolo  --images cars  {0..11}.jpg  /labels/{0..11}.txt = 0 0.5 0.5 0.25 0.5\n
captions  {0..11}.jpg  {0..7}.txt = \na cat on a mat\n  --max_bad_fraction 0.5
masks  --images data  images/{0..11}.jpg  ~masks/{0..11}.png + masks/{more,others}.png  --max_bad_fraction 0.5
masks_among  --images scans  {benign,malignant}/{0..2}.png  ~{benign,malignant}/{0..2}_mask.png
"""

DOCUMENTED = {
    **hubs.rows(DOCUMENTED_TREES, base="photos"),
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
    "spellings": Row("--images photos", folders("photos/train/cat", "photos/test/Cat")),
    "moved_points": row(
        f"{LABELLED} --resize 8",
        PHOTOS,
        {"labels.csv": csv(NAMES, label=PETS, nose_x=[1, 2, 3], nose_y=[4, 5, 6])},
        stable=False,
    ),
    "other_key": row(
        "--images photos --labels l.jsonl --columns pic:skip,of:file",
        PHOTOS,
        {"l.jsonl": jsonl({"id": 99, "pic": n, "of": [n], "label": PETS[n > "5"]} for n in NAMES)},
    ),
    "unused_folders": row(
        LABELLED,
        {f"photos/{('healthy', 'sick')[i % 2]}/{n}": c for i, (n, c) in enumerate(_flat())},
        {"labels.csv": csv(NAMES, age=["old", "young", "young"])},
    ),
    "splits_in_paths": Row("--images pets", folders("pets/a/archive/{train,valid}/{cat,dog}")),
    "table": row("--images photos --seed 3", PHOTOS, {"photos/labels.csv": csv(NAMES, label=PETS)}),
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
    "kitti": row("--images left", images("left/{0..11}.jpg"), texts(KITTI, "labels/{0..11}.txt")),
    "images": Row("--images data", images("data/images/{0..11}.jpg")),
    "splits_only": Row("--images photos", folders("photos/{train,val}")),
    "splits_below": Row("--images photos", folders("photos/{cat,dog}/{test,train}")),
}

FURTHER_TREES = r"""
pandas_index  {0..11}.jpg  @/labels.csv ; ,filename,label ; #,#.jpg,<cat|dog> ; {0..11}
table_in_one_of_several  --images a b  cat/{0..5}.jpg + /b/dog/{6..11}.jpg  %labels.csv ; filename,label ; #.jpg,<cat|dog> ; {0..11}
table_beside_globs  --images a/*/*.jpg b/*/*.jpg  cat/{0..5}.jpg + /b/dog/{6..11}.jpg  %labels.csv ; filename,label ; #.jpg,<cat|dog> ; {0..11}
taken_below  --images demo  images/{0..11}.jpg  %labels.csv ; filename,label ; #.jpg,<cat|dog> ; {0..11}  notes.csv = a,b\nx,y\n
confirmed_folders  --images data  --layout class_folders  images/{0..11}.jpg  ~masks/{0..11}.png
partition  {0..11}.jpg  @/list_eval_partition.csv ; filename,partition ; #.jpg,<0|0|1|2> ; {0..11}
one_hot  {0..11}.jpg  @/labels.csv ; filename,cat,dog,owl ; #.jpg,<1|0|0>,<0|1|0>,<0|0|1> ; {0..11}
whole_classes  {cat,dog,elk,fox}/{0..3}.jpg  --split_by folder  --splits train=0.5,test=0.5
images_beside_classes  x/{cat,dog,images}/{0..3}.jpg + y/{cat,dog}/{0..3}.jpg
colours  --images data  {x,y}/{0..3}.jpg  class_dict.csv = name,r,g,b\nsky,1,2,3\nroad,4,5,6\n
texts_of_numbers  {a,b}/{0..3}.jpg  {a,b}/{0..3}.txt = 1.5 2.5\n
dota  {a,b}/{0..3}.jpg  {a,b}/{0..3}.txt = imagesource:x\n1 2 3 4 5 6 7 8 plane 0\n
submission  {a,b}/{0..3}.jpg  %sample_submission.csv ; filename,label ; #.jpg,<cat|dog> ; {0..11}
own_output  {a,b}/{0..3}.jpg  out/d.tfrecord-00000-of-00001 = \n  out/dead_letters.jsonl = {}
paths_with_splits  --images x  chest/{train,test}/{ill,well}/{0..3}.jpg + chest/chest/{train,test}/{ill,well}/{0..3}.jpg
paths_of_masks  --images screw  train/good/{0..3}.jpg + {test,ground_truth}/{cut,bent}/{0..3}.jpg
images_below_some_classes  --images tiny  train/{n01,n02}/images/{0..3}.jpg + val/images/{0..3}.jpg
table_of_folder_below  --images kaggle  train/{0..5}.jpg + test/{6..11}.jpg  %train.csv ; filename,label ; #.jpg,<cat|dog>
"""

FURTHER = {
    **hubs.rows(FURTHER_TREES, base="photos"),
    "minus_one": Row(LABELLED, column("label", -1, 0, 1, 2)),
    "minus_one_and_one": Row(LABELLED, column("label", -1, 1)),
    "taken_wrapped": Row("--images wrapped", folders("wrapped/data/{train,val}/{cat,dog}")),
    "taken_voc": row(
        "--images boxes", images("boxes/set/{0..3}.jpg"), voc(*paths("boxes/set/{0..3}.jpg"))
    ),
    "confirmed_integers": Row(f"{LABELLED} --class_ids keep", column("age", *range(20, 30))),
    "confirmed_column": Row(f"{LABELLED} --columns age:str", column("age", *range(20, 30))),
    "few_images": Row("--images photos", images("photos/pets/{0..3}.jpg")),
    "boxes_in_cells": Row(LABELLED, column("label", "cat 1 2 3 4", "dog 1 1 5 5", "cat 2 2 3 3")),
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
    "annotators": row(
        "--images set", DRAWN, {"set/p.json": json.dumps([*map(annotated, range(6))])}
    ),
    "annotators_of_objects": Row("--images set", OF_PEOPLE),
    "annotators_of_objects_kept": Row("--images set --yes --max_bad_fraction 1", OF_PEOPLE),
    "annotators_of_classes": row(
        "--images set", DRAWN, {"set/p.ndjson": jsonl(map(answered, range(6)))}
    ),
    "wrapper": Row("--images kaggle", folders("kaggle/pets/{cat,dog}")),
    "wrapper_twice": Row("--images a", folders("a/b/c/{cat,dog}")),
    "wrapper_in_splits": Row("--images pets", folders("pets/{train,validation}/photos/{cat,dog}")),
    "paths": Row("--images pets", folders("pets/dog/{pug,poodle}", "pets/cat/siamese")),
    "paths_of_one": Row("--images kaggle", folders("kaggle/pets/cat")),
    "paths_beside_a_copy": Row("--images cells", folders("cells/{,cells/}{ill,well}")),
    "splits_twice": Row(
        "--images intel", folders("intel/seg_{train,test}/seg_{train,test}/{sea,ice}")
    ),
    "crossed": Row("--images cells", folders("cells/{adi,tum,nor}/{40X,100X}")),
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
