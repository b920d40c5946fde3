"""The images of a data set as they are compared: by digest, in ranges, so that no worker holds all.

shard 0: (digest, labels, key) ...  --range 0-->  groups of equal digests --.
shard 1: (digest, labels, key) ...  --range 1-->  groups of equal digests --+-> `Duplicates`
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple

from beam_pipeline.core.dataset.receipts import Receipt, without_lines
from beam_pipeline.core.images.digest import DIGEST_BYTES, NO_DIGEST
from beam_pipeline.core.packing import pack_columns, unpack_columns
from beam_pipeline.core.references import LabelValue

_IMAGES_A_RANGE = 1 << 18
_LABEL_HASH_BYTES = 8


class WrittenImage(NamedTuple):
    """An image that became an example.

    Attributes:
      digest: of its bytes.
      labels: a hash of its labels.
      split: its split.
      key: its key.
    """

    digest: bytes
    labels: int
    split: str
    key: str


def range_count(samples: int) -> int:
    """The number of ranges in which the digests of a data set are compared."""
    return -(-samples // _IMAGES_A_RANGE) or 1


def range_of(digest: bytes, ranges: int) -> int:
    """The range of a digest, from 0."""
    return int.from_bytes(digest[:8], "big") * ranges >> 64


def written_images(receipt: Receipt, files: Sequence[int]) -> list[WrittenImage]:
    """The images of a shard that became examples, in the order of the shard.

    There are none if their digests are unknown, as in receipts of older versions.

    Args:
      receipt: of the shard.
      files: the indices of the labels that are files.
    """
    refs = receipt.inputs.refs if receipt.digests else ()
    hashes = LabelHashes(files)
    images = _images_of(
        receipt.digests,
        [hashes[ref.labels] for ref in refs],
        [ref.split for ref in refs],
        [ref.key for ref in refs],
    )
    return [image for image in images if image.digest != NO_DIGEST]


def packed_images(images: Iterable[WrittenImage], ranges: int) -> list[tuple[int, bytes]]:
    """(range of digests, packed images)."""
    parts: dict[int, list[WrittenImage]] = defaultdict(list)
    if ranges == 1:
        parts[0] += images
    else:
        for image in images:
            parts[range_of(image.digest, ranges)].append(image)
    return [(number, pack_images(part)) for number, part in sorted(parts.items()) if part]


def pack_images(images: Iterable[WrittenImage]) -> bytes:
    """Packs images, one at least; their digests stay apart, as they do not deflate and mostly suffice."""
    digests, *others = zip(*images, strict=True)
    return pickle.dumps((b"".join(digests), pack_columns(others)), pickle.HIGHEST_PROTOCOL)


def unpack_images(packed: bytes) -> Iterator[WrittenImage]:
    """Unpacks the images that `pack_images` took."""
    digests, others = pickle.loads(packed)
    return _images_of(digests, *unpack_columns(others))


def digests_in(packed: bytes) -> list[bytes]:
    """The digests of packed images, without unpacking the rest."""
    return _split(pickle.loads(packed)[0])


def _images_of(digests: bytes, *others: Iterable[Any]) -> Iterator[WrittenImage]:
    """Images from their digests, one after the other, and the columns of their other fields."""
    make: Any = partial(tuple.__new__, WrittenImage)
    return map(make, zip(_split(digests), *others, strict=True))


def _split(digests: bytes) -> list[bytes]:
    return [digests[i : i + DIGEST_BYTES] for i in range(0, len(digests), DIGEST_BYTES)]


class LabelHashes(dict[tuple[LabelValue, ...], int]):
    """Labels of a sample -> a hash of what its example shows of them; each is computed once.

    Args:
      files: the indices of the labels that are files.
    """

    _MOST = 1 << 16  # remembered

    def __init__(self, files: Sequence[int] = ()) -> None:
        super().__init__()
        self._files = files

    def __missing__(self, labels: tuple[LabelValue, ...]) -> int:
        if len(self) >= self._MOST:
            self.clear()
        shown: list[Any] = [without_lines(value) for value in labels]
        for index in self._files:
            if shown[index] is not None:
                _, size, _, *pixels = shown[index]
                shown[index] = size, *pixels
        text = repr(shown).encode("utf-8", "surrogatepass")  # JSON takes three times as long
        found = int.from_bytes(blake2b(text, digest_size=_LABEL_HASH_BYTES).digest(), "big")
        self[labels] = found
        return found
