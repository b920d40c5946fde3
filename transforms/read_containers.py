"""Read containers: files that hold many images with their labels in, samples out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import apache_beam as beam
from apache_beam.pvalue import TaggedOutput

from beam_pipeline.core.dataset.splits import SplitAssigner
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import ContainerError
from beam_pipeline.core.failures import Refusal
from beam_pipeline.core.labels.exclusion import Sorter
from beam_pipeline.core.references import SampleRef
from beam_pipeline.layouts.layout import ContainerLabels, ContainerReader
from beam_pipeline.transforms import counters
from beam_pipeline.transforms.batches import BATCH_SIZE, DeadLetterBatch, SampleBatch
from beam_pipeline.work import progress
from beam_pipeline.work.outcome import DEAD_LETTERS, TALLY


class _ReadContainer(beam.DoFn):
    def __init__(
        self,
        reader: ContainerReader,
        unpack_to: str,
        splits: SplitAssigner,
        class_column: int | None,
        sorter: Sorter | None,
    ) -> None:
        self._reader = reader
        self._unpack_to = unpack_to
        self._splits = splits
        self._class_column = class_column
        self._sorter = sorter

    def process(self, uri: str) -> Iterator[SampleBatch | TaggedOutput]:
        tally = Tally()
        dead_letters = DeadLetterBatch()
        samples: list[SampleRef] = []
        try:
            for item in self._reader.read(uri, self._unpack_to):
                tally.listed += 1
                if isinstance(item, DeadLetter):
                    dead_letters.append(item)
                else:
                    samples.append(item)
                if len(samples) >= BATCH_SIZE:
                    yield self._counted(samples, dead_letters, tally)
                    samples = []
        except ContainerError as error:
            tally.refusals.append(Refusal.from_error(error))
        if samples:
            yield self._counted(samples, dead_letters, tally)
        tally.add_dead_letters(dead_letters)
        counters.count(counters.IMAGES_LISTED, tally.listed)
        progress.listed(tally.listed)
        yield TaggedOutput(DEAD_LETTERS, dead_letters)
        yield TaggedOutput(TALLY, tally)

    def _counted(
        self, samples: list[SampleRef], dead_letters: DeadLetterBatch, tally: Tally
    ) -> SampleBatch:
        if self._sorter:
            samples, left_out = self._sorter.sort_out(samples)
            dead_letters.extend(left_out)
        assigned, without_group = self._splits.assign(samples)
        dead_letters.extend(without_group)
        if not self._splits.stratified:  # else `AssignSplits` counts them in their splits
            tally.add_samples(assigned, self._class_column)
        return SampleBatch(assigned)


@dataclass(kw_only=True)
class ReadContainers(beam.PTransform):
    """Refers to every sample of the containers.

    Attributes:
      labels: the containers, and what reads them.
      unpack_to: a folder that every worker sees, for what has to be unpacked; empty if no image will
        be read.
      splits: gives each sample its split.
      class_column: index of the class among the labels, or None.
      sorter: leaves out samples; None keeps all.

    Returns (tagged): main, `SampleBatch`es; "dead_letters"; "tally".
    """

    labels: ContainerLabels
    unpack_to: str
    splits: SplitAssigner
    class_column: int | None
    sorter: Sorter | None = None

    def expand(self, pipeline: beam.Pipeline) -> beam.pvalue.DoOutputsTuple:
        reader = _ReadContainer(
            reader=self.labels.reader,
            unpack_to=self.unpack_to,
            splits=self.splits,
            class_column=self.class_column,
            sorter=self.sorter,
        )
        return (
            pipeline
            | "Containers" >> beam.Create(self.labels.files)
            | "ReadContainer"
            >> beam.ParDo(reader)
            .with_output_types(SampleBatch)
            .with_outputs(DEAD_LETTERS, TALLY, main="samples")
        )
