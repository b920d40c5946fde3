from __future__ import annotations

import builtins
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from beam_pipeline.core.dead_letters import Reason
from beam_pipeline.core.images.gif_bmp_jxl import JXL_CONTAINER, check_jxl, jxl_header
from beam_pipeline.core.images.header import BadImageError, ImageHeader
from beam_pipeline.core.images.preparation import decode_fully, read_header
from tests.core.images.fixtures import MUTATIONS, mutated, outcome, saved
from tests.profiles import examples

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


SMALL = ((1, 1), (5, 1), (3, 0), (5, 2))  # 16 rows of 24 pixels
USUAL = bits(*SMALL, (1, 1))
RGB, GREY = ((1, 1),), ((1, 0), (1, 0), (2, 1))  # sRGB, or a colour space: the number 1
EIGHT_BITS = ((1, 0), (2, 0))


def samples(
    *extra: tuple[int, int], colours: tuple[tuple[int, int], ...] = RGB, more: Any = ((1, 0),)
) -> bytes:
    """The codestream of a small picture: `more` says further things, `extra` the extra channels."""
    channels = extra or ((2, 0),)
    return bits(*SMALL, (1, 0), *more, *EIGHT_BITS, (1, 1), *channels, (1, 0), *colours)


def orientation(number: int, *screens: tuple[int, int]) -> tuple[tuple[int, int], ...]:
    return ((1, 1), (3, number - 1), *(screens or ((1, 0), (1, 0), (1, 0))))


ALPHA = ((2, 1), (1, 1))  # one extra channel, as usual
DEPTH_AND_NAMED_ALPHA = (
    *((2, 2), (4, 0)),  # two extra channels:
    *(
        (1, 0),
        (2, 1),
        (1, 1),
        (2, 3),
        (6, 15),
        (4, 5),
        (2, 3),
        (3, 2),
        (2, 1),
        (4, 2),
        (16, 0x6F6E),
    ),
    *((1, 0), (2, 0), (1, 0), (2, 3), (6, 11), (2, 0), (2, 0), (1, 1)),
)
SPOT_AND_FILTER = (
    *((2, 2), (4, 0)),
    *((1, 0), (2, 2), (4, 0), *EIGHT_BITS, (2, 0), (2, 0), (64, 1 << 63)),
    *((1, 0), (2, 2), (4, 3), *EIGHT_BITS, (2, 0), (2, 0), (2, 2), (4, 9)),
)
INTRINSIC_SIZE, PREVIEW_IN_EIGHTHS, PREVIEW, ANIMATION = (
    ((1, 1), (1, 0), (2, 2), (18, 5), (3, 1), (1, 0), (1, 0)),
    ((1, 0), (1, 1), (1, 1), (2, 2), (5, 7), (3, 0), (2, 0), (1, 0)),
    ((1, 0), (1, 1), (1, 0), (2, 3), (12, 9), (3, 2), (1, 0)),
    ((1, 0), (1, 0), (1, 1), (2, 2), (10, 9), (2, 1), (2, 1), (3, 7), (1, 1)),
)

HEADERS = {
    "small, all as usual": (USUAL, (16, 24, 3)),
    "a ratio of 12 to 10": (bits((1, 1), (5, 4), (3, 2), (1, 1)), (40, 48, 3)),
    "a ratio of 16 to 9": (bits((1, 0), (2, 0), (9, 107), (3, 5), (1, 1)), (108, 192, 3)),
    "sides of 13 and 18 bits": (
        bits((1, 0), (2, 1), (13, 599), (3, 0), (2, 2), (18, 400), (1, 1)),
        (600, 401, 3),
    ),
    "grey": (samples(colours=GREY), (16, 24, 1)),
    "grey of an ICC profile": (samples(colours=((1, 0), (1, 1), (2, 1))), (16, 24, 1)),
    "alpha": (samples(*ALPHA), (16, 24, 4)),
    "grey and alpha": (samples(*ALPHA, colours=GREY), (16, 24, 2)),
    "depth and an alpha channel": (samples(*DEPTH_AND_NAMED_ALPHA), (16, 24, 4)),
    "a spot colour and a filter": (samples(*SPOT_AND_FILTER), (16, 24, 3)),
    "turned upside down": (samples(more=orientation(4)), (16, 24, 3)),
    "turned to its side": (samples(more=orientation(5)), (24, 16, 3)),
    "a size to show it at": (samples(more=orientation(8, *INTRINSIC_SIZE)), (24, 16, 3)),
    "a preview in eighths": (samples(*ALPHA, more=orientation(1, *PREVIEW_IN_EIGHTHS)), (16, 24, 4)),
    "a preview": (samples(more=orientation(1, *PREVIEW), colours=GREY), (16, 24, 1)),
    "an animation": (samples(*ALPHA, more=orientation(1, *ANIMATION)), (16, 24, 4)),
}  # fmt: skip


@pytest.mark.parametrize("name", HEADERS)
def test_size_and_channels_are_read(name: str) -> None:
    """Sides as TensorFlow gives them, turned; channels are the colours and alpha."""
    data, (height, width, channels) = HEADERS[name]
    assert jxl_header(data) == read_header(data) == ImageHeader("jxl", height, width, channels)


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_that_is_cut_is_bad(name: str) -> None:
    """At any byte."""
    data, _ = HEADERS[name]
    for cut in range(2, len(data)):
        assert outcome(jxl_header, data[:cut]) is Reason.CORRUPT_IMAGE


def parts(*contents: bytes) -> bytes:
    numbers = [*range(len(contents) - 1), 0x80000000 + len(contents) - 1]
    return b"".join(
        box(b"jxlp", number.to_bytes(4, "big") + content)
        for number, content in zip(numbers, contents, strict=True)
    )


SOUND = ImageHeader("jxl", 16, 24, 3)
CONTAINERS: dict[str, tuple[bytes, ImageHeader | Reason]] = {
    "one box": (FILE_TYPE + box(b"Exif", b"x") + box(b"jxlc", USUAL), SOUND),
    "a box to the end": (FILE_TYPE + b"\0\0\0\0jxlc" + USUAL, SOUND),
    "a long box": (FILE_TYPE + b"\0\0\0\1jxlc" + (16 + len(USUAL)).to_bytes(8, "big") + USUAL, SOUND),
    "parts": (FILE_TYPE + parts(USUAL[:3], USUAL[3:], b"more"), SOUND),
    "a broken box behind it": (FILE_TYPE + box(b"jxlc", USUAL) + b"\0\0\0\1Exif\0", SOUND),
    "no type of file": (box(b"jxlc", USUAL), Reason.CORRUPT_IMAGE),
    "another type": (box(b"ftyp", b"heic") + box(b"jxlc", USUAL), Reason.CORRUPT_IMAGE),
    "no codestream": (FILE_TYPE + box(b"Exif", USUAL), Reason.CORRUPT_IMAGE),
    "rubbish": (FILE_TYPE + box(b"jxlc", b"\0" + USUAL), Reason.CORRUPT_IMAGE),
    "cut short": (FILE_TYPE + box(b"jxlc", USUAL + b"x")[:-1], Reason.CORRUPT_IMAGE),
    "without its last part": (FILE_TYPE + parts(USUAL, b"x")[: -len(b"....jxlp....x")], Reason.CORRUPT_IMAGE),
    "a box shorter than its name": (FILE_TYPE + b"\0\0\0\5jxlc" + USUAL, Reason.CORRUPT_IMAGE),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTAINERS)
def test_the_codestream_is_found_in_its_boxes(name: str) -> None:
    """All of it must be there; what comes behind does not matter."""
    data, expected = CONTAINERS[name]
    assert outcome(read_header, JXL_CONTAINER + data) == expected


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
    with pytest.raises(BadImageError, match="pip install pillow-jxl-plugin") as caught:
        check_jxl(USUAL)
    assert caught.value.reason is Reason.UNSUPPORTED_FORMAT
    assert jxl_header(USUAL) == SOUND


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


def shape(tf: Any, data: bytes) -> tuple[int, ...] | None:
    try:
        return tuple(tf.io.decode_image(data, expand_animations=False).shape)
    except tf.errors.InvalidArgumentError:
        return None


def test_tensorflow_decodes_what_the_header_says(tf: Any, files: dict[str, bytes]) -> None:
    """Whatever the mode; the photo on its side is turned."""
    found = {name: read_header(data) for name, data in files.items()}
    assert {name: shape(tf, data) for name, data in files.items()} == {
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
    quick, fully = outcome(jxl_header, broken), outcome(check_jxl, broken)
    if isinstance(quick, ImageHeader) and quick.height * quick.width > 1 << 22:
        return  # so large that decoding takes long
    decoded = shape(tf, broken)
    if isinstance(quick, ImageHeader) and decoded:
        assert quick[1:4] == decoded
    if isinstance(fully, ImageHeader):
        assert fully[1:4] == decoded
