"""Example sources: the kinds of samples that a data set can have, and how each becomes an example.

A `Source` carries one. The samples of nearly all layouts are `LabelledImages`; those given from
Python are `SerializedExamples`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

from beam_pipeline.core import errors, references
from beam_pipeline.core.dead_letters import DeadLetter, Reason, Stage
from beam_pipeline.core.images import geometry, masks, preparation
from beam_pipeline.core.images.header import NO_DIGEST, UPRIGHT, BadImageError, ImageHeader
from beam_pipeline.core.labels import schema
from beam_pipeline.core.labels.boxes import BAD_BOXES, BadBoxError, check_boxes, without_boxes
from beam_pipeline.core.labels.schema import MASK_KINDS, Column, ColumnKind
from beam_pipeline.core.records import image_statistics, shard_writer, wire
from beam_pipeline.core.records.alteration import OBJECTS_OUTSIDE, Alteration
from beam_pipeline.core.records.features import SampleEncoder, feature_kinds
from beam_pipeline.core.records.record_format import EncodedSample
from beam_pipeline.core.records.shard_writer import REPEATED, ImageReader, Maker, Rejected
from beam_pipeline.core.references import NamedFile, SampleRef, Size

ClassIds = Mapping[str, int]
"""Class -> id, of all classes in the references at least."""

_OBJECT_IDS = schema.object_column("id", ColumnKind.INT64).feature


@dataclass(frozen=True)
class ExampleOptions:
    """The user's options that shape examples.

    Attributes:
      image_check: a name in `IMAGE_CHECKS`.
      renames: the key to write a feature under -> its standard key.
      clip_boxes: boxes that reach out of their image are cut at its edge.
      image_encoding: a name in `IMAGE_ENCODINGS`, for images that are bare pixels.
      filters: the filters given, of `FILTER_NAMES`.
      changes: the changes to images.
      bad_boxes: what a box without an area leaves out, one of `BAD_BOXES`.
    """

    image_check: str = next(iter(preparation.IMAGE_CHECKS))
    renames: Mapping[str, str] = field(default_factory=dict)
    clip_boxes: bool = False
    image_encoding: str = preparation.IMAGE_ENCODINGS[0]
    filters: preparation.Limits = field(default_factory=dict)
    changes: geometry.ImageChanges = field(default_factory=geometry.ImageChanges)
    bad_boxes: str = BAD_BOXES[0]

    @property
    def decodes(self) -> bool:
        """True if pixels are decoded, so that a few images take longer than processes to start."""
        return self.changes.encodes or self.image_check == "full"


@dataclass(frozen=True)
class ExampleSource:
    """The kind of samples of a data set. A value: equal to, and pickled as, its attributes.

    Attributes:
      columns: the columns of `SampleRef.labels`, in order.
      pixels: the layout of images that are bare pixels; None where images are files.
      rows: samples may be rows or objects of one image, in keys as `row_key` makes them.
      keyed: nothing before has made sure that keys are unique, so samples that share one are left out.
      described: every feature of an example as in the manifest, where columns do not tell.
      max_bytes: the size of the largest sample that is read, its files included.
      resumable: its samples can be read again after the job, so that receipts are of use.
    """

    columns: tuple[Column, ...] = ()
    pixels: preparation.PixelFormat | None = None
    rows: bool = field(default=False, kw_only=True)
    keyed: bool = field(default=False, kw_only=True)
    described: Mapping[str, Any] = field(default_factory=dict, kw_only=True)

    max_bytes: ClassVar[int] = shard_writer.MAX_IMAGE_BYTES
    resumable: ClassVar[bool] = True

    @property
    def file_columns(self) -> Sequence[int]:
        """The indices of the columns whose values are files."""
        return schema.file_columns(self.columns)

    def features(self, renames: Mapping[str, str], *, turned: bool = False) -> Mapping[str, Any]:
        """Every feature of an example: key as written -> kind, shape and whether it is optional.

        Args:
          renames: the key to write a feature under -> its standard key.
          turned: whether images were written that are not upright.
        """
        return self.described

    def maker(self, options: ExampleOptions, class_ids: ClassIds, read: ImageReader) -> Maker:
        """Turns references into examples.

        Args:
          options: the user's options.
          class_ids: of the classes in the references.
          read: reads the bytes of a sample.

        Raises:
          CodecError: other versions encode images here than where the job was started.
          UsageError: the library that is to encode them is not installed here.
        """
        raise NotImplementedError

    def recorded(self) -> dict[str, Any]:
        """Columns, pixels and features as receipts have them; `recorded_source` reads them.

        "source" names one that a receipt alone cannot make again.
        """
        kind = type(self)
        foreign = kind not in (LabelledImages, SerializedExamples)
        return {
            "columns": [dataclasses.asdict(column) for column in self.columns],
            "pixels": list(self.pixels) if self.pixels else None,
            "features": dict(self.described),
            **({"source": f"{kind.__module__}.{kind.__qualname__}"} if foreign else {}),
        }


@dataclass(frozen=True)
class LabelledImages(ExampleSource):
    """Samples are images with labels; an example is made of both.

    Attributes:
      mask_colours: (red, green, blue, id) of each colour in masks; empty where pixels are ids.
      keyed: see `ExampleSource`; not recorded, as references are marked.
      imageless: some samples lack an image.
    """

    mask_colours: tuple[tuple[int, int, int, int], ...] = ()
    keyed: bool = field(default=False, compare=False, kw_only=True)
    imageless: bool = False

    def features(self, renames: Mapping[str, str], *, turned: bool = False) -> Mapping[str, Any]:
        """The features of images, and those that the columns become."""
        return feature_kinds(self.columns, renames, turned=turned, imageless=self.imageless)

    def maker(self, options: ExampleOptions, class_ids: ClassIds, read: ImageReader) -> Maker:
        """Reads, checks and encodes images."""
        preparation.check_codec(options.changes.codec)
        return ExampleMaker(self, options, class_ids, read)

    def recorded(self) -> dict[str, Any]:
        """The columns and the layout of pixels, and the colours of masks if there are any."""
        given = ("mask_colours", "rows", "imageless")
        return {
            **super().recorded(),
            "features": None,
            **{name: value for name in given if (value := getattr(self, name))},
        }


@dataclass(frozen=True)
class SerializedExamples(ExampleSource):
    """Samples are serialized examples, which a job has spooled to a separate file.

    Their classes, for counting, are the one value in `SampleRef.labels`. Features are never renamed.
    """

    columns: tuple[Column, ...] = (Column("class", ColumnKind.CLASS, "image/class", repeated=True),)

    max_bytes: ClassVar[int] = wire.MAX_EXAMPLE_BYTES
    resumable: ClassVar[bool] = False

    def maker(self, options: ExampleOptions, class_ids: ClassIds, read: ImageReader) -> Maker:
        """Reads the examples; no option changes them."""
        return ExampleReader(read, class_ids)


@dataclass(frozen=True)
class PipelineRecords(SerializedExamples):
    """Samples are the records of somebody's pipeline. Small ones travel with their references.

    `SampleRef.labels` are the record's classes and, if it is small, the record, whose URI is empty then;
    others are in files that the job deletes. `SampleRef.version` is a hash of the record.
    """

    resumable: ClassVar[bool] = True

    def lasting(self, refs: Iterable[SampleRef]) -> list[SampleRef]:
        """The references as receipts have them: without a place, which is another one in each run."""
        return [ref._replace(uri="", offset=-1, labels=ref.labels[:1]) for ref in refs]


def marked(source: ExampleSource, refs: Sequence[SampleRef]) -> Sequence[SampleRef]:
    """Sorted references; those whose key is not unique are marked for the maker to reject, if it has to be."""
    if not source.keyed:
        return refs
    repeated = {ref.key for ref, after in itertools.pairwise(refs) if ref.key == after.key}
    return [ref._replace(origin=REPEATED) if ref.key in repeated else ref for ref in refs]


def recorded_source(values: Mapping[str, Any]) -> ExampleSource:
    """The source whose `recorded` values these are, read from JSON.

    Raises:
      UsageError: a pipeline made the examples.
    """
    if "source" in values:
        raise errors.UsageError(
            f"its examples were made by {values.get('encoder', values['source'])}, so only the pipeline that "
            "wrote them can write them again"
        )
    if values.get("features") is not None:
        return SerializedExamples(described=values["features"])
    columns = [{**column, "kind": ColumnKind(column["kind"])} for column in values["columns"]]
    pixels = values.get("pixels")
    return LabelledImages(
        columns=tuple(Column(**column) for column in columns),
        pixels=preparation.PixelFormat(*pixels) if pixels else None,
        mask_colours=tuple((r, g, b, i) for r, g, b, i in values.get("mask_colours", ())),
        rows=values.get("rows", False),
        imageless=values.get("imageless", False),
    )


# --- makers ---------------------------------------------------------------------------------------

_NO_HEADER = ImageHeader("", 0, 0, 0)

_Files = dict[int, dict[str, bytes | Rejected]]
"""Index of a label -> URI -> the content of the file, or why it cannot be read."""


class ExampleMaker(Maker):
    """Makes an example from an image and its labels."""

    def __init__(
        self,
        source: LabelledImages,
        options: ExampleOptions,
        class_ids: ClassIds,
        read: ImageReader,
    ) -> None:
        columns = source.columns
        self._options, self._pixels, self._read = options, source.pixels, read
        self._encoder = SampleEncoder(columns, class_ids, options.renames, rows=source.rows)
        self._imageless = None
        if source.imageless:
            self._imageless = SampleEncoder(columns, class_ids, options.renames, images=False)
        self._full_check = self._check = preparation.IMAGE_CHECKS[options.image_check]
        if options.changes.reencode != "never":
            self._check = partial(preparation.check_any_format, self._full_check)
        self._columns = columns
        self._file_columns = source.file_columns
        self._colours = {(r, g, b): i for r, g, b, i in source.mask_colours} or None
        self._boxes = [i for i, column in enumerate(columns) if column.kind is ColumnKind.BOX]
        self._ids = next((i for i, c in enumerate(columns) if c.feature == _OBJECT_IDS), None)
        self._alteration = Alteration(options.changes, columns)
        self._gatherer = image_statistics.StatisticsGatherer(columns)

    def codec(self) -> str:
        """Names what encodes images."""
        return preparation.codec_here(self._options.changes.image_codec)

    def statistics(self) -> image_statistics.ImageStatistics:
        """The statistics of the examples made so far."""
        return self._gatherer.statistics()

    def make(self, ref: SampleRef) -> EncodedSample:
        """Reads, checks and encodes one sample."""
        if ref.origin == REPEATED:
            raise shard_writer.repeated(ref, "sample")
        filters, columns = self._options.filters, self._file_columns
        if filters and (fault := preparation.outside_bytes(ref.size, filters)):
            raise Rejected(ref, Stage.CHECK, Reason.FILTERED_MAX_IMAGE_BYTES, fault)
        size = references.bytes_of(ref, columns) if columns else ref.size
        if size > shard_writer.MAX_IMAGE_BYTES:
            raise shard_writer.too_large(ref, size)
        # Each file is read whatever is wrong with those before, because they are read ahead in this order.
        read, has_image = shard_writer.read_sample, ref.uri or not self._imageless
        image = read(self._read, ref, ref.uri, ref.size, ref.offset) if has_image else b""
        files: _Files = {}
        for index, uri, size in references.files_of(ref, columns) if columns else ():
            content = read(self._read, ref, uri, size, -1, self._noun(index))
            files.setdefault(index, {})[uri] = content
        try:
            if has_image:
                return self._example(ref, shard_writer.sound(image), files)
            prepared, events = self._prepared(ref, files, _NO_HEADER, _NO_HEADER)
            return self._encoded(prepared, b"", _NO_HEADER, b"", ())._replace(events=events)
        except BadImageError as error:
            # An image may have any size: where it has another one, it is the label file that is at fault.
            file = ref.origin if error.reason is Reason.SIZE_MISMATCH else ""
            raise Rejected(ref, Stage.CHECK, error.reason, str(error), file) from error

    def _noun(self, column: int) -> str:
        """Names a file of a column in messages."""
        if self._columns[column].kind in MASK_KINDS:
            return "the mask"
        return f"the file in column {self._columns[column].name!r}"

    def _example(self, ref: SampleRef, source: bytes, files: _Files) -> EncodedSample:
        """Checks and encodes a sample, whose image is `source`. Raises BadImageError and Rejected."""
        filters = self._options.filters
        if self._pixels:
            encoding = self._options.image_encoding
            image, header = preparation.encoded_pixels(source, self._pixels, encoding)
        else:
            image, header = source, self._check(source)
        if filters:
            preparation.check_sides(header, filters)
        if header.orientation != UPRIGHT or self._options.changes.encodes:
            return self._altered(ref, image, header, files, source)
        ref, left_out = self._checked(ref, header)
        if not files:
            return self._encoded(ref, image, header, source, left_out)
        ref, events = self._prepared(ref, files, header, header)
        sample = self._encoded(ref, image, header, source, left_out)
        return sample._replace(events=events) if events else sample

    def _altered(
        self, ref: SampleRef, image: bytes, header: ImageHeader, files: _Files, source: bytes
    ) -> EncodedSample:
        """Changes an image, and moves its labels with it; `source` is the image as its file has it."""
        alteration = self._alteration
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
            boxes: Any = ref.labels[self._boxes[0]]
            raise _bad_box(ref, error.reason, BadBoxError(str(error), boxes[0][-1])) from error
        altered = alteration.alter(image, header, window)
        labels, outside = alteration.labels(ref.labels, header, measured, altered.geometry)
        ref = ref._replace(labels=labels)
        sample = self._encoded(ref, altered.image, altered.header, source, left_out)
        events.update(altered.events)
        if outside:
            events[OBJECTS_OUTSIDE] = outside
        return sample._replace(events=events)

    def _checked(self, ref: SampleRef, header: ImageHeader) -> tuple[SampleRef, list[DeadLetter]]:
        """Compares the labels with the picture that they were measured on. Raises BadImageError and Rejected.

        Returns: the sample without objects whose boxes have no area, and a dead letter for each of these.
        """
        if ref.claimed_size:
            geometry.check_claimed_size(ref.claimed_size, header, boxes=bool(self._boxes))
        ids: Any = () if self._ids is None else ref.labels[self._ids] or ()
        letters: list[DeadLetter] = []
        for index in self._boxes:
            boxes: Any = ref.labels[index] or ()
            pixels, clip = self._columns[index].pixels, self._options.clip_boxes
            try:
                empty = check_boxes(boxes, header, pixels=pixels, clip=clip, ids=ids)
                if empty and self._options.changes.crop:
                    raise _bad_box(ref, Reason.SMALL_BOX, empty[0])
                if empty and self._options.bad_boxes == "drop_image":
                    raise next(iter(empty.values()))
            except BadBoxError as error:
                raise _bad_box(ref, Reason.BAD_BOX, error) from error
            if empty:
                letters += [_bad_box(ref, Reason.EMPTY_BOX, e).letter for e in empty.values()]
                has_area = [number not in empty for number in range(len(boxes))]
                ref = ref._replace(labels=without_boxes(ref.labels, self._columns, index, has_area))
        return ref, letters

    def _encoded(
        self,
        ref: SampleRef,
        image: bytes,
        header: ImageHeader,
        source: bytes,
        left_out: Sequence[DeadLetter],
    ) -> EncodedSample:
        """Writes the features around an image; `source` is the image as its file has it. Raises as `_checked`."""
        encoder = self._encoder if ref.uri or not self._imageless else self._imageless
        try:
            before, after = encoder.encode(ref, header, image)
        except OverflowError as error:
            fault = f"a number is too large for its feature: {error}"
            raise Rejected(ref, Stage.LABELS, Reason.BAD_LABEL_VALUE, fault, ref.origin) from error
        if image:
            self._gatherer.add(header, len(image), ref.labels)
        digest = preparation.digest_of(source) if source else NO_DIGEST
        classes = self._encoder.classes(ref)
        return EncodedSample(before, image, after, digest, classes, dead_letters=left_out)

    def _prepared(
        self, ref: SampleRef, files: _Files, measured: ImageHeader, stored: ImageHeader
    ) -> tuple[SampleRef, Counter[str]]:
        """The sample with the values to write of each file instead of its place, and the changes to them."""
        labels: list[Any] = list(ref.labels)
        events: Counter[str] = Counter()
        check = self._full_check
        for index, contents in files.items():
            column, prepared = self._columns[index], []
            # Without those of objects that are left out.
            for place in references.named_files(labels[index]):
                file = NamedFile(*place)
                data, segments = shard_writer.sound(contents[file.uri]), file.segments
                values: tuple[bytes | int, ...]
                try:
                    if column.kind is ColumnKind.PANOPTIC:
                        values = masks.panoptic_pngs(data, segments, measured, check=check)
                    elif column.kind in MASK_KINDS:
                        bits = 16 if column.kind is ColumnKind.SEGMENTATION_16 else 8
                        mask = masks.segmentation_png(data, measured, bits, check, self._colours)
                        values = mask, b"png"
                    else:
                        values, changes = self._file_values(column, data, stored)
                        events.update(changes)
                except BadImageError as error:
                    fault = f"{self._noun(index)}: {error}"
                    raise Rejected(ref, Stage.CHECK, error.reason, fault, file.uri) from error
                prepared.append(values)
            labels[index] = tuple(prepared)
        return ref._replace(labels=tuple(labels)), events

    def _file_values(
        self, column: Column, data: bytes, image: ImageHeader
    ) -> tuple[tuple[bytes | int, ...], Sequence[str]]:
        """The values of a file that a cell names, one for each feature, and the changes to it. Raises BadImageError."""
        events: Sequence[str] = ()
        if column.kind is ColumnKind.FILE:
            return (data,), events
        if column.kind is ColumnKind.COPY:
            header = self._full_check(data)
        else:
            if (deep := masks.is_deep_grey(data)) != (column.kind is ColumnKind.PICTURE_16):
                raise BadImageError(
                    Reason.UNSUPPORTED_FORMAT,
                    f"{'' if deep else 'not '}a PNG of 16 bits and one channel, unlike the first files of the "
                    "column; save all in the same way, as readers give them one type",
                )
            altered = self._alteration.beside(data, self._check(data), image)
            if altered.image is data and self._check is not self._full_check:
                self._full_check(data)  # as it was not re-encoded
            data, header, events = altered.image, altered.header, altered.events
        return (data, header.format.encode(), header.height, header.width, header.channels), events

    def _mask_size(self, files: _Files) -> Size | None:
        """Width and height of a mask, which is of the size of the picture that it was drawn on."""
        for index, contents in files.items():
            data = next(iter(contents.values()))
            if isinstance(data, bytes) and self._columns[index].kind in MASK_KINDS:
                with contextlib.suppress(BadImageError):
                    header = preparation.read_header(data)
                    return header.width, header.height
        return None


def _bad_box(ref: SampleRef, reason: Reason, error: BadBoxError) -> Rejected:
    return Rejected(ref, Stage.CHECK, reason, str(error), ref.origin, error.line)


@dataclass
class ExampleReader(Maker):
    """Reads examples that are serialized already.

    Attributes:
      read_example: reads the bytes of one.
      class_ids: class -> id.
    """

    read_example: ImageReader
    class_ids: ClassIds

    def make(self, ref: SampleRef) -> EncodedSample:
        """Reads one example, whose classes are the first value among its labels, or takes the second.

        Raises:
          Rejected: it is too large, or another one has its key.
          OSError: it cannot be read, although the same job wrote it.
        """
        if ref.size > wire.MAX_EXAMPLE_BYTES:
            raise shard_writer.too_large(ref, ref.size)
        if ref.origin:
            raise shard_writer.repeated(ref._replace(uri=""), "record")
        names: Any = ref.labels[0]
        classes = [self.class_ids[name] for name in names]
        record: Any = ref.labels[1] if len(ref.labels) > 1 else None
        if record is None:
            record = self.read_example(ref.uri, ref.size, ref.offset)
        return EncodedSample(b"", record, b"", classes=classes)
