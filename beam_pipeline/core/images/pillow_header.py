"""Reads the headers of JPEGs and WebPs in any state, with Pillow, and names images of other formats.

Pillow's plugins are called one by one here, as `Image.open` does. `Image.open` itself would warn
of every image of more than half of `MAX_PIXELS`, on stderr and in the middle of a progress bar, and
only Python's global warning filters can stop it.

Pillow looks at pixel counts only after a plugin has opened a file, and a few plugins allocate the
pixels before. So what is read by the modules beside this one never comes here, a WebP's size is looked
at first, and icons, which contain a PNG, are told from their first bytes.
"""

from __future__ import annotations

import contextlib
import io
import re
import struct
from collections.abc import Iterable
from itertools import islice

from PIL import Image, WebPImagePlugin

from beam_pipeline.core.dead_letters import Reason
from beam_pipeline.core.images import header as headers
from beam_pipeline.core.images import jpeg
from beam_pipeline.core.images.header import BadImageError, ImageHeader, check_pixels

OWN_FORMATS = ("JPEG", "PNG", "GIF", "BMP", "WEBP")
"""The formats that TensorFlow decodes and Pillow opens, by Pillow's names."""

DISAGREEMENT = "TensorFlow and Pillow disagree"
_MAGIC_BYTES = 16  # of a file, for a plugin to decide whether it is of its format

Image.preinit()  # registers Pillow's commonest formats
assert WebPImagePlugin.WebPImageFile.format in Image.OPEN  # importing it registers WebP

# Raised by a plugin whose format the bytes are not of: `Image.open` then tries the next one.
_OTHER_FORMAT = (SyntaxError, IndexError, TypeError, struct.error)

# Raised by Pillow's parsers for damaged bytes.
PARSER_ERRORS = (
    *(OSError, SyntaxError, ValueError, TypeError, struct.error, LookupError, ArithmeticError),
    *(EOFError, AttributeError, AssertionError, RuntimeError),
)


def read_any(data: bytes, *, pixels: bool = False) -> ImageHeader:
    """Reads the header of a JPEG or WebP, looks for its end, and decodes every pixel if that is asked for.

    Raises:
      BadImageError: not an image, of another format, broken, cut short, too many pixels, or pixels that cannot
        be decoded.
    """
    with _open(data) as image:
        header = _header(image, data)
        if not pixels:
            return header
        if header.format == "jpeg":
            _check_scans(data)
        try:
            image.load()
        except PARSER_ERRORS as error:
            raise headers.undecodable(header.format, error) from error
        return header


def check_agreement(header: ImageHeader, data: bytes) -> ImageHeader:
    """Decodes a PNG, GIF or BMP that TensorFlow decodes, to see that Pillow makes the same of it; its header.

    Raises:
      BadImageError: Pillow does not decode it, or to another size, or to colours where TensorFlow gives
        their numbers in a palette.
    """
    factory, _ = Image.OPEN[header.format.upper()]
    try:
        with factory(io.BytesIO(data), "") as image:
            image.load()
            (width, height), mode = image.size, image.mode
    except (*PARSER_ERRORS, Image.DecompressionBombError) as error:
        raise BadImageError(
            Reason.CORRUPT_IMAGE, f"{DISAGREEMENT}: Pillow does not decode it: {error}"
        ) from error
    fault = ""
    if (height, width) != (header.height, header.width):
        fault = f"{header.width} x {header.height} pixels and {width} x {height}"
    elif header.format == "bmp" and mode == "P":
        fault = f"a BMP with a palette, of whose colours TensorFlow gives the numbers; {headers.REENCODED}"
    if fault:
        raise headers.unsupported(f"{DISAGREEMENT}: {fault}")
    return header


def _open(data: bytes) -> Image.Image:
    """Opens a JPEG or WebP, without decoding it."""
    if data[8:16] == b"WEBPVP8X":  # libwebp allocates all pixels of an extended one
        width, height = (1 + int.from_bytes(data[at : at + 3], "little") for at in (24, 27))
        check_pixels(height, width)
    image = None
    if not data.startswith(jpeg.MAGIC) or jpeg.first_scan(data) >= 0:
        with contextlib.suppress(*PARSER_ERRORS):
            image = open_as(data, ("JPEG", "WEBP"))
    if image is None:
        raise _unreadable(data)
    check_pixels(image.height, image.width)
    return image


def open_as(data: bytes, formats: Iterable[str]) -> Image.Image | None:
    """Opens an image by the first plugin that takes it; None if none does."""
    for name in formats:
        factory, accepts = Image.OPEN[name]
        accepted = not accepts or accepts(data[:_MAGIC_BYTES])
        if not accepted or isinstance(accepted, str):  # a text tells why not
            continue
        try:
            return factory(io.BytesIO(data), "")
        except _OTHER_FORMAT:
            continue
    return None


_BROKEN = ("JPEG", "PNG", "WebP")
_BEGINNINGS = {
    "JPEG": re.compile(rb"\xff\xd8"),
    "PNG": re.compile(rb"\x89PNG"),
    "WebP": re.compile(rb".{8}WEBP", re.DOTALL),
    "SVG": re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:<[?!][^\0]{0,4000}?)?<svg\b", re.IGNORECASE),
    "PDF": re.compile(rb"%PDF-"),
    "PostScript": re.compile(rb"%!|\xc5\xd0\xd3\xc6"),
    "HEIC": re.compile(rb".{4}ftyp(?:hei[cxms]|hev[cxms]|mif1|msf1)", re.DOTALL),
    "AVIF": re.compile(rb".{4}ftypavi[fs]", re.DOTALL),
    "ICO": re.compile(rb"\x00\x00\x01\x00"),
    "WMF": re.compile(rb"\xd7\xcd\xc6\x9a\0\0|\x01\0\0\0"),
    "TIFF": re.compile(rb"II\*\0|MM\0\*|II\+\0"),
    "PPM": re.compile(rb"P[1-6]\s"),
    "JPEG2000": re.compile(rb"\0\0\0\x0cjP  |\xff\x4f\xff\x51"),
    "PSD": re.compile(rb"8BPS"),
    "DDS": re.compile(rb"DDS "),
    "PCX": re.compile(rb"\n[\0-\5]\x01"),
}
_REENCODED = ("TIFF", "PPM", "AVIF", "JPEG2000", "HEIC")


def _unreadable(data: bytes) -> BadImageError:
    """Tells why no image opened: another format, a truncated or broken header, or no image at all."""
    name = next((name for name, begins in _BEGINNINGS.items() if begins.match(data)), "")
    if name in _BROKEN:
        return headers.corrupt(name, "the header is broken or cut short", data)
    if name:
        return _unsupported(name)
    return BadImageError(
        Reason.NOT_AN_IMAGE,
        f"{len(data)} bytes that start with {data[:8]!r}: no image format starts like this",
    )


def _unsupported(name: str) -> BadImageError:
    advice = "convert it to PNG or JPEG"
    if name in _REENCODED:
        plugin = " after pip install pillow-heif" if name == "HEIC" else ""
        advice = f"{headers.REENCODED}{plugin}"
    return headers.unsupported(f"{name} cannot be decoded by tf.io.decode_image; {advice}")


def _header(image: Image.Image, data: bytes) -> ImageHeader:
    width, height = image.size
    # MPO is a JPEG followed by further pictures; many phones write them.
    name = "webp" if image.format == "WEBP" else "jpeg"
    if name == "webp" and getattr(image, "is_animated", False):
        raise headers.unsupported(
            "an animated WebP, which can crash tf.io.decode_image; convert it to GIF or PNG",
        )
    if name == "jpeg":  # what TensorFlow demands and Pillow does not
        if width * height * len(image.getbands()) > jpeg.MAX_SAMPLES:
            raise headers.bomb(height, width)
        check_pixels(height, width, jpeg.MAX_SIDE)
        if not jpeg.has_end(data, jpeg.first_scan(data)):
            raise _jpeg_cut_short()
    channels = {"L": 1, "LA": 2, "RGBA": 4}.get(image.mode, 3)  # CMYK is decoded to RGB
    exif = image.info.get("exif", b"")
    return ImageHeader(name, height, width, channels, headers.exif_orientation(exif))


def check_scans(data: bytes) -> None:
    """Checks a JPEG before its pixels are decoded, at no cost unless it may be a bomb. Raises BadImageError."""
    scans = jpeg.SCAN.finditer(data) if data.startswith(jpeg.MAGIC) else iter(())
    if next(islice(scans, jpeg.MAX_SCANS, None), None):
        _check_scans(data)


def _check_scans(data: bytes) -> None:
    scans = jpeg.count_scans(data)
    if not scans:
        raise _jpeg_cut_short()
    if scans > jpeg.MAX_SCANS:
        raise BadImageError(
            Reason.DECOMPRESSION_BOMB,
            f"more than {jpeg.MAX_SCANS} scans, which would keep a decoder busy for very long; save it "
            "again to keep it",
        )


def _jpeg_cut_short() -> BadImageError:
    return headers.cut_short("JPEG", "FF D9, the mark of its end, is missing")
