"""Every reader of foreign bytes stands some hundred spoilt inputs, and those that once broke one."""

from __future__ import annotations

import os
import signal
import sys
from itertools import islice

import pytest

from tests.fuzz import __main__, targets
from tests.fuzz.campaign import MOST_BYTES, fault_of, inputs, peak_bytes
from tests.profiles import examples


@pytest.mark.promise("fuzz")
@pytest.mark.parametrize("name", targets.TARGETS)
def test_spoilt_inputs_end_in_named_errors(name: str) -> None:
    """No other error, no hang."""
    target = targets.TARGETS[name]
    assert [fault_of(target, data) for data in target.seeds] == [None] * len(target.seeds)
    tried = [*targets.KEPT.get(name, []), *islice(inputs(target, seed=0), examples(2000))]
    assert [fault for data in tried if (fault := fault_of(target, data))] == []


def test_an_input_that_ends_the_process_is_a_fault(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """As an exception of C++ does; the next target is tried all the same."""
    dying = targets.Target(lambda _: os.kill(os.getpid(), signal.SIGKILL), [b"spoilt"])
    monkeypatch.setitem(targets.TARGETS, "dying", dying)
    monkeypatch.setattr(sys, "argv", ["fuzz", "dying", "CSV", "--seconds", "0"])
    assert __main__.main() == 1
    (ended, data, tried) = capfd.readouterr().out.splitlines()
    assert (ended, data) == ("dying: ended by SIGKILL", "    b'spoilt'")
    assert tried.startswith("CSV: 1 inputs, 0 faults")


def test_sound_inputs_are_read() -> None:
    """The inputs to start from raise nothing, so that what is spoilt is near to something sound."""
    for target in targets.TARGETS.values():
        for data in target.seeds:
            target.read(data)


@pytest.mark.promise("bombs")
@pytest.mark.slow
@pytest.mark.parametrize("name", targets.TARGETS)
def test_spoilt_inputs_take_bounded_memory(name: str) -> None:
    """A length that an input claims reserves nothing."""
    target = targets.TARGETS[name]
    assert max(peak_bytes(target, data) for data in islice(inputs(target, seed=5), 60)) < MOST_BYTES
