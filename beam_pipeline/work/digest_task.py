"""Some images whose digests are needed before shards are planned, as a unit of work for any worker.

Nothing here imports Beam, so that a process that does nothing else starts in a tenth of a second.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from beam_pipeline.core.images.preparation import Limits, digest_of, outside_bytes
from beam_pipeline.core.records.shard_writer import TRANSIENT_ERRORS, ImageReader
from beam_pipeline.core.references import SampleRef
from beam_pipeline.storage import files
from beam_pipeline.storage.read_ahead import ReadOptions, Request, read_ahead


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


@dataclass(frozen=True)
class DigestTask:
    """Images to read for their digests.

    Attributes:
      refs: the samples.
      reading: how far it reads ahead.
      md5: whether digests are MD5, as a bucket lists them; else they are as `digest_of` has them.
    """

    refs: Sequence[SampleRef]
    reading: ReadOptions
    md5: bool = False

    doing = "comparing images"

    def run(self) -> list[bytes]:
        """The digest of each image; empty if it cannot be read, which its writer will find, too."""
        requests = (Request(ref.uri, ref.size, ref.offset) for ref in self.refs)
        with read_ahead(requests, files.read_image, self.reading) as ahead:
            return [self._digest(ref, ahead.read) for ref in self.refs]

    def _digest(self, ref: SampleRef, read: ImageReader) -> bytes:
        try:
            image = read(ref.uri, ref.size, ref.offset)
        except OSError as error:
            if error.errno in TRANSIENT_ERRORS:
                raise
            return b""
        if not image:
            return b""
        return _md5(image) if self.md5 else digest_of(image)


def _md5(image: bytes) -> bytes:
    return hashlib.md5(image, usedforsecurity=False).digest()
