"""Repeats requests to a bucket that fail for a reason that may pass."""

from __future__ import annotations

import errno
import logging
import math
import random
import time
from collections.abc import Callable
from typing import ClassVar, TypeVar

from beam_pipeline.core.text import terminal_line

RETRY_SECONDS = 300.0
"""Seconds for which one request is retried."""

FIRST_DELAY = 0.2  # seconds
LONGEST_DELAY = 32.0
_SILENT_SECONDS = 10.0  # of retries that are not worth a word
_SAID_EVERY_SECONDS = 60.0

_logger = logging.getLogger(__name__)

Result = TypeVar("Result")


def retried(
    request: Callable[[], Result],
    error_of: Callable[[Exception], Exception | None],
    *,
    shown: Callable[[Exception], str] = str,
    service: str,
    uri: str,
) -> Result:
    """Makes a request, and repeats it after transient errors, with growing delays.

    Args:
      request: makes the request from its beginning each time it is called.
      error_of: returns the error to raise for one of the request; None if it may pass.
      shown: returns the text of an error, in one line.
      service: the service's name, for errors.
      uri: the object or folder that the request is about.

    Raises:
      TimeoutError: the request failed for `RETRY_SECONDS`; a runner may try the bundle again.
      Exception: another error that `error_of` returned.
    """
    began = time.monotonic()
    delay = FIRST_DELAY
    waiting = Waiting(service)
    while True:
        try:
            return request()
        except Exception as error:
            permanent = error_of(error)
            if permanent is not None:
                raise permanent from error
            seconds = time.monotonic() - began
            if seconds + delay > RETRY_SECONDS:
                what = (
                    f"{service} gave no good answer for {seconds:.0f} s; the last: {shown(error)}"
                )
                raise TimeoutError(errno.ETIMEDOUT, what, uri) from error
            waiting.add(shown(error))
        time.sleep(delay * random.uniform(0.5, 1))  # noqa: S311 -- so that clients spread
        delay = min(2 * delay, LONGEST_DELAY)


class Waiting:
    """Warns that a request has been failing for a while, once a minute in a process."""

    said: ClassVar[float] = -math.inf

    def __init__(self, service: str) -> None:
        self._service = service
        self._first: float | None = None

    def add(self, error: str) -> None:
        """Takes the text of a transient error."""
        now = time.monotonic()
        self._first = now if self._first is None else self._first
        waited = now - self._first
        if waited < _SILENT_SECONDS or now < Waiting.said + _SAID_EVERY_SECONDS:
            return
        Waiting.said = now
        _logger.warning(
            "%s has given no good answer for %.0f s, the last: %s; retrying for %.0f s in all",
            self._service,
            waited,
            terminal_line(error),
            RETRY_SECONDS,
        )
