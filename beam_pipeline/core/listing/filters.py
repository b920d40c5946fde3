"""Rules for the files below a root: which are listed as images, which may contain labels, and which are ignored.

Files that may contain labels and that a listing of images passes over are counted by their kind. The kinds are a fixed
set, and few names of each are kept, so that the counts stay small however many files there are. Counts of several
workers add up to the same in any order.
"""

from __future__ import annotations

import functools
import os
import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, takewhile
from typing import NamedTuple

from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.listing import folders, globs
from beam_pipeline.core.references import ImageRef
from beam_pipeline.core.text import printable


class Archive(NamedTuple):
    """The naming of the members of an archive.

    Attributes:
      kind: "tar" or "zip".
      name: its path below the folder that it was named in, which begins the keys of its members.
      top: a folder in it, with a slash at its end, that does not give labels, or empty.
      split: the split of its members, or empty.
    """

    kind: str
    name: str
    top: str = ""
    split: str = ""

    @property
    def said_splits(self) -> set[str]:
        """The splits that words of its file name represent."""
        return folders.named_splits(posixpath.basename(self.stem))

    @property
    def stem(self) -> str:
        """Its name without the extension."""
        return posixpath.splitext(self.name)[0]

    def key(self, path: str) -> str:
        """Returns the key of a member."""
        return f"{self.name}/{path}"

    def aliases(self, path: str) -> tuple[str, ...]:
        """Returns the further names of a member, as `ImageRef.aliases` has them.

        >>> Archive("zip", "a/photos.zip", top="photos/").aliases("photos/cat/1.jpg")
        ('cat/1.jpg', 'photos/cat/1.jpg', 'photos/photos/cat/1.jpg', 'cat/1.jpg')
        """
        labels = path.removeprefix(self.top)
        if self.split and not folders.first_folder_split(labels):
            labels = f"{self.split}/{labels}"
        below = path.partition("/")[2]
        stem = posixpath.basename(self.stem)
        return labels, path, f"{stem}/{path}", below if "/" in below else ""


def top_folder(names: Sequence[str]) -> str:
    """Returns the folder, with a slash at its end, that is around all others, or empty.

    Every name must have another folder below it. A folder with a split's name gives the split.

    >>> top_folder(["photos/cat/1.jpg", "photos/dog/x/2.jpg"])
    'photos/'
    >>> top_folder(["photos/train/cat/1.jpg"])
    'photos/'
    """
    around = os.path.commonprefix([name.split("/")[:-2] for name in names])  # noqa: RUF071 -- of lists
    of_no_split = takewhile(lambda name: name.lower() not in folders.SPLIT_NAMES, around)
    return "".join(f"{folder}/" for folder in of_no_split)


TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
TEXTS = (".txt", ".caption")
_OF_ANYTHING = (
    *(".xlsx", ".xls", ".ods", ".mat", ".npy", ".npz", ".pkl", ".pickle", ".h5", ".hdf5"),
    *(".feather", ".arrow", ".sqlite", ".db", ".gz", ".zip"),
)
UNREAD = (*_OF_ANYTHING, ".manifest", ".odgt", ".labels")
"""Extensions of label files: tables, texts beside images or labels of YOLO and KITTI, and what no layout reads."""

_CALLED_LABELS = re.compile("anno|label|truth|target|meta", re.IGNORECASE)

_EXTENSIONS = frozenset((*TABLES, *TEXTS, *UNREAD, ".json", ".xml"))
_OF_DATA_SETS = frozenset(
    [
        *("manifest.json", "dataset_info.json", "features.json", "croissant.json", "changes.json"),
        *("duplicates.json", "dead_letters.jsonl", "labels.txt"),
    ]
)
_SHARD = ".tfrecord"
_KEPT = 2


class LabelFile(NamedTuple):
    """Attributes: key, like an image's there; uri; archive, whether it is in one."""

    key: str
    uri: str
    archive: bool = False


@dataclass
class LabelFiles:
    """Files that may contain labels.

    Attributes:
      counts: how many there are of each extension, in lower case. Files that are called as files of
        a written data set are counted by their names, and its shards as `.tfrecord`.
      first: the first two of each in the order of their keys.
    """

    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, list[LabelFile]] = field(default_factory=dict)

    def see(self, file: LabelFile) -> None:
        """Counts a file if it is named like a label file or a data set's file."""
        kind = kind_of(file.key)
        if kind:
            self.counts[kind] += 1
            self._keep({kind: [file]})

    def add(self, further: LabelFiles) -> None:
        """Adds the counts of another listing."""
        self.counts.update(further.counts)
        self._keep(further.first)

    def _keep(self, first: Mapping[str, Sequence[LabelFile]]) -> None:
        for kind, files in first.items():
            self.first[kind] = sorted((*self.first.get(kind, ()), *files))[:_KEPT]

    def by_extension(self) -> LabelFiles:
        """All label files by their extensions, except data sets' own if there are shards.

        >>> seen = LabelFiles()
        >>> for key in ("a.csv", "out/manifest.json", "out/d.tfrecord-00000-of-00001"):
        ...     seen.see(LabelFile(key, f"gs://b/{key}"))
        >>> seen.by_extension().counts
        Counter({'.csv': 1})
        """
        by_extension = LabelFiles()
        for kind, count in self.counts.items():
            if kind == _SHARD or (kind in _OF_DATA_SETS and self.counts[_SHARD]):
                continue
            extension = posixpath.splitext(f"x{kind}")[1]
            by_extension.counts[extension] += count
            by_extension._keep({extension: self.first[kind]})
        return by_extension


def kind_of(key: str) -> str:
    """The kind that a file counts as; empty for one that is neither a label file nor a shard.

    >>> kind_of("annotations/cars.mat"), kind_of("labels.xlsx"), kind_of("classes.xlsx")
    ('.mat', '.xlsx', '')
    """
    name = posixpath.basename(key)
    if name.startswith("."):
        return ""
    if name in _OF_DATA_SETS:
        return name
    if _SHARD in name:
        return _SHARD
    extension = posixpath.splitext(name)[1].lower()
    if name.endswith(".labels.txt"):  # a data set may have several
        return "labels.txt"
    is_any = extension in _OF_ANYTHING and not _CALLED_LABELS.search(key)
    return extension if extension in _EXTENSIONS and not is_any else ""


IMAGE_EXTENSIONS = frozenset(
    [
        *(".jpg", ".jpeg", ".jpe", ".jfif", ".jif", ".jp2", ".jxl", ".png", ".gif", ".webp"),
        *(".bmp", ".dib", ".tif", ".tiff", ".ppm", ".pgm", ".heic", ".avif"),
    ]
)
"""Extensions of the files listed in a folder, in lower case. Files without an extension are listed,
too, as many data sets name files by a hash; their bytes show if they are images."""

_DOCUMENTS = frozenset(["README", "LICENSE", "LICENCE", "COPYING", "NOTICE", "MAKEFILE"])
"""Names of files without an extension that are not images."""

MACOS_FOLDER = "__MACOSX"
"""The folder that macOS adds to archives, with a hidden file for each in it."""

_ARRAYS = re.compile(r"-(idx\d-ubyte)", re.IGNORECASE)
"""The end of the names of MNIST files, which contain all images at once, without extension."""

_FOLDERS = 4096  # cached


@dataclass(frozen=True)
class ImageRoot:
    """A folder or an archive, and rules for the files to list in it.

    Attributes:
      uri: the folder, without a slash at its end; keys are relative to it. Or an archive.
      patterns: globs relative to it; empty for all images below it.
      excluded: URIs that are never listed: the label files.
      within: folders relative to it, each with a slash at its end; only files in them are listed. If
        empty, files in all folders are.
      without: folders relative to it, each with a slash at its end; their files are not listed.
      but: globs relative to it, whose files are not listed.
      archive: how the members of an archive are named; None for a folder.
      digests: digests are listed as well, if the storage has them.
    """

    uri: str
    patterns: tuple[str, ...] = ()
    excluded: frozenset[str] = frozenset()
    within: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    but: tuple[str, ...] = ()
    archive: Archive | None = None
    digests: bool = False


@dataclass
class Listed:
    """A batch of a root's files; dead letters and counts of ignored files come with the last batch.

    Label files are those that the listing has passed over.
    """

    images: list[ImageRef]
    dead_letters: list[DeadLetter]
    ignored: Counter[str]
    label_files: LabelFiles = field(default_factory=LabelFiles)


def in_batches(
    images: Iterable[ImageRef],
    batch_size: int,
    rules: ListingFilter,
    dead_letters: list[DeadLetter] | None = None,
) -> Iterator[Listed]:
    """Yields images in batches, and with the last one the rest of a listing.

    Args:
      images: what a listing gives.
      batch_size: images of each batch.
      rules: have counted the other files when the images end.
      dead_letters: has those of the listing when the images end.
    """
    images = iter(images)
    while len(batch := list(islice(images, batch_size))) == batch_size:
        yield Listed(batch, [], Counter())
    yield Listed(batch, dead_letters or [], rules.ignored, rules.label_files)


class ListingFilter:
    """Decides which files of a root are listed as images, and counts the others.

    In a folder, these are files with an image's extension or none; with patterns, the files that
    match. Hidden files and folders, macOS's `__MACOSX`, label files and a `README` are skipped.

    Attributes:
      ignored: files that were skipped for their names, by extension; with patterns, none is.
      label_files: files that may contain labels and were skipped; with patterns, those in folders that
        can contain what matches.
    """

    def __init__(self, root: ImageRoot) -> None:
        self._patterns = [globs.glob_regex(pattern) for pattern in root.patterns]
        self._folders = [globs.FolderGlob(pattern) for pattern in root.patterns]
        self._names_hidden = any(re.search(r"(^|/)\.", pattern) for pattern in root.patterns)
        self._but = [globs.glob_regex(pattern) for pattern in root.but]
        self._root = root
        self.ignored: Counter[str] = Counter()
        self.label_files = LabelFiles()

    def can_hold(self, folder_key: str) -> bool:
        """True if a file below a folder can match; otherwise the folder is skipped."""
        return not self._folders or any(glob.can_hold(folder_key) for glob in self._folders)

    def enters(self, folder_name: str) -> bool:
        """True if a folder that can contain images is listed; counts it otherwise."""
        if folder_name == MACOS_FOLDER or (folder_name.startswith(".") and not self._names_hidden):
            self.ignored["hidden folders"] += 1
            return False
        return True

    def lists(self, key: str, uri: str) -> bool:
        """True if a file is listed; counts it by its extension otherwise."""
        root = self._root
        if uri in root.excluded or (root.within and not key.startswith(root.within)):
            return False
        if key.startswith(root.without) or any(pattern.fullmatch(key) for pattern in self._but):
            return False
        if self._patterns:
            if any(pattern.fullmatch(key) for pattern in self._patterns):
                is_shard = kind_of(key) == _SHARD
                self.ignored.update([_SHARD] * is_shard)
                return not is_shard
            if kind_of(key) and ("/" not in key or self.can_hold(key[: key.rfind("/")])):
                self._see(key, uri)
            return False
        name = key[key.rfind("/") + 1 :]
        if name.startswith("."):
            self.ignored["hidden files"] += 1
            return False
        dot = name.rfind(".")
        extension = name[dot:].lower() if dot > 0 else ""
        if not extension and name.upper() in _DOCUMENTS:
            self.ignored[name.upper()] += 1
            return False
        if not extension and (arrays := _ARRAYS.search(name)):
            extension = f".{arrays[1].lower()}"
        if extension and extension not in IMAGE_EXTENSIONS:
            self.ignored[printable(extension)] += 1
            self._see(key, uri)
            return False
        return True

    def lists_all(self, keys: Sequence[str], prefix: str) -> bool:
        """True if `lists` is sure to be true for each of some keys; counts nothing.

        Args:
          keys: paths that are not in hidden folders.
          prefix: of their URIs.
        """
        root = self._root
        if self._patterns or root.within or root.without or self._but:
            return False
        text = "\n" + "\n".join(keys)
        if "\n." in text or "/." in text:
            return False
        extensions = {key[key.rfind(".") :].lower() for key in keys}
        if not extensions <= IMAGE_EXTENSIONS:
            return False
        skipped = (uri for uri in root.excluded if uri.startswith(prefix))
        return {uri[len(prefix) :] for uri in skipped}.isdisjoint(keys)

    def _see(self, key: str, uri: str) -> None:
        archive = self._root.archive
        label_file = LabelFile(archive.key(key), uri, True) if archive else LabelFile(key, uri)
        self.label_files.see(label_file)


class ObjectFilter:
    """A `ListingFilter` for storage that lists whole names in any order, without folders.

    A hidden folder counts once, however many names are below it.

    Attributes:
      rules: the filter that decides and counts.
      prefix: the prefix of all URIs below the root.
    """

    def __init__(self, root: ImageRoot) -> None:
        self.rules = ListingFilter(root)
        self.prefix = root.uri.rstrip("/") + "/"
        self._hidden: set[str] = set()
        self._hidden_folder_of = functools.lru_cache(_FOLDERS)(self._hidden_in)

    def hidden_folder(self, key: str) -> str:
        """Returns the outermost hidden folder that contains a key, with a slash at its end; or empty."""
        return self._hidden_folder_of(key[: key.rfind("/") + 1])

    def _hidden_in(self, folder: str) -> str:
        end = folder.find("/")
        while end >= 0:
            outer = folder[: end + 1]
            if outer in self._hidden:
                return outer
            if not self.rules.can_hold(folder[:end]):
                return ""
            if not self.rules.enters(folder[folder.rfind("/", 0, end) + 1 : end]):
                self._hidden.add(outer)
                return outer
            end = folder.find("/", end + 1)
        return ""

    def lists(self, key: str) -> bool:
        """True if an object is listed; one whose name ends with a slash represents a folder."""
        if self.hidden_folder(key) or not key or key.endswith("/"):
            return False
        return self.rules.lists(key, self.prefix + key)
