"""The features of examples, from Python values to their wire format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from beam_pipeline.core.errors import SampleError
from beam_pipeline.core.images.header import ImageHeader
from beam_pipeline.core.labels.schema import (
    BOX_SIDES,
    Column,
    ColumnKind,
    further_column,
    label_column,
    object_columns,
)
from beam_pipeline.core.records import example_view, wire
from beam_pipeline.core.records.feature_values import FeatureSchema, feature_value
from beam_pipeline.core.records.features import SampleEncoder, feature_kinds
from beam_pipeline.core.references import Box, SampleRef
from tests import profiles, rows
from tests.core.records import fixtures

ANIMAL = [label_column("animal", ColumnKind.CLASS), further_column("age", ColumnKind.INT64)]
HEADER = ImageHeader("jpeg", 7, 9, 3)
LONG_NAME = "class " + 200 * "x"
CLASS_IDS = {"cat": 0, "강아지": 1, LONG_NAME: 128}
BOXES: tuple[Box, ...] = (
    *((0.0, 0.0, 9.0, 7.0, 1), (1.5, 2.0, 3.0, 3.5, 2)),
    (-0.5, 0.5, 9.5, 7.5, 3),
)


def ref_of(*labels: Any, key: str = "a.jpg") -> SampleRef:
    return SampleRef(key, "uri", 1, "train", labels)


def encoded(
    columns: list[Column], ref: SampleRef, image: bytes, renames: Mapping[str, str] | None = None
) -> bytes:
    before, after = SampleEncoder(columns, CLASS_IDS, renames or {}).encode(ref, HEADER, image)
    return before + image + after


def single(kind: str, *, optional: bool = False) -> dict[str, Any]:
    return {"kind": kind, "optional": optional, "shape": []}


def test_the_features_of_a_data_set_are_these() -> None:
    """Sorted by key, each with the kind of its list, one value, and whether it may be lacking."""
    features = feature_kinds([*ANIMAL, further_column("note", ColumnKind.BYTES)])
    assert list(features) == sorted(features)
    of_every_image = {
        **{f"image/{key}": single("int64") for key in ("channels", "height", "width")},
        **{f"image/{key}": single("bytes") for key in ("encoded", "filename", "format")},
        "image/source_id": single("bytes"),
    }
    assert features == of_every_image | {
        "image/class/label": single("int64"),
        "image/class/text": single("bytes"),
        "label/age": single("int64", optional=True),
        "label/note": single("bytes", optional=True),
    }
    score = label_column("score", ColumnKind.FLOAT)
    assert feature_kinds((score,)) == of_every_image | {"image/label": single("float")}


Typed = dict[str, tuple[str, list[Any]]]
"""Key -> kind of list and its values, which may be none."""


def typed_features(
    ref: SampleRef, columns: list[Column], header: ImageHeader, image: bytes
) -> Typed:
    """What `SampleEncoder` promises under the standard keys."""
    features: Typed = {
        "image/channels": ("int64", [header.channels]),
        "image/encoded": ("bytes", [image]),
        "image/filename": ("bytes", [ref.key.encode()]),
        "image/format": ("bytes", [header.format.encode()]),
        "image/height": ("int64", [header.height]),
        "image/source_id": ("bytes", [ref.key.encode()]),
        "image/width": ("int64", [header.width]),
    }
    for column, value in zip(columns, ref.labels, strict=True):
        if value is None:
            continue
        values: Any = value if column.repeated else (value,)
        if column.kind is ColumnKind.BOX:
            for index, side in enumerate(BOX_SIDES):
                whole = (header.width, header.height)[index % 2] if column.pixels else 1
                cut = [min(1.0, max(0.0, box[index] / whole)) for box in values]
                features[f"{column.feature}/{side}"] = ("float", cut)
        elif column.kind is ColumnKind.CLASS:
            features[f"{column.feature}/label"] = ("int64", [CLASS_IDS[name] for name in values])
            features[f"{column.feature}/text"] = ("bytes", [name.encode() for name in values])
        elif column.kind is ColumnKind.BYTES:
            features[column.feature] = ("bytes", [text.encode() for text in values])
        else:
            features[column.feature] = (column.kind.value, list(values))
    return features


def renamed(features: Typed, renames: Mapping[str, str]) -> Typed:
    """The features under the keys that they are to have; those that lost theirs left out."""
    lost = {*renames, *renames.values()}
    unmoved = {key: values for key, values in features.items() if key not in lost}
    return unmoved | {new: features[key] for new, key in renames.items() if key in features}


IMAGE_SIZES = [0, 1, 127, 128, 16_383, 16_384, 1 << 21]


@pytest.mark.parametrize("size", IMAGE_SIZES)
def test_the_lengths_around_an_image_are_right_where_varints_grow(tf: Any, size: int) -> None:
    """Every length that holds the image's is right one byte before and behind a boundary."""
    # The entry adds 26 to 40 bytes to the image, so boundaries lie a little below its size.
    for length in range(max(0, size - 160), size + 3, 1 if size < 1 << 20 else 40):
        image = bytes(length)
        expected = fixtures.tf_example(tf, typed_features(ref_of(), [], HEADER, image))
        assert encoded([], ref_of(), image) == expected


def test_a_feature_stands_on_its_side_of_the_image() -> None:
    """A key that begins the image's comes before it, and one that it begins comes behind."""
    keys = ("image/encoded0", "image/encode", "image/encoded/x", "image/a")
    columns = [Column("x", ColumnKind.INT64, key) for key in keys]
    features = typed_features(ref_of(1, 2, 3, 4), columns, HEADER, b"xyz")
    assert encoded(columns, ref_of(1, 2, 3, 4), b"xyz") == wire.encode_example(features)


def test_more_distinct_values_than_the_cache_holds_are_all_written_right() -> None:
    """A column of identifiers is not mixed up when the cache of its entries is full."""
    encoder = SampleEncoder([further_column("id", ColumnKind.BYTES)], {})
    for number in (*range(5_000), 0, 4_999):
        _, after = encoder.encode(ref_of(f"id {number}"), HEADER, b"x")
        assert wire.bytes_entry("label/id", [f"id {number}".encode()]) in after


@pytest.mark.parametrize(
    ("columns", "labels", "ids"),
    [
        (ANIMAL[::-1], (3, "dog"), [2]),
        (ANIMAL[1:], (3,), []),
        ([label_column("score", ColumnKind.FLOAT)], (0.5,), []),
        ([*object_columns(pixels=False), ANIMAL[1]], (BOXES, ("dog", "cat", "dog"), 3), [2, 1, 2]),
        ([*object_columns(pixels=False), ANIMAL[1]], ((), (), None), []),
    ],
)
def test_the_classes_of_a_sample_are_ids(columns: Any, labels: Any, ids: list[int]) -> None:
    """Of its class column, which may stand anywhere, or of each object, one that occurs twice twice."""
    assert list(SampleEncoder(columns, {"cat": 1, "dog": 2}).classes(ref_of(*labels))) == ids


@rows.in_rows
def test_features_are_written_under_the_keys_that_were_asked_for(
    tf: Any, renames: dict[str, str]
) -> None:
    """The image may go anywhere, and entries stand in the order of the keys that they have."""
    ref = ref_of("강아지", 3)
    expected = renamed(typed_features(ref, ANIMAL, HEADER, b"image"), renames)
    assert encoded(ANIMAL, ref, b"image", renames) == fixtures.tf_example(tf, expected)
    assert expected.keys() == feature_kinds(ANIMAL, renames).keys()


CORNERS = st.floats(-100.0, 20_000.0) | st.sampled_from([-1.0, -0.0, 0.0, 0.5, 1.0, 7.0, 9.0])
VALUES: dict[ColumnKind, st.SearchStrategy[Any]] = {
    ColumnKind.INT64: fixtures.INT64S,
    ColumnKind.FLOAT: fixtures.FLOATS,
    ColumnKind.BYTES: st.text(max_size=30),
    ColumnKind.CLASS: st.sampled_from([*CLASS_IDS]),
    ColumnKind.BOX: st.tuples(*[CORNERS] * 4, st.integers(0, 99)),
}
# None of these begins another, and none begins a standard key.
OTHER_KEYS = st.sampled_from(["a/", "image/c/", "image/f/", "z/"]).flatmap(
    lambda folder: fixtures.KEYS.map(folder.__add__)
) | st.sampled_from(["image/encodec", "image/encodee"])
LIST_COLUMNS = st.lists(
    st.builds(
        Column,
        name=st.just("any"),
        kind=st.sampled_from([ColumnKind.INT64, ColumnKind.FLOAT, ColumnKind.BYTES]),
        feature=OTHER_KEYS,
        repeated=st.booleans(),
    ),
    max_size=4,
    unique_by=lambda column: column.feature,
)
FIRST_COLUMNS = st.sampled_from(
    [
        *([], [*object_columns(pixels=True)], [*object_columns(pixels=False)[::-1]]),
        *([label_column("l", kind)] for kind in (ColumnKind.CLASS, ColumnKind.FLOAT)),
        [label_column("l", ColumnKind.BYTES)],
        [Column("l", ColumnKind.CLASS, "image/class", required=True, repeated=True)],
    ]
)


@st.composite
def renamings(draw: st.DrawFn, standard: list[str]) -> dict[str, str]:
    """Some features under other keys, of their own or of other features; the image is kept."""
    moved = draw(st.lists(st.sampled_from(standard), max_size=4, unique=True))
    keys = st.sampled_from(standard) | OTHER_KEYS
    new = draw(st.lists(keys, min_size=len(moved), max_size=len(moved), unique=True))
    renames = dict(zip(new, moved, strict=True))
    if "image/encoded" not in moved:
        renames.pop("image/encoded", None)
    return renames


@settings(max_examples=profiles.examples(200))
@given(data=st.data())
def test_any_sample_is_written_as_tensorflow_would_write_it(tf: Any, data: st.DataObject) -> None:
    """Lists of every kind, empty or not, boxes in either unit, features under any keys."""
    columns = [*data.draw(FIRST_COLUMNS), *data.draw(LIST_COLUMNS)]
    kinds = feature_kinds(columns, renames := data.draw(renamings(list(feature_kinds(columns)))))
    encoder = SampleEncoder(columns, CLASS_IDS, renames)
    for _ in range(2):  # the second time, some entries come from the encoder's cache
        labels = []
        for column in columns:
            values = VALUES[column.kind]
            if column.repeated:
                values = st.lists(values, max_size=5).map(tuple)
            labels.append(data.draw(values if column.required else values | st.none()))
        ref = ref_of(*labels, key=data.draw(st.text(max_size=20)))
        header = ImageHeader("png", *data.draw(st.tuples(*[st.integers(1, 1 << 40)] * 3)))
        image = bytes(data.draw(st.sampled_from(IMAGE_SIZES[:-1])))
        before, after = encoder.encode(ref, header, image)
        expected = renamed(typed_features(ref, columns, header, image), renames)
        assert before + image + after == fixtures.tf_example(tf, expected)
        assert expected.keys() <= kinds.keys()
        for key, described in kinds.items():
            kind, written = expected.get(key, (described["kind"], None))
            assert kind == described["kind"]
            assert described["optional"] if written is None else True
            assert written is None or described["shape"] == [None] or len(written) == 1


# --- the wire format ------------------------------------------------------------------------------


@settings(max_examples=profiles.examples(300))
@given(features=fixtures.FEATURES)
@example(features={})
@example(features={"": []})
@example(features={"nan": [float("nan"), float("inf"), float("-inf"), -0.0, 0.0, 1e-45]})
@example(features={"extremes": [-(1 << 63), -1, 0, 1, (1 << 63) - 1]})
@example(features={"\uffff": [1], "\U0001f600": [2], "z": [3], "é": [4], "e\u0301": [5]})
@example(features={"b": [b""], "a/b": [b"", b"\xff"], "a.b": [b"x" * 16_384], "a-b": []})
def test_an_example_has_the_bytes_of_tensorflows_deterministic_serialization(
    tf: Any, features: dict[str, Any]
) -> None:
    """Any features of any kind; `example_view.Example` reads them, and writes back the same."""
    serialized = fixtures.tf_example(tf, fixtures.with_kinds(features))
    assert fixtures.record_of(features) == serialized
    ours = example_view.Example.FromString(serialized)
    assert ours.SerializeToString(deterministic=True) == serialized
    for key, expected in tf.train.Example.FromString(serialized).features.feature.items():
        feature, kind = ours.features.feature[key], expected.WhichOneof("kind")
        assert feature.WhichOneof("kind") == kind
        values, wanted = (list(getattr(one, kind).value) for one in (feature, expected))
        assert repr(values) == repr(wanted)  # nan is not equal to itself


@settings(max_examples=profiles.examples(200))
@given(keys=st.sets(st.text(max_size=4) | st.text("ab", max_size=4)))
@example(keys={"a", "\uffff", "\U0001f600"})  # UTF-16 would have the last two the other way round
def test_keys_stand_in_the_order_of_their_utf8_bytes(keys: set[str]) -> None:
    """The order is that of the bytes for any keys, one that begins another before it."""
    entries = b"".join(wire.bytes_entry(key, [b""]) for key in sorted(keys, key=str.encode))
    encoded = fixtures.record_of({key: [b""] for key in keys})
    assert encoded == b"\x0a" + wire.varint(len(entries)) + entries


def test_a_prefix_and_its_value_are_an_entry() -> None:
    """The prefix is the entry up to its one value, which stands at the end."""
    for length in (0, 1, 127, 128, 16_383, 16_384):
        value = b"x" * length
        assert wire.value_prefixes("key")(length) + value == wire.bytes_entry("key", [value])


def test_our_own_message_has_the_names_and_numbers_of_tensorflows(tf: Any) -> None:
    """Field by field, the three messages and their lists are those of TensorFlow."""
    for name in ("Example", "Features", "Feature"):
        ours = example_view.Example.DESCRIPTOR.file.message_types_by_name[name]
        theirs = getattr(tf.train, name).DESCRIPTOR
        assert ours.full_name == theirs.full_name
        of_ours, of_theirs = (
            [(f.name, f.number, f.type, f.is_repeated) for f in message.fields]
            for message in (ours, theirs)
        )
        assert of_ours == of_theirs


# --- Python values as features


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (bytearray(b"x"), ("bytes", (b"x",), ())),
        (memoryview(b"x"), ("bytes", (b"x",), ())),
        (np.int8(-3), ("int64", (-3,), ())),
        (np.uint8(3), ("int64", (3,), ())),
        (np.bool_(True), ("int64", (1,), ())),
        (np.float16(0.5), ("float", (0.5,), ())),
        (np.str_("a"), ("bytes", (b"a",), ())),
        ([np.int32(1), 2], ("int64", (1, 2), (2,))),
        (np.array([[1, 2], [3, 4]], np.uint16), ("int64", (1, 2, 3, 4), (2, 2))),
        (np.array([[True], [False]]), ("int64", (1, 0), (2, 1))),
        (np.array([0.5, 1.5]), ("float", (0.5, 1.5), (2,))),
        (np.array(["a", "b"]), ("bytes", (b"a", b"b"), (2,))),
        (np.array(["a", "b"], object), ("bytes", (b"a", b"b"), (2,))),
        (np.array([[1, 2]], np.uint8), ("bytes", (b"\x01\x02",), ())),
        (np.array([[1, 2], [3, 4]], np.uint8).T, ("bytes", (b"\x01\x03\x02\x04",), ())),
        (np.zeros((0, 3), np.float32), ("float", (), (0, 3))),
    ],
)
def test_a_value_becomes_the_list_of_its_type(value: Any, expected: tuple[Any, ...]) -> None:
    """Scalars and arrays of every type that a feature can hold; arrays in C order."""
    found = feature_value(value)
    assert repr(found and tuple(found)) == repr(expected)


@pytest.mark.parametrize(
    "value",
    [
        *(object(), 1j, np.zeros(1, complex), np.longdouble(1), np.void(b"a"), np.ma.masked),
        *(np.datetime64("2020-01-01", "ns"), np.zeros(1, "datetime64[ns]"), np.zeros(0, "m8[s]")),
        *([np.datetime64("2020-01-01", "ns")], [np.ma.masked], [np.longdouble(1)]),
    ],
)
def test_anything_else_is_an_error(value: Any) -> None:
    """The message names the type that was found and those that are expected."""
    expected = "is not a feature; expected bytes, str, bool, int, float"
    assert expected in str(rows.raised(ValueError, feature_value, value))


@given(
    st.dictionaries(
        fixtures.KEYS,
        st.text()
        | st.one_of(fixtures.INT64S, fixtures.FLOATS, st.binary())
        | st.lists(fixtures.INT64S, min_size=1)
        | st.lists(fixtures.FLOATS, min_size=1),
    )
)
def test_values_of_python_are_written_as_tensorflow_writes_them(
    tf: Any, sample: dict[str, Any]
) -> None:
    """The serialized example is TensorFlow's own, byte for byte, for every key and value."""
    lists = {key: value if isinstance(value, list) else [value] for key, value in sample.items()}
    features = {
        key: [value.encode() if isinstance(value, str) else value for value in values]
        for key, values in lists.items()
    }
    assert FeatureSchema().encode(sample) == fixtures.tf_example(tf, fixtures.with_kinds(features))


def test_the_schema_knows_kinds_lengths_and_what_is_missing() -> None:
    """One value, a fixed number, any number; in every sample or not."""
    schema = FeatureSchema()
    schema.encode({"one": 1, "three": np.zeros((1, 3)), "any": ["a"], "late": [], "some": 2.0})
    schema.encode({"one": 2, "three": [1.0, 2.0, 3.0], "any": [], "late": ["x"], "none": None})
    assert schema.samples == 2
    assert schema.features == {
        "any": {"kind": "bytes", "optional": False, "shape": [None]},
        "late": {"kind": "bytes", "optional": True, "shape": [None]},
        "one": single("int64"),
        "some": single("float", optional=True),
        "three": {"kind": "float", "optional": False, "shape": [None]},
    }


def test_a_list_without_values_has_the_kind_of_the_others() -> None:
    """Once it is known; before that, the feature is left out. Half a character cannot be written."""
    schema = FeatureSchema()
    for value, features in (([], {}), ([1], {"x": ("int64", [1])}), ([], {"x": ("int64", [])})):
        assert schema.encode({"x": value}) == wire.encode_example(features)
    assert "surrogates not allowed" in str(rows.raised(SampleError, schema.encode, {"y": "\ud800"}))
