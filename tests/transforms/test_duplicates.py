"""Images of the same bytes: read for their digests, dropped, counted, found in ranges."""

from __future__ import annotations

import errno
import hashlib
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to

from beam_pipeline.core.dataset.duplicates import (
    CopyFinder,
    Duplicates,
    WrittenImage,
    packed_images,
)
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.images.preparation import digest_of
from beam_pipeline.core.labels.schema import CLASS_FOLDER_COLUMNS
from beam_pipeline.core.packing import SampleBatch
from beam_pipeline.core.records.example_source import ExampleOptions, LabelledImages
from beam_pipeline.core.references import SampleRef
from beam_pipeline.storage import files
from beam_pipeline.storage.read_ahead import ONE_BY_ONE, ReadOptions
from beam_pipeline.transforms.planning import DropDuplicates, FindDuplicates
from beam_pipeline.work.outcome import DEAD_LETTERS, TALLY, Outcome
from beam_pipeline.work.planning import DuplicateSearch, is_readable, with_digests
from beam_pipeline.work.writing import EncodingOptions, WriteRequest
from tests.core.dataset.duplicate_images import group
from tests.transforms.outputs import assert_items, assert_total


def refs(folder: Path) -> list[SampleRef]:
    """A file, one that is gone, one of another size, an empty one, and part of a file."""
    for name, content in {"a": b"image", "c": b"longer than listed", "d": b""}.items():
        (folder / name).write_bytes(content)
    whole = [
        SampleRef(name, str(folder / name), size, "train", ())
        for name, size in (("a", 5), ("b", 5), ("c", 5), ("d", 0))
    ]
    return [*whole, SampleRef("e", str(folder / "a"), 3, "train", (), offset=1)]


def digests(outcome: Outcome) -> dict[str, bytes]:
    """Key -> digest; main are those without one."""
    without = [ref for batch in outcome.main for ref in batch]
    digested = [ref for _, batch in outcome.tagged for ref in batch]
    assert not any(ref.digest for ref in without)
    assert all(ref.digest for ref in digested)
    return {ref.key: ref.digest for ref in [*without, *digested]}


@pytest.mark.parametrize("reading", [ONE_BY_ONE, ReadOptions(prefetched=2), ReadOptions(4)])
def test_images_are_read_for_their_digests(tmp_path: Path, reading: ReadOptions) -> None:
    """Those that cannot be read, or are not as listed, have none."""
    found = digests(with_digests(refs(tmp_path), reading))
    assert found == {"a": digest_of(b"image"), "b": b"", "c": b"", "d": b"", "e": digest_of(b"mag")}


def test_beside_a_bucket_digests_are_those_of_its_listing(tmp_path: Path) -> None:
    """MD5, so that images that are read meet those that are not."""
    found = digests(with_digests(refs(tmp_path)[:1], ONE_BY_ONE, md5=True))
    assert found == {"a": hashlib.md5(b"image").digest()}


def test_a_fault_of_the_machine_is_no_image_without_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fails, to be tried again; else a copy would be kept today that was left out yesterday."""

    def fails(*_: object) -> bytes:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(files, "read_image", fails)
    with pytest.raises(OSError, match="Too many open files"):
        with_digests(refs(tmp_path), ONE_BY_ONE)


def test_what_its_writer_would_not_read_is_not_read() -> None:
    """Images above the limits."""
    ref = SampleRef("a", "/a", 100, "train", ())
    for limit, readable in ((100, True), (99, False)):
        options = ExampleOptions(filters={"max_image_bytes": limit})
        encoding = EncodingOptions(LabelledImages(()), options=options)
        assert is_readable(ref, encoding) is readable
    assert not is_readable(ref._replace(size=1 << 31), EncodingOptions(LabelledImages(())))
    assert not is_readable(ref._replace(uri=""), EncodingOptions(LabelledImages(())))


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


REQUEST = WriteRequest(folder="", encoding=EncodingOptions(LabelledImages(CLASS_FOLDER_COLUMNS)))
SEARCH = DuplicateSearch(listed=False, reads=True, drops=True)


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
            found = pipeline | beam.Create(batches) | DropDuplicates(search=SEARCH, request=REQUEST)
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
            | DropDuplicates(search=SEARCH, request=REQUEST, keeps_unlabelled=True)
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
            | DropDuplicates(search=DuplicateSearch(False, False, False), request=REQUEST)
        )
        assert_items(found["samples"], refs, "samples")
        assert_items(found[DEAD_LETTERS], [], "dead letters")
        expected = copies.duplicates if listed else Duplicates(images_compared=0)
        assert_total(found[TALLY], Tally(duplicates=expected))


IMAGES = [WrittenImage(bytes([i % 50]) * 16, 7, "train", f"{i:02d}") for i in range(60)]


@pytest.mark.parametrize("ranges", [1, 3])
def test_equal_digests_meet(ranges: int) -> None:
    """Ten pairs, of images of different shards."""
    shards = [packed_images(IMAGES[i::7], ranges) for i in range(7)]
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        found = (
            pipeline
            | beam.Create([part for shard in shards for part in shard])
            | FindDuplicates()
            | beam.CombineGlobally(Duplicates.sum_of)
        )
        pairs = tuple(group(("train", f"{i:02d}"), ("train", str(i + 50))) for i in range(10))
        assert_that(found, equal_to([Duplicates(60, 20, 10, 0, 0, pairs)]))
