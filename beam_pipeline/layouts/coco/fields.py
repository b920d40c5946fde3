"""Fields of images' entries that become features or keep images together, as the options ask for.

{"id": "a1", "file_name": "cam7/a1.jpg", "location": "cam7", "datetime": "2019-05-01 12:00:00"}
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

from beam_pipeline.core.dataset.splits import FOLDER
from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.labels.schema import Column, further_column, group_column
from beam_pipeline.core.labels.tables import KIND_NAMES, SKIP_KIND
from beam_pipeline.core.text import some
from beam_pipeline.layouts.coco.json_file import values_at
from beam_pipeline.layouts.coco.opening import opened
from beam_pipeline.layouts.layout import SourceOptions

_LOOKED_AT = 1000  # images of each file


def image_fields(
    options: SourceOptions, uris: Sequence[str], columns: Sequence[Column]
) -> tuple[Column, ...]:
    """Returns a column for each field that --columns or --split_by names.

    The field of --split_by groups images; it is a feature, too, if --columns names it.

    Args:
      options: those given.
      uris: the files.
      columns: the other columns.

    Raises:
      UsageError: the first images of no file have such a field, or another column has its name.
    """
    names = {column.name for column in columns}
    group = options.split_by if options.split_by not in (*names, FOLDER) else ""
    wanted = {
        **dict.fromkeys(options.columns, "--columns"),
        **({group: "--split_by"} if group else {}),
    }
    if not wanted:
        return ()
    there = _fields_of(uris)
    for name, option in wanted.items():
        if name in names:
            raise UsageError(
                f"{option} {name}: the layout coco has a column of this name, whose kind is fixed; "
                "leave it out"
            )
        if name not in there:
            raise UsageError(
                f"{option} {name}: images in {some(uris)} have no field {name!r}; found "
                f"{', '.join(there) or 'no images'}"
            )
    written = tuple(
        further_column(name, KIND_NAMES[kind])
        for name, kind in options.columns.items()
        if kind != SKIP_KIND
    )
    if not group or any(column.name == group for column in written):
        return written
    return (*written, group_column(group))


def _fields_of(uris: Sequence[str]) -> list[str]:
    """Returns the names of the fields of the first images of all files."""
    names: dict[str, None] = {}
    for uri in uris:
        for image in _first_images(uri):
            if isinstance(image, dict):
                names.update(dict.fromkeys(image))
    return list(names)


def _first_images(uri: str) -> list[Any]:
    with opened(uri) as file:
        return list(islice(values_at(file, "images.item"), _LOOKED_AT))
