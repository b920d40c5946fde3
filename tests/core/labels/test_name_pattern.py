from __future__ import annotations

from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.labels.name_pattern import NamePattern, name_pattern
from beam_pipeline.core.labels.schema import Column, ColumnKind
from beam_pipeline.core.references import ImageRef, SampleRef


def images(*keys: str) -> list[ImageRef]:
    return [ImageRef(key, f"/photos/{key}", 9) for key in keys]


def test_the_label_stands_first_and_other_groups_are_columns() -> None:
    """Texts, if nothing else is said; the group split is none of them."""
    pattern = r"(?P<camera>\d+)_(?P<split>\w)_(?P<label>.+)\.jpg"
    assert name_pattern(pattern, {"camera": ColumnKind.INT64}) == NamePattern(
        pattern,
        (
            Column("label", ColumnKind.CLASS, "image/class", required=True),
            Column("camera", ColumnKind.INT64, "label/camera"),
        ),
    )
    assert [column.name for column in name_pattern(pattern, {"camera": None}).columns] == ["label"]
    assert name_pattern("(?P<label>.+)", {"label": ColumnKind.FLOAT}).columns == (
        Column("label", ColumnKind.FLOAT, "image/label", required=True),
    )


def test_names_say_labels_and_splits() -> None:
    """The pattern is for all of the file's name; what has none of it is left out with the reason."""
    pattern = name_pattern(r"((?P<split>[a-z]+)-)?(?P<label>.+)_\d+\.jpg", {})
    joined = pattern.label(
        images("a/tawny_owl_1.jpg", "val-cat_2.jpg", "test/x_3.jpg", "cat_4.jpeg")
    )
    assert joined.samples == [
        SampleRef("a/tawny_owl_1.jpg", "/photos/a/tawny_owl_1.jpg", 9, "train", ("tawny_owl",)),
        SampleRef("val-cat_2.jpg", "/photos/val-cat_2.jpg", 9, "validation", ("cat",)),
        SampleRef("test/x_3.jpg", "/photos/test/x_3.jpg", 9, "test", ("x",)),
    ]
    assert joined.dead_letters == [
        DeadLetter(
            "join",
            "cat_4.jpeg",
            "/photos/cat_4.jpeg",
            "unlabelled",
            r"its name 'cat_4.jpeg' does not match --label_from "
            r"((?P<split>[a-z]+)-)?(?P<label>.+)_\d+\.jpg",
        )
    ]


def test_a_pattern_with_a_slash_is_for_the_whole_path() -> None:
    """So a folder can be part of the label."""
    pattern = name_pattern(r"(?P<label>[^/]+)/.*", {})
    joined = pattern.label(images("cat/1.jpg", "2.jpg"))
    assert [sample.labels for sample in joined.samples] == [("cat",)]
    assert [dead_letter.key for dead_letter in joined.dead_letters] == ["2.jpg"]


def test_a_group_that_is_not_of_its_kind_is_a_bad_value() -> None:
    """The group is named; one that took no part is empty."""
    pattern = name_pattern(
        r"(?P<label>[a-z]*)_(?P<age>\w+)?(?P<split>!)?\.jpg", {"age": ColumnKind.INT64}
    )
    joined = pattern.label(images("cat_x.jpg", "cat_.jpg", "_3.jpg", "cat_3!.jpg"))
    assert [(sample.key, sample.labels) for sample in joined.samples] == [
        ("cat_.jpg", ("cat", None))
    ]
    assert [
        (dead_letter.key, dead_letter.reason, dead_letter.message)
        for dead_letter in joined.dead_letters
    ] == [
        ("cat_x.jpg", "bad_label_value", "group 'age': 'x' is not an integer of 64 bits"),
        ("_3.jpg", "bad_label_value", "group 'label': is empty"),
        ("cat_3!.jpg", "bad_label_value", "group 'split': '!' names no split"),
    ]
