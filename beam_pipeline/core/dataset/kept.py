"""The values that a conversion with --reuse keeps: the number of shards, and class ids.

An option that this settles is recorded as if it had been typed, so that a conversion from nothing with
the recorded options gives the same data set.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from beam_pipeline.core.dataset.sharding import ShardConfig
from beam_pipeline.core.labels.class_files import Classes
from beam_pipeline.core.labels.classes import AUTO_ORDER, ClassNumbering
from beam_pipeline.core.text import counted, enumerated

_SHOWN = 10


@dataclass(frozen=True)
class CountedShards:
    """The number of shards of each split.

    Attributes:
      counts: split -> number.
      settled: options that were settled by it.
      notes: sentences for people.
    """

    counts: Mapping[str, int]
    settled: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class NumberedClasses:
    """The classes of a data set.

    Attributes:
      classes: (name, id), in order of id.
      settled: options that were settled by it.
      notes: sentences for people.
    """

    classes: Classes
    settled: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()

    @property
    def kept(self) -> bool:
        """Tells whether ids are others than those of a conversion from nothing."""
        return "classes" in self.settled


@dataclass(frozen=True)
class Kept:
    """The values kept from an earlier data set.

    Attributes:
      shards: split -> number of shards.
      classes: (name, id) of its classes; empty where ids are those of the format, or typed.
    """

    shards: Mapping[str, int] = field(default_factory=dict)
    classes: Classes = ()

    def count_shards(self, wanted: ShardConfig, split_bytes: Mapping[str, int]) -> CountedShards:
        """The number of shards of each split: the earlier one, unless shards would be far off their size.

        Half to double the wanted size is near enough.

        Args:
          wanted: the number or size that was asked for.
          split_bytes: split -> bytes of its images.
        """
        counts, settled, notes = {}, {}, []
        for split, size in split_bytes.items():
            counts[split] = count = wanted.count_for(split, size)
            before = self.shards.get(split, count)
            if before == count:
                continue
            if wanted.is_counted(split):
                notes.append(f"{_others(split, count, before)}, as --num_shards says")
            elif (
                wanted.shard_bytes <= 2 * (size // before)
                and size <= 2 * before * wanted.shard_bytes
            ):
                counts[split] = settled[split] = before
            else:
                notes.append(
                    f"{_others(split, count, before)}, whose average would be {size // before:,} "
                    f"bytes, while --shard_size is {wanted.shard_bytes:,}"
                )
        return CountedShards(counts, {"num_shards": settled} if settled else {}, notes)

    def number_classes(self, numbering: ClassNumbering, names: Iterable[str]) -> NumberedClasses:
        """The classes with their ids: classes keep their earlier ones, new classes come after the last.

        Args:
          numbering: how classes are numbered where nothing is kept.
          names: the classes that samples have.

        Raises:
          ClassNumberingError: as `ClassNumbering.number`.
        """
        names = list(names)
        classes = numbering.number(names)
        asked = numbering.order == AUTO_ORDER
        settled: dict[str, Any] = {"label_order": numbering.order_of(names)} if asked else {}
        if not self.classes or numbering.known or numbering.from_name:
            return NumberedClasses(classes, settled)
        base = self.classes[0][1]
        kept = ClassNumbering(base, numbering.order, self.classes).number(names)
        earlier = dict(self.classes)
        new = [f"{i} {name}" for name, i in kept if name not in earlier]
        notes = [f"{counted(len(new), 'new class/new classes')}: {enumerated(new, _SHOWN)}"]
        if kept != classes:
            order = "code_point"  # as --classes records it
            settled = {"label_base": base, "label_order": order, "classes": dict(kept)}
        return NumberedClasses(kept, settled, notes if new else ())


NOTHING_KEPT = Kept()


def _others(split: str, count: int, before: int) -> str:
    return f"{split}: {counted(count, 'shard')}, all of them written, instead of {before}"
