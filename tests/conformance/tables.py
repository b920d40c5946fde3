"""Tables of labels: the columns, rows, questions and errors that each is read as, word for word.

A line of tables.txt is a table, below the promise that it holds. `\\n`, `\\r` and `\\t` stand for these characters, and
the last line end is left out. Behind ` <- ` are the file's name, if it is not l.csv, and fields of `ColumnChoices`.
"""

from __future__ import annotations

import io
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from beam_pipeline.core import dead_letters, errors, references
from beam_pipeline.core.labels import table_files, typed_rows
from beam_pipeline.core.labels.schema import Column, ColumnChoices
from beam_pipeline.core.labels.table_rows import LabelTable, TableHead, read_chunks
from beam_pipeline.core.labels.tables import LABEL_NAMES, TEXT_NAMES, LabelSchema, inspect_tables
from tests.conformance.trees import csv, jsonl

_MOST_TEXT = 160
_OPTIONS = {
    "key": "key_column",
    "label": "label_column",
    "kinds": "columns",
    "separators": "list_column",
    "group": "split_by",
    "encoding": "labels_encoding",
}


def choices_of(short: Mapping[str, Any]) -> ColumnChoices:
    """Options on columns, by short names or their own."""
    return ColumnChoices(**{_OPTIONS.get(name, name): value for name, value in short.items()})


@dataclass(frozen=True)
class Table:
    """A file of labels.

    Attributes:
      content: all of it.
      uri: its name.
      choices: the user's options on columns.
    """

    content: str | bytes
    uri: str = "l.csv"
    choices: Mapping[str, Any] = field(default_factory=dict)

    def outcome(self) -> dict[str, Any]:
        """Columns, notes, questions and rows, or the error."""
        content = self.content
        data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
        choices = {name: tuple(v) if isinstance(v, list) else v for name, v in self.choices.items()}
        outcome: dict[str, Any] = {"table": repr(content)[1:_MOST_TEXT], "choices": self.choices}
        try:
            head = TableHead(self.uri, data, True)
            schema, (table,) = inspect_tables([head], choices_of(choices))
            outcome |= _understood(schema, table)
            outcome["rows"] = list(_rows(data, table, schema))
        except errors.LabelTableError as error:
            outcome["error"] = str(error)
        return {fact: value for fact, value in outcome.items() if value}


def _understood(schema: LabelSchema, table: LabelTable) -> dict[str, Any]:
    return {
        "columns": [*map(_column, schema.columns)],
        "key": table.key_column,
        "header": "of the list" if not table.header_lines else "",
        "split": [schema.split_column, *schema.split_like][not schema.split_column :],
        "several_rows": schema.several_rows,
        "integer_classes": schema.leading.integer_classes,
        "class_by_folder": schema.class_by_folder,
        "decimal_commas": table.decimal_commas,
        "notes": schema.notes,
        "questions": [(q.id, q.reason, q.answer) for q in schema.questions],
    }


def _column(column: Column) -> str:
    flags = [name for name in ("required", "repeated", "pixels") if getattr(column, name)]
    return " ".join([column.name, column.kind.value, column.feature, *flags])


def _rows(data: bytes, table: LabelTable, schema: LabelSchema) -> Iterator[str]:
    """The line, name, values, split, size and problem of each row; the line, reason and message of a dead letter."""
    rows: list[references.LabelRow | dead_letters.DeadLetter] = []
    for part in typed_rows.label_rows(read_chunks(io.BytesIO(data), table), table, schema):
        rows += [part] if isinstance(part, dead_letters.DeadLetter) else part
    for row in sorted(rows, key=lambda row: row.line):
        if isinstance(row, dead_letters.DeadLetter):
            yield _plain(f"{row.line} {row.reason}: {row.message}")
            assert row.to_json().encode()
        else:
            facts = (row.split, row.size and f"{row.size[0]} x {row.size[1]}", row.problem)
            yield _plain(" | ".join([f"{row.line} {row.name} {row.values}", *filter(None, facts)]))


def _plain(text: str) -> str:
    """Without the words of Python's parser of JSON, which change with its version."""
    return re.sub(r"not JSON: .*: line [0-9]+ column.*", "not JSON: ...", text)


def _of_text(line: str) -> Table:
    content, _, choices = line.partition(" <- ")
    uri, _, fields = choices.partition("{")
    for escape, character in {"n": "\n", "r": "\r", "t": "\t"}.items():
        content = content.replace(f"\\{escape}", character)
    return Table(f"{content}\n", uri.strip() or "l.csv", json.loads(f"{{{fields or '}'}"))


def _numbered(promise: str, tables: Sequence[Table]) -> dict[str, Table]:
    return {f"{promise} ({number:02})": table for number, table in enumerate(tables, 1)}


def _of_texts(text: str) -> Iterator[tuple[str, Table]]:
    for paragraph in text.strip("\n").split("\n\n# "):
        promise, *lines = paragraph.removeprefix("# ").splitlines()
        yield from _numbered(promise, [*map(_of_text, lines)]).items()


def _column_of(name: str, values: str) -> Table:
    """A table whose column has these values, perhaps before one of labels; `1*8` repeats one, and _ is empty."""
    cells = itertools.chain.from_iterable(
        [value] * int(times or 1) for value, _, times in (v.partition("*") for v in values.split())
    )
    label = ",cat" * name.count(",")
    rows = [
        f"{i}.jpg,{cell.strip('_') and f'{chr(34)}{cell}{chr(34)}'}{label}"
        for i, cell in enumerate(cells)
    ]
    return Table("\n".join([f"filename,{name}", *rows, ""]))


LABELS = ("cat dog", "1 2 3", "0 1 0", "-1 +1 0", "001 002", "0.5 1.5", "0.5 1 2", "1e-3 2e5")
LABELS += ("0.5 0.25 oops", "1.0.0 1.2.0", "cat 0.5 dog", "99999999999999999999 5", "_ NA null")
LABELS += ("1_000 2_000", f"{'0.0 1.0 _ 2.0 ' * 6}", "0.*12 10.0*12", "0.0*12 1.5*12", "0.0*12")
LABELS += ("-1.0*12 1.0*12", " ".join(f"{i}.0" for i in [*range(21), 0, 1, 2]), "1.0 0.0")
FURTHER = ("1 -2 +3 0", "9223372036854775807 -9223372036854775808", "9223372036854775808 1")
FURTHER += ("-9223372036854775809", "1 n/a _ NaN None null NA", "1 2.5", "1.0 2.0", "nan 0.5 inf")
FURTHER += ("1e400 0.5", "007 008", "1 2 03", "00", "1_0", "1,5 2,5", "x", "_ _", "1 x", "1*19 x")
FURTHER += (f"02139 {' '.join(map(str, range(10_000, 10_050)))}", "1.5*19 x", "1*8 x*2", "١ ٢")
FURTHER += (
    f"5*34 007 {10**20 - 1} 5*3",
)  # 007 and what no int64 holds are bad values of their rows
KINDS = ("int", "int64", "float", "float32", "str", "string", "bytes")

PLAIN = csv(["a.jpg", "b.jpg"], label=("cat", "dog"))
LATIN = "filename,label\na.jpg,cät\n".encode() + "café.jpg,dog\nb.jpg,dog\n".encode("latin-1")
BROKEN_JSON = (
    b'{"file_name": "a.jpg", "label": "cat"}\n{"file_name": "b.jpg", "lab\n["c.jpg", "cat"]\n\n'
    b'{"file_name": "caf\xe9.jpg", "label": "cat"}\n{"label": "cat"}\n'
    b'{"file_name": "d.jpg", "label": "dog"}'
)
ARRAY = '[{"file_name": "a.jpg", "label": "cat"}'
OBJECTS = {"bbox": [[1, 2, 3, 4]], "category": ["a"], "area": [1]}
BOX_ROWS = "\n".join(["filename,x,y,w,h,label,n", *["a,1,1,5,5,cat,7"] * 20, ""])
BAD_BOXES = (
    *("1,,5,5,cat,7", "1,a,5,5,cat,7", "1,inf,5,5,cat,7", "1,1,5,5,,7", "2,2,2,2,cat,n", ",,,,,"),
    *("x,y,4,4,cat,8", "5,5,5,5,dog,9"),
)
LISTS = "\n".join(["filename,bbox,source", *['a,"[30, 12, 17, 18]",x'] * 76, "a, ,x", ""])
BAD_LISTS = ("[1, 2, 3]", "wide", "[1, 2, 3, x]")


def _objects(*cells: Any, **choices: Any) -> Table:
    """JSON Lines with cells of objects."""
    rows = ({"file_name": f"{i}.jpg", "objects": cell} for i, cell in enumerate(cells))
    return Table(jsonl(rows), "l.jsonl", choices)


BAD_OBJECTS: tuple[Any, ...] = (
    *({**OBJECTS, "category": ["a", "b"]}, {"bbox": [[1, 2, 3, 4]], "category": ["a"]}),
    *(
        {**OBJECTS, "bbox": []},
        *({**OBJECTS, "bbox": [box]} for box in ([1, 2, 3], [1, 2, 3, "4"], None)),
    ),
    *({**OBJECTS, "bbox": [[1, 2, 3, last]]} for last in (True, 10**400, float("nan"))),
    *({**OBJECTS, "bbox": 5}, {**OBJECTS, "category": "a"}, {**OBJECTS, "category": [None]}),
    *(
        {**OBJECTS, "category": [["a"]]},
        {**OBJECTS, "area": ["large"]},
        {**OBJECTS, "area": [None]},
    ),
    *(5, [1, 2], None, "", {}, [], {"bbox": []}, {"bbox": None, "category": []}),
)
FULL_OBJECTS = {
    "id": [114, 115],
    "area": [3796, 1596.5],
    "bbox": [[302.0, 109, 73.5, 52], [5, 6, 7, 8]],
    "category": ["a", "b"],
    "label": ["x", "y"],
    "colour": ["red", 7],
    "iscrowd": [False, True],
}
ODD_OBJECTS = {**OBJECTS, "segmentation": [[[1, 1, 2, 2]]], "image_id": 5, "crop": None}
LISTED_OBJECTS = [
    {"bbox": [1, 2, 3, 4], "category": "a", "area": 12},
    {"bbox": [5, 6, 7, 8], "category": "b", "area": 56},
]
INTEGERS, WORD = (
    {"bbox": [[1, 2, 3, 4]] * n, "category": c} for n, c in ((2, [10, 0]), (1, ["x"]))
)

ROWS = {
    **dict(_of_texts(Path(__file__).with_name("tables.txt").read_text(encoding="utf-8"))),
    **{
        f"the key {n}": Table(f"label,x,{n.upper()}\n", choices={"label": "none"})
        for n in table_files.KEY_NAMES
    },
    **{f"the label {n}": Table(f"filename,x,{n.title()}\n") for n in LABEL_NAMES},
    **{
        f"the text {n}{chosen}": Table(f"filename,{n}\na,a cat\nb,\n", choices={"label": chosen})
        for n in TEXT_NAMES
        for chosen in ("", n)
    },
    **{
        f"{n} of several rows": Table(
            f"image,n,{n},label,size\na,0,Hello,x,3\na,1,World,x,3\nb,0,Bye,y,4\n"
        )
        for n in TEXT_NAMES
    },
    **{f"a column with the label {v[:40]}": _column_of("label", v) for v in LABELS},
    **{f"a column with a further {v[:40]}": _column_of("x,label", f"{v}") for v in FURTHER},
    **{
        f"the kind {kind} of {cell}": Table(
            f"filename,label,size\na.jpg,cat,{cell}\n",
            choices={"kinds": {"size": kind}, "separators": {"size": ";"} if ";" in cell else {}},
        )
        for kind in KINDS
        for cell in ("7", "7;7")
    },
    **_numbered(
        "bytes of other encodings are read, or cost their row",
        [
            *map(
                Table,
                (b"", b"\xef\xbb\xbf\n", b"\xff\xfe", f"\ufeff{PLAIN}", PLAIN.encode("utf-16")),
            ),
            Table(PLAIN.encode("utf-16").replace(b"\n\0", b"\r\0\n\0")),
            Table(f"\ufeff{PLAIN}".encode("utf-16-be")),
            Table(PLAIN.replace(",", "\t").encode("utf-16"), "l.txt"),
            Table(PLAIN.encode("utf-16") + b"x"),
            Table("\ufeffsep=;\r\nfilename;label\r\na.jpg;cat\r\nb.jpg;dog\r\n"),
            Table('{"file_name": "강.jpg", "label": "cat"}\r\n'.encode("utf-16"), "l.jsonl"),
            Table("filename;label\na.jpg;Käfer\n".encode("cp1252"), "/data/l.csv"),
            Table("filename,label\na.jpg,cafés\n".encode("cp1252"), choices={"encoding": "cp1252"}),
            *(
                Table(LATIN),
                Table(b"filename,\xc3\xa9caf\xe9\na,b\n"),
                Table(BROKEN_JSON, "l.jsonl"),
            ),
            *(Table(PLAIN.rstrip()), Table("filename,label")),
            *(Table(text, "l.json") for text in (ARRAY, f'{ARRAY},\n{{"a]')),
        ],
    ),
    **_numbered(
        "a bad value of a box costs its row",
        [
            Table("".join([BOX_ROWS, *(f"b,{row}\n" for row in BAD_BOXES)])),
            Table("".join([LISTS, *(f'b,"{cell}",x\n' for cell in BAD_LISTS)])),
            Table("filename,x1,y1,x2,y2\na,x,1,5,5\n" + "b,1,1,5,5\n" * 11),
            Table('filename,bbox,source\na,"(1)",usask\n' + 'b,"[30, 12, 17, 18]",usask\n' * 20),
        ],
    ),
    **_numbered(
        "lists of objects are boxes with their classes and values",
        [
            _objects(*[OBJECTS] * 99, *BAD_OBJECTS),
            *(_objects(cells) for cells in (FULL_OBJECTS, ODD_OBJECTS, LISTED_OBJECTS)),
            _objects(ODD_OBJECTS, kinds={"objects.image_id": "skip", "objects.area": "skip"}),
            _objects(OBJECTS, kinds={"objects.area": "float"}),
            _objects({"bbox": [], "categories": []}, INTEGERS),
            _objects(*[INTEGERS] * 20, WORD),
            *(
                _objects(INTEGERS, WORD),
                _objects({"bbox": [], "category": []}),
                _objects("", None, []),
            ),
            _objects({**OBJECTS, "category": [True]}),
            _objects(LISTED_OBJECTS, [LISTED_OBJECTS[0], {"bbox": [5, 6, 7, 8], "area": 56}]),
        ],
    ),
    "a fold of many values": _column_of("fold,label", " ".join(map(str, range(21)))),
    "a note of words for splits": Table(
        "filename,label,note\n"
        + "".join(f"{i},cat,a {word} {i}\n" for i in range(20) for word in ("train", "test"))
    ),
}
