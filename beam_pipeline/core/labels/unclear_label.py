"""The error for a table of which no column can be told to be the label, with what its columns look like."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.core.labels.cells import is_empty, text_of
from beam_pipeline.core.text import enumerated, shown

_SHOWN_NAMES = 8
_MOST_FLAGS = 100  # names that still fit into a command
_MANY = 64  # pixels of the smallest images that people keep in tables
_PIXEL = re.compile(r"(?:pixel|px?)?_?\d+(?:[x_]\d+)?", re.IGNORECASE)
_NUMBER = r"\s*[+-]?\d+(?:\.\d*)?\s*"
_BOX = re.compile(rf"\[{_NUMBER}(?:,{_NUMBER}){{3}}\]")
_PIXEL_LISTS = frozenset(["pixels", "pixel"])
_RUN_LENGTHS = frozenset(["encodedpixels", "rle", "rle_mask"])  # names on Kaggle
_FLAGS = (frozenset(["0", "1"]), frozenset(["-1", "1"]))


def unclear_label(
    where: str, names: Sequence[str], values: Mapping[str, Sequence[Any]]
) -> LabelTableError:
    """The error that asks which column is the label.

    Args:
      where: the files.
      names: the columns that may be it, at least two.
      values: column -> its values in the first rows.
    """
    found = (
        _pixels(names)
        or _objects(names, values)
        or _boxes(names, values)
        or _flags(names, values)
        or "Say --label_column NAME, or --label_column none to keep all of them as features label/<column>"
    )
    return LabelTableError(
        f"{where}: which of the columns {enumerated(names, _SHOWN_NAMES)} is the label? {found}"
    )


def single_column(where: str, keys: Sequence[str]) -> LabelTableError:
    """The error for a table with nothing besides the column that names the images."""
    only = f": the only one is {shown(keys[0])}" if keys else ""
    spaced = (
        ". Spaces separate no columns, except a name from its label; docs/datasets/official_lists.md "
        "has commands that write tables of such files"
    )
    return LabelTableError(
        f"{where}: no column besides the key, so there are no labels{only}. Expected a first line such "
        "as filename,label, then a line with the name and the label of each image"
        f"{spaced if keys and ' ' in keys[0] else ''}"
    )


def check_label(where: str, label: str, cells: Sequence[Any]) -> None:
    """Checks a label column that was not named by the user.

    Raises:
      LabelTableError: its first cells are all JSON objects, or lists of them, or masks as run lengths.
    """
    filled = [cell for cell in cells if cell != [] and not is_empty(cell)]
    refused = f"{where}: the column {label!r} cannot be the label."
    if filled and all(map(_is_object, filled)):
        raise LabelTableError(
            f"{refused} {_objects([label], {label: filled})}. To take the label from another column: "
            "--label_column NAME"
        )
    if label.lower() in _RUN_LENGTHS:
        raise LabelTableError(
            f"{refused} It seems to hold masks as run lengths, which are not read. Write a PNG for each "
            "image, whose pixels are class ids, and name their folder with --masks "
            "(docs/datasets/segmentation.md)"
        )


def _pixels(names: Sequence[str]) -> str:
    """A sentence if columns hold pixels, as the CSV files of MNIST and FER2013 do; else empty."""
    numbered = [name for name in names if _PIXEL.fullmatch(name)]
    found = numbered if len(numbered) >= _MANY else _PIXEL_LISTS.intersection(map(str.lower, names))
    if not found:
        return ""
    return (
        "It seems to hold the pixels of images, not names of image files. Such a table is not read; "
        "beam_pipeline.convert_samples takes images from arrays in Python (docs/datasets/python.md)"
    )


def _objects(names: Sequence[str], values: Mapping[str, Sequence[Any]]) -> str:
    """A sentence if cells are JSON objects, as in exports of annotation tools; else empty."""
    nested = [name for name in names if any(map(_is_object, values.get(name, ())))]
    if not nested:
        return ""
    skipped = ",".join(f"{name}:skip" for name in nested)
    kept = f". To take the label from another: --label_column NAME --columns {skipped}"
    left = kept if len(nested) < len(names) else ""
    return (
        f"Cells of {enumerated(nested, _SHOWN_NAMES)} hold objects, which are not looked into. Write a "
        "table with a row for each image, such as filename,label, or for each object, such as "
        f"filename,label,xmin,ymin,xmax,ymax{left}"
    )


def _boxes(names: Sequence[str], values: Mapping[str, Sequence[Any]]) -> str:
    """A sentence if the cells of a column are four numbers each; else empty."""
    found = [name for name in names if _are_boxes(values.get(name, ()))]
    if not found:
        return ""
    return (
        f"The cells of {shown(found[0])} seem to be boxes, which are read from four columns or from texts in "
        "brackets in one column whose name says so (docs/datasets/table_boxes.md). To keep all columns as "
        "features label/<column>: --label_column none"
    )


def _are_boxes(cells: Sequence[Any]) -> bool:
    filled = [text_of(cell) for cell in cells if not is_empty(cell)]
    return bool(filled) and all(map(_BOX.fullmatch, filled))


def _is_object(cell: Any) -> bool:
    if isinstance(cell, str):
        return cell.startswith(("{", "[{"))
    return isinstance(cell, dict) or (isinstance(cell, list) and any(map(_is_object, cell)))


def _flags(names: Sequence[str], values: Mapping[str, Sequence[Any]]) -> str:
    """A sentence if columns hold 0 and 1, or -1 and 1; else empty."""
    flags = [name for name in names if _is_flag(values.get(name, ()))]
    if not 1 < len(flags) <= _MOST_FLAGS:
        return ""
    return (
        f"If 1 says that an image has a column's class: --one_hot {','.join(flags)}. Else say "
        "--label_column NAME, or --label_column none to keep all of them as features label/<column>"
    )


def _is_flag(cells: Sequence[Any]) -> bool:
    found = {text_of(cell) for cell in cells if not is_empty(cell)}
    return bool(found) and any(found <= flags for flags in _FLAGS)
