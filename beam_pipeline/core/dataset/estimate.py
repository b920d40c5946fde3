"""Estimates the cost of a conversion on Dataflow from its plan: bytes, requests, hours, money.

The rates were measured on one machine against an emulated bucket (`benchmarks/`), the prices are
a table that anybody may replace. An estimate helps to choose between options; it is not an invoice.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Annotated

from beam_pipeline.core import errors, typed_json

GB = 10**9
_LISTED_A_PAGE = 1000
FEATURE_BYTES = 250
"""Of an example beside its image, about."""
COMPARED_BYTES = 20
"""Of an image in the search for duplicates: its digest and number."""


FIRST_READS, DOUBLING_S = 5000, 1200
"""Reads a second that a bucket takes at first, and seconds until that may double:
https://cloud.google.com/storage/docs/request-rate"""

USUAL_IMAGE, USUAL_ENCODE_S, TABLE_ROW = 100_000, 0.01, 41
"""Bytes of an image, CPU seconds to encode it again and bytes of its row in a table, where nothing is known yet."""

WANTED_S = 1800
"""Seconds of writing that `workers_for` aims at."""


_Dollars = Annotated[float, typed_json.Expect(lambda dollars: dollars >= 0, "dollars")]


@dataclass(frozen=True)
class Prices:
    """Google's prices in US dollars, of us-central1 in 2025, without discounts.

    Attributes:
      vcpu_hour: a vCPU of a batch worker for an hour.
      memory_gb_hour: a GB of a worker's memory for an hour.
      shuffle_gb: a GB that Dataflow's shuffle processes.
      class_a_1000: a thousand listings or writes of objects.
      class_b_1000: a thousand reads of objects.
    """

    vcpu_hour: _Dollars = 0.056
    memory_gb_hour: _Dollars = 0.003557
    shuffle_gb: _Dollars = 0.011
    class_a_1000: _Dollars = 0.005
    class_b_1000: _Dollars = 0.0004


@dataclass(frozen=True)
class Machines:
    """The workers of the job.

    Attributes:
      workers: how many.
      vcpus: of each.
      memory_gb: of each.
    """

    workers: int = 10
    vcpus: int = 4
    memory_gb: float = 16.0


@dataclass(frozen=True)
class Rates:
    """Measured costs of work.

    Attributes:
      read_s: CPU seconds to read an object, whatever its size, with TLS.
      byte_s: CPU seconds to carry a byte from one object into another.
      plan_s: CPU seconds to list, label and assign a sample.
      start_s: seconds until workers have started.
    """

    read_s: float = 0.9e-3
    byte_s: float = 1.0e-9
    plan_s: float = 30e-6
    start_s: float = 180.0


@dataclass(frozen=True)
class Work:
    """The work of a conversion.

    Attributes:
      samples: examples to write.
      files: masks to read beside the images.
      image_bytes: of all images and masks.
      reference_bytes: of all references, packed.
      listed: objects listed, passed over or not.
      joined: labels come from tables, so that references are shuffled twice.
      shards: to write.
      encode_s: CPU seconds to encode an image again; 0 where images are written as they are.
      buckets: that images are read from.
    """

    samples: int
    image_bytes: int
    reference_bytes: int
    listed: int
    joined: bool
    shards: int
    files: int = 0
    encode_s: float = 0.0
    buckets: int = 1

    def writing_s(self, rates: Rates = Rates()) -> float:
        """CPU seconds to write all shards."""
        reads = (self.samples + self.files) * rates.read_s
        return reads + self.image_bytes * rates.byte_s + self.samples * self.encode_s


@dataclass(frozen=True)
class Estimate:
    """The estimated cost of the work.

    Attributes:
      shuffle_bytes: that cross the shuffle.
      records_shuffle_bytes: the same with --shuffle=records.
      class_a, class_b: requests, by billing class.
      vcpu_hours: of all workers.
      seconds: from the start of the job to its end.
      dollars: for workers, shuffle and requests; records_dollars with --shuffle=records.
      idle_workers: workers without a shard to write.
      ramp_s: seconds that workers wait because buckets do not take as many reads yet.
    """

    shuffle_bytes: int
    records_shuffle_bytes: int
    class_a: int
    class_b: int
    vcpu_hours: float
    seconds: float
    dollars: float
    records_dollars: float
    idle_workers: int
    ramp_s: float


def read_seconds(reads: int, rate: float, buckets: int = 1) -> float:
    """Seconds for reads at a rate a second, while buckets take more every `DOUBLING_S` seconds.

    >>> round(read_seconds(10**8, 10**6) / 60)
    82
    """
    seconds, allowed = 0.0, float(FIRST_READS * buckets)
    while allowed < rate and reads > allowed * DOUBLING_S:
        reads -= int(allowed * DOUBLING_S)
        seconds += DOUBLING_S
        allowed *= 2
    return seconds + reads / min(allowed, rate)


def workers_for(work: Work, vcpus: int, threads: int) -> tuple[int, int]:
    """Workers that write all shards in about `WANTED_S`, and in a quarter of it; each thread has a shard."""
    busy = -(-work.shards // (vcpus * threads))
    wanted = work.writing_s() / (vcpus * WANTED_S)
    return max(1, min(busy, round(wanted))), max(1, min(busy, round(4 * wanted)))


def estimate(work: Work, machines: Machines, prices: Prices, rates: Rates = Rates()) -> Estimate:
    """Estimates the cost of a conversion on Dataflow."""
    lanes = machines.workers * machines.vcpus
    reads = work.samples + work.files
    planning = (work.listed + work.samples) * rates.plan_s
    busy = min(lanes, work.shards)  # a shard is written by one thread of one process
    writing = work.writing_s(rates) / max(1, busy)
    ramp = read_seconds(reads, reads / writing, work.buckets) - writing if writing else 0.0
    seconds = rates.start_s + planning / lanes + writing + ramp
    hours = seconds / 3600
    vcpu_hours = hours * lanes
    shuffled = work.reference_bytes * (2 if work.joined else 1) + work.samples * COMPARED_BYTES
    records = shuffled + work.image_bytes + work.samples * FEATURE_BYTES
    class_a = -(-work.listed // _LISTED_A_PAGE) + 2 * work.shards  # a shard has a receipt
    requests = class_a * prices.class_a_1000 + reads * prices.class_b_1000
    dollars = (
        vcpu_hours * prices.vcpu_hour
        + hours * machines.workers * machines.memory_gb * prices.memory_gb_hour
        + requests / 1000
    )
    return Estimate(
        shuffle_bytes=shuffled,
        records_shuffle_bytes=records,
        class_a=class_a,
        class_b=reads,
        vcpu_hours=vcpu_hours,
        seconds=seconds,
        dollars=dollars + shuffled / GB * prices.shuffle_gb,
        records_dollars=dollars + records / GB * prices.shuffle_gb,
        idle_workers=max(0, machines.workers - -(-work.shards // machines.vcpus)),
        ramp_s=ramp,
    )


def parse_prices(text: str, name: str) -> Prices:
    """Prices from JSON that gives some or all of the fields of `Prices`.

    Raises:
      UsageError: it is no JSON object, or gives anything but numbers for these fields.
    """
    fields = [field.name for field in dataclasses.fields(Prices)]
    try:
        values = json.loads(text)
        prices: Prices = typed_json.decode(Prices, values)
        if unknown := sorted(values.keys() - fields):
            raise ValueError(f"{unknown[0]} is not a price, expected {', '.join(fields)}")
    except ValueError as error:
        raise errors.UsageError(f"--prices {name}: {error}") from error
    return prices
