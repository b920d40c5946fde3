"""Images in a terminal: by the protocol of kitty, that of iTerm2 or sixels where it is understood.

Elsewhere they are drawn with half blocks.

A half block, U+2580, shows two pixels: the upper one in the foreground's colour, the lower one in the
background's. It needs nothing of a terminal but colours.
"""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from beam_pipeline.core.images.header import BadImageError, bomb
from beam_pipeline.core.inspection.examples import Features
from beam_pipeline.core.inspection.values import bare_pixels_of, image_of
from beam_pipeline.inspection.sixel import sixels, understands_sixels

if TYPE_CHECKING:
    from PIL import Image

COLUMNS, ROWS = 24, 12
"""The size of a picture in characters, which are about twice as high as wide."""

_RESET = "\x1b[0m"
_CHUNK = 4096  # characters of a kitty command
_PIXELS_OF_A_CELL = (10, 20)  # of a picture that is sent as an image file
_MOST_PIXELS = 50_000_000
"""Of an image that is decoded; a JPEG is scaled down while it is decoded."""
_CUBE = (0, 95, 135, 175, 215, 255)
"""The levels of red, green and blue among a terminal's 256 colours."""


def thumbnail(features: Features, size: tuple[int, int]) -> Image.Image | None:
    """The image of an example in RGB, scaled down to a size; None if there is none that can be decoded.

    Args:
      features: the example's.
      size: the greatest width and height.
    """
    from PIL import Image  # an example need not have an image

    if pixels := bare_pixels_of(features):
        _, data, width, height = pixels
        image = Image.frombytes("RGB", (width, height), data)
        image.thumbnail(size)
        return image
    found = image_of(features)
    if not found:
        return None
    from beam_pipeline.core.images.pillow_codec import open_image
    from beam_pipeline.core.images.pillow_header import PARSER_ERRORS

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what is odd about a file: it is only shown
            return _scaled(open_image(found[1]).image, size)
    except (*PARSER_ERRORS, BadImageError, Image.DecompressionBombError):
        return None


def _scaled(image: Image.Image, size: tuple[int, int]) -> Image.Image:
    """Decodes an image to RGB of at most a size; what is transparent becomes grey."""
    from PIL import Image

    image.draft("RGB", size)
    if image.width * image.height > _MOST_PIXELS:
        raise bomb(image.height, image.width)
    image.load()
    if image.mode in ("I", "I;16", "F"):
        image = image.point(lambda value: value / 256).convert("L")
    image = image.convert("RGBA" if image.has_transparency_data else "RGB")
    image.thumbnail(size)
    if image.mode == "RGB":
        return image
    ground = Image.new("RGB", image.size, (128, 128, 128))
    ground.paste(image, mask=image.getchannel("A"))
    return ground


class Painter:
    """Draws pictures of `COLUMNS` x `ROWS` characters.

    Args:
      beginning: (image) -> what is printed where the picture begins, for a protocol that sends files.
      line: (image, row) -> a row of the picture in characters.
      size: the greatest width and height of an image in pixels.
    """

    def __init__(
        self,
        *,
        beginning: Callable[[Image.Image], str] | None = None,
        line: Callable[[Image.Image, int], str] | None = None,
        size: tuple[int, int],
    ) -> None:
        self._beginning = beginning
        self._line = line
        self._size = size

    def beside(self, features: Features, lines: list[str]) -> list[str]:
        """Lines with the picture of an example at their left; the same lines if there is no image."""
        image = thumbnail(features, self._size)
        if image is None:
            return lines
        if self._beginning:
            # Empty lines make room, in case that the screen ends here; the cursor then goes up again.
            start = "\n" * ROWS + f"\x1b[{ROWS}A\x1b7" + self._beginning(image) + "\x1b8"
            moved = [f"\x1b[{COLUMNS + 2}C{line}" for line in lines]
            moved += [""] * (ROWS - len(lines))
            return [start + moved[0], *moved[1:]]
        assert self._line
        rows = [self._line(image, row) for row in range(-(-image.height // 2))]
        space = " " * (COLUMNS - image.width)
        rows = [f"{row}{space}" for row in rows] + [" " * COLUMNS] * (len(lines) - len(rows))
        texts = lines + [""] * (len(rows) - len(lines))
        return [f"{row}  {text}".rstrip(" ") for row, text in zip(rows, texts, strict=True)]


def half_blocks(colour: Callable[[int, int, int], str]) -> Painter:
    """Draws with half blocks.

    Args:
      colour: (red, green, blue) -> the colour in a control sequence, after `38;` or `48;`.
    """

    def line(image: Image.Image, row: int) -> str:
        parts = []
        for x in range(image.width):
            upper = image.getpixel((x, 2 * row))
            cell = f"\x1b[38;{colour(*upper)}"  # type: ignore[misc]
            if 2 * row + 1 < image.height:
                lower = image.getpixel((x, 2 * row + 1))
                cell += f";48;{colour(*lower)}"  # type: ignore[misc]
            parts.append(f"{cell}m\N{UPPER HALF BLOCK}")
        return "".join(parts) + _RESET

    return Painter(line=line, size=(COLUMNS, 2 * ROWS))


def true_colour(red: int, green: int, blue: int) -> str:
    """A colour of 24 bits."""
    return f"2;{red};{green};{blue}"


def cube_colour(red: int, green: int, blue: int) -> str:
    """The nearest of a terminal's 256 colours."""
    red, green, blue = (
        min(range(6), key=lambda i: abs(_CUBE[i] - value)) for value in (red, green, blue)
    )
    return f"5;{16 + 36 * red + 6 * green + blue}"


def _png(image: Image.Image) -> str:
    out = io.BytesIO()
    image.save(out, "PNG")
    return base64.b64encode(out.getvalue()).decode()


def _shape(image: Image.Image) -> tuple[int, int]:
    """The columns and rows that an image takes at most, in its own shape."""
    scale = min(COLUMNS / image.width, 2 * ROWS / image.height)
    columns, rows = (
        image.width * scale,
        image.height * scale / 2,
    )  # a character is twice as high as wide
    return max(1, round(columns)), max(1, round(rows))


def kitty(image: Image.Image) -> str:
    """An image by the graphics protocol of kitty, which leaves the cursor where it is."""
    columns, rows = _shape(image)
    data = _png(image)
    chunks = [data[at : at + _CHUNK] for at in range(0, len(data), _CHUNK)]
    heads = [f"a=T,f=100,q=2,C=1,c={columns},r={rows},", *[""] * (len(chunks) - 1)]
    more = [1] * (len(chunks) - 1) + [0]
    return "".join(
        f"\x1b_G{head}m={m};{chunk}\x1b\\"
        for head, m, chunk in zip(heads, more, chunks, strict=True)
    )


def _enlarged(image: Image.Image, size: tuple[int, int]) -> Image.Image:
    """An image whose pixels are drawn as squares, as large as fit into a size."""
    factor = min(size[0] // image.width, size[1] // image.height)
    return image.resize((factor * image.width, factor * image.height), 0) if factor > 1 else image


def iterm(image: Image.Image) -> str:
    """An image by the protocol of iTerm2."""
    options = f"inline=1;width={COLUMNS};height={ROWS};preserveAspectRatio=1"
    return f"\x1b]1337;File={options}:{_png(image)}\x07"


def painter_for(
    environment: Mapping[str, str],
    encoding: str,
    cell: Callable[[], tuple[int, int]] = lambda: _PIXELS_OF_A_CELL,
) -> Painter | None:
    """The painter that a terminal understands; None if it shows no colours.

    Args:
      environment: variables, by which terminals tell what they are.
      encoding: of standard output.
      cell: gives the width and height of a character in pixels.
    """
    term, program = environment.get("TERM", ""), environment.get("TERM_PROGRAM", "")
    if environment.get("NO_COLOR") or term in ("", "dumb"):
        return None
    size = COLUMNS * _PIXELS_OF_A_CELL[0], ROWS * _PIXELS_OF_A_CELL[1]
    inside = "TMUX" in environment or term.startswith(
        ("screen", "tmux")
    )  # keep files to themselves
    if not inside and (term in ("xterm-kitty", "xterm-ghostty") or program == "ghostty"):
        return Painter(beginning=kitty, size=size)
    if not inside and program in ("iTerm.app", "WezTerm"):
        return Painter(beginning=iterm, size=size)
    if not inside and understands_sixels(term):
        width, height = cell()
        size = COLUMNS * width, ROWS * height
        return Painter(beginning=lambda image: sixels(_enlarged(image, size)), size=size)
    if encoding.lower().replace("-", "") != "utf8":
        return None
    is_true = environment.get("COLORTERM", "").lower() in ("truecolor", "24bit")
    return half_blocks(true_colour if is_true else cube_colour)
