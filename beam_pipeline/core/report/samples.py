"""Samples as people look at them: what a report shows of an example."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from beam_pipeline.core.errors import DamagedRecordError
from beam_pipeline.core.labels.schema import (
    BOX_SIDES,
    ENCODED_KEY,
    Column,
    ColumnKind,
    written_key,
)
from beam_pipeline.core.records.example_view import NO_VALUES, ExampleView

MOST_BOXES = 100
_MOST_VALUES = 4
_MOST_BYTES = 200  # of a text
_SOURCE_ID = "image/source_id"
_MASK_KEYS = (
    "image/segmentation/class/encoded",
    "image/segmentation/object/encoded",
    "image/panoptic/category_mask",
)


class ShownBox(NamedTuple):
    """A box: its sides as fractions of the image, and the name of its class or nothing."""

    xmin: float
    ymin: float
    xmax: float
    ymax: float
    name: str


class ShownSample(NamedTuple):
    """A sample as people look at it.

    Attributes:
      key: identifies it.
      image: the bytes of its image; empty if the example has none.
      mask: a PNG whose pixels are ids; empty if there is none.
      labels: (name, values) of each label that is not one of objects.
      boxes: its boxes, the first `MOST_BOXES` of them.
      objects: number of its boxes.
    """

    key: str
    image: bytes = b""
    mask: bytes = b""
    labels: Sequence[tuple[str, str]] = ()
    boxes: Sequence[ShownBox] = ()
    objects: int = 0


def shown_sample(
    record: bytes, columns: Sequence[Column], renames: Mapping[str, str]
) -> ShownSample | None:
    """Reads a serialized example; None if it is none.

    Args:
      record: the example.
      columns: the label columns, as the manifest has them.
      renames: written key -> standard key.
    """
    try:
        features = ExampleView(record, "")
    except DamagedRecordError:
        return None

    def values(key: str) -> Sequence[Any]:
        written = written_key(key, renames)
        return features.get(written, NO_VALUES).values if written else ()

    def first(key: str) -> bytes:
        value = next(iter(values(key)), b"")
        return value if isinstance(value, bytes) else b""

    labels = []
    for column in columns:
        if column.feature == _MARK:
            labels += [("class", "unlabelled")] if values(_MARK)[:1] == [0] else []
        elif column.kind in _PLAIN and not (
            column.repeated and column.feature.startswith(_OBJECTS)
        ):
            label = values(f"{column.feature}{_PLAIN[column.kind]}")
            if column.kind is ColumnKind.CLASS and not label:
                label = values(f"{column.feature}/label")
            if label:  # `class` for `image/class`, `colour` for `label/colour`
                labels.append((column.feature.rpartition("/")[2], _text(label)))
    key = next((column.feature for column in columns if column.kind is ColumnKind.BOX), "")
    boxes: list[ShownBox] = []
    sides = [values(f"{key}/{side}") for side in BOX_SIDES] if key else [()]
    if key:
        names = [_as_text(name) for name in values("image/object/class/text")[:MOST_BOXES]]
        names += [""] * (MOST_BOXES - len(names))
        boxes = [ShownBox(*box) for box in zip(*sides, names, strict=False)]
    return ShownSample(
        key=_as_text(first(_SOURCE_ID)),
        image=first(ENCODED_KEY),
        mask=next(filter(None, map(first, _MASK_KEYS)), b""),
        labels=tuple(labels),
        boxes=tuple(boxes),
        objects=len(sides[0]),
    )


_MARK = "image/labelled"
_OBJECTS = "image/object/"
_PLAIN = {
    ColumnKind.CLASS: "/text",
    ColumnKind.INT64: "",
    ColumnKind.FLOAT: "",
    ColumnKind.BYTES: "",
}
"""Kinds of columns that are shown as text -> the end of the feature's key."""


def _text(values: Sequence[Any]) -> str:
    more = f", and {len(values) - _MOST_VALUES} more" if len(values) > _MOST_VALUES else ""
    return ", ".join(map(_as_text, values[:_MOST_VALUES])) + more


def _as_text(value: Any) -> str:
    """A value as text; floats with the six digits that 32 bits hold."""
    if isinstance(value, bytes):
        return value[:_MOST_BYTES].decode(errors="replace")
    return f"{value:.6g}" if isinstance(value, float) else str(value)
