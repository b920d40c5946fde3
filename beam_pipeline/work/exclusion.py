"""Keys of samples to leave out (`--exclude`), as they travel to workers: a million of them must not be in a job's graph.

Of a file in a bucket, its name and digest travel, and each process reads it once. A file that only the launcher
sees travels deflated.
"""

from __future__ import annotations

import functools
import hashlib
import zlib
from dataclasses import dataclass
from typing import Any

from beam_pipeline.core.errors import ChangedInputsError
from beam_pipeline.core.labels.classes import Exclusion
from beam_pipeline.core.uris import is_remote
from beam_pipeline.storage import files


@dataclass(frozen=True)
class TravellingExclusion(Exclusion):
    """Keys whose pickle is small.

    Attributes:
      digest: of the file.
      deflated: the file; empty if workers can read it.
    """

    digest: bytes = b""
    deflated: bytes = b""

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (self.uri, self.digest, self.deflated, self.files, self.rows)


def read_exclusion(
    data: bytes, uri: str, label_files: tuple[int, ...] = (), rows: bool = False
) -> Exclusion:
    """Reads keys as `Exclusion.parse` does, from the bytes of a file."""
    lines, digest = Exclusion.parse(data, uri).lines, hashlib.sha256(data).digest()
    deflated = b"" if is_remote(uri) else zlib.compress(data)
    return TravellingExclusion(uri, lines, label_files, rows, digest, deflated)


@functools.lru_cache(maxsize=1)
def _arrived(
    uri: str, digest: bytes, deflated: bytes, label_files: tuple[int, ...], rows: bool
) -> Exclusion:
    data = zlib.decompress(deflated) if deflated else files.read_bytes(uri)
    if hashlib.sha256(data).digest() != digest:
        raise ChangedInputsError(
            f"--exclude: {uri} has changed since the job began; start it again"
        )
    return read_exclusion(data, uri, label_files, rows)
