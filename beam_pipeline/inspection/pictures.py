"""Images of examples, and how a terminal shows them: with half blocks.

A half block, U+2580, shows two pixels: the upper one in the foreground's colour, the lower one in the
background's. It needs nothing of a terminal but colours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from beam_pipeline.core.images.header import image_extension
from beam_pipeline.core.records.example_view import NO_VALUES, Features

if TYPE_CHECKING:
    from PIL import Image

COLUMNS = 24
"""The width of a picture in characters, which are about twice as high as wide."""

_RESET = "\x1b[0m"
_CUBE = (0, 95, 135, 175, 215, 255)
"""The levels of red, green and blue among a terminal's 256 colours."""
_IMAGE_KEYS = ("image/encoded", "image", "image_raw", "jpg", "png", "jpeg")

Colour = Callable[[int, int, int], str]
"""(red, green, blue) -> the colour in a control sequence, after `38;` or `48;`."""


def image_of(features: Features) -> tuple[str, bytes] | None:
    """(feature, bytes) of an example's image file, in a usual feature or in the first that contains one."""
    usual = [key for key in _IMAGE_KEYS if key in features]
    for key in dict.fromkeys((*usual, *features)):
        kind, values = features[key]
        if kind == "bytes" and len(values) == 1 and image_extension(values[0]):
            return key, values[0]
    return None


def bare_pixels_of(features: Features) -> tuple[str, bytes, int, int] | None:
    """(feature, bytes, width, height) of an image that is stored as bare RGB pixels."""
    values = [
        features.get(f"image/{name}", NO_VALUES).values for name in ("encoded", "height", "width")
    ]
    if [len(items) for items in values] != [1, 1, 1]:
        return None
    data, height, width = (items[0] for items in values)
    if not (isinstance(data, bytes) and isinstance(height, int) and isinstance(width, int)):
        return None
    is_bare = min(height, width) > 0 and len(data) == 3 * height * width
    return ("image/encoded", data, width, height) if is_bare else None


def _picture_of(features: Features) -> Image.Image | None:
    """The image of an example in RGB, as large as a picture; None if it cannot be decoded."""
    if pixels := bare_pixels_of(features):
        from PIL import Image  # an example need not have an image

        _, data, width, height = pixels
        image = Image.frombytes("RGB", (width, height), data)
        image.thumbnail((COLUMNS, COLUMNS))
        return image
    if encoded := image_of(features):
        from beam_pipeline.core.report.thumbnails import small_image

        return small_image(encoded[1], COLUMNS)
    return None


def beside(features: Features, lines: list[str], colour: Colour) -> list[str]:
    """Lines with the picture of an example at their left; the same lines without an image."""
    image = _picture_of(features)
    if image is None:
        return lines
    space = " " * (COLUMNS - image.width)
    rows = [f"{_line(image, row, colour)}{space}" for row in range(-(-image.height // 2))]
    rows += [" " * COLUMNS] * (len(lines) - len(rows))
    texts = lines + [""] * (len(rows) - len(lines))
    return [f"{row}  {text}".rstrip(" ") for row, text in zip(rows, texts, strict=True)]


def _line(image: Image.Image, row: int, colour: Colour) -> str:
    """Two rows of pixels as one of characters."""
    parts = []
    for x in range(image.width):
        upper: Any = image.getpixel((x, 2 * row))
        cell = f"\x1b[38;{colour(*upper)}"
        if 2 * row + 1 < image.height:
            lower: Any = image.getpixel((x, 2 * row + 1))
            cell += f";48;{colour(*lower)}"
        parts.append(f"{cell}m\N{UPPER HALF BLOCK}")
    return "".join(parts) + _RESET


def true_colour(red: int, green: int, blue: int) -> str:
    """A colour of 24 bits."""
    return f"2;{red};{green};{blue}"


def cube_colour(red: int, green: int, blue: int) -> str:
    """The nearest of a terminal's 256 colours."""
    red, green, blue = (
        min(range(6), key=lambda i: abs(_CUBE[i] - value)) for value in (red, green, blue)
    )
    return f"5;{16 + 36 * red + 6 * green + blue}"


def colour_of(environment: Mapping[str, str], encoding: str) -> Colour | None:
    """The colours that a terminal understands; None if it shows none, or no half blocks.

    Args:
      environment: variables; terminals describe themselves in them.
      encoding: of standard output.
    """
    if environment.get("NO_COLOR") or environment.get("TERM", "") in ("", "dumb"):
        return None
    if encoding.lower().replace("-", "") != "utf8":
        return None
    is_true = environment.get("COLORTERM", "").lower() in ("truecolor", "24bit")
    return true_colour if is_true else cube_colour
