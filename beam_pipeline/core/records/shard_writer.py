"""The hot path: takes a shard's references and writes its file.

For each reference, in the order of its hash: reads the image, checks its header, writes the
example around it. The image is read once and passed on to the system unchanged; it is never copied.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from beam_pipeline.core import errors
from beam_pipeline.core.dead_letters import DeadLetter, Reason, Stage
from beam_pipeline.core.images.header import NO_DIGEST
from beam_pipeline.core.records import alteration, image_statistics, sharding, wire
from beam_pipeline.core.records.record_format import EncodedSample, RecordWriter
from beam_pipeline.core.references import SampleRef

MAX_IMAGE_BYTES = wire.MAX_EXAMPLE_BYTES - (1 << 20)
"""The largest image: an example of 2 GiB contains it and 1 MiB of labels. A larger one is not read."""

REPEATED = "repeated"
"""The `SampleRef.origin` of a sample whose key another one has as well."""

# Failures of the machine, not of the file: the bundle fails and the runner tries it again.
TRANSIENT_ERRORS = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR, errno.EAGAIN, errno.ETIMEDOUT}
)

ImageReader = Callable[[str, int, int], bytes]
"""(uri, size as listed, offset or -1 for the whole file) -> the bytes.

Raises ChangedFileError if the whole file has another size now, and OSError.
"""


class Rejected(Exception):  # noqa: N818
    """A sample becomes no example: `letter` is its dead letter.

    Args:
      ref: the sample; one of a container is in that, wherever it was unpacked to.
      stage, reason, message: as a dead letter has them.
      file: the label file or mask that tells what is wrong; empty for an image.
      line: the line in that file.
    """

    def __init__(
        self,
        ref: SampleRef,
        stage: Stage,
        reason: Reason,
        message: str,
        file: str = "",
        line: int = 0,
    ) -> None:
        super().__init__(message)
        uri = ref.origin if ref.offset >= 0 and ref.origin else ref.uri
        self.letter = DeadLetter(stage.value, ref.key, uri, reason.value, message, file, line)


class Maker:
    """Turns references into examples."""

    def make(self, ref: SampleRef) -> EncodedSample:
        """Makes one example.

        Raises:
          Rejected: the sample is bad.
          OSError: the machine, not the sample, is at fault.
        """
        raise NotImplementedError

    def codec(self) -> str:
        """Names what encodes images, with versions; empty where nothing can."""
        return ""

    def statistics(self) -> image_statistics.ImageStatistics:
        """The statistics of the examples made so far; empty where their images are not known."""
        return image_statistics.NOTHING_COUNTED


def read_sample(
    read: ImageReader, ref: SampleRef, uri: str, size: int, offset: int, noun: str = ""
) -> bytes | Rejected:
    """Reads the image of a sample, or a file beside it, which `noun` names, or tells why not. Raises OSError."""
    try:
        if data := read(uri, size, offset):
            return data
        reason, fault = Reason.EMPTY_FILE, "the file is empty"
    except errors.ChangedFileError as error:
        reason, fault = Reason.CHANGED_SINCE_LISTING, str(error)
    except OSError as error:
        if error.errno in TRANSIENT_ERRORS:
            raise
        reason, fault = Reason.UNREADABLE, error.strerror or type(error).__name__
    if noun:
        return Rejected(ref, Stage.READ, reason, f"{noun}: {fault}", uri)
    return Rejected(ref, Stage.READ, reason, fault)


def sound(content: bytes | Rejected) -> bytes:
    """The content of a file that could be read. Raises Rejected for any other."""
    if isinstance(content, Rejected):
        raise content
    return content


def repeated(ref: SampleRef, noun: str) -> Rejected:
    """Another sample, or record, has the same key."""
    fault = f"another {noun} has the key {ref.key!r}; expected one of its own"
    return Rejected(ref._replace(origin=""), Stage.JOIN, Reason.DUPLICATE_KEY, fault)


def too_large(ref: SampleRef, size: int) -> Rejected:
    """An example of a sample of this size would be too large."""
    fault = f"{size} bytes; an example is limited to 2 GiB"
    return Rejected(ref, Stage.READ, Reason.TOO_LARGE, fault)


def sort_by_key_hash(refs: Iterable[SampleRef], hasher: sharding.KeyHasher) -> list[SampleRef]:
    """References in the order of their shard."""
    return sorted(refs, key=lambda ref: (hasher.order(ref.key), ref.key))


class ShardContent(NamedTuple):
    """The fate of a shard's samples.

    Attributes:
      info: its figures.
      dead_letters: the samples and objects that were left out, in order.
      record_sizes: bytes of each record with its framing, in order; of use where records are stored one after
        another in the file.
      digests: of the images of all samples, one after the other; `NO_DIGEST` for a dead letter.
    """

    info: sharding.ShardInfo
    dead_letters: Sequence[DeadLetter]
    record_sizes: Sequence[int]
    digests: bytes


def write_shard(
    spec: sharding.ShardSpec, refs: Iterable[SampleRef], maker: Maker, output: RecordWriter
) -> ShardContent:
    """Writes one shard.

    Args:
      spec: which shard.
      refs: its samples, in writing order.
      maker: reads, checks and encodes one of them.
      output: writes its records.
    """
    dead_letters: list[DeadLetter] = []
    sizes: list[int] = []
    digests: list[bytes] = []
    classes: Counter[int] = Counter()
    events: Counter[str] = Counter()
    for ref in refs:
        try:
            sample = maker.make(ref)
        except Rejected as rejected:
            dead_letters.append(rejected.letter)
            digests.append(NO_DIGEST)
            continue
        start = output.bytes
        output.write(sample, ref.key)
        sizes.append(output.bytes - start)
        digests.append(sample.digest)
        if sample.events:
            events.update(sample.events)
        dead_letters += sample.dead_letters
        for class_id in sample.classes:
            classes[class_id] += 1
    output.finish()
    figures = image_figures(events, maker)
    info = sharding.ShardInfo(
        split=spec.split,
        number=spec.number,
        file_name=spec.file_name,
        examples=len(sizes),
        bytes=output.bytes,
        crc32c=output.crc32c,
        classes=tuple(sorted(classes.items())),
        events=figures.events,
        codec="".join(figures.codecs),
        statistics=figures.statistics,
    )
    return ShardContent(info, dead_letters, sizes, b"".join(digests))


def image_figures(events: Mapping[str, int], maker: Maker) -> sharding.ImageFigures:
    """Counts of the images that a maker made examples of, with the codec if any was encoded."""
    codecs = (maker.codec(),) if events.get(alteration.ENCODED) else ()
    return sharding.ImageFigures(tuple(sorted(events.items())), codecs, maker.statistics())
