"""Encoders: what makes the features of an example from a sample and the bytes of its image."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from beam_pipeline.core import references, text
from beam_pipeline.core.dead_letters import DeadLetter, Reason, Stage
from beam_pipeline.core.errors import SampleError, UsageError
from beam_pipeline.core.images.preparation import digest_of
from beam_pipeline.core.labels.schema import class_column
from beam_pipeline.core.records import example_view, image_statistics, record_format, shard_writer
from beam_pipeline.core.records.example_source import ExampleOptions, ExampleSource, LabelledImages
from beam_pipeline.storage import files
from beam_pipeline.transforms.output import BadSample
from beam_pipeline.transforms.samples import (
    ANY_LABELS,
    ImageSample,
    SampleReader,
    columns_of,
    public_sample,
)
from beam_pipeline.work.records import RecordReader, feature_entries


class Encoder:
    """Makes the features of an example; subclass it for features of your own.

    It is pickled for the workers, and several threads may use it. Each attribute may be a property.

    Attributes:
      fingerprint: a text that is another one whenever `encode` would return other features of the same
        sample. Manifest and receipts record it, so that no shard of another encoder is kept.
      features: key -> "bytes", "float" or "int64", or an entry as in the manifest ({"kind": "float",
        "shape": [8], "optional": False}), of every feature that an example may have.
      labels: the labels that samples have, as `JoinLabels` takes them; None for any. A class among them is
        counted, and gets an id.
    """

    fingerprint: str
    features: Mapping[str, Any]
    labels: Any = None

    def encode(self, sample: ImageSample, image_bytes: bytes) -> Mapping[str, Any] | BadSample:
        """Makes the features of a sample: key -> value, as `WriteToShuffledTFRecord` takes them.

        Args:
          sample: an image with its labels.
          image_bytes: the content of its file.

        Returns: the features; or why there is no example of this sample.
        """
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class EncodedSamples(ExampleSource):
    """Samples become examples by a pipeline's own encoder.

    Attributes:
      encoder: the encoder.
      reader: makes references of samples.
      fingerprint: the encoder's.
    """

    encoder: Encoder
    reader: SampleReader
    fingerprint: str

    @property
    def file_columns(self) -> Sequence[int]:
        """None, as an encoder takes the image alone."""
        return ()

    @classmethod
    def of(cls, encoder: Encoder) -> EncodedSamples:
        """Those of an encoder. Raises UsageError."""
        fingerprint = getattr(encoder, "fingerprint", None)
        if not isinstance(fingerprint, str) or not fingerprint:
            raise UsageError(f"the encoder's fingerprint is {fingerprint!r}, expected a text")
        features = getattr(encoder, "features", None)
        if not isinstance(features, Mapping) or not features:
            raise UsageError(
                f"the encoder's features are {text.excerpt(features)}, expected key -> kind"
            )
        reader = SampleReader(columns_of(encoder.labels), rest=True)
        return cls(
            columns=(*reader.columns.columns, ANY_LABELS),
            keyed=True,
            described=feature_entries(features),
            encoder=encoder,
            reader=reader,
            fingerprint=fingerprint,
        )

    def maker(
        self, options: ExampleOptions, class_ids: Mapping[str, int], read: shard_writer.ImageReader
    ) -> _EncoderMaker:
        """Reads images and has them encoded."""
        return _EncoderMaker(self, class_ids, read, RecordReader(features=self.described))

    def recorded(self) -> dict[str, Any]:
        """The labels and features, and which encoder it is."""
        kind = type(self.encoder)
        return {
            **super().recorded(),
            "encoder": f"{kind.__module__}.{kind.__qualname__}",
            "fingerprint": self.fingerprint,
        }


@dataclass
class _EncoderMaker(shard_writer.Maker):
    """A `Maker` that has an encoder.

    Where that delegates to `Images`, the objects left out, the changes and the statistics are those of
    `Images`.
    """

    source: EncodedSamples
    class_ids: Mapping[str, int]
    read: shard_writer.ImageReader
    records: RecordReader
    delegates: dict[Any, OneImage] = field(default_factory=dict)
    delegated: record_format.EncodedSample | None = None

    def make(self, ref: references.SampleRef) -> record_format.EncodedSample:
        """Makes one example."""
        if ref.origin == shard_writer.REPEATED:
            raise shard_writer.repeated(ref, "sample")
        if ref.size > shard_writer.MAX_IMAGE_BYTES:
            raise shard_writer.too_large(ref, ref.size)
        content = shard_writer.read_sample(self.read, ref, ref.uri, ref.size, ref.offset)
        image = shard_writer.sound(content)
        sample = public_sample(ref, self.source.reader.labels(ref.labels))
        self.delegated = None
        token = _ENCODING.set(self)
        try:
            made = self.source.encoder.encode(sample, image)
        finally:
            _ENCODING.reset(token)
        if isinstance(made, Mapping):
            return self._encoded(ref, made, image)
        if not isinstance(made, BadSample):
            kind = type(self.source.encoder).__qualname__
            raise TypeError(
                f"{kind}.encode returned {text.excerpt(made)}, expected a dict of features or a BadSample"
            )
        rejected = shard_writer.Rejected(
            ref, Stage.CHECK, Reason.BAD_LABEL_VALUE, made.message, made.file, made.line
        )
        rejected.letter = rejected.letter._replace(stage=made.stage, reason=made.reason)
        raise rejected

    def _encoded(
        self, ref: references.SampleRef, made: Mapping[str, Any], image: bytes
    ) -> record_format.EncodedSample:
        try:
            record, _ = self.records.encoded(made)
        except (SampleError, OverflowError) as error:
            fault = f"the encoder: {error}"
            raise shard_writer.Rejected(ref, Stage.CHECK, Reason.BAD_LABEL_VALUE, fault) from error
        sample = record_format.EncodedSample(b"", record, b"", digest_of(image))
        if (images := self.delegated) is not None:
            return sample._replace(
                classes=images.classes, events=images.events, dead_letters=images.dead_letters
            )
        index, ids = class_column(self.source.columns), self.class_ids
        names: Any = () if index is None else ref.labels[index]
        names = names if isinstance(names, tuple) else () if names is None else (names,)
        return sample._replace(classes=[ids[name] for name in names if name in ids])

    def codec(self) -> str:
        """That of `Images`."""
        return next((images.maker.codec() for images in self.delegates.values()), "")

    def statistics(self) -> image_statistics.ImageStatistics:
        """Those of `Images`."""
        made = (images.maker.statistics() for images in self.delegates.values())
        return next(made, image_statistics.NOTHING_COUNTED)


_ENCODING: ContextVar[_EncoderMaker | None] = ContextVar("encoding", default=None)
"""The maker whose encoder runs in this thread, to which `Images` reports what it did."""


class OneImage:
    """Makes examples of images that were read before."""

    def __init__(
        self, source: LabelledImages, options: ExampleOptions, class_ids: Mapping[str, int]
    ) -> None:
        self._uri, self._image = "", b""
        self.maker = source.maker(options, class_ids, self._read)

    def _read(self, uri: str, size: int, offset: int) -> bytes:
        return self._image if uri == self._uri else files.read_image(uri, size, offset)

    def make(self, ref: references.SampleRef, image: bytes) -> record_format.EncodedSample:
        """Makes one example. Raises Rejected."""
        self._uri, self._image = ref.uri, image
        return self.maker.make(ref)


def encode_image(
    images: Any,
    one_image: Callable[[Mapping[str, int] | None], OneImage],
    ref: references.SampleRef,
    image: bytes,
) -> dict[str, Any] | DeadLetter:
    """Encodes an image as `Images` does, for the encoder that delegates to it, or for nobody.

    Args:
      images: the encoder.
      one_image: makes what it encodes with, given the class ids; None where no shard is being written.
      ref: the sample.
      image: its bytes.
    """
    shard = _ENCODING.get()
    made = shard.delegates.get(images) if shard else None
    if made is None:
        made = one_image(shard.class_ids if shard else None)
        if shard:
            shard.delegates[images] = made
    try:
        encoded = made.make(ref, image)
    except shard_writer.Rejected as rejected:
        return rejected.letter
    if shard:
        shard.delegated = encoded._replace(image=b"")
    values: dict[str, Any] = {}
    for key, (_, listed) in example_view.ExampleView(encoded.record, ref.key).items():
        values[key] = listed[0] if len(listed) == 1 else list(listed)
    return values
