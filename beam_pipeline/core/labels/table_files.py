r"""Formats of table files: how encoding, separator and header are told from the beginning of a file.

CSV and TSV files have a header, or are lists without one:

| the first line | `Format` | columns |
|---|---|---|
| `filename,label` | `CSV` | its names |
| `a.jpg,cat` | `CSV` | `filename`, `label` |
| `a.jpg cat` | `SPACED` | `filename`, `label` |
| `kitchen/int474.jpg`, `apple_pie/1005649`, `2008_000008` | `NAMES` | `filename` |
| `0787226 Boeing 707-320` | `SPACED` | `filename`, `label` |
| `a.jpg 1,2,30,40,0 5,6,70,80,1`, as of keras-yolo3 | `BOXED` | `filename`, the corners, `class` |
| `a.jpg#0`, a tab and a caption, as of Flickr8k | `NUMBERED` | `filename`, `caption` |

In JSON Lines every line is an object that names its own fields, as is every item of an array in a `.json` file;
Parquet is read in batches of rows (`table_rows`).
"""

from __future__ import annotations

import io
import posixpath
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import islice, zip_longest

from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.core.labels import table_rows
from beam_pipeline.core.labels.cells import MOST, NEARLY_ALL, filled, infer_kind, is_number, text_of
from beam_pipeline.core.labels.schema import KIND_NAMES, NO_LABEL_COLUMN, ColumnChoices, ColumnKind
from beam_pipeline.core.labels.table_rows import Format, LabelTable, TableHead, TableRows
from beam_pipeline.core.listing import cuts

_BEFORE_JSON = b"\r\n\t \xef\xbb\xbf"
_SPACE_BYTES = 1 << 16  # of a file's beginning, which are rarely all spaces
_EXCELS_SEPARATOR = re.compile(r'\s*"?sep=([^"\w]?)"?\s*', re.IGNORECASE)
_EXTENSIONS = frozenset((".csv", ".tsv", ".tab", ".txt", ".lst", ".list", ""))
_COMPARED = 1000  # rows, or lines of a list, with the first
_PAGE = "docs/datasets/official_lists.md"

LIST_HEADER = ("filename", "label")
BOX_LIST_HEADER = ("filename", "x1", "y1", "x2", "y2", "class")  # as of keras-retinanet
CAPTION_HEADER = ("filename", "caption")
"""The columns of lists without a header."""

_PATH_NAMES = (
    *("filename", "file_name", "image", "image_uri", "path"),
    *("image_path", "image_name", "image_file", "file", "filepath", "file_path", "img"),
)
_LIKE_PATHS = re.compile(r"(image|img|photo|file)[\W_]?(file[\W_]?)?(name|path)s?|.*_file_name")
"""Others, as img_path; image_file_name is in folders as Hugging Face has them."""

_ID_NAMES = ("image_id", "img_id", "id", "uri", "url")
KEY_NAMES = (*_PATH_NAMES, *_ID_NAMES)
"""Names of the key column, the likelier ones first; compared in lower case."""

INDEX_COLUMN = "Unnamed: 0"
"""A first column without a name that names the images; as pandas calls it."""


def inspect_table(head: TableHead, choices: ColumnChoices) -> tuple[LabelTable, TableRows]:
    """The format of a file and its key column, and its first rows. Raises LabelTableError."""
    table = inspect_file(head, choices.labels_encoding)
    types = choices.columns.items()
    texts = {name for name, kind in types if KIND_NAMES.get(kind) is ColumnKind.BYTES}
    table, rows = _with_index(table, head, table_rows.head_rows(head, table), choices)
    commas = _decimal_commas(table, rows, texts | {*choices.list_column})
    if commas:
        table = replace(table, decimal_commas=commas)
        rows = table_rows.head_rows(head, table)
    names = [name for name in rows.columns if name]
    if not names:
        raise LabelTableError(
            f'{table.uri}: no line contains a JSON object such as {{"file_name": "a.jpg", "label": "cat"}}'
        )
    return replace(table, key_column=_key_name(names, choices, head.uri)), rows


def inspect_file(head: TableHead, encoding: str = "") -> LabelTable:
    """Decides how a file is read, except for its key column.

    Args:
      head: its beginning.
      encoding: the encoding given by the user, or empty.

    Raises:
      LabelTableError: it is empty, of an unsupported kind, or lacks a usable header.
    """
    if head.rows is not None:
        return LabelTable(head.uri, Format.PARQUET)
    extension = posixpath.splitext(head.uri)[1].lower()
    data = head.data[:_SPACE_BYTES].lstrip(_BEFORE_JSON) or head.data.strip(_BEFORE_JSON)
    if not data:
        raise LabelTableError(f"{head.uri}: the file is empty; expected a header and rows")
    if extension in (".jsonl", ".ndjson"):
        return LabelTable(head.uri, Format.JSON_LINES, encoding or encoding_of(head.data))
    if extension == ".json" and data.startswith(b"["):
        return LabelTable(head.uri, Format.JSON_ARRAY, encoding or encoding_of(head.data))
    table = LabelTable(head.uri, Format.CSV, encoding or guess_encoding(head))
    lines = head.data.decode(table.encoding, errors="replace").splitlines()
    texts = filter(str.strip, lines)
    first, second = next(texts, ""), next(texts, "")
    if table_rows.NUMBERED.match(first):
        return replace(table, format=Format.NUMBERED, header=CAPTION_HEADER, header_lines=0)
    boxed = filter(None, map(table_rows.boxed_objects, lines[:_COMPARED]))
    if any(objects[0][1] for objects in boxed):
        return replace(table, format=Format.BOXED, header=BOX_LIST_HEADER, header_lines=0)
    if extension not in _EXTENSIONS:
        raise LabelTableError(
            f"{head.uri}: labels are read from .csv, .tsv, .txt, .jsonl, .ndjson, .parquet and arrays in .json, not "
            f"from this {extension}. Uncompress it, save a spreadsheet as CSV UTF-8, or write a table; {_PAGE} has commands"
        )
    if excels := _EXCELS_SEPARATOR.fullmatch(first):
        delimiter = excels[1] or cuts.separator_of(second)
        return _with_columns(head, replace(table, delimiter=delimiter, header_lines=2))
    delimiter = "\t" if extension in (".tsv", ".tab") else cuts.separator_of(first)
    cell = first.split(delimiter)[0].strip()
    spaced = replace(table, format=Format.SPACED, header=LIST_HEADER, header_lines=0)
    name, *_ = (*table_rows.name_and_label(first), "")
    if table_rows.is_image_name(name) and not table_rows.is_image_name(cell):
        return spaced
    if not head.whole and len(lines) > 1:
        lines.pop()  # which may be incomplete
    names = header_of_names(list(islice(filter(str.strip, lines), _COMPARED)), head.uri)
    if names == LIST_HEADER:
        return spaced
    if names:
        return replace(table, format=Format.NAMES, header=names, header_lines=0)
    return _with_columns(head, replace(table, delimiter=delimiter))


def encoding_of(data: bytes) -> str:
    """Returns the encoding of a file that begins with these bytes: UTF-16 has a byte order mark."""
    return "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else table_rows.UTF_8


def guess_encoding(head: TableHead) -> str:
    """Guesses the encoding of a text: Windows-1252 if its beginning is not UTF-8.

    If it contains valid multi-byte characters, it is UTF-8, and a broken byte is a fault of its
    row.
    """
    encoding = encoding_of(head.data)
    if encoding != table_rows.UTF_8 or head.data.isascii():
        return encoding
    text = head.data.decode(table_rows.UTF_8, "surrogateescape")
    if not head.whole:
        text = text[:-3]  # the last character may be incomplete
    broken = sum("\udc80" <= mark <= "\udcff" for mark in text)
    if not broken or broken <= sum(mark > "\x7f" for mark in text) - broken:
        return table_rows.UTF_8
    return table_rows.WINDOWS


def file_notes(head: TableHead, table: LabelTable) -> Iterator[str]:
    """Returns notes for the user on how a file is read, one sentence each."""
    name = posixpath.basename(table.uri)
    if table.encoding == table_rows.WINDOWS:
        words = re.findall(r"\w*[^\x00-\x7f]\w*", head.data.decode(table.encoding, "replace"))
        yield (
            f"{name} is not UTF-8 and is read as {table_rows.ENCODING_NAMES[table.encoding]}, with words such "
            f"as {', '.join(map(repr, words[:1]))}; override it with --labels_encoding NAME"
        )
    if table.format is Format.NAMES:
        yield f"{name} has no header, and is read as a list of images without labels"
    elif not table.header_lines:
        columns = ", ".join(table.header)
        yield f"{name} has no header; its first line is an image, so its columns are {columns}"
    if table.decimal_commas:
        yield (
            f"{name}: numbers with a decimal comma in {', '.join(table.decimal_commas)} are read as "
            "with a point; --columns NAME:str keeps them as text"
        )


# --- headers and key columns --------------------------------------------------------------------


def _with_columns(head: TableHead, table: LabelTable) -> LabelTable:
    """The table with its columns, which may be ours, below `header_lines` - 1 records. Raises LabelTableError."""
    below = table.header_lines - 1
    records = table_rows.csv_records(io.BytesIO(head.data), table.encoding, table.delimiter)
    number, cells, problem = next(islice(records, below, None), (0, [], ""))
    if not number:
        raise LabelTableError(f"{table.uri}: no header; expected column names in the first line")
    if problem:
        raise LabelTableError(f"{table.uri}, line {number}: the header cannot be read: {problem}")
    header = tuple(cell.strip() for cell in cells)
    rows = [list(map(str.strip, cells)) for _, cells, _ in islice(records, _COMPARED)]
    ours = _header_of_a_list(header, rows)
    if ours:
        return replace(table, header=ours, header_lines=below)
    image = next(filter(table_rows.is_image_name, header), "")
    repeated = sorted(name for name, count in Counter(filter(None, header)).items() if count > 1)
    if image:
        problem = (
            f"the first line contains an image's name ({image!r}) where column names are expected; put a line with "
            f"names of its {len(header)} columns before it, such as filename,label,..."
        )
    elif repeated:
        names = ", ".join(map(repr, repeated))
        problem = f"the header names {names} more than once; give each column a different name"
    if problem:
        raise LabelTableError(f"{table.uri}: {problem}")
    return replace(table, header=header)


def _header_of_a_list(first: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Returns the columns of a file whose first line is a row; none if it is not.

    It is if it begins with an image's name, or else is like the rows below: a name as theirs, with a digit, and such
    a label. So a list of names without extension is known: img0 and cat, above img1 and dog, img2 and cat.
    """
    if table_rows.is_image_name(first[0]) and not any(map(table_rows.is_image_name, first[1:])):
        corners = first[1:5]
        if len(first) == len(BOX_LIST_HEADER) and (
            all(map(is_number, corners)) or not any(corners)
        ):
            return BOX_LIST_HEADER
        return LIST_HEADER if len(first) == len(LIST_HEADER) else ()
    if len(first) != len(LIST_HEADER) or not re.search(r"\d", first[0]):
        return ()
    name, label = first
    forms = {re.sub(r"\d+", "0", row[0]) for row in rows if row}
    labels = {row[1] for row in rows if row[1:]}
    as_theirs = label in labels or (labels and all(map(is_number, (label, *labels))))
    return LIST_HEADER if as_theirs and re.sub(r"\d+", "0", name) in forms else ()


def _with_index(
    table: LabelTable, head: TableHead, rows: TableRows, choices: ColumnChoices
) -> tuple[LabelTable, TableRows]:
    """The table with a name for its first column, if that has none and names the images, as pandas' index may."""
    if choices.key_column or table.header[:1] != ("",) or path_columns(table.header):
        return table, rows
    named = replace(table, header=(INDEX_COLUMN, *table.header[1:]))
    named_rows = table_rows.head_rows(head, named)
    cells = [text_of(cell) for cell in named_rows.cells(INDEX_COLUMN)]
    images = sum(map(table_rows.is_image_name, cells))
    if cells and not images and {*map(str.lower, table.header)}.isdisjoint(_ID_NAMES):
        firsts = (text_of(column[0]) for column in named_rows.columns.values())
        stems = len({*cells}) == len(cells) and infer_kind(cells) is ColumnKind.BYTES
        images = len(cells) if stems and not any(map(table_rows.is_image_name, firsts)) else 0
    return (named, named_rows) if images > MOST * len(rows) else (table, rows)


def _decimal_commas(table: LabelTable, rows: TableRows, texts: Collection[str]) -> tuple[str, ...]:
    """The columns of numbers with decimal commas, which only tables with `;` between cells have; not among `texts`."""
    names = []
    for name in rows.columns if table.delimiter == ";" else ():
        cells = filled(rows.cells(name))
        commas = sum(map(table_rows.has_decimal_comma, cells))
        numbers = commas + sum(map(is_number, cells))
        if name and name not in texts and commas and numbers >= NEARLY_ALL * len(cells):
            names.append(name)
    return tuple(names)


def path_columns(names: Sequence[str]) -> Sequence[str]:
    """The column that is called as one with paths of images is; several where it may be any of them."""
    usual = columns_called(_PATH_NAMES, names)
    like = [name for name in names if _LIKE_PATHS.fullmatch(name.lower())]
    of_parts = any(name.lower().endswith("_file_name") for name in like)
    return usual[:1] or (like if of_parts else like[:1])


def columns_called(usual: Sequence[str], names: Sequence[str]) -> Sequence[str]:
    """The columns with usual names, in lower case, in the order of those."""
    by_lower = {name.lower(): name for name in reversed(names)}
    return [by_lower[name] for name in usual if name in by_lower]


def is_key_name(name: str) -> bool:
    """True for the name of a column that usually names images."""
    return name == INDEX_COLUMN or name.lower() in KEY_NAMES or bool(path_columns([name]))


def _key_name(names: Sequence[str], choices: ColumnChoices, uri: str) -> str:
    given, problem = choices.key_column, ""
    candidates = [name for name in names if name != choices.label_column] or names
    paths = path_columns(candidates)
    if given and given == choices.label_column != NO_LABEL_COLUMN:
        problem = f"the column {given!r} cannot be both key and label"
    elif given not in (*names, "", NO_LABEL_COLUMN):
        problem = f"no column {given!r} (--key_column); it has {', '.join(names)}"
    elif not given and len(paths) > 1:
        problem = f"which of the columns {', '.join(paths)} names the image? Say --key_column NAME"
    if problem:
        raise LabelTableError(f"{uri}: {problem}")
    if given in names:
        return given
    unnamed = ""
    if table_rows.IMAGES_COLUMN in names and not path_columns(names):
        unnamed = _PATH_NAMES[2]  # which later rows of conversations may have
    if given:
        return unnamed
    index = [INDEX_COLUMN] if names[0] == INDEX_COLUMN else []
    key = [*paths, *index, *columns_called(_ID_NAMES, candidates), *candidates][0]
    return unnamed if unnamed and key == choices.row_id else key


# --- lists of names, with or without labels, whose first lines must all fit -----------------------


def header_of_names(lines: Sequence[str], uri: str) -> tuple[str, ...]:
    """Returns the columns of a list without a header; none if the lines are not such a list.

    Args:
      lines: the first ones of the file that are complete and not empty.
      uri: the file, for messages.

    Raises:
      LabelTableError: lines contain ids, a count or labels where names of images are expected.
    """
    lines = [line.strip() for line in lines[:_COMPARED]]
    if not lines or any(mark in lines[0] for mark in f"{cuts.SEPARATORS}\"'"):
        return ()
    words = [line.split(maxsplit=1) for line in lines]
    if any(map(table_rows.is_image_name, lines[0].split()[:-1])):
        return ()
    if len(lines) > 1 and _are_numbered(lines, words):
        raise LabelTableError(
            f"{uri}: lines such as {lines[0]!r}, {lines[1]!r} contain ids, a count or labels, and no names of images "
            f"with their labels; {_PAGE} has commands that write a table of such files"
        )
    if table_rows.is_image_name(lines[0]) or (len(words[0]) == 1 and _looks_like_a_name(lines[0])):
        return LIST_HEADER[:1]
    pairs = [*map(table_rows.name_and_label, lines)]
    return LIST_HEADER if all(pair and _looks_like_a_name(pair[0]) for pair in pairs) else ()


def _are_numbered(lines: Sequence[str], words: Sequence[Sequence[str]]) -> bool:
    """True for lines with 1, 2, 3, ..., or below a number such as their count, or that are numbers which repeat."""
    numbers = [str(number) for number in range(1, len(lines) + 1)]
    columns = list(map(list, zip_longest(*words)))
    repeated = all(map(str.isdigit, lines)) and len(set(lines)) < len(lines)
    below_a_count = lines[0].isdigit() and not lines[1].isdigit() and len(words[1]) > 1
    return repeated or below_a_count or (len(columns) > 1 and numbers in columns)


def _looks_like_a_name(word: str) -> bool:
    """True if a word is more likely the name of an image than of a column."""
    return "/" in word or any(map(str.isdigit, word))
