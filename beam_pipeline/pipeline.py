"""The whole dataflow, from top to bottom as the data flows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import apache_beam as beam

from beam_pipeline.config import ConvertConfig
from beam_pipeline.core.dataset.plan import Plan
from beam_pipeline.core.dataset.splits import check_strata
from beam_pipeline.core.failures import DEFAULT_POLICY, FailurePolicy
from beam_pipeline.core.labels.join import are_large, buckets_for
from beam_pipeline.core.labels.schema import CLASS_FOLDER_COLUMNS, class_column
from beam_pipeline.core.packed_batches import SampleBatch
from beam_pipeline.layouts.layout import (
    ContainerLabels,
    FileLabels,
    FolderLabels,
    ListedLabels,
)
from beam_pipeline.transforms.data_set import WriteDataset, Written
from beam_pipeline.transforms.duplicates import DropDuplicates
from beam_pipeline.transforms.labels import (
    JoinLabelBatches,
    LabelByFolder,
    ReadContainers,
    ReadLabelFiles,
)
from beam_pipeline.transforms.listing import ListImages, ReadInventory
from beam_pipeline.transforms.output import PrepareFolder
from beam_pipeline.transforms.planning import MeasureOutput, PlanShards
from beam_pipeline.transforms.splits import AssignSplits
from beam_pipeline.work.finishing import DatasetFinisher
from beam_pipeline.work.incomplete_folder import unpacking_folder
from beam_pipeline.work.labels import Labelling, row_merger
from beam_pipeline.work.outcome import DEAD_LETTERS, TALLY
from beam_pipeline.work.planning import Planning
from beam_pipeline.work.writing import WriteRequest

Stage = Mapping[str, beam.PCollection]
"""The outputs of a PTransform by their tags."""


def build_pipeline(
    pipeline: beam.Pipeline,
    config: ConvertConfig,
    *,
    failures: FailurePolicy = DEFAULT_POLICY,
    prepared: beam.PCollection[str] | None = None,
) -> Written:
    """Adds the conversion to a pipeline.

    Args:
      pipeline: a pipeline, or the beginning of a composite.
      config: what to convert, and how.
      failures: how the job reports that it cannot continue.
      prepared: as `PlanShards` has it.
    """
    stages = label_samples(pipeline, config, prepared=prepared)
    return write_samples(stages, config, failures=failures, prepared=prepared)


def prepare_folder(
    pipeline: beam.Pipeline, config: ConvertConfig, failures: FailurePolicy
) -> beam.PCollection[str]:
    """Prepares the output folder in the job, where no launcher does; the folder, for what has to wait."""
    output = config.options.output
    return pipeline | "PrepareFolder" >> PrepareFolder(
        folder=config.output,
        run=config.run,
        resume=output.resume,
        overwrite=output.overwrite,
        open_options=config.open_options,
        failures=failures,
    )


def write_samples(
    stages: Sequence[Stage],
    config: ConvertConfig,
    *,
    failures: FailurePolicy,
    prepared: beam.PCollection[str] | None,
) -> Written:
    """Adds the second half of the conversion: plans shards, writes them, and finishes the data set.

    It takes what `label_samples` returns.
    """
    options, output = config.options, config.options.output
    samples, plan, dead_letters = plan_samples(stages, config, failures=failures, prepared=prepared)
    written: Written = samples | "WriteDataset" >> WriteDataset(
        plan=plan,
        dead_letters=dead_letters,
        request=WriteRequest(
            folder=config.output,
            encoding=config.encoding,
            resume=output.resume,
            reading=config.reading,
            failures=failures,
            earlier=config.earlier,
        ),
        finisher=DatasetFinisher(
            output_folder=config.output,
            encoding=config.encoding,
            max_bad_fraction=options.images.max_bad_fraction,
            recorded_options=config.recorded,
            failures=failures,
            reuse=config.earlier,
            card=not output.no_card,
            report_of=None if output.no_report else config.command,
            roles=config.source.roles,
            pointer=config.pointer,
        ),
        by_records=options.engine.shuffle == "records",
    )
    return written


def plan_samples(
    stages: Sequence[Stage],
    config: ConvertConfig,
    *,
    writes: bool = True,
    failures: FailurePolicy = DEFAULT_POLICY,
    prepared: beam.PCollection[str] | None = None,
) -> tuple[beam.PCollection[SampleBatch], beam.PCollection[Plan], list[beam.PCollection]]:
    """Adds the stages from labelled samples to the plan of their shards.

    They open no image, except for some hundreds where images are re-encoded.

    Args:
      stages: as `label_samples` returns them.
      config: the conversion.
      writes: whether shards will be written, so that the plan has to fit on the disk.
      failures: how the job reports that it cannot continue.
      prepared: as `PlanShards` has it.
    """
    options, splits = config.options, config.split_assigner
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
    if digests := config.digest_source(writes=writes):
        samples = samples["samples"] | "DropDuplicates" >> DropDuplicates(
            source=digests,
            drops=options.images.duplicates == "first",
            class_column=class_column(config.encoding.columns),
            file_columns=config.encoding.examples.file_columns,
            keeps_unlabelled=config.unlabelled is not None,
            rows=config.encoding.examples.rows,
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
    writes: bool = True,
    prepared: beam.PCollection[str] | None = None,
) -> list[Stage]:
    """Adds the stages from images and labels to samples; the last one's samples are all of them.

    Args:
      pipeline: the job.
      config: the conversion.
      writes: whether shards will be written.
      prepared: as `PlanShards` has it.
    """
    source, labels = config.source, config.source.labels
    digests = bool(config.digest_source(writes=writes))
    reads = writes or digests or config.changes.encodes
    labelling = Labelling(
        *(config.split_assigner, source.columns, config.sample_filter, config.unlabelled),
        roots=source.roots,
        crops=config.crops,
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
        roots = tuple(replace(root, digests=digests) for root in source.roots)
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
    assert isinstance(labels, FileLabels | ListedLabels), labels
    rows = pipeline | "ReadLabels" >> ReadLabelFiles(
        labels=labels, spread=are_large(config.label_bytes), raises=False
    )
    columns = config.unlabelled.label_columns if config.unlabelled else source.columns
    columns = config.crops.columns if config.crops else columns
    joined = {"images": images["images"], "rows": rows["rows"]}
    samples = joined | "JoinLabels" >> JoinLabelBatches(
        labelling=labelling if config.crops else replace(labelling, columns=columns),
        merger=row_merger(source, columns),
        buckets=max(buckets_for(config.label_bytes), config.inventory_groups),
    )
    return [images, rows, samples]
