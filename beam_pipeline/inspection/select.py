"""Which examples are asked for: by a key, a class, or conditions on their values.

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
import operator
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from beam_pipeline.core.dataset.changes import written_samples
from beam_pipeline.core.dataset.splits import IMAGE
from beam_pipeline.core.errors import ConversionError, DamagedRecordError, UsageError
from beam_pipeline.core.records.example_view import Features
from beam_pipeline.core.records.sharding import KeyHasher, shard_of
from beam_pipeline.core.text import counted, excerpt, is_utf8
from beam_pipeline.inspection.sources import RecordFile, Source, parsed
from beam_pipeline.inspection.statistics import Figures
from beam_pipeline.readers.shards import open_shard
from beam_pipeline.summary import location
from beam_pipeline.terminal import complain
from beam_pipeline.work.dead_letter_files import read_dead_letters
from beam_pipeline.work.receipts import read_receipt

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

    def holds(self, features: Features) -> bool:
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
            try:
                return number(self.value)
            except ValueError:
                continue
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


# --- one sample, by its key -----------------------------------------------------------------------


_BY_HASH = "references"


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
    features: Features


def files_for(source: Source, key: str) -> list[RecordFile]:
    """The files that may contain a sample: one per split where a hash decides, else all of them."""
    manifest = source.manifest
    by_hash = manifest and manifest.content["options"].get("shuffle") == _BY_HASH
    if not manifest or not by_hash or not is_utf8(key):
        return list(source.files)
    by_image = manifest.content["options"].get("group_by") == IMAGE
    order = KeyHasher(manifest.seed, by_image=by_image).order(key)
    by_split = {
        split: [file for file in source.files if file.split == split] for split in source.splits
    }
    return [of_split[shard_of(order, len(of_split))] for of_split in by_split.values()]


def find(source: Source, key: str) -> FoundExample | None:
    """The sample of a key, or None.

    Raises:
      DamagedRecordError: a file that may contain it is damaged.
    """
    places = files_for(source, key)
    for file in places if source.manifest else ():
        if example := _from_receipt(source, file, key):
            return example
    # A receipt may be gone or of another writer, so that only the records themselves prove that none has the key.
    return next(_scan(source, places, key), None)


def _from_receipt(source: Source, file: RecordFile, key: str) -> FoundExample | None:
    """The sample, if the receipt of a file lists it and the record is the sample's."""
    name = file.uri.rpartition("/")[2]
    try:
        receipt = read_receipt(source.folder, name)
    except ConversionError:
        return None  # damaged; the records tell
    keys = [ref.key for ref in written_samples(receipt)] if receipt else []
    if key not in keys or not source.manifest:
        return None
    number = keys.index(key)
    with open_shard(file.uri) as stream:
        records = source.manifest.record_format.records_in(
            stream, file.uri, range(number, number + 1)
        )
        for record in islice(records, 1):
            features = parsed(record, file.uri, number)
            if key in (source.naming.keys_of(features) or [key]):
                return FoundExample(file, number, len(record), features)
    return None


def _scan(source: Source, places: Sequence[RecordFile], key: str) -> Iterator[FoundExample]:
    for file in places:
        for number, (size, features) in enumerate(source.read(file)):
            if key in source.naming.keys_of(features):
                yield FoundExample(file, number, size, features)


def reason_left_out(source: Source, key: str) -> str:
    """What the dead letter of a sample states, or empty."""
    if not source.manifest:
        return ""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        for letter in read_dead_letters(source.folder, source.manifest):
            if letter["key"] == key:
                return f"{letter['reason']}{location(letter)}: {letter['message']}"
    return ""


# --- many examples --------------------------------------------------------------------------------


SHOWN = 5
"""Examples that are shown where nothing asks for another number."""

EXAMPLES_OF_A_SAMPLE = 10_000
"""Examples that are read where nothing asks for more."""

_SAMPLED_FILES = 64
_MOST_FEATURES = 10_000  # whose keys are kept
_LINE_INTERVAL = 10.0  # seconds between lines of progress


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
    def reads_all(self) -> bool:
        """Tells whether every example has to be read."""
        return self.filters or self.read_all

    @property
    def filters(self) -> bool:
        """Tells whether some examples are not asked for."""
        return bool(self.class_name or self.conditions)

    def has(self, source: Source, example: FoundExample) -> bool:
        """Tells whether an example is asked for."""
        if self.class_name and not source.naming.has_class(example.features, self.class_name):
            return False
        return all(condition.holds(example.features) for condition in self.conditions)


@dataclass
class Scan:
    """What reading examples has shown so far.

    Attributes:
      figures: of the examples that were asked for.
      read: examples that were read.
      features: the keys of all of them, some where there are many.
      files: files that were read, wholly or in part.
      whole: every example was read.
      damaged: files that could not be read to their end.
    """

    figures: Figures = field(default_factory=Figures)
    read: int = 0
    features: set[str] = field(default_factory=set)
    files: int = 0
    whole: bool = True
    damaged: int = 0


def scan(source: Source, selection: Selection, result: Scan) -> Iterator[FoundExample]:
    """Reads examples, adds those that are asked for to the figures, and yields those to show.

    Of many files, some are read in part, unless the selection filters or asks for all.

    Args:
      source: the files.
      selection: the examples that are asked for.
      result: changed as the scan continues.
    """
    chosen, quota = _plan(source, selection)
    left, next_line = selection.num, time.monotonic() + _LINE_INTERVAL
    for number, file in enumerate(chosen):
        if selection.writes and left == 0 and not selection.reads_all:
            result.whole = False
            break
        spread = not (selection.filters or selection.writes)
        share = -(-left // (len(chosen) - number)) if spread else left
        result.files += 1
        try:
            for at, (size, features) in enumerate(source.read(file)):
                enough = left == 0 if selection.writes else quota is not None and at >= quota
                if enough and not selection.reads_all:
                    result.whole = False
                    break
                example = FoundExample(file, at, size, features)
                result.read += 1
                if len(result.features) < _MOST_FEATURES:
                    result.features.update(features)
                if selection.has(source, example):
                    classes = source.naming.classes_of(features)
                    result.figures.add(file.split, size, features, classes)
                    if share > 0:
                        share, left = share - 1, left - 1
                        yield example
                if time.monotonic() > next_line:
                    next_line = time.monotonic() + _LINE_INTERVAL
                    complain(
                        f"{counted(result.read, 'example')} read, {number} of {len(chosen)} files"
                    )
        except DamagedRecordError as error:
            result.damaged += 1
            complain(f"beam-tfrecord: error: {error}")
    result.whole = result.whole and len(chosen) == len(source.files)


def _plan(source: Source, selection: Selection) -> tuple[Sequence[RecordFile], int | None]:
    """The files to read, and the examples to read of each; None for all of them."""
    if selection.reads_all or selection.writes:
        return source.files, None
    step = max(1, -(-len(source.files) // _SAMPLED_FILES))
    chosen = source.files[::step]
    return chosen, -(-EXAMPLES_OF_A_SAMPLE // max(1, len(chosen)))
