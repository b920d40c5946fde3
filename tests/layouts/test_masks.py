"""Masks: whole conversions of the usual folders, and what cannot be a mask."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from beam_pipeline.cli import main
from tests import harness
from tests.layouts.make_segmentation import SIZE, grey, make_segmentation
from tests.pictures import write_files


@pytest.fixture
def here(working_folder: Path) -> Path:
    """The working directory, with the sets of the page."""
    make_segmentation(str(working_folder))
    return working_folder


@pytest.mark.slow
def test_a_mask_that_changes_is_noticed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--resume` names the image; `repair` does not write another shard than there was."""
    argv = ("--images", "shapes", "--output", "out", "--writers", "0")
    assert harness.convert(*argv) == 0
    before = harness.digests("out")
    assert harness.convert(*argv, "--resume") == 0
    assert harness.digests("out") == before
    shard = next(name for name in before if "train" in name and ".tfrecord" in name)
    os.remove(f"out/{shard}")
    assert main(["repair", "out"]) == 0
    assert harness.digests("out") == before
    write_files("shapes/masks/train", {"scene_001.png": grey([[1] * SIZE[0]] * SIZE[1])})
    capsys.readouterr()
    assert harness.convert(*argv, "--resume") == 1
    assert "1 changed (train/scene_001.jpg)" in capsys.readouterr().err
    os.remove(f"out/{shard}")
    assert main(["repair", "out"]) == 1
    assert "Restore the images, or convert again with --overwrite" in capsys.readouterr().err
