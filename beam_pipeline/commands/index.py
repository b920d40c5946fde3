"""`beam-tfrecord index`: writes an index beside each shard, for readers with random access."""

from __future__ import annotations

from beam_pipeline.commands.command import Command
from beam_pipeline.core.dataset.manifest import Manifest, ShardEntry
from beam_pipeline.core.errors import ConversionError, UsageError
from beam_pipeline.core.records.formats import DEFAULT_FORMAT
from beam_pipeline.core.records.record_format import RecordFormat
from beam_pipeline.core.records.tfrecord import index_file
from beam_pipeline.core.text import counted
from beam_pipeline.storage import files
from beam_pipeline.terminal import say
from beam_pipeline.work.incomplete_folder import delete_incomplete
from beam_pipeline.work.output_claim import claimed
from beam_pipeline.work.output_folder import check_no_links, read_manifest


def write_index(folder: str) -> bool:
    """Writes an index file for each shard and prints one line with the counts.

    Replaces older index files of these shards atomically. Returns True.

    Args:
      folder: a complete data set.

    Raises:
      UsageError: the shards are compressed, so the offsets of records vary, or are not TFRecords.
      ConversionError: the manifest is missing, a shard is damaged or differs from the manifest, or a
        job is writing to the folder.
    """
    folder = files.canonical(folder)
    read_manifest(folder)  # without a manifest, fails before the folder is claimed
    with claimed(folder):
        check_no_links(folder)
        _write_index(folder, read_manifest(folder))
    return True


def _write_index(folder: str, manifest: Manifest) -> None:
    record_format = manifest.record_format
    if record_format.name != DEFAULT_FORMAT:
        raise UsageError(
            f"{folder} contains shards in the format {record_format.name}, and only TFRecords have an "
            "index beside them; convert with --format tfrecord"
        )
    if not record_format.indexable:
        raise UsageError(
            f"{folder} is compressed with {record_format.compression} and cannot be indexed, because "
            "readers cannot seek in a compressed shard; convert with --compression none"
        )
    shards = manifest.shards
    try:
        records = sum(_index_shard(folder, entry, record_format) for entry in shards)
    finally:
        delete_incomplete(folder)
    counts = f"{counted(len(shards), 'shard')}, {counted(records, 'record')}"
    say(f"{folder}: {counts}, indexed in *.tfindex-*")


def _index_shard(folder: str, entry: ShardEntry, record_format: RecordFormat) -> int:
    """Writes the index of one shard and returns the number of its records."""
    uri = files.join(folder, entry.path)
    try:
        with files.open_input(uri) as file:
            spans = list(record_format.spans(file, uri))
    except OSError as error:
        raise ConversionError(f"{uri} cannot be read: {error.strerror or error}") from error
    if len(spans) != entry.examples:
        raise ConversionError(
            f"{uri}: contains {counted(len(spans), 'record')}, the manifest lists {entry.examples}; "
            "run `beam-tfrecord verify` to find all faults"
        )
    index = files.join(folder, record_format.index_name(entry.path))
    try:
        files.write_bytes(index, index_file(spans))
    except OSError as error:
        raise ConversionError(f"{index} cannot be written: {error.strerror or error}") from error
    return len(spans)


COMMAND = Command(
    "Writes NAME-SPLIT.tfindex-00000-of-00016 beside each shard: for each record, a line with "
    "its offset and size in bytes.",
    lambda call: write_index(call.arguments.folder),
)
