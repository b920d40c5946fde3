"""Compares a manifest with itself, with shards and with receipts."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from beam_pipeline.core.dataset.manifest import IMAGES_ENTRY, crc32c_text
from beam_pipeline.core.dataset.receipts import Receipt
from beam_pipeline.core.errors import DamagedRecordError
from beam_pipeline.core.labels.schema import ColumnKind, written_key
from beam_pipeline.core.records.example_view import Features
from beam_pipeline.core.records.formats import recorded_format
from beam_pipeline.core.records.shard_reader import read_shard
from beam_pipeline.core.records.sharding import ShardInfo, ShardSpec
from beam_pipeline.core.text import counted


def verify_shard(
    file: BinaryIO, path: str, entry: Mapping[str, Any], manifest: Mapping[str, Any], split: str
) -> Iterator[str | ShardInfo]:
    """Reads a whole shard; yields a sentence for each fault, and its figures if it can be read.

    Args:
      file: the shard, open at its beginning.
      path: its name in messages.
      entry: its entry in the manifest.
      manifest: the whole manifest.
      split: the split it belongs to.
    """
    spec = ShardSpec(split=split, number=0, of=0, file_name=str(entry["path"]))
    faults: Counter[str] = Counter()
    try:
        record_format = recorded_format(manifest["options"])
        for item in read_shard(
            file=file,
            path=path,
            spec=spec,
            record_format=record_format,
            class_key=class_key_of(manifest),
        ):
            if isinstance(item, ShardInfo):
                info = item
            else:
                faults.update(_feature_faults(item, manifest["features"]))
    except DamagedRecordError as error:
        yield str(error)
        return
    for fault, count in sorted(faults.items()):
        yield f"{path}: {fault} in {counted(count, 'example')}"
    figures = {
        "examples": info.examples,
        "bytes": info.bytes,
        "crc32c": crc32c_text(info.crc32c),
    }
    for name, found in figures.items():
        if entry[name] != found:
            yield f"{path}: {name} is {found}, the manifest says {entry[name]}"
    yield info


def verify_counts(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Yields a sentence for each count of a manifest that contradicts another of its counts."""
    for split, entries in manifest["splits"].items():
        for figure in ("examples", "bytes"):
            total = sum(entry[figure] for entry in entries["shards"])
            if total != entries[figure]:
                yield f"split {split}: its shards have {total} {figure}, it says {entries[figure]}"
    counts, by_reason = manifest["counts"], sum(manifest["dead_letters"].values())
    formats = manifest.get(IMAGES_ENTRY, {}).get("formats", {})
    sums = {
        "examples": (sum(split["examples"] for split in manifest["splits"].values()), "in splits"),
        "dead_letters": (by_reason, "by reason"),
    }
    for name, (total, where) in sums.items():
        if counts.get(name, total) != total:
            yield f"counts.{name} is {counts[name]}, the sum {where} is {total}"
    if formats and sum(formats.values()) != counts["examples"]:
        yield f"images.formats adds up to {sum(formats.values())} images of {counts['examples']}"
    if "listed_images" in counts and "label_rows_without_image" in counts:
        listed, orphans = counts["listed_images"], counts["label_rows_without_image"]
        if listed + orphans != counts["examples"] + by_reason:
            yield (
                f"{listed} listed images + {orphans} label rows without an image are not "
                f"{counts['examples']} examples + {by_reason} dead letters"
            )


def verify_receipt(
    receipt: Receipt, split: str, entry: Mapping[str, Any], manifest: Mapping[str, Any]
) -> Iterator[str]:
    """Yields a sentence for each figure and class of a receipt that the manifest contradicts.

    Args:
      receipt: of a shard.
      split: the split it belongs to.
      entry: the entry of the shard in the manifest.
      manifest: the whole manifest.
    """
    info = receipt.info
    figures = {
        "split": (info.split, split),
        "examples": (info.examples, entry["examples"]),
        "bytes": (info.bytes, entry["bytes"]),
        "crc32c": (crc32c_text(info.crc32c), entry["crc32c"]),
    }
    for name, (value, expected) in figures.items():
        if value != expected:
            yield f"{name} is {value}, the manifest says {expected}"
    names = {entry["id"]: entry["name"] for entry in manifest["classes"]}
    for name, class_id in receipt.inputs.class_ids.items():
        if names.get(class_id) != name:
            yield f"class {class_id} is {name!r}, the manifest says {names.get(class_id)!r}"


def class_key_of(manifest: Mapping[str, Any]) -> str:
    """The key under which a data set's class ids are written; empty where there are no classes."""
    options = manifest["options"]
    for column in options["columns"]:
        if column["kind"] == ColumnKind.CLASS.value:
            return written_key(f"{column['feature']}/label", options.get("features", {})) or ""
    return ""


def _feature_faults(features: Features, expected: Mapping[str, Any]) -> Iterator[str]:
    for key, what in expected.items():
        if key not in features:
            if not what["optional"]:
                yield f"feature {key} is missing"
            continue
        kind, values = features[key]
        if kind != what["kind"]:
            yield f"feature {key} is {kind or 'without a kind'}, the manifest says {what['kind']}"
            continue
        shape = what.get("shape", [])
        count = len(values)
        if None not in shape and count != math.prod(shape):
            yield f"feature {key} has {count} values, the manifest says {math.prod(shape)}"
    for key in features:
        if key not in expected:
            yield f"feature {key} is not in the manifest"


def verify_classes(manifest: Mapping[str, Any], shards: list[ShardInfo]) -> Iterator[str]:
    """Yields a sentence for each class with other counts of examples, or objects, than in the manifest."""
    found: dict[int, Counter[str]] = defaultdict(Counter)
    for shard in shards:
        for class_id, count in shard.classes:
            found[class_id][shard.split] += count
    counted = "examples"
    for entry in manifest["classes"]:
        counts = found.pop(entry["id"], Counter())
        counted = "objects" if "objects" in entry else "examples"
        name = f"class {entry['id']} ({entry['name']})"
        if counts.total() != entry[counted]:
            yield f"{name}: {counts.total()} {counted}, the manifest says {entry[counted]}"
        for split, said in entry.get("splits", {}).items():
            if counts[split] != said:
                yield f"{name} in {split}: {counts[split]} {counted}, the manifest says {said}"
    for class_id, counts in sorted(found.items()):
        yield f"class {class_id}: {counts.total()} {counted}, the manifest has no such class"
