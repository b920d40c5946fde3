"""What is recorded of an encoding, reading ahead for it, and the spool of samples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from beam_pipeline.core.images import png
from beam_pipeline.core.images.preparation import PixelFormat
from beam_pipeline.core.labels import schema
from beam_pipeline.core.records.example_source import (
    ExampleOptions,
    LabelledImages,
    SerializedExamples,
)
from beam_pipeline.core.records.record_format import EncodedSample
from beam_pipeline.core.references import SampleRef
from beam_pipeline.storage import files
from beam_pipeline.storage.read_ahead import ONE_BY_ONE, ReadOptions
from beam_pipeline.work import records
from beam_pipeline.work.writing import EncodingOptions
from tests.core.records.fixtures import made
from tests.pictures import picture, write_files

ANIMAL = (
    schema.further_column("age", schema.ColumnKind.INT64),
    schema.label_column("animal", schema.ColumnKind.CLASS),
)


def test_the_recorded_options_are_those_of_older_receipts() -> None:
    """The same keys and values in the same order, so that a shard of an earlier version is kept."""
    encoding = EncodingOptions(
        LabelledImages(ANIMAL[1:], PixelFormat(32, 32)),
        seed=7,
        options=ExampleOptions("full", {"h": "image/height"}, clip_boxes=True),
    )
    assert json.dumps(encoding.recorded()) == (
        '{"columns": [{"name": "animal", "kind": "class", "feature": "image/class", '
        '"required": true, "repeated": false, "pixels": false}], "image_check": "full", '
        '"seed": 7, "renames": {"h": "image/height"}, "clip_boxes": true, "pixels": [32, 32], '
        '"image_encoding": "png", "features": null}'
    )


@pytest.mark.parametrize(
    "encoding",
    [
        EncodingOptions(LabelledImages(())),
        EncodingOptions(
            LabelledImages(schema.object_columns(pixels=False), PixelFormat(2, 3)),
            seed=-5,
            options=ExampleOptions("full", {"a": "image/width"}, True, "raw"),
        ),
        EncodingOptions(
            LabelledImages(()), options=ExampleOptions(filters={"min_side": 3, "max_aspect": 2.5})
        ),
        EncodingOptions(SerializedExamples(described={"x": {"kind": "bytes"}}), seed=1),
        EncodingOptions(
            LabelledImages(
                (schema.segmentation_column("class", required=True, bits=16),),
                mask_colours=((1, 2, 3, 0), (0, 0, 0, 300)),
            )
        ),
    ],
)
def test_recorded_options_are_read_back(encoding: EncodingOptions) -> None:
    """From JSON, as `repair` does it."""
    assert EncodingOptions.from_recorded(json.loads(json.dumps(encoding.recorded()))) == encoding


def test_options_that_older_receipts_lack_have_their_defaults() -> None:
    """A receipt of the first version has no more than these."""
    older = {"columns": [], "image_check": "full", "seed": 3}
    assert EncodingOptions.from_recorded(older) == EncodingOptions(
        LabelledImages(()), seed=3, options=ExampleOptions("full")
    )


def test_the_classes_of_samples_are_named_once_and_sorted() -> None:
    """One a sample, or one an object; none where no column is a class."""
    refs = [SampleRef(name, "uri", 1, "train", (3, name)) for name in ("dog", "cat", "dog")]
    assert EncodingOptions(LabelledImages(ANIMAL)).class_names(refs) == ["cat", "dog"]
    assert EncodingOptions(LabelledImages(ANIMAL[:1])).class_names(refs) == []
    lists = [SampleRef("1", "uri", 1, "train", (("b", "a"),)), SampleRef("2", "uri", 1, "", ((),))]
    assert EncodingOptions(SerializedExamples()).class_names(lists) == ["a", "b"]


def test_the_features_follow_the_renames() -> None:
    """Their keys are as written."""
    renamed = ExampleOptions(renames={"label": "image/class/label"})
    encoding = EncodingOptions(LabelledImages(ANIMAL), options=renamed)
    assert encoding.columns == ANIMAL
    assert {"label", "image/class/text", "label/age"} < encoding.features().keys()
    assert "image/class/label" not in encoding.features()


@pytest.fixture(params=[ONE_BY_ONE, ReadOptions(4), ReadOptions(prefetched=4)])
def make(request: pytest.FixtureRequest) -> Any:
    """Makes samples of references, reading ahead as far as may be: image, reason and file of each."""

    def samples(encoding: EncodingOptions, refs: list[SampleRef]) -> list[Any]:
        with encoding.maker({}, refs, request.param) as maker:
            return [made(maker, ref) for ref in refs]

    return samples


def reasons(samples: list[Any]) -> list[str]:
    return [getattr(sample, "reason", "") for sample in samples]


def test_a_maker_reads_the_images_it_is_asked_for(tmp_path: Path, make: Any) -> None:
    """In order, however far it reads ahead; a missing one is a dead letter."""
    pictures = {f"{n}.jpg": picture(n) for n in range(4)}
    write_files(str(tmp_path), {n: data for n, data in pictures.items() if n != "2.jpg"})
    refs = [
        SampleRef(name, f"{tmp_path}/{name}", len(data), "train", ())
        for name, data in pictures.items()
    ]
    samples = make(EncodingOptions(LabelledImages(())), refs)
    images = [getattr(sample, "image", None) for sample in samples]
    assert images == [picture(0), picture(1), None, picture(3)]
    assert reasons(samples) == ["", "", "unreadable", ""]


def test_a_file_that_is_filtered_by_its_bytes_is_not_read(tmp_path: Path, make: Any) -> None:
    """Were it opened, it would be unreadable; even beyond 2 GiB it is filtered and not too large."""
    write_files(str(tmp_path), {"a.jpg": picture(1)})
    size = len(picture(1))
    listed = {"0.jpg": size + 1, "a.jpg": size, "2.jpg": 1 << 40}
    refs = [SampleRef(name, f"{tmp_path}/{name}", n, "train", ()) for name, n in listed.items()]
    filtering = ExampleOptions(filters={"max_image_bytes": size})
    samples = make(EncodingOptions(LabelledImages(()), options=filtering), refs)
    assert reasons(samples) == ["filtered_max_image_bytes", "", "filtered_max_image_bytes"]
    assert samples[1].image == picture(1)


def test_masks_are_read_ahead_with_their_images(tmp_path: Path, make: Any) -> None:
    """In order, also where an image or a mask is missing, broken, changed, or not there at all."""
    columns = (schema.segmentation_column("class", required=False),)
    mask, folder = png.grey_png(bytes(63), 9, 7), str(tmp_path)
    pictures = {f"{n}.jpg": picture(n) if n != 1 else b"no image" for n in range(6)}
    write_files(folder, {**pictures, **{f"{n}.png": mask for n in range(6) if n != 2}})
    refs = []
    for n, (name, data) in enumerate(pictures.items()):
        label = None if n == 4 else (f"{folder}/{n}.png", len(mask) + (n == 3), 0)
        refs.append(SampleRef(name, f"{folder}/{name}", len(data), "train", (label,)))
    samples = make(EncodingOptions(LabelledImages(columns)), refs)
    assert reasons(samples) == [
        *("", "not_an_image", "unreadable", "changed_since_listing", "", "")
    ]
    assert getattr(samples[2], "file", "") == f"{folder}/2.png"
    written = [isinstance(s, EncodedSample) and mask in s.before + s.after for s in samples]
    assert written == [True, False, False, False, False, True]


# --- sample spool


@pytest.mark.parametrize("count", [0, 1, 5000])
def test_samples_are_found_by_their_references(tmp_path: Path, count: int) -> None:
    """Each reference leads to the bytes of its example, and has its key, split and classes."""
    with records.sample_spool(str(tmp_path / "spool")) as add:
        for number in range(count):
            add(f"k{number}", "train", (f"c{number % 3}",), b"x" * (number % 7) + b"!")
    refs = list(records.SpoolReader().read(f"{tmp_path}/spool/samples.index", ""))
    assert len(refs) == count
    for number in {0, 1, 4095, 4096, 4999} & set(range(count)):
        ref = refs[number]
        assert isinstance(ref, SampleRef)
        assert ref.key == f"k{number}"
        assert (ref.split, ref.labels) == ("train", ((f"c{number % 3}",),))
        assert files.read_image(ref.uri, ref.size, ref.offset) == b"x" * (number % 7) + b"!"


def test_a_spool_is_never_written_over(tmp_path: Path) -> None:
    """Two jobs that were given one folder would mix their samples."""
    with records.sample_spool(str(tmp_path)):
        pass
    with pytest.raises(FileExistsError), records.sample_spool(str(tmp_path)):
        pass
