"""Small images and label files, made by the tests themselves."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Mapping
from typing import Any

from PIL import Image


def picture(
    number: int = 0, *, file_format: str = "JPEG", mode: str = "RGB", size: tuple[int, int] = (9, 7)
) -> bytes:
    """The bytes of an image of (width, height) pixels whose colour depends on `number`."""
    colour = tuple(number * step % 256 for step in (37, 101, 59, 83))
    bands = len(Image.new(mode, (1, 1)).getbands())
    return encoded(Image.new(mode, size, colour[:bands] if bands > 1 else colour[0]), file_format)


def encoded(image: Image.Image, file_format: str = "PNG", **options: Any) -> bytes:
    """The bytes of an image."""
    out = io.BytesIO()
    image.save(out, file_format, **options)
    return out.getvalue()


def write_files(folder: str, contents: Mapping[str, bytes | str]) -> None:
    """Writes files by their paths relative to a folder."""
    for name, content in contents.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)


def write_pictures(folder: str, names: Iterable[str]) -> dict[str, bytes]:
    """Writes an image under each name, each a different one, and returns them."""
    formats = {"png": "PNG", "gif": "GIF", "bmp": "BMP", "webp": "WEBP"}
    contents = {
        name: picture(i, file_format=formats.get(name.rpartition(".")[2].lower(), "JPEG"))
        for i, name in enumerate(names)
    }
    write_files(folder, contents)
    return contents
