"""Measuring, planning, dividing classes, assigning shards, and images of the same bytes."""

from __future__ import annotations

import errno
import hashlib
import pickle
import random
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest

import beam_pipeline
from beam_pipeline.core.dataset.duplicates import (
    CopyFinder,
    Duplicates,
    WrittenImage,
    packed_images,
)
from beam_pipeline.core.dataset.plan import Plan, PlanRequest
from beam_pipeline.core.dataset.splits import SplitAssigner, rank_of
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.errors import Refusal
from beam_pipeline.core.images.geometry import ImageChanges
from beam_pipeline.core.images.preparation import digest_of
from beam_pipeline.core.labels.classes import ClassNumbering
from beam_pipeline.core.labels.schema import CLASS_FOLDER_COLUMNS
from beam_pipeline.core.packing import SampleBatch, unpack
from beam_pipeline.core.records.example_source import ExampleOptions, LabelledImages
from beam_pipeline.core.records.sharding import (
    KeyHasher,
    ShardConfig,
    ShardDivision,
    ShardPlan,
    SplitFractions,
)
from beam_pipeline.core.records.tfrecord import TFRecordFormat
from beam_pipeline.core.references import LabelValue, SampleRef
from beam_pipeline.storage import files
from beam_pipeline.storage.read_ahead import ONE_BY_ONE, ReadOptions
from beam_pipeline.transforms import in_workers
from beam_pipeline.transforms.planning import (
    AssignShards,
    AssignSplits,
    DropDuplicates,
    find_duplicates,
    hashed_samples,
    lowest_samples,
    measured_batches,
)
from beam_pipeline.work.outcome import DEAD_LETTERS, TALLY, Call
from beam_pipeline.work.output_folder import read_note
from beam_pipeline.work.planning import (
    DuplicateSearch,
    Planning,
    is_readable,
    measure_images,
    with_digests,
)
from beam_pipeline.work.writing import EncodingOptions, WriteRequest
from tests.core.dataset.fixtures import group
from tests.harness import convert, manifest_of, run, shard_names
from tests.pictures import picture, write_files
from tests.transforms.outputs import in_order, outputs

RUN: dict[str, Any] = {"name": "pets", "seed": 0, "options": {}, "features": {}}
WISHES: dict[str, Any] = {
    "name": "pets",
    "shards": ShardConfig({"train": 3}, shard_bytes=10),
    "splits": ("test",),
    "record_format": TFRecordFormat(),
    "max_bad_fraction": 0.5,
    "numbering": ClassNumbering(base=1),
}
COUNTS = Tally(
    listed=7,
    ignored=Counter({".txt": 2}),
    samples=Counter({"train": 3, "test": 3}),
    sample_bytes=Counter({"train": 300, "test": 21}),
    classes=Counter({"dog": 3, "cat": 3}),
    dead=Counter({"empty_file": 1}),
    shown={"empty_file": ["5.jpg"]},
)
MORE = replace(COUNTS, sample_bytes=Counter({"train": 300, "test": 31}))


def planned(folder: Path, tally: Tally, *, resume: bool = False, **wishes: Any) -> Plan:
    encoding = EncodingOptions(LabelledImages(()))
    request = WriteRequest(folder=str(folder), encoding=encoding, resume=resume)
    planning = Planning(request=request, plan_request=PlanRequest(**WISHES | wishes), run=RUN)
    ((plan,),) = (outcome.main for outcome in planning(tally))
    assert isinstance(plan, Plan)
    return plan


def assert_refused(plan: Plan, error: str, message: str) -> None:
    assert plan.refusal
    assert plan.refusal.error == error
    assert message in plan.refusal.message


def test_what_a_manifest_cannot_hold_is_refused_before_a_shard(tmp_path: Path) -> None:
    """The entry is named, and there is no note of shards to come."""
    numbering = ClassNumbering(known=(("cat", 1), ("dog", 99999999999999999999)))
    plan = planned(tmp_path, replace(COUNTS, listed=6), numbering=numbering, max_bad_fraction=1)
    message = (
        "a manifest cannot describe this data set: classes[1].id is 99999999999999999999, expected"
    )
    assert_refused(plan, "UsageError", f"{message} a whole number of 64 bits")
    assert list(tmp_path.iterdir()) == []


def test_a_plan_that_refuses_is_noted_all_the_same(tmp_path: Path) -> None:
    """The note says which files may have been left, also by a run that wrote none."""
    plan = planned(tmp_path, Tally(listed=7, refusals=[Refusal("ListingError", "x")]))
    assert plan.refusal == Refusal("ListingError", "x")
    noted = read_note(str(tmp_path))
    assert noted
    assert noted.shard_plan == plan.shard_plan


def test_a_resumed_run_has_the_shards_of_the_earlier_one(tmp_path: Path) -> None:
    """Other shards are refused, and the note of the earlier run stays as it is."""
    plan = planned(tmp_path, COUNTS, resume=True)  # with no earlier run
    assert plan.refusal is None
    note = (tmp_path / ".incomplete/plan.json").read_bytes()
    assert planned(tmp_path, COUNTS, resume=True) == plan
    again = planned(tmp_path, MORE, resume=True)
    assert_refused(again, "ChangedInputsError", "test was 3, is 4")
    assert (tmp_path / ".incomplete/plan.json").read_bytes() == note


@pytest.mark.parametrize("there", ["manifest.json", "pets-train.tfrecord-00000-of-00007"])
def test_a_folder_of_another_run_is_refused_before_the_first_shard(
    tmp_path: Path, there: str
) -> None:
    """Where no launcher has looked; nothing is written there."""
    if there == "manifest.json":
        beam_pipeline.convert_samples([{"x": 1}], output=str(tmp_path), name="pets")
    else:
        (tmp_path / there).touch()
    before = set(tmp_path.iterdir())
    message = f"{tmp_path} contains {there} of another run, and"
    assert_refused(planned(tmp_path, COUNTS), "OutputNotEmptyError", message)
    assert set(tmp_path.iterdir()) == before


def test_a_folder_that_cannot_be_listed_is_a_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an exception, it would come with the tracebacks of the engine."""

    def fail(folder: str) -> list[str]:
        raise OSError(errno.EMFILE, "Too many open files", folder)

    monkeypatch.setattr(files, "list_folder", fail)
    refused = Refusal("OutputError", f"{tmp_path} cannot be read: Too many open files")
    assert planned(tmp_path, COUNTS).refusal == refused


def test_a_plan_is_made_again_where_it_was_made_before(tmp_path: Path) -> None:
    """By an engine that tries again when some shards are there, and after a run that wrote none."""
    shards = ShardConfig({"train": 7}, shard_bytes=10)
    assert planned(tmp_path, COUNTS, shards=shards).refusal is None
    for _ in range(2):
        assert planned(tmp_path, COUNTS).refusal is None
        (tmp_path / "pets-train.tfrecord-00000-of-00003").touch()
    assert_refused(planned(tmp_path, MORE), "OutputNotEmptyError", "contains pets-train")


LAYOUT = ShardPlan("d", (("test", 2), ("train", 5)), TFRecordFormat())
SAMPLES = [
    SampleRef(f"{i}.jpg", f"/photos/{i}.jpg", 5, "train" if i % 3 else "test", ("x",))
    for i in range(60)
]


def batches_of(refs: list[SampleRef], size: int) -> list[SampleBatch]:
    return [SampleBatch(refs[first : first + size]) for first in range(0, len(refs), size)]


def assigned(plan: Plan) -> dict[int, list[SampleRef]]:
    """Shard -> its samples."""
    encoding = EncodingOptions(LabelledImages(()), seed=4)

    def build(pipeline: beam.Pipeline) -> Any:
        plans = pipeline | "Plan" >> beam.Create([plan])
        samples = pipeline | "Samples" >> beam.Create(batches_of(SAMPLES, 7))
        shards = samples | AssignShards(plan=plans, encoding=encoding)
        return shards | beam.MapTuple(lambda number, parts: (number, list(parts)))

    return {
        n: sorted(s for p in parts for s in unpack(SampleRef, p)) for n, parts in outputs(build)
    }


@pytest.mark.parametrize("held", [1, 10, 1 << 16])
def test_every_sample_goes_to_the_shard_of_its_hash(
    held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, however many wait for others; a shard that has none is there, too. For a plan that refuses, none is."""
    monkeypatch.setattr(in_workers, "MOST_HELD", held)
    expected: dict[int, list[SampleRef]] = {number: [] for number in range(7)}
    numbers = ShardDivision(LAYOUT, 4).numbers(SampleBatch(SAMPLES).columns())
    for sample, number in sorted(zip(SAMPLES, numbers, strict=True)):
        expected[number].append(sample)
        assert (number < 2) == (sample.split == "test")
    assert assigned(Plan(LAYOUT, (), Tally(), None)) == expected
    assert assigned(Plan(LAYOUT, (), Tally(), Refusal("OutputError", "no"))) == {}


SHARES = SplitFractions(
    (("train", Fraction(3, 4)), ("validation", Fraction(1, 8)), ("test", Fraction(1, 8)))
)
CLASSES: dict[LabelValue, list[int]] = {
    "cat": [12, 2, 2],
    "dog": [60, 10, 10],
    None: [6, 1, 1],
    "bird": [1, 0, 0],
}
"""Class, or none -> how many go to each split."""


@pytest.mark.parametrize(
    "size", [10, *(pytest.param(size, marks=pytest.mark.slow) for size in (1, 5000))]
)
def test_each_class_is_divided_exactly(size: int) -> None:
    """Its samples, in the order of their hashes, are cut at these numbers, whatever the batches."""
    expected = []
    for number, (label, counts) in enumerate(CLASSES.items()):
        refs = [SampleRef(f"{number}/{i}.jpg", "u", 3, "", (label,)) for i in range(sum(counts))]
        refs.sort(key=lambda ref: rank_of(ref.key, KeyHasher(3)))
        names = zip(SHARES.fractions, counts, strict=True)
        splits = [name for (name, _), count in names for _ in range(count)]
        expected += [ref._replace(split=s) for ref, s in zip(refs, splits, strict=True)]
    given = sorted(ref._replace(split="") for ref in expected)
    tally = Tally()
    tally.add_samples(expected, 0)
    assign = AssignSplits(splits=SplitAssigner(SHARES, 3, None, True), column=0)
    for refs in (given, given[::-1]):
        batches = batches_of(refs, size)
        found = outputs(lambda p: p | beam.Create(batches) | assign, "samples", TALLY)  # noqa: B023
        assert found == [in_order(expected), tally]


MEASURED = EncodingOptions(
    LabelledImages(CLASS_FOLDER_COLUMNS),
    seed=3,
    options=ExampleOptions(changes=ImageChanges(resize=(20, 20))),
)


def test_the_size_of_a_record_is_measured_and_a_bad_image_is_not(tmp_path: Path) -> None:
    """Bytes of the file, and of what is written of it; the task can be sent to another process."""
    contents = {"a.jpg": picture(size=(300, 200)), "b.jpg": b"no image", "c.jpg": picture()}
    write_files(str(tmp_path), dict(contents))
    refs = [
        SampleRef(key, f"{tmp_path}/{key}", len(content), "train", ("x",))
        for key, content in contents.items()
    ]
    call = pickle.loads(pickle.dumps(Call(measure_images, (MEASURED, refs, ONE_BY_ONE))))
    (tally,) = call.run().main
    large, small = tally.measured
    assert large.order == KeyHasher(3).order("a.jpg")
    assert (large.size, small.size) == (len(contents["a.jpg"]), len(contents["c.jpg"]))
    assert small.written > small.size  # its own bytes, with features around them
    assert 0 < large.written < large.size
    assert large.seconds > 0


@pytest.mark.parametrize("parts", [1, 7, 1000])
def test_the_lowest_hashes_are_found_in_any_parts(parts: int) -> None:
    """One sample in twenty, whatever the order of batches and how they are combined."""
    refs = [SampleRef(f"{i}.jpg", f"/{i}.jpg", i, "train", ("x",)) for i in range(1000)]
    shuffled = random.Random(parts).sample(refs, len(refs))
    lowest = [hashed_samples(SampleBatch(shuffled[i::parts]), 5) for i in range(parts)]
    batches = measured_batches(*lowest_samples([lowest_samples(lowest[:3]), *lowest[3:]]))
    hasher = KeyHasher(5)
    expected = sorted(refs, key=lambda ref: hasher.order(ref.key))[:50]
    assert [ref for batch in batches for ref in batch] == expected


def test_the_shard_size_is_that_of_the_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of 60 times 120 kB become shards of about 20 kB, since images are scaled."""
    monkeypatch.chdir(tmp_path)
    large = picture(size=(300, 300), file_format="BMP")
    write_files(".", {f"photos/{'ab'[i % 2]}/{i}.bmp": large for i in range(60)})
    options = ["--resize=32", "--image_format=jpeg", "--shard_size=20KB", "--name=set"]
    arguments = ["--images", "photos", "--output", "out", *options]
    planned = run("plan", *arguments).out
    assert convert(*arguments) == 0
    shards = shard_names("out")
    total = manifest_of("out")["splits"]["train"]["bytes"]
    assert len(shards) == -(-total // 20_000)
    assert f"train: 60 samples in {len(shards)} shards" in planned
    assert "images are re-encoded: 16.2 MB of files, by 16 samples" in planned


# --- Images of the same bytes: read for their digests, dropped, counted, found in ranges


@pytest.mark.parametrize(
    ("reading", "md5"),
    [
        *((ONE_BY_ONE, False), (ONE_BY_ONE, True)),
        *((ReadOptions(prefetched=2), False), (ReadOptions(4), False)),
    ],
)
def test_images_are_read_for_their_digests(tmp_path: Path, reading: ReadOptions, md5: bool) -> None:
    """Those that cannot be read, or are not as listed, have none; beside a bucket, digests are those of its listing."""
    write_files(str(tmp_path), {"a": b"image", "c": b"longer than listed", "d": b""})
    listed = [("a", "a", 5, -1), ("b", "b", 5, -1), ("c", "c", 5, -1), ("d", "d", 0, -1)]
    refs = [
        SampleRef(key, f"{tmp_path}/{name}", size, "train", (), offset=offset)
        for key, name, size, offset in [*listed, ("e", "a", 3, 1)]
    ]
    outcome = with_digests(refs, reading, md5=md5)
    digested = {ref.key: ref.digest for _, batch in outcome.tagged for ref in batch}
    digest = (lambda data: hashlib.md5(data).digest()) if md5 else digest_of
    assert digested == {"a": digest(b"image"), "e": digest(b"mag")}
    assert [ref for batch in outcome.main for ref in batch] == refs[1:4]


def test_a_fault_of_the_machine_is_no_image_without_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """It fails, to be tried again; else a copy would be kept today that was left out yesterday."""

    def fails(*_: object) -> bytes:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(files, "read_image", fails)
    with pytest.raises(OSError, match="Too many open files"):
        with_digests([SampleRef("a", "/a", 5, "train", ())], ONE_BY_ONE)


def test_what_its_writer_would_not_read_is_not_read() -> None:
    """Images above the limits."""
    ref = SampleRef("a", "/a", 100, "train", ())
    plain = EncodingOptions(LabelledImages(()))
    for limit, readable in ((100, True), (99, False)):
        options = ExampleOptions(filters={"max_image_bytes": limit})
        assert is_readable(ref, replace(plain, options=options)) is readable
    assert not is_readable(ref._replace(size=1 << 31), plain)
    assert not is_readable(ref._replace(uri=""), plain)


CONTENTS = {
    "a/1": b"one",
    "a/2": b"two",
    "b/1": b"one",
    "b/3": b"three",
    "b/4": b"four, which nothing is as long as",
    "c/1": b"one",
}
GONE = SampleRef("d/1", "/gone", 3, "train", ("d",))
REQUEST = WriteRequest(folder="", encoding=EncodingOptions(LabelledImages(CLASS_FOLDER_COLUMNS)))


@pytest.fixture
def copied(tmp_path: Path) -> list[SampleRef]:
    """Files of class folders, one in another split, with their digests."""
    refs = []
    for key, content in CONTENTS.items():
        path, split = tmp_path / key.replace("/", "_"), "test" if key == "c/1" else "train"
        path.write_bytes(content)
        ref = SampleRef(key, str(path), len(content), split, (key[0],))
        refs.append(ref._replace(digest=digest_of(content)))
    return refs


def dropped(refs: list[SampleRef], size: int, reads: bool = True, **options: Any) -> list[Any]:
    """Samples, dead letters and counts when copies are dropped or, without reading, counted."""
    search = DuplicateSearch(listed=False, reads=reads, drops=reads)
    drop = DropDuplicates(search=search, request=REQUEST, **options)
    tags = ("samples", DEAD_LETTERS, TALLY)
    return outputs(lambda p: p | beam.Create(batches_of(refs, size)) | drop, *tags)


@pytest.mark.parametrize("unlabelled", [False, True])
def test_sizes_with_digests_decide(copied: list[SampleRef], unlabelled: bool) -> None:
    """The copies in train go, one by one or in one batch; what cannot be read stays.

    Where samples are marked, those without a label are not counted as unlabelled.
    """
    if unlabelled:
        marks = {"a/1": (None, 0), "b/1": (None, 0), "c/1": (None, 0)}
        copied = [ref._replace(labels=marks.get(ref.key, ("a", 1))) for ref in copied]
    copies = CopyFinder(lambda: copied)
    go = [ref for ref in copied if ref.key in ("a/1", "b/1")]
    letters = [copies.dead_letter(ref) for ref in go]
    same_size = [ref for ref in copied if ref.size == 3]
    duplicates = CopyFinder(lambda: same_size).duplicates
    expected = Tally(duplicates=duplicates, unlabelled=-2 * unlabelled)
    gone = Tally()
    gone.add_samples(go, 0)
    expected.remove_samples(gone)
    expected.add_dead_letters(letters)  # type: ignore[arg-type]
    assert expected.duplicates.copies == expected.dead["duplicate"] == 2
    listed = [*(ref._replace(digest=b"") for ref in copied), GONE]
    remaining = [ref for ref in listed if ref.key not in ("a/1", "b/1")]
    for size in (1, 99):
        found = dropped(listed, size, keeps_unlabelled=unlabelled)
        assert found == [in_order(remaining), in_order(letters), expected]


@pytest.mark.parametrize("listed", [True, False])
def test_a_plan_counts_what_the_listing_tells(copied: list[SampleRef], listed: bool) -> None:
    """No image is read, and all are kept."""
    refs = [ref._replace(uri="/gone", digest=b"") for ref in copied]
    listing = [ref._replace(uri="/gone") for ref in copied] if listed else refs
    copies = CopyFinder(lambda: [ref for ref in listing if ref.size == 3])
    expected = copies.duplicates if listed else Duplicates(images_compared=0)
    found = dropped(listing, 99, reads=False)
    assert found == [in_order(refs), [], Tally(duplicates=expected)]


@pytest.mark.parametrize("ranges", [1, 3])
def test_equal_digests_meet(ranges: int) -> None:
    """Ten pairs, of images of different shards."""
    images = [WrittenImage(bytes([i % 50]) * 16, 7, "train", f"{i:02d}") for i in range(60)]
    parts = [part for i in range(7) for part in packed_images(images[i::7], ranges)]
    total = beam.CombineGlobally(Duplicates.sum_of)
    pairs = tuple(group(("train", f"{i:02d}"), ("train", str(i + 50))) for i in range(10))
    found = outputs(lambda p: p | beam.Create(parts) | find_duplicates() | total)
    assert found == [Duplicates(60, 20, 10, 10, 0, 0, pairs)]
