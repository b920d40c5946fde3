"""Names of classes, with their numbers of images: what is asked of them, as folders and as values of a column.

A line of rows/classes.txt is a row: its name, perhaps `column=NAME`, and patterns of names with escapes as in Python, each perhaps with
the number of images of each, such as `{cat,dog}=3`; otherwise it is 5.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beam_pipeline.core.dataset.plausibility import LabelChecks, class_questions
from beam_pipeline.core.text import enumerated
from tests.conformance import texts
from tests.conformance.trees import paths

_SHOWN = 12


@dataclass(frozen=True)
class Classes:
    """Classes with their numbers of images.

    Attributes:
      counts: class -> number of images.
      column: the label column.
    """

    counts: Mapping[str, int]
    column: str = "label"

    def outcome(self) -> dict[str, Any]:
        """The questions with their answers, of folders, of a column, and of folders that a list names."""
        column = LabelChecks(f"the column {self.column!r}", self.column)
        folders = LabelChecks("folder names", folder="root")
        listed = LabelChecks("folder names", folder="root", listed=True)
        asked = {
            "column": _asked(self.counts, column),
            "folders": _asked(self.counts, folders),
            "listed": _asked(self.counts, listed),
        }
        if asked["listed"] == asked["folders"]:
            del asked["listed"]
        shown = enumerated([f"{n} {name}" for name, n in self.counts.items()], _SHOWN)
        return {"classes": shown, **asked}


def _asked(classes: Mapping[str, int], checks: LabelChecks) -> dict[str, Any]:
    return {question.id: question.answer for question in class_questions(classes, checks)}


def _row(parts: list[str]) -> Classes:
    column = "label"
    counts: dict[str, int] = {}
    for part in parts:
        pattern, _, number = part.partition("=")
        if pattern == "column":
            column = number
        else:
            name = re.sub(
                r"\\[0ux][0-9a-f]*", lambda m: m[0].encode().decode("unicode_escape"), pattern
            )
            counts |= dict.fromkeys(paths(name), int(number or 5))
    return Classes(counts, column)


_LINES = Path(__file__).with_name("rows").joinpath("classes.txt").read_text(encoding="utf-8")
ROWS = texts.by_name(
    (name, _row(parts)) for name, *parts in (re.split("  +", line) for line in _LINES.splitlines())
)
