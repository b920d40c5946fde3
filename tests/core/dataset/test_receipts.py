"""Receipts, and data sets compared by them."""

from __future__ import annotations

import gzip
import json
import re
import tracemalloc
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipeline.core.dataset import changes, receipts
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import ConversionError
from beam_pipeline.core.images.header import ImageHeader
from beam_pipeline.core.records import image_statistics, sharding, tfrecord
from beam_pipeline.core.references import SampleRef
from tests.rows import in_rows, raised

SPEC = sharding.ShardSpec("train", 1, 3, "d-train.tfrecord-00001-of-00003")
INFO = sharding.ShardInfo("train", 1, SPEC.file_name, 2, 1234, 4_000_000_000, ((0, 1), (7, 1)))
CAT = SampleRef("cat/a.jpg", "/in/cat/a.jpg", 99, "train", ("cat",), version=5)
DOG = SampleRef("dog/b.jpg", "/in/dog/b.jpg", 98, "train", ("dog",), version=6)


def inputs(*refs: SampleRef, classes: Any = None, **options: Any) -> receipts.ShardInputs:
    return receipts.ShardInputs(SPEC, list(refs), classes or {"cat": 0, "dog": 1}, options)


def receipt_of(*refs: SampleRef, dead: Any = (), **options: Any) -> receipts.Receipt:
    return receipts.Receipt(inputs(*refs, **options), INFO, list(dead))


def changed(**entries: Any) -> bytes:
    """A receipt of two samples and a dead letter with other entries."""
    dead = DeadLetter("check", "b.jpg", "/b.jpg", "corrupt_image", "broken", "l.csv", 3)
    content = json.loads(gzip.decompress(receipt_of(CAT, DOG, dead=[dead]).to_bytes()))
    return gzip.compress(json.dumps({**content, **entries}).encode(), mtime=0)


def damage_of(data: bytes) -> str:
    message = str(raised(ConversionError, receipts.parse_receipt, data, "out/r"))
    assert re.fullmatch(
        "out/r is damaged .*; remove it by hand, or convert again with --overwrite", message
    ), message
    return message


SCALARS = st.text(max_size=8) | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False)
BOXES = st.tuples(*[st.floats(0, 1)] * 4, st.integers(0, 9))
LABELS = SCALARS | st.none() | st.lists(SCALARS, max_size=3).map(tuple) | st.lists(BOXES).map(tuple)
REFS = st.builds(
    SampleRef,
    st.text(max_size=8),
    st.text(max_size=8),
    st.integers(0, 2**40),
    st.just("train"),
    st.tuples(LABELS, LABELS),
    st.integers(-1, 2**40),
    st.text(max_size=8),
    st.integers(0, 2**63),
    st.none() | st.tuples(st.integers(1, 9), st.integers(1, 9)),
    st.just(b""),
)


@given(
    refs=st.lists(REFS, max_size=4),
    dead_letters=st.lists(st.text(max_size=5), max_size=2),
    sizes=st.lists(st.integers(0), max_size=3),
    digest=st.just(b"") | st.binary(min_size=16, max_size=16),
)
def test_a_receipt_is_read_as_it_was_written(
    refs: list[SampleRef], dead_letters: list[str], sizes: list[int], digest: bytes
) -> None:
    """Every kind of label comes back as the same value of the same type."""
    dead = [DeadLetter("read", text, text, "unreadable", text, text, 3) for text in dead_letters]
    now = inputs(*refs, seed=1, columns=[{"name": "x"}])
    receipt = receipts.Receipt(now, INFO, dead, tuple(sizes), digest * len(refs))
    found = receipts.parse_receipt(receipt.to_bytes(), "r")
    assert found == receipt
    assert repr(found.inputs.refs) == repr(refs)  # 1 is not 1.0 is not True
    assert found.to_bytes() == receipt.to_bytes()


def test_the_statistics_of_a_shard_are_kept() -> None:
    """A receipt without them is one of an older version; one with others than counts is damaged."""
    gatherer = image_statistics.StatisticsGatherer()
    gatherer.add(ImageHeader("png", 3, 4, 1), 99, ("cat",))
    kept = receipts.Receipt(inputs(CAT), INFO._replace(statistics=gatherer.statistics()), [])
    found = receipts.parse_receipt(kept.to_bytes(), "r")
    assert found == kept
    assert found.info.statistics.counts["size"] == {"4 x 3": 1}
    statistics = json.loads(gzip.decompress(kept.to_bytes()))["statistics"]
    assert receipts.parse_receipt(changed(), "r").info == INFO
    for wrong in (5, [], ["x", *statistics[1:]], [1, {"format": 5}, {}, {}]):
        damage_of(changed(statistics=wrong))


def test_the_content_is_json_for_everybody() -> None:
    """gzip and JSON, a list a field of the samples."""
    data = receipt_of(CAT, DOG, seed=1).to_bytes()
    assert json.loads(gzip.decompress(data)) == {
        "version": 1,
        "spec": ["train", 1, 3, "d-train.tfrecord-00001-of-00003"],
        "samples": [
            *(["cat/a.jpg", "dog/b.jpg"], ["/in/cat/a.jpg", "/in/dog/b.jpg"], [99, 98]),
            *(["train", "train"], [["cat"], ["dog"]], [-1, -1], ["", ""], [5, 6]),
        ],
        "classes": {"cat": 0, "dog": 1},
        "options": {"seed": 1},
        "info": ["train", 1, SPEC.file_name, 2, 1234, 4_000_000_000, [[0, 1], [7, 1]]],
        "dead_letters": [],
    }
    assert receipts.receipt_name(SPEC.file_name) == ".receipts/d-train-00001-of-00003.json.gz"


def test_sizes_of_records_are_whole_numbers() -> None:
    """Nor are they in an object."""
    for sizes in ({}, [1.5], [True], ["1"]):
        assert "record_sizes" in damage_of(changed(record_sizes=sizes))


@in_rows
def test_changes_say_what_is_another(samples: Any, more: dict[str, Any], found: str) -> None:
    """A file that was only moved makes the same example."""
    refs = {"cat": CAT, "dog": DOG}
    now = inputs(*(refs[name]._replace(**fields) for name, fields in samples), **more)
    assert changes.input_differences(inputs(CAT, DOG, seed=0), now) == found


def test_what_makes_the_same_example_is_the_same() -> None:
    """A number that is none is not equal to itself; older versions wrote no claimed sizes."""
    first, second = (CAT._replace(labels=(float("nan"),)) for _ in range(2))
    small, large = (CAT._replace(claimed_size=size) for size in ((3, 4), (6, 8)))
    for then, now, found in (
        *((first, second, ""), (CAT, small, ""), (small, small, "")),
        (small, large, "1 changed (cat/a.jpg)"),
    ):
        assert changes.input_differences(inputs(then), inputs(now)) == found
    assert changes.compare_samples([first], [second]) == changes.NO_CHANGES


# --- receipts may be anybody's ------------------------------------------------------------------


@pytest.mark.promise("bombs")
def test_a_receipt_that_inflates_to_gigabytes_is_not_inflated() -> None:
    """3 MB that would be 3 GB: refused in bounded memory."""
    bomb = zlib.compressobj(9, zlib.DEFLATED, 31)
    chunk = bytes(1 << 20)
    start, block = (bomb.compress(chunk) + bomb.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    # a flushed block stands for itself, so that one is enough to compress
    data = start + block * 2999
    assert len(data) > 2_000_000
    tracemalloc.start()
    try:
        assert "it inflates to more than" in damage_of(data)
        assert tracemalloc.get_traced_memory()[1] < 400_000_000
    finally:
        tracemalloc.stop()


@in_rows
def test_a_value_of_another_type_is_damage(entries: dict[str, Any], message: str) -> None:
    """Each field is checked, and named."""
    assert message in damage_of(changed(**entries))


def test_other_damage_is_the_same_error() -> None:
    """Neither zlib's nor the parser's own errors come out."""
    texts = (b"{}", b"[1]", b"\xff", b"[" * 100_000, b'{"version":' + b"9" * 5000 + b"}")
    whole = changed()
    flipped = whole[:20] + bytes([whole[20] ^ 255]) + whole[21:]
    for data in (b"", b"x", *map(gzip.compress, texts), whole + b"x", flipped):
        damage_of(data)


MASK = SampleRef("a.jpg", "/in/a.jpg", 99, "train", (("/in/a.png", 7, 5),), version=5)


@in_rows
def test_a_mask_that_changed_is_noticed(mask: Any, said: str) -> None:
    """By its size and version, as the image is; it may have moved. JSON gives it back."""
    columns = [{"kind": "segmentation"}]
    then = receipts.parse_receipt(receipt_of(MASK, columns=columns).to_bytes(), "r").inputs
    assert list(then.refs) == [MASK]
    now = inputs(MASK._replace(labels=(mask,)), columns=columns)
    assert changes.input_differences(then, now) == said


def test_a_receipt_that_could_not_read_an_image_has_another_outcome() -> None:
    """Though its inputs are the same: perhaps the image can be read now."""
    now = inputs(CAT, DOG)
    dead = [DeadLetter("read", "dog/b.jpg", "/in/dog/b.jpg", "unreadable", "")]
    assert not changes.has_same_outcome(receipt_of(CAT, DOG, dead=dead), now)


A = SampleRef("a", "/old/a", 3, "train", ("cat",), version=1)


@in_rows
def test_a_sample_changes_with_its_image_or_its_labels(
    before: Any, after: Any, changed: bool, relabelled: bool
) -> None:
    """Where files lie does not count, nor the line of a box in its table."""
    found = changes.compare_samples([A._replace(**before)], [A._replace(**after)])
    assert (found.changed, found.relabelled) == (("a",) * changed, ("a",) * relabelled)
    assert (found.added, found.removed) == ((), ())


def test_samples_of_one_side_alone_are_added_or_removed() -> None:
    """Sorted by key."""
    after = [A._replace(key=key) for key in ("d", "a", "c")]
    before = [A._replace(key=key) for key in ("z", "a", "y")]
    found = changes.compare_samples(before, after)
    assert found == changes.SampleChanges(added=("c", "d"), removed=("y", "z"))
    assert found.counts == {"added": 2, "removed": 2, "changed": 0, "relabelled": 0}
    assert changes.summary_of(found.counts) == "2 added, 2 removed"
    assert changes.summary_of(changes.NO_CHANGES.counts) == "no changes"


def test_a_sample_that_left_one_part_for_another_has_changed() -> None:
    """Shard by shard, it was removed and added."""
    parts = [
        changes.SampleChanges(added=("a", "b")),
        changes.SampleChanges(removed=("b", "c"), changed=("d",)),
    ]
    assert changes.SampleChanges.sum_of(parts) == changes.SampleChanges(("a",), ("c",), ("b", "d"))
    assert changes.SampleChanges.sum_of([]) == changes.NO_CHANGES


@in_rows
def test_shards_meet_those_with_common_hashes(
    number: int, of: int, others: int, meeting: list[int]
) -> None:
    """Of the same split."""
    spec = sharding.ShardSpec("train", number, of, "x")
    plan = sharding.ShardPlan("d", (("test", 2), ("train", others)), tfrecord.TFRecordFormat())
    found = changes.shards_meeting(spec, plan)
    assert [(other.split, other.number) for other in found] == [("train", n) for n in meeting]


def test_the_file_adds_shards_up() -> None:
    """And is read back."""
    shards = [
        changes.ShardFate(changes.NO_CHANGES, True, 100),
        changes.ShardFate(changes.SampleChanges(added=("a",)), False, 20, ("x is damaged",)),
    ]
    gone = changes.SampleChanges(removed=("z",))
    content = changes.changes_file("gs://sets/1", shards, gone=gone, notes=["1 new class: 3 bee"])
    data = json.dumps(content).encode()
    assert content == {
        "format": "beam-tfrecord-changes",
        "format_version": 1,
        "since": "gs://sets/1",
        "samples": {"added": 1, "removed": 1, "changed": 0, "relabelled": 0},
        "shards": {"reused": 1, "written": 1},
        "bytes": {"reused": 100, "written": 20},
        "notes": ["1 new class: 3 bee", "x is damaged"],
    }
    del content["format"], content["format_version"]
    content["notes"] = tuple(content["notes"])
    assert changes.parse_changes(data, "x") == content
