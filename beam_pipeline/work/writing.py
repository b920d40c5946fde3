"""The encoding of examples and the writing of a shard, as values that can be handed to any worker.

Nothing here imports Beam, so that a process that does nothing else starts in a tenth of a second.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from beam_pipeline.core import errors
from beam_pipeline.core.dataset.changes import input_differences
from beam_pipeline.core.dataset.duplicates import LabelHashes, packed_images, written_images
from beam_pipeline.core.dataset.names import MANIFEST_NAME
from beam_pipeline.core.dataset.receipts import Receipt, ShardInputs
from beam_pipeline.core.dataset.splits import IMAGE
from beam_pipeline.core.dead_letters import Reason
from beam_pipeline.core.images import geometry, preparation
from beam_pipeline.core.labels import boxes, schema
from beam_pipeline.core.packing import DeadLetterBatch, unpack
from beam_pipeline.core.records import example_source, sharding
from beam_pipeline.core.records.record_format import RecordFormat
from beam_pipeline.core.records.shard_writer import REPEATED, Maker, sort_by_key_hash, write_shard
from beam_pipeline.core.references import SampleRef, bytes_of, files_of
from beam_pipeline.storage import files, read_ahead
from beam_pipeline.work import job, outcome
from beam_pipeline.work.receipts import EarlierDataSet, EarlierShards, read_receipt, write_receipt

_REPORT_S = 0.1  # seconds between two reports
_IF_GIVEN = ("mask_colours", "source", "encoder", "fingerprint", "rows", "imageless")
"""Values that only some sources record."""


@dataclass(frozen=True)
class EncodingOptions:
    """Everything that determines the examples of a data set, given its samples.

    Attributes:
      examples: what the samples are.
      seed: of the hash that orders samples.
      options: the user's options.
      by_image: rows of an image are neighbours.
    """

    examples: example_source.ExampleSource
    seed: int = 0
    options: example_source.ExampleOptions = field(default_factory=example_source.ExampleOptions)
    by_image: bool = False

    @property
    def columns(self) -> tuple[schema.Column, ...]:
        """The columns of a sample's labels."""
        return self.examples.columns

    def with_features(self, learned: Mapping[str, Any] | None) -> EncodingOptions:
        """The same, with the features that the samples settled; None if they did not."""
        if learned is None or not isinstance(self.examples, example_source.PipelineRecords):
            return self
        return replace(self, examples=replace(self.examples, described=learned))

    @property
    def hasher(self) -> sharding.KeyHasher:
        """Orders samples in their shard."""
        return sharding.KeyHasher(self.seed, by_image=self.by_image)

    def features(self, *, turned: bool = False) -> Mapping[str, Any]:
        """Every feature of an example; `turned` tells whether images were written that are not upright."""
        return self.examples.features(self.options.renames, turned=turned)

    def class_names(self, refs: Iterable[SampleRef]) -> list[str]:
        """The classes that samples have, sorted, each once."""
        if (index := schema.class_column(self.columns)) is None:
            return []
        labels: set[Any] = {ref.labels[index] for ref in refs} - {None}
        lists = (label if isinstance(label, tuple) else (label,) for label in labels)
        return sorted(set[str]().union(*lists))

    def recorded(self) -> dict[str, Any]:
        """Everything, as JSON has it in receipts; `from_recorded` reads it."""
        options, examples = self.options, self.examples.recorded()
        changes = options.changes.recorded()
        # Receipts without "bad_boxes" are of versions that dropped images.
        drops_boxes = _has_boxes(self.columns) and options.bad_boxes == boxes.BAD_BOXES[0]
        return {
            "columns": examples["columns"],
            "image_check": options.image_check,
            "seed": self.seed,
            **({"group_by": IMAGE} if self.by_image else {}),
            "renames": dict(options.renames),
            "clip_boxes": options.clip_boxes,
            "pixels": examples["pixels"],
            "image_encoding": options.image_encoding,
            "features": examples["features"],
            **({"bad_boxes": boxes.BAD_BOXES[0]} if drops_boxes else {}),
            **({"filters": dict(options.filters)} if options.filters else {}),
            **{name: examples[name] for name in _IF_GIVEN if name in examples},
            **({"changes": changes} if changes else {}),
        }

    @classmethod
    def from_recorded(cls, values: Mapping[str, Any]) -> EncodingOptions:
        """The options that `recorded` returned."""
        names = ("image_check", "renames", "clip_boxes", "image_encoding", "filters")
        changes = geometry.ImageChanges.from_recorded(values.get("changes", {}))
        examples = example_source.recorded_source(values)
        usual = "drop_image" if _has_boxes(examples.columns) else boxes.BAD_BOXES[0]
        return cls(
            examples=examples,
            seed=values["seed"],
            by_image="group_by" in values,
            options=example_source.ExampleOptions(
                **{name: values[name] for name in names if name in values},
                bad_boxes=values.get("bad_boxes", usual),
                changes=changes,
            ),
        )

    def in_order(self, batches: Iterable[bytes]) -> Sequence[SampleRef]:
        """The samples of a shard, packed in any order, as they are written."""
        refs = (ref for batch in batches for ref in unpack(SampleRef, batch))
        return example_source.marked(self.examples, sort_by_key_hash(refs, self.hasher))

    @contextmanager
    def maker(
        self,
        class_ids: Mapping[str, int],
        refs: Sequence[SampleRef],
        reading: read_ahead.ReadOptions | None,
    ) -> Iterator[Maker]:
        """Turns references into examples while the block runs; reads ahead.

        Args:
          class_ids: class -> id, of all classes in the references at least.
          refs: the references that it will be asked for, in this order, those that it rejects unread included.
          reading: how far it reads ahead; None for what is usual where the images are.
        """
        reading = reading or read_ahead.usual_reading(ref.uri for ref in refs)
        requests: Iterable[read_ahead.Request] = self._requests(refs)
        shared = read_ahead.SharedReads(requests) if self.examples.rows else None
        with read_ahead.read_ahead(
            shared.reads if shared else requests, files.read_image, reading
        ) as ahead:
            read = partial(shared.read, ahead.read) if shared else ahead.read
            yield self.examples.maker(self.options, class_ids, read)

    def _requests(self, refs: Iterable[SampleRef]) -> Iterator[read_ahead.Request]:
        """The reads of samples, in order: each image, then its files; none of those that are rejected unread."""
        columns, largest = self.examples.file_columns, self.examples.max_bytes
        filters = self.options.filters
        for ref in refs:
            if ref.origin == REPEATED or (filters and preparation.outside_bytes(ref.size, filters)):
                continue
            if (bytes_of(ref, columns) if columns else ref.size) > largest:
                continue
            if ref.uri:
                yield read_ahead.Request(ref.uri, ref.size, ref.offset)
            for _, uri, size in files_of(ref, columns) if columns else ():
                yield read_ahead.Request(uri, size, -1)


def _has_boxes(columns: Sequence[schema.Column]) -> bool:
    return any(column.kind is schema.ColumnKind.BOX for column in columns)


@dataclass(frozen=True)
class WriteRequest:
    """How the shards of a run are written.

    Attributes:
      folder: the output folder.
      encoding: the encoding of the examples.
      resume: keep shards of an earlier run that were made from the same samples.
      reading: how far each writer reads ahead; None for what is usual where the images are.
      failures: how a shard that cannot be written is reported, and whether the engine may run this again,
        so that a shard of this run is kept.
      earlier: the data set that shards of the same samples are taken from.
    """

    folder: str
    encoding: EncodingOptions
    resume: bool = False
    reading: read_ahead.ReadOptions | None = read_ahead.ONE_BY_ONE
    failures: errors.FailurePolicy = errors.DEFAULT_POLICY
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
      ranges: the number of ranges of digests for comparing images.
    """

    request: WriteRequest
    spec: sharding.ShardSpec
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

    def run(self) -> outcome.Outcome:
        """Writes the shard and then its receipt.

        A shard that is finished is not written: one in the output folder, of an earlier run, is kept,
        and one of the earlier data set is taken.
        """
        began, request, name = time.monotonic(), self.request, self.spec.file_name
        inputs = shard_inputs(self.spec, self.batches, self.class_ids, request.encoding)
        refs, examples = inputs.refs, request.encoding.examples
        if isinstance(examples, example_source.PipelineRecords):
            inputs = replace(inputs, refs=examples.lasting(refs))
        try:
            keeps = request.resume or request.failures.retries
            own = read_receipt(request.folder, name) if keeps else None
            if own and (changed := input_differences(own.inputs, inputs)):
                raise self._changed(changed)
            earlier = request.earlier.look_up(inputs) if request.earlier else None
            if own and self._is_kept(own):
                _report(refs)
                return self._written(own, earlier)
            if own:
                preparation.check_codec(own.info.codec)
        except errors.ConversionError as error:
            if isinstance(error, errors.CodecError):
                error = errors.CodecError(f"--resume: in {self.uri}, {error}")
            return outcome.Outcome(tagged=[(outcome.REFUSALS, errors.Refusal.from_error(error))])
        new = own is None or not files.exists(self.uri)
        if receipt := earlier.take(request.folder, new=new) if earlier else None:
            _report(refs)
        else:
            receipt = write_inputs(request, inputs, self.record_format, new=new, refs=refs)
        if examples.resumable:
            write_receipt(request.folder, receipt, new=own is None)
        took_ms = round(1000 * (time.monotonic() - began))
        measured = {outcome.SHARD_MS: [took_ms], outcome.SHARD_BYTES: [receipt.info.bytes]}
        return replace(self._written(receipt, earlier), measured=measured)

    def _is_kept(self, own: Receipt) -> bool:
        """Tells whether the existing shard is sound, and would not become better.

        It would where images could not be read, and perhaps can be now. With an engine that may run
        this twice at once, both have to come to the same, so there the shard stays.
        """
        if self.request.resume and not self.request.failures.retries:
            unread = any(letter.reason == Reason.UNREADABLE for letter in own.dead_letters)
            if unread and not files.exists(files.join(self.request.folder, MANIFEST_NAME)):
                return False
        return files.holds(self.uri, own.info.bytes, own.info.crc32c)

    def _written(self, receipt: Receipt, earlier: EarlierShards | None) -> outcome.Outcome:
        """The figures of a shard, its dead letters, its images and the changes since the earlier data set."""
        info, letters = receipt.info, DeadLetterBatch(receipt.dead_letters)
        examples = self.request.encoding.examples
        hashes = LabelHashes(examples.file_columns, rows=examples.rows)
        images = written_images(receipt, hashes) if examples.resumable else []
        compared = [(outcome.COMPARED, part) for part in packed_images(images, self.ranges)]
        changes = [(outcome.CHANGES, earlier.fate(receipt))] if earlier else []
        counted = {
            outcome.SHARDS_WRITTEN: 1,
            outcome.EXAMPLES_WRITTEN: info.examples,
            outcome.DEAD_LETTERS: len(letters),
        }
        return outcome.Outcome(
            [info], dead_letters=letters, tagged=[*compared, *changes], counters=counted
        )

    def _changed(self, changed: str) -> errors.ConversionError:
        """Tells why the existing shard is not the one that would be written."""
        if self.request.resume:
            return errors.ChangedInputsError(
                f"--resume: since {self.uri} was written, its samples or options have changed: "
                f"{changed}. Restore them, or convert again with --overwrite"
            )
        return errors.AnotherJobError(
            f"another job is writing to this folder: {self.uri} is there already, of other samples: "
            f"{changed}. Nothing of it was changed; wait for the other job or choose another --output"
        )


def shard_inputs(
    spec: sharding.ShardSpec,
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
    refs = encoding.in_order(batches)
    return ShardInputs(
        spec=spec,
        refs=refs,
        class_ids={name: class_ids[name] for name in encoding.class_names(refs)},
        options=encoding.recorded(),
    )


def write_inputs(
    request: WriteRequest,
    inputs: ShardInputs,
    record_format: RecordFormat,
    *,
    new: bool,
    accept: Callable[[Receipt], None] = lambda _: None,
    refs: Sequence[SampleRef] = (),
) -> Receipt:
    """Writes a shard.

    Args:
      request: where to, and how.
      inputs: its samples and options.
      record_format: the format of its file.
      new: whether no file of its name exists yet, as `files.open_output` has it; else it is replaced.
      accept: called before the shard appears; may raise, and then it does not.
      refs: the samples at their present place, if it differs from `inputs`.
    """
    encoding, refs = request.encoding, refs or inputs.refs
    with (
        files.open_output(files.join(request.folder, inputs.spec.file_name), new=new) as sink,
        encoding.maker(inputs.class_ids, refs, request.reading) as maker,
    ):
        output = record_format.writer(sink, encoding.features(turned=True))
        content = write_shard(inputs.spec, reported(refs), maker, output)
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
    """Passes references through; a few times a second, reports those after which the next was asked for."""
    done: list[SampleRef] = []
    due = time.monotonic() + _REPORT_S
    for ref in refs:
        yield ref
        done.append(ref)
        if time.monotonic() >= due:
            _report(done)
            done, due = [], time.monotonic() + _REPORT_S
    _report(done)


def _report(refs: Sequence[SampleRef]) -> None:
    size = sum(ref.size for ref in refs)
    job.report_progress(job.Counts(samples=len(refs), image_bytes=size))
