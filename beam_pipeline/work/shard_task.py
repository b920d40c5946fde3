"""One shard as a unit of work for any worker: a thread, a process, a machine.

Nothing here imports Beam, so that a process that does nothing else starts in a tenth of a second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from beam_pipeline.core.dataset.changes import ShardFate, input_differences
from beam_pipeline.core.dataset.duplicates import packed_images, written_images
from beam_pipeline.core.dataset.names import MANIFEST_NAME
from beam_pipeline.core.dataset.receipts import Receipt, ShardInputs
from beam_pipeline.core.dead_letters import DeadLetter, Reason
from beam_pipeline.core.errors import (
    AnotherJobError,
    ChangedInputsError,
    CodecError,
    ConversionError,
)
from beam_pipeline.core.failures import DEFAULT_POLICY, FailurePolicy, Refusal
from beam_pipeline.core.images.preparation import check_codec
from beam_pipeline.core.packing import unpack
from beam_pipeline.core.records.record_format import RecordFormat
from beam_pipeline.core.records.shard_writer import sort_by_key_hash, write_shard
from beam_pipeline.core.records.sharding import KeyHasher, ShardInfo, ShardSpec
from beam_pipeline.core.references import SampleRef
from beam_pipeline.storage import files
from beam_pipeline.storage.read_ahead import ONE_BY_ONE, ReadOptions
from beam_pipeline.work import progress
from beam_pipeline.work.earlier_data_set import EarlierDataSet, EarlierShards
from beam_pipeline.work.encoding import EncodingOptions
from beam_pipeline.work.progress import Counts, Reporter
from beam_pipeline.work.receipt_files import read_receipt, write_receipt


class Written(NamedTuple):
    """The result of a `ShardTask`.

    Attributes:
      info: its figures; None if it was not written.
      dead_letters: samples that were left out.
      refusal: why it was not written, or None.
      image_bytes: of all its images, as they were listed.
      changes: what became of the shard since the earlier data set; None if there is none.
      images: (range of digests, packed `WrittenImage`s) of its examples.
    """

    info: ShardInfo | None
    dead_letters: Sequence[DeadLetter]
    refusal: Refusal | None = None
    image_bytes: int = 0
    changes: ShardFate | None = None
    images: Sequence[tuple[int, bytes]] = ()


@dataclass(frozen=True, kw_only=True)
class WriteRequest:
    """How the shards of a run are written.

    Attributes:
      folder: the output folder.
      encoding: the encoding of the examples.
      resume: keep shards of an earlier run that were made from the same samples.
      reading: how far each writer reads ahead.
      failures: how a shard that cannot be written is reported, and whether the engine may run this again,
        so that a shard of this run is kept.
      earlier: the data set that shards of the same samples are taken from.
    """

    folder: str
    encoding: EncodingOptions
    resume: bool = False
    reading: ReadOptions = ONE_BY_ONE
    failures: FailurePolicy = DEFAULT_POLICY
    earlier: EarlierDataSet | None = None


@dataclass(frozen=True)
class ShardTask:
    """A shard to write.

    Attributes:
      request: how the shards of the run are written.
      spec: which shard it is.
      batches: its samples, packed, in any order.
      class_ids: class -> id, of its classes at least.
      record_format: the format of its file.
      ranges: the number of ranges of digests in which images are compared.
    """

    request: WriteRequest
    spec: ShardSpec
    batches: Sequence[bytes]
    class_ids: Mapping[str, int]
    record_format: RecordFormat
    ranges: int = 1

    @property
    def uri(self) -> str:
        """The path of the shard."""
        return files.join(self.request.folder, self.spec.file_name)

    @property
    def doing(self) -> str:
        """See `Task`."""
        return f"writing {self.uri}"

    def run(self) -> Written:
        """Writes the shard and then its receipt.

        A shard that is finished is not written: one in the output folder, of an earlier run, is kept,
        and one of the earlier data set is taken.
        """
        inputs = shard_inputs(self.spec, self.batches, self.class_ids, self.request.encoding)
        try:
            keeps = self.request.resume or self.request.failures.retries
            own = read_receipt(self.request.folder, self.spec.file_name, inputs) if keeps else None
        except ConversionError as error:
            return Written(None, [], Refusal.from_error(error))
        if own:
            changed = input_differences(own.inputs, inputs)
            if changed:
                return Written(None, [], self._refused(changed))
        found = self.request.earlier.look_up(inputs) if self.request.earlier else None
        if own:
            if self._is_kept(own):
                return self._written(own, found)
            try:
                check_codec(own.info.codec)
            except CodecError as error:
                what = f"--resume: in {self.uri}, {error}"
                return Written(None, [], Refusal.from_error(CodecError(what)))
        new = own is None or not files.exists(self.uri)
        receipt = found.take(self.request.folder, new=new) if found else None
        if receipt:
            size = sum(ref.size for ref in inputs.refs)
            progress.report(Counts(samples=len(inputs.refs), image_bytes=size))
        else:
            receipt = write_inputs(
                folder=self.request.folder,
                inputs=inputs,
                encoding=self.request.encoding,
                record_format=self.record_format,
                reading=self.request.reading,
                new=new,
            )
        if self.request.encoding.examples.resumable:
            write_receipt(self.request.folder, receipt, new=own is None)
        return self._written(receipt, found)

    def _is_kept(self, earlier: Receipt) -> bool:
        """Tells whether the existing shard is sound, and would not become better.

        It would where images could not be read, and perhaps can be now. With an engine that may run
        this twice at once, both have to come to the same, so there the shard stays.
        """
        if self.request.resume and not self.request.failures.retries and _has_unreadable(earlier):
            complete = files.exists(files.join(self.request.folder, MANIFEST_NAME))
            if not complete:
                return False
        return files.holds(self.uri, earlier.info.bytes, earlier.info.crc32c)

    def _written(self, receipt: Receipt, found: EarlierShards | None) -> Written:
        examples = self.request.encoding.examples
        images = written_images(receipt, examples.file_columns) if examples.resumable else []
        return Written(
            receipt.info,
            receipt.dead_letters,
            image_bytes=sum(ref.size for ref in receipt.inputs.refs),
            changes=found.fate(receipt) if found else None,
            images=packed_images(images, self.ranges),
        )

    def _refused(self, changed: str) -> Refusal:
        """Tells why the existing shard is not the one that would be written."""
        if self.request.resume:
            what = (
                f"--resume: since {self.uri} was written, its samples have changed: {changed}. "
                "Restore them, or convert again with --overwrite"
            )
            return Refusal.from_error(ChangedInputsError(what))
        what = (
            f"another job is writing to this folder: {self.uri} is there already, of other samples: "
            f"{changed}. Nothing of it was changed; wait for the other job or choose another --output"
        )
        return Refusal.from_error(AnotherJobError(what))


def shard_inputs(
    spec: ShardSpec,
    batches: Iterable[bytes],
    class_ids: Mapping[str, int],
    encoding: EncodingOptions,
) -> ShardInputs:
    """Everything that determines the bytes of a shard.

    Args:
      spec: which shard it is.
      batches: its samples, packed, in any order.
      class_ids: class -> id, of its classes at least.
      encoding: the encoding of its examples.
    """
    refs = sort_by_key_hash(
        (ref for batch in batches for ref in unpack(SampleRef, batch)), KeyHasher(encoding.seed)
    )
    return ShardInputs(
        spec=spec,
        refs=refs,
        class_ids={name: class_ids[name] for name in encoding.class_names(refs)},
        options=encoding.recorded(),
    )


def _has_unreadable(receipt: Receipt) -> bool:
    return any(letter.reason == Reason.UNREADABLE for letter in receipt.dead_letters)


def write_inputs(
    *,
    folder: str,
    inputs: ShardInputs,
    encoding: EncodingOptions,
    record_format: RecordFormat,
    reading: ReadOptions,
    new: bool,
    accept: Callable[[Receipt], None] = lambda _: None,
) -> Receipt:
    """Writes a shard.

    Args:
      folder: the output folder.
      inputs: its samples and options.
      encoding: the encoding of its examples, as the options record it.
      record_format: the format of its file.
      reading: how far it reads ahead.
      new: whether no file of its name exists yet, as `files.open_output` has it; else it is replaced.
      accept: called before the shard appears; may raise, and then it does not.
    """
    with (
        files.open_output(files.join(folder, inputs.spec.file_name), new=new) as sink,
        encoding.maker(inputs.class_ids, inputs.refs, reading) as maker,
    ):
        output = record_format.writer(sink, encoding.features(turned=True))
        content = write_shard(inputs.spec, reported(inputs.refs), maker, output)
        receipt = Receipt(
            inputs,
            content.info,
            content.dead_letters,
            record_sizes=content.record_sizes if record_format.indexable else (),
            digests=content.digests,
        )
        accept(receipt)
    return receipt


def reported(refs: Iterable[SampleRef]) -> Iterator[SampleRef]:
    """Passes references through and reports each when the next is asked for."""
    reporter = Reporter()
    for ref in refs:
        yield ref
        reporter.add(ref.size)
    reporter.flush()
