"""Pascal VOC: an XML file for each image, as in the VOC data sets and as written by LabelImg."""

from __future__ import annotations

import os
import posixpath
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

from beam_pipeline.core.dataset.sharding import DEFAULT_SPLIT
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.labels.folders import SPLIT_NAMES
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.core.records.example_source import LabelledImages
from beam_pipeline.core.references import LabelRow
from beam_pipeline.core.uris import is_remote
from beam_pipeline.layouts.layout import FileLabels, Source, SourceOptions
from beam_pipeline.layouts.shared.label_folders import (
    holds_files,
    label_folders,
    shown,
)
from beam_pipeline.layouts.shared.local_names import file_names, subfolders
from beam_pipeline.layouts.shared.paths import image_roots
from beam_pipeline.layouts.shared.split_lists import (
    UNLISTED,
    check_not_listed_twice,
    read_list,
)
from beam_pipeline.layouts.voc.annotations import (
    COLUMNS,
    NO_OBJECTS,
    AnnotationError,
    parse_annotation,
)
from beam_pipeline.storage import files

_IMAGES, _LABELS, _LISTS, _KIT = "JPEGImages", "Annotations", "ImageSets/Main", "VOCdevkit"
_YEAR = re.compile(r"VOC\d{4}")
_XML = ".xml"
_LABEL_FILES = "**/*.[xX][mM][lL]"
_LISTED = ("train", "val", "test")
_ALL_OF_TRAINING = "trainval"
_LOOKED_INTO = (*SPLIT_NAMES, "xmls")  # folders to search for XML, besides the one given
_HEAD_BYTES = 4096
_ROOT_ELEMENT = re.compile(rb"<annotation[\s>]")


@dataclass(frozen=True)
class VocReader:
    """Reads an annotation: one image and all of its objects.

    Attributes:
      folders: the folders of annotations.
      mirrored: those with the same subfolders as the images, so that a path below one names an
        image.
      splits: name of an annotation, without folder and extension -> its split according to the
        lists.
    """

    folders: tuple[str, ...]
    mirrored: frozenset[str]
    splits: Mapping[str, str]

    def read(self, file: BinaryIO, uri: str) -> Iterator[LabelRow | DeadLetter]:
        """Yields the one row of a file."""
        stem = posixpath.splitext(posixpath.basename(uri))[0]
        split = self.splits.get(stem, UNLISTED if self.splits else "")
        name = self._image_name(uri, stem)
        try:
            values, size = parse_annotation(file.read())
        except AnnotationError as error:
            yield LabelRow(
                name, NO_OBJECTS, split=split, file=uri, line=error.line, problem=str(error)
            )
        else:
            yield LabelRow(name, values, split=split, file=uri, line=0, size=size)

    def _image_name(self, uri: str, stem: str) -> str:
        folder = max((f for f in self.folders if uri.startswith(f"{f}/")), key=len, default="")
        if folder not in self.mirrored:
            return stem
        return posixpath.splitext(uri[len(folder) + 1 :])[0]


class Voc:
    """An XML file named like the image holds its objects and their boxes."""

    name = "voc"
    option_names = frozenset({"label_base", "label_order", "class_ids"})

    def recognise(self, options: SourceOptions) -> str:
        """Recognises the folders' names, or annotations in XML files beside the images."""
        if options.labels:
            return _recognise_labels(options)
        reasons = []
        for path in options.images:
            found = [one for one in _find_sets(path) if one.recognisable]
            if not found:
                return ""
            where = ", ".join(shown(one.folder, path) for one in found)
            reasons.append(f"{found[0].reason} {where}")
        return "; ".join(reasons)

    def open(self, options: SourceOptions) -> Source:
        """Finds the images, their annotations and the lists of the splits.

        Raises:
          UsageError: something is missing, an image is in two lists, or two sets hold annotations
            of the same names.
        """
        sets = [
            one for path in options.images for one in _sets(path, labels_given=bool(options.labels))
        ]
        typed = options.labels or [one.labels for one in sets]
        folders = label_folders(typed, _LABEL_FILES, ".xml files of Pascal VOC")
        uris = tuple(folder.uri for folder in folders)
        roots = image_roots([one.images for one in sets])
        _check_names_differ(uris)
        splits, notes = _splits([one.lists for one in sets if one.lists], uris)
        mirrored = frozenset(uri for uri in uris if any(_mirrors(uri, root.uri) for root in roots))
        return Source(
            layout=self.name,
            roots=roots,
            labels=FileLabels(VocReader(uris, mirrored, splits), folders=folders),
            examples=LabelledImages(COLUMNS),
            numbering=options.numbering(base=1),
            notes=notes,
        )


# --- folders of images and annotations -----------------------------------------------------------


class _Set(NamedTuple):
    """Images and their annotations.

    Attributes:
      images, labels: their folders; `images` is an argument of `image_roots`.
      lists: the folder of the splits' lists, or empty.
      folder: the folder to name after `reason`.
      reason: why this is VOC, a phrase that ends before the folder.
      recognisable: True if the reason is sufficient for `--layout auto`.
    """

    images: str
    labels: str
    lists: str
    folder: str
    reason: str
    recognisable: bool


def _sets(path: str, *, labels_given: bool) -> list[_Set]:
    """Returns the sets of a path of --images.

    Raises:
      UsageError: there is none.
    """
    found = _find_sets(path)
    if labels_given:
        return [one for one in found if one.lists] or [
            _Set(images=path, labels="", lists="", folder="", reason="", recognisable=False)
        ]
    for one in found:
        if not is_remote(one.labels) and not os.path.isdir(one.labels):
            raise UsageError(
                f"--layout voc: {one.folder} has {_IMAGES}/ and no {_LABELS}/ with .xml files beside "
                "it; put it there, or name the folder with --labels"
            )
    if found:
        return found
    uri = files.canonical(path)
    if is_remote(uri) and posixpath.basename(uri) == _KIT:
        raise UsageError(
            f"--images {path}: name the years in it, such as {uri}/VOC2012; folders in a bucket are "
            "not searched"
        )
    beside = ImageRoot(uri, (_LABEL_FILES,))
    if path.strip() and (is_remote(uri) or (os.path.isdir(uri) and holds_files(beside))):
        return [_Set(images=uri, labels=uri, lists="", folder=uri, reason="", recognisable=False)]
    raise UsageError(
        f"--images {path}: no Pascal VOC set; expected a folder with {_IMAGES}/ and {_LABELS}/ (or "
        "a folder with several of these), images/ beside annotations/, or .xml files beside the "
        "images. --labels names a folder of .xml files elsewhere"
    )


def _find_sets(path: str) -> list[_Set]:
    """Finds the sets of a path of --images by the names of folders."""
    if not path.strip():
        return []
    uri = files.canonical(path)
    if is_remote(uri):
        return _remote_years(uri)
    years = _years(uri)
    if years:
        return years
    if posixpath.basename(uri).lower() == "images" and not _first_xml(uri):
        uri = posixpath.dirname(uri)
    below = {posixpath.basename(folder).lower(): folder for folder in subfolders(uri)}
    images, labels = below.get("images", ""), below.get("annotations", "")
    if images and labels and _first_xml(labels):
        reason = "images/ beside annotations/ with .xml files in"
        return [
            _Set(
                images=images,
                labels=labels,
                lists="",
                folder=uri,
                reason=reason,
                recognisable=_is_annotation(_first_xml(labels)),
            )
        ]
    beside = _first_xml(uri)
    if beside:
        return [
            _Set(
                images=uri,
                labels=uri,
                lists="",
                folder=uri,
                reason=".xml files beside images in",
                recognisable=_is_annotation(beside),
            )
        ]
    return []


def _year(folder: str, recognisable: bool) -> _Set:
    return _Set(
        images=f"{folder}/{_IMAGES}",
        labels=f"{folder}/{_LABELS}",
        lists=f"{folder}/{_LISTS}",
        folder=folder,
        reason=f"{_IMAGES}/ beside {_LABELS}/ in",
        recognisable=recognisable,
    )


def _years(uri: str) -> list[_Set]:
    """Returns the folder if it is that of a year, else the years in it or in VOCdevkit/ below it."""
    if posixpath.basename(uri) == _IMAGES:
        uri = posixpath.dirname(uri)
    for folders in ([uri], subfolders(uri), subfolders(f"{uri}/{_KIT}")):
        years = [folder for folder in folders if os.path.isdir(f"{folder}/{_IMAGES}")]
        if years:
            return [_year(folder, os.path.isdir(f"{folder}/{_LABELS}")) for folder in years]
    return []


def _remote_years(uri: str) -> list[_Set]:
    """Returns the years of a remote path, judged by its name only."""
    if posixpath.basename(uri) == _IMAGES:
        uri = posixpath.dirname(uri)
        return [_year(uri, True)]
    return [_year(uri, True)] if _YEAR.fullmatch(posixpath.basename(uri)) else []


def _first_xml(folder: str) -> str:
    """Finds the first .xml file of a local folder, or of its folders train/, test/ and similar."""
    inside = [below for below in subfolders(folder) if posixpath.basename(below) in _LOOKED_INTO]
    for searched in (folder, *inside):
        names = file_names(searched, _XML)
        if names:
            return f"{searched}/{names[0]}"
    return ""


def _is_annotation(path: str) -> bool:
    """True if a local XML file begins like VOC's."""
    try:
        with open(path, "rb") as file:
            return _ROOT_ELEMENT.search(file.read(_HEAD_BYTES)) is not None
    except OSError:
        return False


def _mirrors(labels: str, images: str) -> bool:
    """True if every subfolder of the annotations is also a subfolder of the images."""
    if labels == images:
        return True
    if is_remote(labels) or is_remote(images):
        return False
    names = {posixpath.basename(folder) for folder in subfolders(images)}
    return all(posixpath.basename(folder) in names for folder in subfolders(labels))


def _recognise_labels(options: SourceOptions) -> str:
    for path in options.labels:
        uri = files.canonical(path)
        if not path.strip() or is_remote(uri) or not _is_annotation(_first_xml(uri)):
            return ""
    where = ", ".join(shown(files.canonical(path), path) for path in options.labels)
    return f".xml files of Pascal VOC in {where}"


# --- the lists of the splits ---------------------------------------------------------------------


def _annotation_names(folder: str) -> list[str]:
    """Returns the names of the annotations directly in a folder, without extension."""
    if not is_remote(folder):
        return [posixpath.splitext(name)[0] for name in file_names(folder, _XML)]
    names = (posixpath.splitext(name) for name in files.list_folder(folder))
    return [stem for stem, extension in names if extension.lower() == _XML]


def _check_names_differ(folders: Sequence[str]) -> None:
    """Raises UsageError if two folders hold annotations with the same name."""
    if len(folders) < 2:
        return
    counts = Counter(name for folder in folders for name in _annotation_names(folder))
    twice = sorted(name for name, count in counts.items() if count > 1)
    if twice:
        raise UsageError(
            f"{' and '.join(folders)} hold annotations of the same names, {len(twice)} in all, such "
            f"as {twice[0]}{_XML}, so they cannot be one data set. VOC2012 holds all that VOC2008 to "
            "VOC2011 hold; name only one of these, or convert each folder on its own"
        )


def _splits(
    list_folders: Sequence[str], label_folders: Sequence[str]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Reads (name of an annotation -> split, notes) from train.txt, val.txt, test.txt and trainval.txt.

    Raises:
      UsageError: a name is in two of the first three.
    """
    splits: dict[str, str] = {}
    notes = []
    lists = {
        f"{folder}/{name}.txt": (name, read_list(f"{folder}/{name}.txt"))
        for folder in list_folders
        for name in (*_LISTED, _ALL_OF_TRAINING)
    }
    if not any(names for _, names in lists.values()):
        return {}, ()
    annotated = {name for folder in label_folders for name in _annotation_names(folder)}
    for uri, (name, listed) in lists.items():
        split = SPLIT_NAMES.get(name, DEFAULT_SPLIT)
        if name != _ALL_OF_TRAINING:
            check_not_listed_twice(uri, listed, split, splits)
        for stem in listed:
            splits.setdefault(stem, split)
        without = [stem for stem in listed if stem not in annotated]
        if without:
            notes.append(
                f"{len(without)} of {len(listed)} names in {uri}, such as {without[0]!r}, have no "
                ".xml file"
            )
    unlisted = len(annotated - set(splits))
    if unlisted:
        notes.append(
            f"{unlisted} of {len(annotated)} .xml files are in no list of {_LISTS}/, so their images "
            f"go to a split {UNLISTED!r} unless --splits is given. In the VOC sets themselves "
            "these are images of other tasks, in which objects without a box may be seen"
        )
    return splits, tuple(notes)
