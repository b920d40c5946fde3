"""Images of the same bytes for the tests of duplicates, and what is known of them."""

from __future__ import annotations

from beam_pipeline.core.dataset.duplicates import (
    DuplicateGroup,
    Duplicates,
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
LEAK = DuplicateGroup(
    images=2,
    splits=(("test", 1), ("train", 1)),
    relabelled=False,
    shown=(("train", "b1"), ("test", "b9")),
)
CONTRADICTION = DuplicateGroup(
    images=3,
    splits=(("train", 3),),
    relabelled=True,
    shown=(("train", "a0"), ("train", "a1"), ("train", "a2")),
)
DUPLICATES = Duplicates(
    compared=6, images=5, groups=2, leaks=1, relabelled=1, examples=(LEAK, CONTRADICTION)
)
