"""Read containers: files that hold many images with their labels in, samples out."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import apache_beam as beam

from beam_pipeline.core.dataset.splits import SplitAssigner
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import ContainerError
from beam_pipeline.core.failures import Refusal
from beam_pipeline.core.labels.exclusion import Sorter
from beam_pipeline.core.labels.join import Joined
from beam_pipeline.core.references import SampleRef
from beam_pipeline.layouts.layout import ContainerLabels, ContainerReader
from beam_pipeline.transforms.batches import BATCH_SIZE, SampleBatch
from beam_pipeline.transforms.in_workers import InWorkers
from beam_pipeline.work.label_task import Labelling
from beam_pipeline.work.outcome import DEAD_LETTERS, TALLY, Outcome


@dataclass(frozen=True)
class _Reading:
    reader: ContainerReader
    unpack_to: str
    labelling: Labelling

    def __call__(self, uri: str) -> Iterator[Outcome]:
        refused: list[Refusal] = []
        items = self._items(uri, refused)
        while batch := list(itertools.islice(items, BATCH_SIZE)):
            joined = Joined()
            for item in batch:
                if isinstance(item, DeadLetter):
                    joined.dead_letters.append(item)
                else:
                    joined.samples.append(item)
            outcome = self.labelling.of(joined)
            assert outcome.tally
            outcome.tally.listed = len(batch)
            yield outcome
        if refused:
            yield Outcome(tally=Tally(refusals=refused))

    def _items(self, uri: str, refused: list[Refusal]) -> Iterator[SampleRef | DeadLetter]:
        try:
            yield from self.reader.read(uri, self.unpack_to)
        except ContainerError as error:
            refused.append(Refusal.from_error(error))


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
      raises: raise what cannot be read; False where `PlanShards` collects it from the tallies.

    Returns (tagged): main, `SampleBatch`es; "dead_letters"; "tally".
    """

    labels: ContainerLabels
    unpack_to: str
    splits: SplitAssigner
    class_column: int | None
    sorter: Sorter | None = None
    raises: bool = True

    def expand(self, pipeline: beam.Pipeline) -> beam.pvalue.DoOutputsTuple:
        labelling = Labelling(
            splits=self.splits, class_column=self.class_column, sorter=self.sorter, keep=None
        )
        reading = _Reading(self.labels.reader, self.unpack_to, labelling)
        return (
            pipeline
            | "Containers" >> beam.Create(self.labels.files)
            | "ReadContainer"
            >> beam.ParDo(InWorkers(reading, raises=self.raises))
            .with_output_types(SampleBatch)
            .with_outputs(DEAD_LETTERS, TALLY, main="samples")
        )
