"""Images of the same bytes for the tests of duplicates, and what is known of them."""

from __future__ import annotations

from collections import Counter
from itertools import starmap

from beam_pipeline.core.dataset.duplicates import (
    DuplicateGroup,
    Duplicates,
    ImagePlace,
    LabelHashes,
    WrittenImage,
)
from beam_pipeline.core.references import LabelValue, SampleRef

A, B, C = (bytes([value]) * 16 for value in (1, 2, 255))


def image(
    digest: bytes, key: str, *, split: str = "train", label: LabelValue = "cat"
) -> WrittenImage:
    return WrittenImage(digest, LabelHashes()[label,], split, key)


def ref(digest: bytes, key: str, *, split: str = "train", label: LabelValue = "cat") -> SampleRef:
    return SampleRef(key, f"/in/{key}", 9, split, (label,), digest=digest)


IMAGES = (
    image(A, "a1"),
    image(A, "a2", label="dog"),
    image(A, "a0"),
    image(B, "b9", split="test"),
    image(B, "b1"),
    image(C, "c"),
)


def group(*places: tuple[str, str], different_labels: bool = False) -> DuplicateGroup:
    """Images of the same bytes by (split, key), all of which are shown."""
    splits = dict(sorted(Counter(split for split, _ in places).items()))
    shown = tuple(starmap(ImagePlace, places))
    return DuplicateGroup(len(places), splits, different_labels, shown)


LEAK = group(("train", "b1"), ("test", "b9"))
CONTRADICTION = group(("train", "a0"), ("train", "a1"), ("train", "a2"), different_labels=True)
DUPLICATES = Duplicates(6, 5, 2, 1, 1, (LEAK, CONTRADICTION))
