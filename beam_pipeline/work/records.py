"""Records from Python or from a pipeline: the key, the split, the classes and the bytes of each.

A record is a dict of features (or a row of a schema), a `tf.train.Example`, or a serialized one.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import pickle
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import DamagedRecordError, SampleError, UsageError
from beam_pipeline.core.labels.classes import ClassNumbering
from beam_pipeline.core.listing.folders import SPLIT_NAMES
from beam_pipeline.core.records import example_view, wire
from beam_pipeline.core.records.feature_values import FeatureValue, feature_values
from beam_pipeline.core.records.sharding import KeyHasher, SplitFractions
from beam_pipeline.core.references import DEFAULT_SPLIT, SPLIT_NAME, SampleRef
from beam_pipeline.core.text import excerpt, is_utf8

CLASS_ID = "image/class/label"
"""The feature that class ids are counted by."""

Features = Mapping[str, FeatureValue]


def class_numbering(names: Sequence[str]) -> ClassNumbering:
    """The ids of classes that were named. Raises UsageError."""
    if isinstance(names, str):
        raise UsageError(f"class_names is {names!r}, expected a list of names")
    for text in names:
        if not isinstance(text, str) or not text or not is_utf8(text):
            raise UsageError(f"class_names contains {excerpt(text)}; expected texts of UTF-8")
    if len(set(names)) < len(names):
        raise UsageError("class_names contains a name twice; each class needs its own")
    known = tuple((text, i) for i, text in enumerate(names))
    return ClassNumbering(known=known, from_name=not known)


def checked_key(value: Any, key: object) -> str:
    """A sample's key. Raises SampleError if it is neither a text nor an integer.

    Args:
      value: what the sample has.
      key: the feature's name, or the function that returned it.
    """
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if not isinstance(value, (str, int)) or value == "" or not is_utf8(str(value)):
        source = key if isinstance(key, str) else "by the function"
        raise SampleError(f"its key ({source}) is {excerpt(value)}, expected a text or an integer")
    return str(value)


def split_of(sample: Any, split: Any, features: Collection[str] = ()) -> str:
    """A sample's split. Raises SampleError.

    Args:
      sample: the sample.
      split: the split of all samples, or a function that returns a sample's.
      features: keys of the sample. A split that is called like one of them was probably meant to be its value.
    """
    name = split(sample) if callable(split) else split
    if not isinstance(name, str) or not SPLIT_NAME.fullmatch(name):
        raise SampleError(f"its split is {name!r}, expected letters, digits and '_'")
    if name is split and name in features and name not in SPLIT_NAMES:
        raise SampleError(
            f"the split of all samples is {name!r}, which is a feature; expected another name, or for the "
            f"feature's value a function: split=lambda sample: sample[{name!r}]"
        )
    return name


def named_classes(value: Any, names: Sequence[str]) -> tuple[str, ...]:
    """Names of the classes whose ids a sample contains. Raises SampleError."""
    if value is None:
        return ()
    ids = value.tolist() if hasattr(value, "tolist") else value
    classes, n = [], len(names)
    for i in ids if isinstance(ids, (list, tuple)) else (ids,):
        if not isinstance(i, int) or (names and not 0 <= i < n):
            expected = f"0 to {n - 1}, as there are {n} class names" if names else "an integer"
            raise SampleError(f"feature {CLASS_ID!r} is {i!r}, expected {expected}")
        classes.append(names[i] if names else str(i))
    return tuple(classes)


def feature_entries(features: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Features as the manifest has them, given as such or as their kinds alone.

    Raises:
      UsageError: a kind is unknown.
    """
    entries = {}
    for key, given in sorted(features.items()):
        entry = {"kind": given} if isinstance(given, str) else dict(given)
        if entry.get("kind") not in ("bytes", "float", "int64"):
            raise UsageError(
                f"features[{key!r}] is {excerpt(given)}, expected 'bytes', 'float' or 'int64', or a dict "
                "with that as its 'kind'"
            )
        entries[key] = {"optional": True, "shape": [None], **entry}
    return entries


@dataclass(frozen=True, kw_only=True)
class RecordReader:
    """Takes elements of a pipeline for records, each by itself, so that it does not matter which come before.

    Attributes:
      key: the feature that contains a record's key, or a function of the element; None for a hash of the
        record.
      split: the split of all records, or a function of the element.
      fractions: divides by the hash of the key instead; None not to.
      seed: of that hash.
      class_names: names of the classes 0, 1, 2, ...
      features: every feature that a record may have as in the manifest; empty not to look into
        serialized records; None to learn them from the records.
    """

    key: str | Callable[[Any], Any] | None = None
    split: str | Callable[[Any], Any] = DEFAULT_SPLIT
    fractions: SplitFractions | None = None
    seed: int = 0
    class_names: Sequence[str] = ()
    features: Mapping[str, Any] | None = None

    def read(self, element: Any) -> tuple[SampleRef, Features]:
        """A reference that carries a record, and its features; none if it is not looked into. Raises SampleError."""
        data, features = self.encoded(element)
        digest = hashlib.blake2b(data, digest_size=16).digest()
        if self.key is None:
            key = digest.hex()
        elif callable(self.key):
            key = checked_key(self.key(element), self.key)
        else:
            value = features.get(self.key)
            single = value.values[0] if value and len(value.values) == 1 else None
            key = checked_key(single, self.key)
        if self.fractions:
            split = self.fractions.split_of(KeyHasher(self.seed).hash(key).split_hash)
        else:
            split = split_of(element, self.split, features)
        ids = features.get(CLASS_ID)
        labels: Any = named_classes(list(ids.values) if ids else None, self.class_names), data
        version = int.from_bytes(digest[:8], "big") >> 1  # below 2**63
        return SampleRef(key, "", len(data), split, labels, version=version), features

    def encoded(self, element: Any) -> tuple[bytes, Features]:
        """The bytes and the features of a record. Raises SampleError."""
        if hasattr(element, "SerializeToString"):
            element = element.SerializeToString(deterministic=True)
        if isinstance(element, (bytes, bytearray, memoryview)):
            data = bytes(element)
            features = _features_of(data) if self.features != {} else {}
            if self.features and self._checked(features) != features:
                raise SampleError(
                    "a serialized record contains int64 where `features` declare float"
                )
            return data, features
        if hasattr(element, "_asdict"):  # a NamedTuple or a beam.Row
            element = element._asdict()
        if not isinstance(element, Mapping):
            raise SampleError(
                f"{excerpt(element)} is not a record, expected a dict, a row, a tf.train.Example or bytes"
            )
        features = dict(feature_values(element))
        if self.features is not None:
            features = self._checked(features)
        written = {key: (value.kind, value.values) for key, value in features.items() if value.kind}
        return wire.encode_example(written), features

    def _checked(self, features: Features) -> dict[str, FeatureValue]:
        """The values as the features that were given; integers become floats where those are floats."""
        assert self.features is not None
        unknown = sorted(features.keys() - self.features.keys())
        if unknown:
            raise SampleError(f"{unknown[0]!r} is none of the features that were given")
        checked = {}
        for key, entry in self.features.items():
            value = features.get(key)
            if value is None:
                if not entry["optional"]:
                    raise SampleError(f"feature {key!r} is missing, which is not optional")
                continue
            kind = entry["kind"]
            if value.kind == "int64" and kind == "float":
                value = value._replace(kind=kind, values=tuple(map(float, value.values)))
            if value.kind not in ("", kind):
                raise SampleError(f"feature {key!r} is {value.kind}, expected {kind}")
            shape = entry["shape"]
            if None not in shape and len(value.values) != math.prod(shape):
                raise SampleError(
                    f"feature {key!r} has {len(value.values)} values, expected {math.prod(shape)}"
                )
            checked[key] = value._replace(kind=kind)
        return checked


def _features_of(data: bytes) -> Features:
    try:
        example = example_view.ExampleView(data, "the record")
        return {
            key: FeatureValue(kind, values, () if len(values) == 1 else (len(values),))
            for key, (kind, values) in example.items()
        }
    except DamagedRecordError as error:
        raise SampleError(f"{error}; features={{}} writes any bytes as they are") from error


@contextlib.contextmanager
def sample_spool(folder: str) -> Iterator[Callable[[str, str, tuple[str, ...], bytes], None]]:
    """Takes serialized examples one by one: the key, the split, the classes and the bytes of each.

    Memory contains none of them: a file has the examples, one after another, and another one, whose path
    ends in `.index`, their pickled references.

    Args:
      folder: for the files; made if missing.
    """
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "samples")
    with open(path, "xb") as records, open(f"{path}.index", "xb") as index:

        def add(key: str, split: str, classes: tuple[str, ...], example: bytes) -> None:
            place = (key, path, len(example), split, (classes,), records.tell())
            pickle.dump(place, index, pickle.HIGHEST_PROTOCOL)
            records.write(example)

        yield add


@dataclass(frozen=True)
class SpoolReader:
    """Reads the references of a `sample_spool`."""

    def read(self, uri: str, unpack_to: str) -> Iterator[SampleRef | DeadLetter]:
        """Yields a reference to each sample, given the path of the index."""
        with open(uri, "rb") as index, contextlib.suppress(EOFError):
            while True:
                yield SampleRef(*pickle.load(index))
