"""The files that `inspect` reads: one of our data sets, or any TFRecord files.

A file may come from anywhere. A record may have `MOST_RECORD_BYTES`, and a compressed file is inflated
piece by piece.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import BinaryIO, NamedTuple

from beam_pipeline.core.dataset.manifest import MANIFEST_NAME, Manifest
from beam_pipeline.core.errors import DamagedRecordError, UsageError
from beam_pipeline.core.labels.schema import written_key
from beam_pipeline.core.listing.folders import SPLIT_NAMES
from beam_pipeline.core.records import example_view, formats, tfrecord
from beam_pipeline.core.text import excerpt, quoted
from beam_pipeline.core.uris import is_remote
from beam_pipeline.dataset import read_manifest
from beam_pipeline.readers.shards import open_shard
from beam_pipeline.storage import base, files

CLASS_TEXTS = (
    "image/class/text",
    "image/object/class/text",
    "label/text",
    "label_text",
    "class_name",
    "class/text",
)
CLASS_IDS = (
    "image/class/label",
    "image/object/class/label",
    "label",
    "class",
    "labels",
    "image/label",
    "class/label",
)
"""Features that contain classes, ours and other writers', the usual ones first."""

KEYS = (
    "image/source_id",
    "image/filename",
    "image/id",
    "source_id",
    "filename",
    "file_name",
    "image/file_name",
    "id",
    "key",
    "__key__",
    "tfds_id",
)
"""Features that name a sample."""

MOST_RECORD_BYTES = 256 << 20  # 256 MiB
_NUMBER = re.compile(r"-\d+-of-\d+")
_SHARD_NAME = re.compile(r"(?!\.).*(tfrecord|\.tfrec|-\d{5,}-of-\d{5,}).*", re.IGNORECASE)
_NOT_SHARDS = re.compile(r".*(\.tfindex.*|\.(json|jsonl|txt|csv|idx|index|md|tar|zip|npy))")
_CLASS_NAMES = ".labels.txt"
_WORDS = re.compile(r"[^A-Za-z]+")
_LONGEST_LIST = 16 << 20  # bytes of a file of class names
_GZIP_MAGIC = b"\x1f\x8b"


class RecordFile(NamedTuple):
    """A file of records.

    Attributes:
      uri: the file.
      split: its split; empty if nothing names one.
      bytes: its length.
    """

    uri: str
    split: str
    bytes: int

    @property
    def name(self) -> str:
        """Its name without the folder."""
        return self.uri.rpartition("/")[2]


@dataclass(frozen=True)
class Source:
    """What `inspect` was pointed at.

    Attributes:
      name: the folder or files, for people.
      files: the files of records, grouped by split.
      names: id -> name of a class.
      folder: the folder of a data set of ours; else empty.
      manifest: its manifest; else None.
      keys, class_texts, class_ids: the features that may contain a sample's key, and its classes.
    """

    name: str
    files: Sequence[RecordFile]
    names: Mapping[int, str] = field(default_factory=dict)
    folder: str = ""
    manifest: Manifest | None = None
    keys: Sequence[str] = KEYS
    class_texts: Sequence[str] = CLASS_TEXTS
    class_ids: Sequence[str] = CLASS_IDS

    @property
    def splits(self) -> list[str]:
        """The splits, in their order."""
        return list(dict.fromkeys(file.split for file in self.files))

    def of_split(self, split: str) -> Source:
        """The same with the files of one split alone.

        Raises:
          UsageError: the split does not exist.
        """
        of_split = [file for file in self.files if file.split == split]
        if not of_split:
            known = [name for name in self.splits if name]
            has = f"it has {quoted(known)}" if known else "no file's name contains a split"
            raise UsageError(f"{self.name} has no split {split!r}; {has}")
        return replace(self, files=of_split)

    def read(
        self, file: RecordFile, wanted: range | None = None
    ) -> Iterator[tuple[int, int, example_view.ExampleView]]:
        """Yields (number, bytes, features) of each example of a file.

        Args:
          file: the file.
          wanted: the numbers of the records to read, of a data set of ours; None for all.

        Raises:
          DamagedRecordError: the file is damaged, or cannot be read; the message tells where.
        """
        record_format = self.manifest and self.manifest.record_format
        with open_shard(file.uri) as stream:
            if record_format and (wanted or record_format.name != formats.DEFAULT_FORMAT):
                wanted = wanted or range(1 << 62)
                records = record_format.records_in(stream, file.uri, wanted)
            else:
                wanted = range(1 << 62)
                records = records_of(stream, file.uri)
            for number, record in zip(wanted, records, strict=False):
                yield number, len(record), parsed(record, file.uri, number)

    def keys_of(self, features: example_view.Features) -> list[str]:
        """Every text that may identify a sample, its key first."""
        naming = [features[name] for name in self.keys if name in features]
        return [text for feature in naming if len(feature.values) == 1 for text in feature.texts]

    def classes_of(self, features: example_view.Features) -> list[str]:
        """The names of the classes of an example, or their ids without names, each once."""
        for key in self.class_texts:
            feature = features.get(key)
            if feature and feature.kind == "bytes":
                return list(dict.fromkeys(feature.texts))
        for key in self.class_ids:
            feature = features.get(key)
            if feature and feature.kind == "int64":
                return [self.names.get(i, str(i)) for i in dict.fromkeys(feature.values)]
            if feature and feature.kind == "bytes" and None not in map(text_of, feature.values):
                return list(dict.fromkeys(feature.texts))
        return []

    def has_class(self, features: example_view.Features, wanted: str) -> bool:
        """Tells whether an example has a class, given by its name or its id."""
        if wanted in self.classes_of(features):
            return True
        ids = (features[key] for key in self.class_ids if key in features)
        return any(wanted in feature.texts for feature in ids if feature.kind == "int64")


def text_of(value: bytes) -> str | None:
    """Bytes as text, or None."""
    try:
        return None if b"\0" in value else value.decode()
    except UnicodeDecodeError:
        return None


def open_source(paths: Sequence[str]) -> Source:
    """Finds the files of records.

    Args:
      paths: the output folder of a conversion, or folders, files and globs of any TFRecords.

    Raises:
      ConversionError: there are none, or a manifest is damaged.
    """
    uris = [files.canonical(path) for path in paths]
    files.check_credentials(filter(is_remote, uris))
    if len(uris) == 1 and files.exists(files.join(uris[0], MANIFEST_NAME)):
        (folder,) = uris
        manifest = read_manifest(folder)
        shards = [
            RecordFile(files.join(folder, entry.path), split, entry.bytes)
            for split, entries in manifest.splits.items()
            for entry in entries.shards
        ]
        names = {entry.id: entry.name for entry in manifest.classes}
        written = (
            [key for standard in standards if (key := written_key(standard, manifest.renames))]
            for standards in (KEYS, CLASS_TEXTS, CLASS_IDS)
        )
        return Source(folder, shards, names, folder, manifest, *written)
    with files.naming(uris[0]):
        records = [file for uri in uris for file in _files_of(uri)]
    folders = {posixpath.dirname(file.uri) for file in records}
    names = _class_names(folders.pop()) if len(folders) == 1 else {}
    more = f" and {len(uris) - 1} more" if len(uris) > 1 else ""
    splits = list(dict.fromkeys(file.split for file in records))
    records.sort(key=lambda file: splits.index(file.split))
    return Source(f"{uris[0]}{more}", records, names)


def _files_of(uri: str) -> Iterator[RecordFile]:
    """The files of records that a path names: a file, the files in a folder, or the matches of a glob.

    Raises:
      UsageError: there are none.
    """
    is_folder = os.path.isdir(uri)
    if not is_folder and (size := files.size_of(uri)) >= 0:
        yield RecordFile(uri, _split_of(uri), size)
        return
    folder, pattern = posixpath.split(uri)
    is_glob = not is_folder and any(sign in pattern for sign in "*?[")
    folder = folder if is_glob else uri
    listed: Mapping[str, base.FoundFile] = {}
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        listed = files.files_in(folder)
    names = [
        name
        for name in sorted(listed)
        if (fnmatchcase(name, pattern) if is_glob else _may_hold_records(posixpath.basename(name)))
    ]
    if not names:
        raise UsageError(
            f"{uri}: no TFRecords; expected their files, a pattern of their names, or a folder with {MANIFEST_NAME} "
            "or with files that have 'tfrecord' in their names"
        )
    for name in names:
        yield RecordFile(files.join(folder, name), _split_of(name), listed[name].size)


def _may_hold_records(name: str) -> bool:
    return bool(_SHARD_NAME.fullmatch(name)) and not _NOT_SHARDS.fullmatch(name)


def _split_of(path: str) -> str:
    """The split that a file's name states: `train` for `shapes-train.tfrecord-00000-of-00016`."""
    words = _WORDS.split(_NUMBER.split(posixpath.basename(path))[0].lower())
    return next((SPLIT_NAMES[word] for word in reversed(words) if word in SPLIT_NAMES), "")


def _class_names(folder: str) -> dict[int, str]:
    """Names of classes by id, as TFDS and this program write them beside the shards."""
    for feature in CLASS_IDS:
        uri = files.join(folder, feature.replace("/", ".") + _CLASS_NAMES)
        try:
            data = files.read_bytes(uri) if 0 < files.size_of(uri) <= _LONGEST_LIST else b""
        except OSError:
            continue  # ids are shown instead
        if data:
            return dict(enumerate(data.decode(errors="replace").splitlines()))
    return {}


# --- TFRecord files from anywhere ----------------------------------------------------------------


def records_of(file: BinaryIO, path: str, most: int = MOST_RECORD_BYTES) -> Iterator[bytes]:
    """The records of a TFRecord file, compressed or not.

    Args:
      file: the file, open at its beginning; if it is empty, it has no records.
      path: its name in messages.
      most: the bytes that a record may have.

    Raises:
      DamagedRecordError: it is not a TFRecord file, or is broken; the message tells where.
    """
    head = file.read(tfrecord.HEADER_BYTES)
    file.seek(0)
    # A record of 35,615 bytes begins like gzip.
    if not head or head == tfrecord.frame_header(int.from_bytes(head[:8], "little")):
        return tfrecord.read_records(file, path, most)
    if head.startswith(_GZIP_MAGIC):
        return tfrecord.unzipped_records(file, path, most)
    raise DamagedRecordError(
        f"{path} is not a TFRecord file, plain or compressed with gzip, or its first record is damaged: it "
        f"begins with {excerpt(head)}"
    )


def parsed(record: bytes, path: str, number: int) -> example_view.ExampleView:
    """The features of an example from anywhere. Raises DamagedRecordError."""
    return example_view.ExampleView(record, f"{path}: record {number}", bounded=True)
