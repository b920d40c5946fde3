"""Masks of objects as PNGs."""

from __future__ import annotations

import io
import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any

import pytest
from PIL import Image

from beam_pipeline.core.dead_letters import Reason
from beam_pipeline.core.images import masks
from beam_pipeline.core.images.header import BadImageError, ImageHeader
from beam_pipeline.core.images.png import check_png, grey_png
from beam_pipeline.core.images.preparation import decode_fully
from tests.core.images.fixtures import PNG_START, chunk
from tests.rows import in_rows


def rows_of(shape: Any, width: int, height: int, *, pixels: bool = True) -> list[str]:
    """The rows of a mask, 1 inside and 0 outside."""
    masks.check_shape(shape)
    png = masks.mask_png(json.dumps(shape), ImageHeader("png", height, width, 3), pixels=pixels)
    with Image.open(io.BytesIO(png)) as image:
        assert (image.format, image.mode, image.size) == ("PNG", "L", (width, height))
        data = image.tobytes()
    return ["".join(map(str, data[row * width : (row + 1) * width])) for row in range(height)]


@in_rows
def test_the_worked_example(shape: Any) -> None:
    """The three shapes of the module's docstring are one mask."""
    assert rows_of(shape, 3, 2) == ["011", "011"]


@in_rows
def test_a_pixel_is_inside_if_its_centre_is(shape: Any, rows: list[str], pixels: bool) -> None:
    """Of all polygons of an object; a hole is one that crosses itself, by the even-odd rule."""
    assert rows_of(shape, len(rows[0]), len(rows), pixels=pixels) == rows


def test_compressed_run_lengths_as_pycocotools_writes_them() -> None:
    """Rows 2 to 4 of columns 3 to 9: runs of more than 31, and differences, negative ones too."""
    counts = [32, 3, *[7, 3] * 6, 105]
    filled = "000" + "1" * 7 + "0" * 10
    expected = [filled if row in (2, 3, 4) else "0" * 20 for row in range(10)]
    for runs in (counts, _compressed(counts)):
        assert rows_of({"size": [10, 20], "counts": runs}, 20, 10) == expected


def _compressed(counts: list[int]) -> str:
    """rleToString of maskApi.c."""
    out = []
    for i, count in enumerate(counts):
        number = count - counts[i - 2] if i > 2 else count
        more = True
        while more:
            bits = number & 31
            number >>= 5
            more = number != -1 if bits & 16 else number != 0
            out.append(chr((bits | 32 if more else bits) + 48))
    return "".join(out)


def test_run_lengths_of_another_size() -> None:
    """They are of another image."""
    with pytest.raises(
        BadImageError, match="a mask of 3 x 2 pixels, the image has 4 x 2; take"
    ) as e:
        rows_of({"size": [2, 3], "counts": [6]}, 4, 2)
    assert e.value.reason is Reason.SIZE_MISMATCH


# --- label images ----------------------------------------------------------------------------


HEADER = ImageHeader("jpeg", 2, 3, 3)
PIXELS = b"\0\1\2\3\1\0"


def encoded(image: Image.Image, file_format: str = "PNG", **options: object) -> bytes:
    out = io.BytesIO()
    image.save(out, file_format, **options)
    return out.getvalue()


def palette(file_format: str = "PNG", **options: object) -> bytes:
    image = Image.frombytes("P", (3, 2), PIXELS)
    image.putpalette([9, 9, 9, 200, 0, 0, 0, 200, 0, 0, 0, 200])
    return encoded(image, file_format, **options)


def written(mask: bytes, bits: int = 8, colours: Mapping[masks.Colour, int] | None = None) -> bytes:
    return masks.segmentation_png(mask, HEADER, bits=bits, check=decode_fully, colours=colours)


def refusal(mask: bytes, **options: object) -> BadImageError:
    with pytest.raises(BadImageError) as caught:
        written(mask, **options)
    return caught.value


GREY = encoded(Image.frombytes("L", (3, 2), PIXELS))
GREY_16 = encoded(Image.frombytes("I;16", (3, 2), b"\0\0\1\0\2\1\3\0\1\0\0\0"))


def test_grey_masks_are_kept() -> None:
    """The file itself; one of 8 bits is widened among masks of 16."""
    assert written(GREY) is GREY
    assert written(GREY_16, 16) is GREY_16
    assert written(GREY, 16) == grey_png(b"\0\0\0\1\0\2\0\3\0\1\0\0", 3, 2, 16)


@pytest.mark.parametrize(
    "mask",
    [
        palette(),
        palette(bits=2),
        palette("GIF"),
        palette("BMP"),
        encoded(Image.merge("LA", [Image.frombytes("L", (3, 2), PIXELS)] * 2)),
        encoded(Image.frombytes("L", (3, 2), PIXELS), "BMP"),
        palette("TIFF", compression="tiff_lzw"),
        encoded(Image.frombytes("L", (3, 2), PIXELS), "TIFF"),
    ],
    ids=["palette", "bits", "gif", "bmp", "alpha", "grey_bmp", "tiff", "grey_tiff"],
)
def test_others_of_one_channel_are_written_as_grey_pngs(mask: bytes) -> None:
    """Of the same ids: TensorFlow would read colours."""
    assert written(mask) == grey_png(PIXELS, 3, 2)


def test_a_grey_mask_of_few_bits_is_written_with_its_values() -> None:
    """1 of one bit is 1; decoders make 255 of it."""
    bit = Image.frombytes("L", (3, 2), b"\0\xff\0\xff\0\xff").convert("1")
    assert masks.png_kind(encoded(bit)) == (1, 0)
    assert written(encoded(bit)) == grey_png(b"\0\1\0\1\0\1", 3, 2)


@in_rows
def test_grey_masks_of_two_and_four_bits(depth: int, row: bytes) -> None:
    """0, 1, 2, 3 in a row of four pixels, which Pillow does not write."""
    header = struct.pack(">IIBBBBB", 4, 1, depth, 0, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(b"\0" + row)), (b"IEND", b"")]
    mask = PNG_START + b"".join(chunk(*part) for part in parts)
    found = masks.segmentation_png(mask, ImageHeader("jpeg", 1, 4, 3), bits=8, check=decode_fully)
    assert found == grey_png(b"\0\1\2\3", 4, 1)


def test_written_pngs_are_sound_and_pinned() -> None:
    """As PIL reads them; the same bytes with the same zlib."""
    data = grey_png(PIXELS, 3, 2)
    assert check_png(data) == ImageHeader("png", 2, 3, 1)
    with Image.open(io.BytesIO(data)) as image:
        assert (image.mode, image.tobytes()) == ("L", PIXELS)
    wide = grey_png(b"\1\0\0\2", 2, 1, 16)
    with Image.open(io.BytesIO(wide)) as image:
        assert [image.getpixel((x, 0)) for x in (0, 1)] == [256, 2]


RGB = Image.frombytes("RGB", (3, 2), bytes((0, 0, 0, 9, 8, 7, 0, 0, 0) * 2))
TABLE = {(0, 0, 0): 0, (9, 8, 7): 300}


def test_colours_become_ids() -> None:
    """Of RGB masks, with or without transparency, and of palettes."""
    assert written(encoded(RGB), 16, TABLE) == grey_png(b"\0\0\1\x2c\0\0" * 2, 3, 2, 16)
    small = {(0, 0, 0): 4, (9, 8, 7): 5}
    expected = grey_png(b"\4\5\4\4\5\4", 3, 2)
    assert written(encoded(RGB), 8, small) == expected
    assert written(encoded(RGB.convert("RGBA")), 8, small) == expected
    table = {(9, 9, 9): 3, (200, 0, 0): 2, (0, 200, 0): 1, (0, 0, 200): 0}
    assert written(palette(), 8, table) == grey_png(b"\3\2\1\0\2\3", 3, 2)


@pytest.mark.parametrize(
    ("mask", "options", "reason", "said"),
    [
        (encoded(RGB, "JPEG"), {}, Reason.BAD_MASK, "a jpeg mask; save masks as PNG"),
        (
            encoded(Image.new("L", (3, 2)), "TIFF", compression="jpeg"),
            *({}, Reason.BAD_MASK, "a lossy TIFF"),
        ),
        (
            encoded(RGB, "TIFF"),
            *({}, Reason.BAD_MASK, "pixels of the kind RGB; save masks as grey PNG"),
        ),
        (encoded(RGB), {}, Reason.BAD_MASK, "an RGB mask: its colours are not class ids"),
        (GREY_16, {}, Reason.BAD_MASK, "16 bits a pixel, while the first mask has 8"),
        (GREY_16, {"colours": TABLE}, Reason.BAD_MASK, "16 bits a pixel, which are not colours"),
        (
            encoded(RGB),
            {"colours": {(0, 0, 0): 0}},
            Reason.BAD_MASK,
            "the colour 9,8,7 at column 1, row 0 is not in --mask_colors",
        ),
        (GREY[:-5], {}, Reason.CORRUPT_IMAGE, "cut short"),
        (b"no image", {}, Reason.NOT_AN_IMAGE, ""),
        (grey_png(b"\0" * 4, 2, 2), {}, Reason.SIZE_MISMATCH, "a mask of 2 x 2 pixels"),
        (
            grey_png(b"\0" * 6, 2, 3),
            {},
            Reason.SIZE_MISMATCH,
            "a mask of 2 x 3 pixels, the image has 3 x 2; take",
        ),
    ],
)
def test_what_does_not_say_ids_is_refused(
    mask: bytes, options: dict[str, object], reason: Reason, said: str
) -> None:
    """With the reason."""
    error = refusal(mask, **options)
    assert error.reason is reason
    assert said in str(error)


def test_the_first_bytes_tell_colours_and_depth() -> None:
    """64 of them are enough."""
    assert masks.is_coloured(encoded(RGB)[:64])
    assert not masks.is_coloured(palette()[:64])
    assert masks.png_kind(GREY_16[:64]) == (16, 0)
    assert masks.png_kind(b"GIF89a") == (0, -1)
    assert masks.grey_values(GREY) == {0, 1, 2, 3}
    assert masks.grey_values(palette()) == set()


SEGMENTS = [(1, 17, 0), (0x020100, 92, 0), (5, 3, 1)]


def segments(*ids: int) -> bytes:
    """COCO's panoptic PNG of a row of segments."""
    data = b"".join(i.to_bytes(3, "little") for i in ids)
    return encoded(Image.frombytes("RGB", (len(ids), 1), data))


def test_panoptic_masks_of_categories_and_instances() -> None:
    """Segments count from 1; crowds and pixels of no segment are 0 in both."""
    header = ImageHeader("jpeg", 1, 4, 3)
    found = masks.panoptic_pngs(segments(0, 1, 0x020100, 5), SEGMENTS, header, check=decode_fully)
    assert found == (grey_png(b"\0\x11\x5c\0", 4, 1), grey_png(b"\0\1\2\0", 4, 1))


@pytest.mark.parametrize(
    ("mask", "described", "said"),
    [
        (segments(1, 7), SEGMENTS, "pixels of a segment 7"),
        (segments(1, 1), [(1, 256, 0)], "segment 1 has the category 256"),
        (segments(1, 1), [(1, -1, 0)], "segment 1 has the category -1"),
        (segments(1, 1), [*SEGMENTS, (1 << 24, 1, 0)], "segment 4 has the id 16777216"),
        (segments(1, 1), [(-1, 1, 0)], "segment 1 has the id -1"),
        (grey_png(b"\0\0", 2, 1), SEGMENTS, "not an RGB PNG"),
    ],
)
def test_panoptic_masks_must_fit_their_annotation(
    mask: bytes, described: list[tuple[int, int, int]], said: str
) -> None:
    """Nothing is guessed."""
    with pytest.raises(BadImageError) as caught:
        masks.panoptic_pngs(mask, described, ImageHeader("jpeg", 1, 2, 3), check=decode_fully)
    assert said in str(caught.value)
