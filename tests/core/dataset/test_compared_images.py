"""Images as they are compared: their ranges and labels, and how a receipt gives them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from beam_pipeline.core.dataset.duplicates import (
    LabelHashes,
    range_count,
    range_of,
    written_images,
)
from beam_pipeline.core.dataset.receipts import Receipt, ShardInputs
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.records.sharding import ShardInfo, ShardSpec
from beam_pipeline.core.references import LabelValue, SampleRef
from tests.core.dataset.duplicate_images import A, B, C, image, ref


def test_ranges_hold_equal_shares_of_the_digests() -> None:
    """As many as keep a range at some 260,000 images."""
    assert [range_count(n) for n in (0, 1, 1 << 18, (1 << 18) + 1, 10**8)] == [1, 1, 1, 2, 382]
    assert [range_of(digest, 4) for digest in (A, B, b"\x40" + A, C)] == [0, 0, 1, 3]


BOX = (0.1, 0.2, 0.3, 0.4)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (("cat",), ("cat",), True),
        (("cat",), ("dog",), False),
        (("cat", 1), ("cat", None), False),
        ((float("nan"),), (float("nan"),), True),
        (((*BOX, 3),), ((*BOX, 8),), True),
        (((*BOX, 3), (*BOX, 4)), ((*BOX, 3),), False),
        ((("/a.png", 7, 5),), (("/b.png", 7, 6),), True),
        ((("/a.png", 7, 5),), (("/a.png", 8, 5),), False),
        ((("/a.png", 7, 5),), (None,), False),
    ],
)
def test_labels_are_compared_as_examples_show_them(
    one: tuple[LabelValue, ...], other: tuple[LabelValue, ...], same: bool
) -> None:
    """Without the lines of boxes, and without the places and times of masks."""
    is_file = isinstance(one[0], tuple) and isinstance(one[0][0], str)
    if isinstance(one[0], tuple) and not is_file:
        one, other = (one,), (other,)  # type: ignore[assignment]
    hashes = LabelHashes([0] if is_file else [])
    assert (hashes[one] == hashes[other]) is same
    assert LabelHashes([0] if is_file else [])[one] == hashes[one]


SPEC = ShardSpec("train", 0, 1, "d-train.tfrecord-00000-of-00001")
INFO = ShardInfo("train", 0, SPEC.file_name, 1, 99, 5, ())


def receipt(refs: Sequence[SampleRef], digests: bytes) -> Receipt:
    dead = DeadLetter("read", "b", "/in/b", "unreadable", "")
    return Receipt(ShardInputs(SPEC, refs, {}, {}), INFO, [dead], digests=digests)


def test_the_images_of_a_shard_come_from_its_receipt() -> None:
    """Those that became examples; none if an older version wrote it."""
    refs = [ref(b"", "a"), ref(b"", "b"), ref(b"", "c")]
    assert written_images(receipt(refs, A + bytes(16) + C), ()) == [image(A, "a"), image(C, "c")]
    assert written_images(receipt(refs, b""), ()) == []
