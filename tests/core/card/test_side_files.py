"""The files beside the shards: which are ours, and which give way to a person's own."""

from __future__ import annotations

import pytest

from beam_pipeline.core.card.side_files import (
    files_from_manifest,
    gives_way,
    side_file,
)
from beam_pipeline.core.dataset.manifest import Manifest, dump_json
from tests.core.card.cases import manifest_of

MANIFEST = manifest_of("class_folders")
WRITTEN = {
    **dict(files_from_manifest(MANIFEST, card=True)),
    "manifest.json": dump_json(MANIFEST.content),
}
BY_NAME = {"manifest.json", "dataset_info.json", "features.json", "image.class.label.labels.txt"}


def is_ours(name: str, content: bytes, manifest: Manifest | None = MANIFEST) -> bool:
    entry = side_file(name)
    assert entry is not None
    return entry.is_ours is None or entry.is_ours(manifest, name, content)


def test_the_files_made_from_a_manifest() -> None:
    """With and without a data card."""
    card = ["README.md", "croissant.json"]
    others = ["labels.txt", "dataset_info.json", "features.json", "image.class.label.labels.txt"]
    others += ["schema.pbtxt"]
    assert list(dict(files_from_manifest(MANIFEST, card=True))) == others + card
    assert list(dict(files_from_manifest(MANIFEST, card=False))) == others


@pytest.mark.parametrize("name", WRITTEN)
def test_a_written_file_is_known_again(name: str) -> None:
    """Until it is replaced; of some, the name alone tells."""
    assert is_ours(name, WRITTEN[name])
    assert is_ours(name, b"my own words\n") == (name in BY_NAME)


def test_names_of_other_files_are_not_known() -> None:
    """Nor a file of TFDS's that the data set does not have."""
    assert side_file("notes.txt") is side_file("readme.md") is None
    assert not is_ours("image.object.labels.txt", b"cat\n")
    assert not is_ours("changes.json", b"{}")


def test_what_people_complete_gives_way() -> None:
    """A person's README or schema stays; another file in the way stops the run."""
    names = [name for name in WRITTEN if gives_way(name)]
    assert names == ["schema.pbtxt", "README.md", "croissant.json"]
    assert not gives_way("notes.txt")
