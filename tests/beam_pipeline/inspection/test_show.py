"""What `inspect` shows and writes: values, tables, and pictures of half blocks."""

from __future__ import annotations

import math

import pytest

from beam_pipeline.core.images.header import image_extension
from beam_pipeline.core.records.example_view import FeatureList, Features
from beam_pipeline.inspection.show import (
    COLUMNS,
    Table,
    bare_pixels_of,
    beside,
    colour_of,
    cube_colour,
    display_width,
    fitted,
    image_of,
    json_value,
    safe_name,
    table_lines,
    true_colour,
    value_text,
)
from tests.pictures import picture


@pytest.mark.parametrize(
    ("file_format", "extension"),
    [
        ("JPEG", "jpg"),
        ("PNG", "png"),
        ("GIF", "gif"),
        ("BMP", "bmp"),
        ("WEBP", "webp"),
        ("TIFF", "tif"),
        ("JPEG2000", "jp2"),
    ],
)
def test_images_are_known_by_their_first_bytes(file_format: str, extension: str) -> None:
    """Whatever their feature is called."""
    assert image_extension(picture(file_format=file_format)) == extension


def test_other_bytes_are_no_images() -> None:
    """Nor are short ones that begin as an image does."""
    for data in (b"", b"cat", b"BM", b"\xff\xd8\xff", b"RIFF....WAVE" + bytes(20), b"<svg" * 9):
        assert image_extension(data) == ""
    assert image_extension(b"\0\0\0\x1cftypavif" + bytes(20)) == "avif"
    assert image_extension(b"\0\0\0\x1cftypheic" + bytes(20)) == "heic"
    assert image_extension(b"\xff\x0a" + bytes(30)) == "jxl"


def test_the_image_of_an_example_is_in_a_usual_feature_or_in_the_first_that_holds_one() -> None:
    """A mask beside it is not shown in its place."""
    png, mask = picture(1, file_format="PNG"), picture(2, file_format="PNG")
    features = {"a_mask": FeatureList("bytes", [mask]), "image": FeatureList("bytes", [png])}
    assert image_of(features) == png
    assert image_of({"x": FeatureList("int64", [1]), "y": FeatureList("bytes", [png])}) == png
    assert image_of({"x": FeatureList("bytes", [png, png])}) is None


def test_bare_pixels_are_known_by_their_number() -> None:
    """height x width x 3 bytes, as --image_encoding raw writes them."""
    features = {
        "image/encoded": FeatureList("bytes", [bytes(18)]),
        "image/height": FeatureList("int64", [2]),
        "image/width": FeatureList("int64", [3]),
    }
    assert bare_pixels_of(features) == (bytes(18), 3, 2)
    for key, other in (
        ("image/encoded", FeatureList("bytes", [bytes(17)])),
        ("image/height", FeatureList("int64", [-2])),
        ("image/width", FeatureList("bytes", [b"3"])),
        ("image/width", FeatureList("int64", [3, 3])),
    ):
        assert bare_pixels_of({**features, key: other}) is None
    assert bare_pixels_of({}) is None


def test_values_in_a_line() -> None:
    """Texts as they are, other bytes by their number, long lists cut."""
    assert value_text(FeatureList("bytes", [b"cat"])) == "cat"
    assert value_text(FeatureList("bytes", [b"\xff\xfe"])) == "2 bytes"
    png = picture(file_format="PNG")
    assert value_text(FeatureList("bytes", [png])) == f"{len(png)} bytes (png)"
    assert value_text(FeatureList("float", [0.1, 1e9])) == "0.1, 1e+09"
    assert value_text(FeatureList("int64", range(20))) == "0, 1, 2, 3, 4, 5, 6, 7, ... (20 values)"
    assert value_text(FeatureList("", ())) == ""


def test_values_for_json() -> None:
    """One value is itself; JSON has no bytes, NaN and infinities."""
    assert json_value(FeatureList("bytes", ["größe".encode()])) == "größe"
    assert json_value(FeatureList("bytes", [b"\xff"])) == {"base64": "/w=="}
    assert json_value(FeatureList("int64", [])) == []
    assert json_value(FeatureList("float", [0.5, math.nan, -math.inf])) == [0.5, "nan", "-inf"]


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("cat/1.jpg", "000007-1.jpg"),
        ("cat/1.JPG", "000007-1.jpg"),
        ("../../etc/passwd", "000007-passwd.jpg"),
        ("..\\..\\x", "000007-x.jpg"),
        ("/", "000007.jpg"),
        ("..", "000007.jpg"),
        ("", "000007.jpg"),
        ("a\0b\n\x1bc", "000007-a_b_c.jpg"),
        ("猫 1.png", "000007-猫_1.png.jpg"),
        ("x" * 300, "000007-" + "x" * 60 + ".jpg"),
        ("CON", "000007-CON.jpg"),
        ("-rf", "000007--rf.jpg"),
    ],
)
def test_a_key_names_a_file_of_the_folder_itself(key: str, name: str) -> None:
    """Whatever it holds; the number makes it unique."""
    assert safe_name(7, key, "jpg") == name


def test_columns_have_the_width_of_their_cells() -> None:
    """Numbers at the right; no space at the end of a line."""
    assert table_lines(
        Table(("name", "n", "text"), [("a", "10", "x"), ("long", "5", "")], " >"), 0
    ) == [
        "name   n  text",
        "a     10  x",
        "long   5",
    ]


def test_wide_characters_take_two_columns() -> None:
    """Accents that follow a letter take none."""
    assert display_width("猫a") == 3
    assert display_width("e\u0301") == 1
    assert table_lines(Table(("k", "v"), [("猫", "1"), ("ab", "2")]), 0) == [
        "k   v",
        "猫  1",
        "ab  2",
    ]


def test_the_last_column_is_cut_where_the_line_ends() -> None:
    """In a terminal; a pipe gets all of it."""
    rows = [("a", "x" * 100)]
    assert table_lines(Table(("k", "v"), rows), 20)[1] == "a  " + "x" * 14 + "..."
    assert table_lines(Table(("k", "v"), rows), 0)[1] == "a  " + "x" * 100
    long_name = table_lines(Table(("k", "v"), [("n" * 100, "value")]), 60)[1]
    assert long_name == "n" * 27 + "...  value"


def test_a_text_is_cut_to_a_number_of_columns() -> None:
    """Never in the middle of a wide character."""
    assert fitted("猫猫猫猫", 8) == "猫猫猫猫"
    assert fitted("猫猫猫猫", 7) == "猫猫..."
    assert fitted("abcdef", 5) == "ab..."
    assert fitted("abcdef", 2) == ".."


def test_control_characters_of_cells_are_escaped() -> None:
    """A name must not move the cursor or start a new line."""
    assert table_lines(Table(("k",), [("a\x1b[2Jb\nc",)]), 0) == ["k", r"a\x1b[2Jb\nc"]


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
    lines = beside(pixels([red, blue], [blue, red], [grey, grey]), ["a"], true_colour)
    block = "\N{UPPER HALF BLOCK}"
    space = " " * (COLUMNS - 2)
    assert lines == [
        f"\x1b[38;2;255;0;0;48;2;0;0;255m{block}\x1b[38;2;0;0;255;48;2;255;0;0m{block}\x1b[0m{space}  a",
        f"\x1b[38;2;95;95;95m{block}\x1b[38;2;95;95;95m{block}\x1b[0m",
    ]
    (line,) = beside(pixels([red], [grey]), ["a"], cube_colour)
    assert line.startswith(f"\x1b[38;5;196;48;5;59m{block}\x1b[0m")


def test_text_beside_a_small_picture_keeps_its_column() -> None:
    """Where it has more lines than the picture."""
    lines = beside(pixels([(0, 0, 0)]), ["a", "b"], true_colour)
    assert lines[1] == " " * COLUMNS + "  b"


@pytest.mark.parametrize(
    ("size", "cells"), [((200, 10), (24, 1)), ((10, 200), (1, 12)), ((1, 1), (1, 1))]
)
def test_images_are_scaled_into_the_picture(size: tuple[int, int], cells: tuple[int, int]) -> None:
    """In their own shape, 24 pixels wide or high."""
    lines = beside(example(picture(3, size=size)), [], true_colour)
    assert (lines[0].count("\N{UPPER HALF BLOCK}"), len(lines)) == cells


def test_what_cannot_be_decoded_has_no_picture() -> None:
    """Half a file, a bomb, no image: the text is shown alone."""
    png = picture(file_format="PNG", size=(50, 50))
    bomb = png[:16] + (60_000).to_bytes(4, "big") * 2 + png[24:]
    for data in (png[: len(png) // 2], bomb, b"cat", b""):
        assert beside(example(data), ["a"], true_colour) == ["a"]


def test_terminals_are_told_by_their_variables() -> None:
    """In doubt, 256 colours; no picture without colours or in another encoding."""
    assert colour_of({"TERM": "dumb"}, "utf-8") is None
    assert colour_of({}, "utf-8") is None
    assert colour_of({"TERM": "xterm", "NO_COLOR": "1"}, "utf-8") is None
    assert colour_of({"TERM": "xterm"}, "latin-1") is None
    assert colour_of({"TERM": "xterm"}, "utf-8") is cube_colour
    assert colour_of({"TERM": "xterm", "COLORTERM": "truecolor"}, "UTF8") is true_colour
    assert cube_colour(250, 1, 2) == "5;196"
    assert true_colour(250, 1, 2) == "2;250;1;2"
