"""Runs a conversion: prepares the output folder, runs the job, shows its progress and its outcome.

Ctrl-C ends a job with one line, whatever it is doing, and takes its engine's processes along. As an exception it would
surface in the code of a worker, and be reported as its failure. A terminal signals every process of its foreground
group, so an engine that Beam started would end before the launcher does, and the launcher's threads would report that.
Such processes get a session of their own (`beam_patches.shielded_engines`).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NoReturn

from apache_beam.options.pipeline_options import PipelineOptions

from beam_pipeline import beam_patches, pipeline, startup, summary, terminal
from beam_pipeline.config import ConvertConfig
from beam_pipeline.core.errors import ConversionError, OutputError, UsageError
from beam_pipeline.core.records import formats
from beam_pipeline.engines.base import Build, engine_for, import_engine
from beam_pipeline.storage import files
from beam_pipeline.work import output_folder
from beam_pipeline.work.job import claimed
from beam_pipeline.work.writer_process import FEW_SAMPLES, cores, expect, writer_processes


def beam_parser(argv: Sequence[str] = ()) -> argparse.ArgumentParser:
    """A parser of all options of Beam and of the engine that an option names.

    Args:
      argv: Beam's options.

    Raises:
      UsageError: Beam refuses a value; so does the parser.
    """

    def refuse_value(message: str) -> NoReturn:
        raise UsageError(f"Apache Beam: {message}")

    parsers: list[argparse.ArgumentParser] = []
    PipelineOptions([]).get_all_options(add_extra_args_fn=parsers.append)
    (parser,) = parsers
    parser.error = refuse_value  # type: ignore[method-assign]  # Beam's would print all of its options
    if not argv:
        return parser
    import_engine(parser.parse_known_args(argv)[0].runner)
    return beam_parser()


@contextlib.contextmanager
def interruptible(
    message: Callable[[], str], clean_up: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """While the block runs in the main thread, Ctrl-C ends the program at once.

    Args:
      message: called for what the program prints; may cancel a job elsewhere.
      clean_up: called then for what else would be left.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(*_: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a second Ctrl-C does not wait
        terminal.complain("", f"beam-tfrecord: {message()}")
        with contextlib.suppress(OSError):
            clean_up()
        with contextlib.suppress(OSError):  # threads would report that their engine is gone
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        for process in beam_patches.engine_processes:
            process.kill()
        beam_patches.remove_engine_folders()
        os._exit(startup.EXIT_INTERRUPTED)

    before = signal.signal(signal.SIGINT, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class Run:
    """A conversion on an engine, and the processes of this machine that help it."""

    def __init__(
        self, config: ConvertConfig, beam_argv: Sequence[str] = (), *, wait: bool = True
    ) -> None:
        """Starts nothing.

        Args:
          config: what to convert, and how.
          beam_argv: Beam's options.
          wait: wait for a job that continues by itself.

        Raises:
          UsageError: the engine does not support an option.
        """
        self.config = config
        self.engine = engine_for(beam_argv, wait=wait)
        typed = config.options.engine
        self._records = typed.shuffle == "records"
        own_engine = any(token.startswith(("--runner", "--direct_")) for token in beam_argv)
        writers = (0 if own_engine else cores()) if typed.writers is None else typed.writers
        self._writers = 0 if self._records else writers

    def as_program(self) -> None:
        """Converts as a separate program: shows progress, ends on Ctrl-C, prints a summary.

        Raises:
          ConversionError: the data set is incomplete; the message has the reason.
        """
        started = time.monotonic()
        for patch in self.engine.patches:
            patch.__enter__()  # until the program ends, because an engine's process is stopped at its exit
        with interruptible(self._interrupted):
            before = self.in_program()
            if self.engine.waits:
                self._report(before, time.monotonic() - started)

    def in_program(self, *, progress: bool = True) -> dict[str, int]:
        """Converts for a program that continues, such as a notebook: prints no summary, keeps Ctrl-C as it is.

        Args:
          progress: whether progress is shown.

        Returns: the versions of the files of a data set that was there before; empty without one.

        Raises:
          ConversionError: the data set is incomplete; the message has the reason.
        """
        self.engine.prepare(self.config)
        with claimed(self.config.output, make=True):
            before = self._prepare()
            with terminal.show_progress() if progress else contextlib.nullcontext():
                self.convert()
        return before

    def convert(self) -> None:
        """Converts into an output folder that is claimed and prepared.

        Raises:
          ConversionError: the data set is incomplete; the message has the reason.
        """
        config, job = self.config, new_job()
        failures = replace(self.engine.failures, job=job)
        at_once = config.options.engine.writers is not None
        try:
            with writer_processes(self._writers, at_once=at_once):
                # Where images are decoded, processes are worth it for few, and begin while this one plans.
                decodes = config.encoding.options.decodes
                expect(FEW_SAMPLES + 1 if decodes else config.expected_rows)
                self._job(pipeline.Dataflow(config, failures).convert, job)
        except Exception as error:
            reason = startup.full_disk(error)
            if reason or isinstance(error, ConversionError):
                with contextlib.suppress(OSError, ConversionError):  # the first error tells more
                    output_folder.clean_up_refused(config.output)
            if reason:
                fault = f"a shard in {config.output} cannot be written: {reason}"
                raise OutputError(fault) from error
            raise

    def plan(self, build: Build) -> None:
        """Runs a job that only plans.

        Args:
          build: adds it to an empty pipeline.

        Raises:
          ConversionError: it failed, and why.
        """
        self.engine.prepare(self.config)
        with writer_processes(self._writers, at_once=False):
            expect(self.config.expected_rows)
            self._job(build)

    def _job(self, build: Build, job: str = "") -> None:
        noted = partial(output_folder.noted_refusal, self.config.output, job)
        try:
            self.engine.run(build)
        except Exception as error:
            if refusal := noted():
                raise refusal from error
            raise
        if self.engine.waits and (refusal := noted()):
            raise refusal

    def _interrupted(self) -> str:
        """The message of Ctrl-C; unfinished files of a local job are in `.incomplete`."""
        resumes = self.engine.ends_on_interrupt and not self._records
        hint = ". The same command with --resume continues" if resumes else ""
        return self.engine.interrupt() + hint

    def _prepare(self) -> dict[str, int]:
        """Prepares the output folder; returns the versions of the files if it contains a data set.

        Raises:
          OutputError: it cannot be read or written to.
          ConversionError: it contains something else.
        """
        config, output = self.config, self.config.options.output
        try:
            if output.resume:
                output_folder.prepare_resume(config.output, config.run, config.open_options)
            else:
                output_folder.prepare_output(config.output, output.overwrite)
            return output_folder.file_versions(config.output)
        except OSError as error:
            where = f" ({error.filename})" if error.filename else ""
            raise OutputError(
                f"--output {config.output} cannot be prepared: {error.strerror or error}{where}"
            ) from error

    def _report(self, before: Mapping[str, int], seconds: float) -> None:
        """Says what a complete data set contains, or which files were missing if no shard was.

        Args:
          before: the versions of the files as they were before; empty without a data set.
          seconds: the time that it took.

        Raises:
          OutputError: it cannot be read.
        """
        folder = self.config.output
        fault = f"{folder} contains a complete data set, which `beam-tfrecord verify` checks. Its summary"
        with files.naming(fault, OutputError, "shown"), contextlib.suppress(BrokenPipeError):
            now = output_folder.file_versions(folder) if before else {}
            written = sorted(name for name in now if now[name] != before.get(name))
            if now and not any(map(formats.format_of_file, written)):
                names = f"only {', '.join(written)}" if written else "nothing"
                terminal.say(f"{folder} is up to date: {names} had to be written")
            else:
                summary.print_summary(self.config, seconds)


def new_job() -> str:
    """A name for a job that no other has, as `FailurePolicy.job` has it."""
    return os.urandom(16).hex()
