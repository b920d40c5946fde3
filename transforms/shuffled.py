"""Writes the records of any pipeline as shuffled shards, which are the same on every engine.

    records -> read: key, split, features -+-> small: the reference carries the record
                                           `-> larger: a file of the job, and a reference to it
    references -> shards -> each sorted by the hashes of its keys and written -> manifest

With `exact_sizes`, references are first grouped by ranges of hashes, whose counts give each its place.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsDict, AsSingleton, TaggedOutput
from apache_beam.transforms.window import GlobalWindows

from beam_pipeline.core.dataset.names import dataset_name
from beam_pipeline.core.dataset.plan import Plan, PlanRequest
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.dead_letters import DeadLetter, Reason, Stage
from beam_pipeline.core.errors import FailurePolicy, SampleError, UsageError
from beam_pipeline.core.packing import BATCH_SIZE, DeadLetterBatch, SampleBatch, pack, unpack
from beam_pipeline.core.records.example_source import PipelineRecords, marked
from beam_pipeline.core.records.feature_values import FeatureSchema
from beam_pipeline.core.records.formats import format_options, record_format
from beam_pipeline.core.records.shard_writer import sort_by_key_hash
from beam_pipeline.core.records.sharding import (
    DEFAULT_SHARD_BYTES,
    KeyHasher,
    ShardConfig,
    ShardDivision,
)
from beam_pipeline.core.references import DEFAULT_SPLIT, SampleRef
from beam_pipeline.core.uris import is_remote
from beam_pipeline.storage import files
from beam_pipeline.storage.read_ahead import ONE_BY_ONE, REMOTE_READS, ReadOptions
from beam_pipeline.transforms.data_set import WriteDataset
from beam_pipeline.transforms.in_workers import Divide
from beam_pipeline.transforms.output import PrepareFolder, WriteResult
from beam_pipeline.transforms.planning import GroupByShard, PlanShards
from beam_pipeline.work.finishing import DatasetFinisher
from beam_pipeline.work.incomplete_folder import unpacking_folder
from beam_pipeline.work.outcome import DEAD_LETTERS, TALLY
from beam_pipeline.work.records import (
    RecordPlanning,
    RecordReader,
    class_numbering,
    feature_entries,
    fractions_of,
)
from beam_pipeline.work.spill import unspill_all
from beam_pipeline.work.writing import EncodingOptions, WriteRequest

IF_EXISTS = ("fail", "resume", "overwrite")
ON_ERROR = ("raise", "collect")

_MOST_CARRIED = 16 << 10  # bytes of a record that its reference carries
_BATCH_BYTES = 4 << 20  # of carried records
_FILE_BYTES = 64 << 20  # of records in a file of the job
_RANGE_SAMPLES, _RANGE_BYTES = 50_000, 128 << 20  # of a range of hashes, which one worker sorts

_WORDS = {
    "--output ": "",
    "--resume": 'if_exists="resume"',
    "--overwrite": 'if_exists="overwrite"',
    "raise --max_bad_fraction": 'give on_error="collect"',
    "--shard_size": "shard_size",
    "--num_shards": "num_shards",
}
"""Options of the command, in messages -> arguments here."""


def in_arguments(message: str) -> str:
    """A message that names options of the command, in arguments of this module."""
    for option, argument in _WORDS.items():
        message = message.replace(option, argument)
    return message


def _of_records(message: str) -> str:
    return in_arguments(message).replace("listed image", "record")


def check_choice(argument: str, value: str, choices: Sequence[str]) -> None:
    """Raises UsageError if the value of an argument is not one of its choices."""
    if value not in choices:
        raise UsageError(f"{argument} is {value!r}, expected one of {', '.join(choices)}")


_FAILURES = FailurePolicy(reword=_of_records)


class WriteToShuffledTFRecord(beam.PTransform):
    """Writes records as globally shuffled shards with a manifest: the same bytes on every engine.

    A record's shard and position depend on (seed, key) alone, so a retried or repeated bundle, another
    engine or another number of workers change nothing. Shards appear whole, the manifest last. Windows
    end here: all records of a bounded PCollection are one data set.
    """

    def __init__(
        self,
        path: str,
        *,
        key: str | Callable[[Any], Any] | None = None,
        split: str | Callable[[Any], Any] = DEFAULT_SPLIT,
        splits: Mapping[str, float] | None = None,
        num_shards: int | Mapping[str, int] | None = None,
        shard_size: int = DEFAULT_SHARD_BYTES,
        exact_sizes: bool = False,
        seed: int = 0,
        features: Mapping[str, Any] | None = None,
        class_names: Sequence[str] = (),
        compression: str = "none",
        format: str = "tfrecord",  # noqa: A002 - the name of the command's option
        name: str = "",
        if_exists: str = "fail",
        on_error: str = "raise",
    ) -> None:
        """Takes dicts, NamedTuples, rows of Beam, and examples, serialized or not.

        Args:
          path: folder for the data set, local or in a bucket; made if missing. All workers must see it.
          key: what identifies a record, no two records the same: the feature that contains a text or an
            integer, or a function of the record. By default a hash of the record, and then equal
            records are all written.
          split: the split of all records, or a function that returns a record's.
          splits: split -> share, to split by a hash of the key instead.
          num_shards: shards per split; by default as many as `shard_size` asks for.
          shard_size: target shard size in bytes of records.
          exact_sizes: shards of a split differ by one record at most. References are shuffled twice.
          seed: shuffle seed.
          features: key -> "bytes", "float" or "int64", or an entry as in the manifest ({"kind": "float",
            "shape": [3], "optional": False}), of every feature that a record may have; others are errors.
            `{}` writes any bytes as they are. By default they are learned from all records.
          class_names: names of the classes 0, 1, 2, ... that `image/class/label` contains.
          compression: "none" or "gzip".
          format: "tfrecord", "array_record" or "webdataset".
          name: prefix of file names; by default the folder's name.
          if_exists: where the folder contains files: "fail"; "resume", which keeps the shards of a run with
            the same records and arguments; "overwrite", which replaces an earlier run's data set.
          on_error: "raise" fails the pipeline if a record cannot be written; "collect" leaves it out.

        Returns (of `expand`): a `WriteResult`.

        Raises:
          UsageError: an argument cannot be used.
          ValueError: in `expand`: the PCollection is unbounded.
        """
        super().__init__()
        check_choice("if_exists", if_exists, IF_EXISTS)
        check_choice("on_error", on_error, ON_ERROR)
        self._folder = files.canonical(path)
        self._name = name or dataset_name(self._folder)
        self._if_exists = if_exists
        self._most_bad = 1.0 if on_error == "collect" else 0.0
        self._format = record_format(compression, format)
        self._shards = ShardConfig(num_shards, shard_size)
        self._exact = exact_sizes
        self._numbering = class_numbering(class_names)
        self._reader = RecordReader(
            key=key,
            split=split,
            fractions=fractions_of(splits),
            seed=seed,
            class_names=class_names,
            features=None if features is None else feature_entries(features),
        )
        examples = PipelineRecords(keyed=key is not None)
        self._encoding = EncodingOptions(examples, seed=seed)

    def expand(self, records: beam.PCollection) -> WriteResult:
        if not records.is_bounded:
            raise ValueError(
                f"{self.label}: an unbounded PCollection never ends, so it cannot be shuffled"
            )
        folder = self._folder
        prepared = records.pipeline | "PrepareFolder" >> PrepareFolder(
            folder=folder,
            run=self._run,
            resume=self._if_exists == "resume",
            overwrite=self._if_exists == "overwrite",
            failures=_FAILURES,
        )
        read = (
            records
            | "OneWindow" >> beam.WindowInto(GlobalWindows())
            | "Read"
            >> beam.ParDo(_ReadRecords(self._reader, folder), AsSingleton(prepared))
            .with_output_types(SampleBatch)
            .with_outputs(TALLY, DEAD_LETTERS, main="samples")
        )
        plan = (
            (read[TALLY], prepared | "NoRecords" >> beam.Map(_empty).with_output_types(Tally))
            | "AllTallies" >> beam.Flatten()
            | "PlanShards" >> PlanShards(self._planning)
        )
        exact = _AssignEqualShards(plan=plan, encoding=self._encoding) if self._exact else None
        written = read["samples"] | "WriteDataset" >> WriteDataset(
            plan=plan,
            dead_letters=[read[DEAD_LETTERS]],
            request=self._request,
            finisher=DatasetFinisher(
                output_folder=folder,
                encoding=self._encoding,
                max_bad_fraction=self._most_bad,
                recorded_options=self._run["options"],
                failures=_FAILURES,
            ),
            assign=exact,
            compares=False,
        )
        return WriteResult.of(folder, *written)

    @property
    def _planning(self) -> RecordPlanning:
        fractions = self._reader.fractions
        return RecordPlanning(
            request=PlanRequest(
                name=self._name,
                shards=self._shards,
                splits=[name for name, _ in fractions.fractions] if fractions else (),
                record_format=self._format,
                max_bad_fraction=self._most_bad,
                numbering=self._numbering,
            ),
            output_folder=self._folder,
            run=self._run,
            resume=self._if_exists == "resume",
            failures=_FAILURES,
            raises=False,
        )

    @property
    def _request(self) -> WriteRequest:
        return WriteRequest(
            folder=self._folder,
            encoding=self._encoding,
            resume=self._if_exists == "resume",
            reading=ReadOptions(REMOTE_READS) if is_remote(self._folder) else ONE_BY_ONE,
            failures=_FAILURES,
        )

    @property
    def _run(self) -> dict[str, Any]:
        """The manifest's values that a run must share with an earlier one to keep its shards."""
        fractions, num_shards = self._reader.fractions, self._shards.num_shards
        return {
            "name": self._name,
            "seed": self._encoding.seed,
            "options": {
                "splits": {name: float(share) for name, share in fractions.fractions}
                if fractions
                else None,
                "num_shards": dict(num_shards) if isinstance(num_shards, Mapping) else num_shards,
                "shard_size": self._shards.shard_bytes,
                "layout": "pipeline",
                "columns": [{"name": "class", "kind": "class", "feature": "image/class"}],
                **({"exact_sizes": True} if self._exact else {}),
                **format_options(self._format),
            },
            "features": self._reader.features,
        }


def _empty(_: str) -> Tally:
    return Tally(features=FeatureSchema())


class _ReadRecords(beam.DoFn):
    """Makes references of records: small ones carry the record, others point into a file."""

    def __init__(self, reader: RecordReader, folder: str) -> None:
        self._reader = reader
        self._spool = unpacking_folder(folder)

    def start_bundle(self) -> None:
        self._refs: list[SampleRef] = []
        self._carried = 0
        self._chunks: list[bytes] = []
        self._begin()

    def _begin(self) -> None:
        """Begins a file, which has a separate name, because a bundle may run twice at once."""
        self._uri = files.join(self._spool, f"{os.urandom(16).hex()}.records")
        self._chunks, self._written = [], 0
        self._tally = Tally(features=FeatureSchema())
        self._dead = DeadLetterBatch()

    def process(self, element: Any, _: str) -> Iterator[Any]:
        try:
            record = self._reader.read(element)
        except SampleError as error:
            stage, reason = Stage.LABELS.value, Reason.BAD_LABEL_VALUE.value
            self._dead.append(DeadLetter(stage, "", "", reason, str(error)))
            return
        size = len(record.data)
        carried: Any = record.data if size <= _MOST_CARRIED else None
        self._refs.append(
            SampleRef(
                key=record.key,
                uri=self._uri if carried is None else "",
                size=size,
                split=record.split,
                labels=(record.classes, carried),
                offset=self._written if carried is None else -1,
                version=record.version,
            )
        )
        if carried is None:
            self._chunks.append(record.data)
            self._written += size
        else:
            self._carried += size
        assert self._tally.features is not None
        self._tally.features.count(record.features, record.key)
        full = self._carried >= _BATCH_BYTES or self._written >= _FILE_BYTES
        if full or len(self._refs) >= BATCH_SIZE:
            yield from self._batch()

    def finish_bundle(self) -> Iterator[Any]:
        for output in self._batch():
            if isinstance(output, TaggedOutput):
                yield TaggedOutput(output.tag, GlobalWindows.windowed_value(output.value))
            else:
                yield GlobalWindows.windowed_value(output)

    def _batch(self) -> Iterator[Any]:
        """Writes the file of the records so far, and yields their references and counts."""
        if self._chunks:
            files.make_folder(self._spool)
            files.write_bytes(self._uri, b"".join(self._chunks))
        tally = self._tally
        tally.listed = len(self._refs) + len(self._dead)
        tally.add_samples(self._refs, 0)
        tally.add_dead_letters(self._dead)
        if self._refs:
            yield SampleBatch(self._refs)
        if self._dead:
            yield TaggedOutput(DEAD_LETTERS, self._dead)
        if tally.listed:
            yield TaggedOutput(TALLY, tally)
        self._refs, self._carried = [], 0
        self._begin()


# --- shards of equal numbers of records -----------------------------------------------------------


@dataclass(frozen=True)
class _Ranges:
    """The ranges of hashes of a plan's splits, each small enough for one worker."""

    plan: Plan

    @property
    def counts(self) -> tuple[tuple[str, int], ...]:
        """(split, number of ranges)."""
        samples, size = self.plan.tally.samples, self.plan.tally.sample_bytes
        return tuple(
            (split, 1 + samples[split] // _RANGE_SAMPLES + size[split] // _RANGE_BYTES)
            for split, _ in self.plan.shard_plan.shards
        )

    def division(self, seed: int) -> ShardDivision:
        """The division of samples into ranges."""
        return ShardDivision(replace(self.plan.shard_plan, shards=self.counts), seed)

    def place(self, number: int, sizes: Mapping[int, int]) -> tuple[str, int]:
        """The split of a range, and how many of its samples come before the range."""
        for split, (first, count) in self.division(0).shard_plan.first_shard.items():
            if number < first + count:
                return split, sum(sizes.get(i, 0) for i in range(first, number))
        raise IndexError(f"range {number}")


def _divided(plan: Plan, seed: int) -> ShardDivision | None:
    return None if plan.refusal else _Ranges(plan).division(seed)


def _size(part: tuple[int, Iterable[bytes]]) -> tuple[int, int]:
    return part[0], sum(1 for packed in unspill_all(part[1]) for _ in unpack(SampleRef, packed))


def _ranked(
    part: tuple[int, Iterable[bytes]],
    plan: Plan,
    sizes: Mapping[int, int],
    encoding: EncodingOptions,
) -> Iterator[tuple[int, bytes]]:
    """Yields (shard, packed references) of a range, by the place of each sample in its whole split."""
    refs: Sequence[SampleRef] = sort_by_key_hash(
        (ref for packed in unspill_all(part[1]) for ref in unpack(SampleRef, packed)),
        KeyHasher(encoding.seed),
    )
    refs = marked(encoding.examples, refs)
    split, before = _Ranges(plan).place(part[0], sizes)
    first, shards = plan.shard_plan.first_shard[split]
    total = plan.tally.samples[split]
    numbered = enumerate(refs, before)
    for shard, group in itertools.groupby(numbered, lambda item: item[0] * shards // total):
        yield first + shard, pack(ref for _, ref in group)


@dataclass(kw_only=True)
class _AssignEqualShards(beam.PTransform):
    """Groups samples by shard, as `AssignShards` does, in shards that differ by one sample at most."""

    plan: beam.PCollection[Plan]
    encoding: EncodingOptions

    def expand(
        self, samples: beam.PCollection[SampleBatch]
    ) -> beam.PCollection[tuple[int, Iterable[bytes]]]:
        ranges = (
            samples
            | "Divide"
            >> beam.ParDo(
                Divide(partial(_divided, seed=self.encoding.seed)), AsSingleton(self.plan)
            ).with_output_types(tuple[int, bytes])
            | "GroupByRange" >> beam.GroupByKey()
        )
        sizes = ranges | "SizeOfRange" >> beam.Map(_size).with_output_types(tuple[int, int])
        parts = ranges | "Rank" >> beam.FlatMap(
            _ranked, AsSingleton(self.plan), AsDict(sizes), self.encoding
        ).with_output_types(tuple[int, bytes])
        return parts | GroupByShard(self.plan)
