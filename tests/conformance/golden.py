"""Inputs whose shards have had the same bytes since version 0.1.0."""

from __future__ import annotations

from tests.beam_pipeline.test_golden import CASES, INPUTS
from tests.conformance.outcome import Row

ROWS = {
    name: Row(f"{argv} --max_bad_fraction 1 --yes", INPUTS[argv.split()[1]]())
    for name, argv in CASES.items()
}
