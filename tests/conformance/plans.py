"""Plans of what a listing and a join counted: shards and ids of classes, or why the run is refused, word for word."""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from beam_pipeline.core.dataset.plausibility import LabelChecks
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import Refusal
from beam_pipeline.core.labels.classes import ClassNumbering
from beam_pipeline.core.records.sharding import ShardConfig
from tests.conformance.texts import by_name, lines_of
from tests.conformance.trees import paths
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


_OBJECTS = {
    "shards": ShardConfig,
    "numbering": ClassNumbering,
    "checks": functools.partial(LabelChecks, "folder names", unseen=True),
}


def _row(letters: str, counts: str, choices: str = "{}") -> Planned:
    """A plan after counts and dead letters, such as "unlabelled a.jpg b.jpg; missing_image 1"."""
    fields = json.loads(counts)
    for name, value in fields.items():
        if name == "label_files":
            fields[name] = label_files(value)
        elif name == "refusals":
            fields[name] = [Refusal(*each) for each in value]
        elif name in _COUNTED:
            fields[name] = Counter(value)
    tally = Tally(**fields)
    for text in letters.split("; ") if letters != "-" else ():
        reason, *keys = text.split(" ")
        tally.add_dead_letters(
            DeadLetter("join", key, f"/x/{key}", reason, f"what is wrong with {key}", "/l.csv", 2)
            for key in paths(*keys) or [""]
        )
    chosen = {
        name: _OBJECTS[name](**value) if name in _OBJECTS else value
        for name, value in json.loads(choices).items()
    }
    return Planned(tally, {n: tuple(v) if isinstance(v, list) else v for n, v in chosen.items()})


ROWS = by_name((name, _row(*parts)) for name, *parts in lines_of("plans"))
