"""Images of the same bytes: grouped, counted, and sorted into kept ones and copies."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipeline.core.dataset.duplicates import (
    CopyFinder,
    Duplicates,
    Sizes,
    WrittenImage,
    find_duplicates,
    pack_images,
    packed_images,
    unpack_images,
)
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.references import SampleRef
from tests.core.dataset.duplicate_images import (
    DUPLICATES,
    IMAGES,
    A,
    B,
    image,
    ref,
)


def found(*images: WrittenImage) -> Duplicates:
    return find_duplicates(lambda: [pack_images(images)] if images else [])


def test_images_of_the_same_bytes_are_groups() -> None:
    """Groups with their splits and labels, leaks first."""
    assert found(*IMAGES) == DUPLICATES
    assert DUPLICATES.copies == 3
    assert found(*IMAGES[-1:]) == Duplicates(compared=1)
    assert found() == Duplicates()


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
    assert whole.compared == len(images)
    assert whole.images == sum(n for n in counts.values() if n > 1)
    assert whole.groups == sum(n > 1 for n in counts.values())
    splits = {digest: {one.split for one in images if one.digest == digest} for digest in counts}
    assert whole.leaks == sum(len(names) > 1 for names in splits.values())


def test_many_groups_and_many_images_are_shown_in_part() -> None:
    """Twenty groups, four images of each; the first of each split is among them."""
    images = [image(bytes([i]) * 16, f"{i:03d}/{copy}") for i in range(99) for copy in range(50)]
    images.append(image(bytes([0]) * 16, "x", split="validation"))
    duplicates = found(*images)
    assert (duplicates.images, duplicates.groups, len(duplicates.examples)) == (4951, 99, 20)
    first = duplicates.examples[0]
    assert first.splits == (("train", 50), ("validation", 1))
    assert first.shown == (
        *(("train", f"000/{copy}") for copy in (0, 1, 10)),
        ("validation", "x"),
    )
    assert [group.shown[0][1] for group in duplicates.examples[1:]] == [
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


@pytest.mark.parametrize(
    ("refs", "kept"),
    [
        ([ref(A, "b"), ref(A, "a"), ref(A, "c")], "a"),
        ([ref(A, "a"), ref(A, "b", split="test")], "b"),
        ([ref(A, "c", split="test"), ref(A, "b", split="validation"), ref(A, "a")], "b"),
    ],
)
def test_the_first_by_its_key_is_kept_and_none_for_training_before_another(
    refs: list[SampleRef], kept: str
) -> None:
    """The others are dead letters, whatever the order."""
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
