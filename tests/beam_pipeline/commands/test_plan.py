"""`beam-tfrecord plan`: what would be written, and nothing is."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.harness import convert, manifest_of, run, run_convert
from tests.pictures import write_files, write_pictures


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
    printed = run("plan", *argv).out
    assert not (tmp_path / "out").exists()
    assert sorted(os.listdir(tmp_path)) == ["labels.csv", "photos"]
    assert convert(*argv) == 0
    manifest = manifest_of(tmp_path / "out")
    splits = manifest["splits"]
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
    assert lines[10].startswith("  labels: 227 B of label files, joined with the images by CoGroup")
    assert len(lines) == 11  # nobody named a cloud, so nothing is said of its prices


def test_it_says_what_would_be_reused(argv: list[str], tmp_path: Path) -> None:
    """The samples that changed, and the shards to reuse, are those of the conversion."""
    assert convert(*argv) == 0
    write_pictures(f"{tmp_path}/photos", ["new.jpg"])
    with (tmp_path / "labels.csv").open("a") as table:
        table.write("new.jpg,dog\n")
    again = [*argv, "--output", f"{tmp_path}/again", "--reuse", f"{tmp_path}/out"]
    *_, since, shards = run("plan", *again).out.splitlines()
    assert not (tmp_path / "again").exists()
    assert since == f"Since {tmp_path}/out: 1 added"
    assert convert(*again) == 0
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
    here = run("plan", *argv).out
    beam_argv = ["--runner=FnApiRunner", f"--temp_location={tmp_path}/tmp"]
    assert run("plan", *argv, *beam_argv).out == here
    assert os.listdir(tmp_path / "tmp") == []


def test_class_folders_need_no_join(tmp_path: Path) -> None:
    """What the plan says of the labels then."""
    write_pictures(f"{tmp_path}/photos", ["cat/1.jpg"])
    assert (
        "  labels: each image's folder; nothing to join"
        in run(
            "plan", "--images", f"{tmp_path}/photos", "--output", f"{tmp_path}/out"
        ).out.splitlines()
    )


@pytest.mark.slow
def test_the_estimate_follows_workers_and_prices(argv: list[str], tmp_path: Path) -> None:
    """Nothing but the reads costs anything here: 19 at a dollar each."""
    prices = '{"vcpu_hour": 0, "memory_gb_hour": 0, "shuffle_gb": 0, "class_a_1000": 0, '
    write_files(str(tmp_path), {"prices.json": prices + '"class_b_1000": 1000}'})
    options = ["--workers", "3", "--worker_vcpus", "2", "--prices", f"{tmp_path}/prices.json"]
    lines = run("plan", *argv, *options).out.splitlines()
    assert "On Dataflow with 3 workers of 2 vCPUs, roughly" in "\n".join(lines)
    assert "  requests to the bucket: 9 lists and writes, 19 reads" in lines
    assert "  time: 4 min, 0.3 vCPU hours" in lines
    assert "  cost: 19.00 USD; 19.00 with --shuffle=records" in lines
    assert lines[-1].startswith("  note: 1 of the workers would be without a shard to write")


@pytest.mark.parametrize(
    ("seconds", "option", "note", "workers"),
    [
        (1, "--shard_size=200MB", None, None),
        (
            100,
            "--shard_size=200MB",
            "one thread encodes a shard for 30 min, again if its worker is lost, and the job ends with its last "
            "shard; --shard_size 33MB would make that 5 min",
            None,
        ),
        (
            10_000,
            "--num_shards=400",
            "one thread encodes a shard for 8 min, again if its worker is lost, and the job ends with its last "
            "shard; 2 times as many shards (--num_shards) would make that 4 min",
            "--num_workers=25 --max_num_workers=50",
        ),
    ],
)
def test_long_shards_and_enough_workers_are_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seconds: float,
    option: str,
    note: str | None,
    workers: str | None,
) -> None:
    """Here each of 18 images takes a while to encode; the shards stay those that were asked for."""
    write_pictures(f"{tmp_path}/photos", [f"{'ab'[i % 2]}/{i}.jpg" for i in range(18)])
    monkeypatch.setattr("beam_pipeline.planning.mean_seconds", lambda _: seconds)
    argv = ["--images", f"{tmp_path}/photos", "--output", f"{tmp_path}/out", "--resize=8", option]
    lines = run("plan", *argv, "--workers=10").out.splitlines()
    assert [line for line in lines if "encodes a shard" in line] == [f"  note: {note}"] * bool(note)
    named = [line for line in lines if "--num_workers" in line]
    assert named == [f"  workers for 30 min of writing: {workers}"] * bool(workers)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "estimated"),
    [
        ([], False),
        (["--runner=FnApiRunner"], False),
        (["--workers=1"], True),
        (["--worker_vcpus=8"], True),
    ],
)
def test_prices_are_those_of_a_cloud_that_was_named(
    argv: list[str], options: list[str], estimated: bool
) -> None:
    """A plan on this machine says nothing of Dataflow until an option does."""
    assert (" USD; " in run("plan", *argv, *options).out) == estimated


@pytest.mark.slow
def test_what_would_stop_a_conversion_stops_the_plan(argv: list[str], tmp_path: Path) -> None:
    """The same error as convert has, after what was found."""
    planned = run("plan", *argv, "--max_bad_fraction=0", code=1)
    error = run_convert(*argv, "--max_bad_fraction=0", code=1).err.splitlines()[-1]
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
    assert message in run("plan", *argv, *options, code=2).err
