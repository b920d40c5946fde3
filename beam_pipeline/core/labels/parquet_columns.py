"""The columns of a Parquet file: which contain images, which contain labels, and the names of classes.

Hugging Face writes an image as a struct of its bytes and its path, and describes the columns in the
schema's metadata:

    image: struct<bytes: binary, path: string>
    label: int64
    huggingface: {"info": {"features": {
        "image": {"_type": "Image"},
        "label": {"names": ["cat", "dog"], "_type": "ClassLabel"}}}}

Other writers have a column of plain bytes. Source: https://huggingface.co/docs/hub/datasets-image
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, BinaryIO

from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.core.images.header import image_extension
from beam_pipeline.core.listing.cuts import numbered_batches

BYTES, PATH = "bytes", "path"
"""The members of an image that is a struct."""

_DESCRIPTION = b"huggingface"
_KIND, _IMAGE, _CLASS_LABEL = "_type", "Image", "ClassLabel"
_LISTS = frozenset(["Sequence", "List", "LargeList"])
_MEDIA = frozenset(["Audio", "Video", "Pdf"])
_LOOKED_AT = 16  # values of a column of bytes; the first may be missing
_BUFFER_BYTES = 1 << 20  # 1 MiB; pages are read through it, not whole columns of a row group


@dataclass(frozen=True)
class ParquetColumns:
    """The columns of a file.

    Attributes:
      rows: the number of its rows.
      bytes_per_row: mean bytes of a row in memory.
      images: names of the columns with an image per row.
      image_lists: names of the columns with a list of images per row.
      structs: names of those columns of images that are structs of bytes and path.
      labels: names of the columns that may contain labels.
      others: names of the other columns: bytes that are not images.
      kinds: column of labels -> its type in --columns, of those with floats or texts, or lists of them.
      classes: column, or "<column>.<list>" of objects -> names of its classes, in order of their ids.
    """

    rows: int
    bytes_per_row: int
    images: tuple[str, ...] = ()
    image_lists: tuple[str, ...] = ()
    structs: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    kinds: Mapping[str, str] = field(default_factory=dict)
    classes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def hold_images(self) -> bool:
        """True if the file contains images themselves, not their names."""
        return bool(self.images or self.image_lists)


@contextmanager
def parquet_errors(uri: str) -> Iterator[None]:
    """Turns errors of a block that reads a Parquet file into a LabelTableError that names it."""
    import pyarrow  # takes a third of a second to import, and few jobs need it

    try:
        yield
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise LabelTableError(
            f"{uri} is not a Parquet file, or is damaged or cut short ({error}); write it again"
        ) from error


def json_value(value: Any) -> Any:
    """Returns a value of Arrow as one of JSON, of which numbers, texts, true and false, None, lists and dicts are.

    A missing number (NaN, as pandas writes it) becomes None, a date or a decimal its text.
    """
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if value is None or isinstance(value, (str, int)):  # bool is an int
        return value
    if isinstance(value, dict):
        return {str(name): json_value(item) for name, item in value.items()}
    if isinstance(value, list):
        return [json_value(item) for item in value]
    return str(value)


def opened_parquet(file: BinaryIO) -> Any:
    """Opens a Parquet file whose pages are read one at a time, however large its row groups are."""
    from pyarrow import parquet

    return parquet.ParquetFile(file, buffer_size=_BUFFER_BYTES, pre_buffer=False)


def parquet_columns(file: BinaryIO, uri: str) -> ParquetColumns:
    """Tells from a file's schema, and from the first values of columns of bytes, what its columns contain.

    Raises:
      LabelTableError: it is not a Parquet file, is damaged, or has two columns of one name.
    """
    with parquet_errors(uri):
        opened = opened_parquet(file)
        schema = opened.schema_arrow
        repeated = [name for name, count in Counter(schema.names).items() if count > 1]
        if repeated:
            raise LabelTableError(
                f"{uri} has more than one column {repeated[0]!r}; give each a different name"
            )
        return _columns(opened, schema)


def _columns(opened: Any, schema: Any) -> ParquetColumns:
    from pyarrow import types

    names: dict[str, list[str]] = defaultdict(list)  # attribute -> columns
    kinds: dict[str, str] = {}
    features = _described(schema)
    for column in schema:
        name, item = column.name, _item_type(column.type)
        described = _unlisted(features.get(name))
        kind = described.get(_KIND) if isinstance(described, dict) else None
        is_struct = types.is_struct(item)
        content = {member.name: member.type for member in item}.get(BYTES) if is_struct else item
        may_be = content is not None and _is_bytes(content) and kind not in _MEDIA
        if may_be and (kind == _IMAGE or _begin_as_images(opened, name)):
            names["images" if item is column.type else "image_lists"].append(name)
            if is_struct:
                names["structs"].append(name)
        elif _holds_bytes(item):
            names["unused"].append(name)
        else:
            names["labels"].append(name)
            if types.is_floating(item):
                kinds[name] = "float"
            elif types.is_string(item) or types.is_large_string(item):
                kinds[name] = "str"
    metadata = opened.metadata
    size = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
    return ParquetColumns(
        rows=metadata.num_rows,
        bytes_per_row=size // max(1, metadata.num_rows),
        kinds=kinds,
        classes=dict(_class_names(features)),
        **{attribute: tuple(columns) for attribute, columns in names.items()},
    )


def _item_type(kind: Any) -> Any:
    """The type of the items of a list, also of lists; any other column's own type."""
    from pyarrow import types

    while types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        kind = kind.value_type
    return kind


def _holds_bytes(kind: Any) -> bool:
    """True if bytes are somewhere in a type."""
    from pyarrow import types

    kind = _item_type(kind)
    if types.is_struct(kind):
        return any(_holds_bytes(member.type) for member in kind)
    return _is_bytes(kind)


def _is_bytes(kind: Any) -> bool:
    from pyarrow import types

    return bool(
        types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)
    )


def _begin_as_images(opened: Any, column: str) -> bool:
    """True if the first value of a column of bytes is an image."""
    batches = numbered_batches(opened, None, rows_at_once=_LOOKED_AT, columns=[column])
    values = (value for _, batch in islice(batches, 1) for value in _bytes_in(batch.to_pylist()))
    return bool(image_extension(next(values, b"")))


def _bytes_in(value: Any) -> Iterator[bytes]:
    if isinstance(value, bytes):
        yield value
    elif isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _bytes_in(item)


def _described(schema: Any) -> Mapping[str, Any]:
    """Hugging Face's description of the columns; empty if missing or unreadable."""
    try:
        features = json.loads((schema.metadata or {})[_DESCRIPTION])["info"]["features"]
    except (KeyError, ValueError, TypeError, RecursionError):
        return {}
    return features if isinstance(features, dict) else {}


def _unlisted(described: Any) -> Any:
    """The description of the items of a list; any other column's own."""
    while True:
        if isinstance(described, list) and described:
            described = described[0]
        elif isinstance(described, dict) and described.get(_KIND) in _LISTS:
            described = described.get("feature")
        else:
            return described


def _class_names(features: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """(column, names) of the columns of classes, and of the lists of classes in columns of objects.

    Only names that are different texts count; else the ids stay.
    """
    for column, described in features.items():
        described = _unlisted(described)
        members = {column: described}
        if isinstance(described, dict) and described.get(_KIND) != _CLASS_LABEL:
            members = {f"{column}.{name}": _unlisted(item) for name, item in described.items()}
        for name, member in members.items():
            is_class = isinstance(member, dict) and member.get(_KIND) == _CLASS_LABEL
            names = member.get("names") if is_class else None
            if isinstance(names, list) and all(isinstance(text, str) for text in names):
                stripped = tuple(map(str.strip, names))
                if all(stripped) and len(set(stripped)) == len(stripped):
                    yield name, stripped
