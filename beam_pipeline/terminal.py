"""The one place where text reaches a terminal, standard output or standard error.

Names of files, classes and columns come from data. Whatever they contain, it must not move the cursor, forge a
line or fill the screen, and no signed URL's query may end in a log. A test contains that nothing else prints.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import sys
import traceback
from collections.abc import Iterator
from types import TracebackType

from beam_pipeline.core.errors import ConversionError
from beam_pipeline.core.text import terminal_line


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
    text = "".join(traceback.format_exception(kind, error, trace))
    complain(*text.rstrip("\n").split("\n"))
