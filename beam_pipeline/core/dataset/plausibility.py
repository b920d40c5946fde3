"""Checks of classes, splits and files beside images, from counts alone: a guess that is not safe is a question."""

from __future__ import annotations

import itertools
import posixpath
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from beam_pipeline.core.labels.path_roles import (
    IMAGES,
    MASKS,
    Role,
    Segment,
    differ_in_numbers,
    label_pattern,
    last_folder_pattern,
    segments_of,
)
from beam_pipeline.core.labels.value_kinds import FEW_IMAGES, FOLDERS, KINDS, NAMES, Kind, kinds_of
from beam_pipeline.core.listing import filters, folders
from beam_pipeline.core.questions import LABEL_FILES_IGNORED, Commands, Question
from beam_pipeline.core.references import DEFAULT_SPLIT
from beam_pipeline.core.text import counted, enumerated, printable

_SHOWN = 3
_FEW_TEXTS = 2  # one may be a README


@dataclass(frozen=True)
class LabelChecks:
    """The checks of labels at planning, and the facts for their messages.

    Attributes:
      where: where classes come from: "folder names", "names of images", or "the column 'label'"; empty to
        ask nothing.
      column: the label column of a table, or empty.
      options: those given; a question adds the option that answers it.
      assumed: True with --yes.
      overridden: reasons of the questions that came up before the job and that --yes answered.
      known_from: the file of --classes, or empty.
      known_only: whether any other class is an error.
      option: which names the label files, for messages.
      unseen: True if classes are taken from folders by default, and label files were not looked for.
      folder: the only path of --images, if it is a folder; else empty.
      split_folders: names of the folders in --images that are splits.
      split_files: label file -> the split in its name, of those with one; none with --splits.
      split_columns: column that seems to contain splits -> its type as a feature; none with --splits.
      confirmed: True if --layout makes folders classes, or another option that a column contains classes.
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
    split_folders: tuple[str, ...] = ()
    split_files: Mapping[str, str] = field(default_factory=dict)
    split_columns: Mapping[str, str] = field(default_factory=dict)
    confirmed: bool = False
    split_roots: tuple[str, ...] = ()
    above_roots: str = ""
    listed: bool = False


FOLDER_NAMES = "folder names"
"""Where the classes of class folders come from."""

IMAGE_NAMES = "names of images"
"""Where those of --label_from come from."""

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
    segments = [] if checks.confirmed and not checks.column else segments_of(classes)
    odd = _odd_roles(segments, classes, checks)
    of_all = f"{counted(len(classes), 'class/classes')} by {checks.where}"
    above = {name.rpartition("/")[0] for name in classes if "/" in name}
    nested = bool(segments and above) and not checks.column
    if nested and (checks.listed or checks.where != FOLDER_NAMES):
        # whole paths may well be meant, unless most of them end alike, or files list images of numbered folders
        ends = Counter(name.rpartition("/")[2] for name in classes)
        shared = sum(count for count in ends.values() if count > 1)
        levels = itertools.zip_longest(*(path.split("/") for path in above), fillvalue="")
        numbered = any(differ_in_numbers({*level} - {""}) for level in levels)
        nested = 2 * shared > len(classes) or (checks.listed and numbered)
    asked = [] if odd else [*itertools.islice(_kind_questions(KINDS, classes, of_all, checks), 1)]
    if odd or (nested and not asked):
        asked = [_folder_question(segments, classes, of_all, checks)]
    yield from asked
    usual = odd & {Role.SPLIT, Role.IMAGES, Role.MASKS}
    names: Sequence[Kind] = NAMES[-1:] if usual else NAMES
    if len(classes) == 1:  # a single folder is asked about as such
        names = [kind for kind in names if kind.place != FOLDERS]
    yield from _kind_questions(names, classes, of_all, checks)


def _kind_questions(
    kinds: Sequence[Kind], classes: Mapping[str, int], of_all: str, checks: LabelChecks
) -> Iterator[Question]:
    """A question about each kind of names in a table that classes have."""
    for kind, names in kinds_of(kinds, classes, checks.column, confirmed=checks.confirmed):
        reason = kind.text.format(n=len(names), of=of_all, some=_some(names), first=repr(names[0]))
        advice, answer = kind.advice, dict[str, Any]()
        if kind.option and checks.column:
            option, value = kind.option
            of_column = value if option == "label_column" else {checks.column: value}
            advice, answer = "", {option: of_column}
        labelled = {*checks.split_folders} - classes.keys()
        are_splits = all(name.lower() in folders.SPLIT_NAMES for name in names)
        if kind.id == "folder_as_class" and are_splits and checks.folder and labelled:
            advice += " To leave its images out:"
            answer = {"images": (f"{checks.folder}/*/*/*",)}
        yield Question(kind.id, reason, advice, answer or None)


# --- paths of folders -----------------------------------------------------------------------------

_ODD = frozenset([Role.SPLIT, Role.IMAGES, Role.MASKS, Role.DATE, Role.PART])
"""The roles of levels of folders that no class has."""

_NO_PATTERN = (
    "Name the folder that contains class folders with --images, one of masks with --masks, or a file of labels "
    "with --labels."
)
_BY_PARTS = "This takes each part as what it is{}:"
_EXCHANGED = "; if the groups are the classes, exchange the names group and label in it"


def _odd_roles(
    segments: Sequence[Segment], classes: Mapping[str, int], checks: LabelChecks
) -> set[Role]:
    """The roles of levels of folders that are asked about, whatever else the classes are."""
    roles = {segment.role for segment in segments} & _ODD
    if checks.column:
        return roles & {Role.SPLIT} if any("/" in name for name in classes) else set()
    few = roles <= {Role.DATE, Role.PART} and sum(classes.values()) < FEW_IMAGES
    return set() if few else roles


def _folder_question(
    segments: Sequence[Segment], classes: Mapping[str, int], of_all: str, checks: LabelChecks
) -> Question:
    """Asks which part of the names of folders is the class."""
    example = next((name for name in sorted(classes) if "/" in name), min(classes))
    parts = [f"{_some(segment.names)} ({segment.role.value})" for segment in segments]
    reason = f"{of_all}, such as {example!r}, seem to be made of parts: {'; '.join(parts)}."
    advice = "Write the class alone, and a split in a column called split."
    answer: dict[str, Any] = {}
    if checks.where in (FOLDER_NAMES, IMAGE_NAMES):
        in_folders = checks.where == FOLDER_NAMES and not checks.listed
        advice = f"If the whole names are the classes, give --{'layout class_folders' if in_folders else 'yes'}. "
        how, pattern = _pattern_of(segments, classes, checks)
        if pattern:
            answer = {"label_from": pattern}
            if checks.listed:
                answer["labels"] = ()
                advice += "The next command reads all images, not only those listed. "
        advice += how
    return Question("folders_in_classes", reason, advice, answer or None)


def _pattern_of(
    segments: Sequence[Segment], classes: Mapping[str, int], checks: LabelChecks
) -> tuple[str, str]:
    """What to do, and the --label_from of a class in several levels of folders; it is empty if the class is unclear."""
    unsure = [s.names for s in segments if s.role in (Role.CLASS, Role.GROUP)]
    words = {word for names in unsure for name in names for word in name.split("/")}
    if any(word.lower() in IMAGES | MASKS for word in words):
        return _NO_PATTERN, ""
    paths = [name.split("/") for name in classes]
    is_even = len({*map(len, paths)}) == 1
    if is_even or not {s.role for s in segments}.isdisjoint(_ODD):
        unclear = any(map(folders.named_splits, words))
        pattern = "" if unclear else label_pattern(segments, checks.split_folders)
        if pattern:
            return _BY_PARTS.format(_EXCHANGED if "<group>" in pattern else ""), pattern
        if is_even:
            return _NO_PATTERN, ""
    nested = [path for path in paths if path[1:]]
    of_splits = {*checks.split_folders}
    if of_splits and all(len(path) == 2 and path[1] in classes for path in nested):
        of_splits |= {path[0] for path in nested}  # beside the usual ones
    parts = {part for path in nested for part in path}
    of_splits |= {part for part in parts if part.lower() in folders.SPLIT_NAMES}
    has_images = any("/".join(path[:-1]) in classes for path in nested)
    misplaced = any(of_splits & {*path[:-2], path[-1]} for path in nested)
    if has_images or misplaced or any(map(folders.named_splits, parts - of_splits)):
        return _NO_PATTERN, ""
    pattern = last_folder_pattern(map(re.escape, sorted(of_splits)))
    return "If the last folder is the class:", pattern


# --- splits ---------------------------------------------------------------------------------------


def split_questions(splits: Collection[str], checks: LabelChecks) -> Iterator[Question]:
    """Asks about splits that label files or columns seem to name, if there is but the one for training.

    Args:
      splits: the samples' splits.
      checks: what the label files are named.
    """
    if set(splits) != {DEFAULT_SPLIT}:
        return
    all_in_one = f"All samples would be in the split {DEFAULT_SPLIT}"
    elsewhere = [uri for uri, split in checks.split_files.items() if split != DEFAULT_SPLIT]
    if elsewhere:
        names = _some([posixpath.basename(uri) for uri in sorted(elsewhere)])
        yield Question(
            "split_tables",
            f"{all_in_one}, those of {names} too, although such names are usual for other splits.",
            answer={"splits": "label_files"},
        )
    if checks.split_roots:
        yield Question(
            "split_roots",
            f"{all_in_one}, although {_some(checks.split_roots)} in --images have names of splits; only "
            "folders below a path of --images are splits.",
            "Name the folder above them:" if checks.above_roots else "",
            {"images": (checks.above_roots,)} if checks.above_roots else None,
        )
    for name, kind in itertools.islice(checks.split_columns.items(), 1):
        yield Question(
            "split_column",
            f"{all_in_one}, although the column {name!r} seems to contain the split of each row.",
            "Write the names of splits in a column called split. To keep it as a feature:",
            {"columns": {name: kind}},
        )


# --- label files ----------------------------------------------------------------------------------


ADVICE = (
    "A table whose rows name the images is named with --labels, and annotations with --labels and their --layout, such as "
    "coco or voc for JSON or XML; texts beside images are read with --layout yolo, kitti or caption_files. Any others "
    "have to be written as a table such as filename,label; one of the colours of masks is named with --mask_colors."
)
"""What to do about files that may contain labels."""

_OPTIONS: Mapping[str, Mapping[str, str]] = {
    **{extension: {} for extension in filters.TABLES},
    ".json": {"layout": "coco"},
}
"""Extension -> the options for a single file beside --labels."""


def label_file_questions(
    passed_over: filters.LabelFiles, images: int, checks: LabelChecks
) -> Iterator[Question]:
    """Asks about files that may contain labels, one question an extension.

    Args:
      passed_over: the files that the listing passed over.
      images: how many images it has. Text files count if there are half as many; in archives, XML too.
      checks: whether folder names are an unchecked guess.
    """
    if not checks.unseen or not images:
        return
    files = passed_over.by_extension()
    for extension, count in sorted(files.counts.items()):
        options, first = _OPTIONS.get(extension), files.first[extension]
        archived = any(file.archive for file in first)
        each = extension in filters.TEXTS or (extension == ".xml" and archived)
        if each and (count < _FEW_TEXTS or 2 * count < images):
            continue
        names = enumerated([printable(file.key) for file in first], count)
        more = f", and {count - len(first)} more" if count > len(first) else ""
        single = count == 1 and not archived
        yield Question(
            LABEL_FILES_IGNORED,
            f"{counted(count, f'{extension} file')} ({names}{more}) would be ignored.",
            ADVICE + (" Take the labels out of the archive first." if archived else ""),
            {"labels": (first[0].uri,), **options} if single and options is not None else None,
        )


def _some(names: Sequence[str]) -> str:
    return enumerated(list(map(repr, names)), _SHOWN)
