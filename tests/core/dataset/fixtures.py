"""Samples, label files, shards, plans, manifests and duplicates for the tests of data sets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import starmap
from typing import Any

from beam_pipeline.core import dead_letters
from beam_pipeline.core.dataset import duplicates, manifest, plan
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.labels.classes import ClassNumbering
from beam_pipeline.core.listing.filters import LabelFile, LabelFiles
from beam_pipeline.core.records import sharding, tfrecord
from beam_pipeline.core.references import LabelValue, SampleRef


def dead_letter(reason: dead_letters.Reason, key: str) -> dead_letters.DeadLetter:
    return dead_letters.DeadLetter("join", key, "", reason.value, "message")


def label_files(keys: Sequence[str]) -> LabelFiles:
    """What a listing counts of these files."""
    found = LabelFiles()
    for key in keys:
        found.see(LabelFile(key, f"/photos/{key}"))
    return found


def sample(key: str, *labels: Any, split: str = "train", size: int = 10) -> SampleRef:
    return SampleRef(key, f"/photos/{key}", size, split, labels)


def plan_of(tally: Tally, **choices: Any) -> plan.Plan:
    settings: dict[str, Any] = {
        "name": "birds",
        "shards": sharding.ShardConfig(),
        "splits": (),
        "record_format": tfrecord.TFRecordFormat(),
        "max_bad_fraction": 0.01,
        "numbering": ClassNumbering(),
    }
    kept = choices.pop("kept", plan.NOTHING_KEPT)
    return plan.make_plan(tally, plan.PlanRequest(**settings | choices), kept)


def shard(file_name: str, examples: int) -> sharding.ShardInfo:
    return sharding.ShardInfo("train", 0, file_name, examples, 100, 1, ())


# --- Manifests of small data sets


def manifest_with(**entries: Any) -> manifest.Manifest:
    """A manifest with these entries; the others say that there is nothing."""
    empty: dict[str, Any] = {
        "name": "pets",
        "seed": 0,
        "features": {},
        "splits": {},
        "classes": [],
        "counts": {"examples": 0},
        "dead_letters": {},
    }
    options = {"compression": "none", "columns": [], **entries.pop("options", {})}
    return manifest.Manifest.of({**empty, "options": options, **entries})


# --- Images of the same bytes for the tests of duplicates, and what is known of them


A, B, C = (bytes([value]) * 16 for value in (1, 2, 255))


def image(
    digest: bytes, key: str, *, split: str = "train", label: LabelValue = "cat"
) -> duplicates.WrittenImage:
    return duplicates.WrittenImage(digest, duplicates.LabelHashes().of((label,)), split, key)


def ref(digest: bytes, key: str, *, split: str = "train", label: LabelValue = "cat") -> SampleRef:
    return SampleRef(key, f"/in/{key}", 9, split, (label,), digest=digest)


IMAGES = (
    image(A, "a1"),
    image(A, "a2", label="dog"),
    image(A, "a0"),
    image(B, "b9", split="test"),
    image(B, "b1"),
    image(C, "c"),
)


def group(*places: tuple[str, str], different_labels: bool = False) -> duplicates.DuplicateGroup:
    """Images of the same bytes by (split, key), all of which are shown."""
    splits = dict(sorted(Counter(split for split, _ in places).items()))
    shown = tuple(starmap(duplicates.ImagePlace, places))
    return duplicates.DuplicateGroup(len(places), splits, different_labels, shown)


LEAK = group(("train", "b1"), ("test", "b9"))
CONTRADICTION = group(("train", "a0"), ("train", "a1"), ("train", "a2"), different_labels=True)
DUPLICATES = duplicates.Duplicates(6, 5, 2, 3, 1, 1, (LEAK, CONTRADICTION))
