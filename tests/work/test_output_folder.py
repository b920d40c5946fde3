"""The output folder between runs: its notes, what is there, what may go, and what must stay."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from google_crc32c import value

from beam_pipeline.core.dataset import manifest, plan
from beam_pipeline.core.dataset.names import temporary_name
from beam_pipeline.core.dataset.receipts import Receipt, ShardInputs, receipt_name
from beam_pipeline.core.dataset.tally import Tally, Totals
from beam_pipeline.core.errors import (
    ChangedInputsError,
    ConversionError,
    OutputError,
    OutputNotEmptyError,
    Refusal,
)
from beam_pipeline.core.records import sharding, tfrecord
from beam_pipeline.core.report.contents import PLACEHOLDER, sealed
from beam_pipeline.core.report.side_files import files_from_manifest, gives_way
from beam_pipeline.dataset import read_manifest
from beam_pipeline.storage import files
from beam_pipeline.work import output_folder
from beam_pipeline.work.receipts import write_receipt
from tests.pictures import write_files

PLAN = plan.Plan(
    sharding.ShardPlan("pets", (("test", 1), ("train", 2)), tfrecord.TFRecordFormat("gzip")),
    (("cat", 0), ("dog", 1)),
    Tally(),
    None,
)
NAMES = [spec.file_name for spec in PLAN.shard_plan.specs]
RUN = {"name": "pets", "seed": 5, "options": {"compression": "gzip", "columns": []}, "features": {}}
SHARDS = [
    sharding.ShardInfo(spec.split, spec.number, spec.file_name, 1, 3, 0, ())
    for spec in PLAN.shard_plan.specs
]
MANIFEST = manifest.build_manifest(
    plan=PLAN,
    tally=Tally(),
    shards=SHARDS,
    totals=Totals.of(SHARDS),
    run=RUN,
)
INDEX = PLAN.shard_plan.record_format.index_name(NAMES[0])
RECEIPTS = [receipt_name(name) for name in NAMES]
SIDE_FILES = ("dead_letters.jsonl", "dataset_info.json", "features.json")
TEMPORARY = temporary_name("x")  # of a file that a run was writing


@pytest.fixture
def complete(tmp_path: Path) -> Path:
    """The folder of a complete data set, with an index of one shard."""
    contents: dict[str, bytes | str] = dict.fromkeys((*NAMES, *SIDE_FILES, INDEX), "abc")
    contents |= {"labels.txt": "cat\ndog\n", "manifest.json": manifest.dump_json(MANIFEST)}
    write_files(str(tmp_path), contents)
    return tmp_path


@pytest.fixture
def unfinished(tmp_path: Path) -> Path:
    """The folder of a run that was killed after its first shard."""
    output_folder.write_note(str(tmp_path), PLAN, RUN)
    write_files(str(tmp_path), {NAMES[0]: "abc", TEMPORARY: "", ".incomplete/unpacked/1": ""})
    return tmp_path


def names_in(folder: Path) -> list[str]:
    """Every file, hidden ones too."""
    found = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return sorted(found)


def test_a_manifest_says_what_a_complete_run_wrote(complete: Path) -> None:
    """Its shards, name, seed, options and features."""
    assert output_folder.read_earlier(str(complete)) == output_folder.EarlierRun(
        PLAN.shard_plan, RUN, complete=True, classes=PLAN.classes
    )
    assert (
        output_folder.earlier_manifest(str(complete))
        == read_manifest(str(complete))
        == manifest.Manifest.of(MANIFEST)
    )


def test_a_folder_without_a_manifest_is_no_data_set(tmp_path: Path) -> None:
    """The message says so."""
    said = (
        f"{tmp_path}/manifest.json cannot be read (No such file or directory): the folder does not"
    )
    with pytest.raises(ConversionError, match=f"^{re.escape(said)} contain a complete data set$"):
        read_manifest(str(tmp_path))


def test_an_empty_or_missing_folder_may_be_written_to(tmp_path: Path) -> None:
    """It is made, with the folders above it."""
    output_folder.prepare_output(f"{tmp_path}/a/b", overwrite=False)
    output_folder.prepare_output(f"{tmp_path}/a/b", overwrite=True)
    assert (tmp_path / "a/b").is_dir()


UNFINISHED = "an earlier run that did not finish (.incomplete, a). Choose another folder, or use "
UNFINISHED += "--resume to continue it, or --overwrite"


@pytest.mark.promise("not_empty")
@pytest.mark.parametrize(
    ("names", "found"),
    [
        (("a", "b"), "2 files (a, b). Choose another folder, or use --overwrite"),
        (("a", "b", "c", "d"), "4 files (a, b, c, ...). Choose another folder, or use --overwrite"),
        ((".incomplete/plan.json", "a"), UNFINISHED),
    ],
)
def test_a_folder_with_files_is_not_written_to(
    tmp_path: Path, names: tuple[str, ...], found: str
) -> None:
    """Whatever they are; the message names some and the ways out."""
    write_files(str(tmp_path), dict.fromkeys(names, "x"))
    said = f"--output {tmp_path} is not empty: it contains {found} to replace the data set that an"
    with pytest.raises(OutputNotEmptyError, match=f"^{re.escape(said)} earlier run wrote there$"):
        output_folder.prepare_output(str(tmp_path), overwrite=False)
    assert names_in(tmp_path) == sorted(names)


@pytest.mark.promise("not_empty")
def test_overwrite_removes_the_data_set_and_nothing_else(complete: Path) -> None:
    """Shards, indexes, side files, receipts and notes go; a person's own files stay."""
    mine = [".receipts/mine.txt", "README.md", "cat.jpg", "deep/labels.txt"]
    write_files(str(complete), dict.fromkeys(mine, "x"))
    write_files(str(complete), {RECEIPTS[0]: "x", ".incomplete/refusal.json": "{}"})
    output_folder.prepare_output(str(complete), overwrite=True)
    assert names_in(complete) == mine


@pytest.mark.parametrize("edited", [False, True])
def test_overwrite_removes_a_report_that_nobody_has_edited(complete: Path, edited: bool) -> None:
    """Any other page of this name is a person's own, and is in the way."""
    report = sealed(f"<html></html><!-- {PLACEHOLDER} -->".encode()) + (b"mine" if edited else b"")
    write_files(str(complete), {"report.html": report})
    if edited:
        with pytest.raises(OutputNotEmptyError, match=r"contains report\.html, which no manifest"):
            output_folder.prepare_output(str(complete), overwrite=True)
    else:
        output_folder.prepare_output(str(complete), overwrite=True)
        assert names_in(complete) == []


def test_overwrite_removes_what_an_unfinished_run_left(unfinished: Path) -> None:
    """Its note lists the shards that it may have written."""
    write_files(str(unfinished), {"mine": "x", "dead_letters.jsonl": "x"})
    output_folder.prepare_output(str(unfinished), overwrite=True)
    assert names_in(unfinished) == ["mine"]


@pytest.mark.parametrize(
    "stranger", ["pets-train.tfrecord-00000-of-00007", "other.labels.txt", "labels.txt"]
)
def test_overwrite_touches_no_data_set_of_others(tmp_path: Path, stranger: str) -> None:
    """A file of ours that no manifest lists may be all that is left of something."""
    write_files(str(tmp_path), {stranger: "x", "mine": "x"})
    said = f"--output {tmp_path} contains {stranger}, which no manifest there lists, so --overwrite will"
    with pytest.raises(OutputNotEmptyError, match=f"^{re.escape(said)} not touch it"):
        output_folder.prepare_output(str(tmp_path), overwrite=True)
    assert names_in(tmp_path) == sorted([stranger, "mine"])


@pytest.mark.promise("unreadable_manifest")
def test_overwrite_needs_a_manifest_that_can_be_read(complete: Path) -> None:
    """Else nobody knows what may go."""
    write_files(str(complete), {"manifest.json": "{}"})
    before = names_in(complete)
    message = r"^--overwrite: .*manifest\.json is not a manifest .*; move it away$"
    with pytest.raises(OutputNotEmptyError, match=message):
        output_folder.prepare_output(str(complete), overwrite=True)
    assert names_in(complete) == before


def _write_shard(folder: Path, number: int, content: bytes = b"abc") -> None:
    """Writes a shard and then its receipt, as a job does."""
    spec = PLAN.shard_plan.specs[number]
    write_files(str(folder), {spec.file_name: content})
    info = sharding.ShardInfo(spec.split, spec.number, spec.file_name, 1, 3, value(b"abc"), ())
    write_receipt(str(folder), Receipt(ShardInputs(spec, [], {}, {}), info, []))


def test_overwrite_removes_what_receipts_prove_to_be_ours(tmp_path: Path) -> None:
    """A job has left it whose notes another one deleted; a shard that is not as its receipt says stays."""
    _write_shard(tmp_path, 0)
    _write_shard(tmp_path, 1)
    (tmp_path / NAMES[1]).unlink()
    _write_shard(tmp_path, 2, b"abd")
    with pytest.raises(OutputNotEmptyError, match=f"contains {NAMES[2]}, which no manifest"):
        output_folder.prepare_output(str(tmp_path), overwrite=True)
    assert names_in(tmp_path) == sorted([NAMES[0], NAMES[2], *RECEIPTS])
    (tmp_path / NAMES[2]).write_bytes(b"abc")
    output_folder.prepare_output(str(tmp_path), overwrite=True)
    assert names_in(tmp_path) == []


def test_a_receipt_that_names_another_shard_proves_nothing(tmp_path: Path) -> None:
    """It may be a person's copy."""
    _write_shard(tmp_path, 0)
    os.rename(tmp_path / RECEIPTS[0], tmp_path / RECEIPTS[1])
    before = names_in(tmp_path)
    with pytest.raises(OutputNotEmptyError, match=f"contains {RECEIPTS[1]}, which no manifest"):
        output_folder.prepare_output(str(tmp_path), overwrite=True)
    assert names_in(tmp_path) == before


def test_overwrite_takes_no_receipt_from_a_shard_that_stays(
    unfinished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run turns out not to have ended: it writes a shard when its files have been looked through."""
    with monkeypatch.context() as patches:
        patches.setattr(files, "prepare_folder", lambda _: _write_shard(unfinished, 1))
        output_folder.prepare_output(str(unfinished), overwrite=True)
    assert names_in(unfinished) == [RECEIPTS[1], NAMES[1]]
    output_folder.prepare_output(str(unfinished), overwrite=True)
    assert names_in(unfinished) == []


def test_a_resumed_run_goes_on_with_its_note(unfinished: Path) -> None:
    """Shards stay; files that were being written, and unpacked ones, go."""
    output_folder.prepare_resume(str(unfinished), RUN)
    assert names_in(unfinished) == sorted([".incomplete/plan.json", NAMES[0]])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"seed": 6}, "seed was 5, is 6"),
        ({"options": {"columns": []}}, 'options.compression was "gzip", is null'),
    ],
)
def test_a_resumed_run_has_the_options_of_the_earlier_one(
    unfinished: Path, changes: Mapping[str, Any], said: str
) -> None:
    """Else it is refused, and nothing is removed."""
    before = names_in(unfinished)
    with pytest.raises(ChangedInputsError) as caught:
        output_folder.prepare_resume(str(unfinished), {**RUN, **changes})
    assert str(caught.value) == (
        f"--resume: {unfinished} was written with other options: {said}. Give the same again, or "
        "convert again with --overwrite"
    )
    assert names_in(unfinished) == before


def test_a_resumed_run_of_a_complete_data_set_needs_its_receipts(complete: Path) -> None:
    """Without one, nobody knows what a shard was made of."""
    write_files(str(complete), dict.fromkeys(RECEIPTS[1:], "x"))
    said = f"--resume: {complete} has no receipt {RECEIPTS[0]}, so"
    with pytest.raises(OutputNotEmptyError, match=f"^{re.escape(said)}"):
        output_folder.prepare_resume(str(complete), RUN)
    write_files(str(complete), {RECEIPTS[0]: "x"})
    output_folder.prepare_resume(str(complete), RUN)


def test_a_resumed_run_may_be_the_first_one(tmp_path: Path) -> None:
    """In a folder without files of ours."""
    output_folder.prepare_resume(f"{tmp_path}/new", RUN)
    write_files(str(tmp_path), {"mine": "x"})
    output_folder.prepare_resume(str(tmp_path), RUN)
    write_files(str(tmp_path), {NAMES[0]: "x"})
    said = (
        f"--resume: --output {tmp_path} contains {NAMES[0]}, but neither a manifest nor the note of"
    )
    with pytest.raises(OutputNotEmptyError, match=f"^{re.escape(said)} a run that began here"):
        output_folder.prepare_resume(str(tmp_path), RUN)


def test_a_data_set_that_lacks_a_shard_has_no_versions(complete: Path) -> None:
    """Nor one with a shard of another length; of a whole one, each shard has its version."""
    assert list(output_folder.shard_versions(str(complete))) == NAMES
    (complete / NAMES[2]).write_bytes(b"ab")
    assert output_folder.shard_versions(str(complete)) == {}
    (complete / NAMES[2]).write_bytes(b"abc")
    assert list(output_folder.shard_versions(str(complete))) == NAMES
    (complete / NAMES[0]).unlink()
    assert output_folder.shard_versions(str(complete)) == {}
    assert json.loads((complete / "manifest.json").read_bytes()) == MANIFEST


# --- refused runs -------------------------------------------------------------------------------


def test_a_refused_run_leaves_its_dead_letters_and_may_be_started_again(tmp_path: Path) -> None:
    """A note says that they may be replaced; a file of somebody else's is in the way all the same."""
    output_folder.write_note(str(tmp_path), PLAN, RUN)
    write_files(str(tmp_path), {"dead_letters.jsonl": "{}\n", TEMPORARY: ""})
    output_folder.clean_up_refused(str(tmp_path))
    assert names_in(tmp_path) == [".incomplete/writing.json", "dead_letters.jsonl"]
    assert output_folder.noted_names(str(tmp_path)) == {"dead_letters.jsonl"}
    for stranger in ("mine", ".incomplete/plan.json"):
        write_files(str(tmp_path), {stranger: "x"})
        with pytest.raises(OutputNotEmptyError, match="is not empty"):
            output_folder.prepare_output(str(tmp_path), overwrite=False)
        (tmp_path / stranger).unlink()
    output_folder.prepare_output(str(tmp_path), overwrite=False)
    assert names_in(tmp_path) == []


def test_a_refused_run_without_dead_letters_leaves_nothing(tmp_path: Path) -> None:
    """Neither the empty file nor its folder; what it did not write stays."""
    output_folder.write_note(str(tmp_path), PLAN, RUN)
    write_files(str(tmp_path), {"dead_letters.jsonl": "", "mine": "x"})
    output_folder.clean_up_refused(str(tmp_path))
    assert names_in(tmp_path) == ["mine"]
    assert not (tmp_path / ".incomplete").exists()
    write_files(str(tmp_path), {"dead_letters.jsonl": "mine"})  # no run noted it
    output_folder.clean_up_refused(str(tmp_path))
    assert names_in(tmp_path) == ["dead_letters.jsonl", "mine"]


@pytest.mark.parametrize("name", [NAMES[2], RECEIPTS[0], "manifest.json"])
def test_a_failed_run_that_wrote_a_shard_is_left_to_be_resumed(tmp_path: Path, name: str) -> None:
    """Its note, too; so is a data set that was complete before."""
    output_folder.write_note(str(tmp_path), PLAN, RUN)
    content = manifest.dump_json(MANIFEST) if name == "manifest.json" else b"x"
    write_files(str(tmp_path), {name: content, "dead_letters.jsonl": ""})
    before = names_in(tmp_path)
    output_folder.clean_up_refused(str(tmp_path))
    assert names_in(tmp_path) == before


# --- files beside the shards --------------------------------------------------------------------


DAMAGED = (
    "is not as it was written: damaged or edited. If the change is yours, remove the seal, the line or "
    "value with beam-tfrecord and a long number"
)
READ = manifest.Manifest.of(MANIFEST)
REWRITTEN = "; `beam-tfrecord repair` writes it again"


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("schema.pbtxt", None, ""),
        ("labels.txt", None, f"is missing{REWRITTEN}"),
        ("labels.txt", b"cat\ncow\n", f"is not as in the manifest{REWRITTEN}"),
        ("README.md", None, ""),
        ("README.md", b"# My own\nThe beam-tfrecord report describes it\n", ""),
        ("README.md", "edited", DAMAGED),
        ("README.md", "zeros", DAMAGED),
        ("report.html", sealed(f"<!-- {PLACEHOLDER} -->".encode()), ""),
        ("report.html", sealed(f"<!-- {PLACEHOLDER} -->".encode()) + b"mine", DAMAGED),
        ("report.html", b"<html></html>", ""),
    ],
)
def test_files_beside_the_shards_are_those_of_the_manifest(
    tmp_path: Path, name: str, content: bytes | str | None, fault: str
) -> None:
    """One with a seal may be somebody's own, or gone."""
    expected = dict(files_from_manifest(READ, card=True))
    write_files(str(tmp_path), expected)
    assert list(output_folder.spoilt_side_files(str(tmp_path), READ)) == []
    if isinstance(content, str):
        ours = expected[name]
        content = ours + b"more" if content == "edited" else bytes(len(ours))
    if content is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(content)
    faults = list(output_folder.spoilt_side_files(str(tmp_path), READ))
    assert faults == ([(name, fault)] if fault else [])
    repairs = not gives_way(name) and name in expected
    assert output_folder.write_side_file(str(tmp_path), name, READ) == repairs
    if repairs:
        assert (tmp_path / name).read_bytes() == expected[name]


def test_a_manifest_that_determines_no_files_is_the_fault(tmp_path: Path) -> None:
    """Instead of an error of the program."""
    broken: Any = dataclasses.replace(READ, splits=None)  # type: ignore[arg-type]
    ((name, fault),) = output_folder.spoilt_side_files(str(tmp_path), broken)
    assert name == "manifest.json"
    assert fault.startswith("does not determine the files beside the shards: ")


BEGUN = plan.Plan(
    sharding.ShardPlan("pets", (("train", 2),), tfrecord.TFRecordFormat("gzip")), (), Tally(), None
)
BEGUN_RUN = {"name": "pets", "seed": 5, "options": {"compression": "gzip"}, "features": {}}


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """The folder of a run that was killed, with a file of the user's."""
    output_folder.write_note(str(tmp_path), BEGUN, BEGUN_RUN)
    write_files(str(tmp_path), {"a": "", TEMPORARY: "", ".incomplete/unpacked/1": ""})
    return tmp_path


def test_a_note_says_what_an_unfinished_run_was_about_to_write(begun: Path) -> None:
    """It is read back as it was written; without a run there is none."""
    noted = output_folder.EarlierRun(BEGUN.shard_plan, BEGUN_RUN, complete=False)
    assert output_folder.read_note(str(begun)) == output_folder.read_earlier(str(begun)) == noted
    assert output_folder.unpacking_folder(str(begun)) == f"{begun}/.incomplete/unpacked"
    output_folder.delete_incomplete(str(begun))
    assert names_in(begun) == ["a"]
    assert output_folder.read_note(str(begun)) is output_folder.read_earlier(str(begun)) is None


@pytest.mark.parametrize("note", ["", "[]", '{"name": "pets"}', '{"name": "a", "shards": [1]}'])
def test_a_damaged_note_is_an_error_that_names_it(tmp_path: Path, note: str) -> None:
    """Nobody knows what that run wrote."""
    write_files(str(tmp_path), {".incomplete/plan.json": note})
    with pytest.raises(ConversionError, match=r"plan\.json is damaged \(.*\); remove it by hand$"):
        output_folder.read_note(str(tmp_path))


@pytest.mark.parametrize("is_complete", [False, True])
def test_a_refusal_is_taken_once_by_the_launcher(tmp_path: Path, is_complete: bool) -> None:
    """It stays in the folder of a run that is not complete, for whoever looks there."""
    assert output_folder.noted_refusal(str(tmp_path)) is None
    output_folder.note_refusal(str(tmp_path), Refusal("OutputError", "no space"))
    if is_complete:
        write_files(str(tmp_path), {"manifest.json": ""})
    error = output_folder.noted_refusal(str(tmp_path))
    assert isinstance(error, OutputError)
    assert str(error) == "no space"
    assert (output_folder.noted_refusal(str(tmp_path)) is None) is is_complete


def test_a_refusal_of_another_process_keeps_the_ids_of_its_questions(tmp_path: Path) -> None:
    """The first launcher hears of it from memory, the second one reads the note."""
    output_folder.note_refusal(str(tmp_path), Refusal("QuestionError", "Which?", ("dates",)))
    errors = [output_folder.noted_refusal(str(tmp_path)) for _ in range(2)]
    ids = [error and (str(error), tuple(error.given_ids)) for error in errors]
    assert ids == [("Which?", ("dates",))] * 2


def test_the_refusal_of_another_job_is_not_taken(tmp_path: Path) -> None:
    """Two jobs that write to one folder note their refusals apart."""
    one, two = "1" * 32, "2" * 32
    output_folder.note_refusal(str(tmp_path), Refusal("OutputError", "no space"), one)
    assert output_folder.noted_refusal(str(tmp_path), two) is None
    assert output_folder.noted_refusal(str(tmp_path)) is None
    assert str(output_folder.noted_refusal(str(tmp_path), one)) == "no space"
    output_folder.delete_incomplete(str(tmp_path))
    assert names_in(tmp_path) == []


def test_a_launcher_hears_of_a_refusal_that_found_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk, in its own process; another job's is not taken for it."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "write_bytes", full)
    with pytest.raises(OSError, match="No space"):
        output_folder.note_refusal(
            str(tmp_path), Refusal("OutputError", "the disk is full"), "a" * 32
        )
    assert output_folder.noted_refusal(str(tmp_path), "b" * 32) is None
    assert str(output_folder.noted_refusal(str(tmp_path), "a" * 32)) == "the disk is full"
