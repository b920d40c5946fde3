"""Pascal VOC: an XML file for each image, in the VOC data sets and from LabelImg.

    VOCdevkit/VOC2012/JPEGImages/2007_000027.jpg     or images/a.jpg         or a.jpg
    VOCdevkit/VOC2012/Annotations/2007_000027.xml       annotations/a.xml       a.xml
    VOCdevkit/VOC2012/ImageSets/Main/train.txt

An XML file has one element `object` per object. Source: the VOC2012 development kit, section "Ground Truth
Annotation" (http://host.robots.ox.ac.uk/pascal/VOC/voc2012/htmldoc/devkit_doc.html).
"""

from __future__ import annotations

import io
import posixpath
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.labels.cells import parse_number
from beam_pipeline.core.labels.schema import ColumnKind, object_column, object_columns
from beam_pipeline.core.listing.folders import SPLIT_NAMES
from beam_pipeline.core.records.example_source import LabelledImages
from beam_pipeline.core.references import Size
from beam_pipeline.layouts import label_files, tree
from beam_pipeline.layouts.entries import Element, xml_elements
from beam_pipeline.layouts.layout import FileLabels, Source, SourceOptions
from beam_pipeline.layouts.paths import image_roots
from beam_pipeline.storage import files

IMAGES = "JPEGImages"
LISTED = ("train", "val", "test", "trainval")
"""Lists of images, such as ImageSets/Main/train.txt."""

YEAR = re.compile(r"VOC\d{4}")

_LABELS, _LISTS = "Annotations", "ImageSets/Main"
_XML = ".xml"
_LOOKED_INTO = (*SPLIT_NAMES, "xmls")  # folders to search for XML, besides the one given
_FEW_FOLDERS = 20  # folders that are searched for annotations, whatever their name
_ROOT_ELEMENT = re.compile(rb"<annotation[\s>]")


class Voc:
    """An XML file named like the image contains its objects and their boxes."""

    name = "voc"
    option_names = frozenset({"label_base", "label_order", "class_ids"})

    def recognise(self, options: SourceOptions) -> str:
        """Recognises the folders' names, or annotations in XML files beside the images."""
        if options.labels:
            kind = ".xml files of Pascal VOC"
            return label_files.reason_of_labels(options.labels, _holds_annotations, kind)
        reasons = []
        for path in options.images:
            sets = [voc_set for voc_set in _find_sets(path) if voc_set.is_certain]
            if not sets:
                return ""
            where = ", ".join(label_files.typed_path(voc_set.folder, path) for voc_set in sets)
            images, labels = _names(sets[0][1:3])
            beside = (
                f"{images}/ beside {labels}/" if images != labels else ".xml files beside images"
            )
            reasons.append(f"{beside} in {where}")
        return "; ".join(reasons)

    def open(self, options: SourceOptions) -> Source:
        """Finds the images, their annotations and the lists of the splits.

        Raises:
          UsageError: something is missing, an image is in two lists, or two sets contain annotations
            of the same names.
        """
        sets: list[_Set] = []
        for path in options.images:
            sets += _sets_given(path, labels_given=bool(options.labels))
        typed = options.labels or [voc_set.labels for voc_set in sets]
        folders = label_files.label_folders(typed, "**/*.[xX][mM][lL]", ".xml files of Pascal VOC")
        uris = tuple(folder.uri for folder in folders)
        roots = image_roots([voc_set.images for voc_set in sets])
        lists = label_files.read_split_lists([voc_set.lists for voc_set in sets], LISTED)
        needed = lists.names or len(uris) > 1
        stems = [name for uri in uris if needed for name in tree.stems_of(uri, _XML)]
        twice = sorted(name for name, count in Counter(stems).items() if count > 1)
        if twice and len(uris) > 1:
            raise UsageError(
                f"{' and '.join(uris)} contain annotations of the same names, {len(twice)} in all, such "
                f"as {twice[0]}{_XML}. VOC2012 contains all that VOC2008 to VOC2011 contain; name only "
                "one of these, or convert each folder on its own"
            )
        names_below = [set(_names(tree.subfolders(root.uri))) for root in roots]
        places = [
            label_files.Place(
                uri,
                bare=uri not in [root.uri for root in roots]
                and not any(
                    names.issuperset(_names(tree.subfolders(uri))) for names in names_below
                ),
            )
            for uri in uris
        ]
        reader = label_files.LabelFileReader(
            VocFormat(), tuple(places), label_files.Splits(lists.splits, bare=True)
        )
        return Source(
            layout=self.name,
            roots=roots,
            labels=FileLabels(reader, folders=folders),
            examples=LabelledImages(COLUMNS),
            numbering=options.numbering(base=1),
            notes=lists.notes(stems if lists.names else [], ".xml files", _LISTS),
        )


# --- folders of images and annotations -----------------------------------------------------------


class _Set(NamedTuple):
    """Images and their annotations.

    Attributes:
      folder: the folder that contains the others.
      images: their folder, or any argument of `image_roots`.
      labels: the folder of the annotations; empty if it is missing.
      lists: the folder of the splits' lists, or empty.
    """

    folder: str
    images: str
    labels: str = ""
    lists: str = ""

    @property
    def is_certain(self) -> bool:
        """True if it is VOC by its folders, or by an annotation."""
        return bool(self.labels) and (bool(self.lists) or _holds_annotations(self.labels))


def _sets_given(path: str, *, labels_given: bool) -> list[_Set]:
    """Returns the sets of a path of --images. Raises UsageError if annotations are missing."""
    sets = _find_sets(path)
    if labels_given:
        return [voc_set for voc_set in sets if voc_set.lists] or [_Set(path, path)]
    for voc_set in sets:
        if not voc_set.labels:
            raise UsageError(
                f"--layout voc: {voc_set.folder} has {IMAGES}/ and no {_LABELS}/ with .xml files beside "
                "it; put it there, or name the folder with --labels"
            )
    if not sets:
        raise UsageError(
            f"--images {path}: no Pascal VOC set; expected a folder with {IMAGES}/ and {_LABELS}/ (or "
            "a folder with several of these), images/ beside annotations/, or .xml files beside the "
            "images. --labels names a folder of .xml files elsewhere"
        )
    return sets


def years(uri: str) -> list[str]:
    """Returns the folder itself if it contains JPEGImages/, else those in it or in VOCdevkit/ below it.

    Args:
      uri: a year's folder, one that contains years, or the folder of images in it.
    """
    if posixpath.basename(uri) == IMAGES:
        uri = posixpath.dirname(uri)
    if tree.has_folder(f"{uri}/{IMAGES}"):
        return [uri]
    candidates = map(tree.subfolders, (uri, f"{uri}/VOCdevkit"))
    sets = (
        [below for below in folders if tree.has_folder(f"{below}/{IMAGES}")]
        for folders in candidates
    )
    return next(filter(None, sets), [])


def _find_sets(path: str) -> list[_Set]:
    """Finds the sets of a path of --images by the names of folders."""
    if not path.strip():
        return []
    uri = files.canonical(path)
    sets = []
    for year in years(uri):
        labels = f"{year}/{_LABELS}"
        labels = labels if tree.has_folder(labels) else _annotation_folder(year)
        sets.append(_Set(year, f"{year}/{IMAGES}", labels, f"{year}/{_LISTS}"))
    if sets:
        return sets
    if posixpath.basename(uri).lower() in tree.IMAGE_FOLDERS and not _first_xml(uri):
        uri = posixpath.dirname(uri)
    if labels := _annotation_folder(uri):
        below = tree.subfolders(uri)
        images = [folder for folder in below if posixpath.basename(folder).lower() == "images"][:1]
        images = images or [
            folder
            for folder in below
            if any(tree.names_in(place).images for place in (folder, *tree.subfolders(folder)))
        ]
        if len(images) == 1:
            return [_Set(uri, images[0], labels)]
    return [_Set(uri, uri, uri)] if _first_xml(uri) else []


def _annotation_folder(folder: str) -> str:
    """Finds the folder below whose XML files are annotations: annotations/, or the only one; else empty."""
    below = tree.subfolders(folder)
    named = [path for path in below if posixpath.basename(path).lower() == _LABELS.lower()]
    without_images = [path for path in below[:_FEW_FOLDERS] if not tree.names_in(path).images]
    for candidates in (named, without_images):
        annotated = list(filter(_holds_annotations, candidates))
        if len(annotated) == 1:
            return annotated[0]
    return ""


def _first_xml(folder: str) -> str:
    """Finds the first .xml file of a folder, or of its folders train/, test/ and similar."""
    inside = [
        below for below in tree.subfolders(folder) if posixpath.basename(below) in _LOOKED_INTO
    ]
    return next((uri for place in (folder, *inside) for uri in tree.files_of(place, _XML)), "")


def _holds_annotations(folder: str) -> bool:
    """True if the first XML file of a folder begins like a VOC annotation."""
    first = _first_xml(folder)
    return bool(first) and _ROOT_ELEMENT.search(tree.beginning(first, 4096)) is not None


def _names(folders: Sequence[str]) -> list[str]:
    return list(map(posixpath.basename, folders))


# --- annotations ---------------------------------------------------------------------------------

COLUMNS = (
    *object_columns(pixels=True),
    object_column("difficult", ColumnKind.INT64),
    object_column("truncated", ColumnKind.INT64),
    object_column("view", ColumnKind.BYTES),
)
"""The label columns; VOC's `pose` is called view, like in the TensorFlow Model Garden."""

_BOX = "bndbox"


class VocFormat(label_files.LabelFormat):
    """Annotations in XML."""

    columns = COLUMNS

    def parse(self, data: bytes, uri: str) -> label_files.ImageLabels:
        """Parses an annotation. Boxes are in pixels, as written.

        The size comes from `<size>`; None if it is missing or 0, which many tools write.
        """
        rows: list[tuple[Any, ...]] = []
        size = None
        for element in xml_elements(io.BytesIO(data), "annotation"):
            if element.tag == "size":
                size = _size(element)
            elif element.tag == "object":
                rows.append(_values(element, f"object {len(rows) + 1}"))
        return label_files.ImageLabels(tuple(zip(*rows, strict=True)) or self.nothing, size)


def _size(element: Element) -> Size | None:
    sides = {side.tag: side.text for side in element.inside}
    try:
        width, height = (
            int(parse_number(sides.get(side, ""), ColumnKind.FLOAT)) for side in ("width", "height")
        )
    except ValueError:
        return None
    return (width, height) if width > 0 and height > 0 else None


def _values(element: Element, where: str) -> tuple[Any, ...]:
    """Returns the values of an object, in the order of `COLUMNS`. Raises BadLabelError."""
    try:
        name = _text(element, "name", where)
        if not name:
            raise label_files.BadLabelError(f"{where} has no <name>")
        where = f"{where} ({name!r})"
        boxes = element.all(_BOX)
        if len(boxes) != 1:
            children = ", ".join(f"<{child.tag}>" for child in element.inside[:8])
            raise label_files.BadLabelError(
                f"{where} has {len(boxes)} <{_BOX}>, expected one; it contains {children}"
            )
        sides = [
            label_files.number(_text(boxes[0], side, where), f"{where}: <{_BOX}/{side}>")
            for side in ("xmin", "ymin", "xmax", "ymax")
        ]
        flags = [
            label_files.number(
                _text(element, flag, where) or "0", f"{where}: <{flag}>", ColumnKind.INT64
            )
            for flag in ("difficult", "truncated")
        ]
        return (*sides, boxes[0].line), name, *flags, _text(element, "pose", where) or "Unspecified"
    except label_files.BadLabelError as error:
        raise label_files.BadLabelError(str(error), element.line) from error


def _text(element: Element, tag: str, where: str) -> str:
    """Returns the text of an element that may occur once; empty if it does not."""
    texts = [child.text.strip() for child in element.all(tag)]
    if len(texts) > 1:
        raise label_files.BadLabelError(f"{where} has {len(texts)} <{tag}>, expected one")
    return texts[0] if texts else ""
