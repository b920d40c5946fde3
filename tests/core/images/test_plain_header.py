from __future__ import annotations

import io
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageCms

from beam_pipeline.core.dead_letters import Reason
from beam_pipeline.core.images.header import ImageHeader
from beam_pipeline.core.images.jpeg import PlainJpeg, plain_jpeg
from beam_pipeline.core.images.preparation import plain_header, read_unusual_header
from tests.core.images.fixtures import (
    MUTATIONS,
    PICTURES,
    PNG_START,
    chunk,
    mutated,
    outcome,
    png,
    saved,
)
from tests.profiles import examples

# Where Pillow only warns of a broken image, the test run would make an error of it.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")

EXIF = Image.Exif()


EXIF[0x0112] = 6


PROFILE = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


PLAIN = {
    **{
        name: data
        for name, (data, _) in PICTURES.items()
        if name.startswith("JPEG") or (name.startswith("PNG") and "transparent" not in name)
    },
    "JPEG, comment": saved(Image.new("RGB", (9, 7)), format="JPEG", comment="a comment"),
    "JPEG, profile": saved(Image.new("RGB", (9, 7)), format="JPEG", icc_profile=PROFILE),
    "JPEG, EXIF": saved(Image.new("RGB", (9, 7)), format="JPEG", exif=EXIF),
    "JPEG, EXIF and XMP": saved(
        Image.new("RGB", (9, 7)), format="JPEG", exif=EXIF, xmp=b"<x:xmpmeta/>"
    ),
    "PNG, comment": png(
        9,
        7,
        8,
        2,
        b"\1\2\3",
        chunk(b"tEXt", b"Comment\0x") + chunk(b"tEXt", b"no mark") + chunk(b"tIME", bytes(7)),
    ),
    "PNG, colours": png(
        9,
        7,
        8,
        2,
        b"\1\2\3",
        chunk(b"gAMA", struct.pack(">I", 45455))
        + chunk(b"cHRM", bytes(32))
        + chunk(b"sRGB", b"\0")
        + chunk(b"pHYs", bytes(9)),
    ),
    "JPEG, restarts": saved(Image.new("RGB", (64, 64)), format="JPEG", restart_marker_rows=1),
}


UNUSUAL = {"PNG P"}


@pytest.mark.parametrize("name", PLAIN)
def test_what_people_have_is_read_without_pillow(name: str) -> None:
    """The JPEGs and PNGs of cameras, phones and programs have a header that we read ourselves."""
    found = plain_header(PLAIN[name])
    assert found == (None if name in UNUSUAL else read_unusual_header(PLAIN[name]))


def test_real_images_are_read_without_pillow(samples: Path) -> None:
    """Of the real images at hand, all but those with Photoshop's notes are."""
    paths = sorted(p for p in samples.rglob("*") if p.suffix.lower() in (".jpg", ".jpeg", ".png"))
    unusual = []
    for path in paths:
        data = path.read_bytes()
        found = plain_header(data)
        if found is None:
            unusual.append(path.name)
        else:
            assert found == read_unusual_header(data)
    assert len(paths) > 300
    assert len(unusual) < len(paths) / 50


@settings(max_examples=examples(1000))
@given(name=st.sampled_from(sorted(PLAIN)), mutations=MUTATIONS)
def test_what_is_read_without_pillow_is_what_pillow_reads(
    name: str, mutations: list[tuple[int, str, int]]
) -> None:
    """Whatever bytes are changed, lost or added, the slower reader agrees with a header that we take;
    or Pillow trips over an EXIF block, which says nothing of what TensorFlow will read.
    """
    data = mutated(PLAIN[name], mutations)
    found = plain_header(data)
    if found is not None:
        slowly = outcome(read_unusual_header, data)
        assert found == slowly or ("EXIF" in name and slowly is Reason.CORRUPT_IMAGE)


def read_by_pillow(data: bytes) -> PlainJpeg:
    """A JPEG without EXIF, as Pillow has it."""
    image = Image.open(io.BytesIO(data))
    header = ImageHeader("jpeg", image.height, image.width, len(image.getbands()))
    return PlainJpeg(header, image.info.get("icc_profile", b""))


JPEGS = {
    name: data
    for name, data in PLAIN.items()
    if name.startswith("JPEG") and "EXIF" not in name and "CMYK" not in name
}


@pytest.mark.parametrize("name", JPEGS)
def test_an_ordinary_jpeg_can_be_opened_without_its_header(name: str) -> None:
    """Its size, its components and its profile are those that Pillow finds."""
    assert plain_jpeg(JPEGS[name]) == read_by_pillow(JPEGS[name])


@pytest.mark.parametrize(
    "data",
    [
        saved(Image.new("CMYK", (9, 7)), format="JPEG"),
        saved(Image.new("RGB", (9, 7)), format="JPEG", icc_profile=bytes(70_000)),
        PLAIN["JPEG, EXIF"],
        JPEGS["JPEG, profile"].replace(b"ICC_PROFILE\0\1", b"ICC_PROFILE\0\2"),
        JPEGS["JPEG, comment"][:-2],
        PLAIN["PNG, comment"],
        b"",
    ],
    ids=["CMYK", "long profile", "EXIF", "second part alone", "no end", "PNG", "nothing"],
)
def test_other_images_are_opened_by_pillow(data: bytes) -> None:
    """It knows how their colours are stored, puts profiles together, and says what is wrong."""
    assert plain_jpeg(data) is None


@settings(max_examples=examples(1000))
@given(name=st.sampled_from(sorted(JPEGS)), mutations=MUTATIONS)
def test_a_jpeg_opened_without_its_header_is_what_pillow_reads(
    name: str, mutations: list[tuple[int, str, int]]
) -> None:
    """Whatever bytes are changed, lost or added."""
    data = mutated(JPEGS[name], mutations)
    found = plain_jpeg(data)
    assert found is None or found == read_by_pillow(data)


PNG_CHUNKS = st.tuples(
    st.sampled_from([b"cHRM", b"gAMA", b"pHYs", b"sRGB", b"tEXt", b"tIME", b"tRNS", b"iCCP", b"x"]),
    st.integers(0, 40).map(bytes) | st.binary(max_size=40),
)


@settings(max_examples=examples(500))
@given(
    header=st.tuples(
        st.integers(0, 40_000),
        st.integers(0, 40_000),
        st.sampled_from([0, 1, 2, 4, 8, 16, 32]),
        st.integers(0, 7),
        st.integers(0, 1),
        st.integers(0, 1),
        st.integers(0, 2),
    ),
    chunks=st.lists(PNG_CHUNKS, max_size=3),
)
def test_a_png_with_sound_checksums_is_read_as_pillow_reads_it(
    header: tuple[int, ...], chunks: list[tuple[bytes, bytes]]
) -> None:
    """Whatever its first chunk claims and whatever stands before its pixels."""
    header_chunk = (b"IHDR", struct.pack(">IIBBBBB", *header))
    kinds = [header_chunk, *chunks, (b"IDAT", b""), (b"IEND", b"")]
    data = PNG_START + b"".join(chunk(*kind) for kind in kinds)
    found = plain_header(data)
    assert found is None or found == read_unusual_header(data)
