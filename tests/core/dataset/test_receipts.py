"""Receipts, and data sets compared by them."""

from __future__ import annotations

import gzip
import json
import math
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
from tests.rows import in_rows

SPEC = sharding.ShardSpec("train", 1, 3, "d-train.tfrecord-00001-of-00003")
INFO = sharding.ShardInfo("train", 1, SPEC.file_name, 2, 1234, 4_000_000_000, ((0, 1), (7, 1)))
CAT = SampleRef("cat/a.jpg", "/in/cat/a.jpg", 99, "train", ("cat",), version=5)
DOG = SampleRef("dog/b.jpg", "/in/dog/b.jpg", 98, "train", ("dog",), version=6)


def inputs(
    *refs: SampleRef, classes: dict[str, int] | None = None, **options: Any
) -> receipts.ShardInputs:
    return receipts.ShardInputs(
        SPEC, list(refs), {"cat": 0, "dog": 1} if classes is None else classes, options
    )


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
    assert receipts.parse_record_sizes(receipt.to_bytes(), "r") == tuple(sizes)


def test_the_statistics_of_a_shard_are_kept() -> None:
    """A receipt without them is one of an older version; one with others than counts is damaged."""
    gatherer = image_statistics.StatisticsGatherer()
    gatherer.add(ImageHeader("png", 3, 4, 1), 99, ("cat",))
    kept = receipts.Receipt(inputs(CAT), INFO._replace(statistics=gatherer.statistics()), [])
    found = receipts.parse_receipt(kept.to_bytes(), "r")
    assert found == kept
    assert found.info.statistics.counts["size"] == {"4 x 3": 1}
    content = json.loads(gzip.decompress(kept.to_bytes()))
    statistics = content.pop("statistics")
    older = gzip.compress(json.dumps(content).encode())
    assert receipts.parse_receipt(older, "r").info == INFO
    for wrong in (5, [], ["x", *statistics[1:]], [1, {"format": 5}, {}, {}]):
        damaged = gzip.compress(json.dumps({**content, "statistics": wrong}).encode())
        with pytest.raises(ConversionError, match=r"^r is damaged"):
            receipts.parse_receipt(damaged, "r")


def test_the_content_is_json_for_everybody() -> None:
    """gzip and JSON, a list a field of the samples."""
    data = receipts.Receipt(inputs(CAT, DOG, seed=1), INFO, []).to_bytes()
    assert json.loads(gzip.decompress(data)) == {
        "version": 1,
        "spec": ["train", 1, 3, "d-train.tfrecord-00001-of-00003"],
        "samples": [
            ["cat/a.jpg", "dog/b.jpg"],
            ["/in/cat/a.jpg", "/in/dog/b.jpg"],
            [99, 98],
            ["train", "train"],
            [["cat"], ["dog"]],
            [-1, -1],
            ["", ""],
            [5, 6],
        ],
        "classes": {"cat": 0, "dog": 1},
        "options": {"seed": 1},
        "info": ["train", 1, SPEC.file_name, 2, 1234, 4_000_000_000, [[0, 1], [7, 1]]],
        "dead_letters": [],
    }
    assert receipts.receipt_name(SPEC.file_name) == ".receipts/d-train-00001-of-00003.json.gz"


@pytest.mark.parametrize("sizes", [{}, [1.5], [True], ["1"]])
def test_sizes_of_records_are_whole_numbers(sizes: object) -> None:
    """Either way of reading them says so."""
    content = json.loads(gzip.decompress(receipts.Receipt(inputs(), INFO, []).to_bytes()))
    data = gzip.compress(json.dumps({**content, "record_sizes": sizes}).encode())
    for read in (receipts.parse_receipt, receipts.parse_record_sizes):
        with pytest.raises(ConversionError, match=r"^r is damaged \(.*record_sizes .* by hand$"):
            read(data, "r")


@pytest.mark.parametrize(
    ("now", "found"),
    [
        (inputs(CAT, DOG, seed=0), ""),
        (inputs(CAT._replace(uri="gs://b/a.jpg", origin="l.csv"), DOG, seed=0), ""),
        (inputs(CAT, seed=0), "1 gone (dog/b.jpg)"),
        (inputs(CAT, DOG, DOG._replace(key="x"), seed=0), "1 added (x)"),
        (inputs(CAT._replace(size=1), DOG, seed=0), "1 changed (cat/a.jpg)"),
        (inputs(CAT._replace(version=1), DOG, seed=0), "1 changed (cat/a.jpg)"),
        (inputs(CAT._replace(labels=("dog",)), DOG, seed=0), "1 changed (cat/a.jpg)"),
        (
            inputs(CAT._replace(key="k"), seed=1),
            "1 added (k); 2 gone (cat/a.jpg, dog/b.jpg); seed was 0, is 1",
        ),
        (inputs(CAT, DOG, classes={"cat": 1, "dog": 2}, seed=0), "the ids of classes"),
    ],
)
def test_changes_say_what_is_another(now: receipts.ShardInputs, found: str) -> None:
    """A file that was only moved makes the same example."""
    assert changes.input_differences(inputs(CAT, DOG, seed=0), now) == found


def test_a_label_that_is_no_number_is_the_same_again() -> None:
    """NaN is not equal to itself, but makes the same example."""
    missing = CAT._replace(labels=(math.nan,))
    assert (
        changes.input_differences(inputs(missing), inputs(missing._replace(labels=(float("nan"),))))
        == ""
    )


def test_changed_options_are_named_to_the_depth() -> None:
    """Tuples are lists to JSON, so that what was read equals what was recorded."""
    then = {"seed": 0, "options": {"columns": [1], "shards": {"train": 1}}, "gone": "x"}
    now = {"seed": 1, "options": {"columns": (1,), "shards": {"train": 2}}}
    assert changes.option_differences(then, now) == [
        'gone was "x", is null',
        "options.shards.train was 1, is 2",
        "seed was 0, is 1",
    ]


def test_a_container_is_named_as_its_option() -> None:
    """The usual one is not recorded."""
    assert changes.option_differences({}, {"record_format": "webdataset"}) == [
        'format was "tfrecord", is "webdataset"'
    ]


# --- receipts may be anybody's ------------------------------------------------------------------


def whole() -> bytes:
    """A receipt with a value of every kind in it."""
    dead_letter = DeadLetter("check", "b.jpg", "/b.jpg", "corrupt_image", "broken", "l.csv", 3)
    return receipts.Receipt(inputs(CAT, DOG, seed=0), INFO, [dead_letter]).to_bytes()


def packed(content: Any) -> bytes:
    return gzip.compress(json.dumps(content).encode(), mtime=0)


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
        with pytest.raises(ConversionError, match="it inflates to more than"):
            receipts.parse_receipt(data, "r")
        assert tracemalloc.get_traced_memory()[1] < 400_000_000
    finally:
        tracemalloc.stop()


@in_rows
def test_a_value_of_another_type_is_damage(change: dict[str, Any], message: str) -> None:
    """Each field is checked, and named."""
    content = json.loads(gzip.decompress(whole()))
    with pytest.raises(ConversionError, match=f"^r is damaged .*{message}.*remove it by hand$"):
        receipts.parse_receipt(packed({**content, **change}), "r")


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"x", *(gzip.compress(text, mtime=0) for text in (b"{}", b"[1]", b"\xff"))),
        gzip.compress(b"[" * 100_000, mtime=0),
        gzip.compress(b'{"version":' + b"9" * 5000 + b"}", mtime=0),
        whole() + b"x",
        whole()[:20] + bytes([whole()[20] ^ 255]) + whole()[21:],
    ],
    ids=range(9),
)
def test_other_damage_is_the_same_error(data: bytes) -> None:
    """Neither zlib's nor the parser's own errors come out."""
    with pytest.raises(ConversionError, match=r"^out/r is damaged .* remove it by hand$"):
        receipts.parse_receipt(data, "out/r")


def test_a_receipt_without_claimed_sizes_is_as_older_versions_wrote_it() -> None:
    """Eight lists of fields; such a receipt is read, and a size that is claimed now changes nothing."""
    receipt = receipts.Receipt(inputs(CAT, DOG), INFO, [])
    content = json.loads(gzip.decompress(receipt.to_bytes()))
    assert len(content["samples"]) == 8
    assert receipts.parse_receipt(receipt.to_bytes(), "r") == receipt
    small, large = (CAT._replace(claimed_size=size) for size in ((3, 4), (6, 8)))
    assert changes.input_differences(inputs(CAT), inputs(small)) == ""
    assert changes.input_differences(inputs(small), inputs(small)) == ""
    assert changes.input_differences(inputs(small), inputs(large)) == "1 changed (cat/a.jpg)"


MASK = SampleRef("a.jpg", "/in/a.jpg", 99, "train", (("/in/a.png", 7, 5),), version=5)


@in_rows
def test_a_mask_that_changed_is_noticed(mask: Any, said: str) -> None:
    """By its size and version, as the image is; it may have moved. JSON gives it back."""
    columns = [{"kind": "segmentation"}]
    receipt = receipts.Receipt(inputs(MASK, columns=columns), INFO, [])
    then = receipts.parse_receipt(receipt.to_bytes(), "r").inputs
    assert list(then.refs) == [MASK]
    assert (
        changes.input_differences(then, inputs(MASK._replace(labels=(mask,)), columns=columns))
        == said
    )


def test_a_receipt_that_could_not_read_an_image_has_another_outcome() -> None:
    """Though its inputs are the same: perhaps the image can be read now."""
    now = inputs(CAT, DOG)
    dead = [DeadLetter("read", "dog/b.jpg", "/in/dog/b.jpg", "unreadable", "")]
    assert not changes.has_same_outcome(receipts.Receipt(now, INFO, dead), now)


A = SampleRef("a", "/old/a", 3, "train", ("cat",), version=1)


@pytest.mark.parametrize(
    ("then", "now", "changed", "relabelled"),
    [
        (A, A._replace(uri="/new/a", origin="labels2.csv"), False, False),
        (A, A._replace(version=2), True, False),
        (A, A._replace(size=4), True, False),
        (A, A._replace(split="test"), True, False),
        (A, A._replace(labels=("dog",)), False, True),
        (A, A._replace(version=2, labels=("dog",)), True, True),
        (A._replace(labels=(float("nan"),)), A._replace(labels=(float("nan"),)), False, False),
        (
            A._replace(labels=(((0.0, 0.0, 1.0, 1.0, 4),), ("x",))),
            A._replace(labels=(((0.0, 0.0, 1.0, 1.0, 9),), ("x",))),
            False,
            False,
        ),
        (
            A._replace(labels=(((0.0, 0.0, 1.0, 1.0, 4),),)),
            A._replace(labels=(((0.0, 0.5, 1.0, 1.0, 4),),)),
            False,
            True,
        ),
    ],
)
def test_a_sample_changes_with_its_image_or_its_labels(
    then: SampleRef, now: SampleRef, changed: bool, relabelled: bool
) -> None:
    """Where files lie does not count, nor the line of a box in its table."""
    keys = (("a",) if changed else (), ("a",) if relabelled else ())
    assert changes.compare_samples([then], [now]) == changes.SampleChanges((), (), *keys)


def test_samples_of_one_side_alone_are_added_or_removed() -> None:
    """Sorted by key."""
    after = [A._replace(key=key) for key in ("d", "a", "c")]
    before = [A._replace(key=key) for key in ("z", "a", "y")]
    found = changes.compare_samples(before, after)
    assert found == changes.SampleChanges(added=("c", "d"), removed=("y", "z"))
    assert found.counts == {"added": 2, "removed": 2, "changed": 0, "relabelled": 0}
    assert found.summary == "2 added, 2 removed"
    assert changes.NO_CHANGES.summary == "no changes"


def test_a_sample_that_left_one_part_for_another_has_changed() -> None:
    """Shard by shard, it was removed and added."""
    parts = [
        changes.SampleChanges(added=("a", "b")),
        changes.SampleChanges(removed=("b", "c"), changed=("d",)),
    ]
    assert changes.SampleChanges.sum_of(parts) == changes.SampleChanges(("a",), ("c",), ("b", "d"))
    assert changes.SampleChanges.sum_of([]) == changes.NO_CHANGES


def _plan(of: int) -> sharding.ShardPlan:
    return sharding.ShardPlan("d", (("test", 2), ("train", of)), tfrecord.TFRecordFormat())


@in_rows
def test_shards_meet_those_with_common_hashes(
    number: int, of: int, others: int, meeting: list[int]
) -> None:
    """Of the same split."""
    spec = sharding.ShardSpec("train", number, of, "x")
    found = changes.shards_meeting(spec, _plan(others))
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
