"""Formats of table files: encoding, separator, header, and rows as fields.

CSV and TSV files have a header, or are lists such as `a.jpg cat`. In JSON Lines every line is an
object that names its own fields; Parquet is read in batches of rows.
"""

from __future__ import annotations

import csv
import io
import json
import math
import posixpath
import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, BinaryIO, NamedTuple

from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.core.labels.cells import is_empty
from beam_pipeline.core.labels.name_lists import (
    check_no_numbered_names,
    header_of_names,
    is_image_name,
    split_line,
)
from beam_pipeline.core.labels.parquet_rows import read_parquet
from beam_pipeline.core.listing.cuts import ByLines, ByRowGroups, Cut, RowGroupRange
from beam_pipeline.core.listing.filters import IMAGE_EXTENSIONS
from beam_pipeline.core.text import is_utf8, printable, shown

_SEPARATORS = ",;\t|"
_SPACE = " "
_LINE = "\n"
WITHOUT_CELLS = (_SPACE, _LINE)
"""Delimiters of lists, whose lines are not cut into cells: see `LabelTable`."""

PARQUET = "parquet"
"""`LabelTable.encoding` of a Parquet file, which is not text."""

UTF_8 = "utf-8-sig"
_WINDOWS = "cp1252"
_LATIN = "latin-1"
_WIDE = ("utf-16", "utf-32", "utf-7")  # codecs that cannot turn a bad byte into a surrogate
_BYTEWISE = frozenset((UTF_8, "utf-8", "ascii", _WINDOWS, _LATIN))
"""Encodings in which the byte of a line break is never part of another character."""

_ENCODING_NAMES = {_WINDOWS: "Windows-1252", _LATIN: "Latin-1", UTF_8: "UTF-8"}

_MOST_LINES = 10
"""The most lines that a stray quote may span before the rest of the file is unreliable."""

_BEFORE_JSON = b"\r\n\t \xef\xbb\xbf"
_JSON_MAP = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"[^"]*\.\w{2,5}"\s*:\s*["\d]')
_JSON_LISTS = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"[^"]*"\s*:\s*\[\s*"')
_ADVICE = {
    ".xml": ". Pascal VOC's annotations, a file for each image, are read with --layout voc; tools such as "
    "CVAT export COCO's JSON as well",
    ".mat": ". Write a table such as filename,label from what scipy.io.loadmat reads, as in "
    "docs/datasets/official_lists.md",
    ".manifest": ". If it has a JSON object per line, as Ground Truth's manifests do, copy it to a name "
    "that ends in .jsonl",
}

_EXCELS_SEPARATOR = re.compile(r'\s*"?sep=[^"\w]?"?\s*', re.IGNORECASE)
_SHEETS = (".xlsx", ".xls", ".xlsm", ".ods")
_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+([eE][+-]?[0-9]+)?")
_NUMERIC_SHARE = 0.9  # of a column's values must be numbers for commas to be decimal commas

_EXTENSION = "|".join(re.escape(ending) for ending in sorted(IMAGE_EXTENSIONS) if ending)
_LISTED = re.compile(rf"\s*(\S.*?(?:{_EXTENSION}))\s+(\S.*?)\s*", re.IGNORECASE)
"""A line such as `n01440764/n01440764_10026.JPEG 0`: the image's name and its label."""

_ROWS_COMPARED = 1000  # with the first line

LIST_HEADER = ("filename", "label")
"""The columns of a list without a header."""

BOX_LIST_HEADER = ("filename", "x1", "y1", "x2", "y2", "class")
"""The columns of a list of boxes without a header, as in keras-retinanet."""


@dataclass(frozen=True)
class LabelTable:
    """The format of one file.

    Attributes:
      uri: the file.
      encoding: a name that Python knows, such as "utf-8-sig"; "parquet" for a Parquet file.
      delimiter: one character, or empty for JSON Lines and Parquet. A space for a list of names with
        an extension and a label each; a line break for one of other names, or of names alone.
      header: column names, stripped; empty for JSON Lines and Parquet.
      key_column: name of the column that names the image.
      has_header: True if the first line holds the names; otherwise the names are ours.
      decimal_commas: columns whose numbers have a decimal comma.
      split: the split of its rows, or empty.
    """

    uri: str
    encoding: str
    delimiter: str
    header: tuple[str, ...]
    key_column: str
    has_header: bool = True
    decimal_commas: tuple[str, ...] = ()
    split: str = ""

    @property
    def is_list(self) -> bool:
        """True for a list without a header whose lines begin with an image's name."""
        return self.delimiter == _LINE


class TableHead(NamedTuple):
    """The beginning of a label file.

    Attributes:
      uri: the file.
      data: its first bytes; empty for a Parquet file.
      whole: True if that is the whole file.
      rows: the first rows of a Parquet file; None for any other.
    """

    uri: str
    data: bytes
    whole: bool
    rows: tuple[Mapping[str, Any], ...] | None = None


def inspect_file(head: TableHead, encoding: str = "") -> LabelTable:
    """Decides how a file is read, except for its key column.

    Args:
      head: its beginning.
      encoding: the encoding given by the user, or empty.

    Raises:
      LabelTableError: it is empty, of an unsupported kind, or has no usable header.
    """
    if head.rows is not None:
        if not head.rows:
            raise LabelTableError(f"{head.uri}: the file is empty; expected rows")
        return LabelTable(uri=head.uri, encoding=PARQUET, delimiter="", header=(), key_column="")
    extension = posixpath.splitext(head.uri)[1].lower()
    if extension in _SHEETS:
        raise LabelTableError(_sheet_problem(head.uri))
    if not head.data.strip(b"\r\n\t \xef\xbb\xbf"):
        raise LabelTableError(f"{head.uri}: the file is empty; expected a header and rows")
    if extension in (".jsonl", ".ndjson"):
        return LabelTable(
            uri=head.uri,
            encoding=encoding or encoding_of(head.data),
            delimiter="",
            header=(),
            key_column="",
        )
    table = LabelTable(
        uri=head.uri,
        encoding=encoding or guess_encoding(head),
        delimiter="",
        header=(),
        key_column="",
    )
    check_no_numbered_names(_first_line(head, table.encoding), head.uri)
    if extension in (".tsv", ".tab"):
        return _with_header(head, replace(table, delimiter="\t"))
    if extension in (".csv", ".txt", ".lst", ".list", ""):
        return _with_header(head, replace(table, delimiter=_separator(head, table.encoding)))
    raise LabelTableError(
        f"{head.uri}: labels are read from .csv, .tsv, .txt, .jsonl, .ndjson or .parquet, not "
        f"{extension}{_advice(head, extension)}"
    )


def _advice(head: TableHead, extension: str) -> str:
    """The end of a sentence: how to write labels of other formats as a table; empty if unknown."""
    if extension == ".json":
        found = "; of JSON, only COCO's is read"
        lines = (
            f"{shlex.quote(head.uri)} > {shlex.quote(posixpath.splitext(head.uri)[0] + '.jsonl')}"
        )
        if head.data.lstrip(_BEFORE_JSON).startswith(b"["):
            return f"{found}. An object per image becomes a line: jq -c '.[]' {lines}"
        if _JSON_MAP.match(head.data):
            pairs = "to_entries[] | {file_name: .key, label: .value}"
            return f"{found}. Names with labels become lines: jq -c '{pairs}' {lines}"
        if _JSON_LISTS.match(head.data):
            names = lines.replace(".jsonl", ".txt")
            return f"{found}. Names by class become a list of images: jq -r '.[][]' {names}"
        return f'{found}. Write a line for each image, such as {{"file_name": "a.jpg", "label": "cat"}}'
    return _ADVICE.get(extension, "")


def encoding_of(data: bytes) -> str:
    """Returns the encoding of a file that begins with these bytes: UTF-16 has a byte order mark."""
    return "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else UTF_8


def guess_encoding(head: TableHead) -> str:
    """Guesses the encoding of a text: Windows-1252 if its beginning is not UTF-8.

    If it contains valid multi-byte characters, it is UTF-8, and a broken byte is a fault of its
    row.
    """
    encoding = encoding_of(head.data)
    if encoding != UTF_8 or head.data.isascii():
        return encoding
    text = head.data.decode(UTF_8, "surrogateescape")
    if not head.whole:
        text = text[:-3]  # the last character may be incomplete
    broken = sum("\udc80" <= mark <= "\udcff" for mark in text)
    if not broken or broken <= sum(mark > "\x7f" for mark in text) - broken:
        return UTF_8
    try:
        head.data.decode(_WINDOWS)
    except UnicodeDecodeError:
        return _LATIN
    return _WINDOWS


def file_notes(head: TableHead, table: LabelTable) -> Iterator[str]:
    """Returns notes for the user on how a file is read, one sentence each."""
    name = posixpath.basename(table.uri)
    if table.encoding in (_WINDOWS, _LATIN):
        words = re.findall(r"\w*[^\x00-\x7f]\w*", head.data.decode(table.encoding, "replace"))
        yield (
            f"{name} is not UTF-8 and is read as {_ENCODING_NAMES[table.encoding]}, with words such "
            f"as {', '.join(map(repr, words[:1]))}; override it with --labels_encoding NAME"
        )
    if table.is_list and len(table.header) == 1:
        yield f"{name} has no header, and is read as a list of images without labels"
    elif not table.has_header:
        yield (
            f"{name} has no header; its first line is an image, so its columns are "
            f"{', '.join(table.header)}"
        )
    if table.decimal_commas:
        yield (
            f"{name}: numbers with a decimal comma in {', '.join(table.decimal_commas)} are read as "
            "with a point; --columns NAME:str keeps them as text"
        )


def sample_columns(head: TableHead, table: LabelTable) -> Mapping[str, Sequence[Any]]:
    """Returns column -> its values in the complete rows of a file's beginning, stripped.

    Raises:
      LabelTableError: no line holds a JSON object.
    """
    return columns_of(sample_rows(head, table), table)


def columns_of(rows: Sequence[Mapping[str, Any]], table: LabelTable) -> Mapping[str, Sequence[Any]]:
    """Returns column -> its values in these rows; a row of JSON need not have every column.

    Raises:
      LabelTableError: there is no row of JSON.
    """
    columns: dict[str, list[Any]] = {name: [] for name in table.header}
    for fields in rows:
        for name, value in fields.items():
            columns.setdefault(name, []).append(value)
    if not columns:
        raise LabelTableError(
            f'{table.uri}: no line holds a JSON object such as {{"file_name": "a.jpg", "label": "cat"}}'
        )
    return columns


def sample_rows(head: TableHead, table: LabelTable) -> list[Mapping[str, Any]]:
    """Returns the complete rows of a file's beginning, stripped; the last may be incomplete and is dropped."""
    rows = [fields for _, fields, problem in head_fields(head, table) if not problem]
    if not head.whole and head.rows is None:
        rows = rows[:-1]
    return [
        {name: value.strip() if isinstance(value, str) else value for name, value in fields.items()}
        for fields in rows
    ]


def with_decimal_commas(table: LabelTable, head: TableHead, texts: Collection[str]) -> LabelTable:
    """Returns the table with `decimal_commas` filled in.

    Args:
      table: one with `;` between its cells; no other has such numbers.
      head: its beginning.
      texts: columns to leave out, such as those declared as texts or lists by the user.
    """
    if table.delimiter != ";":
        return table
    found = []
    for name, values in sample_columns(head, table).items():
        cells = [value for value in values if not is_empty(value)]
        commas = sum(map(_has_decimal_comma, cells))
        numbers = commas + sum(map(_is_number, cells))
        if name and name not in texts and commas and numbers >= _NUMERIC_SHARE * len(cells):
            found.append(name)
    return replace(table, decimal_commas=tuple(found))


def head_fields(head: TableHead, table: LabelTable) -> Iterator[tuple[int, Mapping[str, Any], str]]:
    """Returns the rows of a file's beginning, as `read_fields` does."""
    if head.rows is not None:
        return ((line, fields, "") for line, fields in enumerate(head.rows, 1))
    return read_fields(io.BytesIO(head.data), table)


def read_fields(
    file: BinaryIO,
    table: LabelTable,
    *,
    strict: bool = False,
    first_line: int = 1,
    groups: RowGroupRange | None = None,
) -> Iterator[tuple[int, Mapping[str, Any], str]]:
    """Yields (line, fields by column, problem or empty) of every row after the header.

    In a Parquet file, the line is the number of the row.

    Args:
      file: the file, open at its beginning.
      table: how it is read.
      first_line: the number of the first line, if it is only a later part of the file.
      groups: the row groups of a Parquet file to read; None for all.
      strict: True if a quote that spans many lines is an error; False if the file may be
        incomplete.

    Raises:
      LabelTableError: a Parquet file is broken, or a quote spans other rows.
    """
    if table.encoding == PARQUET:
        yield from read_parquet(file, table.uri, groups)
        return
    if not table.delimiter:
        yield from _json_records(file, _encoding(table, first_line), first_line)
        return
    records = _records(file, table, table.uri if strict else "", first_line)
    columns = len(table.header)
    for line, cells, problem in records:
        if not problem and len(cells) != columns:
            problem = (
                f"{len(cells)} fields where the header has {columns} "
                f"({', '.join(table.header)}): {shown(table.delimiter.join(cells))}"
            )
        fields: dict[str, Any] = {} if problem else dict(zip(table.header, cells, strict=True))
        for name in table.decimal_commas:
            if _has_decimal_comma(fields.get(name)):
                fields[name] = fields[name].replace(",", ".")
        yield line, fields, problem


def _encoding(table: LabelTable, first_line: int) -> str:
    """The encoding of a part of a file: a byte order mark stands only at the beginning."""
    return "utf-8" if table.encoding == UTF_8 and first_line > 1 else table.encoding


def _records(
    file: BinaryIO, table: LabelTable, uri: str, first_line: int
) -> Iterator[tuple[int, list[str], str]]:
    """Yields the records after the header."""
    encoding = _encoding(table, first_line)
    if table.delimiter in WITHOUT_CELLS:
        return _listed_records(file, encoding, first_line, table)
    records = csv_records(file, encoding, table.delimiter, uri, first_line)
    if table.has_header and first_line == 1:
        next(records, None)
    return records


def cut_of(table: LabelTable) -> Cut | None:
    """How a file may be cut.

    None if it is read as a whole, as bytes of line breaks may be parts of characters.
    """
    if table.encoding == PARQUET:
        return ByRowGroups()
    if table.encoding not in _BYTEWISE:
        return None
    return ByLines("" if table.delimiter in WITHOUT_CELLS else table.delimiter)


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
            problem = _csv_problem(error, line, last)
            if uri and last - line >= _MOST_LINES:
                raise LabelTableError(f"{uri}, {problem} in line {line}") from error
            yield line, [], problem
            continue
        if any(map(str.strip, cells)):  # Excel leaves lines of commas
            yield line, cells, _encoding_problem("".join(cells), encoding)
    text.detach()


def _csv_problem(error: csv.Error, first: int, last: int) -> str:
    lines = f"lines {first} to {last}" if last > first else f"line {first}"
    return f"{lines}: not CSV: {error}; look for a quote that is not closed"


def _listed_records(
    file: BinaryIO, encoding: str, first_line: int, table: LabelTable
) -> Iterator[tuple[int, list[str], str]]:
    """Yields the lines of a list: an image's name, and its label after a space if there are labels."""
    text = _decoded(file, encoding, newline=None)
    for line, record in enumerate(text, first_line):
        if not record.strip():
            continue
        problem = _encoding_problem(record, encoding)
        columns = len(table.header)
        found = _listed(record) if table.delimiter == _SPACE else split_line(record, columns)
        if len(found) != columns and not problem:
            problem = f"names no image and its label: {shown(record.strip())}"
        yield line, found, problem
    text.detach()


def _listed(line: str) -> list[str]:
    """Returns the image's name and its label; nothing if the line has another form."""
    found = _LISTED.fullmatch(line)
    if not found:
        return []
    name, label = found.groups()
    words = re.split(r"[\s,]+", label)
    if len(words) > 1 and (all(map(_is_number, words)) or any(map(is_image_name, words))):
        return []  # boxes, several labels or pairs of images
    return [name, label]


def _json_records(
    file: BinaryIO, encoding: str, first_line: int
) -> Iterator[tuple[int, dict[str, Any], str]]:
    text = _decoded(file, encoding, newline=None)
    for line, record in enumerate(text, first_line):
        if not record.strip():
            continue
        problem = _encoding_problem(record, encoding)
        fields: Any = {}
        if not problem:
            try:
                fields = json.loads(record, parse_float=json_float)
            except (ValueError, RecursionError) as error:
                problem = f"not JSON: {error}"
        if not problem and "\\u" in record:  # an escape may stand for half a character
            problem = _encoding_problem(json.dumps(fields, ensure_ascii=False), encoding)
        if not problem and not isinstance(fields, dict):
            problem = f"expected a JSON object, found {shown(fields)}"
        yield line, fields if not problem else {}, problem
    text.detach()


def json_float(text: str) -> float | str:
    """Parses a number of JSON; one that would be infinite stays a text, a fault of its cell."""
    number = float(text)
    return text if math.isinf(number) else number


def _with_header(head: TableHead, table: LabelTable) -> LabelTable:
    line = _first_line(head, table.encoding)
    if _EXCELS_SEPARATOR.fullmatch(line):
        raise LabelTableError(
            f"{head.uri}: the first line, {shown(line.strip())}, is read by Excel alone; remove it, so "
            "that the column names come first"
        )
    if _listed(line) and not is_image_name(line.split(table.delimiter)[0].strip()):
        return replace(table, delimiter=_SPACE, header=LIST_HEADER, has_header=False)
    names = header_of_names(_complete_lines(head, table.encoding), head.uri)
    if names:
        return replace(table, delimiter=_LINE, header=names, has_header=False)
    records = csv_records(io.BytesIO(head.data), table.encoding, table.delimiter)
    first = next(records, None)
    if first is None:
        raise LabelTableError(f"{head.uri}: no header; expected column names in the first line")
    number, cells, problem = first
    if problem:
        raise LabelTableError(f"{head.uri}, line {number}: the header cannot be read: {problem}")
    header = tuple(cell.strip() for cell in cells)
    ours = _header_of_a_list(header)
    if ours or _is_row(header, [cells for _, cells, _ in islice(records, _ROWS_COMPARED)]):
        ours = ours or LIST_HEADER
        return replace(table, header=ours, has_header=False)
    _check_header(head.uri, header)
    return replace(table, header=header)


def _header_of_a_list(cells: Sequence[str]) -> tuple[str, ...]:
    """Returns the columns of a file whose first line is an image's row; none if it is not."""
    if not is_image_name(cells[0]) or any(map(is_image_name, cells[1:])):
        return ()
    if len(cells) == len(LIST_HEADER):
        return LIST_HEADER
    corners = cells[1:5]
    if len(cells) == len(BOX_LIST_HEADER) and (all(map(_is_number, corners)) or not any(corners)):
        return BOX_LIST_HEADER
    return ()


def _is_row(first: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """True if the first line is like the rows below: a name as theirs, with a digit, and such a label.

    So a list whose names have no extension is known: img0 and cat, above img1 and dog, img2 and cat.
    """
    if len(first) != len(LIST_HEADER):
        return False
    name, label = first
    forms = {_form(row[0].strip()) for row in rows if row}
    labels = {row[1].strip() for row in rows if row[1:]}
    alike = label in labels or (_is_number(label) and all(map(_is_number, labels)))
    return re.search(r"\d", name) is not None and bool(labels) and alike and _form(name) in forms


def _form(name: str) -> str:
    return re.sub(r"\d+", "0", name)


def _lines(head: TableHead, encoding: str) -> list[str]:
    return head.data.decode(encoding, errors="replace").splitlines()


def _first_line(head: TableHead, encoding: str) -> str:
    """The first line that is not empty."""
    return next(filter(str.strip, _lines(head, encoding)), "")


def _complete_lines(head: TableHead, encoding: str) -> list[str]:
    """The lines of a file's beginning that are not empty; the last may be incomplete and is dropped."""
    lines = _lines(head, encoding)
    return list(filter(str.strip, lines if head.whole or len(lines) == 1 else lines[:-1]))


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _has_decimal_comma(value: Any) -> bool:
    return isinstance(value, str) and _DECIMAL_COMMA.fullmatch(value.strip()) is not None


def _sheet_problem(uri: str) -> str:
    csv_uri = posixpath.splitext(uri)[0] + ".csv"
    return (
        f"{uri}: spreadsheets are not read; save the sheet as CSV UTF-8 in its program, or: "
        f"pandas.read_excel({uri!r}).to_csv({csv_uri!r}, index=False). Then --labels {csv_uri}"
    )


def _separator(head: TableHead, encoding: str) -> str:
    """Returns the separator that is most frequent in the first line; a comma in case of a tie."""
    line = _first_line(head, encoding)
    return max(_SEPARATORS, key=lambda mark: (line.count(mark), mark == ","))


def _check_header(uri: str, header: Sequence[str]) -> None:
    for cell in header:
        if is_image_name(cell):
            raise LabelTableError(
                f"{uri}: the first line holds an image's name ({cell!r}) where column names are "
                f"expected; put a line with names of its {len(header)} columns before it, such as "
                "filename,label,..."
            )
    named = [name for name in header if name]
    repeated = sorted(name for name, count in Counter(named).items() if count > 1)
    if repeated:
        raise LabelTableError(
            f"{uri}: the header names {', '.join(map(repr, repeated))} more than once; "
            "give each column a different name"
        )
    if not named:
        raise LabelTableError(f"{uri}: the header is empty; expected column names")


def _decoded(file: BinaryIO, encoding: str, newline: str | None) -> io.TextIOWrapper:
    """Opens the file as text; an invalid byte becomes a surrogate, which is reported with its row."""
    errors = "replace" if encoding.startswith(_WIDE) else "surrogateescape"
    return io.TextIOWrapper(file, encoding, errors=errors, newline=newline)


def _encoding_problem(text: str, encoding: str) -> str:
    if is_utf8(text):
        return ""
    name = _ENCODING_NAMES.get(encoding, encoding)
    return (
        f"not {name}: {shown(printable(text))}; save the file as UTF-8 (iconv -f ... -t utf-8), or "
        "say --labels_encoding NAME"
    )
