"""The interface of layouts. A layout is a common way to organise images and labels on disk.

A layout inspects the paths given and returns a `Source`: the files to list as images, and the source
of the labels. It does so before the job starts, and does not open images. Labels come from one of
four sources:

- `FolderLabels`: the class is the image's folder, or the image's name contains the labels.
- `FileLabels`: label files. A `LabelReader` turns each into `LabelRow`s, on any worker; the job joins
  them with the listed images by name.
- `ListedLabels`: label files beside the images, such as masks. They are listed, and opened only with
  the images.
- `ContainerLabels`: a few files that contain both images and labels. A `ContainerReader` turns each into
  `SampleRef`s.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import BinaryIO, Protocol, runtime_checkable

from beam_pipeline.core import packing
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.images.preparation import PixelFormat
from beam_pipeline.core.labels import classes, name_pattern, schema, table_rows
from beam_pipeline.core.labels.roles import RoleRow
from beam_pipeline.core.labels.samples import NO_IMAGE, ROWS_OF, RowSamples, UnnamedImages
from beam_pipeline.core.listing import cuts, filters
from beam_pipeline.core.questions import Question
from beam_pipeline.core.records.example_source import ExampleSource
from beam_pipeline.core.references import ImageRef, LabelRow, SampleRef


@dataclass(frozen=True)
class SourceOptions(schema.ColumnChoices):
    """The options given that concern layouts.

    Attributes:
      images: paths, folders and globs of --images, as typed.
      labels: from --labels.
      masks: from --masks.
      mask_colors: file of --mask_colors, or empty.
      label_from: a regular expression for file names, with a group `label`; empty for none.
      label_base: id of the first class, or None for the layout's own.
      label_order: how class names are sorted (see `ClassNumbering`).
      class_ids: "keep" if a class's name is its id, in any layout.
      annotator: a person, of several who labelled images; empty for all.
      object_features: further features of objects to write, names in `OBJECT_FEATURES`.
      yolo_task: the task of YOLO label files, a name in `YOLO_TASKS`; None to guess.
      no_image: the fate of rows that name no image, a name in `NO_IMAGE`.
      rows_of: what rows name, a name in `ROWS_OF`.
    """

    images: tuple[str, ...]
    labels: tuple[str, ...] = ()
    masks: tuple[str, ...] = ()
    mask_colors: str = ""
    label_from: str = ""
    label_base: int | None = None
    label_order: str = classes.AUTO_ORDER
    class_ids: str = classes.CLASS_IDS[0]
    annotator: str = ""
    object_features: tuple[str, ...] = ()
    yolo_task: str | None = None
    no_image: str = NO_IMAGE[0]
    rows_of: str = ROWS_OF[0]

    def __post_init__(self) -> None:
        for option in ("images", "labels", "masks"):
            if not all(map(str.strip, getattr(self, option))):
                raise UsageError(f"--{option}: an empty path")

    def numbering(self, base: int = 0) -> classes.ClassNumbering:
        """Returns the numbering of classes for layouts without fixed ids.

        Args:
          base: id of the first class if the user gave none.

        Raises:
          UsageError: a first id was given although the names of classes are the ids.
        """
        keep = self.class_ids == "keep"
        if keep and self.label_base is not None:
            raise UsageError("--label_base means nothing with --class_ids keep; leave it out")
        return classes.ClassNumbering(
            base if self.label_base is None else self.label_base,
            self.label_order,
            from_name=keep,
            unsigned=keep,
        )


LabelRows = Iterator[LabelRow | packing.LabelBatch | DeadLetter]
Samples = Iterable[SampleRef | DeadLetter]


class LabelReader(Protocol):
    """Reads label files on any worker; it is pickled and stateless."""

    def read(self, file: BinaryIO, uri: str) -> LabelRows:
        """Yields a row for each image that a file names, with values in the order of the columns; or batches.

        A fault in an image's labels is reported in the row's `problem` and `line`, so that the
        image becomes a dead letter. An entry that names no image is yielded as a dead letter.

        Args:
          file: the file, open at its beginning.
          uri: its URI.

        Raises:
          LabelTableError: the file is broken, so the images that it names are unknown.
        """


@runtime_checkable
class PartReader(LabelReader, Protocol):
    """Reads label files that are cut where they are large: any worker may begin with any part."""

    def cut_of(self, uri: str) -> cuts.Cut | None:
        """How a file may be cut; None if it can only be read as a whole."""

    def read_part(
        self, file: BinaryIO, uri: str, part: cuts.LineRange | cuts.RowGroupRange
    ) -> LabelRows:
        """Yields a row for each image that a part of a file names, as `read` does.

        Args:
          file: the whole file, if the part is a range of row groups; the lines of the part otherwise, or
            the file, open at the first of them.
          uri: its URI.
          part: the part.
        """


class ContainerReader(Protocol):
    """Reads files that contain images and labels, on any worker; it is pickled and stateless."""

    def read(self, uri: str, unpack_to: str) -> Iterator[SampleRef | DeadLetter]:
        """Yields a reference to each sample of a file.

        An image must be stored unchanged at an offset in a file. Other images are unpacked first.

        Args:
          uri: the file.
          unpack_to: a folder for unpacked images; it is removed at the end of the job. Empty if no
            image will be read: in a plan nothing is unpacked.

        Raises:
          ContainerError: the file is broken, so the samples that it contains are unknown.
        """


def held(outcomes: Iterator[SampleRef | DeadLetter]) -> list[Samples]:
    """The outcomes of a container, packed until all of them are known."""
    parts: list[Samples] = []
    while some := [*islice(outcomes, packing.BATCH_SIZE)]:
        refs = packing.SampleBatch(each for each in some if isinstance(each, SampleRef))
        parts += [refs.kept_packed(), [each for each in some if isinstance(each, DeadLetter)]]
    return parts


class NoSink:
    """Takes the bytes of unpacked images where none will be read."""

    def write(self, *buffers: bytes) -> None:
        """Drops them."""


@dataclass(frozen=True)
class FolderLabels:
    """Labels from the image's own path.

    Attributes:
      names: the pattern of its name; None if the class is its folder, and the split a folder above.
    """

    names: name_pattern.NamePattern | None = None


@dataclass(frozen=True)
class FileLabels:
    """Labels from label files.

    Attributes:
      reader: reads the files.
      files: URIs of single files; or
      folders: folders of label files, listed by the job.
      merge_rows: True if the rows of an image are merged, one per object; otherwise they must
        agree.
      unnamed: makes rows for images without a row; None to reject these as dead letters.
      samples: makes a sample of each row; None if rows are labels of an image.
      imageless: makes samples of rows that name no image; None if there are none.
      class_by_folder: True if rows lack labels: the class is the image's folder. It is the first
        column, which is empty in every row.
      level: how deep the folders are that rows name, whose images they all are of; None if rows name images.
    """

    reader: LabelReader
    files: tuple[str, ...] = ()
    folders: tuple[filters.ImageRoot, ...] = ()
    merge_rows: bool = False
    unnamed: UnnamedImages | None = None
    class_by_folder: bool = False
    samples: RowSamples | None = None
    imageless: RowSamples | None = None
    level: int | None = None

    def __post_init__(self) -> None:
        assert bool(self.files) != bool(self.folders), "label files come by name or by folder"


class ListedReader(Protocol):
    """Tells which image a listed file is for, without opening it: it is pickled, and keeps no state."""

    def row(self, file: ImageRef) -> LabelRow:
        """The row that a file represents. Its values may contain the file's uri, size and version."""


@dataclass(frozen=True)
class ListedLabels:
    """Files are labels themselves, such as masks: the job lists them and opens none.

    Rows of one image complete each other: each fills columns that others leave empty. The first
    column is the one without which the others are of no use.

    Attributes:
      reader: tells which image a file is for.
      folders: the folders of the files.
      noun: what a file is.
    """

    reader: ListedReader
    folders: tuple[filters.ImageRoot, ...]
    noun: str = "mask"


@dataclass(frozen=True)
class ContainerLabels:
    """Images and labels from the same few files.

    Attributes:
      reader: reads them.
      files: their URIs.
    """

    reader: ContainerReader
    files: tuple[str, ...]


@dataclass(frozen=True)
class PipelineLabels:
    """Images and labels from somebody's pipeline."""


Labels = FolderLabels | FileLabels | ListedLabels | ContainerLabels | PipelineLabels


@dataclass(frozen=True)
class Source:
    """The input of a conversion, as found by a layout.

    Attributes:
      layout: the layout's name.
      roots: the folders and archives whose files are listed as images; none if they are in containers.
      labels: the source of the labels.
      examples: the kind of the samples: images with label columns, or serialized examples.
      numbering: how classes get their ids.
      notes: notes for the user, one sentence each.
      questions: guesses that are not safe; the run stops for them unless --yes is given.
      unseen: True if classes are taken from folders by default, where the layout could not look for label
        files; the listing of the images finds them.
      tables: how the tables among the label files are read.
      roles: what each part of the input is used for; of a layout, the columns of its tables.
    """

    layout: str
    roots: tuple[filters.ImageRoot, ...]
    labels: Labels
    examples: ExampleSource
    numbering: classes.ClassNumbering = field(default_factory=classes.ClassNumbering)
    notes: tuple[str, ...] = ()
    questions: tuple[Question, ...] = ()
    unseen: bool = False
    tables: tuple[table_rows.LabelTable, ...] = ()
    roles: tuple[RoleRow, ...] = ()

    @property
    def columns(self) -> tuple[schema.Column, ...]:
        """The columns of a sample's labels."""
        return self.examples.columns

    @property
    def may_repeat_keys(self) -> bool:
        """True if two images may have the same key: below several roots, or in an archive."""
        return len(self.roots) > 1 or any(root.archive for root in self.roots)

    @property
    def class_by_folder(self) -> bool:
        """True if label files name the images, and the folder of each is its class."""
        return isinstance(self.labels, FileLabels) and self.labels.class_by_folder

    @property
    def uris(self) -> tuple[str, ...]:
        """Every file and folder that the job reads."""
        folders = (*self.roots, *getattr(self.labels, "folders", ()))
        return (*(folder.uri for folder in folders), *getattr(self.labels, "files", ()))

    @property
    def pixels(self) -> PixelFormat | None:
        """The layout of bare pixels; None if images are files."""
        return self.examples.pixels


@runtime_checkable
class Layout(Protocol):
    """A way to organise images and labels.

    Attributes:
      name: its name in --layout.
      option_names: names of the fields of `SourceOptions` that it uses beyond images and labels.
      reads_labels: False if --labels means nothing to it; it may be missing.
    """

    name: str
    option_names: frozenset[str]

    def recognise(self, options: SourceOptions) -> str:
        """Returns the reason why the layout fits, for `--layout auto`; empty if it does not fit.

        Reads only names of files and first lines.
        """

    def open(self, options: SourceOptions) -> Source:
        """Finds the images and labels.

        Raises:
          UsageError: a path or option cannot be used; the message shows the expected one.
        """
