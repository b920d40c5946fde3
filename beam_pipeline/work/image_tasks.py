"""Images to compare or to measure, as units of work for any worker.

Nothing here imports Beam, so that a process that does nothing else starts in a tenth of a second.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass

from beam_pipeline.core.dataset.duplicates import find_duplicates, range_of
from beam_pipeline.core.dataset.tally import Measured, Tally
from beam_pipeline.core.images.preparation import Limits, digest_of, outside_bytes
from beam_pipeline.core.packed_batches import SampleBatch
from beam_pipeline.core.packing import Columns
from beam_pipeline.core.records.shard_writer import TRANSIENT_ERRORS, ImageReader, Rejected
from beam_pipeline.core.records.sharding import KeyHasher
from beam_pipeline.core.references import SampleRef
from beam_pipeline.storage import files
from beam_pipeline.storage.read_ahead import ReadOptions, Request, read_ahead
from beam_pipeline.work.encoding import EncodingOptions
from beam_pipeline.work.outcome import Outcome

_DIGEST = SampleRef._fields.index("digest")
_RECORD_BYTES = 32  # of a TFRecord's framing, and of the digest in its shard's receipt


@dataclass(frozen=True, kw_only=True)
class DigestSource:
    """Where the digests of images come from.

    Attributes:
      listed: the listing may have MD5s, so that all digests are MD5s.
      reads: images are read whose digest is not listed; else they are taken for unique.
      reading: how far each worker reads ahead.
      filters: the filters given, as an image that is filtered by its size is not read.
      largest: bytes of the largest image that is read.
    """

    listed: bool
    reads: bool
    reading: ReadOptions
    filters: Limits
    largest: int

    def is_readable(self, ref: SampleRef) -> bool:
        """True if an image would be read when its shard is written."""
        wanted = not (self.filters and outside_bytes(ref.size, self.filters))
        return self.reads and wanted and ref.size <= self.largest


DIGESTED = "digested"
"""The tag of samples with their digests."""


def with_digests(refs: Sequence[SampleRef], reading: ReadOptions, md5: bool = False) -> Outcome:
    """Reads images for their digests; main are those that cannot be read, which their writer will find, too.

    Args:
      refs: the samples.
      reading: how far it reads ahead.
      md5: whether digests are MD5, as a bucket lists them; else they are as `digest_of` has them.
    """
    requests = (Request(ref.uri, ref.size, ref.offset) for ref in refs)
    unread, digested = SampleBatch(), SampleBatch()
    with read_ahead(requests, files.read_image, reading) as ahead:
        for ref in refs:
            digest = _digest(ref, ahead.read, md5)
            (digested if digest else unread).append(ref._replace(digest=digest))
    return digest_outcome(unread, digested)


def digest_outcome(without: SampleBatch, digested: SampleBatch) -> Outcome:
    """The outcome of samples without a digest, and of some with theirs."""
    return Outcome([without] if without else [], tagged=[(DIGESTED, digested)] if digested else [])


def _digest(ref: SampleRef, read: ImageReader, md5: bool) -> bytes:
    try:
        image = read(ref.uri, ref.size, ref.offset)
    except OSError as error:
        if error.errno in TRANSIENT_ERRORS:
            raise
        return b""
    if not image:
        return b""
    return hashlib.md5(image, usedforsecurity=False).digest() if md5 else digest_of(image)


@dataclass(frozen=True)
class RangeDivision:
    """Ranges of digests."""

    parts: int

    def numbers(self, columns: Columns) -> Sequence[int]:
        """The range of each sample."""
        return [range_of(digest, self.parts) for digest in columns[_DIGEST]]


def compare_images(parts: Sequence[bytes]) -> Outcome:
    """Finds the images of the same bytes in a range of digests, all of them packed by `pack_images`."""
    return Outcome([find_duplicates(lambda: parts)])


def measure_images(
    encoding: EncodingOptions, refs: Sequence[SampleRef], reading: ReadOptions
) -> Outcome:
    """Encodes samples and throws them away, to see how large they become; bad ones are left out.

    Args:
      encoding: the encoding of the examples.
      refs: the samples.
      reading: how far it reads ahead.
    """
    hasher = KeyHasher(encoding.seed)
    class_ids = dict.fromkeys(encoding.class_names(refs), 0)
    measured = []
    with encoding.maker(class_ids, refs, reading) as maker:
        for ref in refs:
            started = time.thread_time()
            try:
                sample = maker.make(ref)
            except Rejected:
                continue
            written = sum(map(len, sample[:3])) + _RECORD_BYTES
            seconds = time.thread_time() - started
            measured.append(Measured(hasher.order(ref.key), ref.size, written, seconds))
    return Outcome([Tally(measured=measured)])
