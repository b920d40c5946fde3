"""A seal tells a file that a run wrote from one that somebody changed since.

It is a digest of the file, inside the file:

    beam-tfrecord:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08

computed while `PLACEHOLDER` is in its place. People complete a data card by hand, with a licence
or a description; a changed card, schema or report is theirs and is never replaced or deleted.
"""

from __future__ import annotations

import hashlib
import re

_LABEL = "beam-tfrecord:"
_SEAL = re.compile(rb"beam-tfrecord:([0-9a-f]{64})")
_EARLIER_SEAL = re.compile(rb"<!-- beam-tfrecord report ([0-9a-f]{32}) -->\n\Z")  # of reports

PLACEHOLDER = _LABEL + "0" * 64
"""The last one in a file is where the seal goes."""


def sealed(content: bytes) -> bytes:
    """Puts the seal in the place of the last `PLACEHOLDER`."""
    before, _, after = content.rpartition(PLACEHOLDER.encode())
    return before + _LABEL.encode() + _digest(content) + after


def is_unchanged(content: bytes) -> bool:
    """Tells whether a file has the seal of its content."""
    if earlier := _EARLIER_SEAL.search(content):
        page = hashlib.blake2b(content[: earlier.start()], digest_size=16)
        return earlier[1] == page.hexdigest().encode()
    seals = list(_SEAL.finditer(content))
    if not seals:
        return False
    start, end = seals[-1].span()
    unsealed = content[:start] + PLACEHOLDER.encode() + content[end:]
    return seals[-1][1] == _digest(unsealed)


def has_seal(content: bytes) -> bool:
    """Tells whether a file has a seal, broken or not, like a card, a schema or a report."""
    return re.search(rb"beam-tfrecord(:| report )[0-9a-f]|\"beam-tfrecord\"", content) is not None


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()
