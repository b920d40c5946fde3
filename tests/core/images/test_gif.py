from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from beam_pipeline.core.dead_letters import Reason
from beam_pipeline.core.images.gif_bmp_jxl import check_gif, gif_header
from beam_pipeline.core.images.header import MAX_PIXELS, ImageHeader
from tests.core.images.fixtures import MUTATIONS, mutated, outcome, saved
from tests.profiles import examples

SCREEN = b"GIF89a" + struct.pack("<HHBBB", 9, 7, 0x80, 0, 0) + bytes(6)  # two colours
COMMENT = b"\x21\xfe\x05hello\0"


def packed(codes: list[int], bits: int = 3) -> bytes:
    """Codes of that many bits as one sub-block, and its end."""
    number = sum(code << (bits * i) for i, code in enumerate(codes))
    data = number.to_bytes((bits * len(codes) + 7) // 8, "little")
    return bytes([len(data)]) + data + b"\0"


def frame(width: int, height: int, *, flags: int = 0, colours: bytes = b"") -> bytes:
    """A frame of black pixels: before every pixel, the table of codes is cleared."""
    head = b"\x2c" + struct.pack("<HHHHB", 0, 0, width, height, flags) + colours
    return head + b"\2" + packed([4, 0] * (width * height) + [5])


SOUND = ImageHeader("gif", 7, 9, 3)
FRAME = frame(9, 7)

CASES: dict[str, tuple[bytes, ImageHeader | Reason]] = {
    "sound": (SCREEN + FRAME + b"\x3b", SOUND),
    "a comment": (SCREEN + COMMENT + FRAME + b"\x3b", SOUND),
    "no mark at the end": (SCREEN + FRAME, SOUND),
    "other bytes instead of that mark": (SCREEN + FRAME + b"\0\0", SOUND),
    "a frame smaller than the screen": (
        SCREEN + frame(4, 5) + b"\x3b",
        ImageHeader("gif", 5, 4, 3),
    ),
    "a frame beside the origin of the screen": (
        SCREEN + FRAME.replace(bytes(4) + b"\x09\0\7\0", b"\2\0\1\0\4\0\5\0") + b"\x3b",
        ImageHeader("gif", 5, 4, 3),
    ),
    "frames of two sizes": (
        SCREEN + frame(4, 5) + frame(5, 2) + b"\x3b",
        ImageHeader("gif", 5, 5, 3),
    ),
    "an empty comment": (SCREEN + b"\x21\xfe\0" + FRAME + b"\x3b", Reason.CORRUPT_IMAGE),
    "no palette": (
        SCREEN[:10] + b"\0" + SCREEN[11:13] + FRAME + b"\x3b",
        Reason.CORRUPT_IMAGE,
    ),
    "a palette of its own": (
        SCREEN[:10] + b"\0" + SCREEN[11:13] + frame(9, 7, flags=0x80, colours=bytes(6)) + b"\x3b",
        SOUND,
    ),
    "no frame": (SCREEN + COMMENT + b"\x3b", Reason.CORRUPT_IMAGE),
    "cut inside its only frame": (SCREEN + FRAME[:-3], Reason.CORRUPT_IMAGE),
    "no pixels": (SCREEN + frame(0, 7) + b"\x3b", Reason.CORRUPT_IMAGE),
}

DAMAGED_FRAMES = {
    "too few pixels": SCREEN + FRAME[:11] + packed([4, 0, 0, 5]) + b"\x3b",
    "no last code": SCREEN + FRAME[:11] + packed([4, 0, 0]) + b"\x3b",
    "a code before there is one": SCREEN + FRAME[:11] + packed([4, 6] + [4, 0] * 62) + b"\x3b",
    "a colour that the palette lacks": SCREEN + FRAME[:11] + packed([4, 3] * 63) + b"\x3b",
}


def shapes(tf: Any, data: bytes) -> tuple[int, ...] | None:
    """What TensorFlow makes of it, as frames and as one picture; None if either fails."""
    try:
        frames, one = (
            tuple(tf.io.decode_image(data, expand_animations=every).shape)
            for every in (True, False)
        )
    except tf.errors.InvalidArgumentError:
        return None
    assert frames[-3:] == one
    return one


@pytest.mark.parametrize("name", CASES)
def test_both_checks_say_what_tensorflow_says(tf: Any, name: str) -> None:
    """The size is that of the largest frame; blocks are read as giflib reads them."""
    data, expected = CASES[name]
    assert outcome(gif_header, data) == outcome(check_gif, data) == expected
    assert shapes(tf, data) == (expected[1:4] if isinstance(expected, ImageHeader) else None)


@pytest.mark.parametrize("name", DAMAGED_FRAMES)
def test_damaged_frames_are_found_by_the_full_check_only(tf: Any, name: str) -> None:
    """The default check reads no pixels."""
    data = DAMAGED_FRAMES[name]
    assert gif_header(data) == SOUND
    assert outcome(check_gif, data) is Reason.CORRUPT_IMAGE
    assert shapes(tf, data) is None


def test_a_film_that_breaks_off_is_bad(tf: Any) -> None:
    """TensorFlow shows the frames before it; here, the file is not whole."""
    data = SCREEN + FRAME + FRAME[:-5]
    assert shapes(tf, data) == (7, 9, 3)
    assert outcome(gif_header, data) is Reason.CORRUPT_IMAGE


def test_many_codes_are_followed(tf: Any) -> None:
    """Noise fills the table of 4,096 codes several times."""
    noise = Image.effect_noise((200, 150), 90)
    data = saved(noise, format="GIF", save_all=True, append_images=[noise.rotate(180)])
    assert check_gif(data) == ImageHeader("gif", 150, 200, 3)
    assert shapes(tf, data) == (150, 200, 3)


@settings(max_examples=examples(300))
@given(
    base=st.sampled_from(
        [
            saved(Image.effect_noise((32, 24), 90), format="GIF"),
            SCREEN + COMMENT + FRAME + frame(3, 3) + b"\x3b",
        ]
    ),
    mutations=MUTATIONS,
)
def test_what_passes_the_full_check_is_decoded(
    tf: Any, base: bytes, mutations: list[tuple[int, str, int]]
) -> None:
    """By TensorFlow, to the size that the check says."""
    data = mutated(base, mutations)
    found = outcome(check_gif, data)
    if isinstance(found, ImageHeader):
        assert shapes(tf, data) == found[1:4]


def claim(width: int, height: int) -> bytes:
    """A frame that claims a size, and holds no pixels."""
    return b"\x2c" + struct.pack("<HHHHB", 0, 0, width, height, 0) + b"\2" + packed([4, 5])


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
    data = SCREEN + b"".join(claim(*size) for size in frames) + b"\x3b"
    assert outcome(gif_header, data) == (
        ImageHeader("gif", height, width, 3) if fits else Reason.DECOMPRESSION_BOMB
    )
    assert outcome(check_gif, data) is (Reason.CORRUPT_IMAGE if fits else Reason.DECOMPRESSION_BOMB)
