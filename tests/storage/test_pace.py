"""Requests at once to a bucket: bounded once some are refused, and by trial."""

from __future__ import annotations

import threading

from beam_pipeline.storage import pace
from beam_pipeline.storage.pace import Pace


def test_refusals_halve_and_answers_raise_the_bound() -> None:
    """Once for all requests that were on their way; each round of answers adds one."""
    own = Pace()
    rounds = [own.enter() for _ in range(16)]
    for begun in rounds:
        own.refuse(begun)
    assert own.bound == 8
    own.refuse(own.sleep(0))
    assert own.bound == 4
    for _ in range(12):
        own.leave()
    for _ in range(4):
        own.leave(answered=True)
    assert 4.9 < own.bound < 5
    for _ in range(9):
        own.refuse(own.sleep(0))
    assert own.bound == 1


def test_a_place_is_waited_for() -> None:
    """As many requests as the bound are on their way; one that leaves lets the next one go."""
    own = Pace()
    own.refuse(own.enter())
    entered = threading.Event()
    thread = threading.Thread(target=lambda: (own.enter(), entered.set()))
    thread.start()
    assert not entered.wait(0.05)
    own.leave()
    assert entered.wait(30)
    thread.join()


def test_waiting_at_once_counts_once() -> None:
    """Whole seconds are reported, the rest is kept; only refusals are throttled time."""
    now = [0.0]
    meter = pace._Meter()
    clock, pace.time.monotonic = pace.time.monotonic, lambda: now[0]
    try:
        with meter.wait(refused=True), meter.wait(refused=True):
            now[0] += 2.6
        with meter.wait(refused=False):
            now[0] += 10
        assert meter.take() == pace.Usage(retries=3, throttled_s=2)
        with meter.wait(refused=True):
            now[0] += 0.5
        meter.add_read(0.0214)
        assert meter.take() == pace.Usage(retries=1, throttled_s=1, read_ms=(21,))
        assert meter.take() == pace.Usage()
    finally:
        pace.time.monotonic = clock
