"""The engines by the name of their runner. A new engine is a file and a line here."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions

from beam_pipeline.engines.base import Engine

_DEFAULT = "FnApiRunner"  # DirectRunner would first try to download Prism
_ENGINES = {
    "FnApiRunner": ("local", "LocalEngine"),
    "DirectRunner": ("local", "LocalEngine"),
    "SwitchingDirectRunner": ("local", "LocalEngine"),
    "PrismRunner": ("local", "PrismEngine"),
    "DataflowRunner": ("dataflow", "DataflowEngine"),
    "FlinkRunner": ("flink", "FlinkEngine"),
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
    if "--runner" not in {token.partition("=")[0] for token in argv}:
        argv = [*argv, f"--runner={_DEFAULT}", *_quiet_workers(argv)]
    name = runner_name(PipelineOptions(list(argv)))
    return _engine_class(name)(name, argv, wait=wait)


def _quiet_workers(argv: Sequence[str]) -> Sequence[str]:
    option = "--default_sdk_harness_log_level"
    return () if any(token.partition("=")[0] == option for token in argv) else (f"{option}=ERROR",)


def _engine_class(name: str) -> type[Engine]:
    if name not in _ENGINES:
        return Engine
    module, attribute = _ENGINES[name]
    found: type[Engine] = getattr(
        importlib.import_module(f"beam_pipeline.engines.{module}"), attribute
    )
    return found


def import_engine(runner: str | None) -> None:
    """Imports the engine of a runner, which may have options that Beam's own code does not."""
    _engine_class(_full_name(runner or _DEFAULT))


def runner_name(options: PipelineOptions) -> str:
    """Returns the runner as `DataflowRunner`, even if given as `dataflow` or with its module."""
    return _full_name(options.view_as(StandardOptions).runner or _DEFAULT)


def _full_name(given: str) -> str:
    name = given.rpartition(".")[2]
    known: str
    for known in (*_ENGINES, *StandardOptions.KNOWN_RUNNER_NAMES):
        if name.lower() in (known.lower(), known.lower().removesuffix("runner")):
            return known
    return name
