"""The one place where text reaches a terminal, standard output or standard error, the progress of jobs included.

Names of files, classes and columns come from data. Whatever they contain, it must not move the cursor, forge a
line or fill the screen, and no signed URL's query may end in a log. A test contains that nothing else prints.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import shutil
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from types import TracebackType

from beam_pipeline.core.errors import ConversionError
from beam_pipeline.core.text import counted, human_size, terminal_line
from beam_pipeline.work.job import Counts, reported_to

_LINE_INTERVAL = 10.0  # seconds between plain lines of progress
_LIVE_INTERVAL = 0.1  # seconds between two states of the line that changes


class _Unfailing(io.TextIOWrapper):
    """Standard error: what cannot be written to it is lost, and the program continues."""

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            super().write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            super().flush()


def prepare_streams() -> None:
    """Lets closed standard streams lead nowhere, escapes what an encoding lacks, and ignores errors of the last.

    A file that is opened must not get the number of a closed one, because any library may write to that.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            with contextlib.suppress(OSError):
                os.set_inheritable(nowhere, nowhere == number)
            stream = open(nowhere, "r" if name == "stdin" else "w", encoding="utf-8")
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)  # or it would be closed when it is replaced
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    if isinstance(sys.stderr, io.TextIOWrapper):
        encoding = sys.stderr.encoding
        sys.stderr = _Unfailing(
            sys.stderr.buffer, encoding, "backslashreplace", line_buffering=True
        )


def finish_output() -> None:
    """Writes what standard output still contains. Raises ConversionError."""
    with _writing():
        sys.stdout.flush()


@contextlib.contextmanager
def _writing() -> Iterator[None]:
    """Names an error of standard output, which then leads nowhere, so that it comes but once."""
    try:
        yield
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise
        raise ConversionError(f"standard output cannot be written: {error.strerror}") from error


def say(*lines: str) -> None:
    """Prints lines to standard output, at once. A line break within a line is escaped.

    Raises:
      ConversionError: they cannot be written.
      BrokenPipeError: nobody reads them (`... | head`).
    """
    draw(*map(terminal_line, lines))


def draw(*lines: str) -> None:
    """Prints lines to standard output that contain control sequences of our own, such as colours.

    Args:
      lines: one line each; whatever comes from data in them has been through `terminal_line`.
    """
    with _writing():
        print(*lines, sep="\n", flush=True)


def complain(*lines: str) -> None:
    """Prints lines to standard error."""
    print(*map(terminal_line, lines), sep="\n", file=sys.stderr, flush=True)


class LineFormatter(logging.Formatter):
    """Formats what libraries log; a record may have several lines."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns the lines of a record."""
        return "\n".join(map(terminal_line, super().format(record).split("\n")))


def show_traceback(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Prints the traceback of an error that is a fault of the program, as `sys.excepthook` does."""
    complain(*"".join(traceback.format_exception(kind, error, trace)).rstrip("\n").split("\n"))


# --- progress --------------------------------------------------------------------------------------


class Display:
    """Shows how far a job is: on a terminal and in a notebook a line that changes, otherwise a line every ten seconds.

    Several threads may report to it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_live = sys.stderr.isatty() or "ipykernel" in sys.modules
        self._interval = _LIVE_INTERVAL if self._is_live else _LINE_INTERVAL
        self._width = 0  # of the line that changes
        self._done, self._total = Counts(), Counts()
        self._started = self._next = time.monotonic()

    def report(self, counts: Counts) -> None:
        """Takes counts since the last call, or the totals; images are listed before the totals are known."""
        if counts.is_total:
            with self._lock:
                self._total = counts
                self._started = time.monotonic()
                self._next = self._started + self._interval
            size = human_size(counts.image_bytes)
            self.note(f"{counted(counts.samples, 'sample')}, {size} to write")
        else:
            with self._lock:
                self._done = Counts._make(map(sum, zip(self._done, counts, strict=True)))
                self._show()

    def update(self, done: Counts) -> None:
        """Takes the counts since the beginning; those of an engine that are smaller than before are outdated."""
        with self._lock:
            self._done = Counts._make(map(max, self._done, done))
            self._show()

    def note(self, text: str) -> None:
        """Shows a line that stays."""
        with self._lock:
            self._clear()
            complain(text)

    def close(self) -> None:
        """Ends the display, after the last counts where a line changes."""
        with self._lock:
            if self._is_live and (text := self._text()):
                self._clear()
                complain(text)

    def _show(self) -> None:
        now, text = time.monotonic(), self._text()
        if now < self._next or not text:
            return
        self._next = now + self._interval
        if not self._is_live:
            complain(text)
            return
        text = text[: shutil.get_terminal_size().columns - 1]
        print(f"\r{text:<{self._width}}", end="", file=sys.stderr, flush=True)
        self._width = len(text)

    def _clear(self) -> None:
        if self._width:
            print(f"\r{'':<{self._width}}\r", end="", file=sys.stderr, flush=True)
            self._width = 0

    def _text(self) -> str:
        """The counts; empty while there is nothing to tell."""
        done, total = self._done, self._total
        if not total.is_total:
            return f"{counted(done.listed, 'image')} listed" if done.listed else ""
        if not done.image_bytes:
            return ""
        elapsed = time.monotonic() - self._started
        left = elapsed * max(0, total.image_bytes - done.image_bytes) / done.image_bytes
        return (
            f"{done.samples} of {counted(total.samples, 'sample')}, {human_size(done.image_bytes)} of "
            f"{human_size(total.image_bytes)}, {done.samples / elapsed:.0f} samples/s, "
            f"{human_size(int(done.image_bytes / elapsed))}/s, {left:.0f} s left"
        )


@contextlib.contextmanager
def show_progress(*, writes: bool = True) -> Iterator[None]:
    """While the block runs, shows the progress of a job whose workers are on this machine.

    Args:
      writes: False for a job that only plans; its listing is shown.
    """
    show = Display()

    def report(counts: Counts) -> None:
        if writes or not counts.is_total:
            show.report(counts)

    with reported_to(report), contextlib.closing(show):
        yield
