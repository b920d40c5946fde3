"""Assign splits: joined samples in, the same out in the splits that divide each class.

Counting comes first, so that no worker keeps a class:

    samples ─┬─> count by class and first bits of the hash ─> where each class is cut, roughly
             ├─> samples around the cuts ─> the exact boundaries of each class ──┐
             └─> compare with the boundaries of the class <──────────────────────┘

With groups there is one list of all groups and their counts, which one worker keeps.
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
from beam_pipeline.core.packing import SampleBatch, pack, unpack
from beam_pipeline.core.records.sharding import KeyHasher, SplitFractions
from beam_pipeline.core.references import SampleRef
from beam_pipeline.transforms.in_workers import Sum
from beam_pipeline.work.outcome import TALLY

_Counts = Mapping[str, int]
_Cuts = Mapping[str, Sequence[Cut]]
_Outputs = Iterator[SampleBatch | TaggedOutput]


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
        strata = _Strata(self.fractions, self.seed, self.column)
        classes = AsSingleton(
            samples
            | "CountClasses" >> beam.Map(strata.classes).with_output_types(dict[str, int])
            | "SumClasses" >> beam.CombineGlobally(Sum(Counter, Counter.update))
        )
        if self.group_by:
            groups = _Groups(self.fractions, self.seed, self.column, self.group_by)
            splits = self._splits_of_groups(samples, classes, groups)
            assign = beam.FlatMap(groups.assign_whole, AsSingleton(splits))
        else:
            boundaries = self._boundaries(samples, classes, strata)
            assign = beam.FlatMap(strata.assign, classes, AsDict(boundaries))
        return samples | "Assign" >> assign.with_output_types(SampleBatch).with_outputs(
            TALLY, main="samples"
        )

    def _boundaries(
        self, samples: beam.PCollection[SampleBatch], classes: AsSingleton, strata: _Strata
    ) -> beam.PCollection[tuple[str, Sequence[Rank]]]:
        """(class, the rank of the first sample after each of its cuts)."""
        histograms = beam.FlatMap(strata.histograms, classes)
        cuts = AsDict(
            samples
            | "Histograms" >> histograms.with_output_types(tuple[str, dict[int, int]])
            | "SumHistograms" >> beam.CombinePerKey(Sum(Counter, Counter.update))
            | "FindCuts" >> beam.Map(strata.cuts).with_output_types(tuple[str, list[Cut]])
        )
        candidates = beam.FlatMap(strata.candidates, classes, cuts)
        boundaries = beam.Map(strata.boundaries, cuts)
        return (
            samples
            | "AroundCuts" >> candidates.with_output_types(tuple[str, bytes])
            | "GroupByClass" >> beam.GroupByKey()
            | "FindBoundaries" >> boundaries.with_output_types(tuple[str, list[Rank]])
        )

    def _splits_of_groups(
        self, samples: beam.PCollection[SampleBatch], classes: AsSingleton, groups: _Groups
    ) -> beam.PCollection[dict[str, str]]:
        """The one table of groups and their splits."""
        counts = beam.FlatMap(groups.counts, classes)
        summed = (
            samples
            | "CountGroups" >> counts.with_output_types(tuple[str, dict[str, int]])
            | "SumGroups" >> beam.CombinePerKey(Sum(Counter, Counter.update))
        )
        divided = beam.Map(groups.divide, AsIter(summed))
        return (
            samples.pipeline
            | "Once" >> beam.Create([None], reshuffle=False)
            | "DivideGroups" >> divided.with_output_types(dict[str, str])
        )


@dataclass(frozen=True)
class _Strata:
    """The steps of dividing each class by the ranks of its samples; see `AssignSplits` for the fields."""

    fractions: SplitFractions
    seed: int
    column: int

    def classes(self, samples: SampleBatch) -> Counter[str]:
        """Class -> samples that have it."""
        lists = (sample.labels[self.column] for sample in samples)
        classes = (names if isinstance(names, tuple) else (names,) for names in lists)
        return Counter(map(str, itertools.chain.from_iterable(classes)))

    def histograms(
        self, samples: SampleBatch, classes: _Counts
    ) -> Iterable[tuple[str, Mapping[int, int]]]:
        """(stratum, prefix -> samples)."""
        histograms: dict[str, Counter[int]] = defaultdict(Counter)
        for _, stratum, rank in self._ranked(samples, classes):
            histograms[stratum][rank.prefix] += 1
        return histograms.items()

    def cuts(self, item: tuple[str, Mapping[int, int]]) -> tuple[str, Sequence[Cut]]:
        """(stratum, where it is cut, roughly), of its histogram."""
        stratum, histogram = item
        total = sum(histogram.values())
        counts = apportion(stratum, total, self.fractions, KeyHasher(self.seed))
        return stratum, find_cuts(histogram, counts)

    def candidates(
        self, samples: SampleBatch, classes: _Counts, cuts: _Cuts
    ) -> Iterator[tuple[str, bytes]]:
        """(stratum, packed ranks) of the samples that may be the first after a cut."""
        prefixes = {stratum: {cut.prefix for cut in of} for stratum, of in cuts.items()}
        near: dict[str, list[Rank]] = defaultdict(list)
        for _, stratum, rank in self._ranked(samples, classes):
            if rank.prefix in prefixes[stratum]:
                near[stratum].append(rank)
        yield from ((stratum, pack(ranks)) for stratum, ranks in near.items())

    def boundaries(
        self, item: tuple[str, Iterable[bytes]], cuts: _Cuts
    ) -> tuple[str, Sequence[Rank]]:
        """(stratum, the rank of the first sample after each cut), of the packed candidates."""
        stratum, parts = item
        ranks = itertools.chain.from_iterable(unpack(Rank, part) for part in parts)
        return stratum, find_boundaries(cuts[stratum], ranks)

    def assign(
        self, samples: SampleBatch, classes: _Counts, boundaries: Mapping[str, Sequence[Rank]]
    ) -> _Outputs:
        """The samples in their splits, and their counts."""
        return self._counted(
            sample._replace(split=split_behind(boundaries.get(stratum, ()), rank, self.fractions))
            for sample, stratum, rank in self._ranked(samples, classes)
        )

    def _counted(self, samples: Iterable[SampleRef]) -> _Outputs:
        batch, tally = SampleBatch(samples), Tally()
        tally.add_samples(batch, self.column)
        yield batch
        yield TaggedOutput(TALLY, tally)

    def _ranked(
        self, samples: Iterable[SampleRef], classes: _Counts
    ) -> Iterator[tuple[SampleRef, str, Rank]]:
        """(sample, stratum, rank) of each sample."""
        hasher = KeyHasher(self.seed)
        for sample in samples:
            stratum = stratum_of(sample.labels[self.column], classes)
            yield sample, stratum, rank_of(sample.key, hasher)


@dataclass(frozen=True)
class _Groups(_Strata):
    """The steps of dividing whole groups."""

    group_by: GroupBy

    def counts(self, samples: SampleBatch, classes: _Counts) -> Iterable[tuple[str, _Counts]]:
        """(group, stratum -> samples)."""
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for sample in samples:
            stratum = stratum_of(sample.labels[self.column], classes)
            counts[self.group_by.group_of(sample) or ""][stratum] += 1
        return counts.items()

    def divide(self, _: None, groups: Iterable[tuple[str, _Counts]]) -> dict[str, str]:
        """Group -> split."""
        return divide_groups(dict(groups), self.fractions, KeyHasher(self.seed))

    def assign_whole(self, samples: SampleBatch, splits: Mapping[str, str]) -> _Outputs:
        """The samples in the splits of their groups, and their counts."""
        group_of = self.group_by.group_of
        return self._counted(s._replace(split=splits[group_of(s) or ""]) for s in samples)
