"""Tables of labels: the columns, rows, questions and errors that each is read as, word for word.

A line of rows/tables.txt is a table, below the promise that it holds. `\\n`, `\\r` and `\\t` stand for these characters, `<20*a>`
is 20 times a, and the last line end is left out; `:= ` begins a generator of texts.py. After ` <- ` follow the file's name, if it is not
l.csv, and options of columns.
"""

from __future__ import annotations

import io
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
from tests.conformance import texts
from tests.conformance.trees import jsonl

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
    options = uri.strip() or "l.csv", json.loads(f"{{{fields or '}'}")
    if content.startswith(":= "):
        return Table(texts.generated(uri, content[3:]), *options)
    content = re.sub(r"<(\d+)\*([^>]*)>", lambda match: match[2] * int(match[1]), f"{content}\\n")
    for escape, character in {"n": "\n", "r": "\r", "t": "\t"}.items():
        content = content.replace(f"\\{escape}", character)
    return Table(content, *options)


def _numbered(promise: str, tables: Sequence[Table]) -> dict[str, Table]:
    return {f"{promise} ({number:02})": table for number, table in enumerate(tables, 1)}


def _of_texts(text: str) -> Iterator[tuple[str, Table]]:
    for paragraph in text.strip("\n").split("\n\n# "):
        promise, *lines = paragraph.removeprefix("# ").splitlines()
        yield from _numbered(promise, [*map(_of_text, lines)]).items()


OBJECTS = {"bbox": [[1, 2, 3, 4]], "category": ["a"], "area": [1]}


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
    **texts.by_name(
        _of_texts(
            Path(__file__).with_name("rows").joinpath("tables.txt").read_text(encoding="utf-8")
        )
    ),
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
}
