"""The libraries that change images: which one a data set was begun with, and what is said of another."""

from __future__ import annotations

import importlib.util

import pytest

from beam_pipeline.core.errors import CodecError, UsageError
from beam_pipeline.core.images.preparation import (
    IMAGE_CODECS,
    check_codec,
    codec_here,
    codec_in_use,
    other_codec,
)


def test_only_the_codec_of_the_data_set_may_encode() -> None:
    """An empty one stands for any."""
    check_codec("")
    check_codec(codec_in_use("pillow"))
    with pytest.raises(CodecError, match=r"encoded by Pillow 1, and here by Pillow \d"):
        check_codec("Pillow 1")


def test_another_library_is_told_from_another_version() -> None:
    """The advice is the option, or the package to install."""
    said = other_codec("Pillow 1", "OpenCV 5")
    assert said.startswith("images are encoded by Pillow 1, and here by OpenCV 5, which may give")
    assert said.endswith("Give --image_codec pillow, or convert again with --overwrite")
    assert "Give --image_codec opencv" in other_codec("OpenCV 5", "Pillow 1")
    assert "pip install opencv-python-headless==..." in other_codec("OpenCV 4", "OpenCV 5")
    assert "pip install Pillow==..." in other_codec("Pillow 1", "Pillow 2")


def test_a_recorded_name_tells_the_library() -> None:
    """Whatever its versions; names of no known library are taken for the default's."""
    assert codec_here("Pillow 1, libwebp 2") == codec_in_use("pillow")
    assert codec_here("something else") == codec_in_use("pillow")


@pytest.mark.skipif(bool(importlib.util.find_spec("cv2")), reason="OpenCV is installed")
def test_a_missing_library_is_named() -> None:
    """With the command that installs it."""
    for failing in (IMAGE_CODECS["opencv"].load, lambda: check_codec("OpenCV 5")):
        with pytest.raises(UsageError, match=r"pip install 'beam-tfrecord\[opencv\]'"):
            failing()
