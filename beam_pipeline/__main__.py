"""`python -m beam_pipeline` is `beam-tfrecord`."""

from __future__ import annotations

import gc
import os
import sys

from beam_pipeline.cli import main


def run() -> None:
    """Runs the command and leaves at once.

    Taking down Beam's idle threads would take 0.2 s, and a thread that still waits for storage
    would hold up an interrupted run. Imports make no garbage: collecting starts behind them.
    """
    gc.disable()
    code = main(own_process=True)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    run()
