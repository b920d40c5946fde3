"""Masks: shapes of objects drawn as PNGs, and files whose pixels are ids.

An object's shape is a JSON text. It is a list of polygons, each x, y, x, y, ..., or COCO's run
lengths: how many pixels are outside, inside, outside, ..., column by column from the upper left
corner, as numbers or in COCO's compressed form. The same mask of 3 x 2 pixels, its right two columns
filled:

    [[1, 0, 3, 0, 3, 2, 1, 2]]
    {"size": [2, 3], "counts": [2, 4]}
    {"size": [2, 3], "counts": "24"}

A pixel belongs to a polygon if its centre is inside, by the even-odd rule. Source of the run
lengths: pycocotools, maskApi.c. TensorFlow's Object Detection API and Model Garden read such PNGs as
image/object/mask.

In a mask file, a pixel is an id.
TensorFlow reads ids from a grey PNG of 8 or 16 bits, so such a file is kept as it is. From others it
would read colours, or other numbers: it turns a palette into RGB and 1 of a single bit into 255. Of
these a grey PNG of the same ids is written, which only depends on the file (and on Python's zlib):

| a mask | ids |
|---|---|
| grey PNG of 8 or 16 bits | the file itself |
| PNG with a palette; GIF, BMP or TIFF of one channel | indexes of the palette, or grey values |
| grey PNG of 1, 2 or 4 bits, or with an alpha channel | the grey values as stored: 1, not 255 |
| any of these, or RGB, with a map of colours | the id of each colour |
| RGB without a map; JPEG | refused: colours are not ids, and a lossy mask has others between them |
"""

from __future__ import annotations

import io
import json
import math
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from beam_pipeline.core.dead_letters import Reason
from beam_pipeline.core.images import png, preparation
from beam_pipeline.core.images.geometry import Affine
from beam_pipeline.core.images.header import BadImageError, ImageHeader
from beam_pipeline.core.references import Size
from beam_pipeline.core.typed_json import is_finite, is_integer

if TYPE_CHECKING:
    from PIL import Image

_LEAST_POINTS = 3
_RUNS = re.compile(rb"\x00+|\x01+")


class BadShapeError(ValueError):
    """A shape is neither polygons nor run lengths."""


def check_shape(shape: Any) -> None:
    """Makes sure that a shape, as JSON has it, can be drawn on an image of its size.

    Raises:
      BadShapeError: tells what it is instead.
    """
    if isinstance(shape, dict):
        size, counts = shape.get("size"), shape.get("counts")
        if not isinstance(size, list) or len(size) != 2 or not all(map(is_integer, size)):
            raise BadShapeError("run lengths without a size [height, width]")
        if min(size) < 0:
            raise BadShapeError(f"run lengths of {size[0]} x {size[1]} pixels")
        if sum(_counts(counts)) != size[0] * size[1]:
            raise BadShapeError(f"run lengths that do not add up to {size[0]} x {size[1]} pixels")
        return
    if not isinstance(shape, list) or not shape:
        raise BadShapeError("neither polygons nor run lengths")
    for polygon in shape:
        if not isinstance(polygon, list) or not all(map(is_finite, polygon)):
            raise BadShapeError("a polygon that is not a list of numbers")
        if len(polygon) % 2 or len(polygon) < 2 * _LEAST_POINTS:
            raise BadShapeError(
                f"a polygon of {len(polygon)} numbers, expected three points or more"
            )


def mask_png(shape: str, header: ImageHeader, *, pixels: bool) -> bytes:
    """Draws one object as a grey PNG of 8 bits.

    Args:
      shape: JSON text of a shape that `check_shape` accepts.
      header: of the image.
      pixels: whether polygons are in pixels, else fractions of the image.

    Raises:
      BadImageError: run lengths are of an image of another size.
    """
    from PIL import Image  # few jobs have masks

    width, height = header.size
    decoded = json.loads(shape)
    if isinstance(decoded, dict):
        image = _from_runs(decoded, header.size)
    else:
        mask = bytearray(width * height)
        scale_x, scale_y = (1, 1) if pixels else (width, height)
        for polygon in decoded:
            xs, ys = ([v * scale_x for v in polygon[::2]], [v * scale_y for v in polygon[1::2]])
            _fill(mask, [*zip(xs, ys, strict=True)], width, height)
        image = Image.frombytes("L", (width, height), bytes(mask))
    return preparation.png_of(image)


def moved_shape(shape: str, *, outlines: Affine, affine: Affine, size: Size, to_size: Size) -> str:
    """Moves an object's shape with its image.

    Args:
      shape: JSON text of a shape that `check_shape` accepts.
      outlines: the map for the points of polygons, in their own unit.
      affine: the map for pixels.
      size: (width, height) of the image before.
      to_size: (width, height) afterwards.

    Raises:
      BadImageError: run lengths are of an image of another size.
    """
    decoded = json.loads(shape)
    if isinstance(decoded, list):
        points = [map(outlines.point, p[::2], p[1::2]) for p in decoded]
        return json.dumps([[value for point in polygon for value in point] for polygon in points])
    from PIL import Image

    mask = moved_mask(_from_runs(decoded, size), affine, to_size)
    by_column = mask.transpose(Image.Transpose.TRANSPOSE).tobytes()
    runs = [len(run) for run in _RUNS.findall(by_column)]
    counts = [0, *runs] if by_column[:1] == b"\1" else runs
    return json.dumps({"size": [to_size[1], to_size[0]], "counts": counts})


def moved_mask(mask: Image.Image, affine: Affine, size: Size) -> Image.Image:
    """Moves a mask with its image: each pixel gets the value of the nearest original one, or 0.

    Args:
      mask: of any mode that contains one number a pixel.
      affine: the map from its places, in pixels, to the result's.
      size: (width, height) of the result.
    """
    from PIL import Image

    return mask.transform(
        size, Image.Transform.AFFINE, tuple(affine.inverse()), Image.Resampling.NEAREST
    )


def moved_png(mask: bytes, affine: Affine, size: Size) -> bytes:
    """Moves a mask that is a grey PNG of 8 or 16 bits, as `moved_mask` does."""
    from PIL import Image

    with Image.open(io.BytesIO(mask)) as opened:
        moved = moved_mask(opened, affine, size)
    moved.info = {}
    return preparation.png_of(moved)


def _from_runs(shape: Mapping[str, Any], size: Size) -> Image.Image:
    """The mask of run lengths. Raises BadImageError if the image is not of their size."""
    from PIL import Image

    height, width = shape["size"]
    _check_size((width, height), size)
    runs = enumerate(_counts(shape["counts"]))
    pixels = b"".join(bytes((number % 2,)) * count for number, count in runs)
    return Image.frombytes("L", (height, width), pixels).transpose(Image.Transpose.TRANSPOSE)


def _fill(mask: bytearray, points: Sequence[tuple[float, float]], width: int, height: int) -> None:
    """Sets the pixels of a polygon, row by row: between each two crossings of a row's centre line."""
    crossings: dict[int, list[float]] = {}
    for (x1, y1), (x2, y2) in zip(points, (*points[1:], points[0]), strict=True):
        if y1 > y2:
            x1, y1, x2, y2 = x2, y2, x1, y1
        for row in range(max(0, math.ceil(y1 - 0.5)), min(height, math.ceil(y2 - 0.5))):
            crossings.setdefault(row, []).append(x1 + (row + 0.5 - y1) / (y2 - y1) * (x2 - x1))
    for row, columns in crossings.items():
        columns.sort()
        for start, end in zip(columns[::2], columns[1::2], strict=True):
            first = min(width, max(0, math.ceil(start - 0.5)))
            last = min(width, max(0, math.ceil(end - 0.5)))
            mask[row * width + first : row * width + last] = b"\1" * (last - first)


def _counts(counts: Any) -> list[int]:
    """Run lengths as numbers. Raises BadShapeError."""
    if isinstance(counts, str):
        counts = list(_decompressed(counts))
    if not isinstance(counts, list) or not all(is_integer(n) and n >= 0 for n in counts):
        raise BadShapeError("run lengths that are neither whole numbers nor COCO's compressed form")
    return counts


def _decompressed(text: str) -> Iterator[int]:
    """Run lengths in COCO's text form: 5 bits a character from "0" on, the sixth states that more follow.

    From the fourth on, a number is the difference to the one two places before it.
    """
    before: list[int] = []
    number = shift = 0
    for character in text:
        bits = ord(character) - 48
        if not 0 <= bits < 64:
            raise BadShapeError(f"{character!r} in run lengths, expected COCO's compressed form")
        number |= (bits & 31) << shift
        shift += 5
        if bits & 32:
            continue
        if bits & 16:
            number -= 1 << shift
        if len(before) > 2:
            number += before[-2]
        before.append(number)
        yield number
        number = shift = 0
    if shift:
        raise BadShapeError("run lengths that are cut short")


Colour = tuple[int, int, int]


MAX_ID = (1 << 16) - 1
_MAX_UINT8 = 255
_GREY = 0  # a PNG's colour type
_GREY_STEP = {1: 255, 2: 85, 4: 17}  # Pillow's value for 1, by bits
_LOSSLESS = frozenset({"png", "gif", "bmp", "tiff"})
_LOSSY = frozenset({"jpeg", "tiff_jpeg", "webp"})  # compressions of a TIFF
_DEPTH_AT, _COLOUR_TYPE_AT = len(png.START) + 8, len(png.START) + 9


def png_kind(head: bytes) -> tuple[int, int]:
    """(bits a sample, colour type) of a file that begins as a PNG does; (0, -1) for any other."""
    if not head.startswith(png.START) or len(head) <= _COLOUR_TYPE_AT:
        return 0, -1
    return head[_DEPTH_AT], head[_COLOUR_TYPE_AT]


def is_deep_grey(head: bytes) -> bool:
    """True for a PNG of 16 bits and one channel, such as of depths."""
    return png_kind(head) == (16, _GREY)


def is_coloured(head: bytes) -> bool:
    """True for an RGB PNG, with or without transparency."""
    return png_kind(head)[1] in (2, 6)


def grey_values(mask: bytes) -> set[int]:
    """The values in a grey PNG of 8 bits; none in any other file. Raises BadImageError."""
    if png_kind(mask) != (8, _GREY):
        return set()
    return set(_opened(mask).tobytes())


def segmentation_png(
    mask: bytes,
    header: ImageHeader,
    bits: int,
    check: preparation.ImageCheck,
    colours: Mapping[Colour, int] | None = None,
) -> bytes:
    """The mask of an image as a grey PNG of ids.

    Args:
      mask: the file.
      header: of the image.
      bits: 8 or 16 a pixel, as all masks of a data set have them.
      check: checks an image file.
      colours: the id of each colour; None where pixels are ids.

    Raises:
      BadImageError: it is not an image, of another size, or does not tell ids; the message tells which.
    """
    # Others are decoded anyway; a full check refuses palettes that images may not have.
    any_format = partial(preparation.check_any_format, preparation.read_header)
    own = (check if mask.startswith(png.MAGIC) else any_format)(mask)
    if own.format not in _LOSSLESS:
        raise _bad(f"a {own.format} mask; save masks as PNG, from what they were drawn with")
    _check_size(own.size, header.size)
    if colours is not None:
        return _of_colours(mask, own, colours, bits)
    depth, colour_type = png_kind(mask)
    if is_coloured(mask):
        raise _bad(
            "an RGB mask: its colours are not class ids; give the id of each with --mask_colors, or "
            "save masks with one channel"
        )
    if colour_type == _GREY and depth == bits:
        return mask
    if depth == 16 and bits == 8:
        raise _bad(
            "16 bits a pixel, while the first mask has 8; save all masks with as many, as one type "
            "of tensors can contain them"
        )
    ids = _ids(mask, depth if colour_type in (_GREY, 4) else 0)
    pixels = bytearray(len(ids) * bits // 8)  # the higher of two bytes, which is first, stays 0
    pixels[bits // 8 - 1 :: bits // 8] = ids
    return png.grey_png(bytes(pixels), own.width, own.height, bits)


def _check_size(size: Size, of_image: Size) -> None:
    """Makes sure that a mask has its image's size, pixel for pixel. Raises BadImageError."""
    if size != of_image:
        raise BadImageError(
            Reason.SIZE_MISMATCH,
            f"a mask of {size[0]} x {size[1]} pixels, the image has {of_image[0]} x {of_image[1]}; take the "
            "image that was labelled, upright if the mask is, or scale the mask",
        )


def panoptic_pngs(
    mask: bytes,
    segments: Sequence[Sequence[int]],
    header: ImageHeader,
    *,
    check: preparation.ImageCheck,
) -> tuple[bytes, bytes]:
    """The two masks in a panoptic PNG: the category of each pixel, and the segment's number.

    Args:
      mask: a PNG whose pixels are segment ids, R + 256 G + 65536 B.
      segments: (segment id, category id, whether it is a crowd) of each, in order.
      header: of the image.
      check: checks an image file.

    Returns: grey PNGs of 8 bits. The number counts from 1 in the order of the segments. Pixels of no
      segment, and pixels of crowds, are 0 in both.

    Raises:
      BadImageError: it is no RGB PNG of the image's size, has a segment that is not described, or
        numbers that its bits do not contain.
    """
    own = check(mask)
    _check_size(own.size, header.size)
    if not is_coloured(mask):
        raise _bad("not an RGB PNG, as COCO's panoptic masks are")
    ids = {0: (0, 0)}
    for number, (segment, category, crowd) in enumerate(segments, 1):
        if category < 0 or max(number, category) > _MAX_UINT8:
            raise _bad(
                f"segment {number} has the category {category}; 8 bits store numbers from 0 to 255"
            )
        if not 0 <= segment < 1 << 24:
            raise _bad(
                f"segment {number} has the id {segment}, expected 0 to 16777215, as a pixel has 24 bits; correct the "
                "annotation"
            )
        ids[segment] = (0, 0) if crowd else (category, number)

    def fault(segment: int, _: int) -> str:
        return f"pixels of a segment {segment} that its annotation does not describe"

    first, second = _ids_of_colours(mask, ids, fault).T
    return _grey(first, own), _grey(second, own)


def _of_colours(mask: bytes, own: ImageHeader, colours: Mapping[Colour, int], bits: int) -> bytes:
    def fault(colour: int, pixel: int) -> str:
        row, column = divmod(pixel, own.width)
        return (
            f"the colour {','.join(map(str, colour.to_bytes(3, 'little')))} at column {column}, row {row} is not in "
            "--mask_colors; add it, or correct the mask"
        )

    ids = {int.from_bytes(bytes(colour), "little"): i for colour, i in colours.items()}
    return _grey(_ids_of_colours(mask, ids, fault), own, bits)


def _ids_of_colours(mask: bytes, ids: Mapping[int, Any], fault: Callable[[int, int], str]) -> Any:
    """An array of the ids of the pixels.

    Args:
      mask: the file.
      ids: of each colour, which is R + 256 G + 65536 B.
      fault: (colour, number of the pixel) -> the message for a colour without an id.
    """
    import numpy as np

    image = _opened(mask)
    if image.mode.startswith("I"):
        raise _bad("16 bits a pixel, which are not colours of --mask_colors")
    pixels = np.frombuffer(image.convert("RGB").convert("RGBA").tobytes(), "<u4") & 0xFFFFFF
    colours = np.array(sorted(ids), np.uint32)
    places = np.searchsorted(colours, pixels).clip(max=len(colours) - 1)
    unknown = np.flatnonzero(colours[places] != pixels)
    if unknown.size:
        raise _bad(fault(int(pixels[unknown[0]]), int(unknown[0])))
    return np.array([ids[colour] for colour in colours.tolist()], np.uint16)[places]


def _grey(ids: Any, own: ImageHeader, bits: int = 8) -> bytes:
    """A grey PNG of an array of ids, of the size of the mask."""
    return png.grey_png(ids.astype(f">u{bits // 8}").tobytes(), own.width, own.height, bits)


def _ids(mask: bytes, grey_bits: int) -> bytes:
    """The pixels of a mask of one channel, as stored; `grey_bits` is 0 where there is a palette."""
    image = _opened(mask)
    if image.mode == "LA":
        image = image.getchannel("L")
    if image.mode == "1":
        image, grey_bits = image.convert("L"), 1
    if image.mode not in ("P", "L") or grey_bits > 8:
        raise _bad(f"pixels of the kind {image.mode}; save masks as grey PNG of 8 bits")
    step = _GREY_STEP.get(grey_bits, 1)
    # Without NumPy, which is slow to import and which no other mask of ids needs.
    return image.tobytes().translate(bytes(value // step for value in range(256)))


def _opened(mask: bytes) -> Image.Image:
    from PIL import Image  # a mask that is kept needs no Pillow

    try:
        image = Image.open(io.BytesIO(mask))
        image.load()
    except (OSError, SyntaxError, ValueError, EOFError, zlib.error) as error:
        raise BadImageError(Reason.CORRUPT_IMAGE, f"it cannot be decoded: {error}") from error
    if image.info.get("compression") in _LOSSY:
        raise _bad("a lossy TIFF, whose ids are mixed at every edge; save masks as PNG")
    return image


def _bad(fault: str) -> BadImageError:
    return BadImageError(Reason.BAD_MASK, fault)
