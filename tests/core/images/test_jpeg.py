from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from beam_pipeline.core.dead_letters import Reason
from beam_pipeline.core.images.changes import ImageChanges
from beam_pipeline.core.images.header import BadImageError, ImageHeader
from beam_pipeline.core.images.jpeg import (
    MAX_SCANS,
    count_scans,
    first_scan,
    has_end,
)
from beam_pipeline.core.images.preparation import decode_fully, read_header
from beam_pipeline.core.records.alteration import Alteration
from beam_pipeline.core.report.thumbnails import thumbnail
from tests.core.images.fixtures import MUTATIONS, mutated, outcome, saved
from tests.profiles import examples

# Where Pillow only warns of a broken image, the test run would make an error of it.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")

NOISE = Image.effect_noise((32, 24), 90).convert("RGB")
BASELINE, PROGRESSIVE, RESTARTS = (
    saved(NOISE, format="JPEG", **options)
    for options in ({}, {"progressive": True}, {"restart_marker_rows": 1})
)


@pytest.mark.parametrize(
    ("data", "scan", "whole"),
    [
        (b"", -1, False),
        (b"\xff\xd8\xff\xd9", -1, False),
        (b"\xff\xd8\xff\xe0\0\4ab\xff\xda\0\2 x\xff\0\xff\xd0\xff\xd9", 8, True),
        (b"\xff\xd8\xff\xff\xe0\0\4\xff\xd9\xff\xda\0\2 \xff\0", 9, False),
        (b"\xff\xd8\xff\xda\0\2 \xff\xc4\0\4\xff\xd9 \xff\xda\0\2 \xff\xff\xd9 behind", 2, True),
        (b"\xff\xd8\xff\xda\0\2 \xff\xc4\0\4\xff\xd9 ", 2, False),
        (b"\xff\xd8\xff\xda\0\2 \xff\xd8\xff\xd9", 2, False),
        (b"\xff\xd8\xff\xda\0\2 \xff\xc0\0\2\xff\xd9", 2, False),
    ],
)
def test_markers_lead_to_the_end(data: bytes, scan: int, whole: bool) -> None:
    """Not each FF D9 is an end: it may lie in a preview or in a table."""
    assert first_scan(data) == scan
    assert (count_scans(data) > 0) is whole


@pytest.mark.parametrize(("repeated", "passes"), [(MAX_SCANS - 9, True), (MAX_SCANS - 8, False)])
def test_a_jpeg_of_too_many_scans_is_a_bomb(tf: Any, repeated: int, passes: bool) -> None:
    """Each scan takes time as the whole picture does, and nearly no bytes. The header alone tells nothing."""
    sound = PROGRESSIVE
    assert count_scans(sound) == 10
    data = _of_scans(sound, repeated)
    assert count_scans(data) == repeated + 9
    assert read_header(data) == ImageHeader("jpeg", 24, 32, 3)
    expected = ImageHeader("jpeg", 24, 32, 3) if passes else Reason.DECOMPRESSION_BOMB
    assert outcome(decode_fully, data) == expected
    assert tuple(tf.io.decode_image(data).shape) == (24, 32, 3)


def _of_scans(sound: bytes, repeated: int, before: bytes = b"") -> bytes:
    """A JPEG whose last scan comes again and again."""
    last = sound.rindex(b"\xff\xda")
    return sound[:2] + before + sound[2:-2] + sound[last:-2] * (repeated - 1) + sound[-2:]


EXIF = b"\xff\xe1\0\x22Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0"
CHANGES = {
    "never": ImageChanges(resize=(8, 8)),
    "auto": ImageChanges(reencode="always"),
    "opencv": ImageChanges(resize=(8, 8), image_codec="opencv"),
    "orientation": ImageChanges(orientation="apply"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_scans_are_bounded_wherever_pixels_are_decoded(name: str) -> None:
    """Also where the file is to be scaled, turned or encoded anew, and only its header was checked."""
    if name == "opencv":
        pytest.importorskip("cv2")
    data = _of_scans(PROGRESSIVE, MAX_SCANS, EXIF)
    header = read_header(data)
    assert header.orientation == 6
    with pytest.raises(BadImageError, match="more than 100 scans") as raised:
        Alteration(CHANGES[name]).alter(data, header)
    assert raised.value.reason is Reason.DECOMPRESSION_BOMB
    assert thumbnail(data) is None
    sound = _of_scans(PROGRESSIVE, 2, EXIF) + b"\xff\xda" * 1000
    assert Alteration(CHANGES[name]).alter(sound, header).image != sound
    assert thumbnail(sound) is not None


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "rubbish",
    [
        b"\0",
        *(
            pytest.param(rubbish, marks=pytest.mark.slow)
            for rubbish in (b"\xff\0", b"\xff", b"\xff\x01", b"\xff\xe0\0\0")
        ),
    ],
)
def test_rubbish_before_the_first_scan_takes_no_time(rubbish: bytes) -> None:
    """Pillow would look at each byte of it, for minutes."""
    data = b"\xff\xd8\xff\xe0" + rubbish * ((200 << 20) // len(rubbish)) + b"\xff\xda\0\2 \xff\xd9"
    assert first_scan(data) == -1
    assert outcome(decode_fully, data) is outcome(read_header, data) is Reason.CORRUPT_IMAGE


def test_the_quick_look_takes_any_end_behind_the_scan() -> None:
    """It is one comparison for nearly all files, and a search for the others."""
    assert has_end(b"\xff\xda ... \xff\xd9", 0)
    assert has_end(b"\xff\xda ... \xff\xd9 behind", 0)
    assert not has_end(b"\xff\xd9\xff\xda ...", 2)


@settings(max_examples=examples(300))
@given(base=st.sampled_from([BASELINE, PROGRESSIVE, RESTARTS]), mutations=MUTATIONS)
def test_what_passes_the_full_check_is_decoded(
    tf: Any, base: bytes, mutations: list[tuple[int, str, int]]
) -> None:
    """By TensorFlow, to the shape that the check says."""
    data = mutated(base, mutations)
    found = outcome(decode_fully, data)
    if isinstance(found, ImageHeader):
        assert tuple(tf.io.decode_image(data).shape)[-3:] == found[1:4]
