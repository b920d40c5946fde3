"""Reading label files as tasks: any way of cutting and reading gives the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.core.labels import table_rows
from beam_pipeline.core.labels.schema import ColumnChoices
from beam_pipeline.core.labels.table_rows import TableHead
from beam_pipeline.core.labels.tables import inspect_tables
from beam_pipeline.layouts.local_copy import LocalCopy
from beam_pipeline.layouts.table import TableReader
from beam_pipeline.work.file_parts import FilePart, cut_file
from beam_pipeline.work.labels import RowsTask

CELLS = st.sampled_from(
    ["a.jpg", "c/b", "cat", "7", "", " x ", "é", '"q, r"', '"two\nlines"', 'b"', '"']
)
LINES = st.lists(st.lists(CELLS, min_size=1, max_size=3).map(",".join), max_size=8)


def reader_of(path: Path, encoding: str = "") -> TableReader:
    text = "filename,label\na.jpg,cat\n"
    head = TableHead(str(path), text.encode(encoding or "utf-8"), False)
    if path.suffix == ".jsonl":
        head = TableHead(str(path), b'{"filename": "a.jpg", "label": "cat"}\n{}', False)
    if path.suffix == ".parquet":
        head = TableHead(str(path), b"", False, ({"filename": "a.jpg", "label": "cat"},))
    schema, tables = inspect_tables([head], ColumnChoices(encoding=encoding))
    return TableReader(tables, schema, LocalCopy())


def read(path: Path, parts: list[FilePart], encoding: str = "") -> tuple[Any, Any, Tally]:
    """Rows, dead letters and counts of some parts."""
    rows, letters, total = [], [], Tally()
    for part in parts:
        outcome = RowsTask([part], reader_of(path, encoding)).run()
        rows += [row for batch in outcome.main for row in batch]
        letters += list(outcome.dead_letters)
        total.add(outcome.tally or Tally())
    return rows, letters, total


def read_whole(path: Path, encoding: str = "") -> tuple[Any, Any, Any]:
    """Rows, dead letters and the error of the whole file."""
    rows, letters, refused = [], [], ""
    with open(path, "rb") as file:
        try:
            for part in reader_of(path, encoding).read(file, str(path)):
                if isinstance(part, DeadLetter):
                    letters.append(part)
                else:
                    rows += part
        except LabelTableError as error:
            refused = str(error)
    return rows, letters, refused


@given(
    lines=LINES,
    size=st.integers(5, 60),
    block=st.integers(5, 60),
    form=st.sampled_from(
        [("\n", "", ".csv"), ("\r\n", "cp1252", ".csv"), ("\n", "utf-16", ".csv")]
    ),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_table_cut_anywhere_has_the_same_rows(
    tmp_path: Path, lines: list[str], size: int, block: int, form: tuple[str, str, str]
) -> None:
    """Dead letters, errors and lines included, whatever its quotes do."""
    line_break, encoding, ending = form
    path = tmp_path / f"labels{ending}"
    text = "".join(line + line_break for line in ["filename,label", *lines])
    path.write_bytes(text.encode(encoding or "utf-8"))
    rows, letters, refused = read_whole(path, encoding)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(table_rows, "BLOCK_BYTES", block)
        parts = cut_file(str(path), reader_of(path, encoding).cut_of, size)
        found = read(path, parts, encoding)
    assert (repr(found[0]), found[1]) == (repr(rows), letters)
    assert [refusal.message for refusal in found[2].refusals] == [refused] * bool(refused)
    assert found[2].label_rows == len(rows) + len(letters)
    assert found[2].orphan_rows == len(letters)


@given(names=st.lists(st.text(max_size=5), max_size=9), size=st.integers(5, 60))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_json_lines_cut_anywhere_have_the_same_rows(
    tmp_path: Path, names: list[str], size: int
) -> None:
    """Quotes and escapes mean nothing to their lines."""
    path = tmp_path / "labels.jsonl"
    rows = [f'{{"filename": "{name}", "label": "cat"}}\n' for name in names]
    path.write_bytes("".join(rows).encode("utf-8", "replace"))
    expected = read_whole(path)
    found = read(path, cut_file(str(path), reader_of(path).cut_of, size))
    assert found[:2] == expected[:2]


@given(
    names=st.lists(st.sampled_from([b"a.jpg", b"c/b", b"", None, b"\xff"]), max_size=9),
    group=st.integers(1, 4),
    size=st.integers(1, 900),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_parquet_table_cut_anywhere_has_the_same_rows(
    tmp_path: Path, names: list[bytes | None], group: int, size: int
) -> None:
    """Dead letters and the numbers of rows included."""
    path = tmp_path / "labels.parquet"
    columns = {
        "filename": pyarrow.array(names, pyarrow.binary()),
        "label": pyarrow.array([f"{n}" for n in range(len(names))], pyarrow.string()),
    }
    parquet.write_table(pyarrow.table(columns), path, row_group_size=group)
    rows, letters, _ = read_whole(path)
    parts = cut_file(str(path), reader_of(path).cut_of, size)
    assert size > 1 or len(parts) == max(1, -(-len(names) // group))
    found = read(path, parts)
    assert (repr(found[0]), found[1], found[2].refusals) == (repr(rows), letters, [])
    assert found[2].label_rows == len(names)


def test_a_parquet_table_that_changes_after_it_was_cut_is_refused(tmp_path: Path) -> None:
    """No row is lost."""
    path = tmp_path / "labels.parquet"
    table = pyarrow.table({"filename": ["a.jpg"] * 9, "label": ["cat"] * 9})
    parquet.write_table(table, path, row_group_size=3)
    parts = cut_file(str(path), reader_of(path).cut_of, 1)
    parquet.write_table(table, path, row_group_size=4)
    _, _, tally = read(path, parts)
    assert tally.refusals[0].message == (
        f"{path} is not a Parquet file, or is damaged or cut short (it has changed since its footer "
        "was read); write it again"
    )


def test_a_file_that_cannot_be_read_is_a_dead_letter(tmp_path: Path) -> None:
    """One row, that of the file."""
    path = tmp_path / "gone.csv"
    rows, (letter,), tally = read(path, [FilePart(str(path))])
    assert rows == []
    assert (letter.key, letter.message) == (str(path), "cannot be read: No such file or directory")
    assert (tally.label_rows, tally.orphan_rows) == (1, 1)
