from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from beam_pipeline.core.dead_letters import Reason
from beam_pipeline.core.errors import CodecError, UsageError
from beam_pipeline.core.images import header, preparation
from tests import pictures, profiles, rows
from tests.core.images.fixtures import FORMAT_NAMES, PICTURES, outcome, saved

# Where Pillow only warns of a broken image, the test run would make an error of it.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")


@pytest.mark.parametrize("name", PICTURES)
def test_the_header_says_what_tensorflow_decodes(tf: Any, name: str) -> None:
    """Height, width and channels are the last three dimensions of `tf.io.decode_image`."""
    data, expected = PICTURES[name]
    assert tuple(tf.io.decode_image(data).shape)[-3:] == tuple(expected[1:4])
    assert preparation.read_header(data) == expected


@pytest.mark.parametrize("check", [preparation.read_header, preparation.decode_fully])
@pytest.mark.parametrize("file_format", FORMAT_NAMES)
def test_an_image_cut_at_any_byte_is_bad(
    file_format: str, check: Callable[[bytes], header.ImageHeader]
) -> None:
    """The default check finds it, too; only the mark at the end of a GIF may be missing."""
    data = pictures.picture(5, file_format=file_format)
    whole = check(data)
    outcomes = [outcome(check, data[:cut]) for cut in range(len(data) + 1)]
    first = outcomes.index(whole)
    assert set(outcomes[:first]) <= {Reason.CORRUPT_IMAGE, Reason.NOT_AN_IMAGE}
    assert outcomes[first:] == [whole] * (2 if file_format == "GIF" else 1)


@pytest.mark.parametrize("file_format", ["JPEG", "PNG"])
def test_pixels_lost_in_the_middle_are_found_by_the_full_check(tf: Any, file_format: str) -> None:
    """The file has its header and its end, so the default check passes it."""
    noise = Image.effect_noise((64, 48), 90).convert("RGB")
    data = saved(noise, format=file_format)
    half = len(data) // 2
    damaged = data[:half] + b"\xff\xc4" * 100 + data[half + 200 :]
    assert preparation.read_header(damaged) == header.ImageHeader(file_format.lower(), 48, 64, 3)
    assert outcome(preparation.decode_fully, damaged) is Reason.CORRUPT_IMAGE
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.io.decode_image(damaged)


PROGRAMS = {
    "SVG": b'<?xml version="1.0"?>\n<!-- a drawing -->\n<svg xmlns="http://www.w3.org/2000/svg"/>',
    "SVG without a declaration": b"\xef\xbb\xbf <svg width='9' height='7'></svg>",
    "PDF": b"%PDF-1.7\n1 0 obj\n",
    "EPS": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 7\n%%EndComments\nshowpage\n%%EOF\n",
    "EPS with a preview": b"\xc5\xd0\xd3\xc6" + (30).to_bytes(4, "little") + bytes(22) + b"%!PS",
    "HEIC": b"\0\0\0\x18ftypheic\0\0\0\0mif1heic",
}


@pytest.mark.parametrize("check", [preparation.read_header, preparation.decode_fully])
@pytest.mark.parametrize("name", PROGRAMS)
def test_documents_and_programs_are_never_interpreted(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    check: Callable[[bytes], header.ImageHeader],
) -> None:
    """Ghostscript, which Pillow would run for EPS, is not called, although there is one."""
    for program in ("gs", "gswin64c"):
        path = tmp_path / program
        path.write_text(f"#!/bin/sh\ntouch {tmp_path}/called\nexit 1\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert outcome(check, PROGRAMS[name]) is Reason.UNSUPPORTED_FORMAT
    assert not (tmp_path / "called").exists()


# --- digest ----------------------------------------------------------------------------------


def test_a_digest_is_the_same_always() -> None:
    """XXH3 of 128 bits, big-endian, as the library's own test vector for no bytes has it."""
    assert preparation.digest_of(b"").hex() == "99aa06d3014798d86001c324468d497f"
    assert preparation.digest_of(b"image").hex() == "e9c754bdc1a6ca9114ecfbe942ed47df"
    assert len(preparation.digest_of(b"image")) == len(header.NO_DIGEST) == header.DIGEST_BYTES


# --- codecs ----------------------------------------------------------------------------------


def test_only_the_codec_of_the_data_set_may_encode() -> None:
    """An empty one stands for any."""
    preparation.check_codec("")
    preparation.check_codec(preparation.codec_here("pillow"))
    with pytest.raises(CodecError, match=r"encoded by Pillow 1, and here by Pillow \d"):
        preparation.check_codec("Pillow 1")


def test_another_library_is_told_from_another_version() -> None:
    """The advice is the option, or the package to install."""
    said = preparation.other_codec("Pillow 1", "OpenCV 5")
    assert said.startswith("images are encoded by Pillow 1, and here by OpenCV 5, which may give")
    assert said.endswith("Give --image_codec pillow, or convert again with --overwrite")
    assert "Give --image_codec opencv" in preparation.other_codec("OpenCV 5", "Pillow 1")
    assert "pip install opencv-python-headless==..." in preparation.other_codec(
        "OpenCV 4", "OpenCV 5"
    )
    assert "pip install Pillow==..." in preparation.other_codec("Pillow 1", "Pillow 2")


def test_a_recorded_name_tells_the_library() -> None:
    """Whatever its versions; names of no known library are taken for the default's."""
    assert preparation.codec_here("Pillow 1, libwebp 2") == preparation.codec_here("pillow")
    assert preparation.codec_here("something else") == preparation.codec_here("pillow")


@pytest.mark.skipif(bool(importlib.util.find_spec("cv2")), reason="OpenCV is installed")
def test_a_missing_library_is_named() -> None:
    """With the command that installs it."""
    for failing in (
        lambda: preparation.load_codec("opencv"),
        lambda: preparation.check_codec("OpenCV 5"),
    ):
        with pytest.raises(UsageError, match=r"pip install 'beam-tfrecord\[opencv\]'"):
            failing()


# --- filters ---------------------------------------------------------------------------------


def refused(limits: dict[str, float], height: int, width: int) -> tuple[Reason, str] | None:
    """(reason, message) of an image that is left out; None if it stays."""
    try:
        preparation.check_sides(header.ImageHeader("jpeg", height, width, 3), limits)
    except header.BadImageError as error:
        return error.reason, str(error)
    return None


@rows.in_rows
def test_the_limit_itself_stays(
    limits: dict[str, float], stays: tuple[int, int], goes: tuple[int, int], message: str
) -> None:
    """An image at the limit is kept; the next one says what was found, and the option."""
    reason = next(reason for reason, name in preparation.FILTER_REASONS.items() if name in limits)
    assert refused(limits, *stays) is None
    assert refused(limits, *goes) == (reason, message)


def test_the_first_filter_gives_the_reason() -> None:
    """An image that several leave out has one dead letter, whatever the order they were given in."""
    limits = {"max_pixels": 5, "max_aspect": 2.0, "min_side": 2}
    assert (refused(limits, 1, 9) or ())[0] is Reason.FILTERED_MIN_SIDE
    assert (refused(limits, 2, 9) or ())[0] is Reason.FILTERED_MAX_ASPECT
    assert (refused(limits, 4, 4) or ())[0] is Reason.FILTERED_MAX_PIXELS


def test_files_are_judged_by_their_listed_size() -> None:
    """The limit itself stays, and other filters say nothing of it."""
    assert preparation.outside_bytes(1000, {"max_image_bytes": 1000}) == ""
    assert (
        preparation.outside_bytes(1001, {"max_image_bytes": 1000})
        == "1001 bytes; --max_image_bytes is 1000"
    )
    assert preparation.outside_bytes(1 << 40, {"min_side": 3}) == ""


# --- pixels ----------------------------------------------------------------------------------


SMALL = preparation.PixelFormat(2, 3)  # two rows of three pixels


@pytest.mark.parametrize("encoding", preparation.IMAGE_ENCODINGS)
@pytest.mark.parametrize("size", [0, 17, 19])
def test_pixels_of_another_number_are_no_image(encoding: str, size: int) -> None:
    """The message has both sizes and how the expected one comes about."""
    with pytest.raises(header.BadImageError) as caught:
        preparation.encoded_pixels(bytes(size), SMALL, encoding)
    assert caught.value.reason is Reason.CORRUPT_IMAGE
    assert str(caught.value) == f"{size} bytes of pixels, expected 18 (2 x 3 x 3)"


@settings(max_examples=profiles.examples(60))
@given(data=st.data(), height=st.integers(1, 9), width=st.integers(1, 9))
def test_no_pixel_is_changed(tf: Any, data: st.DataObject, height: int, width: int) -> None:
    """Both encodings decode to the planes that went in, and give the same bytes a second time."""
    pixels = preparation.PixelFormat(height, width)
    planes = data.draw(st.binary(min_size=pixels.size, max_size=pixels.size))
    expected = tf.transpose(
        tf.reshape(tf.io.decode_raw(planes, tf.uint8), (3, height, width)), (1, 2, 0)
    )
    raw, of_raw = preparation.encoded_pixels(planes, pixels, "raw")
    png, of_png = preparation.encoded_pixels(planes, pixels, "png")
    assert of_raw == header.ImageHeader(preparation.RAW_FORMAT, height, width, 3)
    assert of_png == header.ImageHeader("png", height, width, 3) == preparation.decode_fully(png)
    assert raw == expected.numpy().tobytes()
    assert tf.io.decode_png(png).numpy().tobytes() == raw
    assert preparation.encoded_pixels(planes, pixels, "png")[0] == png
