"""Digests of images: literal ones, as those in receipts must keep their meaning."""

from __future__ import annotations

from beam_pipeline.core.images.preparation import DIGEST_BYTES, NO_DIGEST, digest_of


def test_a_digest_is_the_same_always() -> None:
    """XXH3 of 128 bits, big-endian, as the library's own test vector for no bytes has it."""
    assert digest_of(b"").hex() == "99aa06d3014798d86001c324468d497f"
    assert digest_of(b"image").hex() == "e9c754bdc1a6ca9114ecfbe942ed47df"
    assert len(digest_of(b"image")) == len(NO_DIGEST) == DIGEST_BYTES
