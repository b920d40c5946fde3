"""Names of classes in a file beside tables whose rows contain their ids.

    /m/0cmf2,Airplane
    /m/02xwb,Apple

is `class-descriptions-boxable.csv` of Open Images; its other such files have a header. Source:
https://storage.googleapis.com/openimages/web/download_v7.html
"""

from __future__ import annotations

import io
import posixpath
import re
from collections.abc import Mapping, Sequence

from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.core.labels.table_files import encoding_of
from beam_pipeline.core.labels.table_rows import TableHead, csv_records
from beam_pipeline.layouts.label_files import common_categories

_NAMES_CLASSES = re.compile(r".*class[-_]?descriptions?.*\.csv", re.IGNORECASE)
_HEADER = ("LabelName", "DisplayName")


def without_class_names(
    heads: Sequence[TableHead],
) -> tuple[Sequence[TableHead], Mapping[str, str]]:
    """Returns the tables among the label files, and id -> name of the classes that others describe.

    Raises:
      LabelTableError: a description is not a list of ids and names, or descriptions disagree.
    """
    described = [h for h in heads if _NAMES_CLASSES.fullmatch(posixpath.basename(h.uri))]
    if not described or len(described) == len(heads):
        return heads, {}
    names = common_categories({h.uri: _names(h) for h in described})
    return [h for h in heads if h not in described], names


def _names(head: TableHead) -> Mapping[str, str]:
    names: dict[str, str] = {}
    for line, cells, problem in csv_records(io.BytesIO(head.data), encoding_of(head.data), ","):
        if len(cells) != 2 or problem or not all(map(str.strip, cells)) or not head.whole:
            expected = "the id and the name of a class"
            raise LabelTableError(f"{head.uri}, line {line}: expected {expected} {problem}")
        if tuple(cells) != _HEADER:
            names[cells[0].strip()] = cells[1].strip()
    return names
