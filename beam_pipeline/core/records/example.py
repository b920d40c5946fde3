"""Serialized examples, written around an image that is never copied. `wire.py` has their format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from beam_pipeline.core.images.header import ImageHeader
from beam_pipeline.core.labels.schema import (
    ENCODED_KEY,
    Column,
    class_column,
    written_key,
)
from beam_pipeline.core.records.features import Writer, sample_features
from beam_pipeline.core.records.wire import TAG_1, value_prefixes, varint
from beam_pipeline.core.references import SampleRef


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
