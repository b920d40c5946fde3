"""The one place where text reaches a terminal, standard output or standard error.

Names of files, classes and columns come from data. Whatever they hold, it must not move the cursor, forge a
line or fill the screen, and no signed URL's query may end in a log. A test holds that nothing else prints.
"""

from __future__ import annotations

import logging
import sys
import traceback
from types import TracebackType
from typing import TextIO

from beam_pipeline.core.text import terminal_line


def say(*lines: str, file: TextIO | None = None) -> None:
    """Prints lines to standard output or another stream, at once.

    Args:
      lines: a line each; a line break within one is escaped.
      file: the stream; standard output if None.
    """
    print(*map(terminal_line, lines), sep="\n", file=file or sys.stdout, flush=True)


def draw(*lines: str) -> None:
    """Prints lines to standard output that hold control sequences of our own, such as colours.

    Args:
      lines: a line each; whatever comes from data in them has been through `terminal_line`.
    """
    print(*lines, sep="\n", flush=True)


def complain(*lines: str) -> None:
    """Prints lines to standard error."""
    say(*lines, file=sys.stderr)


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
