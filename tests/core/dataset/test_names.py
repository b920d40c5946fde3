"""Names inside the output folder."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from beam_pipeline.core.dataset.names import (
    INCOMPLETE_FOLDER,
    RECEIPTS_FOLDER,
    dead_letter_names,
    lists_dead_letters,
    part_of,
    parts_for,
    temporary_name,
    writer_of,
)
from beam_pipeline.core.dead_letters import DeadLetter


def test_the_folders_are_hidden() -> None:
    """No listing of images and no reader of shards looks into them."""
    assert (INCOMPLETE_FOLDER, RECEIPTS_FOLDER) == (".incomplete", ".receipts")


def test_temporary_names_are_unique() -> None:
    """Two writers of one file do not mix their bytes."""
    assert temporary_name("/out/a") != temporary_name("/out/a")


def test_a_temporary_name_says_whose_it_is() -> None:
    """The file and the process that writes it; receipts are written beside the shards' folder."""
    name = temporary_name("/out/d-train.tfrecord-00000-of-00001")
    assert name.startswith("/out/.incomplete/d-train.tfrecord-00000-of-00001.")
    assert writer_of(name) == ("d-train.tfrecord-00000-of-00001", os.getpid())
    assert temporary_name("/out/.receipts/r.json.gz").startswith("/out/.incomplete/r.json.gz.")
    assert temporary_name("/out/.incomplete/plan.json").startswith("/out/.incomplete/plan.json.")
    assert writer_of("/out/.incomplete/plan.json") is None


# --- Names of the files that list dead letters, and the part that each falls into


@pytest.mark.parametrize(
    ("count", "parts"),
    [(0, 0), (10**6, 0), (10**6 + 1, 2), (10**7, 10), (10**8, 100), (10**12, 99_999)],
)
def test_a_file_lists_a_million_at_most(count: int, parts: int) -> None:
    """More go into as many parts as are needed, up to the digits of their names."""
    assert parts_for(count) == parts


def test_names_of_parts() -> None:
    """A single file has the name that it always had."""
    assert dead_letter_names(0) == ["dead_letters.jsonl"]
    parts = ["dead_letters-00000-of-00002.jsonl", "dead_letters-00001-of-00002.jsonl"]
    assert dead_letter_names(2) == parts
    assert all(map(lists_dead_letters, ["dead_letters.jsonl", *parts]))
    assert not any(
        map(lists_dead_letters, ["dead_letters-0-of-2.jsonl", "a.jsonl", "x/" + parts[0]])
    )


@pytest.mark.parametrize("parts", [10, pytest.param(100, marks=pytest.mark.slow)])
def test_parts_are_of_one_size(parts: int) -> None:
    """Rows that all name one image differ by their lines, so no part grows beyond the others."""
    count = 1000 * parts
    rows = (
        DeadLetter("join", "rgb.png", "", "missing_image", "", "/l.csv", n) for n in range(count)
    )
    sizes = Counter(part_of(row, parts) for row in rows)
    assert len(sizes) == parts
    assert max(sizes.values()) < 1200
