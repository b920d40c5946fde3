"""COCO: one JSON file for all images of a split, as in COCO and in exports of annotation tools."""

from __future__ import annotations

import json
import os
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import LabelTableError, UsageError
from beam_pipeline.core.labels.classes import ClassNumbering
from beam_pipeline.core.labels.folders import named_split
from beam_pipeline.core.labels.schema import OBJECT_FEATURES, Column
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.core.records.example_source import LabelledImages
from beam_pipeline.core.references import LabelRow
from beam_pipeline.core.text import some
from beam_pipeline.core.uris import is_remote
from beam_pipeline.layouts.coco.captions import COLUMNS as CAPTION_COLUMNS
from beam_pipeline.layouts.coco.captions import read_captions
from beam_pipeline.layouts.coco.classification import (
    ImageClasses,
    class_numbering,
    image_classes,
    numbering_notes,
    read_classes,
    several_questions,
)
from beam_pipeline.layouts.coco.extras import NO_EXTRAS, Extras
from beam_pipeline.layouts.coco.fields import image_fields
from beam_pipeline.layouts.coco.instances import (
    CaptionsError,
    Categories,
    instance_columns,
    read_categories,
    read_instances,
)
from beam_pipeline.layouts.coco.opening import opened
from beam_pipeline.layouts.layout import FileLabels, Source, SourceOptions
from beam_pipeline.layouts.shared.label_folders import shown
from beam_pipeline.layouts.shared.local_names import file_names, subfolders
from beam_pipeline.layouts.shared.paths import image_roots, label_files
from beam_pipeline.storage import files

_ANNOTATIONS, _JSON = "annotations", ".json"
_INSTANCES, _KEYPOINTS, _CAPTIONS = "instances_", "person_keypoints_", "captions_"
_LVIS = re.compile(r"(?<![a-z])lvis(?![a-z])", re.IGNORECASE)
_EXPORTED = "_annotations.coco.json"
_TELLING_NAME = re.compile(r"(?:instances|person_keypoints|captions)_.*\.json|.*\.coco\.json")
_ALL_TASKS = (_INSTANCES, _KEYPOINTS, _CAPTIONS)
_MASK_FEATURES, _KEYPOINT_FEATURES = OBJECT_FEATURES
_HEAD_BYTES = 64 << 10
_FIRST_MEMBER = re.compile(
    rb'(?:\xef\xbb\xbf)?\s*\{\s*(?:"(?:info|licenses)"\s*:\s*[\[{]'
    rb'|"(?:images|annotations|categories)"\s*:\s*\[\s*[\]{]'
    rb'|"type"\s*:\s*"instances")'
)


@dataclass(frozen=True)
class CocoReader:
    """Reads a file of many images and all of their objects.

    Attributes:
      splits: URI of a file -> the split of its images.
      folders: URI of a file -> URI of the folder of its images, if known.
      extras: the features to read besides boxes and classes.
      text_ids: True if ids of objects are texts.
      captions: True if the files hold captions instead of objects.
      of_images: how the classes of whole images are read; None if the files hold objects.
    """

    splits: Mapping[str, str]
    folders: Mapping[str, str]
    extras: Extras = NO_EXTRAS
    text_ids: bool = False
    captions: bool = False
    of_images: ImageClasses | None = None

    def read(self, file: BinaryIO, uri: str) -> Iterator[LabelRow | DeadLetter]:
        """Yields a row for each image of a file.

        Raises:
          LabelTableError: the file is broken, or holds no instances.
        """
        split, folder = self.splits.get(uri, ""), self.folders.get(uri, "")
        if self.captions:
            return read_captions(file, uri, split=split, folder=folder)
        if self.of_images:
            return read_classes(
                file, uri, kind=self.of_images, split=split, folder=folder, extras=self.extras
            )
        return read_instances(
            file,
            uri,
            split=split,
            folder=folder,
            extras=self.extras,
            text_ids=self.text_ids,
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
            found = _instances_of(path, _wanted(options))
            if not found:
                return ""
            folder = files.canonical(path)
            names = [posixpath.relpath(uri, folder) for uri in found]
            reasons.append(f"{some(names)} in {shown(folder, path)}")
        return "; ".join(reasons)

    def open(self, options: SourceOptions) -> Source:
        """Finds the JSON files, and reads their categories.

        Raises:
          UsageError: there are none, one of them holds no instances, two are of the same images,
            they disagree on a category, or an option does not fit them.
        """
        uris = label_files(_typed_labels(options) if options.labels else _labels_beside(options))
        roots = image_roots(options.images, frozenset(uris))
        found = {uri: _categories(uri) for uri in uris}
        described = {uri: categories for uri, categories in found.items() if categories}
        if described and len(described) < len(uris):
            captions = next(uri for uri in uris if uri not in described)
            raise LabelTableError(
                f"{captions} holds captions, not objects with a bbox; leave it out, and name COCO's "
                "instances_*.json instead"
            )
        of_images = image_classes(options, described)
        _check_options(options, "" if of_images else "objects" if described else "captions")
        _check_images_differ(list(described))
        categories = common_categories({uri: one.names for uri, one in described.items()})
        text_ids = any(one.text_ids for one in described.values())
        of_objects = instance_columns(text_ids=text_ids) if described else CAPTION_COLUMNS
        columns = of_images.columns if of_images else of_objects
        extras = _extras(options, described, columns)
        reader = CocoReader(
            {uri: split for uri in uris if (split := split_of(uri))},
            {uri: folder for uri in uris if (folder := image_folder(uri, roots))},
            extras,
            text_ids=text_ids,
            captions=not described,
            of_images=of_images,
        )
        return Source(
            layout=self.name,
            roots=roots,
            labels=FileLabels(reader, tuple(uris)),
            examples=LabelledImages((*columns, *extras.columns)),
            numbering=class_numbering(options, categories)
            if of_images
            else ClassNumbering(known=tuple((name, i) for i, name in sorted(categories.items()))),
            notes=numbering_notes(options, categories) if of_images else (),
            questions=several_questions(described, of_images),
        )


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


def _check_options(options: SourceOptions, what: str) -> None:
    """Checks options that not every kind of file has.

    Args:
      options: those given.
      what: the content of the files; empty for classes of whole images.

    Raises:
      UsageError: one has no effect on these files.
    """
    if not what:
        if options.object_features:
            raise UsageError(
                f"--object_features {options.object_features[0]}: the annotations have no bbox, so "
                "they describe no objects but the classes of whole images; leave it out"
            )
        return
    given = {
        "--label_base": options.label_base is not None,
        "--label_order": options.label_order != SourceOptions.label_order,
        "--class_ids": options.class_ids != SourceOptions.class_ids,
        "--list_column": bool(options.list_column),
        "--columns": bool(options.columns) and what == "captions",
    }
    for option, is_given in given.items():
        if is_given:
            ids = ", whose class ids are those of the file" if what == "objects" else ""
            raise UsageError(
                f"{option} means nothing for the layout coco with {what}{ids}; leave it out"
            )


def _extras(
    options: SourceOptions, described: Mapping[str, Categories], columns: Sequence[Column]
) -> Extras:
    """Decides which features are read besides boxes and classes.

    Raises:
      UsageError: the files do not have it.
    """
    wanted = options.object_features
    if not described:
        if wanted:
            raise UsageError(
                f"--object_features {wanted[0]}: captions have no objects; leave it out"
            )
        return NO_EXTRAS
    names = {categories.keypoints for categories in described.values()} - {()}
    if _KEYPOINT_FEATURES in wanted and len(names) != 1:
        problem = "different key points in them" if names else "key points in no category"
        raise UsageError(
            f"--object_features {_KEYPOINT_FEATURES}: {some(list(described))} have {problem}; name "
            f"{_KEYPOINTS}*{_JSON} with --labels"
        )
    lvis = all(_LVIS.search(posixpath.basename(uri)) for uri in described)
    return Extras(
        masks=_MASK_FEATURES in wanted,
        keypoints=names.pop() if _KEYPOINT_FEATURES in wanted else (),
        negatives=lvis and not any(one.of_images for one in described.values()),
        fields=image_fields(options, list(described), columns),
    )


def _instances_of(path: str, wanted: Sequence[str]) -> list[str]:
    """Finds the JSON files that belong to a local folder of images; none for any other path.

    JSON files of other tasks beside them are ignored.
    """
    if not path.strip() or is_remote(path):
        return []
    folder = files.canonical(path)
    found = _instances_in(f"{folder}/{_ANNOTATIONS}", wanted)
    if found:
        return found
    exported = [f"{parent}/{_EXPORTED}" for parent in (folder, *subfolders(folder))]
    return [uri for uri in exported if os.path.isfile(uri)]


def _instances_in(folder: str, wanted: Sequence[str]) -> list[str]:
    names = file_names(folder, _JSON)
    for beginning in wanted:
        found = [f"{folder}/{name}" for name in names if name.startswith(beginning)]
        if found:
            return found
    return []


def _typed_labels(options: SourceOptions) -> list[str]:
    """Returns the paths of --labels; a folder is replaced by its instances.

    Raises:
      UsageError: a folder has none.
    """
    typed = []
    for path in options.labels:
        folder = files.canonical(path)
        if not path.strip() or is_remote(folder) or not os.path.isdir(folder):
            typed.append(path)
            continue
        wanted = _wanted(options)
        found = _instances_in(folder, wanted) or _instances_of(path, wanted)
        if not found:
            raise UsageError(
                f"--labels {path}: no {wanted[0]}*{_JSON} and no {_EXPORTED} in this folder; name "
                "the JSON files themselves"
            )
        typed += found
    return typed


def _labels_beside(options: SourceOptions) -> list[str]:
    """Finds the JSON files that belong to the folders of --images.

    Raises:
      UsageError: a folder has none.
    """
    found = []
    for path in options.images:
        wanted = _wanted(options)
        uris = _instances_of(path, wanted)
        if not uris:
            raise UsageError(
                f"--images {path}: no {_ANNOTATIONS}/{wanted[0]}*{_JSON} below it and no {_EXPORTED} "
                "in it or its folders; name COCO's JSON files with --labels"
            )
        found += uris
    return found


def _recognise_labels(paths: Sequence[str]) -> str:
    named = []
    for path in paths:
        uri = files.canonical(path)
        if not path.strip():
            return ""
        if _TELLING_NAME.fullmatch(posixpath.basename(uri)):
            named.append(path)
        elif not is_remote(uri) and os.path.isdir(uri) and _instances_in(uri, _ALL_TASKS):
            found = _instances_in(uri, _ALL_TASKS)
            named += [f"{path.rstrip('/')}/{posixpath.basename(one)}" for one in found]
        elif _all_begin_as_coco(path):
            named.append(path)
        else:
            return ""
    return f"COCO's JSON in {some(named)}"


def _all_begin_as_coco(path: str) -> bool:
    """True if there is at least one local file and all look like COCO's JSON."""
    if is_remote(path):
        return False
    try:
        return all(map(_begins_as_coco, label_files([path])))
    except UsageError:
        return False


def _begins_as_coco(uri: str) -> bool:
    if not uri.lower().endswith(_JSON):
        return False
    try:
        with open(uri, "rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError:
        return False
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


def image_folder(
    uri: str, roots: Sequence[ImageRoot], beginnings: Sequence[str] = _ALL_TASKS
) -> str:
    """Returns the folder of the images of a file, if it is one of the folders to list.

    Two splits may have images with the same names: those of annotations/instances_val2017.json are in
    val2017/ or images/val2017/ beside annotations/.

    Args:
      uri: the file.
      roots: the folders to list.
      beginnings: prefixes of the names of files; the name of the folder follows them.
    """
    folder, name = posixpath.split(uri)
    stem = posixpath.splitext(name)[0]
    if is_remote(uri) or posixpath.basename(folder) != _ANNOTATIONS:
        return ""
    beginning = next((one for one in beginnings if stem.startswith(one)), "")
    if not beginning:
        return ""
    base = posixpath.dirname(folder)
    for parent in (base, f"{base}/images"):
        images = f"{parent}/{stem.removeprefix(beginning)}"
        listed = any(f"{images}/".startswith(f"{root.uri}/") for root in roots)
        if listed and os.path.isdir(images):
            return images
    return ""


# --- categories ----------------------------------------------------------------------------------


def _categories(uri: str) -> Categories | None:
    """Reads the categories of a file; None if it holds captions."""
    try:
        return read_categories(lambda: opened(uri), uri)
    except CaptionsError:
        return None


def common_categories(of_files: Mapping[str, Mapping[int, str]]) -> dict[int, str]:
    """Returns the categories of all files, id -> name.

    Raises:
      LabelTableError: two files give an id to two names, or a name to two ids.
    """
    names: dict[int, tuple[str, str]] = {}
    ids: dict[str, tuple[int, str]] = {}
    for uri, categories in of_files.items():
        for i, name in categories.items():
            other_name, name_from = names.setdefault(i, (name, uri))
            other_id, id_from = ids.setdefault(name, (i, uri))
            if other_name != name:
                raise LabelTableError(
                    f"category {i} is {other_name!r} in {name_from} and {name!r} in {uri}; "
                    "files that are converted together must agree on their categories"
                )
            if other_id != i:
                raise LabelTableError(
                    f"category {name!r} has the id {other_id} in {id_from} and {i} in {uri}; "
                    "files that are converted together must agree on their categories"
                )
    return {i: name for i, (name, _) in names.items()}
