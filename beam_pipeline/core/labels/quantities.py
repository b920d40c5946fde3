"""Names of columns that hold a number to predict, such as an age or a price."""

from __future__ import annotations

import re

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_QUANTITY = re.compile(
    "ages?|angle|amount|area|bmi|boneage|cost|depth|distance|duration|height|humidity|length|mass"
    "|percentage|price|pressure|salary|speed|steering|temperature|volume|weight|width|year"
)
_OF_CLASSES = re.compile("bins?|bucket|category|class|code|group|grade|label|level|range|type")


def is_quantity(column: str) -> bool:
    """Tells whether a column is called like a quantity, as `boneage`, not like its classes, as `age_group`."""
    words = [word.lower() for word in _WORD.findall(column)]
    return any(map(_QUANTITY.fullmatch, words)) and not any(map(_OF_CLASSES.fullmatch, words))
