"""COCO's captions."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.core.references import LabelRow
from beam_pipeline.layouts.coco.file import CocoReader
from beam_pipeline.layouts.coco.tasks import Captions
from tests.harness import NONE_BAD, convert, manifest_of, read_all, split_of_each
from tests.layouts.make_coco import TRAIN, VAL, make
from tests.pictures import picture, write_files

IMAGES = [{"id": 5, "file_name": "a.jpg", "width": 9, "height": 7}, {"id": 6, "file_name": "b.jpg"}]


def caption(image_id: Any, text: Any) -> dict[str, Any]:
    return {"image_id": image_id, "id": 1, "caption": text}


def read(annotations: list[Any], **lists: Any) -> list[Any]:
    text = json.dumps({"images": IMAGES, "annotations": annotations, **lists})
    return list(
        CocoReader(Captions(), {"x.json": "test"}).read(io.BytesIO(text.encode()), "x.json")
    )


def test_captions_of_an_image_are_a_list() -> None:
    """In the order of the file; an image without any has an empty one."""
    assert read([caption(5, "One."), caption(5, "Two, grün.")]) == [
        LabelRow("a.jpg", (("One.", "Two, grün."), "5"), "test", "x.json", 0, "", (9, 7)),
        LabelRow("b.jpg", ((), "6"), "test", "x.json", 0),
    ]


def test_what_is_wrong_is_told_of_its_image() -> None:
    """A caption that is no text leaves its image out; one of no image is a row of its own."""
    first, second, third, fourth = read(
        [caption(5, 3), caption(5, "One."), caption(True, "x"), caption(9, "x")]
    )
    assert (first.reason, first.key) == ("bad_row", "annotation 1")
    assert second.problem == "annotation 1: caption 3 is not a text"
    assert third == LabelRow("b.jpg", ((), "6"), "test", "x.json", 0)
    assert (fourth.reason, fourth.message) == (
        "missing_image",
        "a caption: image_id 9 is not among the images of x.json",
    )


def test_a_file_without_annotations_is_refused() -> None:
    """Like any other file of COCO's that lacks a list."""
    with pytest.raises(LabelTableError, match=r"x\.json has no annotations"):
        list(CocoReader(Captions()).read(io.BytesIO(b'{"images": []}'), "x.json"))


def test_captions_become_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of texts each, in the split of their file; there are no classes."""
    make(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    argv = ("--images", "coco", "--labels", "coco/annotations/captions_*.json")
    assert convert(*argv, "--output", "out", NONE_BAD) == 0
    examples = read_all("out")
    assert sorted(examples) == sorted(
        [f"train2017/{name}" for name in TRAIN] + [f"val2017/{name}" for name in VAL]
    )
    found = examples["val2017/000000000139.jpg"]
    assert found["image/caption"] == [b"A dog sits beside a small table."]
    assert found["label/image_id"] == [b"139"]
    assert split_of_each("out")["val2017/000000000139.jpg"] == "validation"
    assert manifest_of("out")["classes"] == []


@pytest.mark.slow
def test_a_folder_with_captions_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are found without --labels."""
    monkeypatch.chdir(tmp_path)
    text = json.dumps({"images": IMAGES[:1], "annotations": [caption(5, "One.")]})
    write_files("set", {"a.jpg": picture(1), "annotations/captions_val.json": text})
    assert convert("--images", "set", "--output", "out", NONE_BAD) == 0
    assert read_all("out")["a.jpg"]["image/caption"] == [b"One."]
