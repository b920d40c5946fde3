"""Samples as people look at them: read from an example, and drawn as tiles of a grid."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from beam_pipeline.core.dataset.manifest import Manifest
from beam_pipeline.core.errors import DamagedRecordError
from beam_pipeline.core.labels.schema import (
    BOX_SIDES,
    CELL_FILES,
    ENCODED_KEY,
    Column,
    ColumnKind,
    written_key,
)
from beam_pipeline.core.records.example_view import NO_VALUES, ExampleView
from beam_pipeline.core.report.markup import number, rect, text
from beam_pipeline.core.report.thumbnails import LARGE_SIDE, Thumbnail, mask_colour
from beam_pipeline.core.text import counted

MOST_BOXES = 100
_MOST_IN_LEGEND = 60
_PIXELATED = 64  # pixels; smaller thumbnails are shown larger
_ENLARGED = 96  # pixels
_COLOURS = (
    *("#ff3b30", "#34c759", "#0a84ff", "#ffcc00", "#ff2dd4", "#00d4d4", "#ff9500", "#b488ff"),
)
"""Of the first classes; other classes get hues far from each other."""
_MOST_VALUES = 4
_MOST_BESIDE = 3  # pictures
_MOST_BYTES = 200  # of a text
_SOURCE_ID = "image/source_id"
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
      image: the bytes of its image; empty if the example has none.
      mask: a PNG whose pixels are ids, or empty.
      labels: (name, values) of each label that is not one of objects.
      boxes: its boxes, the first `MOST_BOXES` of them.
      objects: number of its boxes.
      beside: the first few pictures of its columns.
    """

    key: str
    image: bytes = b""
    mask: bytes = b""
    labels: Sequence[tuple[str, str]] = ()
    boxes: Sequence[ShownBox] = ()
    objects: int = 0
    beside: Sequence[bytes] = ()


def shown_sample(
    record: bytes, columns: Sequence[Column], renames: Mapping[str, str]
) -> ShownSample | None:
    """Reads a serialized example, or None.

    Args:
      record: the example.
      columns: the label columns as in the manifest.
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
        beside=tuple(
            picture
            for column in columns
            if column.kind in CELL_FILES and column.kind is not ColumnKind.FILE
            for picture in values(f"{column.feature}/encoded")
        )[:_MOST_BESIDE],
    )


_MARK = "image/labelled"
_OBJECTS = "image/object/"
_PLAIN = {
    ColumnKind.CLASS: "/text",
    ColumnKind.INT64: "",
    ColumnKind.FLOAT: "",
    ColumnKind.BYTES: "",
    ColumnKind.JSON: "",
}
"""Kinds of columns that are shown as text -> the end of the feature's key."""


def _text(values: Sequence[Any]) -> str:
    more = f", and {len(values) - _MOST_VALUES} more" if len(values) > _MOST_VALUES else ""
    return ", ".join(map(_as_text, values[:_MOST_VALUES])) + more


def _as_text(value: Any) -> str:
    """A value as text; floats with the six digits of 32 bits."""
    if isinstance(value, bytes):
        return value[:_MOST_BYTES].decode(errors="replace")
    return f"{value:.6g}" if isinstance(value, float) else str(value)


# --- drawing --------------------------------------------------------------------------------------


class Tile(NamedTuple):
    """A sample of the grid; the thumbnail is None if its image cannot be drawn."""

    sample: ShownSample
    thumbnail: Thumbnail | None
    beside: Sequence[Thumbnail] = ()


def sample_grids(tiles: Mapping[str, Sequence[Tile]], manifest: Manifest) -> Iterator[str]:
    """Draws the samples of each split, with a colour for each class and a legend.

    Samples with boxes are drawn large. Rows are full: samples that would begin another are left out.
    """
    samples = [tile.sample for of_split in tiles.values() for tile in of_split]
    boxed = {box.name for sample in samples for box in sample.boxes}
    names = [entry.name for entry in manifest.classes if entry.name in boxed]
    names += sorted(boxed.difference(names))
    colours = {name: _colour(index) for index, name in enumerate(names)}
    legend = colours
    if not boxed and any(sample.mask for sample in samples):
        legend = _mask_legend(manifest)
    yield _legend(legend)
    for split, of_split in tiles.items():
        items = [f"{_picture(tile, colours)}{_caption(tile.sample)}" for tile in of_split]
        grid = tile_grid(items, 3 if boxed else 6, "large" if boxed else "")
        yield f"<h3>{text(split)}</h3>{grid}" if items else ""


def tile_grid(items: Sequence[str], columns: int, kind: str = "") -> str:
    """A grid of tiles whose rows are full on a wide and on a narrow screen; the last few may be left out.

    Args:
      items: the tiles, as HTML.
      columns: of a wide screen.
      kind: a further class of the list.
    """
    if len(items) < columns:
        columns = min(len(items), 4)
    in_full_rows = items[: len(items) // max(1, columns) * columns]
    tiles = "".join(f'<li class="tile">{item}</li>' for item in in_full_rows)
    return f'<ul class="tiles by{columns}{kind and f" {kind}"}">{tiles}</ul>'


def _colour(index: int) -> str:
    if index < len(_COLOURS):
        return _COLOURS[index]
    return f"hsl({index * 137.5 % 360:.0f},90%,{45 + index % 3 * 15}%)"


def _mask_legend(manifest: Manifest) -> dict[str, str]:
    """The colours of the classes that masks are drawn in; none where pixels are ids of objects."""
    keys = (key for key in _MASK_KEYS if written_key(key, manifest.renames) in manifest.features)
    if next(keys, _OBJECT_MASK) == _OBJECT_MASK:
        return {}
    return {entry.name: f"rgb{mask_colour(entry.id)}" for entry in manifest.classes if entry.id}


def _legend(colours: Mapping[str, str]) -> str:
    items = [
        f'<li><svg viewBox="0 0 1 1" aria-hidden="true"><rect width="1" height="1" fill="{colour}"/>'
        f"</svg>{text(name, 40)}</li>"
        for name, colour in colours.items()
        if name
    ]
    if len(items) > _MOST_IN_LEGEND:
        items[_MOST_IN_LEGEND:] = [f"<li>and {number(len(items) - _MOST_IN_LEGEND)} more</li>"]
    return (
        f'<ul class="legend" aria-label="Colours of classes">{"".join(items)}</ul>' if items else ""
    )


def _picture(tile: Tile, colours: Mapping[str, str]) -> str:
    sample, small, beside = tile
    if small is None:
        return '<span class="none">no picture</span>'
    boxes = _boxes_over(sample.boxes, small.width, small.height, colours) if sample.boxes else ""
    pictures = (framed(picture, f"beside {sample.key}") for picture in beside or ())
    return "".join((framed(small, sample.key, boxes, LARGE_SIDE if colours else 0), *pictures))


def framed(image: Thumbnail, key: str, over: str = "", side: int = 0) -> str:
    """A picture with what is drawn over it, enlarged until its longer side has `side` pixels."""
    longer = max(image.width, image.height)
    pixels = ' class="px"' if longer <= _PIXELATED else ""
    scale = max(1, max(side, _ENLARGED if pixels else 0) / longer)
    return (
        f'<span class="frame"><img{pixels} src="{image.uri}" width="{image.width * scale:.0f}" '
        f'height="{image.height * scale:.0f}" alt="Image {text(key)}"/>{over}</span>'
    )


def _boxes_over(
    boxes: Iterable[ShownBox], width: int, height: int, colours: Mapping[str, str]
) -> str:
    drawn = []
    for box in boxes:
        left, right = (min(1.0, max(0.0, side)) * width for side in (box.xmin, box.xmax))
        top, bottom = (min(1.0, max(0.0, side)) * height for side in (box.ymin, box.ymax))
        place = (left, top, max(0.0, right - left), max(0.0, bottom - top))
        drawn.append(rect("x", *place, text(box.name, 40), f' stroke="{colours[box.name]}"'))
    return (
        f'<svg viewBox="0 0 {width} {height}" preserveAspectRatio="none" aria-hidden="true">'
        f"{''.join(drawn)}</svg>"
    )


def _caption(sample: ShownSample) -> str:
    lines = [
        f"{text(value)}" if name == "class" else f"{text(name, 40)}: {text(value)}"
        for name, value in sample.labels[:8]
    ]
    if sample.boxes:
        names = sorted({box.name for box in sample.boxes})
        some = ", ".join(text(name, 30) for name in names[:4] if name)
        more = f" and {len(names) - 4} more" if len(names) > 4 else ""
        boxes = counted(sample.objects, "box/boxes")
        boxes = boxes.replace(str(sample.objects), number(sample.objects), 1)
        if sample.objects > MOST_BOXES:
            boxes += f", {MOST_BOXES} drawn"
        lines.append(f"{boxes}: {some}{more}" if some else boxes)
    return f"{'<br/>'.join(lines)}<small>{text(sample.key)}</small>"
