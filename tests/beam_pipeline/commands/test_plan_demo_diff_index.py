"""`beam-tfrecord plan`, `demo`, `diff` and `index`."""

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
from beam_pipeline.core import errors
from beam_pipeline.core.records.example_view import Example
from tests import harness
from tests.pictures import picture, write_files, write_pictures


@pytest.fixture
def argv(tmp_path: Path) -> list[str]:
    """Images, a table with a row too many and one too few, and options of convert."""
    names = [f"{i}.jpg" for i in range(20)]
    write_pictures(f"{tmp_path}/photos", names)
    rows = [f"{name},{'cat' if i < 15 else 'dog'}" for i, name in enumerate(names[:-1])]
    table = "\n".join(["filename,label", *rows, "gone.jpg,cat"]) + "\n"
    write_files(str(tmp_path), {"labels.csv": table, "photos/notes.txt": "no image"})
    argv = ["--images", f"{tmp_path}/photos", "--labels", f"{tmp_path}/labels.csv", "--name", "d"]
    argv += ["--output", f"{tmp_path}/out", "--splits", "train=0.5,test=0.5"]
    return [*argv, "--layout", "table", "--num_shards", "2", "--max_bad_fraction=0.1"]


def test_it_says_what_convert_then_writes(argv: list[str], tmp_path: Path) -> None:
    """Samples, splits, shards, classes and dead letters are those of the manifest."""
    printed = harness.run("plan", *argv).out
    assert not (tmp_path / "out").exists()
    assert sorted(os.listdir(tmp_path)) == ["labels.csv", "photos"]
    assert harness.convert(*argv) == 0
    splits = harness.manifest_of(tmp_path / "out")["splits"]
    lines = printed.splitlines()
    assert lines[:3] == [
        "Layout table: given by --layout",
        "  column filename  key      20 texts, such as '0.jpg'",
        "  column label     class    2 texts, such as 'cat'",
    ]
    lines = lines[6:]
    assert lines[0].startswith("19 samples, ")
    assert lines[0].endswith(f" kB, would go to {tmp_path}/out; nothing was written")
    for number, split in enumerate(("test", "train"), 2):
        assert lines[number].startswith(
            f"  {split}: {splits[split]['examples']} samples in 2 shards, "
        )
    names = [shard["path"] for split in splits.values() for shard in split["shards"]]
    assert lines[4] == f"  shards: {names[0]}, {names[1]}, {names[2]}, ... {names[3]}"
    assert lines[5] == "  2 classes: 0 cat (15), 1 dog (4)"
    assert lines[6] == "  ignored, hidden or without an image extension: 1 .txt"
    assert lines[7].startswith("  dead letters so far: 2; images are not opened")
    assert lines[8:10] == ["    missing_image: 1 (gone.jpg)", "    unlabelled: 1 (19.jpg)"]
    assert len(lines) == 10  # nobody named a cloud, so nothing is said of its prices


def test_it_says_what_would_be_reused(argv: list[str], tmp_path: Path) -> None:
    """The samples that changed, and the shards to reuse, are those of the conversion."""
    assert harness.convert(*argv) == 0
    write_pictures(f"{tmp_path}/photos", ["new.jpg"])
    with (tmp_path / "labels.csv").open("a") as table:
        table.write("new.jpg,dog\n")
    again = [*argv, "--output", f"{tmp_path}/again", "--reuse", f"{tmp_path}/out"]
    *_, since, shards = harness.run("plan", *again).out.splitlines()
    assert not (tmp_path / "again").exists()
    assert since == f"Since {tmp_path}/out: 1 added"
    assert harness.convert(*again) == 0
    found = json.loads((tmp_path / "again" / "changes.json").read_text())
    assert found["samples"] == {"added": 1, "removed": 0, "changed": 0, "relabelled": 0}
    assert found["shards"] == {"reused": 3, "written": 1}
    assert shards.startswith("  3 shards to reuse, ")
    assert "; 1 to write, about " in shards


@pytest.mark.slow
def test_another_engine_leaves_the_plan_in_its_temporary_folder(
    argv: list[str], tmp_path: Path
) -> None:
    """The same is printed, and nothing stays behind."""
    here = harness.run("plan", *argv).out
    assert (
        harness.run("plan", *argv, "--runner=FnApiRunner", f"--temp_location={tmp_path}/tmp").out
        == here
    )
    assert os.listdir(tmp_path / "tmp") == []


@pytest.mark.slow
def test_the_estimate_follows_workers_and_prices(argv: list[str], tmp_path: Path) -> None:
    """Nothing but the reads costs anything here: 19 at a dollar each."""
    prices = '{"vcpu_hour": 0, "memory_gb_hour": 0, "shuffle_gb": 0, "class_a_1000": 0, '
    write_files(str(tmp_path), {"prices.json": prices + '"class_b_1000": 1000}'})
    options = ["--workers", "3", "--worker_vcpus", "2", "--prices", f"{tmp_path}/prices.json"]
    lines = harness.run("plan", *argv, *options).out.splitlines()
    assert "On Dataflow with 3 workers of 2 vCPUs, roughly" in "\n".join(lines)
    assert "  requests to the bucket: 9 lists and writes, 19 reads" in lines
    assert "  time: 4 min, 0.3 vCPU hours" in lines
    assert "  cost: 19.00 USD; 19.00 with --shuffle=records" in lines
    assert lines[-1].startswith("  note: 1 of the workers would be without a shard to write")


@pytest.mark.parametrize(
    ("seconds", "option", "workers"),
    [
        (100, "--shard_size=200MB", None),
        (10_000, "--num_shards=400", "--num_workers=25 --max_num_workers=50"),
    ],
)
def test_enough_workers_are_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seconds: float,
    option: str,
    workers: str | None,
) -> None:
    """Here each of 18 images takes a while to encode; the shards stay those that were asked for."""
    write_pictures(f"{tmp_path}/photos", [f"{'ab'[i % 2]}/{i}.jpg" for i in range(18)])
    monkeypatch.setattr("beam_pipeline.planning.mean_seconds", lambda _: seconds)
    argv = ["--images", f"{tmp_path}/photos", "--output", f"{tmp_path}/out", "--resize=8", option]
    lines = harness.run("plan", *argv, "--workers=10").out.splitlines()
    named = [line for line in lines if "--num_workers" in line]
    assert named == [f"  workers for 30 min of writing: {workers}"] * bool(workers)


@pytest.mark.slow
def test_what_would_stop_a_conversion_stops_the_plan(argv: list[str], tmp_path: Path) -> None:
    """The same error as convert has, after what was found."""
    planned = harness.run("plan", *argv, "--max_bad_fraction=0", code=1)
    error = harness.run_convert(*argv, "--max_bad_fraction=0", code=1).err.splitlines()[-1]
    assert planned.err.splitlines()[-1] == error
    assert "1 bad sample among 20 listed images" in error
    assert planned.out.splitlines()[6].startswith("19 samples, ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--runner=DataflowRunner"], "its workers leave the plan in --temp_location"),
        (["--nonsense"], "unknown option --nonsense"),
        (["--workers", "0"], "--workers is 0, expected 1 or more"),
        (["--prices", "nowhere.json"], "--prices nowhere.json cannot be read: No such file"),
    ],
)
def test_options_that_cannot_be(argv: list[str], options: list[str], message: str) -> None:
    """Wrong usage, said before anything is listed."""
    assert message in harness.run("plan", *argv, *options, code=2).err


# --- demo ------------------------------------------------------------------------------------------


def test_the_demo_draws_and_converts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One command makes a data set from nothing; a second time it gives the same bytes, as does the one it prints."""
    monkeypatch.chdir(tmp_path)
    printed = harness.run("demo")
    first = harness.digests(tmp_path / "beam-tfrecord-demo/tfrecords")
    lines = printed.out.splitlines()
    shown = lines.index("2 of the examples:")
    assert ", shapes-train.tfrecord-00000-of-00001, record 0" in lines[shown + 2]
    assert ", shapes-validation.tfrecord-00000-of-00001, record 0" in lines[shown + 15]
    assert lines[-2] == "  beam-tfrecord inspect beam-tfrecord-demo/tfrecords"
    assert main(["demo"]) == 0
    assert harness.digests(tmp_path / "beam-tfrecord-demo/tfrecords") == first
    program, *argv = shlex.split(lines[2])
    shutil.rmtree(tmp_path / "beam-tfrecord-demo/tfrecords")
    assert (program, main(argv)) == ("beam-tfrecord", 0)
    assert harness.digests(tmp_path / "beam-tfrecord-demo/tfrecords") == first
    assert "300 examples, all well" in harness.run("verify", "beam-tfrecord-demo/tfrecords").out


def test_the_demo_touches_no_folder_with_other_things_in_it(tmp_path: Path) -> None:
    """A folder that holds something else is refused."""
    write_files(str(tmp_path), {"thesis.txt": "precious"})
    assert "contains other files" in harness.run("demo", str(tmp_path), code=2).err
    assert os.listdir(tmp_path) == ["thesis.txt"]


# --- diff ------------------------------------------------------------------------------------------


def test_every_kind_of_change_is_listed(tmp_path: Path) -> None:
    """With other shards, too; shards are not read, so they may be gone. Dead letters are no samples."""
    images = {f"{i}.bmp": picture(i, file_format="BMP") for i in range(9)}
    write_files(f"{tmp_path}/images", {**images, "bad.bmp": "no image"})
    argv = ["--images", f"{tmp_path}/images", "--labels", f"{tmp_path}/labels.csv", harness.ALL_BAD]

    def label(**labels: str) -> None:
        rows = [f"{i},{labels.get(f'n{i}', 'cat')}" for i in (*range(10), "bad")]
        write_files(str(tmp_path), {"labels.csv": "\n".join(["id,label", *rows])})

    old, new = f"{tmp_path}/old", f"{tmp_path}/new"
    label()
    assert harness.convert(*argv, "--output", old, "--num_shards", "3") == 0
    label(n1="dog", n2="dog")
    (tmp_path / "images/0.bmp").unlink()
    changed = {"9.bmp": picture(9), "2.bmp": picture(5), "3.bmp": picture(6)}
    write_files(f"{tmp_path}/images", changed)
    assert harness.convert(*argv, "--output", new, "--num_shards", "2") == 0
    for name in harness.shard_names(old):
        (tmp_path / "old" / name).unlink()
    assert harness.run("diff", old, new).out.splitlines() == [
        *("added 9.bmp", "removed 0.bmp", "changed 2.bmp", "changed 3.bmp"),
        *("relabelled 1.bmp", "relabelled 2.bmp"),
        f"{old} and {new}: 1 added, 1 removed, 2 changed, 2 relabelled",
        "option num_shards was 3, is 2",
    ]
    assert harness.run("diff", new, new).out == f"{new} and {new}: no changes\n"
    shutil.rmtree(tmp_path / "old" / ".receipts")
    assert "has no receipt" in harness.run("diff", old, new, code=1).err
    assert (
        "does not contain a complete data set"
        in harness.run("diff", f"{tmp_path}/images", new, code=1).err
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
    assert harness.convert(*argv) == 0
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
    for shard, index in zip(harness.shard_names(dataset), INDEXES, strict=True):
        data = (dataset / shard).read_bytes()
        spans = _lines(dataset / index)
        found = [Example.FromString(data[at + 12 : at + size - 4]) for at, size in spans]
        ids = [list(e.features.feature["image/source_id"].bytes_list.value) for e in found]
        assert ids == [
            features["image/source_id"] for features in harness.read_shard(dataset, shard)
        ]
        assert sum(size for _, size in spans) == len(data)


def test_it_adds_index_files_and_nothing_else(dataset: Path) -> None:
    """No other file comes, goes or changes, and patterns for shards do not find an index."""
    before = {path.name: path.read_bytes() for path in dataset.iterdir() if path.is_file()}
    write_index(str(dataset))
    after = {path.name: path.read_bytes() for path in dataset.iterdir() if path.is_file()}
    assert {name: data for name, data in after.items() if name not in INDEXES} == before
    assert set(INDEXES) <= set(after)
    assert len(list(dataset.glob("*.tfrecord-*"))) == 3


def test_compressed_shards_have_no_index(tmp_path: Path) -> None:
    """Gzip is wrong usage, and nothing is written."""
    out = _convert(tmp_path, "--compression", "gzip")
    before = sorted(os.listdir(out))
    with pytest.raises(errors.UsageError) as caught:
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
    with pytest.raises(
        errors.DamagedRecordError, match=rf"{SHARD}: record \d at byte \d+: the file ends"
    ):
        write_index(str(dataset))
    assert not set(INDEXES) & set(os.listdir(dataset))
    assert not (dataset / ".incomplete").exists()


def test_a_shard_of_another_data_set_is_not_indexed(dataset: Path) -> None:
    """A shard with more or fewer records than the manifest lists is an error that says so."""
    examples = harness.manifest_of(dataset)["splits"]["train"]["shards"][0]["examples"]
    (dataset / SHARD).write_bytes(b"")
    with pytest.raises(errors.ConversionError) as caught:
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
    with pytest.raises(errors.ConversionError) as caught:
        write_index(str(dataset))
    assert message in str(caught.value)


def _need(module: str, package: str) -> None:
    """Skips where a module is missing; looks for it without importing it beside TensorFlow."""
    for name in (module.partition(".")[0], module):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"needs {module}: pip install {package}")


def _run_python(code: str, *argv: str) -> str:
    """Runs code in a process of its own, where TensorFlow is not loaded, and returns its output."""
    done = harness.process(sys.executable, "-c", code, *argv)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_tfrecord_package_writes_the_same_index(dataset: Path, tmp_path: Path) -> None:
    """`tfrecord2idx` of the package `tfrecord` gives the same bytes for each shard."""
    _need("tfrecord", "tfrecord")
    write_index(str(dataset))
    code = "import sys, tfrecord.tools.tfrecord2idx as t; t.create_index(*sys.argv[1:])"
    for shard, index in zip(harness.shard_names(dataset), INDEXES, strict=True):
        _run_python(code, str(dataset / shard), str(tmp_path / "index"))
        assert (dataset / index).read_bytes() == (tmp_path / "index").read_bytes()
