"""COCO: one JSON file for all images of a split, from COCO and annotation tools; see `coco_file.py`."""

from __future__ import annotations

import io
import posixpath
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from beam_pipeline.core import errors, text
from beam_pipeline.core.labels import classes, schema
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.core.listing.folders import FOLDER, named_split
from beam_pipeline.core.records.example_source import LabelledImages
from beam_pipeline.layouts import coco_tasks, entries, tree
from beam_pipeline.layouts.coco_file import CocoReader, Description, describe
from beam_pipeline.layouts.coco_tasks import ANNOTATIONS, CLASS, Classes, Instances
from beam_pipeline.layouts.label_files import common_categories, opened, split_of, typed_path
from beam_pipeline.layouts.layout import FileLabels, Source, SourceOptions
from beam_pipeline.layouts.paths import image_roots, label_files
from beam_pipeline.storage import files

_JSON = ".json"
_INSTANCES, _KEYPOINTS, _CAPTIONS = "instances_", "person_keypoints_", "captions_"
_PANOPTIC = "panoptic_"
_LVIS = re.compile(r"(?<![a-z])lvis(?![a-z])", re.IGNORECASE)
_EXPORTED = "_annotations.coco.json"
_TELLING_NAME = re.compile(r"(?:instances|person_keypoints|captions)_.*\.json|.*\.coco\.json")
_ALL_TASKS = (_INSTANCES, _KEYPOINTS, _CAPTIONS)
_MASK_FEATURES, _KEYPOINT_FEATURES = schema.OBJECT_FEATURES
_FIRST_MEMBER = re.compile(
    rb'(?:\xef\xbb\xbf)?\s*\{\s*(?:"(?:info|licenses)"\s*:\s*[\[{]'
    rb'|"(?:images|annotations|categories)"\s*:\s*\[\s*[\]{]'
    rb'|"type"\s*:\s*"instances")'
)
_DEFAULTS = SourceOptions(images=())

LVIS_COLUMNS = tuple(
    schema.Column(name, schema.ColumnKind.INT64, f"image/{name}", True, repeated=True)
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
    option_names = Instances.option_names | Classes.option_names

    def recognise(self, options: SourceOptions) -> str:
        """Recognises names of files, or a JSON object that begins like a COCO file."""
        if options.labels:  # of its folders, other layouts may be meant
            inside = {path: _files_in(files.canonical(path), _ALL_TASKS) for path in options.labels}
            named = [
                typed_path(uri, path) for path, uris in inside.items() for uri in uris or [path]
            ]
            return f"COCO's JSON in {text.some(named)}" if all(map(_is_coco, named)) else ""
        reasons = []
        for path in options.images:
            folder = files.canonical(path)
            uris = _files_of(folder, _wanted(options))
            if not uris:
                return ""
            names = [uri[len(folder) + 1 :] for uri in uris]
            reasons.append(f"{text.some(names)} in {typed_path(folder, path)}")
        return "; ".join(reasons)

    def open(self, options: SourceOptions) -> Source:
        """Finds the JSON files, and reads their categories.

        Raises:
          UsageError: there are none, they are of different kinds, they disagree on a category, or an
            option does not fit them.
        """
        option, wanted, paths = "labels" if options.labels else "images", _wanted(options), []
        for path in options.labels or options.images:
            uris = _files_meant(path, options, wanted)
            if not uris:
                raise errors.UsageError(
                    f"--{option} {path}: no {ANNOTATIONS}/{wanted[0]}*{_JSON} below it and no {_EXPORTED} in it or its "
                    "folders; name COCO's JSON files with --labels"
                )
            paths += uris
        uris = label_files(paths)
        with_fields = bool(options.columns) or options.split_by not in ("", FOLDER)
        described = _described(uris, with_fields=with_fields)
        kind = _common_task(described)
        _check_options(options, kind)
        source = _source(self.name, options, _task(options, kind, described), described)
        if kind is Classes:
            source = replace(source, numbering=_numbering(options, source.numbering.known))
        return source


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
        return f"COCO's panoptic JSON in {text.some(list(options.labels))}"

    def open(self, options: SourceOptions) -> Source:
        """Finds the JSON files and the folders of PNGs, and reads the categories.

        Raises:
          UsageError: files are missing, or more folders than one for all.
          LabelTableError: a file lacks categories, or they disagree.
        """
        if not options.labels:
            raise errors.UsageError(
                f"--layout {self.name} needs --labels: COCO's {_PANOPTIC}*{_JSON}, with its PNGs in a "
                "folder of the same name beside it"
            )
        if len(options.masks) > 1:
            raise errors.UsageError("--masks: expected the one folder of the PNGs of all files")
        uris = label_files(options.labels)
        folder = files.canonical(options.masks[0]) if options.masks else ""
        task = coco_tasks.Panoptic(
            masks={uri: folder or posixpath.splitext(uri)[0] for uri in uris}
        )
        return _source(self.name, options, task, _described(uris))


def _described(uris: Sequence[str], *, with_fields: bool = False) -> dict[str, Description]:
    described = {}
    for uri in uris:
        with opened(uri) as file:
            described[uri] = describe(file, uri, with_fields=with_fields)
    return described


def _source(
    name: str, options: SourceOptions, task: coco_tasks.Task, described: Mapping[str, Description]
) -> Source:
    """The source of files of a task, whose classes have the ids of their categories."""
    roots = image_roots(options.images, frozenset(described))
    categories = common_categories({uri: file.names for uri, file in described.items()})
    known = tuple((name, i) for i, name in sorted(categories.items()))
    splits = {uri: split for uri in described if (split := split_of(uri))}
    folders = {uri: folder for uri in described if (folder := image_folder(uri, roots))}
    return Source(
        layout=name,
        roots=roots,
        labels=FileLabels(CocoReader(task, splits, folders), tuple(described)),
        examples=LabelledImages(task.columns),
        numbering=classes.ClassNumbering(known=known),
    )


# --- the task of the files -----------------------------------------------------------------------


def _common_task(described: Mapping[str, Description]) -> type[coco_tasks.Task]:
    """What the annotations of all files are about. Raises UsageError if they differ."""
    tasks: dict[type[coco_tasks.Task], str] = {}
    for uri, file in described.items():
        tasks.setdefault(file.task, uri)
    if len(tasks) == 1 and coco_tasks.Panoptic not in tasks:
        return next(iter(tasks))
    content = " and ".join(f"{uri} contains {task.title}" for task, uri in tasks.items())
    remedy = "name files of one kind with --labels; --layout coco_panoptic reads a segmentation"
    raise errors.UsageError(f"{content}; {remedy}")


def _check_options(options: SourceOptions, task: type[coco_tasks.Task]) -> None:
    """Raises UsageError if an option does not affect files of a task."""
    for name in sorted(Coco.option_names - task.option_names):
        if getattr(options, name) != getattr(_DEFAULTS, name):
            raise errors.UsageError(
                f"--{name} means nothing for the layout coco with {task.title}; leave it out"
            )
    if options.list_column.keys() - {CLASS}:
        expected = f"--list_column {CLASS}=, for the one column that may be a list"
        raise errors.UsageError(f"--list_column: the layout coco expects {expected}")


def _task(
    options: SourceOptions, kind: type[coco_tasks.Task], described: Mapping[str, Description]
) -> coco_tasks.Task:
    """The task of files of a kind, with the features that the options ask for.

    Raises:
      UsageError: the files do not have one.
    """
    if kind is coco_tasks.Captions:
        return coco_tasks.Captions()
    fields = _image_fields(options, described, {column.name for column in kind().own_columns})
    if kind is Classes:
        return Classes(fields, options.unlabelled == "keep", several=bool(options.list_column))
    keypoints: tuple[str, ...] = ()
    if _KEYPOINT_FEATURES in options.object_features:
        keypoints, *further = {p for file in described.values() for p in file.keypoints} or {()}
        if further or not keypoints:
            raise errors.UsageError(
                f"--object_features {_KEYPOINT_FEATURES}: {text.some(list(described))} have categories with "
                f"{'different' if further else 'no'} key points; name a file of the same ones, such as {_KEYPOINTS}*{_JSON}, "
                "with --labels"
            )
    if all(_LVIS.search(posixpath.basename(uri)) for uri in described):
        fields = (*LVIS_COLUMNS, *fields)
    text_ids = any(file.text_ids for file in described.values())
    return Instances(fields, True, text_ids, _MASK_FEATURES in options.object_features, keypoints)


def _image_fields(
    options: SourceOptions, described: Mapping[str, Description], names: Collection[str]
) -> tuple[schema.Column, ...]:
    """Returns a column for each field of images' entries that --columns or --split_by names.

        {"id": "a1", "file_name": "cam7/a1.jpg", "location": "cam7", "datetime": "2019-05-01 12:00:00"}

    The field of --split_by groups images; it is also a feature if --columns names it.

    Args:
      options: those given.
      described: URI -> the file.
      names: of the other columns.

    Raises:
      UsageError: the first images of no file have such a field, or another column has its name.
    """
    group = "" if options.split_by in {FOLDER, *names} else options.split_by
    option_of = dict.fromkeys(options.columns, "--columns")
    option_of |= {group: "--split_by"} if group else {}
    free = {name for file in described.values() for name in file.fields} - {*names}
    for name, option in option_of.items():
        if name not in free:
            raise errors.UsageError(
                f"{option} {name}: expected a field of the images in {text.some(list(described))} that the layout coco "
                f"has no column for, one of {', '.join(sorted(free)) or 'none'}"
            )
    written = tuple(
        schema.further_column(name, schema.KIND_NAMES[kind])
        for name, kind in options.columns.items()
        if kind != schema.SKIP_KIND
    )
    is_written = group in {"", *(column.name for column in written)}
    return written if is_written else (*written, schema.group_column(group))


def _numbering(options: SourceOptions, categories: classes.Classes) -> classes.ClassNumbering:
    """Numbers classes of images from 0 in the order of their categories' ids, or as options ask for.

    Raises:
      UsageError: a negative id is to be kept, or options contradict each other.
    """
    numbering = options.numbering()
    if options.class_ids == "keep":
        name, lowest = categories[0]
        if lowest < 0:
            raise errors.UsageError(
                f"--class_ids keep: category {name!r} has the id {lowest}, "
                "and losses and metrics count ids from 0; leave it out"
            )
        return classes.ClassNumbering(known=categories)
    known = numbering.number(dict(categories))
    if options.label_order == classes.AUTO_ORDER:
        known = tuple((name, i) for i, (name, _) in enumerate(categories, numbering.base))
    return classes.ClassNumbering(known=known)


# --- where the files are -------------------------------------------------------------------------


def _wanted(options: SourceOptions) -> Sequence[str]:
    """Returns prefixes of the names of files to take from a folder; the first that matches counts."""
    of_keypoints = _KEYPOINT_FEATURES in options.object_features
    return [_KEYPOINTS] if of_keypoints else [_INSTANCES, _CAPTIONS]


def _files_of(folder: str, wanted: Sequence[str]) -> list[str]:
    """Finds the JSON files that belong to a folder of images; those of other tasks are ignored."""
    exported = (f"{parent}/{_EXPORTED}" for parent in (folder, *tree.subfolders(folder)))
    return _files_in(f"{folder}/{ANNOTATIONS}", wanted) or list(filter(tree.has_file, exported))


def _files_in(folder: str, wanted: Sequence[str]) -> list[str]:
    uris = tree.names_in(folder).of_kind(_JSON)
    by_prefix = ([u for u in uris if posixpath.basename(u).startswith(start)] for start in wanted)
    return next(filter(None, by_prefix), [])


def _files_meant(path: str, options: SourceOptions, wanted: Sequence[str]) -> list[str]:
    """Finds the JSON files that a path of --labels means, or else one of --images."""
    uri = files.canonical(path)
    if options.labels and (uri.lower().endswith(_JSON) or not tree.has_folder(uri)):
        return [path]
    return (_files_in(uri, wanted) if options.labels else []) or _files_of(uri, wanted)


def _is_coco(path: str) -> bool:
    """True if a file is called or begins like COCO's, and is not a table with an object in each line."""
    if _TELLING_NAME.fullmatch(posixpath.basename(path)):
        return True
    uris = label_files([path]) if path.lower().endswith(_JSON) else []
    for head in (tree.beginning(uri).strip() for uri in uris):
        first, _, further = head.partition(b"\n")
        is_table = further.strip() and next(entries.json_lines(io.BytesIO(first)))[1] != first
        if is_table or not _FIRST_MEMBER.match(head):
            return False
    return bool(uris)


# --- splits and image folders, from names --------------------------------------------------------


def image_folder(uri: str, roots: Sequence[ImageRoot]) -> str:
    """Returns the folder of the images of a file, if it is one of the folders to list.

    Two splits may have images with the same names: those of annotations/instances_val2017.json are in
    val2017/ or images/val2017/ beside annotations/, those of val.json in val/ beside it, and those of
    val/labels.json in val/, val/images/ or val/data/.
    """
    folder, name = posixpath.split(uri)
    stem, base = posixpath.splitext(name)[0], posixpath.dirname(folder)
    prefix = next((p for p in (*_ALL_TASKS, _PANOPTIC) if stem.startswith(p)), "")
    split = stem.removeprefix(prefix)
    parents = (base, f"{base}/images", folder, f"{folder}/images")
    places = [f"{parent}/{split}" for parent in parents]
    if not prefix and not named_split(split):
        places = [folder, f"{folder}/images", f"{folder}/data"] if split_of(uri) else []
    for images in places:
        listed = any(f"{images}/".startswith(f"{root.uri}/") for root in roots)
        if listed and tree.has_folder(images) and tree.names_in(images).images:
            return images
    return ""
