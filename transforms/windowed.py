"""Values that a DoFn yields at the end of a bundle, where Beam wants their window and timestamp."""

from __future__ import annotations

from typing import Any

from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms.window import GlobalWindows


def windowed(output: Any) -> Any:
    """Puts an output, tagged or not, into the only window of a batch job."""
    if isinstance(output, TaggedOutput):
        return TaggedOutput(output.tag, GlobalWindows.windowed_value(output.value))
    return GlobalWindows.windowed_value(output)
