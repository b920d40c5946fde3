"""`beam-tfrecord verify`: checks a data set against its manifest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from beam_pipeline.commands.command import Call, DatasetCommand
from beam_pipeline.core.dataset.manifest import LABELS_NAME, shard_paths
from beam_pipeline.core.dataset.sharding import ShardInfo
from beam_pipeline.core.dataset.verification import verify_classes, verify_shard
from beam_pipeline.core.labels.classes import fit_a_list
from beam_pipeline.core.text import counted
from beam_pipeline.storage import files
from beam_pipeline.terminal import complain, say
from beam_pipeline.work.dead_letter_files import read_dead_letters, shown_uri
from beam_pipeline.work.output_folder import read_manifest


def verify(folder: str) -> bool:
    """Prints each fault to stderr, or one line with the counts if there is no fault.

    Returns: True if there is no fault.

    Raises:
      ConversionError: the folder holds no manifest to compare with.
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
    counts = manifest["counts"]
    shards = counted(len(shard_paths(manifest)), "shard")
    say(f"{folder}: {shards}, {counted(counts['examples'], 'example')}, all well")
    return True


class CheckedShard(NamedTuple):
    """A shard and its faults.

    Attributes:
      split: its split.
      entry: its entry in the manifest.
      faults: one sentence each; empty if the shard is sound.
      info: its figures, or None if it could not be read.
    """

    split: str
    entry: Mapping[str, Any]
    faults: Sequence[str]
    info: ShardInfo | None


def check_shards(folder: str, manifest: Mapping[str, Any]) -> Iterator[CheckedShard]:
    """Reads every shard of a data set and compares it with the manifest."""
    for split, entries in manifest["splits"].items():
        for entry in entries["shards"]:
            uri = files.join(folder, entry["path"])
            found: list[str | ShardInfo] = []
            try:
                with files.open_input(uri) as file:
                    found.extend(
                        verify_shard(
                            file=file, path=uri, entry=entry, manifest=manifest, split=split
                        )
                    )
            except OSError as error:
                found.append(f"{uri}: cannot be read: {error.strerror or error}")
            faults = [item for item in found if isinstance(item, str)]
            infos = [item for item in found if isinstance(item, ShardInfo)]
            yield CheckedShard(split, entry, faults, infos[0] if infos else None)


def _faults(folder: str, manifest: Mapping[str, Any]) -> Iterator[str]:
    infos: list[ShardInfo] = []
    for shard in check_shards(folder, manifest):
        yield from shard.faults
        if shard.info:
            infos.append(shard.info)
    for split, entries in manifest["splits"].items():
        for figure in ("examples", "bytes"):
            total = sum(entry[figure] for entry in entries["shards"])
            if total != entries[figure]:
                yield f"split {split}: its shards have {total} {figure}, it says {entries[figure]}"
    if len(infos) == len(shard_paths(manifest)):
        yield from verify_classes(manifest, infos)
    yield from _side_file_faults(folder, manifest)


def _side_file_faults(folder: str, manifest: Mapping[str, Any]) -> Iterator[str]:
    names = [entry["name"] for entry in manifest["classes"]]
    if fit_a_list([(entry["name"], entry["id"]) for entry in manifest["classes"]]):
        uri = files.join(folder, LABELS_NAME)
        try:
            found = files.read_bytes(uri).decode(errors="replace").split("\n")[:-1]
            if found != names:
                yield f"{uri}: its {len(found)} lines are not the manifest's {len(names)} classes"
        except OSError as error:
            yield f"{uri}: cannot be read: {error.strerror or error}"
    uri = shown_uri(folder, manifest)
    try:
        reasons = Counter(one["reason"] for one in read_dead_letters(folder, manifest))
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        yield f"{uri}: cannot be read: {error}"
    else:
        if dict(reasons) != manifest["dead_letters"]:
            yield f"{uri}: holds {dict(reasons)}, the manifest says {manifest['dead_letters']}"


class Verify(DatasetCommand):
    """Checks a data set."""

    description = (
        "Reads every shard and compares it with the manifest: framing, checksums, examples and "
        "counts. Prints each fault with its location and exits with code 1 if there are any."
    )

    def run(self, call: Call) -> bool:
        """Checks the data set and prints the faults."""
        return verify(call.arguments.folder)


COMMAND = Verify()
