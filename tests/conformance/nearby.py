"""Folders whose class names are questioned because of other files nearby; no job runs."""

from __future__ import annotations

from tests.conformance import hubs, outcome, trees
from tests.layouts.make_boxes import CAR

TREES = r"""
nothing  CLASSES
notes  CLASSES  readme.txt = x  cat/1.jpg.txt = x
one_text  CLASSES  cat/1.txt = one of four
hidden  CLASSES  .cache.json = {}  cat/.x.csv = x
of_others  CLASSES  /labels.csv = file,label\n1.jpg,cat\n  /pets.json = {"images": []}
texts_above  CLASSES  /{1..3}.txt = x
written  CLASSES  out/d.tfrecord-00000-of-00001 = \n  out/manifest.json = {}
submission  CLASSES  sampleSubmission.csv = id,label\n1,0\n
createml  CLASSES  _annotations.createml.json = [{"image": "1.jpg", "annotations": [{"label": "cat"}]}]
xml_of_others  CLASSES  catalogue.xml = <catalogue/>
many_xml  CLASSES  cat/1.xml = <annotation/>  dog/{1..3}.xml = <annotation/>
no_masks  {masks,no_masks}/1.jpg
a_train  {train,bus}/1.jpg
a_test  {test,training,cat}/1.jpg
a_label  {label,bottle}/1.jpg
table_in_each  a/a.jpg + b/b.jpg + c/c.jpg + d/d.jpg  a/GT-a.csv = file,label\na.jpg,1\n  b/GT-b.csv = file,label\nb.jpg,1\n
  c/GT-c.csv = file,label\nc.jpg,1\n  d/GT-d.csv = file,label\nd.jpg,1\n
one_of_two_tables  1.jpg  a.csv = a,b\n1,2\n  z.csv = file,label\n1.jpg,1\n
several_kinds  1.jpg  a.csv = file,label\n1.jpg,1\n  b.json = {}  1.txt = x
one_hot_in_roboflows_folder  train/{0..3}.jpg  %train/_classes.csv ; filename, Cat, Dog ; #.jpg, <0|1>, <1|0> ; {0..3}
other_machine  a/1.jpg + b/2.jpg  labels.csv = path,label\nC:\pets\1.jpg,cat\nC:\pets\2.jpg,dog\n  prices.csv = item,price\n1,2\n
parquet_beside  {cat,dog}/1.jpg  l.parquet = PAR1

competition  --images set  train_images/train_images{0..3}.png + test_images/test_images{0..3}.png
  %train.csv ; id_code,diagnosis ; #,2 ; train_images{0..3}  %test.csv ; id_code ; # ; test_images{0..3}
  %sample_submission.csv ; id_code,diagnosis ; #,0 ; test_images{0..3}
ham10000  --images ham  part_1/ISIC_{0,2,4}.jpg + part_2/ISIC_{1,3,5}.jpg
  %metadata.csv ; image_id,dx,localization ; #,nv,scalp ; ISIC_{0..5}  hmnist.csv = pixel0000,pixel0001,label\n1,2,3\n
dead_letters  --images set  cat/1.jpg + dog/2.jpg  out/dead_letters{,-00000-of-00002}.jsonl = {}\n
stanford_cars  --images cars  cars_{train,test}/0000{1,2}.jpg  {train,test}.csv = fname,class\n00001.jpg,1\n00002.jpg,2\n
camvid  --images camvid  701_StillsRaw_full/1.png + LabeledApproved_full/1_L.png  class_dict.csv = name,r,g,b\nSky,128,128,128\n
colours_alone  --images camvid  701_StillsRaw_full/1.png + LabeledApproved_full/1_L.png  class_dict.csv = r,g,b\n128,128,128\n
pixel_values  CLASSES  _classes.csv = Pixel Value, Class\n0, sky\n1, road\n
split_and_more  --images w  set/train/{cat,dog}/1.jpg + set/test/cat/2.jpg + set/test/3.jpg
yolo_that_cannot_be_opened  --images set/images  images/{1..3}.jpg  data.yaml = train: images\nval: images\nnames: [cat]\n
voc_beside  --images set/pics  pics/{1..3}.jpg  labels/{1..3}.xml = <annotation></annotation>
captions_beside  --images set  pictures/{0..3}.jpg  texts/{0..3}.txt = a dog\n
dota_beside  --images set  pictures/{0..3}.jpg  texts/{0..3}.txt = imagesource:G\n1.0 2.0 9.0 2.0 9.0 9.0 1.0 9.0 ship 0\n
masks_of_most  --images d  0/{1,2}.jpg + 0/1_Mask.png + 1/{a,b}.png + 1/{a,b}_mask.png
no_mask_beside  --images d  {a,b}/{1,2}_mask.png
masks_elsewhere  --images d  a/1.jpg + b/1_mask.png
unmasked  --images d  a/1.jpg + a/1_unmask.png
few_masks  --images d  a/{1..4}.jpg + a/1_mask.png
table_beside_images  --images set/images  images/1.jpg  labels.csv = filename,label\n1.jpg,cat\n
table_in_labels  --images set/images  images/a/{1..4}.jpg  %labels/l.csv ; filename,label ; #.jpg,<cat|dog> ; {1..4}
images_below_split  --images set  train/images/{1..4}.jpg + val/images/{1..4}.jpg
images_and_masks_of_splits  --images set  {train,val}/images/{1..4}.png  ~{train,val}/masks/{1..4}.png
pairs  --images set  {A,B}/{1..4}.jpg
pairs_of_any_name  --images set  {day,night}/{17,23,58}.jpg
same_numbers_of_classes  --images set  {cat,dog}/{1..4}.jpg
same_numbers_with_gaps  --images set  {cat,dog,rose}/{1,3,7}.jpg
same_numbers_after_words  --images set  {train,val}/{cat,dog}/photo_{2,5,9}.jpg
same_numbers_of_roles  --images set  {left,right}/{1,3,7}.jpg
same_names_of_any_folders  --images set  {t1,flair}/{ann,bob,cid}.jpg
numbers_with_the_class  --images set  cat/{1..3}.jpg + dog/dog{1..3}.jpg
numbers_with_masks  --images set  a/{1..3}.jpg + b/{1..3}_mask.jpg
two_wrappers  --images a  b/{cat,dog}/{1..3}.jpg
two_data_sets  --images sets  {a,b}/images/{1..3}.jpg  {a,b}/labels/{1..3}.txt = 0 0.5 0.5 0.5 0.5\n
kitti_in_folders  --images set  {a,b}/{1..3}.png  {a,b}/{1..3}.txt = KITTI\n
kitti_in_folders_of_labels  --images set/pics  pics/a/{1..3}.png + pics/b/{4..6}.png  labels/a/{1..3}.txt = KITTI\n
  labels/b/{4..6}.txt = KITTI\n
yolo_in_folders  --images set/pics  pics/{a,b}/{1..3}.jpg  labels/{a,b}/{1..3}.txt = 0 0.5 0.5 0.5 0.5\n
captions_in_folders  --images set/pics  pics/{a,b}/{1..3}.jpg  labels/{a,b}/{1..3}.txt = a dog\n
captions_in_two_places  --images set/pics  pics/{1..4}.jpg  labels/{1..2}.txt = a dog\n  texts_of_labels/{3..4}.txt = a cat\n
yolo_from_images  --images set/images/train  images/{train,val}/{1..3}.jpg  labels/{train,val}/{1..3}.txt = 0 0.5 0.5 0.5 0.5\n
"""

ROWS = {
    **hubs.rows(
        TREES.replace("CLASSES", "cat/1.jpg + dog/{1..3}.jpg").replace("KITTI", CAR),
        base="photos",
        runs=False,
    ),
    "coco_in_annotations": outcome.row(
        "--images set/images",
        trees.images("set/images/a/{1..4}.jpg"),
        {"set/annotations/all.json": trees.coco(trees.paths("{1..4}.jpg"))},
        runs=False,
    ),
    "coco_of_two_splits": outcome.row(
        "--images set",
        trees.images("set/train/{1..4}.jpg", "set/val/{5..6}.jpg"),
        {
            "set/labels/train.json": trees.coco(trees.paths("{1..4}.jpg")),
            "set/labels/val.json": trees.coco(trees.paths("{5..6}.jpg")),
        },
        runs=False,
    ),
}
