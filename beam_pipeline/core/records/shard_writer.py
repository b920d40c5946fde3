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

from beam_pipeline.core.dead_letters import DeadLetter, Reason, Stage
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
from beam_pipeline.core.labels.boxes import BAD_BOXES, BadBoxError, check_boxes, without_boxes
from beam_pipeline.core.records.alteration import Alteration, Event
from beam_pipeline.core.records.features import SampleEncoder
from beam_pipeline.core.records.image_statistics import (
    NOTHING_COUNTED,
    ImageStatistics,
    StatisticsGatherer,
)
from beam_pipeline.core.records.record_format import EncodedSample, RecordWriter
from beam_pipeline.core.records.sharding import (
    ImageFigures,
    KeyHasher,
    ShardInfo,
    ShardSpec,
)
from beam_pipeline.core.records.wire import MAX_EXAMPLE_BYTES
from beam_pipeline.core.references import (
    NamedFile,
    SampleRef,
    Size,
    bytes_of,
    files_of,
    named_files,
)

MAX_IMAGE_BYTES = MAX_EXAMPLE_BYTES - (1 << 20)
"""The largest image: an example of 2 GiB contains it and 1 MiB of labels. A larger one is not read."""

REPEATED = "repeated"
"""The `SampleRef.origin` of a sample whose key another one has as well."""

# Failures of the machine, not of the file: the bundle fails and the runner tries it again.
TRANSIENT_ERRORS = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR, errno.EAGAIN, errno.ETIMEDOUT}
)

ImageReader = Callable[[str, int, int], bytes]
"""(uri, size as listed, offset or -1 for the whole file) -> the bytes.

Raises ChangedFileError if the whole file has another size now, and OSError.
"""


class Rejected(Exception):  # noqa: N818
    """A sample becomes no example: `letter` is its dead letter.

    Args:
      ref: the sample; one of a container is in that, wherever it was unpacked to.
      stage, reason, message: as a dead letter has them.
      file: the label file or mask that tells what is wrong; empty for an image.
      line: the line in that file.
    """

    def __init__(
        self,
        ref: SampleRef,
        stage: Stage,
        reason: Reason,
        message: str,
        file: str = "",
        line: int = 0,
    ) -> None:
        super().__init__(message)
        uri = ref.origin if ref.offset >= 0 and ref.origin else ref.uri
        self.letter = DeadLetter(stage.value, ref.key, uri, reason.value, message, file, line)


_IMAGE = -1  # the place of the image among the files of a sample

_Files = dict[int, dict[str, bytes | Rejected]]  # index of a label -> URI -> content


class Maker(Protocol):
    """Turns references into examples."""

    def make(self, ref: SampleRef) -> EncodedSample:
        """Makes one example.

        Raises:
          Rejected: the sample is bad.
          OSError: the machine, not the sample, is at fault.
        """

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
      file_columns: index among the labels, of a column of files -> what prepares each of them.
      box_columns: (index among the labels, whether in pixels) of each column of boxes.
      clip_boxes: whether a box that reaches out of its image is cut at the edge.
      bad_boxes: what a box without an area leaves out, one of `BAD_BOXES`.
      id_column: index among the labels of the label file's own ids of the boxes, or None.
      filters: the filters given; here, the one on sizes in bytes.
      alteration: the changes to images.
      gatherer: counts the examples.
      imageless: writes the features of a sample without an image.
    """

    read_image: ImageReader
    encoder: SampleEncoder
    prepare: ImagePreparer
    file_columns: Mapping[int, FilePreparer] = field(default_factory=dict)
    box_columns: Sequence[tuple[int, bool]] = ()
    clip_boxes: bool = False
    bad_boxes: str = BAD_BOXES[0]
    id_column: int | None = None
    filters: Limits = field(default_factory=dict)
    alteration: Alteration = field(default_factory=Alteration)
    gatherer: StatisticsGatherer = field(default_factory=StatisticsGatherer)
    imageless: SampleEncoder | None = None

    def codec(self) -> str:
        """Names what encodes images, with versions."""
        return codec_in_use(self.alteration.changes.image_codec)

    def statistics(self) -> ImageStatistics:
        """The statistics of the examples made so far."""
        return self.gatherer.statistics()

    def make(self, ref: SampleRef) -> EncodedSample:
        """Reads, checks and encodes one sample."""
        if ref.origin == REPEATED:
            raise repeated(ref, "sample")
        if self.filters and (fault := outside_bytes(ref.size, self.filters)):
            raise Rejected(ref, Stage.CHECK, Reason.FILTERED_MAX_IMAGE_BYTES, fault)
        size = bytes_of(ref, self.file_columns) if self.file_columns else ref.size
        if size > MAX_IMAGE_BYTES:
            raise too_large(ref, size)
        has_image = bool(ref.uri or not self.imageless)
        if has_image and not self.file_columns:
            return self._example(ref, self._read(ref, ref.uri, ref.size, ref.offset), {})
        # Each file is read whatever is wrong with those before, because they are read ahead in this order.
        files: _Files = {}
        places = [(_IMAGE, ref.uri, ref.size, ref.offset)] if has_image else []
        places += [(*file, -1) for file in files_of(ref, self.file_columns)]
        for index, uri, size, offset in places:
            data: bytes | Rejected
            try:
                data = self._read(ref, uri, size, offset, column=index)
            except Rejected as rejected:
                data = rejected
            files.setdefault(index, {})[uri] = data
        if has_image:
            return self._example(ref, _sound(files.pop(_IMAGE)[ref.uri]), files)
        ref, events = self._prepared(ref, files, _NO_HEADER, _NO_HEADER)
        return self._encoded(ref, b"", _NO_HEADER, b"", ())._replace(events=events)

    def _read(
        self, ref: SampleRef, uri: str, size: int, offset: int, *, column: int = _IMAGE
    ) -> bytes:
        """Reads the image of a sample, or a file of a column. Raises OSError and Rejected."""
        noun = "" if column == _IMAGE else self.file_columns[column].noun
        return read_sample(self.read_image, ref, uri, size, offset, noun)

    def _example(self, ref: SampleRef, source: bytes, files: _Files) -> EncodedSample:
        """Checks and encodes a sample.

        Args:
          ref: the sample.
          source: its image.
          files: index of a label -> the files that it names, or why one cannot be read.
        """
        try:
            image, header = self.prepare(source)
            if header.orientation != UPRIGHT or self.alteration.always:
                return self._altered(ref, image, header, files, source)
        except BadImageError as error:
            raise Rejected(ref, Stage.CHECK, error.reason, str(error)) from error
        ref, left_out = self._checked(ref, header)
        if not files:
            return self._encoded(ref, image, header, source, left_out)
        ref, events = self._prepared(ref, files, header, header)
        sample = self._encoded(ref, image, header, source, left_out)
        return sample._replace(events=events) if events else sample

    def _altered(
        self,
        ref: SampleRef,
        image: bytes,
        header: ImageHeader,
        files: _Files,
        source: bytes,
    ) -> EncodedSample:
        """Changes an image, and moves its labels with it; `source` is the image as its file has it."""
        alteration = self.alteration
        measured = alteration.measured(header, ref.claimed_size or self._mask_size(files))
        try:
            ref, left_out = self._checked(ref, measured)
        except Rejected as rejected:
            letter = rejected.letter
            if letter.reason == Reason.BAD_BOX.value and header.orientation != UPRIGHT:
                hint = alteration.reading_hint(measured)
                rejected.letter = letter._replace(message=f"{letter.message}; {hint}")
            raise
        events: Counter[str] = Counter()
        if files:
            ref, events = self._prepared(ref, files, measured, header)
        try:
            window = alteration.window(ref.labels, header, measured)
        except BadImageError as error:  # a box that is too small
            boxes: Any = ref.labels[self.box_columns[0][0]]
            raise _bad_box(ref, error.reason, BadBoxError(str(error), boxes[0][-1])) from error
        altered = alteration.alter(image, header, window)
        try:
            labels, outside = alteration.labels(ref.labels, header, measured, altered.geometry)
        except BadImageError as error:  # a mask of another size
            raise _bad_labels(ref, error) from error
        ref = ref._replace(labels=labels)
        sample = self._encoded(ref, altered.image, altered.header, source, left_out)
        events.update(altered.events)
        if outside:
            events[Event.OBJECTS_OUTSIDE.value] = outside
        return sample._replace(events=events)

    def _checked(
        self, ref: SampleRef, header: ImageHeader
    ) -> tuple[SampleRef, Sequence[DeadLetter]]:
        """Compares the labels with the picture that they were measured on. Raises Rejected.

        Returns: the sample without objects whose boxes have no area, and a dead letter for each of these.
        """
        if ref.claimed_size:
            try:
                check_claimed_size(ref.claimed_size, header, boxes=bool(self.box_columns))
            except BadImageError as error:
                raise _bad_labels(ref, error) from error
        ids: Any = () if self.id_column is None else ref.labels[self.id_column] or ()
        letters: list[DeadLetter] = []
        for index, pixels in self.box_columns:
            boxes: Any = ref.labels[index] or ()
            try:
                empty = check_boxes(boxes, header, pixels=pixels, clip=self.clip_boxes, ids=ids)
                if empty and self.alteration.changes.crop:
                    raise _bad_box(ref, Reason.SMALL_BOX, empty[0])
                if empty and self.bad_boxes == "drop_image":
                    raise next(iter(empty.values()))
            except BadBoxError as error:
                raise _bad_box(ref, Reason.BAD_BOX, error) from error
            if empty:
                letters += [
                    _bad_box(ref, Reason.EMPTY_BOX, fault).letter for fault in empty.values()
                ]
                has_area = [number not in empty for number in range(len(boxes))]
                labels = without_boxes(ref.labels, self.alteration.columns, index, has_area)
                ref = ref._replace(labels=labels)
        return ref, letters

    def _encoded(
        self,
        ref: SampleRef,
        image: bytes,
        header: ImageHeader,
        source: bytes,
        left_out: Sequence[DeadLetter],
    ) -> EncodedSample:
        """Writes the features around an image; `source` is the image as its file has it."""
        encoder = self.encoder if ref.uri or not self.imageless else self.imageless
        try:
            before, after = encoder.encode(ref, header, image)
        except BadImageError as error:  # a mask of another size
            raise _bad_labels(ref, error) from error
        except OverflowError as error:
            fault = f"a number is too large for its feature: {error}"
            raise Rejected(ref, Stage.LABELS, Reason.BAD_LABEL_VALUE, fault, ref.origin) from error
        if image:
            self.gatherer.add(header, len(image), ref.labels)
        classes = self.encoder.classes(ref)
        digest = digest_of(source) if source else NO_DIGEST
        return EncodedSample(before, image, after, digest, classes, dead_letters=left_out)

    def _prepared(
        self, ref: SampleRef, files: _Files, measured: ImageHeader, stored: ImageHeader
    ) -> tuple[SampleRef, Counter[str]]:
        """The sample with the values to write of each file instead of its place, and the changes to them."""
        labels: list[Any] = list(ref.labels)
        events: Counter[str] = Counter()
        for index, contents in files.items():
            column, prepared = self.file_columns[index], []
            for place in named_files(labels[index]):  # without those of objects that are left out
                file = NamedFile(*place)
                try:
                    made = column.prepare(
                        _sound(contents[file.uri]), file.segments, measured, stored
                    )
                except BadImageError as error:
                    fault = f"{column.noun}: {error}"
                    raise Rejected(ref, Stage.CHECK, error.reason, fault, file.uri) from error
                prepared.append(made.values)
                events.update(made.events)
            labels[index] = tuple(prepared)
        return ref._replace(labels=tuple(labels)), events

    def _mask_size(self, files: _Files) -> Size | None:
        """Width and height of a mask, which is of the size of the picture that it was drawn on."""
        for index, contents in files.items():
            data = next(iter(contents.values()))
            if isinstance(data, bytes) and self.file_columns[index].is_mask:
                with contextlib.suppress(BadImageError):
                    header = read_header(data)
                    return header.width, header.height
        return None


def read_sample(
    read: ImageReader, ref: SampleRef, uri: str, size: int, offset: int, noun: str = ""
) -> bytes:
    """Reads the image of a sample, or a file beside it, which `noun` names. Raises OSError and Rejected."""
    try:
        data = read(uri, size, offset)
    except ChangedFileError as error:
        reason, fault = Reason.CHANGED_SINCE_LISTING, str(error)
    except OSError as error:
        if error.errno in TRANSIENT_ERRORS:
            raise
        reason, fault = Reason.UNREADABLE, error.strerror or type(error).__name__
    else:
        if data:
            return data
        reason, fault = Reason.EMPTY_FILE, "the file is empty"
    if noun:
        raise Rejected(ref, Stage.READ, reason, f"{noun}: {fault}", uri)
    raise Rejected(ref, Stage.READ, reason, fault)


def repeated(ref: SampleRef, noun: str) -> Rejected:
    """Another sample, or record, has the same key."""
    fault = f"another {noun} has the key {ref.key!r}; expected one of its own"
    return Rejected(ref._replace(origin=""), Stage.JOIN, Reason.DUPLICATE_KEY, fault)


_NO_HEADER = ImageHeader("", 0, 0, 0)


def _sound(data: bytes | Rejected) -> bytes:
    if isinstance(data, Rejected):
        raise data
    return data


def _bad_labels(ref: SampleRef, error: BadImageError) -> Rejected:
    """The label file, not the image, is at fault."""
    return Rejected(ref, Stage.CHECK, error.reason, str(error), ref.origin)


def _bad_box(ref: SampleRef, reason: Reason, error: BadBoxError) -> Rejected:
    return Rejected(ref, Stage.CHECK, reason, str(error), ref.origin, error.line)


def too_large(ref: SampleRef, size: int) -> Rejected:
    """An example of a sample of this size would be too large."""
    return Rejected(
        ref, Stage.READ, Reason.TOO_LARGE, f"{size} bytes; an example is limited to 2 GiB"
    )


@dataclass(frozen=True)
class ExampleReader:
    """Reads examples that are serialized already.

    Attributes:
      read_example: reads the bytes of one.
      class_ids: class -> id.
    """

    read_example: ImageReader
    class_ids: Mapping[str, int]

    def codec(self) -> str:
        """Empty, as images are not looked at."""
        return ""

    def statistics(self) -> ImageStatistics:
        """None, as examples are not parsed."""
        return NOTHING_COUNTED

    def make(self, ref: SampleRef) -> EncodedSample:
        """Reads one example, whose classes are the first value among its labels, or takes the second.

        Raises:
          Rejected: it is too large, or another one has its key.
          OSError: it cannot be read, although the same job wrote it.
        """
        if ref.size > MAX_EXAMPLE_BYTES:
            raise too_large(ref, ref.size)
        if ref.origin:
            raise repeated(ref._replace(uri=""), "record")
        names: Any = ref.labels[0]
        classes = [self.class_ids[name] for name in names]
        record: Any = ref.labels[1] if len(ref.labels) > 1 else None
        if record is None:
            record = self.read_example(ref.uri, ref.size, ref.offset)
        return EncodedSample(b"", record, b"", classes=classes)


def sort_by_key_hash(refs: Iterable[SampleRef], hasher: KeyHasher) -> list[SampleRef]:
    """References in the order of their shard."""
    return sorted(refs, key=lambda ref: (hasher.order(ref.key), ref.key))


class ShardContent(NamedTuple):
    """The fate of a shard's samples.

    Attributes:
      info: its figures.
      dead_letters: the samples and objects that were left out, in order.
      record_sizes: bytes of each record with its framing, in order; of use where records are stored one after
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
      refs: its samples, in writing order.
      maker: reads, checks and encodes one of them.
      output: writes its records.
    """
    dead_letters: list[DeadLetter] = []
    sizes: list[int] = []
    digests: list[bytes] = []
    classes: Counter[int] = Counter()
    events: Counter[str] = Counter()
    for ref in refs:
        try:
            sample = maker.make(ref)
        except Rejected as rejected:
            dead_letters.append(rejected.letter)
            digests.append(NO_DIGEST)
            continue
        start = output.bytes
        output.write(sample, ref.key)
        sizes.append(output.bytes - start)
        digests.append(sample.digest)
        if sample.events:
            events.update(sample.events)
        dead_letters += sample.dead_letters
        for class_id in sample.classes:
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
