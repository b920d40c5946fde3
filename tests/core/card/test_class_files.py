"""Files with the names of the classes, beside the shards."""

from __future__ import annotations

from typing import Any

import pytest

from beam_pipeline.core.card.metadata_files import class_files, class_files_of

LIST = ("labels.txt", b"cat\ndog\n")
MAP = (
    "label_map.pbtxt",
    b'item {\n  id: 1\n  name: "cat"\n}\n\nitem {\n  id: 2\n  name: "dog"\n}\n',
)


@pytest.mark.parametrize(
    ("classes", "has_boxes", "expected"),
    [
        ([("cat", 0), ("dog", 1)], False, [LIST]),
        ([("cat", 0), ("dog", 1)], True, [LIST]),
        ([("cat", 1), ("dog", 2)], False, [LIST]),
        ([("cat", 1), ("dog", 2)], True, [LIST, MAP]),
        ([("cat", 2), ("dog", 3)], False, []),
        ([("cat", 1), ("dog", 3)], False, []),
        ([("big\ncat", 0), ("dog", 1)], False, []),
        ([], True, []),
    ],
)
def test_files_say_which_class_has_which_id(
    classes: list[tuple[str, int]], has_boxes: bool, expected: list[tuple[str, bytes]]
) -> None:
    """A list needs ids without gaps and a name a line; a label map needs boxes and ids from 1 on."""
    assert list(class_files(classes, has_boxes=has_boxes)) == expected


def test_a_label_map_may_have_gaps() -> None:
    """It says every id, as COCO's 80 of 90 classes need."""
    assert list(class_files([("person", 1), ("chair", 62)], has_boxes=True)) == [
        (
            "label_map.pbtxt",
            b'item {\n  id: 1\n  name: "person"\n}\n\nitem {\n  id: 62\n  name: "chair"\n}\n',
        )
    ]


def test_names_are_utf_8() -> None:
    """In the list as they are."""
    (found,) = class_files([("고양이", 0)], has_boxes=False)
    assert found == ("labels.txt", "고양이\n".encode())


@pytest.mark.parametrize(
    ("kind", "expected"), [("class", dict([LIST])), ("box", dict([LIST, MAP]))]
)
def test_a_manifest_has_all_that_they_hold(kind: str, expected: dict[str, bytes]) -> None:
    """Files of a complete data set can be checked, or written again."""
    manifest: dict[str, Any] = {
        "classes": [{"name": "cat", "id": 1}, {"name": "dog", "id": 2}],
        "options": {"columns": [{"name": "label", "kind": kind}]},
    }
    assert class_files_of(manifest) == expected
