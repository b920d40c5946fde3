"""Packed references, by columns: whatever they hold, they come back the same."""

from __future__ import annotations

import pickle

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from beam_pipeline.core import packing
from beam_pipeline.core.references import ImageRef, LabelValue, SampleRef, bytes_of, files_of

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
    found = list(packing.unpack(SampleRef, packing.pack(refs)))
    assert repr(found) == repr(refs)
    assert all(type(ref) is SampleRef for ref in found)


def test_the_worked_example_of_packing_is_right() -> None:
    """The columns and the sizes in the module's docstring are what `pack` makes."""
    refs = [
        SampleRef("a/1.jpg", "/photos/a/1.jpg", 9, "train", ("a",)),
        SampleRef("a/2.jpg", "/photos/a/2.jpg", 8, "train", ("a",)),
    ]
    packed = packing.pack(refs)
    assert pickle.loads(zstandard.decompress(packed)) == (
        2,
        [
            (packing.TEXT, "a/1.jpg\na/2.jpg"),
            (packing.AFTER, ("/photos/", 0)),
            (packing.ANY, (9, 8)),
            (packing.SAME, "train"),
            (packing.SAME, ("a",)),
            (packing.SAME, -1),
            (packing.SAME, ""),
            (packing.SAME, 0),
            (packing.SAME, None),
            (packing.SAME, b""),
        ],
    )
    assert 70 < len(packed) < 120
    many = [
        SampleRef(f"a/{n}.jpg", f"/photos/a/{n}.jpg", 10_000, "train", ("a",)) for n in range(4096)
    ]
    assert 0 < len(packing.pack(many)) / 4096 < 1


def columns_of(least: int, most: int) -> st.SearchStrategy[packing.Columns]:
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


def shown(columns: packing.Columns) -> list[list[str]]:
    return [list(map(repr, column)) for column in columns]


@given(columns=COLUMNS)
def test_any_columns_come_back_the_same(columns: packing.Columns) -> None:
    """1 is not true and not 1.0, and texts may hold the line breaks that others are joined by."""
    assert shown(packing.unpack_columns(packing.pack_columns(columns))) == shown(columns)


@given(parts=st.lists(columns_of(2, 2), max_size=3))
def test_columns_of_parts_are_put_together(parts: list[packing.Columns]) -> None:
    """As their items would be; empty parts count for nothing."""
    found = packing.join_columns([packing.pack(()), *map(packing.pack_columns, parts)])
    items = [item for columns in parts for item in zip(*columns, strict=True)]
    assert repr(list(zip(*found, strict=True))) == repr(items)


@given(columns=COLUMNS, parts=st.integers(1, 3))
def test_items_are_divided_among_parts(columns: packing.Columns, parts: int) -> None:
    """Each into its own, in the order in which they came; columns of one value, too."""
    packed = packing.unpack_columns(packing.pack_columns(columns))
    numbers = [row % parts for row in range(len(columns[0]))]
    found = {
        number: list(zip(*packing.unpack_columns(part), strict=True))
        for number, part in packing.items_by_part(packed, numbers)
    }
    items = list(zip(*columns, strict=True))
    assert repr(found) == repr({n: items[n::parts] for n in dict.fromkeys(numbers)})


def test_a_column_of_one_value_is_a_sequence_like_any_other() -> None:
    """Length, items, slices and counts are those of a list."""
    column, alike = packing.Same("a", 5), ["a"] * 5
    assert list(column) == alike
    assert list(column[1:3]) == alike[1:3]
    assert (column[-1], len(column), column.count("a"), column.count("b")) == ("a", 5, 5, 0)
    with pytest.raises(IndexError):
        column[5]


IMAGES = [ImageRef(f"{n}.jpg", f"/photos/{n}.jpg", n) for n in range(3)]


@pytest.mark.parametrize(
    "batch",
    [
        packing.ImageBatch(IMAGES),
        packing.ImageBatch.of_packed(packing.pack(IMAGES), 3),
        packing.ImageBatch(IMAGES).kept_packed(),
        packing.ImageBatch.of_columns(list(zip(*IMAGES, strict=True))),
        packing.ImageBatch.decode(packing.ImageBatch(IMAGES).encode()),
        pickle.loads(pickle.dumps(packing.ImageBatch(IMAGES))),
    ],
)
def test_a_batch_holds_the_same_items_packed_or_not(batch: packing.ImageBatch) -> None:
    """It has their number, order, columns and packed form, and can be read again and again."""
    assert type(batch) is packing.ImageBatch
    assert len(batch) == 3
    assert list(batch) == list(batch) == IMAGES
    assert [list(column) for column in batch.columns()] == [
        list(column) for column in zip(*IMAGES, strict=True)
    ]
    assert packing.ImageBatch.of_packed(batch.packed(), 3) == IMAGES
    assert (batch[1], batch[1:]) == (IMAGES[1], IMAGES[1:])
    batch.append(ImageRef("new.jpg", "/photos/new.jpg", 9))
    assert [ref.key for ref in batch] == ["0.jpg", "1.jpg", "2.jpg", "new.jpg"]
    assert len(packing.ImageBatch.decode(batch.encode())) == 4


def test_batches_are_compared_by_their_items() -> None:
    """With other batches and with lists; nothing else is equal."""
    assert packing.ImageBatch(IMAGES) == packing.ImageBatch.of_packed(packing.pack(IMAGES), 3)
    assert packing.ImageBatch(IMAGES) != packing.ImageBatch(IMAGES[:2])
    assert packing.ImageBatch() == packing.SampleBatch() == []
    assert packing.ImageBatch() != ""
    assert not packing.ImageBatch()
    assert repr(packing.ImageBatch(IMAGES[:1])) == f"ImageBatch([{IMAGES[0]!r}])"
    assert list(packing.ImageBatch.of_columns([])) == []
    assert packing.ImageBatch().columns() == ()


SAMPLE = SampleRef("a.jpg", "/in/a.jpg", 9, "train", ("cat", ("/in/a.png", 5, 1), None))


def test_folders_are_those_of_the_key_or_of_the_path_in_an_archive() -> None:
    """An archive's members have paths of their own."""
    assert ImageRef("cat/1.jpg", "/in/cat/1.jpg", 9).path == "cat/1.jpg"
    assert ImageRef("pets/cat/1.jpg", "zip://p", 9, aliases=("cat/1.jpg", "")).path == "cat/1.jpg"


def test_the_bytes_of_a_sample_are_those_of_its_image_and_files() -> None:
    """A file that a sample lacks counts nothing."""
    assert files_of(SAMPLE, (1, 2)) == [(1, "/in/a.png", 5)]
    assert bytes_of(SAMPLE, (1, 2)) == 14
    assert bytes_of(SAMPLE, ()) == 9
