"""Packing references by parts: when parts are handed on, and that nothing is lost."""

from __future__ import annotations

from typing import Any

import pytest
from apache_beam.transforms.window import GlobalWindow

from beam_pipeline.core.labels.meeting import NameDivision
from beam_pipeline.core.packing import unpack
from beam_pipeline.core.references import ImageRef
from beam_pipeline.transforms import pack_parts
from beam_pipeline.transforms.batches import ImageBatch
from beam_pipeline.transforms.pack_parts import DivideElsewhere, PackParts

IMAGES = [ImageRef(f"{n}.jpg", f"/photos/{n}.jpg", n) for n in range(10)]


@pytest.fixture
def packer() -> PackParts:
    """A DoFn in the middle of a bundle."""
    packer = PackParts()
    packer.start_bundle()
    return packer


def unpacked(parts: Any) -> dict[int, list[ImageRef]]:
    return {number: list(unpack(ImageRef, packed)) for number, packed in parts}


def test_references_wait_for_the_end_of_their_bundle(packer: PackParts) -> None:
    """Each part is packed once, its references in the order in which they came."""
    assert list(packer.hold(IMAGES[:6], [0, 1, 0, 1, 0, 1], 2)) == []
    assert list(packer.hold(IMAGES[6:], [7, 0, 1, 7], 2)) == []
    last = list(packer.finish_bundle())
    assert unpacked(value.value for value in last) == {
        0: [IMAGES[n] for n in (0, 2, 4, 7)],
        1: [IMAGES[n] for n in (1, 3, 5, 8)],
        7: [IMAGES[n] for n in (6, 9)],
    }
    assert all(value.windows == (GlobalWindow(),) for value in last)
    assert list(packer.finish_bundle()) == []


def test_parts_go_when_too_many_references_wait(
    packer: PackParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All parts at once, and the next references begin new ones."""
    monkeypatch.setattr(pack_parts, "MOST_HELD", 4)
    assert list(packer.hold(IMAGES[:3], [0, 1, 2], 1000)) == []
    assert unpacked(packer.hold(IMAGES[3:5], [1, 1], 1000)) == {
        0: [IMAGES[0]],
        1: [IMAGES[1], IMAGES[3], IMAGES[4]],
        2: [IMAGES[2]],
    }
    assert list(packer.hold(IMAGES[5:6], [0], 1000)) == []
    assert unpacked(value.value for value in packer.finish_bundle()) == {0: [IMAGES[5]]}


def test_few_parts_are_filled_sooner(packer: PackParts) -> None:
    """128 references a part are worth packing, however many could still be held."""
    many = IMAGES * 13
    assert list(packer.hold(many[:127], [0] * 127, 1)) == []
    assert unpacked(packer.hold(many[127:128], [0], 1)) == {0: many[:128]}


def test_each_reference_has_a_part(packer: PackParts) -> None:
    """Other numbers of references and parts are a mistake of the caller."""
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        list(packer.hold(IMAGES[:2], [0], 1))


class Divide(DivideElsewhere):
    """Divides images by their names."""


def test_batches_are_divided_when_enough_references_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest is at the end of the bundle; nothing is left behind for the next one."""
    monkeypatch.setattr(pack_parts, "MOST_HELD", 4)
    divider, division = Divide(), NameDivision(2)
    divider.start_bundle()
    assert list(divider.divide(ImageBatch(IMAGES[:3]), division)) == []
    first = unpacked(divider.divide(ImageBatch(IMAGES[3:6]), division))
    assert sorted(image for images in first.values() for image in images) == IMAGES[:6]
    assert list(divider.divide(ImageBatch(IMAGES[6:8]), division)) == []
    last = unpacked(value.value for value in divider.finish_bundle())
    assert sorted(image for images in last.values() for image in images) == IMAGES[6:8]
    assert list(divider.finish_bundle()) == []
