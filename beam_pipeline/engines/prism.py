"""Prism, Beam's engine in Go, which Beam downloads and starts as a process of its own."""

from __future__ import annotations

import os
import traceback

from apache_beam.options.pipeline_options import JobServerOptions, PrismRunnerOptions

from beam_pipeline.config import ConvertConfig
from beam_pipeline.core.errors import ConversionError, UsageError
from beam_pipeline.engines.base import Build
from beam_pipeline.engines.local import LocalEngine

_BUILD = "`go install github.com/apache/beam/sdks/v2/go/cmd/prism@v{}` builds it"
_STARTS = ("prism_runner.py", "subprocess_server.py")
"""Beam's modules that find, download and start Prism."""


class PrismEngine(LocalEngine):
    """Prism, with workers in this process."""

    def prepare(self, config: ConvertConfig) -> None:
        """See `Engine`; checks a binary that is named."""
        path = self.options.view_as(PrismRunnerOptions).prism_location
        if not path or "://" in path:
            return
        if not os.path.isfile(path):
            raise UsageError(
                f"--prism_location={path}: there is no such file; {_how_to_build()}, and without the "
                "option Beam downloads it"
            )

    def run(self, build: Build) -> None:
        """See `Engine`.

        Raises:
          ConversionError: Prism did not start.
        """
        try:
            super().run(build)
        except (OSError, RuntimeError, ValueError) as error:
            frames = traceback.extract_tb(error.__traceback__)
            if not any(os.path.basename(frame.filename) in _STARTS for frame in frames):
                raise
            raise ConversionError(f"Prism did not start: {error}; {self._advice(error)}") from error

    def _advice(self, error: Exception) -> str:
        port = self.options.view_as(JobServerOptions).job_port
        if port and isinstance(error, RuntimeError) and "failed to start up" in str(error):
            return f"--job_port={port} may be taken; leave the option out, and a free port is found"
        return f"--prism_location names a binary of Prism; {_how_to_build()}"


def _how_to_build() -> str:
    import apache_beam

    return _BUILD.format(apache_beam.__version__)
