"""Finds images of the same bytes: drops copies before shards are planned, or counts those that were written.

Before, only images that can have a copy are looked at, and no worker keeps all of them:

    samples -+-> sizes that occur twice or more --.
             +-> of another size ------------------------------------------------------.
             `-> of such a size -> digest, listed or read -> group by digest -> first -+-> samples
                                                                            `-> dead letters

In a bucket the listing has each object's MD5. Elsewhere images are read, a second time for those that
are written later.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import apache_beam as beam
from apache_beam.pvalue import AsSingleton

from beam_pipeline.core.dataset.duplicates import (
    CopyFinder,
    Duplicates,
    LabelHashes,
    Sizes,
    range_count,
)
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.labels.samples import is_unlabelled
from beam_pipeline.core.packing import BATCH_SIZE, DeadLetterBatch, SampleBatch, unpack
from beam_pipeline.core.references import SampleRef
from beam_pipeline.transforms.in_workers import Divide, InWorkers, Step, Sum
from beam_pipeline.work.outcome import DEAD_LETTERS, TALLY, Call, Outcome, step
from beam_pipeline.work.planning import (
    DIGESTED,
    DigestSource,
    RangeDivision,
    compare_images,
    digest_outcome,
    with_digests,
)
from beam_pipeline.work.spill import unspill_all

_LEAST_RANGES = 1024
_IMAGES_A_TASK = 256


def _sizes(samples: SampleBatch) -> Sizes:
    sizes = Sizes()
    sizes.add([ref.size for ref in samples])
    return sizes


@dataclass(frozen=True)
class _TakingDigests:
    """Samples without copies; tagged, the others with their digests."""

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
        yield digest_outcome(unique, digested)
        for start in range(0, len(unread), _IMAGES_A_TASK):
            refs = unread[start : start + _IMAGES_A_TASK]
            yield Call(with_digests, (refs, self.source.reading, self.source.listed))


def _without_digest(ref: SampleRef) -> SampleRef:
    return ref._replace(digest=b"") if ref.digest else ref


@dataclass(frozen=True)
class _Dropping:
    """Drops copies within a range of digests, or only counts them."""

    drops: bool
    class_column: int | None
    file_columns: Sequence[int]
    keeps_unlabelled: bool
    rows: bool

    def __call__(self, part: tuple[int, Iterable[bytes]]) -> Iterator[Outcome]:
        packed = unspill_all(part[1])
        hashes = LabelHashes(self.file_columns, rows=self.rows)
        copies = CopyFinder(lambda: _refs(packed), hashes)
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


def _ranges(sizes: Sizes) -> RangeDivision:
    """The ranges of digests that are compared: by their number, no worker has too many images."""
    return RangeDivision(max(_LEAST_RANGES, range_count(sizes.images)))


@dataclass(kw_only=True)
class DropDuplicates(beam.PTransform):
    """Drops all but one of the samples whose images have the same bytes, or only counts them.

    Attributes:
      source: where digests come from.
      drops: whether samples are dropped.
      class_column: index of the class among a sample's labels, or None.
      file_columns: the indices of the labels that are files.
      keeps_unlabelled: samples are marked as labelled or not, as `KeepUnlabelled` does.
      rows: samples are rows or objects of images; those of a copy are dropped together.

    Returns (tagged): main, `SampleBatch`es; "dead_letters"; "tally", with the duplicates, and the
      samples that were dropped as negative counts.
    """

    source: DigestSource
    drops: bool
    class_column: int | None
    file_columns: Sequence[int] = ()
    keeps_unlabelled: bool = False
    rows: bool = False

    def expand(self, samples: beam.PCollection[SampleBatch]) -> dict[str, beam.PCollection]:
        sizes = (
            samples
            | "Sizes" >> beam.Map(_sizes)
            | "SumSizes" >> beam.CombineGlobally(Sum(Sizes, Sizes.merge))
            | "SharedSizes" >> beam.Map(Sizes.only_shared)
        )
        taken = samples | "TakeDigests" >> beam.ParDo(
            InWorkers(_TakingDigests(self.source)), AsSingleton(sizes)
        ).with_output_types(SampleBatch).with_outputs(DIGESTED, main="unique")
        dropping = _Dropping(
            self.drops, self.class_column, self.file_columns, self.keeps_unlabelled, self.rows
        )
        compared = (
            taken[DIGESTED]
            | "Divide"
            >> beam.ParDo(Divide(_ranges), AsSingleton(sizes)).with_output_types(tuple[int, bytes])
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


def _compare(part: tuple[int, Iterable[bytes]]) -> Iterator[Step]:
    """Finds the duplicates in a range of digests."""
    parts = list(part[1])
    yield step(sum(map(len, parts)), compare_images, parts)


@dataclass(kw_only=True)
class FindDuplicates(beam.PTransform):
    """Compares images, given as (range of digests, packed `WrittenImage`s).

    A range contains some 260,000 images, whatever the size of the data set.

    Returns: a `Duplicates` for each range.
    """

    def expand(self, images: beam.PCollection[tuple[int, bytes]]) -> beam.PCollection[Duplicates]:
        return (
            images
            | "GroupByDigest" >> beam.GroupByKey()
            | "Compare" >> beam.ParDo(InWorkers(_compare)).with_output_types(Duplicates)
        )
