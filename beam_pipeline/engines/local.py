"""Engines on this machine: Beam's own in this process, DirectRunner, and Prism."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence

from apache_beam.options.pipeline_options import DirectOptions
from apache_beam.portability.api import beam_provision_api_pb2
from apache_beam.runners.portability.fn_api_runner import fn_runner, worker_handlers
from apache_beam.runners.portability.portable_runner import JobServiceHandle
from apache_beam.runners.runner import PipelineRunner
from apache_beam.runners.worker import sdk_worker

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.failures import FailurePolicy
from beam_pipeline.engines.base import Build, Engine
from beam_pipeline.work.spill import spill_file

IN_PROCESS = "FnApiRunner"
_NEVER_MS = 7 * 24 * 3600 * 1000  # a week


class LocalEngine(Engine):
    """An engine on this machine. Failed work is not retried, and the launcher reads refusals."""

    failures = FailurePolicy(retries=False, raises_refusals=False)

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
        # With threads as workers, Beam's own engine flushes their output once per second, from another
        # thread and in the middle of an element, and then reads each half as an element
        # (https://github.com/apache/beam/issues/21643). Elements are lost, or request gigabytes.
        worker_handlers.DATA_BUFFER_TIME_LIMIT_MS = _NEVER_MS
        # Beam starts a thread that needs this lock before it makes the lock. The thread sleeps first, unless
        # the clock jumps.
        sdk_worker.BundleProcessorCache._lock = threading.Lock()
        with spill_file() if self.name == IN_PROCESS else contextlib.nullcontext():
            super().run(build)
