"""Listing parts of a folder as tasks: any division gives the same files."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.storage.listing import Files, Subfolder
from beam_pipeline.work.listing import ListingTask, PackedFiles, Part
from tests.pictures import write_files
from tests.transforms.listings import Found, found_in, make_tree, whole


def by_tasks(root: ImageRoot, most: int, together: int) -> Found:
    """Lists a root by tasks of some parts each."""
    waiting: list[Part] = [Subfolder.root(root)]
    outcomes = []
    while waiting:
        parts, waiting = waiting[-together:], waiting[:-together]
        task = pickle.loads(pickle.dumps(ListingTask(root, parts, most)))
        listed = pickle.loads(pickle.dumps(task.run()))
        outcomes.append(listed.outcome)
        waiting += listed.rest
    return found_in(outcomes)


@pytest.mark.parametrize("patterns", [(), ("**/*.jpg",), ("*/*",)])
@pytest.mark.parametrize(("most", "together"), [(1, 1), (4, 3), (1000, 2)])
def test_any_division_lists_the_same(
    tmp_path: Path, patterns: tuple[str, ...], most: int, together: int
) -> None:
    """Images, dead letters, ignored files and label files."""
    make_tree(tmp_path)
    root = ImageRoot(str(tmp_path), patterns)
    assert by_tasks(root, most, together) == whole(root)


def test_a_task_returns_what_it_does_not_list(tmp_path: Path) -> None:
    """Files of a folder that it has begun, and other folders."""
    names = [*(f"{i}.jpg" for i in range(5)), "a/6.jpg", "b/7.jpg"]
    write_files(str(tmp_path), dict.fromkeys(names, b"x"))
    root = ImageRoot(str(tmp_path))
    listed = ListingTask(root, [Subfolder.root(root)], most=2).run()
    assert len(found_in([listed.outcome]).images) == 2
    assert [part.size for part in listed.rest if isinstance(part, PackedFiles)] == [2, 1]
    folders = sorted(part.path for part in listed.rest if isinstance(part, Subfolder))
    assert folders == [f"{tmp_path}/a", f"{tmp_path}/b"]


def test_packed_files_are_the_files() -> None:
    """Names may be any that a file system has."""
    files = Files("/photos/a", ("b.jpg", "two\nlines.jpg", "caf\udce9.jpg"))
    packed = PackedFiles.of(files)
    assert (packed.folder, packed.size) == ("/photos/a", 3)
    assert Files(packed.folder, tuple(packed.unpacked().names)) == files


def test_a_task_says_which_links_it_has_followed(tmp_path: Path) -> None:
    """Of links within links only, by which folders may multiply."""
    write_files(str(tmp_path), {"pool/a.jpg": b"x", "more/b.jpg": b"x"})
    os.symlink(tmp_path / "more", tmp_path / "pool" / "more")
    os.symlink(tmp_path / "pool", tmp_path / "fold")
    root = ImageRoot(str(tmp_path))
    listed = ListingTask(root, [Subfolder.root(root)]).run()
    assert [link.path for link in listed.links] == [f"{tmp_path}/fold/more"]
    assert (listed.outcome.tally or Tally()).listed == 5
