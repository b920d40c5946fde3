"""`tf.train.Example` as a protobuf message, without TensorFlow.

The three messages are built from a descriptor with the package, names and field numbers of
TensorFlow's `feature.proto` and `example.proto`, in a descriptor pool of their own so that they
never meet TensorFlow's. The job writes the wire format by hand (`example.py`); this is for reading it back.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_FIELD = descriptor_pb2.FieldDescriptorProto


def _add_field(
    message: descriptor_pb2.DescriptorProto, name: str, number: int, kind: int, **more: Any
) -> None:
    label = more.pop("label", _FIELD.LABEL_OPTIONAL)
    field = message.field.add(name=name, number=number, type=kind, label=label, **more)
    if label == _FIELD.LABEL_REPEATED and kind in (_FIELD.TYPE_FLOAT, _FIELD.TYPE_INT64):
        field.options.packed = True


def _message_classes() -> tuple[Any, Any, Any]:
    file = descriptor_pb2.FileDescriptorProto(
        name="beam_tfrecord/example.proto", package="tensorflow", syntax="proto3"
    )
    for list_name, kind in (
        ("BytesList", _FIELD.TYPE_BYTES),
        ("FloatList", _FIELD.TYPE_FLOAT),
        ("Int64List", _FIELD.TYPE_INT64),
    ):
        message = file.message_type.add(name=list_name)
        _add_field(message, "value", 1, kind, label=_FIELD.LABEL_REPEATED)

    feature = file.message_type.add(name="Feature")
    feature.oneof_decl.add(name="kind")
    for number, (name, type_name) in enumerate(
        (("bytes_list", "BytesList"), ("float_list", "FloatList"), ("int64_list", "Int64List")), 1
    ):
        _add_field(
            feature,
            name,
            number,
            _FIELD.TYPE_MESSAGE,
            type_name=f".tensorflow.{type_name}",
            oneof_index=0,
        )

    features = file.message_type.add(name="Features")
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    _add_field(entry, "key", 1, _FIELD.TYPE_STRING)
    _add_field(entry, "value", 2, _FIELD.TYPE_MESSAGE, type_name=".tensorflow.Feature")
    _add_field(
        features,
        "feature",
        1,
        _FIELD.TYPE_MESSAGE,
        label=_FIELD.LABEL_REPEATED,
        type_name=".tensorflow.Features.FeatureEntry",
    )

    example = file.message_type.add(name="Example")
    _add_field(example, "features", 1, _FIELD.TYPE_MESSAGE, type_name=".tensorflow.Features")

    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    example_class, features_class, feature_class = (
        message_factory.GetMessageClass(pool.FindMessageTypeByName(f"tensorflow.{name}"))
        for name in ("Example", "Features", "Feature")
    )
    return example_class, features_class, feature_class


Example, Features, Feature = _message_classes()
