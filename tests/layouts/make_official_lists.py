"""Small public data sets with the files of the real ones: images, and official lists of their splits."""

from __future__ import annotations

from collections.abc import Iterable

from tests.pictures import picture, write_files, write_pictures

_IMAGES = 8  # of a class


def make_official_lists(folder: str) -> None:
    """Writes a folder for each data set of docs/datasets/official_lists.md."""
    _food_101(f"{folder}/food-101")
    _dtd(f"{folder}/dtd")
    _sun397(f"{folder}/SUN397", f"{folder}/Partitions")
    _indoor(f"{folder}/indoor")
    _aircraft(f"{folder}/fgvc-aircraft-2013b/data")
    _pets(f"{folder}/pets")
    _cub(f"{folder}/CUB_200_2011")
    _celeba(f"{folder}/celeba")
    _imagenet(f"{folder}/imagenet")
    _places(f"{folder}/places365")
    _chest(f"{folder}/chest")
    _wider_face(f"{folder}/WIDER")
    _ham(f"{folder}/HAM10000")
    _isic(f"{folder}/isic")
    _gtsrb(f"{folder}/GTSRB/Final_Training/Images")
    pets = [f"{name}.{i}.jpg" for name in ("cat", "dog") for i in range(_IMAGES)]
    write_pictures(f"{folder}/dogs-vs-cats/train", pets)
    faces = [f"{20 + i}_{i % 2}_{i % 5}_2017011617{i:07d}.jpg.chip.jpg" for i in range(_IMAGES)]
    write_pictures(f"{folder}/UTKFace", [*faces, "61_1_20170109142408075.jpg.chip.jpg"])


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _food_101(folder: str) -> None:
    names = [f"{name}/{i}" for name in ("apple_pie", "baklava") for i in range(1005649, 1005657)]
    write_pictures(f"{folder}/images", [f"{name}.jpg" for name in names])
    lists = {"train": names[:6] + names[8:14], "test": names[6:8] + names[14:]}
    write_files(folder, {f"meta/{split}.txt": _lines(rows) for split, rows in lists.items()})
    write_files(folder, {"meta/classes.txt": "apple_pie\nbaklava\n"})


def _dtd(folder: str) -> None:
    names = [f"{name}/{name}_{i:04d}.jpg" for name in ("banded", "dotted") for i in range(9)]
    write_pictures(f"{folder}/images", names)
    for number in range(1, 4):
        for i, split in enumerate(("train", "val", "test")):
            listed = _lines(names[(i + number) % 3 :: 3])
            write_files(folder, {f"labels/{split}{number}.txt": listed})


def _sun397(folder: str, lists: str) -> None:
    classes = ("/a/abbey", "/a/apartment_building/outdoor")
    names = [f"{name}/sun_{i}{name[-1]}.jpg" for name in classes for i in range(_IMAGES)]
    write_pictures(folder, [name.removeprefix("/") for name in names])
    write_files(lists, {"ClassName.txt": _lines(classes)})
    write_files(
        lists, {"Training_01.txt": _lines(names[::2]), "Testing_01.txt": _lines(names[1::2])}
    )


def _indoor(folder: str) -> None:
    names = [f"{name}/int{i}{name[0]}.jpg" for name in ("kitchen", "bar") for i in range(_IMAGES)]
    write_pictures(f"{folder}/Images", names)
    test = _lines(names[1::4])
    write_files(folder, {"TrainImages.txt": _lines(names[::2]), "TestImages.txt": test})


def _aircraft(folder: str) -> None:
    classes = ("Boeing 707-320", "DC-10", "A300B4")
    rows = [f"{i:04d}226 {classes[i % 3]}" for i in range(3 * _IMAGES)]
    write_pictures(f"{folder}/images", [f"{row.split()[0]}.jpg" for row in rows])
    for i, split in enumerate(("train", "val", "test")):
        listed = rows[i * _IMAGES : (i + 1) * _IMAGES]
        write_files(folder, {f"images_variant_{split}.txt": _lines(listed)})


def _pets(folder: str) -> None:
    breeds = ("Abyssinian", "american_bulldog")
    rows = [
        f"{breed}_{i} {number} {3 - number} 1"
        for number, breed in enumerate(breeds, 1)
        for i in range(_IMAGES)
    ]
    write_pictures(f"{folder}/images", [f"{row.split()[0]}.jpg" for row in rows])
    lists = {"trainval": _lines(rows[::2]), "test": _lines(rows[1::2])}
    write_files(f"{folder}/annotations", {f"{name}.txt": text for name, text in lists.items()})


def _cub(folder: str) -> None:
    classes = ("001.Black_footed_Albatross", "002.Laysan_Albatross")
    names = [f"{name}/Bird_{i}_{name[2]}.jpg" for name in classes for i in range(_IMAGES)]
    write_pictures(f"{folder}/images", names)
    files = {
        "images.txt": names,
        "image_class_labels.txt": [str(i // _IMAGES + 1) for i in range(len(names))],
        "train_test_split.txt": [str(i % 2) for i in range(len(names))],
    }
    for name, rows in files.items():
        write_files(folder, {name: _lines(f"{i} {row}" for i, row in enumerate(rows, 1))})


def _celeba(folder: str) -> None:
    names = [f"{i:06d}.jpg" for i in range(1, 13)]
    write_pictures(f"{folder}/img_align_celeba", names)
    splits = _lines(f"{name} {max(0, i - 9)}" for i, name in enumerate(names))
    rows = [f"{name} {'-1' if i % 2 else ' 1'} -1  1" for i, name in enumerate(names)]
    attributes = _lines(["12", "5_o_Clock_Shadow Male Young ", *rows])
    write_files(folder, {"list_eval_partition.txt": splits, "list_attr_celeba.txt": attributes})


def _imagenet(folder: str) -> None:
    wnids = ("n01440764", "n01443537")
    val = [f"ILSVRC2012_val_{i:08d}" for i in range(1, 7)]
    train = [f"train/{wnid}/{wnid}_{i}.JPEG" for wnid in wnids for i in range(_IMAGES)]
    write_pictures(folder, [*train, *(f"val/{name}.JPEG" for name in val)])
    rows = [f"{name},{wnids[i % 2]} 1 1 5 5 " for i, name in enumerate(val)]
    write_files(folder, {"LOC_val_solution.csv": _lines(["ImageId,PredictionString", *rows])})
    numbers = _lines(str(i % 2 + 1) for i in range(len(val)))
    write_files(folder, {"ILSVRC2012_validation_ground_truth.txt": numbers})


def _places(folder: str) -> None:
    train = [f"/a/{name}/{i:08d}.jpg" for name in ("airfield", "arch") for i in range(_IMAGES)]
    val = [f"Places365_val_{i:08d}.jpg" for i in range(1, 5)]
    write_pictures(f"{folder}/data_large", [name.removeprefix("/") for name in train])
    write_pictures(f"{folder}/val_large", val)
    rows = _lines(f"{name} {i // _IMAGES}" for i, name in enumerate(train))
    write_files(folder, {"places365_train_standard.txt": rows})
    write_files(
        folder, {"places365_val.txt": _lines(f"{name} {i % 2}" for i, name in enumerate(val))}
    )


def _chest(folder: str) -> None:
    names = [f"{i // 2:08d}_{i % 2:03d}.png" for i in range(10)]
    write_pictures(
        folder, [f"images_{i // 5 + 1:03d}/images/{name}" for i, name in enumerate(names)]
    )
    findings = ("Cardiomegaly|Emphysema", "No Finding", "Cardiomegaly")
    header = "Image Index,Finding Labels,Follow-up #,OriginalImage[Width,Height],"
    rows = [f"{name},{findings[i % 3]},0,2682,2749," for i, name in enumerate(names)]
    lists = {"train_val_list.txt": _lines(names[:7]), "test_list.txt": "\n".join(names[7:])}
    write_files(folder, {"Data_Entry_2017.csv": _lines([header, *rows]), **lists})


def _wider_face(folder: str) -> None:
    names = [f"0--Parade/0_Parade_marchingband_1_{i}.jpg" for i in range(3)]
    write_pictures(f"{folder}/WIDER_train/images", names)
    faces = ("1\n1 2 5 4 0 0 0 0 0 0 ", "2\n1 2 5 4 0 0 0 0 0 0 \n3 3 0 0 2 0 0 1 2 0 ")
    none = "0\n0 0 0 0 0 0 0 0 0 0 "
    rows = [f"{name}\n{boxes}" for name, boxes in zip(names, (*faces, none), strict=True)]
    write_files(folder, {"wider_face_split/wider_face_train_bbx_gt.txt": _lines(rows)})


def _ham(folder: str) -> None:
    names = [f"ISIC_{i:07d}" for i in range(24306, 24326)]
    parts = [f"HAM10000_images_part_{i % 2 + 1}/{name}.jpg" for i, name in enumerate(names)]
    write_pictures(folder, parts)
    rows = [f"HAM_{i // 2:07d},{name},{('nv', 'mel')[i // 2 % 2]}" for i, name in enumerate(names)]
    write_files(folder, {"HAM10000_metadata.csv": _lines(["lesion_id,image_id,dx", *rows])})


def _isic(folder: str) -> None:
    names = [f"ISIC_{i:07d}" for i in range(9)]
    write_pictures(f"{folder}/ISIC_2019_Training_Input", [f"{name}.jpg" for name in names])
    cells = (",".join(str(float(i == j)) for j in range(9)) for i in range(9))
    rows = [f"{name},{row}" for name, row in zip(names, cells, strict=True)]
    header = "image,MEL,NV,BCC,AK,BKL,DF,VASC,SCC,UNK"
    write_files(folder, {"ISIC_2019_Training_GroundTruth.csv": _lines([header, *rows])})


def _gtsrb(folder: str) -> None:
    for number in range(2):
        names = [f"{track:05d}_{i:05d}.ppm" for track in range(2) for i in range(3)]
        pictures = {name: picture(i, file_format="PPM") for i, name in enumerate(names)}
        write_files(f"{folder}/{number:05d}", pictures)
        header = "Filename;Width;Height;Roi.X1;Roi.Y1;Roi.X2;Roi.Y2;ClassId"
        rows = [f"{name};9;7;1;1;6;6;{number}" for name in names]
        write_files(folder, {f"{number:05d}/GT-{number:05d}.csv": _lines([header, *rows])})
