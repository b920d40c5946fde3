"""Which files of COCO's say the classes of whole images."""

from __future__ import annotations

import io
from typing import Any

import pytest

from beam_pipeline.layouts.coco.survey import SURVEYED, Survey, holds_key, survey


def of(image_id: int | str, category: Any, **more: Any) -> dict[str, Any]:
    return {"id": 1, "image_id": image_id, "category_id": category, **more}


def test_annotations_without_boxes_say_the_classes_of_images() -> None:
    """Two annotations of one category are one class; two categories of an image are counted."""
    annotations = [
        of("a", 3),
        of("a", 3),
        of("b", 7),
        of("b", 0),
        of("c", 1),
        "x",
        {"image_id": "d"},
    ]
    assert survey(iter(annotations)) == Survey(
        first=annotations[0], of_images=True, images=3, several=1, example=("b", (0, 7))
    )


@pytest.mark.parametrize(
    "key", ["bbox", "bbox_relative", "segmentation", "keypoints", "segments_info", "caption"]
)
def test_what_describes_more_than_a_class_is_no_class(key: str) -> None:
    """Even if only one of the annotations does, and whatever its value is."""
    annotations = [of(1, 3), of(2, 3, **{key: None}), of(3, 3)]
    assert survey(iter(annotations)) == Survey(first=annotations[0])


@pytest.mark.parametrize("annotations", [[], [None], ["x"], [{"id": 1}], [{"image_id": 1}]])
def test_annotations_without_categories_say_nothing(annotations: list[Any]) -> None:
    """Nor do none at all."""
    assert survey(iter(annotations)) == Survey(first=next(iter(annotations), None))


def test_the_beginning_of_a_large_file_is_looked_at() -> None:
    """The rest is not requested."""
    annotations = iter([*(of(number, 0) for number in range(SURVEYED)), of(0, 1), of(1, 1)])
    assert survey(annotations).several == 0
    assert list(annotations) == [of(0, 1), of(1, 1)]


class _Pieces(io.BytesIO):
    """A file that returns few bytes at a time."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(3)


@pytest.mark.parametrize("kind", [io.BytesIO, _Pieces])
def test_a_key_is_found_wherever_a_piece_ends(kind: type[io.BytesIO]) -> None:
    """With its quotes."""
    for place in range(12):
        assert holds_key(kind(b" " * place + b'{"bbox": 1}'), "bbox")
    assert not holds_key(kind(b'{"bbox_relative": 1, "abbox": 2, "bb": 3}'), "bbox")
    assert not holds_key(kind(b""), "bbox")
