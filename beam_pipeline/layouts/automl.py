"""AutoML Vision's CSV: no header, one row per image with its classes, or per object with its box.

    TRAIN,gs://bucket/a.jpg,daisy
    TEST,gs://bucket/b.jpg,daisy,rose
    VALIDATION,gs://bucket/c.jpg,car,0.1,0.2,,,0.5,0.6,,
    UNASSIGNED,gs://bucket/d.jpg,car,0.1,0.2,0.5,0.2,0.5,0.6,0.1,0.6

A box has two vertices, x_min, y_min and x_max, y_max, or four; then it is the smallest rectangle
around them. Coordinates are fractions of the image. The set may be omitted. Source:
https://cloud.google.com/vision/automl/docs/prepare and
https://cloud.google.com/vision/automl/object-detection/docs/csv-format
"""

from __future__ import annotations

import io
import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, BinaryIO, NamedTuple

from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.core.labels.table_files import encoding_of
from beam_pipeline.core.labels.table_rows import TableHead, csv_records
from beam_pipeline.core.listing.filters import IMAGE_EXTENSIONS, ImageRoot
from beam_pipeline.core.text import excerpt
from beam_pipeline.core.uris import is_remote
from beam_pipeline.layouts.entries import Labelled, LabelledObject
from beam_pipeline.layouts.heads import allow_long_cells, first_line, head
from beam_pipeline.layouts.image_records import RecordLayout
from beam_pipeline.layouts.label_files import BadLabelError, number
from beam_pipeline.layouts.layout import FileLabels, Source, SourceOptions

SETS = {
    "TRAIN": "train",
    "TRAINING": "train",
    "VALIDATION": "validation",
    "VALIDATE": "validation",
    "TEST": "test",
    "UNASSIGNED": "",
    "": "",
}
"""Words of the first cell, in upper case -> the split; empty if the row gives none."""
_COORDINATES = 8  # four vertices
_AROUND_THE_IMAGE = 0.5  # how far outside [0, 1] a number still looks like a coordinate


@dataclass(frozen=True)
class Automl(RecordLayout):
    """Rows contain set, image and classes, or set, image, class and box.

    Attributes:
      boxes: True if a row is an object with its box, False if it is an image with its classes.
    """

    name = "automl"
    title = "AutoML's CSV"
    expected = "rows such as TRAIN,gs://bucket/a.jpg,label, and no header"
    extensions = ()  # only files of --labels are looked into
    pixels = False
    option_names = frozenset({"list_column", "label_base", "label_order", "class_ids"})
    boxes: bool = False

    def _fits(self, uri: str) -> bool:
        beginning = first_line(uri)
        return beginning is not None and is_automl(beginning)

    def entries(self, file: BinaryIO, uri: str) -> Iterator[tuple[int, Any]]:
        """Yields the parts of each row, or what is wrong with it."""
        allow_long_cells()
        encoding = encoding_of(file.read(2))
        file.seek(0)
        for line, cells, problem in csv_records(file, encoding, ",", uri):
            yield line, problem or _row(cells)

    def image_name(self, entry: Any) -> str:
        if isinstance(entry, str):
            raise BadLabelError(entry)
        return str(entry.name)

    def labelled(self, entry: Any) -> Labelled:
        split, _, rest = entry
        if split not in SETS.values():
            expected = "TRAIN, VALIDATION, TEST or UNASSIGNED"
            raise BadLabelError(f"{split!r} names no set; expected {expected}")
        if self.boxes:
            return Labelled([_object(rest)] if rest else (), split=split)
        if len(rest) > 4 and _has_box(rest):
            raise BadLabelError("a box, in a file whose beginning has none")
        classes = tuple(dict.fromkeys(filter(None, rest)))
        return Labelled(fields={"label": classes or ("",)}, split=split)

    def source(
        self, options: SourceOptions, uris: Sequence[str], roots: tuple[ImageRoot, ...]
    ) -> Source:
        """Finds out by the first rows whether they have boxes, and images several classes."""
        heads = (self.entries(io.BytesIO(head(uri).data), uri) for uri in uris)
        rests = [row.rest for rows in heads for _, row in rows if isinstance(row, _Row)]
        form = replace(self, boxes=any(map(_has_box, rests)))
        if not form.boxes and any(len(set(filter(None, rest))) > 1 for rest in rests):
            options = replace(options, list_column={"label": ",", **options.list_column})
        source = super(Automl, form).source(options, uris, roots)
        labels: Any = source.labels
        reader = replace(labels.reader, splits={})  # names of files give none
        return replace(source, labels=FileLabels(reader, labels.files, merge_rows=form.boxes))


# --- rows ----------------------------------------------------------------------------------------


class _Row(NamedTuple):
    """The parts of a row.

    Attributes:
      split: the split; empty if the row gives none.
      name: the name of the image.
      rest: the cells after the name, without empty ones at the end.
    """

    split: str
    name: str
    rest: Sequence[str]


def open_as_table(options: SourceOptions, names: frozenset[str], uri: str) -> Source:
    """The source of a file that a user calls a table, with none of its options. Raises LabelTableError."""
    note = f"{uri} has no header: its first line is a set and an image, as AutoML has it"
    for name in sorted(names - Automl.option_names):
        if getattr(options, name) != getattr(SourceOptions(()), name):
            raise LabelTableError(f"--{name} means nothing: {note}")
    source = Automl().open(options)
    return replace(source, notes=(note, *source.notes))


def is_automl(table: TableHead) -> bool:
    """True if a file begins with an AutoML row: a set and an image, or an image's URI."""
    for _, cells, problem in csv_records(io.BytesIO(table.data), encoding_of(table.data), ","):
        first, second = (*(cell.strip() for cell in cells), "", "")[:2]
        in_a_set = first.upper() in SETS and _is_image(second)
        return not problem and (in_a_set or is_remote(first))
    return False


def _row(cells: Sequence[str]) -> _Row | str:
    """The parts of a row, or its text if it names no image; a first cell that is not a known set is used as the split's name."""
    cells = [cell.strip() for cell in cells]
    while cells and not cells[-1]:
        cells.pop()
    word, name = (*cells, "", "")[:2]
    split = SETS.get(word.upper())
    if split is None and _is_image(word):
        return _Row("", word, cells[1:])
    if not name or (split is None and not _is_image(name)):
        return excerpt(",".join(cells))
    return _Row(word if split is None else split, name, cells[2:])


def _is_image(text: str) -> bool:
    return is_remote(text) or posixpath.splitext(text)[1].lower() in IMAGE_EXTENSIONS


def _has_box(rest: Sequence[str]) -> bool:
    """True if the label is followed by two or four vertices, not by further labels."""
    try:
        vertices = _vertices(rest[1:])
    except BadLabelError:
        return False
    sides = [side for vertex in vertices for side in vertex]
    return bool(sides) and all(abs(side - 0.5) <= 0.5 + _AROUND_THE_IMAGE for side in sides)


def _object(rest: Sequence[str]) -> LabelledObject:
    """The object of a label and its box."""
    vertices = _vertices(rest[1:])
    if not vertices or not rest[0]:
        raise BadLabelError(f"{excerpt(rest)}: expected a label and its box, as in other rows")
    across, down = zip(*vertices, strict=True)
    if len(vertices) == 4:  # of two, the box is as written, so that an inverted box is detected
        across, down = (min(across), max(across)), (min(down), max(down))
    return LabelledObject(rest[0], (across[0], down[0], across[1], down[1]))


def _vertices(cells: Sequence[str]) -> list[tuple[float, float]]:
    """The vertices of a box: none, two or four."""
    every = zip_longest(cells[::2], cells[1::2], fillvalue="")
    pairs = [(x, y) for x, y in every if x or y]
    if len(pairs) not in (0, 2, 4) or len(cells) > _COORDINATES:
        raise BadLabelError(f"{excerpt(cells)}: expected 2 or 4 vertices of a box")
    return [(number(x, "a coordinate"), number(y, "a coordinate")) for x, y in pairs]
