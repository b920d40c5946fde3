"""The files beside the shards: the registry of their names, and of how a run knows its own.

A run with `--overwrite` deletes the files of an earlier one, and never a file of anybody else's that
happens to be called `labels.txt`. An entry says how the two are told apart. A new file beside the
shards is a function that makes its content and a line in `SIDE_FILES`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from beam_pipeline.core.card.croissant import CROISSANT_NAME, croissant
from beam_pipeline.core.card.metadata_files import (
    SCHEMA_NAME,
    class_files_of,
    schema_files,
    tfds_files,
    tfds_names,
)
from beam_pipeline.core.card.readme import README_NAME, readme
from beam_pipeline.core.card.seal import is_unchanged
from beam_pipeline.core.dataset.changes import CHANGES_NAME, parse_changes
from beam_pipeline.core.dataset.duplicates import DUPLICATES_NAME, parse_duplicates
from beam_pipeline.core.dataset.manifest import LABEL_MAP_NAME, LABELS_NAME
from beam_pipeline.core.dataset.names import (
    DEAD_LETTERS_NAME,
    MANIFEST_NAME,
    PART_PATTERN,
)
from beam_pipeline.core.errors import ConversionError
from beam_pipeline.core.report.report_file import REPORT_NAME, is_sealed

_Manifest = Mapping[str, Any]

CARD_NAMES = (README_NAME, CROISSANT_NAME)
"""The files of the data card."""


@dataclass(frozen=True)
class SideFile:
    """A file beside the shards.

    Attributes:
      pattern: matches its name.
      is_ours: tells from the manifest beside it, its name and its content whether a run wrote it and
        nobody replaced it since; None where the name alone tells.
      gives_way: a file of that name that no run wrote stays where it is, and a run leaves out its
        own; otherwise the run stops.
    """

    pattern: str
    is_ours: Callable[[_Manifest, str, bytes], bool] | None = None
    gives_way: bool = False


def _has_classes_of(manifest: _Manifest, name: str, content: bytes) -> bool:
    return class_files_of(manifest).get(name) == content


def _lists_changes(_manifest: _Manifest, name: str, content: bytes) -> bool:
    try:
        return bool(parse_changes(content, name))
    except ConversionError:
        return False


def _lists_duplicates(_manifest: _Manifest, name: str, content: bytes) -> bool:
    try:
        return bool(parse_duplicates(content, name))
    except ConversionError:
        return False


def _is_named_by_tfds(manifest: _Manifest, name: str, _content: bytes) -> bool:
    return name in tfds_names(manifest)


def _is_unchanged(_manifest: _Manifest, _name: str, content: bytes) -> bool:
    return is_unchanged(content)


def _is_sealed(_manifest: _Manifest, _name: str, content: bytes) -> bool:
    return is_sealed(content)


SIDE_FILES = (
    SideFile(re.escape(MANIFEST_NAME)),
    SideFile(re.escape(DEAD_LETTERS_NAME)),
    SideFile(PART_PATTERN),
    SideFile(re.escape(LABELS_NAME), _has_classes_of),
    SideFile(re.escape(LABEL_MAP_NAME), _has_classes_of),
    SideFile(re.escape(CHANGES_NAME), _lists_changes),
    SideFile(re.escape(DUPLICATES_NAME), _lists_duplicates),
    SideFile(re.escape(REPORT_NAME), _is_sealed),
    SideFile(r"(dataset_info|features)\.json"),
    SideFile(r".*\.labels\.txt", _is_named_by_tfds),
    SideFile(re.escape(SCHEMA_NAME), _is_unchanged, gives_way=True),
    SideFile(re.escape(README_NAME), _is_unchanged, gives_way=True),
    SideFile(re.escape(CROISSANT_NAME), _is_unchanged, gives_way=True),
)


def side_file(name: str) -> SideFile | None:
    """The entry of a file by its name; None for a file of another kind."""
    return next((one for one in SIDE_FILES if re.fullmatch(one.pattern, name)), None)


def gives_way(name: str) -> bool:
    """True if a run leaves a file of somebody else's by this name alone and goes on."""
    entry = side_file(name)
    return entry is not None and entry.gives_way


def files_from_manifest(manifest: _Manifest, *, card: bool) -> Iterator[tuple[str, bytes]]:
    """Yields the name and content of every file that is made from the manifest alone.

    Args:
      manifest: of the complete data set.
      card: whether it gets a data card.
    """
    yield from class_files_of(manifest).items()
    yield from tfds_files(manifest).items()
    yield from schema_files(manifest).items()
    if card:
        yield README_NAME, readme(manifest)
        yield CROISSANT_NAME, croissant(manifest)
