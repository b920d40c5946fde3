"""Pixels of examples without TensorFlow: formats, sizes, channels, masks, and what cannot be decoded."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from beam_pipeline import RandomAccess
from beam_pipeline.core.errors import DamagedRecordError, UsageError
from beam_pipeline.readers.samples import scaled_side
from tests.beam_pipeline.readers.by_hand import feature, write_by_hand
from tests.layouts.make_segmentation import grey
from tests.pictures import picture

IMAGE = {"image/encoded": feature("bytes")}
MASK = "image/segmentation/class/encoded"


def jpeg(width: int, height: int) -> bytes:
    """Waves, so that every way of scaling gives other pixels."""
    y, x = np.mgrid[:height, :width]
    bands = [np.sin(x / 3) * np.cos(y / 5), np.sin((x + y) / 4), np.cos(x * y / 900)]
    pixels = (np.stack(bands, axis=-1) * 127 + 128).astype(np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG", quality=90)
    return out.getvalue()


def only(folder: Path, data: bytes, /, features: Any = IMAGE, **options: Any) -> Any:
    """The pixels of a data set of this image."""
    write_by_hand(folder, features, [{"image/encoded": [data]}])
    return RandomAccess(folder, decode=True, **options)[0]["image"]


def resized(image: Image.Image, height: int, width: int) -> Any:
    return np.asarray(image.convert("RGB").resize((width, height), Image.Resampling.BILINEAR))


@pytest.mark.parametrize(
    ("size", "scale"),
    [
        ((40, 50), 2),
        ((50, 66), 2),
        ((51, 66), 1),
        ((24, 32), 4),
        ((12, 16), 8),
        ((2, 2), 8),
        ((300, 300), 1),
    ],
)
def test_a_jpeg_is_decoded_at_the_smallest_scale_that_suffices(
    tmp_path: Path, size: tuple[int, int], scale: int
) -> None:
    """150 x 200 pixels; half as many again as are wanted have to be there."""
    data = jpeg(200, 150)
    image = Image.open(io.BytesIO(data))
    if scale > 1:
        image.draft("RGB", (200 // scale, 150 // scale))
    assert image.size == (200 // scale, -(-150 // scale))
    found = only(tmp_path / "d", data, image_size=size)
    assert found.tolist() == resized(image, *size).tolist()
    whole = resized(Image.open(io.BytesIO(data)), *size)
    exact = RandomAccess(tmp_path / "d", decode=True, image_size=size, exact=True)[0]["image"]
    assert exact.tolist() == whole.tolist()
    assert (found.tolist() != whole.tolist()) == (scale > 1)


def test_half_as_many_pixels_again_are_enough() -> None:
    """Rounded up."""
    assert [scaled_side(side) for side in (1, 2, 3, 224)] == [2, 3, 5, 336]


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize(
    ("file_format", "mode"),
    [
        *(("PNG", mode) for mode in ("L", "LA", "P", "RGB", "RGBA", "1")),
        *(("JPEG", mode) for mode in ("L", "RGB", "CMYK")),
        ("GIF", "P"),
        ("WEBP", "RGBA"),
        ("BMP", "RGB"),
    ],
)
def test_channels_are_those_asked_for(
    tmp_path: Path, file_format: str, mode: str, channels: int
) -> None:
    """As Pillow converts them."""
    data = picture(3, file_format=file_format, mode=mode)
    found = only(tmp_path / "d", data, channels=channels)
    expected = Image.open(io.BytesIO(data)).convert({1: "L", 3: "RGB", 4: "RGBA"}[channels])
    assert found.tolist() == np.asarray(expected).reshape(7, 9, channels).tolist()
    assert found.dtype == np.uint8


def test_16_bits_become_8(tmp_path: Path) -> None:
    """The upper ones, as TensorFlow has it."""
    data = grey([[0, 255, 256, 65535]], bits=16)
    assert only(tmp_path / "d", data, channels=1).ravel().tolist() == [0, 0, 1, 255]


def test_bare_pixels_are_shaped(tmp_path: Path) -> None:
    """Height, width and channels stand in the example."""
    sizes = {f"image/{side}": feature("int64") for side in ("height", "width", "channels")}
    example = {
        "image/encoded": [bytes(range(12))],
        "image/height": [2],
        "image/width": [2],
        "image/channels": [3],
    }
    folder = write_by_hand(tmp_path / "d", {**IMAGE, **sizes}, [example], image_encoding="raw")
    found = RandomAccess(folder, decode=True)[0]
    assert found["image"].tolist() == np.arange(12).reshape(2, 2, 3).tolist()
    short = write_by_hand(
        tmp_path / "e",
        {**IMAGE, **sizes},
        [{**example, "image/encoded": [b"x"]}],
        image_encoding="raw",
    )
    with pytest.raises(DamagedRecordError, match="cannot be decoded: cannot reshape"):
        RandomAccess(short, decode=True)[0]
    without = write_by_hand(tmp_path / "f", IMAGE, [], image_encoding="raw")
    with pytest.raises(UsageError, match="bare pixels without image/height"):
        RandomAccess(without, decode=True)


@pytest.mark.parametrize("bits", [8, 16])
def test_masks_keep_their_ids(tmp_path: Path, bits: int) -> None:
    """They are resized to the nearest neighbour; an image without one has 255 everywhere."""
    largest = (1 << bits) - 1
    features = {**IMAGE, MASK: feature("bytes", optional=True, pixels=f"uint{bits}")}
    data = picture(size=(4, 2))
    mask = grey([[0, 1, 2, largest], [3, 4, 5, 6]], bits=bits)
    folder = write_by_hand(
        tmp_path / "d",
        features,
        [{"image/encoded": [data], MASK: [mask]}, {"image/encoded": [data]}],
    )
    first, second = RandomAccess(folder, decode=True)
    assert first.keys() == {"image", "mask"}
    assert first["mask"].dtype == np.dtype(f"uint{bits}")
    assert first["mask"][..., 0].tolist() == [[0, 1, 2, largest], [3, 4, 5, 6]]
    assert second["mask"][..., 0].tolist() == [[255] * 4] * 2
    small = RandomAccess(folder, decode=True, image_size=(1, 2))[0]
    assert (small["image"].shape, small["mask"][..., 0].tolist()) == ((1, 2, 3), [[4, 6]])


@pytest.mark.parametrize("data", [b"", b"no image", picture()[:-40], jpeg(20, 20)[:300]])
def test_what_is_no_image_is_an_error(tmp_path: Path, data: bytes) -> None:
    """Not a traceback out of Pillow."""
    with pytest.raises(DamagedRecordError, match=r"^image b'' cannot be decoded: "):
        only(tmp_path / "d", data)


def test_options_that_do_not_fit_are_errors(tmp_path: Path) -> None:
    """No image, another number of channels, sizes that are none, a key that is taken."""
    one = {"image/encoded": [picture()]}
    folder = write_by_hand(tmp_path / "d", IMAGE, [one])
    bare = write_by_hand(tmp_path / "e", {"x": feature("int64")}, [])
    taken = write_by_hand(tmp_path / "f", {**IMAGE, "image": feature("int64")}, [])
    with pytest.raises(UsageError, match="channels is 2, expected one of"):
        RandomAccess(folder, decode=True, channels=2)
    for wrong in (0, 1), (1, -1), 0, (1, 2, 3):
        with pytest.raises(UsageError, match="image_size is"):
            RandomAccess(folder, decode=True, image_size=wrong)
    with pytest.raises(UsageError, match="has no images"):
        RandomAccess(bare, decode=True)
    with pytest.raises(UsageError, match="has a feature 'image'"):
        RandomAccess(taken, decode=True)
