"""The kind of an image file by its first bytes."""

from __future__ import annotations

_MAGICS = (
    (b"\xff\xd8\xff", "jpg"),
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"GIF8", "gif"),
    (b"BM", "bmp"),
    (b"II*\0", "tif"),
    (b"MM\0*", "tif"),
    (b"\x00\x00\x00\x0cjP  ", "jp2"),
    (b"\xff\x0a", "jxl"),
    (b"\x00\x00\x00\x0cJXL ", "jxl"),
)
_LEAST_IMAGE = 24  # bytes


def image_extension(data: bytes) -> str:
    """The extension of an image file by its first bytes; empty if it is none that is known."""
    if len(data) < _LEAST_IMAGE:
        return ""
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "webp"
    if data[4:8] == b"ftyp" and data[8:12] in (b"avif", b"avis", b"heic", b"heix", b"mif1"):
        return "avif" if data[8:10] == b"av" else "heic"
    return next((name for magic, name in _MAGICS if data.startswith(magic)), "")
