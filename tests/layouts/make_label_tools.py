"""The drawings of `make_table_boxes` in the exports of labelling tools, each in its published form, as exports/ has them."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.layouts.make_tables import HEIGHT, WIDTH, drawing, objects
from tests.pictures import picture, write_files

EXPORTS = Path(__file__).with_name("exports")
SPLITS = ("train", "val")


SKIPPED, UNSEEN = "005.jpg", "007.jpg"
"""Images that annotators skipped, and that nobody opened; in tools that record that."""


def split_of(name: str) -> str:
    """Every fourth image is of the validation split."""
    return SPLITS[int(name[:3]) % 4 == 3]


def rectangle(label: str, *corners: float, number: int = 0, turned: float = 0) -> list[Any]:
    """The results of Label Studio for a box and a question about it."""
    xmin, ymin, xmax, ymax = corners
    place = {
        "x": 100 * xmin / WIDTH,
        "y": 100 * ymin / HEIGHT,
        "width": 100 * (xmax - xmin) / WIDTH,
        "height": 100 * (ymax - ymin) / HEIGHT,
        "rotation": turned,
    }
    about = {"original_width": WIDTH, "original_height": HEIGHT, "image_rotation": 0}
    common = {**about, "id": f"region{number}", "to_name": "image", "origin": "manual"}
    box = {"type": "rectanglelabels", "from_name": "label"}
    asked = {"type": "choices", "from_name": "occluded"}
    return [
        {**common, **box, "value": {**place, "rectanglelabels": [label]}},
        {**common, **asked, "value": {**place, "choices": ["yes" if number else "no"]}},
    ]


def choice(value: str, name: str = "time") -> dict[str, Any]:
    """The result of Label Studio for a question about an image."""
    return {
        "type": "choices",
        "id": name,
        "from_name": name,
        "to_name": "image",
        "value": {"choices": [value]},
    }


def annotation(results: Sequence[Any], by: int = 1, **further: Any) -> dict[str, Any]:
    """An annotation of Label Studio."""
    flags = {"was_cancelled": False, "ground_truth": False, "lead_time": 3.25}
    return {"id": by, "completed_by": by, "result": list(results), **flags, **further}


def task(name: str, annotations: Sequence[Any], number: int = 1, **further: Any) -> dict[str, Any]:
    """A task of Label Studio, of an uploaded image."""
    uploaded = f"1a2b3c4d-{name}"
    lists: dict[str, Any] = {"drafts": [], "predictions": [], "comment_authors": []}
    url = {"image": f"/data/upload/1/{uploaded}"}
    return {
        "id": number,
        "annotations": list(annotations),
        "file_upload": uploaded,
        **lists,
        "data": url,
        "meta": {},
        "project": 1,
        "total_annotations": 1,
        **further,
    }


def exported(tool: str) -> dict[str, str]:
    """The files of an export, by their paths in its folder."""
    files = (path for path in sorted((EXPORTS / tool).rglob("*")) if path.is_file())
    return {str(path.relative_to(EXPORTS / tool)): path.read_bytes().decode() for path in files}


def make_label_tools(folder: str) -> None:
    """Writes a folder for each tool, with the export, and images where the tool has them."""
    places = {
        **dict.fromkeys(("label_studio", "labelbox", "ultralytics", "hasty"), "images"),
        "datumaro": "images/{}",
        "roboflow": "{}",
        "roboflow_classes": "{}",
        "open_images": "train",
    }
    for tool in (*places, "gtsrb"):
        shutil.copytree(EXPORTS / tool, f"{folder}/{tool}")
    for name, boxes in objects().items():
        for tool, place in places.items():
            path = f"{tool}/{place.format(split_of(name))}/{name}"
            write_files(folder, {path: drawing(boxes)})
    for i in range(20):
        sign = picture(i % 10 + 20 * (i // 10), file_format="PPM", size=(29, 30))
        write_files(folder, {f"gtsrb/{i // 10:05d}/{i % 10:05d}_00000.ppm": sign})
