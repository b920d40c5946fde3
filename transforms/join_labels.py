"""Join labels: images and label rows in, samples out; or images alone, labelled by their folders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import apache_beam as beam
from apache_beam.pvalue import AsSingleton, TaggedOutput

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
from beam_pipeline.transforms.batches import ImageBatch, LabelBatch, SampleBatch
from beam_pipeline.transforms.pack_parts import DivideElsewhere
from beam_pipeline.transforms.run_elsewhere import RunElsewhere
from beam_pipeline.work.label_task import JoinTask, Labelling, LabelTask
from beam_pipeline.work.outcome import BARE_NAMES, DEAD_LETTERS, TALLY
from beam_pipeline.work.spill import unspill_all

_BUCKETS = 1024  # of images below several roots


class _LabelByPath(RunElsewhere):
    """Labels images by their folders or names; label files are not needed."""

    def __init__(self, names: NamePattern | None, labelling: Labelling) -> None:
        self._names = names
        self._labelling = labelling

    def process(self, images: ImageBatch) -> Iterator[SampleBatch | TaggedOutput]:
        yield from self.label([images.packed()], may_repeat=False)

    def label(
        self, images: Sequence[bytes], *, may_repeat: bool
    ) -> Iterator[SampleBatch | TaggedOutput]:
        """Labels packed images."""
        task = LabelTask(images, self._names, self._labelling, may_repeat)
        yield from self.run(task, sum(map(len, images)))


class _LabelUniqueByPath(_LabelByPath):
    """The same for a bucket of images of several roots, of which two may have one key."""

    def process(self, bucket: tuple[int, Iterable[bytes]]) -> Iterator[SampleBatch | TaggedOutput]:  # type: ignore[override]
        yield from self.label(unspill_all(bucket[1]), may_repeat=True)


class _JoinBucket(RunElsewhere):
    """Joins the images and rows of a bucket."""

    def __init__(self, merger: RowMerger, labelling: Labelling) -> None:
        self._merger = merger
        self._labelling = labelling

    def process(
        self, bucket: tuple[int, Mapping[str, Iterable[bytes]]]
    ) -> Iterator[SampleBatch | TaggedOutput]:
        images, rows = unspill_all(bucket[1]["images"]), unspill_all(bucket[1]["rows"])
        task = JoinTask(images, rows, self._merger, self._labelling)
        yield from self.run(task, sum(map(len, (*images, *rows))))


class _PackByBucket(DivideElsewhere):
    """(bucket, packed references); an image goes by its key, a row by the name it uses.

    They are packed here since `CoGroupByKey` tags its values and then forgets their coder.
    """

    def __init__(self, buckets: int) -> None:
        self._buckets = buckets

    def process(self, batch: ImageBatch | LabelBatch) -> Iterator[tuple[int, bytes]]:
        yield from self.divide(batch, NameDivision(self._buckets))


class _PackByFolder(DivideElsewhere):
    """The same for a table in which names may repeat: by the folder as well, where rows give one."""

    def __init__(self, buckets: int, by_folder: ByFolder) -> None:
        self._buckets = buckets
        self._by_folder = by_folder

    def process(
        self, batch: ImageBatch | LabelBatch, bare: BareNames
    ) -> Iterator[tuple[int, bytes]]:
        yield from self.divide(batch, FolderDivision(self._buckets, self._by_folder, bare))


def _pack_by_bucket(buckets: int) -> beam.PTransform:
    return beam.ParDo(_PackByBucket(buckets)).with_output_types(tuple[int, bytes])


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
        label = _LabelUniqueByPath if self.may_repeat else _LabelByPath
        columns = self.names.columns if self.names else CLASS_FOLDER_COLUMNS
        labelling = Labelling(
            splits=self.splits,
            class_column=class_column(columns),
            sorter=self.sorter,
            keep=self.keep,
        )
        return images | "Label" >> _with_outputs(label(self.names, labelling))


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
        join = _JoinBucket(merger, labelling)
        return (
            by_file_name
            | "GroupByFileName" >> beam.CoGroupByKey()
            | "JoinBucket" >> _with_outputs(join)
        )

    def _packing(self, bare_names: beam.PCollection[BareNames] | None) -> beam.PTransform:
        if not self.by_folder:
            return _pack_by_bucket(self.buckets)
        assert bare_names is not None
        bare = (
            bare_names | "AllBareNames" >> beam.CombineGlobally(BareNames.sum_of).without_defaults()
        )
        return beam.ParDo(
            _PackByFolder(self.buckets, self.by_folder),
            AsSingleton(bare, default_value=BareNames()),
        ).with_output_types(tuple[int, bytes])


def _with_outputs(join: beam.DoFn) -> beam.PTransform:
    return (
        beam.ParDo(join)
        .with_output_types(SampleBatch)
        .with_outputs(DEAD_LETTERS, TALLY, main="samples")
    )
