"""From labelled samples to the plan of shards: copies, splits that divide classes, sizes, and each shard's samples."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsDict, AsIter, AsSingleton, TaggedOutput

from beam_pipeline.core.dataset import changes, duplicates, splits
from beam_pipeline.core.dataset.plan import Plan
from beam_pipeline.core.dataset.splits import Cut, Rank
from beam_pipeline.core.dataset.tally import MOST_MEASURED, Tally, measured_samples
from beam_pipeline.core.labels.samples import is_unlabelled
from beam_pipeline.core.labels.schema import class_column
from beam_pipeline.core.packing import BATCH_SIZE, DeadLetterBatch, SampleBatch, pack, unpack
from beam_pipeline.core.records.sharding import KeyHasher, ShardDivision, SplitFractions
from beam_pipeline.core.references import SampleRef
from beam_pipeline.transforms.in_workers import PARTS, Divide, Group, Step, Sum, stage
from beam_pipeline.transforms.output import after
from beam_pipeline.work import job, planning
from beam_pipeline.work.outcome import DEAD_LETTERS, TALLY, Call, Outcome, step
from beam_pipeline.work.writing import EncodingOptions, WriteRequest, shard_inputs

_SAMPLES_A_TASK = 8


def lowest_samples(parts: Iterable[Any]) -> tuple[int, list[Any]]:
    """The number of samples of some parts, and as many of the lowest (hash, sample) as are measured at most."""
    totals, samples = zip(*parts, strict=True)
    hashed = itertools.chain.from_iterable(samples)
    return sum(totals), heapq.nsmallest(MOST_MEASURED, hashed, key=lambda h: (h[0], h[1].key))


def hashed_samples(batch: SampleBatch, seed: int) -> tuple[int, list[Any]]:
    """A part of `lowest_samples`."""
    hasher = KeyHasher(seed)
    return lowest_samples([(len(batch), [(hasher.order(ref.key), ref) for ref in batch])])


def measured_batches(
    total: int, lowest: Sequence[tuple[bytes, SampleRef]]
) -> Iterator[SampleBatch]:
    """The samples to be measured, in a batch for each task."""
    refs = iter([ref for _, ref in lowest[: measured_samples(total)]])
    while batch := SampleBatch(itertools.islice(refs, _SAMPLES_A_TASK)):
        yield batch


def measure_output(request: WriteRequest) -> beam.PTransform:
    """Encodes the samples with the lowest hashes, for the plan to know how large they become.

    Args:
      request: how samples are read and encoded.

    Returns: `Tally`s with nothing but `measured`, of `SampleBatch`es.
    """
    encoding, reading = request.encoding, request.reading
    measure = stage(
        lambda refs: [Call(planning.measure_images, (encoding, tuple(refs), reading))], Tally
    )
    return (
        "LowestOfBatch" >> beam.Map(hashed_samples, encoding.seed).with_output_types(Any)
        | "Lowest" >> beam.CombineGlobally(lowest_samples).without_defaults()
        | "Parts" >> beam.FlatMapTuple(measured_batches).with_output_types(SampleBatch)
        | beam.Reshuffle()
        | "Measure" >> measure
    )


def plan_shards(
    planner: planning.Planning, prepared: beam.PCollection[str] | None = None
) -> beam.PTransform:
    """Makes the one `Plan` of a run from the tallies of listing, labels and join.

    Args:
      planner: makes it.
      prepared: what `PrepareFolder` returns; None where the launcher has prepared the folder.
    """
    total = "Sum" >> beam.CombineGlobally(Sum(Tally, Tally.add)).without_defaults()
    return after(prepared, total, Tally) | "Plan" >> stage(planner, Plan)


def every_shard(plan: Plan, empty: Any) -> Iterator[tuple[int, Any]]:
    """An empty part of every shard, so that each is written even if no sample falls into it."""
    if not plan.refusal:
        shards = sum(count for _, count in plan.shard_plan.shards)
        yield from ((number, empty) for number in range(shards))


def group_by_shard(parts: beam.PCollection, plan: beam.PCollection[Plan]) -> beam.PCollection:
    """(number of a shard, packed references of it), of each shard of the plan."""
    every = beam.FlatMap(every_shard, pack(())).with_output_types(PARTS)
    return (parts, plan | "EveryShard" >> every) | beam.Flatten() | beam.GroupByKey()


@dataclass(kw_only=True)
class AssignShards(beam.PTransform):
    """Groups samples by shard. Only references are shuffled: no image has been opened yet.

    They stay packed until the shard is written.

    Attributes:
      plan: PCollection of the one `Plan`.
      encoding: has the seed of the hash that places samples.
    """

    plan: beam.PCollection[Plan]
    encoding: EncodingOptions

    def expand(self, samples: beam.PCollection[SampleBatch]) -> beam.PCollection[Group]:
        division = partial(_division, seed=self.encoding.seed, by_image=self.encoding.by_image)
        parts = samples | "Assign" >> stage(Divide(division), PARTS, side=self.plan)
        return group_by_shard(parts, self.plan)


def _division(plan: Plan, seed: int, by_image: bool) -> ShardDivision | None:
    """The division into shards; None where the plan refuses to write."""
    return None if plan.refusal else ShardDivision(plan.shard_plan, seed, by_image)


def preview_changes(plan: beam.PCollection[Plan], request: WriteRequest) -> beam.PTransform:
    """Looks up what each shard would be made of in an earlier data set; no image is opened.

    Args:
      plan: PCollection of the one `Plan`.
      request: how shards would be written; has the data set that they would be taken from.

    Returns: a `ShardFate` for each shard that `AssignShards` makes.
    """
    return stage(partial(_preview, request=request), changes.ShardFate, side=plan)


def _preview(shard: Group, plan: Plan, request: WriteRequest) -> Iterator[Outcome]:
    spec = plan.shard_plan.spec(shard[0])
    inputs = shard_inputs(spec, job.unspill_all(shard[1]), plan.class_ids, request.encoding)
    assert request.earlier
    yield Outcome([request.earlier.look_up(inputs).expected_fate()])


# --- splits that divide each class ----------------------------------------------------------------

_Counts = Mapping[str, int]
_Cuts = Mapping[str, Sequence[Cut]]


@dataclass(kw_only=True)
class AssignSplits(beam.PTransform):
    """Divides each class among the splits.

    Counting comes first, so that no worker keeps a class:

        samples ─┬─> count by class and first bits of the hash ─> where each class is cut, roughly
                 ├─> samples around the cuts ─> the exact boundaries of each class ──┐
                 └─> compare with the boundaries of the class <──────────────────────┘

    With groups there is one list of all groups and their counts, which one worker keeps.

    Attributes:
      splits: the shares of the splits, the seed of the hash that orders samples, and groups.
      column: index of the class among a sample's labels.

    Returns (tagged): main, `SampleBatch`es; "tally", with the samples by split and class.
    """

    splits: splits.SplitAssigner
    column: int

    def expand(self, samples: beam.PCollection[SampleBatch]) -> beam.pvalue.DoOutputsTuple:
        classes = AsSingleton(
            samples
            | "CountClasses" >> beam.Map(self._count_classes).with_output_types(dict[str, int])
            | "SumClasses" >> beam.CombineGlobally(Sum(Counter, Counter.update))
        )
        if self.splits.group_by:
            groups = self._splits_of_groups(samples, classes)
            assign = beam.FlatMap(self._assign_groups, AsSingleton(groups))
        else:
            boundaries = self._boundaries(samples, classes)
            assign = beam.FlatMap(self._assign, classes, AsDict(boundaries))
        typed = assign.with_output_types(SampleBatch)
        return samples | "Assign" >> typed.with_outputs(TALLY, main="samples")

    def _boundaries(
        self, samples: beam.PCollection[SampleBatch], classes: AsSingleton
    ) -> beam.PCollection[tuple[str, Sequence[Rank]]]:
        """(class, the rank of the first sample after each of its cuts)."""
        histograms = beam.FlatMap(self._histograms, classes)
        cuts = AsDict(
            samples
            | "Histograms" >> histograms.with_output_types(tuple[str, dict[int, int]])
            | "SumHistograms" >> beam.CombinePerKey(Sum(Counter, Counter.update))
            | "FindCuts" >> beam.Map(self._cuts).with_output_types(tuple[str, list[Cut]])
        )
        candidates = beam.FlatMap(self._candidates, classes, cuts)
        boundaries = beam.Map(self._find_boundaries, cuts)
        return (
            samples
            | "AroundCuts" >> candidates.with_output_types(tuple[str, bytes])
            | "GroupByClass" >> beam.GroupByKey()
            | "FindBoundaries" >> boundaries.with_output_types(tuple[str, list[Rank]])
        )

    def _splits_of_groups(
        self, samples: beam.PCollection[SampleBatch], classes: AsSingleton
    ) -> beam.PCollection[dict[str, str]]:
        """The one table of groups and their splits."""
        counts = beam.FlatMap(self._count_groups, classes)
        summed = (
            samples
            | "CountGroups" >> counts.with_output_types(tuple[str, dict[str, int]])
            | "SumGroups" >> beam.CombinePerKey(Sum(Counter, Counter.update))
        )
        divided = beam.Map(self._divide, AsIter(summed))
        return (
            samples.pipeline
            | "Once" >> beam.Create([None], reshuffle=False)
            | "DivideGroups" >> divided.with_output_types(dict[str, str])
        )

    @property
    def _fractions(self) -> SplitFractions:
        assert self.splits.fractions
        return self.splits.fractions

    def _count_classes(self, samples: SampleBatch) -> Counter[str]:
        """Class -> samples that have it."""
        lists = (sample.labels[self.column] for sample in samples)
        classes = (names if isinstance(names, tuple) else (names,) for names in lists)
        return Counter(map(str, itertools.chain.from_iterable(classes)))

    def _histograms(
        self, samples: SampleBatch, classes: _Counts
    ) -> Iterable[tuple[str, Mapping[int, int]]]:
        """(stratum, prefix -> samples)."""
        histograms: dict[str, Counter[int]] = defaultdict(Counter)
        for _, stratum, rank in self._ranked(samples, classes):
            histograms[stratum][rank.prefix] += 1
        return histograms.items()

    def _cuts(self, item: tuple[str, Mapping[int, int]]) -> tuple[str, Sequence[Cut]]:
        """(stratum, where it is cut, roughly), of its histogram."""
        stratum, histogram = item
        total, hasher = sum(histogram.values()), KeyHasher(self.splits.seed)
        counts = splits.apportion(stratum, total, self._fractions, hasher)
        return stratum, splits.find_cuts(histogram, counts)

    def _candidates(
        self, samples: SampleBatch, classes: _Counts, cuts: _Cuts
    ) -> Iterator[tuple[str, bytes]]:
        """(stratum, packed ranks) of the samples that may be the first after a cut."""
        prefixes = {stratum: {cut.prefix for cut in of} for stratum, of in cuts.items()}
        near: dict[str, list[Rank]] = defaultdict(list)
        for _, stratum, rank in self._ranked(samples, classes):
            if rank.prefix in prefixes[stratum]:
                near[stratum].append(rank)
        yield from ((stratum, pack(ranks)) for stratum, ranks in near.items())

    def _find_boundaries(
        self, item: tuple[str, Iterable[bytes]], cuts: _Cuts
    ) -> tuple[str, Sequence[Rank]]:
        """(stratum, the rank of the first sample after each cut), of the packed candidates."""
        stratum, parts = item
        ranks = itertools.chain.from_iterable(unpack(Rank, part) for part in parts)
        return stratum, splits.find_boundaries(cuts[stratum], ranks)

    def _assign(
        self, samples: SampleBatch, classes: _Counts, boundaries: Mapping[str, Sequence[Rank]]
    ) -> Iterator[SampleBatch | TaggedOutput]:
        """The samples in their splits, and their counts."""
        ranked, fractions = self._ranked(samples, classes), self._fractions
        return self._counted(
            sample._replace(split=splits.split_behind(boundaries.get(stratum, ()), rank, fractions))
            for sample, stratum, rank in ranked
        )

    def _count_groups(
        self, samples: SampleBatch, classes: _Counts
    ) -> Iterable[tuple[str, _Counts]]:
        """(group, stratum -> samples)."""
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for sample in samples:
            stratum = splits.stratum_of(sample.labels[self.column], classes)
            counts[self._group_of(sample)][stratum] += 1
        return counts.items()

    def _divide(self, _: None, groups: Iterable[tuple[str, _Counts]]) -> dict[str, str]:
        """Group -> split."""
        return splits.divide_groups(dict(groups), self._fractions, KeyHasher(self.splits.seed))

    def _assign_groups(
        self, samples: SampleBatch, of_groups: Mapping[str, str]
    ) -> Iterator[SampleBatch | TaggedOutput]:
        """The samples in the splits of their groups, and their counts."""
        return self._counted(s._replace(split=of_groups[self._group_of(s)]) for s in samples)

    def _group_of(self, sample: SampleRef) -> str:
        assert self.splits.group_by
        return self.splits.group_by.group_of(sample) or ""

    def _counted(self, samples: Iterable[SampleRef]) -> Iterator[SampleBatch | TaggedOutput]:
        batch, tally = SampleBatch(samples), Tally()
        tally.add_samples(batch, self.column)
        yield batch
        yield TaggedOutput(TALLY, tally)

    def _ranked(
        self, samples: Iterable[SampleRef], classes: _Counts
    ) -> Iterator[tuple[SampleRef, str, Rank]]:
        """(sample, stratum, rank) of each sample."""
        hasher = KeyHasher(self.splits.seed)
        for sample in samples:
            stratum = splits.stratum_of(sample.labels[self.column], classes)
            yield sample, stratum, splits.rank_of(sample.key, hasher)


# --- images of the same bytes ---------------------------------------------------------------------

_LEAST_RANGES = 1024
_IMAGES_A_TASK = 256


@dataclass(kw_only=True)
class DropDuplicates(beam.PTransform):
    """Drops all but one of the samples whose images have the same bytes, or only counts them.

    Only images that can have a copy are looked at, and no worker keeps all of them:

        samples -+-> sizes that occur twice or more --.
                 +-> of another size ------------------------------------------------------.
                 `-> of such a size -> digest, listed or read -> group by digest -> first -+-> samples
                                                                                `-> dead letters

    In a bucket the listing has each object's MD5. Elsewhere images are read, a second time for those that
    are written later.

    Attributes:
      search: where digests come from, and whether samples are dropped.
      request: how samples are read and encoded.
      keeps_unlabelled: samples are marked as labelled or not, as `KeepUnlabelled` does.

    Returns (tagged): main, `SampleBatch`es; "dead_letters"; "tally", with the duplicates, and the
      samples that were dropped as negative counts.
    """

    search: planning.DuplicateSearch
    request: WriteRequest
    keeps_unlabelled: bool = False

    def expand(self, samples: beam.PCollection[SampleBatch]) -> dict[str, beam.PCollection]:
        sizes = (
            samples
            | "Sizes" >> beam.Map(_sizes)
            | "SumSizes" >> beam.CombineGlobally(Sum(duplicates.Sizes, duplicates.Sizes.merge))
            | "SharedSizes" >> beam.Map(duplicates.Sizes.only_shared)
        )
        digesting = partial(_with_digests, search=self.search, request=self.request)
        taken = samples | "TakeDigests" >> stage(
            digesting, SampleBatch, planning.DIGESTED, side=sizes
        )
        dropping = partial(
            _drop,
            encoding=self.request.encoding,
            drops=self.search.drops,
            keeps_unlabelled=self.keeps_unlabelled,
        )
        compared = (
            taken[planning.DIGESTED]
            | "Divide" >> stage(Divide(_ranges), PARTS, side=sizes)
            | "GroupByDigest" >> beam.GroupByKey()
            | "Drop" >> stage(dropping, SampleBatch, DEAD_LETTERS, TALLY)
        )
        return {
            "samples": (taken["main"], compared["main"]) | beam.Flatten(),
            DEAD_LETTERS: compared[DEAD_LETTERS],
            TALLY: compared[TALLY],
        }


def _sizes(samples: SampleBatch) -> duplicates.Sizes:
    sizes = duplicates.Sizes()
    sizes.add([ref.size for ref in samples])
    return sizes


def _ranges(sizes: duplicates.Sizes) -> planning.RangeDivision:
    """The ranges of digests that are compared: by their number, no worker has too many images."""
    return planning.RangeDivision(max(_LEAST_RANGES, duplicates.range_count(sizes.images)))


def _with_digests(
    samples: SampleBatch,
    sizes: duplicates.Sizes,
    search: planning.DuplicateSearch,
    request: WriteRequest,
) -> Iterator[Step]:
    """Samples without copies; tagged, the others with their digests."""
    unique, digested, unread = SampleBatch(), SampleBatch(), []
    for ref in samples:
        if not sizes.is_shared(ref.size):
            unique.append(_without_digest(ref))
        elif ref.digest:
            digested.append(ref)
        elif search.reads and planning.is_readable(ref, request.encoding):
            unread.append(ref)
        else:
            unique.append(ref)
    yield planning.digest_outcome(unique, digested)
    for start in range(0, len(unread), _IMAGES_A_TASK):
        refs = unread[start : start + _IMAGES_A_TASK]
        yield Call(planning.with_digests, (refs, request.reading, search.listed))


def _without_digest(ref: SampleRef) -> SampleRef:
    return ref._replace(digest=b"") if ref.digest else ref


def _drop(
    part: Group, encoding: EncodingOptions, drops: bool, keeps_unlabelled: bool
) -> Iterator[Outcome]:
    """Drops copies within a range of digests, or only counts them."""
    packed, examples = job.unspill_all(part[1]), encoding.examples
    hashes = duplicates.LabelHashes(examples.file_columns, rows=examples.rows)
    copies = duplicates.CopyFinder(lambda: _refs(packed), hashes)
    yield Outcome(tally=Tally(duplicates=copies.duplicates))
    refs = _refs(packed)
    while batch := SampleBatch(itertools.islice(refs, BATCH_SIZE)):
        letters, remaining, dropped = DeadLetterBatch(), SampleBatch(), []
        for ref in batch:
            letter = copies.dead_letter(ref) if drops else None
            if letter is None:
                remaining.append(_without_digest(ref))
            else:
                letters.append(letter)
                dropped.append(ref)
        tally, removed = Tally(), Tally()
        removed.add_samples(dropped, class_column(encoding.columns), examples.file_columns)
        tally.remove_samples(removed)
        if keeps_unlabelled:
            tally.unlabelled -= sum(map(is_unlabelled, dropped))
        tally.add_dead_letters(letters)
        yield Outcome([remaining] if remaining else [], tally if letters else None, letters)


def _refs(packed: Iterable[bytes]) -> Iterator[SampleRef]:
    return itertools.chain.from_iterable(unpack(SampleRef, part) for part in packed)


def find_duplicates() -> beam.PTransform:
    """Compares images, given as (range of digests, packed `WrittenImage`s).

    A range contains some 260,000 images, whatever the size of the data set.

    Returns: a `Duplicates` for each range.
    """
    return "GroupByDigest" >> beam.GroupByKey() | "Compare" >> stage(
        _compare, duplicates.Duplicates
    )


def _compare(part: Group) -> Iterator[Step]:
    """Finds the duplicates in a range of digests."""
    parts = list(part[1])
    yield step(sum(map(len, parts)), planning.compare_images, parts)
