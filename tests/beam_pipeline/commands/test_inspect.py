"""`beam-tfrecord inspect`: figures, examples, filters, keys and exports, of our files and of others."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from beam_pipeline.cli import main
from beam_pipeline.commands import inspect
from beam_pipeline.core.records import example_view, tfrecord
from beam_pipeline.inspection import select, sources
from tests import harness
from tests.core.records.fixtures import record_of
from tests.pictures import picture, write_files

COUNT = 12


def framed(*records: bytes) -> bytes:
    return b"".join(
        tfrecord.frame_header(len(r)) + r + tfrecord.frame_footer(tfrecord.crc32c_extend(0, r))
        for r in records
    )


@pytest.fixture(scope="module")
def data_set(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Twelve images of two classes and two widths, in two splits of two shards, and one that is broken."""
    folder = tmp_path_factory.mktemp("inspected")
    images = {
        f"{split}/{'ab'[i % 2]}/{i}.png": picture(i, file_format="PNG", size=(9 + i % 3, 7))
        for i in range(COUNT)
        for split in (("train", "test")[i % 4 == 3],)
    }
    write_files(f"{folder}/photos", {**images, "train/a/bad.png": "no image"})
    out = f"{folder}/out"
    argv = ("--images", f"{folder}/photos", "--output", out, "--name", "d", "--num_shards", "2")
    assert harness.convert(*argv, harness.ALL_BAD) == 0
    return out


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, list[str], str]]:
    """Runs `inspect`; returns its exit code, the lines of stdout, and stderr."""

    def run(*argv: str) -> tuple[int, list[str], str]:
        capsys.readouterr()
        code = main(["inspect", *argv])
        printed = capsys.readouterr()
        return code, printed.out.splitlines(), printed.err

    return run


Run = Callable[..., tuple[int, list[str], str]]


def test_figures_of_a_data_set(data_set: str, run: Run) -> None:
    """Piped: plain tables without control characters, and examples as lines of features."""
    size = sum(os.path.getsize(f"{data_set}/{name}") for name in harness.shard_names(data_set))
    code, lines, error = run(data_set, "--num", "1")
    assert (code, error) == (0, "")
    assert lines[0] == f"{data_set}: 12 examples in 4 shards, {size / 1000:.1f} kB"
    assert [line.split() for line in lines[2:5]] == [
        ["split", "examples", "files", "size"],
        ["test", "3", "2", *lines[3].split()[3:]],
        ["train", "9", "2", *lines[4].split()[3:]],
    ]
    assert [line.split() for line in lines[6:9]] == [
        ["id", "class", "test", "train", "examples"],
        ["0", "a", "0", "6", "6"],
        ["1", "b", "3", "3", "6"],
    ]
    features = {line.split()[0]: " ".join(line.split()[1:]) for line in lines[11:20]}
    assert features["image/width"] == "int64 100 % 1 9 to 11, mean 10"
    assert features["image/height"] == "int64 100 % 1 7"
    assert features["image/class/text"] == "bytes 100 % 1 'a', 'b'"
    assert features["image/format"] == "bytes 100 % 1 'png'"
    assert features["image/source_id"].startswith("bytes 100 % 1 12 different, such as '")
    assert ", d-test.tfrecord-0000" in lines[21]
    assert lines[21].endswith(", record 0")
    key = lines[21].partition(",")[0]
    assert [line for line in lines[22:] if "source_id" in line] == [f"image/source_id    {key}"]
    assert "\x1b" not in "".join(lines)


def test_filters_choose_examples(data_set: str, run: Run) -> None:
    """By split, class, id, and values; figures are those of what is found."""

    def found(*argv: str) -> tuple[int, str]:
        code, lines, _ = run(data_set, "--num", "0", *argv)
        return code, lines[-2]

    assert found("--split", "train")[0] == 0
    assert found("--class", "b") == (0, "6 of 12 examples found")
    assert found("--class", "1") == (0, "6 of 12 examples found")
    assert found("--class", "b", "--split", "test") == (0, "3 of 3 examples found")
    assert found("--where", "image/width<10") == (0, "4 of 12 examples found")
    assert found("--where", "image/width<10 and image/class/text=a") == (
        0,
        "2 of 12 examples found",
    )
    assert found("--where", "image/width>99") == (1, "0 of 12 examples found")
    assert run(data_set, "--where", "image/width>99")[0] == 1


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--split", "val"], "has no split 'val'; it has 'test', 'train'"),
        (["--class", "c"], "has no class 'c'; it has a, b"),
        (["--where", "image/widht<3"], "no example has the feature 'image/widht'; did you mean"),
        (["--where", "image/width<wide"], "image/width has int64 values; 'wide' is not a number"),
        (["--where", "__import__('os')"], "expected FEATURE OPERATOR VALUE"),
        (["--key", "x", "--class", "a"], "--key names one sample; leave out --class and --where"),
        (["--num", "-1"], "--num is -1, expected 0 or more"),
        (["--nun", "1"], "unknown option --nun"),
    ],
)
def test_wrong_usage_is_one_line(data_set: str, run: Run, argv: list[str], message: str) -> None:
    """Exit code 2, what was found and what was expected."""
    code, lines, error = run(data_set, *argv)
    assert (code, lines) == (2, [])
    assert message in error
    assert error.count("\n") == 1


def test_a_key_is_found_without_reading_other_records(data_set: str, run: Run) -> None:
    """From the receipts: of the other shards, not even the files are there."""
    for i in range(COUNT):
        key = f"{('train', 'test')[i % 4 == 3]}/{'ab'[i % 2]}/{i}.png"
        code, lines, _ = run(data_set, "--key", key)
        assert code == 0
        assert lines[0].startswith(f"{key}, d-{key.partition('/')[0]}.tfrecord-0000")
        assert f"image/source_id    {key}" in lines


def test_the_record_of_a_key_is_read_alone(
    data_set: str, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No scan: in a data set whose receipts list the key, `Source.read` is not called."""
    monkeypatch.setattr("beam_pipeline.inspection.sources.Source.read", None)
    assert run(data_set, "--key", "train/a/4.png")[0] == 0


def test_a_key_is_found_without_receipts(data_set: str, tmp_path: Path, run: Run) -> None:
    """Then the shards that its hash allows are read."""
    folder = tmp_path / "copy"
    shutil.copytree(data_set, folder)
    shutil.rmtree(folder / ".receipts")
    code, lines, _ = run(str(folder), "--key", "train/a/4.png")
    assert code == 0
    assert lines[0].startswith("train/a/4.png, d-train.tfrecord-0000")


def test_for_the_key_of_a_row_no_shard_is_read_twice(data_set: str) -> None:
    """Its id may be written in several ways, each with a hash of its own."""
    reads: list[str] = []

    class Noted(sources.Source):
        def read(self, file: sources.RecordFile) -> Iterator[tuple[int, example_view.ExampleView]]:
            reads.append(file.name)
            return super().read(file)

    for row in range(8):
        reads.clear()
        source = Noted(**vars(sources.open_source([data_set])))
        assert select.find(source, f"train/a/4.png#{row} x") is None
        assert sorted({*reads}) == sorted(reads)
        assert {name[: name.index(".")] for name in reads} == {"d-train", "d-test"}


@pytest.mark.parametrize(
    "option", ["--compression=gzip", pytest.param("--shuffle=records", marks=pytest.mark.slow)]
)
def test_a_key_is_found_in_every_kind_of_data_set(
    data_set: str, tmp_path: Path, run: Run, option: str
) -> None:
    """Compressed shards cannot be jumped in; those of --shuffle=records have no receipts."""
    argv = ("--images", str(Path(data_set).parent / "photos"), "--output", f"{tmp_path}/out")
    assert harness.convert(*argv, "--num_shards=2", harness.ALL_BAD, option) == 0
    for key in ("train/a/4.png", "test/b/7.png"):
        code, lines, _ = run(f"{tmp_path}/out", "--key", key)
        assert (code, lines[0].partition(",")[0]) == (0, key)
    assert run(f"{tmp_path}/out", "--key", "train/a/5.png")[0] == 1
    assert run(f"{tmp_path}/out", "--num=0")[1][3].split()[:3] == ["test", "3", "2"]


def test_a_key_that_is_not_there_is_one_plain_line(data_set: str, run: Run) -> None:
    """Exit code 1; the reason, if a dead letter tells it."""
    code, (line,), error = run(data_set, "--key", "train/a/99.png")
    assert (code, error) == (1, "")
    assert line.startswith(f"{data_set}: no sample has the key 'train/a/99.png'; looked in d-test.")
    code, (_, reason), _ = run(data_set, "--key", "train/a/bad.png")
    assert code == 1
    assert reason.startswith("its dead letter: not_an_image: ")


def test_examples_are_written_as_images_and_json_lines(
    data_set: str, tmp_path: Path, run: Run
) -> None:
    """Image bytes are those of the files; the list names them."""
    to = f"{tmp_path}/new/examples"
    code, lines, _ = run(data_set, "--num", "99", "--class", "b", "--to", to)
    assert (code, lines[-1]) == (0, f"Wrote 6 examples to {to}")
    with open(f"{to}/examples.jsonl", encoding="utf-8") as file:
        examples = [json.loads(line) for line in file]
    assert sorted(os.listdir(to)) == sorted(
        ["examples.jsonl", *(one["features"]["image/encoded"]["file"] for one in examples)]
    )
    for number, one in enumerate(examples):
        name = f"{number:06d}-{one['key'].rpartition('/')[2]}"
        assert one["features"]["image/encoded"] == {"file": name}
        original = Path(data_set).parent / "photos" / one["key"]
        assert Path(to, name).read_bytes() == original.read_bytes()
        assert one["split"] == one["key"].partition("/")[0]
        assert one["features"]["image/class/text"] == "b"
        assert one["features"]["image/height"] == 7
    assert run(data_set, "--to", to)[0] == 2
    assert run(data_set, "--key", "train/a/0.png", "--to", f"{tmp_path}/one")[0] == 0
    assert sorted(os.listdir(f"{tmp_path}/one")) == ["000000-0.png", "examples.jsonl"]


# --- files of other programs ----------------------------------------------------------------------


def foreign(number: int, **more: list[Any]) -> bytes:
    """An example as another program may write it."""
    return record_of(
        {"id": [number], "label": [number % 3], "image": [picture(number)], "x": [0.5], **more}
    )


@pytest.mark.parametrize(
    "compress", [bytes, gzip.compress, zlib.compress], ids=["plain", "gzip", "zlib"]
)
def test_files_of_other_programs(tmp_path: Path, run: Run, compress: Any) -> None:
    """Splits by the names of files; names of classes from a list beside them, as TFDS writes it."""
    train = compress(framed(*(foreign(i) for i in range(4))))
    write_files(
        str(tmp_path),
        {
            "toy-train.tfrecord-00000-of-00002": train,
            "toy-train.tfrecord-00001-of-00002": compress(framed(*map(foreign, range(4, 6)))),
            "val.tfrecords": compress(framed(foreign(6))),
            "label.labels.txt": "cat\ndog\nfish\n",
            "README.md": "not a TFRecord",
        },
    )
    code, lines, _ = run(str(tmp_path), "--num", "1")
    assert code == 0
    assert lines[0].startswith(f"{tmp_path}: 3 files, ")
    assert [line.split()[:3] for line in lines[2:5]] == [
        ["split", "examples", "files"],
        ["train", "6", "2"],
        ["validation", "1", "1"],
    ]
    assert [line.split() for line in lines[6:10]] == [
        ["class", "train", "validation", "examples"],
        ["cat", "2", "1", "3"],
        ["dog", "2", "0", "2"],
        ["fish", "2", "0", "2"],
    ]
    assert lines[17] == "0, toy-train.tfrecord-00000-of-00002, record 0"
    assert run(str(tmp_path), "--class", "fish", "--num", "0")[1][-2] == "2 of 7 examples found"
    assert (
        run(str(tmp_path), "--key", "5")[1][0] == "5, toy-train.tfrecord-00001-of-00002, record 1"
    )
    assert run(str(tmp_path), "--key", "99")[0] == 1
    assert run(f"{tmp_path}/val.tfrecords", "--split", "validation")[0] == 0
    assert run(f"{tmp_path}/toy-train*", "--num", "0")[1][0].startswith(
        f"{tmp_path}/toy-train*: 2 files, "
    )


def test_a_damaged_file_is_one_line_and_the_others_are_read(tmp_path: Path, run: Run) -> None:
    """Exit code 1; examples before the damage count."""
    sound = framed(*(foreign(i) for i in range(3)))
    spoilt = bytearray(sound)
    spoilt[-5] ^= 1
    write_files(str(tmp_path), {"a.tfrecord": bytes(spoilt), "b.tfrecord": sound})
    code, lines, error = run(str(tmp_path), "--num", "0")
    assert code == 1
    assert lines[3].split()[:3] == ["-", "5", "2"]
    assert error.startswith(f"beam-tfrecord: error: {tmp_path}/a.tfrecord: record 2 at byte ")
    assert error.endswith(": the checksum of the record's data is wrong\n")
    code, lines, error = run(f"{tmp_path}/a.tfrecord", "--key", "7")
    assert (code, lines, error.count("\n")) == (1, [], 1)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"id,label\n1,cat\n", "is no TFRecord file"),
        (tfrecord.frame_header(1 << 30), "it claims 1073741824 bytes, expected 268435456 at most"),
        (framed(b"text"), "record 0 is not a tf.train.Example"),
    ],
)
def test_files_that_hold_no_examples_are_one_line(
    tmp_path: Path, run: Run, content: bytes, message: str
) -> None:
    """No table of nothing follows."""
    write_files(str(tmp_path), {"x.tfrecord": content})
    code, lines, error = run(f"{tmp_path}/x.tfrecord")
    assert (code, lines, error.count("\n")) == (1, [], 1)
    assert message in error


def test_missing_files_are_named(tmp_path: Path, run: Run) -> None:
    """A file, a glob, and a folder of other things."""
    write_files(str(tmp_path), {"a.txt": "x"})
    for path, message in (
        ("nothing", "no such file or folder"),
        ("nothing/at/all", "no such file or folder"),
        ("x*.tfrecord", "no file has such a name"),
        ("", "the folder has no manifest.json, and no file with 'tfrecord' in its name"),
    ):
        code, _, error = run(str(tmp_path / path))
        assert code == 2
        assert message in error


@pytest.mark.promise("terminal")
def test_names_from_data_neither_drive_the_terminal_nor_leave_the_folder(
    tmp_path: Path, run: Run
) -> None:
    """Keys, classes, features and values are escaped; files lie in --to alone."""
    record = record_of(
        {
            "image/source_id": [b"../../\x1b[2J\nevil\0.png"],
            "image/class/text": ["\u202ecat\x07".encode()],
            "feature\x1b]0;title\x07": [b"\x9b31m"],
            "image/encoded": [picture(file_format="PNG")],
            "mask": [picture(1, file_format="PNG")],
        }
    )
    write_files(str(tmp_path), {"in/x.tfrecord": framed(record)})
    code, lines, _ = run(f"{tmp_path}/in")
    assert code == 0
    text = "\n".join(lines)
    assert not {"\x1b", "\x07", "\x9b", "\u202e", "\0"} & set(text)
    assert r"../../\x1b[2J\nevil\x00.png, x.tfrecord, record 0" in lines
    assert run(f"{tmp_path}/in", "--to", f"{tmp_path}/in/to")[0] == 0
    assert sorted(os.listdir(tmp_path)) == ["in"]
    assert sorted(os.listdir(tmp_path / "in" / "to")) == [
        "000000-2J_evil.png",
        "000001-2J_evil.png",
        "examples.jsonl",
    ]


def test_examples_that_are_too_large_to_show_are_counted(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first ones are shown; none is passed over without a word."""
    records = [foreign(i) for i in range(5)]
    write_files(str(tmp_path), {"a.tfrecord": framed(*records)})
    monkeypatch.setattr(inspect, "_MOST_KEPT_BYTES", sum(map(len, records[:2])))
    code, lines, _ = run(f"{tmp_path}/a.tfrecord")
    assert [line for line in lines if ", record " in line] == [
        f"{i}, a.tfrecord, record {i}" for i in range(2)
    ]
    assert lines[-2] == "Note: 3 examples too large to show with these; --to writes all"
    assert code == 0


def test_of_a_large_data_set_some_files_are_read_in_part(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless --all says otherwise, or a filter has to see every example."""
    monkeypatch.setattr(select, "EXAMPLES_OF_A_SAMPLE", 6)
    monkeypatch.setattr(select, "_SAMPLED_FILES", 3)
    content = framed(*(foreign(i) for i in range(5)))
    write_files(str(tmp_path), {f"{i}.tfrecord": content for i in range(5)})
    _, lines, _ = run(str(tmp_path), "--num", "0")
    assert lines[2].split() == ["split", "files", "size"]
    assert lines[-2] == (
        "Features are those of 6 examples from 3 files of 5; --all reads every example"
    )
    _, lines, _ = run(str(tmp_path), "--num", "0", "--all")
    assert lines[3].split()[:3] == ["-", "25", "5"]
    assert run(str(tmp_path), "--where", "id=4", "--num", "0")[1][-2] == "5 of 25 examples found"
    _, lines, _ = run(str(tmp_path), "--num", "9", "--to", f"{tmp_path}/to")
    assert lines[-1] == f"Wrote 9 examples to {tmp_path}/to"
    assert lines[-2 - 1].startswith("Features are those of 9 examples from ")
    _, lines, _ = run(str(tmp_path), "--num", "99", "--to", f"{tmp_path}/every")
    assert lines[-1] == f"Wrote 25 examples to {tmp_path}/every"


def test_examples_that_are_all_in_one_file_are_written(tmp_path: Path, run: Run) -> None:
    """As in files that are sorted by class; to show some, some of each file are taken."""
    contents = {f"{i}.tfrecord": framed(*(foreign(3 * j + i) for j in range(9))) for i in range(3)}
    write_files(str(tmp_path), contents)
    _, lines, _ = run(str(tmp_path), "--class", "1", "--num", "8", "--to", f"{tmp_path}/to")
    assert lines[-1] == f"Wrote 8 examples to {tmp_path}/to"
    _, lines, _ = run(str(tmp_path), "--num", "3")
    shown = [line for line in lines if line.endswith(", record 0")]
    assert shown == [f"{i}, {i}.tfrecord, record 0" for i in range(3)]
