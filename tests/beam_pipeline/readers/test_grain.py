"""Grain reads what a conversion wrote by `RandomAccess`, in a process of its own, which may fork."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from tests.harness import convert, documented, python, run_shell
from tests.pictures import write_pictures

pytestmark = [
    pytest.mark.grain,
    pytest.mark.skipif(
        importlib.util.find_spec("grain") is None, reason="needs Grain: pip install grain"
    ),
]

NAMES = [f"{'ab'[i % 2]}/{i}.png" for i in range(23)]

READER = """
import sys
import grain
from beam_pipeline import RandomAccess

def name(example):
    return example["image/source_id"].decode()

def data_set(folder):
    source = grain.MapDataset.source(RandomAccess(folder)).seed(3).shuffle().map(name)
    return source.repeat(2).batch(4).to_iter_dataset()

if __name__ == "__main__":
    folder = sys.argv[1]
    sets = {
        "threads": data_set(folder),
        "processes": data_set(folder).mp_prefetch(grain.MultiprocessingOptions(num_workers=2)),
        "loader": grain.DataLoader(
            data_source=RandomAccess(folder),
            sampler=grain.samplers.IndexSampler(23, shuffle=True, seed=5, num_epochs=2),
            worker_count=0,
        ),
    }
    for kind, batches in sets.items():
        iterator = iter(batches)
        first = [next(iterator) for _ in range(3)]
        state = iterator.get_state()
        rest = list(iterator)
        resumed = iter(batches)
        resumed.set_state(state)
        again = list(resumed)
        if kind == "loader":
            first, rest, again = (list(map(name, batch)) for batch in (first, rest, again))
            names = first + rest
        else:
            rest, again = ([batch.tolist() for batch in batches] for batches in (rest, again))
            names = sum([batch.tolist() for batch in first] + rest, [])
        assert again == rest, kind
        print(kind, sorted(names) == sorted(names[:23] * 2), len(set(names[:23])), names[:23] != names[23:])
"""


def _run(script: Path, *argv: str, folder: Path) -> str:
    done = python(str(script), *argv, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_epoch_is_shuffled_and_resumed(tmp_path: Path) -> None:
    """By threads, by processes and by Grain's loader: each sample once an epoch, in another order each
    time, and the rest of the same order from a saved position."""
    write_pictures(f"{tmp_path}/photos", NAMES)
    argv = ("--images", f"{tmp_path}/photos", "--num_shards", "3", "--output", f"{tmp_path}/out")
    assert convert(*argv) == 0
    script = tmp_path / "reader.py"
    script.write_text(READER)
    assert _run(script, f"{tmp_path}/out", folder=tmp_path).splitlines() == [
        f"{kind} True 23 True" for kind in ("threads", "processes", "loader")
    ]


def test_the_documented_array_records_are_batched(tmp_path: Path) -> None:
    """The command and the code that needs no TensorFlow, from the demo's images to batches."""
    pytest.importorskip("array_record")
    run_shell("beam-tfrecord demo", tmp_path)
    (command,) = documented("docs/grain.md", "bash", "ArrayRecord")
    run_shell(command, tmp_path)
    script = tmp_path / "train.py"
    script.write_text(documented("docs/grain.md", "python", "ArrayRecord")[0])
    printed = _run(script, folder=tmp_path)
    assert re.fullmatch(r"300 \(32, \d+, \d+, 3\) \[[012 ]+\]\n", printed)


def test_the_documented_code_runs(tmp_path: Path) -> None:
    """The blocks of two sections of docs/grain.md, one after another."""
    run_shell("beam-tfrecord demo", tmp_path)
    script = tmp_path / "train.py"
    sections = ("Random access", "Grain")
    blocks = [code for name in sections for code in documented("docs/grain.md", "python", name)]
    script.write_text("\n".join(blocks))
    found = _run(script, folder=tmp_path).splitlines()
    examples = int(found[0].split()[0])
    assert found[0] == f"{examples} examples of ['circle', 'square', 'triangle']"
    assert found[-3:] == [
        "(32, 64, 64, 3) int32",
        f"resumed, {examples * 2 // 32 - 5} batches were left",
        f"{-(-examples // 4)} of {examples} samples",
    ]
