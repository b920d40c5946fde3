"""Drops duplicates: samples in, the same out without copies, before their shards are planned.

Only images that can have a copy are looked at, and no worker holds all of them:

    samples -+-> sizes that occur twice or more --.
             +-> of another size --------------------------------------------------.
             `-> of such a size -> digest, listed or read -> group by digest -> kept +-> samples
                                                                             `-> dead letters

In a bucket the listing has each object's MD5. Elsewhere images are read, a second time for those that
are written later.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import apache_beam as beam
from apache_beam.pvalue import AsSingleton

from beam_pipeline.core.dataset.duplicates import CopyFinder, Sizes, range_of
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.labels.unlabelled import is_unlabelled
from beam_pipeline.core.packing import Columns, unpack
from beam_pipeline.core.references import SampleRef
from beam_pipeline.transforms.batches import BATCH_SIZE, DeadLetterBatch, SampleBatch
from beam_pipeline.transforms.in_workers import Divide, InWorkers, Step
from beam_pipeline.work.digest_task import DigestSource, DigestTask
from beam_pipeline.work.outcome import DEAD_LETTERS, TALLY, Outcome
from beam_pipeline.work.spill import unspill_all

_DIGESTED = "digested"  # an output's tag
_DIGEST = SampleRef._fields.index("digest")
_RANGES = 1024
_IMAGES_A_TASK = 256


class SharedSizes(beam.CombineFn):
    """Finds the sizes that several images have."""

    def create_accumulator(self) -> Sizes:
        return Sizes()

    def add_input(self, accumulator: Sizes, samples: SampleBatch) -> Sizes:
        accumulator.add(ref.size for ref in samples)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[Sizes]) -> Sizes:
        total = Sizes()
        for accumulator in accumulators:
            total.merge(accumulator)
        return total

    def extract_output(self, accumulator: Sizes) -> Sizes:
        return accumulator.only_shared()


@dataclass(frozen=True)
class _TakingDigests:
    """Samples that have no copy; tagged, the others with their digests."""

    source: DigestSource

    def __call__(self, samples: SampleBatch, sizes: Sizes) -> Iterator[Step]:
        unique, digested, unread = SampleBatch(), SampleBatch(), []
        for ref in samples:
            if not sizes.is_shared(ref.size):
                unique.append(_without_digest(ref))
            elif ref.digest:
                digested.append(ref)
            elif self.source.is_readable(ref):
                unread.append(ref)
            else:
                unique.append(ref)
        yield _outcome(unique, digested)
        for start in range(0, len(unread), _IMAGES_A_TASK):
            refs = unread[start : start + _IMAGES_A_TASK]
            yield _DigestingTask(DigestTask(refs, self.source.reading, self.source.listed))


@dataclass(frozen=True)
class _DigestingTask:
    """Samples with the digests that a task finds; those that cannot be read have no copy."""

    task: DigestTask

    doing = DigestTask.doing

    def run(self) -> Outcome:
        digests = zip(self.task.refs, self.task.run(), strict=True)
        refs = [ref._replace(digest=digest) for ref, digest in digests]
        return _outcome(
            SampleBatch(ref for ref in refs if not ref.digest),
            SampleBatch(ref for ref in refs if ref.digest),
        )


def _outcome(unique: SampleBatch, digested: SampleBatch) -> Outcome:
    return Outcome([unique] if unique else [], tagged=[(_DIGESTED, digested)] if digested else [])


@dataclass(frozen=True)
class _RangeDivision:
    """Ranges of digests."""

    parts: int

    def numbers(self, columns: Columns) -> Sequence[int]:
        return [range_of(digest, self.parts) for digest in columns[_DIGEST]]


def _without_digest(ref: SampleRef) -> SampleRef:
    return ref._replace(digest=b"") if ref.digest else ref


@dataclass(frozen=True)
class _Dropping:
    """Drops copies within a range of digests, or only counts them."""

    drops: bool
    class_column: int | None
    file_columns: Sequence[int]
    keeps_unlabelled: bool

    def __call__(self, part: tuple[int, Iterable[bytes]]) -> Iterator[Outcome]:
        packed = unspill_all(part[1])
        copies = CopyFinder(lambda: _refs(packed), self.file_columns)
        yield Outcome(tally=Tally(duplicates=copies.duplicates))
        refs = _refs(packed)
        while batch := SampleBatch(itertools.islice(refs, BATCH_SIZE)):
            yield self._outcome(batch, copies)

    def _outcome(self, batch: SampleBatch, copies: CopyFinder) -> Outcome:
        letters = DeadLetterBatch()
        remaining, dropped = SampleBatch(), []
        for ref in batch:
            letter = copies.dead_letter(ref) if self.drops else None
            if letter is None:
                remaining.append(_without_digest(ref))
            else:
                letters.append(letter)
                dropped.append(ref)
        if not letters:
            return Outcome([remaining])
        tally = Tally()
        tally.remove_samples(dropped, self.class_column, self.file_columns)
        if self.keeps_unlabelled:
            tally.unlabelled -= sum(map(is_unlabelled, dropped))
        tally.add_dead_letters(letters)
        return Outcome([remaining] if remaining else [], tally, letters)


def _refs(packed: Iterable[bytes]) -> Iterator[SampleRef]:
    return itertools.chain.from_iterable(unpack(SampleRef, part) for part in packed)


@dataclass(kw_only=True)
class DropDuplicates(beam.PTransform):
    """Drops all but one of the samples whose images have the same bytes, or only counts them.

    Attributes:
      source: where digests come from.
      drops: whether samples are dropped.
      class_column: index of the class among a sample's labels; None if there is none.
      file_columns: the indices of the labels that are files.
      keeps_unlabelled: samples are marked as labelled or not, as `KeepUnlabelled` does.

    Returns (tagged): main, `SampleBatch`es; "dead_letters"; "tally", with the duplicates, and the
      samples that were dropped as negative counts.
    """

    source: DigestSource
    drops: bool
    class_column: int | None
    file_columns: Sequence[int] = ()
    keeps_unlabelled: bool = False

    def expand(self, samples: beam.PCollection[SampleBatch]) -> dict[str, beam.PCollection]:
        sizes = samples | "SharedSizes" >> beam.CombineGlobally(SharedSizes())
        taken = samples | "TakeDigests" >> beam.ParDo(
            InWorkers(_TakingDigests(self.source)), AsSingleton(sizes)
        ).with_output_types(SampleBatch).with_outputs(_DIGESTED, main="unique")
        dropping = _Dropping(
            self.drops, self.class_column, self.file_columns, self.keeps_unlabelled
        )
        compared = (
            taken[_DIGESTED]
            | "Divide"
            >> beam.ParDo(Divide(partial(_RangeDivision, _RANGES))).with_output_types(
                tuple[int, bytes]
            )
            | "GroupByDigest" >> beam.GroupByKey()
            | "Drop"
            >> beam.ParDo(InWorkers(dropping))
            .with_output_types(SampleBatch)
            .with_outputs(DEAD_LETTERS, TALLY, main="samples")
        )
        return {
            "samples": (taken["unique"], compared["samples"]) | beam.Flatten(),
            DEAD_LETTERS: compared[DEAD_LETTERS],
            TALLY: compared[TALLY],
        }
