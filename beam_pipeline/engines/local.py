"""Engines on this machine: Beam's own in this process, DirectRunner, and Prism, which Beam downloads and starts."""

from __future__ import annotations

import contextlib
import os
import traceback
from collections.abc import Sequence

import apache_beam
from apache_beam.options.pipeline_options import DirectOptions, PrismRunnerOptions
from apache_beam.portability.api import beam_provision_api_pb2
from apache_beam.runners.portability.fn_api_runner import fn_runner
from apache_beam.runners.portability.portable_runner import JobServiceHandle
from apache_beam.runners.runner import PipelineRunner

from beam_pipeline.beam_patches import EVERY_ENGINE, unsampled_states, whole_elements
from beam_pipeline.config import ConvertConfig
from beam_pipeline.core.errors import ConversionError, FailurePolicy, UsageError
from beam_pipeline.engines.base import Build, Engine
from beam_pipeline.work.job import spill_file

IN_PROCESS = "FnApiRunner"


class LocalEngine(Engine):
    """An engine on this machine. Failed work is not retried, and the launcher reads refusals."""

    failures = FailurePolicy(retries=False, raises_refusals=False)
    patches = (*EVERY_ENGINE, whole_elements, unsampled_states)

    def __init__(self, name: str, argv: Sequence[str], *, wait: bool = True) -> None:
        """See `Engine`.

        Raises:
          UsageError: also for Beam's worker processes.
        """
        given = {token.partition("=")[0] for token in argv}
        if "--prism_log_level" not in given:
            argv = [*argv, "--prism_log_level=warn"]  # Prism logs the start and end of every job
        super().__init__(name, argv, wait=wait)
        if self.options.view_as(DirectOptions).direct_running_mode == "multi_processing":
            raise UsageError(
                "--direct_running_mode=multi_processing: a job whose worker process dies would wait "
                "for ever, as Beam does not notice. Leave the option out and use --writers=N instead: N "
                "processes write shards, faster than Beam's workers would"
            )

    @property
    def runner(self) -> PipelineRunner | str:
        """The runner; Beam's own gets the options that its workers need, which it does not pass on."""
        if self.name != IN_PROCESS:
            return super().runner
        encoded = JobServiceHandle.encode_pipeline_options(self.options.get_all_options())
        provision = beam_provision_api_pb2.ProvisionInfo(pipeline_options=encoded)
        return fn_runner.FnApiRunner(provision_info=fn_runner.ExtendedProvisionInfo(provision))

    def run(self, build: Build) -> None:
        """See `Engine`."""
        with spill_file() if self.name == IN_PROCESS else contextlib.nullcontext():
            super().run(build)


_BINARY = "github.com/apache/beam/sdks/v2/go/cmd/prism"
_HOW_TO_BUILD = f"`go install {_BINARY}@v{apache_beam.__version__}` builds it"
_STARTS = ("prism_runner.py", "subprocess_server.py")
"""Beam's modules that find, download and start Prism."""


class PrismEngine(LocalEngine):
    """Prism, with workers in this process."""

    def prepare(self, config: ConvertConfig) -> None:
        """See `Engine`; checks a binary that is named, which Beam would keep for the next job as well."""
        path = self.options.view_as(PrismRunnerOptions).prism_location
        if path and "://" not in path and not os.path.isfile(path):
            raise UsageError(
                f"--prism_location={path}: the file does not exist; {_HOW_TO_BUILD}, and without the "
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
            raise ConversionError(
                f"Prism did not start: {error}; --prism_location names a binary of Prism; {_HOW_TO_BUILD}. "
                "A --job_port may be taken"
            ) from error
