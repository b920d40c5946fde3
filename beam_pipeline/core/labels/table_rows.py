"""Reads tables: chunks of rows by columns, with a reader for each format; `table_files` tells the formats apart.

A chunk has the cells of some thousand rows by column, and the faults of rows that cannot be told apart. Regular lines
of CSV are cut into columns at once (`columns_of_lines`); all else is parsed record by record.

In rows of JSON that are conversations, images are put where other tables have them:

| row | becomes |
|---|---|
| `"image": ["a.jpg"]`, or `images` | `"image": "a.jpg"` |
| `"image": ["a.jpg", "b.jpg"]` | `"images": ["a.jpg", "b.jpg"]`, a column of files |
| `"messages"` with parts such as `{"type": "image", "image": "a.jpg"}` | the same, of all parts |

Sources: LLaVA's docs/Finetune_Custom_Data.md; the messages of TRL and of chat templates in transformers.
"""

from __future__ import annotations

import csv
import enum
import io
import json
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, BinaryIO, NamedTuple

from beam_pipeline.core.errors import LabelTableError, reason_of
from beam_pipeline.core.json_file import JsonFile, JsonFileError
from beam_pipeline.core.labels.cells import by_text, is_number
from beam_pipeline.core.labels.parquet_columns import json_value, parquet_errors
from beam_pipeline.core.listing import cuts, filters
from beam_pipeline.core.packing import Same
from beam_pipeline.core.text import excerpt, is_utf8, printable

UTF_8, WINDOWS = "utf-8-sig", "cp1252"
ENCODING_NAMES = {WINDOWS: "Windows-1252", UTF_8: "UTF-8", "utf-16": "UTF-16"}
_WIDE = ("utf-16", "utf-32", "utf-7")  # codecs that cannot turn a bad byte into a surrogate
_BYTEWISE = frozenset((UTF_8, "utf-8", "ascii", WINDOWS, "latin-1"))
"""Encodings whose line break byte is never part of another character."""

BLOCK_BYTES = 1 << 20  # of lines that become columns at once, some 25,000 rows
_ROWS_AT_ONCE = 4096
_MOST_LINES = 10
"""The most lines that a stray quote may span before the rest of the file is unreliable."""

_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+([eE][+-]?[0-9]+)?")
_EXTENSION = "|".join(re.escape(ending) for ending in sorted(filters.IMAGE_EXTENSIONS) if ending)
_SPACED = re.compile(rf"\s*(\S.*?(?:{_EXTENSION})|\S+)\s+(\S.*?)\s*", re.IGNORECASE)
"""A line such as `n01440764/n01440764_10026.JPEG 0` or `0787226 Boeing 707-320`: the image's name and its label."""
_BOXED = re.compile(
    rf"\s*(\S.*?(?:{_EXTENSION}))((?:\s+-?\d[\d.]*(?:,-?\d[\d.]*){{3}},\w+)*)\s*", re.IGNORECASE
)
"""A line such as `a.jpg 1,2,30,40,0 5,6,70,80,1`: the image's name, and the corners and class of each of its boxes."""
NUMBERED = re.compile(r"\s*(\S[^\t]*\.\w{2,5})#\d+\t(.*?)\s*")
"""A line of Flickr captions: the image's name, the caption's number, and the caption."""

_TALKS = ("messages", "conversations")
IMAGES_COLUMN = "images"
_IMAGES = ("image", IMAGES_COLUMN)
_PARTS = ("image", "image_url", "path")

ABSENT = object()
"""The cell of a row of JSON without such a column."""

_Record = tuple[int, Any, str]
"""(line, cells or fields, problem or empty)"""


class Format(enum.Enum):
    """How a file contains its rows; see the top of `table_files`."""

    CSV = "tables"
    SPACED = "lists of images and labels"
    NAMES = "lists of images"
    NUMBERED = "numbered captions"
    BOXED = "lists of images and their boxes"
    JSON_LINES = "tables in JSON Lines"
    JSON_ARRAY = "tables in JSON"
    PARQUET = "tables in Parquet"


@dataclass(frozen=True)
class LabelTable:
    """The format of one file.

    Attributes:
      uri: the file.
      format: how it contains rows.
      encoding: a name that Python knows, such as "utf-8-sig"; empty for Parquet.
      delimiter: one character between the cells of CSV; empty for any other format.
      header: column names, stripped; empty for JSON and Parquet, whose rows name their fields.
      key_column: name of the column that names the image.
      header_lines: how many records before the first row are not rows; if none, the names are ours.
      decimal_commas: columns whose numbers have a decimal comma.
      split: the split of its rows, or empty.
      folder: what relative names of images are relative to, below the images' folder; empty for the folder itself.
    """

    uri: str
    format: Format
    encoding: str = ""
    delimiter: str = ""
    header: tuple[str, ...] = ()
    key_column: str = ""
    header_lines: int = 1
    decimal_commas: tuple[str, ...] = ()
    split: str = ""
    folder: str = ""

    @property
    def cut(self) -> cuts.Cut | None:
        """How the file may be cut.

        None if it is read as a whole, as bytes of line breaks may be parts of characters, or of records.
        """
        if self.format is Format.PARQUET:
            return cuts.ByRowGroups()
        if self.format is Format.JSON_ARRAY or self.encoding not in _BYTEWISE:
            return None
        return cuts.ByLines(self.delimiter)


class TableHead(NamedTuple):
    """The beginning of a label file.

    Attributes:
      uri: the file.
      data: its first bytes; empty for a Parquet file.
      whole: True if that is the whole file.
      rows: the first rows of a Parquet file, or of what is no file; None for any other.
    """

    uri: str
    data: bytes
    whole: bool
    rows: TableRows | None = None


@dataclass
class TableRows:
    """Rows of a table, by columns.

    Attributes:
      lines: where each row starts, or its number in a Parquet file.
      columns: name -> the cells of all rows, `ABSENT` where a row of JSON lacks such a column.
      faults: (line, message) of further rows, whose cells cannot be told apart.
      ragged: False if each row surely has all columns.
    """

    lines: Sequence[int]
    columns: Mapping[str, Sequence[Any]]
    faults: Sequence[tuple[int, str]] = ()
    ragged: bool = False

    @classmethod
    def of_fields(
        cls,
        lines: Sequence[int],
        fields: Sequence[Mapping[str, Any]],
        faults: Sequence[tuple[int, str]] = (),
    ) -> TableRows:
        """The rows of objects of JSON."""
        names = dict.fromkeys(name for row in fields for name in row)
        columns = {name: [row.get(name, ABSENT) for row in fields] for name in names}
        return cls(lines, columns, faults, ragged=any(len(row) < len(names) for row in fields))

    @classmethod
    def together(cls, parts: Sequence[TableRows]) -> TableRows:
        """The rows of all parts, without faults."""
        names = dict.fromkeys(name for part in parts for name in part.columns)
        columns = {name: [c for part in parts for c in part.cells(name, ABSENT)] for name in names}
        return cls([line for part in parts for line in part.lines], columns, ragged=True)

    def __len__(self) -> int:
        return len(self.lines)

    def cells(self, name: str, absent: Any = None) -> Sequence[Any]:
        """The cells of a column, with `absent` for rows without it."""
        cells = self.columns.get(name)
        if cells is None:
            return Same(absent, len(self.lines))
        if self.ragged and absent is not ABSENT:
            return [absent if cell is ABSENT else cell for cell in cells]
        return cells

    def chosen(self, rows: Sequence[int]) -> TableRows:
        """Some of the rows, without faults."""
        columns = {name: [cells[row] for row in rows] for name, cells in self.columns.items()}
        return TableRows([self.lines[row] for row in rows], columns, ragged=self.ragged)


def read_chunks(
    file: BinaryIO,
    table: LabelTable,
    *,
    strict: bool = True,
    first_line: int = 1,
    groups: cuts.RowGroupRange | None = None,
) -> Iterator[TableRows]:
    """Yields the rows of a file, or of a part of it.

    Args:
      file: the file, open at its beginning or at the first line of the part.
      table: how it is read.
      strict: False if the file may be incomplete; then a quote that spans many lines is not an error.
      first_line: the number of the first line.
      groups: the row groups of a Parquet file to read; None for all.

    Raises:
      LabelTableError: a Parquet file or an array of JSON is broken, or a quote spans other rows.
    """
    if table.format is Format.PARQUET:
        yield from _parquet_chunks(file, table.uri, groups)
        return
    records = _records(file, table, strict, first_line)
    while batch := [*islice(records, _ROWS_AT_ONCE)]:
        yield _rows_of(batch, table)


def read_lines(
    data: bytes, table: LabelTable, *, first_line: int = 1, regular: bool = False
) -> Iterator[TableRows]:
    """Yields the rows of whole lines that are in memory, as `read_chunks` does.

    Args:
      data: the lines.
      table: how they are read.
      first_line: the number of the first one.
      regular: True if each line break is known to end a record.
    """
    if not regular and not cuts.is_regular(data, table.delimiter):
        yield from read_chunks(io.BytesIO(data), table, first_line=first_line)
        return
    for block in cuts.sub_blocks(data, BLOCK_BYTES):
        rows = _columns_at_once(block, table, first_line)
        if rows is not None:
            yield rows
        else:
            yield from read_chunks(io.BytesIO(block), table, first_line=first_line)
        first_line += block.count(b"\n")


def head_rows(head: TableHead, table: LabelTable) -> TableRows:
    """The complete rows of a file's beginning, without those that have faults, nor spaces around texts."""
    rows = head.rows
    if rows is None:
        data = head.data
        if not head.whole and table.delimiter:
            data = data[: data.rfind(b"\n") + 1] or data
        if cuts.is_regular(data, table.delimiter):
            rows = _columns_at_once(data, table, 1)
    if rows is None:
        chunks = list(read_chunks(io.BytesIO(head.data), table, strict=False))
        rows = TableRows.together(chunks or [_rows_of((), table)])
        rows = rows if head.whole else rows.chosen(range(len(rows) - 1))
    columns = {  # equal texts are one object in memory
        name: by_text(cells, lambda cell: cell.strip() if isinstance(cell, str) else cell)
        for name, cells in rows.columns.items()
    }
    return TableRows(rows.lines, columns, ragged=rows.ragged)


def _columns_at_once(block: bytes, table: LabelTable, first_line: int) -> TableRows | None:
    """The rows of regular lines; None if a line is blank, broken or no row of so many cells."""
    if table.format is not Format.CSV:
        return None
    try:
        text = block.decode(_encoding(table, first_line))
    except UnicodeDecodeError:
        return None
    columns = cuts.columns_of_lines(text, table.delimiter, len(table.header))
    if columns is None:
        return None
    if not all(map(str.strip, columns[0])) and not all(
        any(map(str.strip, row)) for row in zip(*columns, strict=True)
    ):
        return None  # lines of commas
    if first_line == 1 and table.header_lines:
        columns = [column[table.header_lines :] for column in columns]
        first_line += table.header_lines
    lines = range(first_line, first_line + len(columns[0]))
    return _with_points(TableRows(lines, dict(zip(table.header, columns, strict=True))), table)


def _encoding(table: LabelTable, first_line: int) -> str:
    """The encoding of a part of a file: a byte order mark is only at the beginning."""
    return "utf-8" if table.encoding == UTF_8 and first_line > 1 else table.encoding


def _rows_of(records: Sequence[_Record], table: LabelTable) -> TableRows:
    """The rows of records; those with a problem, or of another length than the header, are faults."""
    count = len(table.header)
    lines: list[int] = []
    sound: list[Any] = []
    faults: list[tuple[int, str]] = []
    for line, cells, problem in records:
        if count and not problem and len(cells) != count:
            problem = (
                f"{len(cells)} fields where the header has {count} ({', '.join(table.header)}): "
                f"{excerpt(table.delimiter.join(cells))}"
            )
        if problem:
            faults.append((line, problem))
        else:
            lines.append(line)
            sound.append(cells)
    if not count:
        return TableRows.of_fields(lines, [*map(_with_images, sound)], faults)
    columns = zip(*sound, strict=True) if sound else ((),) * count
    rows = TableRows(lines, dict(zip(table.header, columns, strict=True)), faults)
    return _with_points(rows, table)


def _with_points(rows: TableRows, table: LabelTable) -> TableRows:
    """The rows with a point for each decimal comma."""
    for name in table.decimal_commas:
        cells = rows.cells(name)
        points = by_text(cells, lambda c: c.replace(",", ".") if has_decimal_comma(c) else c)
        rows.columns = {**rows.columns, name: points}
    return rows


def has_decimal_comma(value: Any) -> bool:
    """True for a text such as `0,5`."""
    return isinstance(value, str) and _DECIMAL_COMMA.fullmatch(value.strip()) is not None


# --- records of texts -----------------------------------------------------------------------------


def decoding_errors(encoding: str) -> str:
    """How bytes that are not of an encoding are decoded: to what `encoding_problem` finds, where that is possible."""
    return "replace" if encoding.startswith(_WIDE) else "surrogateescape"


def _decoded(file: BinaryIO, encoding: str, newline: str | None) -> io.TextIOWrapper:
    return io.TextIOWrapper(file, encoding, errors=decoding_errors(encoding), newline=newline)


def encoding_problem(text: str, encoding: str) -> str:
    """What is wrong with a text that has broken bytes; empty if it has none."""
    if is_utf8(text):
        return ""
    return (
        f"not {ENCODING_NAMES.get(encoding, encoding)}: {excerpt(printable(text))}; save the file as UTF-8 "
        "(iconv -f ... -t utf-8), or give --labels_encoding NAME"
    )


def csv_records(
    file: BinaryIO, encoding: str, delimiter: str, uri: str = "", first_line: int = 1
) -> Iterator[tuple[int, list[str], str]]:
    """Yields (first line, cells, problem or empty) of every record; skips empty lines.

    A cell that is longer than `csv.field_size_limit` is a problem. That limit is global to the
    process, so the code that opens files sets it.

    Args:
      file: the file, open at its beginning.
      encoding: its encoding.
      delimiter: the separator of cells.
      uri: the file's name, if a quote that spans many lines is to be an error.
      first_line: the number of the first line.

    Raises:
      LabelTableError: a quote spans so many rows that the images they name are unknown.
    """
    text = _decoded(file, encoding, newline="")
    reader = csv.reader(text, delimiter=delimiter, skipinitialspace=True, strict=True)
    while True:
        line = reader.line_num + first_line
        try:
            cells = next(reader)
        except StopIteration:
            break
        except csv.Error as error:
            last = reader.line_num + first_line - 1
            lines = f"lines {line} to {last}" if last > line else f"line {line}"
            problem = f"{lines}: not CSV: {error}; look for a quote that is not closed"
            if uri and last - line >= _MOST_LINES:
                raise LabelTableError(f"{uri}, {problem} in line {line}") from error
            yield line, [], problem
            continue
        if any(map(str.strip, cells)):  # Excel leaves lines of commas
            yield line, cells, encoding_problem(delimiter.join(cells), encoding)
    text.detach()


def _records(file: BinaryIO, table: LabelTable, strict: bool, first_line: int) -> Iterator[_Record]:
    """The records of a file of text, below the header."""
    encoding = _encoding(table, first_line)
    if table.format is Format.JSON_ARRAY:
        return _json_array(file, encoding, table, strict)
    if table.format is not Format.CSV:
        return _lines(file, encoding, table, first_line)
    uri = table.uri if strict else ""
    records = csv_records(file, encoding, table.delimiter, uri, first_line)
    return islice(records, table.header_lines if first_line == 1 else 0, None)


def _lines(file: BinaryIO, encoding: str, table: LabelTable, first_line: int) -> Iterator[_Record]:
    """The records of a list or of JSON Lines."""
    text = _decoded(file, encoding, newline=None)
    for line, record in enumerate(text, first_line):
        if not record.strip():
            continue
        problem = encoding_problem(record, encoding)
        fields: Any = ()
        if not problem and table.format is Format.JSON_LINES:
            try:
                fields = json.loads(record)
                problem = _json_problem(fields, record, encoding)
            except (ValueError, RecursionError) as error:
                problem = f"not JSON: {reason_of(error)}"
        elif not problem:
            *before, fields = cells_of_line(record, table) or ((),)
            yield from ((line, cells, "") for cells in before)
            if len(fields) != len(table.header):
                problem = f"names no image and its label: {excerpt(record.strip())}"
        yield line, fields, problem
    text.detach()


def cells_of_line(line: str, table: LabelTable) -> Sequence[Sequence[str]]:
    """Returns the cells of each row of a line of a list; of another number if the line does not fit."""
    if table.format is Format.BOXED:
        return boxed_objects(line)
    if table.format is Format.NAMES:
        return [[line.strip()]]
    if table.format is Format.SPACED:
        return [name_and_label(line)]
    caption = NUMBERED.fullmatch(line)
    return [caption.groups()] if caption else []


def boxed_objects(line: str) -> Sequence[Sequence[str]]:
    """The name, corners and class of each object of a line, all but the name empty if it has no box; none of others."""
    name, boxes = match.groups() if (match := _BOXED.fullmatch(line)) else ("", "")
    objects = [(name, *box.split(",")) for box in boxes.split()]
    return objects or [(name, "", "", "", "", "")] * bool(name)


def name_and_label(line: str) -> Sequence[str]:
    """Returns the image's name and its label; nothing if the line has another form."""
    match = _SPACED.fullmatch(line)
    if not match:
        return ()
    words = re.split(r"[\s,]+", match[2])
    if any(map(is_image_name, words)) or (len(words) > 1 and all(map(is_number, words))):
        return ()  # pairs of images, boxes or several labels
    return match.groups()


def is_image_name(text: str) -> bool:
    """True if a text ends like the name of an image file."""
    return posixpath.splitext(text)[1].lower() in filters.IMAGE_EXTENSIONS


# --- JSON and Parquet -----------------------------------------------------------------------------


def _json_array(
    file: BinaryIO, encoding: str, table: LabelTable, strict: bool
) -> Iterator[_Record]:
    """The items of an array, which is never in memory as a whole; an incomplete one ends it unless `strict`.

    Raises:
      LabelTableError: the array is broken.
    """
    errors = decoding_errors(encoding)
    array = JsonFile(file, encoding=encoding, errors=errors)
    try:
        for item in array.elements():
            fault = encoding_problem(array.text, encoding)
            yield array.line, item, fault or _json_problem(item, array.text, encoding)
    except JsonFileError as error:
        if strict:
            raise LabelTableError(f"{table.uri}: not JSON: {error}") from error


def _json_problem(fields: Any, record: str, encoding: str) -> str:
    """What is wrong with a row of JSON; empty if it is an object of valid text."""
    # an escape may represent half a character
    text = json.dumps(fields, ensure_ascii=False) if "\\u" in record else ""
    is_row = isinstance(fields, dict)
    expected = "" if is_row else f"expected a JSON object, found {excerpt(fields)}"
    return encoding_problem(text, encoding) or expected


def _with_images(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """A row with its only image as `image`, or with all of them as `images`; other rows as they are."""
    talk = next((row[name] for name in _TALKS if isinstance(row.get(name), list)), None)
    named = [row[name] for name in _IMAGES if row.get(name) is not None]
    if talk is None or len(named) > 1:
        return row
    images = named[0] if named else [*_images_in(talk)]
    if not isinstance(images, list) or not all(isinstance(image, str) for image in images):
        return row
    rest = {name: value for name, value in row.items() if name not in _IMAGES}
    if len(images) == 1:
        return {"image": images[0], **rest}
    return {**rest, "images": images} if images else rest


def _images_in(talk: Sequence[Any]) -> Iterator[str]:
    """Yields the paths in the parts of messages; none for images that are in the text themselves."""
    turns = (turn.get("content") for turn in talk if isinstance(turn, dict))
    for part in (part for content in turns if isinstance(content, list) for part in content):
        if isinstance(part, dict):
            value = next((part[name] for name in _PARTS if part.get(name)), "")
            path = value.get("url") if isinstance(value, dict) else value
            if isinstance(path, str) and path and not path.startswith("data:"):
                yield path


def _parquet_chunks(
    file: BinaryIO, uri: str, groups: cuts.RowGroupRange | None
) -> Iterator[TableRows]:
    """The rows of a file with values like JSON; memory is bounded by its row groups."""
    with parquet_errors(uri):
        from pyarrow import parquet

        opened = parquet.ParquetFile(file)
        batches = cuts.numbered_batches(opened, groups, rows_at_once=_ROWS_AT_ONCE, file=file)
        for first, batch in batches:
            columns = {name: _json_cells(cells) for name, cells in batch.to_pydict().items()}
            yield TableRows(range(first, first + len(batch)), columns)


def _json_cells(cells: Sequence[Any]) -> Sequence[Any]:
    """The cells of a column of Arrow as JSON has them."""
    plain = set(map(type, cells)) <= {str, int, bool, type(None)}
    return cells if plain else [*map(json_value, cells)]
