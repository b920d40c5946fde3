"""Where nothing is doubtful; tests/beam_pipeline/test_questions.py has every doubt with its command."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam_pipeline.transforms.layouts import LAYOUTS
from beam_pipeline.transforms.layouts.layout import Doubt, SourceOptions
from beam_pipeline.transforms.layouts.surroundings.doubts import find_doubts
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
