from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from beam_pipeline.core.dead_letters import Reason
from beam_pipeline.core.images.header import (
    FORMATS,
    MAX_PIXELS,
    BadImageError,
    ImageHeader,
)
from beam_pipeline.core.images.preparation import (
    IMAGE_CHECKS,
    PixelFormat,
    decode_fully,
    image_preparer,
    read_header,
)
from tests.core.images.fixtures import (
    FORMAT_NAMES,
    MUTATIONS,
    PICTURES,
    mutated,
    outcome,
    reason_of,
    saved,
)
from tests.pictures import picture
from tests.profiles import examples

# Where Pillow only warns of a broken image, the test run would make an error of it.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")


@pytest.mark.parametrize("name", PICTURES)
def test_the_header_says_what_tensorflow_decodes(tf: Any, name: str) -> None:
    """Height, width and channels are the last three dimensions of `tf.io.decode_image`."""
    data, expected = PICTURES[name]
    assert tuple(tf.io.decode_image(data).shape)[-3:] == tuple(expected[1:4])
    assert read_header(data) == expected


@pytest.mark.parametrize("name", sorted({*PICTURES} - {"BMP P"}))
def test_decoding_finds_no_fault_in_a_sound_image(name: str) -> None:
    """The full check of a sound image gives the same header as the quick one."""
    data, _ = PICTURES[name]
    assert decode_fully(data) == read_header(data)


@pytest.mark.parametrize("orientation", [3, 6, 8])
@pytest.mark.parametrize("file_format", ["JPEG", "PNG", "WEBP"])
def test_an_exif_orientation_swaps_nothing(tf: Any, file_format: str, orientation: int) -> None:
    """Height and width are as stored, as TensorFlow decodes them, before any rotation."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = saved(Image.new("RGB", (9, 7)), format=file_format, exif=exif)
    assert read_header(data) == ImageHeader(file_format.lower(), 7, 9, 3, orientation)
    assert tuple(tf.io.decode_image(data).shape)[-3:] == (7, 9, 3)


def test_a_byte_in_front_of_an_image_makes_it_none() -> None:
    """Nothing is searched for an image that begins further on."""
    assert reason_of(b"\n" + picture()) is Reason.NOT_AN_IMAGE


@pytest.mark.parametrize("check", [read_header, decode_fully])
@pytest.mark.parametrize("file_format", FORMAT_NAMES)
def test_an_image_cut_at_any_byte_is_bad(
    file_format: str, check: Callable[[bytes], ImageHeader]
) -> None:
    """The default check finds it, too; only the mark at the end of a GIF may be missing."""
    data = picture(5, file_format=file_format)
    whole = check(data)
    outcomes = [outcome(check, data[:cut]) for cut in range(len(data) + 1)]
    first = outcomes.index(whole)
    assert set(outcomes[:first]) <= {Reason.CORRUPT_IMAGE, Reason.NOT_AN_IMAGE}
    assert outcomes[first:] == [whole] * (2 if file_format == "GIF" else 1)


@pytest.mark.parametrize("file_format", ["JPEG", "PNG", "GIF", "BMP", "WEBP"])
def test_an_image_without_its_last_third_is_bad(tf: Any, file_format: str) -> None:
    """TensorFlow does not decode it, and the default check says why."""
    noise = Image.effect_noise((64, 48), 90).convert("RGB")
    data = saved(noise, format=file_format)
    cut = data[: len(data) * 2 // 3]
    expected = ImageHeader(file_format.lower(), 48, 64, 3)
    assert read_header(data) == decode_fully(data) == expected
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.io.decode_image(cut)
    for check in (read_header, decode_fully):
        with pytest.raises(BadImageError) as caught:
            check(cut)
        assert caught.value.reason is Reason.CORRUPT_IMAGE


@pytest.mark.parametrize("file_format", ["JPEG", "PNG"])
def test_pixels_lost_in_the_middle_are_found_by_the_full_check(tf: Any, file_format: str) -> None:
    """The file has its header and its end, so the default check passes it."""
    noise = Image.effect_noise((64, 48), 90).convert("RGB")
    data = saved(noise, format=file_format)
    half = len(data) // 2
    damaged = data[:half] + b"\xff\xc4" * 100 + data[half + 200 :]
    assert read_header(damaged) == ImageHeader(file_format.lower(), 48, 64, 3)
    assert outcome(decode_fully, damaged) is Reason.CORRUPT_IMAGE
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.io.decode_image(damaged)


@pytest.mark.parametrize("kind", ["baseline", "progressive", "MPO"])
@pytest.mark.parametrize("behind", [b"\0" * 50, b"\n", b"\xff" * 3, b"ftyp", b"\xff\xd8\xff\xe0"])
def test_bytes_behind_a_jpeg_are_no_fault(tf: Any, kind: str, behind: bytes) -> None:
    """Padding, a film or half a second picture: decoders stop at the end of the first picture."""
    noise = Image.effect_noise((64, 48), 90).convert("RGB")
    options: dict[str, Any] = {"format": "JPEG", "progressive": kind == "progressive"}
    if kind == "MPO":
        options = {"format": "MPO", "save_all": True, "append_images": [noise]}
    data = saved(noise, **options) + behind
    assert tuple(tf.io.decode_image(data).shape) == (48, 64, 3)
    assert read_header(data) == decode_fully(data) == ImageHeader("jpeg", 48, 64, 3)


def test_the_end_of_a_preview_is_not_the_end_of_a_jpeg(tf: Any) -> None:
    """A preview inside the header is a JPEG of its own with an end of its own."""
    preview = saved(Image.new("RGB", (8, 8)), format="JPEG")
    exif = b"\xff\xe1" + (2 + 6 + len(preview)).to_bytes(2, "big") + b"Exif\0\0" + preview
    data = saved(Image.effect_noise((64, 48), 90), format="JPEG")
    data = data[:2] + exif + data[2:]
    assert read_header(data) == ImageHeader("jpeg", 48, 64, 1)
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.io.decode_image(data[:-2])
    assert outcome(read_header, data[:-2]) is Reason.CORRUPT_IMAGE


@settings(max_examples=examples(400))
@given(name=st.sampled_from(sorted(PICTURES)), mutations=MUTATIONS)
def test_a_damaged_image_raises_nothing_but_bad_image(
    name: str, mutations: list[tuple[int, str, int]]
) -> None:
    """Whatever bytes are changed, lost or added, both checks give a header or a reason."""
    data = mutated(PICTURES[name][0], mutations)
    for check in (read_header, decode_fully):
        found = outcome(check, data)
        if isinstance(found, ImageHeader):
            assert found.format in FORMATS.values()
            assert 1 <= found.channels <= 4
            assert 0 < found.height * found.width <= MAX_PIXELS


MAGICS = [b"", b"\xff\xd8\xff\xe0", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"BM", b"RIFF\0\0\0\0WEBP"]


OTHER_MAGICS = [b"II*\0", b"MM\0*", b"P6 ", b"8BPS", b"DDS ", b"\x76\x2f\x31\x01", b"\0\0\1\0"]


@settings(max_examples=examples(300))
@given(magic=st.sampled_from(MAGICS + OTHER_MAGICS), rest=st.binary(max_size=200))
def test_any_bytes_raise_nothing_but_bad_image(magic: bytes, rest: bytes) -> None:
    """Bytes of any kind, whatever format they begin like, give a header or a reason."""
    for check in (read_header, decode_fully):
        assert isinstance(outcome(check, magic + rest), (ImageHeader, Reason))


def test_a_check_passes_an_image_on_unchanged() -> None:
    """Both checks return the very bytes, with their header."""
    data, header = PICTURES["GIF RGB"]
    assert list(IMAGE_CHECKS) == ["header", "full"]
    for check in IMAGE_CHECKS.values():
        written, found = check(data)
        assert written is data
        assert found == header


def test_bare_pixels_are_encoded_and_files_are_checked() -> None:
    """The layout of pixels decides which preparation an image has."""
    planes = bytes(range(6))
    assert image_preparer("header", PixelFormat(1, 2), "raw")(planes) == (
        bytes([0, 2, 4, 1, 3, 5]),
        ImageHeader("raw", 1, 2, 3),
    )
    whole = saved(Image.effect_noise((64, 48), 90).convert("RGB"), format="PNG")
    damaged = whole[:-30] + b"x" + whole[-29:]
    assert image_preparer("header", None, "raw")(damaged)[0] is damaged
    with pytest.raises(BadImageError, match="IDAT is damaged"):
        image_preparer("full", None, "raw")(damaged)


PROGRAMS = {
    "SVG": b'<?xml version="1.0"?>\n<!-- a drawing -->\n<svg xmlns="http://www.w3.org/2000/svg"/>',
    "SVG without a declaration": b"\xef\xbb\xbf <svg width='9' height='7'></svg>",
    "PDF": b"%PDF-1.7\n1 0 obj\n",
    "EPS": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 7\n%%EndComments\nshowpage\n%%EOF\n",
    "EPS with a preview": b"\xc5\xd0\xd3\xc6" + (30).to_bytes(4, "little") + bytes(22) + b"%!PS",
    "HEIC": b"\0\0\0\x18ftypheic\0\0\0\0mif1heic",
}


@pytest.mark.parametrize("check", [read_header, decode_fully])
@pytest.mark.parametrize("name", PROGRAMS)
def test_documents_and_programs_are_never_interpreted(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    check: Callable[[bytes], ImageHeader],
) -> None:
    """Ghostscript, which Pillow would run for EPS, is not called, although there is one."""
    for program in ("gs", "gswin64c"):
        path = tmp_path / program
        path.write_text(f"#!/bin/sh\ntouch {tmp_path}/called\nexit 1\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert outcome(check, PROGRAMS[name]) is Reason.UNSUPPORTED_FORMAT
    assert not (tmp_path / "called").exists()


def test_xml_that_is_no_drawing_is_no_image() -> None:
    """Only what begins like SVG is called so."""
    assert reason_of(b'<?xml version="1.0"?><annotation/>') is Reason.NOT_AN_IMAGE
