"""The files beside the shards: the registry of their names, and of how a run knows its own.

A run with `--overwrite` deletes the files of an earlier one, and never a file of anybody else's that
happens to be called `labels.txt`. An entry tells how the two are told apart. A new file beside the
shards is a function that makes its content and a line in `SIDE_FILES`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from beam_pipeline.core.dataset import names
from beam_pipeline.core.dataset.manifest import Manifest
from beam_pipeline.core.report import contents, metadata
from beam_pipeline.core.report.card import README_NAME, readme

CARD_NAMES = (README_NAME, metadata.CROISSANT_NAME)
"""The files of the data card."""

_IsOurs = Callable[[Manifest | None, str, bytes], bool]


@dataclass(frozen=True)
class SideFile:
    """A file beside the shards.

    Attributes:
      pattern: matches its name.
      is_ours: tells from the manifest beside it, if there is one, its name and its content whether a run
        wrote it and nobody replaced it since; None where the name alone tells.
      gives_way: a file of that name that no run wrote stays where it is, and a run leaves out its
        own; otherwise the run stops.
    """

    pattern: str
    is_ours: _IsOurs | None = None
    gives_way: bool = False


def _has_classes(manifest: Manifest | None, name: str, content: bytes) -> bool:
    named = [metadata.class_files(manifest), metadata.tfds_files(manifest)] if manifest else []
    return any(files.get(name) == content for files in named)


def _is_sealed(_manifest: Manifest | None, _name: str, content: bytes) -> bool:
    return contents.is_unchanged(content)


def _contains(pattern: bytes) -> _IsOurs:
    """The check of a file that is ours by a part of its content."""
    return lambda _manifest, _name, content: re.search(pattern, content) is not None


_of_tfds = _contains(rb"\{SHARD_X_OF_Y\}|tensorflow_datasets\.FeaturesDict")

SIDE_FILES = (
    SideFile(r"manifest\.json"),
    SideFile(
        re.escape(names.DEAD_LETTERS_NAME),
        _contains(rb'\A(\{"stage": "[a-z]+", "key": "|\Z)'),
    ),
    SideFile(
        r"(dataset_info|features)\.json",
        lambda manifest, name, content: bool(manifest) and _of_tfds(manifest, name, content),
    ),
    SideFile(r"image\.(object\.)?class\.label\.labels\.txt"),
    SideFile(r"(.*\.)?labels\.txt|label_map\.pbtxt", _has_classes),
    SideFile(
        r"(changes|duplicates)\.json", _contains(rb'"format": "beam-tfrecord-(changes|duplicates)"')
    ),
    SideFile(re.escape(names.REPORT_NAME), _is_sealed),
    SideFile(r"README\.md|croissant\.json|schema\.pbtxt", _is_sealed, gives_way=True),
)


def side_file(name: str) -> SideFile | None:
    """The entry of a file by its name; None for a file of another kind."""
    return next((entry for entry in SIDE_FILES if re.fullmatch(entry.pattern, name)), None)


def gives_way(name: str) -> bool:
    """True if a run leaves a file of somebody else's by this name alone and continues."""
    entry = side_file(name)
    return entry is not None and entry.gives_way


def files_from_manifest(manifest: Manifest, *, card: bool) -> Iterator[tuple[str, bytes]]:
    """Yields the name and content of every file that is made from the manifest alone.

    Args:
      manifest: of the complete data set.
      card: whether it gets a data card.
    """
    yield from metadata.class_files(manifest).items()
    yield from metadata.tfds_files(manifest).items()
    yield from metadata.schema_files(manifest).items()
    if card:
        yield README_NAME, readme(manifest)
        yield metadata.CROISSANT_NAME, metadata.croissant(manifest)
