"""Files of a row's input. No library encodes an image, so that the shards' bytes are the same everywhere."""

from __future__ import annotations

import base64
import itertools
import json
import re
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from beam_pipeline.core.images.png import grey_png

Tree = Mapping[str, bytes | str]
"""Path of a file, or of a folder's files by `below` -> its content."""

JPEG = base64.b64decode(  # 16 x 8 pixels
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDACgcHiMeGSgjISMtKygwPGRBPDc3PHtYXUlkkYCZlo+AjIqgtObDoKrarYqM"
    "yP/L2u71////m8H////6/+b9//j/2wBDASstLTw1PHZBQXb4pYyl+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4"
    "+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj/wAARCAAIABADASIAAhEBAxEB/8QAFQABAQAAAAAAAAAAAAAAAAAAAAT/xAAUEAEA"
    "AAAAAAAAAAAAAAAAAAAA/8QAFQEBAQAAAAAAAAAAAAAAAAAAAgT/xAAUEQEAAAAAAAAAAAAAAAAAAAAA/9oADAMBAAIR"
    "AxEAPwCYAF7/2Q=="
)
WEBP = base64.b64decode("UklGRh4AAABXRUJQVlA4TBEAAAAvD8ABAAdQjyKXp/+BiOh/AAA=")  # 16 x 8
GIF = base64.b64decode(  # 16 x 8
    "R0lGODdhEAAIAIEAAMgePAAAAAAAAAAAACwAAAAAEAAIAAAIFQABCBxIsKDBgwgTKlzIsKHDhwgDAgA7"
)


def bmp(number: int, width: int = 8, height: int = 4) -> bytes:
    """A BMP of 24 bits a pixel; the width is a multiple of 4, so rows need no padding."""
    pixels = bytes((number, 2 * number % 256, 3 * number % 256)) * (width * height)
    header = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, 0, len(pixels), 2835, 2835, 0, 0)
    return struct.pack("<2sIHHI", b"BM", 54 + len(pixels), 0, 0, 54) + header + pixels


def png(number: int, width: int = 100, height: int = 80) -> bytes:
    """A grey PNG whose pixels are stored in one uncompressed block."""
    return stored_png((width, height, 8, 0), (b"\0" + bytes((number,)) * width) * height)


def stored_png(fields: tuple[int, int, int, int], rows: bytes, palette: bytes = b"") -> bytes:
    """A PNG of rows that are stored in one block; the fields are width, height, bits a sample and colour type."""
    stored = struct.pack("<BHH", 1, len(rows), len(rows) ^ 0xFFFF) + rows
    data = b"\x78\x01" + stored + struct.pack(">I", zlib.adler32(rows))
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", *fields, 0, 0, 0)),
        *([(b"PLTE", palette)] if palette else []),
        (b"IDAT", data),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    )


def tiff(width: int = 16, height: int = 8) -> bytes:
    """A grey TIFF of one uncompressed strip whose pixels are 0, 1 and 2."""
    pixels = bytes(i % 3 for i in range(width * height))
    tags = {256: width, 257: height, 258: 8, 259: 1, 262: 1, 273: 8, 277: 1, 278: height}
    entries = [struct.pack("<HHII", tag, 4, 1, n) for tag, n in (*tags.items(), (279, len(pixels)))]
    directory = struct.pack("<H", len(entries)) + b"".join(entries) + bytes(4)
    return struct.pack("<2sHI", b"II", 42, 8 + len(pixels)) + pixels + directory


IMAGES = {"png": png, "bmp": bmp}


def jpeg(number: int) -> bytes:
    """A JPEG of 16 x 8 pixels with a comment, so that no two are the same."""
    return JPEG[:2] + b"\xff\xfe\x00\x06" + number.to_bytes(4, "big") + JPEG[2:]


def image(number: int, name: str, *size: int) -> bytes:
    """An image of the format that a name's extension says; only of JPEG, PNG and BMP no two are the same."""
    extension = name.rpartition(".")[2].lower()
    if extension in ("gif", "webp"):
        return GIF if extension == "gif" else WEBP
    return IMAGES[extension](number, *size) if extension in IMAGES else jpeg(number)


def images(*patterns: str) -> dict[str, bytes | str]:
    """An image for each path of patterns with braces.

    >>> list(images("p/{cat,dog}/{0..1}.jpg"))
    ['p/cat/0.jpg', 'p/cat/1.jpg', 'p/dog/0.jpg', 'p/dog/1.jpg']
    """
    return {name: image(i, name) for i, name in enumerate(paths(*patterns))}


def paths(*patterns: str) -> list[str]:
    """The paths that patterns with braces stand for, as a shell expands them."""
    return list(itertools.chain.from_iterable(map(_expanded, patterns)))


def _expanded(pattern: str) -> Iterable[str]:
    parts = re.split(r"\{([^{}]*)\}", pattern)
    choices = [_choices(part) if i % 2 else [part] for i, part in enumerate(parts)]
    return map("".join, itertools.product(*choices))


def _choices(text: str) -> Sequence[str]:
    first, dots, last = text.partition("..")
    if dots:
        return [f"{i:0{len(first)}d}" for i in range(int(first), int(last) + 1)]
    return text.split(",")


def masks(*patterns: str, size: tuple[int, int] = (16, 8)) -> dict[str, bytes | str]:
    """Grey PNGs whose pixels are 0, 1 and 2."""
    width, height = size
    pixels = bytes(i % 3 for i in range(width * height))
    return dict.fromkeys(paths(*patterns), grey_png(pixels, width, height))


def texts(content: str, *patterns: str) -> dict[str, bytes | str]:
    """Files of the same content."""
    return dict.fromkeys(paths(*patterns), content)


def csv(names: Iterable[str], **columns: Sequence[Any]) -> str:
    """A CSV with a row a name; the values of a column are repeated as often as needed."""
    rows = [",".join(("filename", *columns))]
    for i, name in enumerate(names):
        values = [str(column[i % len(column)]) for column in columns.values()]
        rows.append(",".join((name, *(f'"{v}"' if "," in v else v for v in values))))
    return "\n".join(rows) + "\n"


def jsonl(rows: Iterable[Mapping[str, Any]]) -> str:
    """JSON Lines."""
    return "".join(json.dumps(row) + "\n" for row in rows)


def coco(names: Sequence[str]) -> str:
    """A file of instances, an object an image."""
    described = [
        {"id": i, "file_name": name, "width": 16, "height": 8} for i, name in enumerate(names)
    ]
    objects = [
        {"id": i + 1, "image_id": i, "category_id": 1, "bbox": [1, 1, 4, 4], "area": 16}
        for i in range(len(names))
    ]
    categories = [{"id": 1, "name": "cat"}]
    return json.dumps(
        {"info": {}, "images": described, "annotations": objects, "categories": categories}
    )
