"""Conversations over images, as LLaVA and TRL have them."""

from __future__ import annotations

import json
from typing import Any

from tests.pictures import picture, write_files


def _turns(question: str, answer: str) -> list[dict[str, str]]:
    return [{"from": "human", "value": question}, {"from": "gpt", "value": answer}]


def make(folder: str) -> None:
    """Writes llava/ with four images, and talks about one, none or two of them."""
    pictures = {f"llava/coco/{i}.jpg": picture(i + 1, size=(40, 30)) for i in range(4)}
    talks: list[dict[str, Any]] = [
        {"id": f"v{i}", "image": f"{i % 3}.jpg", "conversations": _turns(f"<image>\n{i}?", "Yes.")}
        for i in range(6)
    ]
    talks += [
        {"id": "t0", "conversations": _turns("Who are you?", "A model.")},
        {
            "id": "m0",
            "image": ["0.jpg", "3.jpg"],
            "conversations": _turns("<image><image>\nDo they differ?", "Yes."),
        },
    ]
    image = {"type": "image", "image": "3.jpg"}
    parts = [image, {"type": "text", "text": "What colour?"}]
    messages = [{"role": "user", "content": parts}, {"role": "assistant", "content": "Blue."}]
    files = {
        "llava/talks.json": json.dumps(talks, indent=2),
        "llava/messages.jsonl": json.dumps({"messages": messages}) + "\n",
    }
    write_files(folder, {**pictures, **files})
