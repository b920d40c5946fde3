"""Brush masks of Label Studio, packed by this test."""

from __future__ import annotations

import io
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from tests import harness
from tests.pictures import picture, write_files

WIDTH, HEIGHT = 96, 64


def _packed(values: bytes) -> list[int]:
    """Bytes as `rle-pack` writes them: the first eight one by one, the rest in runs."""
    counts = (3, 4, 8, 16)  # bits
    bits = f"{len(values):032b}{7:05b}" + "".join(f"{count - 1:04b}" for count in counts)
    bits += f"000{7:03b}" + "".join(f"{value:08b}" for value in values[:8])
    for value, run in itertools.groupby(values[8:]):
        bits += f"111{len([*run]) - 1:016b}{value:08b}"
    bits += "0" * (-len(bits) % 8)
    return [int(bits[i : i + 8], 2) for i in range(0, len(bits), 8)]


def _task(name: str, values: bytes) -> dict[str, Any]:
    """A task of an uploaded image, whose only region is a mask of these bytes."""
    region = {
        "id": "r",
        "type": "brushlabels",
        "from_name": "l",
        "to_name": "image",
        "original_width": WIDTH,
        "original_height": HEIGHT,
        "value": {"format": "rle", "rle": _packed(values), "brushlabels": ["a"]},
    }
    given = [{"id": 1, "completed_by": 1, "result": [region]}]
    url = {"image": f"/data/upload/1/1a2b3c4d-{name}"}
    return {"id": 1, "file_upload": f"1a2b3c4d-{name}", "data": url, "annotations": given}


def test_brush_masks_of_label_studio(working_folder: Path) -> None:
    """Pixels that are not transparent are the object; a mask of another size is a fault."""
    mask = np.zeros((HEIGHT, WIDTH), np.uint8)
    mask[5:20, 30:50], mask[8, 33:46] = 255, 0  # so that its bits end with a byte
    rgba = np.zeros((HEIGHT, WIDTH, 4), np.uint8)
    rgba[..., 3] = mask
    masks = {"0.jpg": rgba.tobytes(), "1.jpg": rgba[1:].tobytes(), "2.jpg": bytes(rgba.size)}
    images = {f"set/{name}": picture(size=(WIDTH, HEIGHT)) for name in masks}
    write_files(
        ".", {"set/p.json": json.dumps([*itertools.starmap(_task, masks.items())]), **images}
    )
    argv = ("--object_features", "masks", "--output", "out", harness.ALL_BAD)
    assert harness.convert("--images", "set", *argv) == 0
    letters = harness.dead_letters_of("out")
    assert {each["key"]: each["message"].partition(";")[0] for each in letters} == {
        "1.jpg": f"the rle of a mask is not one of {WIDTH} x {HEIGHT} pixels",
        "2.jpg": "a mask without a pixel",
    }
    objects = harness.objects_of(harness.read_all("out")["0.jpg"])
    corners = [objects[f"bbox/{side}"][0] for side in ("xmin", "ymin", "xmax", "ymax")]
    assert corners == harness.float32([30 / WIDTH, 5 / HEIGHT, 50 / WIDTH, 20 / HEIGHT])
    with Image.open(io.BytesIO(objects["mask"][0])) as written:
        assert (np.asarray(written) > 0).tolist() == (mask > 0).tolist()
