"""Masks among the images that they are for: `a.png` and `a_mask.png` in one folder."""

from __future__ import annotations

import os
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence

from beam_pipeline.core.questions import Question, question
from beam_pipeline.core.text import counted
from beam_pipeline.layouts.label_files import shown
from beam_pipeline.layouts.nearby_folders import Folder

_OF_IMAGE = re.compile(r"(.+)([_\- ](?:mask|seg|segmentation|gt))", re.IGNORECASE)


def masks_among(inside: Sequence[Folder], typed: str) -> Iterator[Question]:
    """A doubt because of files named like a mask of an image beside them, of at least half of the images.

    Args:
      inside: the folders of images.
      typed: the path of --images.
    """
    endings: Counter[tuple[str, str]] = Counter()
    images, first = 0, ""
    for folder in inside:
        stems = {os.path.splitext(name)[0] for name in folder.images}
        for name in folder.images:
            stem, extension = os.path.splitext(name)
            found = _OF_IMAGE.fullmatch(stem)
            if found and found[1] in stems:
                endings[found[2], extension] += 1
                first = first or f"{folder.path}/{name}"
            else:
                images += 1
    masks = endings.total()
    if not masks or 2 * masks < images:
        return
    ((mark, extension),) = (ending for ending, _ in endings.most_common(1))
    pattern = rf"(?:(?P<split>train|val|test)/)?(?P<label>.+)/.+(?<!{re.escape(mark)})[.]\w+"
    yield question(
        "masks_among_images",
        f"{counted(masks, 'file')} with names of masks, such as {shown(first, typed)}, would be images like "
        "those beside them.",
        f"If folders are the classes, --label_from {shlex.quote(pattern)} leaves the masks out. If the masks "
        "are the labels:",
        images=(typed,),
        masks=(f"{typed.rstrip('/')}/**/*{mark}{extension}",),
    )
