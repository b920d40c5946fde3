"""`beam_pipeline.convert`: the command as a function."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import beam_pipeline
from beam_pipeline.conversion import as_arguments, convert
from beam_pipeline.core.errors import ConversionError, QuestionError, UsageError
from tests.harness import REPOSITORY, digests
from tests.harness import convert as command
from tests.pictures import write_pictures

ROWS = [
    {"filename": f"{i}.jpg", "label": "cat" if i % 3 else "dog", "age": i + 0.5, "note": None}
    for i in range(12)
]
OPTIONS = {"num_shards": {"train": 2, "test": 1}, "splits": {"train": 0.75, "test": 0.25}}


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("conversion")
    write_pictures(str(folder / "photos"), [f"{i}.jpg" for i in range(12)])
    lines = [
        "filename,label,age,note",
        *(f"{r['filename']},{r['label']},{r['age']}," for r in ROWS),
    ]
    (folder / "labels.csv").write_text("\n".join(lines) + "\n")
    return folder


class _Frame:
    """Has what is used of a pandas data frame: columns, and rows as dicts of NumPy's scalars."""

    columns = ("filename", "label", "age", "note")

    def to_dict(self, orient: str) -> list[dict[str, object]]:
        assert orient == "records"
        return [{**row, "age": np.float32(row["age"]), "note": math.nan} for row in ROWS]


class _PolarsFrame:
    def to_dicts(self) -> list[dict[str, object]]:
        return [dict(row) for row in ROWS]


@pytest.mark.parametrize(
    "table",
    [
        pytest.param(_Frame(), id="pandas"),
        pytest.param(_PolarsFrame(), id="polars", marks=pytest.mark.slow),
        pytest.param(pa.Table.from_pylist(ROWS), id="pyarrow", marks=pytest.mark.slow),
        pytest.param(ROWS, id="dicts", marks=pytest.mark.slow),
    ],
)
def test_a_table_in_memory_gives_the_bytes_of_its_file(
    table: object, photos: Path, tmp_path: Path
) -> None:
    """Whatever the library: the shards are those of the same table as a CSV file."""
    argv = ("--images", f"{photos}/photos", "--labels", f"{photos}/labels.csv", "--name", "d")
    more = ("--splits=train=0.75,test=0.25", "--num_shards=train=2,test=1", "--columns=note:skip")
    assert command(*argv, *more, "--output", str(tmp_path / "a")) == 0
    dataset = convert(
        photos / "photos",
        labels=table,
        output=tmp_path / "b",
        name="d",
        columns={"note": "skip"},
        writers=0,
        progress=False,
        **OPTIONS,
    )
    assert digests(tmp_path / "a") == digests(tmp_path / "b")
    shown = (tmp_path / "b/report.html").read_text()
    assert "--labels &#x27;&lt;a table in memory&gt;&#x27;" in shown
    assert sum(dataset.splits.values()) == 12


def test_the_data_set_knows_what_it_holds(photos: Path, tmp_path: Path) -> None:
    """Path, splits, classes, dead letters and the manifest; the same when it is opened again."""
    (tmp_path / "photos").mkdir()
    for name in ("0.jpg", "1.jpg"):
        (tmp_path / "photos" / name).write_bytes((photos / "photos" / name).read_bytes())
    (tmp_path / "photos/2.jpg").write_bytes(b"no image")
    dataset = convert(
        str(tmp_path / "photos"),
        labels=ROWS[:3],
        output=str(tmp_path / "out"),
        max_bad_fraction=1,
        writers=0,
        progress=False,
    )
    assert dataset.path == str(tmp_path / "out")
    assert dataset.splits == {"train": 2}
    assert dataset.classes == {0: "cat", 1: "dog"}
    assert [(d["key"], d["reason"]) for d in dataset.dead_letters] == [("2.jpg", "not_an_image")]
    assert dataset.manifest.counts.examples == 2
    assert beam_pipeline.Dataset.open(tmp_path / "out") == dataset
    assert "train" in repr(dataset)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"shardsize": 1}, "convert() has no argument 'shardsize'; did you mean shard_size?"),
        ({"compression": "zip"}, "compression is 'zip', expected one of ('none', 'gzip')"),
        ({"overwrite": "yes"}, "overwrite=True is 'yes', expected True or False"),
        ({"splits": {"train": 0.5}}, "splits: 'train=0.5': the shares add up to 0.5, not to 1"),
        ({"resume": True, "overwrite": True}, "resume=True keeps what overwrite=True removes"),
        ({"beam_options": ["--rnner=X"]}, "Apache Beam does not know --rnner=X"),
        ({"labels": 5}, "labels is a int, expected a path or several"),
        ({"labels": [{"filename": object()}]}, "labels contains a object, expected texts"),
        ({"labels": ROWS, "beam_options": ["--runner=FlinkRunner"]}, "labels is a table in this"),
    ],
)
def test_a_wrong_argument_is_named_as_an_argument(
    photos: Path, tmp_path: Path, arguments: dict[str, object], message: str
) -> None:
    """Found before anything is written."""
    given = {"labels": str(photos / "labels.csv"), **arguments}
    with pytest.raises(UsageError) as raised:
        convert(str(photos / "photos"), output=str(tmp_path / "out"), **given)
    assert message in str(raised.value)
    assert not (tmp_path / "out").exists()


def test_dicts_of_features_have_a_function_of_their_own(tmp_path: Path) -> None:
    """The message names it."""
    with pytest.raises(UsageError, match="convert_samples"):
        convert([{"x": 1}], output=str(tmp_path / "out"))


def test_a_question_is_raised_and_yes_answers_it(photos: Path, tmp_path: Path) -> None:
    """As the command asks it, in the words of arguments."""
    rows = [{"filename": row["filename"], "label": "cat"} for row in ROWS]
    arguments = {"labels": rows, "output": str(tmp_path / "out"), "writers": 0, "progress": False}
    with pytest.raises(QuestionError) as raised:
        convert(str(photos / "photos"), **arguments)
    assert "yes=True" in str(raised.value)
    assert "--yes" not in str(raised.value)
    dataset = convert(str(photos / "photos"), **arguments, yes=True)
    assert dataset.splits == {"train": 12}


def test_options_in_messages_become_arguments() -> None:
    """Options of ours only, with their values."""
    text = "--resume or --label_column NAME; see --runner"
    assert as_arguments(text) == "resume=True or label_column=NAME; see --runner"


def test_a_suggestion_is_a_call_that_works(photos: Path, tmp_path: Path) -> None:
    """It names the table in memory as the caller's argument, not the file that stands for it."""
    lists = ["cat;dog", "cat", "dog"]
    labels = [{"filename": row["filename"], "label": lists[i % 3]} for i, row in enumerate(ROWS)]
    arguments = {"output": str(tmp_path / "out"), "num_shards": 2, "splits": {"train": 1}}
    with pytest.raises(QuestionError) as raised:
        convert(str(photos / "photos"), labels=labels, **arguments, writers=0, progress=False)
    call = str(raised.value).splitlines()[2].strip()
    assert call == (
        f"beam_pipeline.convert(images='{photos}/photos', labels=labels, list_column={{'label': ';'}}, "
        f"splits='train=1.0', num_shards=2, output='{tmp_path}/out', writers=0)"
    )
    assert str(raised.value).endswith("\nCorrect the call, or accept the guess with yes=True.")
    data_set = eval(call, {"beam_pipeline": beam_pipeline, "labels": labels})
    assert data_set.classes == {0: "cat", 1: "dog"}


def test_errors_speak_of_the_table_in_memory(photos: Path, tmp_path: Path) -> None:
    """Not of the file that stands for it."""
    with pytest.raises(ConversionError) as raised:
        convert(photos, labels=[{"filename": "0.jpg", "a": "x", "b": "y"}], output=tmp_path / "out")
    assert str(raised.value).startswith("labels: which of the columns a, b is the label? ")


@pytest.mark.slow
def test_nothing_is_printed_but_progress(photos: Path, tmp_path: Path) -> None:
    """No warnings of Beam's or other libraries', in a process of its own with warnings on."""
    code = (
        "import beam_pipeline\n"
        f"d = beam_pipeline.convert({str(photos / 'photos')!r}, labels={str(photos / 'labels.csv')!r},"
        f" output={str(tmp_path / 'out')!r}, writers=0, progress=False)\n"
        "import sys; assert 'tensorflow' not in sys.modules; print(d.classes)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout == "{0: 'cat', 1: 'dog'}\n"
    assert done.stderr == ""


@pytest.mark.slow
def test_the_code_of_the_page_runs(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """docs/python.md, block after block."""
    page = Path(REPOSITORY, "docs/python.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 3
    shutil.copytree(photos / "photos", tmp_path / "photos")
    shutil.copy(photos / "labels.csv", tmp_path / "labels.csv")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec("\n".join(blocks), names)
    assert names["dataset"].splits == {"train": 12}
