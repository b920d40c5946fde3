from __future__ import annotations

import pickle
import zlib

from hypothesis import given
from hypothesis import strategies as st

from beam_pipeline.transforms.core.references import LabelValue, SampleRef, pack, unpack

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
    assert packed.startswith(bytes.fromhex("7801"))
    assert pickle.loads(zlib.decompress(packed)) == (
        ("a/1.jpg", "a/2.jpg"),
        ("/photos/a/1.jpg", "/photos/a/2.jpg"),
        (9, 8),
        ("train", "train"),
        (("a",), ("a",)),
        (-1, -1),
        ("", ""),
        (0, 0),
        (None, None),
        (b"", b""),
    )
    assert 80 < len(packed) < 120
    many = [
        SampleRef(f"a/{n}.jpg", f"/photos/a/{n}.jpg", 10_000, "train", ("a",)) for n in range(4096)
    ]
    assert 5 < len(pack(many)) / 4096 < 15
