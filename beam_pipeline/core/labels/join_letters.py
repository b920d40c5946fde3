"""Dead letters of the join: rows that name no image of their own, and rows of one image that disagree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from beam_pipeline.core.dead_letters import (
    DeadLetter,
    Reason,
    Stage,
    image_dead_letter,
    row_dead_letter,
)
from beam_pipeline.core.labels.meeting import ImageNames, names_of
from beam_pipeline.core.references import ImageRef, LabelRow, Size

_SHOWN = 3  # examples of names or values in a message


def conflicting_sizes(image: ImageRef, claims: Mapping[Size, LabelRow]) -> DeadLetter:
    """The dead letter of an image of which rows claim different sizes."""
    (first_size, first), (size, row), *_ = claims.items()
    message = (
        f"{source_of(first)} claims an image of {first_size[0]} x {first_size[1]} pixels, "
        f"{source_of(row)} one of {size[0]} x {size[1]}; correct the wrong one"
    )
    return conflict(image, row, message)


def conflict(image: ImageRef, row: LabelRow, message: str) -> DeadLetter:
    """The dead letter of an image whose rows disagree, with the file and line of one."""
    return DeadLetter(
        stage=Stage.JOIN.value,
        key=image.key,
        uri=image.uri,
        reason=Reason.CONFLICTING_LABELS.value,
        message=message,
        file=row.file,
        line=row.line,
    )


def source_of(row: LabelRow) -> str:
    """The file and line of a row."""
    return f"{row.file}, line {row.line}" if row.line else row.file


def row_text(row: LabelRow) -> str:
    """The values and the split of a row, for a message."""
    if row.split and all(value is None for value in row.values):
        return f"the split {row.split}"
    values = ", ".join(map(_value_text, row.values))
    return f"{values} in {row.split}" if row.split else values


def _value_text(value: Any) -> str:
    """A value as a message shows it: of a list the first few, boxes without their lines."""
    if not isinstance(value, tuple):
        return repr(value)
    items = [repr(item[:4] if isinstance(item, tuple) else item) for item in value[:_SHOWN]]
    more = f" and {len(value) - _SHOWN} more" if len(value) > _SHOWN else ""
    return f"[{', '.join(items)}{more}]"


def orphan(row: LabelRow, images: Sequence[ImageRef], names: ImageNames) -> DeadLetter:
    """The dead letter of a row that names no image, or several."""
    keys = sorted(image.key for image in images)
    if not images:
        reason, message = Reason.MISSING_IMAGE, _missing(row, names)
    elif len(set(keys)) == 1:
        uris = ", ".join(sorted(image.uri for image in images))
        reason = Reason.AMBIGUOUS_KEY
        message = (
            f"names {uris}, which is not the only image of this path below a root; rename one, or give "
            "--images a folder above both and write the path from there in the row"
        )
    else:
        more = f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else ""
        examples = f"{', '.join(keys[:_SHOWN])}{more}"
        reason = Reason.AMBIGUOUS_KEY
        message = f"could mean {examples}; name the path relative to the root"
    return row_dead_letter(
        stage=Stage.JOIN,
        key=row.name,
        reason=reason,
        message=message,
        file=row.file,
        line=row.line,
    )


def _missing(row: LabelRow, names: ImageNames) -> str:
    """The name that was looked for; for a path, also images of its file name in other folders."""
    if "/" not in names_of(row)[-1]:
        return "no listed image has this name, with or without folder or extension"
    elsewhere = sorted(image.key for image in names.called_like(row))
    if not elsewhere:
        return "no listed image has this path or its file name, with or without extension"
    more = f" and {len(elsewhere) - _SHOWN} more" if len(elsewhere) > _SHOWN else ""
    return (
        "no listed image has this path, with or without extension; of the same file name there is "
        f"{', '.join(elsewhere[:_SHOWN])}{more}"
    )


def join_letter(image: ImageRef, reason: Reason, message: str) -> DeadLetter:
    """The dead letter of an image that the join leaves out."""
    return image_dead_letter(
        stage=Stage.JOIN, key=image.key, uri=image.uri, reason=reason, message=message
    )
