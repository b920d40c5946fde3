"""KITTI's own files."""

from __future__ import annotations

from pathlib import Path

from tests import harness
from tests.layouts import parsers, proofs


def test_real_frames_are_read_to_the_last_digit(samples: Path, working_folder: Path) -> None:
    """Three frames of KITTI itself: no box is bad, and every number is the label file's."""
    Path("kitti").symlink_to(samples / "kitti-sample")
    assert harness.convert("--images", "kitti", "--output", "out", harness.NONE_BAD) == 0
    frames = proofs.expected_samples(parsers.kitti())
    assert [len(values[parsers.OBJECTS]) for _, (_, values) in sorted(frames.items())] == [1, 3, 2]
    assert proofs.written("out", frames) == frames
