"""Files with the names of the classes, for programs that do not read the manifest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from beam_pipeline.core.dataset.manifest import LABEL_MAP_NAME, LABELS_NAME
from beam_pipeline.core.labels.classes import fit_a_list, label_map
from beam_pipeline.core.labels.schema import ColumnKind


def class_files(
    classes: Sequence[tuple[str, int]], *, has_boxes: bool
) -> Iterator[tuple[str, bytes]]:
    """Yields the name and content of each file with the names of the classes.

    A list of names implies the ids only if they have no gaps. Ids of a label map begin at 1, as 0 is
    the background.

    Args:
      classes: (name, id) in order of id.
      has_boxes: whether the examples have boxes.
    """
    if classes and fit_a_list(classes):
        yield LABELS_NAME, b"".join(name.encode() + b"\n" for name, _ in classes)
    if classes and classes[0][1] > 0 and has_boxes:
        yield LABEL_MAP_NAME, label_map(classes).encode()


def class_files_of(manifest: Mapping[str, Any]) -> dict[str, bytes]:
    """The same, of a complete data set: name -> content."""
    classes = [(entry["name"], entry["id"]) for entry in manifest["classes"]]
    kinds = {column["kind"] for column in manifest["options"]["columns"]}
    return dict(class_files(classes, has_boxes=ColumnKind.BOX.value in kinds))
