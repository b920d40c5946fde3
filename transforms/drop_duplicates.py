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
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsSingleton, TaggedOutput

from beam_pipeline.core.dataset.duplicates import CopyFinder, Sizes, range_of
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.labels.unlabelled import is_unlabelled
from beam_pipeline.core.packing import unpack
from beam_pipeline.core.references import SampleRef
from beam_pipeline.transforms.batches import BATCH_SIZE, DeadLetterBatch, SampleBatch
from beam_pipeline.transforms.pack_parts import PackParts
from beam_pipeline.transforms.windowed import windowed
from beam_pipeline.work import writer_process
from beam_pipeline.work.digest_task import DigestSource, DigestTask
from beam_pipeline.work.outcome import DEAD_LETTERS, TALLY

_DIGESTED = "digested"  # an output's tag
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


class _TakeDigests(PackParts):
    """Yields samples that have no copy; tags (range of digests, packed samples) of the others."""

    def __init__(self, source: DigestSource) -> None:
        self._source = source

    def start_bundle(self) -> None:
        super().start_bundle()
        self._tasks: writer_process.Tasks[list[bytes]] = writer_process.Tasks()
        self._reading: deque[Sequence[SampleRef]] = deque()

    def process(self, samples: SampleBatch, sizes: Sizes) -> Iterator[SampleBatch | TaggedOutput]:
        unique, digested, unread = SampleBatch(), [], []
        for ref in samples:
            if not sizes.is_shared(ref.size):
                unique.append(_without_digest(ref))
            elif ref.digest:
                digested.append(ref)
            elif self._source.is_readable(ref):
                unread.append(ref)
            else:
                unique.append(ref)
        if unique:
            yield unique
        yield from self._tagged(digested)
        for start in range(0, len(unread), _IMAGES_A_TASK):
            refs = unread[start : start + _IMAGES_A_TASK]
            self._reading.append(refs)
            task = DigestTask(refs, self._source.reading, self._source.listed)
            for result in self._tasks.submit(task):
                yield from self._digested(self._reading.popleft(), result)

    def finish_bundle(self) -> Iterator[Any]:
        for result in self._tasks.rest():
            yield from map(windowed, self._digested(self._reading.popleft(), result))
        for part in self._packed():
            yield windowed(TaggedOutput(_DIGESTED, part))

    def _digested(
        self, refs: Sequence[SampleRef], result: Callable[[], list[bytes]]
    ) -> Iterator[SampleBatch | TaggedOutput]:
        found = [ref._replace(digest=digest) for ref, digest in zip(refs, result(), strict=True)]
        unreadable = SampleBatch(ref for ref in found if not ref.digest)
        if unreadable:
            yield unreadable
        yield from self._tagged([ref for ref in found if ref.digest])

    def _tagged(self, refs: Sequence[SampleRef]) -> Iterator[TaggedOutput]:
        ranges = [range_of(ref.digest, _RANGES) for ref in refs]
        for part in self.hold(refs, ranges, _RANGES):
            yield TaggedOutput(_DIGESTED, part)


def _without_digest(ref: SampleRef) -> SampleRef:
    return ref._replace(digest=b"") if ref.digest else ref


class _Settle(beam.DoFn):
    """Drops copies within a range of digests, or only counts them."""

    def __init__(
        self,
        drops: bool,
        class_column: int | None,
        file_columns: Sequence[int],
        keeps_unlabelled: bool,
    ) -> None:
        self._drops = drops
        self._class_column = class_column
        self._file_columns = file_columns
        self._keeps_unlabelled = keeps_unlabelled

    def process(self, part: tuple[int, Iterable[bytes]]) -> Iterator[SampleBatch | TaggedOutput]:
        copies = CopyFinder(lambda: _refs(part[1]), self._file_columns)
        yield TaggedOutput(TALLY, Tally(duplicates=copies.duplicates))
        refs = _refs(part[1])
        while batch := SampleBatch(itertools.islice(refs, BATCH_SIZE)):
            yield from self._batch(batch, copies)

    def _batch(
        self, batch: SampleBatch, copies: CopyFinder
    ) -> Iterator[SampleBatch | TaggedOutput]:
        letters = DeadLetterBatch()
        kept, dropped = SampleBatch(), []
        for ref in batch:
            letter = copies.dead_letter(ref) if self._drops else None
            if letter is None:
                kept.append(_without_digest(ref))
            else:
                letters.append(letter)
                dropped.append(ref)
        if kept:
            yield kept
        if letters:
            tally = Tally()
            tally.remove_samples(dropped, self._class_column, self._file_columns)
            if self._keeps_unlabelled:
                tally.unlabelled -= sum(map(is_unlabelled, dropped))
            tally.add_dead_letters(letters)
            yield TaggedOutput(TALLY, tally)
            yield TaggedOutput(DEAD_LETTERS, letters)


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
            _TakeDigests(self.source), AsSingleton(sizes)
        ).with_output_types(SampleBatch).with_outputs(_DIGESTED, main="unique")
        settle = _Settle(self.drops, self.class_column, self.file_columns, self.keeps_unlabelled)
        settled = (
            taken[_DIGESTED]
            | "GroupByDigest" >> beam.GroupByKey()
            | "Settle"
            >> beam.ParDo(settle)
            .with_output_types(SampleBatch)
            .with_outputs(DEAD_LETTERS, TALLY, main="kept")
        )
        return {
            "samples": (taken["unique"], settled["kept"]) | beam.Flatten(),
            DEAD_LETTERS: settled[DEAD_LETTERS],
            TALLY: settled[TALLY],
        }
