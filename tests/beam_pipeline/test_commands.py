"""What transcripts cannot show of `inspect`, `verify`, `index` and `plan`: other programs, limits, every byte."""

from __future__ import annotations

import gzip
import importlib.util
import os
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

from beam_pipeline.cli import main
from beam_pipeline.commands import inspect
from beam_pipeline.core.records.example_view import Example
from beam_pipeline.inspection import select, sources
from tests.beam_pipeline.readers.by_hand import framed
from tests.core.records.fixtures import record_of
from tests.harness import ALL_BAD, convert, process, read_shard, run, shard_names
from tests.pictures import picture, write_files, write_pictures

NAMES = [f"{'ab'[i % 2]}/{i}.jpg" for i in range(14)]


@pytest.fixture(autouse=True)
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data set of three shards with a dead letter, in the working folder."""
    monkeypatch.chdir(tmp_path)
    write_pictures("photos", NAMES)
    write_files("photos", {"a/bad.jpg": "no image"})
    argv = ("--images", "photos", "--output", "out", "--name", "d", "--num_shards", "3", ALL_BAD)
    assert convert(*argv) == 0
    return tmp_path / "out"


def is_same_gzip(data: bytes, sound: bytes) -> bool:
    """Whether a spoilt gzip file contains the same as before."""
    try:
        return gzip.decompress(data) == gzip.decompress(sound)
    except (OSError, EOFError, zlib.error):
        return False


@pytest.mark.promise("damaged_later")
def test_a_flipped_bit_of_any_file_is_found(out: Path) -> None:
    """Whichever file it is in; bits of gzip that nobody reads, such as its header's time, are left out."""
    paths = sorted(path for path in out.rglob("*") if path.is_file())
    assert len(paths) == 16
    for path in paths:
        sound = path.read_bytes()
        for offset in range(0, len(sound), max(1, len(sound) // 15)):
            data = bytearray(sound)
            data[offset] ^= 1
            if path.suffix == ".gz" and is_same_gzip(data, sound):
                continue
            path.write_bytes(data)
            assert main(["verify", "out"]) == 1, (path, offset)
        path.write_bytes(sound)
    assert main(["verify", "out"]) == 0


# --- index


def test_each_line_of_an_index_is_where_a_record_stands(out: Path) -> None:
    """The bytes between the framing of each line are the shard's examples, in their order; `tfrecord2idx` of the package
    `tfrecord`, where it is installed, gives the same bytes."""
    run("index", "out")
    for shard in shard_names(out):
        data = (out / shard).read_bytes()
        index = out / shard.replace("tfrecord", "tfindex")
        spans = [tuple(map(int, line.split())) for line in index.read_text().splitlines()]
        found = [Example.FromString(data[at + 12 : at + size - 4]) for at, size in spans]
        ids = [list(e.features.feature["image/source_id"].bytes_list.value) for e in found]
        assert ids == [features["image/source_id"] for features in read_shard(out, shard)]
        assert sum(size for _, size in spans) == len(data)
        if importlib.util.find_spec("tfrecord"):
            code = "import sys, tfrecord.tools.tfrecord2idx as t; t.create_index(*sys.argv[1:])"
            assert process(sys.executable, "-c", code, out / shard, "theirs").returncode == 0
            assert index.read_bytes() == Path("theirs").read_bytes()


# --- plan


@pytest.mark.slow
def test_another_engine_leaves_the_plan_in_its_temporary_folder() -> None:
    """The same is printed, and nothing stays behind."""
    argv = ("plan", "--images", "photos", "--output", "new")
    other = run(*argv, "--runner=FnApiRunner", "--temp_location=tmp").out
    assert other == run(*argv).out
    assert os.listdir("tmp") == []


@pytest.mark.parametrize(
    ("seconds", "option"), [(120, "--shard_size=200MB"), (12_000, "--num_shards=400")]
)
def test_enough_workers_are_named(
    monkeypatch: pytest.MonkeyPatch, seconds: float, option: str
) -> None:
    """Here each of 14 images takes a while to encode; the shards stay those that were asked for."""
    monkeypatch.setattr("beam_pipeline.planning.mean_seconds", lambda _: seconds)
    argv = ("plan", "--images", "photos", "--output", "new", "--resize=8", option, "--workers=10")
    printed = run(*argv).out.splitlines()
    workers = "  workers for 30 min of writing: --num_workers=25 --max_num_workers=50"
    assert (workers in printed) == (seconds > 1000)


# --- inspect


def foreign(number: int) -> bytes:
    """A record as another program may write it."""
    features = {"id": [number], "label": [number % 3], "image": [picture(number)], "x": [0.5]}
    return framed(record_of(features))


def inspected(*argv: str) -> list[str]:
    """The lines that `inspect` prints."""
    return run("inspect", *argv).out.splitlines()


@pytest.mark.promise("terminal")
def test_names_from_data_neither_drive_the_terminal_nor_leave_the_folder(tmp_path: Path) -> None:
    """Keys, classes, features and values are escaped; files are in --to alone."""
    features: dict[str, Any] = {
        "image/source_id": [b"../../\x1b[2J\nevil\0.png"],
        "image/class/text": ["\u202ecat\x07".encode()],
        "feature\x1b]0;title\x07": [b"\x9b31m"],
        "image/encoded": [picture(file_format="PNG")],
        "mask": [picture(1, file_format="PNG")],
    }
    write_files("in", {"x.tfrecord": framed(record_of(features))})
    before = set(os.listdir())
    lines = inspected("in")
    assert not {"\x1b", "\x07", "\x9b", "\u202e", "\0"} & set("\n".join(lines))
    assert r"../../\x1b[2J\nevil\x00.png, x.tfrecord, record 0" in lines
    run("inspect", "in", "--to", "in/to")
    assert set(os.listdir()) == before
    assert sorted(os.listdir("in/to")) == [
        "000000-2J_evil.png",
        "000001-2J_evil.png",
        "examples.jsonl",
    ]


def test_examples_that_are_too_large_to_show_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first ones are shown; none is passed over without a word."""
    records = [foreign(i) for i in range(5)]
    write_files(".", {"a.tfrecord": b"".join(records)})
    most = sum(len(record) - 16 for record in records[:2])  # without their frames
    monkeypatch.setattr(inspect, "_MOST_KEPT_BYTES", most)
    lines = inspected("a.tfrecord")
    assert [line for line in lines if ", record " in line] == [
        f"{i}, a.tfrecord, record {i}" for i in range(2)
    ]
    assert lines[-2] == "Note: 3 examples too large to show with these; --to writes all"


def test_of_a_large_data_set_some_files_are_read_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless --all says otherwise, or a filter or a copy has to see every example."""
    monkeypatch.setattr(select, "EXAMPLES_OF_A_SAMPLE", 6)
    monkeypatch.setattr(select, "_SAMPLED_FILES", 3)
    content = b"".join(map(foreign, range(5)))
    write_files("in", {f"{i}.tfrecord": content for i in range(5)})
    lines = inspected("in", "--num", "0")
    assert lines[2].split() == ["split", "files", "size"]
    sampled = "Features are those of {} examples from {} files of 5; --all reads every example"
    assert lines[-2] == sampled.format(6, 3)
    assert inspected("in", "--num", "0", "--all")[3].split()[:3] == ["-", "25", "5"]
    assert inspected("in", "--num", "0", "--where", "id=4")[-2] == "5 of 25 examples found"
    for number, written in (("9", 9), ("99", 25)):
        lines = inspected("in", "--num", number, "--to", f"to{number}")
        assert lines[-1] == f"Wrote {written} examples to to{number}"
        if number == "9":
            assert lines[-3].startswith("Features are those of 9 examples from ")


def test_examples_of_a_class_may_all_be_in_one_file() -> None:
    """As in files that are sorted by class; to show some, some of each file are taken."""
    files = {f"{i}.tfrecord": b"".join(foreign(3 * j + i) for j in range(9)) for i in range(3)}
    write_files("in", files)
    assert inspected("in", "--class", "1", "--num", "8", "--to", "to")[-1].startswith("Wrote 8 ")
    shown = [line for line in inspected("in", "--class", "1", "--num", "8") if ", record " in line]
    assert shown == [f"{3 * i + 1}, 1.tfrecord, record {i}" for i in range(8)]
    shown = [line for line in inspected("in", "--num", "3") if line.endswith(", record 0")]
    assert shown == [f"{i}, {i}.tfrecord, record 0" for i in range(3)]


def test_the_record_of_a_key_is_read_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No scan: the receipts of a data set list the key, and its number in its shard."""
    read, reads = sources.Source.read, []

    def noted(source: sources.Source, file: sources.RecordFile, wanted: Any = None) -> Any:
        reads.append(wanted)
        return read(source, file, wanted)

    monkeypatch.setattr(sources.Source, "read", noted)
    assert inspected("out", "--key", "a/4.jpg")[0].startswith("a/4.jpg, d-train.tfrecord-0000")
    assert [len(wanted) for wanted in reads] == [1]
