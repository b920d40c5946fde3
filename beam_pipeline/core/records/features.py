"""The features of an example: for each its key, kind and shape, and the writer of its values.

`SampleEncoder` writes serialized examples around an image that is never copied; `wire.py` has their format.

Features that every image has are in the table `IMAGE_FEATURES`; a new one is a line there. Those
that come from labels follow from the columns (`Column.written`). The manifest describes both
(`feature_kinds`) and `SampleEncoder` writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any

from beam_pipeline.core.images.header import UPRIGHT, ImageHeader
from beam_pipeline.core.images.masks import mask_png
from beam_pipeline.core.labels import schema
from beam_pipeline.core.labels.boxes import box_fractions
from beam_pipeline.core.records.wire import LIST_ENTRIES, TAG_1, value_prefixes, varint
from beam_pipeline.core.references import SampleRef, image_of

Writer = Callable[[SampleRef, ImageHeader], bytes]
"""(sample, header) -> one feature's entry in the map; empty if the sample does not have it."""

WriterMaker = Callable[[str], Writer]
"""Makes the writer of a feature, given the key to write it under."""

_CACHED_ENTRIES = 4096


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
      content: as in `WrittenAs`.
    """

    key: str
    kind: str
    writer: WriterMaker | None
    optional: bool = False
    repeated: bool = False
    pixels: str = ""
    content: str = ""

    @property
    def described(self) -> dict[str, Any]:
        """Its description in the manifest: the shape is [] for one value, [None] for a list."""
        return {
            "kind": self.kind,
            "optional": self.optional,
            "shape": [None] if self.repeated else [],
            **({"pixels": self.pixels} if self.pixels else {}),
            **({"content": self.content} if self.content else {}),
        }


def _cached(key: str, kind: str, convert: Callable[[Any], Any] | None) -> Callable[[Any], bytes]:
    """Makes the entries of single values that recur from sample to sample: sizes, formats, classes."""
    entry: Callable[[str, Any], bytes] = LIST_ENTRIES[kind]
    return lru_cache(_CACHED_ENTRIES)(lambda v: entry(key, (convert(v) if convert else v,)))


# --- features of every image ----------------------------------------------------------------------


def _from_header(field: str) -> WriterMaker:
    """Of a field of the `ImageHeader`: a number or a text that recurs."""
    index = ImageHeader._fields.index(field)
    kind, convert = ("bytes", str.encode) if field == "format" else ("int64", None)

    def make(key: str) -> Writer:
        entries = _cached(key, kind, convert)
        return lambda _, header: entries(header[index])

    return make


def _key_writer(key: str, of_image: bool = False) -> Writer:
    """Of the sample's key, which is different in each; or of its image's in that of a row."""
    prefixes = lru_cache(_CACHED_ENTRIES)(value_prefixes(key))

    def write(ref: SampleRef, _: ImageHeader) -> bytes:
        name = (image_of(ref.key) if of_image else ref.key).encode()
        return prefixes(len(name)) + name

    return write


def _orientation_writer(key: str) -> Writer:
    """Of images that are not upright; others do not have the feature."""
    write = _from_header("orientation")(key)
    return lambda ref, header: b"" if header.orientation == UPRIGHT else write(ref, header)


ORIENTATION = Feature("image/orientation", "int64", _orientation_writer, optional=True)
"""The feature of images that a viewer turns. Data sets without such images do not list it."""

_FILE_NAME = "image/filename"

IMAGE_FEATURES = (
    Feature("image/channels", "int64", _from_header("channels")),
    Feature(schema.ENCODED_KEY, "bytes", None),
    Feature(_FILE_NAME, "bytes", _key_writer),
    Feature("image/format", "bytes", _from_header("format")),
    Feature("image/height", "int64", _from_header("height")),
    Feature("image/source_id", "bytes", _key_writer),
    Feature("image/width", "int64", _from_header("width")),
)
"""The features of every example, each one value."""

_OF_SAMPLES = ("image/source_id",)  # which a sample without an image has as well


# --- features from labels -------------------------------------------------------------------------


def _column_writer(
    index: int, column: schema.Column, part: int, class_ids: Mapping[str, int], key: str
) -> Writer:
    """Writes one of the features of a column; None leaves it out, no values are an empty list."""
    entry = _column_entry(key, column, part, class_ids)

    def write(ref: SampleRef, header: ImageHeader) -> bytes:
        value = ref.labels[index]
        return b"" if value is None else entry(value, header)

    return write


def _column_entry(
    key: str, column: schema.Column, part: int, class_ids: Mapping[str, int]
) -> Callable[[Any, ImageHeader], bytes]:
    """Makes the function (value, header) -> the entry of one of the features of a column."""
    pixels, kind = column.pixels, column.written[part].kind
    entry: Callable[[str, Any], bytes] = LIST_ENTRIES[kind]
    if column.kind is schema.ColumnKind.BOX:  # one side, as fractions of the image
        return lambda boxes, header: entry(key, box_fractions(boxes, part, header, pixels=pixels))
    if column.kind is schema.ColumnKind.POINT:  # x or y, as fractions of the image
        side = ImageHeader._fields.index("height" if part else "width")

        def axis_entry(points: Any, header: ImageHeader) -> bytes:
            length = header[side] if pixels else 1
            return entry(key, [value / length for value in points[part::2]])

        return axis_entry
    if column.kind is schema.ColumnKind.MASK:
        return lambda shapes, header: entry(
            key, [mask_png(shape, header, pixels=pixels) for shape in shapes]
        )
    if column.kind in schema.FILE_KINDS:  # one of the values that each file was made into
        return lambda files, _: entry(key, [parts[part] for parts in files])
    convert: Callable[[Any], Any] | None = None
    if kind == "bytes":
        convert = str.encode
    elif column.kind is schema.ColumnKind.CLASS:
        convert = class_ids.__getitem__
    if column.repeated:
        return lambda values, _: entry(key, [convert(v) for v in values] if convert else values)
    if kind == "float":
        return lambda value, _: entry(key, (value,))
    cached = _cached(key, kind, convert)
    return lambda value, _: cached(value)


# --- features of a data set -----------------------------------------------------------------------


def sample_features(
    columns: Sequence[schema.Column],
    renames: Mapping[str, str] = MappingProxyType({}),
    class_ids: Mapping[str, int] = MappingProxyType({}),
    *,
    turned: bool = True,
    rows: bool = False,
    images: bool = True,
) -> dict[str, Feature]:
    """Key as written -> feature, of examples of images with these label columns.

    Args:
      columns: the label columns, in the order of `SampleRef.labels`.
      renames: the key to write a feature under -> its standard key.
      class_ids: class text -> the id written to `<feature>/label`; without it the features can
        be described, not written.
      turned: whether there may be images that are not upright.
      rows: whether keys are those of rows of images.
      images: False for the features of examples without an image.
    """
    features = [*((ORIENTATION,) if turned else ()), *IMAGE_FEATURES]
    if not images:
        features = [feature for feature in features if feature.key in _OF_SAMPLES]
    elif rows:
        name = partial(_key_writer, of_image=True)
        features = [replace(f, writer=name) if f.key == _FILE_NAME else f for f in features]
    for index, column in enumerate(columns):
        repeated, optional = column.repeated, not column.required
        for part, (suffix, kind, pixels, content) in enumerate(column.written):
            key = column.feature + suffix
            writer = partial(_column_writer, index, column, part, class_ids)
            features.append(Feature(key, kind, writer, optional, repeated, pixels, content))
    written = {schema.written_key(feature.key, renames): feature for feature in features}
    return {key: written[key] for key in sorted(filter(None, written))}


def feature_kinds(
    columns: Sequence[schema.Column],
    renames: Mapping[str, str] = MappingProxyType({}),
    *,
    turned: bool = False,
    imageless: bool = False,
) -> dict[str, dict[str, Any]]:
    """Key as written -> {"kind", "optional", "shape"}, in order of key as in the manifest."""
    features = sample_features(columns, renames, turned=turned)
    if imageless:
        always = sample_features(columns, renames, images=False)
        features = {k: f if k in always else replace(f, optional=True) for k, f in features.items()}
    return {key: feature.described for key, feature in features.items()}


# --- encoding -------------------------------------------------------------------------------------


class SampleEncoder:
    """Encodes samples of one data set: image features, and the features of each label column.

    Args:
      columns: the label columns, in the order of `SampleRef.labels`.
      class_ids: class text -> the id written to `<feature>/label`.
      renames: the key to write a feature under -> its standard key.
      rows, images: see `sample_features`.
    """

    def __init__(
        self,
        columns: Sequence[schema.Column],
        class_ids: Mapping[str, int],
        renames: Mapping[str, str] = MappingProxyType({}),
        *,
        rows: bool = False,
        images: bool = True,
    ) -> None:
        self._class_ids = class_ids
        self._class_column = schema.class_column(columns)
        encoded_key = schema.written_key(schema.ENCODED_KEY, renames)
        assert encoded_key, f"{renames} leave the image no key"
        self._image_prefix = value_prefixes(encoded_key)
        image_key = encoded_key.encode()
        self._before: list[Writer] = []
        self._after: list[Writer] = []
        self._images = images
        features = sample_features(columns, renames, class_ids, rows=rows, images=images)
        for key in sorted(features, key=str.encode):
            if writer := features[key].writer:
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
        before = b"".join([write(ref, header) for write in self._before])
        after = b"".join([write(ref, header) for write in self._after])
        if self._images:
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
