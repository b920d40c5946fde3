"""`beam-tfrecord diff`: the samples that differ between two data sets, from their receipts."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from beam_pipeline.commands.command import Call, Command
from beam_pipeline.core.dataset.changes import (
    SampleChanges,
    compare_samples,
    file_labels,
    option_differences,
    written_samples,
)
from beam_pipeline.core.dataset.manifest import Manifest
from beam_pipeline.core.dataset.receipts import receipt_name
from beam_pipeline.core.errors import ConversionError
from beam_pipeline.core.references import SampleRef
from beam_pipeline.storage import files
from beam_pipeline.terminal import say
from beam_pipeline.work.output_folder import read_manifest
from beam_pipeline.work.receipts import read_receipt

_READS_AT_ONCE = 16


def compare(old: str, new: str) -> SampleChanges:
    """Compares the samples of two data sets; no shard and no image is read.

    Args:
      old: the output folder of a conversion.
      new: the output folder of a later one.

    Raises:
      ConversionError: a folder does not contain a complete data set, or a shard lacks a receipt.
    """
    before, after = read_manifest(old), read_manifest(new)
    labels = file_labels(after.content["options"])
    return compare_samples(_samples(old, before), _samples(new, after), labels)


def _samples(folder: str, manifest: Manifest) -> Iterator[SampleRef]:
    names = [shard.path for shard in manifest.shards]
    with ThreadPoolExecutor(_READS_AT_ONCE) as pool:
        # Few at a time, because a receipt may list a million samples.
        for start in range(0, len(names), _READS_AT_ONCE):
            batch = names[start : start + _READS_AT_ONCE]
            receipts = pool.map(lambda name: read_receipt(folder, name), batch)
            for name, receipt in zip(batch, receipts, strict=True):
                if receipt is None:
                    raise ConversionError(
                        f"{files.join(folder, name)} has no receipt ({receipt_name(name)}), so it "
                        "cannot be told which samples it contains"
                    )
                yield from written_samples(receipt)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("old", metavar="OLD", help="output folder of a conversion")
    parser.add_argument("new", metavar="NEW", help="output folder of a later conversion")


def _run(call: Call) -> bool:
    old, new = (files.canonical(path) for path in (call.arguments.old, call.arguments.new))
    manifests = [read_manifest(folder) for folder in (old, new)]
    changes = compare(old, new)
    then, now = ({name: m.content[name] for name in ("seed", "options")} for m in manifests)
    say(
        *(f"{kind} {key}" for kind, keys in changes._asdict().items() for key in keys),
        f"{old} and {new}: {changes.summary}",
        *(f"option {text.removeprefix('options.')}" for text in option_differences(then, now)),
    )
    return True


COMMAND = Command(
    "Lists the samples by which two data sets differ, a line each: added, removed, changed (the "
    "image or its split) or relabelled. Reads their manifests and receipts, no shard and no "
    "image. The last lines count them and name options that differ.",
    _run,
    _add_arguments,
    usage="OLD NEW",
    examples="  beam-tfrecord diff sets/2026-11-21 sets/2026-11-22\n",
)
