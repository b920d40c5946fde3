"""`beam-tfrecord plan`: a conversion's samples, shards and cost, without writing anything."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from beam_pipeline.commands.command import Call, Command
from beam_pipeline.commands.convert import shows_roles, start
from beam_pipeline.core.dataset.estimate import Machines
from beam_pipeline.core.errors import UsageError
from beam_pipeline.options import ConvertOptions, RolesOptions
from beam_pipeline.options.group import OptionGroup, option

_GB_PER_VCPU = 4.0


@dataclass(frozen=True)
class EstimateOptions(OptionGroup):
    """The Dataflow job that the estimate is for."""

    title = "estimate"

    workers: int | None = option(
        None, metavar="N", parse=int, help=f"Dataflow workers (default: {Machines.workers})"
    )
    worker_vcpus: int | None = option(
        None,
        metavar="N",
        parse=int,
        help=f"vCPUs per worker, with 4 GB of memory each (default: {Machines.vcpus})",
    )
    prices: str = option("", metavar="FILE", help="JSON file with prices in US dollars")

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(number is not None and number < 1 for number in (self.workers, self.worker_vcpus)):
            raise UsageError("--workers and --worker_vcpus must be at least 1")

    @property
    def machines(self) -> Machines | None:
        """The workers; None if neither option was given."""
        if self.workers is None and self.worker_vcpus is None:
            return None
        vcpus = self.worker_vcpus or Machines.vcpus
        return Machines(self.workers or Machines.workers, vcpus, _GB_PER_VCPU * vcpus)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    ConvertOptions.add_arguments(parser)
    RolesOptions.add_arguments(parser)
    EstimateOptions.add_arguments(parser)


def _run(call: Call) -> bool:
    options = ConvertOptions.from_arguments(call.arguments)
    if shows_roles(options, call):
        return True
    estimated = EstimateOptions.from_arguments(call.arguments)
    config = start(options, call, writes=False)
    from beam_pipeline.planning import print_plan

    print_plan(config, estimated.machines, estimated.prices, call.beam_argv)
    return True


COMMAND = Command(
    "Previews a conversion without writing anything: lists images, joins labels, and prints "
    "samples, splits, classes, shards and dead letters (samples that would be left out). With "
    "images or output in Google Cloud Storage, with --runner=DataflowRunner, or with an option "
    "of the estimate, it also estimates time and cost on Dataflow. Takes the options of convert.",
    _run,
    _add_arguments,
    usage="--images PATH... --output DIR [OPTION...]",
    examples="""\
  beam-tfrecord plan --images photos/ --labels labels.csv --output tfrecords/
  beam-tfrecord plan --images photos/ --output tfrecords/ --workers 50
""",
    takes_beam_options=True,
)
