"""The files that `inspect` reads: one of our data sets, or any TFRecord files.

A file may come from anywhere. A record may have `MOST_RECORD_BYTES`, and a compressed file is inflated
piece by piece.
"""

from __future__ import annotations

import gzip
import io
import os
import posixpath
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, BinaryIO

from beam_pipeline.core.dataset.manifest import MANIFEST_NAME, Manifest
from beam_pipeline.core.errors import ConversionError, DamagedRecordError, UsageError
from beam_pipeline.core.labels.schema import written_key
from beam_pipeline.core.listing.folders import SPLIT_NAMES
from beam_pipeline.core.records.example_view import ExampleView
from beam_pipeline.core.records.formats import DEFAULT_FORMAT
from beam_pipeline.core.records.tfrecord import HEADER_BYTES, frame_header, read_records
from beam_pipeline.core.text import counted, excerpt, quoted
from beam_pipeline.core.uris import is_remote
from beam_pipeline.inspection.statistics import CLASS_IDS, CLASS_TEXTS, KEYS, Naming
from beam_pipeline.readers.shards import open_shard
from beam_pipeline.storage import files
from beam_pipeline.work.output_folder import read_manifest

_NUMBER = re.compile(r"-\d+-of-\d+")
_SHARD_NAME = re.compile(r"(?!\.).*(tfrecord|\.tfrec|-\d{5,}-of-\d{5,}).*", re.IGNORECASE)
_NOT_SHARDS = re.compile(r".*(\.tfindex.*|\.(json|jsonl|txt|csv|idx|index|md|tar|zip|npy))")
_CLASS_NAMES = ".labels.txt"
_WORDS = re.compile(r"[^A-Za-z]+")
_LONGEST_LIST = 16 << 20  # bytes of a file of class names


@dataclass(frozen=True)
class RecordFile:
    """A file of records.

    Attributes:
      uri: the file.
      split: its split; empty if nothing names one.
      bytes: its length.
    """

    uri: str
    split: str
    bytes: int


@dataclass(frozen=True)
class Source:
    """What `inspect` was pointed at.

    Attributes:
      name: the folder or files, for people.
      files: the files of records, grouped by split.
      naming: the features that name samples and classes.
      folder: the folder of a data set of ours; else empty.
      manifest: its manifest; else None.
    """

    name: str
    files: Sequence[RecordFile]
    naming: Naming = field(default_factory=Naming)
    folder: str = ""
    manifest: Manifest | None = None

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

    def read(self, file: RecordFile) -> Iterator[tuple[int, ExampleView]]:
        """Yields (bytes, features) of each example of a file.

        Raises:
          DamagedRecordError: the file is damaged, or cannot be read; the message tells where.
        """
        record_format = self.manifest and self.manifest.record_format
        with open_shard(file.uri) as stream:
            if not record_format or record_format.name == DEFAULT_FORMAT:
                yield from read_examples(stream, file.uri)
                return
            for number, record in enumerate(record_format.records(stream, file.uri)):
                yield len(record), parsed(record, file.uri, number)


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
        return _data_set(uris[0])
    try:
        records = [file for uri in uris for file in _files_of(uri)]
    except OSError as error:
        raise ConversionError(f"{uris[0]} cannot be read: {error.strerror or error}") from error
    folders = {posixpath.dirname(file.uri) for file in records}
    names = _class_names(folders.pop()) if len(folders) == 1 else {}
    more = f" and {len(uris) - 1} more" if len(uris) > 1 else ""
    order = {split: number for number, split in enumerate(dict.fromkeys(f.split for f in records))}
    records.sort(key=lambda file: order[file.split])
    return Source(f"{uris[0]}{more}", records, Naming(names=names))


def _data_set(folder: str) -> Source:
    manifest = read_manifest(folder)

    def written(*standards: str) -> tuple[str, ...]:
        return tuple(
            key for standard in standards if (key := written_key(standard, manifest.renames))
        )

    naming = Naming(
        keys=written(*KEYS),
        class_texts=written(*CLASS_TEXTS),
        class_ids=written(*CLASS_IDS),
        names={entry.id: entry.name for entry in manifest.classes},
    )
    shards = [
        RecordFile(files.join(folder, entry.path), split, entry.bytes)
        for split, entries in manifest.splits.items()
        for entry in entries.shards
    ]
    return Source(folder, shards, naming, folder, manifest)


def _files_of(uri: str) -> Iterator[RecordFile]:
    """The files of records that a path names: a file, the files in a folder, or the matches of a glob.

    Raises:
      UsageError: there are none.
    """
    is_folder = os.path.isdir(uri)
    if not is_folder and (size := files.size_of(uri)) >= 0:
        yield RecordFile(uri, split_of(uri), size)
        return
    folder, name = posixpath.split(uri)
    is_glob = not is_folder and any(sign in name for sign in "*?[")
    try:
        sizes = files.sizes_in(folder if is_glob else uri)
    except (FileNotFoundError, NotADirectoryError):
        sizes = {}
    chosen = sorted(
        path
        for path in sizes
        if (fnmatchcase(path, name) if is_glob else _may_hold_records(posixpath.basename(path)))
    )
    if not chosen:
        missing = "no such file or folder"
        if is_glob:
            missing = "no file has such a name"
        elif is_folder or sizes:
            missing = (
                f"the folder has no {MANIFEST_NAME}, and no file with 'tfrecord' in its name; name "
                "the files"
            )
        raise UsageError(f"{uri}: {missing}")
    for path in chosen:
        yield RecordFile(files.join(folder if is_glob else uri, path), split_of(path), sizes[path])


def _may_hold_records(name: str) -> bool:
    return bool(_SHARD_NAME.fullmatch(name)) and not _NOT_SHARDS.fullmatch(name)


def split_of(path: str) -> str:
    """The split that a file's name states: `train` for `shapes-train.tfrecord-00000-of-00016`."""
    stem = _NUMBER.split(posixpath.basename(path))[0]
    splits = [SPLIT_NAMES[w] for w in _WORDS.split(stem.lower()) if w in SPLIT_NAMES]
    return splits[-1] if splits else ""


def _class_names(folder: str) -> dict[int, str]:
    """Names of classes by id, as TFDS and this program write them beside the shards."""
    for feature in CLASS_IDS:
        data = None
        uri = files.join(folder, feature.replace("/", ".") + _CLASS_NAMES)
        try:
            if 0 <= files.size_of(uri) <= _LONGEST_LIST:
                data = files.read_if_there(uri)
        except OSError:
            continue  # ids are shown instead
        if data:
            return dict(enumerate(data.decode(errors="replace").splitlines()))
    return {}


# --- TFRecord files from anywhere ----------------------------------------------------------------


MOST_RECORD_BYTES = 256 << 20  # 256 MiB
_PIECE_BYTES = 1 << 20  # 1 MiB
_GZIP_MAGIC = b"\x1f\x8b"
_DEFLATE = 8  # the only method of zlib


def compression_of(head: bytes) -> str:
    """The compression of a TFRecord file by its first bytes: "none", "gzip" or "zlib"; empty for other files.

    An empty file is a TFRecord file without records.
    """
    header = head[:HEADER_BYTES]
    if not header or header == frame_header(int.from_bytes(header[:8], "little")):
        return "none"
    if head.startswith(_GZIP_MAGIC):
        return "gzip"
    if len(head) > 1 and head[0] & 15 == _DEFLATE and int.from_bytes(head[:2], "big") % 31 == 0:
        return "zlib"
    return ""


def read_examples(
    file: BinaryIO, path: str, most: int = MOST_RECORD_BYTES
) -> Iterator[tuple[int, ExampleView]]:
    """Yields (bytes, features) of each example of a TFRecord file, compressed or not.

    Args:
      file: the file, open at its beginning.
      path: its name in messages.
      most: the bytes that a record may have.

    Raises:
      DamagedRecordError: it is not a TFRecord file, broken, or its records are not examples; the message tells where.
    """
    head = file.read(HEADER_BYTES)
    file.seek(0)
    compression = compression_of(head)
    if not compression:
        raise DamagedRecordError(
            f"{path} is no TFRecord file, or its first record is damaged: it begins with {excerpt(head)}"
        )
    stream: Any = {"none": lambda: file, "gzip": lambda: gzip.GzipFile(fileobj=file)}.get(
        compression, lambda: io.BufferedReader(_Inflated(file), _PIECE_BYTES)
    )()
    number = 0
    try:
        for record in read_records(stream, path, most):
            yield len(record), parsed(record, path, number)
            number += 1
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DamagedRecordError(
            f"{path}: the {compression} stream is broken after {counted(number, 'record')}: {error}"
        ) from error


def parsed(record: bytes, path: str, number: int) -> ExampleView:
    """The features of an example from anywhere. Raises DamagedRecordError."""
    return ExampleView(record, f"{path}: record {number}", bounded=True)


class _Inflated(io.RawIOBase):
    """The content of a zlib stream; never more than requested is inflated."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__()
        self._file = file
        self._inflater = zlib.decompressobj()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = b""
        while not data and not self._inflater.eof:
            piece = self._inflater.unconsumed_tail or self._file.read(_PIECE_BYTES)
            if not piece:
                raise EOFError("it ends too early")
            data = self._inflater.decompress(piece, len(buffer))
        buffer[: len(data)] = data
        return len(data)
