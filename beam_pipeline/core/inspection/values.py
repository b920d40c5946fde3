"""Values of features, for people and for JSON."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Sequence
from typing import Any

from beam_pipeline.core.inspection.examples import FeatureList, Features
from beam_pipeline.core.text import is_utf8

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
_IMAGE_KEYS = ("image/encoded", "image", "image_raw", "jpg", "png", "jpeg")
_SHOWN_VALUES = 8
_NOT_IN_NAMES = re.compile(r"[^\w.\-]+")
_LONGEST_NAME = 60  # characters, which are 240 bytes at most


def image_extension(data: bytes) -> str:
    """The extension of an image file by its first bytes; empty if it is none that is known."""
    if len(data) < _LEAST_IMAGE:
        return ""
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "webp"
    if data[4:8] == b"ftyp" and data[8:12] in (b"avif", b"avis", b"heic", b"heix", b"mif1"):
        return "avif" if data[8:10] == b"av" else "heic"
    return next((name for magic, name in _MAGICS if data.startswith(magic)), "")


def image_of(features: Features) -> tuple[str, bytes] | None:
    """(feature, bytes) of an example's image file, in a usual feature or in the first that holds one."""
    usual = [key for key in _IMAGE_KEYS if key in features]
    for key in dict.fromkeys((*usual, *features)):
        found = features[key]
        if found.kind == "bytes" and len(found.values) == 1 and image_extension(found.values[0]):
            return key, found.values[0]
    return None


def bare_pixels_of(features: Features) -> tuple[str, bytes, int, int] | None:
    """(feature, bytes, width, height) of an image that is stored as bare RGB pixels."""
    image, height, width = (
        features.get(f"image/{name}", FeatureList("", ())).values
        for name in ("encoded", "height", "width")
    )
    if [len(image), len(height), len(width)] != [1, 1, 1]:
        return None
    data, high, wide = image[0], height[0], width[0]
    if not (isinstance(data, bytes) and isinstance(high, int) and isinstance(wide, int)):
        return None
    is_bare = min(high, wide) > 0 and len(data) == 3 * high * wide
    return ("image/encoded", data, wide, high) if is_bare else None


def value_text(found: FeatureList) -> str:
    """The values of a feature in one line: texts as they are, other bytes by their number."""
    values = [_one_text(value) for value in found.values[:_SHOWN_VALUES]]
    more = f", ... ({len(found.values)} values)" if len(found.values) > len(values) else ""
    return ", ".join(values) + more


def _one_text(value: Any) -> str:
    if isinstance(value, bytes):
        text = _decoded(value)
        if text is not None:
            return text
        extension = image_extension(value)
        return f"{len(value)} bytes" + (f" ({extension})" if extension else "")
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _decoded(value: bytes) -> str | None:
    """The text that bytes hold; None if they hold none."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return None
    return text if is_utf8(text) and "\0" not in text else None


def json_value(found: FeatureList) -> Any:
    """The values of a feature for JSON: one value as itself, others as a list.

    Bytes that are no text become {"base64": ...}; NaN and infinities, which JSON does not have, texts.
    """
    values = [_one_json(value) for value in found.values]
    return values[0] if len(values) == 1 else values


def _one_json(value: Any) -> Any:
    if isinstance(value, bytes):
        text = _decoded(value)
        return {"base64": base64.b64encode(value).decode()} if text is None else text
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def safe_name(number: int, key: str, extension: str) -> str:
    """A file name for a sample that is unique by its number and lies in no other folder.

    >>> safe_name(7, "../cat/a 1.jpg", "jpg")
    '000007-a_1.jpg'
    """
    stem = key.replace("\\", "/").rstrip("/").rpartition("/")[2]
    if stem.lower().endswith(f".{extension}"):
        stem = stem[: -len(extension) - 1]
    stem = _NOT_IN_NAMES.sub("_", stem)[:_LONGEST_NAME].strip("._")
    return f"{number:06d}{'-' if stem else ''}{stem}.{extension}"


def listed(values: Sequence[str], most: int) -> str:
    """Texts in quotes, the first of them where they are many."""
    return ", ".join(map(repr, values[:most])) + (", ..." if len(values) > most else "")
