"""`tf.train.Example` as a protobuf message, without TensorFlow.

The messages are built from a descriptor with the package, names and field numbers of TensorFlow's
`feature.proto` and `example.proto`, in a descriptor pool of their own so that they never meet TensorFlow's.
The job writes the wire format by hand (`features.py`); this is for reading it back.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_FIELD = descriptor_pb2.FieldDescriptorProto
_LISTS = (
    ("bytes_list", "BytesList", _FIELD.TYPE_BYTES),
    ("float_list", "FloatList", _FIELD.TYPE_FLOAT),
    ("int64_list", "Int64List", _FIELD.TYPE_INT64),
)


def _message_classes() -> tuple[Any, Any, Any]:
    file = descriptor_pb2.FileDescriptorProto(
        name="beam_tfrecord/example.proto", package="tensorflow", syntax="proto3"
    )
    one, several = _FIELD.LABEL_OPTIONAL, _FIELD.LABEL_REPEATED

    def message(name: str, type_name: str = ".tensorflow.Feature") -> dict[str, Any]:
        return {"name": name, "type": _FIELD.TYPE_MESSAGE, "type_name": type_name}

    feature = descriptor_pb2.DescriptorProto(name="Feature")
    feature.oneof_decl.add(name="kind")
    for number, (field, name, kind) in enumerate(_LISTS, 1):
        values = file.message_type.add(name=name)
        value = values.field.add(name="value", number=1, type=kind, label=several)
        value.options.packed = kind != _FIELD.TYPE_BYTES
        feature.field.add(
            number=number, label=one, oneof_index=0, **message(field, f".tensorflow.{name}")
        )
    features = descriptor_pb2.DescriptorProto(name="Features")
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=_FIELD.TYPE_STRING, label=one)
    entry.field.add(number=2, label=one, **message("value"))
    entries = message("feature", ".tensorflow.Features.FeatureEntry")
    features.field.add(number=1, label=several, **entries)
    example = descriptor_pb2.DescriptorProto(name="Example")
    example.field.add(number=1, label=one, **message("features", ".tensorflow.Features"))
    file.message_type.extend((feature, features, example))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    names = ("Example", "Features", "Feature")
    found = (pool.FindMessageTypeByName(f"tensorflow.{name}") for name in names)
    example_class, features_class, feature_class = map(message_factory.GetMessageClass, found)
    return example_class, features_class, feature_class


Example, Features, Feature = _message_classes()
