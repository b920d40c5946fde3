"""Dropping copies as a pipeline: the same samples in batches and bundles of any size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest

from beam_pipeline.core.dataset.duplicates import CopyFinder, Duplicates
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.images.preparation import digest_of
from beam_pipeline.core.packing import SampleBatch
from beam_pipeline.core.references import SampleRef
from beam_pipeline.storage.read_ahead import ONE_BY_ONE
from beam_pipeline.transforms.duplicates import DropDuplicates
from beam_pipeline.work.outcome import DEAD_LETTERS, TALLY
from beam_pipeline.work.planning import DigestSource
from tests.transforms.outputs import assert_items, assert_total

CONTENTS = {
    "a/1": b"one",
    "a/2": b"two",
    "b/1": b"one",
    "b/3": b"three",
    "b/4": b"four, which nothing is as long as",
    "c/1": b"one",
}


def samples(folder: Path, **values: Any) -> list[SampleRef]:
    """Files of class folders; of two, one is in another split, one is gone."""
    refs = []
    for key, content in CONTENTS.items():
        path = folder / key.replace("/", "_")
        path.write_bytes(content)
        split = "test" if key == "c/1" else "train"
        refs.append(SampleRef(key, str(path), len(content), split, (key[0],)))
    return [*refs, SampleRef("d/1", "/gone", 3, "train", ("d",))]


def source(**changes: Any) -> DigestSource:
    values = {"listed": False, "reads": True, "filters": {}, "largest": 99, **changes}
    return DigestSource(reading=ONE_BY_ONE, **values)


def test_sizes_with_digests_decide(tmp_path: Path) -> None:
    """The copies in train go, one by one or in one batch; what cannot be read stays."""
    refs = samples(tmp_path)
    digested = [ref._replace(digest=digest_of(CONTENTS[ref.key])) for ref in refs[:-1]]
    copies = CopyFinder(lambda: iter(digested))
    dropped = [ref for ref in refs if ref.key in ("a/1", "b/1")]
    letters = [copies.dead_letter(ref) for ref in digested if ref.key in ("a/1", "b/1")]
    same_size = [ref for ref in digested if len(CONTENTS[ref.key]) == 3]
    expected = Tally(duplicates=CopyFinder(lambda: iter(same_size)).duplicates)
    expected.remove_samples(dropped, 0)
    expected.add_dead_letters(letters)  # type: ignore[arg-type]
    assert expected.duplicates.copies == expected.dead["duplicate"] == 2
    for size in (1, 99):
        with beam.Pipeline(runner="FnApiRunner") as pipeline:
            batches = [SampleBatch(refs[i : i + size]) for i in range(0, len(refs), size)]
            found = (
                pipeline
                | beam.Create(batches)
                | DropDuplicates(source=source(), drops=True, class_column=0)
            )
            kept = [ref for ref in refs if ref not in dropped]
            assert_items(found["samples"], kept, "samples")
            assert_items(found[DEAD_LETTERS], letters, "dead letters")
            assert_total(found[TALLY], expected)


def test_a_dropped_image_is_not_counted_as_unlabelled(tmp_path: Path) -> None:
    """Of samples that are marked, those without a label are taken back; one of three is kept."""
    labels = {"a/1": (None, 0), "b/1": (None, 0), "c/1": (None, 0), "a/2": ("a", 1)}
    refs = [ref._replace(labels=labels[ref.key]) for ref in samples(tmp_path) if ref.key in labels]
    digested = [ref._replace(digest=digest_of(CONTENTS[ref.key])) for ref in refs]
    copies = CopyFinder(lambda: digested)
    dropped = [ref for ref in digested if ref.key in ("a/1", "b/1")]
    expected = Tally(unlabelled=-2, duplicates=copies.duplicates)
    expected.remove_samples(dropped, 0)
    expected.add_dead_letters(map(copies.dead_letter, dropped))  # type: ignore[arg-type]
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        found = (
            pipeline
            | beam.Create([SampleBatch(refs)])
            | DropDuplicates(source=source(), drops=True, class_column=0, keeps_unlabelled=True)
        )
        assert_total(found[TALLY], expected)


@pytest.mark.parametrize("listed", [True, False])
def test_a_plan_counts_what_the_listing_tells(tmp_path: Path, listed: bool) -> None:
    """No image is read, and all are kept."""
    refs = [ref._replace(uri="/gone") for ref in samples(tmp_path)]
    listing = [
        ref._replace(digest=digest_of(CONTENTS.get(ref.key, b"")) if listed else b"")
        for ref in refs
    ]
    copies = CopyFinder(lambda: iter([ref for ref in listing if ref.size == 3]))
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        found = (
            pipeline
            | beam.Create([SampleBatch(listing)])
            | DropDuplicates(source=source(reads=False), drops=False, class_column=0)
        )
        assert_items(found["samples"], refs, "samples")
        assert_items(found[DEAD_LETTERS], [], "dead letters")
        expected = copies.duplicates if listed else Duplicates()
        assert_total(found[TALLY], Tally(duplicates=expected))
