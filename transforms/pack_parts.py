"""Packs references by parts: a GroupByKey moves a few filled parts instead of many references."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam

from beam_pipeline.transforms.core.references import pack
from beam_pipeline.transforms.windowed import windowed

MOST_HELD = 1 << 16  # references
_FILLED = 128  # references; packing a part of a few takes as long


class PackParts(beam.DoFn):
    """Base of the DoFns that yield (part, packed references).

    References wait for others of their bundle, until parts are filled or too many wait.
    """

    def start_bundle(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._parts: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
        self._held = 0

    def hold(
        self,
        batch: Sequence[tuple[Any, ...]],
        numbers: Iterable[int],
        parts: int,
    ) -> Iterator[tuple[int, bytes]]:
        """Takes references, each with the number of its part; yields all parts once enough references wait.

        Args:
          batch: references, NamedTuples of one kind.
          numbers: the part of each.
          parts: how many there are.
        """
        for item, number in zip(batch, numbers, strict=True):
            self._parts[number].append(item)
        self._held += len(batch)
        if self._held >= min(MOST_HELD, _FILLED * parts):
            yield from self._packed()

    def finish_bundle(self) -> Iterator[Any]:
        yield from map(windowed, self._packed())

    def _packed(self) -> Iterator[tuple[int, bytes]]:
        for number, items in self._parts.items():
            yield number, pack(items)
        self._forget()
