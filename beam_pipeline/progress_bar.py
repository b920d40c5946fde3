"""Shows the progress of a job: a bar on a terminal, plain lines otherwise."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from typing import Any

from beam_pipeline.core.text import counted, human_size, terminal_line
from beam_pipeline.terminal import complain
from beam_pipeline.work import progress
from beam_pipeline.work.progress import Counts

_LINE_INTERVAL = 10.0  # seconds between plain lines


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
        self._tqdm = _tqdm()
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
    """The display that suits standard error."""
    return _Bar() if sys.stderr.isatty() or _in_notebook() else Display()


def _in_notebook() -> bool:
    """Tells whether this process is a notebook's kernel."""
    return "ipykernel" in sys.modules


def _tqdm() -> Any:
    """The bar for a terminal or, where there are widgets, for a notebook."""
    if not _in_notebook():
        from tqdm import tqdm  # takes 0.2 s, which a job without a bar does not wait for

        return tqdm
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # without widgets it shows a bar of text, and warns
        from tqdm.auto import tqdm as tqdm_auto

    return tqdm_auto


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

    with progress.reported_to(report), contextlib.closing(show):
        yield
