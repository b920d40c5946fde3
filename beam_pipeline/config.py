"""A conversion ready to run: what was typed, and what it was resolved to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from beam_pipeline.core import errors, references, text
from beam_pipeline.core.dataset import duplicates, names, plan, plausibility
from beam_pipeline.core.dataset.estimate import TABLE_ROW, USUAL_ENCODE_S, USUAL_IMAGE, Work
from beam_pipeline.core.dataset.splits import IMAGE, GroupBy, SplitAssigner, check_strata, group_by
from beam_pipeline.core.images import geometry, preparation
from beam_pipeline.core.labels import classes, join, schema
from beam_pipeline.core.labels.samples import Crops, KeepUnlabelled
from beam_pipeline.core.listing.folders import FOLDER
from beam_pipeline.core.listing.inventory import groups_for
from beam_pipeline.core.records.example_source import ExampleOptions, LabelledImages
from beam_pipeline.core.records.formats import format_options, record_format
from beam_pipeline.core.records.record_format import RecordFormat
from beam_pipeline.core.uris import is_remote, without_secrets
from beam_pipeline.layouts.layout import ContainerLabels, FileLabels, PipelineLabels, Source
from beam_pipeline.options import ConvertOptions
from beam_pipeline.options.group import LABEL_FILES
from beam_pipeline.options.output import EngineOptions, ImageOptions
from beam_pipeline.storage import files, listing
from beam_pipeline.storage.read_ahead import ONE_BY_ONE, REMOTE_READS, ReadOptions, usual_reading
from beam_pipeline.work import planning, receipts, writing

LATEST = "latest:"
"""Before a folder of data sets, in --reuse: its newest one."""

SETTLED_BY_REUSE = ("num_shards", "shard_size", "label_base", "label_order", "classes")
"""Recorded options that may differ from those of the reused data set."""

_MOST_OF_A_NAME = 255  # bytes, on nearly all disks


def example_options(
    images: ImageOptions, renames: Mapping[str, str], crop: geometry.CropBoxes | None = None
) -> ExampleOptions:
    """The options that shape examples, with the codec where images are encoded, or where it was chosen."""
    changes = replace(images.changes, crop=crop)
    if changes.encodes or changes.image_codec != geometry.PILLOW:
        changes = replace(changes, codec=preparation.codec_here(changes.image_codec))
    return ExampleOptions(
        image_check=images.image_check,
        renames=renames,
        clip_boxes=images.clip_boxes,
        bad_boxes=images.bad_boxes,
        image_encoding=images.image_encoding or preparation.IMAGE_ENCODINGS[0],
        filters=images.filters,
        changes=changes,
    )


def has_kind(columns: Iterable[schema.Column], *kinds: schema.ColumnKind) -> bool:
    """Tells whether there is a column of one of these kinds."""
    return any(column.kind in kinds for column in columns)


def check_fit(source: Source, options: ConvertOptions) -> None:
    """Raises UsageError if an option means nothing for an input."""
    images, roots, columns = options.images, source.roots, source.columns
    inventory, unlabelled = options.inputs.inventory, options.labels.unlabelled
    of_files, of_containers = (
        isinstance(source.labels, of) for of in (FileLabels, ContainerLabels)
    )
    objects, crops = has_kind(columns, schema.ColumnKind.BOX), options.samples.crop_boxes
    named = schema.class_column(columns) is not None or has_kind(columns, *schema.MASK_KINDS)
    for option, is_wrong, reason in (
        ("inventory", inventory and not roots, "its images are in a few files"),
        ("inventory", inventory and any(r.archive for r in roots), "its images are in archives"),
        ("image_encoding", images.image_encoding and not source.pixels, "its images are files"),
        (
            "unlabelled keep",
            unlabelled == "keep" and of_containers,
            "labels and images share files",
        ),
        ("unlabelled empty", unlabelled == "empty" and not objects, "its labels are not objects"),
        ("unlabelled empty", unlabelled == "empty" and not of_files, "it has no label files"),
        ("crop_boxes", crops and not objects, "its labels have no boxes"),
        ("classes", options.labels.classes and not named, "none of its labels is a class"),
    ):
        if is_wrong:
            raise errors.UsageError(
                f"--{option} means nothing for this input of the layout {source.layout}: {reason}; leave it out"
            )
    if images.image_encoding == preparation.RAW_FORMAT and images.changes.encodes:
        raise errors.UsageError(
            "--image_encoding raw writes bare pixels, which --resize, --image_format and --reencode "
            "cannot change; leave it out, and they become PNGs"
        )


@dataclass(frozen=True, kw_only=True)
class ConvertConfig:
    """A conversion: the options, and what they were resolved to.

    Attributes:
      options: what was typed, in its groups.
      source: the images and labels that a layout found.
      output: the output folder, absolute.
      name: data set name in file names.
      inventory: URIs of files that list the images; empty to list the image folders.
      renames: the key to write a feature under -> its standard key.
      inventory_rows: about how many rows the inventories have; 0 if unknown.
      label_bytes: total size of the label files; None if unknown before the job lists them.
      unlabelled: makes samples of images without labels; None where they are left out.
      crops: makes a sample of each object; None if samples are not objects.
      known: the only classes that there are, as --classes names them; None for any.
      exclusion: samples that are left out by their keys; None if none are.
      checks: what the plan checks of the labels.
      earlier: the data set whose shards are reused, or None.
      made_by: the call that the report shows; empty to show the command.
      shown_inputs: fields of `InputOptions` that the report shows otherwise than they were typed.
    """

    options: ConvertOptions
    source: Source
    output: str
    name: str
    inventory: tuple[str, ...] = ()
    inventory_rows: int = 0
    renames: Mapping[str, str] = field(default_factory=dict)
    label_bytes: int | None = None
    unlabelled: KeepUnlabelled | None = None
    crops: Crops | None = None
    known: classes.KnownClasses | None = None
    exclusion: classes.Exclusion | None = None
    checks: plausibility.LabelChecks = plausibility.NO_CHECKS
    earlier: receipts.EarlierDataSet | None = None
    made_by: str = ""
    shown_inputs: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def split_assigner(self) -> SplitAssigner:
        """The rule that gives samples their splits.

        Raises:
          UsageError: the samples lack such groups, or classes to divide.
        """
        splits, columns = self.options.splits, self.source.columns
        if splits.stratify:
            check_strata(columns)
        groups = group_by(splits.split_by, columns, self.source.layout)
        if self.unlabelled and groups and groups.column is not None:
            raise errors.UsageError(
                f"--split_by {groups.name} with --unlabelled keep: an image without a label has no "
                f"{groups.name}, so it could be on either side; use --split_by folder, or drop "
                "unlabelled images"
            )
        if self.source.examples.rows and splits.fractions:
            groups = groups or GroupBy(IMAGE)
        level = getattr(self.source.labels, "level", None)
        if level and splits.fractions and (groups is None or groups.column is None):
            groups = GroupBy(FOLDER, level=level)
        return SplitAssigner(splits.fractions, splits.seed, groups, splits.stratify)

    def __post_init__(self) -> None:
        check_fit(self.source, self.options)
        _ = self.split_assigner  # for its errors
        self.record_format.check_installed()
        splits = self.options.splits.split_names or (references.DEFAULT_SPLIT,)
        shards = [self.record_format.shard_name(self.name, split, 0, 1) for split in splits]
        length = max(len(shard.encode()) for shard in shards) + names.TEMPORARY_SUFFIX_BYTES
        if not is_remote(self.output) and length > _MOST_OF_A_NAME:
            excess = text.counted(length - _MOST_OF_A_NAME, "byte")
            raise errors.UsageError(
                f"--name, by default the output folder's, is {excess} too long for files such as {shards[0]}: a disk "
                f"takes names of {_MOST_OF_A_NAME} bytes, and {names.TEMPORARY_SUFFIX_BYTES} are added while one is "
                "written; give a shorter --name"
            )

    @property
    def command(self) -> str:
        """The command that makes this data set, the same wherever and however often it runs.

        Options that do not change the data set are left out, and the output folder has the name of
        the data set.
        """
        typed = self.options.output
        output = replace(typed, output=self.name, overwrite=False, resume=False, reuse="")
        engine = EngineOptions(shuffle=self.options.engine.shuffle)
        reported = replace(self.options, output=output, engine=engine)
        return without_secrets(self.made_by or reported.command(**self.shown_inputs))

    @property
    def pointer(self) -> str:
        """The file that names the newest data set of a folder; empty if --reuse names no folder that the output is in."""
        above, typed = self.output.rpartition("/")[0], self.options.output.reuse
        is_in = typed.startswith(LATEST) and files.canonical(typed.removeprefix(LATEST)) == above
        return files.join(above, names.POINTER_NAME) if is_in else ""

    @property
    def uris(self) -> tuple[str, ...]:
        """Every file and folder that the job reads or writes."""
        earlier = (self.earlier.folder,) if self.earlier else ()
        return (*self.source.uris, *self.inventory, self.output, *earlier)

    @property
    def inventory_groups(self) -> int:
        """In how many groups the rows of the inventories are compared."""
        return groups_for(self.inventory_rows)

    @property
    def buckets(self) -> int:
        """In how many parts images and rows are joined."""
        return max(join.buckets_for(self.label_bytes), self.inventory_groups)

    @property
    def expected_rows(self) -> int:
        """About how many rows the inventories have, or else the tables; 0 if unknown."""
        of_tables = self.label_bytes if self.source.tables else None
        return self.inventory_rows or (of_tables or 0) // TABLE_ROW

    @property
    def expected_work(self) -> Work | None:
        """The work as far as sizes of inventories or tables tell before anything is listed; None if they do not."""
        samples = self.expected_rows
        if not samples:
            return None
        size, wanted = samples * USUAL_IMAGE, self.options.splits.shards
        splits = self.options.splits.split_names or (references.DEFAULT_SPLIT,)
        shards = sum(wanted.count_for(split, size // len(splits)) for split in splits)
        encode_s = USUAL_ENCODE_S if self.changes.encodes else 0.0
        return Work(samples, size, 0, samples, bool(self.source.tables), shards, encode_s=encode_s)

    @property
    def sample_filter(self) -> classes.SampleFilters | None:
        """Leaves out samples that are excluded, or whose class is not among --classes."""
        paths, rows = schema.cell_files(self.source.columns), self.source.examples.rows
        exclusion = self.exclusion and replace(self.exclusion, files=paths, rows=rows)
        filters = tuple(rule for rule in (exclusion, self.known) if rule)
        return classes.SampleFilters(filters) if filters else None

    @property
    def record_format(self) -> RecordFormat:
        """The format of the shards."""
        output = self.options.output
        return record_format(output.compression, output.format)

    @cached_property
    def encoding(self) -> writing.EncodingOptions:
        """The encoding of the examples."""
        return writing.EncodingOptions(
            examples=self.source.examples,
            seed=self.options.splits.seed,
            by_image=bool(self.options.samples.group_by),
            options=example_options(self.options.images, self.renames, self.options.samples.crop),
        )

    @property
    def changes(self) -> geometry.ImageChanges:
        """The changes to images."""
        return self.encoding.options.changes

    @property
    def reading(self) -> ReadOptions | None:
        """The read-ahead of each writer; None where it depends on the images of a pipeline."""
        if isinstance(self.source.labels, PipelineLabels):
            return None
        engine = self.options.engine
        if engine.read_ahead:
            return ReadOptions(engine.read_ahead, engine.read_ahead_size)
        if self.source.roots:
            return usual_reading((root.uri for root in self.source.roots), engine.read_ahead_size)
        # Images are in a few large files, or are unpacked to the output folder.
        anywhere_remote = any(map(is_remote, self.uris))
        return ReadOptions(REMOTE_READS, engine.read_ahead_size) if anywhere_remote else ONE_BY_ONE

    def duplicate_search(self, *, writes: bool) -> planning.DuplicateSearch | None:
        """The search for duplicates before shards are planned; None if none are looked for.

        They are if an option asks for it, and by a plan where the listing tells.

        Args:
          writes: whether shards will be written.
        """
        policy = self.options.images.duplicates
        asked = policy != duplicates.POLICIES[0]
        listed = not self.inventory and any(map(listing.lists_digests, self.source.roots))
        if not asked and (writes or not listed):
            return None
        return planning.DuplicateSearch(listed=listed, reads=asked, drops=policy == "first")

    @property
    def plan_request(self) -> plan.PlanRequest:
        """What the plan depends on beside the samples."""
        options = self.options
        return plan.PlanRequest(
            name=self.name,
            shards=options.splits.shards,
            splits=options.splits.split_names,
            none_empty=bool(options.splits.stratify or self.split_assigner.group_by),
            record_format=self.record_format,
            max_bad_fraction=options.images.max_bad_fraction,
            numbering=self.source.numbering,
            may_be_unlabelled=options.inputs.yes
            or not (options.inputs.labels or options.inputs.masks),
            checks=self.checks,
            may_have_duplicates=options.images.duplicates != "error",
        )

    @property
    def open_options(self) -> tuple[str, ...]:
        """Recorded options that the plan settles, because they depend on the classes and earlier shards."""
        if self.earlier:
            return SETTLED_BY_REUSE
        return ("label_order",) if self.source.numbering.order == classes.AUTO_ORDER else ()

    @property
    def run(self) -> dict[str, Any]:
        """The manifest's values that a run must share with an earlier one to keep its shards."""
        return {
            "name": self.name,
            "seed": self.options.splits.seed,
            "options": self.recorded,
            "features": dict(self.encoding.features()),
        }

    @property
    def recorded(self) -> dict[str, Any]:
        """The options that shape the bytes; the manifest records them beside name and seed.

        Keys and their order are part of the manifest's format.
        """
        options, source = self.options, self.source
        fractions, num_shards = options.splits.fractions, options.splits.num_shards
        shares = fractions and {name: float(share) for name, share in fractions.fractions}
        order = source.numbering.order
        return {
            "splits": shares,
            "num_shards": dict(num_shards) if isinstance(num_shards, dict) else num_shards,
            "shard_size": options.splits.shard_size,
            "layout": source.layout,
            "label_base": source.numbering.base,
            # The plan puts "numeric" where that makes a difference.
            "label_order": "code_point" if order == classes.AUTO_ORDER else order,
            "label_from_name": source.numbering.from_name,
            "columns": [
                {"name": c.name, "kind": c.kind.value, "feature": c.feature, "repeated": c.repeated}
                for c in source.columns
                if c.feature
            ],
            "features": dict(self.renames),
            "shuffle": options.engine.shuffle,
            "image_check": options.images.image_check,
            "image_encoding": self.encoding.options.image_encoding if source.pixels else None,
            "clip_boxes": options.images.clip_boxes,
            # With an earlier data set, the plan puts classes that keep its ids, or leaves them out.
            **({"classes": {}} if self.earlier else {}),
            **({"classes": dict(source.numbering.known)} if self.known else {}),
            **format_options(self.record_format),
            **self._recorded_if_given,
            **self.changes.recorded(),
        }

    @property
    def _recorded_if_given(self) -> dict[str, Any]:
        """Options that are recorded only where they are not at their defaults."""
        images, labels, splits = self.options.images, self.options.labels, self.options.splits
        examples = self.source.examples
        colours = examples.mask_colours if isinstance(examples, LabelledImages) else ()
        given = {
            "splits_from": LABEL_FILES if splits.splits == LABEL_FILES else "",
            **self.options.samples.given,
            "split_by": splits.split_by,
            "stratify": splits.stratify,
            "unlabelled": labels.unlabelled if labels.unlabelled in ("keep", "empty") else "",
            "bad_boxes": "drop_image" if images.bad_boxes == "drop_image" else "",
            "filters": images.filters,
            "duplicates": "first" if images.duplicates == "first" else "",
            "one_hot": list(labels.one_hot),
            "labels_encoding": labels.labels_encoding,
            "label_from": labels.label_from,
            "mask_colors": [list(colour) for colour in colours],  # red, green, blue, id
            "encoder": examples.recorded().get("fingerprint", ""),
        }
        return {name: value for name, value in given.items() if value}
