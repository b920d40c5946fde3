"""Folders whose class names are questioned because of other files nearby; no job runs."""

from __future__ import annotations

from tests.conformance.outcome import Row
from tests.conformance.outcome import row as row_of
from tests.conformance.questions import PETS, coco
from tests.conformance.trees import Tree, csv, images, masks, paths, texts

CLASSES = images("photos/cat/1.jpg", "photos/dog/{1..3}.jpg")
LABELS = csv(["1.jpg"], label=["cat"])


def photos(files: Tree) -> Row:
    """Class folders with other files."""
    return row("photos", CLASSES, files)


def row(folder: str, *trees: Tree) -> Row:
    """Files of several kinds; no job runs."""
    return row_of(f"--images {folder}", *trees, runs=False)


def named(*names: str) -> Row:
    """A folder for each name, with an image."""
    return row("photos", images(*(f"photos/{name}/1.jpg" for name in names)))


def rows_of(folder: str, header: str, value: str = "") -> str:
    """A table of four images, which have their folder in their names."""
    return f"{header}\n" + "".join(f"{folder}{i}{value}\n" for i in range(4))


_JPGS = "{0..3}.jpg"
_IDS = paths("ISIC_{0..5}")

ROWS = {
    "nothing": photos({}),
    "notes": photos({"photos/readme.txt": "x", "photos/cat/1.jpg.txt": "x"}),
    "one_text": photos({"photos/cat/1.txt": "one of four"}),
    "hidden": photos({"photos/.cache.json": "{}", "photos/cat/.x.csv": "x"}),
    "of_others": photos({"labels.csv": "file,label\n1.jpg,cat\n", "pets.json": '{"images": []}'}),
    "texts_above": photos(texts("x", "{1..3}.txt")),
    "written": photos(
        {"photos/out/d.tfrecord-00000-of-00001": "", "photos/out/manifest.json": "{}"}
    ),
    "no_masks": named("masks", "no_masks"),
    "a_train": named("train", "bus"),
    "a_test": named("test", "training", "cat"),
    "a_label": named("label", "bottle"),
    "table_in_each": row(
        "photos",
        images(*(f"photos/{n}/{n}.jpg" for n in "abcd")),
        {f"photos/{n}/GT-{n}.csv": f"file,label\n{n}.jpg,1\n" for n in "abcd"},
    ),
    "one_of_two_tables": row(
        "photos",
        images("photos/1.jpg"),
        {"photos/a.csv": "a,b\n1,2\n", "photos/z.csv": "file,label\n1.jpg,1\n"},
    ),
    "several_kinds": row(
        "photos",
        images("photos/1.jpg"),
        {"photos/a.csv": "file,label\n1.jpg,1\n", "photos/b.json": "{}", "photos/1.txt": "x"},
    ),
    "competition": row(
        "set",
        images(
            "set/{train_images}/{train_images}{0..3}.png",
            "set/{test_images}/{test_images}{0..3}.png",
        ),
        {
            "set/train.csv": rows_of("train_images", "id_code,diagnosis", ",2"),
            "set/test.csv": rows_of("test_images", "id_code"),
            "set/sample_submission.csv": rows_of("test_images", "id_code,diagnosis", ",0"),
        },
    ),
    "one_hot_in_roboflows_folder": row(
        "photos",
        images("photos/train/{0..3}.jpg"),
        {
            "photos/train/_classes.csv": "filename, Cat, Dog\n"
            + "".join(f"{i}.jpg, {i % 2}, {1 - i % 2}\n" for i in range(4))
        },
    ),
    "ham10000": row(
        "ham",
        images("ham/part_1/ISIC_{0,2,4}.jpg", "ham/part_2/ISIC_{1,3,5}.jpg"),
        {
            "ham/metadata.csv": "image_id,dx,localization\n"
            + "".join(f"{n},nv,scalp\n" for n in _IDS),
            "ham/hmnist.csv": "pixel0000,pixel0001,label\n1,2,3\n",
        },
    ),
    "dead_letters": row(
        "set",
        images("set/cat/1.jpg", "set/dog/2.jpg"),
        texts("{}\n", "set/out/dead_letters{,-00000-of-00002}.jsonl"),
    ),
    "other_machine": row(
        "photos",
        images("photos/a/1.jpg", "photos/b/2.jpg"),
        {
            "photos/labels.csv": "path,label\nC:\\pets\\1.jpg,cat\nC:\\pets\\2.jpg,dog\n",
            "photos/prices.csv": "item,price\n1,2\n",
        },
    ),
    "stanford_cars": row(
        "cars",
        images("cars/cars_{train,test}/0000{1,2}.jpg"),
        texts("fname,class\n00001.jpg,1\n00002.jpg,2\n", "cars/{train,test}.csv"),
    ),
    "camvid": row(
        "camvid",
        images("camvid/701_StillsRaw_full/1.png", "camvid/LabeledApproved_full/1_L.png"),
        {"camvid/class_dict.csv": "name,r,g,b\nSky,128,128,128\n"},
    ),
    "captions_beside": row(
        "set", images(f"set/pictures/{_JPGS}"), texts("a dog\n", "set/texts/{0..3}.txt")
    ),
    "dota_beside": row(
        "set",
        images(f"set/pictures/{_JPGS}"),
        texts("imagesource:G\n1.0 2.0 9.0 2.0 9.0 9.0 1.0 9.0 ship 0\n", "set/texts/{0..3}.txt"),
    ),
    "submission": photos({"photos/sampleSubmission.csv": "id,label\n1,0\n"}),
    "createml": photos(
        {
            "photos/_annotations.createml.json": '[{"image": "1.jpg", "annotations": [{"label": "cat"}]}]'
        }
    ),
    "masks_of_most": row(
        "d", images("d/0/{1,2}.jpg", "d/0/1_Mask.png", "d/1/{a,b}.png", "d/1/{a,b}_mask.png")
    ),
    "no_mask_beside": row("d", images("d/a/{1,2}_mask.png", "d/b/{1,2}_mask.png")),
    "masks_elsewhere": row("d", images("d/a/1.jpg", "d/b/1_mask.png")),
    "unmasked": row("d", images("d/a/1.jpg", "d/a/1_unmask.png")),
    "few_masks": row("d", images("d/a/{1..4}.jpg", "d/a/1_mask.png")),
    "table_beside_images": row(
        "set/images", images("set/images/1.jpg"), {"set/labels.csv": LABELS}
    ),
    "table_in_labels": row(
        "set/images",
        images("set/images/a/{1..4}.jpg"),
        {"set/labels/l.csv": csv(paths("{1..4}.jpg"), label=PETS)},
    ),
    "coco_in_annotations": row(
        "set/images",
        images("set/images/a/{1..4}.jpg"),
        {"set/annotations/all.json": coco(paths("{1..4}.jpg"))},
    ),
    "coco_of_two_splits": row(
        "set",
        images("set/train/{1..4}.jpg", "set/val/{5..6}.jpg"),
        {
            "set/labels/train.json": coco(paths("{1..4}.jpg")),
            "set/labels/val.json": coco(paths("{5..6}.jpg")),
        },
    ),
    "images_below_split": row(
        "set", images("set/train/images/{1..4}.jpg", "set/val/images/{1..4}.jpg")
    ),
    "images_and_masks_of_splits": row(
        "set",
        images("set/{train,val}/images/{1..4}.png"),
        masks("set/{train,val}/masks/{1..4}.png"),
    ),
    "pairs": row("set", images("set/{A,B}/{1..4}.jpg")),
    "pairs_of_any_name": row("set", images("set/{day,night}/{17,23,58}.jpg")),
    "same_numbers_of_classes": row("set", images("set/{cat,dog}/{1..4}.jpg")),
    "same_numbers_with_gaps": row("set", images("set/{cat,dog,rose}/{1,3,7}.jpg")),
    "same_numbers_after_words": row("set", images("set/{train,val}/{cat,dog}/photo_{2,5,9}.jpg")),
    "same_numbers_of_roles": row("set", images("set/{left,right}/{1,3,7}.jpg")),
    "same_names_of_any_folders": row("set", images("set/{t1,flair}/{ann,bob,cid}.jpg")),
    "numbers_with_the_class": row("set", images("set/cat/{1..3}.jpg", "set/dog/dog{1..3}.jpg")),
    "numbers_with_masks": row("set", images("set/a/{1..3}.jpg", "set/b/{1..3}_mask.jpg")),
    "two_wrappers": row("a", images("a/b/{cat,dog}/{1..3}.jpg")),
    "two_data_sets": row(
        "sets",
        images("sets/{a,b}/images/{1..3}.jpg"),
        texts("0 0.5 0.5 0.5 0.5\n", "sets/{a,b}/labels/{1..3}.txt"),
    ),
    "yolo_from_images": row(
        "set/images/train",
        images("set/images/{train,val}/{1..3}.jpg"),
        texts("0 0.5 0.5 0.5 0.5\n", "set/labels/{train,val}/{1..3}.txt"),
    ),
    "parquet_beside": row(
        "photos", images("photos/{cat,dog}/1.jpg"), {"photos/l.parquet": b"PAR1"}
    ),
    "xml_of_others": photos({"photos/catalogue.xml": "<catalogue/>"}),
    "dota_beside_images": row(
        "set/images/train",
        images("set/images/train/{0..3}.jpg"),
        texts("1.0 2.0 9.0 2.0 9.0 9.0 1.0 9.0 ship 0\n", "set/labels/train/{0..3}.txt"),
    ),
    "kitti_among": row(
        "set", images("set/{a,b}/{0,1}.jpg"), texts(f"Car{' 0.5' * 14}\n", "set/{a,b}/{0,1}.txt")
    ),
    "texts_of_half": row("set", images("set/{a,b}/{0,1}.jpg"), texts("a dog\n", "set/a/{0,1}.txt")),
    "tables_in_many_folders": row(
        "set",
        images("set/{a,b,c,d}/{1,2}.jpg"),
        texts("file,label\na/1.jpg,x\n", "set/{a,b,c}/l.csv", "set/d/l.jsonl"),
    ),
    "coco_of_several_tasks": row(
        "set",
        images("set/train/{1..4}.jpg"),
        {f"set/notes/{name}.json": coco(paths("{1..4}.jpg")) for name in ("instances_a", "b")},
    ),
    "many_xml": photos(texts("<annotation/>", "photos/cat/1.xml", "photos/dog/{1..3}.xml")),
}
