"""References: where the class of an image is said, and the bytes of all files of a sample."""

from __future__ import annotations

from beam_pipeline.core.references import ImageRef, SampleRef, bytes_of, files_of

SAMPLE = SampleRef("a.jpg", "/in/a.jpg", 9, "train", ("cat", ("/in/a.png", 5, 1), None))


def test_folders_are_those_of_the_key_or_of_the_path_in_an_archive() -> None:
    """An archive's members have paths of their own."""
    assert ImageRef("cat/1.jpg", "/in/cat/1.jpg", 9).path == "cat/1.jpg"
    assert ImageRef("pets/cat/1.jpg", "zip://p", 9, aliases=("cat/1.jpg", "")).path == "cat/1.jpg"


def test_the_bytes_of_a_sample_are_those_of_its_image_and_files() -> None:
    """A file that a sample lacks counts nothing."""
    assert files_of(SAMPLE, (1, 2)) == [(1, "/in/a.png", 5)]
    assert bytes_of(SAMPLE, (1, 2)) == 14
    assert bytes_of(SAMPLE, ()) == 9
