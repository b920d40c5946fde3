"""Tables and examples: on standard output, with pictures and bold headers in a terminal; or as files (`--to`).

A picture is of half blocks. A half block, U+2580, shows two pixels: the upper one in the foreground's colour,
the lower one in the background's. It needs nothing of a terminal but colours.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import math
import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from beam_pipeline.core.dataset.names import INCOMPLETE_FOLDER
from beam_pipeline.core.errors import OutputError, OutputNotEmptyError
from beam_pipeline.core.images.header import image_extension
from beam_pipeline.core.records.example_view import NO_VALUES, FeatureList, Features
from beam_pipeline.core.text import counted, human_size, span, terminal_line
from beam_pipeline.inspection.select import MOST_TEXTS, FeatureFigures, FoundExample, Scan
from beam_pipeline.inspection.sources import Source, text_of
from beam_pipeline.storage import files
from beam_pipeline.terminal import draw

if TYPE_CHECKING:
    from PIL import Image

COLUMNS = 24
"""The width of a picture in characters, which are about twice as high as wide."""

_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"
_GAP = "  "
_LEAST = 8  # columns of a terminal for the last column
_CUT = "..."
_SHOWN_VALUES = 8
_FEW_TEXTS = 4
_NO_SPLIT = "-"
_CUBE = (0, 95, 135, 175, 215, 255)
"""The levels of red, green and blue among a terminal's 256 colours."""
_IMAGE_KEYS = ("image/encoded", "image", "image_raw", "jpg", "png", "jpeg")
_EXAMPLES_NAME = "examples.jsonl"
_NOT_IN_NAMES = re.compile(r"[^\w.\-]+")
_LONGEST_NAME = 60  # characters, which are 240 bytes at most

Colour = Callable[[int, int, int], str]
"""(red, green, blue) -> the colour in a control sequence, after `38;` or `48;`."""


# --- tables ---------------------------------------------------------------------------------------


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
    content = counted(len(source.files), "shard" if source.manifest else "file")
    if source.manifest:
        splits = source.manifest.splits
        examples = sum(splits[split].examples for split in source.splits)
        content = f"{counted(examples, 'example')} in {content}"
    return f"{source.name}: {content}, {human_size(sum(file.bytes for file in source.files))}"


def split_rows(source: Source, result: Scan, *, filtered: bool) -> Table:
    """A row for each split, of the examples that were asked for; `filtered`: some were not."""
    counts = source.folder or result.whole or filtered
    rows = []
    for split in source.splits:
        sizes = [file.bytes for file in source.files if file.split == split]
        examples = result.examples[split]
        if source.manifest and not filtered:
            examples = source.manifest.splits[split].examples
        number = [str(examples)] if counts else []
        rows.append([split or _NO_SPLIT, *number, str(len(sizes)), human_size(sum(sizes))])
    heading = ["found" if filtered else "examples"] if counts else []
    return Table(["split", *heading, "files", "size"], rows, " >>" + ">" * len(heading))


def class_rows(source: Source, result: Scan, *, filtered: bool) -> Table:
    """A row for each class: the manifest's in order of id, others by their number of examples."""
    splits = [split for split in source.splits if split]
    columns = splits if len(splits) > 1 else []
    if source.manifest and source.manifest.unit and not filtered:
        head = ["id", "class"]
        unit = source.manifest.unit
        classes = [
            ([str(entry.id), entry.name], entry.splits, sum(entry.splits.get(s, 0) for s in splits))
            for entry in source.manifest.classes
        ]
    else:
        head, unit = ["class"], "examples"
        ordered = sorted(
            result.classes.items(),
            key=lambda item: (-item[1].total(), item[0].zfill(20 * item[0].isdecimal())),
        )
        classes = [([name], counts, counts.total()) for name, counts in ordered]
    rows = [
        [*names, *(str(counts.get(split, 0)) for split in columns), str(total)]
        for names, counts, total in classes
    ]
    right = ("> " if len(head) > 1 else " ") + ">" * (len(columns) + 1)
    return Table([*head, *columns, unit], rows, right)


def feature_rows(result: Scan) -> Table:
    """A row for each feature."""
    examples = result.examples.total()
    rows = [
        (
            key,
            " or ".join(sorted(kind or "none" for kind in feature.kinds)),
            _share(feature.kinds.total(), examples),
            span(_number, (feature.shortest, feature.longest)),
            _range(feature),
        )
        for key, feature in sorted(result.features.items())
    ]
    return Table(("feature", "kind", "present", "values", "range"), rows, "  >> ")


def _share(part: int, whole: int) -> str:
    """A percentage that is 100 for all alone, and 0 for none alone."""
    if part in (0, whole):
        return f"{100 if part else 0} %"
    return f"{min(99.9, max(0.1, 100 * part / whole)):.1f} %"


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.4g}"


def _range(feature: FeatureFigures) -> str:
    """The least and greatest number, or the texts, or the lengths of other bytes."""
    odd = f"{feature.not_finite} not finite" if feature.not_finite else ""
    if not feature.values:
        return odd
    if "bytes" not in feature.kinds:
        mean = "" if feature.low == feature.high else f"mean {feature.mean:.4g}"
        ends = span(_number, (feature.low, feature.high))
        return ", ".join(filter(None, (ends, mean, odd)))
    texts = feature.texts
    if texts is None:
        low, high, mean = (human_size(int(n)) for n in (feature.low, feature.high, feature.mean))
        return low if feature.low == feature.high else f"{low} to {high}, mean {mean}"
    if len(texts) <= _FEW_TEXTS:
        return ", ".join(repr(text.decode()) for text in sorted(texts))
    number = f"more than {MOST_TEXTS}" if len(texts) > MOST_TEXTS else str(len(texts))
    return f"{number} different, such as {feature.text!r}"


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
        for cell, wide, side in zip(row, widths, right.ljust(len(row)), strict=True):
            text = fitted(cell, wide)
            space = " " * (wide - display_width(text))
            parts.append(space + text if side == ">" else text + space)
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
    count = len(feature.values)
    values = ", ".join(map(_value_text, feature.values[:_SHOWN_VALUES]))
    return f"{values}, ... ({count} values)" if count > _SHOWN_VALUES else values


def _value_text(value: Any) -> str:
    if not isinstance(value, bytes):
        return f"{value:.6g}" if isinstance(value, float) else str(value)
    text, extension = text_of(value), image_extension(value)
    size = f"{len(value)} bytes" + (f" ({extension})" if extension else "")
    return size if text is None else text


class Screen:
    """Prints tables and examples: with pictures and bold headers in a terminal, plain elsewhere."""

    def __init__(self) -> None:
        self.is_terminal = sys.stdout.isatty()
        self._width = shutil.get_terminal_size().columns if self.is_terminal else 0
        self._colour = colour_of(os.environ, sys.stdout.encoding) if self.is_terminal else None

    def table(self, table: Table, most: int | None = None) -> None:
        """Prints a table, or its first rows, and an empty line."""
        if table.rows:
            first, *lines = table_lines(table._replace(rows=table.rows[:most]), self._width)
            draw(self._bold(first), *lines, "")

    def example(self, source: Source, example: FoundExample) -> None:
        """Prints an example: its place, and its features beside its image."""
        place = filter(None, (*source.keys_of(example.features)[:1], example.file.name))
        heading = terminal_line(f"{', '.join(place)}, record {example.number}")
        rows = [(key, value_text(values)) for key, values in example.features.items()]
        width = max(40, self._width - COLUMNS - 2) if self._colour else self._width
        lines = table_lines(Table(("", ""), rows), width)[1:] if rows else ["no features"]
        if self._colour:
            lines = beside(example.features, lines, self._colour)
        draw(self._bold(fitted(heading, self._width or len(heading))), *lines, "")

    def _bold(self, line: str) -> str:
        plain = not self.is_terminal or os.environ.get("NO_COLOR")
        return line if plain else f"{_BOLD}{line}{_PLAIN}"


# --- pictures -------------------------------------------------------------------------------------


def image_of(features: Features) -> bytes | None:
    """An example's image file, in a usual feature or in the first that contains one."""
    images = {key: data for key, data, _ in _images(features)}
    return next((bytes(images[key]) for key in (*_IMAGE_KEYS, *images) if key in images), None)


def bare_pixels_of(features: Features) -> tuple[bytes, int, int] | None:
    """(bytes, width, height) of an image that is stored as bare RGB pixels."""
    lists = [features.get(f"image/{name}", NO_VALUES) for name in ("encoded", "width", "height")]
    if [(kind, len(values)) for kind, values in lists] != [("bytes", 1), *2 * [("int64", 1)]]:
        return None
    data, width, height = (values[0] for _, values in lists)
    is_bare = min(height, width) > 0 and len(data) == 3 * height * width
    return (data, width, height) if is_bare else None


def _picture_of(features: Features) -> Image.Image | None:
    """The image of an example in RGB, as large as a picture; None if it cannot be decoded."""
    if pixels := bare_pixels_of(features):
        from PIL import Image  # an example need not have an image

        data, width, height = pixels
        image = Image.frombytes("RGB", (width, height), data)
        image.thumbnail((COLUMNS, COLUMNS))
        return image
    if encoded := image_of(features):
        from beam_pipeline.core.report.thumbnails import small_image

        return small_image(encoded, COLUMNS)
    return None


def beside(features: Features, lines: list[str], colour: Colour) -> list[str]:
    """Lines with the picture of an example at their left; the same lines without an image."""
    image = _picture_of(features)
    if image is None:
        return lines
    space = " " * (COLUMNS - image.width)
    rows = [f"{_line(image, row, colour)}{space}" for row in range(0, image.height, 2)]
    pairs = itertools.zip_longest(rows, lines)
    return [f"{row or ' ' * COLUMNS}  {text or ''}".rstrip(" ") for row, text in pairs]


def _line(image: Image.Image, row: int, colour: Colour) -> str:
    """Two rows of pixels, from this one on, as one of characters."""
    parts = []
    for x in range(image.width):
        pixels: Any = [image.getpixel((x, y)) for y in range(row, min(row + 2, image.height))]
        colours = (f"{end};{colour(*pixel)}" for end, pixel in zip((38, 48), pixels, strict=False))
        parts.append(f"\x1b[{';'.join(colours)}m\N{UPPER HALF BLOCK}")
    return "".join(parts) + _PLAIN


def true_colour(*levels: int) -> str:
    """A colour of 24 bits."""
    return "2;{};{};{}".format(*levels)


def cube_colour(*levels: int) -> str:
    """The nearest of a terminal's 256 colours."""
    red, green, blue = (min(range(6), key=lambda i: abs(_CUBE[i] - value)) for value in levels)
    return f"5;{16 + 36 * red + 6 * green + blue}"


def colour_of(environment: Mapping[str, str], encoding: str) -> Colour | None:
    """The colours that a terminal understands; None if it shows none, or no half blocks.

    Args:
      environment: variables; terminals describe themselves in them.
      encoding: of standard output.
    """
    is_plain = environment.get("TERM", "") in ("", "dumb") or environment.get("NO_COLOR")
    if is_plain or encoding.lower().replace("-", "") != "utf8":
        return None
    is_true = environment.get("COLORTERM", "").lower() in ("truecolor", "24bit")
    return true_colour if is_true else cube_colour


# --- files ----------------------------------------------------------------------------------------


@contextlib.contextmanager
def exporting(source: Source, folder: str) -> Iterator[Callable[[FoundExample], None]]:
    """While the block runs, writes examples to a folder as image files and, at its end, JSON Lines.

    Args:
      source: where the examples come from.
      folder: the folder or its URI, new or empty. No file is written outside it, whatever the keys are.

    Raises:
      OutputNotEmptyError: the folder contains files.
      OutputError: a file cannot be written.
    """
    folder = files.canonical(folder)
    numbers = itertools.count()

    def write(example: FoundExample) -> None:
        key = next(iter(source.keys_of(example.features)), "")
        features = {name: json_value(values) for name, values in example.features.items()}
        for feature, data, extension in _images(example.features):
            name = safe_name(next(numbers), key, extension)
            files.write_bytes(files.join(folder, name), data)
            features[feature] = {"file": name}
        line = {
            "key": key,
            "split": example.file.split,
            "file": example.file.name,
            "record": example.number,
            "features": features,
        }
        text = json.dumps(line, ensure_ascii=False, allow_nan=False)
        lines.write(f"{text}\n".encode("utf-8", "backslashreplace"))

    with files.naming(f"--to {folder}", OutputError, "written"):
        if files.list_folder(folder):
            raise OutputNotEmptyError(f"--to {folder} is not empty; name a new folder")
        files.make_folder(folder)
        try:
            with files.open_output(files.join(folder, _EXAMPLES_NAME)) as lines:
                yield write
        finally:
            files.remove_folder(files.join(folder, INCOMPLETE_FOLDER))


def _images(features: Features) -> Iterator[tuple[str, bytes, str]]:
    """(feature, content of a file, extension) of each image of an example."""
    if pixels := bare_pixels_of(features):
        data, width, height = pixels
        yield "image/encoded", b"P6\n%d %d\n255\n" % (width, height) + data, "ppm"
    for key, (kind, values) in features.items():
        if kind == "bytes" and len(values) == 1 and (extension := image_extension(values[0])):
            yield key, values[0], extension


def json_value(feature: FeatureList) -> Any:
    """The values of a feature for JSON: one value as itself, others as a list.

    Bytes that are not text become {"base64": ...}; NaN and infinities, which JSON does not have, texts.
    """
    values = [_json_of(value) for value in feature.values]
    return values[0] if len(values) == 1 else values


def _json_of(value: Any) -> Any:
    if isinstance(value, bytes):
        text = text_of(value)
        return {"base64": base64.b64encode(value).decode()} if text is None else text
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def safe_name(number: int, key: str, extension: str) -> str:
    """A file name for a sample that is unique by its number and is in no other folder.

    >>> safe_name(7, "../cat/a 1.jpg", "jpg")
    '000007-a_1.jpg'
    """
    stem = key.replace("\\", "/").rstrip("/").rpartition("/")[2]
    if stem.lower().endswith(f".{extension}"):
        stem = stem[: -len(extension) - 1]
    stem = _NOT_IN_NAMES.sub("_", stem)[:_LONGEST_NAME].strip("._")
    return f"{number:06d}{'-' if stem else ''}{stem}.{extension}"
