"""Figures of the examples of a data set, gathered one example at a time in bounded memory."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from beam_pipeline.core.records.example_view import FeatureList, Features
from beam_pipeline.core.text import is_utf8

MOST_FEATURES = 1000
MOST_CLASSES = 10_000
MOST_TEXTS = 1000
"""As many features, classes, and different texts of a feature are kept."""
_LONGEST_TEXT = 200  # bytes; longer ones are counted by their length

CLASS_TEXTS = (
    "image/class/text",
    "image/object/class/text",
    "label/text",
    "label_text",
    "class_name",
    "class/text",
)
CLASS_IDS = (
    "image/class/label",
    "image/object/class/label",
    "label",
    "class",
    "labels",
    "image/label",
    "class/label",
)
"""Features that contain classes, ours and other writers', the usual ones first."""

KEYS = (
    "image/source_id",
    "image/filename",
    "image/id",
    "source_id",
    "filename",
    "file_name",
    "image/file_name",
    "id",
    "key",
    "__key__",
    "tfds_id",
)
"""Features that name a sample."""


@dataclass
class FeatureFigures:
    """The figures of one feature.

    Attributes:
      kinds: kind of list -> examples.
      shortest, longest: values of an example.
      low, high: the least and the greatest number, or length in bytes.
      total: the sum of them.
      values: how many they are, without those that are not finite.
      not_finite: numbers that are NaN or infinite.
      texts: different texts, or None if they are not texts, too long or too many.
      text: the first of them.
    """

    kinds: Counter[str] = field(default_factory=Counter)
    shortest: int = 0
    longest: int = 0
    low: float = math.inf
    high: float = -math.inf
    total: float = 0
    values: int = 0
    not_finite: int = 0
    texts: set[bytes] | None = field(default_factory=set)
    text: str = ""

    @property
    def present(self) -> int:
        """The number of examples that have it."""
        return self.kinds.total()

    @property
    def mean(self) -> float:
        """The mean of the numbers, or of the lengths in bytes."""
        return self.total / self.values if self.values else math.nan

    def add(self, feature: FeatureList) -> None:
        """Adds the values of one example."""
        count = len(feature.values)
        self.shortest = min(self.shortest, count) if self.kinds else count
        self.longest = max(self.longest, count)
        self.kinds[feature.kind] += 1
        if not count:
            return
        numbers: Sequence[float] = feature.values
        if feature.kind == "bytes":
            numbers = [len(value) for value in feature.values]
            self._add_texts(feature.values)
        elif feature.kind == "float":
            numbers = [number for number in feature.values if math.isfinite(number)]
            self.not_finite += count - len(numbers)
        self.low = min(self.low, min(numbers, default=self.low))
        self.high = max(self.high, max(numbers, default=self.high))
        self.total += sum(numbers)
        self.values += len(numbers)

    def _add_texts(self, values: Iterable[bytes]) -> None:
        for value in values:
            if self.texts is None:
                return
            if len(value) > _LONGEST_TEXT or (value not in self.texts and text_of(value) is None):
                self.texts, self.text = None, ""
            elif len(self.texts) <= MOST_TEXTS:
                self.texts.add(value)
                self.text = self.text or value.decode()


def text_of(value: bytes) -> str | None:
    """Bytes as text, or None."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return None
    return text if is_utf8(text) and "\0" not in text else None


@dataclass
class Figures:
    """The figures of the examples that were added.

    Attributes:
      examples: split -> their number.
      bytes: split -> their bytes, without framing.
      features: key -> its figures.
      classes: name or id -> split -> examples that have the class.
      left_out: features and classes beyond those that are kept.
    """

    examples: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)
    features: dict[str, FeatureFigures] = field(default_factory=dict)
    classes: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    left_out: Counter[str] = field(default_factory=Counter)

    def add(self, split: str, size: int, features: Features, classes: Iterable[str]) -> None:
        """Adds one example.

        Args:
          split: its split.
          size: its bytes.
          features: its features.
          classes: the names of its classes.
        """
        self.examples[split] += 1
        self.bytes[split] += size
        for key, values in features.items():
            figures = self.features.get(key)
            if figures is None:
                if len(self.features) >= MOST_FEATURES:
                    self.left_out["features"] += 1
                    continue
                figures = self.features[key] = FeatureFigures()
            figures.add(values)
        for name in classes:
            if name not in self.classes and len(self.classes) >= MOST_CLASSES:
                self.left_out["classes"] += 1
            else:
                self.classes[name][split] += 1


@dataclass(frozen=True)
class Naming:
    """The features that name samples and classes.

    Attributes:
      keys: those that may contain a sample's key, the usual one first.
      class_texts: those that may contain names of classes.
      class_ids: those that may contain ids of classes.
      names: id -> name of a class.
    """

    keys: Sequence[str] = KEYS
    class_texts: Sequence[str] = CLASS_TEXTS
    class_ids: Sequence[str] = CLASS_IDS
    names: Mapping[int, str] = field(default_factory=dict)

    def keys_of(self, features: Features) -> list[str]:
        """Every text that may identify a sample, its key first."""
        naming = [features[name] for name in self.keys if name in features]
        return [text for feature in naming if len(feature.values) == 1 for text in feature.texts]

    def classes_of(self, features: Features) -> list[str]:
        """The names of the classes of an example, or their ids without names, each once."""
        for key in self.class_texts:
            feature = features.get(key)
            if feature and feature.kind == "bytes":
                return list(dict.fromkeys(feature.texts))
        for key in self.class_ids:
            feature = features.get(key)
            if feature and feature.kind == "int64":
                return [self.names.get(i, str(i)) for i in dict.fromkeys(feature.values)]
            if feature and feature.kind == "bytes" and None not in map(text_of, feature.values):
                return list(dict.fromkeys(feature.texts))
        return []

    def has_class(self, features: Features, wanted: str) -> bool:
        """Tells whether an example has a class, given by its name or its id."""
        if wanted in self.classes_of(features):
            return True
        ids = (features[key] for key in self.class_ids if key in features)
        return any(wanted in feature.texts for feature in ids if feature.kind == "int64")
