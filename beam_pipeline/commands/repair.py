"""`beam-tfrecord repair`: rewrites damaged or missing shards."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass

from beam_pipeline.commands.command import Command
from beam_pipeline.commands.verify import check_shards, dead_letter_faults, manifest_faults
from beam_pipeline.core.dataset.manifest import Manifest, ShardEntry, crc32c_text
from beam_pipeline.core.dataset.names import INCOMPLETE_FOLDER
from beam_pipeline.core.dataset.receipts import Receipt, ShardInputs, receipt_name
from beam_pipeline.core.errors import (
    ChangedInputsError,
    CodecError,
    ConversionError,
)
from beam_pipeline.core.images.preparation import check_codec
from beam_pipeline.core.records.record_format import RecordFormat
from beam_pipeline.core.text import counted, excerpt
from beam_pipeline.storage import files
from beam_pipeline.storage.read_ahead import usual_reading
from beam_pipeline.terminal import complain, say
from beam_pipeline.work.incomplete_folder import delete_incomplete
from beam_pipeline.work.output_claim import claimed
from beam_pipeline.work.output_folder import (
    check_no_links,
    read_manifest,
    spoilt_side_files,
    write_side_file,
)
from beam_pipeline.work.receipts import read_receipt
from beam_pipeline.work.writer_process import cores, submit, writer_processes
from beam_pipeline.work.writing import EncodingOptions, WriteRequest, write_inputs


@dataclass(frozen=True)
class RepairTask:
    """A shard to rewrite.

    Attributes:
      folder: the output folder.
      inputs: the references it was written from, as its receipt lists them.
      entry: its entry in the manifest.
      record_format: the format of its file.
    """

    folder: str
    inputs: ShardInputs
    entry: ShardEntry
    record_format: RecordFormat

    @property
    def uri(self) -> str:
        """The shard's URI."""
        return files.join(self.folder, self.inputs.spec.file_name)

    @property
    def doing(self) -> str:
        """See `Task`."""
        return f"writing {self.uri}"

    def run(self) -> None:
        """Rewrites the shard if the result matches the manifest.

        Raises:
          ChangedInputsError: it does not match; the file is not replaced.
        """
        reading = usual_reading(ref.uri for ref in self.inputs.refs)
        encoding = EncodingOptions.from_recorded(self.inputs.options)
        request = WriteRequest(self.folder, encoding, reading=reading)
        write_inputs(request, self.inputs, self.record_format, new=False, accept=self._accept)

    def _accept(self, receipt: Receipt) -> None:
        info = receipt.info
        if (info.examples, info.bytes, crc32c_text(info.crc32c)) == (
            self.entry.examples,
            self.entry.bytes,
            self.entry.crc32c,
        ):
            return
        raise ChangedInputsError(
            f"{self.uri} cannot be rewritten: its images have changed. It would now have "
            f"{info.examples} examples and {info.bytes} bytes, the manifest lists "
            f"{self.entry.examples} and {self.entry.bytes}{_first_dead_letter(receipt)}. Restore the "
            "images, or convert again with --overwrite"
        )


def _first_dead_letter(receipt: Receipt) -> str:
    dead_letters = receipt.dead_letters
    return f" ({dead_letters[0].uri}: {dead_letters[0].message})" if dead_letters else ""


def repair(folder: str) -> bool:
    """Reads a data set, rewrites shards and other files that differ from the manifest, and names them.

    Returns: True if the data set is sound afterwards.

    Raises:
      ConversionError: the folder does not contain a complete data set, or a job is writing to it.
    """
    folder = files.canonical(folder)
    read_manifest(folder)  # without a manifest, fails before the folder is claimed
    with claimed(folder):
        check_no_links(folder)
        return _repair(folder, read_manifest(folder))


def _repair(folder: str, manifest: Manifest) -> bool:
    shards = [*check_shards(folder, manifest)]
    damaged = [shard for shard in shards if shard.faults]
    for shard in damaged:
        complain(f"{shard.faults[0]}{shard.sharing}")
    failed = 0
    with writer_processes(min(cores(), len(damaged))):
        started = [_start(folder, shard.entry, manifest) for shard in damaged]
        for shard, work in zip(damaged, started, strict=True):
            try:
                if isinstance(work, ConversionError):
                    raise work
                _result(work, files.join(folder, shard.entry.path))
                say(f"{files.join(folder, shard.entry.path)}: rewritten")
            except ConversionError as error:
                complain(str(error))
                failed += 1
    remaining = [fault for shard in shards if not shard.faults for fault in shard.receipt_faults]
    of_manifest = [*manifest_faults(folder, manifest)]
    for name, fault in () if of_manifest else [*spoilt_side_files(folder, manifest)]:
        if write_side_file(folder, name, manifest):
            say(f"{files.join(folder, name)}: rewritten")
        else:
            remaining.append(f"{files.join(folder, name)} {fault}")
    remaining += [*of_manifest, *dead_letter_faults(folder, manifest)]
    if remaining:
        complain(*remaining)
    delete_incomplete(folder)
    sound = len(manifest.shards) - len(damaged)
    were = "was" if sound == 1 else "were"
    written = len(damaged) - failed
    say(f"{folder}: {counted(sound, 'shard')} {were} sound, {written} rewritten")
    return not failed and not remaining


def _result(work: Future[None], uri: str) -> None:
    """Waits for a shard.

    Raises:
      ConversionError: it was not written. The receipt may come from anyone, so any error that its
        values lead to is reported this way as well.
    """
    try:
        work.result()
    except ConversionError:
        raise
    except OSError as error:
        raise ConversionError(f"{uri} cannot be written: {error.strerror or error}") from error
    except Exception as error:
        raise ConversionError(
            f"{uri} cannot be rewritten: its receipt does not describe it ({excerpt(error)}). "
            "Convert again with --overwrite"
        ) from error


def _start(folder: str, entry: ShardEntry, manifest: Manifest) -> Future[None] | ConversionError:
    uri = files.join(folder, entry.path)
    try:
        receipt = read_receipt(folder, entry.path)
    except ConversionError as error:
        return error
    if receipt is None:
        return ConversionError(
            f"{uri} cannot be rewritten: {receipt_name(entry.path)}, the list of its images, is "
            "missing. Convert again with --overwrite"
        )
    try:
        check_codec(receipt.info.codec)
    except ConversionError as error:
        return CodecError(f"{uri}: {error}")
    if any(f"/{INCOMPLETE_FOLDER}/" in ref.uri for ref in receipt.inputs.refs):
        return ConversionError(
            f"{uri} cannot be rewritten: its samples came from Python, or were unpacked during the "
            "conversion from a file of many samples. Convert again with --overwrite"
        )
    task = RepairTask(folder, receipt.inputs, entry, manifest.record_format)
    work = submit(task)
    assert work, "there are writer processes"
    return work


COMMAND = Command(
    "Checks a data set as verify does, and rewrites each damaged or missing shard from its "
    "images, provided they have not changed, and each file that the manifest determines. Exits "
    "with code 1 if a fault remains.",
    lambda call: repair(call.arguments.folder),
)
