"""Archives that are listed as folders are: what their members' keys are, and the labels in paths."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import NamedTuple

from beam_pipeline.core.listing.folders import (
    SPLIT_NAMES,
    first_folder_split,
    named_splits,
)


class Archive(NamedTuple):
    """The naming of the members of an archive.

    Attributes:
      kind: "tar" or "zip".
      name: its path below the folder that it was named in, which begins the keys of its members.
      top: a folder in it, with a slash at its end, that does not give labels, or empty.
      split: the split of its members, or empty.
    """

    kind: str
    name: str
    top: str = ""
    split: str = ""

    @property
    def said_splits(self) -> set[str]:
        """The splits that words of its file name represent."""
        return named_splits(posixpath.basename(self.stem))

    @property
    def stem(self) -> str:
        """Its name without the extension."""
        return posixpath.splitext(self.name)[0]

    def key(self, path: str) -> str:
        """Returns the key of a member."""
        return f"{self.name}/{path}"

    def aliases(self, path: str) -> tuple[str, ...]:
        """Returns the further names of a member, as `ImageRef.aliases` has them.

        >>> Archive("zip", "a/photos.zip", top="photos/").aliases("photos/cat/1.jpg")
        ('cat/1.jpg', 'photos/cat/1.jpg', 'photos/photos/cat/1.jpg', 'cat/1.jpg')
        """
        labels = path.removeprefix(self.top)
        if self.split and not first_folder_split(labels):
            labels = f"{self.split}/{labels}"
        below = path.partition("/")[2]
        stem = posixpath.basename(self.stem)
        return labels, path, f"{stem}/{path}", below if "/" in below else ""


def top_folder(names: Sequence[str]) -> str:
    """Returns the folder, with a slash at its end, that is around all others, or empty.

    Every name must have another folder below it. A folder with a split's name gives the split.

    >>> top_folder(["photos/cat/1.jpg", "photos/dog/x/2.jpg"])
    'photos/'
    >>> top_folder(["photos/train/cat/1.jpg"])
    'photos/'
    """
    around = ""
    while names:
        first = names[0][len(around) :].partition("/")[0]
        deeper = f"{around}{first}/"
        if first.lower() in SPLIT_NAMES or not all(
            name.startswith(deeper) and "/" in name[len(deeper) :] for name in names
        ):
            break
        around = deeper
    return around
