"""A folder of odd images, such as Pillow's own `Tests/images`, against TensorFlow's decoder."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from beam_pipeline.core.images import geometry, header, pillow_header, preparation
from beam_pipeline.core.records.alteration import Alteration
from tests.core.images.fixtures import decoded_shape

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # Pillow warns of broken images
]

REFUSED = ("an animated WebP, ", "a BMP that is compressed", pillow_header.DISAGREEMENT)
"""What TensorFlow decodes, or decodes to something else, and is left out all the same."""


def odd_images() -> list[Path]:
    corpus = os.environ.get("BEAM_TFRECORD_CORPUS")
    if not corpus:
        pytest.skip("BEAM_TFRECORD_CORPUS names no folder of images")
    return sorted(path for path in Path(corpus).rglob("*") if path.is_file())


@pytest.mark.parametrize("check", [preparation.read_header, preparation.decode_fully])
def test_odd_images_are_what_tensorflow_decodes(
    tf: Any, check: Callable[[bytes], header.ImageHeader]
) -> None:
    """Every image that passes decodes to what its header says, and every other one does not."""
    differences, passed = [], 0
    for path in odd_images():
        data = path.read_bytes()
        try:
            found: tuple[int, ...] | None = check(data)[1:4]
            passed += 1
        except header.BadImageError as error:
            if str(error).startswith(REFUSED):
                continue
            found = None
        if data and found != decoded_shape(tf, data):
            differences.append((path.name, found))
    assert differences == []
    assert passed


@pytest.mark.parametrize("resize", [None, (64, 64)])
def test_odd_images_encoded_where_needed_are_what_tensorflow_decodes(
    tf: Any, resize: tuple[int, int] | None
) -> None:
    """Every image that is written decodes to what its header says, whatever it was."""
    check = partial(preparation.check_any_format, preparation.read_header)
    alteration = Alteration(geometry.ImageChanges(reencode="auto", resize=resize))
    differences, encoded = [], 0
    for path in odd_images():
        try:
            altered = alteration.alter(data := path.read_bytes(), check(data))
        except header.BadImageError:
            continue
        encoded += "encoded" in altered.events
        if altered.header[1:4] != decoded_shape(tf, altered.image):
            differences.append((path.name, altered.header))
    assert differences == []
    assert encoded
