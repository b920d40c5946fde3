"""The whole dataflow, from top to bottom in the order in which data flows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import apache_beam as beam

from beam_pipeline.config import ConvertConfig
from beam_pipeline.core.dataset.plan import Plan
from beam_pipeline.core.dataset.splits import check_strata
from beam_pipeline.core.failures import DEFAULT_POLICY, FailurePolicy
from beam_pipeline.core.labels.join import are_large, buckets_for
from beam_pipeline.core.labels.schema import CLASS_FOLDER_COLUMNS, class_column
from beam_pipeline.core.packed_batches import DeadLetterBatch, SampleBatch
from beam_pipeline.core.records.sharding import ShardInfo, ShardPlan
from beam_pipeline.layouts.layout import (
    ContainerLabels,
    FolderLabels,
)
from beam_pipeline.transforms.duplicates import DropDuplicates, FindDuplicates
from beam_pipeline.transforms.finishing import FinishDataset
from beam_pipeline.transforms.labels import (
    JoinLabelBatches,
    LabelByFolder,
    ReadContainers,
    ReadLabelFiles,
)
from beam_pipeline.transforms.listing import ListImages, ReadInventory
from beam_pipeline.transforms.output import CommittedDataset
from beam_pipeline.transforms.planning import AssignShards, MeasureOutput, PlanShards
from beam_pipeline.transforms.splits import AssignSplits
from beam_pipeline.transforms.writing import IMAGES, WriteRecords, WriteShards
from beam_pipeline.work.finishing import DatasetFinisher
from beam_pipeline.work.incomplete_folder import unpacking_folder
from beam_pipeline.work.labels import Labelling, row_merger
from beam_pipeline.work.outcome import (
    CHANGES,
    COMPARED,
    DEAD_LETTERS,
    REFUSALS,
    TALLY,
)
from beam_pipeline.work.planning import Planning
from beam_pipeline.work.writing import WriteRequest

Stage = Mapping[str, beam.PCollection]
"""The outputs of a PTransform by their tags."""


class Conversion(NamedTuple):
    """The stages of a conversion that others may follow.

    Attributes:
      shards: PCollection of `ShardInfo`.
      dead_letters: PCollection of `DeadLetterBatch`.
      committed: PCollection of the one `CommittedDataset`.
    """

    shards: beam.PCollection[ShardInfo]
    dead_letters: beam.PCollection[DeadLetterBatch]
    committed: beam.PCollection[CommittedDataset]


def build_pipeline(
    pipeline: beam.Pipeline,
    config: ConvertConfig,
    *,
    shard_plan: ShardPlan | None = None,
    failures: FailurePolicy = DEFAULT_POLICY,
    prepared: beam.PCollection[str] | None = None,
) -> Conversion:
    """Adds the conversion to a pipeline.

    Args:
      pipeline: a pipeline, or the beginning of a composite.
      config: what to convert, and how.
      shard_plan: the shards, if they are known; required for `--shuffle=records`.
      failures: how the job reports that it cannot continue.
      prepared: as `PlanShards` has it.
    """
    samples, plan, dead_letters = plan_samples(
        pipeline, config, failures=failures, prepared=prepared
    )
    options, encoding, reading = config.options, config.encoding, config.reading
    if options.engine.shuffle == "records":
        assert shard_plan is not None
        written = samples | "WriteRecords" >> WriteRecords(
            plan=plan,
            shard_plan=shard_plan,
            output_folder=config.output,
            encoding=encoding,
            reading=reading,
        )
    else:
        written = (
            samples
            | "AssignShards" >> AssignShards(plan=plan, seed=options.splits.seed)
            | "WriteShards"
            >> WriteShards(
                plan=plan,
                request=WriteRequest(
                    folder=config.output,
                    encoding=encoding,
                    resume=options.output.resume,
                    reading=reading,
                    failures=failures,
                    earlier=config.earlier,
                ),
                raises=False,
            )
        )
    dead = (*dead_letters, written[DEAD_LETTERS]) | "AllDeadLetters" >> beam.Flatten()
    committed = plan | "FinishDataset" >> FinishDataset(
        shards=written["shards"],
        dead_letters=dead,
        refusals=written[REFUSALS],
        finisher=_finisher(config, failures),
        images=written[IMAGES] if options.engine.shuffle == "records" else None,
        changes=written[CHANGES] if config.earlier else None,
        duplicates=written[COMPARED] | "FindDuplicates" >> FindDuplicates(),
    )
    return Conversion(written["shards"], dead, committed)


def _finisher(config: ConvertConfig, failures: FailurePolicy) -> DatasetFinisher:
    output = config.options.output
    return DatasetFinisher(
        output_folder=config.output,
        encoding=config.encoding,
        max_bad_fraction=config.options.images.max_bad_fraction,
        recorded_options=config.recorded,
        failures=failures,
        reuse=config.earlier,
        card=not output.no_card,
        report_of=None if output.no_report else config.command,
        roles=config.source.roles,
        pointer=config.pointer,
    )


def build_planning_pipeline(pipeline: beam.Pipeline, config: ConvertConfig) -> None:
    """Adds the first half of the conversion, which notes its plan in the output folder."""
    plan_samples(pipeline, config)


def plan_samples(
    pipeline: beam.Pipeline,
    config: ConvertConfig,
    *,
    writes: bool = True,
    failures: FailurePolicy = DEFAULT_POLICY,
    prepared: beam.PCollection[str] | None = None,
) -> tuple[beam.PCollection[SampleBatch], beam.PCollection[Plan], list[beam.PCollection]]:
    """Adds the stages from images and labels to samples and the plan of their shards.

    They open no image, except for some hundreds where images are re-encoded.

    Args:
      pipeline: the job.
      config: the conversion.
      writes: whether shards will be written, so that the plan has to fit on the disk.
      failures: how the job reports that it cannot continue.
      prepared: as `PlanShards` has it.
    """
    options, splits = config.options, config.split_assigner
    digests = config.digest_source(writes=writes)
    reads = writes or bool(digests) or config.changes.encodes
    stages = label_samples(
        pipeline, config, list_digests=bool(digests), reads=reads, prepared=prepared
    )
    tallies = [stage[TALLY] for stage in stages]
    dead_letters = [stage[DEAD_LETTERS] for stage in stages]
    samples = stages[-1]
    if splits.fractions and splits.stratified:
        samples = samples["samples"] | "AssignSplits" >> AssignSplits(
            fractions=splits.fractions,
            seed=splits.seed,
            column=check_strata(config.source.columns),
            group_by=splits.group_by,
        )
        tallies.append(samples[TALLY])
    if digests:
        samples = samples["samples"] | "DropDuplicates" >> DropDuplicates(
            source=digests,
            drops=options.images.duplicates == "first",
            class_column=class_column(config.encoding.columns),
            file_columns=config.encoding.examples.file_columns,
            keeps_unlabelled=config.unlabelled is not None,
        )
        tallies.append(samples[TALLY])
        dead_letters.append(samples[DEAD_LETTERS])
    if config.measures or (config.changes.encodes and not writes):
        tallies.append(
            samples["samples"]
            | "MeasureOutput" >> MeasureOutput(encoding=config.encoding, reading=config.reading)
        )
    plan = (
        tallies
        | "AllTallies" >> beam.Flatten()
        | "PlanShards"
        >> PlanShards(
            Planning(
                request=config.plan_request,
                output_folder=config.output,
                run=config.run,
                resume=options.output.resume,
                writes=writes,
                reuse=config.earlier,
                failures=failures,
                raises=False,
            ),
            prepared,
        )
    )
    return samples["samples"], plan, dead_letters


def label_samples(
    pipeline: beam.Pipeline,
    config: ConvertConfig,
    *,
    list_digests: bool,
    reads: bool = True,
    prepared: beam.PCollection[str] | None = None,
) -> list[Stage]:
    """Adds the stages from images and labels to samples; the last one's samples are all of them.

    Args:
      pipeline: the job.
      config: the conversion.
      list_digests: whether buckets list the digests of images as well.
      reads: whether images will be read, so that containers have to be unpacked.
      prepared: as `PlanShards` has it.
    """
    source, labels = config.source, config.source.labels
    labelling = Labelling(
        config.split_assigner,
        source.columns,
        config.sample_filter,
        config.unlabelled,
        source.roots,
    )
    if isinstance(labels, ContainerLabels):
        return [
            pipeline
            | "ReadContainers"
            >> ReadContainers(
                labels=labels,
                unpack_to=unpacking_folder(config.output) if reads else "",
                labelling=replace(labelling, keep=None),
                raises=False,
                prepared=prepared,
            )
        ]
    if config.inventory:
        images = pipeline | "ReadInventory" >> ReadInventory(
            files=config.inventory, roots=source.roots, groups=config.inventory_groups, raises=False
        )
    else:
        roots = tuple(replace(root, digests=list_digests) for root in source.roots)
        images = pipeline | "ListImages" >> ListImages(roots=roots, raises=False)
    if isinstance(labels, FolderLabels):
        columns = labels.names.columns if labels.names else CLASS_FOLDER_COLUMNS
        samples = images["images"] | "LabelByFolder" >> LabelByFolder(
            labelling=replace(labelling, columns=columns),
            may_repeat=source.may_repeat_keys,
            names=labels.names,
            buckets=config.inventory_groups,
        )
        return [images, samples]
    rows = pipeline | "ReadLabels" >> ReadLabelFiles(
        labels=labels, spread=are_large(config.label_bytes), raises=False
    )
    columns = config.unlabelled.label_columns if config.unlabelled else source.columns
    joined = {"images": images["images"], "rows": rows["rows"]}
    samples = joined | "JoinLabels" >> JoinLabelBatches(
        labelling=replace(labelling, columns=columns),
        merger=row_merger(source, columns),
        buckets=max(buckets_for(config.label_bytes), config.inventory_groups),
    )
    return [images, rows, samples]
