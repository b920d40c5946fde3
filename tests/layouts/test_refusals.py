"""Inputs and options that no layout can use end the run before anything is written, with what was expected."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests import archives, pictures
from tests.conformance.trees import Tree, coco, csv, images, texts
from tests.harness import convert
from tests.layouts import make_boxes, make_shape_tools, make_voc
from tests.layouts.make_coco import instances, make_coco
from tests.layouts.make_segmentation import make_segmentation
from tests.layouts.make_tables import make_class_folders, make_tables

IMAGE = pictures.picture(1)
YOLO_LINE = "0 0.5 0.5 0.5 0.5\n"
COCO_VAL = "coco/annotations/instances_val2017.json"
COCO_TRAIN = "coco/annotations/instances_train2017.json"
AGREE = "; files that are converted together must agree on their categories\n"
NO_COCO = (
    "no annotations/instances_*.json below it and no _annotations.coco.json in it or its folders; name "
    "COCO's JSON files with --labels\n"
)
ROWS_OF_AUTOML = "expected rows such as TRAIN,gs://bucket/a.jpg,label, and no header"
SHOT = r"'(?P<label>.+)_(?P<shot>\d+)\.jpg'"


def tar(*names: str) -> bytes:
    return archives.tar_bytes(dict.fromkeys(names, IMAGE))


@dataclass(frozen=True)
class Refused:
    """Files in the working folder.

    Attributes:
      files: path -> content.
      messages: arguments, as typed -> what the error contains; HERE is the working folder.
      options: further arguments of each.
      make: writes further files, before the others.
      code: the exit code; 1 if the input is damaged.
    """

    files: Tree
    messages: Mapping[str, str]
    options: str = ""
    make: Callable[[str], object] = field(default=os.path.exists)
    code: int = 2


YEAR = {"set/JPEGImages/a.jpg": IMAGE, "set/Annotations/a.xml": make_voc.CAT}

REFUSED = {
    "voc": Refused(
        {**YEAR, "other/JPEGImages/a.jpg": IMAGE, "plain/a.jpg": IMAGE},
        {
            "--images other": "--images other: no .xml files of Pascal VOC beside HERE/other/JPEGImages; expected JPEGImages/ "
            "and Annotations/ (or a folder",
            "--images plain": "--images plain: no data set of the layout voc; expected JPEGImages/ and Annotations/ (or a folder",
            "--images nowhere": "--images nowhere: no data set of the layout voc",
            "--images plain --labels plain": "no .xml files of Pascal VOC in HERE/plain; expected one for each image, "
            "of its name",
            "--images plain --labels set/Annotations/a.xml": "--labels set/Annotations/a.xml is a file; expected a "
            "folder of .xml files of Pascal VOC",
            "--images set --label_column x": "--label_column means nothing for the layout voc",
        },
        "--layout voc",
    ),
    "voc, same names": Refused(
        {**YEAR, "other/JPEGImages/a.jpg": IMAGE, "other/Annotations/a.XML": make_voc.CAT},
        {
            "--images .": "HERE/other/Annotations and HERE/set/Annotations contain files of the same names, 1 in "
            "all, such as a.xml. VOC2012 contains all",
        },
        "--layout voc",
    ),
    "voc, two lists": Refused(
        {**YEAR, "set/ImageSets/Main/train.txt": "a\nb\n", "set/ImageSets/Main/val.txt": "c\nb\n"},
        {
            "--images set": "HERE/set/ImageSets/Main/val.txt names 1 image, such as 'b', that another list beside it "
            "gives to train; take each out of one of them",
        },
    ),
    "voc, encoding": Refused(
        {**YEAR, "set/ImageSets/Main/train.txt": b"caf\xe9\n"},
        {"--images set": "HERE/set/ImageSets/Main/train.txt is not UTF-8"},
    ),
    "kitti": Refused(
        {
            "plain/a.png": IMAGE,
            "lonely/image_2/a.png": IMAGE,
            "good/a.txt": make_boxes.CAR,
            "labels.csv": "filename,label\n",
        },
        {
            "--images plain": "--images plain: no data set of the layout kitti; expected image_2/ beside label_2/ in it or in its "
            "training/. --labels names a folder of .txt files of KITTI elsewhere",
            "--images lonely": "--images lonely: no .txt files of KITTI beside HERE/lonely/image_2; expected image_2/ beside",
            "--images plain --labels labels.csv": "--labels labels.csv is a file; expected a folder of .txt files "
            "of KITTI",
            "--images plain --labels nowhere": "--labels nowhere does not exist; expected a folder of .txt "
            "files of KITTI",
            "--images plain --labels lonely": "no .txt files of KITTI in HERE/lonely; expected one for each "
            "image, of its name",
            "--images nowhere --labels good": "--images nowhere: no such file or folder",
            "--images plain --labels good --key_column x": "--key_column means nothing for the layout kitti",
        },
        "--layout kitti",
    ),
    "yolo": Refused(
        {
            **images("{points,boxes,gone}/images/a.jpg"),
            "points/labels/a.txt": "0" + " 0.5" * 9,
            **texts(YOLO_LINE, "{boxes,gone}/labels/a.txt"),
            "gone/data.yaml": "train: x\nnames: [a]\n",
        },
        {
            "--images points": "label files of key points need kpt_shape, [number of key points, 2 or 3], in data.yaml",
            "--images gone": "data.yaml: nothing of what it names is there: x in ",
            "--images boxes --object_features masks": "--object_features masks: the label files lack outlines "
            "(--yolo_task is detect)",
            "--images boxes --object_features faces": "--object_features is 'faces', expected one of (masks, keypoints)",
            "--images boxes --yolo_task classify": "--yolo_task is 'classify', expected one of (detect, segment, pose, "
            "obb)",
            "--images boxes --layout kitti": "expected image_2/ beside label_2/",
            "--images boxes --label_base 1": "--label_base means nothing for the layout",
        },
    ),
    "automl": Refused(
        {"header.csv": "filename,label\na.jpg,cat\n", "names.csv": "a.jpg,cat,3\n"},
        {
            "--labels flowers.csv --key_column x": "--key_column means nothing for the layout automl (AutoML's CSV in "
            "flowers.csv)",
            "--labels flowers.csv --list_column x=;": "--list_column x: there is only 'label'",
            "--labels flowers.csv --layout table --one_hot x": "--one_hot means nothing: HERE/flowers.csv has no header: "
            "its first line is",
            "--labels flowers.csv header.csv --layout automl": "HERE/header.csv, line 1 names no image: 'filename,label'; "
            f"{ROWS_OF_AUTOML}",
            "--labels header.csv --layout automl": "HERE/header.csv, line 1 names no image: 'filename,label'; "
            "expected rows such as ",
            "--labels names.csv": "HERE/names.csv: the first line contains an image's name ('a.jpg') where column names "
            "are",
        },
        "--images my-project-vcm",
        make_boxes.make_automl,
    ),
    "class_folders": Refused(
        {"l.csv": "filename,label\n"},
        {
            "--layout class_folders --labels l.csv": "--layout class_folders takes labels from where the images are; "
            "leave out --labels",
            "--label_column x": "--label_column means nothing for the layout class_folders (no --labels and no other",
            "--label_order alphabetic": "--label_order is 'alphabetic', expected one of ",
            "--label_base 2": "--label_base is 2, expected one of (0, 1)",
            "--features image/source_id=lable": "--features image/source_id=lable: there is no feature or column "
            "'lable'",
            "--features a=label,b=label": "--features writes image/class/label twice; give it one key",
            "--features image/encoded=label": "--features image/encoded=label: the image would be left out",
            "--features label": "--features: 'label' in 'label': expected KEY=WHAT",
        },
        "--images digits",
        make_class_folders,
    ),
    "file_names": Refused(
        images("photos/{a_1,b_2}.jpg"),
        {
            "--label_from '(?P<label>'": "is not a regular expression: ",
            r"--label_from '.*\.jpg'": r"'.*\\.jpg' lacks a named group; expected one such as",
            "--label_from '(?P<label>[[a-z]+)'": "is not a regular expression: Possible nested set at position 11",
            "--label_from '(?P<split>.+)'": "has only the group split; expected one called label",
            f"--label_from {SHOT} --columns size:int": "--columns: no group 'size' in --label_from "
            f"{SHOT[1:-1]}; its groups are label, shot",
            f"--label_from {SHOT} --labels l.csv --layout file_names": "--layout file_names takes labels from where "
            "the images are; leave out --labels",
            "--layout file_names": "--layout file_names needs --label_from",
            f"--label_from {SHOT} --layout class_folders": "--label_from means nothing for the layout class_folders; it "
            "is for file_names",
        },
        "--images photos",
    ),
    "imagefolder": Refused(
        {
            **images("{damaged,two,twice,none,keys,plain,named}/1.png"),
            "damaged/metadata.parquet": b"PAR1",
            "two/metadata.csv": "file_name,label\n",
            "two/metadata.jsonl": "{}\n",
            "twice/metadata.csv": "file_name,label,label\n1.png,a,b\n",
            "none/train/metadata.jsonl": "[1]\n",
            "keys/metadata.csv": "a_file_name,b_file_name\n1.png,1.png\n",
            "named/metadata.csv": "file_name,label\n1.png,a\n",
        },
        {
            "--images damaged": "HERE/damaged/metadata.parquet is not a Parquet file, or is damaged or cut short (Parquet "
            "file size is 4 bytes, smaller than the minimum file footer (8 bytes)); write it again",
            "--images two": "HERE/two/metadata.csv and metadata.jsonl are in one folder; remove the one that does not "
            "count",
            "--images twice": "HERE/twice/metadata.csv: the header names 'label' more than once; give each column a "
            "different name",
            "--images none": "HERE/none/train/metadata.jsonl: no line contains a JSON object such as "
            '{"file_name": "a.jpg", "label": "cat"}',
            "--images keys": "HERE/keys/metadata.csv: which of the columns a_file_name, b_file_name names the image? Say "
            "--key_column NAME",
            "--images plain --layout imagefolder": "--layout imagefolder: no metadata.csv, metadata.jsonl or "
            "metadata.parquet in plain or in folders train, validation or test there",
            "--images named --layout imagefolder --labels named/metadata.csv": "--layout imagefolder takes labels from "
            "where the images are; leave out --labels",
        },
    ),
    "table": Refused(
        {"twice.csv": "filename,label,label\na,b,c\n"},
        {
            "--labels labels.csv --list_column tag=;": "HERE/labels.csv: no column 'tag' (--list_column); found filename, "
            "tags, people, rating\n",
            "--labels labels.csv --list_column filename=;": "HERE/labels.csv: the column 'filename' names the image, so "
            "it contains no list (--list_column)\n",
            "--labels twice.csv": "HERE/twice.csv: the header names 'label' more than once; give each column a different "
            "name\n",
            "--layout class_folders --list_column tags=;": "--list_column means nothing for the layout class_folders; it "
            "is for webdataset, parquet, labelme, supervisely, cvat, via, label_studio, labelbox, ultralytics, hasty, "
            "datumaro, coco, imagefolder, caption_files, automl, table\n",
        },
        "--images photos",
        make_tables,
    ),
    "table, splits": Refused(
        {
            **images("photos/{0..3}.jpg"),
            **texts("filename,label\n0.jpg,a\n", "{a,train_test}.csv"),
            "train.csv": csv(["0.jpg", "1.jpg"], label=["a", "b"], split=["train"]),
        },
        {
            "--labels a.csv": "a.csv contains no split, or several; expected names",
            "--labels train_test.csv": "train_test.csv contains no split, or several",
            "--labels train.csv": "the column 'split' contains the split of each row; leave",
            "": "means nothing for the layout class_folders; it is for tables named with --labels",
            "--labels train.csv --stratify": "--stratify needs --splits with the split sizes",
        },
        "--images photos --splits label_files",
    ),
    "cell files": Refused(
        {
            **images("d/{left,right}/0.png"),
            "a.csv": "image,right,label\nleft/0.png,right/0.png,cat\n",
            "b.csv": "file,label/x\nleft/0.png,right/0.png\n",
            "c.csv": "file,right\nleft/0.png,right/0.png\n",
        },
        {
            "--labels a.csv --file_columns image": "names the image",
            "--labels b.csv --file_columns label/x": "among the features of the image and its labels",
            "--labels c.csv --file_columns missing": "no column 'missing'",
        },
        "--images d",
    ),
    "pairs": Refused(
        images("{none/a/1,none/b/2,two/left/1,two/right/1}.png", "labels/{a,label,labels}/1.png"),
        {
            "--images none": "no folders beside each other there contain files of the same names",
            "--images two --key_column up": "--key_column up",
            "--images two --columns up:skip": "expected one of right",
            "--images two --columns right:skip": "leaves no partners of left",
            "--images labels": "label and labels would both be",
            "--images two --labels two": "needs one folder in --images",
        },
        "--layout pairs",
    ),
    "masks": Refused(
        {},
        {
            "--images camvid/train --masks camvid/train_labels": "colours are not class ids",
            "--images shapes/masks --masks shapes/images": "the masks are JPEGs",
            "--images shapes --masks shapes/masks --labels classes.txt": "are both labels",
            "--images shapes/images --masks nowhere": "--masks nowhere: no such file",
            "--images shapes/images --masks shapes/images": "--images and --masks both list",
            "--images shapes/images/**/*.jpg --masks shapes/images/**/*.jpg": "--images and --masks both list",
            "--images shapes --masks shapes/*.png": "no masks there",
            "--images shapes/images --layout masks": "no masks found there",
        },
        make=make_segmentation,
    ),
    "caption_files": Refused(
        {**images("{plain,d}/0.jpg"), "d/0.txt": "x", "a.tar": archives.tar_bytes({"0.txt": b"x"})},
        {
            "--images plain": "no captions in /",
            "--images a.tar": "captions in archives are read with --layout webdataset",
            "--images nowhere": "--images nowhere: no such file or folder",
            "--images d --labels nowhere": "--labels nowhere: no such file or folder",
            "--images d --label_column breed": "no column 'breed' (--label_column)",
        },
        "--layout caption_files",
    ),
    "webdataset": Refused(
        {"folder/1.jpg": IMAGE, "plain.tar": tar("cat/1.jpg")},
        {
            "--images folder": "reads archives (.tar, .zip), not folder",
            "--images plain.tar": "no .cls, .txt, .json beside an image",
            "--images plain.tar --key_column x": "--key_column x: the images of samples are not several",
        },
        "--layout webdataset",
    ),
    "archives": Refused(
        {
            **dict.fromkeys(("s-0.tar", "s-1.tar", "d/s-0.tar"), tar("cat/1.jpg", "dog/2.jpg")),
            "zip.zip": archives.zip_bytes({"cat/1.jpg": IMAGE}),
            "gz.tar.gz": b"",
            "i.csv": "uri,size\n",
        },
        {
            "--images no.zip": "--images no.zip: no such archive",
            "--images s-{0..2}.tar": "--images s-2.tar: no such archive",
            "--images no*.zip": "--images no*.zip: no such archives",
            "--images gz.tar.gz": "gz.tar.gz is compressed as a whole",
            "--images zip:///a.zip#at=1": "name the archive itself, not a member of it",
            "--images s-0.tar d/s-0.tar": "s-0.tar have the same name, which begins the keys",
            "--images {0..999999}.tar": "{0..999999}.tar matches more than 100000 names",
            "--images zip.zip --inventory i.csv": "--inventory",
        },
    ),
    "damaged archives": Refused(
        {
            "cut.tar": tar("cat/1.jpg")[:700],
            "guise.tar": b"\x1f\x8b" + tar("cat/1.jpg"),
            "broken.zip": b"PK\3\4" * 99,
        },
        {
            "--images cut.tar": "unexpected end of data",
            "--images cut.tar --layout webdataset": "unexpected end of data",
            "--images guise.tar": "guise.tar: it is not a tar",
            "--images broken.zip": "broken.zip: it is not a zip, or is damaged or cut short",
        },
        code=1,
    ),
    "coco": Refused(
        {
            "none.json": "",
            "text.json": "x",
            "cut.json": '{"images": [{"id": 1},',
            "bracket.json": '{"images": [{"id": 1}]]',
        },
        {
            "--images coco/train2017": f"--images coco/train2017: {NO_COCO}",
            "--images coco/train2017 --labels coco/val2017": f"--labels coco/val2017: {NO_COCO}",
            "--images coco/train2017 --labels coco/instances_x.json": "no such file",
            "--images coco --labels coco/annotations/*.json": "HERE/coco/annotations/captions_train2017.json contains "
            f"captions and HERE/{COCO_TRAIN} contains objects; name files of one kind with --labels, and convert the "
            "others on their own\n",
            "--images coco --labels none.json": "HERE/none.json is broken: expected an object in braces at the end of "
            "the file, byte 0; export it again\n",
            "--images coco --labels text.json": "HERE/text.json is broken: expected an object in braces at byte 0, near "
            "'x'",
            "--images coco --labels cut.json": "HERE/cut.json is broken: expected a value at the end of the file, byte "
            "22",
            "--images coco --labels bracket.json": "HERE/bracket.json is broken: expected , or } at byte 22, near",
        },
        "--layout coco",
        make_coco,
    ),
    "coco, names": Refused(
        {COCO_VAL: instances([], [], [{"id": 18, "name": "wolf"}])},
        {
            "--images coco": f"category 18 is 'dog' in HERE/{COCO_TRAIN} and 'wolf' in HERE/{COCO_VAL}{AGREE}",
        },
        make=make_coco,
    ),
    "coco, ids": Refused(
        {COCO_VAL: instances([], [], [{"id": 17, "name": "dog"}])},
        {
            "--images coco": f"category 'dog' has the id 18 in HERE/{COCO_TRAIN} and 17 in HERE/{COCO_VAL}{AGREE}",
        },
        make=make_coco,
    ),
    "coco, classes": Refused(
        {},
        {
            "--labels traps/traps.json --list_column tags=,": "--list_column tags: the layout coco has one column that "
            "may be a list, category; expected --list_column category=,\n",
            "--labels traps/traps.json --object_features masks": "--object_features means nothing for the layout coco "
            "with the classes of whole images; leave it out\n",
            "--labels traps/traps.json --class_ids keep --label_base 1": "--label_base means nothing with --class_ids "
            "keep; leave it out\n",
            f"--labels {COCO_VAL} traps/traps.json": f"HERE/{COCO_VAL} contains objects and HERE/traps/traps.json "
            "contains the classes of whole images; name files of one kind with --labels, and convert the others on their "
            "own\n",
        },
        "--images traps/images",
        make_coco,
    ),
    "coco, features": Refused(
        {**images("set/a.jpg"), "set/annotations/instances_val.json": coco(["a.jpg"])},
        {
            "--images coco --object_features keypoints --labels export/train/_annotations.coco.json": "have key points in "
            "no category; name person_keypoints_*.json with --labels",
            "--images set --object_features keypoints": "--images set: no "
            "annotations/person_keypoints_*.json below it",
            "--images coco --object_features poses": "--object_features is 'poses', expected one of (masks,",
        },
        "--layout coco",
        make_coco,
    ),
    "shape tools": Refused(
        {f"set/{name}": image for name, image in make_shape_tools.images().items()},
        {
            "--layout labelme": "no file of LabelMe's JSON in its folders; name their folder with --labels",
            "--layout supervisely": "--layout supervisely expects img/ beside ann/ in folders of --images",
            "--layout supervisely --labels set": "--layout supervisely expects img/ beside ann/",
            "--layout cvat": "--layout cvat needs --labels: CVAT's XML",
            "--layout via": "--layout via needs --labels: VIA's annotations",
        },
        "--images set",
    ),
}
CASES = [(name, typed) for name, refused in REFUSED.items() for typed in refused.messages]


@pytest.mark.parametrize(("name", "typed"), CASES)
def test_what_cannot_be_used_is_an_error(
    working_folder: Path, capsys: pytest.CaptureFixture[str], name: str, typed: str
) -> None:
    """Its exit code, what was found and what was expected, no traceback, and nothing written."""
    refused = REFUSED[name]
    refused.make(".")
    pictures.write_files(".", refused.files)
    assert convert(*shlex.split(f"{refused.options} {typed}"), "--output", "out") == refused.code
    error = capsys.readouterr().err
    assert error.startswith("beam-tfrecord: error: ")
    assert refused.messages[typed].replace("HERE", str(working_folder)) in error
    assert "Traceback" not in error
    assert not os.path.exists("out")
