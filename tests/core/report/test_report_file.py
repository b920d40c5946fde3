"""The seal of a report: a run knows its own file."""

from __future__ import annotations

import pytest

from beam_pipeline.core.report.report_file import is_sealed, sealed


def test_a_report_is_known_by_its_seal() -> None:
    """The same page has the same seal."""
    assert is_sealed(sealed(b"<html></html>\n"))
    assert sealed(b"a") == sealed(b"a") != sealed(b"b")


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"<html>", b"<!-- beam-tfrecord report -->\n", sealed(b"a")[:-1]),
        *(sealed(b"a") + b"\n", b"x" + sealed(b"a"), sealed(b"ab").replace(b"ab", b"ac")),
    ],
)
def test_another_page_is_not(data: bytes) -> None:
    """Nor is one that somebody has edited."""
    assert not is_sealed(data)
