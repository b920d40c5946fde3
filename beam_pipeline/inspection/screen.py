"""Tables and examples on standard output."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence

from beam_pipeline.core.inspection.table import fitted, table_lines
from beam_pipeline.core.inspection.values import value_text
from beam_pipeline.core.text import terminal_line
from beam_pipeline.inspection.lookup import FoundExample
from beam_pipeline.inspection.pictures import COLUMNS, Painter, painter_for
from beam_pipeline.inspection.sixel import cell_size
from beam_pipeline.inspection.sources import Source
from beam_pipeline.terminal import draw

_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"


class Screen:
    """Prints tables and examples: with pictures and bold headers in a terminal, plain elsewhere."""

    def __init__(self) -> None:
        self.is_terminal = sys.stdout.isatty()
        self._width = shutil.get_terminal_size().columns if self.is_terminal else 0
        self._painter: Painter | None = None
        if self.is_terminal:
            self._painter = painter_for(
                os.environ, sys.stdout.encoding, lambda: cell_size(sys.stdout)
            )

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]], right: str = "") -> None:
        """Prints a table and an empty line."""
        if not rows:
            return
        first, *others = table_lines(header, rows, self._width, right)
        draw(self._bold(first), *others, "")

    def example(self, source: Source, found: FoundExample) -> None:
        """Prints an example: its place, and its features beside its image."""
        key = next(iter(source.naming.keys_of(found.features)), "")
        name = found.file.uri.rpartition("/")[2]
        heading = terminal_line(f"{key + ', ' if key else ''}{name}, record {found.number}")
        rows = [(key, value_text(values)) for key, values in found.features.items()]
        width = self._width
        if self._painter:
            width = max(40, width - COLUMNS - 2)
        lines = table_lines(("", ""), rows, width)[1:] if rows else ["no features"]
        if self._painter:
            lines = self._painter.beside(found.features, lines)
        draw(self._bold(fitted(heading, self._width or len(heading))), *lines, "")

    def _bold(self, line: str) -> str:
        plain = not self.is_terminal or os.environ.get("NO_COLOR")
        return line if plain else f"{_BOLD}{line}{_PLAIN}"
