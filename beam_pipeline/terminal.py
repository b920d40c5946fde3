"""The one place where text reaches a terminal, standard output or standard error, the progress of jobs included.

Names of files, classes and columns come from data. Whatever they contain, it must not move the cursor, forge a
line or fill the screen, and no signed URL's query may end in a log. A test contains that nothing else prints.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from beam_pipeline.core.errors import ConversionError
from beam_pipeline.core.text import counted, human_size, terminal_line
from beam_pipeline.work.job import Counts, reported_to

_LINE_INTERVAL = 10.0  # seconds between plain lines of progress


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
    """Shows a line every ten seconds, for logs; also the base of the bar. Several threads may report to it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._done = Counts()
        self._total: Counts | None = None
        self._started = self._next = time.monotonic()

    def report(self, counts: Counts) -> None:
        """Takes counts since the last call, or the totals; images are listed before the totals are known."""
        with self._lock:
            if counts.is_total:
                self._begin(counts)
                return
            self._done = Counts._make(map(sum, zip(self._done, counts, strict=True)))
            if self._total is None:
                self._show_listed(counts)
            elif counts.samples or counts.image_bytes:
                self._show_done(counts, self._total)

    def note(self, text: str) -> None:
        """Shows a line that stays."""
        complain(text)

    def close(self) -> None:
        """Ends the display."""

    def _begin(self, total: Counts) -> None:
        self._total = total
        self._started = time.monotonic()
        self._next = self._started + _LINE_INTERVAL
        complain(f"{counted(total.samples, 'sample')}, {human_size(total.image_bytes)} to write")

    def _show_listed(self, _: Counts) -> None:
        if self._done.listed and self._is_due():
            complain(f"{counted(self._done.listed, 'image')} listed")

    def _show_done(self, _: Counts, total: Counts) -> None:
        done = self._done
        if not done.image_bytes or not self._is_due():
            return
        elapsed = time.monotonic() - self._started
        left = elapsed * max(0, total.image_bytes - done.image_bytes) / done.image_bytes
        complain(
            f"{done.samples} of {counted(total.samples, 'sample')}, {human_size(done.image_bytes)} of "
            f"{human_size(total.image_bytes)}, {done.samples / elapsed:.0f} samples/s, "
            f"{human_size(int(done.image_bytes / elapsed))}/s, {left:.0f} s left"
        )

    def _is_due(self) -> bool:
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + _LINE_INTERVAL
        return True


class _Bar(Display):
    """A count of listed images, then a bar with samples, bytes, rate and time left."""

    def __init__(self) -> None:
        super().__init__()
        if "ipykernel" in sys.modules:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # without widgets it shows a bar of text, and warns
                from tqdm.auto import tqdm
        else:
            from tqdm import tqdm  # takes 0.2 s, which a job without a bar does not wait for
        self._tqdm: Any = tqdm
        self._listing: Any = None
        self._bar: Any = None

    def note(self, text: str) -> None:
        self._tqdm.write(terminal_line(text), file=sys.stderr)

    def close(self) -> None:
        for bar in (self._listing, self._bar):
            if bar is not None:
                bar.close()

    def _begin(self, total: Counts) -> None:
        self._total = total
        if self._listing is not None:
            self._listing.close()
        if self._bar is None:
            self._bar = self._tqdm(
                total=total.samples, unit=" samples", smoothing=0.1, dynamic_ncols=True
            )

    def _show_listed(self, counts: Counts) -> None:
        if self._listing is None:
            self._listing = self._tqdm(unit=" images listed", leave=False, dynamic_ncols=True)
        self._listing.update(counts.listed)
        self._listing.refresh()  # of a short listing, there may be no further report

    def _show_done(self, counts: Counts, total: Counts) -> None:
        sizes = f"{human_size(self._done.image_bytes)} of {human_size(total.image_bytes)}"
        self._bar.set_postfix_str(sizes, refresh=False)
        self._bar.update(counts.samples)


def display() -> Display:
    """The display that suits standard error: a bar on a terminal and in a notebook, plain lines otherwise."""
    return _Bar() if sys.stderr.isatty() or "ipykernel" in sys.modules else Display()


@contextlib.contextmanager
def show_progress(*, writes: bool = True) -> Iterator[None]:
    """While the block runs, shows the progress of a job whose workers are on this machine.

    Args:
      writes: False for a job that only plans; its listing is shown.
    """
    show = display()

    def report(counts: Counts) -> None:
        if writes or not counts.is_total:
            show.report(counts)

    with reported_to(report), contextlib.closing(show):
        yield
