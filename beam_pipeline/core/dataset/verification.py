"""Compares a manifest with itself, with shards and with receipts."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import BinaryIO

from beam_pipeline.core import dead_letters, errors, text
from beam_pipeline.core.dataset import receipts, tally
from beam_pipeline.core.dataset.manifest import FeatureEntry, Manifest, ShardEntry, crc32c_text
from beam_pipeline.core.labels.schema import ColumnKind, written_key
from beam_pipeline.core.records.example_view import Features, read_shard
from beam_pipeline.core.records.sharding import ShardInfo, ShardSpec


def verify_shard(
    file: BinaryIO, path: str, entry: ShardEntry, manifest: Manifest, split: str
) -> tuple[list[str], ShardInfo | None]:
    """Reads a whole shard; returns a sentence for each fault, and its figures if it can be read.

    Args:
      file: the shard, open at its beginning.
      path: its name in messages.
      entry: its entry in the manifest.
      manifest: the whole manifest.
      split: the split it belongs to.
    """
    faults: Counter[str] = Counter()
    spec = ShardSpec(split=split, number=0, of=0, file_name=entry.path)
    try:
        for item in read_shard(file, path, spec, manifest.record_format, class_key_of(manifest)):
            if isinstance(item, ShardInfo):
                info = item
            else:
                faults.update(_feature_faults(item, manifest.features))
    except errors.DamagedRecordError as error:
        return [str(error)], None
    of_features = (
        f"{fault} in {text.counted(count, 'example')}" for fault, count in sorted(faults.items())
    )
    return [f"{path}: {fault}" for fault in (*of_features, *_figure_faults(info, entry))], info


def _figure_faults(info: ShardInfo, entry: ShardEntry) -> Iterator[str]:
    for name, value, expected in (
        ("examples", info.examples, entry.examples),
        ("bytes", info.bytes, entry.bytes),
        ("crc32c", crc32c_text(info.crc32c), entry.crc32c),
    ):
        if value != expected:
            yield f"{name} is {value}, the manifest lists {expected}"


def verify_counts(manifest: Manifest) -> Iterator[str]:
    """Yields a sentence for each count of a manifest that contradicts another of its counts."""
    for name, split in manifest.splits.items():
        for figure in ("examples", "bytes"):
            total = sum(getattr(shard, figure) for shard in split.shards)
            claimed = getattr(split, figure)
            if total != claimed:
                yield f"split {name}: its shards have {total} {figure}, it claims {claimed}"
    counts, by_reason = manifest.counts, sum(manifest.dead_letters.values())
    examples = sum(split.examples for split in manifest.splits.values())
    images = sum(manifest.images.formats.values()) if manifest.images else counts.examples
    objects = manifest.dead_letters.get(dead_letters.Reason.EMPTY_BOX.value, 0)
    for name, count, source, expected in (
        ("counts.examples", counts.examples, "the sum in splits", examples),
        ("counts.dead_letters", counts.dead_letters, "the sum by reason", by_reason),
        ("counts.examples", counts.examples, "the sum in images.formats", images),
        ("counts.dropped_objects", counts.dropped_objects, "the number by reason", objects),
    ):
        if count != expected:
            yield f"{name} is {count}, {source} is {expected}"
    fault = tally.accounting_fault(
        listed=counts.listed_images,
        orphan_rows=counts.label_rows_without_image,
        further=counts.further_samples,
        dropped=objects,
        examples=counts.examples,
        dead_letters=by_reason,
    )
    if fault:
        yield fault


def verify_receipt(
    receipt: receipts.Receipt, entry: ShardEntry, manifest: Manifest
) -> Iterator[str]:
    """Yields a sentence for each figure and class of a receipt that the manifest contradicts.

    Args:
      receipt: of a shard.
      entry: the entry of the shard in the manifest.
      manifest: the whole manifest.
    """
    yield from _figure_faults(receipt.info, entry)
    names = {entry.id: entry.name for entry in manifest.classes}
    for name, class_id in receipt.inputs.class_ids.items():
        if names.get(class_id) != name:
            yield f"class {class_id} is {name!r}, the manifest lists {names.get(class_id)!r}"


def class_key_of(manifest: Manifest) -> str:
    """The key under which a data set's class ids are written; empty without classes."""
    for column in manifest.options.columns:
        if column.kind == ColumnKind.CLASS.value:
            return written_key(f"{column.feature}/label", manifest.renames) or ""
    return ""


def _feature_faults(features: Features, expected: Mapping[str, FeatureEntry]) -> Iterator[str]:
    for key, entry in expected.items():
        kind, values = features.get(key, (entry.kind, None))
        count = math.prod(length or 0 for length in entry.shape)
        if kind != entry.kind:
            yield f"feature {key} is {kind or 'without a kind'}, the manifest lists {entry.kind}"
        elif values is None and not entry.optional:
            yield f"feature {key} is missing"
        elif values is not None and not entry.ragged and len(values) != count:
            yield f"feature {key} has {len(values)} values, the manifest lists {count}"
    for key in features:
        if key not in expected:
            yield f"feature {key} is not in the manifest"


def verify_classes(manifest: Manifest, shards: Iterable[ShardInfo]) -> Iterator[str]:
    """Yields a sentence for each class with other counts of examples, or objects, than in the manifest."""
    by_class: dict[int, Counter[str]] = defaultdict(Counter)
    for shard in shards:
        for class_id, count in shard.classes:
            by_class[class_id][shard.split] += count
    unit = manifest.unit or "examples"
    for entry in manifest.classes:
        counts = by_class.pop(entry.id, Counter())
        name = f"class {entry.id} ({entry.name})"
        if counts.total() != max(0, entry.count):
            yield f"{name}: {counts.total()} {unit}, the manifest lists {entry.count}"
        for split, expected in entry.splits.items():
            if counts[split] != expected:
                yield f"{name} in {split}: {counts[split]} {unit}, the manifest lists {expected}"
    for class_id, counts in sorted(by_class.items()):
        yield f"class {class_id}: {counts.total()} {unit}, the manifest has no such class"
