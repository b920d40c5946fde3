"""COCO: one JSON file for all images of a split, from COCO and annotation tools."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Mapping, Sequence

from beam_pipeline.core.errors import ConversionError, UsageError
from beam_pipeline.core.labels.classes import AUTO_ORDER, ClassNumbering
from beam_pipeline.core.labels.schema import (
    KIND_NAMES,
    OBJECT_FEATURES,
    SKIP_KIND,
    Column,
    ColumnKind,
    further_column,
    group_column,
)
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.core.listing.folders import FOLDER
from beam_pipeline.core.questions import Question
from beam_pipeline.core.records.example_source import LabelledImages
from beam_pipeline.core.text import counted, some
from beam_pipeline.layouts.coco.describe import Description, Kind, describe
from beam_pipeline.layouts.coco.file import ANNOTATIONS, CocoReader, Task
from beam_pipeline.layouts.coco.tasks import CLASS, Captions, Classes, Instances, Panoptic
from beam_pipeline.layouts.label_files import common_categories, opened, split_of, typed_path
from beam_pipeline.layouts.layout import FileLabels, Source, SourceOptions
from beam_pipeline.layouts.paths import image_roots, label_files
from beam_pipeline.layouts.tree import beginning, files_of, has_file, has_folder, subfolders
from beam_pipeline.storage import files

_JSON = ".json"
_INSTANCES, _KEYPOINTS, _CAPTIONS = "instances_", "person_keypoints_", "captions_"
_PANOPTIC = "panoptic_"
_LVIS = re.compile(r"(?<![a-z])lvis(?![a-z])", re.IGNORECASE)
_EXPORTED = "_annotations.coco.json"
_TELLING_NAME = re.compile(r"(?:instances|person_keypoints|captions)_.*\.json|.*\.coco\.json")
_ALL_TASKS = (_INSTANCES, _KEYPOINTS, _CAPTIONS)
_MASK_FEATURES, _KEYPOINT_FEATURES = OBJECT_FEATURES
_FIRST_MEMBER = re.compile(
    rb'(?:\xef\xbb\xbf)?\s*\{\s*(?:"(?:info|licenses)"\s*:\s*[\[{]'
    rb'|"(?:images|annotations|categories)"\s*:\s*\[\s*[\]{]'
    rb'|"type"\s*:\s*"instances")'
)
_OPTIONS_OF: Mapping[Kind, frozenset[str]] = {
    Kind.OBJECTS: frozenset({"object_features", "columns"}),
    Kind.CLASSES: frozenset({"columns", "list_column", "label_base", "label_order", "class_ids"}),
    Kind.CAPTIONS: frozenset(),
}
_DEFAULTS = SourceOptions(images=())

LVIS_COLUMNS = tuple(
    Column(name, ColumnKind.INT64, f"image/{name}", True, repeated=True)
    for name in ("neg_category_ids", "not_exhaustive_category_ids")
)
"""Fields of images in LVIS: ids of the categories that are absent, and that are not fully annotated.

The features have the names that the Object Detection API of TensorFlow reads.
Source: https://www.lvisdataset.org/dataset
"""


class Coco:
    """JSON files of COCO instances contain the objects of all images and their boxes.

    Files of the same form without boxes contain the classes of images, or captions.
    """

    name = "coco"
    option_names: frozenset[str] = frozenset().union(*_OPTIONS_OF.values())

    def recognise(self, options: SourceOptions) -> str:
        """Recognises names of files, or a JSON object that begins like a COCO file."""
        if options.labels:
            return _recognise_labels(options.labels)
        reasons = []
        for path in options.images:
            uris = _instances_of(path, _wanted(options))
            if not uris:
                return ""
            folder = files.canonical(path)
            names = [uri[len(folder) + 1 :] for uri in uris]
            reasons.append(f"{some(names)} in {typed_path(folder, path)}")
        return "; ".join(reasons)

    def open(self, options: SourceOptions) -> Source:
        """Finds the JSON files, and reads their categories.

        Raises:
          UsageError: there are none, they are of different kinds, they disagree on a category, or an
            option does not fit them.
        """
        uris = label_files(_label_paths(options))
        roots = image_roots(options.images, frozenset(uris))
        with_fields = bool(options.columns or _group_field(options))
        described = {uri: _described(uri, with_fields=with_fields) for uri in uris}
        kind = _common_kind(described)
        _check_options(options, kind)
        categories = common_categories({uri: file.names for uri, file in described.items()})
        task = _task(options, kind, described)
        numbering, note = ClassNumbering(known=_by_id(categories)), ""
        if kind is Kind.CLASSES:
            numbering, note = number_classes(options, categories)
        return Source(
            layout=self.name,
            roots=roots,
            labels=FileLabels(_reader(task, uris, roots), tuple(uris)),
            examples=LabelledImages(task.columns),
            numbering=numbering,
            notes=(note,) if note else (),
            questions=() if options.list_column else _several_questions(described),
        )


class CocoPanoptic:
    """COCO panoptic segmentation: JSON files, and PNGs of segments.

    The PNGs of panoptic_val2017.json are in panoptic_val2017/ beside it.
    """

    name = "coco_panoptic"
    option_names: frozenset[str] = frozenset({"masks"})

    def recognise(self, options: SourceOptions) -> str:
        """--labels panoptic_*.json."""
        names = [posixpath.basename(path) for path in options.labels]
        if not names or not all(n.startswith(_PANOPTIC) and n.endswith(_JSON) for n in names):
            return ""
        return f"COCO's panoptic JSON in {some(list(options.labels))}"

    def open(self, options: SourceOptions) -> Source:
        """Finds the JSON files and the folders of PNGs, and reads the categories.

        Raises:
          UsageError: files are missing, or more folders than one for all.
          LabelTableError: a file lacks categories, or they disagree.
        """
        if not options.labels:
            raise UsageError(
                f"--layout {self.name} needs --labels: COCO's {_PANOPTIC}*{_JSON}, with its PNGs in a "
                "folder of the same name beside it"
            )
        if len(options.masks) > 1:
            raise UsageError("--masks: expected the one folder of the PNGs of all files")
        uris = label_files(options.labels)
        roots = image_roots(options.images, frozenset(uris))
        folder = files.canonical(options.masks[0]) if options.masks else ""
        categories = common_categories({uri: _described(uri).names for uri in uris})
        task = Panoptic(masks={uri: folder or posixpath.splitext(uri)[0] for uri in uris})
        return Source(
            self.name,
            roots,
            FileLabels(_reader(task, uris, roots), tuple(uris)),
            LabelledImages(task.columns),
            ClassNumbering(known=_by_id(categories)),
        )


def _described(uri: str, *, with_fields: bool = False) -> Description:
    with opened(uri) as file:
        return describe(file, uri, with_fields=with_fields)


def _by_id(categories: Mapping[int, str]) -> tuple[tuple[str, int], ...]:
    return tuple((name, i) for i, name in sorted(categories.items()))


def _reader(task: Task, uris: Sequence[str], roots: Sequence[ImageRoot]) -> CocoReader:
    return CocoReader(
        task,
        {uri: split for uri in uris if (split := split_of(uri))},
        {uri: folder for uri in uris if (folder := image_folder(uri, roots))},
    )


# --- the task of the files -----------------------------------------------------------------------


def _common_kind(described: Mapping[str, Description]) -> Kind:
    """What the annotations of all files are about. Raises UsageError if they differ."""
    by_kind: dict[Kind, str] = {}
    for uri, file in described.items():
        by_kind.setdefault(file.kind, uri)
    if len(by_kind) == 1 and Kind.PANOPTIC not in by_kind:
        return next(iter(by_kind))
    content = " and ".join(f"{uri} contains {kind.value}" for kind, uri in by_kind.items())
    remedy = "--layout coco_panoptic reads it"
    if len(by_kind) > 1:
        remedy = "name files of one kind with --labels, and convert the others on their own"
    raise UsageError(f"{content}; {remedy}")


def _check_options(options: SourceOptions, kind: Kind) -> None:
    """Raises UsageError if an option does not affect files of a kind."""
    for name in sorted(Coco.option_names - _OPTIONS_OF[kind]):
        if getattr(options, name) != getattr(_DEFAULTS, name):
            raise UsageError(
                f"--{name} means nothing for the layout coco with {kind.value}; leave it out"
            )
    wrong = next((name for name in options.list_column if name != CLASS), "")
    if wrong:
        raise UsageError(
            f"--list_column {wrong}: the layout coco has one column that may be a list, {CLASS}; "
            f"expected --list_column {CLASS}=,"
        )


def _task(options: SourceOptions, kind: Kind, described: Mapping[str, Description]) -> Task:
    """The task of files of a kind, with the features that the options ask for.

    Raises:
      UsageError: the files do not have one.
    """
    if kind is Kind.CAPTIONS:
        return Captions()
    there = {uri: file.fields for uri, file in described.items()}
    if kind is Kind.CLASSES:
        several, unlabelled = bool(options.list_column), options.unlabelled == "keep"
        fields = image_fields(options, there, Classes().own_columns)
        return Classes(fields, several, unlabelled)
    wanted = options.object_features
    names = {file.keypoints for file in described.values()} - {()}
    if _KEYPOINT_FEATURES in wanted and len(names) != 1:
        problem = "different key points in them" if names else "key points in no category"
        raise UsageError(
            f"--object_features {_KEYPOINT_FEATURES}: {some(list(described))} have {problem}; name "
            f"{_KEYPOINTS}*{_JSON} with --labels"
        )
    lvis = all(_LVIS.search(posixpath.basename(uri)) for uri in described)
    return Instances(
        (
            *(LVIS_COLUMNS if lvis else ()),
            *image_fields(options, there, Instances().own_columns),
        ),
        text_ids=any(file.text_ids for file in described.values()),
        masks=_MASK_FEATURES in wanted,
        keypoints=names.pop() if _KEYPOINT_FEATURES in wanted else (),
    )


def _group_field(options: SourceOptions) -> str:
    """The field of images that --split_by names, or empty."""
    return "" if options.split_by == FOLDER else options.split_by


def image_fields(
    options: SourceOptions, there: Mapping[str, Sequence[str]], columns: Sequence[Column]
) -> tuple[Column, ...]:
    """Returns a column for each field of images' entries that --columns or --split_by names.

        {"id": "a1", "file_name": "cam7/a1.jpg", "location": "cam7", "datetime": "2019-05-01 12:00:00"}

    The field of --split_by groups images; it is also a feature if --columns names it.

    Args:
      options: those given.
      there: URI of a file -> names of the fields of its first images.
      columns: the other columns.

    Raises:
      UsageError: the first images of no file have such a field, or another column has its name.
    """
    names = {column.name for column in columns}
    group = "" if options.split_by in names else _group_field(options)
    options_of = {**dict.fromkeys(options.columns, "--columns")}
    if group:
        options_of[group] = "--split_by"
    fields = dict.fromkeys(name for of_file in there.values() for name in of_file)
    for name, option in options_of.items():
        if name in names:
            raise UsageError(
                f"{option} {name}: the layout coco has a column of this name, whose kind is fixed; "
                "leave it out"
            )
        if name not in fields:
            raise UsageError(
                f"{option} {name}: images in {some(list(there))} lack the field {name!r}; found "
                f"{', '.join(fields) or 'no images'}"
            )
    written = tuple(
        further_column(name, KIND_NAMES[kind])
        for name, kind in options.columns.items()
        if kind != SKIP_KIND
    )
    grouped = not group or any(column.name == group for column in written)
    return written if grouped else (*written, group_column(group))


def number_classes(
    options: SourceOptions, categories: Mapping[int, str]
) -> tuple[ClassNumbering, str]:
    """Numbers classes of images from 0 in the order of their categories' ids.

    Another first id or order may be asked for, and so may the ids of the categories.

    Returns: the numbering, and a note if classes have other ids than their categories, or empty.

    Raises:
      UsageError: a negative id is to be kept, or options contradict each other.
    """
    numbering = options.numbering()
    if options.class_ids == "keep":
        lowest = min(categories)
        if lowest < 0:
            raise UsageError(
                f"--class_ids keep: category {categories[lowest]!r} has the id {lowest}, "
                "and losses and metrics count ids from 0; leave it out"
            )
        return ClassNumbering(known=_by_id(categories)), ""
    known = numbering.number(categories.values())
    if options.label_order == AUTO_ORDER:
        in_order = enumerate(_by_id(categories), numbering.base)
        known = tuple((name, number) for number, (name, _) in in_order)
    ids = {name: i for i, name in categories.items()}
    changed = [f"{ids[name]} -> {i}" for name, i in known if ids[name] != i]
    if not changed:
        return ClassNumbering(known=known), ""
    return ClassNumbering(known=known), (
        f"class ids are not the ids of the categories: {some(changed)}; --class_ids keep writes "
        "those of the categories"
    )


def _several_questions(described: Mapping[str, Description]) -> tuple[Question, ...]:
    """A question for each file with images of several categories, where one is expected."""
    questions = []
    for uri, file in described.items():
        if file.example:
            image_id, ids = file.example
            names = ", ".join(repr(file.names.get(i, i)) for i in ids)
            reason = (
                f"{counted(file.several, 'image')} of the first {file.images} with annotations in "
                f"{uri} {'has' if file.several == 1 else 'have'} several categories, such as "
                f"{image_id!r} with {names}."
            )
            advice = "--yes leaves these images out. To write lists of classes:"
            answer = {"list_column": {CLASS: ","}}
            questions.append(Question("several_categories", reason, advice, answer))
    return tuple(questions)


# --- where the files are -------------------------------------------------------------------------


def _wanted(options: SourceOptions) -> tuple[str, ...]:
    """Returns prefixes of the names of files to take from a folder; the first that matches counts."""
    return (
        (_KEYPOINTS,) if _KEYPOINT_FEATURES in options.object_features else (_INSTANCES, _CAPTIONS)
    )


def _instances_of(path: str, wanted: Sequence[str]) -> list[str]:
    """Finds the JSON files that belong to a folder of images; none for any other path.

    JSON files of other tasks beside them are ignored.
    """
    if not path.strip():
        return []
    folder = files.canonical(path)
    uris = _instances_in(f"{folder}/{ANNOTATIONS}", wanted)
    exported = [f"{parent}/{_EXPORTED}" for parent in (folder, *subfolders(folder))]
    return uris or [uri for uri in exported if has_file(uri)]


def _instances_in(folder: str, wanted: Sequence[str]) -> list[str]:
    uris = files_of(folder, _JSON)
    by_prefix = (
        [uri for uri in uris if posixpath.basename(uri).startswith(prefix)] for prefix in wanted
    )
    return next(filter(None, by_prefix), [])


def _label_paths(options: SourceOptions) -> list[str]:
    """Returns the JSON files in --labels and in its folders, or else those that belong to --images.

    Raises:
      UsageError: a folder has none.
    """
    option = "--labels" if options.labels else "--images"
    wanted = _wanted(options)
    paths = []
    for path in options.labels or options.images:
        uri = files.canonical(path)
        is_file = uri.lower().endswith(_JSON) or not has_folder(uri)
        if options.labels and (not path.strip() or is_file):
            paths.append(path)
            continue
        inside = _instances_in(uri, wanted) if options.labels else []
        uris = inside or _instances_of(path, wanted)
        if not uris:
            raise UsageError(
                f"{option} {path}: no {ANNOTATIONS}/{wanted[0]}*{_JSON} below it and no {_EXPORTED} "
                "in it or its folders; name COCO's JSON files with --labels"
            )
        paths += uris
    return paths


def _recognise_labels(paths: Sequence[str]) -> str:
    named: list[str] = []
    for path in paths:
        if not path.strip():
            return ""
        uri = files.canonical(path)
        if _TELLING_NAME.fullmatch(posixpath.basename(uri)) or _all_begin_as_coco(path):
            named.append(path)
        else:
            inside = _instances_in(uri, _ALL_TASKS)
            if not inside:
                return ""
            named += [f"{path.rstrip('/')}/{posixpath.basename(file)}" for file in inside]
    return f"COCO's JSON in {some(named)}"


def _all_begin_as_coco(path: str) -> bool:
    """True if there is at least one file and all look like COCO files."""
    if not path.lower().endswith(_JSON):
        return False
    try:
        return all(map(_begins_as_coco, label_files([path])))
    except (ConversionError, OSError):
        return False


def _begins_as_coco(uri: str) -> bool:
    head = beginning(uri)
    return _FIRST_MEMBER.match(head) is not None and not _is_json_lines(head)


def _is_json_lines(head: bytes) -> bool:
    """True if a file has one object per line, which makes it a table."""
    first, _, rest = head.strip().partition(b"\n")
    if not rest.strip():
        return False
    try:
        json.loads(first)
    except ValueError:
        return False
    return True


# --- splits and image folders, from names --------------------------------------------------------


def image_folder(uri: str, roots: Sequence[ImageRoot]) -> str:
    """Returns the folder of the images of a file, if it is one of the folders to list.

    Two splits may have images with the same names: those of annotations/instances_val2017.json are in
    val2017/ or images/val2017/ beside annotations/.
    """
    folder, name = posixpath.split(uri)
    stem = posixpath.splitext(name)[0]
    prefix = next((p for p in (*_ALL_TASKS, _PANOPTIC) if stem.startswith(p)), "")
    if posixpath.basename(folder) != ANNOTATIONS or not prefix:
        return ""
    base = posixpath.dirname(folder)
    for parent in (base, f"{base}/images"):
        images = f"{parent}/{stem.removeprefix(prefix)}"
        listed = any(f"{images}/".startswith(f"{root.uri}/") for root in roots)
        if listed and has_folder(images):
            return images
    return ""
