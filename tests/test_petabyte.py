"""The figures in docs/scale.md come from the formula that `plan` uses."""

from __future__ import annotations

import math
import re
from pathlib import Path

from beam_pipeline.core.dataset.estimate import (
    Estimate,
    Machines,
    Prices,
    Rates,
    Work,
    estimate,
    read_seconds,
)
from beam_pipeline.core.labels.join import buckets_for
from beam_pipeline.core.packing import pack
from beam_pipeline.core.records.formats import record_format
from beam_pipeline.core.records.sharding import ShardDivision, ShardPlan
from beam_pipeline.core.references import SampleRef
from beam_pipeline.work.outcome import divide
from tests.harness import REPOSITORY

PAGE = Path(REPOSITORY, "docs", "scale.md").read_text(encoding="utf-8")
OBJECTS, OBJECT_BYTES, PACKED_BYTES, SHARD_BYTES = 10**10, 100_000, 25, 10**9
ROW_BYTES = 41


def found() -> Estimate:
    """The formula's estimate for a petabyte."""
    size = OBJECTS * OBJECT_BYTES
    packed = OBJECTS * PACKED_BYTES
    work = Work(OBJECTS, size, packed, OBJECTS, joined=True, shards=size // SHARD_BYTES)
    return estimate(work, Machines(workers=1000, vcpus=4, memory_gb=16.0), Prices())


def missing(*figures: str) -> list[str]:
    """The figures that do not stand on the page by themselves."""
    return [f for f in figures if not re.search(rf"(?<![\d.,]){re.escape(f)}(?!\d)", PAGE)]


def test_time_and_money_are_those_of_the_formula() -> None:
    """The page has the figures that `plan` prints."""
    assert not missing(
        f"{found().seconds / 3600:.1f} h",
        f"{found().vcpu_hours:,.0f} vCPU hours",
        f"{found().dollars:,.0f} USD",
        f"{found().records_dollars:,.0f} USD",
        f"{found().class_b / 1000 * Prices().class_b_1000:,.0f} USD",
        f"{found().shuffle_bytes / 1e12:.1f} TB",
        f"{found().class_a:,}",
    )


def test_cpu_is_that_of_the_rates() -> None:
    """The CPU time is that of reads, bytes and planning; starting workers costs none."""
    seconds = OBJECTS * (Rates().read_s + OBJECT_BYTES * Rates().byte_s + 2 * Rates().plan_s)
    assert not missing(f"{seconds / 3600:,.0f} vCPU hours")


def test_quotas_take_as_long_as_the_page_says() -> None:
    """At 200 Gbit/s, and with reads that double every 20 minutes."""
    assert not missing(
        f"{OBJECTS * OBJECT_BYTES * 8 / 200e9 / 3600:.1f} h",
        f"{read_seconds(OBJECTS, math.inf) / 3600:.1f} h",
        f"{1e14 * 8 / 200e9 / 3600:.1f} h",
        f"{read_seconds(10**9, math.inf) / 3600:.1f} h",
    )


def test_the_join_has_as_many_parts_as_the_page_says() -> None:
    """The number of parts follows from the size of the label files."""
    parts = buckets_for(OBJECTS * ROW_BYTES)
    assert not missing(
        f"{OBJECTS * ROW_BYTES / 1e9:,.0f} GB", f"{parts:,}", f"{OBJECTS / parts / 1000:,.0f},000"
    )


def test_half_a_million_shards_cost_what_the_page_says() -> None:
    """Bytes of a reference in 1,000 parts, and alone in one of 500,000."""
    refs = [
        SampleRef(
            name, f"gs://my-bucket/photos/{name}", 90_000 + i * 37 % 50_000, "train", (name[:5],)
        )
        for i in range(1 << 16)
        for name in [f"c{i % 1000:04d}/img_{i * 7919 % 10**9:09d}.jpg"]
    ]
    taken = []
    for shards, some in ((1000, refs), (500_000, refs[: 1 << 12])):
        plan = ShardPlan("d", (("train", shards),), record_format("none", "tfrecord"))
        parts = divide([pack(some)], ShardDivision(plan, seed=0)).main
        taken.append(sum(len(part) for _, part in parts) / len(some))
    assert not missing(f"{taken[1]:.0f} bytes instead of {taken[0]:.0f}")
