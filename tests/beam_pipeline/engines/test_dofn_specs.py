"""Beam's search for state and timers, done once for each kind of DoFn."""

from __future__ import annotations

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.transforms import userstate
from apache_beam.transforms.core import CallableWrapperDoFn

from beam_pipeline.engines.dofn_specs import remember_dofn_specs

COUNT = userstate.CombiningValueStateSpec("count", VarIntCoder(), sum)


class Stateless(beam.DoFn):
    def process(self, element: int) -> list[int]:
        return [element]

    def counted(self, element: int, count: object = beam.DoFn.StateParam(COUNT)) -> list[int]:
        return [element]


class Counting(beam.DoFn):
    def process(self, element: int, count: object = beam.DoFn.StateParam(COUNT)) -> list[int]:
        return [element]


def test_the_answers_are_beam_s() -> None:
    """For a class with state and one without, and for functions and methods that `beam.Map` wraps."""
    remember_dofn_specs()
    once = userstate.get_dofn_specs
    remember_dofn_specs()
    assert userstate.get_dofn_specs is once
    found = once.__wrapped__
    dofns = [
        Counting(),
        beam.DoFn(),
        CallableWrapperDoFn(len),
        CallableWrapperDoFn(Stateless().process),
        CallableWrapperDoFn(Stateless().counted),
    ]
    expected = [({COUNT}, set()), (set(), set()), (set(), set()), (set(), set()), ({COUNT}, set())]
    assert [found(dofn) for dofn in dofns] == expected
    for _ in range(2):
        assert [once(dofn) for dofn in dofns] == expected


def test_an_answer_may_be_changed_by_who_asked() -> None:
    """The next one gets it as it was."""
    remember_dofn_specs()
    userstate.get_dofn_specs(Counting())[0].clear()
    assert userstate.get_dofn_specs(Counting())[0] == {COUNT}
