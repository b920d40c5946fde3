"""Python values as features, for data that no layout knows.

| value | list |
|---|---|
| bytes, bytearray, memoryview | bytes |
| str | bytes, in UTF-8 |
| bool, int, numpy integers | int64 |
| float, numpy floats | float32 |
| lists and tuples of one of these | the same, several values |
| numpy arrays of integers or booleans | int64, flat, in C order |
| numpy arrays of floats | float32, flat, in C order |
| numpy arrays of uint8 | bytes: one value, the array's own, as `tf.io.decode_raw` reads it |
| numpy arrays of strings or bytes | bytes, flat |
| None | no feature |

NumPy is not imported here: its values are known by what they can do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from beam_pipeline.core import errors, text, typed_json
from beam_pipeline.core.records.wire import FeatureList, encode_example

_EXPECTED = "expected bytes, str, bool, int, float, a NumPy array or a list of these, or None for no feature"
_ARRAY_KINDS = {"b": "int64", "i": "int64", "u": "int64", "f": "float", "S": "bytes", "U": "bytes"}


class FeatureValue(NamedTuple):
    """One feature of one sample.

    Attributes:
      kind: "bytes", "float" or "int64"; empty for a list without values, which is of any kind.
      values: what the list contains.
      shape: () for one value, else the lengths of its dimensions.
    """

    kind: str
    values: FeatureList
    shape: tuple[int, ...]


def feature_values(sample: Mapping[str, Any]) -> Iterator[tuple[str, FeatureValue]]:
    """Yields (key, feature) of a sample's values, without those that are None.

    Raises:
      SampleError: a key or a value is not a feature; names it.
    """
    for key, value in sample.items():
        if not isinstance(key, str) or not key or not text.is_utf8(key):
            raise errors.SampleError(
                f"{text.excerpt(key)} cannot name a feature; expected a text of UTF-8 that is not empty"
            )
        try:
            feature = feature_value(value)
        except ValueError as error:
            raise errors.SampleError(f"feature {key!r}: {error}") from error
        if feature is not None:
            yield key, feature


def feature_value(value: Any) -> FeatureValue | None:
    """A Python value as a feature; None for None.

    Raises:
      ValueError: it is of no kind that a feature can contain; the message tells which it is.
    """
    if value is None:
        return None
    if hasattr(value, "dtype") and hasattr(value, "tobytes"):
        return _array_value(value)
    if isinstance(value, (list, tuple)):
        return _list_value(value)
    kind, item = _item(value)
    return FeatureValue(kind, (item,), ())


def _item(value: Any) -> tuple[str, Any]:
    """(kind, value) of a single Python value."""
    if isinstance(value, str):
        return "bytes", value.encode()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "bytes", bytes(value)
    if isinstance(value, int):  # booleans too
        if value not in typed_json.INT64:
            raise ValueError(f"{value} does not fit an int64")
        return "int64", int(value)
    if isinstance(value, float):
        if not typed_json.fits_float32(value):
            raise ValueError(f"{value} does not fit a float32")
        return "float", float(value)
    module, name = type(value).__module__, type(value).__qualname__
    name = name if module == "builtins" else f"{module}.{name}"
    raise ValueError(f"a {name} is not a feature; {_EXPECTED}")


def _is_scalar(value: Any) -> bool:
    """True for a scalar of NumPy or PyTorch, except for dates, of which NumPy makes numbers."""
    dtype = getattr(value, "dtype", None)
    is_date = getattr(dtype, "kind", "") in ("M", "m")
    return dtype is not None and not is_date and not len(getattr(value, "shape", ()))


def _list_value(values: Sequence[Any]) -> FeatureValue:
    pairs = [_item(value.tolist() if _is_scalar(value) else value) for value in values]
    kinds, items = {kind for kind, _ in pairs}, tuple(item for _, item in pairs)
    if kinds == {"int64", "float"}:
        kinds, items = {"float"}, tuple(map(float, items))
    if len(kinds) > 1:
        raise ValueError(f"a list of {' and '.join(sorted(kinds))} values; expected one kind")
    return FeatureValue(next(iter(kinds), ""), items, (len(items),))


def _array_value(array: Any) -> FeatureValue:
    """A NumPy array, or one of its scalars, which has the shape ()."""
    kind = _ARRAY_KINDS.get(array.dtype.kind, "")
    if not kind and array.dtype.kind != "O":  # NumPy makes numbers of some dates
        raise ValueError(f"an array of {array.dtype.name} is not a feature; {_EXPECTED}")
    if array.dtype.name == "uint8" and array.shape:
        return FeatureValue("bytes", (array.tobytes(),), ())
    listed = _list_value(array.ravel().tolist())
    return FeatureValue(listed.kind or kind, listed.values, tuple(map(int, array.shape)))


def _hint(kinds: Iterable[str]) -> str:
    return "; float(...) makes them one" if {*kinds} == {"int64", "float"} else ""


@dataclass
class _Seen:
    """A feature as seen so far.

    Attributes:
      shape: None once samples disagree.
      samples: how many have values of it.
      first: kind -> the lowest key of a sample that has values of this kind.
    """

    shape: tuple[int, ...] | None
    samples: int = 0
    first: dict[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """Its kind; empty while all samples have lists without values."""
        return min(self.first, default="")


@dataclass
class FeatureSchema:
    """The features of a data set, learned sample by sample; the features of its parts add up.

    Attributes:
      samples: how many have been encoded or counted.
    """

    samples: int = 0
    _seen: dict[str, _Seen] = field(default_factory=dict)

    def encode(self, sample: Mapping[str, Any]) -> bytes:
        """A sample as a serialized `tf.train.Example`.

        A list without values is left out of the example until another sample has shown its kind.

        Raises:
          SampleError: a value is not a feature, or of another kind than in the samples before; names
            the feature.
        """
        features: dict[str, FeatureValue] = {}
        for key, feature in feature_values(sample):
            known = self._seen[key].kind if key in self._seen else ""
            kind = feature.kind or known
            if known not in ("", kind):
                raise errors.SampleError(
                    f"feature {key!r}: {kind} here, {known} in an earlier sample{_hint((kind, known))}"
                )
            features[key] = feature._replace(kind=kind)
        self.count(features, "")
        return encode_example({key: value[:2] for key, value in features.items() if value.kind})

    def count(self, features: Mapping[str, FeatureValue], sample: str) -> None:
        """Counts the features of one sample, which `sample` names, whatever others have."""
        self.samples += 1
        for key, (kind, _, shape) in features.items():
            self._merge(key, _Seen(shape, bool(kind), {kind: sample} if kind else {}))

    def add(self, part: FeatureSchema) -> None:
        """Adds the samples that another schema has counted."""
        self.samples += part.samples
        for key, seen in part._seen.items():
            self._merge(key, seen)

    def _merge(self, key: str, new: _Seen) -> None:
        seen = self._seen.setdefault(key, _Seen(new.shape))
        if seen.shape != new.shape:
            seen.shape = None
        seen.samples += new.samples
        for kind, sample in new.first.items():
            seen.first[kind] = min(seen.first.get(kind, sample), sample)

    @property
    def conflict(self) -> str:
        """The first feature that is of one kind in some samples and of another in others; or empty."""
        for key, seen in sorted(self._seen.items()):
            if len(seen.first) > 1:
                kinds = (f"{kind} in sample {name!r}" for kind, name in sorted(seen.first.items()))
                return f"feature {key!r} is {' and '.join(kinds)}{_hint(seen.first)}"
        return ""

    @property
    def features(self) -> dict[str, dict[str, Any]]:
        """Key -> {"kind", "optional", "shape"} as in the manifest; arrays are flat."""
        described = {}
        for key, seen in sorted(self._seen.items()):
            if seen.kind:
                length = None if seen.shape is None else math.prod(seen.shape)
                shape = [] if seen.shape == () else [length]
                optional = seen.samples < self.samples
                described[key] = {"kind": seen.kind, "optional": optional, "shape": shape}
        return described
