"""Label files, one per image: VOC, KITTI, YOLO, captions.

A format parses one file. The rest is the same for all: which image a file is for, its split, and what
becomes of a faulty file. A layout finds folders, and makes a `LabelFileReader` of them; a `FolderLayout` only
states their names.
"""

from __future__ import annotations

import codecs
import os
import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import BinaryIO, ClassVar, NamedTuple, TypeVar

from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import LabelTableError, UsageError
from beam_pipeline.core.labels import cells, schema
from beam_pipeline.core.listing.filters import IMAGE_EXTENSIONS, ImageRoot
from beam_pipeline.core.listing.folders import SPLIT_NAMES, named_split
from beam_pipeline.core.records.example_source import LabelledImages
from beam_pipeline.core.references import ImageRef, LabelRow, LabelValue, Size
from beam_pipeline.core.text import excerpt
from beam_pipeline.core.uris import is_remote
from beam_pipeline.layouts import layout, tree
from beam_pipeline.layouts.paths import image_roots
from beam_pipeline.storage import files, listing

UNLISTED = "unlisted"
"""The split of images that are in none of the lists, if there are lists."""

_ALL_OF_TRAINING = "trainval"
_LOOKED_INTO = (*SPLIT_NAMES, "xmls")  # folders of label files, besides the one given
_LOOKED_AT, _HEAD_BYTES = 10, 4096  # label files to search for one that is not empty
_Id = TypeVar("_Id", int, str)
_Row = TypeVar("_Row")


class BadLabelError(ValueError):
    """The labels of an image are wrong.

    Attributes:
      line: the line of its label file, from 1; 0 if unknown, or without lines.
    """

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


# --- reading -------------------------------------------------------------------------------------


class ImageLabels(NamedTuple):
    """What a label file contains.

    Attributes:
      values: in the order of the format's columns.
      size: width and height of the image that was labelled; None if the file does not give them.
      split: the split of the image; empty if the file does not give it.
    """

    values: tuple[LabelValue, ...]
    size: Size | None = None
    split: str = ""


@dataclass(frozen=True)
class LabelFormat:
    """A kind of label files. It is pickled, and keeps no state.

    Attributes:
      most_bytes: the bytes that a file may have.
    """

    most_bytes: ClassVar[int] = 64 << 20

    @property
    def columns(self) -> tuple[schema.Column, ...]:
        """The label columns."""
        raise NotImplementedError

    @property
    def nothing(self) -> tuple[LabelValue, ...]:
        """The values of an image without objects."""
        return tuple(() if column.repeated else None for column in self.columns)

    def parse(self, data: bytes, uri: str) -> ImageLabels | None:
        """Parses a whole file; None if it leaves its image unlabelled. Raises BadLabelError."""
        raise NotImplementedError

    def skips(self, name: str) -> bool:
        """True if a file of this name among the label files is not one."""
        return False


class Place(NamedTuple):
    """A folder of label files.

    Attributes:
      labels: its URI.
      images: URI of the folder of their images; if it is empty, images are named by their path below
        their root, like the label file's below `labels`.
      bare: True to name images without their folders.
    """

    labels: str
    images: str = ""
    bare: bool = False


@dataclass(frozen=True)
class Splits:
    """The split of each image, as far as lists or folders give it.

    Attributes:
      listed: name of an image, without extension -> the split whose list names it.
      folders: (URI of a folder of images, split), for folders whose images are all of one split.
      bare: True if lists name images without their folders.
    """

    listed: Mapping[str, str] = field(default_factory=dict)
    folders: tuple[tuple[str, str], ...] = ()
    bare: bool = False

    def of(self, name: str) -> str:
        """Returns the split of an image, by its name without extension; empty if nothing gives it."""
        split = self.listed.get(posixpath.basename(name) if self.bare else name, "")
        inside = [pair for pair in self.folders if name.startswith(f"{pair[0]}/")]
        return split or (max(inside)[1] if inside else UNLISTED if self.listed else "")


@dataclass(frozen=True)
class LabelFileReader:
    """Reads label files. As `UnnamedImages`, makes rows for images without one: they are without objects.

    Attributes:
      format: parses a file.
      places: the folders of label files. A file in none of them is beside its image.
      splits: the split of each image.
      skipped: URIs of files among the label files that are not label files.
    """

    format: LabelFormat
    places: tuple[Place, ...]
    splits: Splits = Splits()
    skipped: frozenset[str] = frozenset()

    def read(self, file: BinaryIO, uri: str) -> Iterator[LabelRow | DeadLetter]:
        """Yields the one row of a file; none for a file that is not a label file, or labels nothing."""
        if uri in self.skipped or self.format.skips(posixpath.basename(uri)):
            return
        most = self.format.most_bytes
        try:
            data = file.read(most + 1)
            if len(data) > most:
                raise BadLabelError(f"the file has more than {most} bytes")
            labels = self.format.parse(data, uri)
        except BadLabelError as error:
            yield self.unread(uri, str(error), error.line)
            return
        if labels is not None:
            name, (values, size, split) = self.image_name(uri), labels
            yield LabelRow(name, values, split or self.splits.of(name), uri, 0, "", size)

    def row(self, image: ImageRef) -> LabelRow:
        """The row of an image without a label file."""
        split = self.splits.of(posixpath.splitext(image.uri)[0])
        return LabelRow(image.key, self.format.nothing, split=split, file="", line=0)

    def unread(self, uri: str, problem: str, line: int = 0) -> LabelRow:
        """The row of a label file that cannot be read, which is a fault of its image."""
        name = self.image_name(uri)
        return LabelRow(name, self.format.nothing, self.splits.of(name), uri, line, problem)

    def image_name(self, uri: str) -> str:
        """Returns the name of a label file's image, without extension."""
        stem = posixpath.splitext(uri)[0]
        place = max((p for p in self.places if uri.startswith(f"{p.labels}/")), default=None)
        if place is None:
            return stem
        below = stem[len(place.labels) + 1 :]
        if place.bare:
            return posixpath.basename(below)
        return f"{place.images}/{below}" if place.images else below


def rows_of_lines(data: bytes, parse: Callable[[list[str], int], _Row]) -> list[_Row]:
    """Parses each line that is not empty.

    Args:
      data: a label file.
      parse: gets the fields between white space and the line's number, from 1; may raise BadLabelError.

    Raises:
      BadLabelError: with the line.
    """
    rows = []
    for number, line in enumerate(data.removeprefix(codecs.BOM_UTF8).splitlines(), 1):
        if fields := line.split():
            try:
                rows.append(parse([field.decode() for field in fields], number))
            except UnicodeDecodeError as error:
                raise BadLabelError(
                    f"{excerpt(line)} is not UTF-8; save it as UTF-8", number
                ) from error
            except BadLabelError as error:
                raise BadLabelError(str(error), number) from error
    return rows


def number(text: str, name: str, kind: schema.ColumnKind = schema.ColumnKind.FLOAT) -> float:
    """Parses a number in a label file. Raises BadLabelError, without a line."""
    try:
        return cells.parse_number(text, kind)
    except ValueError as error:
        value = f"is {text!r}" if text else "is missing or empty"
        expected = "an integer" if kind is schema.ColumnKind.INT64 else "a number"
        raise BadLabelError(f"{name} {value}, expected {expected}") from error


# --- folders of label files ----------------------------------------------------------------------


def files_pattern(suffix: str) -> str:
    """A glob of the files with an extension at any depth, in lower or upper case.

    >>> files_pattern(".xml")
    '**/*.[xX][mM][lL]'
    """
    return "**/*." + "".join(f"[{letter}{letter.upper()}]" for letter in suffix[1:])


def label_folders(paths: Sequence[str], pattern: str, kind: str) -> tuple[ImageRoot, ...]:
    """Returns the folders of label files in --labels, sorted, without repetitions.

    Args:
      paths: as typed.
      pattern: a glob of the label files in a folder.
      kind: a description of these files, for messages.

    Raises:
      UsageError: a folder does not exist, is a file, or contains no label files.
    """
    folders: dict[str, ImageRoot] = {}
    for path in paths:
        folder = ImageRoot(files.canonical(path), (pattern,))
        folders[folder.uri] = folder
        is_local = not is_remote(folder.uri)
        if is_local and not (
            os.path.isdir(folder.uri)
            and any(listed.images for listed in listing.list_local_root(folder, 1))
        ):
            expected = "expected a folder of them, one for each image, of its name"
            raise UsageError(f"--labels {path} contains no {kind}; {expected}")
    return tuple(folders[uri] for uri in sorted(folders))


def typed_path(uri: str, typed: str) -> str:
    """Returns a local path in the user's style: relative if the typed path is."""
    if is_remote(uri) or os.path.isabs(os.path.expanduser(typed)):
        return uri
    return os.path.relpath(uri)


# --- lists of the images of a split --------------------------------------------------------------


class SplitLists(NamedTuple):
    """Lists such as train.txt and val.txt, one name per line.

    Attributes:
      splits: name of an image, without extension -> its split.
      names: URI of a list -> the names in it; only lists that contain any.
    """

    splits: dict[str, str]
    names: dict[str, list[str]]

    def notes(self, names: Sequence[str], kind: str) -> Iterator[str]:
        """Notes on names in lists without a label file.

        Args:
          names: of all label files, without extension.
          kind: a description of these files.
        """
        known = set(names)
        for uri, listed in self.names.items():
            if without := [name for name in listed if name not in known]:
                of = f"{len(without)} of {len(listed)} names in {uri}, such as {without[0]!r},"
                yield f"{of} have none of the {kind}"


def read_split_lists(folders: Sequence[str], names: Sequence[str]) -> SplitLists:
    """Reads the lists of some folders, such as ImageSets/Main/train.txt.

    Args:
      folders: URIs; empty ones are skipped.
      names: names of lists, without extension. Of `trainval`, the last, only names that are in no
        other list count.

    Raises:
      UsageError: a name is in the lists of two splits, or a list cannot be read.
    """
    lists = SplitLists({}, {})
    for folder in filter(None, dict.fromkeys(folders)):
        for name in names:
            uri = f"{folder}/{name}.txt"
            lines = files.read_text(uri).splitlines() if files.exists(uri) else []
            listed = [_without_extension(line.strip()) for line in lines if line.strip()]
            for stem in listed:
                if name != _ALL_OF_TRAINING:
                    give_split(lists.splits, stem, SPLIT_NAMES[name], f"{uri} names {stem}")
                lists.splits.setdefault(stem, SPLIT_NAMES["train"])
            if listed:
                lists.names[uri] = listed
    return lists


def give_split(splits: dict[str, str], name: str, split: str, reason: str) -> None:
    """Gives images a split. Raises UsageError if they have another."""
    if splits.setdefault(name, split) != split:
        raise UsageError(
            f"{reason} for {split}, but it is given to {splits[name]} as well; an image can be in one split only, so "
            "leave it out of one of them"
        )


def _without_extension(name: str) -> str:
    """Returns 000005 for 000005, 000005.jpg and JPEGImages/000005.jpg."""
    name = posixpath.basename(name.replace("\\", "/"))
    stem, extension = posixpath.splitext(name)
    return stem if extension.lower() in IMAGE_EXTENSIONS | {".xml"} else name


# --- layouts ---------------------------------------------------------------------------------------


class FolderPair(NamedTuple):
    """A folder of images and the folder of their label files.

    Attributes:
      images: the folder, or any argument of `image_roots`.
      labels: URI of the folder; empty if it is missing.
      lists: the folder of the splits' lists, or empty.
      split: the split of all images; empty if their own folders or lists give it.
    """

    images: str
    labels: str = ""
    lists: str = ""
    split: str = ""


class FolderLayout:
    """A layout of folders of images, each with a folder of label files that are named like them.

    Attributes:
      name, option_names: as of `Layout`.
      title: names the label files, for messages.
      expected: what there is to find in --images, for messages.
      format: of the label files.
      pattern, suffix: a glob of them, and their extension in lower case.
      listed: the names of splits' lists.
      classes: their names in the order of their ids, from the first class on; others follow.
    """

    name: ClassVar[str]
    option_names: ClassVar[frozenset[str]]
    title: ClassVar[str]
    expected: ClassVar[str]
    format: ClassVar[LabelFormat]
    pattern: ClassVar[str]
    suffix: ClassVar[str]
    listed: ClassVar[Sequence[str]]
    classes: ClassVar[Sequence[str]] = ()

    def pairs(self, uri: str) -> list[FolderPair]:
        """Finds the folders that a path of --images means, by the names of folders."""
        raise NotImplementedError

    def label_folder(self, path: str) -> str:
        """The folder that a path of --labels means."""
        return files.canonical(path)

    def begins(self, head: bytes) -> bool:
        """True if a label file that begins like this is of the format."""
        raise NotImplementedError

    def fits(self, folder: str) -> bool:
        """True if the first label file of a folder that is not empty is of the format."""
        uris = self.first_files(folder)[:_LOOKED_AT]
        heads = (tree.beginning(uri, _HEAD_BYTES).strip() for uri in uris)
        return self.begins(next(filter(None, heads), b""))

    def first_files(self, folder: str) -> list[str]:
        """The label files of a folder; if they may be deeper, also those of its folders train/, test/ and similar."""
        below = tree.subfolders(folder) if self.pattern.startswith("**/") else []
        inside = [path for path in below if posixpath.basename(path) in _LOOKED_INTO]
        folders = map(tree.names_in, (folder, *inside))
        return [uri for names in folders for uri in names.of_kind(self.suffix)]

    def recognise(self, options: layout.SourceOptions) -> str:
        """Recognises the folders' names, or the first label files in folders of --labels."""
        folders: list[str] = []
        for path in options.labels or options.images:
            pairs = [FolderPair("", self.label_folder(path))]
            if not options.labels:
                pairs = self.pairs(files.canonical(path))
            labels = [p.labels for p in pairs if p.labels and (p.lists or self.fits(p.labels))]
            if not labels:
                return ""
            folders += [typed_path(uri, path) for uri in labels]
        return f"{self.title} in {', '.join(folders)}"

    def open(self, options: layout.SourceOptions) -> layout.Source:
        """Finds the images, their label files and the lists of the splits.

        Raises:
          UsageError: something is missing, or an image is in two lists.
        """
        pairs: list[FolderPair] = []
        for path in options.images:
            there = self.pairs(files.canonical(path))
            missing = [f"{self.title} beside {pair.images}" for pair in there if not pair.labels]
            if options.labels:
                there = [pair for pair in there if pair.lists] or [FolderPair(path)]
            elif missing or not there:
                first = [*missing, f"data set of the layout {self.name}"][0]
                remedy = f"--labels names a folder of {self.title} elsewhere"
                raise UsageError(f"--images {path}: no {first}; expected {self.expected}. {remedy}")
            pairs += there
        named = [*map(self.label_folder, options.labels)] or [pair.labels for pair in pairs]
        folders = label_folders(named, self.pattern, self.title)
        uris = [folder.uri for folder in folders]
        roots = image_roots([pair.images for pair in pairs])
        lists = read_split_lists([pair.lists for pair in pairs], self.listed)
        needed = uris if lists.names else ()
        stems = [name for uri in needed for name in tree.stems_of(uri, self.suffix)]
        below = [_names_in(root.uri) for root in roots]
        places = [
            Place(uri, bare=not any(names >= _names_in(uri) for names in below)) for uri in uris
        ]
        numbering = options.numbering(base=1)
        known = tuple((name, i) for i, name in enumerate(self.classes, numbering.base))
        reader = LabelFileReader(self.format, tuple(places), Splits(lists.splits, bare=True))
        return layout.Source(
            layout=self.name,
            roots=roots,
            labels=layout.FileLabels(reader, folders=folders),
            examples=LabelledImages(self.format.columns),
            numbering=replace(numbering, known=known),
            notes=tuple(lists.notes(stems, self.title)),
        )


def _names_in(folder: str) -> set[str]:
    return {*map(posixpath.basename, tree.subfolders(folder))}


# --- label files of many images ------------------------------------------------------------------


@contextmanager
def opened(uri: str) -> Iterator[BinaryIO]:
    """Opens a file of --labels. Raises LabelTableError, also for an OSError in the block."""
    with files.naming(f"--labels {uri}", LabelTableError), files.open_input(uri) as file:
        yield file


def split_of(uri: str) -> str:
    """Returns the split in a file's name (instances_val2017.json), else in its folder's name."""
    folder, name = posixpath.split(uri)
    stem = posixpath.splitext(name)[0]
    return named_split(stem) or named_split(posixpath.basename(folder))


def common_categories(of_files: Mapping[str, Mapping[_Id, str]]) -> dict[_Id, str]:
    """Returns the categories of all files, id -> name.

    Raises:
      LabelTableError: two files give an id to two names, or a name to two ids.
    """
    by_id: dict[_Id, tuple[_Id, str, str]] = {}
    by_name: dict[str, tuple[_Id, str, str]] = {}
    for uri, categories in of_files.items():
        for own in ((i, name, uri) for i, name in categories.items()):
            for first in (by_id.setdefault(own[0], own), by_name.setdefault(own[1], own)):
                if first[:2] != own[:2]:
                    both = (f"{i} is {name!r} in {file}" for i, name, file in (first, own))
                    remedy = "each class needs one id and one name, the same in all files"
                    raise LabelTableError(f"class {' and '.join(both)}; {remedy}")
    return {i: name for i, name, _ in by_id.values()}
