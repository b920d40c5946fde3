"""Headers and pixels of GIF, BMP, PNG and JPEG XL as we read them ourselves, against TensorFlow."""

from __future__ import annotations

import builtins
import struct
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from beam_pipeline.core.dead_letters import Reason
from beam_pipeline.core.images import gif_bmp_jxl, pillow_codec, png
from beam_pipeline.core.images.header import MAX_PIXELS, BadImageError, ImageHeader
from beam_pipeline.core.images.preparation import decode_fully, read_header
from tests.core.images import fixtures
from tests.core.images.fixtures import (
    MUTATIONS,
    PNG_START,
    bmp,
    chunk,
    decoded_shape,
    mutated,
    outcome,
    saved,
)
from tests.profiles import examples
from tests.rows import raised

CHECKS = {
    "GIF": (gif_bmp_jxl.gif_header, gif_bmp_jxl.check_gif),
    "BMP": (gif_bmp_jxl.bmp_header, gif_bmp_jxl.bmp_header),
    "PNG": (png.png_header, png.check_png),
}
CORRUPT, UNSUPPORTED = Reason.CORRUPT_IMAGE, Reason.UNSUPPORTED_FORMAT

# --- gif -------------------------------------------------------------------------------------

SCREEN = b"GIF89a" + struct.pack("<HHBBB", 9, 7, 0x80, 0, 0) + bytes(6)  # two colours
COMMENT = b"\x21\xfe\x05hello\0"


def packed(codes: list[int], bits: int = 3) -> bytes:
    """Codes of that many bits as one sub-block, and its end."""
    number = sum(code << (bits * i) for i, code in enumerate(codes))
    data = number.to_bytes((bits * len(codes) + 7) // 8, "little")
    return bytes([len(data)]) + data + b"\0"


def frame(
    width: int, height: int, *, flags: int = 0, colours: bytes = b"", codes: bytes = b""
) -> bytes:
    """A frame of black pixels: before every pixel, the table of codes is cleared."""
    head = b"\x2c" + struct.pack("<HHHHB", 0, 0, width, height, flags) + colours
    return head + b"\2" + (codes or packed([4, 0] * (width * height) + [5]))


GIF_SOUND = ImageHeader("gif", 7, 9, 3)
FRAME, END_OF_GIF = frame(9, 7), b"\x3b"
NO_COLOURS = SCREEN[:10] + b"\0" + SCREEN[11:13]
DAMAGED = [packed(codes) for codes in ([4, 0, 0, 5], [4, 0, 0], [4, 6, *[4, 0] * 62], [4, 3] * 63)]
ASIDE = FRAME.replace(bytes(4) + b"\x09\0\7\0", b"\2\0\1\0\4\0\5\0")

# --- bmp -------------------------------------------------------------------------------------

RGB, GREY = bmp(9, 7, 24), bmp(9, 7, 8, fixtures.PALETTE)
BMP_SOUND = ImageHeader("bmp", 7, 9, 3)


def with_field(data: bytes, offset: int, value: int, form: str = "<I") -> bytes:
    """A BMP with another value in its header."""
    field = struct.pack(form, value)
    return data[:offset] + field + data[offset + len(field) :]


# --- png -------------------------------------------------------------------------------------

ROWS = (b"\0" + bytes(range(27))) * 7
END = chunk(b"IEND", b"")
PNG_SOUND = ImageHeader("png", 7, 9, 3)


def png_of(
    size: tuple[int, int], depth: int, colour_type: int, pixels: bytes, interlaced: int = 0
) -> bytes:
    header = struct.pack(">IIBBBBB", *size, depth, colour_type, 0, 0, interlaced)
    return PNG_START + chunk(b"IHDR", header) + pixels + END


def picture(packed: bytes, *, before: bytes = b"", after: bytes = b"", pieces: int = 1) -> bytes:
    """A PNG of 7 x 9 pixels around compressed data, which may lie in several chunks."""
    step = len(packed) // pieces + 1
    parts = [chunk(b"IDAT", packed[at : at + step]) for at in range(0, len(packed), step)]
    return png_of((9, 7), 8, 2, before + b"".join(parts) + after)


PACKED = zlib.compress(ROWS)
MILLION = chunk(b"IDAT", zlib.compress(bytes(125_002)))
BETWEEN = chunk(b"tEXt", b"") + chunk(b"IDAT", PACKED[9:])

# name -> bytes, outcome of the default check, of the full one if it is another, and what TensorFlow decodes if neither
CASES: dict[str, tuple[Any, ...]] = {
    "GIF, sound": (SCREEN + FRAME + END_OF_GIF, GIF_SOUND),
    "GIF, a comment": (SCREEN + COMMENT + FRAME + END_OF_GIF, GIF_SOUND),
    "GIF, no mark at the end": (SCREEN + FRAME, GIF_SOUND),
    "GIF, other bytes instead of that mark": (SCREEN + FRAME + b"\0\0", GIF_SOUND),
    "GIF, a frame smaller than the screen": (SCREEN + frame(4, 5) + END_OF_GIF, ("gif", 5, 4, 3, 1)),
    "GIF, a frame beside the origin": (SCREEN + ASIDE + END_OF_GIF, ("gif", 5, 4, 3, 1)),
    "GIF, frames of two sizes": (SCREEN + frame(4, 5) + frame(5, 2) + END_OF_GIF, ("gif", 5, 5, 3, 1)),
    "GIF, an empty comment": (SCREEN + b"\x21\xfe\0" + FRAME + END_OF_GIF, CORRUPT),
    "GIF, no palette": (NO_COLOURS + FRAME + END_OF_GIF, CORRUPT),
    "GIF, a palette of its own": (NO_COLOURS + frame(9, 7, flags=0x80, colours=bytes(6)) + END_OF_GIF, GIF_SOUND),
    "GIF, no frame": (SCREEN + COMMENT + END_OF_GIF, CORRUPT),
    "GIF, cut inside its only frame": (SCREEN + FRAME[:-3], CORRUPT),
    "GIF, a film that breaks off": (SCREEN + FRAME + FRAME[:-5], CORRUPT, CORRUPT, (7, 9, 3)),
    "GIF, no pixels": (SCREEN + frame(0, 7) + END_OF_GIF, CORRUPT),
    "GIF, too few pixels": (SCREEN + frame(9, 7, codes=DAMAGED[0]) + END_OF_GIF, GIF_SOUND, CORRUPT),
    "GIF, no last code": (SCREEN + frame(9, 7, codes=DAMAGED[1]) + END_OF_GIF, GIF_SOUND, CORRUPT),
    "GIF, a code before there is one": (SCREEN + frame(9, 7, codes=DAMAGED[2]) + END_OF_GIF, GIF_SOUND, CORRUPT),
    "GIF, a colour that the palette lacks": (SCREEN + frame(9, 7, codes=DAMAGED[3]) + END_OF_GIF, GIF_SOUND, CORRUPT),
    "BMP, sound": (RGB, BMP_SOUND),
    "BMP, from top to bottom": (with_field(RGB, 22, -7, "<i"), BMP_SOUND),
    "BMP, a size field that lies": (with_field(RGB, 2, 5), BMP_SOUND),
    "BMP, a palette of a wrong length": (with_field(GREY, 46, 1 << 30), ("bmp", 7, 9, 1, 1)),
    "BMP, bits in fields": (with_field(bmp(9, 7, 32), 30, 3), ("bmp", 7, 9, 4, 1)),
    "BMP, bits in fields, with alpha": (with_field(bmp(9, 7, 32), 30, 6), ("bmp", 7, 9, 4, 1)),
    "BMP, OS/2's short header": (with_field(RGB, 14, 16), BMP_SOUND),
    "BMP, a byte more": (RGB + b"\0", CORRUPT),
    "BMP, a byte less": (RGB[:-1], CORRUPT),
    "BMP, a row more": (with_field(RGB, 22, 8), CORRUPT),
    "BMP, no rows": (with_field(RGB, 22, 0), CORRUPT),
    "BMP, pixels that begin before the file": (with_field(RGB, 10, -54, "<i"), CORRUPT),
    "BMP, cut": (RGB[:20], CORRUPT),
    "BMP, 16 bits": (bmp(9, 7, 16), UNSUPPORTED),
    "BMP, 4 bits": (bmp(9, 7, 4, fixtures.PALETTE[:64]), UNSUPPORTED),
    # if lengths happen to agree, TensorFlow takes the codes for pixels
    **{f"BMP, compressed, {kind}": (with_field(RGB, 30, kind), UNSUPPORTED, UNSUPPORTED, (7, 9, 3)) for kind in (1, 2, 4, 5)},
    "PNG, sound": (picture(PACKED), PNG_SOUND),
    "PNG, in pieces": (picture(PACKED, pieces=9), PNG_SOUND),
    "PNG, a chunk after the pixels": (picture(PACKED, after=chunk(b"tEXt", b"a\0b")), PNG_SOUND),
    "PNG, bytes behind the end": (picture(PACKED) + b"\0\0", PNG_SOUND),
    "PNG, more rows than needed": (picture(zlib.compress(ROWS + bytes(28))), PNG_SOUND),
    "PNG, a comment of a wrong checksum": (picture(PACKED, before=b"\0\0\0\1tEXtxabcd"), PNG_SOUND),
    "PNG, no end": (picture(PACKED)[: -len(END)], CORRUPT),
    "PNG, a wrong end": (picture(PACKED)[:-1], CORRUPT),
    "PNG, no pixels": (picture(b""), CORRUPT),
    "PNG, an unknown chunk that may not be skipped": (picture(PACKED, before=chunk(b"ABCD", b"")), CORRUPT),
    "PNG, a palette's image without a palette": (fixtures.png(9, 7, 8, 3, b"\1"), CORRUPT),
    "PNG, a palette after its transparency": (fixtures.png(9, 7, 8, 3, b"\1", chunk(b"tRNS", b"\0") + fixtures.PLTE), PNG_SOUND),
    "PNG, bits that there are not": (png_of((9, 7), 3, 0, PACKED), CORRUPT),
    "PNG, damage behind the pixels": (picture(PACKED[:-4] + b"\xff" * 4), PNG_SOUND, CORRUPT),
    "PNG, a chunk that reaches behind the end": (picture(PACKED, after=b"\0\0\xff\xfftEXt"), PNG_SOUND, CORRUPT),
    "PNG, a side of a million and one": (png_of((1_000_001, 1), 1, 0, MILLION), Reason.DECOMPRESSION_BOMB),
    "PNG, a row is missing": (picture(zlib.compress(ROWS[:-28])), PNG_SOUND, CORRUPT),
    "PNG, the checksum of the data is wrong": (picture(PACKED[:-1] + b"x"), PNG_SOUND, CORRUPT),
    "PNG, the checksum of the data is missing": (picture(PACKED[:-4]), PNG_SOUND, CORRUPT),
    "PNG, a chunk between the pixels": (picture(PACKED[:9], after=BETWEEN), PNG_SOUND, CORRUPT),
    "PNG, a chunk whose checksum is wrong": (picture(PACKED).replace(PACKED[-4:], b"abcd"), PNG_SOUND, CORRUPT),
    # this one is left to Pillow
    "PNG, a filter that there is not": (picture(zlib.compress(b"\5" + ROWS[1:])), PNG_SOUND, PNG_SOUND, None),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_both_checks_say_what_tensorflow_says(tf: Any, name: str) -> None:
    """The default check reads no pixels; a GIF has the size of its largest frame, and blocks as giflib reads them."""
    data, quick, *more = CASES[name]
    full = more[0] if more else quick
    checks = CHECKS[name[:3]]
    assert [outcome(check, data) for check in checks] == [quick, full]
    shape = more[1] if len(more) > 1 else None if isinstance(full, Reason) else full[1:4]
    assert decoded_shape(tf, data) == shape
    if shape is None:
        assert isinstance(outcome(decode_fully, data), Reason)


def test_many_codes_are_followed(tf: Any) -> None:
    """Noise fills the table of 4,096 codes several times."""
    noise = Image.effect_noise((200, 150), 90)
    data = saved(noise, format="GIF", save_all=True, append_images=[noise.rotate(180)])
    assert gif_bmp_jxl.check_gif(data) == ImageHeader("gif", 150, 200, 3)
    assert decoded_shape(tf, data) == (150, 200, 3)


BASES = [
    *(saved(Image.effect_noise((32, 24), 90), format="GIF"), RGB, GREY),
    SCREEN + COMMENT + FRAME + frame(3, 3) + END_OF_GIF,
]


@settings(max_examples=examples(600))
@given(base=st.sampled_from(BASES), mutations=MUTATIONS)
def test_what_passes_the_full_check_is_decoded(
    tf: Any, base: bytes, mutations: list[tuple[int, str, int]]
) -> None:
    """By TensorFlow, to the size that the check says."""
    data = mutated(base, mutations)
    found = outcome(CHECKS["GIF" if base[:3] == b"GIF" else "BMP"][1], data)
    if data.startswith(base[:2]) and isinstance(found, ImageHeader):
        assert decoded_shape(tf, data) == found[1:4]


@settings(max_examples=examples(300))
@given(
    name=st.sampled_from(sorted(k for k in fixtures.PICTURES if k.startswith("PNG"))),
    mutations=MUTATIONS,
)
def test_a_damaged_png_passes_the_full_check_if_tensorflow_decodes_it(
    tf: Any, name: str, mutations: list[tuple[int, str, int]]
) -> None:
    """Neither more nor fewer; afterwards Pillow must decode it as well, which refuses more."""
    data = mutated(fixtures.PICTURES[name][0], mutations)
    found = outcome(png.check_png, data)
    if found is not Reason.DECOMPRESSION_BOMB:
        assert (found[1:4] if isinstance(found, ImageHeader) else None) == (
            decoded_shape(tf, data) if data.startswith(png.MAGIC) else None
        )


@pytest.mark.parametrize(
    ("frames", "fits"),
    [
        ([(60_000, 2_982)], True),
        ([(60_000, 2_983)], False),
        ([(60_000, 1_491)] * 2, True),
        ([(60_000, 1_492)] * 2, False),
        ([(1, 1)] * 17_894 + [(100, 100)], True),
        ([(1, 1)] * 17_895 + [(100, 100)], False),
        ([(100, 1), (1, 100)] + [(1, 1)] * 17_893, True),
        ([(100, 1), (1, 100)] + [(1, 1)] * 17_894, False),
    ],
)
def test_all_frames_together_must_fit(frames: list[tuple[int, int]], fits: bool) -> None:
    """TensorFlow gives every frame the size of the largest, so that a small file could fill the memory."""
    height, width = max(h for _, h in frames), max(w for w, _ in frames)
    assert (len(frames) * height * width <= MAX_PIXELS) is fits
    claims = b"".join(frame(*size, codes=packed([4, 5])) for size in frames)
    outcomes = [outcome(check, SCREEN + claims + END_OF_GIF) for check in CHECKS["GIF"]]
    sound = [ImageHeader("gif", height, width, 3), CORRUPT]
    assert outcomes == (sound if fits else [Reason.DECOMPRESSION_BOMB] * 2)


ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2)]
ADAM7 += [(0, 1, 1, 2)]  # first column, first row, and the steps of each pass


@pytest.mark.parametrize("interlaced", [0, 1])
@pytest.mark.parametrize(("width", "height"), [(1, 1), (3, 5), (8, 8), (9, 17)])
@pytest.mark.parametrize(
    ("depth", "colour_type", "bits"), [(1, 0, 1), (2, 0, 2), (16, 2, 48), (8, 6, 32), (16, 4, 32)]
)
def test_the_length_of_the_pixels_is_known(
    tf: Any, interlaced: int, width: int, height: int, depth: int, colour_type: int, bits: int
) -> None:
    """One byte less than the rows of all passes have is found, as TensorFlow finds it."""
    passes = ADAM7 if interlaced else [(0, 0, 1, 1)]
    sizes = [(-((x - width) // dx), -((y - height) // dy)) for x, y, dx, dy in passes]
    length = sum(h * (1 + (w * bits + 7) // 8) for w, h in sizes if w > 0)
    for missing in (0, 1):
        pixels = chunk(b"IDAT", zlib.compress(bytes(length - missing)))
        data = png_of((width, height), depth, colour_type, pixels, interlaced)
        decoded = decoded_shape(tf, data)
        assert (decoded is None) == bool(missing)
        if missing:
            error = raised(BadImageError, png.check_png, data)
            assert "pixels are missing: 1 bytes" in str(error)
        else:
            assert png.check_png(data)[1:4] == decoded


# --- sixteen bits ----------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["I;16", "I"])
def test_the_upper_bits_remain(mode: str) -> None:
    """Whichever mode a version of Pillow reads grey PNGs of 16 bits in."""
    values = np.array([[0, 255, 256, 65535]], np.uint16 if mode == "I;16" else np.int32)
    image = Image.fromarray(values)
    assert image.mode == mode
    assert np.asarray(pillow_codec.to_8_bits(image)).tolist() == [[0, 0, 1, 255]]


def planes_of(data: bytes) -> Any:
    """The pixels as they are taken apart."""
    found = png.colour_channels(data, read_header(data))
    return found and np.stack([np.asarray(plane) for plane in found], -1)


@pytest.mark.parametrize("channels", [2, 3, 4])
def test_what_is_written_is_read_back(channels: int) -> None:
    """Every bit of every channel."""
    shape = (7, 5, channels)
    pixels = np.random.default_rng(channels).integers(0, 1 << 16, shape, dtype=np.uint16)
    planes = np.moveaxis(pixels, -1, 0)
    data = png.png_of_channels([Image.fromarray(np.ascontiguousarray(p)) for p in planes])
    assert read_header(data)[1:4] == shape
    assert (planes_of(data) == pixels).all()


def deep(rows: bytes, interlaced: int = 0) -> bytes:
    """A colour PNG of 16 bits, of 5 x 7 pixels."""
    return png_of((5, 7), 16, 2, chunk(b"IDAT", zlib.compress(rows)), interlaced)


@pytest.mark.parametrize("row_filter", range(5))
def test_all_filters_of_png(tf: Any, row_filter: int) -> None:
    """TensorFlow and this module decode the same pixels, whatever the rows hold."""
    rows = np.random.default_rng(0).integers(0, 256, (7, 1 + 5 * 6), dtype=np.uint8)
    rows[:, 0] = row_filter
    data = deep(rows.tobytes())
    assert (planes_of(data) == tf.io.decode_png(data, dtype=tf.uint16).numpy()).all()


def test_other_images_are_left_to_pillow() -> None:
    """Of 8 bits, or of one channel, or no PNG; interlaced pixels and too few of them cannot be taken apart."""
    for mode, file_format in (("RGB", "PNG"), ("I;16", "PNG"), ("RGB", "JPEG")):
        assert planes_of(saved(Image.new(mode, (5, 7)), format=file_format)) is None
    assert "interlaced" in str(raised(ValueError, planes_of, deep(b"\0" * 300, interlaced=1)))
    error = raised(ValueError, planes_of, deep(b"\0" * 30))
    assert "187 bytes of pixels are missing" in str(error)


def test_wide_values_are_cut() -> None:
    """A scaled edge may swing beyond both ends."""
    wide = pillow_codec.grey_16_bits(Image.fromarray(np.array([[-5, 70000, 300]], np.int32)))
    assert np.asarray(wide).tolist() == [[0, 65535, 300]]
    assert np.asarray(pillow_codec.to_8_bits(wide)).tolist() == [[0, 255, 1]]


# --- jxl -------------------------------------------------------------------------------------

FILE_TYPE = struct.pack(">I", 20) + b"ftypjxl \0\0\0\0jxl "


def bits(*fields: tuple[int, int]) -> bytes:
    """A codestream of (bits, value) after its first two bytes."""
    number = offset = 0
    for count, value in fields:
        number |= value << offset
        offset += count
    return b"\xff\x0a" + number.to_bytes((offset + 7) // 8, "little")


def box(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", 8 + len(content)) + name + content


Fields = tuple[tuple[int, int], ...]
SMALL: Fields = ((1, 1), (5, 1), (3, 0), (5, 2))  # 16 rows of 24 pixels
USUAL = bits(*SMALL, (1, 1))
JXL_RGB, JXL_GREY = ((1, 1),), ((1, 0), (1, 0), (2, 1))  # sRGB, or a colour space: the number 1
EIGHT_BITS = ((1, 0), (2, 0))


def samples(*extra: tuple[int, int], colours: Fields = JXL_RGB, more: Fields = ((1, 0),)) -> bytes:
    """The codestream of a small picture: `more` says further things, `extra` the extra channels."""
    channels = extra or ((2, 0),)
    return bits(*SMALL, (1, 0), *more, *EIGHT_BITS, (1, 1), *channels, (1, 0), *colours)


def orientation(number: int, *screens: tuple[int, int]) -> Fields:
    return ((1, 1), (3, number - 1), *(screens or ((1, 0), (1, 0), (1, 0))))


ALPHA = ((2, 1), (1, 1))  # one extra channel, as usual
NAMED_ALPHA = (
    *((2, 1), (1, 0), (2, 0), (1, 1), (2, 3), (6, 15), (4, 5), (2, 3), (3, 2), (2, 1), (4, 2), (16, 0x6F6E)),
    (1, 1),
)  # fmt: skip
DEEP_ALPHA = ((2, 1), (1, 0), (2, 0), (1, 0), (2, 3), (6, 11), (2, 0), (2, 0), (1, 1))
DEPTH = ((2, 1), (1, 0), (2, 1))

HEADERS = {
    "small, all as usual": (USUAL, (16, 24, 3)),
    "a ratio of 12 to 10": (bits((1, 1), (5, 4), (3, 2), (1, 1)), (40, 48, 3)),
    "a ratio of 16 to 9": (bits((1, 0), (2, 0), (9, 107), (3, 5), (1, 1)), (108, 192, 3)),
    "sides of 13 and 18 bits": (
        bits((1, 0), (2, 1), (13, 599), (3, 0), (2, 2), (18, 400), (1, 1)),
        (600, 401, 3),
    ),
    "grey": (samples(colours=JXL_GREY), (16, 24, 1)),
    "grey of an ICC profile": (samples(colours=((1, 0), (1, 1), (2, 1))), (16, 24, 1)),
    "alpha": (samples(*ALPHA), (16, 24, 4)),
    "grey and alpha": (samples(*ALPHA, colours=JXL_GREY), (16, 24, 2)),
    "alpha with a name": (samples(*NAMED_ALPHA), (16, 24, 4)),
    "alpha of 12 bits": (samples(*DEEP_ALPHA), (16, 24, 4)),
    "turned upside down": (samples(more=orientation(4)), (16, 24, 3)),
    "turned to its side": (samples(more=orientation(5)), (24, 16, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", HEADERS)
def test_size_and_channels_are_read(name: str) -> None:
    """Sides as TensorFlow gives them, turned; channels are the colours and alpha. Cut at any byte, it is bad."""
    data, (height, width, channels) = HEADERS[name]
    header = ImageHeader("jxl", height, width, channels)
    assert gif_bmp_jxl.jxl_header(data) == read_header(data) == header
    cut = {outcome(gif_bmp_jxl.jxl_header, data[:end]) for end in range(2, len(data))}
    assert cut == {CORRUPT}


@pytest.mark.parametrize(
    ("data", "ability"),
    [
        *((samples(more=orientation(1, *screens)), "a preview, an animation or a size to show it at") for screens in (
            ((1, 1), (1, 0), (1, 0)), ((1, 0), (1, 1), (1, 0)), ((1, 0), (1, 0), (1, 1))
        )),
        *((samples(*extra), "channels other than colours and alpha") for extra in (DEPTH, ((2, 2), (4, 0)))),
    ],
)  # fmt: skip
def test_rare_abilities_are_refused(data: bytes, ability: str) -> None:
    """With what to do about them."""
    error = raised(BadImageError, read_header, data)
    advice = "--reencode auto makes it a PNG or JPEG after pip install pillow-jxl-plugin"
    assert (error.reason, str(error)) == (UNSUPPORTED, f"a JPEG XL image with {ability}; {advice}")


def parts(*contents: bytes) -> bytes:
    numbers = [*range(len(contents) - 1), 0x80000000 + len(contents) - 1]
    return b"".join(
        box(b"jxlp", number.to_bytes(4, "big") + content)
        for number, content in zip(numbers, contents, strict=True)
    )


JXL_SOUND = ImageHeader("jxl", 16, 24, 3)
CONTAINERS: dict[str, tuple[bytes, ImageHeader | Reason]] = {
    "one box": (FILE_TYPE + box(b"Exif", b"x") + box(b"jxlc", USUAL), JXL_SOUND),
    "a box to the end": (FILE_TYPE + b"\0\0\0\0jxlc" + USUAL, JXL_SOUND),
    "parts": (FILE_TYPE + parts(USUAL[:3], USUAL[3:], b"more"), JXL_SOUND),
    "a box of a length in eight bytes": (FILE_TYPE + b"\0\0\0\1jxlc" + (16 + len(USUAL)).to_bytes(8, "big") + USUAL, CORRUPT),
    "a broken box behind it": (FILE_TYPE + box(b"jxlc", USUAL) + b"\0\0\0\1Exif\0", JXL_SOUND),
    "no type of file": (box(b"jxlc", USUAL), CORRUPT),
    "another type": (box(b"ftyp", b"heic") + box(b"jxlc", USUAL), CORRUPT),
    "no codestream": (FILE_TYPE + box(b"Exif", USUAL), CORRUPT),
    "rubbish": (FILE_TYPE + box(b"jxlc", b"\0" + USUAL), CORRUPT),
    "cut short": (FILE_TYPE + box(b"jxlc", USUAL + b"x")[:-1], CORRUPT),
    "without its last part": (FILE_TYPE + parts(USUAL, b"x")[: -len(b"....jxlp....x")], CORRUPT),
    "a box shorter than its name": (FILE_TYPE + b"\0\0\0\5jxlc" + USUAL, CORRUPT),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTAINERS)
def test_the_codestream_is_found_in_its_boxes(name: str) -> None:
    """All of it must be there; what comes behind does not matter."""
    data, expected = CONTAINERS[name]
    assert outcome(read_header, gif_bmp_jxl.JXL_CONTAINER + data) == expected


def test_a_claim_takes_no_memory() -> None:
    """Sides may have 30 bits."""
    data = bits((1, 0), (2, 3), (30, (1 << 30) - 1), (3, 7), (1, 1))
    for check in (read_header, decode_fully):
        assert outcome(check, data) is Reason.DECOMPRESSION_BOMB


def test_without_its_library_the_full_check_refuses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It passes nothing that it could not decode, and says what to install."""
    found = builtins.__import__

    def without(name: str, *more: Any) -> Any:
        if name == "pillow_jxl":
            raise ImportError(name)
        return found(name, *more)

    monkeypatch.setattr(builtins, "__import__", without)
    error = raised(BadImageError, gif_bmp_jxl.check_jxl, USUAL)
    assert (error.reason, "pip install pillow-jxl-plugin" in str(error)) == (UNSUPPORTED, True)
    assert gif_bmp_jxl.jxl_header(USUAL) == JXL_SOUND


# --- against TensorFlow -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tf(tf: Any) -> Any:
    """The first that decodes JPEG XL, or a later one."""
    return pytest.importorskip("tensorflow", minversion="2.21")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Images as libjxl writes them."""
    pytest.importorskip("pillow_jxl")
    exif = Image.Exif()
    exif[0x0112] = 6
    noise = Image.effect_noise((30, 20), 90)
    made = {
        f"{mode} {options}": saved(noise.convert(mode), format="JXL", **options)
        for mode in ("L", "LA", "RGB", "RGBA")
        for options in ({}, {"lossless": True}, {"use_container": True})
    }
    made["wide"] = saved(Image.new("RGB", (3000, 1)), format="JXL")
    path = tmp_path_factory.mktemp("photo") / "1.jpg"  # the plugin reads its bytes again
    noise.convert("RGB").save(path, exif=exif)
    with Image.open(path) as photo:
        made["JPEG on its side"] = saved(photo, format="JXL", lossless_jpeg=True)
    return made


def test_tensorflow_decodes_what_the_header_says(tf: Any, files: dict[str, bytes]) -> None:
    """Whatever the mode; the photo on its side is turned."""
    found = {name: read_header(data) for name, data in files.items()}
    assert {name: decoded_shape(tf, data) for name, data in files.items()} == {
        name: header[1:4] for name, header in found.items()
    }
    assert {name: decode_fully(data) for name, data in files.items()} == found
    assert found["JPEG on its side"] == ImageHeader("jxl", 30, 20, 3)


@settings(max_examples=examples(60), deadline=None)
@given(data=st.data(), mutations=MUTATIONS)
def test_what_is_damaged_is_never_of_another_size(
    tf: Any, files: dict[str, bytes], data: st.DataObject, mutations: list[tuple[int, str, int]]
) -> None:
    """The header passes what TensorFlow decodes, with its size, or refuses it; `full` passes nothing more."""
    name = data.draw(st.sampled_from(sorted(files)))
    broken = mutated(files[name], mutations)
    quick, fully = outcome(gif_bmp_jxl.jxl_header, broken), outcome(gif_bmp_jxl.check_jxl, broken)
    if isinstance(quick, ImageHeader) and quick.height * quick.width > 1 << 22:
        return  # so large that decoding takes long
    decoded = decoded_shape(tf, broken)
    if isinstance(quick, ImageHeader) and decoded:
        assert quick[1:4] == decoded
    if isinstance(fully, ImageHeader):
        assert fully[1:4] == decoded
