"""Assign splits: joined samples in, the same out in the splits that divide each class.

Counting comes first, so that no worker holds a class:

    samples ─┬─> count by class and first bits of the hash ─> where each class is cut, roughly
             ├─> samples around the cuts ─> the exact boundaries of each class ──┐
             └─> compare with the boundaries of the class <──────────────────────┘

With groups there is one list of all groups and their counts, which one worker holds.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import apache_beam as beam
from apache_beam.pvalue import AsDict, AsIter, AsSingleton, TaggedOutput

from beam_pipeline.core.dataset.splits import (
    Cut,
    GroupBy,
    Rank,
    apportion,
    divide_groups,
    find_boundaries,
    find_cuts,
    rank_of,
    split_behind,
    stratum_of,
)
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.packing import pack, unpack
from beam_pipeline.core.records.sharding import KeyHasher, SplitFractions
from beam_pipeline.core.references import SampleRef
from beam_pipeline.transforms.batches import SampleBatch
from beam_pipeline.work.outcome import TALLY

_Counts = Mapping[str, int]
_Boundaries = Mapping[str, Sequence[Rank]]


class SumCounts(beam.CombineFn):
    """Adds counters of one key, or of all."""

    def create_accumulator(self) -> Counter[object]:
        return Counter()

    def add_input(
        self, accumulator: Counter[object], counts: Mapping[object, int]
    ) -> Counter[object]:
        accumulator.update(counts)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[Counter[object]]) -> Counter[object]:
        total: Counter[object] = Counter()
        for accumulator in accumulators:
            total.update(accumulator)
        return total

    def extract_output(self, accumulator: Counter[object]) -> dict[object, int]:
        return dict(accumulator)


@dataclass(frozen=True)
class Strata:
    """Tells the stratum and the rank of each sample.

    Attributes:
      column: index of the class among the labels.
      seed: of the hash.
    """

    column: int
    seed: int

    def ranked(
        self, samples: Iterable[SampleRef], classes: _Counts
    ) -> Iterator[tuple[SampleRef, str, Rank]]:
        """(sample, stratum, rank) of each sample."""
        hasher = KeyHasher(self.seed)
        for sample in samples:
            stratum = stratum_of(sample.labels[self.column], classes)
            yield sample, stratum, rank_of(sample.key, hasher)

    def histograms(
        self, samples: SampleBatch, classes: _Counts
    ) -> Iterator[tuple[str, Mapping[int, int]]]:
        """(stratum, prefix -> samples)."""
        found: dict[str, Counter[int]] = defaultdict(Counter)
        for _, stratum, rank in self.ranked(samples, classes):
            found[stratum][rank.prefix] += 1
        yield from found.items()

    def candidates(
        self, samples: SampleBatch, classes: _Counts, cuts: Mapping[str, Sequence[Cut]]
    ) -> Iterator[tuple[str, bytes]]:
        """(stratum, packed ranks) of the samples that may be the first behind a cut."""
        prefixes = {stratum: {cut.prefix for cut in found} for stratum, found in cuts.items()}
        near: dict[str, list[Rank]] = defaultdict(list)
        for _, stratum, rank in self.ranked(samples, classes):
            if rank.prefix in prefixes[stratum]:
                near[stratum].append(rank)
        yield from ((stratum, pack(ranks)) for stratum, ranks in near.items())


def _class_counts(samples: SampleBatch, column: int) -> Counter[str]:
    """Class -> samples that have it."""
    lists = (sample.labels[column] for sample in samples)
    return Counter(
        str(name) for names in lists for name in (names if isinstance(names, tuple) else (names,))
    )


def _cuts(
    item: tuple[str, Mapping[int, int]], fractions: SplitFractions, seed: int
) -> tuple[str, Sequence[Cut]]:
    stratum, histogram = item
    counts = apportion(stratum, sum(histogram.values()), fractions, KeyHasher(seed))
    return stratum, find_cuts(histogram, counts)


def _boundaries(
    item: tuple[str, Iterable[bytes]], cuts: Mapping[str, Sequence[Cut]]
) -> tuple[str, Sequence[Rank]]:
    stratum, parts = item
    ranks = itertools.chain.from_iterable(unpack(Rank, part) for part in parts)
    return stratum, find_boundaries(cuts[stratum], ranks)


def _in_splits(samples: Iterable[SampleRef], column: int) -> Iterator[SampleBatch | TaggedOutput]:
    batch, tally = SampleBatch(samples), Tally()
    tally.add_samples(batch, column)
    yield batch
    yield TaggedOutput(TALLY, tally)


class _AssignByBoundaries(beam.DoFn):
    def __init__(self, strata: Strata, fractions: SplitFractions) -> None:
        self._strata = strata
        self._fractions = fractions

    def process(
        self, samples: SampleBatch, classes: _Counts, boundaries: _Boundaries
    ) -> Iterator[SampleBatch | TaggedOutput]:
        yield from _in_splits(
            (
                sample._replace(
                    split=split_behind(boundaries.get(stratum, ()), rank, self._fractions)
                )
                for sample, stratum, rank in self._strata.ranked(samples, classes)
            ),
            self._strata.column,
        )


class _AssignByGroup(beam.DoFn):
    def __init__(self, group_by: GroupBy, column: int) -> None:
        self._group_by = group_by
        self._column = column

    def process(
        self, samples: SampleBatch, splits: Mapping[str, str]
    ) -> Iterator[SampleBatch | TaggedOutput]:
        group_of = self._group_by.group_of
        yield from _in_splits(
            (sample._replace(split=splits[group_of(sample) or ""]) for sample in samples),
            self._column,
        )


def _group_counts(
    samples: SampleBatch, classes: _Counts, group_by: GroupBy, column: int
) -> Iterator[tuple[str, _Counts]]:
    """(group, stratum -> samples)."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for sample in samples:
        stratum = stratum_of(sample.labels[column], classes)
        found[group_by.group_of(sample) or ""][stratum] += 1
    yield from found.items()


def _divided(
    _: None, groups: Iterable[tuple[str, _Counts]], fractions: SplitFractions, seed: int
) -> dict[str, str]:
    return divide_groups(dict(groups), fractions, KeyHasher(seed))


@dataclass(kw_only=True)
class AssignSplits(beam.PTransform):
    """Divides each class among the splits.

    Attributes:
      fractions: the shares of the splits.
      seed: of the hash that orders samples and groups.
      column: index of the class among a sample's labels.
      group_by: what falls to one side together; None for each sample by itself.

    Returns (tagged): main, `SampleBatch`es; "tally", with the samples by split and class.
    """

    fractions: SplitFractions
    seed: int
    column: int
    group_by: GroupBy | None

    def expand(self, samples: beam.PCollection[SampleBatch]) -> beam.pvalue.DoOutputsTuple:
        classes = AsSingleton(
            samples
            | "CountClasses"
            >> beam.Map(_class_counts, self.column).with_output_types(dict[str, int])
            | "SumClasses" >> beam.CombineGlobally(SumCounts())
        )
        if self.group_by:
            return samples | "AssignGroups" >> _with_outputs(
                _AssignByGroup(self.group_by, self.column),
                AsSingleton(self._splits_of_groups(samples, classes, self.group_by)),
            )
        strata = Strata(self.column, self.seed)
        return samples | "AssignSamples" >> _with_outputs(
            _AssignByBoundaries(strata, self.fractions),
            classes,
            AsDict(self._boundaries(samples, classes, strata)),
        )

    def _boundaries(
        self, samples: beam.PCollection[SampleBatch], classes: AsSingleton, strata: Strata
    ) -> beam.PCollection[tuple[str, Sequence[Rank]]]:
        """(class, the rank of the first sample behind each of its cuts)."""
        cuts = AsDict(
            samples
            | "Histograms"
            >> beam.FlatMap(strata.histograms, classes).with_output_types(
                tuple[str, dict[int, int]]
            )
            | "SumHistograms" >> beam.CombinePerKey(SumCounts())
            | "FindCuts"
            >> beam.Map(_cuts, self.fractions, self.seed).with_output_types(tuple[str, list[Cut]])
        )
        return (
            samples
            | "AroundCuts"
            >> beam.FlatMap(strata.candidates, classes, cuts).with_output_types(tuple[str, bytes])
            | "GroupByClass" >> beam.GroupByKey()
            | "FindBoundaries"
            >> beam.Map(_boundaries, cuts).with_output_types(tuple[str, list[Rank]])
        )

    def _splits_of_groups(
        self, samples: beam.PCollection[SampleBatch], classes: AsSingleton, group_by: GroupBy
    ) -> beam.PCollection[dict[str, str]]:
        """The one table of groups and their splits."""
        groups = (
            samples
            | "CountGroups"
            >> beam.FlatMap(_group_counts, classes, group_by, self.column).with_output_types(
                tuple[str, dict[str, int]]
            )
            | "SumGroups" >> beam.CombinePerKey(SumCounts())
        )
        return (
            samples.pipeline
            | "Once" >> beam.Create([None], reshuffle=False)
            | "DivideGroups"
            >> beam.Map(_divided, AsIter(groups), self.fractions, self.seed).with_output_types(
                dict[str, str]
            )
        )


def _with_outputs(assign: beam.DoFn, *sides: beam.pvalue.AsSideInput) -> beam.PTransform:
    return (
        beam.ParDo(assign, *sides)
        .with_output_types(SampleBatch)
        .with_outputs(TALLY, main="samples")
    )
