"""Requests that fail for a while."""

from __future__ import annotations

import errno
import itertools
import logging
import math
from collections.abc import Callable

import pytest

from beam_pipeline.storage import buckets
from tests.buckets.test_obstore import Shelf

URI = "s3://pets/a"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that pass in sleep only; the list holds those of each sleep."""
    slept: list[float] = []
    monkeypatch.setattr(buckets.time, "sleep", slept.append)
    monkeypatch.setattr(buckets.time, "monotonic", lambda: 1000 + sum(slept))
    monkeypatch.setattr(buckets.random, "uniform", lambda low, high: high)
    monkeypatch.setattr(buckets.Waiting, "warned", -math.inf)
    return slept


def _failing(times: int) -> Callable[[], str]:
    """A request that fails so often, then gives an answer."""
    counter = itertools.count()

    def request() -> str:
        if next(counter) < times:
            raise ConnectionError("503 SlowDown")
        return "answer"

    return request


class Patient(Shelf):
    """Every error may pass, except the one that it is made with."""

    title = "S3"

    def __init__(self, lasting: Exception | None = None) -> None:
        super().__init__()
        self._lasting = lasting

    def permanent(self, error: Exception, uri: str) -> Exception | None:
        return self._lasting

    def text(self, error: Exception) -> str:
        return str(error)


def _get(request: Callable[[], str], error: Exception | None = None) -> str:
    return Patient(error).retried(request, URI)


def test_delays_grow(clock: list[float]) -> None:
    """Each twice the one before."""
    assert _get(_failing(5)) == "answer"
    assert clock == [0.2, 0.4, 0.8, 1.6, 3.2]


def test_ten_seconds_of_retrying_are_said(
    clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    """In one line with the reason; a shorter trouble is not mentioned."""
    with caplog.at_level(logging.WARNING):
        _get(_failing(5))
        assert caplog.messages == []
        clock.clear()
        _get(_failing(7))
    assert caplog.messages == [
        "S3 has given no good answer for 13 s, the last: 503 SlowDown; retrying for 300 s in all"
    ]


def test_in_the_end_the_last_reason_is_told(clock: list[float]) -> None:
    """After five minutes."""
    with pytest.raises(TimeoutError) as caught:
        _get(_failing(10**9))
    assert caught.value.errno == errno.ETIMEDOUT
    assert caught.value.filename == URI
    assert str(caught.value.strerror).startswith("S3 gave no good answer for 2")
    assert str(caught.value.strerror).endswith(" s; the last: 503 SlowDown")
    assert sum(clock) <= buckets.RETRY_SECONDS


def test_a_permanent_error_is_raised_at_once(clock: list[float]) -> None:
    """As the caller has translated it."""
    error = PermissionError(errno.EACCES, "403", URI)
    with pytest.raises(PermissionError) as caught:
        _get(_failing(1), error)
    assert caught.value is error
    assert clock == []
