"""Writes shards: each from its references, or from encoded records by Beam's own sink.

The second is for few shards, expensive checks and many workers (`--shuffle=records`): examples are encoded
by as many workers as there are, shuffled as records, and written by `beam.io.WriteToTFRecord`. Every image
byte crosses the shuffle, so it is slower and needs more memory, but its parallelism is not limited by the
number of shards. The sink decides the order, so shards differ from run to run; the set of examples does not.
"""

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.pvalue import AsSingleton, TaggedOutput
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
from beam_pipeline.transforms import counters
from beam_pipeline.transforms.batches import DeadLetterBatch, SampleBatch
from beam_pipeline.transforms.in_workers import InWorkers, JobDoFn
from beam_pipeline.work.encoding import EncodingOptions
from beam_pipeline.work.incomplete_folder import note_refusal
from beam_pipeline.work.outcome import CHANGES, COMPARED, DEAD_LETTERS, REFUSALS, Outcome
from beam_pipeline.work.shard_task import ShardTask, WriteRequest, Written, reported
from beam_pipeline.work.spill import unspill_all
from beam_pipeline.work.writer_process import FEW_BYTES, FEW_SAMPLES, are_running


class _WriteShard(InWorkers):
    """Writes shards in writer processes, several at a time, or here where there are none."""

    repeat = False  # what killed the process might kill this one

    def __init__(self, request: WriteRequest, *, raises: bool) -> None:
        super().__init__(self._tasks_of, raises=raises)
        self._request = request
        self._plan: Plan | None = None
        self._class_ids: dict[str, int] = {}
        self._ranges = 1

    def _tasks_of(self, shard: tuple[int, Iterable[bytes]], plan: Plan) -> Iterator[Any]:
        number, batches = shard
        if plan is not self._plan:
            self._plan, self._class_ids = plan, plan.class_ids
            self._ranges = range_count(plan.tally.samples.total())
        task = ShardTask(
            request=self._request,
            spec=plan.shard_plan.spec(number),
            batches=unspill_all(batches),
            class_ids=self._class_ids,
            record_format=plan.shard_plan.record_format,
            ranges=self._ranges,
        )
        starts_none = self._takes_little(plan.tally) and not are_running()
        yield self.outcome(task.run) if starts_none else task

    def _takes_little(self, tally: Tally) -> bool:
        """True if all shards are written here sooner than a process starts: few images, and none is decoded."""
        options = self._request.encoding.options
        decodes = options.changes.encodes or options.image_check == "full"
        few = tally.samples.total() <= FEW_SAMPLES and tally.sample_bytes.total() <= FEW_BYTES
        return few and not decodes

    def outcome(self, result: Callable[[], Any]) -> Outcome:
        """The outcome of a shard; a refusal where it could not be written and no engine tries again."""
        try:
            written: Written = result()
        except (ConversionError, OSError) as error:
            refusal = self._refusal_for(error)
            if self._request.failures.retries:
                with contextlib.suppress(OSError, ConversionError):
                    # If a retry succeeds, the note is removed with the rest of `.incomplete`.
                    note_refusal(self._request.folder, refusal, self._request.failures.job)
                raise
            written = Written(None, [], refusal)
        if self._raises and written.refusal:
            raise written.refusal.to_error()
        return _outcome(written)

    def _refusal_for(self, error: ConversionError | OSError) -> Refusal:
        if isinstance(error, OSError):
            error = OutputError(f"a shard in {self._request.folder} cannot be written: {error}")
        return Refusal.from_error(error)


def _outcome(written: Written) -> Outcome:
    tagged: list[tuple[str, Any]] = [(COMPARED, images) for images in written.images]
    if written.refusal:
        tagged.append((REFUSALS, written.refusal))
    if written.changes:
        tagged.append((CHANGES, written.changes))
    info = written.info
    if info is None:
        return Outcome(tagged=tagged)
    letters = DeadLetterBatch(written.dead_letters)
    counted = {
        counters.SHARDS_WRITTEN: 1,
        counters.EXAMPLES_WRITTEN: info.examples,
        counters.DEAD_LETTERS: len(letters),
        counters.SAMPLES_DONE: info.examples + len(letters),
        counters.BYTES_DONE: written.image_bytes,
    }
    return Outcome([info], dead_letters=letters, tagged=tagged, counters=counted)


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
        return shards | "WriteShard" >> beam.ParDo(
            _WriteShard(self.request, raises=self.raises),
            AsSingleton(self.plan),
        ).with_outputs(DEAD_LETTERS, REFUSALS, CHANGES, COMPARED, main="shards")


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


class _EncodeGroup(JobDoFn):
    """Encodes the samples of a group in the order of their hashes."""

    def __init__(self, encoding: EncodingOptions, reading: ReadOptions) -> None:
        super().__init__()
        self._encoding = encoding
        self._reading = reading

    def process(
        self, group: tuple[str, Iterable[SampleBatch]], plan: Plan
    ) -> Iterator[TaggedOutput]:
        refs = sort_by_key_hash(
            (ref for batch in group[1] for ref in batch), KeyHasher(self._encoding.seed)
        )
        dead_letters = DeadLetterBatch()
        images: list[WrittenImage] = []
        hashes = LabelHashes(self._encoding.examples.file_columns)
        events: Counter[str] = Counter()
        with self._encoding.maker(plan.class_ids, refs, self._reading) as maker:
            for ref in reported(refs):
                try:
                    sample = maker.make(ref)
                except Rejected as rejected:
                    dead_letters.append(rejected.letter)
                    continue
                labels = hashes[ref.labels]
                images.append(WrittenImage(sample.digest, labels, ref.split, ref.key))
                events.update(sample.events)
                yield TaggedOutput(_tag(ref.split), sample.record)
        counters.count(counters.SAMPLES_DONE, len(refs))
        counters.count(counters.BYTES_DONE, sum(ref.size for ref in refs))
        counters.count(counters.EXAMPLES_WRITTEN, len(refs) - len(dead_letters))
        counters.count(counters.DEAD_LETTERS, len(dead_letters))
        if dead_letters:
            yield TaggedOutput(DEAD_LETTERS, dead_letters)
        figures = image_figures(events, maker)._replace(statistics=maker.statistics())
        yield TaggedOutput(IMAGES, figures)
        if self._encoding.examples.resumable:
            for part in packed_images(images, range_count(plan.tally.samples.total())):
                yield TaggedOutput(COMPARED, part)


def _tag(split: str) -> str:
    return f"examples_{split}"


def _back_in_time(uri: str) -> TimestampedValue:
    """The sink gives its files the last possible timestamp, with which Prism loses flattened elements."""
    return TimestampedValue(uri, 0)


def measure_shard(uri: str, folder: str, shard_plan: ShardPlan, class_key: str) -> ShardInfo:
    """Reads a shard that the sink has written, for the figures of the manifest.

    Args:
      uri: the shard.
      folder: where it lies.
      shard_plan: the shards that were planned.
      class_key: the feature that holds class ids.

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
            >> beam.ParDo(_EncodeGroup(self.encoding, self.reading), AsSingleton(self.plan))
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
        assert isinstance(written, TFRecordFormat), f"Beam has no sink for {written}"
        return beam.io.WriteToTFRecord(
            file_path_prefix=files.join(
                self.output_folder, written.shard_prefix(self.shard_plan.name, split)
            ),
            file_name_suffix=written.suffix,
            num_shards=num_shards,
            shard_name_template="-SSSSS-of-NNNNN",
            compression_type=_COMPRESSION_TYPES[written.compression],
        )
