"""Reads examples: those that are asked for, and figures of them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from beam_pipeline.core.errors import DamagedRecordError
from beam_pipeline.core.inspection.statistics import Figures
from beam_pipeline.core.inspection.where import Condition
from beam_pipeline.core.text import counted
from beam_pipeline.inspection.lookup import FoundExample
from beam_pipeline.inspection.sources import RecordFile, Source
from beam_pipeline.terminal import complain

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
      conditions: all of them have to hold.
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

    def has(self, source: Source, found: FoundExample) -> bool:
        """Tells whether an example is asked for."""
        if self.class_name and not source.naming.has_class(found.features, self.class_name):
            return False
        return all(condition.holds(found.features) for condition in self.conditions)


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
      result: changed as the scan goes on.
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
                found = FoundExample(file, at, size, features)
                result.read += 1
                if len(result.features) < _MOST_FEATURES:
                    result.features.update(features)
                if selection.has(source, found):
                    classes = source.naming.classes_of(features)
                    result.figures.add(file.split, size, features, classes)
                    if share > 0:
                        share, left = share - 1, left - 1
                        yield found
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
