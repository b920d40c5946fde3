"""Finishing a data set: its files in order of trust, or the reason why there is none."""

from __future__ import annotations

import dataclasses
import errno
import json
import re
import tracemalloc
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest

from beam_pipeline.core.dataset.plan import Plan
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import (
    ChangedInputsError,
    FailurePolicy,
    Refusal,
    TooManyBadSamplesError,
)
from beam_pipeline.core.labels.schema import CLASS_FOLDER_COLUMNS
from beam_pipeline.core.packing import DeadLetterBatch
from beam_pipeline.core.records.example_source import LabelledImages
from beam_pipeline.core.records.sharding import ImageFigures, ShardInfo, ShardPlan
from beam_pipeline.core.records.tfrecord import TFRecordFormat
from beam_pipeline.storage import files
from beam_pipeline.transforms.writing import finish_dataset
from beam_pipeline.work.finishing import DatasetFinisher, Reports, sorted_letters
from beam_pipeline.work.output_folder import noted_refusal, write_note
from beam_pipeline.work.writing import EncodingOptions, WriteRequest

UNREADABLE = DeadLetter("read", "b.jpg", "/photos/b.jpg", "unreadable", "no such file")
EMPTY = DeadLetter("read", "c.jpg", "/photos/c.jpg", "empty_file", "the file is empty")
UNLABELLED = DeadLetter("join", "a.jpg", "/photos/a.jpg", "unlabelled", "no row")
PLAN = Plan(
    ShardPlan("pets", (("train", 2),), TFRecordFormat()),
    (("cat", 1), ("dog", 2)),
    Tally(
        listed=6,
        samples=Counter({"train": 5}),
        classes=Counter({"cat": 4, "dog": 1}),
        dead=Counter({"unlabelled": 1}),
        shown={"unlabelled": ["a.jpg"]},
    ),
    None,
)
SHARDS = [
    ShardInfo("train", 1, "pets-train.tfrecord-00001-of-00002", 1, 80, 7, ((1, 1),)),
    ShardInfo("train", 0, "pets-train.tfrecord-00000-of-00002", 2, 200, 9, ((1, 1), (2, 1))),
]
DEAD = [DeadLetterBatch([UNREADABLE, UNLABELLED]), DeadLetterBatch([EMPTY])]
OPTIONS = {"image_check": "header", "compression": "none", "columns": []}
HERE = FailurePolicy(retries=False, raises_refusals=False)


def finisher_of(folder: Path | str, **changes: Any) -> DatasetFinisher:
    """A finisher that lets all bad samples pass."""
    request = WriteRequest(
        folder=str(folder),
        encoding=EncodingOptions(LabelledImages(CLASS_FOLDER_COLUMNS), seed=3),
        failures=changes.pop("failures", HERE),
    )
    values = {"max_bad_fraction": 1.0, "recorded": OPTIONS, **changes}
    return DatasetFinisher(request=request, **values)


def finish(folder: Path, plan: Plan = PLAN, **changes: Any) -> bool:
    """Finishes a run of two shards and three dead letters, but for some changes."""
    reports = {"shards": SHARDS, "dead_letters": DEAD, "refusals": []}
    fields = {field.name for field in dataclasses.fields(Reports)} & changes.keys()
    reports |= {name: changes.pop(name) for name in fields}
    return finisher_of(folder, **changes).finish(plan, Reports(**reports))


def files_of(folder: Path) -> dict[str, bytes]:
    """Name -> content of everything in the output folder."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def test_a_complete_data_set_has_its_files(tmp_path: Path) -> None:
    """Dead letters sorted, the names of the classes, TFDS's files and the manifest; no note is left."""
    write_note(str(tmp_path), PLAN, {})
    finish(tmp_path)
    found = files_of(tmp_path)
    names = "README.md croissant.json dataset_info.json dead_letters.jsonl features.json labels.txt"
    assert sorted(found) == [*names.split(), "manifest.json", "schema.pbtxt"]
    letters = [letter.to_json() for letter in (UNLABELLED, UNREADABLE, EMPTY)]
    assert found["dead_letters.jsonl"].decode().splitlines() == letters
    assert found["labels.txt"] == b"cat\ndog\n"
    manifest = json.loads(found["manifest.json"])
    assert (manifest["seed"], manifest["options"]) == (3, OPTIONS)
    assert manifest["counts"]["examples"] == manifest["counts"]["dead_letters"] == 3
    assert manifest["dead_letters"] == {"empty_file": 1, "unlabelled": 1, "unreadable": 1}
    paths = [shard["path"][-14:-9] for shard in manifest["splits"]["train"]["shards"]]
    assert paths == ["00000", "00001"]
    assert [(c["name"], c["examples"]) for c in manifest["classes"]] == [("cat", 2), ("dog", 1)]


@dataclasses.dataclass
class Reread:
    """Dead letters that are others when they are read again."""

    first: list[DeadLetterBatch]
    then: list[DeadLetterBatch]

    def __iter__(self) -> Iterator[DeadLetterBatch]:
        letters, self.first = self.first, self.then
        return iter(letters)


CODECS = ("Pillow 11", "Pillow 12")


@pytest.mark.parametrize(
    ("changes", "error", "start"),
    [
        (
            {"plan": replace(PLAN, refusal=Refusal("ListingError", "no")), "refusals": [Refusal("A", "b")]},
            "ListingError",
            "no",
        ),
        ({"refusals": [Refusal("OutputError", "z"), Refusal("OutputError", "a")]}, "OutputError", "a"),
        ({"max_bad_fraction": 0.25}, "TooManyBadSamplesError", "2 bad samples among 6 listed"),
        ({"shards": SHARDS[:1]}, "LostSamplesError", "2 shards were planned, 1 were written"),
        ({"shards": [*SHARDS, SHARDS[0]]}, "LostSamplesError", "2 shards were planned, 3 were"),
        ({"dead_letters": DEAD[:1]}, "LostSamplesError", "6 listed images + 0 label rows without"),
        # the engine may read them again when they are listed, and lose or repeat one
        ({"dead_letters": Reread(DEAD, DEAD[:1])}, "LostSamplesError", "dead_letters.jsonl lists {'un"),
        ({"dead_letters": Reread(DEAD, [*DEAD, DEAD[1]])}, "LostSamplesError", "dead_letters.jsonl lists {'un"),
        ({"images": [ImageFigures(codecs=CODECS)]}, "CodecError", "some shards contain images encoded by Pillow 11, others by Pillow 12"),
        # nothing is called a manifest that no reader takes for one
        ({"plan": replace(PLAN, classes=(("cat", 0), ("dog", 1 << 63)))}, "ConversionError", "OUT/manifest.json is not a manifest of beam-tfrecord: classes[1].id is 9223372036854775808, expected a whole number of 64 bits"),
        ({"plan": replace(PLAN, questions=("half a surrogate pair: \ud800",))}, "OutputError", "manifest.json cannot contain text that is not UTF-8"),
    ],
)  # fmt: skip
def test_a_run_that_is_not_complete_leaves_the_reason(
    tmp_path: Path, changes: dict[str, Any], error: str, start: str
) -> None:
    """The first reason counts; there are dead letters and no manifest."""
    write_note(str(tmp_path), PLAN, {})
    assert not finish(tmp_path, **changes)
    refusal = noted_refusal(str(tmp_path))
    said = str(refusal).replace(str(tmp_path), "OUT")
    assert (type(refusal).__name__, said[: len(start)]) == (error, start)
    notes = [".incomplete/plan.json", ".incomplete/refusal.json"]
    assert sorted(files_of(tmp_path)) == [*notes, "dead_letters.jsonl"]


def test_a_question_lists_no_dead_letters(tmp_path: Path) -> None:
    """Its answer may change them all."""
    finish(tmp_path, replace(PLAN, refusal=Refusal("QuestionError", "Which?", ("dates",))))
    assert sorted(files_of(tmp_path)) == [".incomplete/refusal.json"]


def test_an_engine_that_reports_nothing_else_gets_an_error(tmp_path: Path) -> None:
    """The job fails, and the reason is noted as well."""
    with pytest.raises(TooManyBadSamplesError, match="2 bad samples among 6 listed images"):
        finish(tmp_path, max_bad_fraction=0.1, failures=FailurePolicy(raises_refusals=True))
    assert isinstance(noted_refusal(str(tmp_path)), TooManyBadSamplesError)


@pytest.mark.parametrize("retries", [False, True])
@pytest.mark.parametrize("full_from", ["dead_letters.jsonl", ".incomplete"])
def test_a_full_disk_is_a_reason_unless_the_engine_tries_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, retries: bool, full_from: str
) -> None:
    """The launcher in this process hears of it, even if there is no room for a note."""
    opened = files.open_output

    def open_output(uri: str, **options: Any) -> Any:
        if full_from in uri or uri.endswith("refusal.json"):
            raise OSError(errno.ENOSPC, "No space left on device", uri)
        return opened(uri, **options)

    monkeypatch.setattr(files, "open_output", open_output)
    refused = replace(PLAN, refusal=Refusal("ListingError", "no"))
    plan = refused if full_from == ".incomplete" else PLAN
    failures = FailurePolicy(retries, raises_refusals=False)
    if retries:
        with pytest.raises(OSError, match="No space left"):
            finish(tmp_path, plan, failures=failures)
    else:
        assert not finish(tmp_path, plan, failures=failures)
    said = (
        "the files beside the shards in .* cannot be written: .*No space" if plan is PLAN else "no$"
    )
    noted = str(noted_refusal(str(tmp_path)))
    assert (noted == "None" and retries) or re.match(said, noted)


def test_a_complete_data_set_is_not_rewritten(tmp_path: Path) -> None:
    """Only what is missing is written, and what was changed by hand stays; a run of other inputs is refused."""
    images = [ImageFigures(codecs=CODECS[:1])]
    assert finish(tmp_path, images=images)
    before = files_of(tmp_path)
    (tmp_path / "labels.txt").write_text("mine")
    (tmp_path / "features.json").unlink()
    other_texts = replace(PLAN, tally=replace(PLAN.tally, ignored=Counter({".txt": 4})))
    assert finish(tmp_path, other_texts, images=images)
    assert files_of(tmp_path) == {**before, "labels.txt": b"mine"}
    assert not finish(tmp_path, images=images, shards=[SHARDS[0], SHARDS[1]._replace(crc32c=1)])
    refusal = noted_refusal(str(tmp_path))
    assert isinstance(refusal, ChangedInputsError)
    assert str(refusal).startswith(f"--resume: since {tmp_path} was written, its images or labels")
    assert files_of(tmp_path) == {**before, "labels.txt": b"mine"}


def dead_letters(keys: Iterable[str], batches: int) -> Iterator[DeadLetterBatch]:
    """Batches of images without a label."""
    letters = [DeadLetter("join", key, f"/a/{key}", "unlabelled", "no row") for key in keys]
    return (DeadLetterBatch(letters[start::batches]) for start in range(batches))


@pytest.mark.parametrize("most", [1, 2, 3, 4])
def test_many_dead_letters_are_sorted_in_portions(most: int) -> None:
    """Whatever fits in memory, they come in the one order."""
    assert list(sorted_letters(DEAD, most)) == [UNLABELLED, UNREADABLE, EMPTY]
    assert list(sorted_letters([], most)) == []
    keys = [f"{n:07}.jpg" for n in range(5000)]
    for portion in (1000 * most, 1 << 20):
        found = list(sorted_letters(dead_letters(keys, 7), portion))
        assert [letter.key for letter in found] == keys


@pytest.mark.parametrize("count", [30_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_the_memory_of_a_worker_does_not_grow(count: int) -> None:
    """It has a portion, and the others packed; all of 30,000 would take 7 MB."""
    keys = (f"{n * 7919 % count:07}.jpg" for n in range(count))  # none of the batches is large
    batches = (batch for key in keys for batch in dead_letters([key], 1))
    tracemalloc.start()
    try:
        letters = sum(1 for _ in sorted_letters(batches, 10_000))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert letters == count
    assert peak < 4_000_000


@pytest.mark.parametrize("retries", [False, True])
def test_one_machine_or_several_finish_alike(tmp_path: Path, retries: bool) -> None:
    """The files are the same."""
    finisher = finisher_of(tmp_path / "job", failures=FailurePolicy(retries, raises_refusals=False))
    given = {"shards": SHARDS, "dead_letters": DEAD, "refusals": []}
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        reports = {
            name: pipeline | name >> beam.Create(items, reshuffle=False)
            for name, items in given.items()
        }
        last = finish_dataset(finisher, reports)
        _ = pipeline | "Plan" >> beam.Create([PLAN]) | last
    finish(tmp_path / "here")
    assert files_of(tmp_path / "job") == files_of(tmp_path / "here")
