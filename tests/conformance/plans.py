"""Plans of what a listing and a join counted: shards and ids of classes, or why the run is refused, word for word."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from beam_pipeline.core.dataset.plausibility import LabelChecks
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import Refusal
from beam_pipeline.core.labels.classes import ClassNumbering
from beam_pipeline.core.records.sharding import ShardConfig
from tests.core.dataset.fixtures import label_files, plan_of

_COUNTED = frozenset({"ignored", "samples", "sample_bytes", "classes"})


@dataclass(frozen=True)
class Planned:
    """A plan.

    Attributes:
      tally: what was counted.
      choices: fields of `PlanRequest` that are not the default.
    """

    tally: Tally
    choices: Mapping[str, Any] = field(default_factory=dict)

    def outcome(self) -> dict[str, Any]:
        """Shards by split, classes, questions and the refusal, as far as there are any."""
        plan = plan_of(self.tally, **self.choices)
        outcome: dict[str, Any] = {
            "shards": dict(plan.shard_plan.shards),
            "classes": dict(plan.classes),
            "questions": plan.questions,
        }
        if plan.refusal:
            assert type(plan.refusal.to_error()).__name__ == plan.refusal.error
            outcome["named_shards"] = len(plan.shard_plan.specs)
            outcome["refusal"] = f"{plan.refusal.error}: {plan.refusal.message}"
        return {fact: value for fact, value in outcome.items() if value}


def of(
    listed: int, letters: str = "", choices: Mapping[str, Any] | None = None, **counts: Any
) -> Planned:
    """A plan after `listed` images and dead letters, such as "unlabelled a.jpg b.jpg; missing_image 1"."""
    fields = {name: Counter(n) if name in _COUNTED else n for name, n in counts.items()}
    tally = Tally(listed=listed, **fields)
    for text in filter(None, letters.split("; ")):
        reason, *keys = text.split(" ")
        tally.add_dead_letters(
            DeadLetter("join", key, f"/x/{key}", reason, f"what is wrong with {key}", "/l.csv", 2)
            for key in keys or [""]
        )
    return Planned(tally, choices or {})


def unmet(images: str, rows: str) -> Planned:
    """Images and rows by their names, none of which met."""
    count = len(rows.split())
    letters = f"missing_image {rows}; unlabelled {images}"
    return of(len(images.split()), letters, label_rows=count, orphan_rows=count)


def sharded(samples: int, size: int, *, more: str = "test", **config: Any) -> Planned:
    """A split of so many samples and bytes, and another one without any."""
    choices = {"shards": ShardConfig(**config), "splits": (more,)}
    return of(samples, "", choices, samples={"train": samples}, sample_bytes={"train": size})


def flat(classes: int, **checks: Any) -> Planned:
    """Six images in a folder with a table, of whose names none or one is a class."""
    found = of(6, "", {"checks": LabelChecks("folder names", unseen=True, **checks)})
    tally = replace(found.tally, samples=Counter(train=classes), classes=Counter(cat=classes))
    return replace(found, tally=replace(tally, label_files=label_files(["labels.csv"])))


_KEYS = " ".join(f"{i:02d}.jpg" for i in range(51))
_NUMBERED = {"numbering": ClassNumbering(from_name=True)}
_ASKED = {"shards": ShardConfig({"train": 2, "valid": 1, "dev": 1})}
_NONE_EMPTY = {"splits": ("train", "validation", "test"), "none_empty": True}
_FOUR = {"dog": 1, "cat": 3, "Äffchen": 1, "Zebra": 1}
_PETABYTE = 10**15

ROWS = {
    "no images": of(0),
    "no images but other files": of(
        0, ignored={".txt": 2, "hidden files": 1, ".csv": 3}, label_rows=5
    ),
    "no images but arrays": of(0, ignored={".gz": 4}),
    "no images but of medicine, and videos": of(0, ignored={".dcm": 4, ".mp4": 1}),
    "no image has a label": of(2, "unlabelled a.jpg b.jpg"),
    "no image has a label, and a row is bad": of(1, "unlabelled a.jpg; bad_row"),
    "no image has a value": of(2, "bad_label_value a b"),
    "no label can be used": of(2, "unlabelled a.jpg b.jpg", label_rows=2),
    "no value can be used": of(1, "bad_label_value a", label_rows=1),
    "nothing met": unmet("a.jpg b.jpg", "1 2 3"),
    "nothing met, and images are kept": of(
        2,
        "missing_image 1 2 3; unlabelled a.jpg b.jpg",
        label_rows=3,
        orphan_rows=3,
        unlabelled=2,
        samples={"train": 2},
    ),
    "nearly met": unmet("0001.jpg img_1.png", "img/7.png img/1.png"),
    "met in another form of Unicode": unmet("cafe\u0301.png", "caf\xe9.png"),
    "met by a folder": unmet("p10/p10000032/s50414267/a.jpg", "50414267"),
    "met below another folder": unmet("old/images/a/1.png", "b/2.png a/1.png"),
    "one bad sample without a key": of(2, "bad_row", label_rows=2, samples={"train": 2}),
    "bad samples of two reasons": of(
        2, "unsupported_format b a; bad_row c", label_rows=2, samples={"train": 2}
    ),
    "half of the images lack a label": of(
        100,
        f"unlabelled {_KEYS[:-7]}; bad_row",
        {"may_be_unlabelled": False, "max_bad_fraction": 0.1},
        label_rows=60,
        samples={"train": 50},
    ),
    "most images lack a label": of(
        100,
        f"unlabelled {_KEYS}; bad_row",
        {"may_be_unlabelled": False, "max_bad_fraction": 0.1},
        label_rows=60,
        samples={"train": 49},
    ),
    "most images lack a label, as they may": of(
        100,
        f"unlabelled {_KEYS}; bad_row",
        {"max_bad_fraction": 0.1},
        label_rows=60,
        samples={"train": 49},
    ),
    **{
        f"{bad} of {listed} bad, {allowed} allowed": of(
            listed,
            "; ".join(
                [f"unreadable {' '.join(map(str, range(bad)))}"] * bool(bad) + ["unlabelled x y z"]
            ),
            {"max_bad_fraction": allowed},
            samples={"train": 1},
        )
        for bad, listed, allowed in (
            *((0, 100, 0.0), (1, 100, 0.0), (1, 100, 0.01), (2, 100, 0.01), (1, 99, 0.01)),
            *((29, 100, 0.29), (100, 100, 1.0), (200, 100, 1.0), (0, 1, 0.0), (1, 1, 1.0)),
        )  # 0.29 * 100 is less than 29
    },
    "too many bad samples": of(
        100,
        f"unlabelled {_KEYS}; unreadable a b c d; bad_row",
        {"max_bad_fraction": 0.04},
        samples={"train": 44},
    ),
    "splits, shards and classes": of(
        6,
        "",
        {"shards": ShardConfig(shard_bytes=100), "splits": ("train", "validation")},
        samples={"train": 4, "test": 2},
        sample_bytes={"train": 401, "test": 100},
        classes=_FOUR,
    ),
    "classes from 1": of(
        6, "", {"numbering": ClassNumbering(base=1)}, samples={"train": 4}, classes=_FOUR
    ),
    "a size without its unit": sharded(60, 6_745_600, shard_bytes=100),
    "a size without its unit, beside a number": sharded(
        60, 6_745_600, num_shards={"test": 9}, shard_bytes=100
    ),
    "a size of a byte": sharded(60, 6_745_600, shard_bytes=1),
    "a size of a sample": sharded(60, 6_745_600, shard_bytes=6_745_600 // 60),
    "a number of shards": sharded(60, 6_745_600, num_shards=600, shard_bytes=100),
    "the usual size": sharded(60, 6_745_600),
    "a petabyte": sharded(10**9, _PETABYTE),
    "a petabyte in small shards": sharded(10**7, _PETABYTE // 10**3, shard_bytes=10**6),
    "a size that no disk has": sharded(2, 2**64),
    "a class that cannot be an id": of(
        2, "", _NUMBERED, samples={"train": 2}, classes={"7": 1, "cat": 1}
    ),
    "a class that cannot be an id, after another error": of(
        2,
        "",
        _NUMBERED,
        samples={"train": 2},
        classes={"cat": 1},
        refusals=[Refusal("ListingError", "x")],
    ),
    "shards of a split that is not there": of(2, "", _ASKED, samples={"train": 1, "test": 1}),
    "shards of a split that got nothing": of(
        2, "", {**_ASKED, "splits": ("valid", "dev")}, samples={"train": 1, "test": 1}
    ),
    "a flat folder with a table": flat(0),
    "a flat folder of a class with a table": flat(6),
    "a flat folder with a table, confirmed": flat(0, assumed=True),
    "a flat folder of a class with a table, confirmed": flat(6, assumed=True),
    "splits without a sample": of(9, "", _NONE_EMPTY, samples={"train": 9}),
    "splits with a sample each": of(
        9, "", _NONE_EMPTY, samples={"train": 7, "validation": 1, "test": 1}
    ),
    "splits without a sample, by shares alone": of(
        9, "", {**_NONE_EMPTY, "none_empty": False}, samples={"train": 9}
    ),
}
