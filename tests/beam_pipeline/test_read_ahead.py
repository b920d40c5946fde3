"""Whole conversions that read ahead: the same bytes, the same dead letters."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from beam_pipeline.config import ConvertConfig
from beam_pipeline.core.dead_letters import Reason
from beam_pipeline.core.labels.schema import ColumnKind, label_column
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.core.packing import pack
from beam_pipeline.core.records.example_source import LabelledImages
from beam_pipeline.core.records.sharding import ShardSpec
from beam_pipeline.core.records.tfrecord import TFRecordFormat
from beam_pipeline.core.references import SampleRef
from beam_pipeline.layouts.layout import ContainerLabels, FolderLabels, Source
from beam_pipeline.options import ConvertOptions, EngineOptions
from beam_pipeline.storage.read_ahead import ReadOptions
from beam_pipeline.work.sample_spool import SpoolReader
from beam_pipeline.work.writing import EncodingOptions, ShardTask, WriteRequest
from tests.harness import convert, digests, reasons_of
from tests.pictures import picture, write_files, write_pictures


@pytest.fixture
def photos(tmp_path: Path) -> str:
    """Forty images in two classes, an empty file, and one that is no image."""
    folder = str(tmp_path / "photos")
    write_pictures(folder, [f"{'ab'[i % 2]}/{i}.jpg" for i in range(40)])
    write_files(folder, {"a/empty.jpg": b"", "b/text.jpg": "no image"})
    return folder


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--read_ahead=8",),
        ("--read_ahead=8", "--read_ahead_size=1KB"),
        ("--read_ahead=3", "--writers=0", "--read_ahead_size=1B"),
    ],
)
def test_reading_ahead_changes_no_byte(photos: str, tmp_path: Path, options: tuple[str]) -> None:
    """Shards, manifest and dead letters are those of a run that reads one image at a time."""
    argv = ("--images", photos, "--name=x", "--num_shards=3", "--max_bad_fraction=0.1")
    assert convert(*argv, "--read_ahead=1", "--output", f"{tmp_path}/one") == 0
    assert convert(*argv, *options, "--output", f"{tmp_path}/ahead") == 0
    assert digests(tmp_path / "one") == digests(tmp_path / "ahead")
    assert reasons_of(tmp_path / "ahead") == {
        "a/empty.jpg": "empty_file",
        "b/text.jpg": "not_an_image",
    }


@pytest.mark.parametrize("reading", [ReadOptions(4), ReadOptions(prefetched=4)])
def test_what_is_too_large_to_read_is_not_read_ahead(tmp_path: Path, reading: ReadOptions) -> None:
    """It becomes a dead letter at its place; the images around it are written."""
    refs = []
    for number in range(12):
        uri = f"{tmp_path}/{number}.jpg"
        write_files(str(tmp_path), {f"{number}.jpg": picture(number)})
        size = os.path.getsize(uri)
        if number % 3 == 0:
            os.unlink(uri)  # who tries to read it sees another reason
            size = 3 << 30
        refs.append(SampleRef(f"{number}.jpg", uri, size, "train", ("cat",)))
    task = ShardTask(
        request=WriteRequest(
            folder=str(tmp_path),
            encoding=EncodingOptions(LabelledImages((label_column("class", ColumnKind.CLASS),))),
            reading=reading,
        ),
        spec=ShardSpec(split="train", number=0, of=1, file_name="shard"),
        batches=[pack(refs)],
        class_ids={"cat": 0},
        record_format=TFRecordFormat(),
    )
    written = task.run()
    (info,) = written.main
    assert info.examples == 8
    assert {(dead_letter.key, dead_letter.reason) for dead_letter in written.dead_letters} == {
        (f"{number}.jpg", Reason.TOO_LARGE) for number in (0, 3, 6, 9)
    }


@pytest.mark.parametrize(
    ("folders", "output", "asked", "expected"),
    [
        (("/photos",), "gs://bucket/out", None, ReadOptions(prefetched=16)),
        (("gs://bucket/photos",), "/out", None, ReadOptions(32)),
        (("/photos", "s3://bucket/photos"), "/out", None, ReadOptions(32)),
        (("gs://bucket/photos",), "gs://bucket/out", 1, ReadOptions(1)),
        (("/photos",), "/out", 1, ReadOptions(1)),
        (("/photos",), "/out", 5, ReadOptions(5)),
        ((), "/out", None, ReadOptions(1)),
        ((), "gs://bucket/out", None, ReadOptions(32)),
    ],
)
@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="the system takes no advice")
def test_where_images_lie_decides_how_far_is_read_ahead(
    folders: tuple[str, ...], output: str, asked: int | None, expected: ReadOptions
) -> None:
    """32 reads for a bucket, prefetched files for a disk, neither for containers, if nothing is said.

    What containers hold may be unpacked to the output, so where that lies counts for them.
    """
    labels = FolderLabels() if folders else ContainerLabels(SpoolReader(), ("/cifar/data_batch_1",))
    source = Source("some", tuple(map(ImageRoot, folders)), labels, LabelledImages(()))
    options = ConvertOptions(engine=EngineOptions(read_ahead=asked))
    config = ConvertConfig(options=options, source=source, output=output, name="x")
    assert config.reading == expected
    assert not any("read" in name for name in config.recorded)
