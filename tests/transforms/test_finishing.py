"""Finishing a data set: its files in order of trust, or the reason why there is none."""

from __future__ import annotations

import json
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to

from beam_pipeline.core.dataset.plan import Plan
from beam_pipeline.core.dataset.tally import Tally, Totals
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import (
    ChangedInputsError,
    FailurePolicy,
    LostSamplesError,
    Refusal,
    TooManyBadSamplesError,
)
from beam_pipeline.core.labels.schema import CLASS_FOLDER_COLUMNS, Column
from beam_pipeline.core.packing import DeadLetterBatch
from beam_pipeline.core.records import example_source, tfrecord
from beam_pipeline.core.records.sharding import ImageFigures, ShardInfo, ShardPlan
from beam_pipeline.transforms.writing import finish_dataset, sum_totals
from beam_pipeline.work.finishing import DatasetFinisher, Reports, sorted_letters
from beam_pipeline.work.output_folder import noted_refusal, write_note
from beam_pipeline.work.writing import EncodingOptions, WriteRequest

UNREADABLE = DeadLetter("read", "b.jpg", "/photos/b.jpg", "unreadable", "no such file")
EMPTY = DeadLetter("read", "c.jpg", "/photos/c.jpg", "empty_file", "the file is empty")
UNLABELLED = DeadLetter("join", "a.jpg", "/photos/a.jpg", "unlabelled", "no row")
PLAN = Plan(
    ShardPlan("pets", (("train", 2),), tfrecord.TFRecordFormat()),
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


def finish(
    folder: Path,
    plan: Plan = PLAN,
    dead_letters: list[DeadLetterBatch] = DEAD,
    columns: tuple[Column, ...] = CLASS_FOLDER_COLUMNS,
    **changes: Any,
) -> None:
    """Finishes a run of two shards and three dead letters."""
    found = {"shards": SHARDS, "refusals": [], **changes}
    shards, refusals = found.pop("shards"), found.pop("refusals")
    finisher_of(folder, columns, **found).finish(
        plan, Reports(shards=shards, dead_letters=dead_letters, refusals=refusals)
    )


def finisher_of(
    folder: Path | str, columns: tuple[Column, ...] = CLASS_FOLDER_COLUMNS, **changes: Any
) -> DatasetFinisher:
    """A finisher that lets all bad samples pass."""
    request = WriteRequest(
        folder=str(folder),
        encoding=EncodingOptions(example_source.LabelledImages(columns), seed=3),
        failures=changes.pop("failures", HERE),
    )
    values = {"max_bad_fraction": 1.0, "recorded": OPTIONS, **changes}
    return DatasetFinisher(request=request, **values)


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


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classes": (("cat", 0), ("dog", 1 << 63))}, "expected a whole number of 64 bits"),
        (
            {"questions": ("half a surrogate pair: \ud800",)},
            "cannot contain text that is not UTF-8",
        ),
    ],
)
def test_what_a_manifest_cannot_hold_is_not_written(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    """Nothing is called a manifest that no reader takes for one."""
    finish(tmp_path, replace(PLAN, **changes))
    assert message in str(noted_refusal(str(tmp_path)))
    assert "manifest.json" not in files_of(tmp_path)


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
    ],
)  # fmt: skip
def test_a_run_that_is_not_complete_leaves_the_reason(
    tmp_path: Path, changes: dict[str, Any], error: str, start: str
) -> None:
    """The first reason counts; there are dead letters and no manifest."""
    write_note(str(tmp_path), PLAN, {})
    finish(tmp_path, **changes)
    assert sorted(files_of(tmp_path)) == [
        ".incomplete/plan.json",
        ".incomplete/refusal.json",
        "dead_letters.jsonl",
    ]
    refusal = noted_refusal(str(tmp_path))
    assert type(refusal).__name__ == error
    assert str(refusal).startswith(start)


def test_an_engine_that_reports_nothing_else_gets_an_error(tmp_path: Path) -> None:
    """The job fails, and the reason is noted as well."""
    with pytest.raises(TooManyBadSamplesError, match="2 bad samples among 6 listed images"):
        finish(tmp_path, max_bad_fraction=0.1, failures=FailurePolicy(raises_refusals=True))
    assert isinstance(noted_refusal(str(tmp_path)), TooManyBadSamplesError)


def test_a_complete_data_set_is_not_rewritten(tmp_path: Path) -> None:
    """Only what is missing is written, and what was changed by hand stays."""
    finish(tmp_path)
    before = files_of(tmp_path)
    (tmp_path / "labels.txt").write_text("mine")
    (tmp_path / "features.json").unlink()
    finish(tmp_path)
    assert files_of(tmp_path) == {**before, "labels.txt": b"mine"}


def test_a_resumed_run_of_other_inputs_is_refused(tmp_path: Path) -> None:
    """The manifest stays; files that were passed over do not count."""
    finish(tmp_path)
    before = files_of(tmp_path)
    finish(tmp_path, replace(PLAN, tally=replace(PLAN.tally, ignored=Counter({".txt": 4}))))
    assert files_of(tmp_path) == before
    changed = [SHARDS[0], SHARDS[1]._replace(crc32c=1)]
    finish(tmp_path, shards=changed)
    refusal = noted_refusal(str(tmp_path))
    assert isinstance(refusal, ChangedInputsError)
    assert str(refusal).startswith(f"--resume: since {tmp_path} was written, its images or labels")
    assert files_of(tmp_path) == before


@pytest.mark.parametrize("listed", [DEAD[:1], [*DEAD, DEAD[1]]])
def test_dead_letters_are_listed_as_often_as_they_are_counted(
    tmp_path: Path, listed: list[DeadLetterBatch]
) -> None:
    """The engine counts them apart from the list, and may lose or repeat one of the two."""
    totals = Totals.of([*SHARDS, *DEAD])
    reports = Reports(shards=SHARDS, dead_letters=listed, refusals=[], totals=totals)
    assert not finisher_of(tmp_path).finish(PLAN, reports)
    refusal = noted_refusal(str(tmp_path))
    assert isinstance(refusal, LostSamplesError)
    assert str(refusal).startswith("dead_letters.jsonl lists {'un")
    assert "manifest.json" not in files_of(tmp_path)


def reports_in(pipeline: beam.Pipeline) -> dict[str, beam.PCollection]:
    """The reports of a run of two shards and three dead letters."""
    reports = {"shards": SHARDS, "dead_letters": DEAD, "refusals": []}
    return {name: pipeline | name >> beam.Create(r, reshuffle=False) for name, r in reports.items()}


def dead_letters(count: int) -> Iterator[DeadLetterBatch]:
    """Batches of images without a label, in an order of their own."""
    for start in range(7):
        yield DeadLetterBatch(
            DeadLetter("join", f"a/{n:07}.jpg", f"/photos/a/{n:07}.jpg", "unlabelled", "no row")
            for n in range(start, count, 7)
        )


@pytest.mark.parametrize("most", [1, 2, 3, 4])
def test_many_dead_letters_are_sorted_in_portions(most: int) -> None:
    """Whatever fits in memory, they come in the one order."""
    assert list(sorted_letters(DEAD, most)) == [UNLABELLED, UNREADABLE, EMPTY]
    assert list(sorted_letters([], most)) == []
    in_one = list(sorted_letters(dead_letters(5000)))
    assert list(sorted_letters(dead_letters(5000), 1000 * most)) == in_one == sorted(in_one)


@pytest.mark.parametrize("count", [30_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_the_memory_of_a_worker_does_not_grow(count: int) -> None:
    """It has a portion, and the others packed; all of 30,000 would take 7 MB."""
    tracemalloc.start()
    try:
        letters = sum(1 for _ in sorted_letters(dead_letters_one_by_one(count), 10_000))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert letters == count
    assert peak < 4_000_000


def dead_letters_one_by_one(count: int) -> Iterator[DeadLetterBatch]:
    """The same, but no batch is large."""
    for n in range(count):
        key = f"{n * 7919 % count:07}.jpg"
        yield DeadLetterBatch([DeadLetter("join", key, f"/a/{key}", "unlabelled", "no row")])


@pytest.mark.parametrize("retries", [False, True])
def test_one_machine_or_several_finish_alike(tmp_path: Path, retries: bool) -> None:
    """The engine sums up the reports where there are several; the files are the same."""
    failures = FailurePolicy(retries, raises_refusals=False)
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        finisher = finisher_of(tmp_path / "job", failures=failures)
        last = finish_dataset(finisher, reports_in(pipeline))
        _ = pipeline | "Plan" >> beam.Create([PLAN]) | last
    finish(tmp_path / "here")
    assert files_of(tmp_path / "job") == files_of(tmp_path / "here")


def test_all_reports_are_summed_into_one() -> None:
    """Shards, dead letters and images, whoever reports them."""
    shards = [ShardInfo("train", n, f"d-{n}", 1, 80, 7, ((n, 1),)) for n in range(3)]
    dead = DeadLetterBatch([DeadLetter("read", "b", "/b", "unreadable", "gone")])
    expected = Totals.of([*shards, dead, dead, ImageFigures((("resized", 3),))])
    assert expected.classes == {"train": Counter([0, 1, 2])}
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        reports = {
            "shards": pipeline | "Shards" >> beam.Create(shards),
            "dead_letters": pipeline | "DeadLetters" >> beam.Create([dead, dead]),
            "images": pipeline | "Images" >> beam.Create([ImageFigures((("resized", 3),))]),
        }
        assert_that(sum_totals(reports), equal_to([expected]))
