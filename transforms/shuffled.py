"""Writes the records of any pipeline as shuffled shards, which are the same on every engine.

    records -> read: key, split, features -+-> small: the reference carries the record
                                           `-> larger: a file of the job, and a reference to it
    references -> shards -> each sorted by the hashes of its keys and written -> manifest

With `exact_sizes`, references are first grouped by ranges of hashes, whose counts give each its place.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsDict, AsSingleton, TaggedOutput
from apache_beam.transforms.window import GlobalWindows

from beam_pipeline.core import errors, uris
from beam_pipeline.core.dataset.names import dataset_name
from beam_pipeline.core.dataset.plan import Plan, PlanRequest
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.dead_letters import DeadLetter, Reason, Stage
from beam_pipeline.core.packing import BATCH_SIZE, DeadLetterBatch, SampleBatch, pack, unpack
from beam_pipeline.core.records import formats, sharding
from beam_pipeline.core.records.example_source import PipelineRecords
from beam_pipeline.core.records.feature_values import FeatureSchema
from beam_pipeline.core.references import DEFAULT_SPLIT, SampleRef
from beam_pipeline.options import ConvertOptions, speaking_of_arguments
from beam_pipeline.storage import files
from beam_pipeline.storage.read_ahead import ONE_BY_ONE, REMOTE_READS, ReadOptions
from beam_pipeline.transforms.in_workers import PARTS, Divide, Group, stage
from beam_pipeline.transforms.output import PrepareFolder, WriteResult
from beam_pipeline.transforms.planning import group_by_shard, plan_shards
from beam_pipeline.transforms.samples import check_choice
from beam_pipeline.transforms.writing import WriteDataset
from beam_pipeline.work import finishing, job, output_folder
from beam_pipeline.work.outcome import DEAD_LETTERS, TALLY
from beam_pipeline.work.planning import Planning
from beam_pipeline.work.records import RecordReader, class_numbering, feature_entries
from beam_pipeline.work.writing import EncodingOptions, WriteRequest

IF_EXISTS = ("fail", "resume", "overwrite")
ON_ERROR = ("raise", "collect")

_MOST_CARRIED = 16 << 10  # bytes of a record that its reference carries
_BATCH_BYTES = 4 << 20  # of carried records
_FILE_BYTES = 64 << 20  # of records in a file of the job
_RANGE_SAMPLES, _RANGE_BYTES = 50_000, 128 << 20  # of a range of hashes, which one worker sorts

_WORDS = {
    "another --output": "another path",
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


_FAILURES = errors.FailurePolicy(reword=_of_records)


class WriteToShuffledTFRecord(beam.PTransform):
    """Writes records as globally shuffled shards with a manifest: the same bytes on every engine.

    A record's shard and position depend on (seed, key) alone, so a retried or repeated bundle, another
    engine or another number of workers change nothing. Shards appear whole, the manifest last. Windows
    end here: all records of a bounded PCollection are one data set.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        key: str | Callable[[Any], Any] | None = None,
        split: str | Callable[[Any], Any] = DEFAULT_SPLIT,
        splits: Mapping[str, float] | None = None,
        num_shards: int | Mapping[str, int] | None = None,
        shard_size: int | str = sharding.DEFAULT_SHARD_BYTES,
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
        typed = {"splits": splits or None, "num_shards": num_shards, "shard_size": shard_size}
        with speaking_of_arguments():
            options = ConvertOptions.of_python({**typed, "seed": seed}).splits
        folder = files.canonical(os.fspath(path))
        self._overwrite = if_exists == "overwrite"
        self._exact = exact_sizes
        self._reader = RecordReader(
            key=key,
            split=split,
            fractions=options.fractions,
            seed=options.seed,
            class_names=class_names,
            features=None if features is None else feature_entries(features),
        )
        self._request = WriteRequest(
            folder=folder,
            encoding=EncodingOptions(PipelineRecords(keyed=key is not None), seed=options.seed),
            resume=if_exists == "resume",
            reading=ReadOptions(REMOTE_READS) if uris.is_remote(folder) else ONE_BY_ONE,
            failures=_FAILURES,
        )
        self._plan_request = PlanRequest(
            name=name or dataset_name(folder),
            shards=options.shards,
            splits=options.split_names,
            record_format=formats.record_format(compression, format),
            max_bad_fraction=1.0 if on_error == "collect" else 0.0,
            numbering=class_numbering(class_names),
        )

    def expand(self, records: beam.PCollection) -> WriteResult:
        if not records.is_bounded:
            raise ValueError(
                f"{self.label}: an unbounded PCollection never ends, so it cannot be shuffled"
            )
        request, plan_request, run = self._request, self._plan_request, self._run
        prepared = records.pipeline | "PrepareFolder" >> PrepareFolder(
            request=request, run=run, overwrite=self._overwrite
        )
        reading = _ReadRecords(self._reader, request.folder)
        read = (
            records
            | "OneWindow" >> beam.WindowInto(GlobalWindows())
            | "Read" >> stage(reading, SampleBatch, TALLY, DEAD_LETTERS, side=prepared)
        )
        empty = beam.Map(lambda _: Tally(features=FeatureSchema())).with_output_types(Tally)
        plan = (
            (read[TALLY], prepared | "NoRecords" >> empty)
            | "AllTallies" >> beam.Flatten()
            | "PlanShards" >> plan_shards(Planning(request, plan_request, run))
        )
        exact = _AssignEqualShards(plan=plan, encoding=request.encoding) if self._exact else None
        finisher = finishing.DatasetFinisher(
            request=request, max_bad_fraction=plan_request.max_bad_fraction, recorded=run["options"]
        )
        written = read["main"] | "WriteDataset" >> WriteDataset(
            plan=plan,
            dead_letters=[read[DEAD_LETTERS]],
            finisher=finisher,
            assign=exact,
            compares=False,
        )
        return WriteResult.of(request.folder, *written)

    @property
    def _run(self) -> dict[str, Any]:
        """The manifest's values that a run must share with an earlier one to keep its shards."""
        fractions, shards = self._reader.fractions, self._plan_request.shards
        shares = {name: float(share) for name, share in fractions.fractions} if fractions else None
        number = shards.num_shards
        return {
            "name": self._plan_request.name,
            "seed": self._reader.seed,
            "options": {
                "splits": shares,
                "num_shards": dict(number) if isinstance(number, Mapping) else number,
                "shard_size": shards.shard_bytes,
                "layout": "pipeline",
                "columns": [{"name": "class", "kind": "class", "feature": "image/class"}],
                **({"exact_sizes": True} if self._exact else {}),
                **formats.format_options(self._plan_request.record_format),
            },
            "features": self._reader.features,
        }


class _ReadRecords(beam.DoFn):
    """Makes references of records: small ones carry the record, others point into a file."""

    def __init__(self, reader: RecordReader, folder: str) -> None:
        self._reader = reader
        self._spool = output_folder.unpacking_folder(folder)

    def start_bundle(self) -> None:
        """Begins a file, which has a separate name, because a bundle may run twice at once."""
        self._uri = files.join(self._spool, f"{os.urandom(16).hex()}.records")
        self._refs: list[SampleRef] = []
        self._chunks: list[bytes] = []
        self._carried = self._written = 0
        self._schema, self._dead = FeatureSchema(), DeadLetterBatch()

    def process(self, element: Any, _: str) -> Iterator[Any]:
        try:
            ref, features = self._reader.read(element)
        except errors.SampleError as error:
            stage, reason = Stage.LABELS.value, Reason.BAD_LABEL_VALUE.value
            self._dead.append(DeadLetter(stage, "", "", reason, str(error)))
            return
        if ref.size <= _MOST_CARRIED:
            self._carried += ref.size
        else:
            record: Any = ref.labels[1]
            labels = (ref.labels[0], None)
            ref = ref._replace(uri=self._uri, labels=labels, offset=self._written)
            self._chunks.append(record)
            self._written += ref.size
        self._refs.append(ref)
        self._schema.count(features, ref.key)
        full = self._carried >= _BATCH_BYTES or self._written >= _FILE_BYTES
        if full or len(self._refs) >= BATCH_SIZE:
            yield from self._batch()

    def finish_bundle(self) -> Iterator[Any]:
        yield from self._batch()

    def _batch(self) -> Iterator[Any]:
        """Writes the file of the records so far, and yields their references and counts."""
        if self._chunks:
            files.make_folder(self._spool)
            files.write_bytes(self._uri, b"".join(self._chunks))
        tally = Tally(listed=len(self._refs) + len(self._dead), features=self._schema)
        tally.add_samples(self._refs, 0)
        tally.add_dead_letters(self._dead)
        if self._refs:
            yield GlobalWindows.windowed_value(SampleBatch(self._refs))
        if self._dead:
            yield TaggedOutput(DEAD_LETTERS, GlobalWindows.windowed_value(self._dead))
        if tally.listed:
            yield TaggedOutput(TALLY, GlobalWindows.windowed_value(tally))
        self.start_bundle()


# --- shards of equal numbers of records -----------------------------------------------------------


def _in_ranges(plan: Plan) -> sharding.ShardPlan:
    """The ranges of hashes of a plan's splits in place of shards, each small enough for one worker."""
    samples, size = plan.tally.samples, plan.tally.sample_bytes
    counts = (
        (split, 1 + samples[split] // _RANGE_SAMPLES + size[split] // _RANGE_BYTES)
        for split, _ in plan.shard_plan.shards
    )
    return replace(plan.shard_plan, shards=tuple(counts))


def _divided(plan: Plan, seed: int) -> sharding.ShardDivision | None:
    return None if plan.refusal else sharding.ShardDivision(_in_ranges(plan), seed)


def _size(part: Group) -> tuple[int, int]:
    return part[0], sum(1 for packed in job.unspill_all(part[1]) for _ in unpack(SampleRef, packed))


def _ranked(
    part: Group, plan: Plan, sizes: Mapping[int, int], encoding: EncodingOptions
) -> Iterator[tuple[int, bytes]]:
    """Yields (shard, packed references) of a range, by the place of each sample in its whole split."""
    refs = encoding.in_order(job.unspill_all(part[1]))
    number, ranges = part[0], _in_ranges(plan).first_shard
    split = next(name for name, (begin, count) in ranges.items() if number < begin + count)
    before = sum(sizes.get(i, 0) for i in range(ranges[split][0], number))
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

    def expand(self, samples: beam.PCollection[SampleBatch]) -> beam.PCollection[Group]:
        division = partial(_divided, seed=self.encoding.seed)
        ranges = (
            samples
            | "Divide" >> stage(Divide(division), PARTS, side=self.plan)
            | "GroupByRange" >> beam.GroupByKey()
        )
        sizes = ranges | "SizeOfRange" >> beam.Map(_size).with_output_types(tuple[int, int])
        rank = beam.FlatMap(_ranked, AsSingleton(self.plan), AsDict(sizes), self.encoding)
        parts = ranges | "Rank" >> rank.with_output_types(PARTS)
        return group_by_shard(parts, self.plan)
