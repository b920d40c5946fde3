"""The size of a data set whose images are encoded anew, estimated from some of them.

The samples with the lowest hashes are encoded before the shards are planned; they are the same on
every engine, and so are the estimate and the number of shards. The bytes written of an image are taken
as a + b x the bytes of its file, by least squares: scaled images have a size of their own (b is near 0),
images that are left as they are have that of their file (b is 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

_MOST = 256
_LEAST = 16
_SHARE = 20
"""One sample in twenty, at least 16 and at most 256: measuring takes little of the time of a run."""


class Measured(NamedTuple):
    """A sample that was encoded to be measured.

    Attributes:
      order: the bytes by which samples are sorted.
      size: bytes of its file.
      written: bytes of its record.
      seconds: of CPU that it took.
    """

    order: bytes
    size: int
    written: int
    seconds: float


def measured_samples(total: int) -> int:
    """The number of samples that are measured."""
    return min(_MOST, max(_LEAST, total // _SHARE))


def most_measured() -> int:
    """The number of samples that are measured at most."""
    return _MOST


def written_bytes(measured: Sequence[Measured], samples: int, image_bytes: int) -> int:
    """Estimates the bytes of shards.

    Args:
      measured: some samples; at least one.
      samples: in the shards.
      image_bytes: of their files.
    """
    found = sorted(measured)
    mean_size = sum(sample.size for sample in found) / len(found)
    mean_written = sum(sample.written for sample in found) / len(found)
    spread = sum((sample.size - mean_size) ** 2 for sample in found)
    slope = 0.0
    if spread:
        together = sum((s.size - mean_size) * (s.written - mean_written) for s in found)
        slope = max(0.0, together / spread)
    return max(0, round(mean_written * samples + slope * (image_bytes - mean_size * samples)))


def mean_seconds(measured: Sequence[Measured]) -> float:
    """CPU seconds that a sample takes."""
    return sum(sample.seconds for sample in measured) / len(measured)
