"""The output folder between runs: its notes, what is there, what may go, and what must stay."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from google_crc32c import value

from beam_pipeline.core.dataset.manifest import Manifest, build_manifest, dump_json
from beam_pipeline.core.dataset.names import temporary_name
from beam_pipeline.core.dataset.plan import Plan
from beam_pipeline.core.dataset.receipts import Receipt, ShardInputs, receipt_name
from beam_pipeline.core.dataset.tally import Tally, Totals
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import ConversionError, OutputError, Refusal
from beam_pipeline.core.records.sharding import ShardInfo, ShardPlan
from beam_pipeline.core.records.tfrecord import TFRecordFormat
from beam_pipeline.core.report.contents import PLACEHOLDER, sealed
from beam_pipeline.core.report.side_files import files_from_manifest, gives_way
from beam_pipeline.dataset import read_manifest
from beam_pipeline.storage import files
from beam_pipeline.work import output_folder
from beam_pipeline.work.output_folder import EarlierRun, note_refusal, noted_refusal
from beam_pipeline.work.receipts import write_receipt
from tests.pictures import write_files
from tests.rows import in_rows, raised

FORMAT = TFRecordFormat("gzip")
CLASSES = (("cat", 0), ("dog", 1))
PLAN = Plan(ShardPlan("pets", (("test", 1), ("train", 2)), FORMAT), CLASSES, Tally(), None)
SPECS = PLAN.shard_plan.specs
NAMES = [spec.file_name for spec in SPECS]
OPTIONS = {"compression": "gzip", "columns": []}
RUN = {"name": "pets", "seed": 5, "options": OPTIONS, "features": {}}
SHARDS = [ShardInfo(spec.split, spec.number, spec.file_name, 1, 3, 0, ()) for spec in SPECS]
MANIFEST = build_manifest(
    plan=PLAN,
    tally=Tally(),
    shards=SHARDS,
    totals=Totals.of(SHARDS),
    run={"seed": 5, "options": OPTIONS, "features": {}},
)
READ = Manifest.of(MANIFEST)
SHORT = {f"S{i}": name for i, name in enumerate(NAMES)} | {"T": temporary_name("x")}
SHORT |= {f"R{i}": receipt_name(name) for i, name in enumerate(NAMES)}
SEALED = sealed(f"<!-- {PLACEHOLDER} -->".encode())
OF_TFDS = {
    "dataset_info.json": "{SHARD_X_OF_Y}",
    "features.json": "tensorflow_datasets.FeaturesDict",
}
CONTENTS = {"sealed": SEALED, "edited": SEALED + b"mine", "classes": "cat\ndog\n", **OF_TFDS}
CONTENTS["letter"] = DeadLetter("read", "a", "/a", "unreadable", "").to_json() + "\n"
COMPLETE: dict[str, bytes | str] = dict.fromkeys((*NAMES, FORMAT.index_name(NAMES[0])), "abc")
COMPLETE |= OF_TFDS | {
    "dead_letters.jsonl": "",
    "labels.txt": "cat\ndog\n",
    "manifest.json": dump_json(MANIFEST),
}
OTHER = ShardPlan("pets", (("train", 5),), FORMAT)


def note(folder: str) -> None:
    """Notes a run, as it does before its first shard."""
    output_folder.write_note(folder, PLAN, RUN)


def leave_unfinished(folder: str) -> None:
    """Leaves what a run does that was killed after its first shard."""
    note(folder)
    write_files(folder, {NAMES[0]: "abc", SHORT["T"]: "", ".incomplete/unpacked/1": ""})


def write_shard(folder: str, number: int, content: bytes = b"abc") -> None:
    """Writes a shard and then its receipt, as a job does; shard 2 has no classes."""
    write_files(folder, {NAMES[number]: content})
    ids = {} if number == 2 else {"cat": 0}
    info = SHARDS[number]._replace(crc32c=value(b"abc"))
    write_receipt(folder, Receipt(ShardInputs(SPECS[number], [], ids, {}), info, []))


def check(folder: str, which: str = "", *, retries: bool = False) -> None:
    plan = OTHER if which else PLAN.shard_plan
    output_folder.check_unwritten(folder, plan, retries=retries)


FOLDERS = {
    "complete": partial(write_files, contents=COMPLETE),
    "noted": note,
    "unfinished": leave_unfinished,
}
ACTIONS: dict[str, Any] = {
    "write": partial(output_folder.prepare_output, overwrite=False),
    "overwrite": partial(output_folder.prepare_output, overwrite=True),
    "resume": lambda folder, changes="{}": output_folder.prepare_resume(
        folder, {**RUN, **json.loads(changes)}
    ),
    "clean": output_folder.clean_up_refused,
    "check": check,
    "check_again": partial(check, retries=True),
}


def names_in(folder: str) -> list[str]:
    """Every file, hidden ones too, and every empty folder."""
    paths = [path for path in Path(folder).rglob("*") if path.is_file() or not any(path.iterdir())]
    return sorted(path.relative_to(folder).as_posix() + "/" * path.is_dir() for path in paths)


def take(folder: str, step: str) -> None:
    """Takes a step of the table."""
    name, _, content = step[1:].partition("=")
    action, _, argument = step.partition(":")
    if step[0] == "+":
        write_files(folder, {name: CONTENTS.get(content, content)})
    elif step[0] == "-":
        os.unlink(f"{folder}/{name}")
    elif ">" in step:
        os.rename(*(f"{folder}/{name}" for name in step.split(">")))
    elif step.startswith("job"):
        write_shard(folder, int(step[3]), (step[5:] or "abc").encode())
    elif step in FOLDERS:
        FOLDERS[step](folder)
    else:
        ACTIONS[action](folder, *filter(None, [argument]))


def spelled(text: str, folder: str = "") -> str:
    """A cell of the table with whole names."""
    return re.sub(r"\b[SRT]\d?\b|OUT", lambda short: {**SHORT, "OUT": folder}[short[0]], text)


@pytest.mark.promise("not_empty")
@in_rows
def test_what_a_run_leaves_and_removes(tmp_path: Path, steps: str, after: str, error: str) -> None:
    """Only files that an earlier run wrote are removed; what stands in the way is an error that changes nothing."""
    folder = f"{tmp_path}/out"
    *first, last = spelled(steps).split()
    for step in first:
        take(folder, step)
    before = names_in(folder)
    if error:
        caught = raised(ConversionError, take, folder, last)
        assert f"{type(caught).__name__}: {caught}".startswith(spelled(error, folder))
    else:
        take(folder, last)
    expected = spelled(after).split()
    if expected[:1] == ["complete"]:
        expected[:1] = COMPLETE
    assert names_in(folder) == (before if expected == ["same"] else sorted(expected))


def test_overwrite_takes_no_receipt_from_a_shard_that_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run turns out not to have ended: it writes a shard when its files have been looked through."""
    leave_unfinished(str(tmp_path))
    with monkeypatch.context() as patches:
        patches.setattr(files, "prepare_folder", lambda folder: write_shard(folder, 1))
        ACTIONS["overwrite"](str(tmp_path))
    assert names_in(str(tmp_path)) == [SHORT["R1"], NAMES[1]]
    ACTIONS["overwrite"](str(tmp_path))
    assert names_in(str(tmp_path)) == []


def test_a_manifest_says_what_a_complete_run_wrote(tmp_path: Path) -> None:
    """Its shards, name, seed, options and features, and each file has a version; without one, no data set is there."""
    folder = str(tmp_path)
    said = f"{folder}/manifest.json cannot be read (No such file or directory): the folder does not"
    with pytest.raises(ConversionError, match=f"^{re.escape(said)} contain a complete data set$"):
        read_manifest(folder)
    assert output_folder.file_versions(folder) == {}
    write_files(folder, COMPLETE)
    complete = EarlierRun(PLAN.shard_plan, RUN, complete=True, classes=CLASSES)
    assert output_folder.read_earlier(folder) == complete
    assert output_folder.earlier_manifest(folder) == read_manifest(folder) == READ
    versions = {name: os.stat(tmp_path / name).st_mtime_ns for name in COMPLETE}
    assert output_folder.file_versions(folder) == versions
    (tmp_path / NAMES[2]).write_bytes(b"ab")
    assert output_folder.file_versions(folder) == {}
    (tmp_path / NAMES[2]).unlink()
    assert output_folder.file_versions(folder) == {}


DAMAGED = (
    "is not as it was written: damaged or edited. If the change is yours, remove the seal, the line or "
    "value with beam-tfrecord and a long number"
)


@in_rows
def test_files_beside_the_shards_are_those_of_the_manifest(
    tmp_path: Path, name: str, how: str, fault: str
) -> None:
    """One with a seal may be somebody's own, or gone."""
    folder, path = str(tmp_path), tmp_path / name
    expected = dict(files_from_manifest(READ, card=True))
    write_files(folder, expected)
    assert list(output_folder.spoilt_side_files(folder, READ)) == []
    ours = expected.get(name, b"")
    spoilt = {
        "edited": ours + b"more",
        "zeros": bytes(len(ours)),
        "mine": b"# My own beam-tfrecord\n",
    }
    spoilt |= {"sealed": SEALED, "sealed, edited": SEALED + b"mine"}
    if how == "removed":
        path.unlink()
    else:
        path.write_bytes(spoilt[how])
    faults = list(output_folder.spoilt_side_files(folder, READ))
    assert faults == ([(name, fault.replace("DAMAGED", DAMAGED))] if fault else [])
    repairs = not gives_way(name) and name in expected
    assert output_folder.write_side_file(folder, name, READ) == repairs
    assert not repairs or path.read_bytes() == ours


def test_a_manifest_that_determines_no_files_is_the_fault(tmp_path: Path) -> None:
    """Instead of an error of the program."""
    broken: Any = dataclasses.replace(READ, splits=None)  # type: ignore[arg-type]
    ((name, fault),) = output_folder.spoilt_side_files(str(tmp_path), broken)
    assert name == "manifest.json"
    assert fault.startswith("does not determine the files beside the shards: ")


def test_a_note_says_what_an_unfinished_run_was_about_to_write(tmp_path: Path) -> None:
    """It is read back as it was written; without a run there is none."""
    folder = str(tmp_path)
    leave_unfinished(folder)
    noted = EarlierRun(PLAN.shard_plan, RUN, complete=False)
    assert output_folder.read_note(folder) == output_folder.read_earlier(folder) == noted
    assert output_folder.unpacking_folder(folder) == f"{folder}/.incomplete/unpacked"
    output_folder.delete_incomplete(folder)
    assert names_in(folder) == [NAMES[0]]
    assert output_folder.read_note(folder) is output_folder.read_earlier(folder) is None


@pytest.mark.parametrize("text", ["", "[]", '{"name": "pets"}', '{"name": "a", "shards": [1]}'])
def test_a_damaged_note_is_an_error_that_names_it(tmp_path: Path, text: str) -> None:
    """Nobody knows what that run wrote."""
    write_files(str(tmp_path), {".incomplete/plan.json": text})
    with pytest.raises(ConversionError, match=r"plan\.json is damaged \(.*\); remove it by hand$"):
        output_folder.read_note(str(tmp_path))


ONE, TWO = "1" * 32, "2" * 32  # jobs


@pytest.mark.parametrize("job", ["", ONE])
@pytest.mark.parametrize("is_complete", [False, True])
def test_a_refusal_is_taken_once_by_the_launcher_of_its_job(
    tmp_path: Path, is_complete: bool, job: str
) -> None:
    """It stays in the folder of a run that is not complete, with the ids of its questions, for whoever looks there."""
    folder = str(tmp_path)
    assert noted_refusal(folder, job) is None
    note_refusal(folder, Refusal("QuestionError", "Which?", ("dates",)), job)
    assert noted_refusal(folder, TWO) is None
    assert not job or noted_refusal(folder) is None
    if is_complete:
        write_files(folder, {"manifest.json": ""})
    errors = [noted_refusal(folder, job) for _ in range(2)]
    said = [
        error and (type(error).__name__, str(error), tuple(error.given_ids)) for error in errors
    ]
    refused = ("QuestionError", "Which?", ("dates",))
    assert said == [refused, None if is_complete else refused]
    output_folder.delete_incomplete(folder)
    assert names_in(folder) == ["manifest.json"] * is_complete


def test_a_launcher_hears_of_a_refusal_that_found_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk, in its own process; another job's is not taken for it."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "write_bytes", full)
    with pytest.raises(OSError, match="No space"):
        note_refusal(str(tmp_path), Refusal("OutputError", "the disk is full"), ONE)
    assert noted_refusal(str(tmp_path), TWO) is None
    error = noted_refusal(str(tmp_path), ONE)
    assert (type(error), str(error)) == (OutputError, "the disk is full")
