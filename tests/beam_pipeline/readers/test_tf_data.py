"""`load` and `feature_spec`: what comes out of each kind of data set, in which order and shape."""

from __future__ import annotations

import io
import json
import os
import shutil
import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

import beam_pipeline
from beam_pipeline.core.errors import (
    DamagedRecordError,
    UsageError,
)
from beam_pipeline.core.records.tfrecord import TFRecordFormat, frame_header
from beam_pipeline.dataset import Dataset, JoinedDatasets, Shard
from beam_pipeline.readers.samples import PixelOptions, PixelPlan
from beam_pipeline.readers.tf_data import SHUFFLE_BUFFER_BYTES, shuffle_buffer
from tests.beam_pipeline.readers.by_hand import example_of, feature, jpeg, write_by_hand
from tests.harness import convert, manifest_of, python, read_shard, shard_names
from tests.layouts.make_segmentation import grey
from tests.pictures import picture, write_files, write_pictures

SIDES = ("ymin", "xmin", "ymax", "xmax")
IMAGE = {"image/encoded": feature("bytes")}
LABEL = {**IMAGE, "image/class/label": feature("int64")}
OBJECTS = {
    **{f"image/object/bbox/{side}": feature("float", None) for side in SIDES},
    "image/object/class/label": feature("int64", None),
}


def write_set(folder: Path, features: Any, shards: Sequence[Any], /, **options: Any) -> str:
    """Writes a data set of one split by hand."""
    return write_by_hand(folder, features, *shards, **options)


def decoded(image: bytes, channels: int = 3) -> Any:
    return tf.io.decode_image(image, channels=channels, expand_animations=False).numpy()


@pytest.fixture(scope="module")
def pets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 pictures of two classes and one size, 40 to train on in 5 shards."""
    folder = tmp_path_factory.mktemp("pets")
    names = [f"{'train' if i < 40 else 'test'}/{('cat', 'dog')[i % 2]}/{i}.png" for i in range(60)]
    write_pictures(str(folder / "photos"), names)
    argv = ("--images", f"{folder}/photos", "--output", f"{folder}/out", "--num_shards", "5")
    assert convert(*argv) == 0
    return folder / "out"


def stored(folder: Path, split: str) -> list[tuple[bytes, int]]:
    """(source_id, label) in the order of the shards, read without the reader."""
    return [
        (example["image/source_id"][0], example["image/class/label"][0])
        for name in shard_names(folder)
        if f"-{split}.tfrecord-" in name
        for example in read_shard(folder, name)
    ]


def ids(dataset: Any) -> list[bytes]:
    """The source_ids of a data set of dicts, in order."""
    return [element["image/source_id"] for element in dataset.as_numpy_iterator()]


def test_importing_the_package_imports_no_tensorflow_and_no_beam() -> None:
    """The package's import stays cheap; the reader's names are there, and no others are."""
    script = (
        "import sys; before = set(sys.modules); import beam_pipeline; "
        "print(sorted(set(sys.modules) - before), {'load', 'feature_spec'} <= set(dir(beam_pipeline)))"
    )
    done = python("-c", script, check=True)
    assert done.stdout == "['beam_pipeline'] True\n"
    with pytest.raises(AttributeError, match="module 'beam_pipeline' has no attribute 'lode'"):
        beam_pipeline.lode  # type: ignore[attr-defined]  # noqa: B018


def test_reading_imports_nothing_that_plans_a_conversion() -> None:
    """The readers begin in a fraction of the time that a conversion takes to."""
    script = "import sys; from beam_pipeline import RandomAccess; print(*sys.modules)"
    done = python("-c", script, check=True)
    names = {name for name in done.stdout.split() if name.startswith("beam_pipeline.")}
    core = "beam_pipeline.core"
    assert f"{core}.dataset.manifest" in names
    assert not names & {f"{core}.dataset.plan", f"{core}.dataset.receipts", f"{core}.report"}
    assert not names & {f"{core}.images.preparation", f"{core}.labels.cells", "beam_pipeline.work"}


def test_without_tensorflow_the_error_says_what_to_install() -> None:
    """Where TensorFlow cannot be imported, `load` cannot either, and says how it can."""
    script = "import sys; sys.modules['tensorflow'] = None; from beam_pipeline import load"
    done = python("-c", script)
    assert done.returncode == 1
    remedy = "; reading with tf.data needs TensorFlow: pip install tensorflow"
    assert done.stderr.splitlines()[-1].endswith(remedy)


def test_classes_come_as_decoded_image_and_id(tmp_path: Path) -> None:
    """Elements are (uint8 image of its own size, int64 id), in stored order without shuffle."""
    write_pictures(str(tmp_path / "photos"), ["cat/a.jpg", "dog/b.png", "dog/c.gif", "eel/d.bmp"])
    write_files(str(tmp_path / "photos"), {"eel/e.jpg": picture(7, size=(5, 11))})
    out = tmp_path / "out"
    assert convert("--images", f"{tmp_path}/photos", "--output", str(out), "--label_base", "1") == 0
    dataset = beam_pipeline.load(out, shuffle=False)
    assert dataset.element_spec == (
        tf.TensorSpec((None, None, 3), tf.uint8),
        tf.TensorSpec((), tf.int64),
    )
    (name,) = shard_names(out)
    expected = read_shard(out, name)
    assert len(dataset) == len(expected) == 5
    for (image, label), example in zip(dataset.as_numpy_iterator(), expected, strict=True):
        assert np.array_equal(image, decoded(example["image/encoded"][0]))
        assert [label] == example["image/class/label"]
    assert beam_pipeline.class_names(out) == {1: "cat", 2: "dog", 3: "eel"}


def test_numbers_come_as_float32(tmp_path: Path) -> None:
    """A regression set gives the stored float, alone and in batches."""
    write_pictures(str(tmp_path / "faces"), ["1.png", "2.png", "3.png"])
    write_files(str(tmp_path), {"l.csv": "filename,label\n1,0.5\n2,6.094467065223975\n3,-2\n"})
    out = tmp_path / "out"
    argv = ("--images", f"{tmp_path}/faces", "--labels", f"{tmp_path}/l.csv", "--output", str(out))
    assert convert(*argv) == 0
    dataset = beam_pipeline.load(out, batch_size=3, image_size=(4, 4))
    assert dataset.element_spec[1] == tf.TensorSpec((None,), tf.float32)
    ((_, labels),) = dataset.as_numpy_iterator()
    as_float32 = struct.unpack("<f", struct.pack("<f", 6.094467065223975))[0]
    assert sorted(labels.tolist()) == [-2.0, 0.5, as_float32]


def detection_set(folder: Path) -> str:
    """Four images: with two objects, with none, with lists left out, with three objects."""
    objects = [
        ([0.1, 0.2], [0.3, 0.4], [0.5, 0.6], [0.7, 0.8], [4, 2]),
        ([], [], [], [], []),
        None,
        ([0.0] * 3, [0.25] * 3, [0.5] * 3, [1.0] * 3, [1, 1, 3]),
    ]
    keys = [*(f"image/object/bbox/{side}" for side in SIDES), "image/object/class/label"]
    examples = [
        {"image/encoded": picture(i), **dict(zip(keys, lists or (), strict=False))}
        for i, lists in enumerate(objects)
    ]
    return write_set(folder, {**IMAGE, **OBJECTS}, [examples])


BOXES = [
    [[0.1, 0.3, 0.5, 0.7], [0.2, 0.4, 0.6, 0.8]],
    [],
    [],
    [[0.0, 0.25, 0.5, 1.0]] * 3,
]
CLASSES = [[4, 2], [], [], [1, 1, 3]]


def test_boxes_come_as_corners_and_classes(tmp_path: Path) -> None:
    """[n, 4] as ymin, xmin, ymax, xmax; in a batch of images they are ragged."""
    folder = detection_set(tmp_path / "d")
    dataset = beam_pipeline.load(folder, shuffle=False)
    labels = [label for _, label in dataset.as_numpy_iterator()]
    assert [label["boxes"].shape for label in labels] == [(2, 4), (0, 4), (0, 4), (3, 4)]
    for label, boxes, classes in zip(labels, BOXES, CLASSES, strict=True):
        np.testing.assert_array_equal(label["boxes"], np.float32(boxes).reshape(-1, 4))
        assert label["classes"].tolist() == label["labels"].tolist() == classes
    ((images, label),) = beam_pipeline.load(folder, shuffle=False, batch_size=4)
    assert images.shape == (4, 7, 9, 3)
    assert label["boxes"].shape.as_list() == [4, None, 4]
    assert label["boxes"].to_list() == [one["boxes"].tolist() for one in labels]
    assert label["classes"].to_list() == label["labels"].to_list() == CLASSES


def test_max_boxes_pads_and_cuts_behind_augment(tmp_path: Path) -> None:
    """Padding is boxes of zeros and class -1; augment sees the boxes that there are."""

    def flipped(image: Any, label: Any) -> Any:
        ymin, xmin, ymax, xmax = tf.unstack(label["boxes"], axis=-1)
        boxes = tf.stack([ymin, 1 - xmax, ymax, 1 - xmin], axis=-1)
        return tf.image.flip_left_right(image), {**label, "boxes": boxes}

    folder = detection_set(tmp_path / "d")
    dataset = beam_pipeline.load(folder, shuffle=False, batch_size=4, max_boxes=2, augment=flipped)
    ((images, label),) = dataset.as_numpy_iterator()
    assert label["classes"].tolist() == [[4, 2], [-1, -1], [-1, -1], [1, 1]]
    assert label["labels"].tolist() == label["classes"].tolist()
    assert label["boxes"].shape == (4, 2, 4)
    np.testing.assert_array_equal(label["boxes"][1:3], np.zeros((2, 2, 4)))
    np.testing.assert_allclose(label["boxes"][0, 0], [0.1, 0.3, 0.5, 0.7], rtol=1e-6)
    np.testing.assert_array_equal(label["boxes"][3], [[0.0, 0.0, 0.5, 0.75]] * 2)
    np.testing.assert_array_equal(images[0], decoded(picture(0))[:, ::-1])

    with pytest.raises(UsageError, match=r'augment must return \(image, {"boxes"'):
        beam_pipeline.load(folder, max_boxes=2, augment=lambda image, label: image)


def test_lists_of_classes_come_as_one_number_a_class(tmp_path: Path) -> None:
    """Column i is the i-th class of the manifest, whatever its id; no class gives zeros."""
    features = {**IMAGE, "image/class/label": feature("int64", None)}
    lists = [[1, 5], [], [2], [5, 5]]
    examples = [{"image/encoded": picture(), "image/class/label": found} for found in lists]
    classes = {1: "cat", 2: "dog", 5: "eel"}
    folder = write_set(tmp_path / "d", features, [examples], classes=classes)
    dataset = beam_pipeline.load(folder, shuffle=False, batch_size=4)
    assert dataset.element_spec[1] == tf.TensorSpec((None, 3), tf.float32)
    ((_, labels),) = dataset.as_numpy_iterator()
    assert labels.tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0], [0, 0, 1]]
    without = write_set(tmp_path / "e", features, [examples])
    with pytest.raises(UsageError, match="its manifest names no classes"):
        beam_pipeline.load(without)


def test_renamed_features_are_found(tmp_path: Path) -> None:
    """The manifest's rename map says under which key the image and the label lie."""
    features = {"jpg": feature("bytes"), "image/source_id": feature("int64")}
    examples = [{"jpg": picture(i), "image/source_id": i} for i in range(3)]
    renames = {"jpg": "image/encoded", "image/source_id": "image/class/label"}
    folder = write_set(tmp_path / "d", features, [examples], features=renames)
    pairs = list(beam_pipeline.load(folder, shuffle=False).as_numpy_iterator())
    assert [label for _, label in pairs] == [0, 1, 2]
    assert np.array_equal(pairs[2][0], decoded(picture(2)))
    elements = list(beam_pipeline.load(folder, shuffle=False, as_dict=True).as_numpy_iterator())
    assert [sorted(element) for element in elements] == [["image", "image/source_id"]] * 3


def raw_set(folder: Path, images: Sequence[Any]) -> str:
    sizes = {f"image/{key}": feature("int64") for key in ("height", "width", "channels")}
    features = {**IMAGE, **sizes, "image/class/label": feature("int64")}
    examples = [
        {
            "image/encoded": image.tobytes(),
            **dict(zip(sizes, image.shape, strict=True)),
            "image/class/label": i,
        }
        for i, image in enumerate(images)
    ]
    return write_set(folder, features, [examples], image_encoding="raw")


def test_bare_pixels_come_as_images(tmp_path: Path) -> None:
    """Raw pixels are rows of pixels of channels; grey becomes colours and the other way round."""
    rng = np.random.default_rng(0)
    colours = rng.integers(0, 256, (4, 6, 3), np.uint8)
    grey = rng.integers(0, 256, (4, 6, 1), np.uint8)
    folder = raw_set(tmp_path / "d", [colours, grey])
    ((images, _),) = beam_pipeline.load(folder, shuffle=False, batch_size=2).as_numpy_iterator()
    assert images.dtype == np.uint8
    assert np.array_equal(images, [colours, np.repeat(grey, 3, axis=-1)])
    (one, two) = beam_pipeline.load(folder, shuffle=False, channels=1).as_numpy_iterator()
    assert np.array_equal(one[0], tf.image.rgb_to_grayscale(colours))
    assert np.array_equal(two[0], grey)
    resized = beam_pipeline.load(folder, shuffle=False, image_size=(2, 3))
    assert np.array_equal(next(iter(resized))[0], tf.image.resize(colours, (2, 3)))
    (four, _) = beam_pipeline.load(folder, shuffle=False, channels=4).as_numpy_iterator()
    assert np.array_equal(four[0][..., :3], colours)
    assert (four[0][..., 3] == 255).all()


def test_as_dict_batches_lists_as_ragged(tmp_path: Path) -> None:
    """A feature of any length is ragged in a batch, one of a fixed length is not."""
    features = {
        **IMAGE,
        "tags": feature("bytes", None),
        "at": feature("float", 2, optional=True),
    }
    examples = [
        {"image/encoded": picture(), "tags": [b"a", b"b"], "at": [1.0, 2.0]},
        {"image/encoded": picture()},
    ]
    folder = write_set(tmp_path / "d", features, [examples])
    (batch,) = beam_pipeline.load(folder, as_dict=True, shuffle=False, batch_size=2)
    assert batch["tags"].to_list() == [[b"a", b"b"], []]
    np.testing.assert_array_equal(batch["at"], [[1.0, 2.0], [np.nan, np.nan]])
    assert batch["image"].shape == (2, 7, 9, 3)


def test_a_set_without_pairs_says_to_use_as_dict(tmp_path: Path) -> None:
    """Without a label or without an image there are no pairs; as_dict gives what there is."""
    unlabelled = write_set(tmp_path / "u", IMAGE, [[{"image/encoded": picture()}]])
    with pytest.raises(
        UsageError,
        match=r"has no masks \(image/segmentation/class/encoded\), classes \(image/class/label\), numbers.*as_dict=True",
    ):
        beam_pipeline.load(unlabelled)
    (element,) = beam_pipeline.load(unlabelled, as_dict=True).as_numpy_iterator()
    assert list(element) == ["image"]

    features = {"image": feature("int64", 2), "image/class/label": feature("int64")}
    examples = [{"image": [i, 2], "image/class/label": i} for i in range(3)]
    imageless = write_set(tmp_path / "i", features, [examples])
    with pytest.raises(
        UsageError, match=r"has no images \(image/encoded\).*: image, image/class/label"
    ):
        beam_pipeline.load(imageless)
    (batch,) = beam_pipeline.load(imageless, as_dict=True, shuffle=False, batch_size=3)
    assert batch["image"].numpy().tolist() == [[0, 2], [1, 2], [2, 2]]

    both = write_set(tmp_path / "b", {**IMAGE, "image": feature("int64")}, [[]])
    with pytest.raises(UsageError, match="has a feature 'image', which is where as_dict puts"):
        beam_pipeline.load(both, as_dict=True)


def test_feature_spec_parses_batches(tmp_path: Path) -> None:
    """One entry a feature, by kind, shape and optional; `tf.io.parse_example` takes it as it is."""
    features = {
        "text": feature("bytes"),
        "size": feature("int64", optional=True),
        "at": feature("float", 2),
        "tags": feature("int64", None, optional=True),
        "old": {"kind": "float", "optional": False},
    }
    examples = [
        {"text": b"x", "size": 3, "at": [1.0, 2.0], "tags": [7, 8], "old": 0.5},
        {"text": b"y", "at": [3.0, 4.0], "old": 1.5},
    ]
    folder = write_set(tmp_path / "d", features, [examples])
    spec = beam_pipeline.feature_spec(folder)
    assert spec == {
        "text": tf.io.FixedLenFeature((), tf.string),
        "size": tf.io.FixedLenFeature((), tf.int64, tf.int64.min),
        "at": tf.io.FixedLenFeature((2,), tf.float32),
        "tags": tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64),
        "old": tf.io.FixedLenFeature((), tf.float32),
    }
    parsed = tf.io.parse_example([example_of(features, example) for example in examples], spec)
    assert parsed["tags"].to_list() == [[7, 8], []]
    assert parsed["size"].numpy().tolist() == [3, tf.int64.min]
    assert parsed["at"].numpy().tolist() == [[1, 2], [3, 4]]


def test_images_are_resized_to_float32(pets: Path) -> None:
    """image_size gives what `tf.image.resize` makes of the decoded image, values 0 to 255."""
    whole = beam_pipeline.load(pets, "test", image_size=(14, 5))
    assert whole.element_spec[0] == tf.TensorSpec((14, 5, 3), tf.float32)
    for (image, _), (own, _) in zip(whole, beam_pipeline.load(pets, "test"), strict=True):
        np.testing.assert_array_equal(image, tf.image.resize(own, (14, 5)))
    assert max(float(tf.reduce_max(image)) for image, _ in whole) > 200


@pytest.mark.parametrize("file_format", ["WEBP", "JXL"])
def test_images_of_formats_with_channels_of_their_own_are_converted(
    tmp_path: Path, file_format: str
) -> None:
    """TensorFlow decodes WebP and JPEG XL only to the channels that they have, or not at all."""
    if file_format == "JXL":
        pytest.importorskip("pillow_jxl.JpegXLImagePlugin")
        pytest.importorskip("tensorflow", minversion="2.21")
    modes = ("RGB", "RGBA") if file_format == "WEBP" else ("L", "LA", "RGB", "RGBA")
    images = []
    for mode in modes:
        out = io.BytesIO()
        colours = Image.new("RGBA", (9, 7), (200, 100, 50, 128)).convert(mode)
        colours.save(out, file_format, lossless=True)
        images.append(out.getvalue())
    examples = [{"image/encoded": image, "image/class/label": 0} for image in images]
    folder = write_set(tmp_path / "d", LABEL, [examples])
    grey = 124  # of these colours
    expected = {
        "L": {1: [grey], 3: [grey] * 3, 4: [grey] * 3 + [255]},
        "LA": {1: [grey], 3: [grey] * 3, 4: [grey] * 3 + [128]},
        "RGB": {1: [grey], 3: [200, 100, 50], 4: [200, 100, 50, 255]},
        "RGBA": {1: [grey], 3: [200, 100, 50], 4: [200, 100, 50, 128]},
    }
    for channels in (1, 3, 4):
        dataset = beam_pipeline.load(folder, shuffle=False, channels=channels)
        assert [image.numpy().shape for image, _ in dataset] == [(7, 9, channels)] * len(modes)
        found = [image.numpy()[3, 4].tolist() for image, _ in dataset]
        assert found == [expected[mode][channels] for mode in modes]


def test_images_that_differ_in_size_make_no_batches(tmp_path: Path) -> None:
    """Among the first images the difference is an error at once, later one of the batch."""

    def examples(numbers: range, size: tuple[int, int]) -> list[dict[str, Any]]:
        return [{"image/encoded": picture(i, size=size), "image/class/label": i} for i in numbers]

    first = write_set(
        tmp_path / "d", LABEL, [examples(range(3), (9, 7)), examples(range(3), (8, 6))]
    )
    with pytest.raises(UsageError, match=r"such as 7 x 9 and 6 x 8 pixels.*give image_size="):
        beam_pipeline.load(first, batch_size=2)
    assert len(list(beam_pipeline.load(first))) == 6
    assert len(list(beam_pipeline.load(first, batch_size=2, image_size=(4, 4)))) == 3

    late = write_set(
        tmp_path / "e", LABEL, [examples(range(40), (9, 7)), examples(range(1), (9, 6))]
    )
    dataset = beam_pipeline.load(late, batch_size=41)
    assert dataset.element_spec[0].shape.as_list() == [None, 7, 9, 3]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"differ in size; give image_size="):
        list(dataset)


def test_augment_replaces_each_element(pets: Path) -> None:
    """It is called on single elements after resizing, and its shapes are those of the batches."""

    def crop(image: Any, label: Any) -> Any:
        assert image.shape == (12, 10, 3)
        if label == 0:  # a tensor: as in a map of tf.data
            image = image * 0
        return tf.image.random_crop(image, (6, 5, 3)), -label

    dataset = beam_pipeline.load(pets, image_size=(12, 10), augment=crop, batch_size=40)
    ((images, labels),) = dataset.as_numpy_iterator()
    assert images.shape == (40, 6, 5, 3)
    assert Counter(labels.tolist()) == {0: 20, -1: 20}
    assert [bool(image.any()) for image in images] == [bool(label) for label in labels]

    def named(element: Any) -> Any:
        return {"name": element["image/filename"]}

    names = beam_pipeline.load(pets, shuffle=False, as_dict=True, augment=named)
    expected = [name for name, _ in stored(pets, "train")]
    assert [element["name"] for element in names.as_numpy_iterator()] == expected


def test_without_shuffle_the_order_is_the_stored_one(pets: Path) -> None:
    """Shard after shard, pass after pass; it is the default of every split but train."""
    for split, options in (
        ("train", {"shuffle": False}),
        ("train", {"shuffle": False, "deterministic": False}),
        ("test", {}),
    ):
        dataset = beam_pipeline.load(pets, split, as_dict=True, **options)
        expected = [name for name, _ in stored(pets, split)]
        assert len(expected) == {"train": 40, "test": 20}[split]
        assert ids(dataset) == ids(dataset) == expected


def test_shuffle_gives_every_sample_once_in_another_order(pets: Path) -> None:
    """By default the split train is shuffled, anew in each pass."""
    expected = [name for name, _ in stored(pets, "train")]
    for options in ({}, {"shuffle": True}, {"shuffle": 8}):
        dataset = beam_pipeline.load(pets, as_dict=True, **options)
        first, second = ids(dataset), ids(dataset)
        assert sorted(first) == sorted(second) == sorted(expected)
        assert first != expected
        assert first != second


@pytest.mark.parametrize("shuffle", [False, 8])
def test_a_format_that_tf_data_cannot_read_is_read_in_python(
    pets: Path, shuffle: bool | int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same examples come in the same order."""
    expected = ids(beam_pipeline.load(pets, as_dict=True, shuffle=shuffle, seed=1))
    monkeypatch.setattr(TFRecordFormat, "tf_data", None)
    assert ids(beam_pipeline.load(pets, as_dict=True, shuffle=shuffle, seed=1)) == expected


def test_samples_are_drawn_from_as_many_as_asked_for(tmp_path: Path) -> None:
    """Within one shard too: a sample comes at most that many places too early."""
    examples = [{"image/encoded": picture(), "image/class/label": i} for i in range(60)]
    folder = write_set(tmp_path / "d", LABEL, [examples])
    few = [int(label) for _, label in beam_pipeline.load(folder, shuffle=4, seed=1)]
    assert sorted(few) == list(range(60)) != few
    assert max(label - index for index, label in enumerate(few)) == 3
    whole = [int(label) for _, label in beam_pipeline.load(folder, seed=1)]
    assert max(label - index for index, label in enumerate(whole)) > 20


def test_a_seed_gives_the_same_order_every_time(pets: Path) -> None:
    """Two data sets of one seed agree pass by pass; another seed gives another order."""

    def passes(seed: int) -> list[list[bytes]]:
        dataset = beam_pipeline.load(pets, as_dict=True, seed=seed, shuffle=16)
        return [ids(dataset), ids(dataset)]

    first = passes(3)
    assert first == passes(3)
    assert first[0] != first[1]
    assert passes(4) != first


@pytest.mark.parametrize(
    ("options", "deterministic"),
    [
        ({}, False),
        ({"seed": 0}, True),
        ({"seed": 0, "deterministic": False}, False),
        ({"deterministic": True}, True),
        ({"shuffle": False, "deterministic": False}, True),
    ],
)
def test_the_order_depends_on_time_only_where_nobody_minds(
    pets: Path, options: dict[str, Any], deterministic: bool
) -> None:
    """Without a seed, samples may overtake one another, unless the order is the stored one."""
    assert beam_pipeline.load(pets, **options).options().deterministic is deterministic


def test_the_shuffle_buffer_is_bounded_by_bytes() -> None:
    """True takes as many samples as fit 128 MiB by their mean size, and at most all."""
    huge = [Shard("a", 300, SHUFFLE_BUFFER_BYTES), Shard("b", 100, SHUFFLE_BUFFER_BYTES)]
    plan = PixelPlan((), "", (), (), "", "", (10, 20), PixelOptions())
    assert shuffle_buffer(True, huge, plan) == 200
    assert shuffle_buffer(True, [Shard("a", 300, 9000)], plan) == 300
    assert shuffle_buffer(True, [], plan) == 1
    assert shuffle_buffer(7, huge, plan) == 7
    assert shuffle_buffer(False, huge, plan) == 0
    assert shuffle_buffer(True, huge, plan, cache=True) == 400
    assert shuffle_buffer(True, [Shard("a", 10**6, 1)], plan, cache="x") == (128 << 20) // 2400


def test_lengths_are_known_and_batches_as_asked_for(pets: Path) -> None:
    """The data set knows its number of batches, with repeats and with the last one left out."""

    def sizes(**options: Any) -> tuple[int, list[int]]:
        dataset = beam_pipeline.load(pets, image_size=(4, 4), **options)
        return int(dataset.cardinality()), [len(labels) for _, labels in dataset.take(9)]

    assert sizes(batch_size=16) == (3, [16, 16, 8])
    assert sizes(batch_size=16, drop_remainder=True) == (2, [16, 16])
    assert sizes(batch_size=16, repeat=2) == (5, [16] * 5)
    assert sizes(batch_size=16, repeat=True) == (tf.data.INFINITE_CARDINALITY, [16] * 9)
    assert len(beam_pipeline.load(pets)) == 40


def test_static_shapes_for_accelerators_that_need_them(pets: Path, tmp_path: Path) -> None:
    """With sizes of images and batches, no remainder and max_boxes, no dimension is open."""
    fixed = {"batch_size": 4, "image_size": (8, 6), "drop_remainder": True}
    image = tf.TensorSpec((4, 8, 6, 3), tf.float32)
    assert beam_pipeline.load(pets, **fixed).element_spec == (image, tf.TensorSpec((4,), tf.int64))
    boxes = beam_pipeline.load(detection_set(tmp_path / "d"), max_boxes=10, **fixed)
    assert boxes.element_spec == (
        image,
        {
            "boxes": tf.TensorSpec((4, 10, 4), tf.float32),
            "classes": tf.TensorSpec((4, 10), tf.int64),
            "labels": tf.TensorSpec((4, 10), tf.int64),
        },
    )
    features = {**IMAGE, "image/class/label": feature("int64", None)}
    folder = write_set(tmp_path / "m", features, [[]], classes={0: "a", 1: "b"})
    several = beam_pipeline.load(folder, **fixed)
    assert several.element_spec == (image, tf.TensorSpec((4, 2), tf.float32))


def test_shards_are_those_of_the_manifest_in_its_order(pets: Path, tmp_path: Path) -> None:
    """A file that the manifest does not list is not read, whatever its name."""
    copy = tmp_path / "copy"
    shutil.copytree(pets, copy)
    (copy / "out-train.tfrecord-00005-of-00005").write_bytes(b"left by somebody")
    manifest = manifest_of(copy)
    manifest["splits"]["train"]["shards"].reverse()
    (copy / "manifest.json").write_text(json.dumps(manifest))
    by_shard = [
        [e["image/source_id"][0] for e in read_shard(pets, n)]
        for n in shard_names(pets)
        if "-train." in n
    ]
    expected = [name for shard in reversed(by_shard) for name in shard]
    assert ids(beam_pipeline.load(copy, shuffle=False, as_dict=True)) == expected


def lists_bytes(folder: str, size: int) -> None:
    """Has the manifest say that the only shard has so many bytes."""
    manifest = manifest_of(folder)
    manifest["splits"]["train"]["shards"][0]["bytes"] = size
    Path(folder, "manifest.json").write_text(json.dumps(manifest))


def test_lost_records_are_an_error(tmp_path: Path) -> None:
    """A shard that ends too early, even between two records, does not pass for a whole one."""
    examples = [{"image/encoded": picture(i), "image/class/label": i} for i in range(4)]
    folder = write_set(tmp_path / "d", LABEL, [examples])
    write_set(tmp_path / "shorter", LABEL, [examples[:3]])
    name = "d-train.tfrecord-00000-of-00001"
    os.replace(tmp_path / "shorter" / name, tmp_path / "d" / name)
    size = os.path.getsize(tmp_path / "d" / name)
    with pytest.raises(DamagedRecordError, match=f"{name} has {size} bytes, the manifest lists"):
        beam_pipeline.load(folder)
    lists_bytes(folder, size)
    with pytest.raises(DamagedRecordError, match=f"{name} has 3 records, the manifest lists 4"):
        beam_pipeline.load(folder, check_lengths=True)
    for shuffle in (True, False):
        with pytest.raises(tf.errors.FailedPreconditionError, match="contain 4 elements but"):
            list(beam_pipeline.load(folder, shuffle=shuffle))


@pytest.mark.parametrize("length", [1 << 40, 1 << 60, 1 << 62])
def test_a_record_that_claims_terabytes_never_reaches_tensorflow(
    tmp_path: Path, length: int
) -> None:
    """It would end the process. If the forger made the manifest fit, the headers have to be read."""
    folder = write_set(
        tmp_path / "d", LABEL, [[{"image/encoded": picture(), "image/class/label": 1}]]
    )
    shard = tmp_path / "d/d-train.tfrecord-00000-of-00001"
    shard.write_bytes(frame_header(length) + b"abc")
    with pytest.raises(DamagedRecordError, match="has 15 bytes, the manifest lists "):
        beam_pipeline.load(folder)
    lists_bytes(folder, 15)
    with pytest.raises(DamagedRecordError, match="record 0 at byte 0: the file ends inside"):
        beam_pipeline.load(folder, check_lengths=True)
    shard.unlink()
    with pytest.raises(DamagedRecordError, match="is missing or not a file, the manifest lists 15"):
        beam_pipeline.load(folder)


@pytest.mark.slow
def test_an_empty_split_is_an_empty_data_set(tmp_path: Path) -> None:
    """A split without shards, or with shards without examples, ends at once."""
    for name, shards in (("none", []), ("empty", [[], []])):
        folder = write_set(tmp_path / name, LABEL, shards)
        for shuffle in (True, False):
            assert list(beam_pipeline.load(folder, batch_size=2, shuffle=shuffle)) == []


def test_input_pipelines_share_the_shards(pets: Path) -> None:
    """Each pipeline reads shards of its own, all of them together everything once."""
    parts = [
        ids(beam_pipeline.load(pets, as_dict=True, input_context=tf.distribute.InputContext(2, i)))
        for i in range(2)
    ]
    by_shard = [
        {e["image/source_id"][0] for e in read_shard(pets, n)}
        for n in shard_names(pets)
        if "-train." in n
    ]
    assert [set(part) for part in parts] == [set.union(*by_shard[0::2]), set.union(*by_shard[1::2])]
    assert sum(map(len, parts)) == 40
    context = tf.distribute.InputContext(6, 5)
    with pytest.raises(UsageError, match=r"has 5 shards for 6 input pipelines.*--num_shards 6"):
        beam_pipeline.load(pets, input_context=context)


def test_the_batch_size_of_an_input_context_is_the_global_one(pets: Path) -> None:
    """Each replica's batch is its share; one that cannot be shared is an error."""
    context = tf.distribute.InputContext(num_replicas_in_sync=4)
    dataset = beam_pipeline.load(pets, image_size=(4, 4), batch_size=8, input_context=context)
    assert [len(labels) for _, labels in dataset.take(2)] == [2, 2]
    with pytest.raises(
        UsageError, match=r"batch_size is 10, .* all 4 replicas; expected a multiple"
    ):
        beam_pipeline.load(pets, image_size=(4, 4), batch_size=10, input_context=context)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size is 0, expected None or a whole number from 1 on"),
        ({"batch_size": 2.5}, "batch_size is 2.5, expected None or a whole number from 1 on"),
        ({"image_size": 2.5}, r"image_size is 2.5, expected \(height, width\) in pixels, one"),
        ({"image_size": (0, 4)}, r"image_size is \(0, 4\), expected \(height, width\) in pixels"),
        ({"image_size": "8x8x8"}, "image_size is '8x8x8', expected .* or 'WIDTHxHEIGHT'"),
        ({"dtype": "float32"}, "dtype is 'float32', expected 'uint8' or 'uint16'"),
        ({"features": ["image"]}, "features are for as_dict=True"),
        ({"features": ["image/clas/label"], "as_dict": True}, "mean 'image/class/label'?"),
        ({"weights": [2]}, "weights are for several data sets"),
        ({"split": "val"}, "has no split 'val'; it has test, train"),
        ({"channels": 2}, r"channels is 2, expected one of \(1, 3, 4\)"),
        ({"shuffle": 0}, "shuffle is 0, expected True, False or a whole number from 1 on"),
        ({"shuffle": "yes"}, "shuffle is 'yes', expected True, False or a whole number from 1"),
        ({"repeat": 0.5}, "repeat is 0.5, expected True, False or a whole number from 1 on"),
        ({"repeat": -1}, "repeat is -1, expected True, False or a whole number from 1 on"),
        ({"antialias": True}, "give image_size, too"),
        ({"max_boxes": 5}, "max_boxes is given, but .* has no boxes"),
        ({"max_boxes": 0}, "max_boxes is 0, expected None or a whole number from 1 on"),
        ({"max_boxes": 5, "as_dict": True}, "as_dict gives lists as stored"),
    ],
)
def test_options_that_mean_nothing_are_errors(
    pets: Path, options: dict[str, Any], message: str
) -> None:
    """Each says what was given and what was expected."""
    with pytest.raises(UsageError, match=message):
        beam_pipeline.load(pets, **options)


@pytest.mark.slow
def test_a_function_of_tensorflow_needs_the_image_size(pets: Path) -> None:
    """Images cannot be looked at where a graph is being built."""

    @tf.function
    def traced() -> int:
        beam_pipeline.load(pets, batch_size=2)
        return 0

    with pytest.raises(UsageError, match="batch_size needs image_size too"):
        traced()


def mask_feature(pixels: str = "uint8", *, optional: bool = False) -> dict[str, Any]:
    """A mask as the manifest describes it."""
    return {**feature("bytes", optional=optional), "pixels": pixels}


MASK = "image/segmentation/class/encoded"


def test_masks_are_labels(tmp_path: Path) -> None:
    """[height, width, 1] of ids; resized to the nearest neighbour, with the image."""
    rows = [[0, 1, 2], [255, 4, 5]]
    examples = [{"image/encoded": picture(1, file_format="PNG", size=(3, 2)), MASK: grey(rows)}]
    folder = write_set(tmp_path / "d", {**IMAGE, MASK: mask_feature()}, [examples])
    ((image, mask),) = beam_pipeline.load(folder)
    assert (image.shape, mask.dtype, mask[..., 0].numpy().tolist()) == ((2, 3, 3), tf.uint8, rows)
    dataset = beam_pipeline.load(folder, batch_size=1, image_size=(4, 6))
    assert [spec.shape.as_list() for spec in dataset.element_spec] == [
        [None, 4, 6, 3],
        [None, 4, 6, 1],
    ]
    ((image, mask),) = dataset
    assert mask.dtype == tf.uint8
    assert mask[0, ..., 0].numpy().tolist() == np.repeat(np.repeat(rows, 2, 0), 2, 1).tolist()
    (example,) = beam_pipeline.load(folder, as_dict=True)
    assert example.keys() == {"image", "mask"}
    assert beam_pipeline.load(folder, batch_size=1).element_spec[1].shape.as_list() == [
        None,
        2,
        3,
        1,
    ]


def test_categories_of_panoptic_masks_are_labels(tmp_path: Path) -> None:
    """As Model Garden's decoder names them."""
    key = "image/panoptic/category_mask"
    example = {"image/encoded": picture(1, size=(3, 1)), key: grey([[0, 1, 2]])}
    folder = write_set(tmp_path / "d", {**IMAGE, key: mask_feature()}, [[example]])
    ((_, mask),) = beam_pipeline.load(folder)
    assert mask[..., 0].numpy().tolist() == [[0, 1, 2]]


def test_an_image_takes_no_branch_where_the_manifest_counts_formats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of all data sets that are read as one: grey PNGs beside JPEGs are decoded as without them."""
    folders = []
    for name in ("jpg", "png"):
        pictures = [f"{'ab'[i % 2]}/{name}{i}.{name}" for i in range(4)]
        write_pictures(str(tmp_path / name / "photos"), pictures)
        folders.append(str(tmp_path / name / "out"))
        argv = ("--images", f"{tmp_path}/{name}/photos", "--output", folders[-1])
        assert convert(*argv, "--num_shards", "1") == 0
    branches: list[Any] = []
    cond = tf.cond
    monkeypatch.setattr(tf, "cond", lambda *args: branches.append(args) or cond(*args))
    options: dict[str, Any] = {"as_dict": True, "shuffle": False}
    for folder in folders:
        beam_pipeline.load(folder, image_size=4, **options)
        assert not branches
    beam_pipeline.load(folders, channels=1, **options)
    assert branches
    examples_of = [beam_pipeline.load(part, channels=1, **options) for part in (folders, *folders)]
    images, *alone = ([e["image"] for e in part.as_numpy_iterator()] for part in examples_of)
    stored = [read_shard(Path(path), shard_names(Path(path))[0]) for path in folders]
    encoded = [example["image/encoded"][0] for examples in stored for example in examples]
    for image, own, data in zip(images, [*alone[0], *alone[1]], encoded, strict=True):
        assert np.array_equal(image, decoded(data, 1))
        assert np.array_equal(image, own)
    first, second = map(Dataset.open, folders)
    uncounted = replace(second, manifest=replace(second.manifest, images=None))
    joined = JoinedDatasets(first.path, first.manifest, parts=(first, uncounted), weights=(1, 1))
    assert (first.image_formats, joined.image_formats) == ({"jpeg"}, frozenset())


SIZES = {"image/height": feature("int64"), "image/width": feature("int64")}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "scale"),
    [((50, 66), 2), ((51, 66), 1), ((25, 33), 4), ((12, 16), 8), ((300, 9), 1), ((150, 200), 1)],
)
@pytest.mark.parametrize("channels", [1, 3])
def test_large_jpegs_are_decoded_at_a_smaller_scale(
    tmp_path: Path, size: tuple[int, int], scale: int, channels: int
) -> None:
    """With `antialias` or `exact=False`; one and a half times the pixels wanted have to remain.

    PNGs, and data sets that do not say how large images are, are decoded in full.
    """
    data = jpeg(200, 150)
    features = {**IMAGE, **SIZES}
    example = {"image/encoded": data, "image/height": 150, "image/width": 200}
    folder = write_set(tmp_path / "d", features, [[example]])
    asked = {"image_size": size, "channels": channels, "as_dict": True}

    def found(folder: str = folder, **options: Any) -> Any:
        (element,) = beam_pipeline.load(folder, **asked, **options)
        return element["image"].numpy()

    def expected(scale: int, *, antialias: bool) -> Any:
        image = tf.io.decode_jpeg(data, channels=channels, ratio=scale)
        return tf.image.resize(image, size, antialias=antialias).numpy()

    assert (found(antialias=True) == expected(scale, antialias=True)).all()
    assert (found(exact=False) == expected(scale, antialias=False)).all()
    assert (found() == expected(1, antialias=False)).all()
    assert (found(antialias=True, exact=True) == expected(1, antialias=True)).all()
    unknown = write_set(tmp_path / "e", IMAGE, [[{"image/encoded": data}]])
    assert (found(unknown, antialias=True) == expected(1, antialias=True)).all()
    data = picture(size=(200, 150), file_format="PNG")
    other = write_set(tmp_path / "f", features, [[{**example, "image/encoded": data}]])
    image = tf.image.resize(decoded(data, channels), size, antialias=True).numpy()
    assert (found(other, antialias=True) == image).all()
    asked["channels"] = 4
    image = tf.image.resize(decoded(data, 4), size, antialias=True).numpy()
    assert (found(other, antialias=True) == image).all()


@pytest.mark.parametrize(
    "options",
    [
        {"shuffle": False},
        {"seed": 3, "repeat": 2},
        {},
        {"seed": 3, "cache": True},
        {"filter": lambda features: features["image/class/label"] == 1},
    ],
)
def test_the_position_is_saved_and_restored_in_the_middle_of_an_epoch(
    pets: Path, tmp_path: Path, options: Any
) -> None:
    """`tf.train.Checkpoint` of the iterator: the rest is the same, in order, also without a seed."""

    def batches() -> Any:
        return iter(beam_pipeline.load(pets, batch_size=4, as_dict=True, **options))

    iterator = batches()
    for _ in range(2):
        next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).write(f"{tmp_path}/position")
    rest = [batch["image/source_id"].numpy().tolist() for batch in iterator]
    restored = batches()
    tf.train.Checkpoint(iterator=restored).read(path).assert_consumed()
    assert [batch["image/source_id"].numpy().tolist() for batch in restored] == rest
    assert len(rest) in (3, 8, 18)


def test_a_filter_leaves_examples_out_before_they_are_decoded(pets: Path, tmp_path: Path) -> None:
    """By any feature but the pixels; an image that cannot be decoded may be left out as well."""
    expected = [name for name, label in stored(pets, "train") if label == 1]

    def dogs(features: Any) -> Any:
        assert "image/encoded" not in features
        is_dog = False
        if features["image/class/text"] == b"dog":  # AutoGraph makes an operation of it
            is_dog = True
        return is_dog

    found = beam_pipeline.load(pets, as_dict=True, shuffle=False, filter=dogs)
    assert ids(found) == expected
    assert found.cardinality().numpy() == tf.data.UNKNOWN_CARDINALITY
    shuffled = beam_pipeline.load(pets, as_dict=True, seed=1, repeat=2, filter=dogs)
    assert Counter(ids(shuffled)) == Counter(expected * 2)
    broken = {"image/encoded": b"broken", "image/class/label": 0}
    sound = {"image/encoded": picture(), "image/class/label": 1}
    folder = write_set(tmp_path / "d", LABEL, [[broken, sound]])
    kept = beam_pipeline.load(folder, filter=lambda found: found["image/class/label"] > 0)
    assert [label for _, label in kept.as_numpy_iterator()] == [1]
    pixels = write_set(tmp_path / "e", IMAGE, [[{"image/encoded": picture()}]])
    with pytest.raises(UsageError, match="lacks features besides its pixels to filter by"):
        beam_pipeline.load(pixels, as_dict=True, filter=dogs)


def marked(features: Any) -> Any:
    """Adds a number that is drawn anew each time."""
    return {**features, "draw": tf.random.uniform([])}


@pytest.mark.parametrize("kept", ["memory", "files"])
def test_a_cache_needs_the_shards_once(pets: Path, tmp_path: Path, kept: str) -> None:
    """Later passes are complete though the shards are gone, in another order and augmented anew."""
    folder = shutil.copytree(pets, tmp_path / "out")
    cache: Any = True if kept == "memory" else tmp_path / "cache"

    dataset = beam_pipeline.load(
        folder, as_dict=True, image_size=(4, 4), seed=1, cache=cache, augment=marked
    )
    first = list(dataset.as_numpy_iterator())
    for name in shard_names(folder):
        (folder / name).unlink()
    second = list(dataset.as_numpy_iterator())
    names = [[element["image/source_id"] for element in found] for found in (first, second)]
    expected = sorted(name for name, _ in stored(pets, "train"))
    assert [sorted(found) for found in names] == [expected, expected]
    assert names[0] != names[1]
    assert {float(e["draw"]) for e in first}.isdisjoint(float(e["draw"]) for e in second)
    assert len(dataset) == 40
