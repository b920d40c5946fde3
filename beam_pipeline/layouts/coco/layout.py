"""COCO: one JSON file for all images of a split, as in COCO and in exports of annotation tools."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from beam_pipeline.core.errors import ConversionError, LabelTableError, UsageError
from beam_pipeline.core.labels.classes import AUTO_ORDER, ClassNumbering
from beam_pipeline.core.labels.schema import OBJECT_FEATURES
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.core.listing.folders import named_split
from beam_pipeline.core.questions import Question
from beam_pipeline.core.records.example_source import LabelledImages
from beam_pipeline.core.text import counted, some
from beam_pipeline.layouts.coco.describe import Description, Kind, common_categories, describe
from beam_pipeline.layouts.coco.extras import Extras, group_field, image_fields
from beam_pipeline.layouts.coco.file import (
    ANNOTATIONS,
    CATEGORIES,
    CocoReader,
    Task,
    opened,
    parse_categories,
    read_lists,
)
from beam_pipeline.layouts.coco.tasks import CLASS, Captions, Classes, Instances, Panoptic
from beam_pipeline.layouts.label_files import typed_path
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


class Coco:
    """JSON files of COCO's instances hold the objects of all images and their boxes.

    Files of the same form without boxes hold the classes of images, or captions.
    """

    name = "coco"
    option_names: frozenset[str] = frozenset(
        {"object_features", "columns", "list_column", "label_base", "label_order", "class_ids"}
    )

    def recognise(self, options: SourceOptions) -> str:
        """Recognises names of files, or a JSON object that begins like COCO's."""
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
          UsageError: there are none, one of them holds no instances, two are of the same images,
            they disagree on a category, or an option does not fit them.
        """
        uris = label_files(_typed_labels(options) if options.labels else _labels_beside(options))
        roots = image_roots(options.images, frozenset(uris))
        with_fields = bool(options.columns or group_field(options))
        files_of = {uri: _described(uri, with_fields=with_fields) for uri in uris}
        kind = _common_kind(files_of)
        _check_options(options, kind)
        if kind is not Kind.CAPTIONS:
            _check_images_differ(uris)
        categories = common_categories({uri: file.names or {} for uri, file in files_of.items()})
        task = _task(options, kind, files_of)
        of_classes = kind is Kind.CLASSES
        return Source(
            layout=self.name,
            roots=roots,
            labels=FileLabels(_reader(task, uris, roots), tuple(uris)),
            examples=LabelledImages(task.columns),
            numbering=class_numbering(options, categories)
            if of_classes
            else ClassNumbering(known=_by_id(categories)),
            notes=numbering_notes(options, categories) if of_classes else (),
            questions=_several_questions(files_of)
            if of_classes and not options.list_column
            else (),
        )


class CocoPanoptic:
    """JSON files of COCO's panoptic segmentation, and PNGs of segments.

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
          UsageError: there are no files, or more folders than one for all.
          LabelTableError: a file has no categories, or they disagree.
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
        given = files.canonical(options.masks[0]) if options.masks else ""
        categories = common_categories({uri: _categories(uri) for uri in uris})
        task = Panoptic(masks={uri: given or posixpath.splitext(uri)[0] for uri in uris})
        return Source(
            self.name,
            roots,
            FileLabels(_reader(task, uris, roots, (_PANOPTIC,)), tuple(uris)),
            LabelledImages(task.columns),
            ClassNumbering(known=_by_id(categories)),
        )


def _described(uri: str, *, with_fields: bool) -> Description:
    with opened(uri) as file:
        return describe(file, uri, with_fields=with_fields)


def _categories(uri: str) -> Mapping[int, str]:
    with opened(uri) as file:
        for _, entries in read_lists(file, uri, (CATEGORIES,)):
            return parse_categories(list(entries), uri)
    raise LabelTableError(f"{uri} has no list of {CATEGORIES}, as COCO's files have")


def _by_id(categories: Mapping[int, str]) -> tuple[tuple[str, int], ...]:
    return tuple((name, i) for i, name in sorted(categories.items()))


def _reader(
    task: Task,
    uris: Sequence[str],
    roots: Sequence[ImageRoot],
    prefixes: Sequence[str] = _ALL_TASKS,
) -> CocoReader:
    folders = {uri: image_folder(uri, roots, prefixes) for uri in uris}
    return CocoReader(
        task,
        {uri: split for uri in uris if (split := split_of(uri))},
        {uri: folder for uri, folder in folders.items() if folder},
    )


# --- the task of the files -----------------------------------------------------------------------


def _common_kind(files_of: Mapping[str, Description]) -> Kind:
    """What the annotations of all files are about. Raises ConversionError if they differ."""
    by_kind: dict[Kind, str] = {}
    for uri, file in files_of.items():
        by_kind.setdefault(file.kind, uri)
    captions = by_kind.get(Kind.CAPTIONS)
    if captions and len(by_kind) > 1:
        raise LabelTableError(
            f"{captions} holds captions, not objects with a bbox; leave it out, and name COCO's "
            "instances_*.json instead"
        )
    if len(by_kind) > 1:
        raise UsageError(
            f"{by_kind[Kind.CLASSES]} holds the classes of whole images, as none of its annotations "
            f"has a bbox, and {by_kind[Kind.OBJECTS]} holds objects; convert them one after the other"
        )
    return next(iter(by_kind))


def _check_options(options: SourceOptions, kind: Kind) -> None:
    """Raises UsageError if an option has no effect on files of a kind."""
    if kind is Kind.CLASSES:
        if options.object_features:
            raise UsageError(
                f"--object_features {options.object_features[0]}: the annotations have no bbox, so "
                "they describe no objects but the classes of whole images; leave it out"
            )
        wrong = next((name for name in options.list_column if name != CLASS), "")
        if wrong:
            raise UsageError(
                f"--list_column {wrong}: the layout coco has one column that may be a list, {CLASS}; "
                f"expected --list_column {CLASS}=,"
            )
        return
    given = {
        "--label_base": options.label_base is not None,
        "--label_order": options.label_order != SourceOptions.label_order,
        "--class_ids": options.class_ids != SourceOptions.class_ids,
        "--list_column": bool(options.list_column),
        "--columns": bool(options.columns) and kind is Kind.CAPTIONS,
    }
    ids = ", whose class ids are those of the file" if kind is Kind.OBJECTS else ""
    for option, is_given in given.items():
        if is_given:
            raise UsageError(
                f"{option} means nothing for the layout coco with {kind.value}{ids}; leave it out"
            )
    if kind is Kind.CAPTIONS and options.object_features:
        raise UsageError(
            f"--object_features {options.object_features[0]}: captions have no objects; leave it out"
        )


def _task(options: SourceOptions, kind: Kind, files_of: Mapping[str, Description]) -> Task:
    """The task of files of a kind, with the features that the options ask for.

    Raises:
      UsageError: the files do not have one.
    """
    task: Task
    if kind is Kind.CAPTIONS:
        return Captions()
    if kind is Kind.CLASSES:
        task = Classes(several=bool(options.list_column), unlabelled=options.unlabelled == "keep")
    else:
        task = Instances(text_ids=any(file.survey.text_ids for file in files_of.values()))
    wanted = options.object_features
    names = {file.keypoints for file in files_of.values()} - {()}
    if _KEYPOINT_FEATURES in wanted and len(names) != 1:
        problem = "different key points in them" if names else "key points in no category"
        raise UsageError(
            f"--object_features {_KEYPOINT_FEATURES}: {some(list(files_of))} have {problem}; name "
            f"{_KEYPOINTS}*{_JSON} with --labels"
        )
    lvis = all(_LVIS.search(posixpath.basename(uri)) for uri in files_of)
    fields = {uri: file.fields for uri, file in files_of.items()}
    extras = Extras(
        masks=_MASK_FEATURES in wanted,
        keypoints=names.pop() if _KEYPOINT_FEATURES in wanted else (),
        negatives=lvis and kind is Kind.OBJECTS,
        fields=image_fields(options, fields, task.own_columns),
    )
    return replace(task, extras=extras)


def class_numbering(options: SourceOptions, categories: Mapping[int, str]) -> ClassNumbering:
    """Numbers classes of images from 0 in the order of their categories' ids.

    Another first id or order may be asked for, and so may the ids of the categories.

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
        return ClassNumbering(known=_by_id(categories))
    if options.label_order == AUTO_ORDER:
        names = [name for name, _ in _by_id(categories)]
        return ClassNumbering(
            known=tuple((name, i) for i, name in enumerate(names, numbering.base))
        )
    return ClassNumbering(known=numbering.number(categories.values()))


def numbering_notes(options: SourceOptions, categories: Mapping[int, str]) -> tuple[str, ...]:
    """Returns a note on categories whose classes have other ids."""
    ids = {name: i for i, name in categories.items()}
    numbered = class_numbering(options, categories).known
    changed = [f"{ids[name]} -> {i}" for name, i in numbered if ids[name] != i]
    if not changed:
        return ()
    return (
        f"class ids are not the ids of the categories: {some(changed)}; --class_ids keep writes "
        "those of the categories",
    )


def _several_questions(files_of: Mapping[str, Description]) -> tuple[Question, ...]:
    """A question for each file with images of several categories, where one is expected."""
    questions = []
    for uri, file in files_of.items():
        survey = file.survey
        if survey.example:
            image_id, ids = survey.example
            names = ", ".join(repr((file.names or {}).get(i, i)) for i in ids)
            reason = (
                f"{counted(survey.several, 'image')} of the first {survey.images} with annotations in "
                f"{uri} {'has' if survey.several == 1 else 'have'} several categories, such as "
                f"{image_id!r} with {names}."
            )
            advice = "--yes leaves these images out. To write lists of classes:"
            answer = {"list_column": {CLASS: ","}}
            questions.append(Question("several_categories", reason, advice, answer))
    return tuple(questions)


# --- where the files are -------------------------------------------------------------------------


def _check_images_differ(uris: Sequence[str]) -> None:
    """Checks that no two files are called as those of two tasks for the same images.

    Raises:
      LabelTableError: says which one to name for what.
    """
    for uri in uris:
        folder, name = posixpath.split(uri)
        other = f"{folder}/{_KEYPOINTS}{name.removeprefix(_INSTANCES)}"
        if name.startswith(_INSTANCES) and other in uris:
            raise LabelTableError(
                f"{uri} and {other} describe the same images, and objects of two files are not put "
                f"together. Name one of them with --labels: {name} for the boxes of all classes, or "
                f"{posixpath.basename(other)} with --object_features {_KEYPOINT_FEATURES} for people "
                "and their key points"
            )


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
    by_prefix = ([uri for uri in uris if _is_called(uri, prefix)] for prefix in wanted)
    return next(filter(None, by_prefix), [])


def _is_called(uri: str, prefix: str) -> bool:
    return posixpath.basename(uri).startswith(prefix)


def _typed_labels(options: SourceOptions) -> list[str]:
    """Returns the paths of --labels; a folder is replaced by its instances.

    Raises:
      UsageError: a folder has none.
    """
    typed = []
    for path in options.labels:
        folder = files.canonical(path)
        if not path.strip() or folder.lower().endswith(_JSON) or not has_folder(folder):
            typed.append(path)
            continue
        wanted = _wanted(options)
        uris = _instances_in(folder, wanted) or _instances_of(path, wanted)
        if not uris:
            raise UsageError(
                f"--labels {path}: no {wanted[0]}*{_JSON} and no {_EXPORTED} in this folder; name "
                "the JSON files themselves"
            )
        typed += uris
    return typed


def _labels_beside(options: SourceOptions) -> list[str]:
    """Finds the JSON files that belong to the folders of --images.

    Raises:
      UsageError: a folder has none.
    """
    wanted = _wanted(options)
    beside = []
    for path in options.images:
        uris = _instances_of(path, wanted)
        if not uris:
            raise UsageError(
                f"--images {path}: no {ANNOTATIONS}/{wanted[0]}*{_JSON} below it and no {_EXPORTED} "
                "in it or its folders; name COCO's JSON files with --labels"
            )
        beside += uris
    return beside


def _recognise_labels(paths: Sequence[str]) -> str:
    named = []
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
    """True if there is at least one file and all look like COCO's JSON."""
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


def split_of(uri: str) -> str:
    """Returns the split in a file's name, as in instances_val2017.json, else in its folder's name."""
    folder, name = posixpath.split(uri)
    stem = posixpath.splitext(name)[0]
    return named_split(stem) or named_split(posixpath.basename(folder))


def image_folder(uri: str, roots: Sequence[ImageRoot], prefixes: Sequence[str] = _ALL_TASKS) -> str:
    """Returns the folder of the images of a file, if it is one of the folders to list.

    Two splits may have images with the same names: those of annotations/instances_val2017.json are in
    val2017/ or images/val2017/ beside annotations/.

    Args:
      uri: the file.
      roots: the folders to list.
      prefixes: those of the names of files; the name of the folder follows them.
    """
    folder, name = posixpath.split(uri)
    stem = posixpath.splitext(name)[0]
    if posixpath.basename(folder) != ANNOTATIONS:
        return ""
    prefix = next((prefix for prefix in prefixes if stem.startswith(prefix)), "")
    if not prefix:
        return ""
    base = posixpath.dirname(folder)
    for parent in (base, f"{base}/images"):
        images = f"{parent}/{stem.removeprefix(prefix)}"
        listed = any(f"{images}/".startswith(f"{root.uri}/") for root in roots)
        if listed and has_folder(images):
            return images
    return ""
