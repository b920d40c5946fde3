"""Pictures in a terminal: half blocks, and image files by two protocols."""

from __future__ import annotations

import base64
import io
import re

import pytest
from PIL import Image

from beam_pipeline.core.inspection.examples import FeatureList, Features
from beam_pipeline.inspection.pictures import (
    COLUMNS,
    ROWS,
    Painter,
    cube_colour,
    half_blocks,
    painter_for,
    thumbnail,
    true_colour,
)
from tests.pictures import picture


def example(data: bytes, **more: list[int]) -> Features:
    return {
        "image/encoded": FeatureList("bytes", [data]),
        **{f"image/{key}": FeatureList("int64", values) for key, values in more.items()},
    }


def pixels(*rows: list[tuple[int, int, int]]) -> Features:
    """An example of bare pixels."""
    data = b"".join(bytes(pixel) for row in rows for pixel in row)
    return example(data, height=[len(rows)], width=[len(rows[0])])


def test_half_blocks_show_two_pixels_each() -> None:
    """The upper one in the foreground's colour, the lower one in the background's."""
    red, blue, grey = (255, 0, 0), (0, 0, 255), (95, 95, 95)
    lines = half_blocks(true_colour).beside(pixels([red, blue], [blue, red], [grey, grey]), ["a"])
    block = "\N{UPPER HALF BLOCK}"
    space = " " * (COLUMNS - 2)
    assert lines == [
        f"\x1b[38;2;255;0;0;48;2;0;0;255m{block}\x1b[38;2;0;0;255;48;2;255;0;0m{block}\x1b[0m{space}  a",
        f"\x1b[38;2;95;95;95m{block}\x1b[38;2;95;95;95m{block}\x1b[0m",
    ]
    (line,) = half_blocks(cube_colour).beside(pixels([red], [grey]), ["a"])
    assert line.startswith(f"\x1b[38;5;196;48;5;59m{block}\x1b[0m")


def test_text_beside_a_small_picture_keeps_its_column() -> None:
    """Where it has more lines than the picture."""
    lines = half_blocks(true_colour).beside(pixels([(0, 0, 0)]), ["a", "b"])
    assert lines[1] == " " * COLUMNS + "  b"


@pytest.mark.parametrize("file_format", ["JPEG", "PNG", "GIF", "BMP", "WEBP", "TIFF"])
@pytest.mark.parametrize("size", [(200, 10), (10, 200), (300, 300), (1, 1)])
def test_images_are_scaled_into_the_picture(file_format: str, size: tuple[int, int]) -> None:
    """In RGB and in their own shape."""
    found = thumbnail(example(picture(3, file_format=file_format, size=size)), (24, 24))
    assert found
    assert found.mode == "RGB"
    assert max(found.size) == min(24, max(size))


@pytest.mark.parametrize("mode", ["L", "RGBA", "LA", "P", "1", "I;16"])
def test_every_kind_of_pixel_is_shown(mode: str) -> None:
    """Transparent ones on grey."""
    out = io.BytesIO()
    Image.new(mode, (30, 20), 0).save(out, "PNG")
    found = thumbnail(example(out.getvalue()), (24, 24))
    assert found
    assert (found.mode, found.size) == ("RGB", (24, 16))
    expected = (128, 128, 128) if mode in ("RGBA", "LA") else (0, 0, 0)
    assert found.getpixel((0, 0)) == expected


def test_what_cannot_be_decoded_has_no_picture() -> None:
    """Half a file, a bomb, no image: the text is shown alone."""
    png = picture(file_format="PNG", size=(50, 50))
    bomb = png[:16] + (60_000).to_bytes(4, "big") * 2 + png[24:]
    for data in (png[: len(png) // 2], bomb, b"cat", b""):
        assert thumbnail(example(data), (24, 24)) is None
        assert half_blocks(true_colour).beside(example(data), ["a"]) == ["a"]


def test_kitty_gets_a_png_in_chunks() -> None:
    """Put back together, it is the picture; the text stands beside it."""
    out = io.BytesIO()
    Image.effect_noise((300, 300), 90).convert("RGB").save(out, "PNG")
    first, *others = _painter(TERM="xterm-kitty").beside(example(out.getvalue()), ["a", "b"])
    commands = re.findall(r"\x1b_G([^;]*);([^\x1b]*)\x1b\\", first)
    assert commands[0][0] == f"a=T,f=100,q=2,C=1,c={COLUMNS},r={ROWS},m=1"
    assert [options for options, _ in commands[1:]] == ["m=1"] * (len(commands) - 2) + ["m=0"]
    assert max(len(data) for _, data in commands) <= 4096
    with Image.open(io.BytesIO(base64.b64decode("".join(data for _, data in commands)))) as image:
        assert image.size == (240, 240)
    assert first.startswith("\n" * ROWS + f"\x1b[{ROWS}A\x1b7")
    assert first.endswith(f"\x1b8\x1b[{COLUMNS + 2}Ca")
    assert others == [f"\x1b[{COLUMNS + 2}Cb", *[""] * (ROWS - 2)]


def test_iterm_gets_a_png() -> None:
    """In one command."""
    (first, *_) = _painter(TERM="xterm", TERM_PROGRAM="iTerm.app").beside(
        example(picture(size=(30, 20))), ["a"]
    )
    (data,) = re.findall(r"\x1b\]1337;File=inline=1;[^:]*:([^\x07]*)\x07", first)
    with Image.open(io.BytesIO(base64.b64decode(data))) as image:
        assert image.size == (30, 20)


def _painter(**environment: str) -> Painter:
    found = painter_for(environment, "utf-8")
    assert found
    return found


def test_terminals_are_told_by_their_variables() -> None:
    """In doubt, half blocks; no picture without colours or in another encoding."""
    assert painter_for({"TERM": "dumb"}, "utf-8") is None
    assert painter_for({}, "utf-8") is None
    assert painter_for({"TERM": "xterm", "NO_COLOR": "1"}, "utf-8") is None
    assert painter_for({"TERM": "xterm"}, "latin-1") is None
    red = pixels([(250, 1, 2)])
    plain = _painter(TERM="xterm").beside(red, [""])[0]
    true = _painter(TERM="xterm", COLORTERM="truecolor").beside(red, [""])[0]
    inside = _painter(TERM="screen", TERM_PROGRAM="iTerm.app").beside(red, [""])[0]
    assert plain.startswith("\x1b[38;5;196m")
    assert true.startswith("\x1b[38;2;250;1;2m")
    assert inside == plain
