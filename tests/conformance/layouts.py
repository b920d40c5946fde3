"""Where images and labels may lie, which split and class each gets, and options of a layout."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow
from pyarrow import parquet

from tests.archives import tar_bytes, zip_bytes
from tests.conformance import golden, hubs, outcome
from tests.conformance.trees import JPEG, Tree, images, paths, texts
from tests.layouts import make_label_tools as label_tools
from tests.layouts import make_shape_tools as shape_tools
from tests.layouts.make_tables import drawing, objects

TREES = r"""
imagefolder_splits  {VAL,testing}/{sub/1,2}.png  {VAL,testing}/metadata.csv = file_name,label\nsub/1.png,cat\n./2.png,dog\n
imagefolder_of_folders  {train/1,test/1,more/2}.png
  metadata.csv = image_file_name,label\ntrain/1.png,cat\ntest/1.png,dog\nmore/2.png,cat\n
imagefolder_other_split  {train/1,test/2}.png  train/metadata.csv = file_name,label\n1.png,cat\n2.png,cat\n
  test/metadata.csv = file_name,label\n../train/1.png,cat\n
imagefolder_three  {a/1,b/2,c/3}.png  a/metadata.csv = file_name,label\n1.png,cat\n
  b/metadata.jsonl = {"file_name": "2.png", "label": "dog"}\n  --images set/c set/a set/b
imagefolder_no_paths  {cat,dog}/1.png  metadata.csv = camera,price\nx,5\n
imagefolder_no_ids  {cat,dog}/1.png  metadata.csv = id,comment\n1,x\n
imagefolder_semicolons  {cat,dog}/1.png  metadata.csv = width;height\n5;6\n
imagefolder_key_column  cat/1.png  metadata.csv = photo,label\ncat/1.png,dog\n  --key_column photo
imagefolder_polygons  1.png
  metadata.jsonl = {"file_name": "1.png", "objects": {"bbox": [[1, 1, 3, 3]], "categories": ["a"], "polygon": [[1, 1, 2, 2]]}}\n

yolo_classes_txt  images/{train,val}/{0..1}.jpg  labels/{train,val}/{0..1}.txt = 0 0.5 0.5 0.5 0.5\n  labels/classes.txt = mug\ncup
yolo_without_names  images/{0..1}.jpg  labels/{0..1}.txt = 7 0.5 0.5 0.5 0.5\n
yolo_roboflow  {train,valid,test}/images/a.b.jpg  {train,valid,test}/labels/a.b.txt = 0 0.5 0.5 0.5 0.5\n
  data.yaml = train: ../train/images\nval: ../valid/images\ntest: ../test/images\nnc: 1\nnames: ['mug']\n
yolo_labelimg  {a.jpg,b.png}  a.txt = 0 0.5 0.5 0.5 0.5\n  classes.txt = mug\ncup\n
yolo_labels  photos/{x/a,y/a,b}.jpg  notes/x/a.txt = 0 0.5 0.5 0.5 0.5\n  notes/y/a.txt = 1 0.5 0.5 1 1  notes/b.txt = \n
  --images set/photos --labels set/notes
yolo_lists  images/{a,b,c}.jpg  labels/{a,b,c}.txt = 0 0.5 0.5 0.5 0.5\n  train.txt = ./images/a.jpg\n  val.txt = images/b.jpg\n
yolo_turned  images/a.jpg  labels/a.txt = 1 0.25 0.25 0.75 0.25 0.75 0.75 0.25 0.75\n  --yolo_task obb
yolo_outlines  images/{a,b}.png  labels/a.txt = 1 0.25 0.25 0.75 0.25 0.75 0.75 0.25 0.75\n0 0.5 0.5 1 0.5 1 1\n
  --object_features masks
yolo_key_points  images/a.jpg  labels/a.txt = 0 0.5 0.5 0.5 0.5 .5 .25 2 0 0 0\n
  data.yaml = train: images\nnames: [a]\nkpt_shape: [2, 3]\n

table_lists_of_kinds  {a,b,c}.jpg
  l.csv = id,label,n,w,zip,t\na,cat,1|2|3,0.5;1,1 2,x|x\nb,dog,,,,\nc,cat,7,-2.25,5,|y|\n  --labels set/l.csv
  --list_column n=| --list_column w=; --list_column 'zip= ' --list_column t=| --columns zip:str
table_bad_boxes  {0..11}.jpg  %l.csv ; image,class,x1,y1,x2,y2 ; #.jpg,dog,<1|5|1|1|1|1>,1,5,5 ; {0..11}
  m.csv = image,class,x1,y1,x2,y2\n0.jpg,cat,1,x,5,5\n1.jpg,,1,1,5,5\n  --labels set/l.csv set/m.csv
table_one_hot  {0..5}.jpg  @l.csv ; image,is_cat,is_dog ; #.jpg,<0.0|1.0>,<1.0|0.0>  --one_hot is_*
table_of_groups  {b,c/d}/{1..3}.jpg  @l.csv ; filename,patient ; #.jpg,<x|y> ; {b,c/d}/{1..3}
  --splits train=0.5,test=0.5 --split_by patient --stratify
table_of_numbers  {a,b}.png  l.csv = filename,label,age,height\na,0.5,31,1.75\nb,1.5,,1.5\n  --labels set/l.csv
table_of_numbers_alone  {a,b}.png  l.csv = filename,label,age,height\na,0.5,31,1.75\nb,1.5,,1.5\n  --labels set/l.csv
  --label_column none --columns age:float
automl_of_names  {a,sub/b}.jpg  l.csv = a.jpg,cat\nTEST,sub/b.jpg,dog\n  --labels set/l.csv --layout automl
automl_as_table  {a,b}.jpg  l.csv = TRAIN,gs://b/set/a.jpg,cat\nTEST,gs://b/set/b.jpg,dog\n  --labels set/l.csv --layout table

class_folders_splits  {train,val}/{bus,van}/{0..2}.png  --splits all=1
class_folders_order  {10,9,-1,b,a10,a9,009}/1.png  --label_order numeric
file_names_twice  a/{owl_1,owl_2,night/cat_12,test/cat_7}.jpg  b/{owl_1,dog_3}.jpg
  --images set/a set/b --label_from '(?P<label>.+)_(?P<shot>\d+)\.jpg' --columns shot:int
pairs_of_splits  {train,test}/{A,B,label}/{1,3}.png  --layout pairs
pairs_of_sides  s{0..4}/{left,right}.png  --layout pairs
masks_among_images  {0,1}/{2,3}.png  ~{0,1}/{2,3}_mask.png  --masks set/**/*_mask.png
masks_among_some_images  {0,1}/{2,3}.png  ~{0,1}/{2,3}_mask.png  --images set/**/*.png --masks set/**/*_mask.png
"""

CAR, PERSON, _ = (line.strip() for line in golden.KITTI_LINES)
PETS: Mapping[str, bytes] = {
    f"{name}/{i}.jpg": JPEG for i, name in enumerate(("cat", "dog", "cat", "dog"))
}


def row(argv: str, *trees: Tree) -> outcome.Row:
    """A conversion by default of set/, whatever is left out or asked."""
    argv = argv if "--images" in argv else f"--images set {argv}"
    return outcome.row(f"{argv} --max_bad_fraction 1 --yes", *trees)


def below(folder: str, files: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{folder}/{name}": content for name, content in files.items()}


def voc(pictures: str, options: str = "", **kinds: str) -> outcome.Row:
    """Images in set/, and an annotation of one object for each keyword: __ is a slash."""
    text = golden.VOC.replace("100", "16").replace("80", "8")
    found = golden.VOC_OBJECT.replace("60.5", "12").replace("80", "8")
    annotations = {
        f"set/{name.replace('__', '/')}.xml": text.format(
            name="stale.png", objects=found.format(name=kind, flag=0, left=2)
        )
        for name, kind in kinds.items()
    }
    return row(options, images(f"set/{pictures}"), annotations)


def listed(conversion: outcome.Row, **lists: str) -> outcome.Row:
    """The same with lists of VOC's splits."""
    files = dict(conversion.files) if isinstance(conversion.files, Mapping) else {}
    files |= {f"set/ImageSets/Main/{name}.txt": text for name, text in lists.items()}
    return outcome.Row(conversion.argv, files)


def kitti(labels: str = CAR, argv: str = "", **lists: str) -> outcome.Row:
    """Five images with the same labels, and lists of splits."""
    return row(
        argv,
        images("set/training/image_2/{0..4}.png"),
        texts(labels, "set/training/label_2/{0..4}.txt"),
        {f"set/ImageSets/{name}.txt": text for name, text in lists.items()},
    )


def coco(
    pictures: str, options: str = "", name: str = "annotations/instances_val.json", **lists: Any
) -> outcome.Row:
    """An image a.jpg with an object, unless the lists of the file are others."""
    content = {
        "images": [{"id": 0, "file_name": "a.jpg"}],
        "annotations": [
            {"id": 5, "image_id": 0, "category_id": 1, "bbox": [1, 2, 3, 4], "area": 9}
        ],
        "categories": [{"id": 1, "name": "cat"}],
        **lists,
    }
    labels = texts(json.dumps(content), f"set/{name}")
    return row(options, images(f"set/{pictures}"), labels)


def archives(options: str = "", rows_of: str = "", **members: Mapping[str, bytes]) -> outcome.Row:
    """Archives, named by keywords in which __ is a point; perhaps with a table of pets, called after a pattern."""
    packed = {
        name.replace("__", "."): (zip_bytes if "zip" in name else tar_bytes)(content)
        for name, content in members.items()
    }
    stems = [path.removesuffix(".jpg") for path in PETS]
    table = "".join(f"{rows_of.format(stem)},{i}\n" for i, stem in enumerate(stems))
    labels = {"l.csv": f"image,label\n{table}"} if rows_of else {}
    return row(f"--images {' '.join(packed)} {options}", packed, labels)


def made(argv: str, make: Callable[[str], object]) -> outcome.Row:
    """A data set that a maker writes."""

    def write() -> None:
        make(".")

    return outcome.Row(f"{argv} --max_bad_fraction 1 --yes", write, stable=False)


def parquet_bytes(**columns: Sequence[Any]) -> bytes:
    """A table, as pandas writes it."""
    out = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), out)
    return out.getvalue()


PLACES = [{"id": i, "file_name": f"{i}.jpg", "place": p} for i, p in enumerate("aabbccdd")]
LVIS = {
    "id": 0,
    "coco_url": "http://images.cocodataset.org/val2017/a.jpg",
    "neg_category_ids": [7, 3],
}
ONE_CAPTION = {"annotations": [{"id": 1, "image_id": 0, "caption": "One."}], "categories": []}
BREEDS = (("pug", "train"), ("lab", "val"), ("pug", "test"))
OF_BREEDS = {
    f"{i}.{kind}": content
    for i, (breed, split) in enumerate(BREEDS)
    for kind, content in (
        ("jpg", JPEG),
        ("json", json.dumps({"breed": breed, "age": i, "split": split}).encode()),
    )
}
TENS = {"2.jpg": JPEG, "2.cls": b"2", "10.jpg": JPEG, "10.cls": b"10"}
OF_TOOLS = {
    "labelme": "--columns description:str,occluded:int,flags:str",
    "supervisely": "--object_features masks --columns colour:str,tags:str",
    "cvat": "--object_features masks --columns colour:str,occluded:int",
    "via": "--columns colour:str,night:str",
    "labelbox": "--columns seen:str,time:str --object_features masks",
    "datumaro": "--columns occluded:int,rotation:float,frame:int,caption:str",
    "hasty": "--columns side:int,tags:str --list_column tags=,",
}

ROWS = {
    **hubs.rows(TREES, "--max_bad_fraction 1 --yes"),
    "lists_of_splits": outcome.Row(
        "--images set/images --labels set/train.txt set/TestList.txt",
        images("set/images/{b/1,b/2,c/d/3,c/d/4,b/5,c/d/6}.jpg")
        | {"set/train.txt": "b/1\nb/2\n/c/d/3.jpg\n", "set/TestList.txt": "c/d/4\n5.jpg\n"},
    ),
    "voc_in_splits": voc("{train,test}/1.jpg", train__1="cat", test__1="dog"),
    "voc_in_a_tree": voc(
        "Data/{a,b}/1.jpg",
        "--layout voc --images set/Data --labels set/Notes",
        Notes__a__1="cat",
        Notes__b__1="dog",
    ),
    "voc_further_down": voc("images/pug_1.jpg", annotations__xmls__pug_1="cat"),
    "voc_unlisted": listed(
        voc("JPEGImages/{a,b,c,d}.jpg", **{f"Annotations__{name}": "cat" for name in "abcd"}),
        train="a\n",
        val="b\n",
        trainval="a\r\nb\r\nc.jpg\r\n",
        test="x\ny\n",
    ),
    "voc_some_annotations": listed(
        voc(
            "JPEGImages/{a,b,c}.jpg",
            "--labels set/few",
            Annotations__c="cat",
            few__a="cat",
            few__b="cat",
        ),
        train="a\n",
        val="b\n",
    ),
    "kitti_own_types": kitti(
        "\n".join(CAR.replace("Car", n) for n in ("Car", "car", "Bus", "Tram"))
    ),
    "kitti_from_zero": kitti(f"{PERSON}\n{CAR}", "--label_base 0"),
    "kitti_lists": kitti(train="0\n3\n", val="1\r\n", test="0\n2\n"),
    "kitti_lists_above": kitti(CAR, "--images set/training/image_2", train="0\n3\n", val="1\r\n"),
    "kitti_folders": row("--images i --labels l", images("i/x.1.png"), {"l/x.1.txt": CAR}),
    "kitti_same_names": row(
        "--layout kitti --images set --labels set/a set/b",
        images("set/{a,b}/{1,2}.png"),
        texts(CAR, "set/a/{1,2}.txt"),
        texts(PERSON, "set/b/{1,2}.txt"),
    ),
    "kitti_archives": row(
        "--images a/training --labels b",
        images("a/training/image_2/x.png"),
        {"b/training/label_2/x.txt": CAR},
    ),
    "coco_same_names": coco(
        "{train,val}2017/a.jpg", name="annotations/instances_{train,val}2017.json"
    ),
    "coco_same_names_in_images": coco(
        "images/{train,val}2017/a.jpg", name="annotations/instances_{train,val}2017.json"
    ),
    "coco_images_elsewhere": coco(
        "{elsewhere/a,val/b}.jpg",
        "--images set/elsewhere --labels set/annotations/instances_val.json",
    ),
    "coco_one_folder_of_an_export": coco(
        "{train,valid}/a.jpg", "--images set/valid", "{train,valid}/_annotations.coco.json"
    ),
    "coco_captions_alone": coco("a.jpg", name="annotations/captions_val.json", **ONE_CAPTION),
    "coco_groups": coco(
        "{0..8}.jpg",
        "--splits train=0.5,test=0.5 --split_by place --seed 1",
        "_annotations.coco.json",
        images=[*PLACES, {"id": 8, "file_name": "8.jpg"}],
    ),
    "coco_clipped": coco(
        "a.jpg",
        "--clip_boxes",
        annotations=[{"id": 1, "image_id": 0, "category_id": 1, "bbox": [-5, 0, 50, 8]}],
    ),
    "coco_of_another_size": coco(
        "{a,b}.jpg",
        images=[
            {"id": i, "file_name": f"{'ab'[i]}.jpg", "width": 32 * i, "height": 8} for i in (0, 1)
        ],
    ),
    "lvis": coco(
        "a.jpg",
        "--labels set/annotations/lvis_v1_val.json",
        "annotations/lvis_v1_val.json",
        images=[{**LVIS, "not_exhaustive_category_ids": []}],
    ),
    "zip_of_classes": archives(set__zip=PETS),
    "tar_of_classes": archives(set__tar=below("./a/b", PETS)),
    "zip_of_splits": archives(set__zip={**below("p/train", PETS), "p/val/cat/9.jpg": JPEG}),
    "zips_of_splits": archives(pets_train__zip=PETS, pets_val__zip=PETS),
    "zips_of_two_depths": archives(
        "--label_from '(?:.*/)?(?P<label>[^/]+)/[^/]+'", a__zip=PETS, b__zip=below("photos", PETS)
    ),
    **{
        f"zip_and_rows_{name}": archives("--labels l.csv", pattern, pets__zip=below("photos", PETS))
        for name, pattern in {
            "path": "{}.jpg",
            "stem": "{}",
            "key": "pets.zip/photos/{}.jpg",
            "inside": "photos/{}",
            "windows": "photos\\{}.jpg",
        }.items()
    },
    "zip_and_rows_of_its_name": archives("--labels l.csv", "pets/{}.jpg", pets__zip=PETS),
    "webdataset_far_apart": archives(
        a__zip={"x/0.jpg": JPEG, "y/0.jpg": JPEG, "y/0.cls": b"1", "x/0.cls": b"0"}
    ),
    "webdataset_number": archives("--class_ids number", a__tar=TENS),
    "webdataset_keep": archives("--class_ids keep", a__tar=TENS),
    "webdataset_column": archives("--label_column breed", a__tar=OF_BREEDS),
    "webdataset_captions": archives(a__tar={"0.jpg": JPEG, "0.txt": "ein Hündchen\n".encode()}),
    "table_of_captions": row(
        "--images set --labels l.txt",
        images("set/{a,b}.jpg"),
        {"l.txt": "a.jpg#0\tA dog .\na.jpg#1\tA pug runs .\nb.jpg#0\tTwo cats .\n"},
    ),
    "table_of_parquet": row(
        "--images set --labels l.parquet",
        images("set/{0..5}.jpg"),
        {
            "l.parquet": parquet_bytes(
                file=paths("{0..5}.jpg"), label=[*"aabbab"], weight=[*range(6)]
            )
        },
    ),
    "tars_and_ambiguous_rows": row(
        "--images a.tar b.tar --labels l.csv",
        {f"{name}.tar": tar_bytes({"1.jpg": JPEG, f"{name}.jpg": JPEG}) for name in "ab"},
        {"l.csv": "image,label\n1.jpg,x\nb.tar/1.jpg,z\na.jpg,y\nb.jpg,y\n"},
    ),
    **{
        f"{tool}_values": made(f"--images {tool} {options}", maker)
        for tool, options in OF_TOOLS.items()
        for maker in [
            label_tools.make_label_tools
            if tool in ("labelbox", "datumaro", "hasty")
            else shape_tools.make_shape_tools
        ]
    },
    **{
        name: outcome.Row(
            "--images set --max_bad_fraction 1 --yes",
            below("set", {**label_tools.exported(name), **pictures}),
            stable=False,
        )
        for names, pictures in (
            (paths("via_{csv,json}"), shape_tools.images()),
            (
                paths("ultralytics_{segment,obb,pose}"),
                {n: drawing(b) for n, b in objects().items()},
            ),
        )
        for name in names
    },
}
