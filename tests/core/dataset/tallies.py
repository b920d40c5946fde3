"""Samples, label files, dead letters, shards and plans for the tests of tallies, refusals and plans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from beam_pipeline.core.dataset.plan import NOTHING_KEPT, Plan, PlanRequest, make_plan
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.dead_letters import DeadLetter, Reason
from beam_pipeline.core.labels.classes import ClassNumbering
from beam_pipeline.core.listing.filters import LabelFile, LabelFiles
from beam_pipeline.core.records.sharding import ShardConfig, ShardInfo
from beam_pipeline.core.records.tfrecord import TFRecordFormat
from beam_pipeline.core.references import SampleRef


def dead_letter(reason: Reason, key: str) -> DeadLetter:
    return DeadLetter("join", key, "", reason.value, "message")


def label_files(keys: Sequence[str]) -> LabelFiles:
    """What a listing counts of these files."""
    found = LabelFiles()
    for key in keys:
        found.see(LabelFile(key, f"/photos/{key}"))
    return found


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
    kept = choices.pop("kept", NOTHING_KEPT)
    return make_plan(tally, PlanRequest(**settings | choices), kept)


def shard(file_name: str, examples: int) -> ShardInfo:
    return ShardInfo("train", 0, file_name, examples, 100, 1, ())
