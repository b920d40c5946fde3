"""Runs a conversion: prepares the output folder, runs the job, shows its progress and its outcome."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NoReturn

from apache_beam.options.pipeline_options import PipelineOptions

from beam_pipeline.config import ConvertConfig
from beam_pipeline.core.dataset.manifest import MANIFEST_NAME
from beam_pipeline.core.errors import ConversionError, OutputError, UsageError
from beam_pipeline.core.uris import is_remote
from beam_pipeline.engines.base import Build
from beam_pipeline.engines.registry import engine_for, import_engine
from beam_pipeline.interrupts import interruptible
from beam_pipeline.pipeline import build_pipeline, build_planning_pipeline
from beam_pipeline.progress_bar import show_progress
from beam_pipeline.startup import full_disk
from beam_pipeline.storage import files
from beam_pipeline.summary import print_summary, say_what_was_kept
from beam_pipeline.terminal import say
from beam_pipeline.work.incomplete_folder import read_note, take_refusal
from beam_pipeline.work.output_claim import claimed
from beam_pipeline.work.output_folder import (
    clean_up_refused,
    prepare_output,
    prepare_resume,
    shard_versions,
)
from beam_pipeline.work.writer_process import cores, writer_processes

_INTERRUPTED_EARLY = "interrupted before the job began. The same command starts again"


@dataclass(frozen=True)
class BeamOptionNames:
    """The options of Apache Beam.

    Attributes:
      parser: reads all of them.
      all: their names.
    """

    parser: argparse.ArgumentParser
    all: Sequence[str]

    def unknown(self, argv: Sequence[str]) -> list[str]:
        """The arguments that Beam does not know. Raises UsageError for a value that it refuses."""
        return self.parser.parse_known_args(argv)[1]


def beam_option_names(argv: Sequence[str] = ()) -> BeamOptionNames:
    """All options that Beam knows, with those of the engine that an option names.

    Args:
      argv: Beam's options.

    Raises:
      UsageError: Beam refuses a value.
    """
    names = _those_known_now()
    if argv:
        import_engine(names.parser.parse_known_args(argv)[0].runner)
        names = _those_known_now()
    return names


def _those_known_now() -> BeamOptionNames:
    parsers: list[argparse.ArgumentParser] = []
    PipelineOptions([]).get_all_options(add_extra_args_fn=parsers.append)
    (parser,) = parsers
    # Beam's would print all of its options.
    parser.error = _refuse_value  # type: ignore[method-assign]
    return BeamOptionNames(parser, [o for a in parser._actions for o in a.option_strings])


def _refuse_value(message: str) -> NoReturn:
    raise UsageError(f"Apache Beam: {message}")


class Run:
    """A conversion on an engine, and the processes of this machine that help it."""

    def __init__(
        self, config: ConvertConfig, beam_argv: Sequence[str] = (), *, wait: bool = True
    ) -> None:
        """Starts nothing.

        Args:
          config: what to convert, and how.
          beam_argv: Beam's options.
          wait: wait for a job that goes on by itself.

        Raises:
          UsageError: the engine does not support an option.
        """
        self.config = config
        self.engine = engine_for(beam_argv, wait=wait)
        self._records = config.options.engine.shuffle == "records"
        self._writers = 0 if self._records else _writers(config, beam_argv)

    def convert(self) -> None:
        """Converts into an output folder that is claimed and prepared.

        Raises:
          ConversionError: there is no complete data set, and why.
        """
        config, shard_plan = self.config, None
        failures = dataclasses.replace(self.engine.failures, job=new_job())
        try:
            if self._records:
                self._job(partial(build_planning_pipeline, config=config))
                shard_plan = read_note(config.output)
            build = partial(build_pipeline, config=config, shard_plan=shard_plan, failures=failures)
            self._written(build, failures.job, shard_plan is not None)
        except ConversionError:
            with contextlib.suppress(OSError, ConversionError):  # the first error tells more
                clean_up_refused(config.output)
            raise

    def _written(self, build: Build, job: str, by_beam: bool) -> None:
        """Runs the job that writes; what Beam's own sink leaves behind is removed."""
        folder = self.config.output
        try:
            at_once = self.config.options.engine.writers is not None
            with writer_processes(self._writers, at_once=at_once):
                self._job(build, job)
        except Exception as error:
            reason = full_disk(error)
            if not reason:
                raise
            raise OutputError(f"a shard in {folder} cannot be written: {reason}") from error
        finally:
            for name in files.list_folder(folder) if by_beam else ():
                if name.startswith(f"beam-temp-{self.config.name}-"):  # where its sink writes first
                    files.delete_folder(files.join(folder, name))

    def plan(self, build: Build) -> None:
        """Runs a job that only plans.

        Args:
          build: adds it to an empty pipeline.

        Raises:
          ConversionError: it failed, and why.
        """
        self.engine.prepare(self.config)
        with writer_processes(self._writers, at_once=False):
            self._job(build)

    def _job(self, build: Build, job: str = "") -> None:
        try:
            self.engine.run(build)
        except Exception as error:
            refusal = take_refusal(self.config.output, job)
            if refusal is None:
                raise
            raise refusal from error
        refusal = take_refusal(self.config.output, job) if self.engine.waits else None
        if refusal is not None:
            raise refusal

    def interrupted(self) -> str:
        """The message of Ctrl-C; unfinished files of a local job are in `.incomplete`."""
        manifest = files.join(self.config.output, MANIFEST_NAME)
        if self.engine.ends_on_interrupt and not is_remote(manifest) and files.exists(manifest):
            return f"interrupted at the very end: {self.config.output} holds the complete data set"
        resumable = not self._records and self.engine.ends_on_interrupt
        return self.engine.interrupt() + (
            ". The same command with --resume continues" if resumable else ""
        )


def convert(config: ConvertConfig, beam_argv: Sequence[str], *, wait: bool = True) -> None:
    """Converts as a program of its own: shows progress, ends on Ctrl-C, prints a summary.

    Args:
      config: what to convert, and how.
      beam_argv: Beam's options.
      wait: wait for a job that goes on by itself.

    Raises:
      ConversionError: there is no complete data set, and why.
    """
    started = time.monotonic()
    run = Run(config, beam_argv, wait=wait)
    run.engine.prepare(config)
    for patch in run.engine.patches:
        patch.apply()  # until the program ends, as an engine's process is stopped at its exit
    with claimed(config.output, make=True):
        with interruptible(lambda: _INTERRUPTED_EARLY):
            before = _prepare(config)
        with show_progress(), interruptible(run.interrupted):
            run.convert()
        if run.engine.waits:
            _report(config, before, time.monotonic() - started)


def _report(config: ConvertConfig, before: Mapping[str, int], seconds: float) -> None:
    """Says what a complete data set holds, or that none of its shards has changed.

    Args:
      config: the conversion.
      before: the versions of the shards as they were before; empty if there were none.
      seconds: the time that it took.

    Raises:
      OutputError: it cannot be read.
    """
    folder, output = config.output, config.options.output
    try:
        if before and shard_versions(folder) == before:
            say(f"{folder} is up to date: all is as it was when it was written")
        else:
            whole = not (output.resume or output.reuse)
            print_summary(folder, config.exclusion, seconds=seconds, wrote_all=whole)
            if not config.options.output.no_card:
                say_what_was_kept(folder)
    except BrokenPipeError:  # the reader of our output has gone
        raise
    except OSError as error:
        raise OutputError(
            f"{folder} holds a complete data set, which cannot be read to sum it up: "
            f"{error.strerror or error}; `beam-tfrecord verify` checks it"
        ) from error


def _prepare(config: ConvertConfig) -> dict[str, int]:
    """Prepares the output folder; returns the versions of the shards if it holds a data set.

    Raises:
      OutputError: it cannot be read or written to.
      ConversionError: it holds something else.
    """
    try:
        if config.options.output.resume:
            prepare_resume(config.output, config.run, config.open_options)
        else:
            prepare_output(config.output, config.options.output.overwrite)
        return shard_versions(config.output)
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        raise OutputError(
            f"--output {config.output} cannot be prepared: {error.strerror or error}{where}"
        ) from error


def convert_for_program(
    config: ConvertConfig, beam_argv: Sequence[str], *, progress: bool = True
) -> None:
    """Converts for a program that goes on, such as a notebook: prints no summary, keeps Ctrl-C as it is.

    Args:
      config: what to convert, and how.
      beam_argv: Beam's options.
      progress: whether progress is shown.

    Raises:
      ConversionError: there is no complete data set, and why.
    """
    run = Run(config, beam_argv)
    run.engine.prepare(config)
    with claimed(config.output, make=True):
        _prepare(config)
        with show_progress() if progress else contextlib.nullcontext():
            run.convert()


def new_job() -> str:
    """A name for a job that no other has, as `FailurePolicy.job` has it."""
    return os.urandom(16).hex()


def _writers(config: ConvertConfig, beam_argv: Sequence[str]) -> int:
    """The number of processes that write shards beside the engine's own workers."""
    if config.options.engine.writers is not None:
        return config.options.engine.writers
    own_engine = any(token.startswith(("--runner", "--direct_")) for token in beam_argv)
    return 0 if own_engine else cores()
