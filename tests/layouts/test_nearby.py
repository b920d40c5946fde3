"""What a look around a folder of images sees, where they belong, and what each part of the input is used for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

import beam_pipeline
from beam_pipeline.cli import main
from beam_pipeline.core.dataset.manifest import Manifest
from beam_pipeline.layouts import nearby, opening
from beam_pipeline.layouts.layout import SourceOptions
from beam_pipeline.layouts.roles import understanding
from beam_pipeline.layouts.tree import folders_with_images, names_in, tree
from tests import harness
from tests.conformance.trees import csv, images, paths
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
    found = nearby.certain_alternative(SourceOptions((path,)))
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
    source, why = opening.open_source("auto", SourceOptions(("d",)))
    assert (source.layout, why) == ("table", "d/labels.csv names the images in d/photos")
    assert source.notes == (
        "--images d/photos --labels d/labels.csv was taken for --images d; --layout class_folders "
        "takes the names of its folders as classes",
    )
    source, why = opening.open_source("class_folders", SourceOptions(("d",)))
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
    assert nearby.only_folder(SourceOptions(images, labels)) == (root if found else "")


def test_a_table_says_its_columns_and_images(root: str) -> None:
    """The first rows; a file that is none has no columns."""
    rows = "".join(f"{i}.jpg,cat\n" for i in range(30))
    write_files("t", {"l.csv": f"size,file\n{rows.replace(',cat', '')}", "b.csv": "a,a\n1,1\n"})
    write_files("t", {"l.csv": f"file,label\n{rows}"})
    names = [f"{i}.jpg" for i in range(20)]
    columns = ("file", "label")
    assert nearby.look_at_tables(["t/l.csv"]) == [
        nearby.TableLook("t/l.csv", columns, names, [names, ["cat"] * 20])
    ]
    assert nearby.look_at_tables(["t/b.csv"]) == [nearby.TableLook("t/b.csv", (), ())]
    assert nearby.look_at_tables(["t/nowhere.csv"]) == [nearby.TableLook("t/nowhere.csv", (), ())]


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
    assert nearby.TableLook(f"{tmp_path}/l.csv", ("a",), names).names_images_in(root) is found


# --- the table of roles: what each level of folders, column and kind of file is used for -------------


def roles_of(*labels: str, layout: str = "auto", **options: Any) -> list[str]:
    """The rows in a line each: subject, values, role."""
    source, _ = opening.open_source(layout, SourceOptions(("p",), labels, **options))
    return [f"{row.subject} | {row.values} | {row.role}" for row in source.roles]


def test_the_layout_comes_first_then_the_table_then_notes() -> None:
    """With the reason for the layout, unless the user named it."""
    write_pictures("p", ["cat/1.jpg"])
    source, why = opening.open_source("auto", SourceOptions(("p",)))
    assert [*understanding(source, why)] == [
        "Layout class_folders: no --labels and no other layout's files",
        "  path segment 1  class   1 folder, such as 'cat'",
        "  .jpg files      images  1 file, such as '1.jpg'",
    ]
    assert next(understanding(source, "")) == "Layout class_folders: given by --layout"


@pytest.mark.parametrize(
    ("files", "options", "rows"),
    [
        (
            images("p/{train,val}/{cat,dog}/{1..3}.jpg") | {"p/notes.txt": "x"},
            {},
            [
                "path segment 1 | 2 folders, such as 'train' | split",
                "path segment 2 | 2 folders, such as 'cat' | class",
                ".txt files | 1 file, such as 'notes.txt' | ignored",
                ".jpg files | 12 files, such as '1.jpg' | images",
            ],
        ),
        (
            images("p/{x,y}/{cat,dog}/{1..3}.jpg"),
            {"label_from": "(?P<camera>[^/]+)/(?P<label>[^/]+)/[^/]+"},
            [
                "path segment 1 | 2 folders, such as 'x' | camera",
                "path segment 2 | 2 folders, such as 'cat' | class",
                "group label | texts | class",
                "group camera | texts | feature",
                ".jpg files | 12 files, such as '1.jpg' | images",
            ],
        ),
        (
            images("p/part_{1,2}/{1..3}.jpg") | {"l.csv": csv(["1", "2"], label=["cat", "dog"])},
            {"labels": ("l.csv",)},
            [
                "path segment 1 | 2 folders, such as 'part_1' | ignored",
                "column filename | 2 integers, such as '1' | key",
                "column label | 2 texts, such as 'cat' | class",
                ".csv files | 1 table with ',' between cells, in UTF-8, such as 'l.csv' | labels",
                ".jpg files | 6 files, such as '1.jpg' | images",
            ],
        ),
    ],
    ids=["folders", "names", "table"],
)
def test_each_part_has_a_role(
    files: dict[str, Any], options: dict[str, Any], rows: list[str]
) -> None:
    """Levels of folders, columns or labels, and kinds of files."""
    write_files(".", files)
    assert roles_of(*options.pop("labels", ()), **options) == rows


def test_each_column_has_a_role() -> None:
    """Key, class, split, feature, box side, or ignored."""
    rows = "1.jpg\tcat\t2\ttest\t7\n2.jpg\tcat\t2.5\ttrain\t8\n"
    write_files(".", {"l.csv": f"file\tlabel\tage\tsplit\tid\n{rows}"})
    write_pictures("p", ["1.jpg"])
    assert roles_of("l.csv", columns={"id": "skip"})[:6] == [
        "column file | 2 texts, such as '1.jpg' | key",
        "column label | 1 text, such as 'cat' | class",
        "column age | 2 numbers, such as '2' | feature",
        "column split | 2 texts, such as 'test' | split",
        "column id | 2 integers, such as '7' | ignored",
        ".csv files | 1 table with tab between cells, in UTF-8, such as 'l.csv' | labels",
    ]


def test_tables_that_are_read_alike_share_a_row() -> None:
    """Others have one of their own; lists are lists."""
    row = {"file_name": "1.jpg", "tags": ["a", "b"]}
    write_files(".", {f"{name}.jsonl": json.dumps(row) + "\n" for name in "ab"})
    parquet.write_table(pyarrow.table({"file_name": ["1.jpg"], "tags": [["a"]]}), "c.parquet")
    write_pictures("p", ["1.jpg"])
    assert roles_of("a.jsonl", "b.jsonl", "c.parquet", label_column="tags")[1:4] == [
        "column tags | 2 or more lists, such as \"['a', 'b']\" | class",
        ".jsonl files | 2 tables in JSON Lines, in UTF-8, such as 'a.jsonl' | labels",
        ".parquet files | 1 table in Parquet, such as 'c.parquet' | labels",
    ]


def test_a_dozen_lines_at_most() -> None:
    """Features are the first to be only counted."""
    names = [f"n{i}" for i in range(20)]
    cells = {name: ["1"] for name in names}
    write_files(".", images("p/{cat,dog}/1.jpg") | {"l.csv": csv(["1"], label=["a"], **cells)})
    source, why = opening.open_source("auto", SourceOptions(("p",), ("l.csv",)))
    lines = [*understanding(source, why)]
    assert [line.split("  ")[1] for line in lines[1:5]] == [
        "path segment 1",
        "column filename",
        "column label",
        "column n0",
    ]
    assert lines[12] == "  and 14 more: 14 feature"
    assert len(lines) == 13


def test_manifest_and_data_set_have_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    """So does what a notebook shows; notes belong to the data set that was converted, and are printed."""
    write_files(
        ".", images("p/{cat,dog}/1.jpg") | {"p/metadata.csv": "file_name,n,m\ncat/1.jpg,2,x\n"}
    )
    data_set = beam_pipeline.convert("p", output="out", max_bad_fraction=1.0)
    assert harness.manifest_of("out")["roles"][0] == {
        "subject": "column file_name",
        "kind": "texts",
        "distinct": 0,
        "example": "",
        "role": "key",
        "partial": False,
    }
    roles = " ".join(row.role for row in data_set.roles)
    assert roles == "key key feature feature labels images"
    assert beam_pipeline.Dataset.open("out").roles == data_set.manifest.roles
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in printed[1:6]] == [
        ["path", "segment"],
        ["column", "file_name"],
        ["column", "n"],
        ["column", "m"],
        [".csv", "files"],
    ]
    assert printed[-1].startswith("Note: no column is called label, ")
    assert "<td>column n</td><td>1 integer, such as &#x27;2&#x27;</td>" in data_set._repr_html_()
    (note,) = data_set.notes
    assert note.startswith("no column is called label, ")
    assert ">column n</" in Path("out/report.html").read_text(encoding="utf-8")
    older = {k: v for k, v in data_set.manifest.content.items() if k != "roles"}
    assert Manifest.of(older).roles == ()


@pytest.mark.parametrize("command", ["convert", "plan"])
def test_show_roles_prints_the_table_and_stops(command: str) -> None:
    """It needs no --output, and imports no Beam."""
    write_files(".", images(*paths("p/{cat,dog}/{1..2}.jpg")))
    script = (
        f"import sys; from beam_pipeline.cli import main; code = main([{command!r}, '--images', 'p', "
        "'--show_roles']); assert 'apache_beam' not in sys.modules; sys.exit(code)"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == [
        "Layout class_folders: no --labels and no other layout's files",
        "  path segment 1  class   2 folders, such as 'cat'",
        "  .jpg files      images  4 files, such as '1.jpg'",
    ]
    assert [*Path().iterdir()] == [Path("p")]
    assert main([command, "--images", "nowhere", "--show_roles"]) == 2
