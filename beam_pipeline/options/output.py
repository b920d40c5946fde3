"""Options for the output folder, file names and shard format."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.records.formats import (
    COMPRESSIONS,
    DEFAULT_FORMAT,
    FORMATS,
)
from beam_pipeline.options.group import OptionGroup, option
from beam_pipeline.options.values import parse_features


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
        "latest:FOLDER takes the newest complete one in a folder",
    )
    resume: bool = option(
        False,
        common=True,
        help="continue an interrupted run, or check that its data set is up to date",
    )
    no_report: bool = option(False, help="do not write report.html")
    compression: str = option(
        COMPRESSIONS[0], choices=COMPRESSIONS, help="shard compression (default: %(default)s)"
    )
    format: str = option(
        DEFAULT_FORMAT,
        choices=tuple(FORMATS),
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
