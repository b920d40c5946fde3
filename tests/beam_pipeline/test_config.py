"""What options are resolved to, and how far images are read ahead."""

from __future__ import annotations

import dataclasses
import json
import os
from fractions import Fraction
from pathlib import Path

import pytest

from beam_pipeline.config import ConvertConfig
from beam_pipeline.core.dead_letters import Reason
from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.labels.schema import ColumnKind, label_column
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.core.packing import pack
from beam_pipeline.core.records.example_source import LabelledImages
from beam_pipeline.core.records.sharding import ShardSpec, SplitFractions
from beam_pipeline.core.records.tfrecord import TFRecordFormat
from beam_pipeline.core.references import SampleRef
from beam_pipeline.inputs import convert_config
from beam_pipeline.layouts.layout import ContainerLabels, FolderLabels, Source
from beam_pipeline.options import (
    ConvertOptions,
    EngineOptions,
    ImageOptions,
    InputOptions,
    OutputOptions,
    SplitOptions,
)
from beam_pipeline.storage.read_ahead import ReadOptions
from beam_pipeline.work.records import SpoolReader
from beam_pipeline.work.writing import EncodingOptions, ShardTask, WriteRequest
from tests.harness import convert, digests, reasons_of
from tests.pictures import picture, write_files, write_pictures

# --- config ----------------------------------------------------------------------------------------


@pytest.fixture
def options(tmp_path: Path) -> ConvertOptions:
    """A table of two columns, and an option of each kind."""
    write_pictures(f"{tmp_path}/photos", ["1.jpg"])
    write_files(str(tmp_path), {"l.csv": "filename,label,size\n1.jpg,cat,2\n"})
    return ConvertOptions(
        inputs=InputOptions(images=(f"{tmp_path}/photos",), labels=(f"{tmp_path}/l.csv",)),
        splits=SplitOptions(
            splits=SplitFractions((("train", Fraction(9, 10)), ("test", Fraction(1, 10)))),
            num_shards={"train": 3},
            seed=7,
        ),
        images=ImageOptions(clip_boxes=True),
        output=OutputOptions(
            output=f"{tmp_path}/my set/", compression="gzip", features={"image/source_id": "label"}
        ),
    )


RECORDED = (
    '{"splits": {"train": 0.9, "test": 0.1}, "num_shards": {"train": 3}, "shard_size": 200000000, '
    '"layout": "table", "label_base": 0, "label_order": "code_point", "label_from_name": false, '
    '"columns": [{"name": "label", "kind": "class", "feature": "image/class", "repeated": false}, '
    '{"name": "size", "kind": "int64", "feature": "label/size", "repeated": false}], '
    '"features": {"image/source_id": "image/class/label"}, "shuffle": "references", '
    '"image_check": "header", "image_encoding": null, "clip_boxes": true, "compression": "gzip"}'
)


def test_recorded_options_keep_their_form_and_order(options: ConvertOptions) -> None:
    """The manifest and the digests of receipts depend on them, byte for byte."""
    config, _ = convert_config(options)
    assert json.dumps(config.recorded) == RECORDED
    assert list(config.run) == ["name", "seed", "options", "features"]
    assert (config.name, config.run["seed"]) == ("my_set", 7)


def test_filters_are_recorded_where_they_are_given(options: ConvertOptions) -> None:
    """In one order, whatever the order they were typed in; manifests without them stay as they were."""
    images = ImageOptions(clip_boxes=True, max_image_bytes=500, max_aspect=2.5, min_side=3)
    config, _ = convert_config(dataclasses.replace(options, images=images))
    filters = '{"min_side": 3, "max_aspect": 2.5, "max_image_bytes": 500}'
    assert json.dumps(config.recorded) == f'{RECORDED[:-1]}, "filters": {filters}}}'
    assert json.dumps(config.encoding.recorded()["filters"]) == filters
    assert config.encoding.options.filters == images.filters


def test_what_was_typed_and_what_it_is_are_kept_apart(
    options: ConvertOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The options stay as typed; paths, name and features are resolved beside them."""
    monkeypatch.chdir(tmp_path)
    typed = ConvertOptions(inputs=InputOptions(images=("photos",)), output=OutputOptions("out"))
    config, why = convert_config(typed)
    assert config.options is typed
    assert config.output == f"{tmp_path}/out"
    assert config.name == "out"
    assert [root.uri for root in config.source.roots] == [f"{tmp_path}/photos"]
    assert (config.label_bytes, config.inventory, config.renames) == (None, (), {})
    assert why == "no --labels and no other layout's files"
    labelled, _ = convert_config(options)
    assert labelled.label_bytes == len("filename,label,size\n1.jpg,cat,2\n")


def test_the_command_shown_is_that_of_the_data_set(options: ConvertOptions) -> None:
    """Whatever engine, folder and earlier data set made it, and without secrets."""
    config, _ = convert_config(options)
    here = OutputOptions("/elsewhere/x", name="my_set", overwrite=True, reuse="sets/1")
    again = dataclasses.replace(options, output=here, engine=EngineOptions(writers=3))
    other = dataclasses.replace(config, options=again, output="/elsewhere/x")
    plain = dataclasses.replace(here, output="my_set", overwrite=False, reuse="")
    expected = dataclasses.replace(options, output=plain, engine=EngineOptions()).command()
    assert other.command == expected
    shown = dataclasses.replace(other, shown_inputs={"labels": ("https://h/a.csv?sig=5e3c",)})
    assert "--labels 'https://h/a.csv?...'" in shown.command
    assert dataclasses.replace(other, made_by="f()").command == "f()"


def test_an_encoding_for_images_in_files_is_refused(options: ConvertOptions) -> None:
    """Only the source tells whether images are bare pixels."""
    config, _ = convert_config(options)
    raw = ConvertOptions(images=ImageOptions(image_encoding="raw"))
    with pytest.raises(UsageError, match="--image_encoding is for images that are bare pixels"):
        ConvertConfig(options=raw, source=config.source, output="/out", name="x")


# --- read ahead ------------------------------------------------------------------------------------


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
