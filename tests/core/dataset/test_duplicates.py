"""The figures of duplicates: their file, and how reports and messages tell them."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipeline.core import errors, references
from beam_pipeline.core.dataset.duplicates import (
    CopyFinder,
    Duplicates,
    ImagePlace,
    LabelHashes,
    Sizes,
    WrittenImage,
    described,
    find_duplicates,
    pack_images,
    packed_images,
    parse_duplicates,
    range_count,
    range_of,
    unpack_images,
    written_images,
)
from beam_pipeline.core.dataset.receipts import Receipt, ShardInputs
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.records.sharding import ShardInfo, ShardSpec
from tests.core.dataset.fixtures import DUPLICATES, IMAGES, A, B, C, image, ref
from tests.rows import in_rows


def test_the_file_is_read_as_it_was_written() -> None:
    """A file that is none of ours is an error that names it."""
    data = json.dumps(DUPLICATES.to_json()).encode()
    assert parse_duplicates(data, "d") == DUPLICATES
    head = b'{"format": "beam-tfrecord-duplicates", "format_version": 1}'
    damaged = (data.replace(b"-duplicates", b""), data.replace(b"2", b'"x"'))
    for other in (b"", b"[]", b"{}", head, *damaged):
        with pytest.raises(
            errors.ConversionError, match=r"^d does not list the duplicates of a data set \("
        ):
            parse_duplicates(other, "d")


def test_duplicates_are_described_by_their_worst() -> None:
    """A line for each kind, with an example."""
    assert list(described(DUPLICATES)) == [
        "5 images in 2 groups of the same bytes, such as b1 (train) and b9 (test)",
        "1 group across splits (such as test and train): a model would be tested on what it was "
        "trained on",
        "1 group with different labels, such as a0 and a1",
    ]
    assert list(described(Duplicates(images_compared=9))) == []


# --- Images as they are compared: their ranges and labels, and how a receipt gives them


def test_ranges_hold_equal_shares_of_the_digests() -> None:
    """As many as keep a range at some 260,000 images."""
    assert [range_count(n) for n in (0, 1, 1 << 18, (1 << 18) + 1, 10**8)] == [1, 1, 1, 2, 382]
    assert [range_of(digest, 4) for digest in (A, B, b"\x40" + A, C)] == [0, 0, 1, 3]


@in_rows
def test_labels_are_compared_as_examples_show_them(
    files: list[int], one: Any, other: Any, same: bool
) -> None:
    """Without the lines of boxes, and without the places and times of masks."""
    hashes = LabelHashes(files)
    assert (hashes.of(one) == hashes.of(other)) is same
    assert LabelHashes(files).of(one) == hashes.of(one)


SPEC = ShardSpec("train", 0, 1, "d-train.tfrecord-00000-of-00001")
INFO = ShardInfo("train", 0, SPEC.file_name, 1, 99, 5, ())


def receipt(refs: Sequence[references.SampleRef], digests: bytes) -> Receipt:
    dead = DeadLetter("read", "b", "/in/b", "unreadable", "")
    return Receipt(ShardInputs(SPEC, refs, {}, {}), INFO, [dead], digests=digests)


def test_a_number_that_is_none_is_the_same_again() -> None:
    """NaN is not equal to itself."""
    assert LabelHashes().of((float("nan"),)) == LabelHashes().of((float("nan"),))


def test_the_images_of_a_shard_come_from_its_receipt() -> None:
    """Those that became examples; none if it has no digests."""
    refs = [ref(b"", "a"), ref(b"", "b"), ref(b"", "c")]
    assert written_images(receipt(refs, A + bytes(16) + C), LabelHashes()) == [
        image(A, "a"),
        image(C, "c"),
    ]
    assert written_images(receipt(refs, b""), LabelHashes()) == []


# --- Images of the same bytes: grouped, counted, and sorted into kept ones and copies


def found(*images: WrittenImage) -> Duplicates:
    return find_duplicates(lambda: [pack_images(images)] if images else [])


def test_images_of_the_same_bytes_are_groups() -> None:
    """Groups with their splits and labels, leaks first."""
    assert found(*IMAGES) == DUPLICATES
    assert DUPLICATES.copies == 3
    assert found(*IMAGES[-1:]) == Duplicates(images_compared=1)
    assert found() == Duplicates(images_compared=0)


@given(
    images=st.lists(
        st.builds(
            image,
            st.integers(0, 255).map(lambda value: bytes([value]) * 16),
            st.integers(0, 999).map(str),
            split=st.sampled_from(["train", "test"]),
            label=st.sampled_from(["cat", "dog"]),
        ),
        unique_by=lambda one: one.key,
        max_size=40,
    ),
    ranges=st.integers(1, 9),
    seed=st.integers(0, 9),
)
def test_figures_are_the_same_in_any_ranges_and_order(
    images: list[WrittenImage], ranges: int, seed: int
) -> None:
    """As a count by hand has them."""
    whole = found(*images)
    shuffled = random.Random(seed).sample(images, len(images))
    parts = [tuple(unpack_images(part)) for _, part in packed_images(shuffled, ranges)]
    assert Duplicates.sum_of(found(*part) for part in reversed(parts)) == whole
    counts = Counter(one.digest for one in images)
    assert whole.images_compared == len(images)
    assert whole.images == sum(n for n in counts.values() if n > 1)
    assert whole.groups == sum(n > 1 for n in counts.values())
    splits = {digest: {one.split for one in images if one.digest == digest} for digest in counts}
    assert whole.groups_across_splits == sum(len(names) > 1 for names in splits.values())


def test_many_groups_and_many_images_are_shown_in_part() -> None:
    """Twenty groups, four images of each; the first of each split is among them."""
    images = [image(bytes([i]) * 16, f"{i:03d}/{copy}") for i in range(99) for copy in range(50)]
    images.append(image(bytes([0]) * 16, "x", split="validation"))
    duplicates = found(*images)
    assert (duplicates.images, duplicates.groups, len(duplicates.examples)) == (4951, 99, 20)
    first = duplicates.examples[0]
    assert first.splits == {"train": 50, "validation": 1}
    assert first.shown == (
        *(ImagePlace("train", f"000/{copy}") for copy in (0, 1, 10)),
        ImagePlace("validation", "x"),
    )
    assert [group.shown[0].key for group in duplicates.examples[1:]] == [
        f"{i:03d}/0" for i in range(1, 20)
    ]


def test_sizes_of_one_image_are_not_shared() -> None:
    """Those of two are, wherever they were counted."""
    one, other = Sizes(), Sizes()
    one.add([1, 2, 2])
    other.add([1, 3])
    one.merge(other)
    sizes = one.only_shared()
    assert [size for size in range(5) if sizes.is_shared(size)] == [1, 2]
    assert sizes.images == 5


@in_rows
def test_the_first_by_its_key_is_kept_and_none_for_training_before_another(
    splits: dict[str, str], kept: str
) -> None:
    """The others are dead letters, whatever the order."""
    refs = [ref(A, key, split=split) for key, split in splits.items()]
    for order in (refs, refs[::-1]):
        copies = CopyFinder(lambda order=order: iter(order))  # type: ignore[misc]
        assert [one.key for one in order if not copies.dead_letter(one)] == [kept]
        assert copies.duplicates.copies == len(refs) - 1


def test_the_dead_letter_of_a_copy_names_the_one_that_is_kept() -> None:
    """And whether their labels contradict each other."""
    refs = [ref(A, "a", split="test"), ref(A, "b", label="dog"), ref(A, "c"), ref(B, "d")]
    copies = CopyFinder(lambda: iter(refs))
    assert [copies.dead_letter(one) for one in refs] == [
        None,
        DeadLetter(
            *("join", "b", "/in/b", "duplicate"),
            "the same bytes as a in test, which is kept; their labels differ",
        ),
        DeadLetter("join", "c", "/in/c", "duplicate", "the same bytes as a in test, which is kept"),
        None,
    ]
