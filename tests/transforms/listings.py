"""Trees of folders, and what is listed of them, for the tests of listing."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.core.references import ImageRef
from beam_pipeline.storage.listing import list_local_root
from beam_pipeline.work.outcome import Outcome
from tests.pictures import write_files


class Found(NamedTuple):
    """Attributes: images and dead letters, sorted; tally, the sum of all."""

    images: list[ImageRef]
    dead_letters: list[DeadLetter]
    tally: Tally


def make_tree(folder: Path) -> None:
    """Makes folders of all kinds: deep, large, empty, hidden, linked; and files of all kinds."""
    names = [
        *(f"class_{c}/{i}.jpg" for c in range(6) for i in range(c)),
        *(f"large/image_{i:03d}.png" for i in range(40)),
        *(f"many/{i}/rgb.png" for i in range(15)),
        *("deep/a/b/c/d.jpg", "deep/a/e.GIF", "deep/a/labels.csv", "no_extension", "x.txt"),
        *(".git/y.jpg", "large/.hidden.jpg", "__MACOSX/z.jpg", "é/ü.jpg"),
        *("caf\udce9/b.jpg", "two\nlines.jpg"),
    ]
    write_files(str(folder), {name: name.encode(errors="replace") for name in names})
    os.mkdir(folder / "empty")
    os.mkfifo(folder / "large" / "pipe.jpg")
    os.symlink(folder / "gone.jpg", folder / "large" / "dangling.jpg")
    os.symlink(folder, folder / "deep" / "up")
    os.symlink(folder / "many", folder / "deep" / "many")
    os.symlink("itself.jpg", folder / "itself.jpg")


def found_in(outcomes: Iterable[Outcome]) -> Found:
    """What some outcomes hold."""
    images: list[ImageRef] = []
    dead_letters: list[DeadLetter] = []
    tally = Tally()
    for outcome in outcomes:
        images += [image for batch in outcome.main for image in batch]
        dead_letters += outcome.dead_letters
        tally.add(outcome.tally or Tally())
    return Found(sorted(images), sorted(dead_letters), tally)


def whole(root: ImageRoot) -> Found:
    """What is listed of a root at once."""
    images: list[ImageRef] = []
    dead_letters: list[DeadLetter] = []
    tally = Tally()
    for listed in list_local_root(root, 1000):
        images += listed.images
        dead_letters += listed.dead_letters
        tally.ignored.update(listed.ignored)
        tally.label_files.add(listed.label_files)
    tally.listed = len(images) + len(dead_letters)
    tally.add_dead_letters(dead_letters)
    return Found(sorted(images), sorted(dead_letters), tally)
