"""Parts of files: which files are cut, and where."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam_pipeline.core.listing.cuts import LineBlock, LineRange, RowGroupRange
from beam_pipeline.work.file_parts import FilePart, line_ranges, read_lines, scan_tasks


def test_a_large_file_is_looked_at_in_parts(tmp_path: Path) -> None:
    """Each task finds the lines that begin in its part."""
    path = tmp_path / "a.csv"
    path.write_bytes(b"uri,size\na.jpg,1\nb.jpg,2\n")
    tasks = scan_tasks(str(path), 25, ",", 12)
    blocks = [task.run() for task in tasks]
    assert blocks == [
        LineBlock(0, 17, 2, regular=True),
        LineBlock(17, 25, 1, regular=True),
        LineBlock(25, 25, 0, regular=True),
    ]
    ranges = list(line_ranges(blocks))
    assert ranges == [LineRange(0, 17, 1, regular=True), LineRange(17, 25, 3, regular=True)]
    assert [read_lines(str(path), lines) for lines in ranges] == [
        b"uri,size\na.jpg,1\n",
        b"b.jpg,2\n",
    ]


@pytest.mark.parametrize("beginning", [b"\n\n", b" \r\n", b",,\n"])
def test_a_file_whose_first_line_is_empty_is_not_cut(tmp_path: Path, beginning: bytes) -> None:
    """Its header is somewhere below."""
    path = tmp_path / "a.csv"
    path.write_bytes(beginning + b"uri,size\na.jpg,1\n")
    assert scan_tasks(str(path), path.stat().st_size, ",", 4) == []


def test_a_small_file_is_not_cut(tmp_path: Path) -> None:
    """Less than two parts are one."""
    path = tmp_path / "a.csv"
    path.write_bytes(b"uri,size\n")
    assert scan_tasks(str(path), 9, ",", 5) == []


def test_the_rest_behind_an_irregular_block_is_one_part() -> None:
    """It begins where the last regular one ends, and nothing says where it ends."""
    blocks = [
        LineBlock(0, 10, 3, regular=True),
        LineBlock(10, 10, 0, regular=True),
        LineBlock(10, 20, 2, regular=False),
        LineBlock(20, 30, 2, regular=True),
    ]
    assert list(line_ranges(blocks)) == [LineRange(0, 10, 1, regular=True), LineRange(10, -1, 4)]


def test_a_part_has_the_size_of_its_range() -> None:
    """That of a whole file is not known."""
    whole, part = FilePart("a"), FilePart("a", RowGroupRange(0, 1, 1, 10, 20))
    assert (whole.size, whole.read_at_once) == (0, False)
    assert (part.size, part.read_at_once) == (20, True)


def test_a_file_that_has_become_shorter_is_an_error(tmp_path: Path) -> None:
    """Rows would be lost."""
    path = tmp_path / "a.csv"
    path.write_bytes(b"abc")
    with pytest.raises(OSError, match=r"a\.csv has become shorter while it was read"):
        read_lines(str(path), LineRange(0, 9))
