"""Attacks on an output folder: hostile files in it, files of others, two jobs at once, any moment of death."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest

from beam_pipeline.cli import main
from beam_pipeline.core.dataset.receipts import receipt_name
from beam_pipeline.work.job import claimed
from tests.harness import (
    PATIENCE_S,
    Printed,
    change_json,
    convert,
    convert_killed_before,
    dead_letters_of,
    digests,
    job,
    made_once,
    manifest_of,
    program,
    run,
    run_convert,
    shard_names,
)
from tests.pictures import write_files, write_pictures

SHARDS = 3
FIRST = f"d-train.tfrecord-00000-of-0000{SHARDS}"


def _argv(folder: Path) -> list[str]:
    argv = ["--images", f"{folder}/photos", "--output", f"{folder}/out", "--name", "d"]
    return [*argv, "--num_shards", str(SHARDS)]


def _make(folder: Path) -> None:
    write_pictures(f"{folder}/photos", [f"{'ab'[i % 2]}/{i:02d}.jpg" for i in range(12)])
    assert convert(*_argv(folder)) == 0


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Images, and their complete data set."""
    return made_once(tmp_path_factory.mktemp("trust"), _make)


@pytest.fixture
def argv(tmp_path: Path) -> list[str]:
    """Arguments that have made a complete data set in tmp_path/out."""
    return _argv(tmp_path)


@pytest.fixture
def tmp_path(made: Callable[[], Path]) -> Path:
    """A folder with images and their complete data set."""
    return made()


@pytest.fixture
def out(argv: list[str], tmp_path: Path) -> Path:
    """The data set, with a copy of it in `whole`."""
    shutil.copytree(tmp_path / "out", tmp_path / "whole")
    return tmp_path / "out"


def error_of(printed: Printed) -> str:
    """The last line of stderr; there is no traceback."""
    error = printed.err
    assert "Traceback" not in error
    return error.splitlines()[-1] if error else ""


# --- hostile receipts and manifests -------------------------------------------------------------


@pytest.mark.promise("hostile_manifest")
@pytest.mark.parametrize("name", ["/tmp/t_output_victim", "../victim.txt", "manifest.json"])
def test_repair_writes_no_file_but_shards_of_the_manifest(
    out: Path, tmp_path: Path, name: str
) -> None:
    """A receipt that names another file is refused, whatever folder that is in."""
    victim = tmp_path / "victim.txt"
    victim.write_text("mine")
    before = (out / "manifest.json").read_bytes()
    os.unlink(out / FIRST)
    receipt = out / receipt_name(FIRST)
    change_json(receipt, "spec", 3, value=name)
    change_json(receipt, "info", 2, value=name)
    error = run("repair", str(out), code=1).err
    assert f"{receipt} is damaged: it is of {name!r}, not of {FIRST}" in error
    assert victim.read_text() == "mine"
    assert (out / "manifest.json").read_bytes() == before
    assert not os.path.exists("/tmp/t_output_victim")


@pytest.mark.promise("no_file")
@pytest.mark.timeout(60)
@pytest.mark.parametrize("command", ["verify", "index", "repair"])
@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_a_shard_that_is_no_file_is_said(out: Path, command: str, kind: str) -> None:
    """No command hangs; `repair` puts the shard in the place of a pipe, never of a folder."""
    os.unlink(out / FIRST)
    (os.mkfifo if kind == "pipe" else os.mkdir)(out / FIRST)
    mended = command == "repair" and kind == "pipe"
    error = run(command, str(out), code=0 if mended else 1).err
    assert f"{out}/{FIRST}" in error
    assert "Traceback" not in error
    assert (out / FIRST).is_file() == mended


@pytest.mark.promise("hostile_manifest")
@pytest.mark.parametrize("command", ["verify", "index", "repair"])
@pytest.mark.parametrize(
    ("keys", "value", "found"),
    [
        (["options"], ..., "it has no entry 'options'"),
        (["options", "columns"], ..., "options has no entry 'columns'"),
        (["options", "compression"], "zip", "options.compression is 'zip', expected one of"),
        (["splits", "train", "shards", 0, "examples"], "2", "examples is '2', expected a whole"),
        (["splits", "train", "shards", 0, "bytes"], -1, "bytes is -1, expected a whole number fr"),
        (["splits", "train", "shards", 0, "crc32c"], 7, "crc32c is 7, expected the base64 of"),
        (["splits", "train", "shards", 0, "path"], "../x", "which is not a file of its own folder"),
        (["splits", "train", "shards", 0, "path"], "a\0b", "expected the name of a file"),
        (["features", "image/encoded"], "bytes", "image/encoded is 'bytes', expected an object"),
        (["classes", 0, "id"], 1 << 70, "expected a whole number of 64 bits"),
        (["counts"], [], r"counts is [], expected an object"),
        (["dead_letters"], {"x": None}, "dead_letters.x is None, expected a whole number"),
    ],
)
def test_a_manifest_with_other_types_is_one_line(
    out: Path, command: str, keys: list[object], value: object, found: str
) -> None:
    """It names the entry, what it is and what was expected."""
    change_json(out / "manifest.json", *keys, value=value)
    (line,) = run(command, str(out), code=1).err.splitlines()
    assert line.startswith(f"beam-tfrecord: error: {out}/manifest.json ")
    assert found in line


# --- shards that a power failure left -----------------------------------------------------------


@pytest.mark.promise("zeros")
@pytest.mark.parametrize("complete", [True, False])
def test_a_shard_of_zeros_is_written_again(
    argv: list[str], out: Path, tmp_path: Path, complete: bool
) -> None:
    """Its length is right and its receipt is there; `--resume` looks at its checksum."""
    (out / FIRST).write_bytes(bytes((out / FIRST).stat().st_size))
    if not complete:
        _make_unfinished(out)
    assert convert(*argv, "--resume") == 0
    assert digests(out) == digests(tmp_path / "whole")


def _make_unfinished(out: Path) -> None:
    """Leaves a data set as a run does that is killed before its last files."""
    manifest = manifest_of(out)
    run = {key: manifest[key] for key in ("name", "seed", "options", "features")}
    note = {"name": "d", "shards": [["train", SHARDS]], "compression": "none", "run": run}
    for path in out.iterdir():
        if path.is_file() and path.name not in shard_names(out):
            path.unlink()
    (out / ".incomplete").mkdir()
    (out / ".incomplete" / "plan.json").write_text(json.dumps(note))


# --- two jobs at once ---------------------------------------------------------------------------


OPTIONS = ("", "--overwrite", "--resume", "--reuse")


def _with_value(option: str, earlier: Path) -> list[str]:
    """An option as it is typed; `--reuse` names a data set."""
    return [*filter(None, [option]), *([str(earlier)] if option == "--reuse" else [])]


@pytest.mark.promise("two_jobs")
@pytest.mark.parametrize("option", OPTIONS)
def test_a_job_that_finds_another_at_work_touches_nothing(
    argv: list[str], out: Path, tmp_path: Path, option: str
) -> None:
    """One line, and the folder is as it was."""
    with claimed(str(out)):
        printed = run_convert(*argv, *_with_value(option, tmp_path / "whole"), code=1)
    assert error_of(printed) == (
        f"beam-tfrecord: error: another job is writing to {out}. Nothing of it was touched; wait for "
        "the other job or choose another folder"
    )
    assert digests(out) == digests(tmp_path / "whole")


@pytest.mark.parametrize("command", ["repair", "index"])
def test_repair_and_index_respect_a_job(out: Path, command: str) -> None:
    """They would write between its files; `verify` only reads."""
    with claimed(str(out)):
        assert "another job is writing to" in error_of(run(command, str(out), code=1))
        assert main(["verify", str(out)]) == 0


@pytest.mark.promise("two_jobs")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "pause_s"),
    [
        ((first, second), (0.0, 0.3, 0.8)[(i + j) % 3])
        for i, first in enumerate(OPTIONS)
        for j, second in enumerate(OPTIONS)
    ],
)
def test_of_two_jobs_with_other_inputs_one_wins(
    tmp_path: Path, options: Sequence[str], pause_s: float
) -> None:
    """The data set is the winner's to the last byte, and the other says why it is not its own."""
    tmp_path /= "own"
    import time

    whole = []
    for side in "ab":
        write_pictures(f"{tmp_path}/{side}", [f"x/{side}{i:03d}.jpg" for i in range(200)])
        argv = ["--images", f"{tmp_path}/{side}", "--name", "d", "--num_shards", "20"]
        assert convert(*argv, "--output", f"{tmp_path}/whole_{side}") == 0
        whole.append(digests(tmp_path / f"whole_{side}"))
    output = tmp_path / "out"
    common = ["--name", "d", "--num_shards", "20", "--output", str(output), "--writers", "2"]
    first, second = (
        [*common, f"--images={tmp_path}/{side}", *_with_value(option, tmp_path / f"whole_{side}")]
        for side, option in zip("ab", options, strict=True)
    )
    with job(*first) as one:
        time.sleep(pause_s)
        with job(*second) as two:
            errors = [process.communicate(timeout=PATIENCE_S)[1] for process in (one, two)]
    assert [digests(tmp_path / f"whole_{side}") for side in "ab"] == whole  # also where reused
    codes = [one.returncode, two.returncode]
    found = {name: content for name, content in digests(output).items() if name != "changes.json"}
    if "--overwrite" in options and codes == [0, 0]:  # one behind the other
        assert found in whole
        return
    assert sorted(map(bool, codes)) == [False, True]
    assert found == whole[codes.index(0)]
    loser = errors[1 - codes.index(0)]
    assert "Traceback" not in loser
    assert "beam-tfrecord: error: " in loser.splitlines()[-1]


# --- killed while --overwrite cleans up ---------------------------------------------------------


OPERATIONS = range(1, 34)


@pytest.mark.slow
@pytest.mark.promise("killed_overwriting")
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("option", ["--overwrite", "--resume"])
def test_killed_while_it_removes_a_data_set_the_next_run_goes_on(
    argv: list[str], out: Path, tmp_path: Path, operation: int, option: str
) -> None:
    """Before each operation on a file: plain refuses, `--overwrite` and `--resume` make the data set."""
    more = [*argv, "--seed", "7"]
    assert convert(*more, "--output", f"{tmp_path}/wanted") == 0
    code = convert_killed_before(operation, *more, "--overwrite", folder=out)
    assert code == -signal.SIGKILL
    if os.listdir(out):
        assert convert(*more) == 2
    there = (out / "manifest.json").exists()
    if option == "--resume" and there:  # nothing of the old data set is gone yet
        assert digests_but_notes(out) == digests(tmp_path / "whole")
        assert convert(*argv, option) == 0
        assert digests(out) == digests(tmp_path / "whole")
        return
    assert convert(*more, option) == 0
    assert digests(out) == digests(tmp_path / "wanted")


def digests_but_notes(out: Path) -> dict[str, str]:
    """Of a folder in which a run has just begun."""
    copy = out.parent / "copy"
    shutil.copytree(out, copy, ignore=shutil.ignore_patterns(".incomplete"))
    found = dict(digests(copy))
    shutil.rmtree(copy)
    return found


# --- files of others ----------------------------------------------------------------------------


@pytest.mark.promise("files_of_others")
@pytest.mark.parametrize("option", ["--overwrite", "--resume"])
def test_files_of_others_among_ours_stay(argv: list[str], out: Path, option: str) -> None:
    """In `.incomplete` and `.receipts`, too."""
    mine = [out / "mine.txt", out / ".incomplete" / "mine.txt", out / ".receipts" / "mine.txt"]
    for path in mine:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    os.unlink(out / FIRST)
    assert convert(*argv, option) == 0
    assert [path.read_text() for path in mine] == ["mine"] * 3
    assert main(["verify", str(out)]) == 0


@pytest.mark.promise("files_of_others")
@pytest.mark.parametrize("name", ["labels.txt", "label_map.pbtxt", ".receipts/x.json.gz"])
@pytest.mark.parametrize("option", ["--overwrite", "--resume"])
def test_a_file_that_no_run_wrote_is_refused(
    argv: list[str], out: Path, tmp_path: Path, option: str, name: str
) -> None:
    """A person's own list of labels has the name of ours, and other words in it; moved away, the run goes on."""
    message = "which no manifest there lists, so --overwrite"
    if option == "--resume":
        if name.startswith("."):
            pytest.skip("a receipt of no shard of the run is not in its way")
        _make_unfinished(out)
        message = "but the run that began here did not write it"
    (out / name).write_text("my own words\n")
    before = digests_but_notes(out)
    assert f"contains {name}, {message}" in error_of(run_convert(*argv, option, code=2))
    assert (out / name).read_text() == "my own words\n"
    assert digests_but_notes(out) == before
    (out / name).unlink()
    assert convert(*argv, option) == 0
    assert digests(out) == digests(tmp_path / "whole")


@pytest.mark.promise("files_of_others")
@pytest.mark.parametrize("option", ["--overwrite", "--resume"])
@pytest.mark.parametrize("changed", [b"my own words\n", b"license: mit\n"])
def test_a_card_of_somebodys_own_stays(
    argv: list[str], out: Path, tmp_path: Path, option: str, changed: bytes
) -> None:
    """One put there, or one of ours with a line more; the run goes on, leaves out its own and says so."""
    readme = out / "README.md"
    mine = changed if changed.startswith(b"my") else readme.read_bytes() + changed
    readme.write_bytes(mine)
    croissant = (out / "croissant.json").read_bytes()
    if option == "--resume":
        _make_unfinished(out)
        readme.write_bytes(mine)
    notes = [
        line for line in run_convert(*argv, option).out.splitlines() if line.startswith("Note: ")
    ]
    assert [note.split()[1] for note in notes] == ["README.md"]
    assert readme.read_bytes() == mine
    assert (out / "croissant.json").read_bytes() == croissant
    assert manifest_of(out) == manifest_of(tmp_path / "whole")


def test_a_card_can_be_left_out_and_added(argv: list[str], out: Path) -> None:
    """By --no_card, and by --resume without it."""
    before = digests(out)
    assert convert(*argv, "--overwrite", "--no_card") == 0
    assert set(before) - set(digests(out)) == {"README.md", "croissant.json"}
    assert convert(*argv, "--resume") == 0
    assert digests(out) == before


@pytest.mark.promise("hostile_manifest")
def test_a_note_cannot_have_files_elsewhere_deleted(
    argv: list[str], out: Path, tmp_path: Path
) -> None:
    """A path in it that leads out of the folder, or to a file that is not ours, is damage."""
    victim = tmp_path / "d-train.tfrecord-00000-of-00001"
    victim.write_text("mine")
    (out / ".incomplete").mkdir()
    for name in (f"../{victim.name}", str(victim), "mine.txt", "../labels.txt", 5):
        note = out / ".incomplete" / "deleting.json"
        note.write_text(json.dumps([name]))
        assert f"{note} is damaged" in error_of(run_convert(*argv, "--overwrite", code=2))
    note.unlink()
    plan = {"name": "../x", "shards": [["train", 1]], "compression": "none"}
    (out / ".incomplete" / "plan.json").write_text(json.dumps(plan))
    assert "plan.json is damaged" in error_of(run_convert(*argv, "--overwrite", code=2))
    assert victim.read_text() == "mine"


# --- refused, interrupted, full -----------------------------------------------------------------


@pytest.mark.promise("refused")
def test_a_refused_run_can_be_corrected(tmp_path: Path) -> None:
    """It wrote no shard, so the corrected command needs no `--overwrite`; dead letters are kept."""
    tmp_path /= "own"
    write_pictures(f"{tmp_path}/photos", ["1.jpg", "2.jpg"])
    tables = {"bad.csv": "image,label\n8.jpg,a\n", "good.csv": "image,label\n1.jpg,a\n2.jpg,b\n"}
    write_files(str(tmp_path), tables)
    argv = ["--images", f"{tmp_path}/photos", "--output", f"{tmp_path}/out", "--name", "d"]
    assert convert(*argv, "--labels", f"{tmp_path}/bad.csv") == 1
    assert "missing_image" in {letter["reason"] for letter in dead_letters_of(tmp_path / "out")}
    assert sorted(os.listdir(tmp_path / "out")) == [".incomplete", "dead_letters.jsonl"]
    assert convert(*argv, "--labels", f"{tmp_path}/good.csv") == 0
    assert dead_letters_of(tmp_path / "out") == []
    assert not (tmp_path / "out" / ".incomplete").exists()


@pytest.mark.promise("disk_small")
def test_a_disk_too_small_is_found_before_a_shard_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files with holes claim more than any disk here has; none of them is opened."""
    tmp_path /= "own"
    folder = tmp_path / "photos" / "a"
    folder.mkdir(parents=True)
    each = os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize // 2
    for number in range(3):
        with open(folder / f"{number}.jpg", "wb") as file:
            file.truncate(min(each + 1_000_000, 1 << 43))
    argv = ("--images", f"{tmp_path}/photos", "--output", f"{tmp_path}/out", "--num_shards=1")
    assert convert(*argv) == 1
    error = error_of(capsys.readouterr())
    assert "beam-tfrecord: error: the shards would take about" in error
    assert "Nothing was written; make room or choose another --output" in error
    assert os.listdir(tmp_path / "out") == []


@pytest.mark.slow
@pytest.mark.promise("disk_full")
def test_a_disk_that_is_full_at_the_last_files_is_one_line(argv: list[str], tmp_path: Path) -> None:
    """A limit on the size of files lets shards and receipts through, and stops the manifest."""
    argv[argv.index(str(SHARDS))] = "16"
    argv += ["--no_report", "--no_card"]  # which are larger
    assert convert(*argv, "--overwrite") == 0
    sizes = {p.name: p.stat().st_size for p in (tmp_path / "out").rglob("*") if p.is_file()}
    limit = sizes.pop("manifest.json") - 1
    assert max(sizes.values()) < limit
    argv[argv.index(f"{tmp_path}/out")] = f"{tmp_path}/full"
    limits = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (limit, limit))
    done = program("convert", *argv, "--writers=0", timeout=PATIENCE_S, preexec_fn=limits)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("beam-tfrecord: error: ")
    assert "File too large" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert "manifest.json" not in os.listdir(tmp_path / "full")


# --- folders that may not be written to ---------------------------------------------------------


_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE = 24, 1  # of linux/prctl.h and linux/capability.h


def _bound_by_permissions(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Runs a command that may not ignore permissions, also where the tests run as root."""

    def drop() -> None:  # fails for other users, whom permissions bind anyway
        ctypes.CDLL(None).prctl(_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE, 0, 0, 0)

    return program(*command, timeout=PATIENCE_S, preexec_fn=drop)


@pytest.mark.promise("read_only")
@pytest.mark.parametrize("option", ["", "--resume", "--overwrite", "repair", "index", "new"])
def test_a_folder_that_may_not_be_written_to_is_one_line(
    argv: list[str], out: Path, tmp_path: Path, option: str
) -> None:
    """Whatever the command; nothing is written to it."""
    (tmp_path / "empty").mkdir()
    if option in ("", "new"):
        name = "empty" if not option else "empty/deep/new"
        argv[argv.index(str(out))] = f"{tmp_path}/{name}"
    for folder in (out, out / ".receipts", tmp_path / "empty"):
        folder.chmod(0o555)
    commands = {"repair": ["repair", str(out)], "index": ["index", str(out)]}
    command = commands.get(option, ["convert", *argv, *([option] if option[:2] == "--" else [])])
    try:
        done = _bound_by_permissions(command)
    finally:
        for folder in (out, out / ".receipts", tmp_path / "empty"):
            folder.chmod(0o755)
    assert done.returncode in (1, 2), done
    assert "Traceback" not in done.stderr
    line = done.stderr.splitlines()[-1]
    assert line.startswith("beam-tfrecord: error: the output folder ")
    assert "cannot be made or written to: Permission denied" in line
    assert digests(out) == digests(tmp_path / "whole")
    assert os.listdir(tmp_path / "empty") == []
