"""Trees as authors upload them to hubs of data, with the command that comes to mind first.

A line is a row: its name, then parts that two spaces separate. Files are in `set/`, or in the folder of --images; a path
with a slash before it begins in the working folder.

| part | |
|---|---|
| `{cat,dog}/{0..2}.jpg + a.png` | images, numbered throughout |
| `~masks/{0..2}.png` | masks |
| `a.txt = cat` | files with a text |
| `%a.csv ; id,label ; #,<cat\\|dog>` | a table: its header, or -, and its rows, each with the next of the numbers 0 to 5 and of the values |
| `... ; {a,b}` | names instead of these numbers |
| `@a.csv ; ...` | a table that is named with --labels |
| `--resize 8` | options |
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from tests.archives import zip_bytes
from tests.conformance.outcome import Row
from tests.conformance.trees import coco, images, jsonl, masks, paths, texts

TREES = r"""
fives  {train,test}/Original/{0..5}.png  ~{train,test}/Ground truth/{0..5}.png
isic_2018  ISIC2018_Task1-2_Training_Input/ISIC_{0..5}.jpg
  ~ISIC2018_Task1_Training_GroundTruth/ISIC_{0..5}_segmentation.png
carvana  train/{a,b,c}_0{1,2}.jpg  ~train_masks/{a,b,c}_0{1,2}_mask.png
deepglobe  train/{0..5}_sat.jpg  ~train/{0..5}_mask.png  class_dict.csv = name,r,g,b\nUrban,0,255,255\n
chase_db1  Image_0{1..3}{L,R}.jpg  ~Image_0{1..3}{L,R}_{1st,2nd}HO.png
busi  {benign,malignant}/x ({1..3}).png  ~{benign,malignant}/x ({1..3})_mask.png
cityscapes  leftImg8bit/{train,val}/ulm/ulm_{0..2}_leftImg8bit.png  ~gtFine/{train,val}/ulm/ulm_{0..2}_gtFine_labelIds.png
ade20k  images/{training,validation}/A_{0..2}.jpg  ~annotations/{training,validation}/A_{0..2}.png
loveda  Train/{Rural,Urban}/images_png/{0..2}.png  ~Train/{Rural,Urban}/masks_png/{0..2}.png
levir_cd  {train,val}/{A,B}/{0..5}.png  ~{train,val}/label/{0..5}.png
salt  train/images/{0..5}.png  ~train/masks/{0..5}.png  @train.csv ; id,rle_mask ; #,1 5 9 2
roboflow_masks  {train,valid}/a{0..2}_jpg.rf.1f.jpg  ~{train,valid}/a{0..2}_jpg.rf.1f_mask.png
  {train,valid}/_classes.csv = Pixel Value, Class\n0, background\n1, road\n
oxford_pets  images/{Abyssinian,beagle}_{1..3}.jpg  ~annotations/trimaps/{Abyssinian,beagle}_{1..3}.png
  %annotations/list.txt ; #Image CLASS-ID SPECIES ; # 1 1 ; {Abyssinian,beagle}_{1..3}
mask_paths  img/{0..11}.png  ~msk/{0..11}.png  @train.csv ; image_path,mask_path ; img/#.png,msk/#.png ; {0..11}

before_after  {before,after}/{0001..0006}.png
before_after_names  {0001..0006}_{before,after}.png
depth  {rgb,depth}/{0001..0006}.png
gopro  train/GOPR{1,2}/{blur,sharp}/00{47,52,63}.png
div2k  DIV2K_train_HR/{0001..0006}.png  DIV2K_train_LR/{0001..0006}x2.png
disaster_pairs  train/images/volcano_{0..2}_{pre,post}_disaster.png  train/labels/volcano_{0..2}_{pre,post}_disaster.json = {}
thumbnails_below  {cat,dog}/{0..2}.jpg  {cat,dog}/thumbs/{0..2}.jpg
thumbnails_beside  {originals,thumbnails}/IMG_{17,23,58}.jpg
augmented  cat/IMG_{12,15}{,_aug1}.jpg  dog/IMG_{71,94}{,_aug1}.jpg
resolutions  {128x128,512x512}/{ok,def}/{0..2}.jpg
sizes_below  {cat,dog}/{64,128}/{0..2}.jpg
artists  images/images/Goya/Goya_{1,4}.jpg  images/images/Dali/Dali_{2,3,7}.jpg
  resized/resized/{Goya_1,Goya_4,Dali_2,Dali_3,Dali_7}.jpg  artists.csv = id,name,years\n0,Goya,1746\n1,Dali,1904\n
arrays_beside  {cat,dog}/{0..2}.jpg  {cat,dog}/{0..2}.npy = NUMPY

test_without_labels  train/{cat,dog}/{0..2}.jpg  test/{0..5}.jpg
two_splits_with_labels  {train,val}/{cat,dog}/{0..2}.jpg  test/{0..5}.jpg
cats_in_names  train/{cat,dog}.{0..2}.jpg
names_of_numbers  {0,1,2}/{0..2}.png  signs.csv = ClassId,Name\n0,stop\n1,yield\n2,turn\n
flowers_102  {train,valid}/{1,2}/{0..2}.jpg  cat_to_name.json = {"1": "rose", "2": "aster"}
fruits_360  fruits-360/{Training,Test}/{Apple Red 1,Pear}/{0..2}_100.jpg  fruits-360/test-multiple_fruits/{a,b}.jpg
asl_alphabet  abc_train/abc_train/{A,B}/{A,B}{1..3}.jpg  abc_test/abc_test/{A,B}_test.jpg
breakhis  breast/{benign/SOB/adenosis,malignant/SOB/ductal}/SOB_{1,2}/{40X,100X}/{0..1}.png
sdnet  {D/CD,D/UD,P/CP,P/UP}/{0..2}.jpg
omniglot  images_{background,evaluation}/Greek/character0{1..3}/0709_{1..2}.png
  images_{background,evaluation}/Latin/character0{1,2}/0801_{1..2}.png
ages_and_sexes  {18,19,20}/{111,112}/{1..2}.jpg
patients  patient_{01..12}/{left,right}.jpg
videos  video_0{1,2}/frame_{10,20,31}.jpg  video_03/frame_{10,20,31,47}.jpg
parts  images_001/{11,12,15}.png  images_002/{27,31}.png
batches  batch1/{cat,dog}/{0..2}.png  batch2/{cat,owl}/{3..5}.png
split_and_class  {train,test}_{cat,dog}/{0..2}.jpg
unicode  日本 猫/{été,x y,#1}.JPG  Brüssel's hund/{%20,a&b}.JPG
upper_case  TRAIN/{CAT,DOG}/{0..2}.JPG  TEST/{CAT,DOG}/{3..4}.PNG
numbered_classes  001.ak47/001_000{1..3}.jpg  002.american-flag/002_000{1..3}.jpg
checkpoints  {train,test,.ipynb_checkpoints}/{cat,dog}/{0..2}.jpg
cub  images/{001.Gull,002.Tern}/{0..2}.jpg  images.txt = 0 001.Gull/0.jpg\n1 001.Gull/1.jpg\n
  train_test_split.txt = 0 0\n1 1\n
food_101  images/{apple_pie,ramen}/{0..2}.jpg  meta/train.txt = apple_pie/0\napple_pie/1\n
xml_without_extension  Images/n1-pug/n1_{1,4,8}.jpg  Images/n2-corgi/n2_{2,7}.jpg
  Annotation/n1-pug/n1_{1,4,8} = <annotation>  Annotation/n2-corgi/n2_{2,7} = <annotation>
labelme  {a,b}/{0..2}.jpg  {a,b}/{0..2}.json = {"shapes": []}
supervisely  ds0/img/{0..5}.jpg  ds0/ann/{0..5}.jpg.json = {"objects": []}
captions_of_flickr  Images/{0..5}.jpg  %captions.txt ; image,caption ; #.jpg,A dog .
readme_table  {cat,dog}/{0..2}.jpg  README.md = x  example.csv = file,label\nphoto.jpg,cat\n
tables_in_folders  {a,b}/pics/{0..2}.jpg  %{a,b}/labels.csv ; file,label ; #.jpg,<cat|dog> ; {0..2}
yolo_pairs  {car,bus}/{0..2}.jpg  {car,bus}/{0..2}.txt = 0 0.5 0.5 0.2 0.2\n  classes.txt = car\nbus\n
csv_of_roboflow  {train,valid}/{0..2}_jpg.rf.a1.jpg
  %{train,valid}/_annotations.csv ; filename,width,height,class,xmin,ymin,xmax,ymax ; #_jpg.rf.a1.jpg,16,8,cat,1,1,5,5 ; {0..2}
cassava  train_images/{0..5}.jpg  test_images/9.jpg  %train.csv ; image_id,label ; #.jpg,<0|1>
  sample_submission.csv = image_id,label\n9.jpg,4\n  label_map.json = {"0": "CBB", "1": "CBSD"}
dog_breeds  train/{0..5}.jpg  test/{6..8}.jpg  %labels.csv ; id,breed ; #,<cat|dog>  sample_submission.csv = id,cat\n6,0.5\n
driver_list  imgs/train/{c0,c1}/img_{0..2}.jpg  imgs/test/img_{7..9}.jpg
  %driver_imgs_list.csv ; subject,classname,img ; p002,<c0|c1>,img_#.jpg ; {0..2}

per_site  site_{a,b}/scan{0..5}.jpg  @train.csv ; image_id,site,label ; scan#,<a|b>,<cat|dog>
chest_14  images_00{1,2}/images/{0..2}.png  images_003/images/{3..5}.png
  @Data_Entry.csv ; Image Index,Finding Labels,Patient Age ; #.png,<Effusion|Mass>,<41|58>
landmarks  train/{0,1}/a/f/{0,1}af{3..5}.jpg  @train.csv ; id,url,landmark_id ; #,http://x/#,<7|9> ; {0,1}af{3..5}
folds  {0..5}.jpg  @folds.csv ; image,label,kfold ; #.jpg,<cat|dog>,<0|1|2>
eyes  {0..5}_{left,right}.jpg  @odir.csv ; ID,Left-Fundus,Right-Fundus,N,D ; #,#_left.jpg,#_right.jpg,<0,1|1,0>
timestamps  2021-05-03T12-00-0{0..5}.jpg  @log.csv ; timestamp,steering ; 2021-05-03T12-00-0#,0.#
driving_log  IMG/{center,left,right}_{0..5}.jpg
  @driving_log.csv ; center,left,right,steering ; IMG/center_#.jpg,IMG/left_#.jpg,IMG/right_#.jpg,0.#
list_of_numbers  jpg/image_{0..5}.jpg  @labels.txt ; - ; jpg/image_#.jpg <77|3>
two_tables  {0..5}.jpg  @images.csv ; filename,patient ; #.jpg,<p1|p2>  @patients.csv ; patient,diagnosis ; p#,ill ; {1,2}
per_class_tables  {0..5}.jpg  @cat.csv ; filename ; #.jpg ; {0..2}  @dog.csv ; filename ; #.jpg ; {3..5}
windows_paths  {cats,dogs}/{0..2}.jpg  @labels.csv ; path,label ; D:\data\set\#.jpg,<cat|dog> ; {cats,dogs}\{0..2}
dotted_names  a.b.{0..5}.jpg  @labels.csv ; id,label ; a.b.#,<cat|dog>
other_case  IMG_{0..5}.jpg  @labels.csv ; image,label ; img_#.jpg,<cat|dog>
tags_of_bars  {0..5}.jpg  @labels.csv ; image,tags ; #.jpg,<sea¦sun|sea|sun>
plant_pathology  images/Train_{0..5}.jpg  images/Test_{0..2}.jpg  @train.csv ; image_id,healthy,rust,scab ; Train_#,<0,1|1,0>,0
whales  train/{0..5}.jpg  @train.csv ; image,species,individual_id ; #.jpg,<orca|beluga>,<ca1|fe2|a99>
fer_2013  @fer2013.csv ; emotion,pixels,Usage ; #,70 80 82,Training
bars_between_cells  pics/{0..5}.jpg  @results.csv ; image_name| comment_number| comment ; #.jpg| 0| A dog , again .
texts_of_words  word_{0..11}.png  @rec_gt.txt ; - ; word_#.png\tText# ; {0..11}
scores  {0..11}.jpg  @labels.csv ; image,score ; #.jpg,<1|2|3|4|5|6|7|8|9|10> ; {0..11}
question_marks  {0..5}.jpg  @labels.csv ; image,label ; #.jpg,<cat|dog|?>
numbers_and_names  {0..5}.jpg  @labels.csv ; filename,class_id,class_name ; #.jpg,<0|1>,<cat|dog>
same_ids  {train,test}/{0..5}.jpg  @train.csv ; id,label ; #,<cat|dog>

wheat  train/{0..5}.jpg  @train.csv ; image_id,width,height,bbox,source ; #,16,8,"[9.5, 2.0, 6.0, 4.0]",usask_1
vinbigdata  train/{0..5}.jpg
  @train.csv ; image_id,class_name,class_id,x_min,y_min,x_max,y_max ; #,<No finding,14,,,,|Nodule,8,1.0,1.0,9.0,5.0>
pneumonia  train/{0..5}.jpg  @labels.csv ; patientId,x,y,width,height,Target ; #,<,,,,0|1.0,1.0,5.0,4.0,1>
gtsrb  Train/{0,1}/0000{0,1}_{0..2}.png  Test/{0..2}.png
  @Train.csv ; Width,Height,Roi.X1,Roi.Y1,Roi.X2,Roi.Y2,ClassId,Path ; 100,80,5,5,22,24,#,Train/#/0000#_1.png ; {0,1}
celeba_boxes  {0..5}.jpg  @list_bbox.csv ; image_id,x_1,y_1,width,height ; #.jpg,1,1,6,5
celeba_points  {0..5}.jpg  @points.csv ; image_id,nose_x,nose_y,chin_x,chin_y ; #.jpg,3,2,6,5
celeba_points_declared  {0..5}.jpg  @points.csv ; image_id,nose_x,nose_y,chin_x,chin_y ; #.jpg,3,2,6,5
  --label_column none --columns nose:point,chin:point
texts_of_points  {0..5}.jpg  @points.csv ; image,label,landmarks ; #.jpg,<cat|dog>,"[(3, 2), (6, 5)]"  --resize 8
run_lengths  train/{0..5}.jpg  @train.csv ; ImageId,ClassId,EncodedPixels ; #.jpg,<1|2>,1 3 10 5
run_lengths_of_labels  train/{0..5}.jpg  @train.csv ; Image_Label,EncodedPixels ; #.jpg_Fish,1 3 10 5
angles  {0..5}.jpg  @angles.csv ; filename,yaw,pitch,roll ; #.jpg,-1#.5,2.#,0.#
"""


def _table(header: str, row: str, names: Sequence[str]) -> str:
    """A table with a row a name."""
    lines = [] if header == "-" else [header]
    for i, name in enumerate(names):
        values = re.sub(r"<([^>]*)>", lambda m, i=i: _nth(m[1].split("|"), i), row)  # type: ignore[misc]
        lines.append(values.replace("#", name).replace("\\t", "\t"))
    return "\n".join(lines) + "\n"


def _nth(values: Sequence[str], number: int) -> str:
    return values[number % len(values)].replace("¦", "|")


def _row(parts: Sequence[str], base: str, **settings: bool) -> Row:
    """The conversion that the parts of a line describe."""
    options = [part for part in parts if part.startswith("--")]
    labels: list[str] = []
    files: dict[str, bytes | str] = {}
    if any(option.startswith("--images ") for option in options):
        base = next(re.split("[ /]", o)[1] for o in options if o.startswith("--images "))
    else:
        options.insert(0, f"--images {base}")

    def placed(path: str) -> str:
        return path[1:] if path[0] == "/" else f"{base}/{path}"

    for part in parts:
        if part[0] in "%@":
            name, header, row, *names = part[1:].split(" ; ")
            files |= texts(_table(header, row, paths(*names or ["{0..5}"])), placed(name))
            labels += [placed(name)] if part[0] == "@" else []
        elif " = " in part and not part.startswith("--"):
            name, _, text = part.partition(" = ")
            files |= texts(text.replace("\\n", "\n"), placed(name))
        elif part[0] == "~":
            of_png = any(name.endswith(".png") for name in files)
            size = (100, 80) if of_png else (16, 8)
            files |= masks(*map(placed, part[1:].split(" + ")), size=size)
        elif not part.startswith("--"):
            files |= images(*map(placed, part.split(" + ")))
    options += ["--labels", *labels] if labels else []
    unstable = {"--resize 8", "--object_features masks"}
    return Row(" ".join(options), files, stable=unstable.isdisjoint(options), **settings)


def rows(trees: str, *options: str, base: str = "set", **settings: bool) -> dict[str, Row]:
    """Name -> the conversion that a line describes, which goes on in those that are indented; with further options."""
    lines = re.sub(r"\n +", "  ", trees).splitlines()
    parts = [re.split("  +", line) for line in lines if line]
    return {name: _row([*further, *options], base, **settings) for name, *further in parts}


_SPLITS = ("train", "test")
_KEY_POINTS = coco(paths("{0..5}.jpg")).replace('"area"', '"keypoints": [2, 2, 2], "area"')

ROWS = {
    **rows(TREES),
    "zipped_splits": Row(
        "--images set",
        {f"set/{s}.zip": zip_bytes(images(f"{s}/{{cat,dog}}/{{0..2}}.jpg")) for s in _SPLITS},
    ),
    "classes_of_roboflow": Row(
        "--images set --labels set/train/_classes.csv set/valid/_classes.csv --one_hot day,night,rain",
        images("set/{train,valid}/{0..5}_jpg.rf.ab.jpg")
        | {
            f"set/{split}/_classes.csv": "filename, day, night, rain\n"
            + "".join(f"{i}_jpg.rf.ab.jpg, {ones}\n" for i, ones in enumerate(given))
            for split, given in (
                ("train", ("1, 0, 0", "0, 1, 1", "0, 0, 0", "1, 1, 1", "0, 0, 1", "1, 0, 0")),
                ("valid", ("1, 0, 0", "0, 1, 0", "0, 0, 1", "0, 1, 0", "1, 0, 0", "1, 0, 0")),
            )
        },
    ),
    "metadata_of_splits": Row(
        "--images set",
        images("set/{train,test}/{0..2}.jpg")
        | texts(
            jsonl({"file_name": f"{i}.jpg", "label": "ab"[i % 2]} for i in range(3)),
            "set/{train,test}/metadata.jsonl",
        ),
    ),
    "coco_key_points": Row(
        "--images set",
        images("set/images/{0..5}.jpg")
        | {
            "set/annotations/person_keypoints.json": json.dumps(
                {
                    **json.loads(_KEY_POINTS),
                    "categories": [{"id": 1, "name": "person", "keypoints": ["nose"]}],
                }
            )
        },
    ),
}
