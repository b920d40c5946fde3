"""The engines by the name of their runner, and what each does: starts a job and waits for it.

A new engine is a subclass of `Engine` in a file, and a line of `_ENGINES`.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
from apache_beam.runners.runner import PipelineResult, PipelineRunner

from beam_pipeline import beam_patches
from beam_pipeline.config import ConvertConfig
from beam_pipeline.core.errors import DEFAULT_POLICY, FailurePolicy, UsageError

Build = Callable[[beam.Pipeline], object]
"""Adds a job to an empty pipeline."""


class Engine:
    """An engine that runs a job and waits for its end; also the base class of the engines with a name.

    Attributes:
      failures: how a job reports fatal errors to the engine.
      outlives_launcher: True if jobs can continue when this program ends, so that `--no_wait` is
        possible.
      ends_on_interrupt: True if Ctrl-C ends a job.
      patches: the changes to Beam that its jobs need.
      options: Beam's options.
      name: the runner, as `--runner` names it, without its module.
      waits: True if `run` returns when the job has ended, False if when it was submitted.
    """

    failures: FailurePolicy = DEFAULT_POLICY
    outlives_launcher = False
    ends_on_interrupt = True
    patches: Sequence[beam_patches.Patch] = beam_patches.EVERY_ENGINE

    def __init__(self, name: str, argv: Sequence[str], *, wait: bool = True) -> None:
        """Reads Beam's options; starts nothing.

        Args:
          name: the runner.
          argv: Beam's options, as given.
          wait: wait for the end of each job.

        Raises:
          UsageError: this engine does not support an option.
        """
        if not wait and not self.outlives_launcher:
            raise UsageError(
                "--no_wait is for Dataflow and for a cluster of Flink (--flink_master), where a job goes "
                f"on by itself; with {name} as given it ends with this command. Leave --no_wait out"
            )
        self.name = name
        self.waits = wait
        self.options = CachedOptions(list(argv))

    @property
    def runner(self) -> PipelineRunner | str:
        """The runner that executes a pipeline."""
        runner: str = self.options.view_as(StandardOptions).runner
        return runner

    def interrupt(self) -> str:
        """Handles Ctrl-C and returns a message about what remains."""
        return "interrupted"

    def prepare(self, config: ConvertConfig) -> None:
        """Sets options that were not given, and checks the job before it starts.

        Raises:
          UsageError: the job cannot run on this engine; the message gives the reason.
        """

    def run(self, build: Build) -> None:
        """Runs a job; may be called again for another job."""
        with beam_patches.applied(self.patches):
            pipeline = empty_pipeline(self.runner, self.options)
            build(pipeline)
            self.wait_for(pipeline.run())

    def wait_for(self, result: PipelineResult) -> None:
        """Waits for the end of a job; raises RuntimeError if it failed."""
        result.wait_until_finish()


def empty_pipeline(runner: PipelineRunner | str, options: PipelineOptions) -> beam.Pipeline:
    """Returns a new pipeline without its temporary folder, which Beam leaves behind unless the pipeline ends.

    Beam puts files there for transforms in other languages; a job of ours has none.
    """
    pipeline = beam.Pipeline(runner=runner, options=options)
    os.rmdir(pipeline.local_tempdir)
    return pipeline


_View = TypeVar("_View", bound=PipelineOptions)
_VIEWS = "_cached_views"


class CachedOptions(PipelineOptions):
    """Options that make each view once; all views share the values, like Beam's own."""

    def view_as(self, cls: type[_View]) -> _View:
        """The view of a class of options."""
        views: dict[type[PipelineOptions], Any] = self.__dict__.setdefault(_VIEWS, {})
        if cls not in views:
            views[cls] = super().view_as(cls)
        view: _View = views[cls]
        return view

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != _VIEWS}


_NAME_DIGITS = 8
_LONGEST_NAME = 40  # of the data set


def job_name(config: ConvertConfig) -> str:
    """Returns a name that depends on the output folder: Dataflow runs one job per name at a time."""
    name = re.sub(r"[^a-z0-9]+", "-", config.name.lower()).strip("-")[:_LONGEST_NAME].strip("-")
    digest = hashlib.sha256(config.output.encode()).hexdigest()[:_NAME_DIGITS]
    return "-".join(filter(None, ("beam-tfrecord", name, digest)))


_DEFAULT = "FnApiRunner"  # DirectRunner would first try to download Prism
_ENGINES = {
    "FnApiRunner": "local.LocalEngine",
    "DirectRunner": "local.LocalEngine",
    "SwitchingDirectRunner": "local.LocalEngine",
    "PrismRunner": "local.PrismEngine",
    "DataflowRunner": "dataflow.DataflowEngine",
    "FlinkRunner": "flink.FlinkEngine",
}
"""Runner -> module in this package and class in it, imported when a job needs it."""


def engine_for(argv: Sequence[str], *, wait: bool = True) -> Engine:
    """Returns the engine that Beam's options name; without a name, Beam's own in this process.

    Args:
      argv: Beam's options.
      wait: wait for the end of each job.

    Raises:
      UsageError: this engine does not support an option.
    """
    named, level = {token.partition("=")[0] for token in argv}, "--default_sdk_harness_log_level"
    if "--runner" not in named:
        quiet = [] if level in named else [f"{level}=ERROR"]
        argv = [*argv, f"--runner={_DEFAULT}", *quiet]
    runner = PipelineOptions(list(argv)).view_as(StandardOptions).runner or _DEFAULT
    return import_engine(runner)(_full_name(runner), argv, wait=wait)


def import_engine(runner: str | None) -> type[Engine]:
    """The engine of a runner, whose module may have options that Beam's own code does not."""
    module, _, name = _ENGINES.get(_full_name(runner or _DEFAULT), "base.Engine").partition(".")
    engine: type[Engine] = getattr(importlib.import_module(f"beam_pipeline.engines.{module}"), name)
    return engine


def _full_name(given: str) -> str:
    """The runner as `DataflowRunner`, even if given as `dataflow` or with its module."""
    name = given.rpartition(".")[2]
    known: str
    for known in (*_ENGINES, *StandardOptions.KNOWN_RUNNER_NAMES):
        if name.lower() in (known.lower(), known.lower().removesuffix("runner")):
            return known
    return name
