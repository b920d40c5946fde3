"""Lists without a header: lines that are an image's name, or a name with its label after a space.

Names may lack the extension. Those that have one and a label behind it, `cat/1.jpg 0`, are told by
the extension alone (`table_files`); here all of the first lines must fit.

| lines | columns |
|---|---|
| `kitchen/int474.jpg`, `apple_pie/1005649`, `2008_000008` | `filename` |
| `0787226 Boeing 707-320` | `filename`, `label` |
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Sequence

from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.core.listing.filters import IMAGE_EXTENSIONS

NAMES_HEADER = ("filename",)
"""The columns of a list of names alone."""

NAMED_LABELS_HEADER = ("filename", "label")
"""The columns of a list of names and labels."""

_SEPARATORS = ",;\t|\"'"
_PAGE = "docs/datasets/official_lists.md"
_NUMBERED = re.compile(r"\s*\S[^\t]*\.\w{2,5}#\d+\t")  # a name, and the number of a caption
_LOOKED_AT = 1000
_FEW = 2  # lines; what a single one begins with shows no order


def header_of_names(lines: Sequence[str], uri: str) -> tuple[str, ...]:
    """Returns the columns of a list without a header; none if the lines are no such list.

    Args:
      lines: the first ones of the file that are complete and not empty.
      uri: the file, for messages.

    Raises:
      LabelTableError: lines hold ids, a count or labels where names of images are expected.
    """
    lines = [line.strip() for line in lines[:_LOOKED_AT]]
    if not lines or any(mark in lines[0] for mark in _SEPARATORS):
        return ()
    words = [line.split(maxsplit=1) for line in lines]
    if any(map(is_image_name, lines[0].split()[:-1])):
        return ()
    if len(lines) >= _FEW:
        _check_no_ids(words, uri)
        _check_no_count(lines, uri)
    if is_image_name(lines[0]) or (len(words[0]) == 1 and _looks_like_a_name(lines[0])):
        _check_no_labels(lines, uri)
        return NAMES_HEADER
    if not all(map(_is_named_label, words)):
        return ()
    if len(lines) >= _FEW and _count_up([label for _, label in words]):
        cut = f"cut -d' ' -f1 {shlex.quote(uri)} > {shlex.quote(posixpath.basename(uri))}"
        raise LabelTableError(
            f"{uri}: the numbers after the names count the lines ({lines[0]!r}, {lines[1]!r}), so "
            f"they are no labels. To take the names alone, in another folder: {cut}"
        )
    return NAMED_LABELS_HEADER


def check_no_numbered_names(line: str, uri: str) -> None:
    """Checks that a file's first line is none of Flickr8k's and Flickr30k's captions.

    Raises:
      LabelTableError: the line names a caption, such as `a.jpg#0`, where an image is expected.
    """
    if not _NUMBERED.match(line):
        return
    name = line.partition("\t")[0].strip()
    fields = '{file_name: .[0] | sub("#[0-9]+$"; ""), caption: .[1]}'
    written = posixpath.splitext(uri)[0] + ".jsonl"
    raise LabelTableError(
        f"{uri}: the first line begins with {name!r}, the name of an image and the number of a "
        "caption, as in Flickr8k and Flickr30k, where column names or an image's name are expected. "
        f"To write the captions as a table: jq -cR 'split(\"\\t\") | {fields}' {shlex.quote(uri)} > "
        f"{shlex.quote(written)}"
    )


def split_line(line: str, columns: int) -> list[str]:
    """Returns the cells of a line of such a list; of another number if the line does not fit."""
    line = line.strip()
    return [line] if columns == 1 else line.split(maxsplit=1)


def is_image_name(text: str) -> bool:
    """True if a text ends like the name of an image file."""
    return posixpath.splitext(text)[1].lower() in IMAGE_EXTENSIONS - {""}


def _looks_like_a_name(word: str) -> bool:
    """True if a word is more likely the name of an image than that of a column."""
    return "/" in word or any(map(str.isdigit, word))


def _is_named_label(words: Sequence[str]) -> bool:
    if len(words) != len(NAMED_LABELS_HEADER) or not _looks_like_a_name(words[0]):
        return False
    name, label = words
    several = label.split()
    numbers = len(several) > 1 and all(map(_is_number, several))
    return not numbers and not any(map(is_image_name, (name, *several)))


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[+-]?\d+(?:\.\d*)?", text) is not None


def _count_up(texts: Sequence[str]) -> bool:
    return list(texts) == [str(number) for number in range(1, len(texts) + 1)]


def _check_no_ids(words: Sequence[Sequence[str]], uri: str) -> None:
    if _count_up([first for first, *_ in words]) and all(len(found) > 1 for found in words):
        raise LabelTableError(
            f"{uri}: the lines begin with 1, 2, 3, ... ({' '.join(words[0])!r}), which are ids and no "
            "names of images. If several files share the ids, as those of CUB-200-2011 do, join them "
            f"into one table first; {_PAGE} has the commands"
        )


def _check_no_count(lines: Sequence[str], uri: str) -> None:
    if lines[0].isdigit() and not lines[1].isdigit() and len(lines[1].split()) > 1:
        raise LabelTableError(
            f"{uri}: the first line is a number ({lines[0]}), as a count of the others, where column "
            f"names or an image's name are expected. {_PAGE} has commands that write a table of such "
            "a file, as CelebA has it"
        )


def _check_no_labels(lines: Sequence[str], uri: str) -> None:
    """Raises LabelTableError if the lines are numbers of which one is repeated."""
    if all(map(str.isdigit, lines)) and len(set(lines)) < len(lines):
        raise LabelTableError(
            f"{uri}: the lines are numbers, some of them several times, and name no image. If they are "
            "the labels of the images in the order of their names, as those of ImageNet's validation "
            f"set are, write a table of both; {_PAGE} has the command"
        )
