"""Options that place samples, name and format the output, and control the work."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.records.formats import COMPRESSIONS, DEFAULT_FORMAT, FORMATS
from beam_pipeline.core.records.sharding import DEFAULT_SHARD_BYTES, ShardConfig, SplitFractions
from beam_pipeline.options.group import OptionGroup, option
from beam_pipeline.options.values import (
    LABEL_FILES,
    parse_features,
    parse_num_shards,
    parse_size,
    parse_splits,
)
from beam_pipeline.storage.read_ahead import DEFAULT_MAX_BYTES, REMOTE_READS


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


@dataclass(frozen=True)
class OutputOptions(OptionGroup):
    """The output folder as typed, and the treatment of a data set that is already there."""

    title = "output"

    output: str = option(
        "", common=True, metavar="DIR", required=True, help="output folder, created if missing"
    )
    name: str = option(
        "", metavar="NAME", help="prefix of file names (default: the output folder's name)"
    )
    overwrite: bool = option(
        False,
        common=True,
        help="replace the data set that an earlier run wrote to --output, and nothing else",
    )
    reuse: str = option(
        "",
        common=True,
        metavar="DIR",
        help="earlier data set whose unchanged shards are linked or copied instead of written; "
        "latest:FOLDER takes the newest complete one in a folder, whose file `latest` then names this one",
    )
    resume: bool = option(
        False,
        common=True,
        help="continue an interrupted run, or check that its data set is up to date",
    )
    no_report: bool = option(False, help="do not write report.html")
    compression: str = option(
        COMPRESSIONS[0],
        choices=COMPRESSIONS,
        choices_checked=False,  # by the format
        help="shard compression (default: %(default)s)",
    )
    format: str = option(
        DEFAULT_FORMAT,
        choices=tuple(FORMATS),
        choices_checked=False,  # plugins add formats
        help="container of the examples (default: %(default)s)",
    )
    features: Mapping[str, str] = option(
        {},
        metavar="KEY=WHAT",
        parse=parse_features,
        help="write a feature or label column under another key, such as image/source_id=label",
    )
    no_card: bool = option(
        False, help="write no data card (README.md and croissant.json) beside the shards"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.name and (not re.fullmatch(r"[\w.-]+", self.name) or self.name.startswith(".")):
            raise UsageError(
                f"--name {self.name!r} cannot start a file name; "
                "use letters, digits, '_', '-' and '.'"
            )
        if self.reuse.startswith("latest:") and not self.reuse.removeprefix("latest:").strip():
            raise UsageError("--reuse latest: names no folder; expected latest:FOLDER")
        if self.resume and self.overwrite:
            raise UsageError("--resume keeps what --overwrite removes; give only one of the two")


SHUFFLES = ("references", "records")


@dataclass(frozen=True)
class EngineOptions(OptionGroup):
    """Shuffling, writing and reading. These options do not change the samples."""

    title = "engine"

    shuffle: str = option(
        SHUFFLES[0],
        choices=SHUFFLES,
        help="shuffle references to images, or encoded records (default: %(default)s)",
    )
    writers: int | None = option(
        None,
        metavar="N",
        parse=int,
        between=(0, 1000),
        help="writer processes on this machine; 0 leaves writing to the engine's workers (default: "
        "one per core, and none for a few hundred images; 0 with --runner or --direct_...)",
    )
    read_ahead: int | None = option(
        None,
        metavar="N",
        parse=int,
        between=(1, 1000),
        help=f"images each writer reads at once (default: {REMOTE_READS} from a bucket; 1 from local "
        "files, with the next ones prefetched by the system)",
    )
    read_ahead_size: int = option(
        DEFAULT_MAX_BYTES,
        metavar="SIZE",
        parse=parse_size,
        between=(1, float("inf")),
        help="memory per writer for images read ahead (default: 128MB)",
    )


@dataclass(frozen=True)
class WaitOptions(OptionGroup):
    """Options of `convert` only: `plan` always waits for its job."""

    title = EngineOptions.title

    no_wait: bool = option(
        False,
        help="on Dataflow or a Flink cluster: exit once the job is submitted",
    )
