"""Batches that stay packed: what they hold, and what can be done with them."""

from __future__ import annotations

import pickle

import pytest

from beam_pipeline.core.packing import ImageBatch, SampleBatch, pack
from beam_pipeline.core.references import ImageRef

IMAGES = [ImageRef(f"{n}.jpg", f"/photos/{n}.jpg", n) for n in range(3)]


@pytest.mark.parametrize(
    "batch",
    [
        ImageBatch(IMAGES),
        ImageBatch.of_packed(pack(IMAGES), 3),
        ImageBatch(IMAGES).kept_packed(),
        ImageBatch.of_columns(list(zip(*IMAGES, strict=True))),
        ImageBatch.decode(ImageBatch(IMAGES).encode()),
        pickle.loads(pickle.dumps(ImageBatch(IMAGES))),
    ],
)
def test_a_batch_holds_the_same_items_packed_or_not(batch: ImageBatch) -> None:
    """It has their number, order, columns and packed form, and can be read again and again."""
    assert type(batch) is ImageBatch
    assert len(batch) == 3
    assert list(batch) == list(batch) == IMAGES
    assert [list(column) for column in batch.columns()] == [
        list(column) for column in zip(*IMAGES, strict=True)
    ]
    assert ImageBatch.of_packed(batch.packed(), 3) == IMAGES
    assert (batch[1], batch[1:]) == (IMAGES[1], IMAGES[1:])
    batch.append(ImageRef("new.jpg", "/photos/new.jpg", 9))
    assert [ref.key for ref in batch] == ["0.jpg", "1.jpg", "2.jpg", "new.jpg"]
    assert len(ImageBatch.decode(batch.encode())) == 4


def test_batches_are_compared_by_their_items() -> None:
    """With other batches and with lists; nothing else is equal."""
    assert ImageBatch(IMAGES) == ImageBatch.of_packed(pack(IMAGES), 3)
    assert ImageBatch(IMAGES) != ImageBatch(IMAGES[:2])
    assert ImageBatch() == SampleBatch() == []
    assert ImageBatch() != ""
    assert not ImageBatch()
    assert repr(ImageBatch(IMAGES[:1])) == f"ImageBatch([{IMAGES[0]!r}])"
    assert list(ImageBatch.of_columns([])) == []
    assert ImageBatch().columns() == ()
