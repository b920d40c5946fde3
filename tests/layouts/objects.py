"""The features of the objects in an image."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_PREFIX = "image/object/"


def objects_of(features: Mapping[str, Any]) -> dict[str, Any]:
    """The features of the objects, their keys without the beginning that all share."""
    return {k.removeprefix(_PREFIX): v for k, v in features.items() if k.startswith(_PREFIX)}
