"""COCO's captions: one JSON file with many images and the sentences that describe them.

    {"images": [{"id": 139, "file_name": "000000000139.jpg", ...}, ...],
     "annotations": [{"id": 1768, "image_id": 139, "caption": "A room with chairs."}, ...]}

Source: https://cocodataset.org/#format-data
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, BinaryIO

from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.labels.schema import Column, ColumnKind, further_column
from beam_pipeline.core.references import LabelRow
from beam_pipeline.core.text import shown
from beam_pipeline.layouts.coco.instances import (
    ImageEntries,
    bad_row,
    is_id,
    is_text,
    read_lists,
)

COLUMNS = (
    Column("caption", ColumnKind.BYTES, "image/caption", True, repeated=True),
    further_column("image_id", ColumnKind.BYTES),
)
"""The captions of an image, in the order of the file, and its id as text."""


def read_captions(
    file: BinaryIO, uri: str, *, split: str = "", folder: str = ""
) -> Iterator[LabelRow | DeadLetter]:
    """Yields a row for each image of a file, in the file's order, values as in `COLUMNS`.

    Args:
      file: open at its beginning.
      uri: its URI.
      split: the split of its images, or empty.
      folder: URI of the folder of the images, or empty, as for `read_instances`.

    Raises:
      LabelTableError: the file is broken.
    """
    images = ImageEntries()
    captions: dict[Any, list[str]] = defaultdict(list)
    problems: dict[Any, str] = {}
    for key, entries in read_lists(file, uri, ("images", "annotations")):
        if key == "images":
            images.read(entries, uri)
            continue
        for number, entry in enumerate(entries, 1):
            fields = entry if isinstance(entry, dict) else {}
            image_id, caption = fields.get("image_id"), fields.get("caption")
            if not is_id(image_id):
                what = f"annotation number {number} of the list"
                problem = f"is {shown(entry)}, expected an object with an image_id"
                images.dead_letters.append(bad_row(what, problem, uri))
            elif not is_text(caption):
                problem = f"annotation number {number} of the list: caption {shown(caption)} is not a text"
                problems.setdefault(image_id, problem)
            else:
                captions[image_id].append(caption)
    yield from images.dead_letters
    for image in images.images:
        problem = images.problem(image) or problems.get(image.id, "")
        values = ((), None) if problem else (tuple(captions.get(image.id, ())), str(image.id))
        yield image.row(values, problem, split=split, folder=folder, uri=uri)
    named = dict.fromkeys((*captions, *problems), "a caption")
    yield from images.missing(named, uri)
