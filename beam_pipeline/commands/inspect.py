"""`beam-tfrecord inspect`: figures and examples of any TFRecords."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from beam_pipeline.commands.command import PROGRAM, Call
from beam_pipeline.inspection.export import exporting
from beam_pipeline.inspection.lookup import FoundExample, files_for, find, reason_left_out
from beam_pipeline.inspection.pictures import COLUMNS, Painter, painter_for
from beam_pipeline.inspection.report import (
    class_rows,
    feature_rows,
    split_rows,
    title,
)
from beam_pipeline.inspection.sources import RecordFile, Source, open_source
from beam_pipeline.terminal import complain, draw, say
from beam_pipeline.transforms.core.errors import DamagedRecordError, UsageError
from beam_pipeline.transforms.core.inspection.statistics import Figures
from beam_pipeline.transforms.core.inspection.table import fitted, table_lines
from beam_pipeline.transforms.core.inspection.values import value_text
from beam_pipeline.transforms.core.inspection.where import Condition, parse_conditions
from beam_pipeline.transforms.core.text import counted, enumerated, terminal_line

_SHOWN = 5
_SAMPLE = 10_000  # examples that are read where nothing asks for more
_SAMPLED_FILES = 64
_SHOWN_CLASSES = 20
_FEW = 5  # names in a message
_MOST_KEPT_BYTES = 256 << 20  # 256 MiB of examples to show
_LINE_INTERVAL = 10.0  # seconds between lines of progress
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"


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
    num: int = _SHOWN
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
                if len(result.features) < _SAMPLE:
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
            complain(f"{PROGRAM}: error: {error}")
    result.whole = result.whole and len(chosen) == len(source.files)


def _plan(source: Source, selection: Selection) -> tuple[Sequence[RecordFile], int | None]:
    """The files to read, and the examples to read of each; None for all of them."""
    if selection.reads_all or selection.writes:
        return source.files, None
    step = max(1, -(-len(source.files) // _SAMPLED_FILES))
    chosen = source.files[::step]
    return chosen, -(-_SAMPLE // max(1, len(chosen)))


class _Screen:
    """Prints tables and examples: with pictures and bold headers in a terminal, plain elsewhere."""

    def __init__(self) -> None:
        self.is_terminal = sys.stdout.isatty()
        self._width = shutil.get_terminal_size().columns if self.is_terminal else 0
        self._painter: Painter | None = None
        if self.is_terminal:
            self._painter = painter_for(os.environ, sys.stdout.encoding)

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]], right: str = "") -> None:
        """Prints a table and an empty line."""
        if not rows:
            return
        first, *others = table_lines(header, rows, self._width, right)
        draw(self._bold(first), *others, "")

    def example(self, source: Source, found: FoundExample) -> None:
        """Prints an example: its place, and its features beside its image."""
        key = next(iter(source.naming.keys_of(found.features)), "")
        name = found.file.uri.rpartition("/")[2]
        heading = terminal_line(f"{key + ', ' if key else ''}{name}, record {found.number}")
        rows = [(key, value_text(values)) for key, values in found.features.items()]
        width = self._width
        if self._painter:
            width = max(40, width - COLUMNS - 2)
        lines = table_lines(("", ""), rows, width)[1:] if rows else ["no features"]
        if self._painter:
            lines = self._painter.beside(found.features, lines)
        draw(self._bold(fitted(heading, self._width or len(heading))), *lines, "")

    def _bold(self, line: str) -> str:
        plain = not self.is_terminal or os.environ.get("NO_COLOR")
        return line if plain else f"{_BOLD}{line}{_PLAIN}"


def _show_key(source: Source, key: str, to: str) -> bool:
    """Shows the sample of a key, or says that there is none."""
    found = find(source, key)
    if found is None:
        places = [file.uri.rpartition("/")[2] for file in files_for(source, key)]
        reason = reason_left_out(source, key)
        say(
            f"{source.name}: no sample has the key {key!r}; looked in {enumerated(places, 3)}",
            *([f"its dead letter: {reason}"] if reason else ()),
        )
        return False
    _Screen().example(source, found)
    if to:
        with exporting(source, to) as write:
            write(found)
        say(f"Wrote {counted(1, 'example')} to {to}")
    return True


def show(source: Source, selection: Selection, to: str = "") -> bool:
    """Prints figures and examples.

    Args:
      source: the files.
      selection: the examples that are asked for.
      to: a folder to write the examples to instead of showing them; empty for none.

    Returns: True if examples were found, and no file is damaged.
    """
    _check_class(source, selection.class_name)
    result, kept, written, size = Scan(), [], 0, 0
    with contextlib.ExitStack() as stack:
        write = stack.enter_context(exporting(source, to)) if to else None
        try:
            for found in scan(source, selection, result):
                size += found.size
                if write:
                    write(found)
                    written += 1
                elif size <= _MOST_KEPT_BYTES:
                    kept.append(found)
        except KeyboardInterrupt:
            result.whole = False
            complain("", "Stopped; these are the figures so far.")
    if result.damaged and not result.read:
        return False
    _check_features(source, selection, result)
    _print(source, selection, result, kept)
    if to:
        say(f"Wrote {counted(written, 'example')} to {to}")
    return not result.damaged and bool(result.figures.examples or not selection.filters)


def show_some(folder: str, num: int) -> None:
    """Prints some examples of a data set, without figures.

    Raises:
      ConversionError: it cannot be read.
    """
    source, screen = open_source([folder]), _Screen()
    for found in scan(source, Selection(num=num), Scan()):
        screen.example(source, found)


def _check_class(source: Source, name: str) -> None:
    """Checks that a data set with a manifest has a class.

    Raises:
      UsageError: it has not; names the most similar one.
    """
    names = [entry["name"] for entry in source.manifest.get("classes", ())]
    ids = [str(entry["id"]) for entry in source.manifest.get("classes", ())]
    if name and names and name not in (*names, *ids):
        close = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"it has {enumerated(names, _FEW)}"
        raise UsageError(f"--class: {source.name} has no class {name!r}; {hint}")


def _check_features(source: Source, selection: Selection, result: Scan) -> None:
    """Checks that the features of the conditions occur at all.

    Raises:
      UsageError: one does not; names the most similar one.
    """
    known = result.features | set(source.manifest.get("features", ()))
    for condition in selection.conditions:
        if known and condition.feature not in known:
            close = difflib.get_close_matches(condition.feature, known, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise UsageError(f"--where: no example has the feature {condition.feature!r}{hint}")


def _print(
    source: Source, selection: Selection, result: Scan, kept: Sequence[FoundExample]
) -> None:
    screen = _Screen()
    figures = result.figures
    say(title(source), "")
    screen.table(*split_rows(source, figures, filtered=selection.filters, whole=result.whole))
    classes = class_rows(source, figures, filtered=selection.filters)
    most = _SHOWN_CLASSES if screen.is_terminal else len(classes.rows)
    screen.table(classes.header, classes.rows[:most], classes.right)
    if len(classes.rows) > most:
        say(f"... and {len(classes.rows) - most} more classes, which a pipe shows", "")
    screen.table(*feature_rows(figures))
    for what, count in figures.left_out.items():
        say(f"Note: there are too many {what} to list; {count} more were met", "")
    found = figures.examples.total()
    if selection.filters:
        say(f"{found} of {counted(result.read, 'example')} found", "")
    elif not result.whole:
        say(
            f"Features are those of {counted(result.read, 'example')} from "
            f"{counted(result.files, 'file')} of {len(source.files)}; --all reads every example",
            "",
        )
    for one in kept:
        screen.example(source, one)


def _number(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is less than 0")
    return number


class Inspect:
    """Shows what is in TFRecords."""

    description = (
        "Shows figures and examples of a data set: its splits, classes and features, and some "
        "examples with their images. Reads any TFRecords of tf.train.Example, compressed or not, "
        "here or in a bucket; data sets of this program need no scan to count or to find a key.\n\n"
        "Exits with code 1 if no example is found or a file is damaged."
    )
    usage = "DIR|FILE... [OPTION...]"
    examples = f"""\
A data set, or files of any other program:
  {PROGRAM} inspect tfrecords/
  {PROGRAM} inspect 'gs://my-sets/pets-train.tfrecord-*'

Small photographs, written to a folder as images and JSON Lines:
  {PROGRAM} inspect tfrecords/ --num 100 --to small/ \\
      --where 'image/width<200 and image/format=png'

One sample by its key, as in dead_letters.jsonl and image/source_id:
  {PROGRAM} inspect tfrecords/ --key cat/1.jpg
"""
    takes_beam_options = False

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Adds the files and what to show of them."""
        add = parser.add_argument
        add(
            "paths",
            metavar="DIR|FILE",
            nargs="+",
            help="output folder of a conversion, or folders, files and globs of any TFRecords",
        )
        add("--split", metavar="NAME", default="", help="examples of this split only")
        add(
            "--class",
            dest="class_name",
            metavar="NAME",
            default="",
            help="examples of this class only, by its name or id",
        )
        add("--key", metavar="KEY", default="", help="the one sample with this key")
        add(
            "--where",
            metavar="CONDITIONS",
            default="",
            help="examples with such values only: FEATURE, one of = != < <= > >=, and a value; "
            "several joined by `and`",
        )
        add(
            "--num",
            metavar="N",
            type=_number,
            default=_SHOWN,
            help="examples to show or write (default: %(default)s)",
        )
        add("--to", metavar="DIR", default="", help="write the examples to this new folder")
        add(
            "--all",
            dest="read_all",
            action="store_true",
            help=f"read every example for the figures (default: {_SAMPLE} of a larger data set; all "
            "with --class or --where)",
        )

    def run(self, call: Call) -> bool:
        """Shows figures and examples, or the sample of a key."""
        given = call.arguments
        if given.key and (given.class_name or given.where):
            raise UsageError("--key names one sample; leave out --class and --where")
        selection = Selection(
            class_name=given.class_name,
            conditions=parse_conditions(given.where) if given.where else (),
            num=given.num,
            read_all=given.read_all,
            writes=bool(given.to),
        )
        source = open_source(given.paths)
        if given.split:
            source = source.of_split(given.split)
        if given.key:
            return _show_key(source, given.key, given.to)
        return show(source, selection, given.to)


COMMAND = Inspect()
