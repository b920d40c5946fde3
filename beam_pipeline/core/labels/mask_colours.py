"""Tables of the colours in masks: which class each represents.

    name,r,g,b                   class_dict.csv, with or without its header; a column id may follow
    Building,128,0,0
    64 128 64	Animal           label_colors.txt
    background:0,0,0::           labelmap.txt of CVAT

Ids count from 0 in the order of the lines, unless a column states them. A class of several colours has
one id.
"""

from __future__ import annotations

import csv
import re
from typing import NamedTuple

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.images.masks import MAX_ID
from beam_pipeline.core.text import excerpt

# Python refuses to parse more than 4,300 digits, and no id has as many.
_NUMBER = re.compile(r"[0-9]{1,18}")
_LINES = (
    re.compile(r"(?P<r>\d+)\s+(?P<g>\d+)\s+(?P<b>\d+)\s+(?P<name>\S.*)"),
    re.compile(r"(?P<name>[^:]+):\s*(?P<r>\d+)\s*,\s*(?P<g>\d+)\s*,\s*(?P<b>\d+)\s*(?::.*)?"),
)
"""Lines with the numbers first, and those of CVAT."""
_COLUMNS = (("name", "class", "label", "class_name"), ("r", "red"), ("g", "green"), ("b", "blue"))
_MOST_OF_A_CHANNEL = 255


class MaskColours(NamedTuple):
    """The class ids of colours.

    Attributes:
      ids: (red, green, blue, id) of each colour.
      classes: (name, id) of each class, in order of id.
    """

    ids: tuple[tuple[int, int, int, int], ...]
    classes: tuple[tuple[str, int], ...]


def parse_mask_colours(data: bytes, uri: str) -> MaskColours:
    """Reads a table of colours.

    Raises:
      UsageError: a line is not a class and a colour, or contradicts another; the message tells which.
    """
    lines = data.decode("utf-8-sig", "replace").splitlines()
    order: list[int] | None = None
    ids: dict[tuple[int, int, int], int] = {}
    classes: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        text, where = line.strip(), f"--mask_colors {uri}, line {number}:"
        if not text or text.startswith("#"):
            continue
        header = _header(text) if not ids else None
        if header:
            order = header
            continue
        parsed = _line(text, order)
        if parsed is None or max(parsed[1:4]) > _MOST_OF_A_CHANNEL:
            raise UsageError(
                f"{where} found {excerpt(text)}, expected a class and its colour: name,r,g,b with numbers from 0 to 255"
            )
        name, red, green, blue, own_id = parsed
        class_id = classes.get(name, len(classes)) if own_id is None else own_id
        if classes.setdefault(name, class_id) != class_id or class_id > MAX_ID:
            raise UsageError(
                f"{where} {name!r} has the id {class_id}, expected one id a class, from 0 to {MAX_ID}"
            )
        if ids.setdefault((red, green, blue), class_id) != class_id:
            raise UsageError(
                f"{where} the colour {red},{green},{blue} means another class, too; give each class its own"
            )
    if not ids:
        raise UsageError(f"--mask_colors {uri} lacks a line with a class and a colour: name,r,g,b")
    by_id = sorted(classes.items(), key=lambda item: (item[1], item[0]))
    if len(set(classes.values())) < len(classes):
        raise UsageError(f"--mask_colors {uri} gives two classes one id; give each its own")
    return MaskColours(tuple((*colour, i) for colour, i in ids.items()), tuple(by_id))


def _header(text: str) -> list[int] | None:
    """The columns of name, r, g, b and id below a header, -1 for no id; None if it is not a header."""
    cells = [cell.lower() for cell in _cells(text)]
    places = [
        next((cells.index(name) for name in names if name in cells), -1)
        for names in (*_COLUMNS, ("id",))
    ]
    return places if min(places[:4]) >= 0 else None


def _line(text: str, order: list[int] | None) -> tuple[str, int, int, int, int | None] | None:
    """(name, red, green, blue, id or None) of a line, or None."""
    match = None if order else next(filter(None, (form.fullmatch(text) for form in _LINES)), None)
    cells = [match[key].strip() for key in ("name", "r", "g", "b")] if match else _cells(text)
    places = [place for place in order or (0, 1, 2, 3) if place >= 0]
    if len(cells) <= max(places):
        return None
    name, *numbers = (cells[place] for place in places)
    if not name or not all(map(_NUMBER.fullmatch, numbers)):
        return None
    red, green, blue, *own_id = map(int, numbers)
    return name, red, green, blue, own_id[0] if own_id else None


def _cells(text: str) -> list[str]:
    """The cells of a line; none of one that `csv` refuses."""
    try:
        return [cell.strip() for cell in next(csv.reader([text]))]
    except csv.Error:  # a cell of more than 131,072 characters; a null character, in Python 3.10
        return []
