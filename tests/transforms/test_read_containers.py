"""Reading containers in a job: samples, dead letters and counts of files that hold many images."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction

import apache_beam as beam
import pytest

from beam_pipeline.core.dataset.splits import SplitAssigner
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import ContainerError, Refusal
from beam_pipeline.core.labels.schema import CLASS_FOLDER_COLUMNS, Column
from beam_pipeline.core.records.sharding import SplitFractions
from beam_pipeline.core.references import SampleRef
from beam_pipeline.layouts.layout import ContainerLabels
from beam_pipeline.transforms import labels
from beam_pipeline.transforms.labels import ReadContainers
from beam_pipeline.work.labels import Labelling
from beam_pipeline.work.outcome import DEAD_LETTERS, TALLY
from tests.transforms.outputs import assert_items, assert_total, counted

SPLITS = SplitAssigner(None, 0)


def sample(uri: str, number: int) -> SampleRef:
    return SampleRef(
        key=f"{uri}/{number}",
        uri=uri,
        size=10,
        split="test" if uri == "/b" else "train",
        labels=("cat" if number % 2 else "dog",),
        offset=10 * number,
    )


def bad(uri: str) -> DeadLetter:
    return DeadLetter("labels", f"{uri}/bad", uri, "bad_label_value", "label 11", uri)


class Reader:
    """Containers of three samples, the second of which has no good label; `/broken` ends after one."""

    def read(self, uri: str, unpack_to: str) -> Iterator[SampleRef | DeadLetter]:
        assert unpack_to == "/unpacked"
        yield sample(uri, 0)
        if uri == "/broken":
            raise ContainerError(f"{uri} is cut short")
        yield bad(uri)
        yield sample(uri, 1)


def read(
    *uris: str,
    splits: SplitAssigner = SPLITS,
    columns: Sequence[Column] = CLASS_FOLDER_COLUMNS,
    raises: bool = True,
) -> ReadContainers:
    return ReadContainers(
        labels=ContainerLabels(Reader(), uris),
        unpack_to="/unpacked",
        labelling=Labelling(splits, columns),
        raises=raises,
    )


@pytest.mark.parametrize("batch_size", [1, 2, 4096])
def test_every_sample_is_counted_once(monkeypatch: pytest.MonkeyPatch, batch_size: int) -> None:
    """By split, class and bytes, whatever the size of the batches; dead letters are listed, too."""
    monkeypatch.setattr(labels, "BATCH_SIZE", batch_size)
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        found = pipeline | read("/a", "/b")
        samples = [sample(uri, number) for uri in ("/a", "/b") for number in (0, 1)]
        assert_items(found["samples"], samples, "samples")
        assert_items(found[DEAD_LETTERS], [bad("/a"), bad("/b")], "dead letters")
        expected = Tally(
            listed=6,
            samples=Counter({"train": 2, "test": 2}),
            sample_bytes=Counter({"train": 20, "test": 20}),
            classes=Counter({"cat": 2, "dog": 2}),
            **{
                **counted(bad("/a")),
                "dead": Counter({"bad_label_value": 2}),
                "shown": {"bad_label_value": ["/a/bad", "/b/bad"]},
            },
        )
        assert_total(found[TALLY], expected)


def test_a_broken_container_refuses_the_run() -> None:
    """The reason travels with the counts; what came before the break is counted, too."""
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        found = pipeline | read("/broken", columns=(), raises=False)
        assert_items(found["samples"], [sample("/broken", 0)], "samples")
        assert_items(found[DEAD_LETTERS], [], "dead letters")
        expected = Tally(
            listed=1,
            samples=Counter({"train": 1}),
            sample_bytes=Counter({"train": 10}),
            refusals=[Refusal("ContainerError", "/broken is cut short")],
        )
        assert_total(found[TALLY], expected)


def test_fractions_take_the_place_of_the_containers_splits() -> None:
    """Each sample is in the split that it is counted in."""
    splits = SplitAssigner(SplitFractions((("all", Fraction(1)),)), 0)
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        found = pipeline | read("/b", splits=splits, columns=())
        samples = [sample("/b", number)._replace(split="all") for number in (0, 1)]
        assert_items(found["samples"], samples, "samples")
        expected = Tally(
            listed=3,
            samples=Counter({"all": 2}),
            sample_bytes=Counter({"all": 20}),
            **counted(bad("/b")),
        )
        assert_total(found[TALLY], expected)
