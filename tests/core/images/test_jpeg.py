from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageCms

from beam_pipeline.core.dead_letters import Reason
from beam_pipeline.core.images import geometry, jpeg, pillow_codec, pillow_header, preparation
from beam_pipeline.core.images.header import BadImageError, ImageHeader, exif_orientation
from beam_pipeline.core.records.alteration import Alteration
from beam_pipeline.core.report.thumbnails import thumbnail
from tests import profiles, rows
from tests.core.images.fixtures import MUTATIONS, PICTURES, mutated, outcome, saved

# Where Pillow only warns of a broken image, the test run would make an error of it.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")

NOISE = Image.effect_noise((32, 24), 90).convert("RGB")
BASELINE, PROGRESSIVE, RESTARTS = (
    saved(NOISE, format="JPEG", **options)
    for options in ({}, {"progressive": True}, {"restart_marker_rows": 1})
)


@rows.in_rows
def test_markers_lead_to_the_end(data: bytes, scan: int, whole: bool) -> None:
    """Not each FF D9 is an end: it may lie in a preview or in a table."""
    assert jpeg.first_scan(data) == scan
    assert (jpeg.count_scans(data) > 0) is whole


@rows.in_rows
def test_a_jpeg_of_too_many_scans_is_a_bomb(tf: Any, repeated: int, passes: bool) -> None:
    """Each scan takes time as the whole picture does, and nearly no bytes. The header alone tells nothing."""
    assert jpeg.count_scans(PROGRESSIVE) == 10
    data = _of_scans(PROGRESSIVE, repeated)
    assert jpeg.count_scans(data) == repeated + 9
    assert preparation.read_header(data) == ImageHeader("jpeg", 24, 32, 3)
    expected = ImageHeader("jpeg", 24, 32, 3) if passes else Reason.DECOMPRESSION_BOMB
    assert outcome(preparation.decode_fully, data) == expected
    assert tuple(tf.io.decode_image(data).shape) == (24, 32, 3)


def _of_scans(sound: bytes, repeated: int, before: bytes = b"") -> bytes:
    """A JPEG whose last scan comes again and again."""
    last = sound.rindex(b"\xff\xda")
    return sound[:2] + before + sound[2:-2] + sound[last:-2] * (repeated - 1) + sound[-2:]


EXIF = b"\xff\xe1\0\x22Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0"
CHANGES = {
    "never": geometry.ImageChanges(resize=(8, 8)),
    "auto": geometry.ImageChanges(reencode="always"),
    "opencv": geometry.ImageChanges(resize=(8, 8), image_codec="opencv"),
    "orientation": geometry.ImageChanges(orientation="apply"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_scans_are_bounded_wherever_pixels_are_decoded(name: str) -> None:
    """Also where the file is to be scaled, turned or encoded anew, and only its header was checked."""
    if name == "opencv":
        pytest.importorskip("cv2")
    data = _of_scans(PROGRESSIVE, jpeg.MAX_SCANS, EXIF)
    header = preparation.read_header(data)
    assert header.orientation == 6
    with pytest.raises(BadImageError, match="more than 100 scans") as raised:
        Alteration(CHANGES[name]).alter(data, header)
    assert raised.value.reason is Reason.DECOMPRESSION_BOMB
    assert thumbnail(data) is None
    sound = _of_scans(PROGRESSIVE, 2, EXIF) + b"\xff\xda" * 1000
    assert Alteration(CHANGES[name]).alter(sound, header).image != sound
    assert thumbnail(sound) is not None


def test_scans_after_the_only_one_are_not_decoded() -> None:
    """So that those of a baseline JPEG need not be counted, if the first has all of its components."""
    with pytest.raises(OSError, match="broken data stream"):
        pillow_codec.open_image(_of_scans(BASELINE, jpeg.MAX_SCANS + 1)).image.load()
    of_one = BASELINE.replace(b"\xff\xda\0\x0c\3\1\0\2\x11\3\x11", b"\xff\xda\0\x08\1\1\0")
    assert (
        outcome(pillow_codec.open_image, _of_scans(of_one, jpeg.MAX_SCANS + 1))
        is Reason.DECOMPRESSION_BOMB
    )


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
    assert jpeg.first_scan(data) == -1
    assert (
        outcome(preparation.decode_fully, data)
        is outcome(preparation.read_header, data)
        is Reason.CORRUPT_IMAGE
    )


def test_the_quick_look_takes_any_end_behind_the_scan() -> None:
    """It is one comparison for nearly all files, and a search for the others."""
    assert jpeg.has_end(b"\xff\xda ... \xff\xd9", 0)
    assert jpeg.has_end(b"\xff\xda ... \xff\xd9 behind", 0)
    assert not jpeg.has_end(b"\xff\xd9\xff\xda ...", 2)


@settings(max_examples=profiles.examples(300))
@given(base=st.sampled_from([BASELINE, PROGRESSIVE, RESTARTS]), mutations=MUTATIONS)
def test_what_passes_the_full_check_is_decoded(
    tf: Any, base: bytes, mutations: list[tuple[int, str, int]]
) -> None:
    """By TensorFlow, to the shape that the check says."""
    data = mutated(base, mutations)
    found = outcome(preparation.decode_fully, data)
    if isinstance(found, ImageHeader):
        assert tuple(tf.io.decode_image(data).shape)[-3:] == found[1:4]


# --- plain header ----------------------------------------------------------------------------


TURNED = Image.Exif()
TURNED[0x0112] = 6
PROFILE = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


PLAIN = {
    **{name: data for name, (data, _) in PICTURES.items() if name.startswith("JPEG")},
    "JPEG, comment": saved(Image.new("RGB", (9, 7)), format="JPEG", comment="a comment"),
    "JPEG, profile": saved(Image.new("RGB", (9, 7)), format="JPEG", icc_profile=PROFILE),
    "JPEG, EXIF": saved(Image.new("RGB", (9, 7)), format="JPEG", exif=TURNED),
    "JPEG, EXIF and XMP": saved(
        Image.new("RGB", (9, 7)), format="JPEG", exif=TURNED, xmp=b"<x:xmpmeta/>"
    ),
    "JPEG, restarts": saved(Image.new("RGB", (64, 64)), format="JPEG", restart_marker_rows=1),
}


def test_real_images_are_read_without_pillow(samples: Path) -> None:
    """Of the real images at hand, all but those with Photoshop's notes are."""
    paths = sorted(p for p in samples.rglob("*") if p.suffix.lower() in (".jpg", ".jpeg"))
    headers = {path: (jpeg.jpeg_header(path.read_bytes()), path.read_bytes()) for path in paths}
    ordinary = [(header, data) for header, data in headers.values() if header]
    assert all(header == pillow_header.read_any(data) for header, data in ordinary)
    assert len(paths) > 100
    assert len(ordinary) > 0.9 * len(paths)


@settings(max_examples=profiles.examples(1000))
@given(name=st.sampled_from(sorted(PLAIN)), mutations=MUTATIONS)
def test_what_is_read_without_pillow_is_what_pillow_reads(
    name: str, mutations: list[tuple[int, str, int]]
) -> None:
    """Whatever bytes are changed, lost or added, the slower reader agrees with a header that we take;
    or Pillow trips over an EXIF block, which says nothing of what TensorFlow will read.
    """
    data = mutated(PLAIN[name], mutations)
    header = jpeg.jpeg_header(data)
    if header:
        slowly = outcome(pillow_header.read_any, data)
        assert header == slowly or ("EXIF" in name and slowly is Reason.CORRUPT_IMAGE)


def read_by_pillow(data: bytes) -> jpeg.PlainJpeg:
    """A JPEG without EXIF, as Pillow has it."""
    image = Image.open(io.BytesIO(data))
    header = ImageHeader("jpeg", image.height, image.width, len(image.getbands()))
    single_scan = not image.info.get("progressive")
    return jpeg.PlainJpeg(header, image.info.get("icc_profile", b""), single_scan)


JPEGS = {
    name: data
    for name, data in PLAIN.items()
    if name.startswith("JPEG") and "EXIF" not in name and "CMYK" not in name
}


@pytest.mark.parametrize(
    "data",
    [
        saved(Image.new("CMYK", (9, 7)), format="JPEG"),
        saved(Image.new("RGB", (9, 7)), format="JPEG", icc_profile=bytes(70_000)),
        PLAIN["JPEG, EXIF"],
        JPEGS["JPEG, profile"].replace(b"ICC_PROFILE\0\1", b"ICC_PROFILE\0\2"),
        JPEGS["JPEG, comment"][:-2],
        PICTURES["PNG RGB"][0],
        b"",
    ],
    ids=["CMYK", "long profile", "EXIF", "second part alone", "no end", "PNG", "nothing"],
)
def test_other_images_are_opened_by_pillow(data: bytes) -> None:
    """It knows how their colours are stored, puts profiles together, and says what is wrong."""
    assert jpeg.plain_jpeg(data) is None


@settings(max_examples=profiles.examples(1000))
@given(name=st.sampled_from(sorted(JPEGS)), mutations=MUTATIONS)
def test_a_jpeg_opened_without_its_header_is_what_pillow_reads(
    name: str, mutations: list[tuple[int, str, int]]
) -> None:
    """Whatever bytes are changed, lost or added."""
    data = mutated(JPEGS[name], mutations)
    found = jpeg.plain_jpeg(data)
    assert found is None or found == read_by_pillow(data)


# --- exif ------------------------------------------------------------------------------------


def exif(orientation: int, order: str = "<", kind: int = 3) -> bytes:
    """A directory of two entries, the orientation behind another."""
    form = {1: "B", 3: "H", 4: "I"}[kind]
    head = struct.pack(f"{order}2sHI", b"II" if order == "<" else b"MM", 42, 8)
    other = struct.pack(f"{order}HHI4s", 0x010F, 2, 4, b"abc")
    value = struct.pack(f"{order}{form}", orientation).ljust(4, b"\0")
    entry = struct.pack(f"{order}HHI", 0x0112, kind, 1) + value
    return head + struct.pack(f"{order}H", 2) + other + entry


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("kind", [1, 3, 4])
@pytest.mark.parametrize("prefix", [b"", b"Exif\0\0"])
def test_it_is_read_in_both_byte_orders(
    orientation: int, order: str, kind: int, prefix: bytes
) -> None:
    """Cameras write either, and some a longer or shorter integer."""
    assert exif_orientation(prefix + exif(orientation, order, kind)) == orientation


@pytest.mark.parametrize("orientation", [0, 9, 255])
def test_a_value_without_a_meaning_is_upright(orientation: int) -> None:
    """As viewers have it."""
    assert exif_orientation(exif(orientation)) == 1


@pytest.mark.parametrize("file_format", ["JPEG", "PNG", "WEBP", "MPO"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_header_of_a_file_has_it(file_format: str, orientation: int) -> None:
    """Of every format with EXIF, on the quick way and on the slow one."""
    tags, out = Image.Exif(), io.BytesIO()
    tags[0x010F], tags[0x0112] = "a camera", orientation
    image = Image.new("RGB", (9, 7))
    further = {"save_all": True, "append_images": [image]} if file_format == "MPO" else {}
    image.save(out, file_format, exif=tags, **further)
    assert preparation.read_header(out.getvalue()).orientation == orientation
