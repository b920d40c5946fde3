"""The registry of record formats, and ArrayRecord, the smallest of them.

A new format is a separate file and a line in `FORMATS`, or a plugin.

ArrayRecord is written by the package `array_record`; Grain and TFDS read it at random. Shards are named
NAME-SPLIT.array_record-00000-of-00016, as TFDS has it. Each record is a chunk of its own, without
compression, so that a reader gets to any of them with one read. The package knows local files only and no
streams, so a shard is written to a temporary file and copied from there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, ClassVar

from beam_pipeline.core.errors import DamagedRecordError, UsageError
from beam_pipeline.core.plugins import FORMAT_GROUP, bad_plugin, load, plugins_of
from beam_pipeline.core.records.record_format import EncodedSample, RecordFormat, RecordWriter
from beam_pipeline.core.records.tfrecord import TFRecordFormat
from beam_pipeline.core.records.webdataset import WebDatasetFormat
from beam_pipeline.core.text import excerpt

# --- ArrayRecord ----------------------------------------------------------------------------------

_OPTIONS = "group_size:1,uncompressed"
_CHUNK_BYTES = 1 << 20  # 1 MiB
_READ_AT_ONCE = 16


class _ArrayRecordWriter(RecordWriter):
    """Writes records to a temporary file, and passes that on to a sink."""

    def __init__(self, *arguments: Any) -> None:
        import tempfile

        super().__init__(*arguments)
        self._file = tempfile.NamedTemporaryFile(prefix="beam-tfrecord-", suffix=".array_record")
        self._writer = _library().ArrayRecordWriter(self._file.name, _OPTIONS)

    def write(self, sample: EncodedSample, key: str = "") -> None:
        """Writes the next record, which lacks a name. Raises OSError."""
        try:
            self._writer.write(sample.record)
        except RuntimeError as error:
            raise self._failure(error) from error

    def finish(self) -> None:
        """Passes the file on to the sink and deletes it. Raises OSError."""
        try:
            self._writer.close()
        except RuntimeError as error:
            raise self._failure(error) from error
        with self._file as file:
            while data := file.read(_CHUNK_BYTES):
                self._put(data)

    def _failure(self, error: RuntimeError) -> OSError:
        return OSError(f"{self._file.name} cannot be written: {error}; TMPDIR names another folder")


@dataclass(frozen=True)
class ArrayRecordFormat(RecordFormat):
    """ArrayRecord files, which have their index inside and no compression of ours."""

    name: ClassVar[str] = "array_record"
    in_tfds: ClassVar[bool] = True
    mark: ClassVar[str] = ".array_record-"
    file_names: ClassVar[re.Pattern[str]] = re.compile(r".*\.array_record-\d{5,}-of-\d{5,}")
    writer_type: ClassVar[type[RecordWriter]] = _ArrayRecordWriter

    def check_installed(self) -> None:
        """Checks that `array_record` is installed. Raises UsageError."""
        _library()

    def records_in(self, file: BinaryIO, path: str, wanted: range) -> Iterator[bytes]:
        """Yields the records with these numbers, checking the hash of each."""
        library = _library()
        number = wanted.start
        with _local_file(file) as local:
            try:
                reader = library.ArrayRecordReader(local)
                if not reader.ok():
                    raise DamagedRecordError(f"{path}: not an ArrayRecord file, or a damaged one")
                end = min(wanted.stop, reader.num_records())
                while number < end:
                    records = reader.read(number, min(number + _READ_AT_ONCE, end))
                    yield from records
                    number += len(records)
                reader.close()
            except (RuntimeError, ValueError, IndexError) as error:
                raise DamagedRecordError(
                    f"{path}: among the records from {number} on: {excerpt(error)}"
                ) from error


def _library() -> Any:
    """The package's module. Raises UsageError if it is not installed."""
    try:
        from array_record.python import array_record_module
    except ImportError as error:
        raise UsageError(
            f"ArrayRecord needs the package array_record, which is not installed here ({excerpt(error)}): "
            "pip install 'beam-tfrecord[array_record]', with Python 3.11 or newer; or choose another --format"
        ) from error
    return array_record_module


@contextmanager
def _local_file(file: BinaryIO) -> Iterator[str]:
    """A path to the content of an open file: its own if it is a local one, else a copy's."""
    import tempfile

    try:
        number = file.fileno()
    except (OSError, AttributeError):
        pass
    else:
        yield f"/dev/fd/{number}"
        return
    with tempfile.NamedTemporaryFile(prefix="beam-tfrecord-", suffix=".array_record") as copy:
        while data := file.read(_CHUNK_BYTES):
            copy.write(data)
        copy.flush()
        yield copy.name


# --- the registry ---------------------------------------------------------------------------------

FORMATS: Mapping[str, type[RecordFormat]] = {
    known.name: known for known in (TFRecordFormat, ArrayRecordFormat, WebDatasetFormat)
}
"""Name -> format, without plugins; the first is the default."""

DEFAULT_FORMAT = next(iter(FORMATS))

COMPRESSIONS = tuple(
    dict.fromkeys(name for known in FORMATS.values() for name in known.compressions)
)
"""The compressions of these formats, the default first."""


def format_class(name: str) -> type[RecordFormat] | None:
    """The class of a format; None if the name is unknown.

    Raises:
      UsageError: it is a plugin that cannot be used.
    """
    if name in FORMATS:
        return FORMATS[name]
    point = plugins_of(FORMAT_GROUP, FORMATS).get(name)
    if not point:
        return None
    known = load(point)
    if not (isinstance(known, type) and issubclass(known, RecordFormat) and known.name == name):
        raise bad_plugin(point, f"is not a subclass of RecordFormat with name = {name!r}")
    return known


def format_of_file(name: str) -> type[RecordFormat] | None:
    """The format that gives a shard or an index this name; None if no format does."""
    known = filter(None, map(format_class, (*FORMATS, *plugins_of(FORMAT_GROUP, FORMATS))))
    return next((chosen for chosen in known if chosen.file_names.fullmatch(name)), None)


def record_format(compression: str = COMPRESSIONS[0], name: str = DEFAULT_FORMAT) -> RecordFormat:
    """The format of a name, with a compression.

    Raises:
      UsageError: the format does not exist, or it does not know the compression.
    """
    chosen = format_class(name)
    if not chosen:
        names = (*FORMATS, *plugins_of(FORMAT_GROUP, FORMATS))
        raise UsageError(f"--format is {name!r}, expected one of {', '.join(names)}")
    if compression not in chosen.compressions:
        raise UsageError(
            f"--compression is {compression!r}, expected {' or '.join(chosen.compressions)} for {name}; leave "
            "it out, or choose another --format"
        )
    return chosen(compression)


def check_jumps(record_format: RecordFormat, folder: str, user: str) -> None:
    """Checks that a record of a shard can be read at its offset: only of TFRecords is the framing known.

    Raises:
      UsageError: it cannot; names the user of records, who needs that.
    """
    if record_format.name != DEFAULT_FORMAT or not record_format.indexable:
        raise UsageError(
            f"{folder} contains shards in the format {record_format.name}, with compression "
            f"{record_format.compression}; {user} needs TFRecords whose records can be found without reading those "
            "before: convert with --format tfrecord --compression none"
        )


def format_options(chosen: RecordFormat) -> dict[str, str]:
    """The options of a manifest, or of the note of a run, that record a format."""
    options = {"compression": chosen.compression}
    return options if chosen.name == DEFAULT_FORMAT else {**options, "record_format": chosen.name}


def recorded_format(options: Mapping[str, Any]) -> RecordFormat:
    """The format that the options of a manifest, or the note of a run, record.

    The default one is not named, as versions that knew no other did not.
    """
    return record_format(str(options["compression"]), options.get("record_format", DEFAULT_FORMAT))


def format_of(shard: str) -> RecordFormat:
    """The format of a shard by its file name; the default one for a name of no format."""
    return (format_of_file(shard) or FORMATS[DEFAULT_FORMAT])()
