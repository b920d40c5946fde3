"""Checks of classes, splits and files beside images, from counts alone: a guess that is not safe is a question."""

from __future__ import annotations

import itertools
import posixpath
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from beam_pipeline.core.labels.path_roles import (
    IMAGES,
    MASKS,
    Role,
    Segment,
    crossed_pattern,
    differ_in_numbers,
    first_folder_pattern,
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
    odd = _odd_segments(segments, classes, checks)
    of_all = f"{counted(len(classes), 'class/classes')} by {checks.where}"
    if odd:
        yield _folders_in_classes(segments, odd, classes, checks)
    else:
        asked = [*itertools.islice(_kind_questions(KINDS, classes, of_all, checks), 1)]
        in_folders = checks.where == FOLDER_NAMES and not checks.confirmed
        yield from asked or (_paths_as_classes(classes, of_all, checks) if in_folders else ())
    usual = {segment.role for segment in odd} & {Role.SPLIT, Role.IMAGES, Role.MASKS}
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
        if kind.id == "split_as_class" and checks.folder and labelled:
            advice += " To leave its images out:"
            answer = {"images": (f"{checks.folder}/*/*/*",)}
        yield Question(kind.id, reason, advice, answer or None)


# --- folders without a class --------------------------------------------------------------------

_CONTENTS = {
    Role.SPLIT: "splits",
    Role.IMAGES: "images",
    Role.MASKS: "images and masks",
    Role.DATE: "dates",
    Role.PART: "numbered parts",
    Role.GROUP: "of the same classes each",
    Role.WRAPPER: "around all others",
}
"""Role of a part of classes' names -> its content."""

_ADVICE = {
    Role.SPLIT: "Put the class folders into folders called train, validation and test, or name a label file "
    "with --labels.",
    Role.MASKS: "Several masks of an image have to be one, whose pixels are class ids: --masks names its folder.",
    Role.GROUP: "Name one of these folders with --images.",
}
_USUAL_ADVICE = (
    "Name the folder that contains class folders with --images, or a file of labels with --labels."
)


def _odd_segments(
    segments: Sequence[Segment], classes: Mapping[str, int], checks: LabelChecks
) -> list[Segment]:
    """The levels of folders that are no classes, and are asked about."""
    if checks.column:
        in_paths = any("/" in name for name in classes)
        return [s for s in segments if s.role is Role.SPLIT and in_paths]
    odd = [s for s in segments if s.role not in (Role.CLASS, Role.WRAPPER)]
    if not odd and checks.where == FOLDER_NAMES and not checks.listed:
        levels = [s.names for s in segments if s.role is Role.CLASS]
        if any(len(names) > 1 and not any("/" in name for name in names) for names in levels):
            odd = [s for s in segments if s.role is Role.WRAPPER]
    parts = {s.role for s in odd} <= {Role.DATE, Role.PART}
    return [] if parts and sum(classes.values()) < FEW_IMAGES else odd


def _folders_in_classes(
    segments: Sequence[Segment],
    odd: Sequence[Segment],
    classes: Mapping[str, int],
    checks: LabelChecks,
) -> Question:
    parts = [f"{_some(segment.names)} ({_CONTENTS[segment.role]})" for segment in odd]
    reason = (
        f"{counted(len(classes), 'class/classes')} by {checks.where}, such as {min(classes)!r}, would have parts "
        f"without a class: {', '.join(parts)}."
    )
    name = odd[0].role.value
    advice, answer = _ADVICE.get(odd[0].role, _USUAL_ADVICE), dict[str, Any]()
    may_say_class = (s for s in segments if s.role in (Role.CLASS, Role.WRAPPER))
    names = {name for segment in may_say_class for name in segment.names}
    unclear = checks.listed or any(name in IMAGES or folders.named_splits(name) for name in names)
    if checks.column:
        advice = "Write the split in a column of its own, called split."
    elif folder := _class_folder(segments, checks):
        advice, answer = "Name the folder above the class folders:", {"images": (folder,)}
    elif not unclear and (pattern := label_pattern(segments, checks.split_folders)):
        advice = "This takes each part as what it is:"
        if crossed := crossed_pattern(segments, len(classes)):
            levels = ("upper", "lower")
            names_of = {segment.role: segment.names for segment in segments}
            if differ_in_numbers(names_of[Role.CLASS]) > differ_in_numbers(names_of[Role.GROUP]):
                pattern, crossed, levels = crossed, pattern, ("lower", "upper")
            advice = (
                f"If the {levels[0]} folders are the classes: --label_from {shlex.quote(crossed)}. "
                f"If the {levels[1]} are:"
            )
        if all(segment.role is not Role.CLASS for segment in segments):
            kept = "group" if odd[0].role is Role.PART else name
            advice = f"Name a file of labels with --labels. This keeps the {kept}, without a class:"
        answer = {"label_from": pattern}
    return Question(f"{name}_in_classes", reason, advice, answer or None)


def _class_folder(segments: Sequence[Segment], checks: LabelChecks) -> str:
    """The folder above the class folders, or above their splits; empty if other folders surround these."""
    above = [s.names[0] for s in segments if s.role in (Role.WRAPPER, Role.IMAGES)]
    *splits, last = segments[len(above) :] or [segments[-1]]
    as_usual = not splits or (
        len(splits) == 1
        and splits[0].role is Role.SPLIT
        and {name.lower() for name in splits[0].names} <= folders.SPLIT_NAMES.keys()
    )
    flat = last.role is Role.CLASS and not any("/" in name for name in last.names)
    if not (above and as_usual and flat and checks.folder) or checks.split_folders:
        return ""
    return posixpath.join(checks.folder, *above)


def _paths_as_classes(
    classes: Mapping[str, int], of_all: str, checks: LabelChecks
) -> Iterator[Question]:
    """Asks which level of folders is the class, if classes are paths of several."""
    paths = [name.split("/") for name in sorted(classes) if "/" in name]
    if not paths:
        return
    names = [[*dict.fromkeys(filter(None, level))] for level in itertools.zip_longest(*paths)]
    described = "; ".join(f"level {i} has {_some(level)}" for i, level in enumerate(names, 1))
    if checks.listed and not any(map(differ_in_numbers, names[:-1])):
        return
    words = {name for level in names for name in level}
    last = {path[-1] for path in paths}
    in_sets = bool(checks.split_folders) and all(len(p) == 2 and p[1] in classes for p in paths)
    sets = sorted({path[0] for path in paths}) if in_sets else []
    splits = [name for name in sorted(words) if name.lower() in folders.SPLIT_NAMES or name in sets]
    pattern = last_folder_pattern([*checks.split_folders, *map(re.escape, splits)])
    whole = f"If whole paths are the classes, give --{'yes' if checks.listed else 'layout class_folders'}. "
    answer: dict[str, Any] = {"label_from": pattern}
    advice = f"{whole}If the last folder is the class:"
    if any(name.lower() in MASKS for name in words) or any(n.lower() in IMAGES for n in last):
        advice = f"{whole}Name one folder of class folders, without masks, with --images."
        answer = {}
    elif all("/".join(path[:-1]) in classes for path in paths):
        advice = f"{whole}If the upper folders are, which contain images, too:"
        answer = {"label_from": first_folder_pattern(checks.split_folders)}
    elif len(last) < len(paths) and differ_in_numbers(last):
        advice = f"If the last folder is the class, give --label_from {shlex.quote(pattern)}. If whole paths are:"
        answer = {"layout": "class_folders"}
    elif sets:
        advice = f"{whole}To read {_some(sets)}, like {_some(checks.split_folders)}, as splits:"
    answer |= {"labels": ()} if checks.listed and answer else {}
    reason = f"{len(paths)} of {of_all} are paths of several folders: {described}."
    yield Question("paths_as_classes", reason, advice, answer or None)


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


ADVICE: Mapping[str, tuple[str, Mapping[str, str] | None]] = {
    **dict.fromkeys(
        filters.TABLES, ("Name the file whose rows name the images with --labels.", {})
    ),
    **dict.fromkeys(
        filters.TEXTS,
        (
            "Captions beside the images are read with --layout caption_files; labels of YOLO or KITTI with "
            "--layout yolo or --layout kitti, and their folder as --labels; others have to be in a table "
            "such as filename,label.",
            None,
        ),
    ),
    ".json": (
        "A file of COCO's is named with --labels and --layout coco; other JSON has to be written as JSON "
        "Lines, a row per image.",
        {"layout": "coco"},
    ),
    ".xml": ("With --layout voc, those of Pascal VOC are read; no other XML is.", None),
    **dict.fromkeys(filters.UNREAD, ("Write a table such as filename,label instead.", None)),
}
"""Extension of files that may contain labels -> what to do, and the options for one such file beside --labels."""


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
        (advice, options), first = ADVICE[extension], files.first[extension]
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
            advice + (" Take the labels out of the archive first." if archived else ""),
            {"labels": (first[0].uri,), **options} if single and options is not None else None,
        )


def _some(names: Sequence[str]) -> str:
    return enumerated(list(map(repr, names)), _SHOWN)
