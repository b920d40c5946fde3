from __future__ import annotations

import datetime
import decimal
import io
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.core.labels.parquet_rows import read_parquet


def parquet_file(columns: dict[str, Any], **settings: Any) -> io.BytesIO:
    out = io.BytesIO()
    parquet.write_table(pa.table(columns), out, **settings)
    return io.BytesIO(out.getvalue())


def test_values_are_those_that_json_has() -> None:
    """Numbers, texts, lists and dicts as they are; NaN is nothing, a date its text."""
    rows = read_parquet(
        parquet_file(
            {
                "name": ["a", "b"],
                "number": [1.5, float("nan")],
                "whole": [7, None],
                "flag": [True, False],
                "bytes": [b"x", "é".encode()],
                "tags": [["p", "q"], []],
                "objects": [{"bbox": [[1.0, 2.0, 3.0, 4.0]], "category": [3]}, None],
                "day": [datetime.date(2020, 1, 2)] * 2,
                "price": [decimal.Decimal("1.50")] * 2,
                "kind": pa.array(["u", "v"]).dictionary_encode(),
            }
        ),
        "l.parquet",
    )
    assert list(rows) == [
        (
            1,
            {
                "name": "a",
                "number": 1.5,
                "whole": 7,
                "flag": True,
                "bytes": "x",
                "tags": ["p", "q"],
                "objects": {"bbox": [[1.0, 2.0, 3.0, 4.0]], "category": [3]},
                "day": "2020-01-02",
                "price": "1.50",
                "kind": "u",
            },
            "",
        ),
        (
            2,
            {
                "name": "b",
                "number": None,
                "whole": None,
                "flag": False,
                "bytes": "é",
                "tags": [],
                "objects": None,
                "day": "2020-01-02",
                "price": "1.50",
                "kind": "v",
            },
            "",
        ),
    ]


def test_rows_are_counted_over_all_row_groups() -> None:
    """The line of a dead letter is the row's number in the file."""
    file = parquet_file({"name": [str(i) for i in range(10_000)]}, row_group_size=3000)
    rows = list(read_parquet(file, "l.parquet"))
    assert [number for number, _, _ in rows] == list(range(1, 10_001))
    assert rows[-1][1] == {"name": "9999"}


def test_bytes_that_are_no_text_are_a_problem_of_their_row() -> None:
    """The message names the column."""
    rows = list(read_parquet(parquet_file({"name": ["a", "b"], "image": [b"\xff\xd8", b"x"]}), "l"))
    assert rows == [
        (1, {}, "bytes that are not UTF-8 text in image"),
        (2, {"name": "b", "image": "x"}, ""),
    ]


@pytest.mark.parametrize("data", [b"", b"filename,label\n", b"PAR1" + b"x" * 40 + b"PAR1"])
def test_a_file_that_is_no_parquet_is_an_error(data: bytes) -> None:
    """It names the file and what to do."""
    with pytest.raises(LabelTableError, match=r"^l\.parquet is not a Parquet file, or is damaged"):
        list(read_parquet(io.BytesIO(data), "l.parquet"))
