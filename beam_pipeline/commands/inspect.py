"""`beam-tfrecord inspect`: figures and examples of any TFRecords; `diff`: the samples that differ between data sets."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from beam_pipeline.commands import PROGRAM, Call, Command
from beam_pipeline.core.dataset import changes
from beam_pipeline.core.dataset.manifest import Manifest
from beam_pipeline.core.dataset.receipts import receipt_name
from beam_pipeline.core.errors import ConversionError, UsageError
from beam_pipeline.core.references import SampleRef
from beam_pipeline.core.text import counted, enumerated
from beam_pipeline.dataset import read_manifest
from beam_pipeline.inspection import select, sources
from beam_pipeline.inspection.show import (
    Screen,
    class_rows,
    exporting,
    feature_rows,
    split_rows,
    title,
)
from beam_pipeline.storage import files
from beam_pipeline.terminal import complain, say
from beam_pipeline.work.receipts import read_receipt

_SHOWN_CLASSES = 20
_FEW, _MANY = 5, 20  # names in a message
_MOST_KEPT_BYTES = 256 << 20  # 256 MiB of examples to show
_RECEIPTS_AT_ONCE = 16  # few, because one may list a million samples


def _show_key(source: sources.Source, key: str, to: str) -> bool:
    """Shows the sample of a key, or reports that it is missing."""
    example = select.find(source, key)
    if example is None:
        places = [file.name for file in select.files_for(source, key)]
        reason = select.reason_left_out(source, key)
        say(
            f"{source.name}: no sample has the key {key!r}; looked in {enumerated(places, 3)}",
            *([f"its dead letter: {reason}"] if reason else ()),
        )
        return False
    Screen().example(source, example)
    if to:
        with exporting(source, to) as write:
            write(example)
        say(f"Wrote {counted(1, 'example')} to {to}")
    return True


def show(source: sources.Source, selection: select.Selection, to: str = "") -> bool:
    """Prints figures and examples.

    Args:
      source: the files.
      selection: the examples that are asked for.
      to: a folder to write the examples to instead of showing them; empty for none.

    Returns: True if examples were found, and no file is damaged.
    """
    _check_class(source, selection.class_name)
    declared = set(source.manifest.features if source.manifest else ())
    _check_features(declared, selection)  # before gigabytes are read
    result, examples, written, size, unshown = select.Scan(), [], 0, 0, 0
    with contextlib.ExitStack() as stack:
        write = stack.enter_context(exporting(source, to)) if to else None
        try:
            for example in select.scan(source, selection, result):
                size += example.size
                if write:
                    write(example)
                    written += 1
                elif size <= _MOST_KEPT_BYTES:
                    examples.append(example)
                else:
                    unshown += 1
        except KeyboardInterrupt:
            result.whole = False
            complain("", "Stopped; these are the figures so far.")
    if result.damaged and not result.read:
        return False
    _check_features(declared | result.names, selection)
    _print(source, selection, result, examples)
    if unshown:
        say(
            f"Note: {counted(unshown, 'example')} too large to show with these; --to writes all", ""
        )
    if to:
        say(f"Wrote {counted(written, 'example')} to {to}")
    return not result.damaged and bool(result.examples or not selection.filters)


def show_some(folder: str, num: int) -> None:
    """Prints some examples of a data set, without figures.

    Raises:
      ConversionError: it cannot be read.
    """
    source, screen = sources.open_source([folder]), Screen()
    for example in select.scan(source, select.Selection(num=num), select.Scan()):
        screen.example(source, example)


def _check_class(source: sources.Source, name: str) -> None:
    """Raises UsageError if a data set with a manifest lacks a class; names some."""
    classes = source.manifest.classes if source.manifest else ()
    names = [entry.name for entry in classes]
    if name and names and name not in (*names, *(str(entry.id) for entry in classes)):
        raise UsageError(
            f"--class: {source.name} has no class {name!r}; it has {enumerated(names, _FEW)}"
        )


def _check_features(known: Set[str], selection: select.Selection) -> None:
    """Raises UsageError if a feature of the conditions does not occur, and any is known; names all."""
    for condition in selection.conditions:
        if known and condition.feature not in known:
            raise UsageError(
                f"--where: no example has the feature {condition.feature!r}; they have "
                f"{enumerated(sorted(known), _MANY)}"
            )


def _print(
    source: sources.Source,
    selection: select.Selection,
    result: select.Scan,
    examples: Sequence[select.FoundExample],
) -> None:
    screen = Screen()
    say(title(source), "")
    screen.table(split_rows(source, result, filtered=selection.filters))
    classes = class_rows(source, result, filtered=selection.filters)
    most = _SHOWN_CLASSES if screen.is_terminal else len(classes.rows)
    screen.table(classes, most)
    if len(classes.rows) > most:
        say(f"... and {len(classes.rows) - most} more classes, which a pipe shows", "")
    screen.table(feature_rows(result))
    for kind, count in result.left_out.items():
        say(f"Note: there are too many {kind} to list; {count} more were met", "")
    chosen = result.examples.total()
    if selection.filters:
        say(f"{chosen} of {counted(result.read, 'example')} found", "")
    elif not result.whole:
        say(
            f"Features are those of {counted(result.read, 'example')} from "
            f"{counted(result.files, 'file')} of {len(source.files)}; --all reads every example",
            "",
        )
    for example in examples:
        screen.example(source, example)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    text = partial(add, default="")
    places = "output folder of a conversion, or folders, files and globs of any TFRecords"
    add("paths", metavar="DIR|FILE", nargs="+", help=places)
    text("--split", metavar="NAME", help="examples of this split only")
    by_class = "examples of this class only, by its name or id"
    text("--class", dest="class_name", metavar="NAME", help=by_class)
    text("--key", metavar="KEY", help="the one sample with this key")
    text(
        "--where",
        metavar="CONDITIONS",
        help="examples with such values only: FEATURE, one of = != < <= > >=, and a value; "
        "several joined by `and`",
    )
    number = "examples to show or write (default: %(default)s)"
    add("--num", metavar="N", type=int, default=select.SHOWN, help=number)
    text("--to", metavar="DIR", help="write the examples to this new folder")
    add(
        "--all",
        dest="read_all",
        action="store_true",
        help=f"read every example for the figures (default: {select.EXAMPLES_OF_A_SAMPLE} of a larger data "
        "set; all with --class or --where)",
    )


def _run(call: Call) -> bool:
    """Shows figures and examples, or the sample of a key."""
    given = call.arguments
    if given.key and (given.class_name or given.where):
        raise UsageError("--key names one sample; leave out --class and --where")
    if given.num < 0:
        raise UsageError(f"--num is {given.num}, expected 0 or more")
    selection = select.Selection(
        class_name=given.class_name,
        conditions=select.parse_conditions(given.where) if given.where else (),
        num=given.num,
        read_all=given.read_all,
        writes=bool(given.to),
    )
    source = sources.open_source(given.paths)
    if given.split:
        source = source.of_split(given.split)
    if given.key:
        return _show_key(source, given.key, given.to)
    return show(source, selection, given.to)


INSPECT = Command(
    "Shows figures and examples of a data set: its splits, classes and features, and some "
    "examples with their images. Reads any TFRecords of tf.train.Example, compressed or not, "
    "here or in a bucket; data sets of this program need no scan to count or to find a key.\n\n"
    "Exits with code 1 if no example is found or a file is damaged.",
    _run,
    _add_arguments,
    usage="DIR|FILE... [OPTION...]",
    examples=f"""\
A data set, or files of any other program:
  {PROGRAM} inspect tfrecords/
  {PROGRAM} inspect 'gs://my-sets/pets-train.tfrecord-*'

Small photographs, written to a folder as images and JSON Lines:
  {PROGRAM} inspect tfrecords/ --num 100 --to small/ \\
      --where 'image/width<200 and image/format=png'

One sample by its key, as in dead_letters.jsonl and image/source_id:
  {PROGRAM} inspect tfrecords/ --key cat/1.jpg
""",
)


def _add_folders(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("old", metavar="OLD", help="output folder of a conversion")
    parser.add_argument("new", metavar="NEW", help="output folder of a later conversion")


def _diff(call: Call) -> bool:
    """Compares the samples of two data sets; no shard and no image is read."""
    old, new = (files.canonical(path) for path in (call.arguments.old, call.arguments.new))
    before, after = read_manifest(old), read_manifest(new)
    labels = changes.file_labels(after.content["options"])
    differing = changes.compare_samples(_samples(old, before), _samples(new, after), labels)
    then, now = ({k: m.content[k] for k in ("seed", "options")} for m in (before, after))
    options = changes.option_differences(then, now)
    say(
        *(f"{kind} {key}" for kind, keys in differing._asdict().items() for key in keys),
        f"{old} and {new}: {changes.summary_of(differing.counts)}",
        *(f"option {text.removeprefix('options.')}" for text in options),
    )
    return True


def _samples(folder: str, manifest: Manifest) -> Iterator[SampleRef]:
    """The samples of a data set. Raises ConversionError if a shard lacks a receipt."""
    names = [shard.path for shard in manifest.shards]
    with ThreadPoolExecutor(_RECEIPTS_AT_ONCE) as pool:
        for start in range(0, len(names), _RECEIPTS_AT_ONCE):
            batch = names[start : start + _RECEIPTS_AT_ONCE]
            receipts = pool.map(partial(read_receipt, folder), batch)
            for name, receipt in zip(batch, receipts, strict=True):
                if receipt is None:
                    raise ConversionError(
                        f"{files.join(folder, name)} has no receipt ({receipt_name(name)}), so it "
                        "cannot be told which samples it contains"
                    )
                yield from changes.written_samples(receipt)


DIFF = Command(
    "Lists the samples by which two data sets differ, a line each: added, removed, changed (the "
    "image or its split) or relabelled. Reads their manifests and receipts, no shard and no "
    "image. The last lines count them and name options that differ.",
    _diff,
    _add_folders,
    usage="OLD NEW",
    examples="  beam-tfrecord diff sets/2026-11-21 sets/2026-11-22\n",
)
