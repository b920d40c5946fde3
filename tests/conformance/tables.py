"""Tables of labels: the columns, rows, questions and errors that each is read as, word for word.

A line of `TABLES` is a table, below the promise that it holds. `\\n`, `\\r` and `\\t` stand for these characters, and
the last line end is left out. Behind ` <- ` are the file's name, if it is not l.csv, and fields of `ColumnChoices`.
"""

from __future__ import annotations

import io
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.core.labels.schema import Column, ColumnChoices
from beam_pipeline.core.labels.table_files import KEY_NAMES
from beam_pipeline.core.labels.table_rows import LabelTable, TableHead, read_chunks
from beam_pipeline.core.labels.tables import LABEL_NAMES, TEXT_NAMES, LabelSchema, inspect_tables
from beam_pipeline.core.labels.typed_rows import label_rows
from beam_pipeline.core.references import LabelRow
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
        except LabelTableError as error:
            outcome["error"] = str(error)
        return {fact: value for fact, value in outcome.items() if value}


def _understood(schema: LabelSchema, table: LabelTable) -> dict[str, Any]:
    return {
        "columns": [*map(_column, schema.columns)],
        "key": table.key_column,
        "header": "of the list" if not table.header_lines else "",
        "split": [schema.split_column, *schema.split_like][not schema.split_column :],
        "several_rows": schema.several_rows,
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
    rows: list[LabelRow | DeadLetter] = []
    for part in label_rows(read_chunks(io.BytesIO(data), table), table, schema):
        rows += [part] if isinstance(part, DeadLetter) else part
    for row in sorted(rows, key=lambda row: row.line):
        if isinstance(row, DeadLetter):
            yield _plain(f"{row.line} {row.reason}: {row.message}")
            assert row.to_json().encode()
        else:
            facts = (row.split, row.size and f"{row.size[0]} x {row.size[1]}", row.problem)
            yield _plain(" | ".join([f"{row.line} {row.name} {row.values}", *filter(None, facts)]))


def _plain(text: str) -> str:
    """Without the words of Python's parser of JSON, which change with its version."""
    return re.sub(r"not JSON: .*: line [0-9]+ column.*", "not JSON: ...", text)


TABLES = r'''
# the likelier name is the key, wherever it stands and however it is capitalized
id,filename,label <- {"label": "none"}
id,image_path,label <- {"label": "none"}
image_id,image,label <- {"label": "none"}
photo,label <- {"label": "none"}
label,photo <- {"label": "none"}
FileName,filename,label <- {"label": "none"}
,photo,label <- {"label": "none"}
,photo,label\na.jpg,x,cat\n1,y,dog\n2,z,dog <- {"label": "none"}
id,image_file_name,label <- {"label": "none"}
label,left_File_Name <- {"label": "none"}
a_file_name,path,b_file_name,label <- {"label": "none"}
filename,photo,label <- {"label": "none", "key": "photo"}
label,photo <- {"label": "label"}
id,photo <- {"label": "id"}

# columns are labels, features or neither, by their names, by what the user says, by their values
filename,Hund\na.jpg,ja
filename,size,colour\na.jpg,1,red <- {"label_needed": false}
filename,size\na,1 <- {"label_needed": false}
filename,size,colour\na.jpg,1,red <- {"label": "colour"}
filename,label,size\na.jpg,cat,1\nb.jpg,,2 <- {"label": "none"}
filename,none,size\na.jpg,x,1 <- {"label": "none"}
filename,split\na.jpg,left <- {"label": "split"}
filename,a,b\nx.jpg,cat,c <- {"kinds": {"b": "skip"}}
filename,label,size\na.jpg,cat,1\nb.jpg,,2 <- {"kinds": {"size": "skip"}}
filename,label\na.jpg,7\nb.jpg,8 <- {"kinds": {"label": "int"}}
filename,label\na.jpg,7\nb.jpg,8 <- {"kinds": {"label": "str"}}
filename,label\na.jpg,7\nb.jpg,8 <- {"kinds": {"label": "float"}}
{"file_name": "a", "label": "cat", "objects": 3} <- l.jsonl
{"file_name": "a", "label": "x", "id2": 99999999999999999999} <- l.jsonl
{"file_name": "a", "objects": {"bbox": [[1, 2, 3, 4]], "category": ["x"]}, "depth": 1}\n{"file_name": "b", "objects": null, "depth": null}\n{"file_name": "c", "objects": {"bbox": [[1, 2, 3, 4]], "category": []}, "depth": 2} <- l.jsonl
{"file_name": "a", "objects": {"bbox": [[1, 2, 3, 4]], "category": ["x"]}, "depth": 1} <- l.jsonl {"kinds": {"objects": "skip"}}
filename,label,x,y,w,h\na,cat,1,2,3,4 <- {"kinds": {"x": "float"}}
image,caption\na,Hello\nb,Bye\nb,Bye
left_file_name,right_file_name,label\na.jpg,b.jpg,cat <- {"key": "right_file_name"}
,image,label\n0,a.jpg,cat\n1,b.jpg,dog

# columns that cannot be told are an error with the columns and the ways out
left_file_name,right_file_name,label\na.jpg,b.jpg,cat
filename,size,colour\na.jpg,1,red <- {"key": "Photo"}
filename,x\na.jpg,b <- {"key": "filename", "label": "filename"}
filename\na.jpg <- {"label_needed": false}
filename,size,colour\na.jpg,1,red
filename,size,colour\na.jpg,1,red <- {"label": "Colour"}
,filename,label <- {"kinds": {"Size": "int"}}
filename,label,x\na.jpg,cat,1 <- {"kinds": {"label": "skip"}}
filename,label <- {"separators": {"tags": ";"}}
filename,label <- {"separators": {"filename": ";"}}
filename,label,score\na.jpg,cat,1 <- {"separators": {"label": "", "score": ";"}}
{"file_name": "a", "objects": {"bbox": [[1, 2, 3, 4]], "category": ["x"]}, "depth": 1} <- l.jsonl {"label": "depth"}
{"file_name": "a", "objects": {"bbox": [], "area": [1]}} <- l.jsonl {"kinds": {"objects.size": "float"}}
ImageId,EncodedPixels\na.jpg,\nb.jpg,264661 17 265429 33
ImageId,EncodedPixels\na.jpg,\nb.jpg,264661 17 265429 33 <- {"label": "EncodedPixels"}
a/1\na/2 <- l.txt

# values of rows are typed, and a bad one is said with its row
filename,label,age,note\nx,cat,3,hello\nn/a,cat,n/a,n/a\nNaN,cat,NaN,NaN\nNULL,cat,NULL,NULL\nNone,cat,None,None\nNA,cat,NA,NA\ny,cat,,
filename,label\na.jpg,None\nb.jpg,NA\nc.jpg,cat
,\nfilename,label\na.jpg,cat\n,\n , \nb.jpg,dog
filename,label\na,0.5\nb,0.25\nc,oops\nd,n/a\ne,inf\nf,nan\ng,1.5\nh,-2\ni,3.5
filename,label,age,weight\na.jpg,cat,3,1.5\nb.jpg,dog,old,heavy\nc.jpg,,4,2 <- {"kinds": {"age": "int", "weight": "float"}}
{"file_name": "a", "label": "cat", "x": "y"} <- l.jsonl {"kinds": {"x": "int"}}
{"file_name": "a", "label": "cat", "x": "y"} <- l.jsonl {"kinds": {"x": "float"}}
{"file_name": "a", "label": "cat", "x": {"y": 1}} <- l.jsonl {"kinds": {"x": "str"}}

# lists are in cells, in brackets, in JSON, or a value in each row
filename,label,tags\na,cat,x;;y\nb,cat,;x; ;\nc,cat,;;\nd,cat,NA;x;x <- {"separators": {"tags": ";"}}
filename,labels\na,dog; cat;dog\nb,\nc,3 <- {"separators": {"labels": ";"}}
filename,label,tags,counts,weights\na,cat,red; striped ,1|2,0.5 1\nb,dog,,,\nc,cat,plain,3,2 <- {"separators": {"tags": ";", "counts": "|", "weights": " "}}
filename,label,n\na,cat,1;2;\nb,cat,1;;2\nc,cat,1;x\nd,cat,n/a\ne,cat,;1\nf,cat,1;null <- {"separators": {"n": ";"}, "kinds": {"n": "int"}}
filename,label\na,0.5 1.5\nb,2.5 inf\nc,\nd,3.5 -1\ne,nan 1.5 <- {"separators": {"label": " "}}
filename,label,score\na.jpg,"['cat', 'dog']","[1, 2.5]"\nb.jpg,[],[]\nc.jpg,owl,[3] <- {"separators": {"label": "[]", "score": "[]"}}
{"file_name": "a", "label": "cat", "tags": "x;y"}\n{"file_name": "b", "label": "cat", "tags": ["x;y", "z"]} <- l.jsonl {"separators": {"tags": ";"}}
{"file_name": "a", "labels": ["dog", "cat", "dog"]}\n{"file_name": "b", "labels": []}\n{"file_name": "c", "labels": 3} <- l.jsonl
{"file_name": "a", "label": "cat", "tags": ["red", 7, true, ""], "size": [1.5, 2]}\n{"file_name": "b", "label": "cat", "tags": "a;b", "size": null}\n{"file_name": "c", "label": "cat", "size": 3}\n{"file_name": "d", "label": "cat", "tags": [], "size": [1, null]} <- l.jsonl
filename,label,score,source\na,cat,1,web\na,dog,2,web\nb,,3,web <- {"separators": {"label": "", "score": ""}}
filename,label\na.jpg,cat;dog\nb.jpg,dog <- {"separators": {"label": ""}}

# a split column says the split, and others may seem to
filename,label,Split\na,cat, train \na,cat, Training \na,cat, VAL \na,cat, valid \na,cat, validation \na,cat, dev \na,cat, TEST \na,cat, eval \na,cat, Fold_1
filename,label,split\na,cat,\nb,cat,my split\nc,cat,a/b\nd,cat,..\ne,cat,"train,val"\nf,cat,-
filename,label,set\n0,cat,train\n1,cat,val
filename,label,is_valid\n0,cat,True\n1,cat,False
filename,label,usage\n0,cat,Training\n1,cat,PublicTest\n2,cat,PrivateTest
filename,label,usage\n0,cat,Training\n1,cat,Public\n2,cat,Private
filename,label,fold\n0,cat,0\n1,cat,1\n2,cat,2
filename,label,IS_TRAIN\n0,cat,1\n1,cat,0
filename,label,is_train\n0,cat,1\n1,cat,1
filename,label,training_hours\n0,cat,1\n1,cat,2
filename,label,fold_id\n0,cat,1\n1,cat,2
filename,label,trained\n0,cat,1\n1,cat,2

# one-hot columns have a single one in each row, or several
image,cat,dog,age\na,1,0,7\nb,0,1,8
image,cat,dog,age\na,1,0,7\nb,0,1,8 <- {"label": "none"}
image,cat,dog,age\na,1,0,7\nb,0,1,8\nc,0,0,9 <- {"one_hot": ["cat", "dog"]}
i.d,a,b,c\n1,1,0,0\n2,0,1,0\n3,0,0,1
i.d,a,b,c\n1,1.0,0.0,0.0\n2,0.0,1.0,0.0
i.d,a,b,c\n1,True,False,7\n2,False,True,8
i.d,a,b,c\n1,1,0,0\n2,1,1,0
i.d,a,b,c\n1,1,0,0\n2,0,0,0
i.d,a,b,c\n1,1,0,0
i.d,a,b,c\n1,1,0,7\n2,1,0,8
id,is_cat,is_dog\n1,1,0 <- {"one_hot": ["is_*"]}
id,a,b,c\n1,1,1,0\n2,0,0,0\n3,0.5,0,1 <- {"one_hot": ["a", "b", "c"]}
id,a,b,c\n1,0,1,0\n2,0,1,0\n3,0,1,0\n4,0,1,0\n5,0.5,0,1 <- {"one_hot": ["a", "b", "c"]}
id,a,b\n1,1,0 <- {"one_hot": ["x"]}
id,a,b\n1,1,0 <- {"one_hot": ["x_*"]}
id,a,b\n1,1,0 <- {"one_hot": ["a"]}
id,a,b,c\n1,1,-1,1\n2,-1,-1,-1 <- {"one_hot": ["a", "b", "c"]}
id,a,b,c\n1,1,-1,0 <- {"one_hot": ["a", "b", "c"]}

# rows with boxes are objects
filename,width,height,class,xmin,ymin,xmax,ymax\na,9,7,cat,1,2,3,4\na,9,7,dog,2,2,3,4\nb,9,7,,,,,
filename,width,xmin,ymin,xmax,ymax\na,9,1,2,3,4
filename,XMin,XMax,YMin,YMax\na,1,3,2,4
filename,width,height,x_min,y_min,x_max,y_max\na,9,7,1,2,3,4
filename,bbox_x1,bbox_y1,bbox_x2,bbox_y2\na,1,2,3,4
filename,left,top,right,bottom\na,1,2,3,4
filename,x,y,w,h\na,10,20,30,60
filename,left,top,width,height\na,10,20,30,60
filename,x_center,y_center,width,height\na,0.5,0.5,0.5,0.25
filename,cx,cy,w,h\na,25,50,30,60
filename,width,height,x,y,w,h\na,90,70,1,2,3,4
filename,width,height,x_center,y_center,w,h\na,90,70,5,6,3,4
filename,bbox.x,bbox.y,bbox.width,bbox.height\na,1,2,3,4
filename,width,height,bbox_x,bbox_y,bbox_width,bbox_height\na,90,70,1,2,3,4
filename,w,h,bbox_x,bbox_y,bbox_width,bbox_height\na,90,70,1,2,3,4
filename,width,height,bbox_xmin,bbox_ymin,bbox_w,bbox_h\na,90,70,1,2,3,4
filename,img_w,img_h,label,xmin,ymin,xmax,ymax\na,90,70,cat,1,2,3,4
filename,width,height,image_width,image_height,xmin,ymin,xmax,ymax\na,2,2,90,70,1,2,3,4
filename,x,y,width\na,1,2,3
filename,width,height,age\na,1,2,3
filename,x,y,w,h,note,score,count\na,1,1,5,5,good,0.5,3\nb,1,1,5,5,,,
filename,x,y,w,h,note,score,count\na,1,1,5,5,good,0.5,3\nb,1,1,5,5,,, <- {"kinds": {"note": "skip", "score": "skip", "count": "int"}}
filename,xmin,ymin,xmax,ymax,species,note\n0,1,1,5,6,3,seen 0\n1,1,1,5,6,4,seen 1\n2,1,1,5,6,3,seen 2\n3,1,1,5,6,4,seen 3
filename,xmin,ymin,xmax,ymax,species,note\n0,1,1,5,6,cat,seen 0\n1,1,1,5,6,dog,seen 1\n2,1,1,5,6,cat,seen 2\n3,1,1,5,6,dog,seen 3
filename,xmin,ymin,xmax,ymax,difficult,note\n0,1,1,5,6,3,seen 0\n1,1,1,5,6,4,seen 1\n2,1,1,5,6,3,seen 2\n3,1,1,5,6,4,seen 3
filename,xmin,ymin,xmax,ymax,species,note\n0,1,1,5,6,cat,seen 0\n1,1,1,5,6,dog,seen 1\n2,1,1,5,6,cat,seen 2\n3,1,1,5,6,dog,seen 3 <- {"label": "none"}
filename,xmin,ymin,xmax,ymax,species,note\n0,1,1,5,6,cat,seen 0\n1,1,1,5,6,dog,seen 1\n2,1,1,5,6,cat,seen 2\n3,1,1,5,6,dog,seen 3 <- {"label": "species"}
filename,xmin,ymin,xmax,ymax,species,note\n0,1,1,5,6,cat,seen 0\n1,1,1,5,6,dog,seen 1\n2,1,1,5,6,cat,seen 2\n3,1,1,5,6,dog,seen 3 <- {"kinds": {"species": "str"}}

# pixels and fractions are told by their range, and sides of boxes from those of images
filename,x1,y1,x2,y2\na,1,1,5,5\nb,0,0,1,1
filename,x1,y1,x2,y2\na,0.1,0.1,0.5,0.5\nb,0,0,1,1
filename,x1,y1,x2,y2\na,0,0,1,1
filename,x1,y1,x2,y2\na,-0.01,0.1,1.02,1
filename,x1,y1,x2,y2\na,0.1,0.1,0.5,0.5\nb,1,1,5,5
filename,x1,y1,x2,y2\na,10.5,10.5,20.25,20.25
filename,x1,y1,x2,y2\na,,,,
filename,width,height,xmin,ymin,xmax,ymax\na,30,40,10,20,40,60\nb,30,40,0,0,30,40
filename,width,height,xmin,ymin,xmax,ymax\na,29,39,10,20,40,60
filename,width,height,xmin,ymin,xmax,ymax\na,0.25,0.5,0.5,0.25,0.75,0.75
filename,width,height,xmin,ymin,xmax,ymax\na,30,40,0,0,30,40
filename,width,height,xmin,ymin,xmax,ymax\na,30,40,10,20,40,60\nb,64,48,10,20,40,60
filename,width,height,xmin,ymin,xmax,ymax\na,64,48,10,20,40,60\nb,64.0,48,1,1,5,5\nc,0,0,1,1,5,5\nd,,48,1,1,5,5\ne,nan,48,1,1,5,5\nf,-64,48,1,1,5,5\ng,64.5,48,1,1,5,5\nh,wide,48,1,1,5,5
{"file_name": "a", "width": 64.0, "height": 48, "x1": 1, "y1": 1, "x2": 5, "y2": 5}\n{"file_name": "b", "width": [64], "height": 48, "x1": 1, "y1": 1, "x2": 5, "y2": 5}\n{"file_name": "c", "x1": 1, "y1": 1, "x2": 5, "y2": 5} <- l.jsonl

# a list of four numbers is a box
filename,bbox,source\na,"[834.0, 222.0, 56.0, 36.0]",usask
filename,bbox,source\na,"[10 20 40 80]",usask\nb,"[1 2 4 8]",usask
filename,bbox,source\na,"[0.5, 0.5, 0.25, 0.5]",usask\nb,,usask\nc,"[0.1, 0.1, 0.3, 0.4]",usask
filename,bbox\na,"[1, 2, 3]"
filename,scores\na,"[1, 2, 3, 4]"
filename,bbox,other_box\na,"[9, 2, 3, 4]","[9, 2, 3, 4]"

# pairs of columns are points by the option
filename,nose_x,age,nose_y,label\na,1,30,4.5,cat\nb,2,31,5,dog\nc,,32,,cat\nd,1,33,,cat\ne,1,34,left,cat <- {"kinds": {"nose": "point"}}
filename,nose_x,age,nose_y,label\na,1,30,4.5,cat <- {"kinds": {"ear": "point"}}
filename,nose_x,age,nose_y,label\na,1,30,4.5,cat <- {"kinds": {"age": "point"}}
filename,xmin,ymin,xmax,ymax,nose_x,nose_y\na,1,1,2,2,3,3 <- {"kinds": {"nose": "point"}}

# JSON is text by the option, and asked about without it
file_name,label,turns\na,cat,"{""a"": 1}"\nb,dog,"{""a"""\nc,dog, <- {"kinds": {"turns": "json"}}
file_name\tlabel\tturns\na\tcat\t"{""a"": 1}"\nb\tdog\t"{""a"""\nc\tdog\t <- l.tsv {"kinds": {"turns": "json"}}
{"file_name": "a", "label": "cat", "turns": {"a": 1}}\n{"file_name": "b", "label": "dog", "turns": {"a": 1e999}}\n{"file_name": "c", "label": "dog"} <- l.jsonl {"kinds": {"turns": "json"}}
{"file_name": "a", "id": 7, "turns": [{"a": 1}], "boxes": [[1, 2]]} <- l.jsonl
{"name": "a", "label": "cat", "turns": {"a": 1}} <- l.jsonl
file_name,label,turns\na,cat,{} <- {"kinds": {"turns": "json"}, "label": "turns"}
file_name,label,turns\na,cat,{} <- {"kinds": {"turns": "json"}, "key": "turns"}
file_name,label,turns\na,cat,{} <- {"kinds": {"turns": "json"}, "separators": {"turns": ";"}}

# a table says the same however it was saved
filename,label\na.jpg,cat\nb.jpg,dog
filename,label\na.jpg,cat\nb.jpg,dog <- labels.txt
filename,label\na.jpg,cat\nb.jpg,dog <- labels
filename,label\na.jpg,cat\nb.jpg,dog <- gs://bucket/LABELS.CSV
filename,label\r\na.jpg,cat\r\nb.jpg,dog\r
filename,label\ra.jpg,cat\rb.jpg,dog\r
filename, label\na.jpg, cat\nb.jpg, dog
filename ,label\na.jpg ,cat\nb.jpg ,dog
filename;label\na.jpg;cat\nb.jpg;dog
filename\tlabel\na.jpg\tcat\nb.jpg\tdog
filename|label\na.jpg|cat\nb.jpg|dog <- labels.txt
filename\tlabel\na.jpg\tcat\nb.jpg\tdog <- labels.tsv
filename\tlabel\na.jpg\tcat\nb.jpg\tdog <- labels.tab
"filename","label"\n"a.jpg","cat"\n"b.jpg","dog"
filename, "label"\na.jpg, "cat"\nb.jpg, "dog"

# rows are read as they are meant, with their lines
filename,label,note\n"a, b.jpg",cat,"says ""hi"""\nc.jpg,dog,"two\nlines"\nd.jpg,dog,"three\r\nmore\r\nlines"\r\ne.jpg,cat,plain
filename,label\na.jpg,5" pipe
사진,label,größe\n강아지/사진 1.jpg,강아지,1
\n\nfilename,label\n\na.jpg,cat\n   \n\r\nb.jpg,dog\n
filename;label;width, px\na,1.jpg;cat;3
filename,label,a;b\nx;1.jpg,cat,3
filename,a;b\nx.jpg,cat
filename\tlabel\ta, b, c\nx.jpg\tcat\t3 <- l.tsv
filename\tlabel\ta, b, c\nx.jpg\tcat\t3 <- l.tab
"sep=\t"\nfilename\tlabel\na.jpg\tcat\nb.jpg\tdog
SEP=,\nfilename,label\na.jpg,cat\nb.jpg,dog
sep=\nfilename|label\na.jpg|cat\nb.jpg|dog
,filename,label\n0,a.jpg,cat\n1,b.jpg,dog
,label\na.jpg,cat\nb.jpg,dog
,id,label\na.jpg,7,cat\nb.jpg,8,dog
,id,label\n0,a,cat\n1,b,dog
,filename,label\nx.jpg,a.jpg,cat\ny.jpg,b.jpg,dog
,label\n007,cat\n012,dog
,photo,label\nx,a.jpg,cat\ny,b.jpg,dog
,photo,label\nx,a,cat\nx,b,dog
filename;size;note;zip\na;0,5;1,2;1,5\nb;12;x;2,5\nc;-1,5e3;y;3 <- {"label": "none", "kinds": {"zip": "str"}}
filename,label

# a file without a usable header is an error
\n\r\n \t
,,\n , ,
filename,label,label\na,b,c
a,b, a,b ,c
cat/1.jpg,cat,3\ncat/2.jpg,cat,4
1,gs://b/PHOTO.PNG
val_0.JPEG\tn0\t0\t32\t44\t44\nval_1.JPEG\tn1\t0\t0\t63\t63
a.jpg b.jpg
a.jpg,1,2
a.jpg,b.jpg
a.jpg,x,2,3,4,cat
filename,"label\na,b
filename\na.jpg\nb.jpg
cat\ndog <- l.txt {"may_be_lists": true}
Abyssinian_1 1 1\nAbyssinian_2 1 1 <- l.txt {"may_be_lists": true}

# another file than a table is an error that says how to write one
filename,label\na.jpg,cat <- labels.json
filename,label\na.jpg,cat <- labels.csv.gz
{"version": "5.0"} <- l.json
MATLAB 5.0 <- l.mat
{"source-ref": "s3://b/a.jpg"} <- l.manifest
<annotations> <- l.xml
PK <- /data/l.xlsx
PK <- /data/l.xls
PK <- /data/l.ods
["a.jpg", "cat"]\nnonsense <- l.jsonl

# a row that cannot be told apart costs itself alone
filename,label\na.jpg\nb.jpg,dog,9\nc.jpg,cat
filename,label\nxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx,,
filename,label\nxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx,,
filename,label\n ,cat
filename,label\na.jpg,cat\n"b.jpg,dog\nc.jpg,cat\n"d.jpg",dog\ne.jpg,cat
filename,label\na.jpg,cat\nb.jpg,"dog\nc.jpg,cat
filename,label\na.jpg,"a "big" cat"\nb.jpg,dog
a.jpg 1\nsomething else\nb.jpg 2 <- l.txt

# JSON Lines and arrays are rows
{"file_name": "a", "label": "cat", "age": 3, "weight": 4.5}\n{"file_name": "b", "label": "dog", "age": null, "note": "x"}\n{"label": "dog", "weight": 1, "file_name": "c", "age": 5} <- l.jsonl
{"file_name": "a", "label": "cat", "age": 3} <- l.ndjson
{"file_name": "a", "label": true, "blurred": false}\n{"file_name": "b", "label": false, "blurred": true} <- l.jsonl
{"file_name": "a", "label": 3}\n{"file_name": "b", "label": 10} <- l.jsonl
{"file_name": "a", "label": 99999999999999999999} <- l.jsonl
{"file_name": "강.jpg", "label": "cat"}\r <- l.jsonl
{"file_name": "a", "label": "x", "n": 1e400, "y": [-1e400], "z": 1e3} <- l.jsonl
{"file_name": "a", "label": "cat", "boxes": ["v"], "camera": "x"}\n{"file_name": "b", "label": "cat", "boxes": [[1, 2, 3, 4]], "camera": "y"}\n{"file_name": "c", "label": {"name": "cat"}, "boxes": ["w"], "camera": "z"}\n{"file_name": "d", "label": "cat", "boxes": {}, "camera": {"iso": 100}} <- l.jsonl
{"file_name": "a", "label": "\ud800"}\n{"file_name": "\udfff.jpg", "label": "cat"}\n{"file_name": "b", "label": "cat", "note": "x\ud83d"}\n{"file_name": "c", "label": "cat", "note": "y"} <- l.jsonl
[\n  {"file_name": "a", "label": "cat", "size": 3},\n  {"file_name": "b",\n   "label": "猫", "size": null}, ["c"],\n  {"file_name": "\ud800", "label": "cat"}, {"label": "cat"}\n] <- l.json
[{"file_name": "a.jpg", "label": "cat"} <- l.json
[{"file_name": "a.jpg", "label": "cat"}\n{}] <- l.json
[{"file_name": "a.jpg", "label": "cat"},\n{"a] <- l.json

# a list of images and their labels needs no header
n01/a.JPEG 0\nn02/b c.JPEG 12 <- train.txt
a.jpg\tcat <- train.txt
a.jpg,cat\nb.jpg,dog
\n a.jpg  golden retriever  <- l.txt
a.png tench, Tinca tinca <- l.txt
1\tx\n22\ty\n3\tx <- l.txt
b/a-1,cat\nb/a-02,cat
a1; 0.25\na2; 3
a/b 3 <- l.txt
a/b 1\na/c 2\na/d 2 <- l.txt
0787226 Boeing 707-320\n1481091 Boeing 737-200 <- l.txt
2008_000001 -1\n2008_000002  1\n2008_000003 -1 <- l.txt
a.jpg#0\t"Go !" , it says .\na.jpg#1\tA dog's toy .\nb.jpg\tno number\nb.jpg#0\tx\ty <- captions.token

# a first line that may be a header is one
img1,class1\nimg2,class2
img1,2\nimg2,x
image,cat\nimg2,cat
image,cat\nimage,cat
col1,cat\nimg2,cat
a1,cat,3\na2,cat,3
a1,2
a1\na2
a.jpg 1 0 1 <- l.txt
a.jpg 1,2,3,4,0 5,6,7,8,1 <- l.txt

# a list of names has the folders as classes
b/1\n\n  b/2 \nb/3, "x" <- train.txt {"may_be_lists": true}
apple_pie/1005649\napple_pie/1011328 <- l.txt {"may_be_lists": true}
banded/banded_0002.jpg\nbanded/banded_0004.jpg <- l.txt {"may_be_lists": true}
/a/abbey/sun_aakbdcgfpksytcwj.jpg <- l.txt {"may_be_lists": true}
kitchen/int 474.jpg\na kitchen/x, y.jpg <- l.txt {"may_be_lists": true}
2008_000008\n2008_000015 <- l.txt {"may_be_lists": true}
1025794\n1340192 <- l.txt {"may_be_lists": true}
1.jpg\n2.jpg <- l.txt {"may_be_lists": true}
filename\na.jpg <- {"may_be_lists": true}
image_id,split\na,train <- {"may_be_lists": true}
filename,patient\na.jpg,7 <- {"may_be_lists": true, "group": "patient"}
1 001.Albatross/a.jpg\n2 001.Albatross/b.jpg <- l.txt {"may_be_lists": true}
n01/n01_26 1\nn01/n01_27 2 <- l.txt {"may_be_lists": true}
202599\n5_o_Clock_Shadow Young <- l.txt {"may_be_lists": true}
490\n361\n490 <- l.txt {"may_be_lists": true}
'''


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
    """A table whose column has these values; `1*8` repeats one, and _ is empty."""
    cells = itertools.chain.from_iterable(
        [value] * int(times or 1) for value, _, times in (v.partition("*") for v in values.split())
    )
    rows = [
        f"{i}.jpg,{cell.strip('_') and f'{chr(34)}{cell}{chr(34)}'}" for i, cell in enumerate(cells)
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
LISTS = "\n".join(["filename,bbox,source", *['a,"[30, 12, 17, 18]",x'] * 20, "a, ,x", ""])
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
    **dict(_of_texts(TABLES)),
    **{
        f"the key {n}": Table(f"label,x,{n.upper()}\n", choices={"label": "none"})
        for n in KEY_NAMES
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
