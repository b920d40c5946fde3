"""A bucket that only lists its names, and what listing it should give."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from beam_pipeline.core.listing.filters import Listed
from beam_pipeline.core.references import ImageRef
from beam_pipeline.storage.listing import FanOut, NameRange
from tests.listing_server import ListingServer, generation_of, size_of

PAGE = 200
SMALL = FanOut(first=2 * PAGE, names=16 * PAGE)

Serve = Callable[[Iterable[str]], ListingServer]


def image_at(name: str, folder: str = "") -> ImageRef:
    """What is listed of an object."""
    key = name.removeprefix(f"{folder}/") if folder else name
    return ImageRef(key, f"gs://pets/{name}", size_of(name), generation_of(name))


def together(parts: Iterable[Listed | NameRange]) -> Listed:
    """All batches as one, images and dead letters sorted."""
    whole = Listed([], [], Counter())
    for part in parts:
        assert isinstance(part, Listed)
        whole.images += part.images
        whole.dead_letters += part.dead_letters
        whole.ignored.update(part.ignored)
        whole.label_files.add(part.label_files)
    return Listed(
        sorted(whole.images), sorted(whole.dead_letters), whole.ignored, whole.label_files
    )


def photos(count: int) -> list[str]:
    return [f"photos/image_{number:07d}.jpg" for number in range(count)]
