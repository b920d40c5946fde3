"""`manifest.json`: the contents of a complete data set. Without it, a folder is no data set."""

from __future__ import annotations

import base64
import binascii
import io
import itertools
import json
import posixpath
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from google_crc32c import value as crc32c

from beam_pipeline.core.dataset.names import (
    DEAD_LETTERS_NAME as DEAD_LETTERS_NAME,
)
from beam_pipeline.core.dataset.names import MANIFEST_NAME as MANIFEST_NAME
from beam_pipeline.core.dataset.names import MOST_PARTS, PARTS_ENTRY
from beam_pipeline.core.dataset.plan import Plan
from beam_pipeline.core.dataset.sharding import ShardInfo
from beam_pipeline.core.dataset.tally import Tally, Totals
from beam_pipeline.core.errors import ConversionError, OutputError, UsageError
from beam_pipeline.core.records.formats import COMPRESSIONS, FORMATS
from beam_pipeline.core.report.image_statistics import (
    ImageStatistics,
    formats_and_lengths,
)
from beam_pipeline.core.text import is_utf8, shown

FORMAT_VERSION = 1
IMAGES_ENTRY = "images"
CHECKSUM_ENTRY = "crc32c"
LINES_ENTRY = "dead_letters_crc32c"
_CHECKSUM = b',\n  "crc32c": "'  # as it stands in the file; nested entries are indented further
_PIECES = 1 << 14  # of JSON, encoded at a time
LABELS_NAME = "labels.txt"
LABEL_MAP_NAME = "label_map.pbtxt"


def crc32c_text(crc: int) -> str:
    """A CRC-32C as Google Cloud Storage shows it: base64 of its four bytes, big-endian."""
    return base64.b64encode(crc.to_bytes(4, "big")).decode()


def build_manifest(
    *,
    plan: Plan,
    tally: Tally,
    shards: Sequence[ShardInfo],
    seed: int,
    options: Mapping[str, Any],
    features: Mapping[str, Any],
    counted: str = "examples",
    totals: Totals | None = None,
    dead_letter_parts: int = 0,
    dead_letter_crc: int = 0,
) -> dict[str, Any]:
    """The manifest as a value. Nothing in it depends on time, runner or workers.

    Only the checksum of the dead letters depends on where the images are.

    Args:
      plan: the planned shards and classes.
      tally: the counts of all stages, to the last dead letter.
      shards: the figures of those that were written.
      seed: of the hash that placed the samples.
      options: the other options that shape the bytes.
      features: key -> kind, shape and whether it is optional, of every feature of an example.
      counted: the unit of class counts, "examples" or "objects"; empty where classes are not counted,
        as for masks, whose pixels are not read.
      totals: the sums over all shards; None for those of `shards`.
      dead_letter_parts: in how many files dead letters are listed; 0 for a single file.
      dead_letter_crc: the sum of `line_crc` over all their lines.
    """
    totals = totals or Totals.of_shards(shards)
    images = totals.images
    examples = sum(shard.examples for shard in shards)
    by_split: dict[str, list[ShardInfo]] = {split: [] for split, _ in plan.shard_plan.shards}
    classes = {split: totals.classes.get(split, Counter()) for split in by_split}
    for shard in sorted(shards, key=lambda shard: (shard.split, shard.number)):
        by_split[shard.split].append(shard)
    return {
        "format": "beam-tfrecord",
        "format_version": FORMAT_VERSION,
        "name": plan.shard_plan.name,
        "seed": seed,
        "options": dict(options),
        "features": dict(features),
        "splits": {split: _split_entry(infos) for split, infos in by_split.items()},
        "classes": [
            {"id": i, "name": name, **(_class_counts(i, counted, classes) if counted else {})}
            for name, i in plan.classes
        ],
        "counts": {
            "listed_images": tally.listed,
            "ignored_files": dict(sorted(tally.ignored.items())),
            "label_rows": tally.label_rows,
            "label_rows_repeated": tally.repeated_rows,
            "label_rows_without_image": tally.orphan_rows,
            "joined_samples": tally.samples.total(),
            **({"unlabelled": tally.unlabelled} if options.get("unlabelled") else {}),
            "examples": examples,
            "dead_letters": tally.dead.total(),
            **({"images": dict(images.events)} if images.events else {}),
        },
        **_images_entry(images.statistics, examples),
        "dead_letters": dict(sorted(tally.dead.items())),
        **({PARTS_ENTRY: dead_letter_parts} if dead_letter_parts else {}),
        **({"questions": list(plan.questions)} if plan.questions else {}),
        **({"codec": images.codecs[0]} if images.codecs else {}),
        LINES_ENTRY: crc32c_text(dead_letter_crc % (1 << 32)),
    }


def _images_entry(statistics: ImageStatistics, examples: int) -> dict[str, Any]:
    """Formats and sizes of the images; none where an older version wrote some of the shards."""
    if not examples or statistics.images != examples:
        return {}
    return {IMAGES_ENTRY: formats_and_lengths(statistics)}


def _class_counts(
    class_id: int, counted: str, classes: Mapping[str, Counter[int]]
) -> dict[str, Any]:
    """The number of times that a class occurs, in all and in each split."""
    return {
        counted: sum(counts[class_id] for counts in classes.values()),
        "splits": {split: counts[class_id] for split, counts in classes.items()},
    }


def _split_entry(shards: Iterable[ShardInfo]) -> dict[str, Any]:
    entries = [
        {
            "path": shard.file_name,
            "examples": shard.examples,
            "bytes": shard.bytes,
            "crc32c": crc32c_text(shard.crc32c),
        }
        for shard in shards
    ]
    return {
        "examples": sum(entry["examples"] for entry in entries),
        "bytes": sum(entry["bytes"] for entry in entries),
        "shards": entries,
    }


def dump_json(value: Mapping[str, Any]) -> bytes:
    """JSON for people and programs: indented, UTF-8, a newline at the end."""
    pieces = json.JSONEncoder(indent=2, ensure_ascii=False).iterencode(value)
    data = io.BytesIO()
    # In blocks, as the pieces of all of it would take ten times its bytes.
    while block := "".join(itertools.islice(pieces, _PIECES)):
        data.write(block.encode())
    data.write(b"\n")
    return data.getvalue()


def line_crc(line: bytes) -> int:
    """The checksum of a line that lists a dead letter; sums of them do not depend on order or parts."""
    return int(crc32c(line.rstrip(b"\n")))


def manifest_file(manifest: Mapping[str, Any]) -> bytes:
    """The file of a manifest: its last entry is a checksum of all that stands before that.

    Raises:
      OutputError: a text in it cannot be written.
    """
    try:
        content = dump_json(manifest).removesuffix(b"\n}\n")
    except UnicodeEncodeError as error:
        raise OutputError(
            f"{MANIFEST_NAME} cannot hold a text that is not UTF-8: {error}"
        ) from error
    return content + _CHECKSUM + crc32c_text(crc32c(content)).encode() + b'"\n}\n'


def is_as_written(data: bytes, manifest: Mapping[str, Any]) -> bool:
    """Tells whether a file has the checksum of its content, or comes from a version without checksums.

    Args:
      data: the file.
      manifest: its content.
    """
    if not {CHECKSUM_ENTRY, LINES_ENTRY} & manifest.keys():
        return True
    content, _, _ = data.rpartition(_CHECKSUM)
    return data == content + _CHECKSUM + crc32c_text(crc32c(content)).encode() + b'"\n}\n'


def parse_manifest(data: bytes, uri: str) -> dict[str, Any]:
    """Reads a manifest and checks the entries that all its users rely on.

    Raises:
      ConversionError: it is no manifest, or one of a later version.
    """
    try:
        manifest: dict[str, Any] = json.loads(data)
        if manifest["format"] != "beam-tfrecord":
            raise ValueError(f"its format is {manifest['format']!r}")
        version = manifest["format_version"]
        if version != FORMAT_VERSION:
            raise ConversionError(
                f"{uri} has version {version}; this program reads version {FORMAT_VERSION}"
            )
        names = shard_paths(manifest)
        for name in names:
            if not isinstance(name, str) or not name:
                raise ValueError(f"a shard's path is {name!r}")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ConversionError(f"{uri} is no manifest of beam-tfrecord: {error!r}") from error
    outside = [name for name in names if name in (".", "..") or posixpath.basename(name) != name]
    if outside:
        raise ConversionError(f"{uri} lists {outside[0]!r}, which is not a file of its own folder")
    return manifest


def shard_paths(manifest: Mapping[str, Any]) -> list[str]:
    """File names of all shards that a manifest lists."""
    return [shard["path"] for split in manifest["splits"].values() for shard in split["shards"]]


_LARGEST = 1 << 63
_KINDS = ("bytes", "float", "int64")

_Check = Callable[[Any, str], None]


class _UnexpectedError(ValueError):
    """An entry that is not what is expected."""

    def __init__(self, value: Any, path: str, expected: str) -> None:
        super().__init__(f"{path} is {shown(value)}, expected {expected}")


def check_manifest(manifest: Mapping[str, Any], uri: str, *, whole: bool = True) -> None:
    """Checks a manifest that `parse_manifest` returned.

    Args:
      manifest: the manifest.
      uri: its name in messages.
      whole: check every entry, not only those that readers of examples need.

    Raises:
      ConversionError: an entry is missing or of another type; names it.
    """
    try:
        for path, check in (_ENTRIES if whole else _READ_ENTRIES).items():
            if path not in manifest:
                if path in _MAY_BE_MISSING:
                    continue
                raise ValueError(f"it has no entry {path!r}")
            check(manifest[path], path)
    except ValueError as error:
        raise ConversionError(f"{uri} is no manifest of beam-tfrecord: {error}") from error


def check_draft(run: Mapping[str, Any], classes: Iterable[tuple[str, int]]) -> None:
    """Checks, before anything is written, that a manifest can hold what is planned.

    Args:
      run: the name and features.
      classes: (name, id) of every class.

    Raises:
      UsageError: an entry would not be read back; names it.
    """
    draft = {**run, "classes": [{"id": class_id, "name": name} for name, class_id in classes]}
    try:
        for path in draft.keys() & {"name", "features", "classes"}:
            _ENTRIES[path](draft[path], path)
    except ValueError as error:
        raise UsageError(f"a manifest cannot hold this data set: {error}") from error


def _text(value: Any, path: str) -> None:
    if not isinstance(value, str) or not is_utf8(value):
        raise _UnexpectedError(value, path, "a text")


def _file_name(value: Any, path: str) -> None:
    _text(value, path)
    if not value or "\0" in value:
        raise _UnexpectedError(value, path, "the name of a file")


def _any_integer(value: Any, path: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _UnexpectedError(value, path, "a whole number")


def _integer(value: Any, path: str) -> None:
    _any_integer(value, path)
    if not -_LARGEST <= value < _LARGEST:
        raise _UnexpectedError(value, path, "a whole number of 64 bits")


def _count(value: Any, path: str) -> None:
    _integer(value, path)
    if value < 0:
        raise _UnexpectedError(value, path, "a whole number from 0 on")


def _parts(value: Any, path: str) -> None:
    _count(value, path)
    if value > MOST_PARTS:
        raise _UnexpectedError(value, path, f"{MOST_PARTS} at most")


def _truth(value: Any, path: str) -> None:
    if not isinstance(value, bool):
        raise _UnexpectedError(value, path, "true or false")


def _crc32c(value: Any, path: str) -> None:
    try:
        sound = len(base64.b64decode(value, validate=True)) == 4
    except (TypeError, ValueError, binascii.Error):
        sound = False
    if not sound:
        raise _UnexpectedError(value, path, "the base64 of four bytes")


def _one_of(*values: str) -> _Check:
    def check(value: Any, path: str) -> None:
        if not isinstance(value, str) or value not in values:
            raise _UnexpectedError(value, path, f"one of {', '.join(values)}")

    return check


def _shape(value: Any, path: str) -> None:
    if not isinstance(value, list):
        raise _UnexpectedError(value, path, "a list")
    for size in value:
        if size is not None:
            _count(size, path)


def _items(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, dict):
        raise _UnexpectedError(value, path, "an object")
    for key, item in value.items():
        _text(key, path)
        yield f"{path}.{key}", item


def _each(check: _Check) -> _Check:
    """A check of an object, each of whose values passes another."""

    def check_each(value: Any, path: str) -> None:
        for name, item in _items(value, path):
            check(item, name)

    return check_each


def _list(check: _Check) -> _Check:
    def check_list(value: Any, path: str) -> None:
        if not isinstance(value, list):
            raise _UnexpectedError(value, path, "a list")
        for number, item in enumerate(value):
            check(item, f"{path}[{number}]")

    return check_list


def _object(needed: Mapping[str, _Check], optional: Mapping[str, _Check] | None = None) -> _Check:
    """A check of an object with certain entries, and perhaps others."""

    def check(value: Any, path: str) -> None:
        found = dict(_items(value, path))
        for name, check_entry in needed.items():
            entry = f"{path}.{name}"
            if entry not in found:
                raise ValueError(f"{path} has no entry {name!r}")
            check_entry(found[entry], entry)
        for name, check_entry in (optional or {}).items():
            entry = f"{path}.{name}"
            if entry in found:
                check_entry(found[entry], entry)

    return check


def _optional(check: _Check) -> _Check:
    def check_unless_null(value: Any, path: str) -> None:
        if value is not None:
            check(value, path)

    return check_unless_null


_CLASS = _object(
    {"id": _integer, "name": _text},
    {"examples": _count, "objects": _count, "splits": _each(_count)},
)


def _class(value: Any, path: str) -> None:
    _CLASS(value, path)
    if "splits" in value and not {"examples", "objects"} & set(value):
        raise ValueError(f"{path} has no entry 'examples'")


def _range(value: Any, path: str) -> None:
    _list(_count)(value, path)
    if len(value) != 2:
        raise _UnexpectedError(value, path, "the least and the greatest number")


_COLUMN = _object({"name": _text, "kind": _text, "feature": _text})
_FEATURE = _object(
    {"kind": _one_of(*_KINDS), "optional": _truth},
    {"shape": _shape, "pixels": _one_of("uint8", "uint16")},
)
_OPTIONS: Mapping[str, _Check] = {
    "record_format": _one_of(*FORMATS),
    "features": _optional(_each(_text)),
    "image_encoding": _optional(_text),
}
_COMPRESSION = _one_of(*COMPRESSIONS)
_READ_SHARD: Mapping[str, _Check] = {"path": _file_name, "examples": _count, "bytes": _count}
_SHARD = _object({**_READ_SHARD, "crc32c": _crc32c})


def _split(shard: _Check) -> _Check:
    return _object({"examples": _count, "bytes": _count, "shards": _list(shard)})


_READ_ENTRIES: Mapping[str, _Check] = {
    "options": _object({"compression": _COMPRESSION}, {"columns": _list(_COLUMN), **_OPTIONS}),
    "features": _each(_FEATURE),
    "splits": _each(_split(_object(_READ_SHARD))),
    "classes": _list(_CLASS),
    PARTS_ENTRY: _parts,
}
"""Entry that a reader of examples needs -> its check."""

_ENTRIES: Mapping[str, _Check] = {
    "name": _text,
    "seed": _any_integer,
    "options": _object({"compression": _COMPRESSION, "columns": _list(_COLUMN)}, _OPTIONS),
    "features": _each(_FEATURE),
    "splits": _each(_split(_SHARD)),
    "classes": _list(_class),
    "counts": _object(
        {"examples": _count},
        {"ignored_files": _each(_count), "label_rows_repeated": _count, "listed_images": _count},
    ),
    IMAGES_ENTRY: _object({"formats": _each(_count), "width": _range, "height": _range}),
    "dead_letters": _each(_count),
    PARTS_ENTRY: _parts,
}
"""Entry of a manifest -> its check."""

_MAY_BE_MISSING = frozenset({IMAGES_ENTRY, PARTS_ENTRY})
