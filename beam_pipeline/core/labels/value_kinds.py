"""What the names of classes are that hardly are classes: numbers, lists, flags, boxes, names of images.

`KINDS` is the table of them: how they are recognised, what to report, and the option that reads them as what they are.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from beam_pipeline.core.labels.cells import BRACKETS, MOST, NEARLY_ALL, are_bracketed
from beam_pipeline.core.labels.classes import all_integers

_FEW_CLASSES = 10
_FEW_NUMBERS = 3

_FRACTION = re.compile(r"[+-]?\d*[.,]\d+(?:[eE][+-]?\d+)?|[+-]?\d+[eE][+-]?\d+")
_BOX = re.compile(r"\S+(?: -?\d+(?:\.\d+)?){4}(?: .*)?")
_INTEGERS = re.compile(r"\d+( \d+)*")
_PLURALS = frozenset(["labels", "classes", "categories", "targets", "tags", "attributes", "genres"])
_FLAGS = frozenset(["0", "1", "0.", "1.", "0.0", "1.0"])
_MARKS = str.maketrans(dict.fromkeys("[],;", " "))
_GAPS = re.compile(r"[\s_-]+")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_QUANTITY = re.compile(
    "ages?|angle|amount|area|bmi|boneage|cost|counts?|depth|distance|duration|height|humidity|length|mass"
    "|percentage|price|pressure|ratings?|salary|scores?|speed|steering|temperature|volume|weight|width|year"
)
_OF_CLASSES = re.compile("bins?|bucket|category|class|code|group|grade|label|level|range|type")

Counts = Mapping[str, int]
"""Class -> number of images that have it."""


class Kind(NamedTuple):
    """A kind of values.

    Attributes:
      id: of its question.
      examples: (classes, their column or empty) -> those of the kind; none if they are not enough to ask.
      text: what they look like, after "3 of 4 classes by the column 'label'"; {} represents examples.
      option: which reads such a column; empty if none does.
      value: of the option, for the column.
      advice: what to do without the option.
      numbers: True if an option that states that the column contains classes settles it.
      only_columns: True if names of folders are never of this kind.
    """

    id: str
    examples: Callable[[Counts, str], Sequence[str]]
    text: str
    option: str = ""
    value: str = ""
    advice: str = ""
    numbers: bool = False
    only_columns: bool = False


def kind_of(classes: Counts, column: str, *, confirmed: bool) -> tuple[Kind, Sequence[str]] | None:
    """The kind that most classes are of, with those that are; None for usual classes.

    Args:
      classes: class -> number of images that have it.
      column: the label column of a table, or empty.
      confirmed: whether an option states that the column contains classes.
    """
    for kind in KINDS:
        if (kind.only_columns and not column) or (kind.numbers and column and confirmed):
            continue
        examples = kind.examples(classes, column)
        if examples:
            return kind, examples
    return None


def spellings(classes: Collection[str]) -> list[Sequence[str]]:
    """The classes that differ only in case, or in spaces, hyphens and underscores, sorted.

    A single letter may well be another class than its capital, and numbers have signs.

    >>> spellings(["Cat", "cat", "a", "A", "sea_lion", "sea lion", "1", "-1"])
    [['Cat', 'cat'], ['sea lion', 'sea_lion']]
    """
    by_name: dict[str, list[str]] = defaultdict(list)
    for name in sorted(classes):
        plain = _GAPS.sub(" ", name.casefold()).strip()
        if len(plain) > 1 and any(map(str.isalpha, plain)):
            by_name[plain].append(name)
    return [names for names in by_name.values() if len(names) > 1]


def _flag_rows(classes: Counts, _: str) -> Sequence[str]:
    """Rows of 0 and 1, one for each class, all of the same length."""
    rows = [name.translate(_MARKS).split() for name in classes]
    lengths = set(map(len, rows))
    same = len(rows) > 1 and len(lengths) == 1 and 1 not in lengths
    return sorted(classes) if same and all(map(_FLAGS.issuperset, rows)) else ()


def _bracketed(classes: Counts, _: str, *, whole: bool) -> Sequence[str]:
    """Lists in brackets, or if not `whole` their parts, cut at commas."""
    all_whole = all(
        name[:1] + name[-1:] in ("[]", name) for name in classes if "[" in name or "]" in name
    )
    return sorted(classes) if are_bracketed(classes) and all_whole == whole else ()


def _fractions(classes: Counts, _: str, *, commas: bool) -> Sequence[str]:
    numbers = [name for name in sorted(classes) if _FRACTION.fullmatch(name)]
    enough = len(numbers) >= _FEW_NUMBERS and len(numbers) > MOST * len(classes)
    return numbers if enough and any("," in name for name in numbers) == commas else ()


def _quantities(classes: Counts, column: str) -> Sequence[str]:
    """Integers in a column called like a quantity, as `boneage`, not like its classes, as `age_group`."""
    words = [word.lower() for word in _WORD.findall(column)]
    called = any(map(_QUANTITY.fullmatch, words)) and not any(map(_OF_CLASSES.fullmatch, words))
    enough = called and len(classes) >= _FEW_CLASSES and all_integers(classes)
    return sorted(classes, key=int) if enough else ()


def _boxes(classes: Counts, _: str) -> Sequence[str]:
    boxes = [name for name in sorted(classes) if _BOX.fullmatch(name)]
    return boxes if len(boxes) > MOST * len(classes) else ()


def _lists(classes: Counts, _: str, *, separator: str) -> Sequence[str]:
    """Lists whose every item is found in another class as well: `cat,dog` beside `cat` and `dog`.

    A comma alone proves nothing: ImageNet has the class `tench, Tinca tinca`.
    """
    items = {name: _items(name, separator) for name in classes if separator in name}
    in_classes = Counter(item for name in classes for item in items.get(name, {name}))
    several = [name for name in sorted(items) if len(items[name]) > 1]
    proven = [name for name in several if all(in_classes[item] > 1 for item in items[name])]
    return several if len(proven) > MOST * len(items) else ()


def _items(name: str, separator: str) -> set[str]:
    return {item.strip() for item in name.split(separator)} - {""}


def _spaced_lists(classes: Counts, column: str) -> Sequence[str]:
    """Several integers, as `16 0`; or lists whose items are classes, as `scab rust` beside `scab` and `rust`.

    In a column such as `tags`, also lists of different lengths whose items are found in other classes.
    `golden retriever` beside `golden eagle` is none.
    """
    items = {name: name.split(" ") for name in sorted(classes) if " " in name}
    if all(map(_INTEGERS.fullmatch, classes)):
        return [*items]
    known: Collection[str] = classes
    if column.lower() in _PLURALS and len(set(map(len, items.values()))) > 1:
        in_classes = Counter(item for name in classes for item in set(name.split(" ")))
        known = {item for item, count in in_classes.items() if count > 1}
    proven = [name for name in items if all(item in known for item in items[name])]
    return [*items] if len(proven) > MOST * len(items) else ()


def _single_images(classes: Counts, _: str) -> Sequence[str]:
    single = [name for name in sorted(classes) if classes[name] == 1]
    # of 5,749 people in Labeled Faces in the Wild, 71 % have one image
    enough = len(classes) >= _FEW_CLASSES and len(single) >= NEARLY_ALL * len(classes)
    return single if enough else ()


_NUMBERS_TO_PREDICT = (
    "are numbers with decimals ({}), which look like a number to predict, not like classes."
)
_LISTS_TEXT = (
    "look like lists of classes, separated by {!r} ({{}}); each would be a class of its own."
)
_LISTS_ADVICE = "A table with --list_column gives the classes of each image."

KINDS = (
    Kind(
        "flag_rows",
        _flag_rows,
        "are rows of 0 and 1 ({}), as a value for each class in one cell.",
        advice="Write a column for each class, and name these columns with --one_hot; or write the name or "
        "number of the class.",
        numbers=True,
        only_columns=True,
    ),
    Kind(
        "bracketed_lists",
        partial(_bracketed, whole=True),
        "look like lists in brackets ({}), each of which would be a class of its own.",
        "list_column",
        BRACKETS,
        numbers=True,
        only_columns=True,
    ),
    Kind(
        "bracketed_lists",
        partial(_bracketed, whole=False),
        "look like parts of lists in brackets ({}), each of which would be a class of its own.",
        advice="Write each list in one cell, in quotes if it has commas, and name the column with --list_column.",
        numbers=True,
        only_columns=True,
    ),
    Kind(
        "decimal_commas",
        partial(_fractions, commas=True),
        _NUMBERS_TO_PREDICT,
        advice="Write them with a decimal point; a comma is read in a table of numbers with ';' between its "
        "cells.",
        numbers=True,
    ),
    Kind(
        "fractions",
        partial(_fractions, commas=False),
        _NUMBERS_TO_PREDICT,
        "columns",
        "float",
        "Write a table with a row for each image, such as filename,label.",
        numbers=True,
    ),
    Kind(
        "quantities",
        _quantities,
        "are integers ({}), and its name is that of a number to predict, not of classes.",
        "columns",
        "float",
        numbers=True,
        only_columns=True,
    ),
    Kind(
        "boxes_in_cells",
        _boxes,
        "look like a class and a box in one cell ({}).",
        advice="Write a row for each object, with columns such as filename,label,xmin,ymin,xmax,ymax; or leave "
        "the boxes out, for a row per image.",
        only_columns=True,
    ),
    *(
        Kind(
            "lists",
            partial(_lists, separator=separator),
            _LISTS_TEXT.format(separator),
            "list_column",
            separator,
            _LISTS_ADVICE,
        )
        for separator in ",;|"
    ),
    Kind(
        "lists",
        _spaced_lists,
        _LISTS_TEXT.format(" "),
        "list_column",
        " ",
        only_columns=True,
    ),
    Kind(
        "single_images",
        _single_images,
        "have a single image ({}), as names or captions of the images would.",
        "label_column",
        "none",
        "Name a folder whose folders are classes with --images, or a file of labels with --labels.",
    ),
)
"""In the order of asking: the first that fits is the most specific."""
