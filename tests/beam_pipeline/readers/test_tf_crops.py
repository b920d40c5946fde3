"""Random crops: the pixels of the whole image in a window, and the same windows for a seed."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

import beam_pipeline
from beam_pipeline.core.errors import UsageError
from beam_pipeline.readers.samples import PixelOptions, PixelPlan
from beam_pipeline.readers.tf_steps import Decoder, crop_shares
from tests.beam_pipeline.readers.by_hand import (
    IMAGE,
    OBJECTS,
    SIDES,
    detection_set,
    feature,
    jpeg,
    write_by_hand,
)
from tests.rows import in_rows

DRAWS = [tf.constant(number, tf.int64) for number in (0, -5, 1 << 60)]
CROP = (0.3, 0.9)


def whole(data: Any, channels: int = 3) -> Any:
    return tf.io.decode_image(data, channels=channels, expand_animations=False)


def decoder(size: tuple[int, int] = (8, 8), *, channels: int = 3, scaled: bool = False) -> Decoder:
    options = PixelOptions(size, channels, exact=not scaled)
    return Decoder(PixelPlan(size=size, options=options), CROP)


def in_window(image: Any, window: Any) -> Any:
    top, left, height, width = window
    return image[top : top + height, left : left + width]


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("channels", [1, 3])
def test_a_part_of_a_jpeg_has_the_pixels_of_the_whole(draw: Any, channels: int) -> None:
    """The last column may differ a little: its colours are computed without their neighbours."""
    data = jpeg(203, 151)
    decode = decoder(channels=channels)
    image = whole(data, channels).numpy().astype(int)
    expected = in_window(image, decode.window(tf.constant([151, 203]), draw).numpy())
    found = decode.of_file(tf.constant(data), draw).numpy().astype(int)
    assert found.shape == expected.shape
    assert (found[:, :-1] == expected[:, :-1]).all()
    assert abs(found - expected).max() <= (0 if channels == 1 else 40)


@pytest.mark.parametrize(
    ("file_format", "channels"), [("PNG", 3), ("PNG", 4), ("GIF", 3), ("BMP", 3)]
)
def test_other_formats_are_decoded_whole(file_format: str, channels: int) -> None:
    """To any number of channels."""
    with Image.open(io.BytesIO(jpeg(60, 40))) as image:
        out = io.BytesIO()
        image.quantize(64).convert("RGB").save(out, file_format)
    decode = decoder(channels=channels)
    window = decode.window(tf.constant([40, 60]), DRAWS[1]).numpy()
    expected = in_window(whole(out.getvalue(), channels).numpy(), window)
    assert (decode.of_file(tf.constant(out.getvalue()), DRAWS[1]).numpy() == expected).all()


@pytest.mark.parametrize(("side", "scale"), [(10, 8), (20, 4), (40, 2), (150, 1)])
def test_a_part_that_is_large_enough_is_decoded_at_a_smaller_scale(side: int, scale: int) -> None:
    """Resized, it differs by less than 1 % of the range from what full decoding gives."""
    with Image.open(io.BytesIO(jpeg(203, 151))) as image:
        out = io.BytesIO()
        image.resize((406, 302)).save(out, "JPEG", quality=90)
    data = out.getvalue()
    decode = decoder((side, side), scaled=True)
    window = decode.window(tf.constant([302, 406]), DRAWS[0]).numpy() * [1, 1, -1, -1] // scale
    window *= [1, 1, -1, -1]
    found = decode.of_file(tf.constant(data), DRAWS[0])
    assert tuple(found.shape[:2]) == tuple(window[2:])
    expected = in_window(whole(data), window * scale)
    resized = [
        tf.image.resize(one, (side, side), antialias=True).numpy() for one in (found, expected)
    ]
    assert np.abs(resized[0] - resized[1]).mean() < 0.01 * 255


def test_windows_have_the_shares_and_shapes_that_were_asked_for() -> None:
    """Each draw gives another one within the image."""
    decode = decoder()
    windows = [decode.window(tf.constant([300, 500]), tf.constant(n)).numpy() for n in range(50)]
    for top, left, height, width in windows:
        assert min(top, left) >= 0
        assert top + height <= 300
        assert left + width <= 500
        assert 0.29 < height * width / (300 * 500) < 0.91
        assert 0.74 < width / height < 1.35
    assert len({tuple(window) for window in windows}) > 45


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> str:
    """12 images of two classes."""
    features = {"image/encoded": feature("bytes"), "image/class/label": feature("int64")}
    examples = [
        {"image/encoded": jpeg(90 + number, 60), "image/class/label": number % 2}
        for number in range(12)
    ]
    return write_by_hand(tmp_path_factory.mktemp("crops") / "d", features, examples)


def test_a_seed_gives_the_same_crops(photos: str) -> None:
    """Other ones in each pass, whether passes are repeated or begun again."""

    def passes(seed: int | None, repeat: int) -> list[Any]:
        found = beam_pipeline.load(
            photos,
            image_size=(16, 16),
            random_crop=CROP,
            seed=seed,
            repeat=repeat,
            shuffle=False,
        )
        assert len(found) == 12 * repeat
        return [np.stack([image for image, _ in found.as_numpy_iterator()]) for _ in range(2)]

    first, second = passes(7, 1)
    assert first.shape == (12, 16, 16, 3)
    again = passes(7, 1)
    assert (first == again[0]).all()
    assert (second == again[1]).all()
    for other in (second, passes(None, 1)[0]):
        assert (np.abs(first - other).max(axis=(1, 2, 3)) > 0).all()
    repeated, _ = passes(7, 2)
    assert (repeated[:12] == first).all()
    assert (np.abs(repeated[12:] - first).max(axis=(1, 2, 3)) > 0).all()


@pytest.mark.parametrize("kind", ["crops", "ragged boxes"])
def test_a_saved_position_among_crops_and_ragged_boxes(
    photos: str, tmp_path: Path, kind: str
) -> None:
    """The rest of the passes has the same crops, or the same boxes of images in batches, in order."""
    of_crops: dict[str, Any] = {"image_size": (8, 8), "random_crop": CROP, "batch_size": 5}
    folder = photos if kind == "crops" else detection_set(tmp_path / "d")
    options = of_crops if kind == "crops" else {"batch_size": 3}

    def passes() -> Any:
        return iter(beam_pipeline.load(folder, seed=7, repeat=3, **options))

    def seen(batch: Any) -> Any:
        images, label = batch
        boxes = label.numpy().tolist() if kind == "crops" else label["boxes"].to_list()
        return images.numpy().tolist(), boxes

    whole, iterator = list(map(seen, passes())), passes()
    assert [seen(next(iterator)) for _ in range(2)] == whole[:2]
    path = tf.train.Checkpoint(iterator=iterator).write(f"{tmp_path}/position")
    restored = passes()
    tf.train.Checkpoint(iterator=restored).read(path).assert_consumed()
    assert list(map(seen, restored)) == whole[2:]
    assert len(whole) == (8 if kind == "crops" else 4)


def test_bare_pixels_are_cropped(tmp_path: Path) -> None:
    """Each time the same example is read, a window of it is resized."""
    pixels = np.arange(30 * 40 * 3, dtype=np.uint8).reshape(30, 40, 3)
    sizes = {"image/height": 30, "image/width": 40, "image/channels": 3}
    features = {"image/encoded": feature("bytes"), **{key: feature("int64") for key in sizes}}
    example = {"image/encoded": pixels.tobytes(), **sizes}
    folder = write_by_hand(tmp_path / "d", features, [example] * 2, image_encoding="raw")
    found = beam_pipeline.load(
        folder, image_size=(9, 9), random_crop=CROP, seed=1, shuffle=False, as_dict=True
    )
    draws = list(tf.data.Dataset.random(1, rerandomize_each_iteration=True).take(2))
    for example, draw in zip(found, draws, strict=True):
        window = decoder().window(tf.constant([30, 40]), draw).numpy()
        expected = tf.image.resize(in_window(pixels, window), (9, 9)).numpy()
        assert (example["image"].numpy() == expected).all()


@pytest.mark.parametrize("shares", [(0, 1), (0.5, 0.2), (0.5, 1.5), 0.5, (0.5,), "ab", (1, 2, 3)])
def test_shares_that_are_none(shares: Any) -> None:
    """The message shows an example of what is expected."""
    no_data_set: Any = None
    with pytest.raises(UsageError) as caught:
        crop_shares(no_data_set, shares, decoder().plan)
    assert str(caught.value) == (
        f"random_crop is {shares!r}, expected the least and the greatest share of an image's area, "
        "such as (0.08, 1)"
    )


@in_rows
def test_options_that_do_not_fit(photos: str, options: Any, message: str) -> None:
    """Each is an error."""
    with pytest.raises(UsageError) as caught:
        beam_pipeline.load(photos, random_crop=CROP, **options)
    assert str(caught.value) == message


def test_boxes_and_masks_are_refused(tmp_path: Path) -> None:
    """They belong to places in the whole image."""
    example = {"image/encoded": jpeg(40, 30), "image/object/class/label": [1]}
    example |= {f"image/object/bbox/{side}": [0.5] for side in SIDES}
    folder = write_by_hand(tmp_path / "d", {**IMAGE, **OBJECTS}, [example])
    for as_dict in (False, True):
        with pytest.raises(UsageError, match=r"has boxes or masks .*crop them together"):
            beam_pipeline.load(folder, image_size=(8, 8), random_crop=CROP, as_dict=as_dict)
