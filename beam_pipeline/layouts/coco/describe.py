"""The kind of a COCO file and its categories, found before the job starts by reading it once.

An annotation that gives the class of its whole image has neither a box nor an outline:

    {"id": 1, "image_id": 0, "category_id": 7}

iNaturalist's challenges and camera traps have such files. Sources: https://github.com/visipedia/inat_comp
and https://lila.science/coco-camera-traps
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Any, BinaryIO

from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.layouts.coco.file import (
    ALL_LISTS,
    ANNOTATIONS,
    CATEGORIES,
    EXPECTED,
    is_text,
    parse_categories,
    read_lists,
)

SURVEYED = 100_000
"""Annotations to look at, so that memory and time stay small for a file of millions."""

_BOX = "bbox"
_OF_OBJECTS = (_BOX, "bbox_relative", "segmentation", "keypoints", "segments_info", "caption")
"""Keys of annotations that describe something else than the class of an image."""

_FIRST_IMAGES = 1000


class Kind(enum.Enum):
    """What the annotations of a file are about."""

    OBJECTS = "objects"
    CLASSES = "the classes of whole images"
    CAPTIONS = "captions"
    PANOPTIC = "a panoptic segmentation"


@dataclass(frozen=True)
class Description:
    """A file.

    Attributes:
      kind: what its first annotations are about.
      text_ids: True if the id of the first one is a text, which LILA uses.
      images: the number of images that they name, if they give the classes of images.
      several: the number of those with several categories.
      example: the id of the first such image, and its categories.
      names: category id -> name; none for captions.
      keypoints: names of the key points of objects; empty if no category has any.
      fields: names of the fields of the first images.
    """

    kind: Kind = Kind.OBJECTS
    text_ids: bool = False
    images: int = 0
    several: int = 0
    example: tuple[Any, tuple[int, ...]] | None = None
    names: Mapping[int, str] = field(default_factory=dict)
    keypoints: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()


def describe(file: BinaryIO, uri: str, *, with_fields: bool = False) -> Description:
    """Reads a file up to its categories and first annotations, often to its end.

    Args:
      file: open at its beginning.
      uri: its URI.
      with_fields: True to look for the fields of images as well.

    Raises:
      LabelTableError: the file is broken, or lacks categories.
    """
    survey: Description | None = None
    entries: list[Any] | None = None
    fields: dict[str, None] | None = None if with_fields else {}
    for name, elements in read_lists(file, uri, ALL_LISTS):
        if name == CATEGORIES:
            entries = list(elements)
        elif name == ANNOTATIONS:
            survey = survey_annotations(elements)
            if survey.kind is Kind.CAPTIONS:
                return survey
        elif with_fields:
            images = (i for i in islice(elements, _FIRST_IMAGES) if isinstance(i, dict))
            fields = dict.fromkeys(chain.from_iterable(images))
        if survey and entries is not None and fields is not None:
            break
    if entries is None:
        raise LabelTableError(f"{uri} has no {CATEGORIES}; {EXPECTED}")
    return replace(
        survey or Description(),
        names=parse_categories(entries, uri),
        keypoints=_keypoints(entries, uri),
        fields=tuple(fields or ()),
    )


def survey_annotations(annotations: Iterator[Any]) -> Description:
    """Looks at the annotations of a file, up to the first one of an object."""
    first = next(annotations, None)
    if isinstance(first, dict) and _BOX not in first:
        if "caption" in first:
            return Description(Kind.CAPTIONS)
        if "segments_info" in first:
            return Description(Kind.PANOPTIC)
    objects = Description(text_ids=isinstance(first, dict) and is_text(first.get("id")))
    categories: dict[Any, set[Any]] = {}
    for annotation in islice(chain((first,), annotations), SURVEYED):
        if not isinstance(annotation, dict):
            continue
        if any(key in annotation for key in _OF_OBJECTS):
            return objects
        image_id, category = annotation.get("image_id"), annotation.get("category_id")
        if isinstance(image_id, str | int) and isinstance(category, int):
            categories.setdefault(image_id, set()).add(category)
    has_boxes = any(isinstance(entry, dict) and _BOX in entry for entry in annotations)
    if not categories or has_boxes:
        return objects
    several = [(image_id, ids) for image_id, ids in categories.items() if len(ids) > 1]
    example = (several[0][0], tuple(sorted(several[0][1]))) if several else None
    return Description(Kind.CLASSES, objects.text_ids, len(categories), len(several), example)


def _keypoints(categories: Sequence[Any], uri: str) -> tuple[str, ...]:
    """The names of key points, which must be the same in all categories that have any."""
    named = {
        tuple(entry["keypoints"])
        for entry in categories
        if isinstance(entry.get("keypoints"), list) and all(map(is_text, entry["keypoints"]))
    } - {()}
    if len(named) > 1:
        sizes = " and ".join(str(len(names)) for names in sorted(named))
        raise LabelTableError(
            f"{uri}: categories with different key points ({sizes} of them), expected the same ones; "
            "convert a file for each category"
        )
    return named.pop() if named else ()
