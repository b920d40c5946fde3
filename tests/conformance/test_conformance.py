"""Each row of the table has the outcome that is recorded; `python -m tests.conformance --write` records anew."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conformance import texts
from tests.conformance.groups import EXPECTED, GROUPS, expected
from tests.layouts.proofs import PROOFS, expected_samples, written

PARSERS = {proof.row: proof.parse for proof in PROOFS.values()}
ROWS = [(group, name) for group, rows in GROUPS.items() for name in rows]


@pytest.mark.promise("same_bytes", "books", "bad_image", "bad_label")
@pytest.mark.parametrize(("group", "name"), ROWS, ids=map("-".join, ROWS))
def test_a_row_has_the_recorded_outcome(
    group: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Layout, folders, columns, splits, classes, labels of examples, dead letters and digests of shards; an independent
    parser, where there is one, reads the same samples."""
    folder = tmp_path / "row"  # with no other test's label files in the folder above
    folder.mkdir()
    monkeypatch.chdir(folder)
    outcome = json.loads(json.dumps(GROUPS[group][name].outcome()))
    assert outcome == expected(group).get(name)
    if parse := PARSERS.get(f"{group}/{name}"):
        samples = expected_samples(parse())
        assert written("out", samples) == samples


def test_every_file_is_that_of_a_group() -> None:
    """Of rows, and of outcomes; those of questions are also asked by a test of their own."""
    assert {path.stem for path in texts.FOLDER.iterdir()} == GROUPS.keys() - {"pages"}
    assert {path.stem for path in EXPECTED.iterdir()} == {*GROUPS, "asked"}


@pytest.mark.parametrize("group", GROUPS)
def test_every_outcome_has_a_row(group: str) -> None:
    """None is left of a row that has gone."""
    assert expected(group).keys() == GROUPS[group].keys()
