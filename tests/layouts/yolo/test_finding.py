"""Where images, label files and splits of YOLO's data sets are."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.layouts.yolo_data_set import (
    DataSet,
    FolderPair,
    label_roots,
    roots_of,
    topmost,
)
from tests.pictures import write_files

LINE = "0 0.5 0.5 1 1\n"


def found_in(folder: Path, files: dict[str, bytes | str], path: str = "") -> DataSet:
    write_files(str(folder), files)
    found = DataSet()
    found.add(f"{folder}/{path}")
    return found


def test_lists_of_darknet(tmp_path: Path) -> None:
    """Paths in them begin with folders of another machine."""
    found = found_in(
        tmp_path,
        {
            "obj.names": "cat\ndog\n",
            "obj_train_data/a.jpg": b"x",
            "obj_train_data/a.txt": LINE,
            "obj_train_data/b.jpg": b"x",
            "train.txt": "data/obj_train_data/a.jpg\n",
            "test.txt": "data/obj_train_data/b.jpg\ndata/obj_train_data/c.jpg\n",
        },
    )
    folder = f"{tmp_path}/obj_train_data"
    assert found.pairs == [FolderPair(folder, folder)]
    assert found.listed == {f"{folder}/a": "train", f"{folder}/b": "test"}
    assert found.names == {0: "cat", 1: "dog"}
    assert found.notes == [
        f"1 of 2 images in {tmp_path}/test.txt, such as 'data/obj_train_data/c.jpg', are not there"
    ]


def test_list_files_of_data_yaml(tmp_path: Path) -> None:
    """Their images' folders are taken; a path from the list's folder begins with ./."""
    found = found_in(
        tmp_path,
        {
            "data.yaml": "train: lists/a.txt\nval: lists/b.txt\nnames: [cat]\n",
            "lists/a.txt": "./../images/x/1.jpg\nimages/x/2.jpg\n",
            "lists/b.txt": f"{tmp_path}/images/y/1.jpg\n",
            **{f"images/{name}.jpg": b"x" for name in ("x/1", "x/2", "x/3", "y/1")},
            **{f"labels/{name}.txt": LINE for name in ("x/1", "x/2", "x/3", "y/1")},
        },
    )
    images, labels = f"{tmp_path}/images", f"{tmp_path}/labels"
    assert found.pairs == [
        FolderPair(f"{images}/x", f"{labels}/x"),
        FolderPair(f"{images}/y", f"{labels}/y"),
    ]
    assert found.listed == {
        f"{images}/x/1": "train",
        f"{images}/x/2": "train",
        f"{images}/y/1": "validation",
    }


def test_an_image_in_two_lists(tmp_path: Path) -> None:
    """Cannot be."""
    files: dict[str, bytes | str] = {"images/a.jpg": b"x", "labels/a.txt": LINE}
    files |= {"train.txt": "images/a.jpg\n", "val.txt": "./images/a.jpg\n"}
    with pytest.raises(
        UsageError, match=r"val\.txt names \./images/a.jpg, which another list"
    ) as error:
        found_in(tmp_path, files)
    assert str(error.value).endswith("so take it out of one of the lists")


def test_a_list_of_images_that_are_not_there(tmp_path: Path) -> None:
    """One is named."""
    files: dict[str, bytes | str] = {"images/a.jpg": b"x", "labels/a.txt": LINE}
    with pytest.raises(UsageError, match=r"none of its 1 images exists, such as 'b\.jpg'"):
        found_in(tmp_path, {**files, "train.txt": "b.jpg\n"})


def test_nothing_of_yolo(tmp_path: Path) -> None:
    """The message says what was looked for."""
    with pytest.raises(UsageError, match="no data set of YOLO; expected images/ beside labels/"):
        found_in(tmp_path, {"a.jpg": b"x"})


def test_two_descriptions(tmp_path: Path) -> None:
    """Neither is taken, unless one has the usual name."""
    text = "train: images\nnames: [a]\n"
    files: dict[str, bytes | str] = {"images/a.jpg": b"x", "labels/a.txt": LINE}
    with pytest.raises(
        UsageError, match="each describe a data set; name one of them with --images"
    ):
        found_in(tmp_path, {**files, "a.yaml": text, "b.yml": text})
    found = found_in(tmp_path, {"data.yaml": text})
    assert found.pairs == [FolderPair(f"{tmp_path}/images", f"{tmp_path}/labels", "train")]


def test_class_files_that_disagree_with_data_yaml(tmp_path: Path) -> None:
    """What describes the data set counts; a file of names beside it is no label file."""
    found = found_in(
        tmp_path,
        {
            "data.yaml": "train: images\nnames: [a]\n",
            "images/a.jpg": b"x",
            "labels/a.txt": LINE,
            "labels/classes.txt": "b\n",
        },
    )
    assert found.names == {0: "a"}
    assert found.skipped == {f"{tmp_path}/labels/classes.txt"}


def test_a_folder_of_two_splits(tmp_path: Path) -> None:
    """Is an error, since an image can be in one only."""
    text = "train: images\nval: images\nnames: [a]\n"
    with pytest.raises(UsageError, match="/images as train and as validation; an image can be in"):
        found_in(tmp_path, {"data.yaml": text, "images/a.jpg": b"x", "labels/a.txt": LINE})


def test_roots_hold_all_folders_once() -> None:
    """A root above them with these folders in it; folders far apart are roots of their own."""
    assert roots_of(["/d/images"]) == (ImageRoot("/d/images"),)
    assert roots_of(["/d/images/a", "/d/images"]) == (ImageRoot("/d/images"),)
    assert roots_of(["/d/train/images", "/d/valid/images"]) == (
        ImageRoot("/d", within=("train/images/", "valid/images/")),
    )
    assert roots_of(["gs://b/d/images/x", "gs://b/d/images/y"]) == (
        ImageRoot("gs://b/d/images", within=("x/", "y/")),
    )
    assert topmost(["/a/b", "/a", "/ab", "/a"]) == ["/a", "/ab"]


def test_far_folders_are_roots_of_their_own(tmp_path: Path) -> None:
    """Nothing between them is listed."""
    names = ("x/1/2/3/images", "y/1/2/3/images")
    for name in names:
        (tmp_path / name).mkdir(parents=True)
    assert [root.uri for root in roots_of([f"{tmp_path}/{name}" for name in names])] == [
        f"{tmp_path}/{name}" for name in names
    ]


def test_label_folders_must_be_there(tmp_path: Path) -> None:
    """One at least."""
    (tmp_path / "labels").mkdir()
    there, missing = f"{tmp_path}/labels", f"{tmp_path}/test/labels"
    roots = label_roots([FolderPair("a", there), FolderPair("b", missing)])
    assert roots == (ImageRoot(there, ("**/*.txt",)),)
    with pytest.raises(UsageError, match=r"no folder of label files: .*/test/labels is missing"):
        label_roots([FolderPair("b", missing)])
