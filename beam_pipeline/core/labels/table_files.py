r"""Formats of table files: how encoding, separator and header are told from the beginning of a file.

CSV and TSV files have a header, or are lists without one:

| the first line | `Format` | columns |
|---|---|---|
| `filename,label` | `CSV` | its names |
| `a.jpg,cat` | `CSV` | `filename`, `label` |
| `a.jpg cat` | `SPACED` | `filename`, `label` |
| `kitchen/int474.jpg`, `apple_pie/1005649`, `2008_000008` | `NAMES` | `filename` |
| `0787226 Boeing 707-320` | `NAMES` | `filename`, `label` |
| `a.jpg#0`, a tab and a caption, as of Flickr8k | `NUMBERED` | `filename`, `caption` |

In JSON Lines every line is an object that names its own fields, as is every item of an array in a `.json` file;
Parquet is read in batches of rows (`table_rows`).
"""

from __future__ import annotations

import csv
import enum
import io
import posixpath
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, zip_longest
from typing import Any, BinaryIO, NamedTuple

from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.core.labels.cells import is_number
from beam_pipeline.core.listing.cuts import ByLines, ByRowGroups, Cut
from beam_pipeline.core.listing.filters import IMAGE_EXTENSIONS
from beam_pipeline.core.text import excerpt, is_utf8, printable

UTF_8 = "utf-8-sig"
_WINDOWS = "cp1252"
_LATIN = "latin-1"
_WIDE = ("utf-16", "utf-32", "utf-7")  # codecs that cannot turn a bad byte into a surrogate
_BYTEWISE = frozenset((UTF_8, "utf-8", "ascii", _WINDOWS, _LATIN))
"""Encodings whose line break byte is never part of another character."""

_ENCODING_NAMES = {_WINDOWS: "Windows-1252", _LATIN: "Latin-1", UTF_8: "UTF-8"}

_MOST_LINES = 10
"""The most lines that a stray quote may span before the rest of the file is unreliable."""

_SEPARATORS = ",;\t|"
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

_EXCELS_SEPARATOR = re.compile(r'\s*"?sep=([^"\w]?)"?\s*', re.IGNORECASE)
_SHEETS = (".xlsx", ".xls", ".xlsm", ".ods")

_EXTENSION = "|".join(re.escape(ending) for ending in sorted(IMAGE_EXTENSIONS) if ending)
_SPACED = re.compile(rf"\s*(\S.*?(?:{_EXTENSION}))\s+(\S.*?)\s*", re.IGNORECASE)
"""A line such as `n01440764/n01440764_10026.JPEG 0`: the image's name and its label."""
_NUMBERED = re.compile(r"\s*(\S[^\t]*\.\w{2,5})#\d+\t(.*?)\s*")
"""A line of Flickr captions: the image's name, the caption's number, and the caption."""

_ROWS_COMPARED = 1000  # with the first line
_LINES_COMPARED = 1000  # of a list
_FEW = 2  # lines; what a single one begins with shows no order
_PAGE = "docs/datasets/official_lists.md"

LIST_HEADER = ("filename", "label")
"""The columns of a list without a header."""

BOX_LIST_HEADER = ("filename", "x1", "y1", "x2", "y2", "class")
"""The columns of a list of boxes without a header (keras-retinanet)."""

CAPTION_HEADER = ("filename", "caption")
"""The columns of Flickr captions."""


class Format(enum.Enum):
    """How a file contains its rows; see the top of this file."""

    CSV = enum.auto()
    SPACED = enum.auto()
    NAMES = enum.auto()
    NUMBERED = enum.auto()
    JSON_LINES = enum.auto()
    JSON_ARRAY = enum.auto()
    PARQUET = enum.auto()


LISTS = frozenset((Format.SPACED, Format.NAMES, Format.NUMBERED))
"""Formats whose lines are not cut into cells."""


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
    def cut(self) -> Cut | None:
        """How the file may be cut.

        None if it is read as a whole, as bytes of line breaks may be parts of characters, or of records.
        """
        if self.format is Format.PARQUET:
            return ByRowGroups()
        if self.format is Format.JSON_ARRAY or self.encoding not in _BYTEWISE:
            return None
        return ByLines(self.delimiter)


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
      LabelTableError: it is empty, of an unsupported kind, or lacks a usable header.
    """
    if head.rows is not None:
        if not head.rows:
            raise LabelTableError(f"{head.uri}: the file is empty; expected rows")
        return LabelTable(head.uri, Format.PARQUET)
    extension = posixpath.splitext(head.uri)[1].lower()
    if extension in _SHEETS:
        raise LabelTableError(_sheet_problem(head.uri))
    data = head.data[:_SPACE_BYTES].lstrip(_BEFORE_JSON) or head.data.strip(_BEFORE_JSON)
    if not data:
        raise LabelTableError(f"{head.uri}: the file is empty; expected a header and rows")
    if extension in (".jsonl", ".ndjson"):
        return LabelTable(head.uri, Format.JSON_LINES, encoding or encoding_of(head.data))
    if extension == ".json" and data.startswith(b"["):
        return LabelTable(head.uri, Format.JSON_ARRAY, encoding or encoding_of(head.data))
    table = LabelTable(head.uri, Format.CSV, encoding or guess_encoding(head))
    lines = head.data.decode(table.encoding, errors="replace").splitlines()
    first = next(filter(str.strip, lines), "")
    if _NUMBERED.match(first):
        return replace(table, format=Format.NUMBERED, header=CAPTION_HEADER, header_lines=0)
    if extension not in (".csv", ".tsv", ".tab", ".txt", ".lst", ".list", ""):
        raise LabelTableError(
            f"{head.uri}: labels are read from .csv, .tsv, .txt, .json, .jsonl, .ndjson or .parquet, not "
            f"{extension}{_advice(head, extension)}"
        )
    excels = _EXCELS_SEPARATOR.fullmatch(first)
    if excels:
        second = next(islice(filter(str.strip, lines), 1, None), "")
        delimiter = excels[1] or separator_of(second)
        return _with_columns(head, replace(table, delimiter=delimiter, header_lines=2))
    delimiter = "\t" if extension in (".tsv", ".tab") else separator_of(first)
    if _name_and_label(first) and not is_image_name(first.split(delimiter)[0].strip()):
        return replace(table, format=Format.SPACED, header=LIST_HEADER, header_lines=0)
    if not head.whole and len(lines) > 1:
        lines.pop()  # which may be incomplete
    names = header_of_names(list(islice(filter(str.strip, lines), _LINES_COMPARED)), head.uri)
    if names:
        return replace(table, format=Format.NAMES, header=names, header_lines=0)
    return _with_columns(head, replace(table, delimiter=delimiter))


_SPACE_BYTES = 1 << 16  # of a file's beginning, which are rarely all spaces


def _advice(head: TableHead, extension: str) -> str:
    """The end of a sentence: how to write labels of other formats as a table; empty if unknown."""
    if extension != ".json":
        return _ADVICE.get(extension, "")
    start = "; of JSON, COCO's and arrays of objects are read"
    lines = f"{shlex.quote(head.uri)} > {shlex.quote(posixpath.splitext(head.uri)[0] + '.jsonl')}"
    if _JSON_MAP.match(head.data):
        pairs = "to_entries[] | {file_name: .key, label: .value}"
        return f"{start}. Names with labels become lines: jq -c '{pairs}' {lines}"
    if _JSON_LISTS.match(head.data):
        names = lines.replace(".jsonl", ".txt")
        return f"{start}. Names by class become a list of images: jq -r '.[][]' {names}"
    return f'{start}. Write a line for each image, such as {{"file_name": "a.jpg", "label": "cat"}}'


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
    if table.format is Format.NAMES and len(table.header) == 1:
        yield f"{name} has no header, and is read as a list of images without labels"
    elif not table.header_lines:
        yield (
            f"{name} has no header; its first line is an image, so its columns are "
            f"{', '.join(table.header)}"
        )
    if table.decimal_commas:
        yield (
            f"{name}: numbers with a decimal comma in {', '.join(table.decimal_commas)} are read as "
            "with a point; --columns NAME:str keeps them as text"
        )


# --- reading text -------------------------------------------------------------------------------


def decoded_lines(file: BinaryIO, encoding: str, newline: str | None) -> io.TextIOWrapper:
    """Opens the file as text; an invalid byte becomes a surrogate, which is reported with its row."""
    return io.TextIOWrapper(file, encoding, errors=decoding_errors(encoding), newline=newline)


def decoding_errors(encoding: str) -> str:
    """How bytes that are not of an encoding are decoded: to what `encoding_problem` finds, where that is possible."""
    return "replace" if encoding.startswith(_WIDE) else "surrogateescape"


def encoding_problem(text: str, encoding: str) -> str:
    """What is wrong with a text that has broken bytes; empty if it has none."""
    if is_utf8(text):
        return ""
    name = _ENCODING_NAMES.get(encoding, encoding)
    return (
        f"not {name}: {excerpt(printable(text))}; save the file as UTF-8 (iconv -f ... -t utf-8), or "
        "give --labels_encoding NAME"
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
    text = decoded_lines(file, encoding, newline="")
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
            yield line, cells, encoding_problem("".join(cells), encoding)
    text.detach()


def split_line(line: str, table: LabelTable) -> Sequence[str]:
    """Returns the cells of a line of a list; of another number if the line does not fit."""
    if table.format is Format.NAMES:
        line = line.strip()
        return [line] if len(table.header) == 1 else line.split(maxsplit=1)
    if table.format is Format.SPACED:
        return _name_and_label(line)
    caption = _NUMBERED.fullmatch(line)
    return caption.groups() if caption else ()


def _name_and_label(line: str) -> Sequence[str]:
    """Returns the image's name and its label; nothing if the line has another form."""
    match = _SPACED.fullmatch(line)
    if not match:
        return ()
    words = re.split(r"[\s,]+", match[2])
    if len(words) > 1 and (all(map(is_number, words)) or any(map(is_image_name, words))):
        return ()  # boxes, several labels or pairs of images
    return match.groups()


def is_image_name(text: str) -> bool:
    """True if a text ends like the name of an image file."""
    return posixpath.splitext(text)[1].lower() in IMAGE_EXTENSIONS


# --- headers ------------------------------------------------------------------------------------


def _with_columns(head: TableHead, table: LabelTable) -> LabelTable:
    """The table with its columns, which may be ours, below `header_lines` - 1 records. Raises LabelTableError."""
    below = table.header_lines - 1
    records = islice(
        csv_records(io.BytesIO(head.data), table.encoding, table.delimiter), below, None
    )
    first = next(records, None)
    if first is None:
        raise LabelTableError(f"{table.uri}: no header; expected column names in the first line")
    number, cells, problem = first
    if problem:
        raise LabelTableError(f"{table.uri}, line {number}: the header cannot be read: {problem}")
    header = tuple(cell.strip() for cell in cells)
    rows = [list(map(str.strip, cells)) for _, cells, _ in islice(records, _ROWS_COMPARED)]
    ours = _header_of_a_list(header)
    if ours or _is_row(header, rows):
        return replace(table, header=ours or LIST_HEADER, header_lines=below)
    _check_header(table.uri, header)
    return replace(table, header=header)


def separator_of(line: str) -> str:
    """Returns the separator that is most frequent in a header; a comma in case of a tie."""
    return max(_SEPARATORS, key=lambda mark: (line.count(mark), mark == ","))


def _header_of_a_list(cells: Sequence[str]) -> tuple[str, ...]:
    """Returns the columns of a file whose first line is an image's row; none if it is not."""
    if not is_image_name(cells[0]) or any(map(is_image_name, cells[1:])):
        return ()
    if len(cells) == len(LIST_HEADER):
        return LIST_HEADER
    corners = cells[1:5]
    if len(cells) == len(BOX_LIST_HEADER) and (all(map(is_number, corners)) or not any(corners)):
        return BOX_LIST_HEADER
    return ()


def _is_row(first: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """True if the first line is like the rows below: a name as theirs, with a digit, and such a label.

    So a list of names without extension is known: img0 and cat, above img1 and dog, img2 and cat.
    """
    if len(first) != len(LIST_HEADER):
        return False
    name, label = first
    forms = {_form(row[0]) for row in rows if row}
    labels = {row[1] for row in rows if row[1:]}
    as_theirs = label in labels or (is_number(label) and all(map(is_number, labels)))
    return (
        re.search(r"\d", name) is not None and bool(labels) and as_theirs and _form(name) in forms
    )


def _form(name: str) -> str:
    return re.sub(r"\d+", "0", name)


def _check_header(uri: str, header: Sequence[str]) -> None:
    for cell in header:
        if is_image_name(cell):
            raise LabelTableError(
                f"{uri}: the first line contains an image's name ({cell!r}) where column names are "
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


def _sheet_problem(uri: str) -> str:
    csv_uri = posixpath.splitext(uri)[0] + ".csv"
    return (
        f"{uri}: spreadsheets are not read; save the sheet as CSV UTF-8 in its program, or: "
        f"pandas.read_excel({uri!r}).to_csv({csv_uri!r}, index=False). Then --labels {csv_uri}"
    )


# --- lists of names, with or without labels, whose first lines must all fit -----------------------


def header_of_names(lines: Sequence[str], uri: str) -> tuple[str, ...]:
    """Returns the columns of a list without a header; none if the lines are not such a list.

    Args:
      lines: the first ones of the file that are complete and not empty.
      uri: the file, for messages.

    Raises:
      LabelTableError: lines contain ids, a count or labels where names of images are expected.
    """
    lines = [line.strip() for line in lines[:_LINES_COMPARED]]
    if not lines or any(mark in lines[0] for mark in f"{_SEPARATORS}\"'"):
        return ()
    words = [line.split(maxsplit=1) for line in lines]
    if any(map(is_image_name, lines[0].split()[:-1])):
        return ()
    problem = _no_names(lines, words, uri) if len(lines) >= _FEW else ""
    if problem:
        raise LabelTableError(f"{uri}: {problem}")
    if is_image_name(lines[0]) or (len(words[0]) == 1 and _looks_like_a_name(lines[0])):
        return LIST_HEADER[:1]
    return LIST_HEADER if all(map(_is_named_label, words)) else ()


def _no_names(lines: Sequence[str], words: Sequence[Sequence[str]], uri: str) -> str:
    """Why lines with ids, a count or labels are not names of images; empty for all others."""
    columns = list(zip_longest(*words))
    if _count_up(columns[0]) and None not in columns[-1] and len(columns) > 1:
        return (
            f"the lines begin with 1, 2, 3, ... ({lines[0]!r}), which are ids and no names of images. If "
            "several files share the ids, as those of CUB-200-2011 do, join them into one table first; "
            f"{_PAGE} has the commands"
        )
    if lines[0].isdigit() and not lines[1].isdigit() and len(words[1]) > 1:
        return (
            f"the first line is a number ({lines[0]}), as a count of the others, where column names or an "
            f"image's name are expected. {_PAGE} has commands that write a table of such a file, as CelebA "
            "has it"
        )
    if all(map(str.isdigit, lines)) and len(set(lines)) < len(lines):
        return (
            "the lines are numbers, some of them several times, and name no image. If they are the labels "
            "of the images in the order of their names, as those of ImageNet's validation set are, write a "
            f"table of both; {_PAGE} has the command"
        )
    if all(map(_is_named_label, words)) and _count_up(columns[1]):
        return (
            f"the numbers after the names count the lines ({lines[0]!r}, {lines[1]!r}), so they are no "
            "labels. To take the names alone, in another folder: "
            f"cut -d' ' -f1 {shlex.quote(uri)} > {shlex.quote(posixpath.basename(uri))}"
        )
    return ""


def _looks_like_a_name(word: str) -> bool:
    """True if a word is more likely the name of an image than of a column."""
    return "/" in word or any(map(str.isdigit, word))


def _is_named_label(words: Sequence[str]) -> bool:
    if len(words) != len(LIST_HEADER) or not _looks_like_a_name(words[0]):
        return False
    name, label = words
    several = label.split()
    numbers = len(several) > 1 and all(map(_is_plain_number, several))
    return not numbers and not any(map(is_image_name, (name, *several)))


def _is_plain_number(text: str) -> bool:
    return re.fullmatch(r"[+-]?\d+(?:\.\d*)?", text) is not None


def _count_up(texts: Sequence[str]) -> bool:
    return list(texts) == [str(number) for number in range(1, len(texts) + 1)]
