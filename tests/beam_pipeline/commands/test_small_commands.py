"""`beam-tfrecord demo`, `diff` and `index`."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from beam_pipeline.cli import main
from beam_pipeline.commands import Call, load_command
from beam_pipeline.core.errors import (
    ConversionError,
    DamagedRecordError,
    UsageError,
)
from beam_pipeline.core.records.example_view import Example
from tests.harness import (
    ALL_BAD,
    convert,
    digests,
    manifest_of,
    process,
    read_shard,
    run,
    shard_names,
)
from tests.pictures import picture, write_files, write_pictures

# --- demo ------------------------------------------------------------------------------------------


def test_the_demo_draws_and_converts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One command makes a data set from nothing; a second time it gives the same bytes."""
    monkeypatch.chdir(tmp_path)
    printed = run("demo")
    first = digests(tmp_path / "beam-tfrecord-demo/tfrecords")
    lines = printed.out.splitlines()
    shown = lines.index("2 of the examples:")
    assert ", shapes-train.tfrecord-00000-of-00001, record 0" in lines[shown + 2]
    assert ", shapes-validation.tfrecord-00000-of-00001, record 0" in lines[shown + 15]
    assert lines[-2] == "  beam-tfrecord inspect beam-tfrecord-demo/tfrecords"
    assert main(["demo"]) == 0
    assert digests(tmp_path / "beam-tfrecord-demo/tfrecords") == first
    assert "300 examples, all well" in run("verify", "beam-tfrecord-demo/tfrecords").out


def test_the_demo_touches_no_folder_with_other_things_in_it(tmp_path: Path) -> None:
    """A folder that holds something else is refused."""
    write_files(str(tmp_path), {"thesis.txt": "precious"})
    assert "contains other files" in run("demo", str(tmp_path), code=2).err
    assert os.listdir(tmp_path) == ["thesis.txt"]


@pytest.mark.slow
def test_the_demo_prints_a_command_that_does_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person can copy the line, change it and run it again."""
    monkeypatch.chdir(tmp_path)
    printed = run("demo", "shapes")
    first = digests(tmp_path / "shapes/tfrecords")
    lines = printed.out.splitlines()
    assert lines[0] == "Drew shapes/images/ and shapes/labels.csv. Now converting them with:"
    program, *argv = shlex.split(lines[2])
    assert program == "beam-tfrecord"
    assert main(argv) == 0
    assert digests(tmp_path / "shapes/tfrecords") == first


# --- diff ------------------------------------------------------------------------------------------


def test_every_kind_of_change_is_listed(tmp_path: Path) -> None:
    """With other shards, too; shards are not read, so they may be gone. Dead letters are no samples."""
    images = {f"{i}.bmp": picture(i, file_format="BMP") for i in range(9)}
    write_files(f"{tmp_path}/images", {**images, "bad.bmp": "no image"})
    argv = ["--images", f"{tmp_path}/images", "--labels", f"{tmp_path}/labels.csv", ALL_BAD]

    def label(**labels: str) -> None:
        rows = [f"{i},{labels.get(f'n{i}', 'cat')}" for i in (*range(10), "bad")]
        write_files(str(tmp_path), {"labels.csv": "\n".join(["id,label", *rows])})

    old, new = f"{tmp_path}/old", f"{tmp_path}/new"
    label()
    assert convert(*argv, "--output", old, "--num_shards", "3") == 0
    label(n1="dog", n2="dog")
    (tmp_path / "images/0.bmp").unlink()
    write_files(
        f"{tmp_path}/images", {"9.bmp": picture(9), "2.bmp": picture(5), "3.bmp": picture(6)}
    )
    assert convert(*argv, "--output", new, "--num_shards", "2") == 0
    for name in shard_names(old):
        (tmp_path / "old" / name).unlink()
    assert run("diff", old, new).out.splitlines() == [
        "added 9.bmp",
        "removed 0.bmp",
        "changed 2.bmp",
        "changed 3.bmp",
        "relabelled 1.bmp",
        "relabelled 2.bmp",
        f"{old} and {new}: 1 added, 1 removed, 2 changed, 2 relabelled",
        "option num_shards was 3, is 2",
    ]
    assert run("diff", new, new).out == f"{new} and {new}: no changes\n"
    shutil.rmtree(tmp_path / "old" / ".receipts")
    assert "has no receipt" in run("diff", old, new, code=1).err
    assert (
        "does not contain a complete data set" in run("diff", f"{tmp_path}/images", new, code=1).err
    )


# --- index -----------------------------------------------------------------------------------------

SHARD = "d-train.tfrecord-00000-of-00003"
INDEXES = [f"d-train.tfindex-0000{i}-of-00003" for i in range(3)]


def write_index(folder: str) -> None:
    """Runs the command, whose errors are not caught."""
    load_command("index").run(Call(argparse.Namespace(folder=folder)))


def _convert(folder: Path, *argv: str) -> Path:
    write_pictures(str(folder / "photos"), [f"{'ab'[i % 2]}/{i}.jpg" for i in range(14)])
    images, out = str(folder / "photos"), str(folder / "out")
    argv = ("--images", images, "--output", out, "--name", "d", *argv)
    assert convert(*argv) == 0
    return folder / "out"


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """A complete data set of 14 examples in three shards."""
    return _convert(tmp_path, "--num_shards", "3")


def _lines(path: Path) -> list[tuple[int, int]]:
    return [(int(offset), int(size)) for offset, size in map(str.split, path.open())]


def test_each_line_is_where_a_record_stands(
    dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The bytes between the framing of each line are the shard's examples, in their order."""
    capsys.readouterr()
    write_index(str(dataset))
    assert capsys.readouterr().out == (f"{dataset}: 3 shards, 14 records, indexed in *.tfindex-*\n")
    for shard, index in zip(shard_names(dataset), INDEXES, strict=True):
        data = (dataset / shard).read_bytes()
        spans = _lines(dataset / index)
        found = [Example.FromString(data[at + 12 : at + size - 4]) for at, size in spans]
        ids = [list(e.features.feature["image/source_id"].bytes_list.value) for e in found]
        assert ids == [features["image/source_id"] for features in read_shard(dataset, shard)]
        assert sum(size for _, size in spans) == len(data)


def test_it_adds_index_files_and_nothing_else(dataset: Path) -> None:
    """No other file comes, goes or changes, and patterns for shards do not find an index."""
    before = {path.name: path.read_bytes() for path in dataset.iterdir() if path.is_file()}
    write_index(str(dataset))
    after = {path.name: path.read_bytes() for path in dataset.iterdir() if path.is_file()}
    assert {name: data for name, data in after.items() if name not in INDEXES} == before
    assert set(INDEXES) <= set(after)
    assert len(list(dataset.glob("*.tfrecord-*"))) == 3


def test_an_older_index_is_replaced(dataset: Path) -> None:
    """A second run writes the same files over whatever stood there."""
    write_index(str(dataset))
    first = {name: (dataset / name).read_bytes() for name in INDEXES}
    (dataset / INDEXES[1]).write_text("0 1\n")
    write_index(f"{dataset}/")
    assert {name: (dataset / name).read_bytes() for name in INDEXES} == first


def test_compressed_shards_have_no_index(tmp_path: Path) -> None:
    """Gzip is wrong usage, and nothing is written."""
    out = _convert(tmp_path, "--compression", "gzip")
    before = sorted(os.listdir(out))
    with pytest.raises(UsageError) as caught:
        write_index(str(out))
    assert str(caught.value) == (
        f"{out} is compressed with gzip and cannot be indexed, because "
        "readers cannot seek in a compressed shard; convert with --compression none"
    )
    assert sorted(os.listdir(out)) == before


def test_a_damaged_shard_has_no_index(dataset: Path) -> None:
    """The error places the damage, and there is no index of that shard."""
    size = (dataset / SHARD).stat().st_size
    os.truncate(dataset / SHARD, size - 1)
    with pytest.raises(DamagedRecordError, match=rf"{SHARD}: record \d at byte \d+: the file ends"):
        write_index(str(dataset))
    assert not set(INDEXES) & set(os.listdir(dataset))
    assert not (dataset / ".incomplete").exists()


def test_a_shard_of_another_data_set_is_not_indexed(dataset: Path) -> None:
    """A shard with more or fewer records than the manifest lists is an error that says so."""
    examples = manifest_of(dataset)["splits"]["train"]["shards"][0]["examples"]
    (dataset / SHARD).write_bytes(b"")
    with pytest.raises(ConversionError) as caught:
        write_index(str(dataset))
    assert str(caught.value) == (
        f"{dataset}/{SHARD}: contains 0 records, the manifest lists {examples}; "
        "run `beam-tfrecord verify` to find all faults"
    )


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("manifest.json", "manifest.json cannot be read (No such file or directory): the folder"),
        (SHARD, f"{SHARD} cannot be read: No such file or directory"),
    ],
)
def test_a_missing_file_is_an_error(dataset: Path, missing: str, message: str) -> None:
    """Without its manifest there is no data set, and without a shard no index of it."""
    (dataset / missing).unlink()
    with pytest.raises(ConversionError) as caught:
        write_index(str(dataset))
    assert message in str(caught.value)


def _need(module: str, package: str) -> None:
    """Skips where a module is missing; looks for it without importing it beside TensorFlow."""
    for name in (module.partition(".")[0], module):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"needs {module}: pip install {package}")


def _run_python(code: str, *argv: str) -> str:
    """Runs code in a process of its own, where TensorFlow is not loaded, and returns its output."""
    command = [sys.executable, "-c", code, *argv]
    done = process(*command)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_tfrecord_package_writes_the_same_index(dataset: Path, tmp_path: Path) -> None:
    """`tfrecord2idx` of the package `tfrecord` gives the same bytes for each shard."""
    _need("tfrecord", "tfrecord")
    write_index(str(dataset))
    code = "import sys, tfrecord.tools.tfrecord2idx as t; t.create_index(*sys.argv[1:])"
    for shard, index in zip(shard_names(dataset), INDEXES, strict=True):
        _run_python(code, str(dataset / shard), str(tmp_path / "index"))
        assert (dataset / index).read_bytes() == (tmp_path / "index").read_bytes()


DALI_READER = """
import json, sys
from nvidia.dali import fn, pipeline_def, tfrecord as tfr

shards, indexes = json.loads(sys.argv[1])

@pipeline_def(batch_size=1, num_threads=2, device_id=None)
def read():
    keys = {"image/source_id": tfr.FixedLenFeature((), tfr.string, ""),
            "image/class/label": tfr.FixedLenFeature([1], tfr.int64, -1),
            "image/encoded": tfr.FixedLenFeature((), tfr.string, "")}
    out = fn.readers.tfrecord(path=shards, index_path=indexes, features=keys, name="reader")
    image = fn.decoders.image(out["image/encoded"], device="cpu")
    return out["image/source_id"], out["image/class/label"], image

pipeline = read()
pipeline.build()
found = []
for _ in range(pipeline.epoch_size("reader")):
    key, label, image = (batch.at(0) for batch in pipeline.run())
    found.append((bytes(key).decode(), int(label[0]), list(image.shape)))
print(json.dumps(found))
"""


def test_dali_reads_every_example_by_the_index(dataset: Path) -> None:
    """NVIDIA DALI, on a CPU, gives each example once with its label and decodes its image."""
    _need("nvidia.dali", "nvidia-dali-cuda120")
    write_index(str(dataset))
    shards = [str(dataset / name) for name in shard_names(dataset)]
    indexes = [str(dataset / name) for name in INDEXES]
    found = json.loads(_run_python(DALI_READER, json.dumps([shards, indexes])))
    expected = [[f"{'ab'[i % 2]}/{i}.jpg", i % 2, [7, 9, 3]] for i in range(14)]
    assert sorted(found) == sorted(expected)
