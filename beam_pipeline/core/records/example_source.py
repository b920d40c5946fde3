"""Example sources: the kinds of samples that a data set can have, and how each becomes an example.

A `Source` carries one. The samples of nearly all layouts are `LabelledImages`; those given from
Python are `SerializedExamples`.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from beam_pipeline.core.dead_letters import Reason
from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.images.changes import ImageChanges
from beam_pipeline.core.images.header import BadImageError, ImageHeader
from beam_pipeline.core.images.masks import (
    FilePreparer,
    PreparedFile,
    is_deep_grey,
    mask_preparer,
)
from beam_pipeline.core.images.preparation import (
    IMAGE_CHECKS,
    IMAGE_ENCODINGS,
    ImageCheck,
    Limits,
    PixelFormat,
    check_codec,
    image_preparer,
    passing_any_format,
)
from beam_pipeline.core.labels.boxes import BAD_BOXES
from beam_pipeline.core.labels.schema import (
    CELL_FILES,
    FILE_KINDS,
    Column,
    ColumnKind,
    file_columns,
    object_column,
)
from beam_pipeline.core.records.alteration import Alteration
from beam_pipeline.core.records.features import SampleEncoder, feature_kinds
from beam_pipeline.core.records.image_statistics import StatisticsGatherer
from beam_pipeline.core.records.shard_writer import (
    MAX_IMAGE_BYTES,
    REPEATED,
    ExampleMaker,
    ExampleReader,
    ImageReader,
    Maker,
)
from beam_pipeline.core.records.wire import MAX_EXAMPLE_BYTES
from beam_pipeline.core.references import SampleRef

_OBJECT_IDS = object_column("id", ColumnKind.INT64).feature


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

    image_check: str = next(iter(IMAGE_CHECKS))
    renames: Mapping[str, str] = field(default_factory=dict)
    clip_boxes: bool = False
    image_encoding: str = IMAGE_ENCODINGS[0]
    filters: Limits = field(default_factory=dict)
    changes: ImageChanges = field(default_factory=ImageChanges)
    bad_boxes: str = BAD_BOXES[0]


class ExampleSource(Protocol):
    """The kind of samples of a data set. A value: equal to, and pickled as, its attributes.

    Attributes:
      columns: the columns of `SampleRef.labels`, in order.
      pixels: the layout of images that are bare pixels; None where there are none.
      file_columns: the indices of the columns whose values are files.
      max_bytes: the size of the largest sample that is read, its files included.
      rows: samples may be rows or objects of one image, in keys as `row_key` makes them.
      resumable: its samples can be read again after the job, so that receipts are of use.
      keyed: nothing before has made sure that keys are unique, so samples that share one are left out.
    """

    @property
    def columns(self) -> tuple[Column, ...]: ...

    @property
    def pixels(self) -> PixelFormat | None: ...

    @property
    def file_columns(self) -> Sequence[int]: ...

    @property
    def max_bytes(self) -> int: ...

    @property
    def rows(self) -> bool: ...

    @property
    def resumable(self) -> bool: ...

    @property
    def keyed(self) -> bool: ...

    def features(self, renames: Mapping[str, str], *, turned: bool = False) -> Mapping[str, Any]:
        """Every feature of an example: key as written -> kind, shape and whether it is optional.

        Args:
          renames: the key to write a feature under -> its standard key.
          turned: whether images were written that are not upright.
        """

    def maker(
        self, options: ExampleOptions, class_ids: Mapping[str, int], read: ImageReader
    ) -> Maker:
        """Turns references into examples.

        Args:
          options: the user's options.
          class_ids: class -> id, of all classes in the references at least.
          read: reads the bytes of a sample.

        Raises:
          CodecError: other versions encode images here than where the job was started.
          UsageError: the library that is to encode them is not installed here.
        """

    def recorded(self) -> dict[str, Any]:
        """Columns, pixels and features as receipts have them; `recorded_source` reads them."""


@dataclass(frozen=True)
class LabelledImages:
    """Samples are images with labels; an example is made of both.

    Attributes:
      columns: the label columns.
      pixels: the layout of images that are bare pixels; None where images are files.
      mask_colours: (red, green, blue, id) of each colour in masks; empty where pixels are ids.
      keyed: see `ExampleSource`; not recorded, as references are marked.
      rows: see `ExampleSource`.
      imageless: some samples lack an image.
    """

    columns: tuple[Column, ...]
    pixels: PixelFormat | None = None
    mask_colours: tuple[tuple[int, int, int, int], ...] = ()
    keyed: bool = field(default=False, compare=False)
    rows: bool = False
    imageless: bool = False

    max_bytes = MAX_IMAGE_BYTES
    resumable = True

    @property
    def file_columns(self) -> Sequence[int]:
        """The indices of the columns whose values are files."""
        return file_columns(self.columns)

    def features(self, renames: Mapping[str, str], *, turned: bool = False) -> Mapping[str, Any]:
        """The features of images, and those that the columns become."""
        return feature_kinds(self.columns, renames, turned=turned, imageless=self.imageless)

    def maker(
        self, options: ExampleOptions, class_ids: Mapping[str, int], read: ImageReader
    ) -> ExampleMaker:
        """Reads, checks and encodes images."""
        check_codec(options.changes.codec)
        features = [column.feature for column in self.columns]
        return ExampleMaker(
            read_image=read,
            encoder=SampleEncoder(self.columns, class_ids, options.renames, rows=self.rows),
            imageless=SampleEncoder(self.columns, class_ids, options.renames, images=False)
            if self.imageless
            else None,
            prepare=image_preparer(
                options.image_check,
                self.pixels,
                options.image_encoding,
                options.filters,
                any_format=options.changes.reencode != "never",
            ),
            file_columns=self._preparers(options),
            box_columns=[
                (index, column.pixels)
                for index, column in enumerate(self.columns)
                if column.kind is ColumnKind.BOX
            ],
            clip_boxes=options.clip_boxes,
            bad_boxes=options.bad_boxes,
            id_column=features.index(_OBJECT_IDS) if _OBJECT_IDS in features else None,
            filters=options.filters,
            alteration=Alteration(options.changes, self.columns),
            gatherer=StatisticsGatherer(self.columns),
        )

    def _preparers(self, options: ExampleOptions) -> Mapping[int, FilePreparer]:
        """Index of a column of files -> what prepares one of them."""
        if not self.file_columns:
            return {}
        colours = {(r, g, b): i for r, g, b, i in self.mask_colours} if self.mask_colours else None
        check = IMAGE_CHECKS[options.image_check]
        return {
            index: _picture_preparer(column, check, Alteration(options.changes, self.columns))
            if column.kind in CELL_FILES
            else mask_preparer(column.kind.value, check=check, colours=colours)
            for index, column in enumerate(self.columns)
            if column.kind in FILE_KINDS
        }

    def recorded(self) -> dict[str, Any]:
        """The columns and the layout of pixels, and the colours of masks if there are any."""
        colours = {"mask_colours": self.mask_colours} if self.mask_colours else {}
        return {
            "columns": [dataclasses.asdict(column) for column in self.columns],
            "pixels": list(self.pixels) if self.pixels else None,
            "features": None,
            **colours,
            **{name: True for name in ("rows", "imageless") if getattr(self, name)},
        }


def _picture_preparer(column: Column, check: ImageCheck, alteration: Alteration) -> FilePreparer:
    """Prepares the files that the cells of a column name."""
    kind = column.kind

    def prepare(
        data: bytes, _: Sequence[Any], _measured: ImageHeader, image: ImageHeader
    ) -> PreparedFile:
        if kind is ColumnKind.FILE:
            return PreparedFile((data,))
        events: Sequence[str] = ()
        if kind is ColumnKind.COPY:
            header = check(data)
        else:
            if (deep := is_deep_grey(data)) != (kind is ColumnKind.PICTURE_16):
                raise BadImageError(
                    Reason.UNSUPPORTED_FORMAT,
                    f"{'' if deep else 'not '}a PNG of 16 bits and one channel, unlike the first files of the "
                    "column; save all in the same way, as readers give them one type",
                )
            any_format = alteration.changes.reencode != "never"
            own = (passing_any_format(check) if any_format else check)(data)
            altered = alteration.beside(data, own, image)
            if any_format and altered.image is data:
                check(data)  # of another size than the image, so it was not re-encoded
            data, header, events = altered.image, altered.header, altered.events
        sides = (header.height, header.width, header.channels)
        return PreparedFile((data, header.format.encode(), *sides), events)

    return FilePreparer(f"the file in column {column.name!r}", prepare)


@dataclass(frozen=True)
class SerializedExamples:
    """Samples are serialized examples, which a job has spooled to a separate file.

    Their classes, for counting, are the one value in `SampleRef.labels`.

    Attributes:
      described: every feature of an example as in the manifest.
    """

    described: Mapping[str, Any]

    columns = (Column("class", ColumnKind.CLASS, "image/class", repeated=True),)
    pixels = None
    file_columns = ()
    max_bytes = MAX_EXAMPLE_BYTES
    rows = False
    resumable = False
    keyed = False

    def features(self, renames: Mapping[str, str], *, turned: bool = False) -> Mapping[str, Any]:
        """The features of the examples, which are never renamed."""
        assert not renames, renames
        return self.described

    def maker(
        self, options: ExampleOptions, class_ids: Mapping[str, int], read: ImageReader
    ) -> ExampleReader:
        """Reads the examples; no option changes them."""
        return ExampleReader(read_example=read, class_ids=class_ids)

    def recorded(self) -> dict[str, Any]:
        """The column of classes and the features."""
        return {
            "columns": [dataclasses.asdict(column) for column in self.columns],
            "pixels": None,
            "features": dict(self.described),
        }


@dataclass(frozen=True)
class PipelineRecords(SerializedExamples):
    """Samples are the records of somebody's pipeline. Small ones travel with their references.

    `SampleRef.labels` are the record's classes and, if it is small, the record, whose URI is empty then;
    others are in files that the job deletes. `SampleRef.version` is a hash of the record.

    Attributes:
      keyed: keys were given, so that each must be unique.
    """

    keyed: bool = False

    resumable = True

    def lasting(self, refs: Iterable[SampleRef]) -> list[SampleRef]:
        """The references as receipts have them: without a place, which is another one in each run."""
        return [ref._replace(uri="", offset=-1, labels=ref.labels[:1]) for ref in refs]


def marked(source: ExampleSource, refs: Sequence[SampleRef]) -> Sequence[SampleRef]:
    """Sorted references; those whose key is not unique are marked for the maker to reject, if it has to be."""
    if not source.keyed:
        return refs
    repeated = {ref.key for ref, after in itertools.pairwise(refs) if ref.key == after.key}
    return [ref._replace(origin=REPEATED) if ref.key in repeated else ref for ref in refs]


def foreign_source(source: ExampleSource) -> str:
    """The name of a source that a receipt alone cannot make again; empty for the others."""
    kind = type(source)
    known = kind in (LabelledImages, SerializedExamples)
    return "" if known else f"{kind.__module__}.{kind.__qualname__}"


def recorded_source(values: Mapping[str, Any]) -> ExampleSource:
    """The source whose `recorded` values these are, read from JSON.

    Raises:
      UsageError: a pipeline made the examples.
    """
    if "source" in values:
        raise UsageError(
            f"its examples were made by {values.get('encoder', values['source'])}, so only the pipeline that "
            "wrote them can write them again"
        )
    if values.get("features") is not None:
        return SerializedExamples(values["features"])
    columns = [{**column, "kind": ColumnKind(column["kind"])} for column in values["columns"]]
    pixels = values.get("pixels")
    return LabelledImages(
        columns=tuple(Column(**column) for column in columns),
        pixels=PixelFormat(*pixels) if pixels else None,
        mask_colours=tuple((r, g, b, i) for r, g, b, i in values.get("mask_colours", ())),
        rows=values.get("rows", False),
        imageless=values.get("imageless", False),
    )
