"""Plain lists in, exact lists out: what a transform makes of its inputs, tag by tag."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import apache_beam as beam

from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.packing import Batch
from beam_pipeline.work.outcome import TALLY

_made: defaultdict[str, list[Any]] = defaultdict(list)


def _note(item: Any, tag: str) -> None:
    """Called by the engine, which runs in this process."""
    _made[tag].append(item)


def outputs(build: Callable[[beam.Pipeline], Any], *tags: str) -> list[Any]:
    """The elements of some outputs of what is built into a pipeline; of tallies, the sum.

    Without tags, those of its only output.
    """
    _made.clear()
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        built = build(pipeline)
        for tag in tags:
            _ = built[tag] | f"Note {tag}" >> beam.Map(_note, tag)
        if not tags:
            _ = built | "Note" >> beam.Map(_note, "")
    if not tags:
        return in_order(_made[""])
    return [_total(_made[tag]) if tag == TALLY else _items(_made[tag]) for tag in tags]


def _total(tallies: Iterable[Tally]) -> Tally:
    total = Tally()
    for tally in tallies:
        total.add(tally)
    return total


def _items(elements: list[Any]) -> list[Any]:
    """The items of batches, or elements, in order."""
    if any(isinstance(element, Batch) for element in elements):
        elements = [item for batch in elements for item in batch]
    return in_order(elements)


def in_order(items: Any) -> list[Any]:
    """The order that `outputs` gives to elements."""
    return sorted(items, key=repr)


def counted(*dead_letters: DeadLetter) -> dict[str, Any]:
    """The fields of a tally that counts these dead letters, no two of one reason."""
    first = {one.reason: (one.key, one.message, one.file, one.line) for one in dead_letters}
    return {
        "dead": Counter(first.keys()),
        "shown": {reason: [key] for reason, (key, *_) in first.items()},
        "first": first,
    }
