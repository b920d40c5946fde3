"""`load` and `feature_spec`: what comes out of each kind of data set, in which order and shape."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

import beam_pipeline
from beam_pipeline.core.errors import DamagedRecordError, UsageError
from beam_pipeline.core.records.tfrecord import TFRecordFormat, frame_header
from beam_pipeline.dataset import Dataset, JoinedDatasets, Shard
from beam_pipeline.readers.samples import PixelPlan
from beam_pipeline.readers.tf_data import SHUFFLE_BUFFER_BYTES, shuffle_buffer
from tests.beam_pipeline.readers.by_hand import (
    BOXES,
    CLASS,
    IMAGE,
    LABEL,
    MASK,
    OBJECTS,
    SIZES,
    bare,
    detection_set,
    example_of,
    feature,
    jpeg,
    pictures,
    write_by_hand,
)
from tests.harness import change_json, convert, float32, manifest_of, read_shard, shard_names
from tests.layouts.make_segmentation import grey
from tests.pictures import encoded, picture, write_pictures
from tests.rows import in_rows


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


def by_shard(folder: Path, split: str = "train") -> list[list[tuple[bytes, int]]]:
    """(source_id, label) of each shard in order, read without the reader."""
    return [
        [(example["image/source_id"][0], example[CLASS][0]) for example in read_shard(folder, name)]
        for name in shard_names(folder)
        if f"-{split}.tfrecord-" in name
    ]


def stored(folder: Path, split: str = "train") -> list[bytes]:
    """The source_ids of a split, as they are stored."""
    return [name for shard in by_shard(folder, split) for name, _ in shard]


def ids(dataset: Any) -> list[bytes]:
    """The source_ids of a data set of dicts, in order."""
    return [element["image/source_id"] for element in dataset.as_numpy_iterator()]


# --- labels ----------------------------------------------------------------------------------


def plain(label: Any) -> Any:
    """Tensors, also ragged ones, as lists."""
    if isinstance(label, dict):
        return {key: plain(value) for key, value in label.items()}
    return label.to_list() if isinstance(label, tf.RaggedTensor) else label.numpy().tolist()


def boxes_of(*images: tuple[list[list[float]], list[int]]) -> list[Any]:
    """Corners and classes of each image's objects."""
    return [
        {"boxes": [float32(box) for box in boxes], "classes": classes, "labels": classes}
        for boxes, classes in images
    ]


PIXELS = feature("bytes", pixels="uint8")
KEPT = {"image/labelled": feature("int64")}
ROWS = [[*range(9 * i, 9 * i + 8), 255] for i in range(7)]  # of the size of the image
CORNERS = [[float(side) for side in box] for box in zip(*BOXES[0][:4], strict=True)]  # type: ignore[index]
OF_THREE = [[0.0, 0.25, 0.5, 1.0]] * 3
NO_BOX = [[0.0] * 4]
LABELS: Mapping[str, tuple[Any, Sequence[Any], dict[str, Any], dict[str, Any], list[Any]]] = {
    "classes": ({CLASS: feature("int64")}, [{CLASS: i} for i in (4, 0)], {}, {}, [4, 0]),
    "numbers": (
        {"image/label": feature("float")},
        [{"image/label": number} for number in (0.5, 6.094467065223975, -2)],
        {},
        {},
        float32([0.5, 6.094467065223975, -2]),
    ),
    "one number a class, whatever its id": (
        {CLASS: feature("int64", None)},
        [{CLASS: found} for found in ([1, 5], [], [2], [5, 5])],
        {"classes": {1: "cat", 2: "dog", 5: "eel"}},
        {},
        [[1, 0, 1], [0, 0, 0], [0, 1, 0], [0, 0, 1]],
    ),
    "boxes as ymin, xmin, ymax, xmax": (
        OBJECTS,
        [dict(zip(OBJECTS, lists or (), strict=False)) for lists in BOXES],
        {},
        {},
        boxes_of((CORNERS, [4, 2]), ([], []), ([], []), (OF_THREE, [1, 1, 3])),
    ),
    "boxes, padded and cut": (
        OBJECTS,
        [dict(zip(OBJECTS, lists or (), strict=False)) for lists in BOXES],
        {},
        {"max_boxes": 2},
        boxes_of(
            (CORNERS, [4, 2]), *[(NO_BOX * 2, [-1, -1])] * 2, (OF_THREE[:2], [1, 1])
        ),
    ),
    "renamed": (
        {"image/source_id": feature("int64")},
        [{"image/source_id": i} for i in range(3)],
        {"features": {"image/source_id": CLASS}},
        {},
        [0, 1, 2],
    ),
    "masks": ({MASK: PIXELS}, [{MASK: grey(ROWS)}], {}, {}, [[[[i] for i in row] for row in ROWS]]),
    "masks, resized to the nearest neighbour": (
        {MASK: PIXELS},
        [{MASK: grey(ROWS)}],
        {},
        {"image_size": (14, 18)},
        np.repeat(np.repeat([ROWS], 2, 1), 2, 2)[..., np.newaxis].tolist(),
    ),
    "categories of panoptic masks": (
        {"image/panoptic/category_mask": PIXELS},
        [{"image/panoptic/category_mask": grey(ROWS)}],
        {},
        {},
        [[[[i] for i in row] for row in ROWS]],
    ),
    "no class": (
        {CLASS: feature("int64", optional=True), **KEPT},
        [{CLASS: 3, "image/labelled": 1}, {"image/labelled": 0}],
        {},
        {},
        [3, -1],
    ),
    "no list of classes": (
        {CLASS: feature("int64", None), **KEPT},
        [{CLASS: [0], "image/labelled": 1}, {"image/labelled": 0}, {"image/labelled": 1}],
        {"classes": {0: "a", 1: "b"}},
        {},
        [[1, 0], [-1, -1], [0, 0]],
    ),
}  # fmt: skip
"""Kind of labels -> features, values of each example, options of the manifest and of `load`, labels that come out."""


@pytest.mark.parametrize("kind", LABELS)
def test_labels_come_in_the_form_of_their_kind(tmp_path: Path, kind: str) -> None:
    """With the decoded image, one by one; in a batch they are stacked, or ragged where their number varies."""
    features, values, of_manifest, of_load, expected = LABELS[kind]
    examples = pictures(values)
    folder = write_by_hand(tmp_path / "d", {**IMAGE, **features}, examples, **of_manifest)
    pairs = list(beam_pipeline.load(folder, shuffle=False, **of_load))
    assert [plain(label) for _, label in pairs] == expected
    if not of_load:
        for (image, _), example in zip(pairs, examples, strict=True):
            assert np.array_equal(image, decoded(example["image/encoded"]))
    batches = beam_pipeline.load(folder, shuffle=False, batch_size=len(values), **of_load)
    ((_, label),) = batches
    found = plain(label)
    if isinstance(found, dict):
        found = [{key: found[key][i] for key in found} for i in range(len(values))]
    assert found == expected


def test_numbers_and_objects_without_a_label(tmp_path: Path) -> None:
    """NaN, and boxes with `labelled` beside them."""
    number = {"image/label": feature("float", optional=True), **KEPT}
    values = [{"image/label": 0.5, "image/labelled": 1}, {"image/labelled": 0}]
    folder = write_by_hand(tmp_path / "d", {**IMAGE, **number}, pictures(values))
    numbers = [float(label) for _, label in beam_pipeline.load(folder, shuffle=False)]
    np.testing.assert_array_equal(numbers, [0.5, np.nan])
    objects = [{**dict(zip(OBJECTS, BOXES[0] or (), strict=True)), "image/labelled": 1}]
    objects += [{"image/labelled": 1}, {"image/labelled": 0}]  # type: ignore[list-item]
    folder = write_by_hand(tmp_path / "e", {**IMAGE, **OBJECTS, **KEPT}, pictures(objects))
    ((_, label),) = beam_pipeline.load(folder, shuffle=False, batch_size=3)
    assert label["labelled"].numpy().tolist() == [1, 1, 0]
    assert [len(boxes) for boxes in label["boxes"].to_list()] == [2, 0, 0]


def test_augment_comes_before_boxes_are_padded(tmp_path: Path) -> None:
    """It sees the boxes that there are."""

    def flipped(image: Any, label: Any) -> Any:
        ymin, xmin, ymax, xmax = tf.unstack(label["boxes"], axis=-1)
        boxes = tf.stack([ymin, 1 - xmax, ymax, 1 - xmin], axis=-1)
        return tf.image.flip_left_right(image), {**label, "boxes": boxes}

    folder = detection_set(tmp_path / "d")
    dataset = beam_pipeline.load(folder, shuffle=False, batch_size=4, max_boxes=2, augment=flipped)
    ((images, label),) = dataset.as_numpy_iterator()
    np.testing.assert_array_equal(label["boxes"][1:3], np.zeros((2, 2, 4)))
    np.testing.assert_array_equal(label["boxes"][3], [[0.0, 0.0, 0.5, 0.75]] * 2)
    np.testing.assert_array_equal(images[0], decoded(picture(0))[:, ::-1])
    with pytest.raises(UsageError, match=r'augment must return \(image, {"boxes"'):
        beam_pipeline.load(folder, max_boxes=2, augment=lambda image, label: image)


def test_bare_pixels_come_as_images(tmp_path: Path) -> None:
    """Raw pixels are rows of pixels of channels; grey becomes colours and the other way round."""
    rng = np.random.default_rng(0)
    colours = rng.integers(0, 256, (4, 6, 3), np.uint8)
    grey = rng.integers(0, 256, (4, 6, 1), np.uint8)
    features = {**LABEL, **SIZES}
    folder = write_by_hand(tmp_path / "d", features, bare(colours, grey), image_encoding="raw")

    def images(**options: Any) -> list[Any]:
        dataset = beam_pipeline.load(folder, shuffle=False, **options)
        return [image for image, _ in dataset.as_numpy_iterator()]

    assert np.array_equal(images(batch_size=2)[0], [colours, np.repeat(grey, 3, axis=-1)])
    one, two = images(channels=1)
    assert np.array_equal(one, tf.image.rgb_to_grayscale(colours))
    assert np.array_equal(two, grey)
    assert np.array_equal(images(image_size=(2, 3))[0], tf.image.resize(colours, (2, 3)))
    assert np.array_equal(images(channels=4)[0], np.insert(colours, 3, 255, axis=-1))


def test_as_dict_has_what_there_is(tmp_path: Path) -> None:
    """In a batch, a feature of any length is ragged, one of a fixed length is not."""
    features = {"tags": feature("bytes", None), "at": feature("float", 2, optional=True)}
    examples = pictures([{"tags": [b"a", b"b"], "at": [1.0, 2.0]}, {}])
    folder = write_by_hand(tmp_path / "d", {**IMAGE, **features}, examples)
    (batch,) = beam_pipeline.load(folder, as_dict=True, shuffle=False, batch_size=2)
    assert batch["tags"].to_list() == [[b"a", b"b"], []]
    np.testing.assert_array_equal(batch["at"], [[1.0, 2.0], [np.nan, np.nan]])
    assert batch["image"].shape == (2, 7, 9, 3)
    imageless = {"image": feature("int64", 2), CLASS: feature("int64")}
    rows = [{"image": [i, 2], CLASS: i} for i in range(3)]
    folder = write_by_hand(tmp_path / "i", imageless, rows)
    (batch,) = beam_pipeline.load(folder, as_dict=True, shuffle=False, batch_size=3)
    assert batch["image"].numpy().tolist() == [[0, 2], [1, 2], [2, 2]]


@pytest.mark.parametrize(
    ("features", "options", "message"),
    [
        (IMAGE, {}, r"has no masks \(image/segmentation/class/encoded\), classes \(image/class/label\), numbers.*as_dict=True"),
        ({"x": feature("int64"), CLASS: feature("int64")}, {}, r"has no images \(image/encoded\).*: x, image/class/label"),
        ({**IMAGE, CLASS: feature("int64", None)}, {}, "its manifest names no classes"),
        ({**IMAGE, "image": feature("int64")}, {"as_dict": True}, "has a feature 'image', which is where as_dict puts"),
        (IMAGE, {"as_dict": True, "filter": bool}, "lacks features besides its pixels to filter by"),
    ],
)  # fmt: skip
def test_a_set_without_pairs_says_what_to_do(
    tmp_path: Path, features: Any, options: dict[str, Any], message: str
) -> None:
    """Without a label or an image, as_dict gives what there is."""
    folder = write_by_hand(tmp_path / "d", features, [])
    with pytest.raises(UsageError, match=message):
        beam_pipeline.load(folder, **options)


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
    folder = write_by_hand(tmp_path / "d", features, examples)
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


# --- images ----------------------------------------------------------------------------------


def test_images_are_resized_to_float32(pets: Path) -> None:
    """image_size gives what `tf.image.resize` makes of the decoded image, values 0 to 255."""
    whole = beam_pipeline.load(pets, "test", image_size=(14, 5))
    assert whole.element_spec[0] == tf.TensorSpec((14, 5, 3), tf.float32)
    for (image, _), (own, _) in zip(whole, beam_pipeline.load(pets, "test"), strict=True):
        np.testing.assert_array_equal(image, tf.image.resize(own, (14, 5)))
    assert max(float(tf.reduce_max(image)) for image, _ in whole) > 200


GREY = 124  # of these colours
CHANNELS = {
    "L": {1: [GREY], 3: [GREY] * 3, 4: [GREY] * 3 + [255]},
    "LA": {1: [GREY], 3: [GREY] * 3, 4: [GREY] * 3 + [128]},
    "RGB": {1: [GREY], 3: [200, 100, 50], 4: [200, 100, 50, 255]},
    "RGBA": {1: [GREY], 3: [200, 100, 50], 4: [200, 100, 50, 128]},
}


@pytest.mark.parametrize(
    ("file_format", "modes"), [("WEBP", ("RGB", "RGBA")), ("JXL", tuple(CHANNELS))]
)
def test_images_of_formats_with_channels_of_their_own_are_converted(
    tmp_path: Path, file_format: str, modes: Sequence[str]
) -> None:
    """TensorFlow decodes WebP and JPEG XL only to the channels that they have, or not at all."""
    if file_format == "JXL":
        pytest.importorskip("pillow_jxl.JpegXLImagePlugin")
        pytest.importorskip("tensorflow", minversion="2.21")
    colours = Image.new("RGBA", (9, 7), (200, 100, 50, 128))
    images = [encoded(colours.convert(mode), file_format, lossless=True) for mode in modes]
    examples = [{"image/encoded": image, CLASS: 0} for image in images]
    folder = write_by_hand(tmp_path / "d", LABEL, examples)
    for channels in (1, 3, 4):
        dataset = beam_pipeline.load(folder, shuffle=False, channels=channels)
        found = [image.numpy()[3, 4].tolist() for image, _ in dataset]
        assert found == [CHANNELS[mode][channels] for mode in modes]


def test_images_that_differ_in_size_make_no_batches(tmp_path: Path) -> None:
    """Among the first images the difference is an error at once, later one of the batch."""

    def examples(count: int, size: tuple[int, int]) -> list[dict[str, Any]]:
        return [{"image/encoded": picture(i, size=size), CLASS: i} for i in range(count)]

    shards = (examples(3, (9, 7)), examples(3, (8, 6)))
    first = write_by_hand(tmp_path / "d", LABEL, *shards)
    with pytest.raises(UsageError, match=r"such as 7 x 9 and 6 x 8 pixels.*give image_size="):
        beam_pipeline.load(first, batch_size=2)
    assert len(list(beam_pipeline.load(first))) == 6
    assert len(list(beam_pipeline.load(first, batch_size=2, image_size=(4, 4)))) == 3
    late = write_by_hand(tmp_path / "e", LABEL, examples(40, (9, 7)), examples(1, (9, 6)))
    dataset = beam_pipeline.load(late, batch_size=41)
    assert dataset.element_spec[0].shape.as_list() == [None, 7, 9, 3]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"differ in size; give image_size="):
        list(dataset)


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

    PNGs are decoded in full.
    """
    photo, png = jpeg(200, 150), picture(size=(200, 150), file_format="PNG")

    def found(data: bytes, channels: int = channels, **options: Any) -> Any:
        folder = write_by_hand(tmp_path / "d", IMAGE, [{"image/encoded": data}])
        asked = {"image_size": size, "channels": channels, "as_dict": True}
        (element,) = beam_pipeline.load(folder, **asked, **options)
        return element["image"].numpy()

    def expected(scale: int, *, antialias: bool) -> Any:
        image = tf.io.decode_jpeg(photo, channels=channels, ratio=scale)
        return tf.image.resize(image, size, antialias=antialias).numpy()

    assert (found(photo, antialias=True) == expected(scale, antialias=True)).all()
    assert (found(photo, exact=False) == expected(scale, antialias=False)).all()
    assert (found(photo) == expected(1, antialias=False)).all()
    assert (found(photo, antialias=True, exact=True) == expected(1, antialias=True)).all()
    for depth in (channels, 4):
        image = tf.image.resize(decoded(png, depth), size, antialias=True).numpy()
        assert (found(png, depth, antialias=True) == image).all()


def test_an_image_takes_no_branch_where_the_manifest_counts_formats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of all data sets that are read as one: grey PNGs beside JPEGs are decoded as without them."""
    folders = []
    for name in ("jpg", "png"):
        names = [f"{'ab'[i % 2]}/{name}{i}.{name}" for i in range(4)]
        write_pictures(str(tmp_path / name / "photos"), names)
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
    files = [read_shard(path, shard_names(path)[0]) for path in folders]
    data = [example["image/encoded"][0] for examples in files for example in examples]
    for image, own, content in zip(images, [*alone[0], *alone[1]], data, strict=True):
        assert np.array_equal(image, decoded(content, 1))
        assert np.array_equal(image, own)
    first, second = map(Dataset.open, folders)
    uncounted = replace(second, manifest=replace(second.manifest, images=None))
    joined = JoinedDatasets(first.path, first.manifest, parts=(first, uncounted), weights=(1, 1))
    assert (first.image_formats, joined.image_formats) == ({"jpeg"}, frozenset())


# --- order -----------------------------------------------------------------------------------


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
        return {"image/source_id": element["image/filename"]}

    names = beam_pipeline.load(pets, shuffle=False, as_dict=True, augment=named)
    assert ids(names) == stored(pets)


def test_without_shuffle_the_order_is_the_stored_one(pets: Path) -> None:
    """Shard after shard, pass after pass; it is the default of every split but train."""
    for split, options in (
        ("train", {"shuffle": False}),
        ("train", {"shuffle": False, "deterministic": False}),
        ("test", {}),
    ):
        dataset = beam_pipeline.load(pets, split, as_dict=True, **options)
        assert ids(dataset) == ids(dataset) == stored(pets, split)
    for split in ("test+train", "test + train[:90%]"):
        dataset = beam_pipeline.load(pets, split, as_dict=True)
        assert sorted(ids(dataset)) != ids(dataset) != ids(dataset)


def test_shuffle_gives_every_sample_once_in_another_order(pets: Path) -> None:
    """By default the split train is shuffled, anew in each pass; a seed gives the same passes every time."""
    expected = stored(pets)
    passes: dict[str, list[list[bytes]]] = {}
    for options in ({}, {"shuffle": True}, {"shuffle": 8}, {"seed": 3, "shuffle": 16}):
        dataset = beam_pipeline.load(pets, as_dict=True, **options)
        first, second = passes[str(options)] = [ids(dataset), ids(dataset)]
        assert sorted(first) == sorted(second) == sorted(expected)
        assert first != expected
        assert first != second
    for seed in (3, 4):
        again = beam_pipeline.load(pets, as_dict=True, seed=seed, shuffle=16)
        assert ([ids(again), ids(again)] == passes[str(options)]) == (seed == 3)


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
    folder = write_by_hand(tmp_path / "d", LABEL, pictures({CLASS: i} for i in range(60)))
    few = [int(label) for _, label in beam_pipeline.load(folder, shuffle=4, seed=1)]
    assert sorted(few) == list(range(60)) != few
    assert max(label - index for index, label in enumerate(few)) == 3
    whole = [int(label) for _, label in beam_pipeline.load(folder, seed=1)]
    assert max(label - index for index, label in enumerate(whole)) > 20


@in_rows
def test_the_order_depends_on_time_only_where_nobody_minds(
    pets: Path, options: dict[str, Any], deterministic: bool
) -> None:
    """Without a seed, samples may overtake one another, unless the order is the stored one."""
    assert beam_pipeline.load(pets, **options).options().deterministic is deterministic


HUGE = [Shard("a", 300, SHUFFLE_BUFFER_BYTES), Shard("b", 100, SHUFFLE_BUFFER_BYTES)]


@pytest.mark.parametrize(
    ("shuffle", "shards", "cache", "size"),
    [
        (True, HUGE, False, 200),
        (True, [Shard("a", 300, 9000)], False, 300),
        (True, [], False, 1),
        (7, HUGE, False, 7),
        (False, HUGE, False, 0),
        (True, HUGE, True, 400),
        (True, [Shard("a", 10**6, 1)], "x", (128 << 20) // 2400),
    ],
)
def test_the_shuffle_buffer_is_bounded_by_bytes(
    shuffle: bool | int, shards: list[Shard], cache: Any, size: int
) -> None:
    """True takes as many samples as fit 128 MiB by their mean size, and at most all."""
    plan = PixelPlan(size=(10, 20))
    assert shuffle_buffer(shuffle, shards, plan, cache=cache) == size


def test_lengths_are_known_and_batches_as_asked_for(pets: Path) -> None:
    """The data set knows its number of batches, with repeats and with the last one left out."""
    for options, length, sizes in (
        ({"batch_size": 16}, 3, [16, 16, 8]),
        ({"batch_size": 16, "drop_remainder": True}, 2, [16, 16]),
        ({"batch_size": 16, "repeat": 2}, 5, [16] * 5),
        ({"batch_size": 16, "repeat": True}, tf.data.INFINITE_CARDINALITY, [16] * 9),
    ):
        dataset = beam_pipeline.load(pets, image_size=(4, 4), **options)
        assert int(dataset.cardinality()) == length
        assert [len(labels) for _, labels in dataset.take(9)] == sizes
    assert len(beam_pipeline.load(pets)) == 40


def test_static_shapes_for_accelerators_that_need_them(pets: Path, tmp_path: Path) -> None:
    """With sizes of images and batches, no remainder and max_boxes, no dimension is open."""
    fixed = {"batch_size": 4, "image_size": (8, 6), "drop_remainder": True}
    image, number = tf.TensorSpec((4, 8, 6, 3), tf.float32), tf.TensorSpec((4, 10), tf.int64)
    assert beam_pipeline.load(pets, **fixed).element_spec == (image, tf.TensorSpec((4,), tf.int64))
    boxes = beam_pipeline.load(detection_set(tmp_path / "d"), max_boxes=10, **fixed)
    corners = tf.TensorSpec((4, 10, 4), tf.float32)
    assert boxes.element_spec == (image, {"boxes": corners, "classes": number, "labels": number})
    features = {**IMAGE, CLASS: feature("int64", None)}
    folder = write_by_hand(tmp_path / "m", features, [], classes={0: "a", 1: "b"})
    several = beam_pipeline.load(folder, **fixed)
    assert several.element_spec == (image, tf.TensorSpec((4, 2), tf.float32))


# --- shards ----------------------------------------------------------------------------------


def test_shards_are_those_of_the_manifest_in_its_order(pets: Path, tmp_path: Path) -> None:
    """A file that the manifest does not list is not read, whatever its name."""
    copy = shutil.copytree(pets, tmp_path / "copy")
    (copy / "out-train.tfrecord-00005-of-00005").write_bytes(b"left by somebody")
    shards = manifest_of(copy)["splits"]["train"]["shards"]
    change_json(copy / "manifest.json", "splits", "train", "shards", value=shards[::-1])
    expected = [name for shard in reversed(by_shard(pets)) for name, _ in shard]
    assert ids(beam_pipeline.load(copy, shuffle=False, as_dict=True)) == expected


ONLY = "d-train.tfrecord-00000-of-00001"


def lists_bytes(folder: Path, size: int) -> None:
    """Has the manifest say that the only shard has so many bytes."""
    change_json(folder / "manifest.json", "splits", "train", "shards", 0, "bytes", value=size)


def test_lost_records_are_an_error(tmp_path: Path) -> None:
    """A shard that ends too early, even between two records, does not pass for a whole one."""
    examples = pictures({CLASS: i} for i in range(4))
    folder = write_by_hand(tmp_path / "d", LABEL, examples)
    write_by_hand(tmp_path / "shorter", LABEL, examples[:3])
    os.replace(tmp_path / "shorter" / ONLY, tmp_path / "d" / ONLY)
    size = os.path.getsize(tmp_path / "d" / ONLY)
    with pytest.raises(DamagedRecordError, match=f"{ONLY} has {size} bytes, the manifest lists"):
        beam_pipeline.load(folder)
    lists_bytes(tmp_path / "d", size)
    with pytest.raises(DamagedRecordError, match=f"{ONLY} has 3 records, the manifest lists 4"):
        beam_pipeline.load(folder, check_lengths=True)
    for shuffle in (True, False):
        with pytest.raises(tf.errors.FailedPreconditionError, match="contain 4 elements but"):
            list(beam_pipeline.load(folder, shuffle=shuffle))


@pytest.mark.parametrize("length", [1 << 40, 1 << 60, 1 << 62])
def test_a_record_that_claims_terabytes_never_reaches_tensorflow(
    tmp_path: Path, length: int
) -> None:
    """It would end the process. If the forger made the manifest fit, the headers have to be read."""
    folder = write_by_hand(tmp_path / "d", LABEL, pictures([{CLASS: 1}]))
    (tmp_path / "d" / ONLY).write_bytes(frame_header(length) + b"abc")
    with pytest.raises(DamagedRecordError, match="has 15 bytes, the manifest lists "):
        beam_pipeline.load(folder)
    lists_bytes(tmp_path / "d", 15)
    with pytest.raises(DamagedRecordError, match="record 0 at byte 0: the file ends inside"):
        beam_pipeline.load(folder, check_lengths=True)
    (tmp_path / "d" / ONLY).unlink()
    with pytest.raises(DamagedRecordError, match="is missing or not a file, the manifest lists 15"):
        beam_pipeline.load(folder)


@pytest.mark.slow
def test_an_empty_split_is_an_empty_data_set(tmp_path: Path) -> None:
    """A split without shards, or with shards without examples, ends at once."""
    for name, shards in (("none", ()), ("empty", ([], []))):
        folder = write_by_hand(tmp_path / name, LABEL, *shards)
        for shuffle in (True, False):
            assert list(beam_pipeline.load(folder, batch_size=2, shuffle=shuffle)) == []


def test_input_pipelines_share_the_shards(pets: Path) -> None:
    """Each reads shards of its own, all of them together everything once; a batch size is that of all replicas."""
    contexts = [tf.distribute.InputContext(2, i) for i in range(2)]
    parts = [ids(beam_pipeline.load(pets, as_dict=True, input_context=one)) for one in contexts]
    shards = [{name for name, _ in shard} for shard in by_shard(pets)]
    assert [set(part) for part in parts] == [set.union(*shards[i::2]) for i in range(2)]
    assert sum(map(len, parts)) == 40
    with pytest.raises(UsageError, match=r"has 5 shards for 6 input pipelines.*--num_shards 6"):
        beam_pipeline.load(pets, input_context=tf.distribute.InputContext(6, 5))
    options = {"input_context": tf.distribute.InputContext(num_replicas_in_sync=4), "image_size": 4}
    dataset = beam_pipeline.load(pets, batch_size=8, **options)
    assert [len(labels) for _, labels in dataset.take(2)] == [2, 2]
    with pytest.raises(UsageError, match=r"batch_size is 10, .* all 4 replicas; expected a mult"):
        beam_pipeline.load(pets, batch_size=10, **options)


def test_each_input_pipeline_has_its_share_of_each_data_set(tmp_path: Path) -> None:
    """Shards of several data sets alternate, so that each second one would be of one of them."""
    folders = [
        write_by_hand(tmp_path / name, LABEL, *([{CLASS: first + i}] for i in range(4)))
        for name, first in (("a", 0), ("b", 10))
    ]

    def classes(weights: Sequence[int], pipeline: int, pipelines: int = 2) -> list[int]:
        context = tf.distribute.InputContext(pipelines, pipeline)
        options: dict[str, Any] = {"shuffle": False, "as_dict": True, "features": [CLASS]}
        dataset = beam_pipeline.load(folders, weights=weights, input_context=context, **options)
        return [int(example[CLASS]) for example in dataset]

    assert classes([1, 1], 0, 1) == [0, 10, 1, 11, 2, 12, 3, 13]
    assert [classes([1, 1], i) for i in range(2)] == [[0, 10, 2, 12], [1, 11, 3, 13]]
    assert [len(classes([3, 1], i)) for i in range(2)] == [8, 8]
    assert [sum(c >= 10 for c in classes([3, 1], i)) for i in range(2)] == [2, 2]


@in_rows
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


@pytest.mark.parametrize(
    "options",
    [
        {"shuffle": False},
        {"seed": 3, "repeat": 2},
        {},
        {"seed": 3, "cache": True},
        {"filter": lambda features: features[CLASS] == 1},
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
    expected = [name for shard in by_shard(pets) for name, label in shard if label == 1]

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
    examples = pictures([{"image/encoded": b"broken", CLASS: 0}, {CLASS: 1}])
    folder = write_by_hand(tmp_path / "d", LABEL, examples)
    kept = beam_pipeline.load(folder, filter=lambda found: found[CLASS] > 0)
    assert [label for _, label in kept.as_numpy_iterator()] == [1]


def test_a_cache_keeps_samples_of_several_splits_and_options_apart(
    pets: Path, tmp_path: Path
) -> None:
    """By one path, none gets what another wrote there, and a later program finds its own."""
    cache, examples = tmp_path / "cache", {"train": 40, "test": 20}
    for split, size in (("train", 4), ("test", 4), ("train", 8), ("train", 4)):
        images = beam_pipeline.load(pets, split, image_size=(size, 4), channels=1, cache=cache)
        heights = [len(image) for image, _ in images.as_numpy_iterator()]
        assert heights == [size] * examples[split]
    assert len(list(tmp_path.glob("cache-*.index"))) == 3
    least = tf.constant(1, tf.int64)
    filters: tuple[tuple[Any, int], ...] = (
        (lambda features: features[CLASS] == 0, 20),
        (lambda features: features[CLASS] == 2, 0),
        (lambda features: features[CLASS] < least, 20),
        (lambda features: features[CLASS] < least + 1, 40),
        (lambda features: features[CLASS] == 0, 20),
    )
    for keep, count in filters:
        few = beam_pipeline.load(pets, cache=cache, image_size=4, channels=1, filter=keep)
        assert len(list(few.as_numpy_iterator())) == count
    assert len(list(tmp_path.glob("cache-*.index"))) == 3 + 4


@pytest.mark.parametrize("kept", ["memory", "files"])
def test_a_cache_needs_the_shards_once(pets: Path, tmp_path: Path, kept: str) -> None:
    """Later passes are complete though the shards are gone, in another order and augmented anew."""
    folder = shutil.copytree(pets, tmp_path / "out")
    dataset = beam_pipeline.load(
        folder,
        as_dict=True,
        image_size=(4, 4),
        seed=1,
        cache=True if kept == "memory" else tmp_path / "cache",
        augment=lambda features: {**features, "draw": tf.random.uniform([])},
    )
    first = list(dataset.as_numpy_iterator())
    for name in shard_names(folder):
        (folder / name).unlink()
    second = list(dataset.as_numpy_iterator())
    names = [[element["image/source_id"] for element in found] for found in (first, second)]
    assert [sorted(found) for found in names] == [sorted(stored(pets))] * 2
    assert names[0] != names[1]
    assert {float(e["draw"]) for e in first}.isdisjoint(float(e["draw"]) for e in second)
    assert len(dataset) == 40
