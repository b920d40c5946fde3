"""Seals: a file that was changed is told from one that was not."""

from __future__ import annotations

from beam_pipeline.core.card.seal import PLACEHOLDER, has_seal, is_unchanged, sealed


def test_a_sealed_file_is_unchanged_until_a_byte_changes() -> None:
    """The seal takes the place of the last placeholder; text from data may hold another."""
    content = f"{PLACEHOLDER} is a class\n<!-- {PLACEHOLDER} -->\n".encode()
    file = sealed(content)
    assert file.startswith(f"{PLACEHOLDER} is a class\n<!-- beam-tfrecord:".encode())
    assert len(file) == len(content)
    assert is_unchanged(file)
    assert not is_unchanged(file + b"\n")
    assert not is_unchanged(file.replace(b"a class", b"my class"))
    assert not is_unchanged(content)
    assert not is_unchanged(b"my own words\n")


def test_an_earlier_report_is_unchanged_until_a_byte_changes() -> None:
    """Its seal is a comment at the end, a digest of all before it."""
    report = b"<html></html>\n<!-- beam-tfrecord report dc164d48149d08b5e031f1b340be518f -->\n"
    assert is_unchanged(report)
    assert has_seal(report)
    for changed in (report[:-1], report + b"\n", b"x" + report, report.replace(b"></", b">my</")):
        assert not is_unchanged(changed)
