"""Cutting files in a job."""

from __future__ import annotations

from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to

from beam_pipeline.transforms.cut_files import CutFiles, cut_file
from beam_pipeline.transforms.file_parts import FilePart

LINES = b"uri,size\n" + b"".join(b"a%03d.jpg,1\n" % n for n in range(100))


def comma(_: str) -> str | None:
    return ","


def whole(_: str) -> str | None:
    return None


def test_parts_are_the_file(tmp_path: Path) -> None:
    """Put together in order, and each knows its first line."""
    path = tmp_path / "a.csv"
    path.write_bytes(LINES)
    parts = list(cut_file(str(path), comma, 100))
    assert len(parts) == 11
    assert b"".join(part.read() for part in parts) == LINES
    assert parts[3].first_line == 1 + LINES[: parts[3].begin].count(b"\n")


def test_small_files_and_those_that_cannot_be_cut_are_one_part(tmp_path: Path) -> None:
    """So is one that is not there, which reading reports."""
    path = tmp_path / "a.csv"
    path.write_bytes(LINES)
    assert list(cut_file(str(path), comma)) == [FilePart(str(path), 0, len(LINES))]
    assert list(cut_file(str(path), whole, 100)) == [FilePart(str(path))]
    assert list(cut_file(str(tmp_path / "gone"), comma, 100)) == [FilePart(f"{tmp_path}/gone")]


def test_a_quoted_line_break_ends_the_cutting(tmp_path: Path) -> None:
    """The rest of the file is one part."""
    path = tmp_path / "a.csv"
    path.write_bytes(LINES + b'"a\nb",1\n' + LINES)
    *cut, rest = cut_file(str(path), comma, 100)
    assert all(part.regular for part in cut)
    assert (rest.end, rest.regular) == (-1, False)
    assert b"".join(part.read() for part in cut) == path.read_bytes()[: rest.begin]


@pytest.mark.parametrize("spread", [False, True])
def test_files_are_cut_in_a_job(tmp_path: Path, spread: bool) -> None:
    """Each file has its own parts."""
    paths = [str(tmp_path / name) for name in ("a.csv", "b.csv")]
    for path in paths:
        Path(path).write_bytes(LINES)
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        parts = pipeline | beam.Create(paths) | CutFiles(delimiter=comma, spread=spread)
        assert_that(parts, equal_to([FilePart(path, 0, len(LINES)) for path in paths]))
