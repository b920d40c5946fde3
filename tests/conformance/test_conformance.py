"""Each row of the table has the outcome that is recorded; `python -m tests.conformance --write` records anew."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conformance.groups import GROUPS, expected

ROWS = [(group, name) for group, rows in GROUPS.items() for name in rows]


@pytest.mark.promise("same_bytes", "books", "bad_image", "bad_label")
@pytest.mark.parametrize(("group", "name"), ROWS, ids=map("-".join, ROWS))
def test_a_row_has_the_recorded_outcome(
    group: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Layout, folders, columns, splits, classes, labels of examples, dead letters and digests of shards."""
    monkeypatch.chdir(tmp_path)
    outcome = json.loads(json.dumps(GROUPS[group][name].outcome()))
    assert outcome == expected(group).get(name)


@pytest.mark.parametrize("group", GROUPS)
def test_every_outcome_has_a_row(group: str) -> None:
    """None is left of a row that has gone."""
    assert expected(group).keys() == GROUPS[group].keys()
