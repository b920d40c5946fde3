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
from typing import Any

from beam_pipeline.core.labels import cells, schema
from beam_pipeline.core.references import Size
from beam_pipeline.layouts import entries, label_files, tree

IMAGES = "JPEGImages"
LISTED = ("train", "val", "test", "trainval")
"""Lists of images, such as ImageSets/Main/train.txt."""

YEAR = re.compile(r"VOC\d{4}")

_LABELS, _LISTS = "Annotations", "ImageSets/Main"
_FEW_FOLDERS = 20  # folders that are searched for annotations, whatever their name
_ROOT_ELEMENT = re.compile(rb"<annotation[\s>]")


def years(uri: str) -> list[str]:
    """Returns the folders with JPEGImages/: the one given or around it, or those in it or in its VOCdevkit/."""
    return tree.homes(IMAGES, uri, ("", "*", "VOCdevkit/*"))


# --- annotations ---------------------------------------------------------------------------------

COLUMNS = (
    *schema.object_columns(pixels=True),
    schema.object_column("difficult", schema.ColumnKind.INT64),
    schema.object_column("truncated", schema.ColumnKind.INT64),
    schema.object_column("view", schema.ColumnKind.BYTES),
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
        for element in entries.xml_elements(io.BytesIO(data), "annotation"):
            if element.tag == "size":
                size = _size(element)
            elif element.tag == "object":
                rows.append(_values(element, f"object {len(rows) + 1}"))
        return label_files.ImageLabels(tuple(zip(*rows, strict=True)) or self.nothing, size)


def _size(element: entries.Element) -> Size | None:
    sides = {side.tag: side.text for side in element.inside}
    texts = (sides.get("width", ""), sides.get("height", ""))
    try:
        return entries.size_of(*(cells.parse_number(t, schema.ColumnKind.FLOAT) for t in texts))
    except ValueError:
        return None


def _values(element: entries.Element, where: str) -> tuple[Any, ...]:
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
            for side in schema.BOX_SIDES
        ]
        flags = [
            label_files.number(
                _text(element, flag, where) or "0", f"{where}: <{flag}>", schema.ColumnKind.INT64
            )
            for flag in ("difficult", "truncated")
        ]
        return (*sides, boxes[0].line), name, *flags, _text(element, "pose", where) or "Unspecified"
    except label_files.BadLabelError as error:
        raise label_files.BadLabelError(str(error), element.line) from error


def _text(element: entries.Element, tag: str, where: str) -> str:
    """Returns the text of an element that may occur once; empty if it does not."""
    texts = [child.text.strip() for child in element.all(tag)]
    if len(texts) > 1:
        raise label_files.BadLabelError(f"{where} has {len(texts)} <{tag}>, expected one")
    return texts[0] if texts else ""


# --- layout --------------------------------------------------------------------------------------


class Voc(label_files.FolderLayout):
    """An XML file named like the image contains its objects and their boxes."""

    name = "voc"
    option_names = frozenset({"label_base", "label_order", "class_ids"})
    title = ".xml files of Pascal VOC"
    expected = (
        f"{IMAGES}/ and {_LABELS}/ (or a folder with several of these), images/ beside "
        "annotations/, or .xml files beside the images"
    )
    format = VocFormat()
    pattern, suffix = label_files.files_pattern(".xml"), ".xml"
    listed = LISTED

    def pairs(self, uri: str) -> list[label_files.FolderPair]:
        pairs = []
        for year in years(uri):
            labels = f"{year}/{_LABELS}"
            labels = labels if tree.has_folder(labels) else self._annotation_folder(year)
            pairs.append(label_files.FolderPair(f"{year}/{IMAGES}", labels, f"{year}/{_LISTS}"))
        if pairs:
            return pairs
        if posixpath.basename(uri).lower() in tree.IMAGE_FOLDERS and not self.first_files(uri):
            uri = posixpath.dirname(uri)
        if labels := self._annotation_folder(uri):
            here = tree.names_in(uri)
            images = [f for f in here.folders if posixpath.basename(f).lower() == "images"][:1]
            images = images or tree.folders_with_images(here, levels=2)
            if len(images) == 1:
                return [label_files.FolderPair(images[0], labels)]
        return [label_files.FolderPair(uri, uri)] if self.first_files(uri) else []

    def begins(self, head: bytes) -> bool:
        return _ROOT_ELEMENT.search(head) is not None

    def _annotation_folder(self, folder: str) -> str:
        """Finds the folder below whose XML files are annotations: annotations/, or the only one; else empty."""
        below = tree.subfolders(folder)
        named = [path for path in below if posixpath.basename(path).lower() == _LABELS.lower()]
        without_images = [path for path in below[:_FEW_FOLDERS] if not tree.names_in(path).images]
        for candidates in (named, without_images):
            annotated = list(filter(self.fits, candidates))
            if len(annotated) == 1:
                return annotated[0]
        return ""
