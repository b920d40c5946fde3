"""Repeats requests to a bucket that fail for a reason that may pass."""

from __future__ import annotations

import errno
import logging
import random
import threading
import time
from collections.abc import Callable
from typing import TypeVar

RETRY_SECONDS = 300.0
"""Seconds for which one request is retried."""

SILENT_SECONDS = 10.0
"""Seconds of retrying after which it is said, and said again."""

_FIRST_DELAY = 0.2  # seconds
_LONGEST_DELAY = 32.0

_logger = logging.getLogger(__name__)
_lock = threading.Lock()
_last_said = -SILENT_SECONDS

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
    delay = _FIRST_DELAY
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
            if seconds >= SILENT_SECONDS:
                _say_retrying(seconds, uri, shown(error))
        time.sleep(delay * random.uniform(0.5, 1))  # noqa: S311 -- so that clients spread
        delay = min(2 * delay, _LONGEST_DELAY)


def _say_retrying(seconds: float, uri: str, error: str) -> None:
    """Warns that a request has failed for a while; not more often than `SILENT_SECONDS`."""
    global _last_said
    with _lock:
        now = time.monotonic()
        if now - _last_said < SILENT_SECONDS:
            return
        _last_said = now
    _logger.warning("retrying storage for %.0f s: %s: %s", seconds, uri, error)
