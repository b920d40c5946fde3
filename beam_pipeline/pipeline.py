"""The whole dataflow, from top to bottom as the data flows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import apache_beam as beam

from beam_pipeline.config import ConvertConfig
from beam_pipeline.core import errors
from beam_pipeline.core.dataset.plan import Plan
from beam_pipeline.core.dataset.splits import check_strata
from beam_pipeline.core.labels import join, matching, schema
from beam_pipeline.core.packing import SampleBatch
from beam_pipeline.layouts.layout import ContainerLabels, FileLabels, FolderLabels, ListedLabels
from beam_pipeline.transforms import listing, planning, writing
from beam_pipeline.transforms.labels import (
    JoinLabelBatches,
    ReadLabelFiles,
    label_by_folder,
    read_containers,
)
from beam_pipeline.transforms.output import PrepareFolder
from beam_pipeline.work import finishing, outcome, output_folder
from beam_pipeline.work.labels import JoinRows, LabelImages, Labelling, row_merger
from beam_pipeline.work.planning import Planning
from beam_pipeline.work.writing import WriteRequest

Stage = Mapping[str, beam.PCollection]
"""The outputs of a PTransform by their tags."""


@dataclass(frozen=True)
class Dataflow:
    """The conversion as stages of a pipeline.

    Attributes:
      config: what to convert, and how.
      failures: how the job reports that it cannot continue.
      writes: whether shards will be written.
      prepared: the output folder, prepared in the job, for what has to wait for that; None if a launcher did it.
    """

    config: ConvertConfig
    failures: errors.FailurePolicy = errors.DEFAULT_POLICY
    writes: bool = True
    prepared: beam.PCollection[str] | None = None

    @property
    def request(self) -> WriteRequest:
        """How samples are read, encoded and written."""
        config = self.config
        return WriteRequest(
            folder=config.output,
            encoding=config.encoding,
            resume=config.options.output.resume,
            reading=config.reading,
            failures=self.failures,
            earlier=config.earlier,
        )

    def after_preparing(self, pipeline: beam.Pipeline) -> Dataflow:
        """The dataflow, with the output folder prepared in the job."""
        prepared = pipeline | "PrepareFolder" >> PrepareFolder(
            request=self.request,
            run=self.config.run,
            overwrite=self.config.options.output.overwrite,
            open_options=self.config.open_options,
        )
        return replace(self, prepared=prepared)

    def convert(self, pipeline: beam.Pipeline) -> writing.Written:
        """Adds the conversion to a pipeline, or to the beginning of a composite."""
        return self.write(self.label(pipeline))

    def label(self, pipeline: beam.Pipeline) -> list[Stage]:
        """Adds the stages from images and labels to samples; the last one's samples are all of them."""
        config, source, labels = self.config, self.config.source, self.config.source.labels
        digests = bool(config.duplicate_search(writes=self.writes))
        labelling = Labelling(
            *(config.split_assigner, source.columns, config.sample_filter, config.unlabelled),
            roots=source.roots,
            crops=config.crops,
        )
        if isinstance(labels, ContainerLabels):
            reads = self.writes or digests or config.changes.encodes
            return [
                pipeline
                | "ReadContainers"
                >> read_containers(
                    labels,
                    output_folder.unpacking_folder(config.output) if reads else "",
                    replace(labelling, keep=None),
                    self.prepared,
                )
            ]
        inventoried, in_folders = bool(config.inventory), isinstance(labels, FolderLabels)
        if inventoried:
            level = getattr(labels, "level", None)
            by_name = matching.NameDivision(config.buckets, level)
            division = matching.KeyDivision(config.inventory_groups) if in_folders else by_name
            reading = listing.read_inventory(config.inventory, source.roots, division)
            images = pipeline | "ReadInventory" >> reading
        else:
            roots = tuple(replace(root, digests=digests) for root in source.roots)
            images = pipeline | "ListImages" >> listing.ListImages(roots=roots, raises=False)
        if isinstance(labels, FolderLabels):
            columns = labels.names.columns if labels.names else schema.CLASS_FOLDER_COLUMNS
            by_folder = LabelImages(
                labels.names,
                replace(labelling, columns=columns),
                source.may_repeat_keys,
                inventoried,
            )
            return [images, images["images"] | "LabelByFolder" >> label_by_folder(by_folder)]
        assert isinstance(labels, FileLabels | ListedLabels), labels
        rows = pipeline | "ReadLabels" >> ReadLabelFiles(
            labels=labels, spread=join.are_large(config.label_bytes), raises=False
        )
        columns = config.unlabelled.label_columns if config.unlabelled else source.columns
        columns = config.crops.columns if config.crops else columns
        joined = {"images": images["images"], "rows": rows["rows"]}
        labelling = labelling if config.crops else replace(labelling, columns=columns)
        work = JoinRows(row_merger(source, columns), labelling, inventoried)
        joining = JoinLabelBatches(work=work, buckets=config.buckets)
        return [images, rows, joined | "JoinLabels" >> joining]

    def plan(
        self, stages: Sequence[Stage]
    ) -> tuple[beam.PCollection[SampleBatch], beam.PCollection[Plan], list[beam.PCollection]]:
        """Adds the stages from labelled samples, as `label` returns them, to the plan of their shards.

        They open no image, except for some hundreds where images are re-encoded.
        """
        config, splits, request = self.config, self.config.split_assigner, self.request
        tallies = [stage[outcome.TALLY] for stage in stages]
        dead_letters = [stage[outcome.DEAD_LETTERS] for stage in stages]
        samples = stages[-1]["samples"]
        if splits.fractions and splits.stratified:
            assigned = samples | "AssignSplits" >> planning.AssignSplits(
                splits=splits, column=check_strata(config.source.columns)
            )
            samples = assigned["samples"]
            tallies.append(assigned[outcome.TALLY])
        if search := config.duplicate_search(writes=self.writes):
            unlabelled = config.unlabelled is not None
            unique = samples | "DropDuplicates" >> planning.DropDuplicates(
                search=search, request=request, keeps_unlabelled=unlabelled
            )
            samples = unique["samples"]
            tallies.append(unique[outcome.TALLY])
            dead_letters.append(unique[outcome.DEAD_LETTERS])
        # The number of shards depends on the size of images as they are written; a plan shows that size.
        is_fixed = self.writes and isinstance(config.options.splits.num_shards, int)
        if config.changes.encodes and not is_fixed:
            tallies.append(samples | "MeasureOutput" >> planning.measure_output(request))
        planner = Planning(request, config.plan_request, config.run, self.writes)
        tally = tallies | "AllTallies" >> beam.Flatten()
        plan = tally | "PlanShards" >> planning.plan_shards(planner, self.prepared)
        return samples, plan, dead_letters

    def write(self, stages: Sequence[Stage]) -> writing.Written:
        """Adds the stages from labelled samples to a finished data set: plans shards and writes them."""
        config, output = self.config, self.config.options.output
        samples, plan, dead_letters = self.plan(stages)
        written: writing.Written = samples | "WriteDataset" >> writing.WriteDataset(
            plan=plan,
            dead_letters=dead_letters,
            finisher=finishing.DatasetFinisher(
                request=self.request,
                max_bad_fraction=config.options.images.max_bad_fraction,
                recorded=config.recorded,
                card=not output.no_card,
                report_of=None if output.no_report else config.command,
                roles=config.source.roles,
                pointer=config.pointer,
            ),
            by_records=config.options.engine.shuffle == "records",
        )
        return written
