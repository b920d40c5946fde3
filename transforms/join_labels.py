"""Join labels: images and label rows in, samples out; or images alone, labelled by their folders."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import apache_beam as beam
from apache_beam.pvalue import AsSingleton, TaggedOutput

from beam_pipeline.transforms.batches import (
    DEAD_LETTERS,
    TALLY,
    DeadLetterBatch,
    ImageBatch,
    LabelBatch,
    SampleBatch,
)
from beam_pipeline.transforms.core.dataset.plan import Tally
from beam_pipeline.transforms.core.dataset.splits import SplitAssigner
from beam_pipeline.transforms.core.labels.exclusion import Sorter
from beam_pipeline.transforms.core.labels.join import (
    Joined,
    RowMerger,
    UnnamedImages,
    join_bucket,
    label_by_folder,
    split_duplicates,
)
from beam_pipeline.transforms.core.labels.meeting import BareNames, ByFolder, bucket_of
from beam_pipeline.transforms.core.labels.name_pattern import NamePattern
from beam_pipeline.transforms.core.labels.schema import (
    CLASS_FOLDER_COLUMNS,
    Column,
    class_column,
    file_columns,
)
from beam_pipeline.transforms.core.labels.unlabelled import KeepUnlabelled, is_unlabelled
from beam_pipeline.transforms.core.references import ImageRef, LabelRow, unpack
from beam_pipeline.transforms.pack_parts import PackParts

_BUCKETS = 1024  # of images below several roots

_Item = TypeVar("_Item", ImageRef, LabelRow)


@dataclass(frozen=True, kw_only=True)
class _Outputs:
    """The end of each way to a label: counts joined samples and hands them on.

    Attributes:
      splits: gives each sample its split.
      class_column: index of the class among a sample's labels; None if there is none.
      sorter: leaves out samples; None keeps all.
      keep: makes samples of images without labels; None makes them dead letters.
      files: the indices of the labels that are files.
    """

    splits: SplitAssigner
    class_column: int | None
    sorter: Sorter | None
    keep: KeepUnlabelled | None
    files: Sequence[int] = ()

    def of(self, joined: Joined) -> Iterator[SampleBatch | TaggedOutput]:
        if self.sorter:
            joined.samples, left_out = self.sorter.sort_out(joined.samples)
            joined.dead_letters += left_out
        samples, without_group = self.splits.assign(joined.samples)
        dead_letters = DeadLetterBatch((*joined.dead_letters, *without_group))
        tally = Tally(orphan_rows=joined.orphan_rows, repeated_rows=joined.repeated_rows)
        if not self.splits.stratified:  # else `AssignSplits` counts them in their splits
            tally.add_samples(samples, self.class_column, self.files)
        tally.add_dead_letters(dead_letters)
        if self.keep:
            tally.add_unlabelled([ref.key for ref in samples if is_unlabelled(ref)])
        if samples:
            yield SampleBatch(samples)
        if dead_letters:
            yield TaggedOutput(DEAD_LETTERS, dead_letters)
        yield TaggedOutput(TALLY, tally)


class _LabelByPath(beam.DoFn):
    """Labels images by their folders or names; label files are not needed."""

    def __init__(self, names: NamePattern | None, outputs: _Outputs) -> None:
        self._label = names.label if names else label_by_folder
        self._outputs = outputs

    def process(self, images: ImageBatch) -> Iterator[SampleBatch | TaggedOutput]:
        yield from self._outputs.of(self._label(images, self._outputs.keep))


class _LabelUniqueByPath(_LabelByPath):
    """The same for a bucket of images of several roots, of which two may have one key."""

    def process(self, bucket: tuple[int, Iterable[bytes]]) -> Iterator[SampleBatch | TaggedOutput]:  # type: ignore[override]
        unique, dead_letters = split_duplicates(_unpacked(ImageRef, bucket[1]))
        joined = self._label(unique, self._outputs.keep)
        joined.dead_letters += dead_letters
        yield from self._outputs.of(joined)


class _JoinBucket(beam.DoFn):
    """Joins the images and rows of a bucket."""

    def __init__(self, merger: RowMerger, outputs: _Outputs) -> None:
        self._merger = merger
        self._outputs = outputs

    def process(
        self, bucket: tuple[int, Mapping[str, Iterable[bytes]]]
    ) -> Iterator[SampleBatch | TaggedOutput]:
        images = _unpacked(ImageRef, bucket[1]["images"])
        rows = _unpacked(LabelRow, bucket[1]["rows"])
        yield from self._outputs.of(join_bucket(images, rows, self._merger, self._outputs.keep))


class _PackByBucket(PackParts):
    """(bucket, packed references); an image goes by its key, a row by the name it uses.

    They are packed here since `CoGroupByKey` tags its values and then forgets their coder.
    """

    def __init__(self, buckets: int) -> None:
        self._buckets = buckets

    def process(self, batch: ImageBatch | LabelBatch) -> Iterator[tuple[int, bytes]]:
        numbers = (bucket_of(item[0], self._buckets) for item in batch)
        yield from self.hold(batch, numbers, self._buckets)


class _PackByFolder(PackParts):
    """The same for a table in which names may repeat: by the folder as well, where rows give one."""

    def __init__(self, buckets: int, by_folder: ByFolder) -> None:
        self._buckets = buckets
        self._by_folder = by_folder

    def process(
        self, batch: ImageBatch | LabelBatch, bare: BareNames
    ) -> Iterator[tuple[int, bytes]]:
        bucket = self._by_folder.bucket_of
        numbers = (bucket(item[0], self._buckets, bare) for item in batch)
        yield from self.hold(batch, numbers, self._buckets)


def _bare_names(rows: LabelBatch, by_folder: ByFolder) -> BareNames:
    return by_folder.bare_names(row.name for row in rows)


def _unpacked(item: type[_Item], parts: Iterable[bytes]) -> Iterator[_Item]:
    return itertools.chain.from_iterable(unpack(item, part) for part in parts)


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
        outputs = _Outputs(
            splits=self.splits,
            class_column=class_column(columns),
            sorter=self.sorter,
            keep=self.keep,
        )
        return images | "Label" >> _with_outputs(label(self.names, outputs))


@dataclass(kw_only=True)
class JoinLabels(beam.PTransform):
    """Joins {"images": ImageBatches, "rows": LabelBatches} into samples.

    Attributes:
      splits: gives each sample its split.
      columns: of the rows' values.
      merge_rows: whether rows of one image add up; else they must agree.
      complete: whether rows of one image are files that complete each other.
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
    by_folder: ByFolder | None = None

    def expand(self, inputs: Mapping[str, beam.PCollection]) -> beam.pvalue.DoOutputsTuple:
        pack = self._packing(inputs["rows"])
        by_file_name = {
            "images": inputs["images"] | "ImagesByFileName" >> pack,
            "rows": inputs["rows"] | "RowsByFileName" >> pack,
        }
        repeated = tuple(self.merge_rows and column.repeated for column in self.columns)
        outputs = _Outputs(
            splits=self.splits,
            class_column=class_column(self.columns),
            sorter=self.sorter,
            keep=self.keep,
            files=file_columns(self.columns),
        )
        join = _JoinBucket(RowMerger(repeated, self.unnamed, self.complete), outputs)
        return (
            by_file_name
            | "GroupByFileName" >> beam.CoGroupByKey()
            | "JoinBucket" >> _with_outputs(join)
        )

    def _packing(self, rows: beam.PCollection[LabelBatch]) -> beam.PTransform:
        if not self.by_folder:
            return _pack_by_bucket(self.buckets)
        bare = (
            rows
            | "BareNames" >> beam.Map(_bare_names, self.by_folder).with_output_types(BareNames)
            | "AllBareNames" >> beam.CombineGlobally(BareNames.sum_of).without_defaults()
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
