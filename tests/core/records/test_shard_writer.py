"""Shards from references: what is written, what is left out and why, and the sources of examples."""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import pickle
import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import google_crc32c
import pytest

from beam_pipeline.core import dead_letters
from beam_pipeline.core.images.header import NO_DIGEST
from beam_pipeline.core.images.preparation import PixelFormat, digest_of
from beam_pipeline.core.labels import schema
from beam_pipeline.core.records import example_source, shard_writer, sharding, tfrecord, wire
from beam_pipeline.core.records.example_view import Example
from beam_pipeline.core.records.image_statistics import NOTHING_COUNTED
from beam_pipeline.core.records.record_format import EncodedSample
from beam_pipeline.core.references import Box, LabelValue, SampleRef
from beam_pipeline.storage.files import read_image
from tests.core.records.fixtures import Memory, made
from tests.pictures import picture, write_files, write_pictures
from tests.rows import in_rows, raised

SPEC = sharding.ShardSpec("train", 3, 8, "birds-train.tfrecord-00003-of-00008")
COLUMNS = (
    schema.label_column("animal", schema.ColumnKind.CLASS),
    schema.further_column("age", schema.ColumnKind.INT64),
)
CLASS_IDS = {"cat": 1, "dog": 2, "eel": 3}
BOXES = {pixels: schema.object_columns(pixels=pixels) for pixels in (True, False)}
LABELS = "/labels/a.txt"


def maker(
    read: shard_writer.ImageReader = read_image,
    columns: Sequence[schema.Column] = COLUMNS,
    **options: Any,
) -> example_source.ExampleMaker:
    source = example_source.LabelledImages(tuple(columns))
    return source.maker(example_source.ExampleOptions(**options), CLASS_IDS, read)


def ref(folder: object, key: str, *labels: LabelValue, size: int | None = None) -> SampleRef:
    """A reference to a file, of the size that it has unless another is given."""
    uri = f"{folder}/{key}"
    if size is None:
        size = os.path.getsize(uri) if os.path.isfile(uri) else 0
    return SampleRef(key, uri, size, "train", labels or ("cat", None), origin=LABELS)


def written(
    refs: Iterable[SampleRef],
    by: example_source.ExampleMaker | None = None,
    compression: str = "none",
) -> tuple[Any, bytes]:
    """The report on a shard, and its bytes."""
    sink = Memory()
    writer = tfrecord.TFRecordFormat(compression).writer(sink)
    return shard_writer.write_shard(SPEC, refs, by or maker(), writer), sink.data


def records_in(data: bytes) -> list[bytes]:
    return list(tfrecord.read_records(io.BytesIO(data), "shard"))


def features_of(sample: Any) -> dict[str, list[Any]]:
    return {
        key: list(getattr(feature, feature.WhichOneof("kind")).value)
        for key, feature in Example.FromString(sample.record).features.feature.items()
    }


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_a_shard_is_what_tensorflow_reads(tf: Any, tmp_path: Path, compression: str) -> None:
    """Every sample is one example with its image's bytes, its header and its labels, in order."""
    images = write_pictures(str(tmp_path), ["a.jpg", "dog/b.png", "c.gif", "d.bmp", "e.webp"])
    labels = (("cat", 3), ("dog", None), ("cat", -1), ("cat", 0), ("eel", 7))
    refs = [ref(tmp_path, key, *values) for key, values in zip(images, labels, strict=True)]
    report, content = written(refs, compression=compression)
    assert (report.dead_letters, report.info.statistics.images) == ([], 5)
    crc, classes = google_crc32c.value(content), ((1, 3), (2, 1), (3, 1))
    info = sharding.ShardInfo("train", 3, SPEC.file_name, 5, len(content), crc, classes)
    assert report.info._replace(statistics=NOTHING_COUNTED) == info
    (tmp_path / "shard").write_bytes(content)
    records = tf.data.TFRecordDataset(f"{tmp_path}/shard", "GZIP" if compression == "gzip" else "")
    formats = ("jpeg", "png", "gif", "bmp", "webp")
    for record, key, image_format, (animal, age) in zip(
        records, images, formats, labels, strict=True
    ):
        assert features_of(EncodedSample(b"", record.numpy(), b"")) == {
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


@pytest.mark.parametrize(("compression", "size"), [("none", 0), ("gzip", 20)])
def test_a_shard_of_no_samples_is_a_stream_of_nothing(compression: str, size: int) -> None:
    """A compressed one is not empty, so that it can be decompressed."""
    report, data = written([], compression=compression)
    assert (gzip.decompress(data) if size else data) == b""
    info = sharding.ShardInfo("train", 3, SPEC.file_name, 0, size, google_crc32c.value(data), ())
    assert report == (info, [], [], b"")


@pytest.mark.promise("bad_image")
def test_a_bad_sample_is_left_out_and_the_others_are_written(tmp_path: Path) -> None:
    """No record is torn. A record's size is with its framing; a digest is of the file, none of one left out."""
    images = write_pictures(str(tmp_path), ["a.jpg", "c.jpg"])
    write_files(str(tmp_path), {"b.jpg": b"no image", "d.jpg": b""})
    report, data = written(ref(tmp_path, f"{name}.jpg", "dog", 1) for name in "abcd")
    assert [(letter.key, letter.reason) for letter in report.dead_letters] == [
        ("b.jpg", "not_an_image"),
        ("d.jpg", "empty_file"),
    ]
    assert (report.info.examples, report.info.classes) == (2, ((2, 2),))
    first, second = records_in(data)
    assert images["a.jpg"] in first
    assert images["c.jpg"] in second
    assert report.record_sizes == [len(first) + 16, len(second) + 16]
    digests = [digest_of(images["a.jpg"]), NO_DIGEST, digest_of(images["c.jpg"]), NO_DIGEST]
    assert report.digests == b"".join(digests)


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
    letter = ("read", "a.jpg", str(path), reason, message, "", 0)
    assert made(maker(), ref(tmp_path, "a.jpg")) == letter


def failing(error: OSError) -> example_source.ExampleMaker:
    def read(uri: str, size: int, offset: int) -> bytes:
        raise error

    return maker(read)


def test_an_error_without_words_is_shown_by_its_name() -> None:
    """A storage client may raise an OSError that has neither number nor text."""
    letter: Any = made(failing(ConnectionResetError()), ref("gs://b", "a.jpg"))
    assert (letter.reason, letter.message) == ("unreadable", "ConnectionResetError")


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR])
def test_trouble_of_the_machine_is_not_the_samples_fault(number: int) -> None:
    """Without memory or file handles the bundle fails, so that the runner tries it again."""
    error = OSError(number, os.strerror(number))
    assert raised(OSError, failing(error).make, ref("gs://b", "a.jpg")).errno == number


def test_a_file_that_no_example_can_hold_is_not_even_opened() -> None:
    """From 1 MiB below 2 GiB on, its size alone decides."""
    opened = []

    def read(uri: str, expected: int, offset: int) -> bytes:
        opened.append((uri, expected, offset))
        return picture()

    size = (1 << 31) - (1 << 20)
    letter = made(maker(read), ref("gs://b", "a.jpg", size=size))
    message = f"{size} bytes; an example is limited to 2 GiB"
    assert letter == ("read", "a.jpg", "gs://b/a.jpg", "too_large", message, "", 0)
    sample = made(maker(read), ref("gs://b", "a.jpg", size=size - 1))
    assert (type(sample), opened) == (EncodedSample, [("gs://b/a.jpg", size - 1, -1)])


def test_a_file_that_changed_since_it_was_listed_is_left_out(tmp_path: Path) -> None:
    """Whatever it holds now; the message says what to do."""
    write_files(str(tmp_path), {"a.jpg": picture()})
    size = len(picture())
    message = f"{size} bytes, listed with {size - 1}; list it again, when nothing writes to it"
    letter: Any = made(maker(), ref(tmp_path, "a.jpg", size=size - 1))
    assert letter[3:5] == ("changed_since_listing", message)


@pytest.mark.parametrize("repeated", [False, True])
@in_rows
def test_a_number_that_its_feature_cannot_hold_costs_the_sample(
    tmp_path: Path, kind: str, value: Any, what: str, repeated: bool
) -> None:
    """It is neither cut in silence nor does it end the whole job; the label file is named."""
    write_pictures(str(tmp_path), ["a.jpg"])
    column = schema.Column("x", schema.ColumnKind(kind), "label/x", repeated=repeated)
    sample = ref(tmp_path, "a.jpg", (value,) if repeated else value)
    message = f"a number is too large for its feature: {what}"
    assert made(maker(columns=[column]), sample) == (
        *("labels", "a.jpg", f"{tmp_path}/a.jpg", "bad_label_value", message, LABELS),
        0,
    )


# --- boxes --------------------------------------------------------------------------------------


def boxed(
    folder: Path,
    *boxes: Box,
    pixels: bool = True,
    origin: str = LABELS,
    **options: Any,
) -> Any:
    """What becomes of an image of 9 x 7 pixels with these boxes."""
    write_pictures(str(folder), ["a.jpg"])
    sample = ref(folder, "a.jpg", boxes, ("cat",) * len(boxes))._replace(origin=origin)
    return made(maker(columns=BOXES[pixels], **options), sample)


@in_rows
def test_a_dead_letter_names_file_and_line_as_far_as_they_are_known(
    tmp_path: Path, pixels: bool, box: Box, origin: str, problem: str
) -> None:
    """A file may have no lines, and labels may come from no file or from several."""
    letter = boxed(tmp_path, box, pixels=pixels, origin=origin)
    assert (letter.stage, letter.reason) == ("check", "bad_box")
    assert (letter.file, letter.line) == (origin, box[4])
    assert problem in letter.message


def test_boxes_that_reach_out_are_cut_where_asked_for(tmp_path: Path) -> None:
    """The object of one outside altogether is dropped."""
    wide: Box = (-20.0, -20.0, 4.5, 70.0, 1)
    outside: Box = (11.0, 0.0, 20.0, 7.0, 3)
    assert boxed(tmp_path, wide).reason == boxed(tmp_path, outside).reason == "bad_box"
    for boxes, dropped in (((wide,), []), ((outside, wide), [("empty_box", 3)])):
        sample = boxed(tmp_path, *boxes, clip_boxes=True)
        sides = [features_of(sample)[f"image/object/bbox/{side}"] for side in ("xmin", "ymin")]
        sides += [features_of(sample)[f"image/object/bbox/{side}"] for side in ("xmax", "ymax")]
        assert sides == [[0.0], [0.0], [0.5], [1.0]]
        assert [(letter.reason, letter.line) for letter in sample.dead_letters] == dropped


def test_an_object_without_an_area_is_dropped_with_all_that_is_known_of_it(tmp_path: Path) -> None:
    """Its image is written with the other objects; with `drop_image` it is left out."""
    write_pictures(str(tmp_path), ["a.jpg"])
    columns = (*BOXES[True], schema.object_column("area", schema.ColumnKind.FLOAT))
    boxes = ((5.0, 1.0, 5.0, 6.0, 5), (1.0, 1.0, 8.0, 6.0, 4))
    sample = ref(tmp_path, "a.jpg", boxes, ("cat", "dog"), (0.0, 9.0))
    found = maker(columns=columns).make(sample)
    features = features_of(found)
    assert features["image/object/class/text"] == [b"dog"]
    assert features["image/object/area"] == [9.0]
    assert found.classes == [2]
    message = (
        "box 1 (xmin 5, ymin 1, xmax 5, ymax 6 in pixels of 9 x 7) has no area "
        "(xmin < xmax and ymin < ymax are expected)"
    )
    letter = dead_letters.DeadLetter("check", "a.jpg", sample.uri, "empty_box", message, LABELS, 5)
    assert found.dead_letters == [letter]
    left_out = made(maker(columns=columns, bad_boxes="drop_image"), sample)
    assert left_out == letter._replace(reason="bad_box")


def test_objects_are_counted_by_class(tmp_path: Path) -> None:
    """A shard's figures count each object of the examples that were written, and no other."""
    write_pictures(str(tmp_path), ["a.jpg"])
    sound, inverted = (1.0, 1.0, 8.0, 6.0, 4), (5.0, 0.0, 4.0, 7.0, 3)
    refs = [
        ref(tmp_path, "a.jpg", (sound,) * 3, ("dog", "cat", "dog")),
        ref(tmp_path, "a.jpg", (), ()),
        ref(tmp_path, "a.jpg", (inverted,), ("eel",)),
    ]
    report, _ = written(refs, maker(columns=BOXES[True]))
    assert len(report.dead_letters) == 1
    assert (report.info.examples, report.info.classes) == (2, ((1, 1), (2, 2)))


# --- images in containers -----------------------------------------------------------------------


def contained(folder: object, *, offset: int, size: int) -> SampleRef:
    return ref(folder, "batch", size=size)._replace(key="batch/7", offset=offset, origin="")


def test_an_image_may_lie_in_a_file_at_an_offset(tmp_path: Path) -> None:
    """Its own bytes are read, and none of what stands before and behind it."""
    first, second = picture(1), picture(2, size=(20, 10), file_format="PNG")
    write_files(str(tmp_path), {"batch": first + second + b"behind"})
    at_first = maker().make(contained(tmp_path, offset=0, size=len(first)))
    at_second = maker().make(contained(tmp_path, offset=len(first), size=len(second)))
    assert (at_first.image, at_second.image) == (first, second)
    features = features_of(at_second)
    assert (features["image/width"], features["image/source_id"]) == ([20], [b"batch/7"])


@pytest.mark.parametrize("offset", [6, 10, 50])
def test_a_file_that_ends_before_its_image_does_is_unreadable(tmp_path: Path, offset: int) -> None:
    """It may have been cut since its images were found."""
    write_files(str(tmp_path), {"batch": b"0123456789"})
    letter = made(maker(), contained(tmp_path, offset=offset, size=5))
    message = f"the file ends before byte {offset + 5}"
    assert letter == ("read", "batch/7", f"{tmp_path}/batch", "unreadable", message, "", 0)


def test_a_bad_image_in_an_unpacked_file_is_one_of_the_file_that_the_user_knows(
    tmp_path: Path,
) -> None:
    """Also the first in it."""
    write_files(str(tmp_path), {"batch": b"0123456789"})
    sample: Any = contained(tmp_path, offset=0, size=10)._replace(origin="gs://b/set.tar")
    assert made(maker(), sample).uri == "gs://b/set.tar"


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
    sample: Any = made(filtering, ref("gs://b", "a", size=size))
    assert sample.reason == reason if reason else sample.image is data


# --- order --------------------------------------------------------------------------------------


def test_samples_are_written_in_the_order_of_their_hashes(tmp_path: Path) -> None:
    """Whatever the order in which they come, the file is the same, byte for byte."""
    images = write_pictures(str(tmp_path), [f"{i}.jpg" for i in range(20)])
    refs = [ref(tmp_path, key) for key in images]
    hasher, files = sharding.KeyHasher(5), []
    for seed in range(3):
        shuffled = random.Random(seed).sample(refs, len(refs))
        files.append(written(shard_writer.sort_by_key_hash(shuffled, hasher))[1])
    assert files[0] == files[1] == files[2]
    keys = sorted(images, key=lambda key: hasher.hash(key).order)
    assert keys != sorted(keys)
    for record, key in zip(records_in(files[0]), keys, strict=True):
        assert images[key] in record
        assert key.encode() in record


def test_samples_are_read_one_at_a_time_as_they_are_written() -> None:
    """A shard is never in memory: the sink has one sample before the next is read."""
    events = []

    class Log:
        def write(self, *buffers: bytes) -> None:
            events.append("write")

    def read(uri: str, size: int, offset: int) -> bytes:
        events.append(uri)
        return picture()

    refs = [ref("gs://b", key) for key in ("a", "b")]
    shard_writer.write_shard(SPEC, refs, maker(read), tfrecord.TFRecordFormat().writer(Log()))
    assert events == ["gs://b/a", "write", "gs://b/b", "write"]


# --- example source --------------------------------------------------------------------------


OBJECTS = (*BOXES[True], schema.object_column("id", schema.ColumnKind.INT64))
FEATURES = {"x": {"kind": "int64", "optional": False, "shape": []}}
SOURCES = [
    *(example_source.LabelledImages(()), example_source.LabelledImages(OBJECTS)),
    example_source.LabelledImages(COLUMNS[:1], PixelFormat(32, 32)),
    example_source.SerializedExamples(described=FEATURES),
]


@pytest.mark.parametrize("source", SOURCES)
def test_a_recorded_source_is_read_back_from_json(source: example_source.ExampleSource) -> None:
    """So `repair` makes the examples of a receipt as the conversion did."""
    assert example_source.recorded_source(json.loads(json.dumps(source.recorded()))) == source
    assert pickle.loads(pickle.dumps(source)) == source


@pytest.mark.parametrize(
    ("source", "uri", "noun", "limit"),
    [
        (SOURCES[0], "/p/a.jpg", "sample", shard_writer.MAX_IMAGE_BYTES),
        (SOURCES[3], "", "record", wire.MAX_EXAMPLE_BYTES),
    ],
)
def test_what_cannot_become_an_example_is_not_read(
    source: Any, uri: str, noun: str, limit: int
) -> None:
    """What is too large, and samples of one key: nothing tells which is meant, and a record has no file."""

    def read(uri: str, size: int, offset: int) -> bytes:
        raise AssertionError(f"{uri} is read")

    twice = SampleRef("a.jpg", "/p/a.jpg", 9, "train", (("cat",),), 0, shard_writer.REPEATED)
    by = source.maker(example_source.ExampleOptions(), {"cat": 1}, read)
    message = f"another {noun} has the key 'a.jpg'; expected one of its own"
    assert made(by, twice) == ("join", "a.jpg", uri, "duplicate_key", message, "", 0)
    large: Any = made(by, SampleRef("a", "uri", limit + 1, "train", ()))
    assert (source.max_bytes, large.reason) == (limit, "too_large")


def test_images_are_encoded_with_their_labels_and_options() -> None:
    """Boxes are checked under the object ids of their label file, and cut where that is asked for."""
    sample = ref("gs://b", "a.jpg", ((0.0, 0.0, 99.0, 99.0, 7),), ("cat",), (42,))
    letter: Any = made(maker(lambda uri, size, offset: picture(), OBJECTS), sample)
    assert (letter.reason, letter.line, "42" in letter.message) == ("bad_box", 7, True)
    clipping = maker(lambda uri, size, offset: picture(), OBJECTS, clip_boxes=True)
    assert clipping.make(sample).classes == [1]


def test_serialized_examples_are_passed_on_unchanged() -> None:
    """Their one label is the list of their classes; they are lost with the job that spooled them."""
    source: Any = SOURCES[3]
    options = example_source.ExampleOptions()
    by = source.maker(options, {"b": 1, "c": 2}, lambda uri, size, offset: b"example")
    sample = SampleRef("0", "uri", 7, "train", (("c", "b", "c"),), 0)
    assert by.make(sample) == EncodedSample(b"", b"example", b"", classes=[2, 1, 2])
    assert source.features({}) == FEATURES
    assert source.columns == (
        schema.Column("class", schema.ColumnKind.CLASS, "image/class", repeated=True),
    )
    assert (source.resumable, source.pixels, SOURCES[0].resumable) == (False, None, True)
