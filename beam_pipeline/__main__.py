"""`python -m beam_pipeline` is `beam-tfrecord`."""

from __future__ import annotations

import gc
import os
import sys
import threading

from beam_pipeline.cli import main


def run() -> None:
    """Runs the command and leaves at once.

    Taking down Beam's idle threads would take 0.2 s, and a thread that still waits for storage
    would hold up an interrupted run. An engine that Beam starts as a process of its own is stopped
    on the way out, so with another runner this is the usual one. Imports make no garbage: collecting
    starts behind them.
    """
    gc.disable()
    code = main(own_process=True)
    sys.stdout.flush()
    sys.stderr.flush()
    if any(argument.startswith("--runner") for argument in sys.argv):
        threading.excepthook = lambda _: None  # Beam's threads complain when the engine goes
        sys.exit(code)
    os._exit(code)


if __name__ == "__main__":
    run()
