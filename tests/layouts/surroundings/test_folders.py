"""What a look around sees, and what it leaves out."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam_pipeline.layouts.layout import SourceOptions
from beam_pipeline.layouts.nearby_folders import (
    Folder,
    TableLook,
    beginning,
    folders_with_images,
    look,
    look_at_table,
    names_images,
    only_folder,
    tree,
)
from tests.pictures import write_files, write_pictures


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Images, other files, hidden ones and folders."""
    monkeypatch.chdir(tmp_path)
    write_pictures("p", ["b.JPG", "a.png", "deep/er/est/1.jpg", "deeper/still/too/far/1.jpg"])
    write_files("p", {"x.CSV": "a,b\n1,2\n", "notes": "", ".hid/1.csv": "", ".hidden.csv": ""})
    write_files("p", {"out/d-train.tfrecord-00000-of-00001": "", "out/manifest.json": "{}"})
    return f"{tmp_path}/p"


def test_a_look_sorts_names_into_images_others_and_folders(root: str) -> None:
    """By extension, in whatever case; hidden names do not count."""
    folders = (f"{root}/deep", f"{root}/deeper", f"{root}/out")
    found = Folder(root, ("a.png", "b.JPG"), ("notes", "x.CSV"), folders)
    assert look(root) == look(f"{root}/") == found
    assert look(root).of_kind(frozenset([".csv"])) == [f"{root}/x.CSV"]
    assert look(f"{root}/nowhere") == Folder(f"{root}/nowhere", (), (), ())


def test_images_are_looked_for_three_levels_down(root: str) -> None:
    """Where there are none, a folder is no class."""
    assert folders_with_images(look(root)) == [f"{root}/deep"]


def test_a_tree_leaves_out_what_a_conversion_wrote(root: str) -> None:
    """Two levels; the JSON files of a data set are no labels."""
    assert [folder.path for folder in tree(look(root))] == [
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
    assert look_at_table("t/l.csv") == TableLook(
        "t/l.csv", ("file", "label"), [f"{i}.jpg" for i in range(20)]
    )
    assert look_at_table("t/b.csv") == TableLook("t/b.csv", (), ())
    assert look_at_table("t/nowhere.csv") == TableLook("t/nowhere.csv", (), ())
    assert (beginning("t/b.csv"), beginning("t/nowhere")) == (b"a,a\n1,1\n", b"")


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
    assert names_images(TableLook("l.csv", ("a",), names), root, str(tmp_path)) is found
