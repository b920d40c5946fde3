"""The features of an example: for each its key, kind and shape, and the writer of its values.

`SampleEncoder` writes serialized examples around an image that is never copied; `wire.py` has their format.

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
    class_column,
    written_key,
)
from beam_pipeline.core.records.wire import (
    LIST_ENTRIES,
    TAG_1,
    bytes_entry,
    float_entry,
    int64_entry,
    value_prefixes,
    varint,
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
    features = []
    for part, (suffix, kind, pixels) in enumerate(column.written):
        if column.kind in _PLACED or column.kind in FILE_KINDS:
            placed = _PLACED.get(column.kind, _file_entry)
            writer = partial(_placed_writer, placed, index, part, column.pixels)
        else:
            is_id = column.kind is ColumnKind.CLASS and kind == "int64"
            make_writer = _list_writer if column.repeated else _value_writer
            convert = class_ids.__getitem__ if is_id else None
            writer = partial(make_writer, index=index, kind=kind, convert=convert)
        key, optional = column.feature + suffix, not column.required
        features.append(Feature(key, kind, writer, optional, column.repeated, pixels))
    return features


def _value_writer(
    key: str, *, index: int, kind: str, convert: Callable[[Any], Any] | None
) -> Writer:
    """Writes one value; a feature without a value is left out."""
    if convert:
        make: Callable[[Any], bytes] = _Cache[Any](
            lambda value: int64_entry(key, (convert(value),))
        ).__getitem__
    elif kind == "float":  # no cache: 0.0 and -0.0 are one dict key

        def make(value: Any) -> bytes:
            return float_entry(key, (value,))

    else:
        make = (_int64_cache if kind == "int64" else _text_cache)(key).__getitem__

    def write(ref: SampleRef, _header: ImageHeader, _image: bytes) -> bytes:
        value = ref.labels[index]
        return b"" if value is None else make(value)

    return write


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


Placed = Callable[[str, Any, int, ImageHeader, bool], bytes]
"""(key, value, part of it, header, whether in pixels) -> one feature's entry in the map."""


def _placed_writer(placed: Placed, index: int, part: int, pixels: bool, key: str) -> Writer:
    """Writes a part of a value that depends on the image; a feature without a value is left out."""

    def write(ref: SampleRef, header: ImageHeader, _image: bytes) -> bytes:
        value: Any = ref.labels[index]
        return b"" if value is None else placed(key, value, part, header, pixels)

    return write


def _side_entry(key: str, boxes: Any, side: int, header: ImageHeader, pixels: bool) -> bytes:
    """One side of all boxes, as fractions of the image."""
    return float_entry(key, box_fractions(boxes, side, header, pixels=pixels))


def _axis_entry(key: str, points: Any, axis: int, header: ImageHeader, pixels: bool) -> bytes:
    """X (axis 0) or y of all points, as fractions of the image."""
    length = (header.height if axis else header.width) if pixels else 1
    return float_entry(key, [value / length for value in points[axis::2]])


def _mask_entry(key: str, shapes: Any, _part: int, header: ImageHeader, pixels: bool) -> bytes:
    """The mask of each object, drawn."""
    return bytes_entry(key, [mask_png(shape, header, pixels=pixels) for shape in shapes])


def _file_entry(key: str, prepared: Any, part: int, _header: ImageHeader, _pixels: bool) -> bytes:
    """One of the values that a file beside the image was made into."""
    return bytes_entry(key, (prepared[part],))


_PLACED: Mapping[ColumnKind, Placed] = {
    ColumnKind.BOX: _side_entry,
    ColumnKind.POINT: _axis_entry,
    ColumnKind.MASK: _mask_entry,
}


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


# --- encoding -------------------------------------------------------------------------------------


class SampleEncoder:
    """Encodes samples of one data set: image features, and the features of each label column.

    Args:
      columns: the label columns, in the order of `SampleRef.labels`.
      class_ids: class text -> the id written to `<feature>/label`.
      renames: the key to write a feature under -> its standard key.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        class_ids: Mapping[str, int],
        renames: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._class_ids = class_ids
        self._class_column = class_column(columns)
        encoded_key = written_key(ENCODED_KEY, renames)
        assert encoded_key, f"{renames} leave the image no key"
        self._image_prefix = value_prefixes(encoded_key)
        image_key = encoded_key.encode()
        self._before: list[Writer] = []
        self._after: list[Writer] = []
        features = sample_features(columns, renames, class_ids)
        for key in sorted(features, key=str.encode):
            writer = features[key].writer
            if writer:
                entries = self._before if key.encode() < image_key else self._after
                entries.append(writer(key))

    def encode(self, ref: SampleRef, header: ImageHeader, image: bytes) -> tuple[bytes, bytes]:
        """The serialized example without its image: the bytes before it, and those after it.

        The example is `before + image + after`.

        Args:
          ref: the sample; its labels are of the columns' types.
          header: format, height, width and channels of the image.
          image: the bytes of the image.

        Raises:
          OverflowError: a number among the labels does not fit its feature.
        """
        before = b"".join([write(ref, header, image) for write in self._before])
        after = b"".join([write(ref, header, image) for write in self._after])
        before += self._image_prefix(len(image))
        return TAG_1 + varint(len(before) + len(image) + len(after)) + before, after

    def classes(self, ref: SampleRef) -> Sequence[int]:
        """The ids of the sample's classes: one, one an object, or none."""
        if self._class_column is None:
            return ()
        names: Any = ref.labels[self._class_column]
        if isinstance(names, tuple):
            return [self._class_ids[name] for name in names]
        return () if names is None else (self._class_ids[names],)
