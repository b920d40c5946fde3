"""The changes to images, and what is recorded of them."""

from __future__ import annotations

import json

from beam_pipeline.core.images.changes import ImageChanges
from beam_pipeline.core.images.geometry import Resize


def test_nothing_is_recorded_of_the_defaults() -> None:
    """So receipts and manifests stay as they were before there were changes."""
    assert ImageChanges().recorded() == {}
    assert not ImageChanges().encodes
    assert ImageChanges().target is None


def test_what_is_recorded_gives_the_same_changes() -> None:
    """Through JSON, which has no tuples."""
    changes = ImageChanges(
        orientation="apply",
        resize=(320, 240),
        resize_mode="crop",
        never_enlarge=False,
        image_format="webp",
        quality=80,
        reencode="auto",
        color_profile="keep",
        animated="refuse",
        image_codec="opencv",
        codec="OpenCV 5",
    )
    assert ImageChanges.from_recorded(json.loads(json.dumps(changes.recorded()))) == changes
    assert len(changes.recorded()) == 11
    assert changes.target == Resize(320, 240, "crop", never_enlarge=False)


def test_each_of_three_options_makes_images_be_encoded() -> None:
    """The others only say how."""
    assert ImageChanges(resize=(1, 1)).encodes
    assert ImageChanges(image_format="png").encodes
    assert ImageChanges(reencode="auto").encodes
    assert not ImageChanges(orientation="apply", quality=5, color_profile="keep").encodes
