"""`beam-tfrecord verify`: checks a data set against its manifest."""

from __future__ import annotations

import json
import os
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from beam_pipeline.commands.command import Command
from beam_pipeline.core.dataset.manifest import (
    MANIFEST_NAME,
    Manifest,
    ShardEntry,
    crc32c_text,
    is_as_written,
    line_crc,
)
from beam_pipeline.core.dataset.receipts import receipt_name
from beam_pipeline.core.dataset.verification import (
    verify_classes,
    verify_counts,
    verify_receipt,
    verify_shard,
)
from beam_pipeline.core.errors import ConversionError
from beam_pipeline.core.records.sharding import ShardInfo
from beam_pipeline.core.text import counted
from beam_pipeline.core.uris import is_remote
from beam_pipeline.storage import files
from beam_pipeline.terminal import complain, say
from beam_pipeline.work.dead_letter_files import dead_letter_lines, shown_uri
from beam_pipeline.work.output_folder import read_manifest, spoilt_side_files
from beam_pipeline.work.receipts import read_receipt, receipts_there


def verify(folder: str) -> bool:
    """Prints each fault to stderr, or one line with the counts without faults.

    Returns: True without faults.

    Raises:
      ConversionError: the folder does not contain a manifest to compare with.
    """
    folder = files.canonical(folder)
    manifest = read_manifest(folder)
    faults = 0
    for fault in _faults(folder, manifest):
        complain(fault)
        faults += 1
    if faults:
        complain(f"{folder}: {counted(faults, 'fault')}")
        return False
    shards = counted(len(manifest.shards), "shard")
    say(f"{folder}: {shards}, {counted(manifest.counts.examples, 'example')}, all well")
    return True


class CheckedShard(NamedTuple):
    """A shard and its faults.

    Attributes:
      split: its split.
      entry: its entry in the manifest.
      faults: one sentence each; empty if the shard is sound.
      info: its figures, or None if it could not be read.
      receipt_faults: the faults of its receipt, one sentence each.
      sharing: tells which data sets share the damaged file; empty if the shard is sound or none do.
    """

    split: str
    entry: ShardEntry
    faults: Sequence[str]
    info: ShardInfo | None
    receipt_faults: Sequence[str]
    sharing: str


def check_shards(folder: str, manifest: Manifest) -> Iterator[CheckedShard]:
    """Reads every shard of a data set, and its receipt, and compares both with the manifest."""
    receipts = receipts_there(folder)
    for split, entries in manifest.splits.items():
        for entry in entries.shards:
            uri = files.join(folder, entry.path)
            results: list[str | ShardInfo] = []
            try:
                with files.open_input(uri) as file:
                    results.extend(
                        verify_shard(
                            file=file, path=uri, entry=entry, manifest=manifest, split=split
                        )
                    )
            except OSError as error:
                results.append(f"{uri}: cannot be read: {error.strerror or error}")
            faults = [item for item in results if isinstance(item, str)]
            infos = [item for item in results if isinstance(item, ShardInfo)]
            yield CheckedShard(
                split,
                entry,
                faults,
                infos[0] if infos else None,
                # --shuffle=records wrote a folder without any receipt, or they were removed.
                [*_receipt_faults(folder, split, entry, manifest)] if receipts else (),
                _sharing(folder, entry.path) if faults and not is_remote(folder) else "",
            )


def _receipt_faults(
    folder: str, split: str, entry: ShardEntry, manifest: Manifest
) -> Iterator[str]:
    uri = files.join(folder, receipt_name(entry.path))
    try:
        receipt = read_receipt(folder, entry.path)
    except ConversionError as error:
        yield str(error)
        return
    if receipt is None:
        yield f"{uri} is missing, and --resume and repair need it: convert again with --overwrite"
        return
    yield from (f"{uri}: {fault}" for fault in verify_receipt(receipt, split, entry, manifest))


def _sharing(folder: str, shard: str) -> str:
    """Names the neighbouring data sets that share a shard's file, a hard link made by --reuse."""
    try:
        status = os.stat(os.path.join(folder, shard))
        if status.st_nlink < 2 or not stat.S_ISREG(status.st_mode):
            return ""
        above = os.path.dirname(folder)
        sets = [entry.path for entry in os.scandir(above) if entry.is_dir(follow_symlinks=False)]
        sharing = [
            path
            for path in sorted(sets)
            if not os.path.samefile(path, folder)
            and any(entry.inode() == status.st_ino for entry in os.scandir(path))
        ]
    except OSError:
        return ""
    places = ", ".join(sharing) or f"a folder outside {above}"
    remedy = " and ".join(f"`beam-tfrecord repair {path}`" for path in sharing) or "find -samefile"
    return f" {places} shares the damaged file, a hard link of --reuse: {remedy}"


def manifest_faults(folder: str, manifest: Manifest) -> Iterator[str]:
    """Yields the faults of a manifest that it shows by itself."""
    uri = files.join(folder, MANIFEST_NAME)
    if not is_as_written(files.read_bytes(uri)):
        yield (
            f"{uri} does not have its checksum: it was damaged or edited. Put back a copy, or convert "
            "again with --overwrite"
        )
    yield from verify_counts(manifest)


def _faults(folder: str, manifest: Manifest) -> Iterator[str]:
    infos: list[ShardInfo] = []
    for shard in check_shards(folder, manifest):
        for number, fault in enumerate(shard.faults):
            yield fault if number else f"{fault}{shard.sharing}"
        yield from shard.receipt_faults
        if shard.info:
            infos.append(shard.info)
    yield from manifest_faults(folder, manifest)
    if len(infos) == len(manifest.shards):
        yield from verify_classes(manifest, infos)
    for name, fault in spoilt_side_files(folder, manifest):
        yield f"{files.join(folder, name)} {fault}"
    yield from dead_letter_faults(folder, manifest)


def dead_letter_faults(folder: str, manifest: Manifest) -> Iterator[str]:
    """Yields the faults of the files that list dead letters."""
    uri, crc = shown_uri(folder, manifest), 0
    reasons: Counter[str] = Counter()
    try:
        for line in dead_letter_lines(folder, manifest):
            crc += line_crc(line)
            reasons[json.loads(line)["reason"]] += 1
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        yield f"{uri}: cannot be read: {error}"
        return
    if reasons != manifest.dead_letters:
        yield f"{uri}: contains {dict(reasons)}, the manifest lists {manifest.dead_letters}"
    elif manifest.dead_letters_crc32c != crc32c_text(crc % (1 << 32)):
        yield f"{uri}: its lines do not have the checksum of the manifest: damaged or edited"


COMMAND = Command(
    "Reads every shard and compares it with the manifest: framing, checksums, examples and "
    "counts; checks the manifest, receipts and all files that it determines. Prints each fault "
    "with its location and exits with code 1 if there are any.",
    lambda call: verify(call.arguments.folder),
)
