"""Writes a data set from its samples and its plan: shards, the files beside them and, last, the manifest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import apache_beam as beam

from beam_pipeline.core.dataset.plan import Plan
from beam_pipeline.core.packing import DeadLetterBatch, SampleBatch
from beam_pipeline.core.records.sharding import ShardInfo
from beam_pipeline.transforms.duplicates import FindDuplicates
from beam_pipeline.transforms.finishing import FinishDataset
from beam_pipeline.transforms.output import CommittedDataset
from beam_pipeline.transforms.planning import AssignShards
from beam_pipeline.transforms.writing import IMAGES, WriteRecords, WriteShards
from beam_pipeline.work.finishing import DatasetFinisher
from beam_pipeline.work.outcome import CHANGES, COMPARED, DEAD_LETTERS, REFUSALS
from beam_pipeline.work.writing import WriteRequest


class Written(NamedTuple):
    """What others may follow; `WriteResult.of` makes its public form.

    Attributes:
      shards: PCollection of `ShardInfo`.
      dead_letters: PCollection of `DeadLetterBatch`, of all stages.
      committed: PCollection of the one `CommittedDataset`.
    """

    shards: beam.PCollection[ShardInfo]
    dead_letters: beam.PCollection[DeadLetterBatch]
    committed: beam.PCollection[CommittedDataset]


@dataclass(kw_only=True)
class WriteDataset(beam.PTransform):
    """Writes planned samples: PCollection of `SampleBatch` -> `Written`.

    Attributes:
      plan: PCollection of the one `Plan`.
      dead_letters: PCollections of `DeadLetterBatch`, of the stages before.
      request: how shards are written.
      finisher: writes the files beside them.
      assign: groups samples by shard; None for `AssignShards`.
      by_records: shuffle encoded records, not references.
      compares: look for images of the same bytes.
    """

    plan: beam.PCollection[Plan]
    dead_letters: Sequence[beam.PCollection[DeadLetterBatch]]
    request: WriteRequest
    finisher: DatasetFinisher
    assign: beam.PTransform | None = None
    by_records: bool = False
    compares: bool = True

    def expand(self, samples: beam.PCollection[SampleBatch]) -> Written:
        plan, request = self.plan, self.request
        seed, by_image = request.encoding.seed, request.encoding.by_image
        if self.by_records:
            written = samples | "WriteRecords" >> WriteRecords(plan=plan, request=request)
        else:
            written = (
                samples
                | "AssignShards"
                >> (self.assign or AssignShards(plan=plan, seed=seed, by_image=by_image))
                | "WriteShards" >> WriteShards(plan=plan, request=request, raises=False)
            )
        dead = (*self.dead_letters, written[DEAD_LETTERS]) | "AllDeadLetters" >> beam.Flatten()
        committed = plan | "FinishDataset" >> FinishDataset(
            shards=written["shards"],
            dead_letters=dead,
            refusals=written[REFUSALS],
            finisher=self.finisher,
            images=written[IMAGES] if self.by_records else None,
            changes=written[CHANGES] if request.earlier else None,
            duplicates=written[COMPARED] | "FindDuplicates" >> FindDuplicates()
            if self.compares
            else None,
        )
        return Written(written["shards"], dead, committed)
