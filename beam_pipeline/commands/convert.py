"""`beam-tfrecord convert` and `beam-tfrecord plan`: images and labels to TFRecords, and the preview of that."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from beam_pipeline import inputs, startup, terminal
from beam_pipeline.commands import Call, Command, refuse_unknown
from beam_pipeline.config import ConvertConfig
from beam_pipeline.core.dataset.estimate import Machines
from beam_pipeline.core.uris import is_remote
from beam_pipeline.layouts.opening import open_source
from beam_pipeline.layouts.roles import understanding
from beam_pipeline.options import ConvertOptions
from beam_pipeline.options.group import Kind, Option, OptionGroup, option
from beam_pipeline.options.output import WaitOptions
from beam_pipeline.options.source import RolesOptions

_GB_PER_VCPU = 4.0
_NUMBER = Kind("N", int, 1)


@dataclass(frozen=True)
class EstimateOptions(OptionGroup):
    """The Dataflow job that the estimate of `plan` is for."""

    title = "estimate"

    workers: int | None = option(f"Dataflow workers (default: {Machines.workers})", None, _NUMBER)
    worker_vcpus: int | None = option(
        f"vCPUs per worker, with 4 GB of memory each (default: {Machines.vcpus})", None, _NUMBER
    )
    prices: str = option("JSON file with prices in US dollars", kind="FILE")

    @property
    def machines(self) -> Machines | None:
        """The workers; None if neither option was given."""
        if self.workers is None and self.worker_vcpus is None:
            return None
        vcpus = self.worker_vcpus or Machines.vcpus
        return Machines(self.workers or Machines.workers, vcpus, _GB_PER_VCPU * vcpus)


def options() -> Sequence[Option]:
    """Every option of `convert`, for generated files such as a template's list of parameters."""
    return [*ConvertOptions.options(), *RolesOptions.options(), *WaitOptions.options()]


def _add_arguments(own: type[OptionGroup], parser: argparse.ArgumentParser) -> None:
    ConvertOptions.add_arguments(parser)
    for group in (RolesOptions, own):
        group.add_arguments(parser)


def _convert(call: Call) -> bool:
    options = ConvertOptions.from_arguments(call.arguments)
    if not _shows_roles(options, call):
        run_convert(options, call, wait=not call.arguments.no_wait)
    return True


def _plan(call: Call) -> bool:
    options = ConvertOptions.from_arguments(call.arguments)
    if not _shows_roles(options, call):
        estimated = EstimateOptions.from_arguments(call.arguments)
        config = _start(options, call, writes=False)
        from beam_pipeline.planning import print_plan

        print_plan(config, estimated.machines, estimated.prices, call.beam_argv)
    return True


def _shows_roles(options: ConvertOptions, call: Call) -> bool:
    """Prints the table of roles with --show_roles; returns False otherwise."""
    if call.arguments.show_roles:
        terminal.say(*understanding(*open_source(options.inputs.layout, options.source)))
    return bool(call.arguments.show_roles)


def run_convert(options: ConvertOptions, call: Call, *, wait: bool = True) -> None:
    """Converts with progress on the terminal and a summary at the end.

    Raises:
      ConversionError: the job wrote no complete data set; the message gives the reason.
    """
    config = _start(options, call, writes=True)
    from beam_pipeline.launch import Run

    Run(config, call.beam_argv, wait=wait).as_program()


def _start(options: ConvertOptions, call: Call, *, writes: bool) -> ConvertConfig:
    """Resolves the options, prints how they were understood, and imports Beam.

    Importing Beam takes a second, so every check that does not need it comes first.
    """
    config = inputs.checked_config(options, writes=writes, shows=True)
    local = not call.beam_argv and not any(map(is_remote, config.uris))
    with startup.importing_beam(lean=local):
        from beam_pipeline.engines.base import import_engine
        from beam_pipeline.launch import beam_parser

        if local:
            import_engine(None)
    if call.beam_argv:
        parser = beam_parser(call.beam_argv)
        known = (option.flag for option in ConvertOptions.options())
        unknown = parser.parse_known_args(call.beam_argv)[1]
        refuse_unknown(unknown, (*known, *parser._option_string_actions))
    return config


CONVERT = Command(
    "Lists images, joins them with labels, and writes shuffled, sharded TFRecords.\n\n"
    "Options that are not listed here, such as --runner, are passed to Apache Beam. "
    "--help all lists every option.",
    _convert,
    partial(_add_arguments, WaitOptions),
    usage="--images PATH... --output DIR [OPTION...]",
    examples="""\
One folder per class, or any other layout that is detected:
  beam-tfrecord convert --images photos/ --output tfrecords/

Labels in a table, and a split for validation:
  beam-tfrecord convert --images photos/ --labels labels.csv \\
      --splits train=0.9,validation=0.1 --output split/

Continue after an interruption, or bring a data set up to date:
  beam-tfrecord convert --images photos/ --output tfrecords/ --resume

On Dataflow, between buckets:
  beam-tfrecord convert --images gs://my-photos/ --output gs://my-sets/pets \\
      --runner=DataflowRunner --project=my-project --region=europe-west4
""",
    takes_beam_options=True,
)

PLAN = Command(
    "Previews a conversion without writing anything: lists images, joins labels, and prints "
    "samples, splits, classes, shards and dead letters (samples that would be left out). With "
    "images or output in Google Cloud Storage, with --runner=DataflowRunner, or with an option "
    "of the estimate, it also estimates time and cost on Dataflow. Takes the options of convert.",
    _plan,
    partial(_add_arguments, EstimateOptions),
    usage="--images PATH... --output DIR [OPTION...]",
    examples="""\
  beam-tfrecord plan --images photos/ --labels labels.csv --output tfrecords/
  beam-tfrecord plan --images photos/ --output tfrecords/ --workers 50
""",
    takes_beam_options=True,
)
