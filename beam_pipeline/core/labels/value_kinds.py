"""What the names of classes are that hardly are classes: numbers, lists, flags, boxes, names of images or splits.

`KINDS` is the table of them: how they are recognised, what to report, and the option that reads them as what they are.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple
from unicodedata import normalize

from beam_pipeline.core.labels import cells, path_roles
from beam_pipeline.core.labels.classes import all_integers
from beam_pipeline.core.listing.folders import SPLIT_NAMES
from beam_pipeline.core.references import DEFAULT_SPLIT

FEW_IMAGES = 5
"""Fewer are a try-out."""

_FEW_CLASSES = 10
_FEW_NUMBERS = 3
_MANY_NUMBERS = 20

_FRACTION = re.compile(r"[+-]?\d*[.,]\d+(?:[eE][+-]?\d+)?|[+-]?\d+[eE][+-]?\d+")
_BOX = re.compile(r"\S+(?: -?\d+(?:\.\d+)?){4}(?: .*)?")
_OBJECT = re.compile(r"\[?\{.*:.*\}\]?", re.DOTALL)
_INTEGERS = re.compile(r"\d+( \d+)*")
_PIXELS = frozenset(["encodedpixels", "rle", "rle_mask", "pixel", "pixels"])  # names on Kaggle
_PLURALS = frozenset(["labels", "classes", "categories", "targets", "tags", "attributes", "genres"])
_FLAGS = frozenset(["0", "1", "0.", "1.", "0.0", "1.0"])
_MISSING = frozenset(["nan", "NaN", "<NA>", "#N/A", "N/A", "null", "NULL", "?"])
_LIST = re.compile(r"\[|\W*[^\W\d].*,")
_MARKS = str.maketrans(dict.fromkeys("[],;", " "))
_GAPS = re.compile(r"[\s_-]+")
_QUANTITY = re.compile(
    "ages?|angle|amount|area|bmi|boneage|cost|counts?|depth|distance|duration|height|humidity|length|mass"
    "|percentage|price|pressure|ratings?|salary|scores?|speed|steering|temperature|volume|weight|width|year"
)
_OF_CLASSES = re.compile(
    "bins?|bucket|code|group|grade|level|range|breed|character|letter|person|plate|sign|stage"
    "|.*(?:categor|class|identi|kind|label|species|type|variety).*|.*(?:id|idx|index|no|num|number)s?"
)
_COLUMN, FOLDERS = "column", "folders"

Counts = Mapping[str, int]
"""Class -> number of images that have it."""


class Kind(NamedTuple):
    """A kind of names.

    Attributes:
      id: of its question.
      examples: (classes, their column or empty) -> those of the kind; none if they are not enough to ask.
      text: the reason; {n} is the number of examples, {some} the first, {first} one, {of} all classes and their origin.
      advice: what to do without the option.
      option: which reads a column of them, and its value for the column; None if none does.
      place: "column" or "folders" if only classes from there are asked about.
      sure: False if an option that states that these are classes settles it.
    """

    id: str
    examples: Callable[[Counts, str], Sequence[str]]
    text: str
    advice: str = ""
    option: tuple[str, str] | None = None
    place: str = ""
    sure: bool = False


def kinds_of(
    kinds: Sequence[Kind], classes: Counts, column: str, *, confirmed: bool
) -> Iterator[tuple[Kind, Sequence[str]]]:
    """The kinds that classes are of, in the order of a table, with those that are.

    Args:
      kinds: the table.
      classes: class -> number of images that have it.
      column: the label column of a table, or empty.
      confirmed: whether an option states that these are classes.
    """
    place = _COLUMN if column else FOLDERS
    for kind in kinds:
        if kind.place in ("", place) and (kind.sure or not confirmed):
            examples = kind.examples(classes, column)
            if examples:
                yield kind, examples


def _spellings(classes: Counts, _: str) -> Sequence[str]:
    """The first classes that differ only in case, in spaces, hyphens and underscores, in Unicode's form, or in zeros before.

    A single letter may well be another class than its capital, and numbers have signs.
    """
    by_name: dict[str, list[str]] = defaultdict(list)
    for name in sorted(classes):
        plain = _GAPS.sub(" ", normalize("NFKC", name).casefold()).strip()
        if name.isdecimal():
            by_name[name.lstrip("0") or "0"].append(name)
        elif len(plain) > 1 and any(map(str.isalpha, plain)):
            by_name[plain].append(name)
    return next((names for names in by_name.values() if len(names) > 1), ())


def _mostly(test: Callable[[str], object], classes: Counts, _: str) -> Sequence[str]:
    names = sorted(filter(test, classes))
    return names if len(names) > cells.MOST * len(classes) else ()


def _several_values(classes: Counts, column: str) -> Sequence[str]:
    """Rows of 0 and 1, one for each class, and all of one length; run lengths; boxes; parts of lists; objects."""
    rows = [name.translate(_MARKS).split() for name in classes]
    lengths = set(map(len, rows))
    same = len(rows) > 1 and len(lengths) == 1 and 1 not in lengths
    are_pixels = column.strip().lower() in _PIXELS or cells.are_run_lengths(classes)
    if are_pixels or (same and all(map(_FLAGS.issuperset, rows))):
        return sorted(classes)
    parts = _mostly(lambda name: name.count("[") != name.count("]"), classes, "")
    return (
        parts or _mostly(_BOX.fullmatch, classes, "") or sorted(filter(_OBJECT.fullmatch, classes))
    )


def _bracketed(classes: Counts, _: str) -> Sequence[str]:
    """Lists in brackets; in parentheses or braces, some have a comma and no numbers, as intervals such as (0, 2) have."""
    names = _mostly(lambda name: name[:1] + name[-1:] in cells.LISTS, classes, "")
    return names if any(map(_LIST.match, names)) else ()


def _fractions(classes: Counts, _: str, *, commas: bool) -> Sequence[str]:
    numbers = _mostly(_FRACTION.fullmatch, classes, "")
    has_commas = any("," in name for name in numbers)
    return numbers if len(numbers) >= _FEW_NUMBERS and has_commas == commas else ()


def _quantities(classes: Counts, column: str) -> Sequence[str]:
    """Integers in a column called like a quantity, as `boneage`, not like its classes, as `age_group`.

    Many are asked about unless their column is called like classes, or they are ids of classes: one as often as the next
    only by chance, and without gaps unless each has several images.
    """
    words = [word.lower() for word in path_roles.WORDS.findall(column)]
    called = any(map(_QUANTITY.fullmatch, words))
    enough = len(classes) >= (_FEW_CLASSES if called else _MANY_NUMBERS)
    if not enough or any(map(_OF_CLASSES.fullmatch, words)) or not all_integers(classes):
        return ()
    numbers = sorted(classes, key=int)
    counts = [classes[number] for number in numbers]
    mean = sum(counts) / len(counts)
    steps = sum(abs(one - other) for one, other in itertools.pairwise(counts))
    smooth = steps < sum(abs(count - mean) for count in counts)
    is_sparse = int(numbers[-1]) - int(numbers[0]) >= len(numbers) and min(counts) < FEW_IMAGES
    return numbers if called or is_sparse or smooth else ()


def _lists(classes: Counts, column: str, *, separator: str) -> Sequence[str]:
    """Lists whose every item is found in another class as well: `cat,dog` beside `cat` and `dog`.

    A separator alone proves nothing: ImageNet has the class `tench, Tinca tinca`. Between spaces or slashes, items have
    to be classes themselves, as `golden retriever` beside `golden eagle` is no list, unless they are integers, or the
    column is called `tags` or alike and lists differ in length.
    """
    items = {
        name: {item.strip() for item in name.split(separator)} - {""}
        for name in sorted(classes)
        if separator in name
    }
    counts = Counter(item for name in classes for item in items.get(name, {name}))
    known = {item for item, count in counts.items() if count > 1}
    if separator == " " and all(map(_INTEGERS.fullmatch, classes)):
        return [*items]
    several_lengths = column.lower() in _PLURALS and len({*map(len, items.values())}) > 1
    if separator in " /" and not several_lengths:
        known = {*classes}
    several = [name for name in items if len(items[name]) > 1]
    proven = [name for name in several if items[name] <= known]
    return several if len(proven) > cells.MOST * len(items) else ()


def _single_images(classes: Counts, _: str) -> Sequence[str]:
    single = [name for name in sorted(classes) if classes[name] == 1]
    # of 5,749 people in Labeled Faces in the Wild, 71 % have one image
    enough = len(classes) >= _FEW_CLASSES and len(single) >= cells.NEARLY_ALL * len(classes)
    return single if enough else ()


def _single_class(classes: Counts, _: str) -> Sequence[str]:
    return [*classes] if len(classes) == 1 and sum(classes.values()) >= FEW_IMAGES else ()


def _called(test: Callable[[str], object], classes: Counts, _: str) -> Sequence[str]:
    return sorted(filter(test, classes))


def _missing(classes: Counts, _: str) -> Sequence[str]:
    """Words for a missing value, and -1 beside classes that are counted from 0."""
    counted = "0" in classes and all(map(str.isdecimal, classes.keys() - {"-1"}))
    return sorted(name for name in classes if name in _MISSING or (name == "-1" and counted))


def _is_no_class(name: str) -> bool:
    is_split = SPLIT_NAMES.get(name.lower(), DEFAULT_SPLIT) != DEFAULT_SPLIT  # train: a thing
    return is_split or name.lower() in path_roles.IMAGES


_PREDICT = "{n} of {of} are numbers with decimals ({some}), which look like a number to predict, not like classes."
_LISTS = "{{n}} of {{of}} look like lists of classes, separated by {!r} ({{some}}); each would be a class."
_CLASS_FOLDERS = (
    "Name the folder that contains class folders with --images, or a file of labels with --labels"
)

KINDS = (
    Kind(
        "several_values",
        _several_values,
        "{n} of {of} look like several values in one cell ({some}), which are not read. Boxes have to be in rows of their "
        "own, with columns such as filename,label,xmin,ymin,xmax,ymax; flags in a column for each class (--one_hot); lists "
        "in quotes (--list_column); masks in PNGs, whose pixels are class ids (--masks). To keep the cells as texts, without "
        "classes:",
        option=("label_column", "none"),
        place=_COLUMN,
        sure=True,
    ),
    Kind(
        "bracketed_lists",
        _bracketed,
        "{n} of {of} look like lists in brackets ({some}), each of which would be a class.",
        option=("list_column", cells.BRACKETS),
        place=_COLUMN,
    ),
    Kind(
        "decimal_commas",
        partial(_fractions, commas=True),
        _PREDICT,
        "Write them with a decimal point; a comma is read in a table with ';' between its cells.",
    ),
    Kind(
        "fractions",
        partial(_fractions, commas=False),
        _PREDICT,
        "Write a table with a row for each image, such as filename,label.",
        option=("columns", "float"),
    ),
    Kind(
        "quantities",
        _quantities,
        "{n} of {of} are integers ({some}), as of a number to predict, and its name is not usual for classes.",
        option=("columns", "float"),
        place=_COLUMN,
    ),
    Kind(
        "dates",
        partial(_mostly, path_roles.DATE.fullmatch),
        "{n} of {of} are dates ({some}), which hardly are classes.",
        option=("label_column", "none"),
        place=_COLUMN,
    ),
    *(
        Kind(
            "lists",
            partial(_lists, separator=mark),
            _LISTS.format(mark),
            "A table with --list_column gives the classes of each image.",
            option=("list_column", mark),
            place=_COLUMN * (mark in " +&/"),
            sure=True,
        )
        for mark in ",;|+&/ "
    ),
    Kind(
        "single_images",
        _single_images,
        "{n} of {of} have a single image ({some}), as names or captions of the images would.",
        f"{_CLASS_FOLDERS}.",
        option=("label_column", "none"),
        sure=True,
    ),
    Kind(
        "single_class",
        _single_class,
        "There is a single class, {first}, so all images would have the same label: {of}.",
        f"{_CLASS_FOLDERS}, or the column of classes with --label_column; classes in the images' names, such "
        "as cat.1.jpg, are taken with --label_from '(?P<label>[a-z]+)[._]?[0-9]+[.]jpg'.",
        sure=True,
    ),
)
"""In the order of asking: the first that fits is the most specific."""

NAMES = (
    Kind(
        "null_character",
        partial(_called, lambda name: "\0" in name),
        "{first} is one of {of}, but many programs take its null character for the end of a text.",
        "Remove it from the labels.",
        sure=True,
    ),
    Kind(
        "missing_values",
        _missing,
        "{first} is one of {of}, but this is how programs write a missing value.",
        "Leave these cells empty, and their images become dead letters; or leave out their rows.",
        place=_COLUMN,
    ),
    Kind(
        "folder_as_class",
        partial(_called, _is_no_class),
        "{first} is one of {of}, but such a name is usual for a split or a folder of images.",
        "Move them into class folders below it, name a table of their labels with --labels, or name "
        "only folders that contain class folders with --images.",
        place=FOLDERS,
    ),
    Kind(
        "spellings",
        _spellings,
        "{of}: {some} are spellings of one name, each of which would be a class of its own.",
        "Give each class one name.",
        sure=True,
    ),
)
"""Names that hardly are classes beside others that are: each kind is asked about."""
