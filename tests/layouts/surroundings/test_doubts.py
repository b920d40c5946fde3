"""Where nothing is doubtful; tests/beam_pipeline/test_questions.py has every doubt with its command."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam_pipeline.layouts import LAYOUTS
from beam_pipeline.layouts.layout import Doubt, SourceOptions
from beam_pipeline.layouts.surroundings.doubts import find_doubts
from tests.pictures import write_files, write_pictures


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def doubts_of(path: str) -> list[Doubt]:
    return find_doubts(SourceOptions((path,)), LAYOUTS)


CLASSES = ["photos/cat/1.jpg", "photos/dog/1.jpg", "photos/dog/2.jpg", "photos/dog/3.jpg"]


@pytest.mark.parametrize(
    "others",
    [
        {},
        {"photos/readme.txt": "x", "photos/cat/1.jpg.txt": "x"},
        {"photos/cat/1.txt": "one of four"},
        {"photos/.cache.json": "{}", "photos/cat/.x.csv": "x"},
        {"labels.csv": "file,label\n1.jpg,cat\n", "pets.json": '{"images": []}'},
        {"1.txt": "x", "2.txt": "x", "3.txt": "x"},
        {"photos/out/d.tfrecord-00000-of-00001": "", "photos/out/manifest.json": "{}"},
    ],
)
def test_class_folders_with_usual_company_are_taken(others: dict[str, str]) -> None:
    """Notes, hidden files, label files of other data sets, what an earlier conversion wrote."""
    write_pictures(".", CLASSES)
    write_files(".", others)
    assert doubts_of("photos") == []


@pytest.mark.parametrize(
    "names",
    [
        ["masks", "no_masks"],
        ["train", "bus"],
        ["test", "training", "cat"],
        ["label", "bottle"],
    ],
)
def test_a_class_may_be_called_like_a_part_of_a_data_set(names: list[str]) -> None:
    """If there are others that are not."""
    write_pictures("photos", [f"{name}/1.jpg" for name in names])
    assert doubts_of("photos") == []


def test_many_tables_are_named_by_a_pattern() -> None:
    """One in each class folder."""
    for name in "abcd":
        write_pictures("photos", [f"{name}/{name}.jpg"])
        write_files("photos", {f"{name}/GT-{name}.csv": f"file,label\n{name}.jpg,1\n"})
    (doubt,) = doubts_of("photos")
    assert doubt.labels == ("photos/*/*.csv",)
    assert doubt.reason == (
        "photos/a/GT-a.csv, photos/b/GT-b.csv, photos/c/GT-c.csv, and 1 more would be ignored, "
        "but look like tables of labels with the columns file, label."
    )


def test_of_several_tables_those_that_name_images_are_meant() -> None:
    """The others may be anything."""
    write_pictures("photos", ["1.jpg"])
    write_files("photos", {"a.csv": "a,b\n1,2\n", "z.csv": "file,label\n1.jpg,1\n"})
    (doubt,) = doubts_of("photos")
    assert doubt.labels == ("photos/z.csv",)


def test_several_kinds_of_label_files_are_several_doubts() -> None:
    """Each says what it looks like."""
    write_pictures("photos", ["1.jpg"])
    write_files("photos", {"a.csv": "file,label\n1.jpg,1\n", "b.json": "{}", "1.txt": "x"})
    assert [doubt.reason.partition(" ")[0] for doubt in doubts_of("photos")] == [
        "photos/a.csv",
        "photos/b.json",
        "1",
    ]


def _rows(folder: str, header: str, value: str = "") -> str:
    return f"{header}\n" + "".join(f"{folder}{i}{value}\n" for i in range(4))


def test_a_table_that_names_the_images_of_one_folder_is_meant() -> None:
    """Neither a list without labels, nor the answers to fill in of a competition."""
    for folder in ("train_images", "test_images"):
        write_pictures(f"set/{folder}", [f"{folder}{i}.png" for i in range(4)])
    write_files(
        "set",
        {
            "train.csv": _rows("train_images", "id_code,diagnosis", ",2"),
            "test.csv": _rows("test_images", "id_code"),
            "sample_submission.csv": _rows("test_images", "id_code,diagnosis", ",0"),
        },
    )
    (doubt,) = doubts_of("set")
    assert (doubt.images, doubt.labels) == (("set/train_images",), ("set/train.csv",))


def test_a_table_that_names_images_of_several_folders_is_meant() -> None:
    """As HAM10000's, without extensions, and not the pixels beside it."""
    for part, numbers in (("part_1", (0, 2, 4)), ("part_2", (1, 3, 5))):
        write_pictures(f"ham/{part}", [f"ISIC_{i}.jpg" for i in numbers])
    rows = "".join(f"ISIC_{i},nv,scalp\n" for i in range(6))
    write_files("ham", {"metadata_1.csv": f"image_id,dx,localization\n{rows}"})
    write_files("ham", {"hmnist.csv": "pixel0000,pixel0001,label\n1,2,3\n"})
    (doubt,) = doubts_of("ham")
    assert (doubt.images, doubt.labels) == (("ham",), ("ham/metadata_1.csv",))


def test_dead_letters_of_an_earlier_conversion_are_no_labels() -> None:
    """Whether in one file or in parts."""
    write_pictures("set", ["cat/1.jpg", "dog/2.jpg"])
    letter = '{"key": "cat/1.jpg", "reason": "unlabelled"}\n'
    for name in ("dead_letters.jsonl", "dead_letters-00000-of-00002.jsonl"):
        write_files("set/out", {name: letter})
    assert doubts_of("set") == []


def test_a_table_with_folders_of_another_machine_is_meant() -> None:
    """Its file names are those of images."""
    write_pictures("photos", ["a/1.jpg", "b/2.jpg"])
    rows = "C:\\pets\\1.jpg,cat\nC:\\pets\\2.jpg,dog\n"
    write_files("photos", {"labels.csv": f"path,label\n{rows}", "prices.csv": "item,price\n1,2\n"})
    (doubt,) = doubts_of("photos")
    assert (doubt.images, doubt.labels) == (("photos",), ("photos/labels.csv",))


def test_a_table_that_names_images_of_two_folders_is_named_once() -> None:
    """As Stanford Cars' tables, whose names are in both folders."""
    for part in ("cars_train", "cars_test"):
        write_pictures(f"cars/{part}", ["00001.jpg", "00002.jpg"])
    for name in ("train.csv", "test.csv"):
        write_files("cars", {name: "fname,class\n00001.jpg,1\n00002.jpg,2\n"})
    (doubt,) = doubts_of("cars")
    assert doubt.images == ("cars/cars_test", "cars/cars_train")
    assert doubt.labels == ("cars/test.csv", "cars/train.csv")


def test_colours_of_masks_are_no_labels() -> None:
    """The masks' folder has a name of its own, so the command cannot be told."""
    write_pictures("camvid", ["701_StillsRaw_full/1.png", "LabeledApproved_full/1_L.png"])
    write_files("camvid", {"class_dict.csv": "name,r,g,b\nSky,128,128,128\n"})
    assert doubts_of("camvid") == [
        Doubt(
            "camvid/class_dict.csv would be ignored, but looks like a table of the colours of masks.",
            "Name the folders of images and of masks: --images ... --masks ... --mask_colors "
            "camvid/class_dict.csv.",
        )
    ]


@pytest.mark.parametrize(
    ("text", "layout", "labels"),
    [
        ("a small dog\n", "caption_files", ("set/texts",)),
        ("imagesource:GoogleEarth\ngsd:0.1\n1.0 2.0 9.0 2.0 9.0 9.0 1.0 9.0 ship 0\n", "", ()),
    ],
)
def test_texts_beside_the_folder_of_images(text: str, layout: str, labels: tuple[str, ...]) -> None:
    """Captions are named with --labels; DOTA's boxes are none."""
    write_pictures("set", [f"pictures/{i}.jpg" for i in range(3)])
    write_files("set", {f"texts/{i}.txt": text for i in range(3)})
    (doubt,) = doubts_of("set")
    assert (doubt.layout, doubt.labels) == (layout, labels)


def test_a_table_of_answers_to_fill_in_is_passed_over() -> None:
    """It holds no labels."""
    write_pictures(".", CLASSES)
    write_files(".", {"photos/sampleSubmission.csv": "id,label\n1,0\n"})
    assert doubts_of("photos") == []


def test_json_lists_of_other_tools_are_not_taken_for_cocos() -> None:
    """CreateML's entries have annotations, too."""
    write_pictures(".", CLASSES)
    entries = '[{"image": "1.jpg", "annotations": [{"label": "cat"}]}]'
    write_files(".", {"photos/_annotations.createml.json": entries})
    (doubt,) = doubts_of("photos")
    assert (doubt.layout, doubt.labels) == ("", ())
