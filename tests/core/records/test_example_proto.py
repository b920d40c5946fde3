from __future__ import annotations

import struct
from typing import Any

from hypothesis import given, settings

from beam_pipeline.core.records import example_proto
from tests.core.records.fixtures import FEATURES, tf_example
from tests.profiles import examples


@settings(max_examples=examples(200))
@given(features=FEATURES)
def test_our_own_message_parses_what_tensorflows_does(tf: Any, features: dict[str, Any]) -> None:
    """`example_proto.Example` reads TensorFlow's bytes, and writes back the same."""
    serialized = tf_example(tf, features)
    ours = example_proto.Example.FromString(serialized)
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
        ours = getattr(example_proto, name).DESCRIPTOR
        theirs = getattr(tf.train, name).DESCRIPTOR
        assert ours.full_name == theirs.full_name
        assert [(f.name, f.number, f.type, f.is_repeated) for f in ours.fields] == [
            (f.name, f.number, f.type, f.is_repeated) for f in theirs.fields
        ]
