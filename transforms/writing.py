"""Writes shards: each from its references, or from encoded records by Beam's own sink.

The second is for few shards, expensive checks and many workers (`--shuffle=records`): examples are encoded
by as many workers as there are, shuffled as records, and written by `beam.io.WriteToTFRecord`. Every image
byte crosses the shuffle, so it is slower and needs more memory, but its parallelism is not limited by the
number of shards. The sink decides the order, so shards differ from run to run; the set of examples does not.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import apache_beam as beam
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.pvalue import AsSingleton
from apache_beam.transforms.window import TimestampedValue

from beam_pipeline.core.dataset.duplicates import (
    LabelHashes,
    WrittenImage,
    packed_images,
    range_count,
)
from beam_pipeline.core.dataset.plan import Plan
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.errors import ConversionError, LostSamplesError, OutputError
from beam_pipeline.core.failures import Refusal
from beam_pipeline.core.packed_batches import DeadLetterBatch, SampleBatch
from beam_pipeline.core.records.shard_reader import read_shard
from beam_pipeline.core.records.shard_writer import Rejected, image_figures, sort_by_key_hash
from beam_pipeline.core.records.sharding import (
    KeyHasher,
    ShardInfo,
    ShardPlan,
    shard_of,
)
from beam_pipeline.core.records.tfrecord import TFRecordFormat
from beam_pipeline.storage import files
from beam_pipeline.storage.read_ahead import ONE_BY_ONE, ReadOptions
from beam_pipeline.transforms.in_workers import InWorkers, Step
from beam_pipeline.work.incomplete_folder import note_refusal
from beam_pipeline.work.outcome import (
    BYTES_DONE,
    CHANGES,
    COMPARED,
    DEAD_LETTERS,
    EXAMPLES_WRITTEN,
    REFUSALS,
    SAMPLES_DONE,
    Outcome,
)
from beam_pipeline.work.spill import unspill_all
from beam_pipeline.work.writer_process import FEW_BYTES, FEW_SAMPLES, are_running
from beam_pipeline.work.writing import EncodingOptions, ShardTask, WriteRequest, reported


def _shard_task(
    shard: tuple[int, Iterable[bytes]], plan: Plan, request: WriteRequest
) -> Iterator[Step]:
    number, batches = shard
    request = replace(request, encoding=request.encoding.with_features(plan.features))
    task = ShardTask(
        request=request,
        spec=plan.shard_plan.spec(number),
        batches=unspill_all(batches),
        class_ids=plan.class_ids,
        record_format=plan.shard_plan.record_format,
        ranges=range_count(plan.tally.samples.total()),
    )
    if are_running() or not _takes_little(plan.tally, request):
        yield task
        return
    try:
        outcome = task.run()
    except (ConversionError, OSError) as error:
        outcome = _not_written(error, request)
    yield outcome


def _takes_little(tally: Tally, request: WriteRequest) -> bool:
    """True if all shards are written here sooner than a process starts: few images, and none is decoded."""
    options = request.encoding.options
    decodes = options.changes.encodes or options.image_check == "full"
    few = tally.samples.total() <= FEW_SAMPLES and tally.sample_bytes.total() <= FEW_BYTES
    return few and not decodes


def _not_written(error: Exception, request: WriteRequest) -> Outcome:
    """The outcome of a shard that could not be written, where no engine tries again."""
    reason = error
    if not isinstance(reason, ConversionError):
        reason = OutputError(f"a shard in {request.folder} cannot be written: {error}")
    refusal = Refusal.from_error(reason, error)
    if not request.failures.retries:
        return Outcome(tagged=[(REFUSALS, refusal)])
    with contextlib.suppress(OSError, ConversionError):
        # If a retry succeeds, the note is removed with the rest of `.incomplete`.
        note_refusal(request.folder, refusal, request.failures.job)
    raise error


@dataclass(kw_only=True)
class WriteShards(beam.PTransform):
    """Reads, checks and encodes the images of each shard and writes it; a shard is one work item.

    Attributes:
      plan: PCollection of the one `Plan`.
      request: how they are written.
      raises: raise why a shard is not written; False where `FinishDataset` reports the refusals.

    Returns (tagged): main, a `ShardInfo` for each shard; "dead_letters"; "refusals", the reasons why
      shards were not written; "changes", a `ShardFate` for each shard if there is an earlier data
      set; "compared", the images as `FindDuplicates` takes them.
    """

    plan: beam.PCollection[Plan]
    request: WriteRequest
    raises: bool = True

    def expand(
        self, shards: beam.PCollection[tuple[int, Iterable[bytes]]]
    ) -> beam.pvalue.DoOutputsTuple:
        writing = InWorkers(
            partial(_shard_task, request=self.request),
            raises=self.raises,
            failed=partial(_not_written, request=self.request),
        )
        return shards | "WriteShard" >> beam.ParDo(writing, AsSingleton(self.plan)).with_outputs(
            DEAD_LETTERS, REFUSALS, CHANGES, COMPARED, main="shards"
        )


IMAGES = "images"  # an output's tag

_GROUPS_PER_SHARD = 8
_COMPRESSION_TYPES = {"none": CompressionTypes.UNCOMPRESSED, "gzip": CompressionTypes.GZIP}


def group_samples(samples: SampleBatch, plan: Plan, seed: int) -> Iterator[tuple[str, SampleBatch]]:
    """Splits a batch into groups by hash, finer than shards; yields nothing if the plan refuses."""
    if plan.refusal:
        return
    hasher = KeyHasher(seed)
    groups = {split: count * _GROUPS_PER_SHARD for split, count in plan.shard_plan.shards}
    parts: dict[str, SampleBatch] = defaultdict(SampleBatch)
    for sample in samples:
        group = shard_of(hasher.order(sample.key), groups[sample.split])
        parts[f"{sample.split}/{group}"].append(sample)
    yield from parts.items()


@dataclass(frozen=True)
class _EncodingGroup:
    """Encodes the samples of a group in the order of their hashes."""

    encoding: EncodingOptions
    reading: ReadOptions

    def __call__(self, group: tuple[str, Iterable[SampleBatch]], plan: Plan) -> Iterator[Outcome]:
        refs = sort_by_key_hash(
            itertools.chain.from_iterable(group[1]), KeyHasher(self.encoding.seed)
        )
        dead_letters = DeadLetterBatch()
        images: list[WrittenImage] = []
        hashes = LabelHashes(self.encoding.examples.file_columns)
        events: Counter[str] = Counter()
        with self.encoding.maker(plan.class_ids, refs, self.reading) as maker:
            for ref in reported(refs):
                try:
                    sample = maker.make(ref)
                except Rejected as rejected:
                    dead_letters.append(rejected.letter)
                    continue
                labels = hashes[ref.labels]
                images.append(WrittenImage(sample.digest, labels, ref.split, ref.key))
                events.update(sample.events)
                dead_letters.extend(sample.dead_letters)
                yield Outcome(tagged=[(_tag(ref.split), sample.record)])
        figures = image_figures(events, maker)._replace(statistics=maker.statistics())
        ranges = range_count(plan.tally.samples.total())
        compared = packed_images(images, ranges) if self.encoding.examples.resumable else ()
        yield Outcome(
            dead_letters=dead_letters,
            tagged=[(IMAGES, figures), *((COMPARED, part) for part in compared)],
            counters={
                SAMPLES_DONE: len(refs),
                BYTES_DONE: sum(ref.size for ref in refs),
                EXAMPLES_WRITTEN: len(images),
                DEAD_LETTERS: len(dead_letters),
            },
        )


def _tag(split: str) -> str:
    return f"examples_{split}"


def _back_in_time(uri: str) -> TimestampedValue:
    """The sink gives its files the last possible timestamp, which makes Prism lose flattened elements."""
    return TimestampedValue(uri, 0)


def measure_shard(uri: str, folder: str, shard_plan: ShardPlan, class_key: str) -> ShardInfo:
    """Reads a shard that the sink has written, for the figures of the manifest.

    Args:
      uri: the shard.
      folder: its folder.
      shard_plan: the shards that were planned.
      class_key: the feature that contains class ids.

    Raises:
      LostSamplesError: the sink wrote a file that was not planned.
    """
    spec = shard_plan.find(uri.rpartition("/")[2])
    if spec is None or uri != files.join(folder, spec.file_name):
        raise LostSamplesError(f"the sink wrote {uri}, which is none of the planned shards")
    with files.open_input(uri) as file:
        info = deque(
            read_shard(
                file=file,
                path=uri,
                spec=spec,
                record_format=shard_plan.record_format,
                class_key=class_key,
            ),
            1,
        ).pop()
    assert isinstance(info, ShardInfo)
    return info


@dataclass(kw_only=True)
class WriteRecords(beam.PTransform):
    """Encodes samples in parallel and writes them with `beam.io.WriteToTFRecord`.

    Attributes:
      plan: PCollection of the one `Plan`.
      shard_plan: its shards, whose numbers the stock sink needs before the job starts.
      output_folder: where the shards go.
      encoding: the encoding of the examples.
      reading: how far each worker reads ahead.

    Returns: {"shards": a `ShardInfo` for each shard, "dead_letters": `DeadLetterBatch`es,
      "refusals": none, "images": `ImageFigures`, "compared": the images as `FindDuplicates` takes
      them}.
    """

    plan: beam.PCollection[Plan]
    shard_plan: ShardPlan
    output_folder: str
    encoding: EncodingOptions
    reading: ReadOptions = ONE_BY_ONE

    def expand(self, samples: beam.PCollection[SampleBatch]) -> dict[str, beam.PCollection]:
        splits = [split for split, _ in self.shard_plan.shards]
        encoded = (
            samples
            | "Group"
            >> beam.FlatMap(
                group_samples, AsSingleton(self.plan), self.encoding.seed
            ).with_output_types(tuple[str, SampleBatch])
            | "GroupByHash" >> beam.GroupByKey()
            | "EncodeGroup"
            >> beam.ParDo(
                InWorkers(_EncodingGroup(self.encoding, self.reading)), AsSingleton(self.plan)
            )
            .with_output_types(bytes)
            .with_outputs(DEAD_LETTERS, IMAGES, COMPARED, *map(_tag, splits))
        )
        written = [
            encoded[_tag(split)]
            | f"Write {split}" >> self._sink(split, count)
            | f"BackInTime {split}" >> beam.Map(_back_in_time).with_output_types(str)
            for split, count in self.shard_plan.shards
        ]
        shards = (
            written
            | beam.Flatten()
            | "MeasureShard"
            >> beam.Map(
                measure_shard,
                self.output_folder,
                self.shard_plan,
                self.encoding.class_key,
            ).with_output_types(ShardInfo)
        )
        return {
            "shards": shards,
            DEAD_LETTERS: encoded[DEAD_LETTERS],
            IMAGES: encoded[IMAGES],
            COMPARED: encoded[COMPARED],
            REFUSALS: samples.pipeline | "NoRefusals" >> beam.Create([], reshuffle=False),
        }

    def _sink(self, split: str, num_shards: int) -> beam.PTransform:
        written = self.shard_plan.record_format
        assert isinstance(written, TFRecordFormat), f"Beam lacks a sink for {written}"
        return beam.io.WriteToTFRecord(
            file_path_prefix=files.join(
                self.output_folder, written.shard_prefix(self.shard_plan.name, split)
            ),
            file_name_suffix=written.suffix,
            num_shards=num_shards,
            shard_name_template="-SSSSS-of-NNNNN",
            compression_type=_COMPRESSION_TYPES[written.compression],
        )
