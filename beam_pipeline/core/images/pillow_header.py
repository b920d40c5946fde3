"""Reads the headers of JPEGs and WebPs in any state, with Pillow, and names images of other formats.

Pillow's plugins are called one by one here, as `Image.open` does. `Image.open` itself would warn
of every image of more than half of `MAX_PIXELS`, on stderr and in the middle of a progress bar, and
only Python's global warning filters can stop it.

Pillow looks at pixel counts only after a plugin has opened a file, and a few plugins allocate the
pixels before. So what is read by the modules beside this one never comes here, a WebP's size is looked
at first, and icons, which contain a PNG, are told from their first bytes.
"""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Sequence

from PIL import Image, WebPImagePlugin

from beam_pipeline.core.dead_letters import Reason
from beam_pipeline.core.images import jpeg
from beam_pipeline.core.images.header import (
    FORMATS,
    MAX_PIXELS,
    REENCODED,
    BadImageError,
    ImageHeader,
    bomb,
    cut_short,
    exif_orientation,
    is_bomb,
)

_PILLOW_FORMATS = ("JPEG", "WEBP")
_NEVER_OPENED = frozenset({"ICO", "EPS", "WMF"})  # the last two are programs rather than pixels
DISAGREEMENT = "TensorFlow and Pillow disagree"
_MAGIC_BYTES = 16  # of a file, for a plugin to decide whether it is of its format

Image.preinit()  # registers Pillow's commonest formats
assert WebPImagePlugin.WebPImageFile.format in Image.OPEN  # importing it registers WebP

# Raised by a plugin whose format the bytes are not of: `Image.open` then tries the next one.
_OTHER_FORMAT = (SyntaxError, IndexError, TypeError, struct.error)

# Raised by Pillow's parsers for damaged bytes.
PARSER_ERRORS = (
    OSError,
    SyntaxError,
    ValueError,
    TypeError,
    struct.error,
    LookupError,
    ArithmeticError,
    EOFError,
    AttributeError,
    AssertionError,
    RuntimeError,
)


def read_any_header(data: bytes) -> ImageHeader:
    """Reads the header of a JPEG or WebP, without decoding it, and looks for its end.

    Raises:
      BadImageError: not an image, of another format, broken, cut short, or too many pixels.
    """
    with _open(data) as image:
        return _header(image, data)


def decode_any(data: bytes) -> ImageHeader:
    """Reads the header and decodes every pixel, for `--image_check=full`.

    Raises:
      BadImageError: as `read_any_header`, and where the pixels cannot be decoded.
    """
    with _open(data) as image:
        header = _header(image, data)
        if header.format == "jpeg":
            _check_scans(data)
        try:
            image.load()
        except PARSER_ERRORS as error:
            raise BadImageError(
                Reason.CORRUPT_IMAGE,
                f"the {header.format} header is sound, decoding fails: {error}",
            ) from error
        return header


def check_agreement(header: ImageHeader, data: bytes) -> None:
    """Decodes a PNG, GIF or BMP that TensorFlow decodes, to see that Pillow makes the same of it.

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
    if (height, width) != (header.height, header.width):
        raise BadImageError(
            Reason.UNSUPPORTED_FORMAT,
            f"{DISAGREEMENT}: {header.width} x {header.height} pixels and {width} x {height}",
        )
    if header.format == "bmp" and mode == "P":
        raise BadImageError(
            Reason.UNSUPPORTED_FORMAT,
            f"{DISAGREEMENT}: a BMP with a palette, of whose colours TensorFlow gives the numbers; "
            f"{REENCODED}",
        )


def _open(data: bytes) -> Image.Image:
    """Opens an image of one of our formats, without decoding it."""
    _check_canvas(data)
    if data.startswith(jpeg.MAGIC) and jpeg.first_scan(data) < 0:
        raise _unreadable(data)
    try:
        image = open_as(data, _PILLOW_FORMATS)
    except PARSER_ERRORS as error:
        raise _unreadable(data) from error
    if image is None:
        raise _unreadable(data)
    if is_bomb(image.height, image.width):
        raise bomb(image.height, image.width)
    return image


def _check_canvas(data: bytes) -> None:
    """Checks the size of an extended WebP, because libwebp allocates all of its pixels."""
    if data[8:16] == b"WEBPVP8X":
        width, height = (1 + int.from_bytes(data[at : at + 3], "little") for at in (24, 27))
        if is_bomb(height, width):
            raise bomb(height, width)


def open_as(data: bytes, formats: Sequence[str]) -> Image.Image | None:
    """Opens an image by the first plugin that takes it; None if none does."""
    for name in formats:
        factory, _ = Image.OPEN[name]
        if name in _NEVER_OPENED or not _accepts(name, data):
            continue
        try:
            return factory(io.BytesIO(data), "")
        except _OTHER_FORMAT:
            continue
    return None


def _accepts(name: str, data: bytes) -> bool:
    _, accepts = Image.OPEN[name]
    accepted = not accepts or accepts(data[:_MAGIC_BYTES])
    return bool(accepted) and not isinstance(accepted, str)  # a text tells why not


def _unreadable(data: bytes) -> BadImageError:
    """Tells why no image opened: another format, a truncated or broken header, or no image at all."""
    for name, (offset, magic) in _MAGIC.items():
        if data.startswith(magic, offset):
            return BadImageError(
                Reason.CORRUPT_IMAGE,
                f"starts like {name}, but the header is broken or cut short "
                f"(the file has {len(data)} bytes)",
            )
    Image.init()  # registers all formats of Pillow
    for name, begins in _DOCUMENTS.items():
        if begins.match(data):
            return _unsupported(name)
    for name in sorted(_NEVER_OPENED):
        if _accepts(name, data):
            return _unsupported(name)
    try:
        image = open_as(data, Image.ID)
    except Image.DecompressionBombError:
        return BadImageError(Reason.DECOMPRESSION_BOMB, f"the header claims {_TOO_MANY}")
    except PARSER_ERRORS:
        image = None
    if image is None and (magic := next(filter(data.startswith, _FOREIGN_MAGIC), b"")):
        return _unsupported(_FOREIGN_MAGIC[magic], opens=False)
    if image is None:
        return BadImageError(
            Reason.NOT_AN_IMAGE,
            f"{len(data)} bytes that start with {data[:8]!r}: no image format starts like this",
        )
    with image:
        if is_bomb(image.height, image.width):
            return bomb(image.height, image.width)
        return _unsupported(image.format)


def _unsupported(name: str | None, *, opens: bool = True) -> BadImageError:
    advice = "convert it to PNG or JPEG"
    if opens and name in _ENCODED_ANEW:
        package = _ENCODED_ANEW[name]
        advice = REENCODED + (f" after pip install {package}" if package else "")
    return BadImageError(
        Reason.UNSUPPORTED_FORMAT, f"{name} cannot be decoded by tf.io.decode_image; {advice}"
    )


_TOO_MANY = f"more than {MAX_PIXELS} pixels; scale the image down to keep it"
_DOCUMENTS = {  # told by how they begin, and never interpreted
    "SVG": re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:<[?!][^\0]{0,4000}?)?<svg\b", re.IGNORECASE),
    "PDF": re.compile(rb"%PDF-"),
    "PostScript": re.compile(rb"%!"),
    "HEIC": re.compile(rb"....ftyp(?:hei[cxms]|hev[cxms]|mif1|msf1)", re.DOTALL),
}
_ENCODED_ANEW = {  # format -> the package that it takes, or empty
    "TIFF": "",
    "PPM": "",
    "AVIF": "",
    "JPEG2000": "",
    "HEIC": "pillow-heif",
    "HEIF": "pillow-heif",
}
_FOREIGN_MAGIC = {  # of files that Pillow does not open, being broken or of a rare kind
    b"II*\0": "TIFF",
    b"MM\0*": "TIFF",
    b"II+\0": "TIFF",
    b"\0\0\0\x0cjP  ": "JPEG 2000",
}
_MAGIC = {
    "JPEG": (0, b"\xff\xd8"),
    "PNG": (0, b"\x89PNG"),
    "WebP": (8, b"WEBP"),
}


def _header(image: Image.Image, data: bytes) -> ImageHeader:
    width, height = image.size
    if not width or not height:
        raise BadImageError(Reason.CORRUPT_IMAGE, f"the header claims {width} x {height} pixels")
    if image.format == "WEBP" and getattr(image, "is_animated", False):
        raise BadImageError(
            Reason.UNSUPPORTED_FORMAT,
            "an animated WebP, which can crash tf.io.decode_image; convert it to GIF or PNG",
        )
    # MPO is a JPEG followed by further pictures; many phones write them.
    name = FORMATS.get(image.format or "", "jpeg")
    if name == "jpeg":
        _check_jpeg(image, data)
    channels = {"L": 1, "LA": 2, "RGBA": 4}.get(image.mode, 3)  # CMYK is decoded to RGB
    exif = image.info.get("exif", b"")
    return ImageHeader(name, height, width, channels, exif_orientation(exif))


def _check_jpeg(image: Image.Image, data: bytes) -> None:
    """Checks what TensorFlow demands of a JPEG and Pillow does not."""
    if not data.startswith(jpeg.MAGIC):
        raise _unreadable(data)
    width, height = image.size
    samples = width * height * len(image.getbands())
    if max(image.size) > jpeg.MAX_SIDE or samples > jpeg.MAX_SAMPLES:
        raise bomb(height, width)
    if not jpeg.has_end(data, jpeg.first_scan(data)):
        raise _jpeg_cut_short()


def check_scans(data: bytes) -> None:
    """Checks a JPEG before its pixels are decoded, at no cost unless it may be a bomb. Raises BadImageError."""
    if data.startswith(jpeg.MAGIC) and data.count(jpeg.SCAN) > jpeg.MAX_SCANS:
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
    return cut_short("JPEG", "FF D9, the mark of its end, is missing")
