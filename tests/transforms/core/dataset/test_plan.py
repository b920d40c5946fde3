from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from beam_pipeline.transforms.core.dataset.plan import (
    NOT_COUNTED_AS_BAD,
    Plan,
    Tally,
    accounting_error,
    all_filtered,
    make_plan,
    nothing_joined,
    too_many_bad,
)
from beam_pipeline.transforms.core.dataset.plausibility import LabelChecks
from beam_pipeline.transforms.core.dataset.sharding import ShardConfig, ShardInfo, ShardPlan
from beam_pipeline.transforms.core.dead_letters import DeadLetter, Reason
from beam_pipeline.transforms.core.failures import Refusal
from beam_pipeline.transforms.core.labels.classes import ClassNumbering
from beam_pipeline.transforms.core.listing.label_files import LabelFile, LabelFiles
from beam_pipeline.transforms.core.records.tfrecord_format import TFRecordFormat
from beam_pipeline.transforms.core.references import SampleRef


def label_files(keys: Sequence[str]) -> LabelFiles:
    """What a listing counts of these files."""
    found = LabelFiles()
    for key in keys:
        found.see(LabelFile(key, f"/photos/{key}"))
    return found


COUNTS = st.dictionaries(st.sampled_from("abcd"), st.integers(1, 9), max_size=3).map(Counter)
TALLIES = st.builds(
    Tally,
    listed=st.integers(0, 99),
    ignored=COUNTS,
    label_files=st.lists(st.sampled_from(["a.csv", "b.csv", "c.csv", "d.xml"])).map(label_files),
    label_rows=st.integers(0, 99),
    orphan_rows=st.integers(0, 99),
    repeated_rows=st.integers(0, 99),
    samples=COUNTS,
    sample_bytes=COUNTS,
    classes=COUNTS,
    dead=COUNTS,
    shown=st.dictionaries(
        st.sampled_from("ab"), st.lists(st.text(max_size=3), min_size=1, max_size=3).map(sorted)
    ),
    refusals=st.lists(
        st.builds(Refusal, st.sampled_from(["UsageError", "ListingError"]), st.text(max_size=3)),
        max_size=2,
    ).map(sorted),
    first=st.dictionaries(
        st.sampled_from("ab"),
        st.tuples(st.text(max_size=2), st.just("m"), st.just("f"), st.integers(0, 2)),
    ),
)


def total(*tallies: Tally) -> Tally:
    whole = Tally()
    for tally in tallies:
        whole.add(tally)
    return whole


def dead_letter(reason: Reason, key: str) -> DeadLetter:
    return DeadLetter("join", key, "", reason.value, "message")


def sample(key: str, *labels: Any, split: str = "train", size: int = 10) -> SampleRef:
    return SampleRef(key, f"/photos/{key}", size, split, labels)


def plan_of(tally: Tally, **choices: Any) -> Plan:
    settings: dict[str, Any] = {
        "name": "birds",
        "shards": ShardConfig(),
        "splits": (),
        "record_format": TFRecordFormat(),
        "max_bad_fraction": 0.01,
        "numbering": ClassNumbering(),
    }
    return make_plan(tally, **settings | choices)


def shard(file_name: str, examples: int) -> ShardInfo:
    return ShardInfo("train", 0, file_name, examples, 100, 1, ())


# --- tallies ------------------------------------------------------------------------------------


@given(one=TALLIES, other=TALLIES, third=TALLIES)
def test_tallies_add_up_in_any_order(one: Tally, other: Tally, third: Tally) -> None:
    """Whichever worker's counts come first, and whichever are added together first."""
    assert total(one, other) == total(other, one)
    assert total(total(one, other), third) == total(one, total(other, third))
    assert total(one, Tally()) == one


@given(one=TALLIES, other=TALLIES)
def test_adding_a_tally_leaves_it_as_it_is(one: Tally, other: Tally) -> None:
    """An element of a pipeline is not changed by what is made of it."""
    before = total(other)
    whole = total(one, other)
    whole.add_dead_letters([dead_letter(Reason.UNREADABLE, "x")])
    whole.add_samples([sample("x", "cat")], 0)
    whole.ignored["a"] += 1
    assert other == before


def test_every_count_is_added() -> None:
    """Each figure of the sum is the sum of the figures."""
    one = Tally(
        listed=1,
        ignored=Counter({".txt": 2}),
        label_rows=3,
        orphan_rows=4,
        repeated_rows=5,
        samples=Counter({"train": 6}),
        sample_bytes=Counter({"train": 7}),
        classes=Counter({"cat": 8}),
        dead=Counter({"bad_row": 9}),
        shown={"bad_row": ["b", "d"]},
        refusals=[Refusal("UsageError", "b")],
    )
    other = Tally(
        listed=10,
        ignored=Counter({".txt": 10, ".db": 1}),
        label_rows=10,
        orphan_rows=10,
        repeated_rows=10,
        samples=Counter({"test": 10}),
        sample_bytes=Counter({"train": 10}),
        classes=Counter({"dog": 10}),
        dead=Counter({"bad_row": 10}),
        shown={"bad_row": ["a", "c"], "unreadable": ["x"]},
        refusals=[Refusal("UsageError", "a")],
    )
    one.add(other)
    assert one == Tally(
        listed=11,
        ignored=Counter({".txt": 12, ".db": 1}),
        label_rows=13,
        orphan_rows=14,
        repeated_rows=15,
        samples=Counter({"train": 6, "test": 10}),
        sample_bytes=Counter({"train": 17}),
        classes=Counter({"cat": 8, "dog": 10}),
        dead=Counter({"bad_row": 19}),
        shown={"bad_row": ["a", "b", "c"], "unreadable": ["x"]},
        refusals=[Refusal("UsageError", "a"), Refusal("UsageError", "b")],
    )


def test_samples_are_counted_by_split_and_class() -> None:
    """Bytes are those of the images, and without a class column there are no classes."""
    samples = [
        sample("a", 3, "cat", size=10),
        sample("b", 4, "dog", size=20),
        sample("c", None, "cat", size=5, split="test"),
    ]
    tally = Tally()
    tally.add_samples(samples, 1)
    assert tally == Tally(
        samples=Counter({"train": 2, "test": 1}),
        sample_bytes=Counter({"train": 30, "test": 5}),
        classes=Counter({"cat": 2, "dog": 1}),
    )
    without = Tally()
    without.add_samples(samples, None)
    assert without.classes == Counter()


def test_objects_are_counted_where_samples_have_lists_of_classes() -> None:
    """A sample counts once for each of its objects, and one without objects for none."""
    tally = Tally()
    tally.add_samples(
        [sample("a", ("cat", "dog", "cat")), sample("b", ()), sample("c", ("dog",))], 0
    )
    assert tally.classes == {"cat": 2, "dog": 2}
    assert tally.samples == {"train": 3}


def test_the_first_keys_of_each_reason_are_kept() -> None:
    """Three of them, the first in order, however many dead letters come in however many calls."""
    tally = Tally()
    tally.add_dead_letters([dead_letter(Reason.UNREADABLE, key) for key in "fdeb"])
    tally.add_dead_letters([dead_letter(Reason.UNREADABLE, "c"), dead_letter(Reason.BAD_ROW, "z")])
    assert tally.dead == {"unreadable": 5, "bad_row": 1}
    assert tally.shown == {"unreadable": ["b", "c", "d"], "bad_row": ["z"]}


def test_an_image_without_a_label_of_use_is_not_held_against_the_run() -> None:
    """Nor one that --classes, --exclude, --duplicates or a filter leaves out; every other is."""
    tally = Tally()
    tally.add_dead_letters([dead_letter(reason, "x") for reason in Reason])
    tally.add_dead_letters([dead_letter(Reason.UNLABELLED, "y")])
    assert tally.dead.total() == len(Reason) + 1
    assert tally.bad == len(Reason) - 8
    assert sorted(NOT_COUNTED_AS_BAD) == [
        "duplicate",
        "excluded",
        "filtered_max_aspect",
        "filtered_max_image_bytes",
        "filtered_max_pixels",
        "filtered_min_side",
        "unknown_class",
        "unlabelled",
    ]


def test_a_run_whose_filters_leave_nothing_is_refused() -> None:
    """An empty data set is never meant; one example is enough, and other dead letters are not filters."""
    tally = Tally(listed=5)
    tally.add_dead_letters([dead_letter(Reason.UNREADABLE, "a")])
    assert all_filtered(tally, []) is None
    tally.add_dead_letters([dead_letter(Reason.FILTERED_MAX_PIXELS, key) for key in "bcd"])
    tally.add_dead_letters([dead_letter(Reason.FILTERED_MIN_SIDE, "e")])
    assert all_filtered(tally, []) == Refusal(
        "NothingLeftError",
        "no image is left: of 5 listed images, the filters leave out 1 by --min_side, 3 by "
        "--max_pixels. dead_letters.jsonl lists them with their sizes; choose other limits",
    )
    info = ShardInfo("train", 0, "x", examples=1, bytes=1, crc32c=0, classes=())
    assert all_filtered(tally, [info]) is None


# --- plans --------------------------------------------------------------------------------------


def test_a_plan_lays_out_every_split() -> None:
    """Splits by name, those that got nothing included; shards by size; classes by code point."""
    tally = Tally(
        listed=6,
        samples=Counter({"train": 4, "test": 2}),
        sample_bytes=Counter({"train": 401, "test": 100}),
        classes=Counter({"dog": 1, "cat": 3, "Äffchen": 1, "Zebra": 1}),
    )
    plan = plan_of(
        tally,
        shards=ShardConfig(shard_bytes=100),
        splits=("train", "validation"),
        record_format=TFRecordFormat("gzip"),
    )
    assert plan == Plan(
        ShardPlan("birds", (("test", 1), ("train", 5), ("validation", 1)), TFRecordFormat("gzip")),
        (("Zebra", 0), ("cat", 1), ("dog", 2), ("Äffchen", 3)),
        tally,
        None,
    )
    assert plan.class_ids == {"Zebra": 0, "cat": 1, "dog": 2, "Äffchen": 3}
    from_one = plan_of(tally, numbering=ClassNumbering(base=1))
    assert from_one.class_ids == {"Zebra": 1, "cat": 2, "dog": 3, "Äffchen": 4}


@pytest.mark.parametrize(
    ("config", "refused"),
    [
        (ShardConfig(shard_bytes=100), "100 bytes, which makes 67456 shards of 60 samples"),
        (ShardConfig({"test": 9}, shard_bytes=100), "100 bytes, which makes 67456 shards"),
        (ShardConfig(shard_bytes=1), "1 byte, which makes 6745600 shards of 60 samples"),
        (ShardConfig(shard_bytes=6_745_600 // 60), ""),
        (ShardConfig(600, shard_bytes=100), ""),
        (ShardConfig(), ""),
    ],
)
def test_more_shards_than_samples_are_a_size_without_its_unit(
    config: ShardConfig, refused: str
) -> None:
    """Unless their number was asked for; and such shards are not even named."""
    tally = Tally(listed=60, samples=Counter(train=60), sample_bytes=Counter(train=6_745_600))
    plan = plan_of(tally, shards=config, splits=("test",))
    if not refused:
        assert plan.refusal is None
        return
    assert plan.refusal is not None
    assert plan.refusal.message.startswith(f"--shard_size is {refused}")
    assert plan.refusal.message.endswith(
        "with its unit, such as --shard_size 200MB, or --num_shards"
    )
    assert plan.shard_plan.specs == []


def test_a_petabyte_may_have_millions_of_shards() -> None:
    """Where each holds many samples, whoever chose the size."""
    tally = Tally(listed=10**9, samples=Counter(train=10**9), sample_bytes=Counter(train=10**15))
    for config in (ShardConfig(), ShardConfig(shard_bytes=10**8)):
        plan = plan_of(tally, shards=config)
        assert plan.refusal is None
        assert plan.shard_plan.shards == (("train", 10**15 // config.shard_bytes),)


def test_sizes_that_no_disk_has_make_no_shards_without_number() -> None:
    """As an inventory may claim them, also with the default size of a shard."""
    tally = Tally(listed=2, samples=Counter(train=2), sample_bytes=Counter(train=2**64))
    plan = plan_of(tally, shards=ShardConfig())
    assert plan.refusal is not None
    assert "makes 92233720369 shards of 2 samples" in plan.refusal.message
    assert plan.shard_plan.specs == []


def test_classes_that_the_format_knows_are_planned_without_a_sample() -> None:
    """Their ids are the format's, whatever samples there are."""
    numbering = ClassNumbering(known=(("airplane", 0), ("bird", 2)))
    tally = Tally(listed=1, samples=Counter({"train": 1}))
    assert plan_of(tally, numbering=numbering).classes == (("airplane", 0), ("bird", 2))
    assert plan_of(tally).classes == ()


def test_a_class_that_cannot_be_an_id_refuses_the_run() -> None:
    """The message names the option that asked for it, and what was refused before comes first."""
    tally = Tally(listed=2, samples=Counter({"train": 2}), classes=Counter({"7": 1, "cat": 1}))
    plan = plan_of(tally, numbering=ClassNumbering(from_name=True))
    assert plan.refusal == Refusal(
        "UsageError",
        "--label_from_folder_name: class 'cat' is not an integer, so it cannot be an id; rename it or "
        "leave the option out",
    )
    assert plan.classes == ()
    tally.refusals.append(Refusal("ListingError", "x"))
    plan = plan_of(tally, numbering=ClassNumbering(from_name=True))
    assert plan.refusal == Refusal("ListingError", "x")


def test_a_number_of_shards_for_a_split_that_is_not_there_is_refused() -> None:
    """The message lists the splits there are."""
    tally = Tally(listed=2, samples=Counter({"train": 1, "test": 1}))
    asked = ShardConfig({"train": 2, "valid": 1, "dev": 1})
    assert plan_of(tally, shards=asked).refusal == Refusal(
        "UsageError",
        "--num_shards names the split dev, valid, but the splits are test, train",
    )
    assert plan_of(tally, shards=asked, splits=("valid", "dev")).refusal is None
    assert plan_of(tally, shards=ShardConfig({"train": 2})).refusal is None


def test_what_a_stage_refused_comes_first() -> None:
    """Nothing that follows from it is said in its place."""
    refusal = Refusal("ListingError", "/photos/x cannot be listed")
    assert plan_of(Tally(refusals=[refusal, Refusal("UsageError", "z")])).refusal == refusal


@pytest.mark.parametrize(
    "tally",
    [
        Tally(refusals=[Refusal("ListingError", "x")]),
        Tally(),
        Tally(listed=1, samples=Counter({"train": 1}), dead=Counter({"bad_row": 1})),
    ],
)
def test_a_refusal_names_an_error_that_there_is(tally: Tally) -> None:
    """At the end of the job it becomes an error of that class."""
    refusal = plan_of(tally).refusal
    assert refusal is not None
    assert type(refusal.to_error()).__name__ == refusal.error


@pytest.mark.parametrize("classes", [Counter(), Counter(cat=6)])
def test_a_flat_folder_with_a_table_is_asked_about_the_table(classes: Counter[str]) -> None:
    """Rather than told that nothing has a label; a single class is asked about in the same error."""
    tally = Tally(listed=6, samples=Counter(train=classes.total()), classes=classes)
    tally.label_files = label_files(["labels.csv"])
    checks = LabelChecks("folder names", command="convert", unseen=True)
    refusal = plan_of(tally, checks=checks).refusal
    assert refusal is not None
    assert refusal.error == "QuestionError"
    asked = [line[2:9] for line in refusal.message.splitlines() if line.startswith("- ")]
    assert asked == ["1 .csv ", *(["There i"] if classes else [])]
    plan = plan_of(tally, checks=replace(checks, assumed=True))
    assert len(plan.questions) == len(asked)
    assert (plan.refusal is None) == bool(classes)


# --- nothing joined -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tally", "message"),
    [
        (Tally(), "no images found; check --images"),
        (
            Tally(ignored=Counter({".txt": 2, "hidden files": 1, ".csv": 3}), label_rows=5),
            "no images found (passed over: 3 .csv, 2 .txt, 1 hidden files); check --images",
        ),
        (
            Tally(
                listed=2, dead=Counter({"unlabelled": 2}), shown={"unlabelled": ["a.jpg", "b.jpg"]}
            ),
            "none of 2 images has a label: there are no label rows, and no class folders (images "
            "are 'a.jpg', 'b.jpg'). Give --labels with rows, put each class's images into a folder of "
            "its own, or take the class from the names with --label_from, such as "
            "'(?P<label>[a-z]+)[._]?[0-9]+[.]jpg'; --unlabelled keep writes images without labels",
        ),
        (
            Tally(
                listed=2,
                dead=Counter({"bad_label_value": 2}),
                shown={"bad_label_value": ["a", "b"]},
            ),
            "none of 2 images can be written: 2 bad_label_value (such as 'a', 'b'): a value is empty "
            "where one is needed or is not of its column's type",
        ),
        (
            Tally(
                listed=2,
                label_rows=3,
                orphan_rows=3,
                unlabelled=2,
                samples=Counter({"train": 2}),
                dead=Counter({"missing_image": 3}),
                shown={"unlabelled": ["a.jpg", "b.jpg"], "missing_image": ["1", "2", "3"]},
            ),
            "none of 2 images met one of 3 label rows (3 missing_image). Images are named like "
            "'a.jpg', 'b.jpg'; rows name '1', '2', '3'. Check --images, --labels and --key_column",
        ),
        (
            Tally(
                listed=2,
                label_rows=3,
                orphan_rows=3,
                dead=Counter({"unlabelled": 2, "missing_image": 3}),
                shown={"unlabelled": ["a.jpg", "b.jpg"], "missing_image": ["1", "2", "3"]},
            ),
            "none of 2 images met one of 3 label rows (3 missing_image, 2 unlabelled). Images are "
            "named like 'a.jpg', 'b.jpg'; rows name '1', '2', '3'. "
            "Check --images, --labels and --key_column",
        ),
        (
            Tally(listed=1, label_rows=1, dead=Counter({"bad_label_value": 1})),
            "none of 1 images met one of 1 label rows (1 bad_label_value). Images are named like "
            "none; rows name none. Check --images, --labels and --key_column",
        ),
    ],
)
def test_a_run_in_which_nothing_met_is_refused(tally: Tally, message: str) -> None:
    """The message says how both sides are named, for that is what is wrong most of the time."""
    assert nothing_joined(tally) == Refusal("NothingJoinedError", message)
    assert plan_of(tally).refusal == Refusal("NothingJoinedError", message)


def test_names_that_are_nearly_met_are_shown_with_the_first_dead_letter() -> None:
    """The row and the image that are most alike, and what the row's own dead letter says."""
    tally = Tally(listed=2, label_rows=2, orphan_rows=2)
    tally.add_dead_letters(
        [
            DeadLetter("join", "img/7.png", "", "missing_image", "no such image", "/l.csv", 3),
            DeadLetter("join", "img/1.png", "", "missing_image", "no such image", "/l.csv", 2),
            DeadLetter("join", "0001.jpg", "/x/0001.jpg", "unlabelled", "no row"),
            DeadLetter("join", "img_1.png", "/x/img_1.png", "unlabelled", "no row"),
        ]
    )
    assert nothing_joined(tally) == Refusal(
        "NothingJoinedError",
        "none of 2 images met one of 2 label rows (2 missing_image, 2 unlabelled). Images are named "
        "like '0001.jpg', 'img_1.png'; rows name 'img/1.png', 'img/7.png'. The first missing_image, "
        "'img/1.png' (/l.csv, line 2): no such image. Nearest to each other are the row 'img/1.png' "
        "and the image 'img_1.png'. Check --images, --labels and --key_column",
    )


def test_a_name_that_the_pattern_does_not_match_is_said() -> None:
    """With --label_from there are neither rows nor folders to look at."""
    tally = Tally(listed=1)
    message = "its name 'a.jpg' does not match --label_from x"
    tally.add_dead_letters([DeadLetter("join", "a.jpg", "/a.jpg", "unlabelled", message)])
    refusal = nothing_joined(tally)
    assert refusal is not None
    assert refusal.message.endswith(f". Of the first: {message}")


@pytest.mark.parametrize(("unlabelled", "refused"), [(50, False), (51, True)])
def test_most_images_without_a_label_are_a_question(unlabelled: int, refused: bool) -> None:
    """Half of them may be; the message shows three and every other reason, and the way out."""
    tally = Tally(listed=100, label_rows=60, samples=Counter({"train": 100 - unlabelled}))
    tally.add_dead_letters(
        [dead_letter(Reason.UNLABELLED, f"{i:02d}.jpg") for i in range(unlabelled)]
        + [DeadLetter("labels", "", "", "bad_row", "look for a quote", "/l.csv", 9)]
    )
    assert plan_of(tally, max_bad_fraction=0.1).refusal is None
    plan = plan_of(tally, max_bad_fraction=0.1, may_be_unlabelled=False)
    expected = Refusal(
        "QuestionError",
        "51 of 100 images have no label, such as '00.jpg', '01.jpg', '02.jpg'; besides, 1 bad_row "
        "(/l.csv, line 9): look for a quote. A data set without them is seldom meant: check "
        "--labels, or name fewer images in --images; --yes leaves them out",
    )
    assert plan.refusal == (expected if refused else None)


def test_one_sample_is_enough() -> None:
    """Nothing else is asked for."""
    assert nothing_joined(Tally(listed=9, samples=Counter({"train": 1}))) is None


# --- bad samples --------------------------------------------------------------------------------


@pytest.mark.promise("too_many_bad")
def test_too_many_bad_samples_are_refused() -> None:
    """The message counts each reason, shows keys of it and says what to do."""
    tally = Tally(
        listed=100,
        samples=Counter({"train": 90}),
        dead=Counter({"unlabelled": 50, "unreadable": 4, "bad_row": 2}),
        shown={"unreadable": ["a.jpg", "b.jpg"], "bad_row": [""], "unlabelled": ["x"]},
    )
    expected = Refusal(
        "TooManyBadSamplesError",
        "6 bad samples among 100 listed images, 0.05 of them allowed: 2 bad_row (such as ''), "
        "4 unreadable (such as 'a.jpg', 'b.jpg'). "
        "dead_letters.jsonl lists them; fix them or raise --max_bad_fraction",
    )
    assert too_many_bad(tally, 0.05) == expected
    assert plan_of(tally, max_bad_fraction=0.05).refusal == expected
    assert too_many_bad(tally, 0.06) is None
    assert plan_of(tally, max_bad_fraction=0.06).refusal is None


@pytest.mark.parametrize(
    ("bad", "listed", "allowed", "refused"),
    [
        (0, 100, 0.0, False),
        (1, 100, 0.0, True),
        (1, 100, 0.01, False),
        (2, 100, 0.01, True),
        (1, 99, 0.01, True),
        (100, 100, 1.0, False),
        (200, 100, 1.0, False),
        (0, 0, 0.0, False),
        (1, 0, 1.0, False),
    ],
)
def test_as_many_bad_samples_as_allowed_are_allowed(
    bad: int, listed: int, allowed: float, refused: bool
) -> None:
    """The share is of the listed images, and the bound itself is within it; 1 allows any number."""
    tally = Tally(listed=listed, dead=Counter({"unreadable": bad, "unlabelled": 1000}))
    assert (too_many_bad(tally, allowed) is not None) is refused


@given(bad=st.integers(0, 200), good=st.integers(1, 2000))
@example(bad=29, good=71)
def test_a_fraction_that_is_met_exactly_is_not_exceeded(bad: int, good: int) -> None:
    """Whatever the figures, a run with exactly the share that is allowed goes on."""
    tally = Tally(listed=bad + good, dead=Counter({"unreadable": bad}))
    assert too_many_bad(tally, bad / (bad + good)) is None


def test_a_split_may_not_stay_empty_where_groups_or_classes_are_divided() -> None:
    """Shares alone may leave one empty, as a small set does."""
    tally = Tally(listed=9, samples=Counter({"train": 9}))
    wishes: dict[str, Any] = {
        "name": "x",
        "shards": ShardConfig(),
        "splits": ("train", "validation", "test"),
        "record_format": TFRecordFormat(),
        "max_bad_fraction": 0,
        "numbering": ClassNumbering(),
    }
    assert make_plan(tally, **wishes).refusal is None
    assert make_plan(tally, none_empty=True, **wishes).refusal == Refusal(
        "UsageError",
        "--splits: not one of 9 samples fell into validation, test; there are too few groups, or too "
        "few samples in each class, for so small a share. Give it a larger share, divide groups with "
        "--stratify, or try another --seed",
    )
    tally.samples.update({"validation": 1, "test": 1})
    assert make_plan(tally, none_empty=True, **wishes).refusal is None


def test_unlabelled_samples_have_no_class() -> None:
    """They are counted as such, and their first keys are shown."""
    tally = Tally()
    refs = [SampleRef(f"{i}.jpg", "u", 3, "train", (label,)) for i, label in enumerate("ab")]
    refs += [SampleRef(f"{i}.jpg", "u", 3, "train", (None,)) for i in range(9, 4, -1)]
    tally.add_samples(refs, 0)
    tally.add_unlabelled([ref.key for ref in refs[2:]])
    tally.add_unlabelled([])
    total = Tally(unlabelled=1)
    total.add(tally)
    assert total.classes == {"a": 1, "b": 1}
    assert total.samples == {"train": 7}
    assert total.unlabelled == 6
    assert total.shown == {"unlabelled": ["5.jpg", "6.jpg", "7.jpg"]}


# --- accounting ---------------------------------------------------------------------------------

PLAN = Plan(ShardPlan("x", (("train", 2),), TFRecordFormat()), (), Tally(), None)
NAMES = ("x-train.tfrecord-00000-of-00002", "x-train.tfrecord-00001-of-00002")
REPORT = "No manifest is written. This is a fault of the program or the runner; please report it"


def balance(tally: Tally, shards: Sequence[ShardInfo]) -> Refusal | None:
    return accounting_error(PLAN, tally, shards)


def test_an_accounting_that_balances_is_no_error() -> None:
    """Listed images and rows without an image are examples and dead letters; shards in any order."""
    tally = Tally(listed=10, orphan_rows=2, dead=Counter({"unreadable": 3, "missing_image": 2}))
    shards = [shard(NAMES[1], 3), shard(NAMES[0], 4)]
    assert balance(tally, shards) is None


@pytest.mark.promise("miscounted")
@pytest.mark.parametrize("examples", [6, 8])
def test_a_sample_lost_or_doubled_is_found(examples: int) -> None:
    """The message has all four figures."""
    tally = Tally(listed=10, orphan_rows=2, dead=Counter({"unreadable": 3, "missing_image": 2}))
    assert balance(tally, [shard(NAMES[0], examples), shard(NAMES[1], 0)]) == Refusal(
        "LostSamplesError",
        f"10 listed images + 2 label rows without an image are not {examples} examples + 5 dead "
        f"letters: samples were lost or doubled. {REPORT}",
    )


@pytest.mark.promise("miscounted")
@pytest.mark.parametrize(
    "names", [[], NAMES[:1], [*NAMES, NAMES[0]], [NAMES[0], NAMES[0]], [NAMES[0], "y"]]
)
def test_a_shard_missing_doubled_or_unknown_is_found(names: Sequence[str]) -> None:
    """Every shard of the plan must have been written once."""
    refusal = balance(Tally(), [shard(name, 0) for name in names])
    assert refusal is not None
    assert refusal.error == "LostSamplesError"
    assert refusal.message.startswith(f"2 shards were planned, {len(names)} were written: ")
    assert refusal.message.endswith(REPORT)
