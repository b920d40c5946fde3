"""Nothing on disk: the page makes its samples itself."""

from __future__ import annotations


def make(folder: str) -> None:
    """Leaves the folder as it is."""
