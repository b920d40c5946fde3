"""Cutting files in a job."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow
import pytest
from apache_beam.testing.util import assert_that, equal_to
from pyarrow import parquet

from beam_pipeline.core.listing.cuts import (
    ByLines,
    ByRowGroups,
    Cut,
    LineRange,
    RowGroupRange,
)
from beam_pipeline.transforms import listing
from beam_pipeline.transforms.listing import CutFiles
from beam_pipeline.work import file_parts
from beam_pipeline.work.file_parts import (
    PART_BYTES,
    FilePart,
    ScanTask,
    cut_file,
    read_lines,
    scan_tasks,
)

LINES = b"uri,size\n" + b"".join(b"a%03d.jpg,1\n" % n for n in range(100))


def comma(_: str) -> Cut | None:
    return ByLines(",")


def row_groups(_: str) -> Cut | None:
    return ByRowGroups()


def whole(_: str) -> Cut | None:
    return None


def by_ending(path: str) -> Cut | None:
    return {"csv": comma, "parquet": row_groups}.get(path.rpartition(".")[2], whole)(path)


def lines_of(part: FilePart) -> LineRange:
    assert isinstance(part.range, LineRange)
    return part.range


def write_parquet(path: Path, rows: int) -> None:
    """A row a row group, of some 200 bytes before compression."""
    columns = {"uri": [f"{n:03d}" for n in range(rows)], "size": range(rows)}
    parquet.write_table(pyarrow.table(columns), path, row_group_size=1)


def test_parts_are_the_file(tmp_path: Path) -> None:
    """Put together in order, and each knows its first line."""
    path = tmp_path / "a.csv"
    path.write_bytes(LINES)
    parts = [lines_of(part) for part in cut_file(str(path), comma, 100)]
    assert len(parts) == 11
    assert b"".join(read_lines(str(path), part) for part in parts) == LINES
    assert parts[3].first == 1 + LINES[: parts[3].begin].count(b"\n")


def test_small_files_and_those_that_cannot_be_cut_are_one_part(tmp_path: Path) -> None:
    """So is one that is not there, which reading reports."""
    path = tmp_path / "a.csv"
    path.write_bytes(LINES)
    assert cut_file(str(path), comma, PART_BYTES) == [FilePart(str(path), LineRange(0, len(LINES)))]
    assert cut_file(str(path), whole, 100) == [FilePart(str(path))]
    assert cut_file(str(tmp_path / "gone"), comma, 100) == [FilePart(f"{tmp_path}/gone")]


def test_a_quoted_line_break_ends_the_cutting(tmp_path: Path) -> None:
    """The rest of the file is one part."""
    path = tmp_path / "a.csv"
    path.write_bytes(LINES + b'"a\nb",1\n' + LINES)
    *cut, rest = (lines_of(part) for part in cut_file(str(path), comma, 100))
    assert all(part.regular for part in cut)
    assert (rest.end, rest.regular) == (-1, False)
    found = b"".join(read_lines(str(path), part) for part in cut)
    assert found == path.read_bytes()[: rest.begin]


def test_a_file_that_cannot_be_looked_at_to_its_end_is_one_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of its lines is read twice."""
    path = tmp_path / "a.csv"
    path.write_bytes(LINES)

    def broken_tasks(*arguments: Any) -> list[ScanTask]:
        first, second, *_ = scan_tasks(*arguments)
        return [first, replace(second, uri=f"{tmp_path}/gone")]

    monkeypatch.setattr(file_parts, "scan_tasks", broken_tasks)
    assert cut_file(str(path), comma, 100) == [FilePart(str(path))]


def test_a_parquet_file_is_cut_between_row_groups(tmp_path: Path) -> None:
    """One that is small on disk is not opened, and a broken one is read as a whole, which says so."""
    path = tmp_path / "a.parquet"
    write_parquet(path, 7)
    parts = cut_file(str(path), row_groups, 300)
    ranges = [part.range for part in parts if isinstance(part.range, RowGroupRange)]
    assert [(part.begin, part.end, part.first) for part in ranges] == [
        (0, 2, 1),
        (2, 4, 3),
        (4, 6, 5),
        (6, 7, 7),
    ]
    assert [part.uri for part in parts] == [str(path)] * 4
    assert cut_file(str(path), row_groups, PART_BYTES) == [FilePart(str(path))]
    path.write_bytes(path.read_bytes()[:-1])
    assert cut_file(str(path), row_groups, 300) == [FilePart(str(path))]


@pytest.mark.parametrize("spread", [False, True])
def test_files_are_cut_in_a_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spread: bool
) -> None:
    """Each file has its own parts."""
    (tmp_path / "a.csv").write_bytes(LINES)
    (tmp_path / "b").write_bytes(b"")
    write_parquet(tmp_path / "c.parquet", 7)
    paths = [str(tmp_path / name) for name in ("a.csv", "b", "c.parquet")]
    monkeypatch.setattr(listing, "PART_BYTES", 300)
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        parts = pipeline | beam.Create(paths) | CutFiles(cut_by=by_ending, spread=spread)
        expected = [part for path in paths for part in cut_file(path, by_ending, 300)]
        assert len(expected) == 4 + 1 + 4
        assert_that(parts | beam.Map(repr), equal_to(list(map(repr, expected))))
