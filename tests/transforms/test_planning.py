"""Measuring, planning, dividing classes, assigning shards, and images of the same bytes."""

from __future__ import annotations

import errno
import hashlib
import os
import pickle
import random
from collections import Counter, defaultdict
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to

import beam_pipeline
from beam_pipeline.core.dataset import duplicates
from beam_pipeline.core.dataset.plan import Plan, PlanRequest
from beam_pipeline.core.dataset.splits import GroupBy, SplitAssigner, rank_of
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.errors import Refusal
from beam_pipeline.core.images import geometry
from beam_pipeline.core.images.preparation import digest_of
from beam_pipeline.core.labels.classes import ClassNumbering
from beam_pipeline.core.labels.schema import CLASS_FOLDER_COLUMNS
from beam_pipeline.core.packing import SampleBatch, unpack
from beam_pipeline.core.records import sharding, tfrecord
from beam_pipeline.core.records.example_source import ExampleOptions, LabelledImages
from beam_pipeline.core.references import LabelValue, SampleRef
from beam_pipeline.storage import files
from beam_pipeline.storage.read_ahead import ONE_BY_ONE, ReadOptions
from beam_pipeline.transforms import in_workers
from beam_pipeline.transforms.planning import (
    AssignShards,
    AssignSplits,
    DropDuplicates,
    LowestSamples,
    find_duplicates,
)
from beam_pipeline.work import output_folder
from beam_pipeline.work.outcome import DEAD_LETTERS, TALLY, Call, Outcome
from beam_pipeline.work.planning import (
    DuplicateSearch,
    Planning,
    is_readable,
    measure_images,
    with_digests,
)
from beam_pipeline.work.writing import EncodingOptions, WriteRequest
from tests import harness
from tests.core.dataset.fixtures import group
from tests.pictures import picture, write_files
from tests.transforms.outputs import assert_items, assert_total

RUN: dict[str, Any] = {"name": "pets", "seed": 0, "options": {}, "features": {}}
WISHES: dict[str, Any] = {
    "name": "pets",
    "shards": sharding.ShardConfig({"train": 3}, shard_bytes=10),
    "splits": ("test",),
    "record_format": tfrecord.TFRecordFormat(),
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
SHARDS = sharding.ShardPlan("pets", (("test", 3), ("train", 3)), tfrecord.TFRecordFormat())


def planning(folder: Path, resume: bool = False, **wishes: Any) -> Planning:
    encoding = EncodingOptions(LabelledImages(()))
    request = WriteRequest(folder=str(folder), encoding=encoding, resume=resume)
    return Planning(request=request, wishes=PlanRequest(**WISHES | wishes), run=RUN)


def planned(folder: Path, tally: Tally, **options: Any) -> Plan:
    ((plan,),) = (outcome.main for outcome in planning(folder, **options)(tally))
    assert isinstance(plan, Plan)
    return plan


def total(*tallies: Tally) -> Tally:
    whole = Tally()
    for tally in tallies:
        whole.add(tally)
    return whole


def test_what_a_manifest_cannot_hold_is_refused_before_a_shard(tmp_path: Path) -> None:
    """The entry is named, and there is no note of shards to come."""
    numbering = ClassNumbering(known=(("cat", 1), ("dog", 99999999999999999999)))
    wishes = {**WISHES, "numbering": numbering, "max_bad_fraction": 1}
    plan = planned(tmp_path, JOINED, **wishes)
    assert plan.refusal == Refusal(
        "UsageError",
        "a manifest cannot describe this data set: classes[1].id is 99999999999999999999, expected a whole "
        "number of 64 bits",
    )
    assert list(tmp_path.iterdir()) == []


def test_a_plan_that_refuses_is_noted_all_the_same(tmp_path: Path) -> None:
    """The note says which files may have been left, also by a run that wrote none."""
    plan = planned(tmp_path, replace(LISTED, refusals=[Refusal("ListingError", "x")]))
    assert plan.refusal == Refusal("ListingError", "x")
    note = output_folder.read_note(str(tmp_path))
    assert note
    assert note.shard_plan == plan.shard_plan


@pytest.mark.parametrize("same", [True, False])
def test_a_resumed_run_has_the_shards_of_the_earlier_one(tmp_path: Path, same: bool) -> None:
    """Other shards are refused, and the note of the earlier run stays as it is."""
    whole = total(LISTED, JOINED)
    plan = planned(tmp_path, whole, resume=True)  # with no earlier run
    assert plan.refusal is None
    note = (tmp_path / ".incomplete/plan.json").read_bytes()
    more = whole if same else replace(whole, sample_bytes=Counter({"train": 300, "test": 31}))
    again = planned(tmp_path, more, resume=True)
    assert (tmp_path / ".incomplete/plan.json").read_bytes() == note
    if same:
        assert again == plan
        return
    assert again.refusal is not None
    assert again.refusal.error == "ChangedInputsError"
    assert "test: 3 shards then, 4 now" in again.refusal.message


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
    refusal = planned(tmp_path, total(LISTED, JOINED)).refusal
    assert refusal
    assert refusal.error == "OutputNotEmptyError"
    assert refusal.message.startswith(f"{tmp_path} contains {there} of another run, and")
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_folder_that_cannot_be_listed_is_a_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an exception, it would come with the tracebacks of the engine."""

    def fail(folder: str) -> list[str]:
        raise OSError(errno.EMFILE, "Too many open files", folder)

    monkeypatch.setattr(files, "list_folder", fail)
    plan = planned(tmp_path, total(LISTED, JOINED))
    assert plan.refusal == Refusal("OutputError", f"{tmp_path} cannot be read: Too many open files")


def test_a_plan_is_made_again_where_it_was_made_before(tmp_path: Path) -> None:
    """By an engine that tries again when some shards are there, and after a run that wrote none."""
    whole = total(LISTED, JOINED)
    shards = sharding.ShardConfig({"train": 7}, shard_bytes=10)
    assert planned(tmp_path, whole, shards=shards).refusal is None
    for _ in range(2):
        assert planned(tmp_path, whole).refusal is None
        (tmp_path / "pets-train.tfrecord-00000-of-00003").touch()
    more = replace(whole, sample_bytes=Counter({"train": 300, "test": 31}))
    refusal = planned(tmp_path, more).refusal
    assert refusal
    assert "contains pets-train" in refusal.message


ENCODING = EncodingOptions(LabelledImages(()), seed=4)
LAYOUT = sharding.ShardPlan("d", (("test", 2), ("train", 5)), tfrecord.TFRecordFormat())
SAMPLES = [
    SampleRef(f"{i}.jpg", f"/photos/{i}.jpg", 5, "train" if i % 3 else "test", ("x",))
    for i in range(60)
]


def _assigned(plan: Plan, expected: dict[int, list[SampleRef]]) -> None:
    batches = [SampleBatch(SAMPLES[first : first + 7]) for first in range(0, len(SAMPLES), 7)]
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        plans = pipeline | "Plan" >> beam.Create([plan])
        shards = (
            pipeline
            | "Samples" >> beam.Create(batches)
            | AssignShards(plan=plans, encoding=ENCODING)
        )
        found = shards | beam.MapTuple(
            lambda number, parts: (number, sorted(s for p in parts for s in unpack(SampleRef, p)))
        )
        assert_that(found, equal_to([(number, sorted(s)) for number, s in expected.items()]))


@pytest.mark.parametrize("held", [1, 10, 1 << 16])
def test_every_sample_goes_to_the_shard_of_its_hash(
    held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, however many wait for others; a shard that has none is there, too."""
    monkeypatch.setattr(in_workers, "MOST_HELD", held)
    expected: dict[int, list[SampleRef]] = {number: [] for number in range(7)}
    numbers = sharding.ShardDivision(LAYOUT, 4).numbers(SampleBatch(SAMPLES).columns())
    for sample, number in zip(SAMPLES, numbers, strict=True):
        expected[number].append(sample)
        assert (number < 2) == (sample.split == "test")
    _assigned(Plan(LAYOUT, (), Tally(), None), expected)


def test_a_plan_that_refuses_leaves_nothing() -> None:
    """Nothing is written, so nothing is shuffled."""
    _assigned(Plan(LAYOUT, (), Tally(), Refusal("OutputError", "no")), {})


SHARES = sharding.SplitFractions(
    (("train", Fraction(3, 4)), ("validation", Fraction(1, 8)), ("test", Fraction(1, 8)))
)
NAMES = [name for name, _ in SHARES.fractions]


def samples(classes: dict[LabelValue, int]) -> list[SampleRef]:
    """So many of each class, of some thirteen patients."""
    return [
        SampleRef(f"{number}/{i}.jpg", "u", 3, "", (label, f"P{i % 13}"))
        for number, (label, count) in enumerate(classes.items())
        for i in range(count)
    ]


def expected_splits(refs: list[SampleRef], counts: dict[LabelValue, list[int]]) -> list[SampleRef]:
    """Each class in the order of its hashes, cut at these numbers."""
    by_class: dict[LabelValue, list[SampleRef]] = defaultdict(list)
    for ref in sorted(refs, key=lambda ref: rank_of(ref.key, sharding.KeyHasher(3))):
        by_class[ref.labels[0]].append(ref)
    found = []
    for label, same in by_class.items():
        splits = [n for n, count in zip(NAMES, counts[label], strict=True) for _ in range(count)]
        found += [ref._replace(split=s) for ref, s in zip(same, splits, strict=True)]
    return found


def assert_assigned(
    refs: list[SampleRef], expected: list[SampleRef], size: int, group_by: GroupBy | None = None
) -> None:
    tally = Tally()
    tally.add_samples(expected, 0)
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        batches = [SampleBatch(refs[first : first + size]) for first in range(0, len(refs), size)]
        assigned = (
            pipeline
            | beam.Create(batches)
            | AssignSplits(splits=SplitAssigner(SHARES, 3, group_by, True), column=0)
        )
        each = assigned["samples"] | "Each" >> beam.FlatMap(list)
        total = assigned[TALLY] | beam.CombineGlobally(in_workers.Sum(Tally, Tally.add))
        assert_that(each, equal_to(expected), label="samples")
        assert_that(total, equal_to([tally]), label="tally")


@pytest.mark.parametrize(
    "size", [10, *(pytest.param(size, marks=pytest.mark.slow) for size in (1, 5000))]
)
def test_each_class_is_divided_exactly(size: int) -> None:
    """Whatever the batches: 3/4, 1/8 and 1/8 of 16, of 80, of those without a class, and of one."""
    refs = samples({"cat": 16, "dog": 80, None: 8, "bird": 1})
    counts: dict[LabelValue, list[int]] = {
        "cat": [12, 2, 2],
        "dog": [60, 10, 10],
        None: [6, 1, 1],
        "bird": [1, 0, 0],
    }
    assert_assigned(refs, expected_splits(refs, counts), size)
    assert_assigned(refs[::-1], expected_splits(refs, counts), size)


MEASURED = EncodingOptions(
    LabelledImages(CLASS_FOLDER_COLUMNS),
    seed=3,
    options=ExampleOptions(changes=geometry.ImageChanges(resize=(20, 20))),
)


def test_the_size_of_a_record_is_measured_and_a_bad_image_is_not(tmp_path: Path) -> None:
    """Bytes of the file, and of what is written of it; the task can be sent to another process."""
    files = {"a.jpg": picture(size=(300, 200)), "b.jpg": b"no image", "c.jpg": picture()}
    write_files(str(tmp_path), dict(files))
    refs = [
        SampleRef(key, f"{tmp_path}/{key}", os.path.getsize(tmp_path / key), "train", ("x",))
        for key in files
    ]
    call = pickle.loads(pickle.dumps(Call(measure_images, (MEASURED, refs, ONE_BY_ONE))))
    (tally,) = call.run().main
    large, small = tally.measured
    assert large.order == sharding.KeyHasher(3).order("a.jpg")
    assert (large.size, small.size) == (len(files["a.jpg"]), len(files["c.jpg"]))
    assert small.written > small.size  # its own bytes, with features around them
    assert 0 < large.written < large.size
    assert large.seconds > 0


REFS = [SampleRef(f"{i}.jpg", f"/{i}.jpg", i, "train", ("x",)) for i in range(1000)]


@pytest.mark.parametrize("parts", [1, 7, 1000])
def test_the_lowest_hashes_are_found_in_any_parts(parts: int) -> None:
    """One sample in twenty, whatever the order of batches and how they are combined."""
    shuffled = REFS.copy()
    random.Random(parts).shuffle(shuffled)
    lowest = [LowestSamples.of_batch(SampleBatch(shuffled[i::parts]), 5) for i in range(parts)]
    batches = LowestSamples.of_all([LowestSamples.of_all(lowest[:3]), *lowest[3:]]).batches()
    found = [ref for batch in batches for ref in batch]
    hasher = sharding.KeyHasher(5)
    assert found == sorted(REFS, key=lambda ref: hasher.order(ref.key))[:50]


def test_the_shard_size_is_that_of_the_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files of 60 times 120 kB become shards of about 20 kB, since images are scaled."""
    from beam_pipeline.cli import main

    monkeypatch.chdir(tmp_path)
    large = picture(size=(300, 300), file_format="BMP")
    write_files(".", {f"photos/{'ab'[i % 2]}/{i}.bmp": large for i in range(60)})
    arguments = ["--images", "photos", "--resize", "32", "--image_format", "jpeg"]
    arguments += ["--shard_size", "20KB", "--output", "out", "--name", "set"]
    assert main(["plan", *arguments]) == 0
    planned = capsys.readouterr().out
    assert harness.convert(*arguments) == 0
    shards = harness.shard_names("out")
    total = harness.manifest_of("out")["splits"]["train"]["bytes"]
    assert len(shards) == -(-total // 20_000)
    assert f"train: 60 samples in {len(shards)} shards" in planned
    assert "images are re-encoded: 16.2 MB of files, by 16 samples" in planned


# --- Images of the same bytes: read for their digests, dropped, counted, found in ranges


def refs(folder: Path) -> list[SampleRef]:
    """A file, one that is gone, one of another size, an empty one, and part of a file."""
    for name, content in {"a": b"image", "c": b"longer than listed", "d": b""}.items():
        (folder / name).write_bytes(content)
    whole = [
        SampleRef(name, str(folder / name), size, "train", ())
        for name, size in (("a", 5), ("b", 5), ("c", 5), ("d", 0))
    ]
    return [*whole, SampleRef("e", str(folder / "a"), 3, "train", (), offset=1)]


def digests(outcome: Outcome) -> dict[str, bytes]:
    """Key -> digest; main are those without one."""
    without = [ref for batch in outcome.main for ref in batch]
    digested = [ref for _, batch in outcome.tagged for ref in batch]
    assert not any(ref.digest for ref in without)
    assert all(ref.digest for ref in digested)
    return {ref.key: ref.digest for ref in [*without, *digested]}


@pytest.mark.parametrize("reading", [ONE_BY_ONE, ReadOptions(prefetched=2), ReadOptions(4)])
def test_images_are_read_for_their_digests(tmp_path: Path, reading: ReadOptions) -> None:
    """Those that cannot be read, or are not as listed, have none."""
    found = digests(with_digests(refs(tmp_path), reading))
    assert found == {"a": digest_of(b"image"), "b": b"", "c": b"", "d": b"", "e": digest_of(b"mag")}


def test_beside_a_bucket_digests_are_those_of_its_listing(tmp_path: Path) -> None:
    """MD5, so that images that are read meet those that are not."""
    found = digests(with_digests(refs(tmp_path)[:1], ONE_BY_ONE, md5=True))
    assert found == {"a": hashlib.md5(b"image").digest()}


def test_a_fault_of_the_machine_is_no_image_without_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fails, to be tried again; else a copy would be kept today that was left out yesterday."""

    def fails(*_: object) -> bytes:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(files, "read_image", fails)
    with pytest.raises(OSError, match="Too many open files"):
        with_digests(refs(tmp_path), ONE_BY_ONE)


def test_what_its_writer_would_not_read_is_not_read() -> None:
    """Images above the limits."""
    ref = SampleRef("a", "/a", 100, "train", ())
    for limit, readable in ((100, True), (99, False)):
        options = ExampleOptions(filters={"max_image_bytes": limit})
        encoding = EncodingOptions(LabelledImages(()), options=options)
        assert is_readable(ref, encoding) is readable
    assert not is_readable(ref._replace(size=1 << 31), EncodingOptions(LabelledImages(())))
    assert not is_readable(ref._replace(uri=""), EncodingOptions(LabelledImages(())))


CONTENTS = {
    "a/1": b"one",
    "a/2": b"two",
    "b/1": b"one",
    "b/3": b"three",
    "b/4": b"four, which nothing is as long as",
    "c/1": b"one",
}


def copied_samples(folder: Path, **values: Any) -> list[SampleRef]:
    """Files of class folders; of two, one is in another split, one is gone."""
    refs = []
    for key, content in CONTENTS.items():
        path = folder / key.replace("/", "_")
        path.write_bytes(content)
        split = "test" if key == "c/1" else "train"
        refs.append(SampleRef(key, str(path), len(content), split, (key[0],)))
    return [*refs, SampleRef("d/1", "/gone", 3, "train", ("d",))]


REQUEST = WriteRequest(folder="", encoding=EncodingOptions(LabelledImages(CLASS_FOLDER_COLUMNS)))
SEARCH = DuplicateSearch(listed=False, reads=True, drops=True)


def test_sizes_with_digests_decide(tmp_path: Path) -> None:
    """The copies in train go, one by one or in one batch; what cannot be read stays."""
    refs = copied_samples(tmp_path)
    digested = [ref._replace(digest=digest_of(CONTENTS[ref.key])) for ref in refs[:-1]]
    copies = duplicates.CopyFinder(lambda: iter(digested))
    dropped = [ref for ref in refs if ref.key in ("a/1", "b/1")]
    letters = [copies.dead_letter(ref) for ref in digested if ref.key in ("a/1", "b/1")]
    same_size = [ref for ref in digested if len(CONTENTS[ref.key]) == 3]
    expected = Tally(duplicates=duplicates.CopyFinder(lambda: iter(same_size)).duplicates)
    expected.remove_samples(dropped, 0)
    expected.add_dead_letters(letters)  # type: ignore[arg-type]
    assert expected.duplicates.copies == expected.dead["duplicate"] == 2
    for size in (1, 99):
        with beam.Pipeline(runner="FnApiRunner") as pipeline:
            batches = [SampleBatch(refs[i : i + size]) for i in range(0, len(refs), size)]
            found = pipeline | beam.Create(batches) | DropDuplicates(search=SEARCH, request=REQUEST)
            kept = [ref for ref in refs if ref not in dropped]
            assert_items(found["samples"], kept, "samples")
            assert_items(found[DEAD_LETTERS], letters, "dead letters")
            assert_total(found[TALLY], expected)


def test_a_dropped_image_is_not_counted_as_unlabelled(tmp_path: Path) -> None:
    """Of samples that are marked, those without a label are taken back; one of three is kept."""
    labels = {"a/1": (None, 0), "b/1": (None, 0), "c/1": (None, 0), "a/2": ("a", 1)}
    refs = [
        ref._replace(labels=labels[ref.key])
        for ref in copied_samples(tmp_path)
        if ref.key in labels
    ]
    digested = [ref._replace(digest=digest_of(CONTENTS[ref.key])) for ref in refs]
    copies = duplicates.CopyFinder(lambda: digested)
    dropped = [ref for ref in digested if ref.key in ("a/1", "b/1")]
    expected = Tally(unlabelled=-2, duplicates=copies.duplicates)
    expected.remove_samples(dropped, 0)
    expected.add_dead_letters(map(copies.dead_letter, dropped))  # type: ignore[arg-type]
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        found = (
            pipeline
            | beam.Create([SampleBatch(refs)])
            | DropDuplicates(search=SEARCH, request=REQUEST, keeps_unlabelled=True)
        )
        assert_total(found[TALLY], expected)


@pytest.mark.parametrize("listed", [True, False])
def test_a_plan_counts_what_the_listing_tells(tmp_path: Path, listed: bool) -> None:
    """No image is read, and all are kept."""
    refs = [ref._replace(uri="/gone") for ref in copied_samples(tmp_path)]
    listing = [
        ref._replace(digest=digest_of(CONTENTS.get(ref.key, b"")) if listed else b"")
        for ref in refs
    ]
    copies = duplicates.CopyFinder(lambda: iter([ref for ref in listing if ref.size == 3]))
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        found = (
            pipeline
            | beam.Create([SampleBatch(listing)])
            | DropDuplicates(search=DuplicateSearch(False, False, False), request=REQUEST)
        )
        assert_items(found["samples"], refs, "samples")
        assert_items(found[DEAD_LETTERS], [], "dead letters")
        expected = copies.duplicates if listed else duplicates.Duplicates(images_compared=0)
        assert_total(found[TALLY], Tally(duplicates=expected))


IMAGES = [duplicates.WrittenImage(bytes([i % 50]) * 16, 7, "train", f"{i:02d}") for i in range(60)]


@pytest.mark.parametrize("ranges", [1, 3])
def test_equal_digests_meet(ranges: int) -> None:
    """Ten pairs, of images of different shards."""
    shards = [duplicates.packed_images(IMAGES[i::7], ranges) for i in range(7)]
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        found = (
            pipeline
            | beam.Create([part for shard in shards for part in shard])
            | find_duplicates()
            | beam.CombineGlobally(duplicates.Duplicates.sum_of)
        )
        pairs = tuple(group(("train", f"{i:02d}"), ("train", str(i + 50))) for i in range(10))
        assert_that(found, equal_to([duplicates.Duplicates(60, 20, 10, 0, 0, pairs)]))
