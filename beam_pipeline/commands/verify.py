"""`beam-tfrecord verify` checks a data set against its manifest, `repair` rewrites what is damaged, `index` adds indexes."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from beam_pipeline.commands import Call, Command
from beam_pipeline.core import text, uris
from beam_pipeline.core.dataset import manifest as manifests
from beam_pipeline.core.dataset import names, verification
from beam_pipeline.core.dataset.manifest import Manifest, ShardEntry, crc32c_text
from beam_pipeline.core.dataset.receipts import Receipt, receipt_name
from beam_pipeline.core.errors import ChangedInputsError, CodecError, ConversionError
from beam_pipeline.core.images.preparation import check_codec
from beam_pipeline.core.records import formats, sharding, tfrecord
from beam_pipeline.core.records.record_format import RecordFormat
from beam_pipeline.dataset import read_manifest
from beam_pipeline.storage import files, read_ahead
from beam_pipeline.terminal import complain, say
from beam_pipeline.work import job, output_folder
from beam_pipeline.work.receipts import read_receipt, receipts_there
from beam_pipeline.work.writer_process import cores, submit, writer_processes
from beam_pipeline.work.writing import EncodingOptions, WriteRequest, write_inputs


def _verify(call: Call) -> bool:
    """Prints each fault to stderr, or one line with the counts without faults."""
    folder = files.canonical(call.arguments.folder)
    manifest = read_manifest(folder)
    faults = 0
    for fault in _faults(folder, manifest):
        complain(fault)
        faults += 1
    if faults:
        complain(f"{folder}: {text.counted(faults, 'fault')}")
    else:
        shards = text.counted(len(manifest.shards), "shard")
        say(f"{folder}: {shards}, {text.counted(manifest.counts.examples, 'example')}, all well")
    return not faults


class _CheckedShard(NamedTuple):
    """A shard and its faults.

    Attributes:
      entry: its entry in the manifest.
      faults: one sentence each; empty if the shard is sound.
      info: its figures, or None if it could not be read.
      receipt_faults: the faults of its receipt, one sentence each.
    """

    entry: ShardEntry
    faults: Sequence[str]
    info: sharding.ShardInfo | None
    receipt_faults: Sequence[str]


def _checked_shards(folder: str, manifest: Manifest) -> Iterator[_CheckedShard]:
    """Reads every shard of a data set, and its receipt, and compares both with the manifest."""
    receipts = receipts_there(folder)
    for split, entries in manifest.splits.items():
        for entry in entries.shards:
            uri = files.join(folder, entry.path)
            try:
                with files.open_input(uri) as file:
                    faults, info = verification.verify_shard(file, uri, entry, manifest, split)
            except OSError as error:
                faults, info = [f"{uri}: cannot be read: {error.strerror or error}"], None
            if faults and not uris.is_remote(folder):
                faults[0] += _sharing(uri)
            # --shuffle=records wrote a folder without any receipt, or they were removed.
            of_receipt = _receipt_faults(folder, entry, manifest) if receipts else ()
            yield _CheckedShard(entry, faults, info, of_receipt)


def _receipt_faults(folder: str, entry: ShardEntry, manifest: Manifest) -> Sequence[str]:
    uri = files.join(folder, receipt_name(entry.path))
    try:
        receipt = read_receipt(folder, entry.path)
    except ConversionError as error:
        return [str(error)]
    if receipt:
        faults = verification.verify_receipt(receipt, entry, manifest)
        return [f"{uri}: {fault}" for fault in faults]
    return [f"{uri} is missing, and --resume and repair need it: convert again with --overwrite"]


def _sharing(uri: str) -> str:
    """Tells of a shard of this machine that other data sets may share, and how to find them."""
    with contextlib.suppress(OSError):
        if os.path.isfile(uri) and os.stat(uri).st_nlink > 1:
            above = os.path.dirname(os.path.dirname(uri))
            find = shlex.join(["find", above, "-samefile", uri])
            return f"; the file is a hard link of --reuse: repair each data set in which `{find}` finds it"
    return ""


def _manifest_faults(folder: str, manifest: Manifest) -> Iterator[str]:
    """Yields the faults of a manifest that it shows by itself."""
    uri = files.join(folder, names.MANIFEST_NAME)
    if not manifests.is_as_written(files.read_bytes(uri)):
        yield (
            f"{uri} does not have its checksum: it was damaged or edited. Put back a copy, or convert "
            "again with --overwrite"
        )
    yield from verification.verify_counts(manifest)


def _faults(folder: str, manifest: Manifest) -> Iterator[str]:
    infos: list[sharding.ShardInfo] = []
    for shard in _checked_shards(folder, manifest):
        yield from (*shard.faults, *shard.receipt_faults)
        if shard.info:
            infos.append(shard.info)
    yield from _manifest_faults(folder, manifest)
    if len(infos) == len(manifest.shards):
        yield from verification.verify_classes(manifest, infos)
    for name, fault in output_folder.spoilt_side_files(folder, manifest):
        yield f"{files.join(folder, name)} {fault}"
    yield from _dead_letter_faults(folder, manifest)


def _dead_letter_faults(folder: str, manifest: Manifest) -> Iterator[str]:
    """Yields the faults of the file that lists dead letters."""
    uri, crc = files.join(folder, names.DEAD_LETTERS_NAME), 0
    reasons: Counter[str] = Counter()
    try:
        for line in output_folder.read_dead_letters(folder, bytes):
            crc += manifests.line_crc(line)
            reasons[json.loads(line)["reason"]] += 1
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        yield f"{uri}: cannot be read: {error}"
        return
    if reasons != manifest.dead_letters:
        yield f"{uri}: contains {dict(reasons)}, the manifest lists {manifest.dead_letters}"
    elif manifest.dead_letters_crc32c != crc32c_text(crc % (1 << 32)):
        yield f"{uri}: its lines do not have the checksum of the manifest: damaged or edited"


VERIFY = Command(
    "Reads every shard and compares it with the manifest: framing, checksums, examples and "
    "counts; checks the manifest, receipts and all files that it determines. Prints each fault "
    "with its location and exits with code 1 if there are any.",
    _verify,
)


@contextlib.contextmanager
def _changing(folder: str) -> Iterator[Manifest]:
    """A complete data set that nobody else writes to while the block runs.

    Raises:
      ConversionError: the folder does not contain one, or a job is writing to it.
    """
    read_manifest(folder)  # without a manifest, fails before the folder is claimed
    with job.claimed(folder):
        output_folder.check_no_links(folder)
        try:
            yield read_manifest(folder)
        finally:
            output_folder.delete_incomplete(folder)


# --- repair ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RepairTask:
    """A shard to rewrite.

    Attributes:
      folder: the output folder.
      entry: its entry in the manifest.
      record_format: the format of its file.
    """

    folder: str
    entry: ShardEntry
    record_format: RecordFormat

    @property
    def uri(self) -> str:
        """The shard."""
        return files.join(self.folder, self.entry.path)

    @property
    def doing(self) -> str:
        """See `Task`."""
        return f"writing {self.uri}"

    def run(self) -> None:
        """Rewrites the shard from the references in its receipt if the result matches the manifest.

        Raises:
          ConversionError: it cannot be rewritten, or does not match; the file is not replaced.
        """
        receipt, fault = read_receipt(self.folder, self.entry.path), ""
        if receipt is None:
            fault = f"{receipt_name(self.entry.path)}, the list of its images, is missing"
        elif any(f"/{names.INCOMPLETE_FOLDER}/" in ref.uri for ref in receipt.inputs.refs):
            fault = "its samples came from Python, or were unpacked from a file of many samples"
        try:
            check_codec(receipt.info.codec if receipt else "")
        except ConversionError as error:
            raise CodecError(f"{self.uri}: {error}") from error
        if receipt is None or fault:
            raise ConversionError(
                f"{self.uri} cannot be rewritten: {fault}. Convert again with --overwrite"
            )
        inputs = receipt.inputs
        reading = read_ahead.usual_reading(ref.uri for ref in inputs.refs)
        encoding = EncodingOptions.from_recorded(inputs.options)
        request = WriteRequest(self.folder, encoding, reading=reading)
        write_inputs(request, inputs, self.record_format, new=False, accept=self._accept)

    def _accept(self, receipt: Receipt) -> None:
        info, entry, letters = receipt.info, self.entry, receipt.dead_letters
        crc32c = crc32c_text(info.crc32c)
        if (info.examples, info.bytes, crc32c) == (entry.examples, entry.bytes, entry.crc32c):
            return
        first = f" ({letters[0].uri}: {letters[0].message})" if letters else ""
        raise ChangedInputsError(
            f"{files.join(self.folder, entry.path)} cannot be rewritten: its images have changed. It would "
            f"now have {info.examples} examples, {info.bytes} bytes and the CRC-32C {crc32c}, the manifest "
            f"lists {entry.examples}, {entry.bytes} and {entry.crc32c}{first}. Restore the images, or convert "
            "again with --overwrite"
        )


def _repair(call: Call) -> bool:
    """Rewrites shards and other files that differ from the manifest, and names them."""
    folder = files.canonical(call.arguments.folder)
    with _changing(folder) as manifest:
        shards = [*_checked_shards(folder, manifest)]
        damaged = [shard for shard in shards if shard.faults]
        for shard in damaged:
            complain(shard.faults[0])
        failed = _rewrite(folder, [shard.entry for shard in damaged], manifest)
        remaining = [fault for s in shards if not s.faults for fault in s.receipt_faults]
        of_manifest = [*_manifest_faults(folder, manifest)]
        spoilt = [] if of_manifest else [*output_folder.spoilt_side_files(folder, manifest)]
        for name, fault in spoilt:
            if output_folder.write_side_file(folder, name, manifest):
                say(f"{files.join(folder, name)}: rewritten")
            else:
                remaining.append(f"{files.join(folder, name)} {fault}")
        remaining += [*of_manifest, *_dead_letter_faults(folder, manifest)]
        if remaining:
            complain(*remaining)
    sound = len(shards) - len(damaged)
    were = "was" if sound == 1 else "were"
    say(f"{folder}: {text.counted(sound, 'shard')} {were} sound, {len(damaged) - failed} rewritten")
    return not failed and not remaining


def _rewrite(folder: str, entries: Sequence[ShardEntry], manifest: Manifest) -> int:
    """Rewrites shards, and returns how many of them could not be."""
    failed = 0
    tasks = [RepairTask(folder, entry, manifest.record_format) for entry in entries]
    with writer_processes(min(cores(), len(entries))):
        for task, result in zip(tasks, [*map(submit, tasks)], strict=True):
            uri = task.uri
            assert result, "there are writer processes"
            try:
                result.result()
            except ConversionError as error:
                fault = str(error)
            except OSError as error:
                fault = f"{uri} cannot be written: {error.strerror or error}"
            except Exception as error:  # the receipt may come from anyone, with any values
                fault = (
                    f"{uri} cannot be rewritten: its receipt does not describe it ({text.excerpt(error)}). "
                    "Convert again with --overwrite"
                )
            else:
                say(f"{uri}: rewritten")
                continue
            complain(fault)
            failed += 1
    return failed


REPAIR = Command(
    "Checks a data set as verify does, and rewrites each damaged or missing shard from its "
    "images, provided they have not changed, and each file that the manifest determines. Exits "
    "with code 1 if a fault remains.",
    _repair,
)


# --- index ----------------------------------------------------------------------------------------


def _index(call: Call) -> bool:
    """Writes an index file for each shard, atomically, and prints one line with the counts."""
    folder, records = files.canonical(call.arguments.folder), 0
    with _changing(folder) as manifest:
        record_format = manifest.record_format
        formats.check_jumps(record_format, folder, "an index")
        for entry in manifest.shards:
            uri = files.join(folder, entry.path)
            index = files.join(folder, record_format.index_name(entry.path))
            with files.naming(uri), files.open_input(uri) as file:
                sizes = [*record_format.sizes(file, uri)]
            if len(sizes) != entry.examples:
                raise ConversionError(
                    f"{uri}: contains {text.counted(len(sizes), 'record')}, the manifest lists {entry.examples}; "
                    "run `beam-tfrecord verify` to find all faults"
                )
            with files.naming(index, deed="written"):
                files.write_bytes(index, tfrecord.index_file(sizes))
            records += len(sizes)
        shards = text.counted(len(manifest.shards), "shard")
    say(f"{folder}: {shards}, {text.counted(records, 'record')}, indexed in *.tfindex-*")
    return True


INDEX = Command(
    "Writes NAME-SPLIT.tfindex-00000-of-00016 beside each shard: for each record, a line with "
    "its offset and size in bytes.",
    _index,
)
