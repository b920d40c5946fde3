from __future__ import annotations

import errno
import gzip
import io
import json
import os
import pickle
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import google_crc32c
import pytest

from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.images.preparation import NO_DIGEST, PixelFormat, digest_of
from beam_pipeline.core.labels.schema import (
    Column,
    ColumnKind,
    further_column,
    label_column,
    object_column,
    object_columns,
)
from beam_pipeline.core.records import record_format, wire
from beam_pipeline.core.records.example_source import (
    ExampleMaker,
    ExampleOptions,
    ExampleSource,
    LabelledImages,
    SerializedExamples,
    recorded_source,
)
from beam_pipeline.core.records.example_view import Example
from beam_pipeline.core.records.image_statistics import NOTHING_COUNTED
from beam_pipeline.core.records.shard_writer import (
    MAX_IMAGE_BYTES,
    REPEATED,
    ImageReader,
    sort_by_key_hash,
    write_shard,
)
from beam_pipeline.core.records.sharding import KeyHasher, ShardInfo, ShardSpec
from beam_pipeline.core.records.tfrecord import TFRecordFormat, read_records
from beam_pipeline.core.references import Box, LabelValue, SampleRef
from beam_pipeline.storage.files import open_output, read_image
from tests.core.records.fixtures import Memory, made
from tests.pictures import picture, write_files, write_pictures

SPEC = ShardSpec("train", 3, 8, "birds-train.tfrecord-00003-of-00008")
COLUMNS = (label_column("animal", ColumnKind.CLASS), further_column("age", ColumnKind.INT64))
CLASS_IDS = {"cat": 1, "dog": 2, "eel": 3}


def maker(
    read_image: ImageReader = read_image,
    columns: Sequence[Column] = COLUMNS,
    pixels: PixelFormat | None = None,
    **options: Any,
) -> ExampleMaker:
    source = LabelledImages(tuple(columns), pixels)
    return source.maker(ExampleOptions(**options), CLASS_IDS, read_image)


def ref(folder: object, key: str, *labels: LabelValue, size: int | None = None) -> SampleRef:
    """A reference to a file, of the size that it has unless another is given."""
    uri = f"{folder}/{key}"
    if size is None:
        size = os.path.getsize(uri) if os.path.isfile(uri) else 0
    return SampleRef(key, uri, size, "train", labels or ("cat", None))


def dead_letter_of(maker: ExampleMaker, sample: SampleRef) -> DeadLetter:
    letter = made(maker, sample)
    assert isinstance(letter, DeadLetter)
    return letter


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_a_shard_is_what_tensorflow_reads(tf: Any, tmp_path: Path, compression: str) -> None:
    """Every sample is one example with its image's bytes, its header and its labels, in order."""
    images = write_pictures(str(tmp_path), ["a.jpg", "dog/b.png", "c.gif", "d.bmp", "e.webp"])
    formats = ("jpeg", "png", "gif", "bmp", "webp")
    labels = (("cat", 3), ("dog", None), ("cat", -1), ("cat", 0), ("eel", 7))
    refs = [ref(tmp_path, key, *values) for key, values in zip(images, labels, strict=True)]
    path = tmp_path / "shard"
    with open_output(str(path)) as sink:
        written = write_shard(SPEC, refs, maker(), TFRecordFormat(compression).writer(sink))
    content, info = path.read_bytes(), written.info
    assert not written.dead_letters
    assert info.statistics.images == 5
    crc, classes = google_crc32c.value(content), ((1, 3), (2, 1), (3, 1))
    expected = ShardInfo("train", 3, SPEC.file_name, 5, len(content), crc, classes)
    assert info._replace(statistics=NOTHING_COUNTED) == expected
    records = tf.data.TFRecordDataset(str(path), "GZIP" if compression == "gzip" else "")
    examples = [tf.train.Example.FromString(record.numpy()) for record in records]
    assert [
        {
            key: list(getattr(feature, feature.WhichOneof("kind")).value)
            for key, feature in example.features.feature.items()
        }
        for example in examples
    ] == [
        {
            "image/encoded": [images[key]],
            "image/filename": [key.encode()],
            "image/source_id": [key.encode()],
            "image/format": [image_format.encode()],
            "image/height": [7],
            "image/width": [9],
            "image/channels": [3],
            "image/class/label": [CLASS_IDS[animal]],
            "image/class/text": [animal.encode()],
            **({} if age is None else {"label/age": [age]}),
        }
        for key, image_format, (animal, age) in zip(images, formats, labels, strict=True)
    ]


@pytest.mark.parametrize(("compression", "size"), [("none", 0), ("gzip", 20)])
def test_a_shard_of_no_samples_is_a_stream_of_nothing(compression: str, size: int) -> None:
    """A compressed one is not empty, so that it can be decompressed."""
    sink = Memory()
    written = write_shard(SPEC, [], maker(), TFRecordFormat(compression).writer(sink))
    assert (gzip.decompress(sink.data) if size else sink.data) == b""
    crc = google_crc32c.value(sink.data)
    assert written == (ShardInfo("train", 3, SPEC.file_name, 0, size, crc, ()), [], [], b"")


def test_sizes_of_records_and_digests_of_images(tmp_path: Path) -> None:
    """A record's size is with its framing; a digest is of the file, none of an image left out."""
    images = write_pictures(str(tmp_path), ["a.jpg", "c.png"])
    write_files(str(tmp_path), {"b.jpg": b"no image"})
    refs = [ref(tmp_path, key) for key in ("a.jpg", "b.jpg", "c.png")]
    sink = Memory()
    written = write_shard(SPEC, refs, maker(), TFRecordFormat().writer(sink))
    records = list(read_records(io.BytesIO(sink.data), "shard"))
    assert written.record_sizes == [len(record) + 16 for record in records]
    assert written.digests == digest_of(images["a.jpg"]) + NO_DIGEST + digest_of(images["c.png"])


@pytest.mark.promise("bad_image")
def test_a_bad_sample_is_left_out_and_the_others_are_written(tmp_path: Path) -> None:
    """Dead letters come as they are met, the figures last, and no record is torn."""
    images = write_pictures(str(tmp_path), ["a.jpg", "c.jpg"])
    write_files(str(tmp_path), {"b.jpg": b"no image", "d.jpg": b""})
    refs = [ref(tmp_path, f"{name}.jpg", "dog", 1) for name in "abcd"]
    sink = Memory()
    written = write_shard(SPEC, refs, maker(), TFRecordFormat().writer(sink))
    dead_letters, info = written.dead_letters, written.info
    assert [
        (dead_letter.key, dead_letter.reason)
        for dead_letter in dead_letters
        if isinstance(dead_letter, DeadLetter)
    ] == [("b.jpg", "not_an_image"), ("d.jpg", "empty_file")]
    assert isinstance(info, ShardInfo)
    assert (info.examples, info.classes) == (2, ((2, 2),))
    records = list(read_records(io.BytesIO(sink.data), "shard"))
    assert len(records) == 2
    assert images["a.jpg"] in records[0]
    assert images["c.jpg"] in records[1]


# --- reasons for leaving a sample out -----------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "reason", "message"),
    [
        (lambda path: None, "unreadable", "No such file or directory"),
        (lambda path: path.symlink_to("gone.jpg"), "unreadable", "No such file or directory"),
        (lambda path: path.symlink_to(path), "unreadable", "Too many levels of symbolic links"),
        (lambda path: path.mkdir(), "unreadable", "Is a directory"),
        (lambda path: path.touch(), "empty_file", "the file is empty"),
    ],
    ids=["gone", "link to nothing", "link to itself", "folder", "empty"],
)
def test_a_file_that_cannot_be_read_is_left_out(
    tmp_path: Path, make: Callable[[Path], None], reason: str, message: str
) -> None:
    """The system's own words are the message."""
    path = tmp_path / "a.jpg"
    make(path)
    letter = DeadLetter("read", "a.jpg", str(path), reason, message)
    assert dead_letter_of(maker(), ref(tmp_path, "a.jpg")) == letter


def test_an_error_without_words_is_shown_by_its_name() -> None:
    """A storage client may raise an OSError that has neither number nor text."""

    def read_image(uri: str, size: int, offset: int) -> bytes:
        raise ConnectionResetError

    dead_letter = dead_letter_of(maker(read_image), ref("gs://b", "a.jpg"))
    assert (dead_letter.reason, dead_letter.message) == ("unreadable", "ConnectionResetError")


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR])
def test_trouble_of_the_machine_is_not_the_samples_fault(number: int) -> None:
    """Without memory or file handles the bundle fails, so that the runner tries it again."""

    def read_image(uri: str, size: int, offset: int) -> bytes:
        raise OSError(number, os.strerror(number))

    with pytest.raises(OSError, match=os.strerror(number)):
        maker(read_image).make(ref("gs://b", "a.jpg"))


@pytest.mark.parametrize(
    ("size", "too_large"), [((1 << 31) - (1 << 20) - 1, False), ((1 << 31) - (1 << 20), True)]
)
def test_a_file_that_no_example_can_hold_is_not_even_opened(size: int, too_large: bool) -> None:
    """From 1 MiB below 2 GiB on, its size alone decides."""
    opened = []

    def read_image(uri: str, expected: int, offset: int) -> bytes:
        opened.append((uri, expected, offset))
        return picture()

    sample = made(maker(read_image), ref("gs://b", "a.jpg", size=size))
    if too_large:
        assert sample == DeadLetter(
            "read",
            "a.jpg",
            "gs://b/a.jpg",
            "too_large",
            f"{size} bytes; an example is limited to 2 GiB",
        )
        assert opened == []
    else:
        assert isinstance(sample, record_format.EncodedSample)
        assert opened == [("gs://b/a.jpg", size, -1)]


def test_a_file_that_changed_since_it_was_listed_is_left_out(tmp_path: Path) -> None:
    """Whatever it holds now; the message says what to do."""
    write_files(str(tmp_path), {"a.jpg": picture()})
    size = os.path.getsize(tmp_path / "a.jpg")
    dead_letter = dead_letter_of(maker(), ref(tmp_path, "a.jpg", size=size - 1))
    assert (dead_letter.stage, dead_letter.reason, dead_letter.message) == (
        "read",
        "changed_since_listing",
        f"{size} bytes, listed with {size - 1}; list it again, when nothing writes to it",
    )


@pytest.mark.parametrize(
    ("kind", "value", "what"),
    [
        (ColumnKind.FLOAT, 1e39, "float too large to pack with f format"),
        (ColumnKind.INT64, 1 << 63, "9223372036854775808 does not fit an int64"),
    ],
)
@pytest.mark.parametrize("repeated", [False, True])
def test_a_number_that_its_feature_cannot_hold_costs_the_sample(
    tmp_path: Path, kind: ColumnKind, value: LabelValue, what: str, repeated: bool
) -> None:
    """It is neither cut in silence nor does it end the whole job; the label file is named."""
    write_pictures(str(tmp_path), ["a.jpg"])
    columns = (Column("x", kind, "label/x", repeated=repeated),)
    sample = ref(tmp_path, "a.jpg", (value,) if repeated else value)
    assert dead_letter_of(
        maker(columns=columns), sample._replace(origin="/labels/a.txt")
    ) == DeadLetter(
        "labels",
        "a.jpg",
        f"{tmp_path}/a.jpg",
        "bad_label_value",
        f"a number is too large for its feature: {what}",
        "/labels/a.txt",
    )


# --- boxes --------------------------------------------------------------------------------------

PIXELS, FRACTIONS = object_columns(pixels=True), object_columns(pixels=False)
SOUND: Box = (1.0, 1.0, 8.0, 6.0, 4)


def detector(columns: Sequence[Column] = PIXELS, **more: Any) -> ExampleMaker:
    return maker(columns=columns, **more)


def objects(folder: object, *boxes: Box, origin: str = "/labels/a.txt") -> SampleRef:
    return ref(folder, "a.jpg", boxes, ("cat",) * len(boxes))._replace(origin=origin)


def features_of(sample: record_format.EncodedSample) -> dict[str, list[Any]]:
    return {
        key: list(getattr(feature, feature.WhichOneof("kind")).value)
        for key, feature in Example.FromString(sample.record).features.feature.items()
    }


def sides_of(sample: record_format.EncodedSample) -> list[list[float]]:
    features = features_of(sample)
    return [features[f"image/object/bbox/{side}"] for side in ("xmin", "ymin", "xmax", "ymax")]


@pytest.mark.parametrize(
    ("columns", "box", "source", "problem"),
    [
        (PIXELS, (10.5, 0.0, 11.0, 7.0, 3), ("/labels/a.txt", 3), " is outside the image"),
        (PIXELS, (0.0, 0.0, 9.0, 9.0, 0), ("/labels/a.txt", 0), " reaches out of the image "),
        (PIXELS, (5.0, 3.0, 4.0, 7.0, 0), ("", 0), " is inverted "),
        (FRACTIONS, (0.0, 0.0, 1.0, 1.2, 3), ("/labels/a.txt", 3), " reaches out of the image "),
        (FRACTIONS, (0.5, 0.0, 0.1, 1.0, 3), ("/labels/a.txt", 3), " is inverted "),
    ],
)
def test_a_dead_letter_names_file_and_line_as_far_as_they_are_known(
    tmp_path: Path, columns: Sequence[Column], box: Box, source: tuple[str, int], problem: str
) -> None:
    """A file may have no lines, and labels may come from no file or from several."""
    write_pictures(str(tmp_path), ["a.jpg"])
    dead_letter = dead_letter_of(detector(columns), objects(tmp_path, box, origin=source[0]))
    assert (dead_letter.stage, dead_letter.reason) == ("check", "bad_box")
    assert (dead_letter.file, dead_letter.line) == source
    assert problem in dead_letter.message


def test_boxes_that_reach_out_are_cut_where_asked_for(tmp_path: Path) -> None:
    """The object of one outside altogether is dropped."""
    write_pictures(str(tmp_path), ["a.jpg"])
    wide: Box = (-20.0, -20.0, 4.5, 70.0, 1)
    assert dead_letter_of(detector(), objects(tmp_path, wide)).reason == "bad_box"
    clipping = detector(clip_boxes=True)
    assert sides_of(clipping.make(objects(tmp_path, wide))) == [[0.0], [0.0], [0.5], [1.0]]
    outside: Box = (11.0, 0.0, 20.0, 7.0, 3)
    assert dead_letter_of(detector(), objects(tmp_path, outside)).reason == "bad_box"
    sample = clipping.make(objects(tmp_path, outside, wide))
    assert sides_of(sample) == [[0.0], [0.0], [0.5], [1.0]]
    assert [(letter.reason, letter.line) for letter in sample.dead_letters] == [("empty_box", 3)]


def test_an_object_without_an_area_is_dropped_with_all_that_is_known_of_it(tmp_path: Path) -> None:
    """Its image is written with the other objects; with `drop_image` it is left out."""
    write_pictures(str(tmp_path), ["a.jpg"])
    columns = (*PIXELS, object_column("area", ColumnKind.FLOAT))
    thin: Box = (5.0, 1.0, 5.0, 6.0, 5)
    sample = ref(tmp_path, "a.jpg", (thin, SOUND), ("cat", "dog"), (0.0, 9.0))
    sample = sample._replace(origin="/labels/a.txt")
    made = detector(columns).make(sample)
    features = features_of(made)
    assert features["image/object/class/text"] == [b"dog"]
    assert features["image/object/area"] == [9.0]
    assert made.classes == [2]
    assert made.dead_letters == [
        DeadLetter(
            "check",
            "a.jpg",
            f"{tmp_path}/a.jpg",
            "empty_box",
            "box 1 (xmin 5, ymin 1, xmax 5, ymax 6 in pixels of 9 x 7) has no area "
            "(xmin < xmax and ymin < ymax are expected)",
            "/labels/a.txt",
            5,
        )
    ]
    left_out = dead_letter_of(detector(columns, bad_boxes="drop_image"), sample)
    assert left_out == made.dead_letters[0]._replace(reason="bad_box")


def test_objects_are_counted_by_class(tmp_path: Path) -> None:
    """A shard's figures count each object of the examples that were written, and no other."""
    write_pictures(str(tmp_path), ["a.jpg"])
    refs = [
        ref(tmp_path, "a.jpg", (SOUND, SOUND, SOUND), ("dog", "cat", "dog")),
        ref(tmp_path, "a.jpg", (), ()),
        ref(tmp_path, "a.jpg", ((5.0, 0.0, 4.0, 7.0, 3),), ("eel",)),
    ]
    written = write_shard(SPEC, refs, detector(), TFRecordFormat().writer(Memory()))
    assert [letter.key for letter in written.dead_letters] == ["a.jpg"]
    assert (written.info.examples, written.info.classes) == (2, ((1, 1), (2, 2)))


# --- images in containers -----------------------------------------------------------------------


def contained(folder: object, *, offset: int, size: int) -> SampleRef:
    return ref(folder, "batch", size=size)._replace(key="batch/7", offset=offset)


def test_an_image_may_lie_in_a_file_at_an_offset(tmp_path: Path) -> None:
    """Its own bytes are read, and none of what stands before and behind it."""
    first, second = picture(1), picture(2, size=(20, 10), file_format="PNG")
    write_files(str(tmp_path), {"batch": first + second + b"behind"})
    at_first = maker().make(contained(tmp_path, offset=0, size=len(first)))
    at_second = maker().make(contained(tmp_path, offset=len(first), size=len(second)))
    assert (at_first.image, at_second.image) == (first, second)
    features = features_of(at_second)
    assert features["image/width"] == [20]
    assert features["image/source_id"] == [b"batch/7"]


@pytest.mark.parametrize("offset", [6, 10, 50])
def test_a_file_that_ends_before_its_image_does_is_unreadable(tmp_path: Path, offset: int) -> None:
    """It may have been cut since its images were found."""
    write_files(str(tmp_path), {"batch": b"0123456789"})
    dead_letter = dead_letter_of(maker(), contained(tmp_path, offset=offset, size=5))
    assert dead_letter == DeadLetter(
        "read",
        "batch/7",
        f"{tmp_path}/batch",
        "unreadable",
        f"the file ends before byte {offset + 5}",
    )


@pytest.mark.parametrize("check", ["header", "full"])
@pytest.mark.parametrize(
    ("data", "size", "reason"),
    [
        (picture(5, size=(9, 8)), 1, None),
        (picture(5, size=(9, 7)), 1, "filtered_min_side"),
        (picture(5, size=(9, 7))[:-9], 1, "corrupt_image"),
        (picture(5, size=(9, 8)), 9_001, "filtered_max_image_bytes"),
    ],
)
def test_filters_come_after_the_check(
    check: str, data: bytes, size: int, reason: str | None
) -> None:
    """A bad image is bad, whatever its sides; the size of a file is judged as it was listed."""
    filters = {"min_side": 8, "max_image_bytes": 9_000}
    filtering = maker(lambda uri, size, offset: data, image_check=check, filters=filters)
    sample = made(filtering, SampleRef("a", "uri", size, "train", ("cat", None)))
    assert (sample.reason if isinstance(sample, DeadLetter) else None) == reason
    assert isinstance(sample, DeadLetter) or sample.image is data


# --- order --------------------------------------------------------------------------------------


def test_samples_are_written_in_the_order_of_their_hashes(tmp_path: Path) -> None:
    """Whatever the order in which they come, the file is the same, byte for byte."""
    images = write_pictures(str(tmp_path), [f"{i}.jpg" for i in range(20)])
    refs = [ref(tmp_path, key) for key in images]
    hasher = KeyHasher(5)
    files = []
    for seed in range(3):
        shuffled = random.Random(seed).sample(refs, len(refs))
        sink = Memory()
        ordered = sort_by_key_hash(shuffled, hasher)
        write_shard(SPEC, ordered, maker(), TFRecordFormat().writer(sink))
        files.append(sink.data)
    assert files[0] == files[1] == files[2]
    records = list(read_records(io.BytesIO(files[0]), "shard"))
    keys = sorted(images, key=lambda key: hasher.hash(key).order)
    assert keys != sorted(keys)
    for record, key in zip(records, keys, strict=True):
        assert images[key] in record
        assert key.encode() in record


def test_samples_are_read_one_at_a_time_as_they_are_written(tmp_path: Path) -> None:
    """A shard is never in memory: the sink has one sample before the next is read."""
    events = []

    class Log:
        def write(self, *buffers: bytes) -> None:
            events.append("write")

    def read_image(uri: str, size: int, offset: int) -> bytes:
        events.append(uri)
        return picture()

    refs = [ref("gs://b", key) for key in ("a", "b")]
    write_shard(SPEC, refs, maker(read_image), TFRecordFormat().writer(Log()))
    assert events == ["gs://b/a", "write", "gs://b/b", "write"]


# --- example source --------------------------------------------------------------------------


ANIMAL = (label_column("animal", ColumnKind.CLASS),)
FEATURES = {"x": {"kind": "int64", "optional": False, "shape": []}}
SOURCES = [
    LabelledImages(()),
    LabelledImages((*object_columns(pixels=True), object_column("id", ColumnKind.INT64))),
    LabelledImages(ANIMAL, PixelFormat(32, 32)),
    SerializedExamples(described=FEATURES),
]


def nothing(uri: str, size: int, offset: int) -> bytes:
    raise AssertionError(f"{uri} is read")


@pytest.mark.parametrize("source", SOURCES)
def test_a_recorded_source_is_read_back_from_json(source: ExampleSource) -> None:
    """So `repair` makes the examples of a receipt as the conversion did."""
    assert recorded_source(json.loads(json.dumps(source.recorded()))) == source
    assert pickle.loads(pickle.dumps(source)) == source


@pytest.mark.parametrize(
    ("source", "uri", "noun"),
    [(LabelledImages(()), "/p/a.jpg", "sample"), (SerializedExamples(), "", "record")],
)
def test_samples_of_one_key_are_left_out_unread(source: ExampleSource, uri: str, noun: str) -> None:
    """Nothing tells which is meant; a record has no file of its own to name."""
    twice = SampleRef("a.jpg", "/p/a.jpg", 9, "train", (("cat",),), 0, origin=REPEATED)
    fault = f"another {noun} has the key 'a.jpg'; expected one of its own"
    expected = DeadLetter("join", "a.jpg", uri, "duplicate_key", fault)
    assert made(source.maker(ExampleOptions(), {"cat": 1}, nothing), twice) == expected


def test_images_are_encoded_with_their_labels_and_options() -> None:
    """Boxes are checked under the object ids of their label file, and cut where that is asked for."""
    columns = (*object_columns(pixels=True), object_column("id", ColumnKind.INT64))
    box = (0.0, 0.0, 99.0, 99.0, 7)
    ref = SampleRef("a.jpg", "uri", 1, "train", ((box,), ("cat",), (42,)))
    read: Any = lambda uri, size, offset: picture()  # noqa: E731
    dead_letter: Any = made(LabelledImages(columns).maker(ExampleOptions(), {"cat": 3}, read), ref)
    assert (dead_letter.reason, dead_letter.line) == ("bad_box", 7)
    assert "42" in dead_letter.message
    maker = LabelledImages(columns).maker(ExampleOptions(clip_boxes=True), {"cat": 3}, read)
    assert maker.make(ref).classes == [3]


def test_serialized_examples_are_passed_on_unchanged() -> None:
    """Their one label is the list of their classes; they are lost with the job that spooled them."""
    source = SerializedExamples(described=FEATURES)
    maker = source.maker(ExampleOptions(), {"b": 1, "c": 2}, lambda uri, size, offset: b"example")
    ref = SampleRef("0", "uri", 7, "train", (("c", "b", "c"),), 0)
    assert maker.make(ref) == record_format.EncodedSample(b"", b"example", b"", classes=[2, 1, 2])
    assert source.features({}) == FEATURES
    assert source.columns == (Column("class", ColumnKind.CLASS, "image/class", repeated=True),)
    assert (source.resumable, source.pixels) == (False, None)
    assert LabelledImages(()).resumable


@pytest.mark.parametrize(
    ("source", "limit"),
    [(LabelledImages(()), MAX_IMAGE_BYTES), (SerializedExamples(), wire.MAX_EXAMPLE_BYTES)],
)
def test_what_is_larger_than_the_limit_is_not_read(source: ExampleSource, limit: int) -> None:
    """It becomes a dead letter by its listed size alone."""
    assert source.max_bytes == limit
    ref = SampleRef("a", "uri", limit + 1, "train", ())
    dead_letter: Any = made(source.maker(ExampleOptions(), {}, nothing), ref)
    assert dead_letter.reason == "too_large"
