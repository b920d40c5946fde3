"""The hot path: takes a shard's references and writes its file.

For each reference, in the order of its hash: reads the image, checks its header, writes the
example around it. The image is read once and passed on to the system unchanged; it is never copied.
"""

from __future__ import annotations

import contextlib
import errno
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from beam_pipeline.core.dead_letters import DeadLetter, Reason, Stage, image_dead_letter
from beam_pipeline.core.errors import ChangedFileError
from beam_pipeline.core.images.geometry import check_claimed_size
from beam_pipeline.core.images.header import UPRIGHT, BadImageError, ImageHeader
from beam_pipeline.core.images.masks import FilePreparer
from beam_pipeline.core.images.preparation import (
    NO_DIGEST,
    ImagePreparer,
    Limits,
    codec_in_use,
    digest_of,
    outside_bytes,
    read_header,
)
from beam_pipeline.core.labels.boxes import BadBoxError, check_boxes
from beam_pipeline.core.records.alteration import Alteration, Event
from beam_pipeline.core.records.features import SampleEncoder
from beam_pipeline.core.records.image_statistics import (
    NOTHING_COUNTED,
    ImageStatistics,
    StatisticsGatherer,
)
from beam_pipeline.core.records.record_format import (
    AlteredSample,
    EncodedSample,
    RecordWriter,
)
from beam_pipeline.core.records.sharding import (
    ImageFigures,
    KeyHasher,
    ShardInfo,
    ShardSpec,
)
from beam_pipeline.core.records.wire import MAX_EXAMPLE_BYTES
from beam_pipeline.core.references import SampleRef, Size, bytes_of, files_of

MAX_IMAGE_BYTES = MAX_EXAMPLE_BYTES - (1 << 20)
"""The largest image: an example of 2 GiB holds it and 1 MiB of labels. A larger one is not read."""

# Failures of the machine, not of the file: the bundle fails and the runner tries it again.
TRANSIENT_ERRORS = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR, errno.EAGAIN, errno.ETIMEDOUT}
)

ImageReader = Callable[[str, int, int], bytes]
"""(uri, size as listed, offset or -1 for the whole file) -> the bytes.

Raises ChangedFileError if the whole file has another size now, and OSError.
"""


class Maker(Protocol):
    """Turns references into examples or dead letters."""

    def make(self, ref: SampleRef) -> EncodedSample | DeadLetter:
        """Makes one example. Raises OSError if the machine, not the sample, is at fault."""

    def classes(self, ref: SampleRef) -> Sequence[int]:
        """The ids of the sample's classes: one, one an object, or none."""

    def codec(self) -> str:
        """Names what encodes images, with versions; empty where nothing can."""

    def statistics(self) -> ImageStatistics:
        """The statistics of the examples made so far; empty where their images are not known."""


@dataclass(frozen=True)
class ExampleMaker:
    """Makes an example from an image and its labels.

    Attributes:
      read_image: reads the bytes of an image.
      encoder: writes the features around them.
      prepare: checks the bytes and returns those to write, with their header.
      file_columns: index among the labels, of a column of files -> what prepares one of them.
      box_columns: (index among the labels, whether in pixels) of each column of boxes.
      clip_boxes: whether a box that reaches out of its image is cut at the edge.
      id_column: index among the labels of the label file's own ids of the boxes, or None.
      filters: the filters given; here, that of sizes in bytes.
      alteration: the changes to images.
      gatherer: counts the examples.
    """

    read_image: ImageReader
    encoder: SampleEncoder
    prepare: ImagePreparer
    file_columns: Mapping[int, FilePreparer] = field(default_factory=dict)
    box_columns: Sequence[tuple[int, bool]] = ()
    clip_boxes: bool = False
    id_column: int | None = None
    filters: Limits = field(default_factory=dict)
    alteration: Alteration = field(default_factory=Alteration)
    gatherer: StatisticsGatherer = field(default_factory=StatisticsGatherer)

    def classes(self, ref: SampleRef) -> Sequence[int]:
        """The ids of the sample's classes: one, one an object, or none."""
        return self.encoder.classes(ref)

    def codec(self) -> str:
        """Names what encodes images, with versions."""
        return codec_in_use(self.alteration.changes.image_codec)

    def statistics(self) -> ImageStatistics:
        """The statistics of the examples made so far."""
        return self.gatherer.statistics()

    def make(self, ref: SampleRef) -> EncodedSample | DeadLetter:
        """Reads, checks and encodes one sample.

        Raises:
          OSError: the machine is out of memory or file handles, or storage does not answer, which
            is not the sample's fault.
        """
        if self.filters and (found := outside_bytes(ref.size, self.filters)):
            return _dead_letter(ref, Stage.CHECK, Reason.FILTERED_MAX_IMAGE_BYTES, found)
        size = bytes_of(ref, self.file_columns) if self.file_columns else ref.size
        if size > MAX_IMAGE_BYTES:
            return _dead_letter(
                ref, Stage.READ, Reason.TOO_LARGE, f"{size} bytes; an example holds 2 GiB"
            )
        image = self._read(ref, ref.uri, ref.size, ref.offset)
        if not self.file_columns:
            return image if isinstance(image, DeadLetter) else self._example(ref, image, {})
        # Read whatever is wrong with the image, as the files are read ahead in this order.
        files = {
            index: self._read(ref, uri, size, -1)
            for index, uri, size in files_of(ref, self.file_columns)
        }
        if isinstance(image, DeadLetter):
            return image
        return self._example(ref, image, files)

    def _read(self, ref: SampleRef, uri: str, size: int, offset: int) -> bytes | DeadLetter:
        """Reads the image of a sample, or a file beside it. Raises OSError."""
        try:
            data = self.read_image(uri, size, offset)
        except ChangedFileError as error:
            reason, what = Reason.CHANGED_SINCE_LISTING, str(error)
        except OSError as error:
            if error.errno in TRANSIENT_ERRORS:
                raise
            reason, what = Reason.UNREADABLE, error.strerror or type(error).__name__
        else:
            if data:
                return data
            reason, what = Reason.EMPTY_FILE, "the file has no bytes"
        letter = _dead_letter(ref, Stage.READ, reason, what)
        if uri == ref.uri:
            return letter
        return letter._replace(file=uri, message=f"the mask: {what}")

    def _example(
        self, ref: SampleRef, image: bytes, files: Mapping[int, bytes | DeadLetter]
    ) -> EncodedSample | DeadLetter:
        """Checks and encodes a sample.

        Args:
          ref: the sample.
          image: its image.
          files: index of a label -> the file that it names, or why that cannot be read.
        """
        source = image
        try:
            image, header = self.prepare(source)
        except BadImageError as error:
            return _dead_letter(ref, Stage.CHECK, error.reason, str(error))
        if header.orientation != UPRIGHT or self.alteration.always:
            return self._altered(ref, image, header, files, source)
        letter = self._checked(ref, header)
        if letter:
            return letter
        if files:
            prepared = self._prepared(ref, files, header)
            if isinstance(prepared, DeadLetter):
                return prepared
            ref = prepared
        return self._encoded(ref, image, header, source)

    def _altered(
        self,
        ref: SampleRef,
        image: bytes,
        header: ImageHeader,
        files: Mapping[int, bytes | DeadLetter],
        source: bytes,
    ) -> EncodedSample | DeadLetter:
        """Changes an image, and moves its labels with it; `source` is the image as its file has it."""
        alteration = self.alteration
        try:
            measured = alteration.measured(header, ref.claimed_size or _size_of_one(files))
            letter = self._checked(ref, measured)
            if letter and letter.reason == Reason.BAD_BOX.value and header.orientation != UPRIGHT:
                hint = alteration.reading_hint(measured)
                letter = letter._replace(message=f"{letter.message}; {hint}")
            if letter:
                return letter
            if files:
                prepared = self._prepared(ref, files, measured)
                if isinstance(prepared, DeadLetter):
                    return prepared
                ref = prepared
            altered = alteration.alter(image, header)
        except BadImageError as error:
            return _dead_letter(ref, Stage.CHECK, error.reason, str(error))
        try:
            labels, outside = alteration.labels(ref.labels, header, measured, altered.geometry)
        except BadImageError as error:  # a mask of another size
            letter = _dead_letter(ref, Stage.CHECK, error.reason, str(error))
            return letter._replace(file=ref.origin)
        sample = self._encoded(ref._replace(labels=labels), altered.image, altered.header, source)
        if isinstance(sample, DeadLetter):
            return sample
        events = Counter(altered.events)
        if outside:
            events[Event.OBJECTS_OUTSIDE.value] = outside
        return AlteredSample.of(sample, labels, events)

    def _checked(self, ref: SampleRef, header: ImageHeader) -> DeadLetter | None:
        """Compares the labels with the picture on which they were measured."""
        if ref.claimed_size:
            try:
                check_claimed_size(ref.claimed_size, header, boxes=bool(self.box_columns))
            except BadImageError as error:
                letter = _dead_letter(ref, Stage.CHECK, error.reason, str(error))
                return letter._replace(file=ref.origin)
        if not self.box_columns:
            return None
        ids: Any = () if self.id_column is None else ref.labels[self.id_column] or ()
        try:
            for index, pixels in self.box_columns:
                boxes: Any = ref.labels[index]
                check_boxes(boxes or (), header, pixels=pixels, clip=self.clip_boxes, ids=ids)
        except BadBoxError as error:
            letter = _dead_letter(ref, Stage.CHECK, Reason.BAD_BOX, str(error))
            return letter._replace(file=ref.origin, line=error.line)
        return None

    def _encoded(
        self, ref: SampleRef, image: bytes, header: ImageHeader, source: bytes
    ) -> EncodedSample | DeadLetter:
        """Writes the features around an image; `source` is the image as its file has it."""
        try:
            before, after = self.encoder.encode(ref, header, image)
        except BadImageError as error:  # a mask of another size
            letter = _dead_letter(ref, Stage.CHECK, error.reason, str(error))
            return letter._replace(file=ref.origin)
        except OverflowError as error:
            what = f"a number is too large for its feature: {error}"
            letter = _dead_letter(ref, Stage.LABELS, Reason.BAD_LABEL_VALUE, what)
            return letter._replace(file=ref.origin)
        self.gatherer.add(header, len(image), ref.labels)
        return EncodedSample(before, image, after, digest_of(source))

    def _prepared(
        self, ref: SampleRef, files: Mapping[int, bytes | DeadLetter], header: ImageHeader
    ) -> SampleRef | DeadLetter:
        """The sample with what is written of each file instead of where it lies."""
        labels: list[Any] = list(ref.labels)
        for index, data in files.items():
            if isinstance(data, DeadLetter):
                return data
            uri, _, _, *said = labels[index]
            try:
                labels[index] = self.file_columns[index](data, said[0] if said else (), header)
            except BadImageError as error:
                letter = _dead_letter(ref, Stage.CHECK, error.reason, f"the mask: {error}")
                return letter._replace(file=uri)
        return ref._replace(labels=tuple(labels))


@dataclass(frozen=True)
class ExampleReader:
    """Reads examples that are serialized already.

    Attributes:
      read_example: reads the bytes of one.
      class_ids: class -> id.
    """

    read_example: ImageReader
    class_ids: Mapping[str, int]

    def classes(self, ref: SampleRef) -> Sequence[int]:
        """The ids of the sample's classes, which stand alone in its labels."""
        names: Any = ref.labels[0]
        return [self.class_ids[name] for name in names]

    def codec(self) -> str:
        """Empty, as images are not looked at."""
        return ""

    def statistics(self) -> ImageStatistics:
        """None, as examples are not parsed."""
        return NOTHING_COUNTED

    def make(self, ref: SampleRef) -> EncodedSample | DeadLetter:
        """Reads one example.

        Raises:
          OSError: it cannot be read, although the same job wrote it.
        """
        if ref.size > MAX_EXAMPLE_BYTES:
            return _dead_letter(
                ref, Stage.READ, Reason.TOO_LARGE, f"{ref.size} bytes; an example holds 2 GiB"
            )
        return EncodedSample(b"", self.read_example(ref.uri, ref.size, ref.offset), b"")


def sort_by_key_hash(refs: Iterable[SampleRef], hasher: KeyHasher) -> list[SampleRef]:
    """References in the order in which their shard holds them."""
    return sorted(refs, key=lambda ref: (hasher.order(ref.key), ref.key))


class ShardContent(NamedTuple):
    """What became of the samples of a shard.

    Attributes:
      info: its figures.
      dead_letters: the samples that were left out, in the order in which they were met.
      record_sizes: bytes of each record with its framing, in order; of use where records lie one after
        another in the file.
      digests: of the images of all samples, one after the other; `NO_DIGEST` for a dead letter.
    """

    info: ShardInfo
    dead_letters: Sequence[DeadLetter]
    record_sizes: Sequence[int]
    digests: bytes


def write_shard(
    spec: ShardSpec, refs: Iterable[SampleRef], maker: Maker, output: RecordWriter
) -> ShardContent:
    """Writes one shard.

    Args:
      spec: which shard.
      refs: its samples, in the order in which to write them.
      maker: reads, checks and encodes one of them.
      output: writes its records.
    """
    dead_letters: list[DeadLetter] = []
    sizes: list[int] = []
    digests: list[bytes] = []
    classes: Counter[int] = Counter()
    events: Counter[str] = Counter()
    for ref in refs:
        sample = maker.make(ref)
        if isinstance(sample, DeadLetter):
            dead_letters.append(sample)
            digests.append(NO_DIGEST)
            continue
        start = output.bytes
        output.write(sample, ref.key)
        sizes.append(output.bytes - start)
        digests.append(sample.digest)
        if isinstance(sample, AlteredSample):
            events.update(sample.events)
            ref = ref._replace(labels=sample.labels)  # as they were written
        for class_id in maker.classes(ref):
            classes[class_id] += 1
    output.finish()
    figures = image_figures(events, maker)
    info = ShardInfo(
        split=spec.split,
        number=spec.number,
        file_name=spec.file_name,
        examples=len(sizes),
        bytes=output.bytes,
        crc32c=output.crc32c,
        classes=tuple(sorted(classes.items())),
        events=figures.events,
        codec="".join(figures.codecs),
        statistics=maker.statistics(),
    )
    return ShardContent(info, dead_letters, sizes, b"".join(digests))


def image_figures(events: Mapping[str, int], maker: Maker) -> ImageFigures:
    """Counts of the changes to images, with the codec if any was encoded."""
    codecs = (maker.codec(),) if events.get(Event.ENCODED.value) else ()
    return ImageFigures(tuple(sorted(events.items())), codecs)


def _size_of_one(files: Mapping[int, bytes | DeadLetter]) -> Size | None:
    """Width and height of a mask, which is of the size of the picture that it was drawn on."""
    for data in files.values():
        if isinstance(data, bytes):
            with contextlib.suppress(BadImageError):
                header = read_header(data)
                return header.width, header.height
    return None


def _dead_letter(ref: SampleRef, stage: Stage, reason: Reason, message: str) -> DeadLetter:
    """A dead letter for a sample; one of a container is in that, wherever it was unpacked to."""
    container = ref.origin if ref.offset >= 0 else ""
    return image_dead_letter(stage, ref.key, container or ref.uri, reason, message)
