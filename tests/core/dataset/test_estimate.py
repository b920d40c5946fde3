from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from beam_pipeline.core.dataset.estimate import (
    Machines,
    Prices,
    Rates,
    Work,
    estimate,
    parse_prices,
    read_seconds,
    workers_for,
)
from beam_pipeline.core.errors import UsageError
from tests.harness import REPOSITORY

IMAGENET = Work(
    samples=1_281_167,
    image_bytes=147_000_000_000,
    reference_bytes=20_000_000,
    listed=1_281_168,
    joined=False,
    shards=1024,
)
PRICES = Prices(
    vcpu_hour=1.0, memory_gb_hour=0.1, shuffle_gb=2.0, class_a_1000=3.0, class_b_1000=4.0
)
RATES = Rates(read_s=0.001, byte_s=1e-8, plan_s=0.0001, start_s=100.0)


def test_every_figure_by_hand() -> None:
    """A job small enough to reckon on paper."""
    work = Work(10_000, 10**9, 50_000, listed=20_001, joined=True, shards=4)
    found = estimate(work, Machines(workers=2, vcpus=4, memory_gb=8.0), PRICES, RATES)
    assert found.shuffle_bytes == 300_000
    assert found.records_shuffle_bytes == 300_000 + 10**9 + 2_500_000
    assert (found.class_a, found.class_b) == (21 + 8, 10_000)
    # 3.0001 s of planning on 8 vCPUs, 10 + 10 s of writing on the 4 that have a shard.
    seconds = 100 + 3.0001 / 8 + 20 / 4
    assert found.seconds == pytest.approx(seconds)
    assert found.vcpu_hours == pytest.approx(seconds * 8 / 3600)
    dollars = seconds / 3600 * (8 * 1.0 + 2 * 8.0 * 0.1) + 29 * 0.003 + 10_000 * 0.004
    assert found.dollars == pytest.approx(dollars + 0.0003 * 2)
    assert found.records_dollars == pytest.approx(dollars + 1.0028 * 2)
    assert found.idle_workers == 1


def test_nothing_to_do_takes_the_start() -> None:
    """No samples, no division by nothing."""
    found = estimate(Work(0, 0, 0, 0, False, 0), Machines(), PRICES, RATES)
    assert found.seconds == 100.0
    assert found.idle_workers == 10


def test_prices_may_be_given_in_part() -> None:
    """The rest stays as it is."""
    assert parse_prices('{"vcpu_hour": 0.07}', "p") == Prices(vcpu_hour=0.07)
    assert parse_prices("{}", "p") == Prices()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "--prices p is no JSON"),
        ("[1]", "--prices p: expected an object with vcpu_hour, memory_gb_hour, "),
        ('{"cpu": 1}', "--prices p: found 'cpu': 1, expected dollars for one of vcpu_hour"),
        ('{"vcpu_hour": "1"}', "--prices p: found 'vcpu_hour': '1', expected dollars"),
        ('{"vcpu_hour": -1}', "--prices p: found 'vcpu_hour': -1"),
        ('{"vcpu_hour": true}', "--prices p: found 'vcpu_hour': True"),
        ('{"vcpu_hour": NaN}', "--prices p: found 'vcpu_hour': nan"),
    ],
)
def test_prices_that_are_none(text: str, message: str) -> None:
    """The message says what was found and what may stand there."""
    with pytest.raises(UsageError, match=re.escape(message)):
        parse_prices(text, "p")


def test_the_documented_prices_are_the_defaults() -> None:
    """The table of docs/scale.md says what is reckoned with."""
    text = Path(REPOSITORY, "docs/scale.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| ([\d.]+) \|", text, re.MULTILINE)
    assert {name: float(price) for name, price in rows} == dataclasses.asdict(Prices())


@pytest.mark.parametrize(
    ("reads", "rate", "buckets", "minutes"),
    [
        (10**8, 10**6, 1, 82),  # 6, 12, 24 and 48 million in 20 minutes each, the rest at 80,000/s
        (10**8, 10**6, 8, 31),
        (10**8, 20_000, 1, 108),  # the workers are the limit from the third step on
        (6_000_000, 10**6, 1, 20),
        (10**8, 2222, 1, 750),
    ],
)
def test_a_bucket_takes_twice_as_many_reads_every_20_minutes(
    reads: int, rate: float, buckets: int, minutes: int
) -> None:
    """From 5,000 a second, as Google documents; workers that read fewer do not wait."""
    assert round(read_seconds(reads, rate, buckets) / 60) == minutes
    work = Work(reads, 0, 0, 0, False, 10**6, buckets=buckets)
    lanes = round(rate * Rates().read_s)
    found = estimate(work, Machines(workers=lanes, vcpus=1), Prices(), Rates(start_s=0, plan_s=0))
    assert found.seconds == pytest.approx(60 * minutes, rel=0.02)
    assert found.ramp_s == pytest.approx(found.seconds - reads * Rates().read_s / lanes)


def test_workers_are_as_many_as_the_work_is_worth() -> None:
    """Half an hour of writing, or a quarter of that at most; each thread has a shard."""
    work = Work(10**8, 10**13, 0, 0, True, 50_000)
    assert workers_for(work, vcpus=4, threads=2) == (14, 56)
    assert workers_for(dataclasses.replace(work, encode_s=0.01), 4, 2) == (153, 611)
    assert workers_for(dataclasses.replace(work, shards=80), 4, 2) == (10, 10)
    assert workers_for(IMAGENET, 4, 2) == (1, 1)
