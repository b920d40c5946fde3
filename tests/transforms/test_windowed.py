"""Outputs at the end of a bundle."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import TaggedOutput
from apache_beam.testing.util import assert_that, equal_to

from beam_pipeline.transforms.windowed import windowed


class AtTheEnd(beam.DoFn):
    """Counts the elements of a bundle and yields the count twice, once with a tag."""

    def start_bundle(self) -> None:
        self.count = 0

    def process(self, _element: int) -> None:
        self.count += 1

    def finish_bundle(self) -> Iterator[Any]:
        yield windowed(self.count)
        yield windowed(TaggedOutput("twice", 2 * self.count))


def test_outputs_of_a_bundle_arrive_with_and_without_a_tag() -> None:
    """Beam takes them as elements of the main output and of the tagged one."""
    with beam.Pipeline() as pipeline:
        found = (
            pipeline
            | beam.Create([1, 2, 3], reshuffle=False)
            | beam.ParDo(AtTheEnd()).with_outputs("twice", main="once")
        )
        once = found["once"] | "Sum" >> beam.CombineGlobally(sum)
        twice = found["twice"] | "SumTwice" >> beam.CombineGlobally(sum)
        assert_that(once, equal_to([3]), "once")
        assert_that(twice, equal_to([6]), "twice")
