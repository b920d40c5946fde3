"""Data sets whose images are turned, scaled and encoded, end to end."""

from __future__ import annotations

import gzip
import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from beam_pipeline.core.dataset.receipts import receipt_name
from beam_pipeline.core.images import geometry, preparation
from tests.harness import (
    ALL_BAD,
    convert,
    dead_letters_of,
    digests,
    manifest_of,
    read_all,
    run,
    run_convert,
)
from tests.pictures import picture, write_files

SHOWN = (40, 30)
BOX = (24, 6, 36, 20)  # on the picture as it is shown


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def stored(orientation: int, file_format: str = "PNG") -> bytes:
    """A picture with a white box, stored so that EXIF turns it upright."""
    width, height = SHOWN if orientation < 5 else SHOWN[::-1]
    box = geometry.orienting((width, height), orientation).inverse().box(BOX)
    image = Image.new("RGB", (width, height), (20, 40, 60))
    image.paste((255, 255, 255), tuple(map(int, box)))
    exif, out = Image.Exif(), io.BytesIO()
    exif[0x0112] = orientation
    image.save(out, file_format, exif=exif)
    return out.getvalue()


def coco(as_shown: bool) -> str:
    """Boxes of all eight, measured on the picture as shown or as stored, and the size it has there."""
    images, annotations = [], []
    for orientation in range(1, 9):
        size = SHOWN if as_shown or orientation < 5 else SHOWN[::-1]
        back = geometry.orienting(SHOWN if orientation < 5 else SHOWN[::-1], orientation).inverse()
        left, top, right, bottom = BOX if as_shown else back.box(BOX)
        entry = {"id": orientation, "file_name": f"{orientation}.png"}
        images.append({**entry, "width": size[0], "height": size[1]})
        box = [left, top, right - left, bottom - top]
        annotations.append(
            {"id": orientation, "image_id": orientation, "category_id": 1, "bbox": box}
        )
    categories = [{"id": 1, "name": "box"}]
    return json.dumps({"images": images, "annotations": annotations, "categories": categories})


def write_all(as_shown: bool) -> None:
    files = {f"images/{orientation}.png": stored(orientation) for orientation in range(1, 9)}
    write_files(".", {**files, "instances.json": coco(as_shown)})


def pixels_of(example: dict[str, Any]) -> np.ndarray:
    image = Image.open(io.BytesIO(example["image/encoded"][0]))
    assert (image.width, image.height) == (example["image/width"][0], example["image/height"][0])
    return np.asarray(image.convert("L"))


def assert_box_is_marked(example: dict[str, Any]) -> None:
    """The one box of an example is that of its white pixels."""
    pixels = pixels_of(example)
    rows, columns = np.nonzero(pixels > 127)
    height, width = pixels.shape
    found = [example[f"image/object/bbox/{side}"][0] for side in ("xmin", "ymin", "xmax", "ymax")]
    marked = (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
    assert np.multiply(found, (width, height, width, height)) == pytest.approx(marked, abs=0.75)


CONVERT = ("--images", "images", "--labels", "instances.json", "--output", "out")


@pytest.mark.parametrize("as_shown", [True, False])
def test_boxes_and_pixels_agree_in_all_orientations(as_shown: bool) -> None:
    """By default images are turned; a claimed size tells on which picture boxes were measured."""
    write_all(as_shown)
    assert convert(*CONVERT) == 0
    examples = read_all("out")
    assert len(examples) == 8
    for name, example in examples.items():
        if as_shown or int(name[0]) in (1, 5, 6, 7, 8):  # the size of a half turn tells nothing
            assert_box_is_marked(example)
        assert pixels_of(example).shape == SHOWN[::-1]
        assert "image/orientation" not in example
    assert examples["1.png"]["image/encoded"] == [stored(1)]
    manifest = manifest_of("out")
    assert manifest["counts"]["images"] == {"encoded": 7, "turned": 7}
    assert manifest["codec"] == preparation.codec_here("pillow")
    assert "image/orientation" not in manifest["features"]
    assert "codec" not in manifest["options"]


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ((), "as shown (--orientation keep takes them as stored)"),
        (("--orientation", "keep"), "as stored (--orientation apply, as shown)"),
    ],
)
def test_a_bad_box_on_a_turned_image_says_how_it_was_read(
    options: tuple[str, ...], hint: str
) -> None:
    """The other way it may be sound."""
    table = "filename,xmin,ymin,xmax,ymax,label\n6.png,1,1,99,5,box\n"
    write_files(".", {"images/6.png": stored(6), "l.csv": table})
    run(
        *("convert", "--images", "images", "--labels", "l.csv", "--output", "out", ALL_BAD),
        *options,
    )
    (letter,) = dead_letters_of("out")
    how = "EXIF turns the image, and boxes were taken as measured on the picture"
    assert letter["message"].endswith(f"; {how} {hint}")


def test_kept_images_keep_their_bytes_and_have_their_boxes() -> None:
    """What the label file measured on the picture as shown is put where it is in the stored one.

    Of orientations 2 to 4 no size tells, so a warning does.
    """
    write_all(as_shown=True)
    assert (
        "  warning: boxes, points and masks on such images are in the wrong place if they were drawn on the "
        "images as viewers show them, unless the size in the labels tells; --orientation apply takes "
        "them as drawn there\n" in run_convert(*CONVERT, "--orientation", "keep").out
    )
    for name, example in read_all("out").items():
        orientation = int(name[0])
        assert example["image/encoded"] == [stored(orientation)]
        assert example.get("image/orientation", [1]) == [orientation]
        if orientation in (1, 5, 6, 7, 8):
            assert_box_is_marked(example)
    manifest = manifest_of("out")
    assert manifest["counts"]["images"] == {"left_turned": 7}
    assert manifest["features"]["image/orientation"] == {
        "kind": "int64",
        "optional": True,
        "shape": [],
    }
    assert "codec" not in manifest


@pytest.mark.parametrize("mode", ["shortest", "longest", "exact", "pad", "crop"])
def test_boxes_follow_a_resized_image(mode: str) -> None:
    """In every mode, from all eight orientations."""
    write_all(as_shown=True)
    assert convert(*CONVERT, "--resize", "24x20", "--resize_mode", mode) == 0
    examples = read_all("out")
    assert len(examples) == 8
    for example in examples.values():
        assert_box_is_marked(example)
    counts = manifest_of("out")["counts"]["images"]
    assert counts == {"encoded": 8, "resized": 8, "turned": 7}


def class_folders() -> None:
    """Upright and turned, small and large, and what readers cannot decode."""
    files: dict[str, bytes | str] = {
        f"photos/{name}/{i}.jpg": picture(i, size=(60 + i, 50)) for name in "ab" for i in range(9)
    }
    files["photos/a/turned.jpg"] = stored(6, "JPEG")
    files["photos/a/small.png"] = picture(1, file_format="PNG")
    files["photos/b/cmyk.jpg"] = picture(2, mode="CMYK", size=(8, 8))
    files["photos/b/page.tiff"] = picture(3, file_format="TIFF")
    files["photos/b/new.jp2"] = picture(3, file_format="JPEG2000", size=(16, 16))
    write_files(".", files)


def test_class_folders_keep_turned_images_and_say_so() -> None:
    """Without places in the labels nothing can be wrong but the view."""
    class_folders()
    printed = run_convert("--images", "photos", "--output", "out", ALL_BAD)
    turned = read_all("out")["a/turned.jpg"]
    assert turned["image/orientation"] == [6]
    assert manifest_of("out")["counts"]["images"] == {"left_turned": 1}
    out = printed.out
    assert "note: EXIF turns or mirrors 1 image, which TensorFlow shows as stored" in out
    assert "warning: boxes" not in out
    before = digests("out")
    assert convert("--images", "photos", "--output", "out", ALL_BAD, "--resume") == 0
    assert digests("out") == before


def test_reencode_auto_changes_what_readers_cannot_read() -> None:
    """And what has to be turned; all other images keep their bytes, and are counted."""
    import tensorflow as tf

    class_folders()
    assert convert("--images", "photos", "--output", "out", "--reencode", "auto") == 0
    examples = read_all("out")
    assert len(examples) == 23
    changed = {"a/turned.jpg", "b/cmyk.jpg", "b/page.tiff", "b/new.jp2"}
    for name, example in examples.items():
        own = Path("photos", name).read_bytes()
        assert (example["image/encoded"] != [own]) == (name in changed)
        shape = [example[f"image/{side}"][0] for side in ("height", "width", "channels")]
        assert list(tf.io.decode_image(example["image/encoded"][0]).shape) == shape
    assert manifest_of("out")["counts"]["images"] == {
        "encoded": 4,
        "turned": 1,
        "unchanged": 19,
    }


def test_resume_and_repair_refuse_another_codec(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would write something else; one line names both versions, and nothing is changed."""

    class_folders()
    arguments = ("--images", "photos", "--resize", "40", "--output", "out")
    assert convert(*arguments) == 0
    before = digests("out")
    here = preparation.codec_here("pillow")
    with monkeypatch.context() as patched:
        codec_version = "beam_pipeline.core.images.pillow_codec.codec_version"
        patched.setattr(codec_version, lambda: "Pillow 99")
        said = run_convert(*arguments, "--resume", code=1).err
    assert f"encoded by {here}, and here by Pillow 99, which may give other bytes" in said
    assert digests("out") == before
    (shard,) = [name for name in before if ".tfrecord-" in name]
    os.remove(f"out/{shard}")
    receipt = Path("out", receipt_name(shard))  # which writer processes read
    content = gzip.decompress(receipt.read_bytes())
    receipt.write_bytes(gzip.compress(content.replace(here.encode(), b"Pillow 99")))
    said = run("repair", "out", code=1).err
    assert f"{shard}: images are encoded by Pillow 99, and here by {here}, which may" in said
    assert not os.path.exists(f"out/{shard}")


@pytest.mark.readers
def test_opencv_scales_jpegs_and_resume_and_repair_keep_to_it() -> None:
    """The same bytes with any number of writers; another library may not go on with them."""
    pytest.importorskip("cv2", reason="opencv-python-headless is not installed")
    from beam_pipeline.cli import main

    class_folders()
    arguments = ("--images", "photos", "--resize", "20", "--num_shards", "2", "--name", "set")
    opencv = (*arguments, "--image_codec", "opencv")
    assert convert(*arguments, "--output", "pillow") == 0
    assert convert(*opencv, "--output", "out") == 0
    assert convert(*opencv, "--output", "one", "--writers", "1") == 0
    before = {name: digest for name, digest in digests("out").items() if ".tfrecord-" in name}
    assert before.items() <= digests("one").items()
    assert not before.items() <= digests("pillow").items()  # of one colour, images are the same
    manifest = manifest_of("out")
    assert manifest["codec"] == manifest["options"]["codec"] == preparation.codec_here("opencv")
    assert manifest["options"]["image_codec"] == "opencv"
    assert "and here by Pillow" in (
        said := run_convert(*arguments, "--output", "out", "--resume", code=1).err
    )
    assert "Give --image_codec opencv, or convert again with --overwrite" in said
    os.remove(f"out/{min(before)}")
    assert main(["repair", "out"]) == 0
    assert before.items() <= digests("out").items()


def test_an_animation_gives_its_first_frame_or_is_refused() -> None:
    """Where it has to be encoded anew."""
    frames = [Image.new("RGB", (60, 60), colour) for colour in ("red", "blue")]
    out = io.BytesIO()
    frames[0].save(out, "GIF", save_all=True, append_images=frames[1:])
    write_files(".", {"photos/a/1.gif": out.getvalue(), "photos/b/1.jpg": picture()})
    arguments = ("--images", "photos", "--resize", "40", ALL_BAD)
    assert convert(*arguments, "--output", "first") == 0
    image = Image.open(io.BytesIO(read_all("first")["a/1.gif"]["image/encoded"][0]))
    assert (image.format, image.size, image.getpixel((0, 0))) == ("PNG", (40, 40), (255, 0, 0))
    counts = {"encoded": 1, "first_frame": 1, "resized": 1, "unchanged": 1}
    assert manifest_of("first")["counts"]["images"] == counts
    assert convert(*arguments, "--animated", "refuse", "--output", "none") == 0
    assert [letter["key"] for letter in dead_letters_of("none")] == ["a/1.gif"]


@pytest.mark.parametrize("as_shown", [True, False])
@pytest.mark.parametrize(
    "options", [(), ("--resize", "24x20", "--resize_mode", "crop"), ("--orientation", "keep")]
)
def test_a_mask_file_follows_its_image(as_shown: bool, options: tuple[str, ...]) -> None:
    """By the nearest pixel; its size tells whether it was drawn on the picture as shown or as stored."""
    for orientation in (1, 6, 8):
        size = SHOWN if as_shown or orientation == 1 else SHOWN[::-1]
        back = geometry.orienting(SHOWN if orientation == 1 else SHOWN[::-1], orientation).inverse()
        mask, out = Image.new("L", size), io.BytesIO()
        mask.paste(7, tuple(map(int, BOX if as_shown else back.box(BOX))))
        mask.save(out, "PNG")
        files = {f"images/{orientation}.png": stored(orientation)}
        write_files(".", {**files, f"masks/{orientation}.png": out.getvalue()})
    assert convert("--images", "images", "--masks", "masks", "--output", "out", *options) == 0
    examples = read_all("out")
    assert len(examples) == 3
    for example in examples.values():
        data = example["image/segmentation/class/encoded"][0]
        found = np.asarray(Image.open(io.BytesIO(data)))
        assert set(found.ravel().tolist()) == {0, 7}
        pixels = pixels_of(example)
        assert found.shape == pixels.shape
        assert ((found == 7) != (pixels > 127)).mean() < (0.08 if "--resize" in options else 1e-9)
