"""The features of an example: for each its key, kind and shape, and the writer of its values.

Features that every image has stand in the table `IMAGE_FEATURES`; a new one is a line there. Those
that come from labels follow from the columns (`column_features`). The manifest describes both
(`feature_kinds`) and `SampleEncoder` writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

from beam_pipeline.core.images.header import UPRIGHT, ImageHeader
from beam_pipeline.core.images.masks import mask_png
from beam_pipeline.core.labels.boxes import box_fractions
from beam_pipeline.core.labels.schema import (
    ENCODED_KEY,
    FILE_KINDS,
    Column,
    ColumnKind,
    written_key,
)
from beam_pipeline.core.records.wire import (
    LIST_ENTRIES,
    bytes_entry,
    float_entry,
    int64_entry,
    value_prefixes,
)
from beam_pipeline.core.references import SampleRef

Writer = Callable[[SampleRef, ImageHeader, bytes], bytes]
"""(sample, header, image) -> one feature's entry in the map; empty if the sample does not have it."""

WriterMaker = Callable[[str], Writer]
"""Makes the writer of a feature, given the key to write it under."""

_CACHED_ENTRIES = 4096

_Key = TypeVar("_Key")


@dataclass(frozen=True)
class Feature:
    """One feature of the examples of a data set.

    Attributes:
      key: its standard key.
      kind: the kind of its list: "bytes", "float" or "int64".
      writer: makes the writer of its values; None for the image, which `SampleEncoder` itself
        writes so that its bytes are never copied.
      optional: whether some examples lack it.
      repeated: whether it is a list of any length; else it is one value.
      pixels: of an image whose pixels are ids, their type; else empty.
    """

    key: str
    kind: str
    writer: WriterMaker | None
    optional: bool = False
    repeated: bool = False
    pixels: str = ""

    @property
    def described(self) -> dict[str, Any]:
        """Its description in the manifest: the shape is [] for one value, [None] for a list."""
        return {
            "kind": self.kind,
            "optional": self.optional,
            "shape": [None] if self.repeated else [],
            **({"pixels": self.pixels} if self.pixels else {}),
        }


class _Cache(dict[_Key, bytes]):
    """Entries of one key that recur from sample to sample: sizes, formats, classes."""

    def __init__(self, make: Callable[[_Key], bytes]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, value: _Key) -> bytes:
        if len(self) >= _CACHED_ENTRIES:
            self.clear()
        entry = self[value] = self._make(value)
        return entry


def _int64_cache(key: str) -> _Cache[int]:
    return _Cache(lambda value: int64_entry(key, (value,)))


def _text_cache(key: str) -> _Cache[str]:
    return _Cache(lambda value: bytes_entry(key, (value.encode(),)))


# --- features of every image ----------------------------------------------------------------------


def _from_header(field: str) -> WriterMaker:
    """Of a field of the `ImageHeader`: a number or a text that recurs."""
    index = ImageHeader._fields.index(field)

    def make(key: str) -> Writer:
        entries: Any = _text_cache(key) if field == "format" else _int64_cache(key)
        return lambda _ref, header, _image: entries[header[index]]

    return make


def _key_writer(key: str) -> Writer:
    """Of the sample's key, which is different in each."""
    prefixes = _Cache(value_prefixes(key))

    def write(ref: SampleRef, _header: ImageHeader, _image: bytes) -> bytes:
        name = ref.key.encode()
        return prefixes[len(name)] + name

    return write


def _orientation_writer(key: str) -> Writer:
    """Of images that are not upright; others do not have the feature."""
    entries = _int64_cache(key)

    def write(_ref: SampleRef, header: ImageHeader, _image: bytes) -> bytes:
        return entries[header.orientation] if header.orientation != UPRIGHT else b""

    return write


ORIENTATION = Feature("image/orientation", "int64", _orientation_writer, optional=True)
"""The feature of images that a viewer turns. Data sets without such images do not list it."""

IMAGE_FEATURES = (
    Feature("image/channels", "int64", _from_header("channels")),
    Feature(ENCODED_KEY, "bytes", None),
    Feature("image/filename", "bytes", _key_writer),
    Feature("image/format", "bytes", _from_header("format")),
    Feature("image/height", "int64", _from_header("height")),
    Feature("image/source_id", "bytes", _key_writer),
    Feature("image/width", "int64", _from_header("width")),
)
"""The features of every example, each one value."""


# --- features from labels -------------------------------------------------------------------------


def column_features(
    index: int, column: Column, class_ids: Mapping[str, int] = MappingProxyType({})
) -> list[Feature]:
    """The features that a label column becomes.

    Args:
      index: of the column among the sample's labels.
      column: the column.
      class_ids: class text -> the id written to `<feature>/label`; without it the features can
        be described, not written.
    """
    if not column.feature:
        return []
    writers: list[WriterMaker]
    if column.kind is ColumnKind.MASK:
        writers = [partial(_mask_writer, index=index, pixels=column.pixels)]
    elif column.kind in FILE_KINDS:
        writers = [
            partial(_file_writer, index=index, part=part)
            for part in range(len(column.feature_keys))
        ]
    elif column.kind is ColumnKind.POINT:
        writers = [
            partial(_coordinate_writer, index=index, axis=axis, pixels=column.pixels)
            for axis in range(len(column.feature_keys))
        ]
    elif column.kind is ColumnKind.BOX:
        writers = [
            partial(_side_writer, index=index, side=side, pixels=column.pixels)
            for side in range(len(column.feature_keys))
        ]
    else:
        make_writer = _list_writer if column.repeated else _value_writer
        converters = (class_ids.__getitem__, None) if column.kind is ColumnKind.CLASS else (None,)
        writers = [
            partial(make_writer, index=index, kind=kind, convert=convert)
            for kind, convert in zip(column.list_kinds, converters, strict=True)
        ]
    pixels = column.pixel_types or ("",) * len(writers)
    return [
        Feature(key, kind, writer, not column.required, column.repeated, of)
        for key, kind, writer, of in zip(
            column.feature_keys, column.list_kinds, writers, pixels, strict=True
        )
    ]


def _value_writer(
    key: str, *, index: int, kind: str, convert: Callable[[Any], Any] | None
) -> Writer:
    """Writes one value; a feature without a value is left out."""
    if convert:
        make: Callable[[Any], bytes] = _Cache[Any](
            lambda value: int64_entry(key, (convert(value),))
        ).__getitem__
    elif kind == "float":
        make = partial(_one_float, key)  # no cache: 0.0 and -0.0 are one dict key
    else:
        make = (_int64_cache if kind == "int64" else _text_cache)(key).__getitem__

    def write(ref: SampleRef, _header: ImageHeader, _image: bytes) -> bytes:
        value = ref.labels[index]
        return b"" if value is None else make(value)

    return write


def _one_float(key: str, value: float) -> bytes:
    return float_entry(key, (value,))


def _list_writer(
    key: str, *, index: int, kind: str, convert: Callable[[Any], Any] | None
) -> Writer:
    """Writes a list; None leaves the feature out, no values are an empty list."""
    make: Callable[[str, Any], bytes] = LIST_ENTRIES[kind]
    prepare: Callable[[Any], Any] | None = str.encode if kind == "bytes" else convert

    def write(ref: SampleRef, _header: ImageHeader, _image: bytes) -> bytes:
        values: Any = ref.labels[index]
        if values is None:
            return b""
        return make(key, [prepare(value) for value in values] if prepare else values)

    return write


def _side_writer(key: str, *, index: int, side: int, pixels: bool) -> Writer:
    """Writes one side of all boxes of a sample, as fractions of the image."""

    def write(ref: SampleRef, header: ImageHeader, _image: bytes) -> bytes:
        boxes: Any = ref.labels[index]
        if boxes is None:
            return b""
        return float_entry(key, box_fractions(boxes, side, header, pixels=pixels))

    return write


def _coordinate_writer(key: str, *, index: int, axis: int, pixels: bool) -> Writer:
    """Writes x (axis 0) or y of all points of a sample, as fractions of the image."""

    def write(ref: SampleRef, header: ImageHeader, _image: bytes) -> bytes:
        points: Any = ref.labels[index]
        length = (header.height if axis else header.width) if pixels else 1
        return float_entry(key, [value / length for value in points[axis::2]])

    return write


def _mask_writer(key: str, *, index: int, pixels: bool) -> Writer:
    """Draws the mask of each object of a sample."""

    def write(ref: SampleRef, header: ImageHeader, _image: bytes) -> bytes:
        shapes: Any = ref.labels[index]
        return bytes_entry(key, [mask_png(shape, header, pixels=pixels) for shape in shapes])

    return write


def _file_writer(key: str, *, index: int, part: int) -> Writer:
    """Writes one of the values that a file beside the image was made into."""

    def write(ref: SampleRef, _header: ImageHeader, _image: bytes) -> bytes:
        prepared: Any = ref.labels[index]
        return b"" if prepared is None else bytes_entry(key, (prepared[part],))

    return write


# --- features of a data set -----------------------------------------------------------------------


def sample_features(
    columns: Sequence[Column],
    renames: Mapping[str, str] = MappingProxyType({}),
    class_ids: Mapping[str, int] = MappingProxyType({}),
    *,
    turned: bool = True,
) -> dict[str, Feature]:
    """Key as written -> feature, of examples of images with these label columns.

    Args:
      columns: the label columns, in the order of `SampleRef.labels`.
      renames: the key to write a feature under -> its standard key.
      class_ids: as `column_features` has it.
      turned: whether there may be images that are not upright.
    """
    features = [*((ORIENTATION,) if turned else ()), *IMAGE_FEATURES]
    for index, column in enumerate(columns):
        features += column_features(index, column, class_ids)
    written = {written_key(feature.key, renames): feature for feature in features}
    return {key: written[key] for key in sorted(filter(None, written))}


def feature_kinds(
    columns: Sequence[Column],
    renames: Mapping[str, str] = MappingProxyType({}),
    *,
    turned: bool = False,
) -> dict[str, dict[str, Any]]:
    """Key as written -> {"kind", "optional", "shape"}, in order of key, as the manifest has it."""
    features = sample_features(columns, renames, turned=turned)
    return {key: feature.described for key, feature in features.items()}
