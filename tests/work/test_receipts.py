"""Receipts, and the shards of an earlier data set that are taken by them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipeline.core import packing
from beam_pipeline.core.dataset.changes import NO_CHANGES, SampleChanges, ShardFate
from beam_pipeline.core.dataset.plan import Plan, PlanRequest, make_plan
from beam_pipeline.core.dataset.receipts import Receipt, ShardInputs, receipt_name
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.errors import ConversionError, FailurePolicy
from beam_pipeline.core.labels.classes import Classes, ClassNumbering
from beam_pipeline.core.labels.schema import CLASS_FOLDER_COLUMNS
from beam_pipeline.core.records import example_source, sharding, tfrecord
from beam_pipeline.core.references import SampleRef
from beam_pipeline.storage import files
from beam_pipeline.transforms.planning import preview_changes
from beam_pipeline.work.outcome import CHANGES, REFUSALS
from beam_pipeline.work.receipts import (
    EarlierDataSet,
    read_receipt,
    read_record_sizes,
    receipts_there,
    write_receipt,
)
from beam_pipeline.work.writing import EncodingOptions, ShardTask, WriteRequest, shard_inputs
from tests.pictures import picture

NAME = "d-train.tfrecord-00000-of-00002"
OTHER = "d-train.tfrecord-00001-of-00002"
RECEIPT = Receipt(
    ShardInputs(
        spec=sharding.ShardSpec("train", 0, 2, NAME),
        refs=[SampleRef("a.jpg", "/photos/a.jpg", 3, "train", ("cat", ("x", "y")))],
        class_ids={"cat": 0},
        options={"seed": 0},
    ),
    sharding.ShardInfo("train", 0, NAME, 1, 99, 7, ((0, 1),)),
    [],
    (99,),
)


def test_a_receipt_is_read_back(tmp_path: Path) -> None:
    """It lies in a folder of its own; a shard without one has none."""
    write_receipt(str(tmp_path), RECEIPT)
    assert read_receipt(str(tmp_path), NAME) == RECEIPT
    assert read_receipt(str(tmp_path), OTHER) is None
    assert read_record_sizes(str(tmp_path), NAME) == (99,)
    assert read_record_sizes(str(tmp_path), OTHER) == ()
    assert receipts_there(str(tmp_path)) == {".receipts/d-train-00000-of-00002.json.gz"}


@pytest.mark.timeout(20)
def test_a_pipe_is_no_receipt(tmp_path: Path) -> None:
    """Nobody waits for what may come through it."""
    (tmp_path / ".receipts").mkdir()
    os.mkfifo(tmp_path / ".receipts" / "d-train-00000-of-00002.json.gz")
    with pytest.raises(ConversionError, match="cannot be read: a pipe, socket or device, not a"):
        read_receipt(str(tmp_path), NAME)


def test_a_damaged_receipt_is_an_error_that_names_it(tmp_path: Path) -> None:
    """It is never taken for none, which would have its shard written again."""
    write_receipt(str(tmp_path), RECEIPT)
    path = tmp_path / ".receipts" / "d-train-00000-of-00002.json.gz"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ConversionError, match=f"{path} is damaged"):
        read_receipt(str(tmp_path), NAME)


KEYS = [f"{i}.bmp" for i in range(24)]
PICTURES = [picture(i, file_format="BMP") for i in range(5)]
ENCODING = EncodingOptions(example_source.LabelledImages(CLASS_FOLDER_COLUMNS))


class Image(NamedTuple):
    """An image: which picture it is, its class, its split."""

    picture: int
    label: str
    split: str


FIRST = {key: Image(i % 5, "abc"[i % 3], "train") for i, key in enumerate(KEYS)}


def inputs_of(task: ShardTask) -> ShardInputs:
    return shard_inputs(task.spec, task.batches, task.class_ids, task.request.encoding)


class DataSet:
    """A data set of a few images, written without Beam."""

    def __init__(
        self,
        folder: Path,
        images: Mapping[str, Image],
        earlier: EarlierDataSet | None = None,
        *,
        shards: sharding.ShardConfig | None = None,
        classes: Classes = (),
    ) -> None:
        self.folder = folder
        refs = [self.ref(key, image) for key, image in images.items()]
        tally = Tally(listed=len(refs))
        tally.add_samples(refs, 0)
        self.plan: Plan = make_plan(
            tally,
            PlanRequest(
                name=folder.name,
                shards=shards or sharding.ShardConfig(None, 1500),
                splits=("train",),
                record_format=tfrecord.TFRecordFormat(),
                max_bad_fraction=1,
                numbering=ClassNumbering(known=classes),
            ),
            *([earlier.kept] if earlier else []),
        )
        assert self.plan.refusal is None
        tasks = self.tasks(refs, earlier)
        self.expected = [
            earlier.look_up(inputs_of(task)).expected_fate() for task in tasks if earlier
        ]
        written = [task.run() for task in tasks]
        self.dead = {letter.key for outcome in written for letter in outcome.dead_letters}
        tagged = [item for outcome in written for item in outcome.tagged]
        self.changes: list[ShardFate] = [value for tag, value in tagged if tag == CHANGES]
        assert len(self.changes) == (len(written) if earlier else 0)
        assert REFUSALS not in dict(tagged)

    def ref(self, key: str, image: Image) -> SampleRef:
        path = self.folder.parent / f"{image.picture}.bmp"
        if not path.exists():
            path.write_bytes(PICTURES[image.picture] if image.picture < 5 else b"no image")
        size = path.stat().st_size
        return SampleRef(
            key, str(path), size, image.split, (image.label,), version=1 + image.picture
        )

    def tasks(
        self, refs: list[SampleRef], earlier: EarlierDataSet | None = None
    ) -> list[ShardTask]:
        hasher = sharding.KeyHasher(0)
        return [
            ShardTask(
                request=WriteRequest(
                    folder=str(self.folder),
                    encoding=ENCODING,
                    failures=FailurePolicy(retries=True),
                    earlier=earlier,
                ),
                spec=spec,
                batches=[
                    packing.pack(
                        ref
                        for ref in refs
                        if ref.split == spec.split
                        and sharding.shard_of(hasher.order(ref.key), spec.of) == spec.number
                    )
                ],
                class_ids=self.plan.class_ids,
                record_format=tfrecord.TFRecordFormat(),
            )
            for spec in self.plan.shard_plan.specs
        ]

    @property
    def as_earlier(self) -> EarlierDataSet:
        return EarlierDataSet(str(self.folder), self.plan.shard_plan, self.plan.classes)

    def contents(self) -> dict[str, bytes]:
        """Path without the data set's name -> content, of shards and receipts."""
        found = {}
        for path in sorted(self.folder.rglob("*")):
            if path.is_file():
                content = path.read_bytes()
                name = str(path.relative_to(self.folder)).replace(self.folder.name, "d")
                found[name] = b"" if path.suffix == ".gz" else content
        return found

    def inodes(self) -> set[int]:
        return {path.stat().st_ino for path in self.folder.glob("*.tfrecord-*")}


IMAGE = st.builds(
    Image, st.integers(0, 5), st.sampled_from("_abcd"), st.sampled_from(["train", "train", "test"])
)
EDITS = st.dictionaries(
    st.sampled_from([*KEYS, *(f"new{i}" for i in range(20))]), st.none() | IMAGE, max_size=24
)


def edited(images: Mapping[str, Image], edits: Mapping[str, Image | None]) -> dict[str, Image]:
    """Images after some were removed, added, or changed."""
    return {key: image for key, image in {**images, **edits}.items() if image}


@given(st.lists(EDITS, min_size=1, max_size=3))
@settings(max_examples=5, deadline=None)
def test_edited_data_sets_are_those_written_from_nothing(
    nights: list[dict[str, Image | None]],
) -> None:
    """Each takes shards of the one before; what is reused is linked, and samples add up."""
    _check_nights(nights)


@pytest.mark.slow
@given(st.lists(EDITS, min_size=1, max_size=3))
@settings(max_examples=200, deadline=None)
def test_two_hundred_edited_data_sets(nights: list[dict[str, Image | None]]) -> None:
    """The same with more examples."""
    _check_nights(nights)


def _check_nights(nights: list[dict[str, Image | None]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        images = FIRST
        before = DataSet(Path(folder, "night0"), images)
        for number, edits in enumerate(nights, 1):
            now = edited(images, edits)
            if not now:
                return
            after = DataSet(Path(folder, f"night{number}"), now, before.as_earlier)
            nothing = DataSet(
                Path(folder, f"nothing{number}"),
                now,
                shards=sharding.ShardConfig(dict(after.plan.shard_plan.shards), 1),
                classes=after.plan.classes,
            )
            assert after.plan.classes == nothing.plan.classes
            assert after.contents() == nothing.contents()
            reused = [shard for shard in after.changes if shard.reused]
            assert len(reused) == len(after.inodes() & before.inodes())
            assert all(not any(shard.samples) for shard in reused)
            _check_expected(after)
            images, before = now, after


def _check_expected(data_set: DataSet) -> None:
    """All that was expected came true, but for images that turned out to be broken."""
    for expected, found in zip(data_set.expected, data_set.changes, strict=True):
        assert expected.reused == found.reused
        assert not found.reused or expected.bytes == found.bytes
        for keys, then in zip(expected.samples, found.samples, strict=True):
            assert set(keys) - data_set.dead == set(then) - data_set.dead


@pytest.fixture
def first(tmp_path: Path) -> DataSet:
    """Four shards."""
    return DataSet(tmp_path / "first", FIRST, shards=sharding.ShardConfig(4))


def test_the_samples_of_other_shards_are_compared(first: DataSet, tmp_path: Path) -> None:
    """Three shards are compared with the ranges of four; only the real change is one."""
    images = {**FIRST, "5.bmp": FIRST["5.bmp"]._replace(label="c"), "new": Image(1, "a", "train")}
    again = DataSet(tmp_path / "again", images, first.as_earlier, shards=sharding.ShardConfig(3))
    assert [shard.reused for shard in again.changes] == [False] * 3
    found = [shard.samples for shard in again.changes]
    assert sorted(key for samples in found for key in samples.added) == ["new"]
    assert sorted(key for samples in found for key in samples.relabelled) == []
    assert FIRST["5.bmp"].label == "c"


def test_a_split_that_is_gone_has_lost_its_samples(first: DataSet) -> None:
    """Its receipts say which these were."""
    earlier = first.as_earlier
    assert earlier.samples_elsewhere(["train"]).removed == ()
    assert earlier.samples_elsewhere(["test"]).removed == tuple(sorted(KEYS))


def test_a_shard_of_another_disk_is_copied(
    first: DataSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there are no hard links, its bytes are copied, and compared on the way."""

    def no_link(*_: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", no_link)
    again = DataSet(tmp_path / "again", FIRST, first.as_earlier)
    assert all(shard.reused for shard in again.changes)
    assert not again.inodes() & first.inodes()
    assert again.contents() == first.contents()


def test_a_shard_that_vanishes_while_it_is_taken_is_written(first: DataSet, tmp_path: Path) -> None:
    """The look-up found it sound; a note says what happened."""
    spec = first.plan.shard_plan.spec(1)
    (task,) = [
        replace(task, request=replace(task.request, folder=str(tmp_path / "again")))
        for task in first.tasks([first.ref(key, image) for key, image in FIRST.items()], None)
        if task.spec == spec
    ]
    found = first.as_earlier.look_up(inputs_of(task))
    assert found.reusable is not None
    (first.folder / spec.file_name).unlink()
    assert found.take(str(tmp_path / "again"), new=True) is None
    uri = files.join(str(first.folder), spec.file_name)
    assert found.notes == [f"{uri} was damaged or deleted meanwhile: the shard is written again"]


def test_a_missing_receipt_costs_that_shard_alone(first: DataSet, tmp_path: Path) -> None:
    """Nobody knows what it holds, so its samples count as added."""
    name = first.plan.shard_plan.spec(2).file_name
    (first.folder / receipt_name(name)).unlink()
    again = DataSet(tmp_path / "again", FIRST, first.as_earlier)
    assert [shard.reused for shard in again.changes] == [True, True, False, True]
    assert again.expected[2].samples == again.changes[2].samples
    assert again.expected[2].bytes == sum(
        len(PICTURES[FIRST[k].picture]) for k in again.changes[2].samples.added
    )
    assert again.changes[2].notes == (
        f"{first.folder}/{name} has no receipt: the shard is written again",
    )


def test_dead_letters_that_may_have_passed_are_found_again(tmp_path: Path) -> None:
    """An image that could not be read then is read now; a broken one is still broken."""
    images = {"a": Image(0, "a", "train"), "b": Image(5, "b", "train")}
    first = DataSet(tmp_path / "first", images)
    again = DataSet(tmp_path / "again", images, first.as_earlier)
    assert [shard.reused for shard in again.changes] == [True]
    (tmp_path / "0.bmp").rename(tmp_path / "away.bmp")
    refs = [again.ref("b", images["b"])]
    refs.append(
        SampleRef("a", str(tmp_path / "0.bmp"), len(PICTURES[0]), "train", ("a",), version=1)
    )
    (task,) = again.tasks(refs, None)
    gone = replace(task, request=replace(task.request, folder=str(tmp_path / "gone"))).run()
    assert [letter.reason for letter in gone.dead_letters] == ["not_an_image", "unreadable"] or [
        letter.reason for letter in gone.dead_letters
    ] == ["unreadable", "not_an_image"]
    (tmp_path / "away.bmp").rename(tmp_path / "0.bmp")
    earlier = replace(again.as_earlier, folder=str(tmp_path / "gone"))
    back = replace(
        task, request=replace(task.request, folder=str(tmp_path / "back"), earlier=earlier)
    ).run()
    (changes,) = (value for tag, value in back.tagged if tag == CHANGES)
    assert not changes.reused
    assert changes.samples.added == ("a",)


def test_the_shard_of_a_removed_sample_would_be_written(tmp_path: Path) -> None:
    """Its bytes are those of its images; the other shards are reused as they are."""
    first = DataSet(tmp_path / "first", FIRST, shards=sharding.ShardConfig(4))
    images = {key: image for key, image in FIRST.items() if key != "7.bmp"}
    now = DataSet(tmp_path / "now", images, shards=sharding.ShardConfig(4))
    tasks = now.tasks([now.ref(key, image) for key, image in images.items()])
    found = []
    for task in tasks:
        name = task.spec.file_name
        (refs,) = (list(packing.unpack(SampleRef, batch)) for batch in task.batches)
        size = (first.folder / name.replace("now", "first")).stat().st_size
        if size == (now.folder / name).stat().st_size:
            found.append(ShardFate(NO_CHANGES, True, size))
        else:
            removed = SampleChanges(removed=("7.bmp",))
            found.append(ShardFate(removed, False, sum(ref.size for ref in refs)))
    assert sum(shard.reused for shard in found) == 3
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        plan = pipeline | "Plan" >> beam.Create([now.plan])
        shards = pipeline | beam.Create([(i, list(task.batches)) for i, task in enumerate(tasks)])
        request = WriteRequest(folder="", encoding=ENCODING, earlier=first.as_earlier)
        previewed = shards | preview_changes(plan, request)
        assert_that(previewed, equal_to(found))
