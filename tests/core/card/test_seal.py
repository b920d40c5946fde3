"""Seals: a file that was changed is told from one that was not."""

from __future__ import annotations

from beam_pipeline.core.card.seal import PLACEHOLDER, is_unchanged, sealed


def test_a_sealed_file_is_unchanged_until_a_byte_changes() -> None:
    """The seal takes the place of the last placeholder; text from data may hold another."""
    content = f"{PLACEHOLDER} is a class\n<!-- {PLACEHOLDER} -->\n".encode()
    found = sealed(content)
    assert found.startswith(f"{PLACEHOLDER} is a class\n<!-- beam-tfrecord:".encode())
    assert len(found) == len(content)
    assert is_unchanged(found)
    assert not is_unchanged(found + b"\n")
    assert not is_unchanged(found.replace(b"a class", b"my class"))
    assert not is_unchanged(content)
    assert not is_unchanged(b"my own words\n")
