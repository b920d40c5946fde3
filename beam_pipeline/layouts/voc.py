"""Pascal VOC: an XML file for each image, in the VOC data sets and from LabelImg.

    VOCdevkit/VOC2012/JPEGImages/2007_000027.jpg     or images/a.jpg         or a.jpg
    VOCdevkit/VOC2012/Annotations/2007_000027.xml       annotations/a.xml       a.xml
    VOCdevkit/VOC2012/ImageSets/Main/train.txt

An XML file has one element `object` per object. Source: the VOC2012 development kit, section "Ground Truth
Annotation" (http://host.robots.ox.ac.uk/pascal/VOC/voc2012/htmldoc/devkit_doc.html).
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from xml.parsers import expat

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.labels.cells import parse_number
from beam_pipeline.core.labels.schema import Column, ColumnKind, object_column, object_columns
from beam_pipeline.core.listing.folders import SPLIT_NAMES
from beam_pipeline.core.records.example_source import LabelledImages
from beam_pipeline.core.references import Size
from beam_pipeline.layouts.label_files import (
    BadLabelError,
    ImageLabels,
    LabelFileReader,
    LabelFormat,
    Place,
    Splits,
    label_folders,
    read_split_lists,
    typed_path,
)
from beam_pipeline.layouts.layout import FileLabels, Source, SourceOptions
from beam_pipeline.layouts.paths import image_roots
from beam_pipeline.layouts.tree import (
    IMAGE_FOLDERS,
    beginning,
    files_of,
    has_folder,
    names_in,
    stems_of,
    subfolders,
)
from beam_pipeline.storage import files

IMAGES = "JPEGImages"
LISTED = ("train", "val", "test", "trainval")
"""Lists of images, such as ImageSets/Main/train.txt."""

_LABELS, _LISTS, _KIT = "Annotations", "ImageSets/Main", "VOCdevkit"
_XML = ".xml"
_LABEL_FILES = "**/*.[xX][mM][lL]"
_LOOKED_INTO = (*SPLIT_NAMES, "xmls")  # folders to search for XML, besides the one given
_HEAD_BYTES = 4096
_FEW_FOLDERS = 20  # folders that are searched for annotations, whatever their name
YEAR = re.compile(r"VOC\d{4}")
_ROOT_ELEMENT = re.compile(rb"<annotation[\s>]")


class Voc:
    """An XML file named like the image contains its objects and their boxes."""

    name = "voc"
    option_names = frozenset({"label_base", "label_order", "class_ids"})

    def recognise(self, options: SourceOptions) -> str:
        """Recognises the folders' names, or annotations in XML files beside the images."""
        if options.labels:
            uris = [files.canonical(path) for path in options.labels if path.strip()]
            if len(uris) < len(options.labels) or not all(
                _is_annotation(_first_xml(u)) for u in uris
            ):
                return ""
            return f".xml files of Pascal VOC in {', '.join(map(typed_path, uris, options.labels))}"
        reasons = []
        for path in options.images:
            sets = [voc_set for voc_set in _find_sets(path) if voc_set.is_certain]
            if not sets:
                return ""
            where = ", ".join(typed_path(voc_set.folder, path) for voc_set in sets)
            reasons.append(f"{sets[0].reason} {where}")
        return "; ".join(reasons)

    def open(self, options: SourceOptions) -> Source:
        """Finds the images, their annotations and the lists of the splits.

        Raises:
          UsageError: something is missing, an image is in two lists, or two sets contain annotations
            of the same names.
        """
        given = bool(options.labels)
        sets = [voc_set for path in options.images for voc_set in _sets(path, labels_given=given)]
        typed = options.labels or [voc_set.labels for voc_set in sets]
        folders = label_folders(typed, _LABEL_FILES, ".xml files of Pascal VOC")
        uris = tuple(folder.uri for folder in folders)
        roots = image_roots([voc_set.images for voc_set in sets])
        _check_names_differ(uris)
        lists = read_split_lists([voc_set.lists for voc_set in sets if voc_set.lists], LISTED)
        places = tuple(
            Place(uri, bare=not any(_mirrors(uri, root.uri) for root in roots)) for uri in uris
        )
        reader = LabelFileReader(VocFormat(), places, Splits(lists.splits, bare=True))
        return Source(
            layout=self.name,
            roots=roots,
            labels=FileLabels(reader, folders=folders),
            examples=LabelledImages(COLUMNS),
            numbering=options.numbering(base=1),
            notes=lists.notes(_stems(uris) if lists.names else [], ".xml files", _LISTS),
        )


# --- folders of images and annotations -----------------------------------------------------------


class _Set(NamedTuple):
    """Images and their annotations.

    Attributes:
      images, labels: their folders; `images` is an argument of `image_roots`.
      lists: the folder of the splits' lists, or empty.
      folder: the folder to name after `reason`.
      reason: why this is VOC, a phrase that ends before the folder.
      is_certain: True if the reason is sufficient for `--layout auto`.
    """

    images: str
    labels: str = ""
    lists: str = ""
    folder: str = ""
    reason: str = ""
    is_certain: bool = False


def _sets(path: str, *, labels_given: bool) -> list[_Set]:
    """Returns the sets of a path of --images. Raises UsageError if it is missing."""
    sets = _find_sets(path)
    if labels_given:
        return [voc_set for voc_set in sets if voc_set.lists] or [_Set(path)]
    for voc_set in sets:
        if not has_folder(voc_set.labels):
            raise UsageError(
                f"--layout voc: {voc_set.folder} has {IMAGES}/ and no {_LABELS}/ with .xml files beside "
                "it; put it there, or name the folder with --labels"
            )
    if sets:
        return sets
    raise UsageError(
        f"--images {path}: no Pascal VOC set; expected a folder with {IMAGES}/ and {_LABELS}/ (or "
        "a folder with several of these), images/ beside annotations/, or .xml files beside the "
        "images. --labels names a folder of .xml files elsewhere"
    )


def years(uri: str) -> list[str]:
    """Returns the folder itself if it contains JPEGImages/, else those in it or in VOCdevkit/ below it.

    Args:
      uri: a year's folder, one that contains years, or the folder of images in it.
    """
    if posixpath.basename(uri) == IMAGES:
        uri = posixpath.dirname(uri)
    if has_folder(f"{uri}/{IMAGES}"):
        return [uri]
    for below in (uri, f"{uri}/{_KIT}"):
        folders = [folder for folder in subfolders(below) if has_folder(f"{folder}/{IMAGES}")]
        if folders:
            return folders
    return []


def _find_sets(path: str) -> list[_Set]:
    """Finds the sets of a path of --images by the names of folders."""
    if not path.strip():
        return []
    uri = files.canonical(path)
    sets = []
    for year in years(uri):
        labels = f"{year}/{_LABELS}"
        is_certain = has_folder(labels)
        if not is_certain and (annotations := _annotation_folder(year)):
            labels, is_certain = annotations, True
        reason = f"{IMAGES}/ beside {posixpath.basename(labels)}/ in"
        sets.append(_Set(f"{year}/{IMAGES}", labels, f"{year}/{_LISTS}", year, reason, is_certain))
    if sets:
        return sets
    if posixpath.basename(uri).lower() in IMAGE_FOLDERS and not _first_xml(uri):
        uri = posixpath.dirname(uri)
    labels, images = _annotation_folder(uri), ""
    if labels:
        with_images = [folder for folder in subfolders(uri) if _holds_images(folder)]
        named = [f for f in subfolders(uri) if posixpath.basename(f).lower() == "images"]
        images = named[0] if named else with_images[0] if len(with_images) == 1 else ""
    if images:
        names = f"{posixpath.basename(images)}/ beside {posixpath.basename(labels)}/"
        return [_Set(images, labels, "", uri, f"{names} with .xml files in", True)]
    first = _first_xml(uri)
    reason = ".xml files beside images in"
    return [_Set(uri, uri, "", uri, reason, _is_annotation(first))] if first else []


def _annotation_folder(folder: str) -> str:
    """Finds the folder below whose XML files are annotations: annotations/, or the only one; else empty."""
    below = subfolders(folder)
    named = [path for path in below if posixpath.basename(path).lower() == _LABELS.lower()]
    without_images = [path for path in below[:_FEW_FOLDERS] if not names_in(path).images]
    for candidates in (named, without_images):
        annotated = [path for path in candidates if _is_annotation(_first_xml(path))]
        if len(annotated) == 1:
            return annotated[0]
    return ""


def _holds_images(folder: str) -> bool:
    return any(names_in(place).images for place in (folder, *subfolders(folder)))


def _first_xml(folder: str) -> str:
    """Finds the first .xml file of a folder, or of its folders train/, test/ and similar."""
    if not folder:
        return ""
    inside = [below for below in subfolders(folder) if posixpath.basename(below) in _LOOKED_INTO]
    return next((uri for place in (folder, *inside) for uri in files_of(place, _XML)), "")


def _is_annotation(uri: str) -> bool:
    """True if an XML file begins like a VOC annotation."""
    return bool(uri) and _ROOT_ELEMENT.search(beginning(uri, _HEAD_BYTES)) is not None


def _mirrors(labels: str, images: str) -> bool:
    """True if every subfolder of the annotations is also a subfolder of the images."""
    names = {posixpath.basename(folder) for folder in subfolders(images)}
    return labels == images or names.issuperset(map(posixpath.basename, subfolders(labels)))


def _stems(folders: Sequence[str]) -> list[str]:
    return [name for folder in folders for name in stems_of(folder, _XML)]


def _check_names_differ(folders: Sequence[str]) -> None:
    """Raises UsageError if two folders contain annotations with the same name."""
    counts = Counter(_stems(folders) if len(folders) > 1 else ())
    twice = sorted(name for name, count in counts.items() if count > 1)
    if twice:
        raise UsageError(
            f"{' and '.join(folders)} contain annotations of the same names, {len(twice)} in all, such "
            f"as {twice[0]}{_XML}, so they cannot be one data set. VOC2012 contains all that VOC2008 to "
            "VOC2011 contain; name only one of these, or convert each folder on its own"
        )


# --- annotations ---------------------------------------------------------------------------------

COLUMNS = (
    *object_columns(pixels=True),
    object_column("difficult", ColumnKind.INT64),
    object_column("truncated", ColumnKind.INT64),
    object_column("view", ColumnKind.BYTES),
)
"""The label columns; VOC's `pose` is called view, like in the TensorFlow Model Garden."""

_ROOT = "annotation"
_OBJECT = [_ROOT, "object"]
_BOX = "bndbox"
_SIZE = ("width", "height")
_SIDES = ("xmin", "ymin", "xmax", "ymax")
_UNKNOWN_POSE = "Unspecified"
_SHOWN = 8  # names of elements in a message
_DEEPEST = 4  # annotation/object/bndbox/xmin


def parse_annotation(data: bytes) -> ImageLabels:
    """Parses an annotation. Boxes are in pixels, as written.

    The size comes from `<size>`; None if it is missing or 0, which many tools write.

    Raises:
      BadLabelError: it is broken XML, has a document type, or an object is not VOC's.
    """
    annotation = _Annotation()
    try:
        annotation.parser.Parse(data, True)
    except BadLabelError:
        raise
    except expat.ExpatError as error:
        problem = f"not well-formed XML: {expat.ErrorString(error.code)}"
        raise BadLabelError(problem, error.lineno) from error
    except (ValueError, LookupError) as error:  # mostly unknown encodings
        problem = f"XML that cannot be read: {error}; save it as UTF-8"
        raise BadLabelError(problem, annotation.line) from error
    if annotation.root != _ROOT:
        raise BadLabelError(f"the root element is <{annotation.root}>, expected <{_ROOT}>", 1)
    rows = [_values(number, element) for number, element in enumerate(annotation.objects, 1)]
    values = tuple(zip(*rows, strict=True)) if rows else ((),) * len(COLUMNS)
    return ImageLabels(values, annotation.size)


@dataclass(frozen=True)
class VocFormat(LabelFormat):
    """Annotations in XML."""

    @property
    def columns(self) -> tuple[Column, ...]:
        return COLUMNS

    def parse(self, data: bytes, uri: str) -> ImageLabels:
        return parse_annotation(data)


@dataclass
class _Object:
    """The content of an element `object`.

    Attributes:
      line: the line of its start tag.
      texts: the text of each element in it, by path below it such as "bndbox/xmin".
      box_line: the line of the start tag of its last `bndbox`.
    """

    line: int
    texts: dict[str, list[str]] = field(default_factory=dict)
    box_line: int = 0


class _Annotation:
    """Collects the objects of an annotation, without the boxes of their parts, further down.

    Attributes:
      root: the name of the root element.
      objects: the objects so far.
      parser: parses the file.
    """

    def __init__(self) -> None:
        self.root = ""
        self.objects: list[_Object] = []
        self.parser = expat.ParserCreate()
        self.parser.StartDoctypeDeclHandler = self._refuse
        self.parser.StartElementHandler = self._start
        self.parser.CharacterDataHandler = lambda text: self._text.append(text)
        self.parser.EndElementHandler = self._end
        self._sides: dict[str, str] = {}
        self._path: list[str] = []
        self._text: list[str] = []

    @property
    def line(self) -> int:
        """The current line, from 1."""
        return self.parser.CurrentLineNumber

    @property
    def size(self) -> Size | None:
        """Width and height; None unless both are whole numbers of pixels."""
        try:
            width, height = (
                int(parse_number(self._sides.get(side, ""), ColumnKind.FLOAT)) for side in _SIZE
            )
        except ValueError:
            return None
        return (width, height) if width > 0 and height > 0 else None

    def _refuse(self, *_: object) -> None:
        raise BadLabelError(
            "a document type (<!DOCTYPE>) can make a few lines of XML fill the memory or read other "
            "files, so it is refused; annotations need none, remove it",
            self.line,
        )

    def _start(self, name: str, _: object) -> None:
        self._path.append(name)
        self._text.clear()
        if len(self._path) == 1:
            self.root = name
        elif self._path == _OBJECT:
            self.objects.append(_Object(self.line))
        elif self._path == [*_OBJECT, _BOX]:
            self.objects[-1].box_line = self.line

    def _end(self, name: str) -> None:
        if self._path[:2] == _OBJECT and 2 < len(self._path) <= _DEEPEST:
            texts = self.objects[-1].texts.setdefault("/".join(self._path[2:]), [])
            texts.append("".join(self._text).strip())
        elif len(self._path) == len(_OBJECT) + 1 and self._path[1] == "size":
            self._sides[name] = "".join(self._text)
        self._text.clear()
        self._path.pop()


def _values(number: int, element: _Object) -> tuple[Any, ...]:
    """Returns the values of one object, in the order of `COLUMNS`."""
    where = f"object {number}"
    name = _text(element, "name", where)
    if not name:
        raise BadLabelError(f"{where} has no <name>", element.line)
    where = f"{where} ({name!r})"
    if _BOX not in element.texts:
        children = [f"<{child}>" for child in element.texts if "/" not in child]
        raise BadLabelError(
            f"{where} has no <{_BOX}>; it contains {', '.join(children[:_SHOWN])}, and boxes are all that "
            "is read of places",
            element.line,
        )
    _text(element, _BOX, where)
    sides = [_number(element, f"{_BOX}/{side}", ColumnKind.FLOAT, where) for side in _SIDES]
    return (
        (*sides, element.box_line),
        name,
        _number(element, "difficult", ColumnKind.INT64, where, default="0"),
        _number(element, "truncated", ColumnKind.INT64, where, default="0"),
        _text(element, "pose", where) or _UNKNOWN_POSE,
    )


def _text(element: _Object, path: str, where: str) -> str:
    """Returns the text of an element that may occur once; empty if it does not."""
    texts = element.texts.get(path, ())
    if len(texts) > 1:
        raise BadLabelError(f"{where} has {len(texts)} <{path}>, expected one", element.line)
    return texts[0] if texts else ""


def _number(element: _Object, path: str, kind: ColumnKind, where: str, default: str = "") -> float:
    text = _text(element, path, where) or default
    try:
        return parse_number(text, kind)
    except ValueError as error:
        expected = "an integer" if kind is ColumnKind.INT64 else "a number"
        value = f"is {text!r}" if text else "is missing or empty"
        raise BadLabelError(
            f"{where}: <{path}> {value}, expected {expected}", element.line
        ) from error
