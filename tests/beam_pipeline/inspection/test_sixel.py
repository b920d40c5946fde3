"""Sixels: decoded again, they are the image; they are used where a terminal's name promises them."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import termios

import pytest
from PIL import Image, ImageChops

from beam_pipeline.core.inspection.examples import FeatureList
from beam_pipeline.inspection.pictures import COLUMNS, ROWS, painter_for
from beam_pipeline.inspection.sixel import cell_size, sixels, understands_sixels


def decoded(text: str) -> Image.Image:
    """Draws sixels as a terminal does; pixels that are not drawn are black."""
    found = re.fullmatch(r'\x1bP0;1q"1;1;(\d+);(\d+)((?:#\d+;2;\d+;\d+;\d+)*)(.*)\x1b\\', text)
    assert found
    image = Image.new("RGB", (int(found[1]), int(found[2])))
    percents = re.findall(r"#(\d+);2;(\d+);(\d+);(\d+)", found[3])
    palette = {number: [round(int(p) * 2.55) for p in colour] for number, *colour in percents}
    x, top, colour = 0, 0, (0, 0, 0)
    for token in re.findall(r"#\d+|!\d+[?-~]|[?-~]|\$|-", found[4]):
        if token[0] == "#":
            colour = tuple(palette[token[1:]])
        elif token in "$-":
            x, top = 0, top + 6 * (token == "-")
        else:
            end = x + (int(token[1:-1]) if token[0] == "!" else 1)
            for y in range(6):
                if ord(token[-1]) - 63 >> y & 1:
                    image.paste(colour, (x, top + y, end, top + y + 1))
            x = end
    return image


def difference(one: Image.Image, other: Image.Image) -> int:
    """The largest difference of two images in any channel."""
    return max(high for _, high in ImageChops.difference(one, other).getextrema())


def test_a_red_image_is_this_text() -> None:
    """Seven rows are two bands, and a run is shortened."""
    text = sixels(Image.new("RGB", (5, 7), (255, 0, 0)))
    assert text == '\x1bP0;1q"1;1;5;7#0;2;100;0;0#0!5~-#0!5@\x1b\\'


def test_a_band_is_drawn_colour_by_colour() -> None:
    """Up to the last pixel of each."""
    image = Image.new("RGB", (5, 6), (255, 0, 0))
    image.putpixel((4, 1), (0, 0, 255))
    text = sixels(image)
    assert re.search(r"#\d+!4~\|\$#\d+!4\?A\x1b|#\d+!4\?A\$#\d+!4~\|\x1b", text)
    assert difference(decoded(text), image) == 0


@pytest.mark.parametrize("size", [(1, 1), (40, 6), (3, 100), (97, 41)])
def test_sixels_are_the_image(size: tuple[int, int]) -> None:
    """Within a percent of the range, as sixels name colours in percent."""
    image = Image.linear_gradient("L").resize(size).convert("RGB")
    assert difference(decoded(sixels(image)), image) <= 3


def test_photographs_have_256_colours() -> None:
    """They are the nearest ones of a palette of their own."""
    noise = [Image.effect_noise((60, 50), 90) for _ in range(3)]
    image = Image.merge("RGB", noise)
    expected = image.quantize(256).convert("RGB")
    assert difference(decoded(sixels(image)), expected) <= 3


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        *[(term, True) for term in ("foot", "foot-extra", "mlterm-256color", "yaft-256color")],
        *[(term, True) for term in ("eat-truecolor", "xterm-sixel", "xterm+sixel")],
        *[(term, False) for term in ("xterm-256color", "footer", "linux", "tmux-256color", "")],
    ],
)
def test_names_that_promise_sixels(term: str, expected: bool) -> None:
    """Others may draw them, too, but do not say so by their name."""
    assert understands_sixels(term) is expected


@pytest.mark.parametrize(
    ("answer", "cell"),
    [((24, 80, 800, 480), (10, 20)), ((24, 80, 0, 0), (8, 16)), ((0, 0, 800, 480), (8, 16))],
)
def test_the_size_of_a_character(answer: tuple[int, ...], cell: tuple[int, int]) -> None:
    """As the terminal gives it; a small one where it gives none or there is no terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", *answer))
    with os.fdopen(theirs, "w") as screen:
        assert cell_size(screen) == cell
    os.close(ours)
    with open(os.devnull, "w") as file:
        assert cell_size(file) == (8, 16)


def test_the_picture_fits_beside_the_text() -> None:
    """It is as large as so many characters; small images are enlarged by a whole factor."""
    out = io.BytesIO()
    Image.new("RGB", (50, 20), (255, 0, 0)).save(out, "PNG")
    painter = painter_for({"TERM": "foot"}, "utf-8", lambda: (9, 18))
    assert painter
    example = {"image/encoded": FeatureList("bytes", [out.getvalue()])}
    first, *others = painter.beside(example, ["a", "b"])
    before, after = f"\x1b[{ROWS}A\x1b7", f"\x1b8\x1b[{COLUMNS + 2}Ca"
    assert first.startswith("\n" * ROWS + before)
    assert first.endswith(after)
    drawn = decoded(first.strip("\n").removeprefix(before).removesuffix(after))
    assert drawn.size == (4 * 50, 4 * 20)
    assert drawn.getcolors() == [(200 * 80, (255, 0, 0))]
    assert others[0] == f"\x1b[{COLUMNS + 2}Cb"
    inside = painter_for({"TERM": "foot", "TMUX": "1"}, "utf-8")
    assert inside
    assert "\x1bP" not in inside.beside(example, ["a"])[0]
