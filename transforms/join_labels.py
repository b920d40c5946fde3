"""Join labels: images and label rows in, samples out; or images alone, labelled by their folders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import apache_beam as beam
from apache_beam.pvalue import AsSingleton

from beam_pipeline.core.dataset.splits import SplitAssigner
from beam_pipeline.core.labels.exclusion import Sorter
from beam_pipeline.core.labels.join import RowMerger, UnnamedImages
from beam_pipeline.core.labels.meeting import (
    BareNames,
    ByFolder,
    FolderDivision,
    NameDivision,
)
from beam_pipeline.core.labels.name_pattern import NamePattern
from beam_pipeline.core.labels.schema import (
    CLASS_FOLDER_COLUMNS,
    Column,
    class_column,
    file_columns,
    is_list_of_classes,
)
from beam_pipeline.core.labels.unlabelled import KeepUnlabelled
from beam_pipeline.transforms.batches import ImageBatch, SampleBatch
from beam_pipeline.transforms.in_workers import (
    Divide,
    InWorkers,
    Step,
    Work,
    task_or_outcome,
)
from beam_pipeline.work.label_task import JoinTask, Labelling, LabelTask
from beam_pipeline.work.outcome import BARE_NAMES, DEAD_LETTERS, TALLY
from beam_pipeline.work.spill import unspill_all

_BUCKETS = 1024  # of images below several roots


@dataclass(frozen=True)
class _LabellingByPath:
    """Labels images by their folders or names; label files are not needed.

    Attributes:
      names: how names say labels; None if folders say the class.
      labelling: what becomes of the images then.
      may_repeat: images come in buckets, as two of several roots may have one key.
    """

    names: NamePattern | None
    labelling: Labelling
    may_repeat: bool

    def __call__(self, images: ImageBatch | tuple[int, Iterable[bytes]]) -> Iterator[Step]:
        packed = [images.packed()] if isinstance(images, ImageBatch) else unspill_all(images[1])
        task = LabelTask(packed, self.names, self.labelling, self.may_repeat)
        yield task_or_outcome(task, sum(map(len, packed)))


@dataclass(frozen=True)
class _Joining:
    """Joins the images and rows of a bucket."""

    merger: RowMerger
    labelling: Labelling

    def __call__(self, bucket: tuple[int, Mapping[str, Iterable[bytes]]]) -> Iterator[Step]:
        images, rows = unspill_all(bucket[1]["images"]), unspill_all(bucket[1]["rows"])
        task = JoinTask(images, rows, self.merger, self.labelling)
        yield task_or_outcome(task, sum(map(len, (*images, *rows))))


def _pack_by_bucket(buckets: int) -> beam.PTransform:
    """(bucket, packed references); an image goes by its key, a row by the name it uses.

    They are packed here since `CoGroupByKey` tags its values and then forgets their coder.
    """
    division = partial(NameDivision, buckets)
    return beam.ParDo(Divide(division)).with_output_types(tuple[int, bytes])


def _folder_division(bare: BareNames, buckets: int, by_folder: ByFolder) -> FolderDivision:
    """For a table in which names may repeat: by the folder as well, where rows give one."""
    return FolderDivision(buckets, by_folder, bare)


@dataclass(kw_only=True)
class LabelByFolder(beam.PTransform):
    """Takes each image's class from its folder, or its labels from its name.

    Attributes:
      splits: gives each sample its split.
      may_repeat: whether two images may have the same key.
      keep: makes samples of images in no class folder; None makes them dead letters.
      names: how names say labels; None if folders say the class.
      sorter: leaves out samples; None keeps all.
      buckets: in how many parts keys that may repeat are compared.

    Returns (tagged): main, `SampleBatch`es; "dead_letters"; "tally".
    """

    splits: SplitAssigner
    may_repeat: bool
    keep: KeepUnlabelled | None = None
    names: NamePattern | None = None
    sorter: Sorter | None = None
    buckets: int = _BUCKETS

    def expand(self, images: beam.PCollection[ImageBatch]) -> beam.pvalue.DoOutputsTuple:
        if self.may_repeat:
            images = (
                images
                | "ByFileName" >> _pack_by_bucket(max(_BUCKETS, self.buckets))
                | "GroupByFileName" >> beam.GroupByKey()
            )
        columns = self.names.columns if self.names else CLASS_FOLDER_COLUMNS
        labelling = Labelling(
            splits=self.splits,
            class_column=class_column(columns),
            sorter=self.sorter,
            keep=self.keep,
        )
        return images | "Label" >> _with_outputs(
            _LabellingByPath(self.names, labelling, self.may_repeat)
        )


@dataclass(kw_only=True)
class JoinLabels(beam.PTransform):
    """Joins {"images": ImageBatches, "rows": LabelBatches} into samples.

    With `by_folder`, "bare_names" are the `BareNames` of the rows.

    Attributes:
      splits: gives each sample its split.
      columns: of the rows' values.
      merge_rows: whether rows of one image add up; else they must agree.
      complete: whether rows of one image are files that complete each other.
      class_by_folder: whether the first column is the class, and is each image's folder.
      unnamed: what images without a row stand for; None to leave them out.
      buckets: in how many parts they are joined.
      by_folder: brings images and rows together by folder as well as by name; None for names alone.
      keep: makes samples of images without a row; None makes them dead letters.
      sorter: leaves out samples; None keeps all.

    Returns (tagged): main, `SampleBatch`es; "dead_letters"; "tally".
    """

    splits: SplitAssigner
    columns: tuple[Column, ...]
    merge_rows: bool
    buckets: int
    keep: KeepUnlabelled | None = None
    sorter: Sorter | None = None
    unnamed: UnnamedImages | None = None
    complete: bool = False
    class_by_folder: bool = False
    by_folder: ByFolder | None = None

    def expand(self, inputs: Mapping[str, beam.PCollection]) -> beam.pvalue.DoOutputsTuple:
        pack = self._packing(inputs.get(BARE_NAMES))
        inputs = {name: inputs[name] for name in ("images", "rows")}
        by_file_name = {
            "images": inputs["images"] | "ImagesByFileName" >> pack,
            "rows": inputs["rows"] | "RowsByFileName" >> pack,
        }
        repeated = tuple(self.merge_rows and column.repeated for column in self.columns)
        labelling = Labelling(
            splits=self.splits,
            class_column=class_column(self.columns),
            sorter=self.sorter,
            keep=self.keep,
            files=file_columns(self.columns),
        )
        unique = tuple(self.merge_rows and is_list_of_classes(column) for column in self.columns)
        merger = RowMerger(repeated, self.unnamed, self.complete, self.class_by_folder, unique)
        return (
            by_file_name
            | "GroupByFileName" >> beam.CoGroupByKey()
            | "JoinBucket" >> _with_outputs(_Joining(merger, labelling))
        )

    def _packing(self, bare_names: beam.PCollection[BareNames] | None) -> beam.PTransform:
        if not self.by_folder:
            return _pack_by_bucket(self.buckets)
        assert bare_names is not None
        bare = (
            bare_names | "AllBareNames" >> beam.CombineGlobally(BareNames.sum_of).without_defaults()
        )
        return beam.ParDo(
            Divide(partial(_folder_division, buckets=self.buckets, by_folder=self.by_folder)),
            AsSingleton(bare, default_value=BareNames()),
        ).with_output_types(tuple[int, bytes])


def _with_outputs(work: Work) -> beam.PTransform:
    return (
        beam.ParDo(InWorkers(work))
        .with_output_types(SampleBatch)
        .with_outputs(DEAD_LETTERS, TALLY, main="samples")
    )
