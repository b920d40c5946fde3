"""Trees as authors upload them to hubs of data, with the command that comes to mind first."""

from __future__ import annotations

from collections.abc import Sequence

from tests.archives import zip_bytes
from tests.conformance.outcome import Row
from tests.conformance.questions import PETS, coco
from tests.conformance.trees import Tree, images, jsonl, masks, paths, texts

SIX = paths("{0..5}")


def lines(header: str, row: str, *, names: Sequence[str] = SIX, **values: Sequence[object]) -> str:
    """A table with a row a name: `{}` represents the name, `{a}` the values of `a` in turn."""
    rows = [
        row.replace("{}", "{0}").format(n, **{k: v[i % len(v)] for k, v in values.items()})
        for i, n in enumerate(names)
    ]
    return "\n".join([header, *rows] if header else rows) + "\n"


def of(argv: str, *trees: Tree) -> Row:
    """A conversion of files of several kinds."""
    return Row(argv, {name: content for tree in trees for name, content in tree.items()})


def table(name: str, *trees: Tree, text: str) -> Row:
    """Images in `set/`, with a table that is named with --labels."""
    return of(f"--images set --labels set/{name}", {f"set/{name}": text}, *trees)


_TRAIN = images("set/train/{0..5}.jpg")
_FLAT = images("set/{0..5}.jpg")
_WHEAT = "[9.5, 2.0, 6.0, 4.0]"

ROWS = {
    # masks
    "fives": of(
        "--images set",
        images("set/{train,test}/Original/{0..5}.png"),
        masks("set/{train,test}/Ground truth/{0..5}.png", size=(100, 80)),
    ),
    "isic_2018": of(
        "--images set",
        images("set/ISIC2018_Task1-2_Training_Input/ISIC_{0..5}.jpg"),
        masks("set/ISIC2018_Task1_Training_GroundTruth/ISIC_{0..5}_segmentation.png"),
    ),
    "carvana": of(
        "--images set",
        images("set/train/{a,b,c}_0{1,2}.jpg"),
        masks("set/train_masks/{a,b,c}_0{1,2}_mask.png"),
    ),
    "deepglobe": of(
        "--images set",
        images("set/train/{0..5}_sat.jpg"),
        masks("set/train/{0..5}_mask.png"),
        {"set/class_dict.csv": "name,r,g,b\nUrban,0,255,255\n"},
    ),
    "chase_db1": of(
        "--images set",
        images("set/Image_0{1..3}{L,R}.jpg"),
        masks("set/Image_0{1..3}{L,R}_{1st,2nd}HO.png"),
    ),
    "busi": of(
        "--images set",
        images("set/{benign,malignant}/x ({1..3}).png"),
        masks("set/{benign,malignant}/x ({1..3})_mask.png", size=(100, 80)),
    ),
    "cityscapes": of(
        "--images set",
        images("set/leftImg8bit/{train,val}/ulm/ulm_{0..2}_leftImg8bit.png"),
        masks("set/gtFine/{train,val}/ulm/ulm_{0..2}_gtFine_labelIds.png", size=(100, 80)),
    ),
    "ade20k": of(
        "--images set",
        images("set/images/{training,validation}/A_{0..2}.jpg"),
        masks("set/annotations/{training,validation}/A_{0..2}.png"),
    ),
    "loveda": of(
        "--images set",
        images("set/Train/{Rural,Urban}/images_png/{0..2}.png"),
        masks("set/Train/{Rural,Urban}/masks_png/{0..2}.png", size=(100, 80)),
    ),
    "levir_cd": of(
        "--images set",
        images("set/{train,val}/{A,B}/{0..5}.png"),
        masks("set/{train,val}/label/{0..5}.png", size=(100, 80)),
    ),
    "salt": of(
        "--images set --labels set/train.csv",
        images("set/train/images/{0..5}.png"),
        masks("set/train/masks/{0..5}.png", size=(100, 80)),
        {"set/train.csv": lines("id,rle_mask", "{},1 5 9 2")},
    ),
    "roboflow_masks": of(
        "--images set",
        images("set/{train,valid}/a{0..2}_jpg.rf.1f.jpg"),
        masks("set/{train,valid}/a{0..2}_jpg.rf.1f_mask.png"),
        texts("Pixel Value, Class\n0, background\n1, road\n", "set/{train,valid}/_classes.csv"),
    ),
    "oxford_pets": of(
        "--images set",
        images("set/images/{Abyssinian,beagle}_{1..3}.jpg"),
        masks("set/annotations/trimaps/{Abyssinian,beagle}_{1..3}.png"),
        {
            "set/annotations/list.txt": lines(
                "#Image CLASS-ID SPECIES BREED ID",
                "{} 1 1 1",
                names=paths("{Abyssinian,beagle}_{1..3}"),
            )
        },
    ),
    # pairs and copies
    "before_after": of("--images set", images("set/{before,after}/{0001..0006}.png")),
    "before_after_names": of("--images set", images("set/{0001..0006}_{before,after}.png")),
    "gopro": of("--images set", images("set/train/GOPR{1,2}/{blur,sharp}/00{47,52,63}.png")),
    "div2k": of(
        "--images set",
        images("set/DIV2K_train_HR/{0001..0006}.png", "set/DIV2K_train_LR/{0001..0006}x2.png"),
    ),
    "thumbnails_below": of(
        "--images set", images("set/{cat,dog}/{0..2}.jpg", "set/{cat,dog}/thumbs/{0..2}.jpg")
    ),
    "thumbnails_beside": of(
        "--images set", images("set/{originals,thumbnails}/IMG_{17,23,58}.jpg")
    ),
    "augmented": of(
        "--images set", images("set/cat/IMG_{12,15}{,_aug1}.jpg", "set/dog/IMG_{71,94}{,_aug1}.jpg")
    ),
    "resolutions": of("--images set", images("set/{128x128,512x512}/{ok,def}/{0..2}.jpg")),
    "artists": of(
        "--images set",
        images(
            "set/images/images/Goya/Goya_{1,4}.jpg",
            "set/images/images/Dali/Dali_{2,3,7}.jpg",
            "set/resized/resized/{Goya_1,Goya_4,Dali_2,Dali_3,Dali_7}.jpg",
        ),
        {
            "set/artists.csv": "id,name,years,paintings\n0,Goya,1746 - 1828,2\n1,Dali,1904 - 1989,2\n"
        },
    ),
    "arrays_beside": of(
        "--images set",
        images("set/{cat,dog}/{0..2}.jpg"),
        texts("\x93NUMPY", "set/{cat,dog}/{0..2}.npy"),
    ),
    # class folders
    "test_without_labels": of(
        "--images set", images("set/train/{cat,dog}/{0..2}.jpg", "set/test/{0..5}.jpg")
    ),
    "cats_in_names": of("--images set/train", images("set/train/{cat,dog}.{0..2}.jpg")),
    "names_of_numbers": of(
        "--images set",
        images("set/{0,1,2}/{0..2}.png"),
        {"set/signs.csv": "ClassId,Name\n0,stop\n1,yield\n2,turn\n"},
    ),
    "flowers_102": of(
        "--images set",
        images("set/{train,valid}/{1,2}/{0..2}.jpg"),
        {"set/cat_to_name.json": '{"1": "rose", "2": "aster"}'},
    ),
    "fruits_360": of(
        "--images set",
        images(
            "set/fruits-360/{Training,Test}/{Apple Red 1,Pear}/{0..2}_100.jpg",
            "set/fruits-360/test-multiple_fruits/{a,b}.jpg",
        ),
    ),
    "asl_alphabet": of(
        "--images set",
        images(
            "set/asl_alphabet_train/asl_alphabet_train/{A,B}/{A,B}{1..3}.jpg",
            "set/asl_alphabet_test/asl_alphabet_test/{A,B}_test.jpg",
        ),
    ),
    "breakhis": of(
        "--images set",
        images(
            "set/breast/{benign/SOB/adenosis,malignant/SOB/ductal}/SOB_{1,2}/{40X,100X}/{0..1}.png"
        ),
    ),
    "sdnet": of("--images set", images("set/{D/CD,D/UD,P/CP,P/UP}/{0..2}.jpg")),
    "omniglot": of(
        "--images set",
        images(
            "set/images_{background,evaluation}/Greek/character0{1..3}/0709_{1..2}.png",
            "set/images_{background,evaluation}/Latin/character0{1,2}/0801_{1..2}.png",
        ),
    ),
    "ages_and_sexes": of("--images set", images("set/{18,19,20}/{111,112}/{1..2}.jpg")),
    "patients": of("--images set", images("set/patient_{01..12}/{left,right}.jpg")),
    "per_site": table(
        "train.csv",
        images("set/site_{a,b}/scan{1..6}.jpg"),
        text=lines("image_id,site,label", "scan{},{s},{l}", names=paths("{1..6}"), s="ab", l=PETS),
    ),
    "unicode": of(
        "--images set", images("set/日本 猫/{été,x y,#1}.JPG", "set/Brüssel's hund/{%20,a&b}.JPG")
    ),
    "upper_case": of(
        "--images set", images("set/TRAIN/{CAT,DOG}/{0..2}.JPG", "set/TEST/{CAT,DOG}/{3..4}.PNG")
    ),
    "zipped_splits": of(
        "--images set",
        {
            f"set/{s}.zip": zip_bytes(images(f"{s}/{{cat,dog}}/{{0..2}}.jpg"))
            for s in ("train", "test")
        },
    ),
    "numbered_classes": of(
        "--images set",
        images("set/001.ak47/001_000{1..3}.jpg", "set/002.american-flag/002_000{1..3}.jpg"),
    ),
    # tables of whole images
    "chest_14": table(
        "Data_Entry_2017.csv",
        images("set/images_00{1,2}/images/{0..2}.png", "set/images_003/images/{3..5}.png"),
        text=lines(
            "Image Index,Finding Labels,Patient Age",
            "{}.png,{f},{a}",
            f=("Effusion", "Mass|Effusion", "Mass"),
            a=(41, 58),
        ),
    ),
    "landmarks": table(
        "train.csv",
        images("set/train/{0,1}/a/f/{0,1}af{3..5}.jpg"),
        text=lines(
            "id,url,landmark_id", "{},http://x/{},{i}", names=paths("{0,1}af{3..5}"), i=(7, 9)
        ),
    ),
    "folds": table(
        "folds.csv", _FLAT, text=lines("image,label,fold", "{}.jpg,{l},{f}", l=PETS, f=(0, 1, 2))
    ),
    "eyes": table(
        "odir.csv",
        images("set/{0..5}_{left,right}.jpg"),
        text=lines(
            "ID,Left-Fundus,Right-Fundus,N,D",
            "{0},{0}_left.jpg,{0}_right.jpg,{n},{d}",
            n=(0, 1),
            d=(1, 0),
        ),
    ),
    "timestamps": table(
        "log.csv",
        images("set/2021-05-03T12-00-0{0..5}.jpg"),
        text=lines("timestamp,steering", "2021-05-03T12-00-0{},0.{}"),
    ),
    "driving_log": table(
        "driving_log.csv",
        images("set/IMG/{center,left,right}_{0..5}.jpg"),
        text=lines(
            "center,left,right,steering,speed",
            "IMG/center_{0}.jpg, IMG/left_{0}.jpg, IMG/right_{0}.jpg,0.{0},30.{0}",
        ),
    ),
    "list_of_numbers": table(
        "labels.txt",
        images("set/jpg/image_{0..5}.jpg"),
        text=lines("", "jpg/image_{}.jpg {n}", n=(77, 3)),
    ),
    "two_tables": of(
        "--images set --labels set/images.csv set/patients.csv",
        _FLAT,
        {
            "set/images.csv": lines("filename,patient", "{}.jpg,{p}", p=("p1", "p2")),
            "set/patients.csv": "patient,diagnosis\np1,ill\np2,well\n",
        },
    ),
    "per_class_tables": of(
        "--images set --labels set/cat.csv set/dog.csv",
        _FLAT,
        {
            "set/cat.csv": lines("filename", "{}.jpg", names=SIX[:3]),
            "set/dog.csv": lines("filename", "{}.jpg", names=SIX[3:]),
        },
    ),
    "windows_paths": table(
        "labels.csv",
        images("set/{cats,dogs}/{0..2}.jpg"),
        text=lines(
            "path,label", "D:\\data\\set\\{}.jpg,{l}", l=PETS, names=paths("{cats,dogs}\\{0..2}")
        ),
    ),
    "dotted_names": table(
        "labels.csv", images("set/a.b.{0..5}.jpg"), text=lines("id,label", "a.b.{},{l}", l=PETS)
    ),
    "tags_of_bars": table(
        "labels.csv", _FLAT, text=lines("image,tags", "{}.jpg,{t}", t=("sea|sun", "sea", "sun"))
    ),
    "cassava": of(
        "--images set",
        images("set/train_images/{0..5}.jpg", "set/test_images/9.jpg"),
        {
            "set/train.csv": lines("image_id,label", "{}.jpg,{l}", l=(0, 1)),
            "set/sample_submission.csv": "image_id,label\n9.jpg,4\n",
            "set/label_num_to_disease_map.json": '{"0": "CBB", "1": "CBSD"}',
        },
    ),
    "dog_breeds": of(
        "--images set",
        _TRAIN,
        images("set/test/{6..8}.jpg"),
        {
            "set/labels.csv": lines("id,breed", "{},{l}", l=PETS),
            "set/sample_submission.csv": "id,cat,dog\n6,0.5,0.5\n",
        },
    ),
    "plant_pathology": table(
        "train.csv",
        images("set/images/Train_{0..5}.jpg", "set/images/Test_{0..2}.jpg"),
        text=lines("image_id,healthy,rust,scab", "Train_{},{h},{r},0", h=(0, 1), r=(1, 0)),
    ),
    "driver_list": of(
        "--images set",
        images("set/imgs/train/{c0,c1}/img_{0..2}.jpg", "set/imgs/test/img_{7..9}.jpg"),
        {
            "set/driver_imgs_list.csv": lines(
                "subject,classname,img", "p002,{c},img_{}.jpg", names=SIX[:3], c=("c0", "c1")
            )
        },
    ),
    "pawpularity": table(
        "train.csv",
        _TRAIN,
        text=lines("Id,Focus,Eyes,Pawpularity", "{},{a},1,{p}", a=(0, 1), p=(63, 42, 28, 15)),
    ),
    "whales": table(
        "train.csv",
        _TRAIN,
        text=lines(
            "image,species,individual_id",
            "{}.jpg,{s},{i}",
            s=("orca", "beluga"),
            i=("ca1", "fe2", "a99"),
        ),
    ),
    "fer_2013": table("fer2013.csv", text=lines("emotion,pixels,Usage", "{},70 80 82,Training")),
    "cub": of(
        "--images set",
        images("set/images/{001.Gull,002.Tern}/{0..2}.jpg"),
        {
            "set/images.txt": lines("", "{0} 001.Gull/{0}.jpg", names=SIX[:3]),
            "set/image_class_labels.txt": lines("", "{} 1", names=SIX[:3]),
            "set/train_test_split.txt": lines("", "{} 0", names=SIX[:3]),
        },
    ),
    "food_101": of(
        "--images set",
        images("set/images/{apple_pie,ramen}/{0..2}.jpg"),
        {
            "set/meta/train.txt": lines("", "apple_pie/{}", names=SIX[:3]),
            "set/meta/classes.txt": "apple_pie\nramen\n",
        },
    ),
    "captions_of_flickr": of(
        "--images set",
        images("set/Images/{0..5}.jpg"),
        {"set/captions.txt": lines("image,caption", '{}.jpg,"A dog, again ."', names=SIX * 2)},
    ),
    "bars_as_separators": table(
        "results.csv",
        images("set/flickr30k_images/{0..5}.jpg"),
        text=lines(
            "image_name| comment_number| comment",
            "{}.jpg| {n}| A dog , again .",
            names=sorted(SIX * 2),
            n=(0, 1),
        ),
    ),
    "metadata_of_splits": of(
        "--images set",
        images("set/{train,test}/{0..2}.jpg"),
        {
            f"set/{s}/metadata.jsonl": jsonl(
                [{"file_name": f"{i}.jpg", "label": PETS[i % 2]} for i in range(3)]
            )
            for s in ("train", "test")
        },
    ),
    "readme_table": of(
        "--images set",
        images("set/{cat,dog}/{0..2}.jpg"),
        {
            "set/README.md": "| file | label |\n|---|---|\n| 0.jpg | cat |\n",
            "set/example.csv": "file,label\nphoto.jpg,cat\n",
        },
    ),
    # boxes and points
    "wheat": table(
        "train.csv",
        _TRAIN,
        text=lines("image_id,width,height,bbox,source", f'{{}},16,8,"{_WHEAT}",usask_1'),
    ),
    "vinbigdata": table(
        "train.csv",
        _TRAIN,
        text=lines(
            "image_id,class_name,class_id,rad_id,x_min,y_min,x_max,y_max",
            "{},{c}",
            c=("No finding,14,R1,,,,", "Nodule,8,R2,1.0,1.0,9.0,5.0"),
        ),
    ),
    "pneumonia": table(
        "labels.csv",
        _TRAIN,
        text=lines("patientId,x,y,width,height,Target", "{},{b}", b=(",,,,0", "1.0,1.0,5.0,4.0,1")),
    ),
    "gtsrb": of(
        "--images set --labels set/Train.csv",
        images("set/Train/{0,1}/0000{0,1}_{0..2}.png", "set/Test/{0..2}.png"),
        {
            "set/Train.csv": lines(
                "Width,Height,Roi.X1,Roi.Y1,Roi.X2,Roi.Y2,ClassId,Path",
                "100,80,5,5,22,24,{0},Train/{0}/0000{0}_1.png",
                names=("0", "1"),
            )
        },
    ),
    "celeba_boxes": table(
        "list_bbox.csv", _FLAT, text=lines("image_id,x_1,y_1,width,height", "{}.jpg,1,1,6,5")
    ),
    "celeba_landmarks": table(
        "landmarks.csv",
        _FLAT,
        text=lines("image_id,lefteye_x,lefteye_y,nose_x,nose_y", "{}.jpg,3,2,6,5"),
    ),
    "coco_key_points": of(
        "--images set",
        images("set/images/{0..5}.jpg"),
        {
            "set/annotations/person_keypoints.json": coco(paths("{0..5}.jpg"))
            .replace('"area"', '"num_keypoints": 1, "keypoints": [2, 2, 2], "area"')
            .replace('"name": "cat"', '"name": "person", "keypoints": ["nose"], "skeleton": []')
        },
    ),
    "yolo_pairs": of(
        "--images set",
        images("set/{car,bus}/{0..2}.jpg"),
        texts("0 0.5 0.5 0.2 0.2\n", "set/{car,bus}/{0..2}.txt"),
        {"set/classes.txt": "car\nbus\n"},
    ),
    "xml_without_extension": of(
        "--images set",
        images("set/Images/n1-pug/n1_{1,4,8}.jpg", "set/Images/n2-corgi/n2_{2,7}.jpg"),
        texts(
            "<annotation></annotation>",
            "set/Annotation/n1-pug/n1_{1,4,8}",
            "set/Annotation/n2-corgi/n2_{2,7}",
        ),
    ),
    "csv_of_roboflow": of(
        "--images set",
        images("set/{train,valid}/{0..2}_jpg.rf.a1.jpg"),
        texts(
            lines(
                "filename,width,height,class,xmin,ymin,xmax,ymax",
                "{}_jpg.rf.a1.jpg,16,8,cat,1,1,5,5",
                names=SIX[:3],
            ),
            "set/{train,valid}/_annotations.csv",
        ),
    ),
    "disaster_pairs": of(
        "--images set",
        images("set/train/images/volcano_{0..2}_{pre,post}_disaster.png"),
        texts('{"features": {}}', "set/train/labels/volcano_{0..2}_{pre,post}_disaster.json"),
    ),
    "run_lengths": table(
        "train.csv",
        _TRAIN,
        text=lines("ImageId,ClassId,EncodedPixels", "{}.jpg,{c},1 3 10 5", c=(1, 2)),
    ),
    "run_lengths_of_labels": table(
        "train.csv",
        _TRAIN,
        text=lines(
            "Image_Label,EncodedPixels",
            "{}.jpg_{c},1 3 10 5",
            names=sorted(SIX * 2),
            c=("Fish", "Gravel"),
        ),
    ),
    "points_as_texts": table(
        "points.csv",
        _FLAT,
        text=lines("image,label,landmarks", '{}.jpg,{l},"[(3, 2), (6, 5)]"', l=PETS),
    ),
    "resized_points_as_texts": of(
        "--images set --labels set/points.csv --resize 8",
        _FLAT,
        {"set/points.csv": lines("image,label,landmarks", '{}.jpg,{l},"[(3, 2), (6, 5)]"', l=PETS)},
    ),
    "celeba_points": of(
        "--images set --labels set/landmarks.csv --label_column none --columns lefteye:point,nose:point",
        _FLAT,
        {
            "set/landmarks.csv": lines(
                "image_id,lefteye_x,lefteye_y,nose_x,nose_y", "{}.jpg,3,2,6,5"
            )
        },
    ),
    "case_alone": table(
        "labels.csv",
        images("set/{a,b,c}.JPG"),
        text=lines("image,label", "{}.jpg,{l}", names="abc", l=PETS),
    ),
    "case_of_names": table(
        "labels.csv",
        images("set/IMG_{0..5}.jpg"),
        text=lines("image,label", "img_{}.jpg,{l}", l=PETS),
    ),
    "angles": table(
        "angles.csv", _FLAT, text=lines("filename,yaw,pitch,roll", "{}.jpg,-1{0}.5,2.{0},0.{0}")
    ),
}
