"""The groups of rows: each a file in rows/, or a page of the documentation, and a file of outcomes in expected/."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from tests.conformance import classes, label_files, pages, plans, tables
from tests.conformance.texts import rows

EXPECTED = Path(__file__).with_name("expected")


class AnyRow(Protocol):
    """A conversion with its input."""

    def prepared(self) -> list[str]:
        """Writes the input into the working folder, which is empty, and returns the options."""

    def outcome(self) -> dict[str, Any]:
        """Converts in the working folder, which is empty."""


GROUPS: Mapping[str, Mapping[str, AnyRow]] = {
    "classes": classes.ROWS,
    "details": rows("details", "--yes", in_words=True),
    "golden": rows("golden", "--max_bad_fraction 1 --yes"),
    "hubs": rows("hubs"),
    "label_files": label_files.ROWS,
    "layouts": rows("layouts", "--max_bad_fraction 1 --yes"),
    "looks": rows("looks", runs=False, in_words=True),
    "nearby": rows("nearby", base="photos", runs=False),
    "options": rows("options"),
    "pages": pages.ROWS,
    "plans": plans.ROWS,
    "questions": rows("questions", base="photos"),
    "refused": rows("refused", "--yes", in_words=True),
    "samples": rows("samples"),
    "shapes": rows("shapes"),
    "tables": tables.ROWS,
}


def expected(group: str) -> dict[str, Any]:
    """Row -> its recorded outcome."""
    path = EXPECTED / f"{group}.json"
    outcomes: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return outcomes
