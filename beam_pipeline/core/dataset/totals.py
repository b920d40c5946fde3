"""Sums of what all shards and stages report: their size depends on classes and reasons, not on samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from beam_pipeline.core.dataset.sharding import ImageFigures, ShardInfo
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.report.image_statistics import (
    NOTHING_COUNTED,
    ImageStatistics,
    merged,
)


@dataclass
class Totals:
    """What a run reports, summed; totals of parts of it add up.

    Attributes:
      classes: split -> class id -> examples or objects.
      events: what happened to images -> how often.
      codecs: all that encoded images, with versions.
      statistics: of images and labels.
      dead: the dead letters, counted by reason, and the first few keys of each reason.
    """

    classes: dict[str, Counter[int]] = field(default_factory=dict)
    events: Counter[str] = field(default_factory=Counter)
    codecs: set[str] = field(default_factory=set)
    statistics: ImageStatistics = NOTHING_COUNTED
    dead: Tally = field(default_factory=Tally)

    @classmethod
    def of_shards(cls, shards: Iterable[ShardInfo]) -> Totals:
        """The totals of shards, without dead letters."""
        totals = cls()
        for shard in shards:
            totals.add_shard(shard)
        return totals

    def add(self, other: Totals) -> None:
        """Adds the totals of another part."""
        for split, counts in other.classes.items():
            self.classes.setdefault(split, Counter()).update(counts)
        self.events.update(other.events)
        self.codecs |= other.codecs
        self.statistics = merged((self.statistics, other.statistics))
        self.dead.add(other.dead)

    def add_shard(self, shard: ShardInfo) -> None:
        """Adds the classes and images of a shard."""
        self.classes.setdefault(shard.split, Counter()).update(dict(shard.classes))
        self.add_images(shard.images)

    def add_images(self, figures: ImageFigures) -> None:
        """Adds what happened to some images."""
        self.events.update(dict(figures.events))
        self.codecs.update(figures.codecs)
        self.statistics = merged((self.statistics, figures.statistics))

    def add_dead_letters(self, dead_letters: Iterable[DeadLetter]) -> None:
        """Counts dead letters."""
        self.dead.add_dead_letters(dead_letters)

    @property
    def images(self) -> ImageFigures:
        """What happened to images, sorted."""
        return ImageFigures(
            tuple(sorted(self.events.items())), tuple(sorted(self.codecs)), self.statistics
        )


def without_totals(shard: ShardInfo) -> ShardInfo:
    """The figures of a shard without those that `Totals` sums; their size is bounded."""
    return shard._replace(classes=(), events=(), codec="", statistics=NOTHING_COUNTED)
