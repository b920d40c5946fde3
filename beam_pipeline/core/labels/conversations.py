"""Conversations over images, in rows of JSON: the images where other tables have them.

| row | becomes |
|---|---|
| `"image": ["a.jpg"]`, or `images` | `"image": "a.jpg"` |
| `"image": ["a.jpg", "b.jpg"]` | `"images": ["a.jpg", "b.jpg"]`, a column of files |
| `"messages"` with parts such as `{"type": "image", "image": "a.jpg"}` | the same, of all parts |

Sources: LLaVA's docs/Finetune_Custom_Data.md; the messages of TRL and of chat templates in transformers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_TALKS = ("messages", "conversations")
_COLUMNS = ("image", "images")
_PARTS = ("image", "image_url", "path")


def with_images(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """A row with its only image as `image`, or with all of them as `images`; other rows as they are."""
    talk = next((row[name] for name in _TALKS if isinstance(row.get(name), list)), None)
    named = [row[name] for name in _COLUMNS if row.get(name) is not None]
    if talk is None or len(named) > 1:
        return row
    images = named[0] if named else [*_in_parts(talk)]
    if not isinstance(images, list) or not all(isinstance(image, str) for image in images):
        return row
    rest = {name: value for name, value in row.items() if name not in _COLUMNS}
    if len(images) == 1:
        return {"image": images[0], **rest}
    return {**rest, "images": images} if images else rest


def _in_parts(talk: Sequence[Any]) -> Iterator[str]:
    """Yields the paths in the parts of messages; none for images that are in the text themselves."""
    turns = (turn.get("content") for turn in talk if isinstance(turn, dict))
    for part in (part for content in turns if isinstance(content, list) for part in content):
        if isinstance(part, dict):
            value = next((part[name] for name in _PARTS if part.get(name)), "")
            path = value.get("url") if isinstance(value, dict) else value
            if isinstance(path, str) and path and not path.startswith("data:"):
                yield path
