"""Runs a conversion: prepares the output folder, runs the job, shows how it goes and ends."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import apache_beam as beam
from apache_beam.options.pipeline_options import (
    GoogleCloudOptions,
    PipelineOptions,
    StandardOptions,
)
from apache_beam.portability.api import beam_provision_api_pb2
from apache_beam.runners.portability.fn_api_runner import fn_runner, worker_handlers
from apache_beam.runners.portability.portable_runner import JobServiceHandle
from apache_beam.runners.runner import PipelineRunner

from beam_pipeline.config import ConvertConfig
from beam_pipeline.pipeline import build_pipeline, build_planning_pipeline
from beam_pipeline.progress_bar import show_progress
from beam_pipeline.summary import print_summary
from beam_pipeline.worker_watch import watched_workers
from transforms.core.errors import UsageError
from transforms.core.listing import is_remote
from transforms.output_folder import (
    earlier_manifest,
    missing_shards,
    prepare_output,
    prepare_resume,
    read_note,
    take_refusal,
)
from transforms.writer_process import cores, writer_processes

EXIT_INTERRUPTED = 130
_NEVER_MS = 7 * 24 * 3600 * 1000  # a week
LOCAL_RUNNER = "FnApiRunner"
_LOCAL_RUNNERS = ("FnApiRunner", "DirectRunner", "SwitchingDirectRunner", "PrismRunner")


@dataclass(frozen=True)
class BeamOptionNames:
    """Attributes: parser, which knows every option of Beam's; all, their names."""

    parser: argparse.ArgumentParser
    all: Sequence[str]

    def unknown(self, argv: Sequence[str]) -> list[str]:
        """What of argv Beam does not know."""
        return self.parser.parse_known_args(argv)[1]


def beam_option_names() -> BeamOptionNames:
    """Every option that Beam knows."""
    parsers: list[argparse.ArgumentParser] = []
    PipelineOptions([]).get_all_options(add_extra_args_fn=parsers.append)
    (parser,) = parsers
    return BeamOptionNames(parser, [o for a in parser._actions for o in a.option_strings])


def _beam_options(argv: Sequence[str]) -> PipelineOptions:
    """Beam's options, with our default where no runner is named: Beam's engine in this process.

    DirectRunner would first try to download another engine and behave as the network lets it.
    """
    named = {token.partition("=")[0] for token in argv}
    argv = list(argv)
    if "--runner" not in named:
        argv.append(f"--runner={LOCAL_RUNNER}")
        if "--default_sdk_harness_log_level" not in named:
            argv.append("--default_sdk_harness_log_level=ERROR")
    return PipelineOptions(argv)


def convert(config: ConvertConfig, beam_argv: Sequence[str]) -> None:
    """Converts as a program of its own: shows how it goes, ends on Ctrl-C, prints what came of it.

    Args:
      config: what to convert, and how.
      beam_argv: options of Beam's.

    Raises:
      ConversionError: why there is no complete data set.
    """
    # Beam warns whenever it starts or stops an engine's process, which is what it was asked for.
    logging.getLogger("apache_beam.utils.subprocess_server").setLevel(logging.ERROR)
    options = _beam_options(beam_argv)
    _check_paths(config, options, _is_local(options))
    if config.resume:
        prepare_resume(config.output, config.run)
    else:
        prepare_output(config.output, config.overwrite)
    earlier = earlier_manifest(config.output)
    up_to_date = earlier is not None and not missing_shards(config.output)
    with show_progress(), _interruptible(), watched_workers(config.output):
        _run_job(config, options, _writers(config, beam_argv))
    if up_to_date:
        print(f"{config.output} is up to date: all is as it was when it was written")
    else:
        print_summary(config.output)


def convert_here(config: ConvertConfig) -> None:
    """Converts on this machine for a program that goes on; the output folder is ready for it.

    Raises:
      ConversionError: why there is no complete data set.
    """
    _run_job(config, _beam_options(()), _writers(config, ()))


def run_other(
    build: Callable[[beam.Pipeline], None], config: ConvertConfig, beam_argv: Sequence[str]
) -> None:
    """Runs a pipeline of another kind.

    Args:
      build: adds it to an empty pipeline.
      config: what it is about.
      beam_argv: options of Beam's.

    Raises:
      ConversionError: why it did not come to its end.
    """
    options = _beam_options(beam_argv)
    _check_paths(config, options, _is_local(options))
    _run(build, config, options)


def temp_location(beam_argv: Sequence[str]) -> str:
    """The folder that Beam's options name for temporary files; empty if none.

    Raises:
      UsageError: the engine's workers could leave nothing for this machine.
    """
    options = PipelineOptions(list(beam_argv))
    folder: str = options.view_as(GoogleCloudOptions).temp_location or ""
    runner = options.view_as(StandardOptions).runner or LOCAL_RUNNER
    if runner.rpartition(".")[2] == "DataflowRunner" and not folder:
        raise UsageError(
            f"--runner={runner}: its workers leave the plan in --temp_location; name a folder in a "
            "bucket, such as --temp_location=gs://my-bucket/tmp"
        )
    return folder


def _run_job(config: ConvertConfig, options: PipelineOptions, writers: int) -> None:
    local = _is_local(options)
    layout = None
    if config.shuffle == "records":
        _run(lambda pipeline: build_planning_pipeline(pipeline, config), config, options)
        layout = read_note(config.output)
    with writer_processes(writers):
        _run(
            lambda pipeline: build_pipeline(
                pipeline, config, layout=layout, raise_refusals=not local
            ),
            config,
            options,
        )


def _run(
    build: Callable[[beam.Pipeline], None], config: ConvertConfig, options: PipelineOptions
) -> None:
    # With threads for workers, Beam's local engine flushes what they send once a second, from another
    # thread and in the middle of an element, and then reads each half as a whole one
    # (https://github.com/apache/beam/issues/21643): elements are lost, or ask for gigabytes.
    worker_handlers.DATA_BUFFER_TIME_LIMIT_MS = _NEVER_MS
    pipeline = beam.Pipeline(runner=_runner(options), options=options)
    build(pipeline)
    try:
        pipeline.run().wait_until_finish()
    except Exception as error:
        refusal = take_refusal(config.output)
        if refusal is None:
            raise
        raise refusal from error
    refusal = take_refusal(config.output)
    if refusal is not None:
        raise refusal


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Lets Ctrl-C end the program at once; what it leaves half done is in `.incomplete`.

    As an exception it would surface in whatever a worker is doing, and be reported as its fault.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _leave(*_: object) -> None:
    print("\nbeam-tfrecord: interrupted; no manifest was written", file=sys.stderr, flush=True)
    os._exit(EXIT_INTERRUPTED)


def _runner(options: PipelineOptions) -> PipelineRunner | str | None:
    """The in-process engine with the options its workers need, which it does not pass on by itself."""
    name: str | None = options.view_as(StandardOptions).runner
    if name != LOCAL_RUNNER:
        return name
    encoded = JobServiceHandle.encode_pipeline_options(options.get_all_options())
    provision = beam_provision_api_pb2.ProvisionInfo(pipeline_options=encoded)
    return fn_runner.FnApiRunner(provision_info=fn_runner.ExtendedProvisionInfo(provision))


def _writers(config: ConvertConfig, beam_argv: Sequence[str]) -> int:
    """How many processes write shards beside the engine's own workers."""
    if config.shuffle == "records":
        return 0
    if config.writers is not None:
        return config.writers
    own_engine = any(token.startswith(("--runner", "--direct_")) for token in beam_argv)
    return 0 if own_engine else cores()


def _is_local(options: PipelineOptions) -> bool:
    runner = options.view_as(StandardOptions).runner or LOCAL_RUNNER
    return runner.rpartition(".")[2] in _LOCAL_RUNNERS


def _check_paths(config: ConvertConfig, options: PipelineOptions, local: bool) -> None:
    runner = options.view_as(StandardOptions).runner
    on_this_machine = [uri for uri in config.uris if not is_remote(uri)]
    if not local and on_this_machine and runner.rpartition(".")[2] == "DataflowRunner":
        raise UsageError(
            f"--runner={runner}: its workers cannot see {on_this_machine[0]} on this machine; "
            "use paths in a bucket"
        )
