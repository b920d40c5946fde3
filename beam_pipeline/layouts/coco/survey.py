"""The kind of annotations in a file of COCO's: objects with boxes, or classes of whole images.

An annotation that says the class of its image has neither a box nor an outline:

    {"id": 1, "image_id": 0, "category_id": 7}

iNaturalist's challenges and camera traps have such files. Sources: https://github.com/visipedia/inat_comp
and https://lila.science/coco-camera-traps
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, BinaryIO

SURVEYED = 100_000
"""Annotations to look at, so that memory and time stay small for a file of millions."""

BOX = "bbox"
_OF_OBJECTS = (BOX, "bbox_relative", "segmentation", "keypoints", "segments_info", "caption")
"""Keys of annotations that say something else than a class."""

_PIECE = 1 << 20


@dataclass(frozen=True)
class Survey:
    """The first annotations of a file.

    Attributes:
      first: the first one; None if there is none.
      of_images: True if they say the classes of whole images.
      images: the number of images that they name.
      several: the number of those with several categories.
      example: the id of the first such image, and its categories.
    """

    first: Any = None
    of_images: bool = False
    images: int = 0
    several: int = 0
    example: tuple[Any, tuple[int, ...]] | None = None


def survey(annotations: Iterator[Any]) -> Survey:
    """Looks at the first annotations, or at those up to the first one of an object."""
    first = next(annotations, None)
    categories: dict[Any, set[Any]] = {}
    for annotation in islice(chain((first,), annotations), SURVEYED):
        if not isinstance(annotation, dict):
            continue
        if any(key in annotation for key in _OF_OBJECTS):
            return Survey(first)
        image_id, category = annotation.get("image_id"), annotation.get("category_id")
        if isinstance(image_id, str | int) and isinstance(category, int):
            categories.setdefault(image_id, set()).add(category)
    several = [(image_id, found) for image_id, found in categories.items() if len(found) > 1]
    return Survey(
        first=first,
        of_images=bool(categories),
        images=len(categories),
        several=len(several),
        example=(several[0][0], tuple(sorted(several[0][1]))) if several else None,
    )


def holds_key(file: BinaryIO, key: str) -> bool:
    """True if a file of JSON holds a key, or a text that is equal to it, anywhere.

    Args:
      file: open at its beginning.
      key: ASCII.
    """
    wanted = f'"{key}"'.encode("ascii")
    tail = b""
    while piece := file.read(_PIECE):
        piece = tail + piece
        if wanted in piece:
            return True
        tail = piece[1 - len(wanted) :]
    return False
