"""Checks every entry of a manifest that a program relies on, since a manifest may be anybody's.

    data = {"name": "d", "splits": {"train": {"examples": "2", ...}}, ...}

is refused with `splits.train.examples is '2', expected a whole number`. Further entries are allowed:
later versions may add some.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from beam_pipeline.core.dataset.dead_letter_names import MOST_PARTS, PARTS_ENTRY
from beam_pipeline.core.dataset.manifest import IMAGES_ENTRY
from beam_pipeline.core.errors import ConversionError, UsageError
from beam_pipeline.core.records.formats import COMPRESSIONS, FORMATS
from beam_pipeline.core.text import is_utf8, shown

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
