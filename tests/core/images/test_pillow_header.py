from __future__ import annotations

import io
import resource
import struct
import warnings
import zlib
from typing import Any

import pytest
from PIL import Image

from beam_pipeline.core.dead_letters import Reason
from beam_pipeline.core.images import pillow_header
from beam_pipeline.core.images.header import MAX_PIXELS, REENCODED, BadImageError, ImageHeader
from beam_pipeline.core.images.pillow_header import read_any
from beam_pipeline.core.images.preparation import decode_fully, read_header
from tests import pictures, rows
from tests.core.images.fixtures import PALETTE, PNG_START, bmp, chunk, png, reason_of, saved

# Where Pillow only warns of a broken image, the test run would make an error of it.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")


@rows.in_rows
def test_a_png_whose_first_chunk_is_not_its_header_is_bad(tf: Any, first: bytes) -> None:
    """TensorFlow refuses it, as Apple's own PNGs for phones, which begin with CgBI."""
    sound = png(9, 7, 8, 2, b"\1\2\3")
    data = sound[:8] + first + sound[8:]
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.io.decode_image(data)
    assert reason_of(data) in (Reason.CORRUPT_IMAGE, Reason.UNSUPPORTED_FORMAT)


def test_an_mpo_counts_as_the_jpeg_it_begins_with(tf: Any) -> None:
    """A photo with a second one behind it is a JPEG of the first one's size."""
    second = Image.new("RGB", (4, 4), "red")
    data = saved(Image.new("RGB", (9, 7)), format="MPO", save_all=True, append_images=[second])
    with Image.open(io.BytesIO(data)) as image:
        assert image.format == "MPO"
    assert read_header(data) == decode_fully(data) == ImageHeader("jpeg", 7, 9, 3)
    assert tuple(tf.io.decode_image(data).shape) == (7, 9, 3)


def apng(width: int, height: int) -> bytes:
    """An animated PNG that asks for its canvas to be cleared, cut after its first frame."""
    header = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    frame = struct.pack(">IIIIIHHBB", 0, width, height, 0, 0, 1, 1, 1, 0)
    kinds = [
        (b"IHDR", header),
        (b"acTL", struct.pack(">II", 2, 0)),
        (b"fcTL", frame),
        (b"IDAT", b""),
    ]
    return PNG_START + b"".join(chunk(*kind) for kind in [*kinds, (b"IEND", b"")])


def icon(picture_bytes: bytes) -> bytes:
    """An icon that holds a PNG."""
    entry = struct.pack("<BBBBHHII", 0, 0, 0, 0, 1, 32, len(picture_bytes), 22)
    return struct.pack("<HHH", 0, 1, 1) + entry + picture_bytes


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (apng(128, (1 << 31) - 1), Reason.DECOMPRESSION_BOMB),
        (apng(32_000, 32_000), Reason.DECOMPRESSION_BOMB),
        (icon(apng(32_000, 32_000)), Reason.UNSUPPORTED_FORMAT),
        (
            saved(Image.new("CMYK", (8, 8)), format="JPEG").replace(
                struct.pack(">HHB", 8, 8, 4), struct.pack(">HHB", 13_377, 13_377, 4)
            ),
            Reason.DECOMPRESSION_BOMB,
        ),
        (saved(Image.new("L", (8, 8)), format="WEBP").replace(b"VP8 ", b"VP8X"), None),
        (
            b"RIFF\x16\0\0\0WEBPVP8X\x0a\0\0\0" + bytes(4) + b"\xff\xff\0" * 2,
            Reason.DECOMPRESSION_BOMB,
        ),
    ],
    ids=["APNG, 2 ** 31 rows", "APNG", "icon of an APNG", "JPEG of CMYK", "broken WebP", "WebP"],
)
def test_claims_take_no_memory(data: bytes, reason: Reason | None) -> None:
    """Pillow's plugin for PNGs would fill the canvas before anyone looks at its size."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for check in (read_header, decode_fully):
        with pytest.raises(BadImageError) as caught:
            check(data)
        assert reason in (None, caught.value.reason)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # KiB


def test_an_image_that_needs_too_much_memory_is_bad(monkeypatch: pytest.MonkeyPatch) -> None:
    """It costs that image, not the job."""

    def exhausted(_: bytes, *, pixels: bool = False) -> ImageHeader:
        raise MemoryError

    data = saved(Image.new("RGB", (8, 8)), format="WEBP")
    monkeypatch.setattr(pillow_header, "read_any", exhausted)
    for check in (read_header, decode_fully):
        with pytest.raises(BadImageError, match="more memory than there is") as caught:
            check(data)
        assert caught.value.reason is Reason.DECOMPRESSION_BOMB


def test_an_image_just_below_the_limit_is_read() -> None:
    """What Pillow only warns of passes: a square of 13,377 is below the limit, of 13,378 above."""
    assert Image.MAX_IMAGE_PIXELS
    assert MAX_PIXELS == 178_956_970 == 2 * Image.MAX_IMAGE_PIXELS
    small = png(1, 1, 8, 2, b"\0\0\0")
    for side, fits in ((13_377, True), (13_378, False)):
        header = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
        data = small[:8] + header + small[33:]
        if fits:
            assert read_header(data) == ImageHeader("png", side, side, 3)
        else:
            assert reason_of(data) is Reason.DECOMPRESSION_BOMB


def test_a_large_image_is_read_without_a_warning() -> None:
    """From half the limit on, Pillow itself would warn on stderr; its filters are left alone."""
    side = 12_000
    small, large = (struct.pack(">BHHB", 8, size, size, 3) for size in (8, side))
    data = saved(Image.new("RGB", (8, 8)), format="JPEG").replace(small, large)
    filters = list(warnings.filters)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with Image.open(io.BytesIO(data)):
            pass
        assert [warning.category for warning in caught] == [Image.DecompressionBombWarning]
        assert read_any(data) == ImageHeader("jpeg", side, side, 3)
        assert len(caught) == 1
    assert warnings.filters == filters


OF_TWO_MINDS = {
    "a GIF whose frames are smaller than its screen": (
        saved(Image.new("L", (4, 5)), format="GIF").replace(b"\4\0\5\0", b"\x09\0\7\0", 1),
        (5, 4, 3),
        Reason.UNSUPPORTED_FORMAT,
    ),
    "a BMP of colours in a palette": (bmp(9, 7, 8, PALETTE), (7, 9, 1), Reason.UNSUPPORTED_FORMAT),
    "a BMP of an unknown header": (
        pictures.picture(file_format="BMP").replace(b"\x28\0\0\0", b"\x29\0\0\0", 1),
        (7, 9, 3),
        Reason.CORRUPT_IMAGE,
    ),
    "a PNG with a text that Pillow does not inflate": (
        png(9, 7, 8, 2, b"\1\2\3", chunk(b"zTXt", b"k\0\0" + zlib.compress(bytes(2 << 20)))),
        (7, 9, 3),
        Reason.CORRUPT_IMAGE,
    ),
}


@pytest.mark.parametrize("name", OF_TWO_MINDS)
def test_the_full_check_passes_only_what_pillow_decodes_too(tf: Any, name: str) -> None:
    """The default passes what TensorFlow decodes, with the size that it gives."""
    data, shape, reason = OF_TWO_MINDS[name]
    assert tuple(tf.io.decode_image(data, expand_animations=False).shape) == shape
    assert read_header(data)[1:4] == shape
    with pytest.raises(BadImageError, match="TensorFlow and Pillow disagree: ") as caught:
        decode_fully(data)
    assert caught.value.reason is reason


def tiff_bomb() -> bytes:
    tags = {256: 30_000, 257: 30_000, 273: 8, 278: 30_000, 279: 1}  # width, height, one strip
    entries = [struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items()]
    return struct.pack("<2sHIH", b"II", 42, 8, len(tags)) + b"".join(entries) + bytes(4)


NO_IMAGE, CORRUPT = Reason.NOT_AN_IMAGE, Reason.CORRUPT_IMAGE
UNSUPPORTED = Reason.UNSUPPORTED_FORMAT
FRAMES = [Image.new("RGB", (8, 8), (number * 90, 0, 0)) for number in range(3)]
CONVERT = "convert it to PNG or JPEG"


def unsupported(name: str, advice: str = CONVERT) -> tuple[Reason, str]:
    """What is said of a format that TensorFlow does not decode."""
    return UNSUPPORTED, f"{name} cannot be decoded by tf.io.decode_image; {advice}"


def cut_short(data: bytes, name: str) -> tuple[bytes, Reason, str]:
    """What is said of a file that only begins like an image."""
    message = (
        f"starts like {name}, but the header is broken or cut short (the file has {len(data)} "
    )
    return data, CORRUPT, message + "bytes)"


NO_IMAGES = [
    *(b"", b"filename,label\na.jpg,cat\n", b"<!doctype html><html></html>", b"\xff", b"\0" * 100),
    *(
        b'<?xml version="1.0"?><annotation/>',
        b"\n" + pictures.picture(),
        pictures.picture(file_format="TGA"),
    ),
]


@pytest.mark.parametrize(
    ("data", "reason", "message"),
    [
        *(
            (pictures.picture(1, file_format=name, size=(16, 16)), *unsupported(name, advice))
            for names, advice in (
                (("TIFF", "PPM", "JPEG2000"), REENCODED),
                (("ICO", "PCX", "DDS"), CONVERT),
            )
            for name in names
        ),
        (
            b"\0\0\0\x18ftypheic" + bytes(64),
            *unsupported("HEIC", f"{REENCODED} after pip install pillow-heif"),
        ),
        (b"II*\0" + bytes(64), *unsupported("TIFF", REENCODED)),
        (b"MM\0*" + bytes(64), *unsupported("TIFF", REENCODED)),
        (b"\0\0\0\x0cjP  " + bytes(64), *unsupported("JPEG2000", REENCODED)),
        *(
            (data, NO_IMAGE, f"{len(data)} bytes that start with {data[:8]!r}: no image format")
            for data in NO_IMAGES
        ),
        cut_short(b"\xff\xd8 and so on", "JPEG"),
        cut_short(b"\x89PNG\r\n\x1a\nhello", "PNG"),
        cut_short(b"GIF89a", "GIF"),
        cut_short(b"BM and so on", "BMP"),
        cut_short(b"RIFF\0\0\0\0WEBPVP8 ", "WebP"),
        (png(0, 7, 8, 2, b""), CORRUPT, "the header claims 0 x 7 pixels"),
        (tiff_bomb(), *unsupported("TIFF", REENCODED)),
        (
            saved(FRAMES[0], format="WEBP", save_all=True, append_images=FRAMES[1:], lossless=True),
            *(UNSUPPORTED, "an animated WebP, which can crash tf.io.decode_image"),
        ),
    ],
)
def test_what_is_left_out_says_what_it_is(data: bytes, reason: Reason, message: str) -> None:
    """Both checks give the reason; the message has what was found and what to do."""
    for check in (read_header, decode_fully):
        with pytest.raises(BadImageError) as caught:
            check(data)
        assert caught.value.reason is reason
        assert message in str(caught.value)
