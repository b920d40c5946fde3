"""What a look around a folder of images sees, and where they belong; the conformance suite has the questions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from beam_pipeline.layouts.layout import SourceOptions
from beam_pipeline.layouts.nearby import (
    TableLook,
    certain_alternative,
    look_at_tables,
    only_folder,
)
from beam_pipeline.layouts.opening import open_source
from beam_pipeline.layouts.tree import folders_with_images, names_in, tree
from tests.layouts.make_parquet import FEATURES, pets, write_parquet
from tests.pictures import write_files, write_pictures

KITTI = "Car 0.00 0 1.62 1.00 1.00 5.00 6.00 1.52 1.63 3.88 -4.36 1.71 14.20 1.33\n"


COCO = json.dumps(
    {
        "images": [{"id": 1, "file_name": "1.jpg", "width": 9, "height": 7}],
        "annotations": [],
        "categories": [{"id": 1, "name": "cat"}],
    }
)


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def alternative_to(path: str) -> tuple[str, tuple[str, ...], tuple[str, ...]] | None:
    """(layout, images, labels) of the better place for a folder."""
    found = certain_alternative(SourceOptions((path,)))
    return (found.layout.name, found.options.images, found.options.labels) if found else None


def _table(*names: str) -> str:
    return "file,label\n" + "".join(f"{name},cat\n" for name in names)


@pytest.mark.parametrize("inside", [True, False])
def test_the_table_beside_the_images_is_taken(inside: bool, tmp_path: Path) -> None:
    """Its rows name them from the folder or from its own; other tables do not matter."""
    write_pictures("d/photos", ["1.jpg", "2.jpg"])
    names = ["1.jpg", "2.jpg"] if inside else ["photos/1.jpg", "photos/2.jpg"]
    write_files("d", {"labels.csv": _table(*names), "more.tsv": "a\tb\n1\t2\n"})
    assert alternative_to("d") == ("table", ("d/photos",), ("d/labels.csv",))
    full = str(tmp_path / "d")
    assert alternative_to(full) == ("table", (f"{full}/photos",), (f"{full}/labels.csv",))
    write_files("d", {"again.csv": _table(*names)})
    assert alternative_to("d") is None  # which of the two?


@pytest.mark.parametrize("more", ["d/other/3.jpg", "d/3.jpg"])
def test_a_table_is_not_taken_where_it_would_leave_images_out(more: str) -> None:
    """Images elsewhere in the folder were named, too."""
    write_pictures("d/photos", ["1.jpg", "2.jpg"])
    write_pictures(".", [more])
    write_files("d", {"labels.csv": _table("1.jpg", "2.jpg")})
    assert alternative_to("d") is None


def test_a_data_set_one_folder_lower_is_taken() -> None:
    """If there is no other image."""
    write_pictures("k/data_object/training/image_2", ["1.png"])
    write_files("k/data_object/training/label_2", {"1.txt": KITTI})
    write_files("k", {"readme.txt": "x", "devkit/map.txt": "x"})
    assert alternative_to("k") == ("kitti", ("k/data_object",), ())
    write_pictures("k/more", ["2.png"])
    assert alternative_to("k") is None


def test_a_data_set_one_folder_higher_is_taken_if_it_holds_no_other_images() -> None:
    """Those of a split are a part of it."""
    write_pictures("s/images/train", ["1.jpg"])
    write_files("s", {"annotations/instances_train.json": COCO})
    assert alternative_to("s/images/train") == ("coco", ("s",), ())
    assert alternative_to("s/images") == ("coco", ("s",), ())
    write_pictures("s/images/val", ["2.jpg"])
    assert alternative_to("s/images/train") is None
    assert alternative_to("s/images") == ("coco", ("s",), ())
    write_pictures("s/more", ["3.jpg"])
    assert alternative_to("s/images") is None


def test_splits_one_folder_lower_are_taken() -> None:
    """If there is nothing but splits with class folders."""
    write_pictures("w/set/Train", ["cat/1.jpg", "dog/1.jpg"])
    write_pictures("w/set/test", ["cat/2.jpg"])
    assert alternative_to("w") == ("class_folders", ("w/set",), ())
    write_pictures("w/set/more", ["cat/2.jpg"])
    assert alternative_to("w") is None


def test_a_data_set_one_folder_lower_may_hold_no_image_files() -> None:
    """As Parquet does, whose images are inside."""
    Path("d/pets/data").mkdir(parents=True)
    write_parquet("d/pets/data/train-00000-of-00001.parquet", pets(range(2)), FEATURES)
    assert alternative_to("d") == ("parquet", ("d/pets",), ())


@pytest.mark.parametrize("names", [["cat/1.jpg", "dog/1.jpg"], ["1.jpg"], ["cat/1.jpg"]])
def test_class_folders_stay_where_they_are(names: list[str]) -> None:
    """And so do images of which nothing is known."""
    write_pictures("photos", names)
    assert alternative_to("photos") is None


def test_the_alternative_is_opened_and_said() -> None:
    """A layout that the person names is taken as it is."""
    write_pictures("d/photos", ["1.jpg", "2.jpg"])
    write_files("d", {"labels.csv": _table("1.jpg", "2.jpg")})
    source, why = open_source("auto", SourceOptions(("d",)))
    assert (source.layout, why) == ("table", "d/labels.csv names the images in d/photos")
    assert source.notes == (
        "--images d/photos --labels d/labels.csv was taken for --images d; --layout class_folders "
        "takes the names of its folders as classes",
    )
    source, why = open_source("class_folders", SourceOptions(("d",)))
    assert (source.layout, why, source.notes, source.questions) == ("class_folders", "", (), ())


# --- names and tables ---


@pytest.fixture
def root(tmp_path: Path) -> str:
    """Images, other files, hidden ones and folders."""
    write_pictures("p", ["b.JPG", "a.png", "deep/er/est/1.jpg", "deeper/still/too/far/1.jpg"])
    write_files("p", {"x.CSV": "a,b\n1,2\n", "notes": "", ".hid/1.csv": "", ".hidden.csv": ""})
    write_files("p", {"out/d-train.tfrecord-00000-of-00001": "", "out/manifest.json": "{}"})
    return f"{tmp_path}/p"


def test_images_are_looked_for_three_levels_down(root: str) -> None:
    """Where there are none, a folder is no class."""
    assert folders_with_images(names_in(root)) == [f"{root}/deep"]


def test_a_tree_leaves_out_what_a_conversion_wrote(root: str) -> None:
    """Two levels; the JSON files of a data set are no labels."""
    assert [folder.path for folder in tree(names_in(root))] == [
        f"{root}{below}" for below in ("", "/deep", "/deeper", "/deep/er", "/deeper/still")
    ]


@pytest.mark.parametrize(
    ("images", "labels", "found"),
    [
        (("p",), (), True),
        (("p/",), (), True),
        (("p",), ("l.csv",), False),
        (("p", "p"), (), False),
        (("p/*.jpg",), (), False),
        (("p/a.png",), (), False),
        (("gs://b/p",), (), False),
        ((" ",), (), False),
    ],
)
def test_only_one_folder_on_this_machine_is_looked_at(
    root: str, images: tuple[str, ...], labels: tuple[str, ...], found: bool
) -> None:
    """Without labels: those answer every question."""
    assert only_folder(SourceOptions(images, labels)) == (root if found else "")


def test_a_table_says_its_columns_and_images(root: str) -> None:
    """The first rows; a file that is none has no columns."""
    rows = "".join(f"{i}.jpg,cat\n" for i in range(30))
    write_files("t", {"l.csv": f"size,file\n{rows.replace(',cat', '')}", "b.csv": "a,a\n1,1\n"})
    write_files("t", {"l.csv": f"file,label\n{rows}"})
    names = [f"{i}.jpg" for i in range(20)]
    columns = ("file", "label")
    assert look_at_tables(["t/l.csv"]) == [
        TableLook("t/l.csv", columns, names, [names, ["cat"] * 20])
    ]
    assert look_at_tables(["t/b.csv"]) == [TableLook("t/b.csv", (), ())]
    assert look_at_tables(["t/nowhere.csv"]) == [TableLook("t/nowhere.csv", (), ())]


@pytest.mark.parametrize(
    ("names", "found"),
    [
        ([], False),
        (["a.png"], True),
        (["p/a.png"], True),
        (["a.png", "gone.png"], False),
        (["a.png", "b.JPG", "gone.png"], True),
        (["a", "b"], False),
        (["deep/er/est/1", "a", "b"], True),
        (["../x.CSV"], False),
    ],
)
def test_most_rows_have_to_name_images(
    root: str, tmp_path: Path, names: list[str], found: bool
) -> None:
    """By their path from the images' folder or the one above; without extension, only three do."""
    assert TableLook(f"{tmp_path}/l.csv", ("a",), names).names_images_in(root) is found
