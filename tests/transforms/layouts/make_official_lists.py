"""Small public data sets with the files of the real ones: images, and official lists of their splits."""

from __future__ import annotations

from collections.abc import Iterable

from tests.pictures import write_files, write_pictures

_IMAGES = 8  # of a class


def make(folder: str) -> None:
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
    _tiny_imagenet(f"{folder}/tiny-imagenet-200")
    _places(f"{folder}/places365")


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


def _tiny_imagenet(folder: str) -> None:
    wnids = ("n01443537", "n01629819")
    train = [f"train/{wnid}/images/{wnid}_{i}.JPEG" for wnid in wnids for i in range(_IMAGES)]
    val = [f"val_{i}.JPEG" for i in range(4)]
    write_pictures(folder, [*train, *(f"val/images/{name}" for name in val)])
    rows = [f"{name}\t{wnids[i % 2]}\t0\t32\t44\t62" for i, name in enumerate(val)]
    write_files(folder, {"val/val_annotations.txt": _lines(rows)})


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
