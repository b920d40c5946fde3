"""The two ends of what writes a data set: its folder is prepared before, its results come out after."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam import coders
from apache_beam.pvalue import AsSingleton

from beam_pipeline.core import errors, packing, uris
from beam_pipeline.core.dead_letters import Stage
from beam_pipeline.core.records.sharding import ShardInfo
from beam_pipeline.storage import files
from beam_pipeline.work import output_folder, writing


@dataclass(kw_only=True)
class PrepareFolder(beam.PTransform):
    """Prepares an output folder when the pipeline runs, like a launcher before.

    Attributes:
      request: the folder, whether an earlier run there is continued, and how an error is worded.
      run: the values that a run must share with an earlier one to keep its shards; features of None are
        compared shard by shard, once they are known.
      overwrite: replace the data set of an earlier run.
      open_options: options that the plan settles later.

    Returns: PCollection of the folder, for what has to wait.
    """

    request: writing.WriteRequest
    run: Mapping[str, Any]
    overwrite: bool
    open_options: Sequence[str] = ()

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection[str]:
        once = pipeline | "Once" >> beam.Create([self.request.folder], reshuffle=False)
        return once | "Prepare" >> beam.Map(self._prepare).with_output_types(str)

    def _prepare(self, folder: str) -> str:
        try:
            if not uris.is_remote(folder):
                os.makedirs(folder, exist_ok=True)
            if not self.request.resume:
                output_folder.prepare_output(folder, self.overwrite)
                return folder
            run = self.run
            if run["features"] is None:
                earlier = output_folder.read_earlier(folder)
                run = {**run, "features": earlier.run["features"] if earlier else {}}
            output_folder.prepare_resume(folder, run, self.open_options)
        except errors.ConversionError as error:
            raise self.request.failures.reworded(error) from error
        return folder


def after(
    prepared: beam.PCollection[str] | None, elements: beam.PTransform, kind: type
) -> beam.PTransform:
    """The elements of a stage, once the folder is prepared; `prepared` is None where that was done before."""
    if prepared is None:
        return elements
    wait = beam.Map(lambda element, _: element, AsSingleton(prepared))
    return elements | "AfterPrepare" >> wait.with_output_types(kind)


class Shard(NamedTuple):
    """A shard that was written.

    Attributes:
      path: of its file.
      split: the split it belongs to.
      examples: records in it.
      bytes: length of the file.
      crc32c: CRC-32C of the file.
    """

    path: str
    split: str
    examples: int
    bytes: int
    crc32c: int

    @classmethod
    def of(cls, info: ShardInfo, folder: str) -> Shard:
        """The public form of the figures of a shard."""
        path = files.join(folder, info.file_name)
        return cls(path, info.split, info.examples, info.bytes, info.crc32c)


class BadSample(NamedTuple):
    """A sample that was left out.

    Attributes:
      key: what identifies it; empty if nothing does.
      reason: a short name, as in `dead_letters.jsonl`.
      message: what was found and what was expected.
      uri: where the image is; empty for a label row without one.
      file: the label file that tells what is wrong; empty for an image.
      line: the line in that file, from 1, or 0.
      stage: of the conversion, as in `dead_letters.jsonl`.
    """

    key: str
    reason: str
    message: str
    uri: str = ""
    file: str = ""
    line: int = 0
    stage: str = Stage.CHECK.value


class CommittedDataset(NamedTuple):
    """A data set that is complete.

    Attributes:
      manifest: the path of its manifest.
      examples: in all of its shards.
      bytes: of all shards.
      shards: how many there are.
      bad: samples that were left out.
    """

    manifest: str
    examples: int
    bytes: int
    shards: int
    bad: int


for _row in (Shard, BadSample, CommittedDataset):
    coders.registry.register_coder(_row, coders.RowCoder)


class WriteResult(NamedTuple):
    """What a transform has written.

    Attributes:
      shards: PCollection of `Shard`.
      bad: PCollection of `BadSample`.
      manifest: PCollection of the one `CommittedDataset`, for steps that follow the commit.
    """

    shards: beam.PCollection[Shard]
    bad: beam.PCollection[BadSample]
    manifest: beam.PCollection[CommittedDataset]

    @classmethod
    def of(
        cls,
        folder: str,
        shards: beam.PCollection[ShardInfo],
        dead_letters: beam.PCollection[packing.DeadLetterBatch],
        committed: beam.PCollection[CommittedDataset],
    ) -> WriteResult:
        """The result of the stages that wrote to a folder."""
        return cls(
            shards | "Shards" >> beam.Map(Shard.of, folder).with_output_types(Shard),
            dead_letters | "Bad" >> public_bad(),
            committed,
        )


def bad_samples(letters: packing.DeadLetterBatch) -> Iterator[BadSample]:
    """The public form of dead letters."""
    for stage, key, uri, reason, message, file, line in letters:
        yield BadSample(key, reason, message, uri, file, line, stage)


def public_bad() -> beam.PTransform:
    """The public form of batches of dead letters."""
    return beam.FlatMap(bad_samples).with_output_types(BadSample)
