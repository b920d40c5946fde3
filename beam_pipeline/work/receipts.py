"""Receipts, which list the inputs of each shard, and the earlier data set that a conversion takes shards from.

A shard whose receipt lists the inputs that it would have now is the shard that would be written. This is
the same decision for `--resume` and `--reuse`, with another folder to look in.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from beam_pipeline.core import errors, references
from beam_pipeline.core.dataset import changes, plan
from beam_pipeline.core.dataset.names import RECEIPTS_FOLDER
from beam_pipeline.core.dataset.receipts import (
    Receipt,
    ShardInputs,
    parse_receipt,
    receipt_name,
)
from beam_pipeline.core.images.preparation import codec_here
from beam_pipeline.core.labels.classes import Classes
from beam_pipeline.core.records.sharding import KeyHasher, ShardPlan, ShardSpec
from beam_pipeline.storage import files


def read_note_file(uri: str) -> bytes | None:
    """The content of a file; None if it does not exist. Raises ConversionError."""
    with files.naming(uri):
        return files.read_if_there(uri)


def read_receipt(folder: str, shard: str) -> Receipt | None:
    """The receipt of a shard in an output folder, or None.

    Raises:
      ConversionError: it is damaged, cannot be read, or is another shard's.
    """
    uri = files.join(folder, receipt_name(shard))
    if (data := read_note_file(uri)) is None:
        return None
    receipt = parse_receipt(data, uri)
    own = receipt.inputs.spec.file_name
    if own != shard:
        raise errors.ConversionError(
            f"{uri} is damaged: it is of {own!r}, not of {shard}; remove it by hand"
        )
    return receipt


def read_record_sizes(folder: str, shard: str) -> Sequence[int]:
    """The bytes of each record of a shard, by its receipt; none if they are unknown.

    Raises:
      ConversionError: the receipt is damaged, or cannot be read.
    """
    receipt = read_receipt(folder, shard)
    return receipt.record_sizes if receipt else ()


def write_receipt(folder: str, receipt: Receipt, *, new: bool = False) -> None:
    """Writes the receipt of a shard that has just been written.

    Args:
      folder: the output folder.
      receipt: the receipt.
      new: as `files.open_output` has it, so that the receipt of another job's shard stays.
    """
    files.make_folder(files.join(folder, RECEIPTS_FOLDER))
    name = receipt_name(receipt.inputs.spec.file_name)
    files.write_bytes(files.join(folder, name), receipt.to_bytes(), new=new)


def without_receipt(folder: str, shard_plan: ShardPlan) -> list[str]:
    """Paths of the receipts of shards that are missing. Raises OSError."""
    there = receipts_there(folder)
    expected = (receipt_name(spec.file_name) for spec in shard_plan.specs)
    return [name for name in expected if name not in there]


def receipts_there(folder: str) -> set[str]:
    """Paths of all receipts in the output folder."""
    names = files.list_folder(files.join(folder, RECEIPTS_FOLDER))
    return {f"{RECEIPTS_FOLDER}/{name}" for name in names}


@dataclass(frozen=True)
class EarlierDataSet:
    """A complete data set, which is not changed.

    Attributes:
      folder: its folder.
      shard_plan: its shards.
      classes: its classes and their ids, where these are kept.
      seed: places its samples, and the conversion's.
      by_image: rows of an image are neighbours.
    """

    folder: str
    shard_plan: ShardPlan
    classes: Classes = ()
    seed: int = 0
    by_image: bool = False

    @property
    def kept(self) -> plan.Kept:
        """The values to keep where its shards are taken."""
        return plan.Kept(dict(self.shard_plan.shards), self.classes)

    def look_up(self, inputs: ShardInputs) -> EarlierShards:
        """Finds the shards with the samples of one that is to be written."""
        receipts, notes = [], []
        for spec in changes.shards_meeting(inputs.spec, self.shard_plan):
            receipt, note = self._receipt(spec)
            if receipt:
                receipts.append(receipt)
            notes += [note] if note else []
        reusable = None
        if (
            len(receipts) == 1
            and (only := receipts[0]).inputs.spec.of == inputs.spec.of
            and changes.has_same_outcome(only, inputs)
            and (not only.info.codec or only.info.codec == codec_here(only.info.codec))
        ):
            if self._is_sound(only):
                reusable = only
            else:
                notes.append(f"{self._uri(only)} is missing or damaged: the shard is written again")
        return EarlierShards(self, inputs, receipts, reusable, notes)

    def samples_elsewhere(self, splits: Sequence[str]) -> changes.SampleChanges:
        """The samples of splits that are not among these, as removed ones."""
        specs = (spec for spec in self.shard_plan.specs if spec.split not in splits)
        receipts = filter(None, (self._receipt(spec)[0] for spec in specs))
        removed = (ref.key for receipt in receipts for ref in changes.written_samples(receipt))
        return changes.NO_CHANGES._replace(removed=tuple(sorted(removed)))

    def _receipt(self, spec: ShardSpec) -> tuple[Receipt | None, str]:
        """A shard's receipt, or else a sentence on why it is missing."""
        reason = f"{files.join(self.folder, spec.file_name)} has no receipt"
        try:
            if receipt := read_receipt(self.folder, spec.file_name):
                return receipt, ""
        except errors.ConversionError as error:
            reason = str(error)
        return None, f"a shard is written again, its samples counted as added: {reason}"

    def _is_sound(self, receipt: Receipt) -> bool:
        """Tells whether a shard matches its receipt.

        The receipt is written after the shard. So a local shard that is older has not been written
        since, and need not be read, which would take as long as reading its images; `verify` does.
        """
        uri, info = self._uri(receipt), receipt.info
        noted = files.join(self.folder, receipt_name(info.file_name))
        with contextlib.suppress(OSError):
            older = files.is_older(uri, info.bytes, noted)
            return older or files.holds(uri, info.bytes, info.crc32c)
        return False

    def _uri(self, receipt: Receipt) -> str:
        return files.join(self.folder, receipt.inputs.spec.file_name)


@dataclass
class EarlierShards:
    """The shards of an earlier data set with the samples of one that is to be written.

    Attributes:
      data_set: the earlier data set.
      inputs: of the shard that is to be written.
      receipts: of those shards.
      reusable: the receipt of the one that would be written again as it is, or None.
      notes: sentences for people about shards that cannot be reused, though nothing changed.
    """

    data_set: EarlierDataSet
    inputs: ShardInputs
    receipts: Sequence[Receipt]
    reusable: Receipt | None
    notes: list[str]

    def take(self, folder: str, *, new: bool) -> Receipt | None:
        """Makes the shard of the reusable one.

        Args:
          folder: the output folder.
          new: as in `files.open_output`.

        Returns: its receipt; None if there is nothing to reuse.
        """
        if self.reusable is None:
            return None
        earlier, name = self.reusable, self.inputs.spec.file_name
        uri = files.join(self.data_set.folder, earlier.inputs.spec.file_name)
        with contextlib.suppress(FileNotFoundError, PermissionError):
            if files.copy(uri, files.join(folder, name), earlier.info.crc32c, new=new):
                info = earlier.info._replace(file_name=name)
                return replace(earlier, inputs=self.inputs, info=info)
        self.reusable = None
        self.notes.append(
            f"{uri} was damaged or deleted meanwhile, or may not be read: the shard is written again"
        )
        return None

    def fate(self, receipt: Receipt) -> changes.ShardFate:
        """The fate of the shard, given its receipt."""
        kept, samples = self.reusable is not None, changes.NO_CHANGES
        if not kept:
            samples = self._compared(changes.written_samples(receipt))
        return changes.ShardFate(samples, kept, receipt.info.bytes, tuple(self.notes))

    def expected_fate(self) -> changes.ShardFate:
        """The fate of the shard as far as it is known before an image is read.

        An image that could not be used then, and has not changed since, is not a sample now. The bytes
        of a shard to write come from its listed images.
        """
        if self.reusable:
            return self.fate(self.reusable)
        letters = (letter for receipt in self.receipts for letter in receipt.dead_letters)
        dead = {letter.key for letter in letters if not letter.of_object}
        then = {ref for receipt in self.receipts for ref in receipt.inputs.refs if ref.key in dead}
        refs = self.inputs.refs
        samples = self._compared(ref for ref in refs if ref not in then)
        return changes.ShardFate(samples, False, sum(ref.size for ref in refs), tuple(self.notes))

    def _compared(self, samples: Iterable[references.SampleRef]) -> changes.SampleChanges:
        """Compares samples with the earlier data set's in the same range of hashes."""
        hasher = KeyHasher(self.data_set.seed, by_image=self.data_set.by_image)
        before = changes.samples_between(self.receipts, self.inputs.spec, hasher)
        return changes.compare_samples(before, samples, changes.file_labels(self.inputs.options))
