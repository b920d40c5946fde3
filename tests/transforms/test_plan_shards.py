"""Planning shards in a job: one plan of all tallies, and its note in the output folder."""

from __future__ import annotations

import errno
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to

import beam_pipeline
from beam_pipeline.core.dataset.plan import Plan, PlanRequest
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.errors import ListingError, OutputNotEmptyError, Refusal
from beam_pipeline.core.labels.classes import ClassNumbering
from beam_pipeline.core.records.sharding import ShardConfig, ShardPlan
from beam_pipeline.core.records.tfrecord import TFRecordFormat
from beam_pipeline.storage import files
from beam_pipeline.transforms.in_workers import Sum
from beam_pipeline.transforms.planning import Planning, PlanShards
from beam_pipeline.work import progress
from beam_pipeline.work.incomplete_folder import read_note
from beam_pipeline.work.progress import Counts

RUN: dict[str, Any] = {"name": "pets", "seed": 0, "options": {}, "features": {}}
WISHES: dict[str, Any] = {
    "name": "pets",
    "shards": ShardConfig({"train": 3}, shard_bytes=10),
    "splits": ("test",),
    "record_format": TFRecordFormat(),
    "max_bad_fraction": 0.5,
    "numbering": ClassNumbering(base=1),
}
LISTED = Tally(listed=7, ignored=Counter({".txt": 2}))
JOINED = Tally(
    samples=Counter({"train": 3, "test": 3}),
    sample_bytes=Counter({"train": 300, "test": 21}),
    classes=Counter({"dog": 3, "cat": 3}),
    dead=Counter({"empty_file": 1}),
    shown={"empty_file": ["5.jpg"]},
)
SHARDS = ShardPlan("pets", (("test", 3), ("train", 3)), TFRecordFormat())


def planning(folder: Path, resume: bool = False, raises: bool = True, **wishes: Any) -> Planning:
    request = PlanRequest(**WISHES | wishes)
    return Planning(
        request=request, output_folder=str(folder), run=RUN, resume=resume, raises=raises
    )


def total(*tallies: Tally) -> Tally:
    whole = Tally()
    for tally in tallies:
        whole.add(tally)
    return whole


def test_tallies_add_up_wherever_they_are_added() -> None:
    """One after the other, or on several workers."""
    sum_tallies = Sum(Tally, Tally.add)
    one = sum_tallies.add_input(sum_tallies.create_accumulator(), LISTED)
    other = sum_tallies.add_input(sum_tallies.create_accumulator(), JOINED)
    merged = sum_tallies.merge_accumulators([one, other, Tally()])
    assert sum_tallies.extract_output(merged) == total(LISTED, JOINED)
    assert (one, other) == (LISTED, JOINED)  # merging changes neither


def test_what_a_manifest_cannot_hold_is_refused_before_a_shard(tmp_path: Path) -> None:
    """The entry is named, and there is no note of shards to come."""
    numbering = ClassNumbering(known=(("cat", 1), ("dog", 99999999999999999999)))
    wishes = {**WISHES, "numbering": numbering, "max_bad_fraction": 1}
    plan = planning(tmp_path, **wishes).plan(JOINED)
    assert plan.refusal == Refusal(
        "UsageError",
        "a manifest cannot describe this data set: classes[1].id is 99999999999999999999, expected a whole "
        "number of 64 bits",
    )
    assert list(tmp_path.iterdir()) == []


def test_all_tallies_make_one_plan(tmp_path: Path) -> None:
    """Shards by number or size, classes with ids, and a note of them in the output folder."""
    transform = PlanShards(planning(tmp_path))
    classes = (("cat", 1), ("dog", 2))
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        plans = pipeline | beam.Create([LISTED, JOINED]) | transform
        expected = Plan(SHARDS, classes, total(LISTED, JOINED), None)
        assert_that(plans, equal_to([expected]))
    assert read_note(str(tmp_path)) == SHARDS
    note = json.loads((tmp_path / ".incomplete/plan.json").read_bytes())
    assert note["run"] == RUN


def test_a_plan_is_announced(tmp_path: Path) -> None:
    """Progress needs the totals before the first sample is written."""
    reports: list[Counts] = []
    with progress.reported_to(reports.append):
        planning(tmp_path).plan(JOINED)
    assert reports == [Counts(samples=6, image_bytes=321, is_total=True)]


def test_a_plan_that_refuses_is_noted_all_the_same(tmp_path: Path) -> None:
    """The note says which files may have been left, also by a run that wrote none."""
    plan = planning(tmp_path).plan(replace(LISTED, refusals=[Refusal("ListingError", "x")]))
    assert plan.refusal == Refusal("ListingError", "x")
    assert read_note(str(tmp_path)) == plan.shard_plan


@pytest.mark.parametrize("same", [True, False])
def test_a_resumed_run_has_the_shards_of_the_earlier_one(tmp_path: Path, same: bool) -> None:
    """Other shards are refused, and the note of the earlier run stays as it is."""
    whole = total(LISTED, JOINED)
    plan = planning(tmp_path, resume=True).plan(whole)  # with no earlier run
    assert plan.refusal is None
    note = (tmp_path / ".incomplete/plan.json").read_bytes()
    more = whole if same else replace(whole, sample_bytes=Counter({"train": 300, "test": 31}))
    again = planning(tmp_path, resume=True).plan(more)
    assert (tmp_path / ".incomplete/plan.json").read_bytes() == note
    if same:
        assert again == plan
        return
    assert again.refusal is not None
    assert again.refusal.error == "ChangedInputsError"
    assert "test: 3 shards then, 4 now" in again.refusal.message


def test_a_reason_found_earlier_is_the_one_that_is_given(tmp_path: Path) -> None:
    """What is wrong with the input explains why the shards are others."""
    planning(tmp_path).plan(JOINED)
    broken = Tally(listed=9, refusals=[Refusal("ListingError", "/photos cannot be listed")])
    assert planning(tmp_path, resume=True).plan(broken).refusal == broken.refusals[0]


def in_pipeline(folder: Path, tally: Tally, **options: Any) -> None:
    """Runs a pipeline that plans shards and has no launcher."""
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        _ = pipeline | beam.Create([tally]) | PlanShards(planning(folder, **options))


def test_missing_input_fails_a_pipeline_that_does_not_collect_why(tmp_path: Path) -> None:
    """Else it would end well, with no shards."""
    gone = Tally(refusals=[Refusal("ListingError", "/gone cannot be listed")])
    with pytest.raises(ListingError, match=r"^/gone cannot be listed"):
        in_pipeline(tmp_path, gone)
    in_pipeline(tmp_path, gone, raises=False)


SHARD = "pets-train.tfrecord-00000-of-00007"


@pytest.mark.parametrize("there", ["manifest.json", SHARD])
def test_a_folder_of_another_run_is_refused_before_the_first_shard(
    tmp_path: Path, there: str
) -> None:
    """Where no launcher has looked; nothing is written there."""
    if there == "manifest.json":
        beam_pipeline.convert_samples([{"x": 1}], output=str(tmp_path), name="pets")
    else:
        (tmp_path / there).touch()
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(
        OutputNotEmptyError, match=f"^{tmp_path} contains {there} of another run, and"
    ):
        in_pipeline(tmp_path, total(LISTED, JOINED))
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_folder_that_cannot_be_listed_is_a_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an exception, it would come with the tracebacks of the engine."""

    def fail(folder: str) -> list[str]:
        raise OSError(errno.EMFILE, "Too many open files", folder)

    monkeypatch.setattr(files, "list_folder", fail)
    plan = planning(tmp_path).plan(total(LISTED, JOINED))
    assert plan.refusal == Refusal("OutputError", f"{tmp_path} cannot be read: Too many open files")


def test_a_plan_is_made_again_where_it_was_made_before(tmp_path: Path) -> None:
    """By an engine that tries again when some shards are there, and after a run that wrote none."""
    whole = total(LISTED, JOINED)
    other = planning(tmp_path, shards=ShardConfig({"train": 7}, shard_bytes=10))
    assert other.plan(whole).refusal is None
    for _ in range(2):
        in_pipeline(tmp_path, whole)
        (tmp_path / "pets-train.tfrecord-00000-of-00003").touch()
    with pytest.raises(OutputNotEmptyError, match="contains pets-train"):
        in_pipeline(tmp_path, replace(whole, sample_bytes=Counter({"train": 300, "test": 31})))
