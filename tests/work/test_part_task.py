"""Dividing references among parts as a task."""

from __future__ import annotations

from beam_pipeline.core.labels.meeting import NameDivision, bucket_of
from beam_pipeline.core.packing import pack, unpack
from beam_pipeline.core.references import ImageRef
from beam_pipeline.work.outcome import divide


def test_references_of_all_batches_are_divided() -> None:
    """Each is in its part once."""
    images = [ImageRef(f"{n}.jpg", f"/photos/{n}.jpg", n) for n in range(20)]
    batches = [pack(images[:9]), pack(images[9:]), pack(())]
    outcome = divide(batches, NameDivision(3))
    found = {number: list(unpack(ImageRef, part)) for number, part in outcome.main}
    assert found == {
        number: [image for image in images if bucket_of(image.key, 3) == number] for number in found
    }
    assert sum(map(len, found.values())) == 20
    assert outcome.tally is None


def test_nothing_has_no_parts() -> None:
    """Empty batches come of stages that list nothing."""
    assert divide([pack(())], NameDivision(3)).main == ()
