"""Ctrl-C ends a job with one line, whatever it is doing, and takes its engine's processes along.

As an exception it would surface in the code of a worker, and be reported as its failure. A terminal
signals every process of its foreground group, so an engine that Beam started would end before the
launcher does, and the launcher's threads would report that. Such processes get a session of their own
(`beam_patches.shielded_engines`).
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator

from beam_pipeline.beam_patches import engine_processes
from beam_pipeline.startup import EXIT_INTERRUPTED
from beam_pipeline.terminal import complain


@contextlib.contextmanager
def interruptible(
    message: Callable[[], str], clean_up: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """While the block runs in the main thread, Ctrl-C ends the program at once.

    Args:
      message: called for what the program prints; may cancel a job elsewhere.
      clean_up: called then for what else would be left.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(*_: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a second Ctrl-C does not wait
        complain("", f"beam-tfrecord: {message()}")
        with contextlib.suppress(OSError):
            clean_up()
        for process in engine_processes:
            process.kill()
        os._exit(EXIT_INTERRUPTED)

    before = signal.signal(signal.SIGINT, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
