"""COCO's panoptic segmentation: a JSON file and, beside it, a folder with a PNG for each image.

    {"images": [{"id": 139, "file_name": "000000000139.jpg", ...}, ...],
     "annotations": [{"image_id": 139, "file_name": "000000000139.png", "segments_info": [
         {"id": 3226956, "category_id": 1, "bbox": [x, y, width, height], "area": 2840,
          "iscrowd": 0}, ...]}, ...],
     "categories": [{"id": 1, "name": "person", "isthing": 1}, ...]}

A pixel of a PNG is the id of its segment: R + 256 G + 65536 B, and 0 for none. The PNGs of
panoptic_val2017.json are in panoptic_val2017/. Source: https://cocodataset.org/#format-data
"""

from __future__ import annotations

import functools
import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import LabelTableError, UsageError
from beam_pipeline.core.labels.classes import ClassNumbering
from beam_pipeline.core.labels.schema import (
    Column,
    ColumnKind,
    further_column,
    panoptic_column,
)
from beam_pipeline.core.records.example_source import LabelledImages
from beam_pipeline.core.references import LabelRow, LabelValue
from beam_pipeline.core.text import shown, some
from beam_pipeline.layouts.coco.extras import BadAnnotationError
from beam_pipeline.layouts.coco.instances import (
    Image,
    ImageEntries,
    annotation_name,
    bad_row,
    is_id,
    is_text,
    parse_categories,
    parse_object,
    read_lists,
)
from beam_pipeline.layouts.coco.json_file import first_value
from beam_pipeline.layouts.coco.layout import common_categories, image_folder, split_of
from beam_pipeline.layouts.coco.opening import opened
from beam_pipeline.layouts.layout import FileLabels, Source, SourceOptions
from beam_pipeline.layouts.shared.paths import image_roots, label_files
from beam_pipeline.storage import files

_BEGINNING, _JSON = "panoptic_", ".json"
_IMAGES, _ANNOTATIONS, _CATEGORIES = "images", "annotations", "categories"


def _segments(name: str, kind: ColumnKind) -> Column:
    return Column(name, kind, f"image/panoptic/{name}", True, repeated=True)


COLUMNS = (
    panoptic_column(),
    Column("bbox", ColumnKind.BOX, "image/panoptic/bbox", True, repeated=True, pixels=True),
    Column("class", ColumnKind.CLASS, "image/panoptic/class", True, repeated=True),
    _segments("area", ColumnKind.FLOAT),
    _segments("is_crowd", ColumnKind.INT64),
    _segments("id", ColumnKind.INT64),
    further_column("image_id", ColumnKind.BYTES),
)
"""Of each image its mask; of each segment its box, class, area in pixels, whether it is a crowd, and its
id; and the image's id as text."""

_NOTHING: tuple[LabelValue, ...] = (None, *((),) * (len(COLUMNS) - 2), None)


class _Mask(NamedTuple):
    """Attributes: name of the file; (id, category, box, area, crowd) of each segment; problem."""

    name: str
    segments: tuple[tuple[int, int, tuple[float, ...], float, int], ...]
    problem: str = ""


@dataclass(frozen=True)
class PanopticReader:
    """Reads a file of many images and the segments of their masks.

    Attributes:
      masks: URI of a file -> the folder of its PNGs.
      splits: URI of a file -> the split of its images.
      folders: URI of a file -> the folder that its images lie in, where that is known.
    """

    masks: Mapping[str, str]
    splits: Mapping[str, str]
    folders: Mapping[str, str]

    def read(self, file: BinaryIO, uri: str) -> Iterator[LabelRow | DeadLetter]:
        """Yields a row for each image of a file. The PNGs are listed, and none is opened.

        Raises:
          LabelTableError: the file is broken.
        """
        images = ImageEntries()
        masks: dict[Any, _Mask] = {}
        categories: dict[int, str] = {}
        for key, entries in read_lists(file, uri, (_IMAGES, _ANNOTATIONS, _CATEGORIES)):
            if key == _IMAGES:
                images.read(entries, uri)
            elif key == _CATEGORIES:
                categories = parse_categories(list(entries), uri)
            else:
                for number, entry in enumerate(entries, 1):
                    fields = entry if isinstance(entry, dict) else {}
                    image_id = fields.get("image_id")
                    if not is_id(image_id):
                        what = f"annotation number {number} of the list"
                        problem = f"is {shown(entry)}, expected an object with an image_id"
                        images.dead_letters.append(bad_row(what, problem, uri))
                        continue
                    mask = _parse_mask(fields, number)
                    if image_id in masks:
                        mask = mask._replace(problem="the image has two masks, expected one")
                    masks[image_id] = mask
        yield from images.dead_letters
        folder = self.masks[uri]
        there = files.files_in(folder)
        for image in images.images:
            if image.id not in masks:
                continue  # without a row, an image is unlabelled
            mask = masks[image.id]
            problem = images.problem(image) or mask.problem or _unknown(mask, categories)
            found = there.get(mask.name)
            if not problem and found is None:
                problem = f"its mask {mask.name} is not in {folder}"
            values = _NOTHING
            if not problem and found is not None:
                place = (files.join(folder, mask.name), found.size, found.version)
                values = _values(mask, place, categories, image)
            folder_of_images = self.folders.get(uri, "")
            split = self.splits.get(uri, "")
            yield image.row(values, problem, split=split, folder=folder_of_images, uri=uri)
        named = {image_id: f"mask {mask.name!r}" for image_id, mask in masks.items()}
        yield from images.missing(named, uri)


def _parse_mask(fields: Mapping[str, Any], number: int) -> _Mask:
    """The mask that an annotation describes; what is wrong with it is its problem."""
    what, name, infos = (
        annotation_name(fields, number),
        fields.get("file_name"),
        fields.get("segments_info"),
    )
    if not is_text(name):
        return _Mask("", (), f"{what}: file_name {shown(name)} is no text")
    if not isinstance(infos, list) or not all(isinstance(info, dict) for info in infos):
        return _Mask(name, (), f"{what}: segments_info is no list of objects")
    try:
        return _Mask(name, tuple(map(parse_object, infos)))
    except BadAnnotationError as error:
        return _Mask(name, (), f"{what}: a segment's {error}")


def _unknown(mask: _Mask, categories: Mapping[int, str]) -> str:
    for segment, category, *_ in mask.segments:
        if category not in categories:
            return f"segment {segment}: category_id {category} is not among the {_CATEGORIES}"
    return ""


def _values(
    mask: _Mask, place: tuple[str, int, int], categories: Mapping[int, str], image: Image
) -> tuple[LabelValue, ...]:
    ids, of, boxes, areas, crowds = zip(*mask.segments, strict=True) if mask.segments else ((),) * 5
    return (
        (*place, tuple(zip(ids, of, crowds, strict=True))),
        tuple((*box, 0) for box in boxes),
        tuple(categories[category] for category in of),
        areas,
        crowds,
        ids,
        str(image.id),
    )


class CocoPanoptic:
    """JSON files of COCO's panoptic segmentation, and PNGs of segments."""

    name = "coco_panoptic"
    option_names: frozenset[str] = frozenset({"masks"})

    def recognise(self, options: SourceOptions) -> str:
        """--labels panoptic_*.json."""
        names = [posixpath.basename(path) for path in options.labels]
        if not names or not all(n.startswith(_BEGINNING) and n.endswith(_JSON) for n in names):
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
                f"--layout {self.name} needs --labels: COCO's {_BEGINNING}*{_JSON}, with its PNGs in a "
                "folder of the same name beside it"
            )
        if len(options.masks) > 1:
            raise UsageError("--masks: expected the one folder of the PNGs of all files")
        uris = label_files(options.labels)
        roots = image_roots(options.images, frozenset(uris))
        given = files.canonical(options.masks[0]) if options.masks else ""
        categories = common_categories({uri: _categories(uri) for uri in uris})
        folder_of = functools.partial(image_folder, roots=roots, beginnings=(_BEGINNING,))
        reader = PanopticReader(
            {uri: given or posixpath.splitext(uri)[0] for uri in uris},
            {uri: split for uri in uris if (split := split_of(uri))},
            {uri: folder for uri in uris if (folder := folder_of(uri))},
        )
        return Source(
            self.name,
            roots,
            FileLabels(reader, tuple(uris)),
            LabelledImages(COLUMNS),
            ClassNumbering(known=tuple((name, i) for i, name in sorted(categories.items()))),
        )


def _categories(uri: str) -> Mapping[int, str]:
    with opened(uri) as file:
        found = first_value(file, _CATEGORIES)
    if not found or not isinstance(found[0], list):
        raise LabelTableError(f"{uri} has no list of {_CATEGORIES}, as COCO's files have")
    return parse_categories(found[0], uri)
