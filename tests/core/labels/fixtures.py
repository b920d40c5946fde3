"""Label tables of a few lines, given as text, and images joined with rows."""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from beam_pipeline.core import dead_letters, references
from beam_pipeline.core.labels import join, matching, samples, typed_rows
from beam_pipeline.core.labels.table_rows import LabelTable, TableHead, read_chunks
from beam_pipeline.core.labels.tables import LabelSchema, inspect_tables
from tests.conformance.tables import choices_of


def inspect(
    content: str | bytes, uri: str = "labels.csv", **choices: Any
) -> tuple[LabelSchema, LabelTable]:
    """The columns of a table and how it is read; short names of options will do."""
    data = content.encode() if isinstance(content, str) else content
    schema, (table,) = inspect_tables([TableHead(uri, data, True)], choices_of(choices))
    return schema, table


def read(
    content: str | bytes, uri: str = "labels.csv", **choices: Any
) -> list[references.LabelRow | dead_letters.DeadLetter]:
    schema, table = inspect(content, uri, **choices)
    data = content.encode() if isinstance(content, str) else content
    return read_rows(data, table, schema)


def read_rows(
    data: bytes, table: LabelTable, schema: LabelSchema
) -> list[references.LabelRow | dead_letters.DeadLetter]:
    """The rows of a file and its dead letters, in the order of their lines."""
    rows: list[references.LabelRow | dead_letters.DeadLetter] = []
    for part in typed_rows.label_rows(read_chunks(io.BytesIO(data), table), table, schema):
        rows += [part] if isinstance(part, dead_letters.DeadLetter) else part
    return sorted(rows, key=lambda row: row.line)


def joined(
    images: Iterable[references.ImageRef],
    rows: Iterable[references.LabelRow],
    merger: samples.RowMerger = samples.AGREE,
    buckets: int = 1,
) -> join.Joined:
    """What becomes of images and rows in however many buckets, sorted."""
    groups: dict[int, tuple[list[Any], list[Any]]] = defaultdict(lambda: ([], []))
    of_rows = None if merger.level is None else 0
    for kind, (items, level) in enumerate(((images, merger.level), (rows, of_rows))):
        for item in items:
            (number,) = matching.NameDivision(buckets, level).numbers([[item[0]]])
            groups[number][kind].append(item)
    whole = join.Joined()
    for group in groups.values():
        part = join.join_bucket(*(list(zip(*items, strict=True)) for items in group), merger)
        whole.samples += part.all_samples()
        whole.dead_letters += part.dead_letters
        whole.orphan_rows += part.orphan_rows
        whole.repeated_rows += part.repeated_rows
        whole.further_samples += part.further_samples
    whole.samples.sort(key=repr)
    whole.dead_letters.sort()
    return whole
