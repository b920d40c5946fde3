"""Samples as people look at them: read from an example, and drawn as tiles of a grid."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, starmap
from typing import Any, NamedTuple

from beam_pipeline.core.dataset.manifest import Manifest
from beam_pipeline.core.errors import DamagedRecordError
from beam_pipeline.core.labels import schema
from beam_pipeline.core.labels.schema import Column, ColumnKind, written_key
from beam_pipeline.core.records.example_view import NO_VALUES, ExampleView
from beam_pipeline.core.report.markup import Html, grouped, html, joined, rect, text
from beam_pipeline.core.report.thumbnails import LARGE_SIDE, SIDE, Thumbnail, mask_colour, thumbnail

MOST_BOXES = 100
_MOST_IN_LEGEND = 60
_PIXELATED = 64  # pixels; smaller thumbnails are shown larger
_ENLARGED = 96  # pixels
_COLOURS = ["#ff3b30", "#34c759", "#0a84ff", "#ffcc00", "#ff2dd4", "#00d4d4", "#ff9500", "#b488ff"]
"""Of the first classes; other classes get hues far from each other."""
_MOST_VALUES = 4
_MOST_BESIDE = 3  # pictures
_MOST_BYTES = 200  # of a text
_OBJECT_MASK = "image/segmentation/object/encoded"
_MASK_KEYS = ("image/segmentation/class/encoded", _OBJECT_MASK, "image/panoptic/category_mask")


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
      picture: of its image, with its mask drawn over it; None if it has none that can be drawn.
      labels: (name, values) of each label that is not one of objects.
      boxes: its boxes, the first `MOST_BOXES` of them.
      objects: number of its boxes.
      beside: the first few pictures of its columns.
    """

    key: str
    picture: Thumbnail | None = None
    labels: Sequence[tuple[str, str]] = ()
    boxes: Sequence[ShownBox] = ()
    objects: int = 0
    beside: Sequence[Thumbnail] = ()


def shown_sample(
    record: bytes,
    columns: Sequence[Column],
    renames: Mapping[str, str],
    draw: Callable[..., Thumbnail | None] = thumbnail,
) -> ShownSample | None:
    """Reads a serialized example, or None.

    Args:
      record: the example.
      columns: the label columns as in the manifest.
      renames: written key -> standard key.
      draw: makes the pictures.
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

    labels: list[tuple[str, str]] = []
    pictures: list[bytes] = []
    sides: list[Sequence[float]] = [()]
    for column in columns:
        kind, key = column.kind, column.feature
        if key == _MARK:
            labels += [("class", "unlabelled")] if values(_MARK)[:1] == [0] else []
        elif kind in _PLAIN and not (column.repeated and key.startswith(_OBJECTS)):
            end = "/text" if kind is ColumnKind.CLASS else ""
            label = values(key + end) or (values(f"{key}/label") if end else ())
            if label:  # `class` for `image/class`, `colour` for `label/colour`
                more = f", and {len(label) - _MOST_VALUES} more"
                few = ", ".join(map(_as_text, label[:_MOST_VALUES]))
                labels.append((key.rpartition("/")[2], few + more * (len(label) > _MOST_VALUES)))
        elif kind is ColumnKind.BOX and len(sides) == 1:  # the first: KITTI has regions to ignore
            sides = [values(f"{key}/{side}") for side in schema.BOX_SIDES]
        elif kind in schema.CELL_FILES and kind is not ColumnKind.FILE:
            pictures += values(f"{key}/encoded")
    names = [*map(_as_text, values("image/object/class/text")), *[""] * len(sides[0])]
    image, mask = first(schema.ENCODED_KEY), next(filter(None, map(first, _MASK_KEYS)), b"")
    side = LARGE_SIDE if len(sides[0]) else SIDE
    return ShownSample(
        key=_as_text(first("image/source_id")),
        picture=draw(image, mask, side) if image else None,
        labels=tuple(labels),
        boxes=tuple(islice(starmap(ShownBox, zip(*sides, names, strict=False)), MOST_BOXES)),
        objects=len(sides[0]),
        beside=tuple(filter(None, map(draw, pictures[:_MOST_BESIDE]))),
    )


_MARK = "image/labelled"
_OBJECTS = "image/object/"
_PLAIN = frozenset(
    [ColumnKind.CLASS, ColumnKind.INT64, ColumnKind.FLOAT, ColumnKind.BYTES, ColumnKind.JSON]
)
"""Kinds of columns that are shown as text."""


def _as_text(value: Any) -> str:
    """A value as text; floats with the six digits of 32 bits."""
    if isinstance(value, bytes):
        return value[:_MOST_BYTES].decode(errors="replace")
    return f"{value:.6g}" if isinstance(value, float) else str(value)


# --- drawing --------------------------------------------------------------------------------------


def sample_grids(
    of_splits: Mapping[str, Sequence[ShownSample]], manifest: Manifest
) -> Iterator[Html]:
    """Draws the samples of each split, with a colour for each class and a legend.

    Samples with boxes are drawn large. Rows are full: samples that would begin another are left out.
    """
    samples = [sample for of_split in of_splits.values() for sample in of_split]
    boxed = {box.name for sample in samples for box in sample.boxes}
    names = [entry.name for entry in manifest.classes if entry.name in boxed]
    names += sorted(boxed.difference(names))
    colours = {name: _colour(index) for index, name in enumerate(names)}
    legend = colours
    if samples and not boxed:
        keys = (
            key for key in _MASK_KEYS if written_key(key, manifest.renames) in manifest.features
        )
        if next(keys, _OBJECT_MASK) != _OBJECT_MASK:  # whose pixels are ids of objects
            ids = {entry.name: entry.id for entry in manifest.classes if entry.id}
            legend = {name: f"rgb{mask_colour(number)}" for name, number in ids.items()}
    yield _legend(legend)
    for split, of_split in of_splits.items():
        items = [html("{}{}", _picture(sample, colours), _caption(sample)) for sample in of_split]
        grid = tile_grid(items, 3 if boxed else 6, "large" if boxed else "")
        yield html("<h3>{}</h3>{}", split, grid) if items else Html("")


def tile_grid(items: Sequence[Html], columns: int, kind: str = "") -> Html:
    """A grid of tiles whose rows are full on a wide and on a narrow screen; the last few may be left out.

    Args:
      items: the tiles.
      columns: of a wide screen.
      kind: a further class of the list.
    """
    if len(items) < columns:
        columns = min(len(items), 4)
    in_full_rows = items[: len(items) // max(1, columns) * columns]
    tiles = joined(html('<li class="tile">{}</li>', item) for item in in_full_rows)
    return html('<ul class="tiles by{}{}">{}</ul>', columns, kind and f" {kind}", tiles)


def _colour(index: int) -> str:
    if index < len(_COLOURS):
        return _COLOURS[index]
    return f"hsl({index * 137.5 % 360:.0f},90%,{45 + index % 3 * 15}%)"


def _legend(colours: Mapping[str, str]) -> Html:
    items = [
        html(
            '<li><svg viewBox="0 0 1 1" aria-hidden="true"><rect width="1" height="1" fill="{}"/></svg>{}</li>',
            colour,
            text(name, 40),
        )
        for name, colour in colours.items()
        if name
    ]
    if len(items) > _MOST_IN_LEGEND:
        items[_MOST_IN_LEGEND:] = [html("<li>and {} more</li>", len(items) - _MOST_IN_LEGEND)]
    legend = html('<ul class="legend" aria-label="Colours of classes">{}</ul>', joined(items))
    return legend if items else Html("")


def _picture(sample: ShownSample, colours: Mapping[str, str]) -> Html:
    small = sample.picture
    if small is None:
        return Html('<span class="none">no picture</span>')
    drawn = []
    for box in sample.boxes:
        left, top, right, bottom = (1000 * min(1.0, max(0.0, side)) for side in box[:4])
        place = (left, top, max(0.0, right - left), max(0.0, bottom - top))
        stroke = html(' stroke="{}"', colours[box.name])
        drawn.append(rect("x", place, text(box.name, 40), stroke))
    boxes = html(
        '<svg viewBox="0 0 1000 1000" preserveAspectRatio="none" aria-hidden="true">{}</svg>',
        joined(drawn),
    )
    own = framed(small, sample.key, boxes if drawn else "", LARGE_SIDE if colours else 0)
    return joined((own, *(framed(picture, f"beside {sample.key}") for picture in sample.beside)))


def framed(image: Thumbnail, key: str, over: object = "", side: int = 0) -> Html:
    """A picture with what is drawn over it, enlarged until its longer side has `side` pixels."""
    longer = max(image.width, image.height)
    pixels = ' class="px"' if longer <= _PIXELATED else ""
    scale = max(1, max(side, _ENLARGED if pixels else 0) / longer)
    return html(
        '<span class="frame"><img{} src="{}" width="{}" height="{}" alt="Image {}"/>{}</span>',
        *(Html(pixels), Html(image.uri)),
        *(f"{image.width * scale:.0f}", f"{image.height * scale:.0f}", key, over),
    )


def _caption(sample: ShownSample) -> Html:
    lines = [
        text(value) if name == "class" else html("{}: {}", text(name, 40), value)
        for name, value in sample.labels[:8]
    ]
    if sample.boxes:
        names = sorted({box.name for box in sample.boxes})
        some = joined((text(name, 30) for name in names[:4] if name), ", ")
        more = f" and {len(names) - 4} more" if len(names) > 4 else ""
        boxes = grouped(sample.objects, "box/boxes")
        if sample.objects > MOST_BOXES:
            boxes += f", {MOST_BOXES} drawn"
        lines.append(html("{}: {}{}", boxes, some, more) if some else text(boxes))
    return html("{}<small>{}</small>", joined(lines, "<br/>"), sample.key)
