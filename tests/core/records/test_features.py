"""The features of examples, from Python values to their wire format."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from beam_pipeline.core import errors
from beam_pipeline.core.images.header import ImageHeader
from beam_pipeline.core.labels.schema import (
    BOX_SIDES,
    Column,
    ColumnKind,
    further_column,
    label_column,
    object_columns,
)
from beam_pipeline.core.records import example_view, feature_values, wire
from beam_pipeline.core.records.features import SampleEncoder, feature_kinds
from beam_pipeline.core.references import Box, SampleRef
from tests.core.records import fixtures
from tests.profiles import examples

ANIMAL = (label_column("animal", ColumnKind.CLASS), further_column("age", ColumnKind.INT64))

# --- what is said and what is written -----------------------------------------------------------


def single(kind: str, *, optional: bool = False) -> dict[str, Any]:
    return {"kind": kind, "optional": optional, "shape": []}


OF_EVERY_IMAGE = {
    "image/channels": single("int64"),
    "image/encoded": single("bytes"),
    "image/filename": single("bytes"),
    "image/format": single("bytes"),
    "image/height": single("int64"),
    "image/source_id": single("bytes"),
    "image/width": single("int64"),
}


def test_the_features_of_a_data_set_are_these() -> None:
    """Sorted by key, each with the kind of its list, one value, and whether it may be lacking."""
    columns = (
        label_column("animal", ColumnKind.CLASS),
        further_column("age", ColumnKind.INT64),
        further_column("note", ColumnKind.BYTES),
    )
    features = feature_kinds(columns)
    assert list(features) == sorted(features)
    assert features == {
        **OF_EVERY_IMAGE,
        "image/class/label": single("int64"),
        "image/class/text": single("bytes"),
        "label/age": single("int64", optional=True),
        "label/note": single("bytes", optional=True),
    }
    score = label_column("score", ColumnKind.FLOAT)
    assert feature_kinds((score,)) == {**OF_EVERY_IMAGE, "image/label": single("float")}


IMAGE_SIZES = [0, 1, 127, 128, 16_383, 16_384, 1 << 21]


VALUES: dict[ColumnKind, st.SearchStrategy[Any]] = {
    ColumnKind.INT64: fixtures.INT64S,
    ColumnKind.FLOAT: fixtures.FLOATS,
    ColumnKind.BYTES: st.text(max_size=30),
    ColumnKind.CLASS: st.sampled_from(["cat", "강아지", "class " + 200 * "x"]),
}
CLASS_IDS = {"cat": 0, "강아지": 1, "class " + 200 * "x": 128}


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


@pytest.mark.parametrize("size", IMAGE_SIZES)
def test_the_lengths_around_an_image_are_right_where_varints_grow(tf: Any, size: int) -> None:
    """Every length that holds the image's is right one byte before and behind a boundary."""
    encoder = SampleEncoder([], {})
    ref = SampleRef("a.jpg", "uri", size, "train", ())
    header = ImageHeader("jpeg", 7, 9, 3)
    # The entry adds 26 to 40 bytes to the image, so boundaries lie a little below its size.
    for length in range(max(0, size - 160), size + 3, 1 if size < 1 << 20 else 40):
        image = bytes(length)
        before, after = encoder.encode(ref, header, image)
        assert before + image + after == fixtures.tf_example(
            tf, typed_features(ref, [], header, image)
        )


def test_a_feature_stands_on_its_side_of_the_image() -> None:
    """A key that begins the image's comes before it, and one that it begins comes behind."""
    columns = [
        Column("x", ColumnKind.INT64, feature)
        for feature in ("image/encoded0", "image/encode", "image/encoded/x", "image/a")
    ]
    ref = SampleRef("a.jpg", "uri", 1, "train", (1, 2, 3, 4))
    before, after = SampleEncoder(columns, {}).encode(ref, ImageHeader("jpeg", 7, 9, 3), b"xyz")
    features = typed_features(ref, columns, ImageHeader("jpeg", 7, 9, 3), b"xyz")
    assert before + b"xyz" + after == wire.encode_example(features)


def test_more_distinct_values_than_the_cache_holds_are_all_written_right() -> None:
    """A column of identifiers is not mixed up when the cache of its entries is full."""
    encoder = SampleEncoder([further_column("id", ColumnKind.BYTES)], {})
    for number in (*range(5_000), 0, 4_999):
        ref = SampleRef("a.jpg", "uri", 1, "train", (f"id {number}",))
        _, after = encoder.encode(ref, ImageHeader("jpeg", 7, 9, 3), b"x")
        assert wire.bytes_entry("label/id", [f"id {number}".encode()]) in after


def test_the_class_of_a_sample_is_the_id_of_its_class_column() -> None:
    """The class column may stand anywhere; without one there is no class."""
    columns = [further_column("age", ColumnKind.INT64), label_column("animal", ColumnKind.CLASS)]
    ref = SampleRef("a.jpg", "uri", 1, "train", (3, "dog"))
    assert list(SampleEncoder(columns, {"cat": 1, "dog": 2}).classes(ref)) == [2]
    assert list(SampleEncoder(columns[:1], {}).classes(ref._replace(labels=(3,)))) == []
    regression = label_column("score", ColumnKind.FLOAT)
    assert list(SampleEncoder([regression], {}).classes(ref._replace(labels=(0.5,)))) == []


def test_each_object_of_a_sample_has_its_class() -> None:
    """Ids come in the order of the objects, one that occurs twice twice; no objects have none."""
    columns = [*object_columns(pixels=False), further_column("age", ColumnKind.INT64)]
    encoder = SampleEncoder(columns, {"cat": 1, "dog": 2})
    ref = SampleRef("a.jpg", "uri", 1, "train", (BOXES[:3], ("dog", "cat", "dog"), 3))
    assert list(encoder.classes(ref)) == [2, 1, 2]
    assert list(encoder.classes(ref._replace(labels=((), (), None)))) == []


# --- lists, boxes and other keys ----------------------------------------------------------------

BOXES: tuple[Box, ...] = (
    (0.0, 0.0, 9.0, 7.0, 1),
    (1.5, 2.0, 3.0, 3.5, 2),
    (-0.5, 0.5, 9.5, 7.5, 3),
)
HEADER = ImageHeader("jpeg", 7, 9, 3)


def renamed(features: Typed, renames: dict[str, str]) -> Typed:
    """The features under the keys that they are to have; those that lost theirs left out."""
    unmoved = {
        key: values for key, values in features.items() if key not in {*renames, *renames.values()}
    }
    moved = {new: features[key] for new, key in renames.items() if key in features}
    return unmoved | moved


def encoded(
    columns: list[Column], ref: SampleRef, image: bytes, renames: dict[str, str] | None = None
) -> bytes:
    before, after = SampleEncoder(columns, CLASS_IDS, renames or {}).encode(ref, HEADER, image)
    return before + image + after


@pytest.mark.parametrize(
    "renames",
    [
        {"image/source_id": "image/class/label"},
        {"image/source_id": "image/class/text", "id": "image/source_id"},
        {"a": "image/encoded"},
        {"z": "image/encoded"},
        {"image/e_": "image/encoded", "image/d_": "image/class/label", "image/f_": "image/width"},
        {"image/height": "image/encoded", "image/encoded": "image/height"},
        {"image/encoded": "label/age", "label/age": "image/encoded"},
        {"a": "image/format", "b": "image/channels", "y": "image/class/text", "z": "label/age"},
        {"image/class/label": "label/age"},
        {"image/encoded": "image/encoded"},
    ],
)
def test_features_are_written_under_the_keys_that_were_asked_for(
    tf: Any, renames: dict[str, str]
) -> None:
    """The image may go anywhere, and entries stand in the order of the keys that they have."""
    columns = [label_column("animal", ColumnKind.CLASS), further_column("age", ColumnKind.INT64)]
    ref = SampleRef("a.jpg", "uri", 1, "train", ("강아지", 3))
    expected = renamed(typed_features(ref, columns, HEADER, b"image"), renames)
    assert encoded(columns, ref, b"image", renames) == fixtures.tf_example(tf, expected)
    assert expected.keys() == feature_kinds(columns, renames).keys()


CORNERS = st.floats(-100.0, 20_000.0) | st.sampled_from([-1.0, -0.0, 0.0, 0.5, 1.0, 7.0, 9.0])
LIST_VALUES: dict[ColumnKind, st.SearchStrategy[Any]] = {
    **VALUES,
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
        [],
        [label_column("l", ColumnKind.CLASS)],
        [label_column("l", ColumnKind.FLOAT)],
        [label_column("l", ColumnKind.BYTES)],
        [Column("l", ColumnKind.CLASS, "image/class", required=True, repeated=True)],
        [*object_columns(pixels=True)],
        [*object_columns(pixels=False)[::-1]],
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


@settings(max_examples=examples(200))
@given(data=st.data())
def test_any_sample_is_written_as_tensorflow_would_write_it(tf: Any, data: st.DataObject) -> None:
    """Lists of every kind, empty or not, boxes in either unit, features under any keys."""
    columns = [*data.draw(FIRST_COLUMNS), *data.draw(LIST_COLUMNS)]
    renames = data.draw(renamings(list(feature_kinds(columns))))
    encoder = SampleEncoder(columns, CLASS_IDS, renames)
    for _ in range(2):  # the second time, some entries come from the encoder's cache
        labels = []
        for column in columns:
            values = LIST_VALUES[column.kind]
            if column.repeated:
                values = st.lists(values, max_size=5).map(tuple)
            labels.append(data.draw(values if column.required else values | st.none()))
        ref = SampleRef(data.draw(st.text(max_size=20)), "uri", 1, "train", tuple(labels))
        header = ImageHeader("png", *data.draw(st.tuples(*[st.integers(1, 1 << 40)] * 3)))
        image = bytes(data.draw(st.sampled_from(IMAGE_SIZES[:-1])))
        before, after = encoder.encode(ref, header, image)
        expected = renamed(typed_features(ref, columns, header, image), renames)
        assert before + image + after == fixtures.tf_example(tf, expected)
        kinds = feature_kinds(columns, renames)
        assert expected.keys() <= kinds.keys()
        for key, described in kinds.items():
            assert key in expected or described["optional"]
            if key in expected:
                kind, values = expected[key]
                assert kind == described["kind"]
                assert described["shape"] == [None] or len(values) == 1


# --- the wire format ------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [1 << 63, -(1 << 63) - 1, 10**30])
def test_an_integer_too_large_for_an_int64_is_refused(value: int) -> None:
    """Its upper bits do not vanish in silence."""
    with pytest.raises(OverflowError, match=rf"^{value} does not fit an int64$"):
        wire.int64_entry("k", [1, value])


def test_an_entry_of_each_kind_has_the_bytes_of_the_wire_format() -> None:
    """Each entry is tag, length, key and list, here written out by hand."""
    assert wire.bytes_entry("k", [b"v"]) == b"\x0a\x0a\x0a\x01k\x12\x05\x0a\x03\x0a\x01v"
    assert wire.float_entry("k", [1.0]) == b"\x0a\x0d\x0a\x01k\x12\x08\x12\x06\x0a\x04\0\0\x80\x3f"
    assert wire.int64_entry("k", [3]) == b"\x0a\x0a\x0a\x01k\x12\x05\x1a\x03\x0a\x01\x03"
    assert wire.float_entry("k", []) == b"\x0a\x07\x0a\x01k\x12\x02\x12\x00"
    assert wire.int64_entry("k", []) == b"\x0a\x07\x0a\x01k\x12\x02\x1a\x00"


@settings(max_examples=examples(300))
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
    """Any features of any kind are the bytes that TensorFlow's own message gives."""
    assert fixtures.record_of(features) == fixtures.tf_example(tf, fixtures.with_kinds(features))


@settings(max_examples=examples(200))
@given(keys=st.sets(st.text(max_size=4) | st.text("ab", max_size=4)))
@example(keys={"a", "\uffff", "\U0001f600"})  # UTF-16 would have the last two the other way round
def test_keys_stand_in_the_order_of_their_utf8_bytes(keys: set[str]) -> None:
    """The order is that of the bytes for any keys, one that begins another before it."""
    encoded = fixtures.record_of({key: [b""] for key in keys})
    entries = [wire.bytes_entry(key, [b""]) for key in sorted(keys, key=str.encode)]
    assert encoded == b"\x0a" + wire.varint(sum(map(len, entries))) + b"".join(entries)


def test_a_number_too_large_for_a_float32_is_refused() -> None:
    """It does not become infinity in silence."""
    with pytest.raises(OverflowError):
        fixtures.record_of({"k": [1e39]})


def test_the_worked_example_of_the_format_is_right() -> None:
    """The bytes in the module's docstring are those of an example with one feature."""
    golden = "0a0e 0a0c 0a0161 1207 1a05 0a03 ac0205"
    assert wire.encode_example({"a": ("int64", [300, 5])}) == bytes.fromhex(golden)


@pytest.mark.parametrize("length", [0, 1, 127, 128, 16_383, 16_384])
def test_a_prefix_and_its_value_are_an_entry(length: int) -> None:
    """The prefix is the entry up to its one value, which stands at the end."""
    value = b"x" * length
    assert wire.value_prefixes("key")(length) + value == wire.bytes_entry("key", [value])


@settings(max_examples=examples(200))
@given(features=fixtures.FEATURES)
def test_our_own_message_parses_what_tensorflows_does(tf: Any, features: dict[str, Any]) -> None:
    """`example_view.Example` reads TensorFlow's bytes, and writes back the same."""
    serialized = fixtures.tf_example(tf, fixtures.with_kinds(features))
    ours = example_view.Example.FromString(serialized)
    theirs = tf.train.Example.FromString(serialized)
    assert ours.SerializeToString(deterministic=True) == serialized
    assert set(ours.features.feature) == set(theirs.features.feature) == set(features)
    for key, feature in ours.features.feature.items():
        expected = theirs.features.feature[key]
        kind = feature.WhichOneof("kind")
        assert kind == expected.WhichOneof("kind")
        values, wanted = getattr(feature, kind).value, getattr(expected, kind).value
        if kind == "float_list":  # nan is not equal to itself
            values, wanted = (struct.pack(f"<{len(v)}d", *v) for v in (values, wanted))
            assert values == wanted
        else:
            assert list(values) == list(wanted)


def test_our_own_message_has_the_names_and_numbers_of_tensorflows(tf: Any) -> None:
    """Field by field, the three messages and their lists are those of TensorFlow."""
    for name in ("Example", "Features", "Feature"):
        ours = example_view.Example.DESCRIPTOR.file.message_types_by_name[name]
        theirs = getattr(tf.train, name).DESCRIPTOR
        assert ours.full_name == theirs.full_name
        assert [(f.name, f.number, f.type, f.is_repeated) for f in ours.fields] == [
            (f.name, f.number, f.type, f.is_repeated) for f in theirs.fields
        ]


# --- Python values as features


INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
FLOAT32 = st.floats(width=32)
TEXT = st.text()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"x", ("bytes", (b"x",), ())),
        (bytearray(b"x"), ("bytes", (b"x",), ())),
        (memoryview(b"x"), ("bytes", (b"x",), ())),
        ("é", ("bytes", (b"\xc3\xa9",), ())),
        ("", ("bytes", (b"",), ())),
        (True, ("int64", (1,), ())),
        (-3, ("int64", (-3,), ())),
        (0.5, ("float", (0.5,), ())),
        ([], ("", (), (0,))),
        ((1, True), ("int64", (1, 1), (2,))),
        ([1, 2.5], ("float", (1.0, 2.5), (2,))),
        (["a", b"b"], ("bytes", (b"a", b"b"), (2,))),
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
    """Scalars, lists and arrays of every type that a feature can hold; arrays in C order."""
    found = feature_values.feature_value(value)
    assert found == feature_values.FeatureValue(*expected)
    assert found is not None
    assert [type(item) for item in found.values] == [type(item) for item in expected[1]]


def test_none_is_no_feature() -> None:
    """None means that the sample does not have the feature."""
    assert feature_values.feature_value(None) is None


@pytest.mark.parametrize("value", [{}, {1}, object(), 1j, [None], [[1]], np.zeros(1, complex)])
def test_anything_else_is_an_error(value: Any) -> None:
    """The message names the type that was found and those that are expected."""
    with pytest.raises(
        ValueError, match=r"is not a feature; expected bytes, str, bool, int, float"
    ):
        feature_values.feature_value(value)


@given(
    st.dictionaries(
        st.text(min_size=1),
        st.one_of(
            INT64,
            FLOAT32,
            TEXT,
            st.binary(),
            st.lists(INT64, min_size=1),
            st.lists(FLOAT32, min_size=1),
        ),
    )
)
def test_tensorflow_reads_what_was_given(sample: dict[str, Any]) -> None:
    """The serialized example is TensorFlow's own, byte for byte, for every key and value."""
    features = {}
    for key, value in sample.items():
        values = value if isinstance(value, list) else [value]
        if isinstance(values[0], float):
            feature = tf.train.Feature(float_list=tf.train.FloatList(value=values))
        elif isinstance(values[0], int):
            feature = tf.train.Feature(int64_list=tf.train.Int64List(value=values))
        else:
            encoded = [v.encode() if isinstance(v, str) else v for v in values]
            feature = tf.train.Feature(bytes_list=tf.train.BytesList(value=encoded))
        features[key] = feature
    found = tf.train.Example.FromString(feature_values.FeatureSchema().encode(sample))
    expected = tf.train.Example(features=tf.train.Features(feature=features))
    assert _plain(found) == _plain(expected)


def _plain(example: Any) -> dict[str, Any]:
    """Floats by their bits, as NaN is not equal to itself."""
    return {
        key: (
            feature.WhichOneof("kind"),
            list(feature.bytes_list.value),
            list(feature.int64_list.value),
            [struct.pack("<f", value) for value in feature.float_list.value],
        )
        for key, feature in example.features.feature.items()
    }


def test_the_schema_knows_kinds_lengths_and_what_is_missing() -> None:
    """One value, a fixed number, any number; in every sample or not."""
    schema = feature_values.FeatureSchema()
    schema.encode({"one": 1, "three": np.zeros((1, 3)), "any": ["a"], "late": [], "some": 2.0})
    schema.encode({"one": 2, "three": [1.0, 2.0, 3.0], "any": [], "late": ["x"], "none": None})
    assert schema.samples == 2
    assert schema.features == {
        "any": {"kind": "bytes", "optional": False, "shape": [None]},
        "late": {"kind": "bytes", "optional": True, "shape": [None]},
        "one": {"kind": "int64", "optional": False, "shape": []},
        "some": {"kind": "float", "optional": True, "shape": []},
        "three": {"kind": "float", "optional": False, "shape": [None]},
    }


def test_a_list_without_values_has_the_kind_of_the_others() -> None:
    """Once it is known; before that, the feature is left out."""
    schema = feature_values.FeatureSchema()
    assert _kinds(schema.encode({"x": []})) == {}
    assert _kinds(schema.encode({"x": [1]})) == {"x": "int64_list"}
    assert _kinds(schema.encode({"x": []})) == {"x": "int64_list"}


def _kinds(example: bytes) -> dict[str, str]:
    features = tf.train.Example.FromString(example).features.feature
    return {key: feature.WhichOneof("kind") for key, feature in features.items()}


def test_a_text_that_is_not_unicode_is_an_error() -> None:
    """Half a character cannot be written as UTF-8."""
    with pytest.raises(errors.SampleError, match="surrogates not allowed"):
        feature_values.FeatureSchema().encode({"x": "\ud800"})
