"""Values for people, JSON and file names."""

from __future__ import annotations

import math

import pytest

from beam_pipeline.core.inspection.examples import FeatureList
from beam_pipeline.core.inspection.values import (
    bare_pixels_of,
    image_extension,
    image_of,
    json_value,
    listed,
    safe_name,
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
    assert image_of(features) == ("image", png)
    assert image_of({"x": FeatureList("int64", [1]), "y": FeatureList("bytes", [png])}) == (
        "y",
        png,
    )
    assert image_of({"x": FeatureList("bytes", [png, png])}) is None


def test_bare_pixels_are_known_by_their_number() -> None:
    """height x width x 3 bytes, as --image_encoding raw writes them."""
    features = {
        "image/encoded": FeatureList("bytes", [bytes(18)]),
        "image/height": FeatureList("int64", [2]),
        "image/width": FeatureList("int64", [3]),
    }
    assert bare_pixels_of(features) == ("image/encoded", bytes(18), 3, 2)
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


def test_texts_are_listed_in_quotes() -> None:
    """The first of many."""
    assert listed(["a", "b"], 2) == "'a', 'b'"
    assert listed(["a", "b", "c"], 2) == "'a', 'b', ..."
