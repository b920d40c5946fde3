"""Tables and examples on standard output, with pictures and bold headers in a terminal."""

from __future__ import annotations

import os
import shutil
import sys
import unicodedata
from collections.abc import Sequence
from typing import Any, NamedTuple

from beam_pipeline.core.images.header import image_extension
from beam_pipeline.core.records.example_view import FeatureList
from beam_pipeline.core.text import counted, human_size, terminal_line
from beam_pipeline.inspection.pictures import COLUMNS, beside, colour_of
from beam_pipeline.inspection.select import FoundExample
from beam_pipeline.inspection.sources import Source
from beam_pipeline.inspection.statistics import MOST_TEXTS, FeatureFigures, Figures, text_of
from beam_pipeline.terminal import draw

_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"
_GAP = "  "
_LEAST = 8  # columns of a terminal for the last column
_CUT = "..."
_SHOWN_VALUES = 8
_FEW_TEXTS = 4
_NO_SPLIT = "-"


class Table(NamedTuple):
    """A table.

    Attributes:
      header: the names of the columns.
      rows: their cells.
      right: for each column `>` to align it at the right.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: str = ""


def title(source: Source) -> str:
    """One line about the whole: what it is, and how large."""
    size = human_size(sum(file.bytes for file in source.files))
    if source.manifest:
        splits = source.manifest.splits
        examples = sum(splits[split].examples for split in source.splits)
        shards = counted(len(source.files), "shard")
        return f"{source.name}: {counted(examples, 'example')} in {shards}, {size}"
    return f"{source.name}: {counted(len(source.files), 'file')}, {size}"


def split_rows(source: Source, figures: Figures, *, filtered: bool, whole: bool) -> Table:
    """A row for each split.

    Args:
      source: the files.
      figures: of the examples that were asked for.
      filtered: some examples were not asked for.
      whole: every example was read.
    """
    counts = source.folder or whole or filtered
    rows = []
    for split in source.splits:
        of_split = [file for file in source.files if file.split == split]
        examples = figures.examples[split]
        if source.manifest and not filtered:
            examples = source.manifest.splits[split].examples
        size = human_size(sum(file.bytes for file in of_split))
        rows.append(
            (split or _NO_SPLIT, *([str(examples)] if counts else []), str(len(of_split)), size)
        )
    heading = "found" if filtered else "examples"
    return Table(("split", *([heading] if counts else []), "files", "size"), rows, " >>>")


def class_rows(source: Source, figures: Figures, *, filtered: bool) -> Table:
    """A row for each class: the manifest's in order of id, others by their number of examples.

    Args:
      source: the files.
      figures: of the examples that were asked for.
      filtered: some examples were not asked for.
    """
    splits = [split for split in source.splits if split]
    columns = splits if len(splits) > 1 else []
    if source.manifest and source.manifest.unit and not filtered:
        rows = [
            (
                *(str(entry.id), entry.name),
                *(str(entry.splits.get(split, 0)) for split in columns),
                str(sum(entry.splits.get(split, 0) for split in splits)),
            )
            for entry in source.manifest.classes
        ]
        header = ("id", "class", *columns, source.manifest.unit)
        return Table(header, rows, "> " + ">" * (len(columns) + 1))
    ordered = sorted(
        figures.classes.items(),
        key=lambda item: (-item[1].total(), item[0].zfill(20) if item[0].isdecimal() else item[0]),
    )
    rows = [
        (name, *(str(counts[split]) for split in columns), str(counts.total()))
        for name, counts in ordered
    ]
    return Table(("class", *columns, "examples"), rows, " " + ">" * (len(columns) + 1))


def feature_rows(figures: Figures) -> Table:
    """A row for each feature."""
    examples = figures.examples.total()
    rows = [
        (
            key,
            " or ".join(sorted(kind or "none" for kind in feature.kinds)),
            _share(feature.present, examples),
            _span(feature.shortest, feature.longest),
            _range(feature),
        )
        for key, feature in sorted(figures.features.items())
    ]
    return Table(("feature", "kind", "present", "values", "range"), rows, "  >> ")


def _share(part: int, whole: int) -> str:
    """A percentage that is 100 for all alone, and 0 for none alone."""
    if part in (0, whole):
        return f"{100 if part else 0} %"
    return f"{min(99.9, max(0.1, 100 * part / whole)):.1f} %"


def _span(low: float, high: float) -> str:
    return _figure(low) if low == high else f"{_figure(low)} to {_figure(high)}"


def _figure(number: float) -> str:
    return str(number) if isinstance(number, int) else f"{number:.4g}"


def _range(feature: FeatureFigures) -> str:
    """The least and greatest number, or the texts, or the lengths of other bytes."""
    if not feature.values:
        return f"{feature.not_finite} not finite" if feature.not_finite else ""
    if "bytes" not in feature.kinds:
        mean = "" if feature.low == feature.high else f", mean {feature.mean:.4g}"
        odd = f", {feature.not_finite} not finite" if feature.not_finite else ""
        return _span(feature.low, feature.high) + mean + odd
    if feature.texts is None:
        sizes = [human_size(int(size)) for size in (feature.low, feature.high, feature.mean)]
        if feature.low == feature.high:
            return sizes[0]
        return f"{sizes[0]} to {sizes[1]}, mean {sizes[2]}"
    if len(feature.texts) <= _FEW_TEXTS:
        return listed(sorted(text.decode() for text in feature.texts), _FEW_TEXTS)
    number = (
        f"more than {MOST_TEXTS}" if len(feature.texts) > MOST_TEXTS else str(len(feature.texts))
    )
    return f"{number} different, such as {feature.text!r}"


# --- how tables and values look -------------------------------------------------------------------


def table_lines(table: Table, width: int) -> list[str]:
    """A table as lines: columns of the width of their cells, texts from data escaped.

    The last column is cut where a line is longer than `width`, the columns of the terminal; 0 for any.
    """
    header, rows, right = table
    cells = [[terminal_line(cell) for cell in row] for row in (header, *rows)]
    widths = [max(map(display_width, column)) for column in zip(*cells, strict=True)]
    if width:
        most = max(_LEAST * 3, width // 2)  # a long name must not push the figures out of sight
        widths = [min(column, most) for column in widths[:-1]] + widths[-1:]
        before = sum(widths[:-1]) + len(_GAP) * (len(widths) - 1)
        widths[-1] = min(widths[-1], max(_LEAST, width - before))
    lines = []
    for row in cells:
        parts = []
        for column, (cell, wide) in enumerate(zip(row, widths, strict=True)):
            text = fitted(cell, wide)
            space = " " * (wide - display_width(text))
            parts.append(space + text if right[column : column + 1] == ">" else text + space)
        lines.append(_GAP.join(parts).rstrip())
    return lines


def display_width(text: str) -> int:
    """The columns that a text takes in a terminal: Chinese and emoji take two, accents none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def fitted(text: str, width: int) -> str:
    """A text, cut where it takes more columns than there are."""
    if display_width(text) <= width:
        return text
    text = text[:width]
    while text and display_width(text) > width - len(_CUT):
        text = text[:-1]
    return (text + _CUT)[:width]


def value_text(feature: FeatureList) -> str:
    """The values of a feature in one line: texts as they are, other bytes by their number."""
    values = [_value_text(value) for value in feature.values[:_SHOWN_VALUES]]
    more = f", ... ({len(feature.values)} values)" if len(feature.values) > len(values) else ""
    return ", ".join(values) + more


def _value_text(value: Any) -> str:
    if isinstance(value, bytes):
        text = text_of(value)
        if text is not None:
            return text
        extension = image_extension(value)
        return f"{len(value)} bytes" + (f" ({extension})" if extension else "")
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def listed(values: Sequence[str], most: int) -> str:
    """Texts in quotes, the first of them where they are many."""
    return ", ".join(map(repr, values[:most])) + (", ..." if len(values) > most else "")


class Screen:
    """Prints tables and examples: with pictures and bold headers in a terminal, plain elsewhere."""

    def __init__(self) -> None:
        self.is_terminal = sys.stdout.isatty()
        self._width = shutil.get_terminal_size().columns if self.is_terminal else 0
        self._colour = colour_of(os.environ, sys.stdout.encoding) if self.is_terminal else None

    def table(self, table: Table, most: int | None = None) -> None:
        """Prints a table, or its first rows, and an empty line."""
        if not table.rows:
            return
        first, *lines = table_lines(table._replace(rows=table.rows[:most]), self._width)
        draw(self._bold(first), *lines, "")

    def example(self, source: Source, example: FoundExample) -> None:
        """Prints an example: its place, and its features beside its image."""
        key = next(iter(source.naming.keys_of(example.features)), "")
        name = example.file.uri.rpartition("/")[2]
        heading = terminal_line(f"{key + ', ' if key else ''}{name}, record {example.number}")
        rows = [(key, value_text(values)) for key, values in example.features.items()]
        width = max(40, self._width - COLUMNS - 2) if self._colour else self._width
        lines = table_lines(Table(("", ""), rows), width)[1:] if rows else ["no features"]
        if self._colour:
            lines = beside(example.features, lines, self._colour)
        draw(self._bold(fitted(heading, self._width or len(heading))), *lines, "")

    def _bold(self, line: str) -> str:
        plain = not self.is_terminal or os.environ.get("NO_COLOR")
        return line if plain else f"{_BOLD}{line}{_PLAIN}"
