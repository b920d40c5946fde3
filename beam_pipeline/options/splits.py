"""Options that place samples: splits, shards and the order within them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.records.sharding import (
    DEFAULT_SHARD_BYTES,
    ShardConfig,
    SplitFractions,
)
from beam_pipeline.options.group import OptionGroup, option
from beam_pipeline.options.values import LABEL_FILES, parse_num_shards, parse_size, parse_splits


@dataclass(frozen=True)
class SplitOptions(OptionGroup):
    """Splits, shards per split, and the shuffle seed."""

    title = "splits and shards"

    splits: SplitFractions | str | None = option(
        None,
        common=True,
        metavar="train=0.9,validation=0.1|label_files",
        parse=parse_splits,
        help="divide by a hash of the key; label_files: the file name of each table determines the split, "
        "as in val.csv (default: folders named train, validation or test, or the column split, "
        "otherwise train)",
    )
    split_by: str = option(
        "",
        metavar="COLUMN|folder",
        help="with --splits: keep images with the same value of a label column, such as patient, or "
        "in the same folder, in one split",
    )
    stratify: bool = option(
        False,
        help="with --splits: divide each class in the same proportions",
    )
    num_shards: int | Mapping[str, int] | None = option(
        None,
        metavar="N|train=128,test=8",
        parse=parse_num_shards,
        help="shards per split (default: derived from --shard_size)",
    )
    shard_size: int = option(
        DEFAULT_SHARD_BYTES,
        metavar="SIZE",
        parse=parse_size,
        help="target shard size, such as 128MiB (default: 200MB)",
    )
    seed: int = option(0, metavar="N", parse=int, help="shuffle seed (default: %(default)s)")

    def __post_init__(self) -> None:
        super().__post_init__()
        for flag, given in (("--split_by", self.split_by), ("--stratify", self.stratify)):
            if given and self.fractions is None:
                raise UsageError(
                    f"{flag} needs --splits with the split sizes, such as "
                    "--splits train=0.9,validation=0.1"
                )

    @property
    def shards(self) -> ShardConfig:
        """Number or target size of shards."""
        return ShardConfig(self.num_shards, self.shard_size)

    @property
    def fractions(self) -> SplitFractions | None:
        """The shares of the splits; None if samples are not divided."""
        return self.splits if isinstance(self.splits, SplitFractions) else None

    @property
    def by_label_file(self) -> bool:
        """True if each label file is a split."""
        return self.splits == LABEL_FILES

    @property
    def split_names(self) -> tuple[str, ...]:
        """Splits that must exist even if no sample falls into them."""
        return tuple(name for name, _ in self.fractions.fractions) if self.fractions else ()
