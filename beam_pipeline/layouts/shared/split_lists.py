"""Lists of the images of a split, one name per line, such as train.txt and val.txt."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.listing.filters import IMAGE_EXTENSIONS
from beam_pipeline.core.text import counted
from beam_pipeline.storage import files

UNLISTED = "unlisted"
"""The split of images that are in none of the lists, if there are lists."""

_XML = ".xml"


def check_not_listed_twice(
    uri: str, listed: Sequence[str], split: str, splits: Mapping[str, str]
) -> None:
    """Checks that these names are in no list of another split.

    Args:
      uri: the list.
      listed: the names in it.
      split: its split.
      splits: name -> split, from the previous lists.

    Raises:
      UsageError: a name is in two lists.
    """
    twice = [stem for stem in listed if splits.get(stem, split) != split]
    if twice:
        raise UsageError(
            f"{uri} names {counted(len(twice), 'image')}, such as {twice[0]!r}, that another list beside it "
            f"gives to {splits[twice[0]]}; an image can be in one split only, so take it out of one "
            "of the lists"
        )


def read_list(uri: str) -> list[str]:
    """Reads the names in a list, one per line; none if the list does not exist.

    Raises:
      UsageError: it cannot be read, or is not UTF-8.
    """
    if not files.exists(uri):
        return []
    lines = files.read_text(uri).splitlines()
    return [_without_extension(line.strip()) for line in lines if line.strip()]


def _without_extension(name: str) -> str:
    """Returns 000005 for 000005, 000005.jpg and JPEGImages/000005.jpg."""
    name = posixpath.basename(name)
    stem, extension = posixpath.splitext(name)
    return stem if extension.lower() in (IMAGE_EXTENSIONS | {_XML}) - {""} else name
