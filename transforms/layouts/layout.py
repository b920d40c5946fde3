"""What a layout is: a way in which people keep images and labels on disk.

A layout looks at what a person named and returns a `Source`: which files are listed as images, and
where labels come from. That is all it does, before the job starts and without opening an image. A
label comes from one of four places:

- `FolderLabels`: the class is the image's folder, or the image's name says the labels.
- `FileLabels`: files say it. A `LabelReader` turns each into `LabelRow`s, on any worker; the job joins
  them with the listed images by name.
- `ListedLabels`: files beside the images are the labels, as masks are. They are listed, and opened with
  the images only.
- `ContainerLabels`: images and labels lie in the same few files. A `ContainerReader` turns each into
  `SampleRef`s.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO, NamedTuple, Protocol

from beam_pipeline.transforms.core.dead_letters import DeadLetter
from beam_pipeline.transforms.core.errors import UsageError
from beam_pipeline.transforms.core.images.pixels import PixelFormat
from beam_pipeline.transforms.core.labels.classes import AUTO_ORDER, CLASS_IDS, ClassNumbering
from beam_pipeline.transforms.core.labels.join import UnnamedImages
from beam_pipeline.transforms.core.labels.name_pattern import NamePattern
from beam_pipeline.transforms.core.labels.schema import Column
from beam_pipeline.transforms.core.labels.table_files import LabelTable
from beam_pipeline.transforms.core.listing.filters import ImageRoot
from beam_pipeline.transforms.core.records.example_source import ExampleSource
from beam_pipeline.transforms.core.references import ImageRef, LabelRow, SampleRef


@dataclass(frozen=True)
class SourceOptions:
    """What a person named.

    Attributes:
      images: paths, folders and globs of --images, as typed.
      labels: those of --labels.
      masks: those of --masks.
      mask_colors: file of --mask_colors, or empty.
      key_column, label_column: names of columns, or empty.
      columns: column -> type name of --columns.
      list_column: column -> separator, of columns whose cells hold several values.
      one_hot: names of columns that are a class each, or `prefix_*`.
      labels_encoding: of the tables; empty to find it out.
      label_from: a regular expression for file names, with a group `label`; empty for none.
      label_base: id of the first class, or None for the layout's own.
      label_order: how class names are sorted, as `ClassNumbering` has it.
      unlabelled: "keep" if images without a label are written, too, else "drop".
      split_by: what keeps samples in one split: the name of a column, "folder", or empty.
      label_from_folder_name: whether a class folder's name is its id.
      class_ids: "keep" if a class's name is its id, wherever the classes come from.
      object_features: what else to write of objects, names in `OBJECT_FEATURES`.
      yolo_task: what the lines of YOLO's label files are, a name in `YOLO_TASKS`; None to guess.
    """

    images: tuple[str, ...]
    labels: tuple[str, ...] = ()
    masks: tuple[str, ...] = ()
    mask_colors: str = ""
    key_column: str = ""
    label_column: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    list_column: Mapping[str, str] = field(default_factory=dict)
    one_hot: tuple[str, ...] = ()
    labels_encoding: str = ""
    label_from: str = ""
    label_base: int | None = None
    label_order: str = AUTO_ORDER
    label_from_folder_name: bool = False
    unlabelled: str = "drop"
    split_by: str = ""
    class_ids: str = CLASS_IDS[0]
    object_features: tuple[str, ...] = ()
    yolo_task: str | None = None

    def numbering(self, base: int = 0) -> ClassNumbering:
        """How classes are numbered where the layout has no ids of its own.

        Args:
          base: id of the first class if the person did not say.

        Raises:
          UsageError: the classes' names are the ids, and yet there is a first one.
        """
        keep = self.class_ids == "keep"
        if (keep or self.label_from_folder_name) and self.label_base is not None:
            option = "--class_ids keep" if keep else "--label_from_folder_name"
            raise UsageError(f"--label_base means nothing with {option}; leave it out")
        return ClassNumbering(
            base if self.label_base is None else self.label_base,
            self.label_order,
            from_name=keep or self.label_from_folder_name,
            unsigned=keep,
        )


class LabelReader(Protocol):
    """Reads label files, on any worker: it is pickled, and keeps no state."""

    def read(self, file: BinaryIO, uri: str) -> Iterator[LabelRow | DeadLetter]:
        """Yields a row for each image that a file names, its values in the order of the columns.

        What is wrong with an image's labels goes into the row's `problem` and `line`, so that the
        image becomes a dead letter. What names no image is a dead letter at once.

        Args:
          file: the file, open at its beginning.
          uri: where it lies.

        Raises:
          LabelTableError: the file is broken, so nobody knows which images it would have named.
        """


class ContainerReader(Protocol):
    """Reads files that hold images and labels, on any worker: it is pickled, and keeps no state."""

    def read(self, uri: str, unpack_to: str) -> Iterator[SampleRef | DeadLetter]:
        """Yields a reference to each sample of a file.

        Images must lie in a file as they are, at an offset. Those that do not are unpacked first.

        Args:
          uri: the file.
          unpack_to: a folder for what has to be unpacked; it is removed at the end of the job.

        Raises:
          ContainerError: the file is broken, so nobody knows which samples it held.
        """


@dataclass(frozen=True)
class FolderLabels:
    """The image's own path says its labels.

    Attributes:
      names: how its name says them; None if the class is its folder, the split a folder above.
    """

    names: NamePattern | None = None


@dataclass(frozen=True)
class FileLabels:
    """Files say the labels.

    Attributes:
      reader: reads them.
      files: URIs of single files; or
      folders: folders whose files are label files, listed by the job.
      merge_rows: whether rows of one image add up, a row an object; else they must agree.
      unnamed: what images without a row stand for; None to leave them out as dead letters.
    """

    reader: LabelReader
    files: tuple[str, ...] = ()
    folders: tuple[ImageRoot, ...] = ()
    merge_rows: bool = False
    unnamed: UnnamedImages | None = None

    def __post_init__(self) -> None:
        assert bool(self.files) != bool(self.folders), "label files come by name or by folder"


class ListedReader(Protocol):
    """Tells which image a listed file is for, without opening it: it is pickled, and keeps no state."""

    def row(self, file: ImageRef) -> LabelRow:
        """The row that a file stands for. Its values may hold the file's uri, size and version."""


@dataclass(frozen=True)
class ListedLabels:
    """Files are labels themselves, such as masks: the job lists them and opens none.

    Rows of one image complete each other: each fills columns that others leave empty. The first
    column is the one without which the others are of no use.

    Attributes:
      reader: tells which image a file is for.
      folders: where the files lie.
    """

    reader: ListedReader
    folders: tuple[ImageRoot, ...]


@dataclass(frozen=True)
class ContainerLabels:
    """Images and labels lie in the same few files.

    Attributes:
      reader: reads them.
      files: their URIs.
    """

    reader: ContainerReader
    files: tuple[str, ...]


Labels = FolderLabels | FileLabels | ListedLabels | ContainerLabels


class Doubt(NamedTuple):
    """Why folder names may not be the classes.

    Attributes:
      reason: what was found and what it looks like, in a sentence.
      advice: what to do, in a sentence; empty if the paths say it.
      images, labels, masks, layout: what to say instead; no images where nothing is known to help.
    """

    reason: str
    advice: str = ""
    images: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    layout: str = ""
    masks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Source:
    """What is converted, as a layout found it.

    Attributes:
      layout: the layout's name.
      roots: the folders and archives whose files are listed as images; none where containers hold them.
      labels: where labels come from.
      examples: what the samples are: images with label columns, or serialized examples.
      numbering: how classes get their ids.
      notes: what the person should know, a sentence each.
      questions: assumptions that are not safe, each with what was found and the command that answers
        it; the run stops for them unless --yes is given.
      doubts: the same, with the paths that would answer them.
      tables: how the tables among the label files are read.
    """

    layout: str
    roots: tuple[ImageRoot, ...]
    labels: Labels
    examples: ExampleSource
    numbering: ClassNumbering = field(default_factory=ClassNumbering)
    notes: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    tables: tuple[LabelTable, ...] = ()

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of a sample's labels."""
        return self.examples.columns

    @property
    def may_repeat_keys(self) -> bool:
        """Whether two images may have the same key: below several roots, or in an archive."""
        return len(self.roots) > 1 or any(root.archive for root in self.roots)

    @property
    def uris(self) -> tuple[str, ...]:
        """Every file and folder that the job reads."""
        named: tuple[str, ...] = ()
        if isinstance(self.labels, FileLabels):
            named = (*self.labels.files, *(folder.uri for folder in self.labels.folders))
        elif isinstance(self.labels, ListedLabels):
            named = tuple(folder.uri for folder in self.labels.folders)
        elif isinstance(self.labels, ContainerLabels):
            named = self.labels.files
        return (*(root.uri for root in self.roots), *named)

    @property
    def pixels(self) -> PixelFormat | None:
        """The layout of bare pixels; None where images are files."""
        return self.examples.pixels


class Layout(Protocol):
    """One way of keeping images and labels.

    Attributes:
      name: what --layout calls it.
      option_names: names of the fields of `SourceOptions` that it uses beyond images and labels.
    """

    name: str
    option_names: frozenset[str]

    def recognise(self, options: SourceOptions) -> str:
        """Why what the person named is of this layout, for `--layout auto`; empty if it is not.

        Looks at names of files and at first lines, no more.
        """

    def open(self, options: SourceOptions) -> Source:
        """Finds the images and labels.

        Raises:
          UsageError: says which path or option cannot be used, and what was expected.
        """
