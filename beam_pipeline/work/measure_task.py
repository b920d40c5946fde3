"""Some samples to measure, as a unit of work for any worker.

Nothing here imports Beam, so that a process that does nothing else starts in a tenth of a second.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from beam_pipeline.core.dataset.tally import Measured, Tally
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.records.sharding import KeyHasher
from beam_pipeline.core.references import SampleRef
from beam_pipeline.storage.read_ahead import ReadOptions
from beam_pipeline.work.encoding import EncodingOptions
from beam_pipeline.work.outcome import Outcome

_FRAMING_BYTES = 16  # of a TFRecord


@dataclass(frozen=True)
class MeasureTask:
    """Samples to encode, to see how large they become.

    Attributes:
      encoding: the encoding of the examples.
      refs: the samples.
      reading: how far it reads ahead.
    """

    encoding: EncodingOptions
    refs: Sequence[SampleRef]
    reading: ReadOptions

    doing = "measuring images"

    def run(self) -> Outcome:
        """Encodes the samples and throws them away; those that would be dead letters are left out."""
        hasher = KeyHasher(self.encoding.seed)
        class_ids = dict.fromkeys(self.encoding.class_names(self.refs), 0)
        measured = []
        with self.encoding.maker(class_ids, self.refs, self.reading) as maker:
            for ref in self.refs:
                started = time.thread_time()
                sample = maker.make(ref)
                if isinstance(sample, DeadLetter):
                    continue
                written = sum(map(len, sample)) + _FRAMING_BYTES
                seconds = time.thread_time() - started
                measured.append(Measured(hasher.order(ref.key), ref.size, written, seconds))
        return Outcome([Tally(measured=measured)])
