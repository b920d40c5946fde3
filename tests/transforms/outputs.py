"""Checks the outputs of a transform, tag by tag."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import apache_beam as beam
from apache_beam.testing.util import assert_that, equal_to

from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.transforms.in_workers import Sum


def assert_items(batches: beam.PCollection, expected: Iterable[Any], label: str) -> None:
    """The items of all batches are these, in any order."""
    items = batches | f"Each of {label}" >> beam.FlatMap(list)
    assert_that(items, equal_to(list(expected)), label=label)


def assert_total(tallies: beam.PCollection, expected: Tally) -> None:
    """The tallies add up to this one."""
    total = tallies | "Total" >> beam.CombineGlobally(Sum(Tally, Tally.add))
    assert_that(total, equal_to([expected]), label="tally")


def counted(*dead_letters: DeadLetter) -> dict[str, Any]:
    """The fields of a tally that counts these dead letters, no two of one reason."""
    return {
        "dead": Counter(dead_letter.reason for dead_letter in dead_letters),
        "shown": {dead_letter.reason: [dead_letter.key] for dead_letter in dead_letters},
        "first": {
            dead_letter.reason: (
                dead_letter.key,
                dead_letter.message,
                dead_letter.file,
                dead_letter.line,
            )
            for dead_letter in dead_letters
        },
    }
