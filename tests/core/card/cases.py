"""The manifests of four small data sets, and the cards that they are to have.

`golden/CASE.manifest.json` is the manifest of a conversion, `CASE.md` and `CASE.croissant.json` are
its cards. Boxes have classes such as `<script>` and `a | b`, and dead letters.

    python -m tests.core.card.cases

writes the cards anew from the manifests.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from beam_pipeline.core.card.croissant import croissant
from beam_pipeline.core.card.readme import readme
from beam_pipeline.core.dataset.manifest import Manifest

GOLDEN = Path(__file__).with_name("golden")
CASES = ("boxes", "class_folders", "regression", "unlabelled")


def content_of(case: str) -> dict[str, Any]:
    """The manifest of a case, as JSON has it."""
    content: dict[str, Any] = json.loads(golden(f"{case}.manifest.json"))
    return content


def manifest_of(case: str) -> Manifest:
    """The manifest of a case."""
    return Manifest.of(content_of(case))


def golden(name: str) -> bytes:
    """The content of a file."""
    return GOLDEN.joinpath(name).read_bytes()


if __name__ == "__main__":
    for one in CASES:
        GOLDEN.joinpath(f"{one}.md").write_bytes(readme(manifest_of(one)))
        GOLDEN.joinpath(f"{one}.croissant.json").write_bytes(croissant(manifest_of(one)))
