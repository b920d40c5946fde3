from __future__ import annotations

from typing import Any

import pytest
from apache_beam import coders

from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.packing import DeadLetterBatch, ImageBatch, LabelBatch, SampleBatch
from beam_pipeline.core.references import ImageRef, LabelRow, SampleRef

BATCHES: list[list[Any]] = [
    ImageBatch([ImageRef("a.jpg", "/a.jpg", 3, 7), ImageRef("b.jpg", "/b.jpg", 4)]),
    LabelBatch([LabelRow("a", ("cat", None, 0.5), "", "labels.csv", 2, "bad")]),
    SampleBatch([SampleRef("a.jpg", "/a.jpg", 3, "train", ("cat", ("x",)), 5, "labels.csv", 9)]),
    DeadLetterBatch([DeadLetter("read", "a.jpg", "/a.jpg", "empty_file", "no bytes")]),
]


@pytest.mark.parametrize("batch", [*BATCHES, ImageBatch(), SampleBatch()])
def test_beam_knows_how_to_pack_a_batch(batch: list[Any]) -> None:
    """What comes out has the type and the items that went in, labels with their types."""
    coder = coders.registry.get_coder(type(batch))
    decoded = coder.decode(coder.encode(batch))
    assert type(decoded) is type(batch)
    assert decoded == batch
    assert [type(item) for item in decoded] == [type(item) for item in batch]


def test_a_coder_of_one_kind_is_equal_to_another_of_it() -> None:
    """Engines compare coders; that of another kind is another."""
    first, again, other = (
        coders.registry.get_coder(kind) for kind in (ImageBatch, ImageBatch, SampleBatch)
    )
    assert first == again
    assert hash(first) == hash(again)
    assert first != other
    assert first.to_type_hint() is ImageBatch
    assert not first.is_deterministic()
    assert first.estimate_size(BATCHES[0]) == 32
