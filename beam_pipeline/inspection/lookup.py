"""Finds a sample by its key: in a data set of ours from its receipt, elsewhere by a scan.

A hash of the key decides the shard of a sample, so there is one shard per split to look at, and the
shard's receipt lists the keys of its records in their order. So one record is read:

    key -> hash -> shard 3 of 16 of each split -> its receipt -> record 117
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from beam_pipeline.core.dataset.changes import written_samples
from beam_pipeline.core.dataset.sharding import KeyHasher, shard_of
from beam_pipeline.core.errors import ConversionError
from beam_pipeline.core.inspection.examples import Features, parse_features
from beam_pipeline.core.records.formats import recorded_format
from beam_pipeline.core.text import is_utf8
from beam_pipeline.inspection.sources import RecordFile, Source
from beam_pipeline.readers.shards import open_shard
from beam_pipeline.summary import location
from beam_pipeline.work.dead_letter_files import read_dead_letters
from beam_pipeline.work.receipt_files import read_receipt

_BY_HASH = "references"


class FoundExample(NamedTuple):
    """An example and its place.

    Attributes:
      file: the file that holds it.
      number: of the record in the file, from 0.
      size: bytes of the record.
      features: its features.
    """

    file: RecordFile
    number: int
    size: int
    features: Features


def files_for(source: Source, key: str) -> list[RecordFile]:
    """The files that may hold a sample: one per split where a hash decides, else all of them."""
    options = source.manifest.get("options", {})
    if options.get("shuffle") != _BY_HASH or not is_utf8(key):
        return list(source.files)
    order = KeyHasher(source.manifest["seed"]).order(key)
    by_split = {
        split: [file for file in source.files if file.split == split] for split in source.splits
    }
    return [found[shard_of(order, len(found))] for found in by_split.values()]


def find(source: Source, key: str) -> FoundExample | None:
    """The sample of a key; None if there is none.

    Raises:
      DamagedRecordError: a file that may hold it is damaged.
    """
    places = files_for(source, key)
    for file in places if source.folder else ():
        if found := _from_receipt(source, file, key):
            return found
    # A receipt may be gone or of another writer, so that only the records themselves prove that none has the key.
    return next(_scan(source, places, key), None)


def _from_receipt(source: Source, file: RecordFile, key: str) -> FoundExample | None:
    """The sample, if the receipt of a file lists it and the record is the sample's."""
    name = file.uri.rpartition("/")[2]
    try:
        receipt = read_receipt(source.folder, name)
    except ConversionError:
        return None  # damaged; the records tell
    keys = [ref.key for ref in written_samples(receipt)] if receipt else []
    if key not in keys:
        return None
    number = keys.index(key)
    with open_shard(file.uri) as stream:
        records = recorded_format(source.manifest["options"]).records_in(
            stream, file.uri, range(number, number + 1)
        )
        for record in islice(records, 1):
            features = parse_features(record, file.uri, number)
            if key in (source.naming.keys_of(features) or [key]):
                return FoundExample(file, number, len(record), features)
    return None


def _scan(source: Source, places: Sequence[RecordFile], key: str) -> Iterator[FoundExample]:
    for file in places:
        for number, (size, features) in enumerate(source.read(file)):
            if key in source.naming.keys_of(features):
                yield FoundExample(file, number, size, features)


def reason_left_out(source: Source, key: str) -> str:
    """What the dead letter of a sample says; empty if there is none."""
    if not source.folder:
        return ""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        for found in read_dead_letters(source.folder, source.manifest):
            if found["key"] == key:
                return f"{found['reason']}{location(found)}: {found['message']}"
    return ""
