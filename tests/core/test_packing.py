"""Packed references, by columns: whatever they hold, they come back the same."""

from __future__ import annotations

import pickle
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipeline.core.packing import (
    AFTER,
    ANY,
    SAME,
    TEXT,
    Columns,
    Same,
    items_by_part,
    join_columns,
    pack,
    pack_columns,
    unpack,
    unpack_columns,
)
from beam_pipeline.core.references import LabelValue, SampleRef

SCALARS = st.text(max_size=9) | st.integers() | st.floats(allow_nan=False)
LABELS: st.SearchStrategy[LabelValue] = (
    st.none() | SCALARS | st.lists(st.text(max_size=5), max_size=3).map(tuple)
)
REFS = st.builds(
    SampleRef,
    st.text(max_size=20),
    st.text(max_size=20),
    st.integers(0),
    st.sampled_from(["train", "test"]),
    st.lists(LABELS, max_size=3).map(tuple),
    st.integers(-1),
    st.text(max_size=9),
    st.integers(0),
    st.none() | st.tuples(st.integers(1), st.integers(1)),
)


@given(refs=st.lists(REFS, max_size=9))
def test_packed_references_come_back_the_same(refs: list[SampleRef]) -> None:
    """Types of labels included: 1 stays an integer and 1.0 a float."""
    found = list(unpack(SampleRef, pack(refs)))
    assert repr(found) == repr(refs)
    assert all(type(ref) is SampleRef for ref in found)


def test_the_worked_example_of_packing_is_right() -> None:
    """The columns and the sizes in the module's docstring are what `pack` makes."""
    refs = [
        SampleRef("a/1.jpg", "/photos/a/1.jpg", 9, "train", ("a",)),
        SampleRef("a/2.jpg", "/photos/a/2.jpg", 8, "train", ("a",)),
    ]
    packed = pack(refs)
    assert packed.startswith(bytes.fromhex("6805"))
    assert pickle.loads(zlib.decompress(packed)) == (
        2,
        [
            (TEXT, "a/1.jpg\na/2.jpg"),
            (AFTER, ("/photos/", 0)),
            (ANY, (9, 8)),
            (SAME, "train"),
            (SAME, ("a",)),
            (SAME, -1),
            (SAME, ""),
            (SAME, 0),
            (SAME, None),
            (SAME, b""),
        ],
    )
    assert 70 < len(packed) < 120
    many = [
        SampleRef(f"a/{n}.jpg", f"/photos/a/{n}.jpg", 10_000, "train", ("a",)) for n in range(4096)
    ]
    assert 2 < len(pack(many)) / 4096 < 8


def columns_of(least: int, most: int) -> st.SearchStrategy[Columns]:
    """So many columns, of one to six values."""
    return st.integers(1, 6).flatmap(
        lambda count: st.lists(
            st.one_of(
                st.lists(st.text(max_size=3), min_size=count, max_size=count),
                st.lists(
                    st.none()
                    | st.booleans()
                    | st.integers(-2, 2)
                    | st.floats(0, 1)
                    | st.text("a\n"),
                    min_size=count,
                    max_size=count,
                ),
                st.lists(st.lists(LABELS, max_size=2).map(tuple), min_size=count, max_size=count),
                st.sampled_from(["", 0, True, 1.0, None, (), ("a",), (1,), (True,), b""]).map(
                    lambda value: [value] * count
                ),
            ),
            min_size=least,
            max_size=most,
        )
    )


COLUMNS = columns_of(1, 4)


def shown(columns: Columns) -> list[list[str]]:
    return [list(map(repr, column)) for column in columns]


@given(columns=COLUMNS)
def test_any_columns_come_back_the_same(columns: Columns) -> None:
    """1 is not true and not 1.0, and texts may hold the line breaks that others are joined by."""
    assert shown(unpack_columns(pack_columns(columns))) == shown(columns)


@given(parts=st.lists(columns_of(2, 2), max_size=3))
def test_columns_of_parts_are_put_together(parts: list[Columns]) -> None:
    """As their items would be; empty parts count for nothing."""
    found = join_columns([pack(()), *map(pack_columns, parts)])
    items = [item for columns in parts for item in zip(*columns, strict=True)]
    assert repr(list(zip(*found, strict=True))) == repr(items)


@given(columns=COLUMNS, parts=st.integers(1, 3))
def test_items_are_divided_among_parts(columns: Columns, parts: int) -> None:
    """Each into its own, in the order in which they came; columns of one value, too."""
    packed = unpack_columns(pack_columns(columns))
    numbers = [row % parts for row in range(len(columns[0]))]
    found = {
        number: list(zip(*unpack_columns(part), strict=True))
        for number, part in items_by_part(packed, numbers)
    }
    items = list(zip(*columns, strict=True))
    assert repr(found) == repr({n: items[n::parts] for n in dict.fromkeys(numbers)})


def test_a_column_of_one_value_is_a_sequence_like_any_other() -> None:
    """Length, items, slices and counts are those of a list."""
    column, alike = Same("a", 5), ["a"] * 5
    assert list(column) == alike
    assert list(column[1:3]) == alike[1:3]
    assert (column[-1], len(column), column.count("a"), column.count("b")) == ("a", 5, 5, 0)
    with pytest.raises(IndexError):
        column[5]
