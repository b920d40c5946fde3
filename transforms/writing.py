"""Writes shards: each from its references, or from records that were encoded before.

The second is for few shards, expensive checks and many workers (`--shuffle=records`): examples are encoded
by as many workers as there are and shuffled as records, so every image byte crosses the shuffle, and the
records of a shard have to fit in a worker's memory. Shards have the same bytes either way.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsIter

from beam_pipeline.core import errors
from beam_pipeline.core.dataset import duplicates, names
from beam_pipeline.core.dataset.plan import Plan
from beam_pipeline.core.images.header import NO_DIGEST
from beam_pipeline.core.packing import DeadLetterBatch, SampleBatch
from beam_pipeline.core.records import record_format, shard_writer
from beam_pipeline.core.records.sharding import ShardDivision, ShardInfo
from beam_pipeline.storage import files
from beam_pipeline.transforms.in_workers import PARTS, Divide, Group, Step, stage
from beam_pipeline.transforms.output import CommittedDataset
from beam_pipeline.transforms.planning import AssignShards, every_shard, find_duplicates
from beam_pipeline.work import job, outcome, output_folder
from beam_pipeline.work.finishing import DatasetFinisher, Reports
from beam_pipeline.work.writing import ShardTask, WriteRequest, reported

SHARDS, IMAGES = "shards", "images"


def _shard_task(shard: Group, plan: Plan, request: WriteRequest) -> Iterator[Step]:
    number, batches = shard
    yield ShardTask(
        request=replace(request, encoding=request.encoding.with_features(plan.features)),
        spec=plan.shard_plan.spec(number),
        batches=job.unspill_all(batches),
        class_ids=plan.class_ids,
        record_format=plan.shard_plan.record_format,
        ranges=duplicates.range_count(plan.tally.samples.total()),
    )


def _not_written(error: Exception, request: WriteRequest) -> outcome.Outcome:
    """The outcome of a shard that could not be written, where no engine tries again."""
    reason = error
    if not isinstance(reason, errors.ConversionError):
        reason = errors.OutputError(f"a shard in {request.folder} cannot be written: {error}")
    refusal = errors.Refusal.from_error(reason, error)
    if not request.failures.retries:
        return outcome.Outcome(tagged=[(outcome.REFUSALS, refusal)])
    with contextlib.suppress(OSError, errors.ConversionError):
        # If a retry succeeds, the note is removed with the rest of `.incomplete`.
        output_folder.note_refusal(request.folder, refusal, request.failures.job)
    raise error


def write_shards(plan: beam.PCollection[Plan], request: WriteRequest) -> beam.PTransform:
    """Reads, checks and encodes the images of each shard and writes it; a shard is one work item.

    Args:
      plan: PCollection of the one `Plan`.
      request: how they are written.

    Returns (tagged): main, a `ShardInfo` for each shard; "dead_letters"; "refusals", the reasons why
      shards were not written; "changes", a `ShardFate` for each shard if there is an earlier data
      set; "compared", the images as `find_duplicates` takes them.
    """
    work, failed = (partial(function, request=request) for function in (_shard_task, _not_written))
    tags = (outcome.DEAD_LETTERS, outcome.REFUSALS, outcome.CHANGES, outcome.COMPARED)
    return stage(work, ShardInfo, *tags, main=SHARDS, side=plan, failed=failed)


_GROUPS_PER_SHARD = 8


Record = tuple[bytes, str, bytes, bytes, bytes, tuple[int, ...]]
"""An encoded sample on its way to its shard: the hash that sorts it, its key, its three parts and class ids."""

_NUMBERED = tuple[int, Record]
_NO_RECORD: Record = (b"", "", b"", b"", b"", ())  # in place of a shard


def _groups(plan: Plan, request: WriteRequest) -> ShardDivision | None:
    """The division into groups, of which a shard has several; None where the plan refuses to write."""
    if plan.refusal:
        return None
    groups = tuple((split, n * _GROUPS_PER_SHARD) for split, n in plan.shard_plan.shards)
    by_groups = replace(plan.shard_plan, shards=groups)
    return ShardDivision(by_groups, request.encoding.seed, request.encoding.by_image)


def _encode_group(group: Group, plan: Plan, request: WriteRequest) -> Iterator[outcome.Outcome]:
    """Encodes the samples of a group, and numbers the records by their shard."""
    shard, encoding = group[0] // _GROUPS_PER_SHARD, request.encoding
    hasher = encoding.hasher
    refs = encoding.in_order(job.unspill_all(group[1]))
    dead_letters = DeadLetterBatch()
    images: list[duplicates.WrittenImage] = []
    hashes = duplicates.LabelHashes(encoding.examples.file_columns, rows=encoding.examples.rows)
    events: Counter[str] = Counter()
    with encoding.maker(plan.class_ids, refs, request.reading) as maker:
        for ref in reported(refs):
            try:
                sample = maker.make(ref)
            except shard_writer.Rejected as rejected:
                dead_letters.append(rejected.letter)
                continue
            images.append(hashes.image(ref, sample.digest))
            events.update(sample.events)
            dead_letters.extend(sample.dead_letters)
            record = (hasher.order(ref.key), ref.key, *sample[:3], tuple(sample.classes))
            yield outcome.Outcome([(shard, record)])
    figures = shard_writer.image_figures(events, maker)
    ranges = duplicates.range_count(plan.tally.samples.total())
    compared = (
        duplicates.packed_images((i for i in images if i.digest != NO_DIGEST), ranges)
        if encoding.examples.resumable
        else ()
    )
    yield outcome.Outcome(
        dead_letters=dead_letters,
        tagged=[(IMAGES, figures), *((outcome.COMPARED, part) for part in compared)],
        counters={
            outcome.EXAMPLES_WRITTEN: len(images),
            outcome.DEAD_LETTERS: len(dead_letters),
        },
    )


def _write_records(
    shard: tuple[int, Iterable[Record]], plan: Plan, request: WriteRequest
) -> Iterator[outcome.Outcome]:
    """Writes the records of a shard; a repeated bundle writes the same bytes once more."""
    spec, features = plan.shard_plan.spec(shard[0]), request.encoding.features(turned=True)
    records = sorted(record for record in shard[1] if record != _NO_RECORD)
    classes: Counter[int] = Counter()
    try:
        with files.open_output(files.join(request.folder, spec.file_name), new=False) as sink:
            output = plan.shard_plan.record_format.writer(sink, features)
            for _, key, before, image, after, class_ids in records:
                output.write(record_format.EncodedSample(before, image, after), key)
                classes.update(class_ids)
            output.finish()
    except (errors.ConversionError, OSError) as error:
        yield _not_written(error, request)
        return
    info = ShardInfo(
        *(spec.split, spec.number, spec.file_name, len(records)),
        *(output.bytes, output.crc32c, tuple(sorted(classes.items()))),
    )
    yield outcome.Outcome([info], counters={outcome.SHARDS_WRITTEN: 1})


def write_records(
    samples: beam.PCollection[SampleBatch], plan: beam.PCollection[Plan], request: WriteRequest
) -> dict[str, beam.PCollection]:
    """Encodes samples in parallel, shuffles the records, and writes each shard from its own.

    Args:
      samples: the samples.
      plan: PCollection of the one `Plan`.
      request: how shards are written; none is kept.

    Returns: what `write_shards` does, without "changes"; and "images", `ImageFigures`.
    """
    encoding, writing = (partial(f, request=request) for f in (_encode_group, _write_records))
    tags = (outcome.DEAD_LETTERS, IMAGES, outcome.COMPARED)
    encoded = (
        samples
        | "Group" >> stage(Divide(partial(_groups, request=request)), PARTS, side=plan)
        | "GroupByHash" >> beam.GroupByKey()
        | "EncodeGroup" >> stage(encoding, _NUMBERED, *tags, main="records", side=plan)
    )
    every = beam.FlatMap(every_shard, _NO_RECORD).with_output_types(_NUMBERED)
    written = (
        (encoded["records"], plan | "EveryShard" >> every)
        | beam.Flatten()
        | "GroupByShard" >> beam.GroupByKey()
        | "WriteShard" >> stage(writing, ShardInfo, outcome.REFUSALS, main=SHARDS, side=plan)
    )
    kinds = {SHARDS: written, outcome.REFUSALS: written, **dict.fromkeys(tags, encoded)}
    return {tag: outputs[tag] for tag, outputs in kinds.items()}


def _finish(plan: Plan, finisher: DatasetFinisher, **given: Any) -> Iterator[CommittedDataset]:
    reports = Reports(**given)
    if finisher.finish(plan, reports):
        yield CommittedDataset(
            files.join(finisher.folder, names.MANIFEST_NAME),
            examples=sum(shard.examples for shard in reports.shards),
            bytes=sum(shard.bytes for shard in reports.shards),
            shards=len(reports.shards),
            bad=reports.sums.dead.dead.total(),
        )


def finish_dataset(
    finisher: DatasetFinisher, reports: Mapping[str, beam.PCollection]
) -> beam.PTransform:
    """Ends a run: checks the accounting, writes dead letters, labels and, last, the manifest.

    Args:
      finisher: writes the files.
      reports: PCollections by the names of the fields of `Reports`: shards, dead_letters and refusals;
        images where `ShardInfo`s are without; changes with an earlier data set; duplicates where images were
        compared.

    Returns: the one `CommittedDataset` of a `Plan`; none if the data set is not complete.
    """
    sides = {name: AsIter(report) for name, report in reports.items()}
    return beam.FlatMap(_finish, finisher, **sides).with_output_types(CommittedDataset)


Written = tuple[
    beam.PCollection[ShardInfo],
    beam.PCollection[DeadLetterBatch],
    beam.PCollection[CommittedDataset],
]
"""The shards, the dead letters of all stages, and the one data set; `WriteResult.of` takes them."""


@dataclass(kw_only=True)
class WriteDataset(beam.PTransform):
    """Writes planned samples: PCollection of `SampleBatch` -> `Written`.

    Attributes:
      plan: PCollection of the one `Plan`.
      dead_letters: PCollections of `DeadLetterBatch`, of the stages before.
      finisher: writes the files beside the shards; has the request that says how these are written.
      assign: groups samples by shard; None for `AssignShards`.
      by_records: shuffle encoded records, not references.
      compares: look for images of the same bytes.
    """

    plan: beam.PCollection[Plan]
    dead_letters: Sequence[beam.PCollection[DeadLetterBatch]]
    finisher: DatasetFinisher
    assign: beam.PTransform | None = None
    by_records: bool = False
    compares: bool = True

    def expand(self, samples: beam.PCollection[SampleBatch]) -> Written:
        plan, request = self.plan, self.finisher.request
        if self.by_records:
            written = write_records(samples, plan, request)
        else:
            assign = self.assign or AssignShards(plan=plan, encoding=request.encoding)
            shards = samples | "AssignShards" >> assign
            written = shards | "WriteShards" >> write_shards(plan, request)
        dead_letters = [*self.dead_letters, written[outcome.DEAD_LETTERS]]
        dead = dead_letters | "AllDeadLetters" >> beam.Flatten()
        tags = [SHARDS, outcome.REFUSALS]
        tags += [IMAGES] if self.by_records else []
        tags += [outcome.CHANGES] if request.earlier else []
        reports = {outcome.DEAD_LETTERS: dead, **{tag: written[tag] for tag in tags}}
        if self.compares:
            compared = written[outcome.COMPARED]
            reports["duplicates"] = compared | "FindDuplicates" >> find_duplicates()
        finish = finish_dataset(self.finisher, reports)
        return written[SHARDS], dead, plan | "FinishDataset" >> finish
