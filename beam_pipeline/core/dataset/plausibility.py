"""Checks of classes and of files beside images, from counts alone: a guess that is not safe is a question.

A question stops a run before any image is opened. It says what was found, what that looks like, and
the command to run instead; with `--yes` the run goes on, and the manifest records the reason.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from beam_pipeline.core.labels.cells import BRACKETS, are_bracketed
from beam_pipeline.core.labels.class_lists import (
    are_flag_rows,
    items_of,
    separator_of_lists,
)
from beam_pipeline.core.labels.classes import all_integers
from beam_pipeline.core.labels.dates import folders_of_dates, have_classes_below
from beam_pipeline.core.labels.odd_names import (
    IMAGES,
    folder_above_splits,
    folder_of_images_above,
    folder_of_images_below,
    folders_of_masks_below,
    folders_of_the_same,
    spellings,
    split_classes,
    split_folders,
    split_pattern,
)
from beam_pipeline.core.labels.quantities import is_quantity
from beam_pipeline.core.listing.label_files import LabelFiles
from beam_pipeline.core.questions import LABEL_FILES_IGNORED, Commands, Question
from beam_pipeline.core.references import DEFAULT_SPLIT
from beam_pipeline.core.text import counted, enumerated, printable

_SHOWN = 3
_FEW_IMAGES = 5  # fewer are a try-out, of which nothing can be told
_FEW_CLASSES = 10
_NEARLY_EVERY = 0.9  # of 5,749 people in Labeled Faces in the Wild, 0.71 have one image
_FEW_NUMBERS = 3
_FRACTION = re.compile(r"[+-]?\d*[.,]\d+(?:[eE][+-]?\d+)?|[+-]?\d+[eE][+-]?\d+")
_BOXED = re.compile(r"\S+(?: -?\d+(?:\.\d+)?){4}(?: .*)?")
_MISSING = frozenset(["nan", "NaN", "<NA>", "#N/A", "null", "NULL"])
_SPLIT_ABOVE = "(?:(?P<split>train|val|test)/)?"
_TOP_FOLDER = "'(?P<label>[^/]+)/.+'"
_FEW_TEXTS = 2  # one may be a README
_TEXTS = frozenset([".txt", ".caption"])
_TABLES = frozenset([".csv", ".tsv", ".jsonl", ".ndjson", ".parquet"])


@dataclass(frozen=True)
class LabelChecks:
    """The checks of labels at planning, and the facts for their messages.

    Attributes:
      where: where classes come from: "folder names", "names of images", or "the column 'label'"; empty to
        ask nothing.
      column: the label column of a table, or empty.
      options: those given, to which a question adds the option that answers it.
      assumed: True with --yes.
      overridden: reasons of the questions that came up before the job and that --yes answered.
      known_from: the file of --classes, or empty.
      known_only: whether any other class is an error.
      option: which names the label files, for messages.
      unseen: True if classes are taken from folders by default, and label files were not looked for.
      folder: the only path of --images, if it is a folder; else empty.
      split_files: label file -> the split that its name says, of those that say one; none with --splits.
      split_columns: columns that hold names of splits, but are features; none with --splits.
      confirmed: True if --layout says that folders are classes, or another option that a column holds classes.
      split_roots: paths of --images that are called as splits, if they name two at least; none with --splits.
      above_roots: the folder above the paths of --images; empty if they have none.
      listed: True if label files name the images, and folders are the classes.
    """

    where: str = ""
    column: str = ""
    options: Commands | None = None
    assumed: bool = False
    overridden: tuple[str, ...] = ()
    known_from: str = ""
    known_only: bool = False
    option: str = "--labels"
    unseen: bool = False
    folder: str = ""
    split_files: Mapping[str, str] = field(default_factory=dict)
    split_columns: tuple[str, ...] = ()
    confirmed: bool = False
    split_roots: tuple[str, ...] = ()
    above_roots: str = ""
    listed: bool = False


NO_CHECKS = LabelChecks()
"""Asks nothing."""


def class_questions(classes: Mapping[str, int], checks: LabelChecks) -> Iterator[Question]:
    """Questions about doubtful classes.

    Args:
      classes: class -> number of images that have it.
      checks: where they come from.
    """
    if not checks.where or not classes:
        return
    images = sum(classes.values())
    lists = separator_of_lists(classes, checks.column)
    by_folder = not (checks.column or checks.confirmed)
    splits = split_folders(classes) if by_folder else {}
    above = folder_above_splits(classes)
    images_above = folder_of_images_above(classes) if checks.listed else ""
    alike = spellings(classes)
    if above:
        yield _splits_below(above, classes, checks)
    elif images_above:
        yield _images_above(images_above, classes, checks)
    elif by_folder and folder_of_images_below(classes):
        yield _images_below(folder_of_images_below(classes), classes, checks)
    elif by_folder and folders_of_masks_below(classes):
        yield _masks_below(folders_of_masks_below(classes), classes, checks)
    elif splits:
        yield _splits_in_names(splits, classes, checks)
    elif by_folder and folders_of_the_same(classes):
        yield _same_below(folders_of_the_same(classes), classes, checks)
    elif by_folder and images >= _FEW_IMAGES and folders_of_dates(classes):
        yield _dates(folders_of_dates(classes), classes, checks)
    elif checks.column and not checks.confirmed and are_flag_rows(classes):
        yield _flags(classes, checks)
    elif checks.column and not checks.confirmed and are_bracketed(classes):
        yield _bracketed(classes, checks)
    elif len(classes) == 1 and images >= _FEW_IMAGES:
        yield _single_class(next(iter(classes)), images, checks)
    elif _are_fractions(classes):
        yield _fractions(classes, checks)
    elif _are_quantities(classes, checks):
        yield _quantities(classes, checks)
    elif checks.column and _hold_boxes(classes):
        yield _boxes_in_cells(classes, checks)
    elif lists:
        yield _lists(classes, lists, checks)
    elif _mostly_single(classes):
        yield _single_images(classes, checks)
    flat = split_classes(classes) if by_folder else []
    if flat and not (above or splits):
        yield _flat_splits(flat, classes, checks)
    images_folders = sorted(IMAGES & set(classes)) if by_folder else []
    if images_folders and len(classes) > 1:
        yield _images_folder(images_folders[0], classes, checks)
    if alike:
        yield _alike(alike, checks)
    for name in sorted(classes):
        if "\0" in name:
            yield Question(
                "null_character",
                f"The class {name!r} by {checks.where} contains a null character, which many programs take "
                "for the end of a text.",
                "Remove it from the labels.",
            )
            break
    missing = sorted(_MISSING & set(classes)) if checks.column and not checks.confirmed else []
    if missing:
        yield _missing(missing[0], classes, checks)


def split_questions(splits: Collection[str], checks: LabelChecks) -> Iterator[Question]:
    """Asks about splits that label files or columns seem to name, if there is but the one for training.

    Args:
      splits: those of the samples.
      checks: what the label files are named.
    """
    others = [uri for uri, split in checks.split_files.items() if split != DEFAULT_SPLIT]
    if others and set(splits) == {DEFAULT_SPLIT}:
        names = _some([posixpath.basename(uri) for uri in sorted(others)])
        yield Question(
            "split_tables",
            f"All samples would be in the split {DEFAULT_SPLIT}, those of {names} too, although such names "
            "are usual for other splits.",
            answer={"splits": "label_files"},
        )
    if checks.split_roots and set(splits) == {DEFAULT_SPLIT}:
        yield Question(
            "split_roots",
            f"All samples would be in the split {DEFAULT_SPLIT}, although {_some(checks.split_roots)} in "
            "--images have names of splits; only folders below a path of --images are splits.",
            "Name the folder above them:" if checks.above_roots else "",
            {"images": (checks.above_roots,)} if checks.above_roots else None,
        )
    if checks.split_columns and set(splits) == {DEFAULT_SPLIT}:
        name = checks.split_columns[0]
        yield Question(
            "split_column",
            f"All samples would be in the split {DEFAULT_SPLIT}, although the column {name!r} holds names "
            "of splits.",
            f"Call the column split in the table's header, or keep it as a feature with --columns "
            f"{shlex.quote(f'{name}:str')}.",
        )


def label_file_questions(found: LabelFiles, images: int, checks: LabelChecks) -> Iterator[Question]:
    """Asks about files that may say labels, one question an extension.

    Args:
      found: the files that the listing passed over.
      images: how many images it found. Text files count if there are half as many; in archives, XML too.
      checks: True if folder names are an unchecked guess.
    """
    if not checks.unseen or not images:
        return
    found = found.by_extension()
    for extension, count in sorted(found.counts.items()):
        in_archive = any(file.archive for file in found.first[extension])
        may_be_few = extension not in _TEXTS and not (extension == ".xml" and in_archive)
        if may_be_few or (count >= _FEW_TEXTS and 2 * count >= images):
            yield _passed_over(extension, found, images, checks)


def _passed_over(extension: str, found: LabelFiles, images: int, checks: LabelChecks) -> Question:
    count, first = found.counts[extension], found.first[extension]
    more = [f"and {count - len(first)} more"] if count > len(first) else []
    names = ", ".join([*(printable(file.key) for file in first), *more])
    looks, advice, option = _looks(extension, count, images)
    question = Question(
        LABEL_FILES_IGNORED,
        f"{counted(count, f'{extension} file')} ({names}) would be ignored{looks}.",
        advice,
    )
    if any(file.archive for file in first):
        return question._replace(
            advice=f"{advice} Take what says the labels out of the archive first."
        )
    if count > 1 or not option:
        return question
    layout = {"layout": "coco"} if extension == ".json" else {}
    return question._replace(answer={"labels": (first[0].uri,), **layout})


def _looks(extension: str, count: int, images: int) -> tuple[str, str, str]:
    """(what files of an extension look like, what to do, the options where there is a single file)."""
    if extension in _TABLES:
        looks = ", and looks like a table of labels" if count == 1 else ", and look like tables"
        return looks, "Name the file whose rows name the images with --labels.", "--labels {}"
    if extension == ".json":
        advice = (
            "A file of COCO's is named with --labels and --layout coco; other JSON has to be written as "
            "JSON Lines, a row per image."
        )
        return "", advice, "--labels {} --layout coco"
    if extension == ".xml":
        looks = ", and look like annotations" if 2 * count >= images and count > 1 else ""
        return looks, "With --layout voc, those of Pascal VOC are read; no other XML is.", ""
    advice = (
        "Captions beside the images are read with --layout caption_files; labels of YOLO or KITTI with "
        "--layout yolo or --layout kitti, and their folder as --labels; others have to be in a table such "
        "as filename,label."
    )
    return ", about as many as images, and may be labels of each", advice, ""


def _folder_below(checks: LabelChecks, folder: str) -> Mapping[str, Any] | None:
    """The answer that names a folder below that in --images; None if there are several paths."""
    return {"images": (posixpath.join(checks.folder, folder),)} if checks.folder else None


def _images_above(above: str, classes: Mapping[str, int], checks: LabelChecks) -> Question:
    return Question(
        "images_above_classes",
        f"All {counted(len(classes), 'class/classes')} by {checks.where} begin with {above + '/'!r} "
        f"({_some(sorted(classes))}), but such a name is usual for the folder above the class folders.",
        "" if checks.folder else f"Name the folder {above!r} with --images.",
        _folder_below(checks, above),
    )


def _flat_splits(flat: Sequence[str], classes: Mapping[str, int], checks: LabelChecks) -> Question:
    images = sum(classes[name] for name in flat)
    are = "would be a class" if len(flat) == 1 else "would be classes"
    return Question(
        "split_as_class",
        f"{_some(flat)} {are} of {len(classes)} by {checks.where}, with {counted(images, 'image')} that lie in "
        "no class folder there, but such a name is usual for a split.",
        "Move them into class folders below it, name a table of their labels with --labels, or name only "
        "folders that hold class folders with --images.",
    )


def _images_below(below: str, classes: Mapping[str, int], checks: LabelChecks) -> Question:
    pattern = f"{_SPLIT_ABOVE}(?P<label>.+)/{below}/[^/]+"
    return Question(
        "images_below_classes",
        f"All {counted(len(classes), 'class/classes')} by {checks.where} end with {'/' + below!r} "
        f"({_some(sorted(classes))}), but such a name is usual for a folder of images, not for a part of "
        "a class.",
        answer=None if checks.listed else {"label_from": pattern},
    )


def _masks_below(below: Sequence[str], classes: Mapping[str, int], checks: LabelChecks) -> Question:
    return Question(
        "masks_below_classes",
        f"All {counted(len(classes), 'class/classes')} by {checks.where} end with "
        f"{' or '.join(repr('/' + name) for name in below)} ({_some(sorted(classes))}), but such names are "
        "usual for images and their masks.",
        "Several masks of an image have to be one, whose pixels are class ids: --masks names its folder.",
    )


def _same_below(
    folders: Sequence[str], classes: Mapping[str, int], checks: LabelChecks
) -> Question:
    names = sorted({name.partition("/")[2] for name in classes})
    pattern = f"{_SPLIT_ABOVE}(?P<group>[^/]+)/(?P<label>.+)/[^/]+"
    return Question(
        "repeated_folders",
        f"The {len(classes)} classes by {checks.where} are {len(names)} names below several folders "
        f"({_some(folders)}), so a name such as {names[0]!r} would be several classes.",
        f"Name one of these folders with --images. If they are the classes, say --label_from {_TOP_FOLDER}. "
        "If the names are, this keeps the folder as the feature label/group:",
        None if checks.listed else {"label_from": pattern},
    )


def _dates(folders: Sequence[str], classes: Mapping[str, int], checks: LabelChecks) -> Question:
    label = "/(?P<label>[^/]+)" if have_classes_below(folders) else ""
    pattern = f"{_SPLIT_ABOVE}(?P<date>.+){label}/[^/]+"
    kept = "with the folder below it as the class" if label else "without a class"
    return Question(
        "dates_in_classes",
        f"{len(folders)} of {counted(len(classes), 'class/classes')} by {checks.where} hold a date "
        f"({_some(folders)}), so the day that an image was taken would be its class.",
        "Name a file that says the labels with --labels."
        if checks.listed
        else f"Name a file that says the labels with --labels. This keeps the date as a feature, {kept}:",
        None if checks.listed else {"label_from": pattern},
    )


def _splits_below(above: str, classes: Mapping[str, int], checks: LabelChecks) -> Question:
    return Question(
        "splits_in_classes",
        f"All {counted(len(classes), 'class/classes')} by {checks.where} have a split in their paths "
        f"({_some(sorted(classes))}), so a class would be another one in each split.",
        "" if checks.folder else f"Name the folder above the splits, {above!r}, with --images.",
        _folder_below(checks, above),
    )


def _splits_in_names(
    folders: Mapping[str, str], classes: Mapping[str, int], checks: LabelChecks
) -> Question:
    reason = (
        f"The folders {_some(list(folders))} have a split in their names, and would be classes or parts of "
        "them; so a class would be another one in each split."
    )
    pattern = "" if checks.listed else split_pattern(classes, folders)
    if not pattern:
        advice = (
            "Call them train, validation and test, with a folder for each class in them, such as "
            "train/cat/, or name a label file with --labels."
        )
        return Question("split_words_in_classes", reason, advice)
    advice = "Rename them to train, validation and test, or:"
    return Question("split_words_in_classes", reason, advice, {"label_from": pattern})


def _alike(names: Sequence[Sequence[str]], checks: LabelChecks) -> Question:
    first = " and ".join(map(repr, names[0]))
    several = f"{counted(len(names), 'class/classes')} by {checks.where} {'is' if len(names) == 1 else 'are'}"
    return Question(
        "spellings",
        f"{several} spelled in several ways, such as {first}, each of which would be a class of its own.",
        "Write them in the same way."
        if checks.column
        else "Give the folders of one class the same name.",
    )


def _single_class(name: str, images: int, checks: LabelChecks) -> Question:
    if checks.column:
        advice = "Another column may hold the label: --label_column NAME."
    else:
        advice = (
            "Name the folder above the class folders with --images, or a file that says the labels "
            "with --labels."
        )
    return Question(
        "single_class",
        f"There is a single class, {name!r}, by {checks.where}, so all {images} images have the same "
        "label.",
        advice,
    )


def _images_folder(name: str, classes: Mapping[str, int], checks: LabelChecks) -> Question:
    return Question(
        "images_as_class",
        f"{name!r} is one of {len(classes)} classes by {checks.where}, with "
        f"{counted(classes[name], 'image')}, but such a name is usual for a folder of images.",
        "Name the folder that holds class folders with --images, or a file that says the labels with "
        "--labels.",
    )


def _hold_boxes(classes: Collection[str]) -> bool:
    return 2 * sum(_BOXED.fullmatch(name) is not None for name in classes) > len(classes)


def _boxes_in_cells(classes: Mapping[str, int], checks: LabelChecks) -> Question:
    found = [name for name in sorted(classes) if _BOXED.fullmatch(name)]
    return Question(
        "boxes_in_cells",
        f"{len(found)} of {counted(len(classes), 'class/classes')} by {checks.where} look like a class "
        f"and a box in one cell ({_some(found)}).",
        "Write a row for each object, with columns such as filename,label,xmin,ymin,xmax,ymax; or leave "
        "the boxes out, for a row per image.",
    )


def _are_fractions(classes: Mapping[str, int]) -> bool:
    found = sum(_FRACTION.fullmatch(name) is not None for name in classes)
    return found >= _FEW_NUMBERS and found > len(classes) / 2


def _fractions(classes: Mapping[str, int], checks: LabelChecks) -> Question:
    found = [name for name in sorted(classes) if _FRACTION.fullmatch(name)]
    reason = (
        f"{len(found)} of {counted(len(classes), 'class/classes')} by {checks.where} are numbers "
        f"with decimals ({_some(found)}), which look like a number to predict, not like classes."
    )
    if not checks.column:
        return Question(
            "fractions", reason, "Write a table with a row for each image, such as filename,label."
        )
    if any("," in name for name in found):
        advice = (
            "Write them with a decimal point; a comma is read in a table of numbers with ';' between "
            "its cells."
        )
        return Question("fractions", reason, advice)
    return Question("fractions", reason, answer={"columns": {checks.column: "float"}})


def _are_quantities(classes: Mapping[str, int], checks: LabelChecks) -> bool:
    return (
        is_quantity(checks.column)
        and not checks.confirmed
        and len(classes) >= _FEW_CLASSES
        and all_integers(classes)
    )


def _quantities(classes: Mapping[str, int], checks: LabelChecks) -> Question:
    numbers = [int(name) for name in classes]
    return Question(
        "quantities",
        f"All {len(classes)} classes by {checks.where} are integers, from {min(numbers)} to {max(numbers)}, "
        "and its name is that of a number to predict, not of classes.",
        "Numbers are written with:",
        {"columns": {checks.column: "float"}},
    )


def _lists(classes: Mapping[str, int], separator: str, checks: LabelChecks) -> Question:
    found = [name for name in sorted(classes) if len(items_of(name, separator)) > 1]
    reason = (
        f"{len(found)} of {counted(len(classes), 'class/classes')} by {checks.where} look like lists "
        f"of classes, separated by {separator!r} ({_some(found)}); each would be a class of its own."
    )
    if not checks.column:
        return Question(
            "lists", reason, "A table with --list_column says which images have which classes."
        )
    return Question("lists", reason, answer={"list_column": {checks.column: separator}})


def _bracketed(classes: Mapping[str, int], checks: LabelChecks) -> Question:
    return Question(
        "bracketed_lists",
        f"{counted(len(classes), 'class/classes')} by {checks.where} look like lists in brackets or parts "
        f"of them ({_some(sorted(classes))}), each of which would be a class of its own.",
        answer={"list_column": {checks.column: BRACKETS}},
    )


def _flags(classes: Mapping[str, int], checks: LabelChecks) -> Question:
    return Question(
        "flag_rows",
        f"All {len(classes)} classes by {checks.where} are rows of 0 and 1 ({_some(sorted(classes))}), as a "
        "value for each class in one cell.",
        "Write a column for each class, and name these columns with --one_hot; or write the name or "
        "number of the class.",
    )


def _missing(name: str, classes: Mapping[str, int], checks: LabelChecks) -> Question:
    return Question(
        "missing_values",
        f"{name!r} is one of {counted(len(classes), 'class/classes')} by {checks.where}, with "
        f"{counted(classes[name], 'image')}, but this is how programs write a missing value.",
        "Leave these cells empty, and their images become dead letters; or leave out their rows.",
    )


def _mostly_single(classes: Mapping[str, int]) -> bool:
    single = sum(count == 1 for count in classes.values())
    return len(classes) >= _FEW_CLASSES and single >= _NEARLY_EVERY * len(classes)


def _single_images(classes: Mapping[str, int], checks: LabelChecks) -> Question:
    single = [name for name in sorted(classes) if classes[name] == 1]
    reason = (
        f"{len(single)} of {counted(len(classes), 'class/classes')} by {checks.where} have a single "
        f"image ({_some(single)}), as names or captions of the images would."
    )
    if not checks.column:
        advice = (
            "Name a folder whose folders are classes with --images, or a file that says the labels "
            "with --labels."
        )
        return Question("single_images", reason, advice)
    return Question(
        "single_images",
        reason,
        "--label_column NAME takes another column; none keeps this one beside the images, as a text:",
        {"label_column": "none"},
    )


def _some(names: Sequence[str]) -> str:
    return enumerated(list(map(repr, names)), _SHOWN)
