"""Which examples are asked for: by a key, a class, or conditions on their values; and their figures.

The conditions of `--where`, such as `image/width<200 and image/format=png`, are

    CONDITION [and CONDITION ...]
    CONDITION: FEATURE OPERATOR VALUE
    OPERATOR:  =  ==  !=  <  <=  >  >=

A feature or value that contains spaces, quotes or operators is in quotes: `'label/colour' = "light
blue"`. Nothing is evaluated but these comparisons.

A hash of the key decides the shard of a sample, so there is one shard per split to look at, and the
shard's receipt lists the keys of its records in their order. So one record is read:

    key -> hash -> shard 3 of 16 of each split -> its receipt -> record 117
"""

from __future__ import annotations

import contextlib
import math
import operator
import shlex
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

from beam_pipeline import summary, terminal
from beam_pipeline.core.dataset import changes
from beam_pipeline.core.dataset.splits import IMAGE
from beam_pipeline.core.errors import ConversionError, DamagedRecordError, UsageError
from beam_pipeline.core.records import example_view, sharding
from beam_pipeline.core.references import ROW_MARK, row_key
from beam_pipeline.core.text import counted, excerpt, is_utf8
from beam_pipeline.inspection.sources import RecordFile, Source, text_of
from beam_pipeline.work import output_folder, receipts

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "=": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_MOST_CHARACTERS = 10_000
_BY_HASH = "references"

SHOWN = 5
"""Examples that are shown where nothing asks for another number."""

EXAMPLES_OF_A_SAMPLE = 10_000
"""Examples that are read where nothing asks for more."""

MOST_FEATURES = 1000
MOST_CLASSES = 10_000
MOST_TEXTS = 1000
"""As many features, classes, and different texts of a feature are kept."""

_LONGEST_TEXT = 200  # bytes; longer ones are counted by their length
_MOST_NAMES = 10_000  # of features
_SAMPLED_FILES = 64
_LINE_INTERVAL = 10.0  # seconds between lines of progress


@dataclass(frozen=True)
class Condition:
    """A comparison of a feature's values with one value.

    Attributes:
      feature: the key of the feature.
      operator: as written.
      value: as written, without quotes.
    """

    feature: str
    operator: str
    value: str

    def holds(self, features: example_view.Features) -> bool:
        """Tells whether one of the feature's values compares so; for `!=`, whether all of them do.

        An example without the feature, or without values of it, matches no condition.

        Raises:
          UsageError: the feature contains numbers and the value is not a number.
        """
        feature = features.get(self.feature)
        if feature is None or not len(feature.values):
            return False
        compare = _OPERATORS[self.operator]
        expected: str | float = self.value
        values: Any = feature.texts
        if feature.kind != "bytes":
            expected, values = self._number(feature.kind), feature.values
        compared = (compare(value, expected) for value in values)
        return all(compared) if self.operator == "!=" else any(compared)

    def _number(self, kind: str) -> float:
        """The value as a number: an int as long as it is one, since a float has 53 bits."""
        for number in (int, float):
            with contextlib.suppress(ValueError):
                return number(self.value)
        raise UsageError(
            f"--where: {self.feature} has {kind} values; {self.value!r} is not a number"
        )


def parse_conditions(text: str) -> tuple[Condition, ...]:
    """Reads a where-expression; all of its conditions must be met.

    Raises:
      UsageError: it is invalid; the message tells what was found and expected.
    """
    if len(text) > _MOST_CHARACTERS:
        raise UsageError(f"--where has {len(text)} characters; expected {_MOST_CHARACTERS} at most")
    lexer = shlex.shlex(text, posix=True, punctuation_chars="=!<>")
    lexer.whitespace_split, lexer.commenters, lexer.escape = True, "", ""
    try:
        tokens = list(lexer)
    except ValueError as error:
        raise UsageError(f"--where {excerpt(text)} cannot be read: {str(error).lower()}") from error
    parts = [tokens[start : start + 4] for start in range(0, len(tokens), 4)] or [[]]
    ends = [["and"]] * (len(parts) - 1) + [[]]
    for part, end in zip(parts, ends, strict=True):
        if len(part) < 3 or {*part} & {*_OPERATORS} != {part[1]} or part[3:] != end:
            raise UsageError(
                f"--where {excerpt(text)}: found {excerpt(' '.join(part))}, expected FEATURE OPERATOR VALUE, "
                "such as 'image/width<200 and image/format=png'"
            )
    return tuple(Condition(*part[:3]) for part in parts)


class FoundExample(NamedTuple):
    """An example and its place.

    Attributes:
      file: the file that contains it.
      number: of the record in the file, from 0.
      size: bytes of the record.
      features: its features.
    """

    file: RecordFile
    number: int
    size: int
    features: example_view.Features


# --- one sample, by its key -----------------------------------------------------------------------


def files_for(source: Source, key: str) -> Sequence[RecordFile]:
    """The files that may contain a sample: one per split where a hash decides, else all of them."""
    options = source.manifest.content["options"] if source.manifest else {}
    if not source.manifest or options.get("shuffle") != _BY_HASH or not is_utf8(key):
        return source.files
    hasher = sharding.KeyHasher(source.manifest.seed, by_image=options.get("group_by") == IMAGE)
    order = hasher.order(key)
    by_split = [[file for file in source.files if file.split == split] for split in source.splits]
    return [of_split[sharding.shard_of(order, len(of_split))] for of_split in by_split]


def find(source: Source, key: str) -> FoundExample | None:
    """The sample of a key, or None; the id in the key of a row may be as in its table.

    Raises:
      DamagedRecordError: a file that may contain it is damaged.
    """
    marks = [at for at, mark in enumerate(key) if mark == ROW_MARK]
    rows = [row_key(key[:at], key[at + 1 :]) for at in marks]
    keys = dict.fromkeys([key, *rows, key.replace(ROW_MARK, "%23")])
    places = [(each, file) for each in keys for file in files_for(source, each)]
    # A receipt may be gone or of another writer, so that only the records themselves prove that none has the key.
    listed = ((each, file, _listed(source, file, each)) for each, file in places)
    whole = ((each, file, None) for each, file in places)
    for each, file, wanted in chain(filter(itemgetter(2), listed), whole):
        for number, size, features in source.read(file, wanted):
            if each in (source.keys_of(features) or [each] * bool(wanted)):
                return FoundExample(file, number, size, features)
    return None


def _listed(source: Source, file: RecordFile, key: str) -> range:
    """The number of the record of a key, by the receipt of a file; none if that does not list it."""
    try:
        receipt = receipts.read_receipt(source.folder, file.name) if source.manifest else None
    except ConversionError:
        receipt = None  # damaged; the records tell
    keys = [ref.key for ref in changes.written_samples(receipt)] if receipt else []
    return range(keys.index(key), keys.index(key) + 1) if key in keys else range(0)


def reason_left_out(source: Source, key: str) -> str:
    """What the dead letter of a sample states, or empty."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        for letter in output_folder.read_dead_letters(source.folder) if source.manifest else ():
            if letter["key"] == key:
                return f"{letter['reason']}{summary.location(letter)}: {letter['message']}"
    return ""


# --- many examples, in bounded memory -------------------------------------------------------------


@dataclass(frozen=True)
class Selection:
    """The examples that are asked for.

    Attributes:
      class_name: name or id of a class; empty for any.
      conditions: all must be met.
      num: how many examples are shown or written.
      read_all: read every example, not only some of a large data set.
      writes: they are written: the first ones, as many as asked for; else some of each file.
    """

    class_name: str = ""
    conditions: Sequence[Condition] = ()
    num: int = SHOWN
    read_all: bool = False
    writes: bool = False

    @property
    def filters(self) -> bool:
        """Tells whether some examples are not asked for; then every example has to be read."""
        return bool(self.class_name or self.conditions)

    def has(self, source: Source, features: example_view.Features) -> bool:
        """Tells whether an example is asked for."""
        if self.class_name and not source.has_class(features, self.class_name):
            return False
        return all(condition.holds(features) for condition in self.conditions)


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
      texts: different texts, or None for other values and if they are too long or too many.
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
    def mean(self) -> float:
        """The mean of the numbers, or of the lengths in bytes."""
        return self.total / self.values if self.values else math.nan

    def add(self, feature: example_view.FeatureList) -> None:
        """Adds the values of one example."""
        count = len(feature.values)
        self.shortest = min(self.shortest, count) if self.kinds else count
        self.longest = max(self.longest, count)
        self.kinds[feature.kind] += 1
        numbers: Sequence[float] = feature.values
        if feature.kind == "bytes":
            numbers = [len(value) for value in feature.values]
            for value in feature.values:
                self._add_text(value)
        elif feature.kind == "float":
            numbers = [number for number in feature.values if math.isfinite(number)]
            self.not_finite += count - len(numbers)
        self.low = min(self.low, min(numbers, default=self.low))
        self.high = max(self.high, max(numbers, default=self.high))
        self.total += sum(numbers)
        self.values += len(numbers)

    def _add_text(self, value: bytes) -> None:
        if self.texts is None:
            return
        if len(value) > _LONGEST_TEXT or (value not in self.texts and text_of(value) is None):
            self.texts, self.text = None, ""
        elif len(self.texts) <= MOST_TEXTS:
            self.texts.add(value)
            self.text = self.text or value.decode()


@dataclass
class Scan:
    """What reading examples has shown so far: first, the figures of those that were asked for.

    Attributes:
      examples: split -> their number.
      features: key -> its figures.
      classes: name or id -> split -> examples that have the class.
      left_out: features and classes beyond those that are kept.
      read: examples that were read.
      names: of the features of all of them, some where there are many.
      files: files that were read, wholly or in part.
      whole: every example was read.
      damaged: files that could not be read to their end.
    """

    examples: Counter[str] = field(default_factory=Counter)
    features: dict[str, FeatureFigures] = field(default_factory=lambda: defaultdict(FeatureFigures))
    classes: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    left_out: Counter[str] = field(default_factory=Counter)
    read: int = 0
    names: set[str] = field(default_factory=set)
    files: int = 0
    whole: bool = True
    damaged: int = 0

    def add(self, split: str, features: example_view.Features, classes: Sequence[str]) -> None:
        """Adds an example that was asked for."""
        self.examples[split] += 1
        for key, values in features.items():
            if key not in self.features and len(self.features) >= MOST_FEATURES:
                self.left_out["features"] += 1
            else:
                self.features[key].add(values)
        for name in classes:
            if name not in self.classes and len(self.classes) >= MOST_CLASSES:
                self.left_out["classes"] += 1
            else:
                self.classes[name][split] += 1


def scan(source: Source, selection: Selection, result: Scan) -> Iterator[FoundExample]:
    """Reads examples, adds those that are asked for to the figures, and yields those to show.

    Of many files, some are read in part, unless the selection filters or asks for all.

    Args:
      source: the files.
      selection: the examples that are asked for.
      result: changed as the scan continues.
    """
    reads_all, writes = selection.filters or selection.read_all, selection.writes
    step = 1 if reads_all or writes else max(1, -(-len(source.files) // _SAMPLED_FILES))
    chosen = source.files[::step]
    quota = -(-EXAMPLES_OF_A_SAMPLE // max(1, len(chosen)))
    left, next_line = selection.num, time.monotonic() + _LINE_INTERVAL
    for number, file in enumerate(chosen):
        if writes and left == 0 and not reads_all:
            result.whole = False
            break
        spread = not (selection.filters or writes)
        share = -(-left // (len(chosen) - number)) if spread else left
        result.files += 1
        try:
            for at, size, features in source.read(file):
                if not reads_all and (left == 0 if writes else at >= quota):
                    result.whole = False
                    break
                result.read += 1
                if len(result.names) < _MOST_NAMES:
                    result.names.update(features)
                if selection.has(source, features):
                    result.add(file.split, features, source.classes_of(features))
                    if share > 0:
                        share, left = share - 1, left - 1
                        yield FoundExample(file, at, size, features)
                if time.monotonic() > next_line:
                    next_line = time.monotonic() + _LINE_INTERVAL
                    terminal.complain(
                        f"{counted(result.read, 'example')} read, {number} of {len(chosen)} files"
                    )
        except DamagedRecordError as error:
            result.damaged += 1
            terminal.complain(f"beam-tfrecord: error: {error}")
    result.whole = result.whole and step == 1
