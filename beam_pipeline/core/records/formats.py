"""The registry of record formats. A new format is a separate file and a line in `FORMATS`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from beam_pipeline.core.errors import UsageError
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
"""Name -> format."""

DEFAULT_FORMAT = next(iter(FORMATS))

COMPRESSIONS = tuple(
    dict.fromkeys(name for known in FORMATS.values() for name in known.compressions)
)
"""The compressions of all formats, the default first."""

OUR_FILES = re.compile("|".join(known.file_names.pattern for known in FORMATS.values()))
"""Matches the names of shards and indexes of every format, and no others."""


def record_format(compression: str = COMPRESSIONS[0], name: str = DEFAULT_FORMAT) -> RecordFormat:
    """The format of a name, with a compression.

    Raises:
      UsageError: the format does not exist, or it does not know the compression.
    """
    if name not in FORMATS:
        raise UsageError(f"--format is {name!r}, expected one of {tuple(FORMATS)}")
    chosen = FORMATS[name]
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
    for known in FORMATS.values():
        if known.file_names.fullmatch(shard):
            return known()
    return FORMATS[DEFAULT_FORMAT]()
