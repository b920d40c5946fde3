"""The file of a report: its name, and the seal by which a run knows its own."""

from __future__ import annotations

import hashlib

REPORT_NAME = "report.html"

MOST_BYTES = 5_000_000
"""No report is larger."""

_SEAL = b"<!-- beam-tfrecord report %s -->\n"
_DIGEST_BYTES = 16


def sealed(page: bytes) -> bytes:
    """The page with a last line that holds its digest."""
    return page + _seal(page)


def is_sealed(data: bytes) -> bool:
    """Tells whether a file is a report as it was written: nobody's own page, and not edited since."""
    end = data.rfind(b"<!--")
    return end >= 0 and data[end:] == _seal(data[:end])


def _seal(page: bytes) -> bytes:
    return _SEAL % hashlib.blake2b(page, digest_size=_DIGEST_BYTES).hexdigest().encode()
