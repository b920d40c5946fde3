"""Plans a run: compares and measures images, makes the plan and notes it, as work for any worker.

Nothing here imports Beam, so that a process that does nothing else starts in a tenth of a second.
"""

from __future__ import annotations

import dataclasses
import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from beam_pipeline.core import errors, packing
from beam_pipeline.core.dataset import changes, duplicates, estimate, manifest
from beam_pipeline.core.dataset.plan import (
    NOTHING_KEPT,
    Plan,
    PlanRequest,
    make_plan,
    other_shards,
    too_many_bad,
)
from beam_pipeline.core.dataset.tally import Measured, Tally
from beam_pipeline.core.images.preparation import digest_of, outside_bytes
from beam_pipeline.core.records import shard_writer, sharding
from beam_pipeline.core.records.feature_values import FeatureSchema
from beam_pipeline.core.references import SampleRef
from beam_pipeline.storage import files
from beam_pipeline.storage.read_ahead import ReadOptions, Request, read_ahead, usual_reading
from beam_pipeline.work import job, output_folder, writer_process, writing
from beam_pipeline.work.outcome import BYTES_PLANNED, DEAD_LETTERS, SAMPLES_PLANNED, Outcome
from beam_pipeline.work.output_folder import check_unwritten, read_earlier

_DIGEST = SampleRef._fields.index("digest")
_RECORD_BYTES = 32  # of a TFRecord's framing, and of the digest in its shard's receipt


class DuplicateSearch(NamedTuple):
    """The way in which images of the same bytes are looked for before shards are planned.

    Attributes:
      listed: the listing may have MD5s, so that all digests are MD5s.
      reads: images are read whose digest is not listed; else they are taken for unique.
      drops: all but one of the same bytes are dropped; else they are only counted.
    """

    listed: bool
    reads: bool
    drops: bool


def is_readable(ref: SampleRef, encoding: writing.EncodingOptions) -> bool:
    """True if an image would be read when its shard is written."""
    filters = encoding.options.filters
    left_out = filters and outside_bytes(ref.size, filters)
    return bool(ref.uri and not left_out and ref.size <= encoding.examples.max_bytes)


DIGESTED = "digested"
"""The tag of samples with their digests."""


def with_digests(
    refs: Sequence[SampleRef], reading: ReadOptions | None, md5: bool = False
) -> Outcome:
    """Reads images for their digests; main are those that cannot be read, which their writer will find as well.

    Args:
      refs: the samples.
      reading: how far it reads ahead.
      md5: whether digests are the MD5s of a bucket's listing; otherwise `digest_of` makes them.
    """
    requests = (Request(ref.uri, ref.size, ref.offset) for ref in refs)
    unread, digested = packing.SampleBatch(), packing.SampleBatch()
    reading = reading or usual_reading(ref.uri for ref in refs)
    with read_ahead(requests, files.read_image, reading) as ahead:
        for ref in refs:
            try:
                image = ahead.read(ref.uri, ref.size, ref.offset)
            except OSError as error:
                if error.errno in shard_writer.TRANSIENT_ERRORS:
                    raise
                image = b""
            if image and md5:
                digest = hashlib.md5(image, usedforsecurity=False).digest()
            else:
                digest = digest_of(image) if image else b""
            (digested if digest else unread).append(ref._replace(digest=digest))
    return digest_outcome(unread, digested)


def digest_outcome(without: packing.SampleBatch, digested: packing.SampleBatch) -> Outcome:
    """The outcome of samples without a digest, and of some with theirs."""
    return Outcome([without] if without else [], tagged=[(DIGESTED, digested)] if digested else [])


@dataclass(frozen=True)
class RangeDivision:
    """Ranges of digests."""

    parts: int

    def numbers(self, columns: packing.Columns) -> Sequence[int]:
        """The range of each sample."""
        return [duplicates.range_of(digest, self.parts) for digest in columns[_DIGEST]]


def compare_images(parts: Sequence[bytes]) -> Outcome:
    """Finds the images of the same bytes in a range of digests, all of them packed by `pack_images`."""
    return Outcome([duplicates.find_duplicates(lambda: parts)])


def measure_images(
    encoding: writing.EncodingOptions, refs: Sequence[SampleRef], reading: ReadOptions | None
) -> Outcome:
    """Encodes samples and throws them away, to see how large they become; bad ones are left out.

    Args:
      encoding: the encoding of the examples.
      refs: the samples.
      reading: how far it reads ahead.
    """
    hasher = sharding.KeyHasher(encoding.seed)
    class_ids = dict.fromkeys(encoding.class_names(refs), 0)
    measured = []
    with encoding.maker(class_ids, refs, reading) as maker:
        for ref in refs:
            started = time.thread_time()
            try:
                sample = maker.make(ref)
            except shard_writer.Rejected:
                continue
            written = sum(map(len, sample[:3])) + _RECORD_BYTES
            seconds = time.thread_time() - started
            measured.append(Measured(hasher.order(ref.key), ref.size, written, seconds))
    return Outcome([Tally(measured=measured)])


@dataclass(frozen=True)
class Planning:
    """Makes the one plan of a run and notes it in the output folder, before anything else is written there.

    If the run is killed, the note lists the files that it may have left.

    Attributes:
      request: how the shards will be written.
      plan_request: what the plan depends on beside the samples.
      run: the name, seed, options and features, for the note; features of None are learned from records.
      writes: whether the shards will be written, so that the disk of the output folder needs room.
    """

    request: writing.WriteRequest
    plan_request: PlanRequest
    run: Mapping[str, Any]
    writes: bool = True

    def __call__(self, tally: Tally) -> Iterator[Outcome]:
        """The outcome of the sum of all tallies; the plan of a pipeline's records settles their features as well."""
        samples, size = tally.samples.total(), tally.sample_bytes.total()
        job.report_progress(job.Counts(samples=samples, image_bytes=size, is_total=True))
        if self.writes and size > writer_process.FEW_BYTES:
            writer_process.expect(writer_process.FEW_SAMPLES + 1)
        folder, earlier, run, features = self.request.folder, self.request.earlier, self.run, None
        if tally.features is not None:
            features = tally.features.features if run["features"] is None else run["features"]
            if refusal := self._record_refusal(tally, tally.features):
                tally.refusals.append(refusal)
            run = {**run, "features": features}
        plan = make_plan(tally, self.plan_request, earlier.kept if earlier else NOTHING_KEPT)
        plan = dataclasses.replace(plan, features=features)
        run = changes.with_settled(run, plan.settled)
        try:
            with files.naming(folder, errors.OutputError):
                self._check_earlier_run(plan, run)
            with files.naming(folder, errors.OutputError, "written to"):
                output_folder.write_note(folder, plan, run)
                if self.writes:
                    self._check_space(plan, run)
        except errors.ConversionError as error:  # or an earlier run cannot be read
            refusal = plan.refusal or errors.Refusal.from_error(error)
            plan = dataclasses.replace(plan, refusal=refusal)
        planned = {SAMPLES_PLANNED: samples, BYTES_PLANNED: size, DEAD_LETTERS: tally.dead.total()}
        yield Outcome([plan], counters=planned)

    def _record_refusal(self, tally: Tally, schema: FeatureSchema) -> errors.Refusal | None:
        """Why records are not written, though perhaps none of them is too bad; or None."""
        fault = schema.conflict if self.run["features"] is None else ""
        if not tally.listed:
            fault = "there is not one record, so there is nothing to write"
        elif not tally.samples.total():
            _, message, *_ = min(tally.first.values())
            fault = f"none of {tally.listed} records can be written: {message}"
        refusal = too_many_bad(tally, self.plan_request.max_bad_fraction)
        return refusal or (errors.Refusal.from_error(errors.SampleError(fault)) if fault else None)

    def _check_earlier_run(self, plan: Plan, run: Mapping[str, Any]) -> None:
        """Raises ConversionError if this run would not write what the earlier one did, or over another's."""
        manifest.check_draft(run, plan.classes)
        folder, resume = self.request.folder, self.request.resume
        if self.writes and not resume:
            check_unwritten(folder, plan.shard_plan, retries=self.request.failures.retries)
        if not (earlier := read_earlier(folder) if resume else None):
            return
        if earlier.shard_plan != plan.shard_plan:
            raise other_shards(earlier.shard_plan, plan.shard_plan)
        then = earlier.run.get("options", {}).get("label_order", "")
        now = plan.settled.get("label_order", then)
        if then and then != now:
            raise errors.ChangedInputsError(
                f"--resume: the earlier run sorted the classes with --label_order {then}, this one would "
                f"sort them with {now}, and give them other ids. Say --label_order {then}, or convert "
                "again with --overwrite"
            )

    def _check_space(self, plan: Plan, run: Mapping[str, Any]) -> None:
        """Raises OutputError if the shards would not fit on the disk.

        Only where their size is known before: images are written as they are, or some were measured.
        """
        tally, folder, options = plan.tally, self.request.folder, run["options"]
        free = files.free_bytes(folder)
        if free is None or options.get("compression") != "none" or options.get("image_encoding"):
            return
        if options.get("codec") and not tally.measured:
            return
        earlier = self.request.earlier
        there = [(folder, plan.shard_plan)] if self.request.resume else []
        there += [(earlier.folder, earlier.shard_plan)] if earlier else []
        for shards_folder, shard_plan in there:  # which may need no further room
            if files.free_bytes(shards_folder) is not None:
                written = files.files_in(shards_folder)
                names = (spec.file_name for spec in shard_plan.specs)
                free += sum(written[name].size for name in names if name in written)
        needed = sum(map(tally.written_bytes, tally.samples))
        needed += 0 if tally.measured else estimate.FEATURE_BYTES * tally.samples.total()
        if needed > free:
            raise errors.OutputError(
                f"the shards would take about {needed:,} bytes, and the disk of {folder} has {free:,} "
                "left. Nothing was written; make room or choose another --output"
            )
