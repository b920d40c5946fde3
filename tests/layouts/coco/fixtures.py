"""The parts of a COCO file, to put together and to spoil."""

from __future__ import annotations

from typing import Any

from tests.layouts.make_coco import (
    CATEGORIES,
    TRAIN,
    VAL,
    annotation,
    dumped,
    image_entry,
)

NAMES = {category["id"]: str(category["name"]) for category in CATEGORIES}
"""Id -> name of each category."""


def entry(name: str = "000000000139.jpg", image_id: int = 139) -> dict[str, Any]:
    """An image's entry, with the size of the image of this name."""
    _, size = {**TRAIN, **VAL}.get(name.replace("\\", "/").rpartition("/")[2], (0, (160, 106)))
    return image_entry("val2017", name, image_id, size)


def one(**changes: Any) -> dict[str, Any]:
    """An annotation that is right but for the changes; a value `...` takes a key away."""
    fields = {**annotation(7, 139, 18, (10, 20, 30, 40), 600.5), **changes}
    return {key: value for key, value in fields.items() if value is not ...}


def with_changes(**changes: Any) -> str:
    """A file with some of its lists changed, or taken away by `...`."""
    content = {"images": [entry()], "annotations": [one()], "categories": CATEGORIES, **changes}
    return dumped({key: value for key, value in content.items() if value is not ...})
