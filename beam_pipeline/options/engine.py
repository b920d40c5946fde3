"""Options for the work itself: shuffle, writer processes, read-ahead."""

from __future__ import annotations

from dataclasses import dataclass

from beam_pipeline.options.group import OptionGroup, option
from beam_pipeline.options.values import parse_size
from beam_pipeline.storage.read_ahead import DEFAULT_MAX_BYTES, REMOTE_READS

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
