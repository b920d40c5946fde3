"""Receipts: the inputs of each shard, kept beside the data set.

A run that resumes an earlier one (`--resume`) keeps each shard whose receipt lists the inputs that it
would have now, and `repair` writes a lost shard again from its receipt. Receipts are in `.receipts/`
of the output folder, one a shard, as gzipped JSON.
"""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import starmap
from typing import Annotated, Any

from beam_pipeline.core import errors, references, typed_json
from beam_pipeline.core.dataset.names import RECEIPTS_FOLDER
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.images.header import DIGEST_BYTES
from beam_pipeline.core.records import formats, image_statistics, sharding
from beam_pipeline.core.text import excerpt

_VERSION = 1
_Version = Annotated[Any, typed_json.Expect(lambda version: version == _VERSION, str(_VERSION))]
_FASTEST = 1  # of gzip
_GZIP = 16 + zlib.MAX_WBITS
_LARGEST, _MOST_INFLATED = 16 << 20, 50
"""A receipt may have 16 MiB, or 50 times its compressed length; ours have about 10 times."""
_DAMAGE = (EOFError, zlib.error, RecursionError, ValueError, KeyError, TypeError, AttributeError)
"""Errors raised for the content of a damaged receipt."""
_FIGURES = sharding.ShardInfo._fields.index("statistics")  # which have an entry of their own


def receipt_name(shard: str) -> str:
    """The receipt's path in the output folder, given the shard's file name.

    No pattern for shards matches it.
    """
    return f"{RECEIPTS_FOLDER}/{formats.format_of(shard).receipt_stem(shard)}.json.gz"


@dataclass(frozen=True)
class ShardInputs:
    """Everything that determines the bytes of a shard.

    Attributes:
      spec: which shard it is.
      refs: its samples, in order.
      class_ids: class -> id.
      options: the encoding of the examples, as JSON has it.
    """

    spec: sharding.ShardSpec
    refs: Sequence[references.SampleRef]
    class_ids: Mapping[str, int]
    options: Mapping[str, Any]


@dataclass(frozen=True)
class Receipt:
    """The inputs of a shard and its figures.

    Attributes:
      inputs: the samples and options it was made from.
      info: its figures.
      dead_letters: the samples that were left out.
      record_sizes: bytes of each record in the file, one after another from its beginning; empty if
        they are not known, or records cannot be read one by one.
      digests: of the images of all samples, one after the other; `NO_DIGEST` for a sample that was
        left out. Empty without images.
    """

    inputs: ShardInputs
    info: sharding.ShardInfo
    dead_letters: Sequence[DeadLetter]
    record_sizes: Sequence[int] = ()
    digests: bytes = b""

    def to_bytes(self) -> bytes:
        """The content of the receipt's file; the same receipt has the same bytes."""
        inputs, info, statistics = self.inputs, self.info, self.info.statistics
        changed = info.events or info.codec  # left out where no image was changed
        content = {
            "version": _VERSION,
            "spec": inputs.spec,
            "samples": _columns(inputs.refs),
            "classes": dict(inputs.class_ids),
            "options": dict(inputs.options),
            "info": info[: _FIGURES if changed else sharding.ShardInfo._fields.index("events")],
            "dead_letters": self.dead_letters,
            **({"record_sizes": self.record_sizes} if self.record_sizes else {}),
            **({"digests": base64.b64encode(self.digests).decode()} if self.digests else {}),
            **({"statistics": statistics.to_json()} if statistics.images else {}),
        }
        text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
        return gzip.compress(text.encode("utf-8", "surrogatepass"), _FASTEST, mtime=0)


@dataclass(frozen=True, kw_only=True)
class _Content:
    """A receipt's file."""

    version: _Version
    spec: sharding.ShardSpec
    samples: tuple[list, ...]  # type: ignore[type-arg]
    classes: Mapping[str, int]
    options: Mapping[str, Any]
    info: sharding.ShardInfo
    dead_letters: tuple[DeadLetter, ...]
    record_sizes: list = field(default_factory=list)  # type: ignore[type-arg]
    digests: str = ""
    statistics: Any = None


def parse_receipt(data: bytes, uri: str) -> Receipt:
    """Reads a receipt back; memory is bounded by the length of its file.

    Raises:
      ConversionError: it is damaged, or of another version.
    """
    try:
        content: _Content = typed_json.decode(_Content, json.loads(_inflate(data)))
        refs, info, spec = _refs(content.samples), content.info, content.spec
        if min(info.examples, info.bytes, info.crc32c) < 0 or info.crc32c >> 32:
            raise ValueError(f"info is {excerpt(info)}, expected figures of a shard")
        if (info.split, info.number, info.file_name) != (spec.split, spec.number, spec.file_name):
            raise ValueError(f"its figures are of {excerpt(info.file_name)}")
        statistics = image_statistics.NOTHING_COUNTED
        if content.statistics is not None:
            statistics = image_statistics.parse_statistics(content.statistics)
        info = info._replace(statistics=statistics)
        digests = base64.b64decode(content.digests, validate=True)
        if len(digests) not in (0, DIGEST_BYTES * len(refs)):
            raise ValueError(f"digests has {len(digests)} bytes for {len(refs)} samples")
        inputs = ShardInputs(spec, refs, content.classes, content.options)
        sizes = _whole_numbers(content.record_sizes)
        return Receipt(inputs, info, [*content.dead_letters], sizes, digests)
    except _DAMAGE as error:
        raise errors.ConversionError(
            f"{uri} is damaged ({error or excerpt(error)}); remove it by hand, or convert again with --overwrite"
        ) from error


def _whole_numbers(numbers: Sequence[Any]) -> Sequence[int]:
    """The sizes of records; checked by their types, as there may be a million."""
    if not {*map(type, numbers)} <= {int}:
        raise TypeError("record_sizes are not all whole numbers")
    return tuple(numbers)


def _inflate(data: bytes) -> str:
    """Inflates one gzip member of a believable length, to text."""
    most = max(_LARGEST, _MOST_INFLATED * len(data))
    inflater = zlib.decompressobj(_GZIP)
    text = inflater.decompress(data, most)
    if not inflater.eof:
        more = len(text) >= most
        raise EOFError(f"it inflates to more than {most} bytes" if more else "it ends too early")
    if inflater.unused_data:
        raise ValueError(f"{len(inflater.unused_data)} bytes follow its end")
    return text.decode("utf-8", "surrogatepass")


def _refs(columns: Sequence[list[Any]]) -> list[references.SampleRef]:
    """References from their columns, one a field; checked by columns, as there may be a million."""
    if not columns:
        return []
    kinds = (str, str, int, str, list, int, str, int)
    for name, column, kind in zip(references.SampleRef._fields, columns, kinds, strict=False):
        if not {*map(type, column)} <= {kind}:
            raise TypeError(f"SampleRef.{name} is not always {kind.__name__}")
    if not 0 <= len(columns) - len(kinds) <= 1:
        raise ValueError(f"samples has {len(columns)} columns, expected {len(kinds)}")
    key, uri, sizes, split, labels, *rows = columns
    if min(sizes, default=0) < 0:
        raise ValueError("SampleRef.size is negative")
    if len(columns) > len(kinds):
        for size in columns[-1]:
            if size is not None and [*map(type, size)] != [int, int]:
                raise TypeError(f"SampleRef.claimed_size is {excerpt(size)}")
        rows[-1] = [*map(_frozen, rows[-1])]
    labels = [tuple(map(_frozen, values)) for values in labels]
    return [*starmap(references.SampleRef, zip(key, uri, sizes, split, labels, *rows, strict=True))]


def _columns(refs: Sequence[references.SampleRef]) -> list[tuple[Any, ...]]:
    """The samples, a list a field; sizes are left out if nothing claims any."""
    columns = list(zip(*refs, strict=True))[: references.SampleRef._fields.index("digest")]
    return columns if any(ref.claimed_size for ref in refs) else columns[:-1]


def _frozen(value: Any) -> Any:
    """A label with tuples, as references have it: JSON has lists only."""
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
