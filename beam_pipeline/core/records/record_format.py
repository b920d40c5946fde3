"""Record formats: how the examples of a shard are in its file.

A format names its files, writes a shard record by record, and reads it back. `formats.py` registers
them all; a new one is a class like `ArrayRecordFormat` and a line there.

Nothing here supposes that a record has a separate frame. A record reaches its writer in three
parts, the image in the middle, so that a container (a tar, say) can put its own headers around the
image and never copies it; a format that needs a record in one piece joins them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, BinaryIO, ClassVar, NamedTuple, Protocol

import google_crc32c

from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.images.header import NO_DIGEST

crc32c_extend = google_crc32c.extend
"""(crc, chunk) -> crc of what came before and the chunk; 0 starts. Releases the GIL."""


Described = Mapping[str, Any]
"""Key -> description of each feature as in the manifest."""

NO_FEATURES: Described = MappingProxyType({})


class Sink(Protocol):
    """Takes bytes in order; the buffers must not change afterwards."""

    def write(self, *buffers: bytes) -> None:
        """Takes the next buffers."""


class EncodedSample(NamedTuple):
    """A serialized example in three parts, the image in the middle.

    Attributes:
      before, image, after: the parts.
      digest: of the bytes of the image's file, which may be others than `image`.
      classes: the ids of its classes: one, one an object, or none.
      events: what happened to an image that was changed, or might have been, and to its objects.
      dead_letters: the objects that were left out of it.
    """

    before: bytes
    image: bytes
    after: bytes
    digest: bytes = NO_DIGEST
    classes: Sequence[int] = ()
    events: Mapping[str, int] = MappingProxyType({})
    dead_letters: Sequence[DeadLetter] = ()

    @property
    def record(self) -> bytes:
        """The example in one piece."""
        return self.before + self.image + self.after


class RecordWriter:
    """Writes the records of one shard to a sink.

    Attributes:
      bytes: the number of bytes that went to the sink.
      crc32c: CRC-32C of all of them.

    Args:
      sink: takes the bytes.
      features: key -> description of each feature as in the manifest, for formats that tell one
        value from a list of one.
    """

    def __init__(self, sink: Sink, features: Described = NO_FEATURES) -> None:
        self._sink = sink
        self._features = features
        self.bytes = 0
        self.crc32c = 0

    def write(self, sample: EncodedSample, key: str = "") -> None:
        """Writes the next record.

        Args:
          sample: its example.
          key: the sample's key, for formats that name samples.
        """
        raise NotImplementedError

    def finish(self) -> None:
        """Writes what is still held back; nothing may be written afterwards."""

    def _put(self, *buffers: bytes) -> None:
        """Passes buffers on and adds them to the figures."""
        crc = self.crc32c
        for buffer in buffers:
            crc = crc32c_extend(crc, buffer)
            self.bytes += len(buffer)
        self.crc32c = crc
        self._sink.write(*buffers)


@dataclass(frozen=True)
class RecordFormat:
    """One way to store examples in files. A value: equal to, and pickled as, its attributes.

    Attributes:
      compression: one of `compressions`.
      name: the name of the format, without its compression.
      mark: what follows the split in the names of its shards, and no pattern for shards finds in
        receipts.
      compressions: the compressions that it knows, the first its default.
      shard_names: the template of the names of its shards; TFDS and Beam's own sink use the same names.
      file_names: matches the names of its shards and indexes, compressed or not, and no others.
      of_examples: its records are serialized `tf.train.Example`s to all readers.
      in_tfds: TensorFlow Datasets reads it, under the same name.
      has_sizes: it has `sizes`.
      writer_type: writes the records of one shard.
    """

    compression: str = "none"

    name: ClassVar[str]
    mark: ClassVar[str]
    shard_names: ClassVar[str] = "{dataset}-{split}{mark}{number:05d}-of-{of:05d}"
    file_names: ClassVar[re.Pattern[str]]
    compressions: ClassVar[tuple[str, ...]] = ("none",)
    of_examples: ClassVar[bool] = True
    in_tfds: ClassVar[bool] = False
    has_sizes: ClassVar[bool] = False
    writer_type: ClassVar[type[RecordWriter]]

    def check_installed(self) -> None:
        """Checks that what writes and reads the format is installed.

        Raises:
          UsageError: a package is missing; the message tells how to install it.
        """

    @property
    def indexable(self) -> bool:
        """Tells whether a reader can jump to a record, so that an index is of use: not in a compressed file."""
        return self.has_sizes and self.compression == "none"

    @property
    def tfds_name(self) -> str:
        """The name that TensorFlow Datasets has for the format; empty if it cannot read it, as if compressed."""
        return self.name if self.in_tfds and self.compression == "none" else ""

    @property
    def tf_data(self) -> tuple[str, Mapping[str, Any]] | None:
        """The class of `tf.data` that reads the format, such as "TFRecordDataset", and what it takes besides paths.

        None to read it with `records`, in Python. TensorFlow is not imported to name it.
        """
        return None

    @property
    def suffix(self) -> str:
        """The end of a shard's file name, which tells its compression."""
        return ""

    def shard_name(self, dataset: str, split: str, number: int, of: int) -> str:
        """The file name of a shard.

        Args:
          dataset: the data set's name.
          split: the split's name.
          number: of the shard in its split, from 0.
          of: the number of shards in the split.
        """
        parts = {"dataset": dataset, "split": split, "number": number, "of": of}
        return self.shard_names.format(mark=self.mark, **parts) + self.suffix

    def index_name(self, shard: str) -> str:
        """The file name of the index of a shard, given the shard's; empty if it never has one."""
        return ""

    def receipt_stem(self, shard: str) -> str:
        """A shard's file name without its mark, so that no pattern for shards finds the receipt."""
        return shard.replace(self.mark, "-")

    def writer(self, sink: Sink, features: Described = NO_FEATURES) -> RecordWriter:
        """A writer for one shard, with the arguments of `RecordWriter`."""
        return self.writer_type(sink, features)

    def records(self, file: BinaryIO, path: str) -> Iterator[bytes]:
        """Yields the records of a shard in order, checking all checksums.

        Args:
          file: the shard, open at its beginning; it is read from front to back.
          path: its name in messages.

        Raises:
          DamagedRecordError: names the path, the record's number and its offset in bytes.
        """
        return self.records_in(file, path, range(1 << 62))

    def records_in(self, file: BinaryIO, path: str, wanted: range) -> Iterator[bytes]:
        """Yields the records with these numbers, or fewer if the shard ends before.

        Args:
          file: the shard, open at its beginning; it must be seekable if the format is indexable.
          path: its name in messages.
          wanted: consecutive numbers, from 0.

        Raises:
          DamagedRecordError: as `records`.
        """
        raise NotImplementedError

    def sizes(self, file: BinaryIO, path: str) -> Iterator[int]:
        """Yields the bytes of each record, with its framing, without reading its data; only if `indexable`.

        Args:
          file: the shard; it must be seekable.
          path: its name in messages.

        Raises:
          DamagedRecordError: as `records`.
        """
        raise NotImplementedError
