"""Features of COCO's objects and images besides boxes and classes, written on request.

    {"segmentation": [[x, y, x, y, ...], ...] or {"counts": ..., "size": [height, width]},
     "keypoints": [x, y, visibility, ...], "num_keypoints": 2, ...}

The names of key points are in the category. LVIS lists for each image the categories that were
looked for and not found. Sources: https://cocodataset.org/#format-data and
https://www.lvisdataset.org/dataset
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.images.masks import BadShapeError, check_shape
from beam_pipeline.core.labels.cells import BadCellError, parse_cell
from beam_pipeline.core.labels.schema import (
    Column,
    ColumnKind,
    further_column,
    group_column,
    keypoint_columns,
    mask_column,
    object_column,
)
from beam_pipeline.core.labels.tables import KIND_NAMES, SKIP_KIND
from beam_pipeline.core.listing.folders import FOLDER
from beam_pipeline.core.numbers import INT64, is_finite, is_integer
from beam_pipeline.core.references import LabelValue
from beam_pipeline.core.text import is_utf8, shown, some
from beam_pipeline.layouts.label_files import BadLabelError
from beam_pipeline.layouts.layout import SourceOptions

_NEGATIVE, _NOT_EXHAUSTIVE = "neg_category_ids", "not_exhaustive_category_ids"


@dataclass(frozen=True)
class Extras:
    """The features to read besides boxes and classes.

    Attributes:
      masks: True to read the outlines of objects.
      keypoints: the names of an object's key points, in order; empty to read none.
      negatives: True to read LVIS's lists of categories that are absent or not fully annotated.
      fields: columns of fields of images' entries, which have their names.
    """

    masks: bool = False
    keypoints: tuple[str, ...] = ()
    negatives: bool = False
    fields: tuple[Column, ...] = ()

    @property
    def columns(self) -> tuple[Column, ...]:
        """Their columns: those of objects first, then those of images."""
        columns: tuple[Column, ...] = ()
        if self.masks:
            columns = (mask_column(pixels=True),)
        if self.keypoints:
            text = object_column("keypoint/text", ColumnKind.BYTES)
            columns = (*columns, *keypoint_columns(pixels=True), text)
        if self.negatives:
            columns = (*columns, _category_ids(_NEGATIVE), _category_ids(_NOT_EXHAUSTIVE))
        return (*columns, *self.fields)

    def of_object(self, annotation: Mapping[str, Any]) -> tuple[Any, ...]:
        """Returns the values of an annotation, one per column of objects; points are flat.

        Raises:
          BadLabelError: an outline or key points are wrong.
        """
        values: list[Any] = []
        if self.masks:
            shape = annotation.get("segmentation")
            try:
                check_shape(shape)
            except BadShapeError as error:
                raise BadLabelError(f"segmentation {shown(shape)} is {error}") from error
            values.append(json.dumps(shape))
        if self.keypoints:
            values += self._points(annotation.get("keypoints"))
        return tuple(values)

    def _points(self, points: Any) -> tuple[Any, ...]:
        """Returns (x, y of all points, visibility of each, number of labelled points, names)."""
        if points is None:  # as crowds, and categories that have none
            points = [0] * (3 * len(self.keypoints))
        if not isinstance(points, list) or not all(map(is_finite, points)):
            raise BadLabelError(f"keypoints {shown(points)} are not a list of numbers")
        if len(points) != 3 * len(self.keypoints):
            raise BadLabelError(
                f"{len(points)} numbers of keypoints, expected x, y and visibility of "
                f"{len(self.keypoints)}"
            )
        visible = [int(flag) for flag in points[2::3]]
        coordinates = [
            float(value) for i in range(0, len(points), 3) for value in points[i : i + 2]
        ]
        return coordinates, visible, sum(flag > 0 for flag in visible), list(self.keypoints)

    def of_objects(self, rows: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
        """Returns the values of an image's objects, one tuple per column; points are concatenated."""
        width = self.masks + 4 * bool(self.keypoints)
        columns = list(zip(*rows, strict=True)) if rows else [()] * width
        return tuple(
            tuple(part for item in column for part in item)
            if column and isinstance(column[0], list)
            else tuple(column)
            for column in columns
        )

    def of_image(self, entry: Mapping[str, Any]) -> tuple[LabelValue, ...]:
        """Returns the values of an image's entry: lists of category ids, then those of its fields.

        Among category ids, a value that is not a list is empty.

        Raises:
          BadLabelError: the value of a field does not match its column's kind.
        """
        values: list[LabelValue] = []
        if self.negatives:
            lists = (entry.get(key) for key in (_NEGATIVE, _NOT_EXHAUSTIVE))
            values += [
                tuple(i for i in ids if is_integer(i) and i in INT64)
                if isinstance(ids, list)
                else ()
                for ids in lists
            ]
        for column in self.fields:
            value = entry.get(column.name)
            if isinstance(value, str) and not is_utf8(value):
                raise BadLabelError(f"field {column.name!r}: {shown(value)} is not a text")
            try:
                values.append(parse_cell(value, column))
            except BadCellError as error:
                raise BadLabelError(f"field {column.name!r}: {error}") from error
        return tuple(values)


NO_EXTRAS = Extras()


def _category_ids(name: str) -> Column:
    """Keys as TensorFlow's Object Detection API reads them."""
    return Column(name, ColumnKind.INT64, f"image/{name}", True, repeated=True)


def group_field(options: SourceOptions) -> str:
    """The field of images that --split_by names; empty if there is none."""
    return "" if options.split_by == FOLDER else options.split_by


def image_fields(
    options: SourceOptions, there: Mapping[str, Sequence[str]], columns: Sequence[Column]
) -> tuple[Column, ...]:
    """Returns a column for each field of images' entries that --columns or --split_by names.

        {"id": "a1", "file_name": "cam7/a1.jpg", "location": "cam7", "datetime": "2019-05-01 12:00:00"}

    The field of --split_by groups images; it is a feature, too, if --columns names it.

    Args:
      options: those given.
      there: URI of a file -> names of the fields of its first images.
      columns: the other columns.

    Raises:
      UsageError: the first images of no file have such a field, or another column has its name.
    """
    names = {column.name for column in columns}
    group = "" if options.split_by in names else group_field(options)
    wanted = {
        **dict.fromkeys(options.columns, "--columns"),
        **({group: "--split_by"} if group else {}),
    }
    fields = dict.fromkeys(name for own in there.values() for name in own)
    for name, option in wanted.items():
        if name in names:
            raise UsageError(
                f"{option} {name}: the layout coco has a column of this name, whose kind is fixed; "
                "leave it out"
            )
        if name not in fields:
            raise UsageError(
                f"{option} {name}: images in {some(list(there))} have no field {name!r}; found "
                f"{', '.join(fields) or 'no images'}"
            )
    written = tuple(
        further_column(name, KIND_NAMES[kind])
        for name, kind in options.columns.items()
        if kind != SKIP_KIND
    )
    if not group or any(column.name == group for column in written):
        return written
    return (*written, group_column(group))
