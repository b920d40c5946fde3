"""Writing dead letters in parts, and how the memory of one worker grows with their number."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from beam_pipeline.core.dataset.names import (
    dead_letter_names,
    part_of,
    parts_for,
)
from beam_pipeline.core.dataset.plan import Plan
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import DEFAULT_POLICY
from beam_pipeline.core.packing import pack
from beam_pipeline.core.records.sharding import ShardPlan
from beam_pipeline.core.records.tfrecord import TFRecordFormat
from beam_pipeline.transforms.finishing import _write_part
from beam_pipeline.work.dead_letter_files import WrittenPart, write_parts
from tests.transforms.test_dataset_finisher import finisher_of

MOST = 1000
PLAN = Plan(ShardPlan("d", (("train", 1),), TFRecordFormat()), (), Tally(), None)


def dead_letters(count: int) -> Iterator[DeadLetter]:
    """Images without a label."""
    return (
        DeadLetter("join", f"a/{n:07}.jpg", f"/photos/a/{n:07}.jpg", "unlabelled", "no row")
        for n in range(count)
    )


@pytest.mark.parametrize("count", [10_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_the_memory_of_a_worker_does_not_grow(count: int, tmp_path: Path) -> None:
    """A part has as many dead letters, however many there are in all."""
    parts = parts_for(count, MOST)
    pieces = [pack([one for one in dead_letters(count) if part_of(one, parts) == 0])]
    names = dead_letter_names(parts)
    tracemalloc.start()
    try:
        (outcome,) = _write_part((0, pieces), (PLAN, names), finisher_of(tmp_path))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    (written,) = outcome.main
    assert len(pieces[0]) < 40_000
    assert written.letters < 1.2 * MOST
    assert peak < 1_500_000
    keys = [json.loads(line)["key"] for line in (tmp_path / names[0]).read_text().splitlines()]
    assert len(keys) == written.letters
    assert keys == sorted(keys)


def test_one_process_writes_the_same_parts(tmp_path: Path) -> None:
    """Their bytes do not depend on the engine."""
    letters, names = list(dead_letters(5000)), dead_letter_names(5)
    here, there = tmp_path / "here", tmp_path / "there"
    found = list(write_parts(str(here), names, letters))
    assert sum(part.letters for part in found) == 5000
    for number in range(5):
        piece = pack([one for one in reversed(letters) if part_of(one, 5) == number])
        (outcome,) = _write_part((number, [piece]), (PLAN, names), finisher_of(there))
        assert outcome.main == [found[number]]
    for name in names:
        assert (here / name).read_bytes() == (there / name).read_bytes()


def test_a_part_that_cannot_be_written_is_a_refusal_or_an_error(tmp_path: Path) -> None:
    """An engine that tries again needs the error."""
    (tmp_path / "file").touch()
    folder, part = str(tmp_path / "file"), (0, [pack(list(dead_letters(1)))])
    (outcome,) = _write_part(part, (PLAN, ["a"]), finisher_of(tmp_path / "file"))
    (found,) = outcome.main
    assert found == WrittenPart(1, found.refusal)
    assert found.refusal
    assert found.refusal.message.startswith(f"{folder}/a cannot be written: ")
    with pytest.raises(OSError, match="file"):
        list(
            _write_part(
                part, (PLAN, ["a"]), finisher_of(tmp_path / "file", failures=DEFAULT_POLICY)
            )
        )
