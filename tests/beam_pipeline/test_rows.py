"""Rows and objects as samples in whole conversions: `--sample row`, `--no_image` and `--crop_boxes`."""

from __future__ import annotations

import io
import itertools
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import beam_pipeline
from beam_pipeline.readers.random_access import RandomAccess
from beam_pipeline.storage import files as storage
from tests import harness
from tests.pictures import write_files, write_pictures

NAMES = [f"{i}.jpg" for i in range(8)]
TALKS = [
    {
        **({} if i % 5 == 4 else {"image": NAMES[i % 7 * (i % 2)]}),
        "id": i,
        "conversations": [{"from": "human", "value": f"<image>\n{i}?"}],
    }
    for i in range(30)
]
ROWS = ("--images", "photos", "--labels", "talks.json", "--sample", "row", "--row_id", "id")
ROWS = (*ROWS, "--columns", "conversations:json", "--name", "x", "--num_shards", "3")
KEEP = ("--no_image", "keep", harness.ALL_BAD)


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with photographs and conversations over some of them, some over none."""
    write_pictures(str(tmp_path / "photos"), NAMES)
    write_files(str(tmp_path), {"talks.json": json.dumps(TALKS)})
    monkeypatch.chdir(tmp_path)
    return tmp_path


def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the images that are read from now on."""
    names: list[str] = []
    read = storage.read_image

    def noted(uri: str, size: int, offset: int) -> bytes:
        names.append(os.path.basename(uri))
        return read(uri, size, offset)

    monkeypatch.setattr(storage, "read_image", noted)
    return names


def test_an_image_is_read_once_a_shard(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of an image that meet in a shard share its bytes; neighbours meet in one shard, one after another."""
    names, argv = reads(monkeypatch), (*ROWS, harness.ALL_BAD, "--read_ahead", "2")
    assert harness.convert(*argv, "--output", "shuffled") == 0
    shards = {
        name: [f["image/source_id"][0].decode() for f in harness.read_shard("shuffled", name)]
        for name in harness.shard_names("shuffled")
    }
    places = Counter(
        image for keys in shards.values() for image in {key.partition("#")[0] for key in keys}
    )
    assert Counter(names) == places
    assert max(places.values()) > 1
    names.clear()
    assert harness.convert(*argv, "--group_by", "image", "--output", "neighbours") == 0
    assert sorted(names) == sorted(places)
    for name in harness.shard_names("neighbours"):
        images = [f["image/filename"][0] for f in harness.read_shard("neighbours", name)]
        changes = sum(a != b for a, b in itertools.pairwise(images))
        assert changes == max(0, len(set(images)) - 1)


def test_readers_know_that_an_image_is_optional(photos: Path) -> None:
    """Without one, `load` and decoders give black pixels, and others None."""
    assert harness.convert(*ROWS, *KEEP, "--output", "out") == 0
    black = 0
    for sample in beam_pipeline.load("out", image_size=4, as_dict=True, shuffle=False):
        key = sample["image/source_id"].numpy()
        assert sample["image"].numpy().max() == 0 or b"#" in key
        black += b"#" not in key
    assert black == 6
    decoded = RandomAccess("out", "train", decode=True, image_size=4)
    for number, sample in enumerate(RandomAccess("out", "train")):
        assert (sample["image/encoded"] is None) == (b"#" not in sample["image/source_id"])
        assert decoded[number]["image"].shape == (4, 4, 3)


# --- objects ------------------------------------------------------------------------------------------

SIZE = (64, 48)
BOXES = {"a": [(0, 0, 20, 10), (31, 7, 64, 48)], "b": [(5, 6, 9, 20)], "c": []}


def noise(number: int, size: tuple[int, int] = SIZE) -> Any:
    shape = (size[1], size[0], 3)
    return np.random.default_rng(number).integers(0, 255, shape, np.uint8)


def png(pixels: Any, orientation: int = 1) -> bytes:
    exif, out = Image.Exif(), io.BytesIO()
    exif[0x0112] = orientation
    Image.fromarray(pixels).save(out, "PNG", exif=exif)
    return out.getvalue()


def test_margins_sizes_and_orientations_of_crops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The margin ends at the edge of the image as it is shown; small boxes have dead letters with their lines."""
    monkeypatch.chdir(tmp_path)
    shown, box, rows = noise(1), (10, 20, 30, 40), ["filename,class,xmin,ymin,xmax,ymax"]
    for orientation in range(1, 9):
        picture = Image.fromarray(shown)
        back = {2: 0, 3: 3, 4: 1, 5: 5, 6: 2, 7: 6, 8: 4}
        if orientation > 1:
            picture = picture.transpose(list(Image.Transpose)[back[orientation]])
        write_files(".", {f"photos/{orientation}.png": png(np.asarray(picture), orientation)})
        rows.append(f"{orientation}.png,cat,{','.join(map(str, box))}")
    rows += ["1.png,cat,5,5,9,30", "1.png,cat,5,5,5,30", "1.png,cat,50,5,40,30"]
    write_files(".", {"l.csv": "\n".join(rows)})
    crop = ("--crop_boxes", "--crop_margin", "0.5", "--crop_min_side", "5", harness.ALL_BAD)
    argv = ("--images", "photos", "--labels", "l.csv", *crop)
    assert harness.convert(*argv, "--output", "out") == 0
    examples = harness.read_all("out")
    assert examples.keys() == {f"{orientation}.png#0" for orientation in range(1, 9)}
    for example in examples.values():
        with Image.open(io.BytesIO(example["image/encoded"][0])) as image:
            assert np.array_equal(np.asarray(image), shown[10:48, 0:40])
        assert np.allclose(example["image/object/bbox/xmin"], 10 / 40)
        assert np.allclose(example["image/object/bbox/ymax"], 30 / 38)
    assert {
        key: (reason, line) for key, (reason, _, line) in harness.sources_of("out").items()
    } == {
        "1.png#1": ("small_box", 10),
        "1.png#2": ("small_box", 11),
        "1.png#3": ("bad_box", 12),
    }
    cut = {"encoded": 8, "turned": 7}
    assert harness.manifest_of("out")["counts"]["images"] == cut
    assert (
        harness.convert(*argv, "--resize", "8x8", "--resize_mode", "pad", "--output", "small") == 0
    )
    assert harness.manifest_of("small")["counts"]["images"] == {**cut, "resized": 8}
    for example in harness.read_all("small").values():
        assert (example["image/height"], example["image/width"]) == ([8], [8])
        xs = [example[f"image/object/bbox/{side}"][0] for side in ("xmin", "xmax")]
        assert np.allclose(xs, [0.25, 0.75])
