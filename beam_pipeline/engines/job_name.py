"""The name of a job where an engine shows it among others."""

from __future__ import annotations

import hashlib
import re

from beam_pipeline.config import ConvertConfig
from beam_pipeline.engines.packaging import DISTRIBUTION

_NAME_DIGITS = 8
_LONGEST_NAME = 40  # of the data set


def job_name(config: ConvertConfig) -> str:
    """Returns a name that depends on the output folder: Dataflow runs one job per name at a time."""
    name = re.sub(r"[^a-z0-9]+", "-", config.name.lower()).strip("-")[:_LONGEST_NAME].strip("-")
    digest = hashlib.sha256(config.output.encode()).hexdigest()[:_NAME_DIGITS]
    return "-".join(filter(None, (DISTRIBUTION, name, digest)))
