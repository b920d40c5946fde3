"""Packed references in a temporary file while an engine moves them."""

from __future__ import annotations

import os
import resource
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to

from beam_pipeline.core.packing import ImageBatch, pack
from beam_pipeline.core.references import ImageRef
from beam_pipeline.work import spill as spilling
from beam_pipeline.work.spill import spill, spill_file, spill_parts, unspill, unspill_all

DATA = bytes(range(256)) * 40
PLACE_BYTES = 16


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(spilling, "LEAST_FREE_BYTES", 0)
    return tmp_path


@pytest.fixture
def at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A file that takes the first bytes already."""
    monkeypatch.setattr(spilling, "HELD_BYTES", 0)
    with spill_file():
        yield


@pytest.mark.usefixtures("at_once")
def test_what_went_in_comes_out() -> None:
    """In any order, and as often as it is asked for."""
    items = [DATA[i:] for i in range(0, 5000, 500)]
    places = [spill(item) for item in items]
    assert [len(place) for place in places] == [PLACE_BYTES] * len(items)
    assert [unspill(place) for place in reversed(places)] == items[::-1]
    assert unspill_all(places) == items


@pytest.mark.usefixtures("at_once")
def test_parts_keep_their_numbers() -> None:
    """Only what is packed goes to the file."""
    parts = dict(spill_parts([(3, DATA), (1, DATA[1:]), (2, b"short")]))
    assert list(parts) == [3, 1, 2]
    assert [len(part) for part in parts.values()] == [PLACE_BYTES, PLACE_BYTES, 5]
    assert unspill_all(parts.values()) == [DATA, DATA[1:], b"short"]


def test_the_first_bytes_of_a_job_stay_in_memory(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those of the next job."""
    monkeypatch.setattr(spilling, "HELD_BYTES", 2 * len(DATA))
    for _ in range(2):
        with spill_file():
            assert [len(spill(DATA)) for _ in range(4)] == [len(DATA)] * 2 + [PLACE_BYTES] * 2


def test_without_a_file_nothing_changes() -> None:
    """As on workers of other machines."""
    assert spill(DATA) is DATA
    assert unspill(DATA) is DATA


@pytest.mark.usefixtures("at_once")
def test_a_job_within_a_job_has_a_file_of_its_own() -> None:
    """The outer one's is there as before when it ends."""
    place = spill(DATA)
    with spill_file():
        assert unspill(spill(DATA[5:])) == DATA[5:]
    assert unspill(place) == DATA


@pytest.mark.usefixtures("at_once")
def test_nobody_sees_the_file(folder: Path) -> None:
    """So there is nothing to clean up behind a job that was killed."""
    assert unspill(spill(DATA)) == DATA
    assert os.listdir(folder) == []


def test_the_disk_space_is_given_back(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No descriptor stays open."""
    monkeypatch.setattr(spilling, "HELD_BYTES", 0)
    before = len(os.listdir("/proc/self/fd"))
    with spill_file():
        spill(DATA)
        assert len(os.listdir("/proc/self/fd")) == before + 1
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.usefixtures("at_once")
def test_a_disk_that_is_nearly_full_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine holds everything, as it would without a file."""
    monkeypatch.setattr(spilling, "LEAST_FREE_BYTES", 1 << 62)
    assert spill(DATA) is DATA


@pytest.mark.usefixtures("at_once")
def test_a_missing_temporary_folder_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine holds everything, as it would without a file."""
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    assert spill(DATA) is DATA


@pytest.mark.usefixtures("at_once")
def test_a_disk_that_becomes_full_loses_nothing() -> None:
    """Half of the second item finds room: it stays in memory, and the next one takes its place."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(DATA) * 3 // 2, hard))
    try:
        first, second, third = spill(DATA), spill(DATA[::-1]), spill(DATA[:100])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (len(first), len(second), len(third)) == (PLACE_BYTES, len(DATA), PLACE_BYTES)
    assert unspill_all([first, second, third]) == [DATA, DATA[::-1], DATA[:100]]


@pytest.mark.usefixtures("at_once")
def test_threads_share_the_file() -> None:
    """An engine may have several."""

    def there_and_back(number: int) -> bool:
        data = number.to_bytes(4, "big") * 100
        return unspill(spill(data)) == data

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(there_and_back, range(2000)))


@pytest.mark.usefixtures("at_once")
def test_references_of_another_file_are_an_error() -> None:
    """Bytes that are not there are never made up."""
    place = spill(DATA)
    with spill_file(), pytest.raises(OSError, match="Bad file descriptor"):
        unspill(place)


@pytest.mark.usefixtures("at_once")
def test_a_file_that_is_cut_short_is_an_error() -> None:
    """The message names the file."""
    place = spill(DATA)
    open_files = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    (path,) = (
        path
        for path in open_files
        if os.path.lexists(path) and os.path.exists(path) and os.stat(path).st_size == len(DATA)
    )
    os.truncate(path, 10)
    with pytest.raises(OSError, match="the temporary file of references was cut short"):
        unspill(place)


def test_no_references_look_like_a_place() -> None:
    """Packed items begin as zlib does, and a batch with the number of its items."""
    assert pack(())[0] == pack([("a",)])[0] == 0x68
    assert ImageBatch().encode()[:4] == bytes(4)


@pytest.mark.usefixtures("at_once")
def test_batches_go_through_the_file_between_stages() -> None:
    """A batch that an engine holds is the same batch when it is read."""
    images = [
        ImageRef(f"{i % 7}/{i * 7919}.jpg", f"/p/{i % 7}/{i * 7919}.jpg", i) for i in range(99)
    ]
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        found = (
            pipeline
            | beam.Create([0])
            | "List" >> beam.Map(lambda _: ImageBatch(images)).with_output_types(ImageBatch)
            | beam.Reshuffle()
            | "Items" >> beam.FlatMap(list)
        )
        assert_that(found, equal_to(images))
