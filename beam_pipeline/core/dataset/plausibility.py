"""Checks of classes, splits and files beside images, from counts alone: a guess that is not safe is a question."""

from __future__ import annotations

import itertools
import posixpath
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

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
from beam_pipeline.core.labels.value_kinds import kind_of, spellings
from beam_pipeline.core.listing.filters import LabelFiles
from beam_pipeline.core.listing.folders import SPLIT_NAMES, named_splits
from beam_pipeline.core.questions import LABEL_FILES_IGNORED, Commands, Question
from beam_pipeline.core.references import DEFAULT_SPLIT
from beam_pipeline.core.text import counted, enumerated, printable

_SHOWN = 3
_FEW_IMAGES = 5  # fewer are a try-out
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
    guessed = not (checks.column or checks.confirmed)
    segments = segments_of(classes) if guessed or any("/" in name for name in classes) else []
    roles = {segment.role for segment in segments} - {Role.CLASS}
    if roles != {Role.WRAPPER} or checks.where != FOLDER_NAMES or checks.listed or _few(segments):
        roles -= {Role.WRAPPER}
    if not guessed:
        roles = roles & {Role.SPLIT} if checks.column else set()
    if roles and roles <= {Role.DATE, Role.PART} and sum(classes.values()) < _FEW_IMAGES:
        roles = set()
    of_kind = None if roles else kind_of(classes, checks.column, confirmed=checks.confirmed)
    of_all = f"{counted(len(classes), 'class/classes')} by {checks.where}"
    if roles:
        yield _folders_in_classes(segments, classes, checks)
    elif of_kind:
        kind, examples = of_kind
        reason = f"{len(examples)} of {of_all} {kind.text.format(_some(examples))}"
        if kind.option and checks.column:
            names_it = kind.option != "label_column"
            value = {checks.column: kind.value} if names_it else kind.value
            yield Question(kind.id, reason, answer={kind.option: value})
        else:
            yield Question(kind.id, reason, kind.advice)
    elif len(classes) == 1 and sum(classes.values()) >= _FEW_IMAGES:
        yield _single_class(classes, checks)
    elif guessed and checks.where == FOLDER_NAMES and not checks.listed:
        yield from _paths_as_classes(classes, checks)
    if not roles & {Role.SPLIT, Role.IMAGES, Role.MASKS}:
        yield from _odd_names(classes, checks, guessed=guessed)
    same = spellings(classes)
    if same:
        are = "is" if len(same) == 1 else "are"
        yield Question(
            "spellings",
            f"{counted(len(same), 'class/classes')} by {checks.where} {are} spelled in several ways, such as "
            f"{' and '.join(map(repr, same[0]))}, each of which would be a class of its own.",
            "Write them in the same way."
            if checks.column
            else "Give the folders of one class the same name.",
        )


# --- folders without a class --------------------------------------------------------------------

_NO_CLASSES = {
    Role.SPLIT: (
        "splits",
        "Put the class folders into folders called train, validation and test, or name a label file "
        "with --labels.",
    ),
    Role.IMAGES: (
        "images",
        "Name the folder that contains class folders with --images, or a file of labels "
        "with --labels.",
    ),
    Role.MASKS: (
        "images and masks",
        "Several masks of an image have to be one, whose pixels are class ids: --masks names its "
        "folder.",
    ),
    Role.DATE: ("dates", "Name a file of labels with --labels."),
    Role.PART: ("numbered parts", "Name a file of labels with --labels."),
    Role.GROUP: ("of the same classes each", "Name one of these folders with --images."),
    Role.WRAPPER: (
        "around all others",
        "Name the folder that contains class folders with --images.",
    ),
}
"""Role of a part of classes' names -> its content, and what to do."""


def _folders_in_classes(
    segments: Sequence[Segment], classes: Mapping[str, int], checks: LabelChecks
) -> Question:
    odd = [segment for segment in segments if segment.role in _NO_CLASSES]
    odd = [segment for segment in odd if segment.role is not Role.WRAPPER] or odd
    parts = [f"{_some(segment.names)} ({_NO_CLASSES[segment.role][0]})" for segment in odd]
    reason = (
        f"{counted(len(classes), 'class/classes')} by {checks.where}, such as {min(classes)!r}, would have parts "
        f"without a class: {', '.join(parts)}."
    )
    question = Question(f"{odd[0].role.value}_in_classes", reason, _NO_CLASSES[odd[0].role][1])
    if checks.column:
        return question._replace(advice="Write the split in a column of its own, called split.")
    folder = _class_folder(segments, checks)
    if folder:
        advice = "Name the folder above the class folders:"
        return question._replace(advice=advice, answer={"images": (folder,)})
    may_say_class = (segment for segment in segments if segment.role in (Role.CLASS, Role.WRAPPER))
    names = {name for segment in may_say_class for name in segment.names}
    unclear = any(
        odd_name.test(name) or named_splits(name) for odd_name in _FOLDER_NAMES for name in names
    )
    pattern = "" if checks.listed or unclear else label_pattern(segments, checks.split_folders)
    if not pattern:
        return question
    advice = "This takes each part as what it is:"
    crossed, levels = crossed_pattern(segments, len(classes)), ("upper", "lower")
    if crossed:
        names_of = {segment.role: segment.names for segment in segments}
        if differ_in_numbers(names_of[Role.CLASS]) > differ_in_numbers(names_of[Role.GROUP]):
            pattern, crossed, levels = crossed, pattern, ("lower", "upper")
        advice = (
            f"If the {levels[0]} folders are the classes: --label_from {shlex.quote(crossed)}. "
            f"If the {levels[1]} are:"
        )
    if all(segment.role is not Role.CLASS for segment in segments):
        name = "group" if odd[0].role is Role.PART else odd[0].role.value
        advice = f"Name a file of labels with --labels. This keeps the {name}, without a class:"
    return question._replace(advice=advice, answer={"label_from": pattern})


def _paths_as_classes(classes: Mapping[str, int], checks: LabelChecks) -> Iterator[Question]:
    """Asks which level of folders is the class, if classes are paths of several."""
    paths = [name.split("/") for name in sorted(classes) if "/" in name]
    if not paths:
        return
    levels = itertools.zip_longest(*paths)
    names = [list(dict.fromkeys(filter(None, level))) for level in levels]
    described = "; ".join(f"level {i} has {_some(level)}" for i, level in enumerate(names, 1))
    words = {name for level in names for name in level}
    pattern = last_folder_pattern([*checks.split_folders, *sorted(words)])
    whole = "If whole paths are the classes, give --layout class_folders. "
    answer: Mapping[str, str] | None = None
    if any(name.lower() in MASKS for name in words):
        advice = f"{whole}Name a folder without masks with --images."
    elif any(path[-1].lower() in IMAGES for path in paths):
        advice = f"{whole}Name one folder of class folders with --images."
    elif all("/".join(path[:-1]) in classes for path in paths):
        advice = f"{whole}If the upper folders are, which contain images, too:"
        answer = {"label_from": first_folder_pattern(checks.split_folders)}
    elif len(last := {path[-1] for path in paths}) < len(paths) and differ_in_numbers(last):
        advice = f"If the last folder is the class, give --label_from {shlex.quote(pattern)}. If whole paths are:"
        answer = {"layout": "class_folders"}
    else:
        advice, answer = f"{whole}If the last folder is the class:", {"label_from": pattern}
    yield Question(
        "paths_as_classes",
        f"{len(paths)} of {counted(len(classes), 'class/classes')} by {checks.where} are paths of several "
        f"folders: {described}.",
        advice,
        answer,
    )


def _few(segments: Sequence[Segment]) -> bool:
    """True if there is a single class, or none, or classes are paths, which other questions are about."""
    names = [s.names for s in segments if s.role is Role.CLASS]
    return all(len(level) < 2 or any("/" in name for name in level) for level in names)


def _class_folder(segments: Sequence[Segment], checks: LabelChecks) -> str:
    """The folder above the class folders, or above their splits; empty if other folders surround these."""
    above = list(
        itertools.takewhile(lambda segment: segment.role in (Role.WRAPPER, Role.IMAGES), segments)
    )
    below = segments[len(above) :]
    if (
        below
        and below[0].role is Role.SPLIT
        and all(n.lower() in SPLIT_NAMES for n in below[0].names)
    ):
        below = below[1:]
    if (
        not (above and checks.folder)
        or checks.split_folders
        or [segment.role for segment in below] != [Role.CLASS]
    ):
        return ""
    if any("/" in name for name in below[0].names):
        return ""
    return posixpath.join(checks.folder, *(segment.names[0] for segment in above))


# --- names that are not classes --------------------------------------------------------------------


def _single_class(classes: Mapping[str, int], checks: LabelChecks) -> Question:
    ((name, images),) = classes.items()
    advice = "Another column may contain the label: --label_column NAME."
    if not checks.column:
        advice = (
            "Name the folder above the class folders with --images, or a file of labels with --labels; "
            "classes in the images' names, such as cat.1.jpg, are taken with "
            "--label_from '(?P<label>[a-z]+)[._]?[0-9]+[.]jpg'."
        )
    return Question(
        "single_class",
        f"There is a single class, {name!r}, by {checks.where}, so all {images} images have the same "
        "label.",
        advice,
    )


class _OddName(NamedTuple):
    """Names that are not classes: the id of the question, a test, why, and what to do."""

    id: str
    test: Callable[[str], bool]
    reason: str
    advice: str


_NULL_NAME = _OddName(
    "null_character",
    lambda name: "\0" in name,
    "many programs take its null character for the end of a text",
    "Remove it from the labels.",
)
_MISSING_NAME = _OddName(
    "missing_values",
    frozenset(["nan", "NaN", "<NA>", "#N/A", "N/A", "null", "NULL", "?"]).__contains__,
    "this is how programs write a missing value",
    "Leave these cells empty, and their images become dead letters; or leave out their rows.",
)
_IMAGES = _OddName(
    "images_as_class",
    IMAGES.__contains__,
    "such a name is usual for a folder of images",
    "Name the folder that contains class folders with --images, or a file of labels with --labels.",
)
_SPLIT = _OddName(
    "split_as_class",
    lambda name: SPLIT_NAMES.get(name.lower(), DEFAULT_SPLIT) != DEFAULT_SPLIT,  # train: a thing
    "such a name is usual for a split",
    "Move them into class folders below it, name a table of their labels with --labels, or name "
    "only folders that contain class folders with --images.",
)
_FOLDER_NAMES = (_IMAGES, _SPLIT)


def _odd_names(
    classes: Mapping[str, int], checks: LabelChecks, *, guessed: bool
) -> Iterator[Question]:
    """Asks about classes that are called as something else, the first of each kind."""
    in_column = checks.column and not checks.confirmed
    kinds = (_NULL_NAME, *[_MISSING_NAME] * bool(in_column), *(_FOLDER_NAMES if guessed else ()))
    first: dict[_OddName, str] = {}
    for name in sorted(classes):
        if kind := next((kind for kind in kinds if kind.test(name)), None):
            first.setdefault(kind, name)
    labelled = {*checks.split_folders} - classes.keys() if checks.folder else ()
    for kind, name in first.items():
        without = {"images": (f"{checks.folder}/*/*/*",)} if kind is _SPLIT and labelled else None
        if len(classes) > 1 or kind not in _FOLDER_NAMES:
            yield Question(
                kind.id,
                f"{name!r} is one of {counted(len(classes), 'class/classes')} by {checks.where}, with "
                f"{counted(classes[name], 'image')}, but {kind.reason}.",
                f"{kind.advice}{' To leave its images out:' if without else ''}",
                without,
            )


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


class _Ignored(NamedTuple):
    """Files that may contain labels: what one looks like, and several, what to do, and options for one."""

    single: str
    several: str
    advice: str
    answer: Mapping[str, str] | None = None


_TABLE = _Ignored(
    ", and looks like a table of labels",
    ", and look like tables",
    "Name the file whose rows name the images with --labels.",
    {},
)
_TEXT = _Ignored(
    "",
    ", about as many as images, and may be labels of each",
    "Captions beside the images are read with --layout caption_files; labels of YOLO or KITTI with "
    "--layout yolo or --layout kitti, and their folder as --labels; others have to be in a table such as "
    "filename,label.",
)
_IGNORED = {
    **dict.fromkeys((".csv", ".tsv", ".jsonl", ".ndjson", ".parquet"), _TABLE),
    **dict.fromkeys((".txt", ".caption"), _TEXT),
    ".json": _Ignored(
        "",
        "",
        "A file of COCO's is named with --labels and --layout coco; other JSON has to be written as JSON "
        "Lines, a row per image.",
        {"layout": "coco"},
    ),
    ".xml": _Ignored(
        "",
        ", and look like annotations",
        "With --layout voc, those of Pascal VOC are read; no other XML is.",
    ),
}


def label_file_questions(
    passed_over: LabelFiles, images: int, checks: LabelChecks
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
        kind, first = _IGNORED[extension], files.first[extension]
        archived = any(file.archive for file in first)
        many = count >= _FEW_TEXTS and 2 * count >= images
        if (kind is _TEXT or (extension == ".xml" and archived)) and not many:
            continue
        names = [printable(file.key) for file in first]
        names += [f"and {count - len(first)} more"] if count > len(first) else []
        looks = kind.single if count == 1 else kind.several if many or kind is _TABLE else ""
        answer = None if kind.answer is None else {"labels": (first[0].uri,), **kind.answer}
        yield Question(
            LABEL_FILES_IGNORED,
            f"{counted(count, f'{extension} file')} ({', '.join(names)}) would be ignored{looks}.",
            kind.advice + (" Take the labels out of the archive first." if archived else ""),
            None if archived or count > 1 else answer,
        )


def _some(names: Sequence[str]) -> str:
    return enumerated(list(map(repr, names)), _SHOWN)
