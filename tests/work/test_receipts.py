"""Receipts, and the shards of an earlier data set that are taken by them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipeline.core.dataset.changes import NO_CHANGES, SampleChanges, ShardFate
from beam_pipeline.core.dataset.plan import Plan, PlanRequest, make_plan
from beam_pipeline.core.dataset.receipts import Receipt, ShardInputs, receipt_name
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.errors import ConversionError, FailurePolicy
from beam_pipeline.core.labels.classes import Classes, ClassNumbering
from beam_pipeline.core.labels.schema import CLASS_FOLDER_COLUMNS
from beam_pipeline.core.packing import pack
from beam_pipeline.core.records.example_source import LabelledImages
from beam_pipeline.core.records.sharding import (
    KeyHasher,
    ShardConfig,
    ShardInfo,
    ShardSpec,
    shard_of,
)
from beam_pipeline.core.records.tfrecord import TFRecordFormat
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
from tests.profiles import examples

NAME = "d-train.tfrecord-00000-of-00002"
OTHER = "d-train.tfrecord-00001-of-00002"
PATH = ".receipts/d-train-00000-of-00002.json.gz"
RECEIPT = Receipt(
    ShardInputs(
        spec=ShardSpec("train", 0, 2, NAME),
        refs=[SampleRef("a.jpg", "/photos/a.jpg", 3, "train", ("cat", ("x", "y")))],
        class_ids={"cat": 0},
        options={"seed": 0},
    ),
    ShardInfo("train", 0, NAME, 1, 99, 7, ((0, 1),)),
    [],
    (99,),
)


@pytest.mark.timeout(20)
def test_a_receipt_is_read_back(tmp_path: Path) -> None:
    """A shard without one has none; a damaged one is never taken for none, and nobody waits for a pipe."""
    folder, path = str(tmp_path), tmp_path / PATH
    write_receipt(folder, RECEIPT)
    assert read_receipt(folder, NAME) == RECEIPT
    assert read_receipt(folder, OTHER) is None
    assert read_record_sizes(folder, NAME) == (99,)
    assert read_record_sizes(folder, OTHER) == ()
    assert receipts_there(folder) == {PATH}
    shutil.copy(path, tmp_path / receipt_name(OTHER))
    with pytest.raises(
        ConversionError, match=f"is damaged: it is of '{NAME}', not of {OTHER}; remove"
    ):
        read_receipt(folder, OTHER)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ConversionError, match=f"{path} is damaged"):
        read_receipt(folder, NAME)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(ConversionError, match="cannot be read: a pipe, socket or device, not a"):
        read_receipt(folder, NAME)


KEYS = [f"{i}.bmp" for i in range(24)]
PICTURES = [*(picture(i, file_format="BMP") for i in range(5)), b"no image"]
ENCODING = EncodingOptions(LabelledImages(CLASS_FOLDER_COLUMNS))


class Image(NamedTuple):
    """An image: which picture it is, its class, its split."""

    picture: int
    label: str
    split: str = "train"


FIRST = {key: Image(i % 5, "abc"[i % 3]) for i, key in enumerate(KEYS)}


class DataSet:
    """A data set of a few images, written without Beam.

    Attributes:
      expected: the fate of each shard, as it is foreseen from an earlier data set.
      changes: its fate.
      dead: keys of its dead letters.
    """

    def __init__(
        self,
        folder: Path,
        images: Mapping[str, Image],
        earlier: EarlierDataSet | None = None,
        *,
        shards: ShardConfig | None = None,
        classes: Classes = (),
        gone: int | None = None,
    ) -> None:
        self.folder = folder
        refs = [self._ref(key, *image) for key, image in images.items()]
        if gone is not None:
            (folder.parent / f"{gone}.bmp").unlink()
        tally = Tally(listed=len(refs))
        tally.add_samples(refs, 0)
        wishes = PlanRequest(
            name=folder.name,
            shards=shards or ShardConfig(None, 1500),
            splits=("train",),
            record_format=TFRecordFormat(),
            max_bad_fraction=1,
            numbering=ClassNumbering(known=classes),
        )
        self.plan: Plan = make_plan(tally, wishes, *([earlier.kept] if earlier else []))
        assert self.plan.refusal is None
        self.tasks = [self._task(spec, refs, earlier) for spec in self.plan.shard_plan.specs]
        found = [earlier.look_up(inputs_of(task)) for task in self.tasks if earlier]
        self.expected = [shards.expected_fate() for shards in found]
        written = [task.run() for task in self.tasks]
        self.dead = {letter.key for outcome in written for letter in outcome.dead_letters}
        tagged = [item for outcome in written for item in outcome.tagged]
        self.changes: list[ShardFate] = [value for tag, value in tagged if tag == CHANGES]
        assert len(self.changes) == (len(written) if earlier else 0)
        assert REFUSALS not in dict(tagged)

    def _ref(self, key: str, number: int, label: str, split: str) -> SampleRef:
        path, content = self.folder.parent / f"{number}.bmp", PICTURES[number]
        path.write_bytes(content)
        return SampleRef(key, str(path), len(content), split, (label,), version=1 + number)

    def _task(
        self, spec: ShardSpec, refs: list[SampleRef], earlier: EarlierDataSet | None
    ) -> ShardTask:
        hasher = KeyHasher(0)
        failures = FailurePolicy(retries=True)
        same = [ref for ref in refs if ref.split == spec.split]
        own = [ref for ref in same if shard_of(hasher.order(ref.key), spec.of) == spec.number]
        return ShardTask(
            WriteRequest(
                folder=str(self.folder), encoding=ENCODING, failures=failures, earlier=earlier
            ),
            spec=spec,
            batches=[pack(own)],
            class_ids=self.plan.class_ids,
            record_format=TFRecordFormat(),
        )

    @property
    def as_earlier(self) -> EarlierDataSet:
        return EarlierDataSet(str(self.folder), self.plan.shard_plan, self.plan.classes)

    @property
    def reused(self) -> list[bool]:
        return [shard.reused for shard in self.changes]

    def contents(self) -> dict[str, bytes]:
        """Path without the data set's name -> content, of shards and receipts."""
        return {
            str(path.relative_to(self.folder)).replace(self.folder.name, "d"): (
                b"" if path.suffix == ".gz" else path.read_bytes()
            )
            for path in sorted(self.folder.rglob("*"))
            if path.is_file()
        }

    def inodes(self) -> set[int]:
        return {path.stat().st_ino for path in self.folder.glob("*.tfrecord-*")}


def inputs_of(task: ShardTask) -> ShardInputs:
    return shard_inputs(task.spec, task.batches, task.class_ids, task.request.encoding)


IMAGE = st.builds(
    Image, st.integers(0, 5), st.sampled_from("_abcd"), st.sampled_from(["train", "train", "test"])
)
EDITS = st.dictionaries(
    st.sampled_from([*KEYS, *(f"new{i}" for i in range(20))]), st.none() | IMAGE, max_size=24
)


@given(st.lists(EDITS, min_size=1, max_size=3))
@settings(max_examples=examples(200, quick=5), deadline=None)
def test_edited_data_sets_are_those_written_from_nothing(
    nights: list[dict[str, Image | None]],
) -> None:
    """Each takes shards of the one before; what is reused is linked, and samples add up.

    All that was expected came true, but for images that turned out to be broken.
    """
    with tempfile.TemporaryDirectory() as folder:
        images = FIRST
        before = DataSet(Path(folder, "night0"), images)
        for number, edits in enumerate(nights, 1):
            images = {key: image for key, image in {**images, **edits}.items() if image}
            if not images:
                return
            after = DataSet(Path(folder, f"night{number}"), images, before.as_earlier)
            shards = ShardConfig(dict(after.plan.shard_plan.shards), 1)
            nothing = DataSet(
                Path(folder, f"nothing{number}"), images, shards=shards, classes=after.plan.classes
            )
            assert after.plan.classes == nothing.plan.classes
            assert after.contents() == nothing.contents()
            assert sum(after.reused) == len(after.inodes() & before.inodes())
            for expected, found in zip(after.expected, after.changes, strict=True):
                assert expected.reused == found.reused
                assert not found.reused or expected.bytes == found.bytes
                assert not (found.reused and any(found.samples))
                for keys, then in zip(expected.samples, found.samples, strict=True):
                    assert set(keys) - after.dead == set(then) - after.dead
            before = after


@pytest.fixture
def first(tmp_path: Path) -> DataSet:
    """Four shards."""
    return DataSet(tmp_path / "first", FIRST, shards=ShardConfig(4))


def test_the_samples_of_other_shards_are_compared(first: DataSet, tmp_path: Path) -> None:
    """Three shards are compared with the ranges of four; only the real changes are changes."""
    images = {**FIRST, "5.bmp": FIRST["5.bmp"]._replace(label="a"), "new": Image(1, "a")}
    again = DataSet(tmp_path / "again", images, first.as_earlier, shards=ShardConfig(3))
    assert again.reused == [False] * 3
    changed = [shard.samples for shard in again.changes]
    assert [key for samples in changed for key in samples.added] == ["new"]
    assert [key for samples in changed for key in samples.relabelled] == ["5.bmp"]
    assert not any(samples.removed or samples.changed for samples in changed)


def test_a_shard_among_another_number_of_shards_is_written(tmp_path: Path) -> None:
    """It may have the same samples, but another number."""
    one = {"5.bmp": FIRST["5.bmp"]}
    first = DataSet(tmp_path / "first", one)
    again = DataSet(tmp_path / "again", one, first.as_earlier, shards=ShardConfig(2))
    assert again.reused == [False, False]


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
    assert all(again.reused)
    assert not again.inodes() & first.inodes()
    assert again.contents() == first.contents()


def test_a_shard_that_vanishes_while_it_is_taken_is_written(first: DataSet, tmp_path: Path) -> None:
    """The look-up found it sound; a note says what happened."""
    task = first.tasks[1]
    found = first.as_earlier.look_up(inputs_of(task))
    assert found.reusable is not None
    (first.folder / task.spec.file_name).unlink()
    assert found.take(str(tmp_path / "again"), new=True) is None
    uri = files.join(str(first.folder), task.spec.file_name)
    assert found.notes == [
        f"{uri} was damaged or deleted meanwhile, or may not be read: the shard is written again"
    ]


@pytest.mark.parametrize(
    ("spoil", "note"),
    [
        (lambda receipt, _: receipt.unlink(), "{1} has no receipt"),
        (lambda receipt, _: receipt.write_bytes(b"?"), "{0} is damaged"),
        (lambda _, shard: shard.unlink(), "{1} is missing or damaged"),
        (lambda _, shard: os.truncate(shard, 99), "{1} is missing or damaged"),
    ],
)
def test_a_missing_or_damaged_file_costs_that_shard_alone(
    first: DataSet, tmp_path: Path, spoil: Callable[[Path, Path], None], note: str
) -> None:
    """Without a receipt nobody knows what it holds, so its samples count as added."""
    shard = first.folder / first.plan.shard_plan.spec(2).file_name
    receipt = first.folder / receipt_name(shard.name)
    spoil(receipt, shard)
    again = DataSet(tmp_path / "again", FIRST, first.as_earlier)
    assert again.reused == [True, True, False, True]
    fate, (said,) = again.changes[2], again.changes[2].notes
    assert note.format(receipt, shard) in said
    assert "shard is written again" in said
    assert ("its samples counted as added" in said) == bool(fate.samples.added)
    keys = {ref.key for ref in inputs_of(again.tasks[2]).refs}
    assert set(fate.samples.added) == (keys if note != "{1} is missing or damaged" else set())
    assert again.expected[2].samples == fate.samples
    assert again.expected[2].bytes == sum(len(PICTURES[FIRST[key].picture]) for key in keys)


def test_dead_letters_that_may_have_passed_are_found_again(tmp_path: Path) -> None:
    """An image that could not be read then is read now; a broken one is still broken."""
    images = {"a": Image(0, "a"), "b": Image(5, "b")}
    first = DataSet(tmp_path / "first", images)
    again = DataSet(tmp_path / "again", images, first.as_earlier)
    assert (again.reused, again.dead) == ([True], {"b"})
    gone = DataSet(tmp_path / "gone", images, gone=0)
    assert gone.dead == {"a", "b"}
    back = DataSet(tmp_path / "back", images, gone.as_earlier)
    assert (back.reused, back.changes[0].samples.added, back.dead) == ([False], ("a",), {"b"})


def test_the_shard_of_a_removed_sample_would_be_written(first: DataSet, tmp_path: Path) -> None:
    """Its bytes are those of its images; the other shards are reused as they are."""
    images = {key: image for key, image in FIRST.items() if key != "7.bmp"}
    now = DataSet(tmp_path / "now", images, first.as_earlier, shards=ShardConfig(4))
    (changed,) = (number for number, reused in enumerate(now.reused) if not reused)
    rest = sum(ref.size for ref in inputs_of(now.tasks[changed]).refs)
    expected = [ShardFate(NO_CHANGES, True, shard.bytes) for shard in now.changes]
    expected[changed] = ShardFate(SampleChanges(removed=("7.bmp",)), False, rest)
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        plan = pipeline | "Plan" >> beam.Create([now.plan])
        shards = pipeline | beam.Create([(i, task.batches) for i, task in enumerate(now.tasks)])
        request = WriteRequest(folder="", encoding=ENCODING, earlier=first.as_earlier)
        previewed = shards | preview_changes(plan, request)
        assert_that(previewed, equal_to(expected))
