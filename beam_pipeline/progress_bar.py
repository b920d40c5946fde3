"""Shows the progress of a job: a bar on a terminal, plain lines otherwise."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from typing import Any, Protocol

from beam_pipeline.core.text import counted, terminal_line
from beam_pipeline.terminal import complain
from beam_pipeline.work import progress

_LINE_INTERVAL = 10.0  # seconds between plain lines


class Display(Protocol):
    """Shows counts; used by one thread at a time."""

    def listed(self, images: int) -> None:
        """Adds the images listed since the last call; they come before the totals."""

    def start(self, samples: int, image_bytes: int) -> None:
        """Takes the totals of the whole job."""

    def add(self, samples: int, image_bytes: int) -> None:
        """Adds the samples and bytes done since the last call."""

    def note(self, text: str) -> None:
        """Shows a line that stays."""

    def close(self) -> None:
        """Ends the display."""


def display() -> Display:
    """The display that suits standard error."""
    return _Bar() if sys.stderr.isatty() or _in_notebook() else _Lines()


def _in_notebook() -> bool:
    """Tells whether this process is a notebook's kernel."""
    return "ipykernel" in sys.modules


def _tqdm() -> Any:
    """The bar for a terminal or, where there are widgets, for a notebook."""
    if not _in_notebook():
        from tqdm import tqdm  # takes 0.2 s, which a job without a bar does not wait for

        return tqdm
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # without widgets it shows a bar of text, and says so
        from tqdm.auto import tqdm as tqdm_auto

    return tqdm_auto


@contextlib.contextmanager
def show_progress(*, writes: bool = True) -> Iterator[None]:
    """While the block runs, shows the progress of a job whose workers are on this machine.

    Args:
      writes: False for a job that only plans, of which the listing is shown.
    """
    show = display()
    with progress.reported_to(_Locked(show, writes)):
        try:
            yield
        finally:
            show.close()


class _Locked:
    """Lets several threads report to a display."""

    def __init__(self, show: Display, writes: bool) -> None:
        self._show = show
        self._writes = writes
        self._lock = threading.Lock()

    def listed(self, images: int) -> None:
        with self._lock:
            self._show.listed(images)

    def start(self, samples: int, image_bytes: int) -> None:
        with self._lock:
            if self._writes:
                self._show.start(samples, image_bytes)

    def add(self, samples: int, image_bytes: int) -> None:
        with self._lock:
            self._show.add(samples, image_bytes)


class _Bar:
    """A count of listed images, then a bar with samples, bytes, rate and time left."""

    def __init__(self) -> None:
        self._tqdm = _tqdm()
        self._listing: Any = None
        self._bar: Any = None
        self._bytes = self._total_bytes = 0

    def listed(self, images: int) -> None:
        if self._bar is not None:
            return
        if self._listing is None:
            self._listing = self._tqdm(unit=" images listed", leave=False, dynamic_ncols=True)
        self._listing.update(images)
        self._listing.refresh()  # of a short listing, there may be no further report

    def start(self, samples: int, image_bytes: int) -> None:
        self._end_listing()
        self._total_bytes = image_bytes
        if self._bar is None:
            self._bar = self._tqdm(
                total=samples, unit=" samples", smoothing=0.1, dynamic_ncols=True
            )

    def add(self, samples: int, image_bytes: int) -> None:
        if self._bar is None:
            return
        self._bytes += image_bytes
        self._bar.set_postfix_str(
            f"{human_size(self._bytes)} of {human_size(self._total_bytes)}", refresh=False
        )
        self._bar.update(samples)

    def note(self, text: str) -> None:
        self._tqdm.write(terminal_line(text), file=sys.stderr)

    def close(self) -> None:
        self._end_listing()
        if self._bar is not None:
            self._bar.close()

    def _end_listing(self) -> None:
        if self._listing is not None:
            self._listing.close()
            self._listing = None


class _Lines:
    """A line every ten seconds, for logs."""

    def __init__(self) -> None:
        self._listed = 0
        self._samples = self._bytes = self._total = self._total_bytes = 0
        self._started = self._next = time.monotonic()

    def listed(self, images: int) -> None:
        self._listed += images
        now = time.monotonic()
        if now >= self._next and not self._total and self._listed:
            self._next = now + _LINE_INTERVAL
            complain(f"{counted(self._listed, 'image')} listed")

    def start(self, samples: int, image_bytes: int) -> None:
        self._total, self._total_bytes = samples, image_bytes
        self._started = time.monotonic()
        self._next = self._started + _LINE_INTERVAL
        complain(f"{counted(samples, 'sample')}, {human_size(image_bytes)} to write")

    def add(self, samples: int, image_bytes: int) -> None:
        self._samples += samples
        self._bytes += image_bytes
        now = time.monotonic()
        if now < self._next or not self._bytes:
            return
        self._next = now + _LINE_INTERVAL
        elapsed = now - self._started
        left = elapsed * max(0, self._total_bytes - self._bytes) / self._bytes
        complain(
            f"{self._samples} of {counted(self._total, 'sample')}, {human_size(self._bytes)} of "
            f"{human_size(self._total_bytes)}, {self._samples / elapsed:.0f} samples/s, "
            f"{human_size(int(self._bytes / elapsed))}/s, {left:.0f} s left"
        )

    def note(self, text: str) -> None:
        complain(text)

    def close(self) -> None:
        pass


def human_size(size: int) -> str:
    """Bytes in the largest decimal unit that leaves a number above 1."""
    value = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"
