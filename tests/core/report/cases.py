"""The manifests of small data sets, and the files that are to be made from them.

`golden/CASE/manifest.json` is a manifest, and the files beside it are made from it alone. Boxes have
classes such as `<script>` and `a | b`, and dead letters; `kinds` and `masks` have every kind of feature.

    python -m tests.core.report.cases

writes the files anew from the manifests.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from beam_pipeline.core.dataset.manifest import Manifest
from beam_pipeline.core.report.side_files import files_from_manifest

GOLDEN = Path(__file__).with_name("golden")
CASES = tuple(sorted(path.name for path in GOLDEN.iterdir()))


def content_of(case: str) -> dict[str, Any]:
    """The manifest of a case, as JSON has it."""
    content: dict[str, Any] = json.loads(GOLDEN.joinpath(case, "manifest.json").read_bytes())
    return content


def manifest_of(case: str) -> Manifest:
    """The manifest of a case."""
    return Manifest.of(content_of(case))


def golden(case: str) -> dict[str, bytes]:
    """The files that are to be made from a manifest, name -> content."""
    paths = GOLDEN.joinpath(case).iterdir()
    return {path.name: path.read_bytes() for path in paths if path.name != "manifest.json"}


if __name__ == "__main__":
    for case in CASES:
        for name, content in files_from_manifest(manifest_of(case), card=True):
            GOLDEN.joinpath(case, name).write_bytes(content)
