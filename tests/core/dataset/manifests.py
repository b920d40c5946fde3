"""Manifests of small data sets."""

from __future__ import annotations

from typing import Any

from beam_pipeline.core.dataset.manifest import Manifest


def manifest_with(**entries: Any) -> Manifest:
    """A manifest with these entries; the others say that there is nothing."""
    empty: dict[str, Any] = {
        "name": "pets",
        "seed": 0,
        "features": {},
        "splits": {},
        "classes": [],
        "counts": {"examples": 0},
        "dead_letters": {},
    }
    options = {"compression": "none", "columns": [], **entries.pop("options", {})}
    return Manifest.of({**empty, "options": options, **entries})
