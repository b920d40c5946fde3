"""The registry of record formats. A new format is a separate file and a line in `FORMATS`, or a plugin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.plugins import FORMAT_GROUP, bad_plugin, load, plugins_of
from beam_pipeline.core.records.array_record import ArrayRecordFormat
from beam_pipeline.core.records.record_format import RecordFormat
from beam_pipeline.core.records.tfrecord import TFRecordFormat
from beam_pipeline.core.records.webdataset import WebDatasetFormat

FORMATS: Mapping[str, type[RecordFormat]] = {
    known.name: known
    for known in (
        TFRecordFormat,  # the first is the default
        ArrayRecordFormat,
        WebDatasetFormat,
    )
}
"""Name -> format, without plugins."""

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


def _format_of_file(name: str) -> type[RecordFormat] | None:
    """The format that gives a shard or an index this name; None if no format does."""
    return next((known for known in _all_formats() if known.file_names.fullmatch(name)), None)


def _all_formats() -> Iterator[type[RecordFormat]]:
    yield from FORMATS.values()
    yield from filter(None, map(format_class, plugins_of(FORMAT_GROUP, FORMATS)))


def is_record_file(name: str) -> bool:
    """True if a format gives a shard or an index this name."""
    return _format_of_file(name) is not None


def record_format(compression: str = COMPRESSIONS[0], name: str = DEFAULT_FORMAT) -> RecordFormat:
    """The format of a name, with a compression.

    Raises:
      UsageError: the format does not exist, or it does not know the compression.
    """
    chosen = format_class(name)
    if not chosen:
        names = (*FORMATS, *plugins_of(FORMAT_GROUP, FORMATS))
        raise UsageError(f"--format is {name!r}, expected one of {names}")
    if compression not in chosen.compressions:
        raise UsageError(
            f"--compression is {compression!r}, expected one of {chosen.compressions} for {name}; leave "
            "it out, or choose another --format"
        )
    return chosen(compression)


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
    return (_format_of_file(shard) or FORMATS[DEFAULT_FORMAT])()
